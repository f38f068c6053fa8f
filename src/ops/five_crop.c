/* SPDX-License-Identifier: Apache-2.0 */
/* five_crop.c - the op five_crop: the corners and the middle of the image, as a stack. */
#include "ops/several_crops.h"

#include <stddef.h>

typedef struct five_crop_params {
    mr_ints size;
} five_crop_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const five_crop_params *p = params;
    return mr_crops_plan(&p->size, MR_CROPS, in, out, err);
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    mr_pixels image = mr_image_pixels(in);
    (void)params;
    (void)call;
    (void)err;
    mr_crops_copy(&image, out->data, out->type.dims[1], out->type.dims[2]);
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(five_crop_params, size),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 2,
     .doc = "A number for squares, or [height, width]."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": 4}", "image:7x9x3", "09235bec29161ac5bfbbb01108476026"},
    {"{\"size\": [3, 5]}", "image:6x5x1", "283551e64a13ae027647853a4b3c89d9"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_five_crop = {
    MR_OP_HEADER,
    .name = "five_crop",
    .summary = "Cuts out the four corners and the middle, as a stack of five images.",
    .doc =
        "Equal to torchvision's five_crop: upper left, upper right, lower left, lower right, "
        "middle. The output has the dimensions [5, height, width, channels]; normalize, cast and "
        "to_float take it.",
    .flags = MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(five_crop_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .examples = examples,
};
