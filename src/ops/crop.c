/* SPDX-License-Identifier: Apache-2.0 */
/* crop.c - the op crop: a fixed rectangle of the image. */
#include "ops/flow.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/error.h"

typedef struct crop_params {
    mr_crop_params crop;
    int64_t top, left, height, width;
} crop_params;

static bool outside(int64_t at, int64_t length, int64_t side) {
    return side >= 0 && at + length > side;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const crop_params *p = params;
    MR_TRY(mr_image_check_any(in, err));
    if (outside(p->top, p->height, in->dims[0]) || outside(p->left, p->width, in->dims[1])) {
        mr_fail(err, MR_E_TYPE,
                "the box of %" PRId64 " x %" PRId64 " at row %" PRId64 ", column %" PRId64
                " does not lie inside the image of %" PRId64 " x %" PRId64,
                p->height, p->width, p->top, p->left, in->dims[0], in->dims[1]);
        mr_hint(err, "center_crop fits any image; resize or pad make it larger");
        return MR_E_TYPE;
    }
    return mr_image_resized(in, p->height, p->width, out, err);
}

static mr_place place(const void *params, const mr_key *key, const mr_type *in,
                      const mr_type *out) {
    const crop_params *p = params;
    (void)key;
    (void)in;
    (void)out;
    return (mr_place){p->top, p->left};
}

static mr_status check(void *params, mr_error *err) {
    crop_params *p = params;
    (void)err;
    p->crop.place = place;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "top",
     .kind = MR_PARAM_INT,
     .offset = offsetof(crop_params, top),
     .fallback = "0",
     .min = 0,
     .max = MR_IMAGE_MAX_SIDE,
     .doc = "First row of the box."},
    {.name = "left",
     .kind = MR_PARAM_INT,
     .offset = offsetof(crop_params, left),
     .fallback = "0",
     .min = 0,
     .max = MR_IMAGE_MAX_SIDE,
     .doc = "First column of the box."},
    {.name = "height",
     .kind = MR_PARAM_INT,
     .offset = offsetof(crop_params, height),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .doc = "Rows of the box."},
    {.name = "width",
     .kind = MR_PARAM_INT,
     .offset = offsetof(crop_params, width),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .doc = "Columns of the box."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"top\": 2, \"left\": 3, \"height\": 5, \"width\": 7}", "image:9x11x3",
     "43358d7f620f1873624885d0173d71d6"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_crop = {
    MR_OP_HEADER,
    .name = "crop",
    .summary = "Cuts a fixed rectangle out of the image.",
    .doc = "The box must lie inside the image. Equal to Pillow's Image.crop.",
    .flags = MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(crop_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = mr_crop_run,
    .follow = mr_crop_follow,
    .want = mr_crop_want,
    .pass = mr_crop_pass,
    .examples = examples,
};
