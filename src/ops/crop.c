/* SPDX-License-Identifier: Apache-2.0 */
/* crop.c - the op crop: a fixed rectangle of the image. */
#include "ops/flow.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/error.h"

typedef struct crop_params {
    int64_t top, left, height, width;
} crop_params;

static bool outside(int64_t at, int64_t length, int64_t side) {
    return side >= 0 && at + length > side;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const crop_params *p = params;
    MR_TRY(mr_image_check(in, err));
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

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const crop_params *p = params;
    mr_pixels image = mr_image_pixels(in);
    (void)call;
    (void)err;
    mr_image_window(&image, p->top, p->left, out->data, p->height, p->width);
    return MR_OK;
}

static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    const crop_params *p = params;
    (void)call;
    (void)out;
    (void)err;
    *needed = mr_window_needs(in, p->top, p->left, wanted);
    return MR_OK;
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    const crop_params *p = params;
    return mr_window_pass(call, flow, p->top, p->left, to, own, err);
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
    .version = 1,
    .param_size = sizeof(crop_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .want = want,
    .pass = pass,
    .examples = examples,
};
