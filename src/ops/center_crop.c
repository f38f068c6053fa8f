/* SPDX-License-Identifier: Apache-2.0 */
/* center_crop.c - the op center_crop: the middle of the image. */
#include "ops/flow.h"

#include <math.h>
#include <stddef.h>

#include "core/error.h"

typedef struct center_crop_params {
    mr_crop_params crop;
    mr_ints size;
} center_crop_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const center_crop_params *p = params;
    MR_TRY(mr_image_check_any(in, err));
    return mr_image_resized(in, mr_size_height(&p->size), mr_size_width(&p->size), out, err);
}

/* Where the crop starts; negative where the image is smaller. Halves go to the even number when
 * cutting, and to the start when padding: torchvision does both. */
static int64_t start_of(int64_t side, int64_t length) {
    return side < length ? -((length - side) / 2) : (int64_t)rint((double)(side - length) / 2.0);
}

static mr_place place(const void *params, const mr_key *key, const mr_type *in,
                      const mr_type *out) {
    (void)params;
    (void)key;
    return (mr_place){start_of(in->dims[0], out->dims[0]), start_of(in->dims[1], out->dims[1])};
}

static mr_status check(void *params, mr_error *err) {
    center_crop_params *p = params;
    (void)err;
    p->crop.place = place;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(center_crop_params, size),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 2,
     .doc = "A number for a square, or [height, width]."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": 6}", "image:9x11x3", "fbd20623f59dc4edbf92165db6b6ed29"},
    {"{\"size\": [12, 5]}", "image:9x10x1", "b7beb4230bc5c553cedb7fa078c60dc1"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_center_crop = {
    MR_OP_HEADER,
    .name = "center_crop",
    .summary = "Cuts the middle out of the image.",
    .doc = "Starts at round((side - size) / 2), halves to even, as torchvision does. Where the "
           "image is smaller, zeros are put around it: floor((size - side) / 2) before it, the "
           "rest behind it.",
    .flags = MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(center_crop_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = mr_crop_run,
    .follow = mr_crop_follow,
    .want = mr_crop_want,
    .pass = mr_crop_pass,
    .examples = examples,
    .also = "centre_crop",
};
