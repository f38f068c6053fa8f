/* SPDX-License-Identifier: Apache-2.0 */
/* ten_crop.c - the op ten_crop: five_crop of the image and of its mirror image. */
#include "ops/several_crops.h"

#include <stddef.h>
#include <string.h>

#include "core/error.h"

typedef struct ten_crop_params {
    mr_ints size;
    bool vertical;
} ten_crop_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const ten_crop_params *p = params;
    return mr_crops_plan(&p->size, MR_ALL_CROPS, in, out, err);
}

static void mirror(const mr_kernels *kernels, const mr_pixels *image, bool vertical, uint8_t *out) {
    for (int64_t y = 0; y < image->height; y++, out += image->stride) {
        int64_t from = vertical ? image->height - 1 - y : y;
        const uint8_t *row = image->data + (size_t)from * image->stride;
        if (vertical) {
            memcpy(out, row, image->stride);
        } else {
            kernels->mirror(out, row, (size_t)image->width, image->channels);
        }
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const ten_crop_params *p = params;
    mr_pixels image = mr_image_pixels(in), mirrored = image;
    uint8_t *memory = mr_scratch(call, in->size), *second = out->data;
    if (!memory) {
        return mr_fail_memory(err, in->size);
    }
    mirror(call->kernels, &image, p->vertical, memory);
    mirrored.data = memory;
    mirrored.end = memory + in->size;
    mr_crops_copy(&image, out->data, out->type.dims[1], out->type.dims[2]);
    mr_crops_copy(&mirrored, second + out->size / 2, out->type.dims[1], out->type.dims[2]);
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(ten_crop_params, size),
     .min = 1,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 2,
     .doc = "A number for squares, or [height, width]."},
    {.name = "vertical",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(ten_crop_params, vertical),
     .fallback = "false",
     .doc = "Exchange top and bottom for the second five, instead of left and right."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": 4}", "image:7x9x3", "5ec612c0cbdce563633be008688f5304"},
    {"{\"size\": [3, 5], \"vertical\": true}", "image:6x5x1", "91dbdd8844074e06854ccc45b54fb91e"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_ten_crop = {
    MR_OP_HEADER,
    .name = "ten_crop",
    .summary = "Cuts out the corners and the middle, of the image and of its mirror image.",
    .doc = "Equal to torchvision's ten_crop: five_crop of the image, then of the mirrored one. The "
           "output has the dimensions [10, height, width, channels]; normalize, cast and to_float "
           "take it.",
    .flags = MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(ten_crop_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .examples = examples,
};
