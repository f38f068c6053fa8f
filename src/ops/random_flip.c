/* SPDX-License-Identifier: Apache-2.0 */
/* random_flip.c - the op random_flip: mirrors the image, or not. */
#include "ops/image.h"

#include <stddef.h>
#include <string.h>

#include "core/error.h"

enum { HORIZONTAL, VERTICAL };
enum { DRAW_FLIP };

typedef struct random_flip_params {
    double p;
    int32_t direction;
} random_flip_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    return MR_OK;
}

static void flip_horizontal(const mr_kernels *kernels, const mr_pixels *image, uint8_t *out) {
    for (int64_t y = 0; y < image->height; y++) {
        size_t at = (size_t)y * image->stride;
        kernels->mirror(out + at, image->data + at, (size_t)image->width, image->channels);
    }
}

static void flip_vertical(const mr_pixels *image, uint8_t *out) {
    for (int64_t y = 0; y < image->height; y++) {
        memcpy(out + (size_t)y * image->stride,
               image->data + (size_t)(image->height - 1 - y) * image->stride, image->stride);
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const random_flip_params *p = params;
    mr_pixels image = mr_image_pixels(in);
    (void)err;
    if (!(mr_draw_unit(&call->key, DRAW_FLIP) < p->p)) {
        memcpy(out->data, in->data, in->size);
    } else if (p->direction == HORIZONTAL) {
        flip_horizontal(call->kernels, &image, out->data);
    } else {
        flip_vertical(&image, out->data);
    }
    return MR_OK;
}

static const char *const directions[] = {"horizontal", "vertical", NULL};

static const mr_param rows[] = {
    {.name = "p",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(random_flip_params, p),
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .doc = "Probability of flipping."},
    {.name = "direction",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(random_flip_params, direction),
     .fallback = "\"horizontal\"",
     .choices = directions,
     .doc = "horizontal exchanges left and right, vertical top and bottom."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"p\": 1}", "image:5x7x3", ""},
    {"{\"p\": 1, \"direction\": \"vertical\"}", "image:5x7x1", ""},
    {"{\"p\": 0}", "image:5x7x3", ""},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_random_flip = {
    MR_OP_HEADER,
    .name = "random_flip",
    .summary = "Mirrors the image with a given probability.",
    .doc = "Flips if draw 0, uniform in [0, 1), is below p. Equal to Pillow's Image.transpose.",
    .flags = MR_OP_RANDOM,
    .version = 1,
    .param_size = sizeof(random_flip_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .examples = examples,
};
