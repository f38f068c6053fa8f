/* SPDX-License-Identifier: Apache-2.0 */
/* gaussian_noise.c - the op gaussian_noise: grain.
 *
 * A value's noise is one of 4,096 equally likely numbers, the middles of as many equal parts of the
 * normal distribution: a table that fits the cache instead of a logarithm for each byte. */
#include "ops/flow.h"

#include <math.h>
#include <millrace/millrace.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "ops/noise.h"

enum { DRAW_SEED, DRAW_SIGMA };
enum { LEVELS = 4096 };

typedef struct gaussian_noise_params {
    double mean;
    mr_floats sigma;
} gaussian_noise_params;

static mr_status check(void *params, mr_error *err) {
    const gaussian_noise_params *p = params;
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

/* ---- The normal distribution's quantiles: Acklam's rational functions, to 1e-8 ---- */
static double horner(const double *c, int n, double x) {
    double sum = c[0];
    for (int i = 1; i < n; i++) {
        sum = sum * x + c[i];
    }
    return sum;
}

/* Of p up to one half; the other half mirrors it. */
static double quantile(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01, 1.0};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00, 1.0};
    if (p < 0.02425) {
        double q = sqrt(-2.0 * mr_exact_log(p));
        return horner(c, 6, q) / horner(d, 5, q);
    }
    double q = p - 0.5, r = q * q;
    return horner(a, 6, r) * q / horner(b, 6, r);
}

static mr_status open_table(const void *params, void **state, mr_error *err) {
    float *table = mr_zalloc(LEVELS, sizeof *table);
    (void)params;
    if (!table) {
        return mr_fail_memory(err, LEVELS * sizeof *table);
    }
    for (int i = 0; i < LEVELS / 2; i++) {
        float value = (float)quantile(((double)i + 0.5) / LEVELS);
        table[i] = value;
        table[LEVELS - 1 - i] = -value;
    }
    *state = table;
    return MR_OK;
}

static void close_table(void *state) {
    mr_free(state);
}

/* ---- Drawing ---- */
typedef struct grain {
    const float *table;
    uint64_t seed;
    float mean, sigma; /* in bytes */
} grain;

static grain draw_grain(const gaussian_noise_params *p, const mr_call *call) {
    double sigma = mr_draw_range(&call->key, DRAW_SIGMA, p->sigma.v[0], p->sigma.v[p->sigma.n - 1]);
    return (grain){call->state, mr_draw_u64(&call->key, DRAW_SEED), (float)(p->mean * 255.0),
                   (float)(sigma * 255.0)};
}

/* Bytes `first` .. of the image; four take 16 bits each of one hash, and use the upper 12. */
static void add_noise(const grain *g, uint8_t *out, const uint8_t *in, size_t first, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t at = first + i;
        uint64_t bits = mr_noise_bits(g->seed, at / 4) >> (16 * (at % 4));
        float value = (float)in[i] + (g->mean + g->sigma * g->table[(bits & 0xFFFFu) >> 4]);
        out[i] = (uint8_t)(value <= 0.0f ? 0.0f : value >= 255.0f ? 255.0f : rintf(value));
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const grain g = draw_grain(params, call);
    (void)err;
    add_noise(&g, out->data, in->data, 0, in->size);
    return MR_OK;
}

/* ---- Row by row ---- */
typedef struct graining {
    grain grain;
    size_t row_bytes; /* of the image */
    size_t left;      /* bytes before the wanted part */
    size_t n;         /* of the wanted part */
    uint8_t *row;
    mr_rows to;
} graining;

static mr_status grain_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const graining *g = user;
    add_noise(&g->grain, g->row, pixels, (size_t)y * g->row_bytes + g->left, g->n);
    return g->to.row(g->to.user, y, g->row, err);
}

static mr_status pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                      mr_rows *own, mr_error *err) {
    int64_t channels = flow->in->dims[2];
    size_t n = (size_t)(flow->wanted->width * channels);
    graining *g = mr_scratch(call, sizeof *g);
    uint8_t *row = mr_scratch(call, n);
    if (!g || !row) {
        return mr_fail_memory(err, n);
    }
    *g = (graining){draw_grain(params, call),
                    (size_t)(flow->in->dims[1] * channels),
                    (size_t)(flow->wanted->x * channels),
                    n,
                    row,
                    *to};
    *own = (mr_rows){grain_row, g};
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "mean",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(gaussian_noise_params, mean),
     .fallback = "0",
     .min = -1,
     .max = 1,
     .doc = "Mean of what is added; 1 is the range from black to white."},
    {.name = "sigma",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(gaussian_noise_params, sigma),
     .fallback = "0.1",
     .min = 0,
     .max = 10,
     .min_len = 1,
     .max_len = 2,
     .doc = "Its standard deviation, or [low, high] to draw from."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:6x7x3", "94b6d3c219bf5ae6103c6b8cbbdca2ce"},
    {"{\"sigma\": [0.05, 0.2], \"mean\": 0.1}", "image:6x7x1", "c11c071dd2947946c4fb429920f6f564"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_gaussian_noise = {
    MR_OP_HEADER,
    .name = "gaussian_noise",
    .summary = "Adds normally distributed noise to each value.",
    .doc =
        "As torchvision's GaussianNoise with clip, on bytes: the sum is rounded to nearest, ties "
        "to even, and cut to 0 .. 255. The numbers are millrace's own: byte i of the image takes "
        "the (k + 1/2) / 4096 quantile of the normal distribution, k being bits 16 (i mod 4) + 4 "
        "and the 11 above them of splitmix64 of draw 0 and i / 4. Draw 1 is sigma, uniform in its "
        "range.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(gaussian_noise_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .open = open_table,
    .close = close_table,
    .run = run,
    .want = mr_want_same,
    .pass = pass,
    .examples = examples,
    .also = "gauss_noise",
};
