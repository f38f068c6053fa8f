/* SPDX-License-Identifier: Apache-2.0 */
/* pad.c - the op pad: a border around the image. */
#include "kernels/blur.h"
#include "ops/image.h"

#include <stddef.h>
#include <string.h>

#include "core/error.h"

enum { CONSTANT, EDGE, REFLECT };
enum { LEFT, TOP, RIGHT, BOTTOM };

typedef struct pad_params {
    mr_ints padding, fill;
    int32_t mode;
    int64_t sides[4]; /* derived */
} pad_params;

static mr_status check(void *params, mr_error *err) {
    pad_params *p = params;
    if (p->padding.n == 3) {
        mr_fail(err, MR_E_PARAM, "padding has 3 numbers");
        mr_hint(err, "give 1 (all sides), 2 (left and right, top and bottom) or 4 (left, top, "
                     "right, bottom)");
        return MR_E_PARAM;
    }
    if (p->fill.n == 2) {
        return mr_fail(err, MR_E_PARAM, "fill must have 1 or 3 numbers, not 2");
    }
    for (int32_t i = 0; i < 4; i++) { /* 1, 2 and 4 all divide 4 */
        p->sides[i] = p->padding.v[i % p->padding.n];
    }
    return MR_OK;
}

static int64_t add_known(int64_t side, int64_t before, int64_t after) {
    return side < 0 ? -1 : side + before + after;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const pad_params *p = params;
    MR_TRY(mr_image_check(in, err));
    if (p->fill.n == 3 && in->dims[2] == 1) {
        return mr_fail(err, MR_E_TYPE, "fill has 3 numbers but the image has 1 channel");
    }
    return mr_image_resized(in, add_known(in->dims[0], p->sides[TOP], p->sides[BOTTOM]),
                            add_known(in->dims[1], p->sides[LEFT], p->sides[RIGHT]), out, err);
}

/* The index inside [0, n) that stands for i outside of it. */
static int64_t edge_index(int64_t i, int64_t n) {
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static int64_t source_index(int32_t mode, int64_t i, int64_t n) {
    return mode == EDGE ? edge_index(i, n) : mr_reflect_index(i, n);
}

static void fill_pixels(const pad_params *p, uint8_t *out, int64_t pixels, int32_t channels) {
    for (int64_t i = 0; i < pixels; i++) {
        for (int32_t c = 0; c < channels; c++) {
            *out++ = (uint8_t)p->fill.v[c % p->fill.n];
        }
    }
}

/* Pixels [from, to) of an output row by looking up where each comes from. */
static void copy_border(const pad_params *p, uint8_t *out, const uint8_t *row, int64_t from,
                        int64_t to, const mr_pixels *image) {
    size_t pixel = (size_t)image->channels;
    for (int64_t x = from; x < to; x++) {
        size_t at = (size_t)source_index(p->mode, x - p->sides[LEFT], image->width);
        memcpy(out + (size_t)x * pixel, row + at * pixel, pixel);
    }
}

static void pad_row(const pad_params *p, uint8_t *out, const mr_pixels *image, int64_t y) {
    int64_t left = p->sides[LEFT], right = p->sides[RIGHT], width = left + image->width + right;
    size_t pixel = (size_t)image->channels, inner = (size_t)image->width * pixel;
    bool inside = y >= 0 && y < image->height;
    if (p->mode == CONSTANT && !inside) {
        fill_pixels(p, out, width, image->channels);
        return;
    }
    const uint8_t *row =
        image->data +
        (size_t)(inside ? y : source_index(p->mode, y, image->height)) * image->stride;
    memcpy(out + (size_t)left * pixel, row, inner);
    if (p->mode == CONSTANT) {
        fill_pixels(p, out, left, image->channels);
        fill_pixels(p, out + (size_t)left * pixel + inner, right, image->channels);
    } else {
        copy_border(p, out, row, 0, left, image);
        copy_border(p, out, row, left + image->width, width, image);
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const pad_params *p = params;
    mr_pixels image = mr_image_pixels(in);
    int64_t height = out->type.dims[0];
    size_t row_bytes = out->size / (size_t)height;
    uint8_t *row = out->data;
    (void)call;
    (void)err;
    for (int64_t y = 0; y < height; y++, row += row_bytes) {
        pad_row(p, row, &image, y - p->sides[TOP]);
    }
    return MR_OK;
}

static mr_status follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                        double m[8], mr_error *err) {
    const pad_params *p = params;
    (void)call;
    (void)in;
    (void)out;
    (void)err;
    mr_follow_shift(m, p->sides[LEFT], p->sides[TOP]);
    return MR_OK;
}

static const char *const modes[] = {"constant", "edge", "reflect", NULL};

static const mr_param rows[] = {
    {.name = "padding",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(pad_params, padding),
     .min = 0,
     .max = MR_IMAGE_MAX_SIDE,
     .min_len = 1,
     .max_len = 4,
     .doc = "All sides; or [left and right, top and bottom]; or [left, top, right, bottom]."},
    {.name = "mode",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(pad_params, mode),
     .fallback = "\"constant\"",
     .choices = modes,
     .doc = "constant: fill; edge: the nearest pixel; reflect: mirrored, the edge not repeated."},
    {.name = "fill",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(pad_params, fill),
     .fallback = "[0]",
     .for_mask = "[0]",
     .min = 0,
     .max = 255,
     .min_len = 1,
     .max_len = 3,
     .doc = "Value of the border with mode constant, for all channels or for each."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"padding\": 2}", "image:4x5x3", "dd18534adf831b187d9134741424e54a"},
    {"{\"padding\": [1, 3], \"mode\": \"edge\"}", "image:4x5x1",
     "dba022747fe4beaa640423fa868d8c09"},
    {"{\"padding\": [1, 2, 3, 4], \"mode\": \"reflect\"}", "image:6x5x3",
     "341404a34a6d21fff91b37748e4045c5"},
    {"{\"padding\": [0, 1, 2, 0], \"fill\": [1, 2, 3]}", "image:4x5x3",
     "4504fd7115be4474731fc59a9788b321"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_pad = {
    MR_OP_HEADER,
    .name = "pad",
    .summary = "Puts a border around the image.",
    .doc = "Equal to Pillow's ImageOps.expand (constant) and numpy.pad (edge, reflect), which are "
           "what torchvision calls.",
    .flags = MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(pad_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .follow = follow,
    .examples = examples,
    .also = "pad_if_needed",
};
