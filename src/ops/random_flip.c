/* SPDX-License-Identifier: Apache-2.0 */
/* random_flip.c - the op random_flip: mirrors the image, or not. */
#include "ops/flow.h"

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

static bool flips(const random_flip_params *p, const mr_call *call) {
    return mr_draw_unit(&call->key, DRAW_FLIP) < p->p;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const random_flip_params *p = params;
    mr_pixels image = mr_image_pixels(in);
    (void)err;
    if (!flips(p, call)) {
        memcpy(out->data, in->data, in->size);
    } else if (p->direction == HORIZONTAL) {
        flip_horizontal(call->kernels, &image, out->data);
    } else {
        flip_vertical(&image, out->data);
    }
    return MR_OK;
}

/* ---- Row by row ---- */
static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    const random_flip_params *p = params;
    (void)out;
    (void)err;
    *needed = *wanted;
    if (flips(p, call) && p->direction == HORIZONTAL) {
        needed->x = in->dims[1] - wanted->x - wanted->width;
    } else if (flips(p, call)) {
        needed->y = in->dims[0] - wanted->y - wanted->height;
    }
    return MR_OK;
}

typedef struct flipping {
    const mr_kernels *kernels;
    mr_region needed, wanted;
    int32_t channels;
    size_t row_bytes;
    uint8_t *memory; /* a row, or for a vertical flip all rows, which go out from the last */
    mr_rows to;
} flipping;

static mr_status mirrored_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const flipping *f = user;
    f->kernels->mirror(f->memory, pixels, (size_t)f->wanted.width, f->channels);
    return f->to.row(f->to.user, y, f->memory, err);
}

static mr_status reversed_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const flipping *f = user;
    int64_t at = y - f->needed.y;
    memcpy(f->memory + (size_t)at * f->row_bytes, pixels, f->row_bytes);
    for (int64_t k = f->needed.height - 1; at == f->needed.height - 1 && k >= 0; k--) {
        MR_TRY(
            f->to.row(f->to.user, f->wanted.y + at - k, f->memory + (size_t)k * f->row_bytes, err));
    }
    return MR_OK;
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    const random_flip_params *p = params;
    if (!flips(p, call)) {
        *own = *to;
        return MR_OK;
    }
    bool mirrors = p->direction == HORIZONTAL;
    flipping *f = mr_scratch(call, sizeof *f);
    size_t row = (size_t)(flow->wanted->width * flow->in->dims[2]);
    size_t bytes = mirrors ? row : row * (size_t)flow->wanted->height;
    uint8_t *memory = mr_scratch(call, bytes);
    if (!f || !memory) {
        return mr_fail_memory(err, bytes);
    }
    *f = (flipping){.kernels = call->kernels,
                    .needed = *flow->needed,
                    .wanted = *flow->wanted,
                    .channels = (int32_t)flow->in->dims[2],
                    .row_bytes = row,
                    .memory = memory,
                    .to = *to};
    *own = (mr_rows){mirrors ? mirrored_row : reversed_row, f};
    return MR_OK;
}

static mr_status follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                        double m[8], mr_error *err) {
    const random_flip_params *p = params;
    bool across = flips(p, call) && p->direction == HORIZONTAL;
    bool down = flips(p, call) && p->direction == VERTICAL;
    (void)out;
    (void)err;
    mr_follow_shift(m, across ? in->dims[1] : 0, down ? in->dims[0] : 0);
    m[0] = across ? -1 : 1;
    m[4] = down ? -1 : 1;
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
    {"{}", "image:5x7x3", "8f358a71d85f5fbf2b77e9cf19b9781b"},
    {"{\"p\": 1}", "image:5x7x3", "db3e733192891295e9ea5b9088385a42"},
    {"{\"p\": 1, \"direction\": \"vertical\"}", "image:5x7x1", "b6ab1c5d40e375c795cf06767d58691e"},
    {"{\"p\": 0}", "image:5x7x3", "8f358a71d85f5fbf2b77e9cf19b9781b"},
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
    .follow = follow,
    .want = want,
    .pass = pass,
    .examples = examples,
    .also = "horizontal_flip random_horizontal_flip hflip vertical_flip random_vertical_flip vflip "
            "flip",
};
