/* SPDX-License-Identifier: Apache-2.0 */
/* gaussian_blur.c - the op gaussian_blur: out of focus. */
#include "kernels/blur.h"
#include "ops/area.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"

enum { DRAW_SIGMA };

typedef struct gaussian_blur_params {
    mr_ints size;
    mr_floats sigma;
} gaussian_blur_params;

static mr_status check(void *params, mr_error *err) {
    const gaussian_blur_params *p = params;
    for (int32_t i = 0; i < p->size.n; i++) {
        if (p->size.v[i] % 2 == 0) {
            return mr_fail(err, MR_E_PARAM, "size must be odd, not %" PRId64, p->size.v[i]);
        }
    }
    if (p->sigma.v[0] > p->sigma.v[p->sigma.n - 1]) {
        return mr_fail(err, MR_E_PARAM, "sigma must be [smallest, largest], not [%g, %g]",
                       p->sigma.v[0], p->sigma.v[1]);
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    return MR_OK;
}

static int64_t larger_radius(const gaussian_blur_params *p) {
    int64_t down = mr_size_height(&p->size) / 2, across = mr_size_width(&p->size) / 2;
    return down > across ? down : across;
}

static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    (void)call;
    (void)out;
    (void)err;
    *needed = mr_region_around(in, wanted, larger_radius(params));
    return MR_OK;
}

typedef struct blurring {
    mr_region needed, wanted;
    int64_t height, width; /* of the image */
    int32_t n_down, n_across;
    float *down, *across; /* weights */
    float *column_sums;   /* of the needed columns */
    float *extended;      /* the wanted columns and those around them, reflected */
    float *sums;
} blurring;

/* Down the columns, for all needed ones. */
static void blur_down(const blurring *b, const mr_pixels *part, int64_t y) {
    size_t n = (size_t)part->width * (size_t)part->channels;
    memset(b->column_sums, 0, n * sizeof(float));
    for (int32_t k = 0; k < b->n_down; k++) {
        int64_t row = mr_reflect_index(y + k - b->n_down / 2, b->height) - b->needed.y;
        mr_blur_add_bytes(b->column_sums, part->data + (size_t)row * part->stride, n, b->down[k]);
    }
}

static void extend(const blurring *b, size_t channels) {
    int64_t first = b->wanted.x - b->n_across / 2, n = b->wanted.width + b->n_across - 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t column = mr_reflect_index(first + i, b->width) - b->needed.x;
        memcpy(b->extended + (size_t)i * channels, b->column_sums + (size_t)column * channels,
               channels * sizeof(float));
    }
}

static void blur_row(void *user, const mr_pixels *part, int64_t y, uint8_t *out) {
    const blurring *b = user;
    size_t channels = (size_t)part->channels, n = (size_t)b->wanted.width * channels;
    blur_down(b, part, y);
    extend(b, channels);
    mr_blur_along(b->sums, b->extended, n, channels, b->across, b->n_across);
    for (size_t i = 0; i < n; i++) {
        float value = rintf(b->sums[i]);
        out[i] = (uint8_t)(value > 255.0f ? 255.0f : value);
    }
}

static float *floats(mr_call *call, int64_t n) {
    return mr_scratch(call, (size_t)n * sizeof(float));
}

static mr_status make(const void *params, mr_call *call, const mr_flow *flow, mr_area *area,
                      mr_error *err) {
    const gaussian_blur_params *p = params;
    double sigma = mr_draw_range(&call->key, DRAW_SIGMA, p->sigma.v[0], p->sigma.v[p->sigma.n - 1]);
    int64_t down = mr_size_height(&p->size), across = mr_size_width(&p->size);
    int64_t channels = flow->in->dims[2];
    blurring *b = mr_scratch(call, sizeof *b);
    if (!b) {
        return mr_fail_memory(err, sizeof *b);
    }
    *b = (blurring){
        .needed = *flow->needed,
        .wanted = *flow->wanted,
        .height = flow->in->dims[0],
        .width = flow->in->dims[1],
        .n_down = (int32_t)down,
        .n_across = (int32_t)across,
        .down = floats(call, down),
        .across = floats(call, across),
        .column_sums = floats(call, flow->needed->width * channels),
        .extended = floats(call, (flow->wanted->width + across) * channels),
        .sums = floats(call, flow->wanted->width * channels),
    };
    if (!b->down || !b->across || !b->column_sums || !b->extended || !b->sums) {
        return mr_fail_memory(err, (size_t)(flow->needed->width * channels) * sizeof(float));
    }
    mr_gaussian_weights(b->down, b->n_down, sigma);
    mr_gaussian_weights(b->across, b->n_across, sigma);
    *area = (mr_area){.user = b, .row = blur_row, .reach = down / 2};
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    return mr_area_run(make, params, call, in, out, err);
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    return mr_area_pass(make, params, call, flow, to, own, err);
}

static uint32_t flags_for(const void *params) {
    const gaussian_blur_params *p = params;
    return MR_OP_HEAVY | (p->sigma.v[0] != p->sigma.v[p->sigma.n - 1] ? MR_OP_RANDOM : 0u);
}

static const mr_param rows[] = {
    {.name = "size",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(gaussian_blur_params, size),
     .min = 1,
     .max = 511,
     .min_len = 1,
     .max_len = 2,
     .doc = "Pixels that are weighed, odd: a number for both directions, or [height, width]."},
    {.name = "sigma",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(gaussian_blur_params, sigma),
     .fallback = "[0.1, 2.0]",
     .min = 1e-3,
     .max = 1e4,
     .min_len = 1,
     .max_len = 2,
     .doc = "Width of the Gaussian in pixels, or [low, high] to draw from."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"size\": 5}", "image:9x11x3", "1e1924a2b081512df3ce377b5b1c4b36"},
    {"{\"size\": [7, 3], \"sigma\": 1.5}", "image:9x11x1", "9ff7601948372611da12abda3f77beb6"},
    {"{\"size\": 9, \"sigma\": 3}", "image:3x2x3", "0ef31417ffaba985bc77bbc362344f18"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_gaussian_blur = {
    MR_OP_HEADER,
    .name = "gaussian_blur",
    .summary = "Blurs the image with a Gaussian of random width.",
    .doc = "torchvision's gaussian_blur: weights exp(-x * x / (2 sigma * sigma)) over their sum, "
           "the image mirrored at its edges, rounded to the nearest byte. torchvision sums in "
           "float32 in an order that depends on the machine; here it is float32 too, down the "
           "columns, then along the row, from the first weight to the last. So a value that lies "
           "between two bytes may become the other one; none is further off. Draw 0 is sigma, "
           "uniform in its range.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(gaussian_blur_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .want = want,
    .pass = pass,
    .flags_for = flags_for,
    .examples = examples,
    .also = "blur random_blur",
};
