/* SPDX-License-Identifier: Apache-2.0 */
/* elastic.c - the op elastic: each pixel is moved a little, its neighbours about as far. */
#include "kernels/blur.h"
#include "kernels/warp.h"
#include "ops/area.h"
#include "ops/warping.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "ops/noise.h"

enum { DRAW_X, DRAW_Y };

typedef struct elastic_params {
    mr_warp_params warp; /* draw is not used */
    double alpha, sigma;
} elastic_params;

static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    (void)params;
    (void)call;
    (void)out;
    (void)wanted;
    (void)err;
    *needed = mr_whole_region(in);
    return MR_OK;
}

/* ---- Drawing: how far each pixel moves along one axis ---- */
typedef struct field {
    int64_t height, width;
    int32_t n_weights;
    float *weights;
    float *noise;    /* height x width, then the same blurred down the columns */
    float *moves;    /* the result */
    float *extended; /* a row and what is mirrored beside it */
} field;

static mr_status field_memory(field *f, mr_call *call, double sigma, mr_error *err) {
    f->n_weights = (int32_t)(8.0 * sigma + 1.0);
    f->n_weights += f->n_weights % 2 == 0;
    size_t pixels = (size_t)(f->height * f->width) * sizeof(float);
    f->weights = mr_scratch(call, (size_t)f->n_weights * sizeof(float));
    f->noise = mr_scratch(call, pixels);
    f->moves = mr_scratch(call, pixels);
    f->extended = mr_scratch(call, (size_t)(f->width + f->n_weights) * sizeof(float));
    if (!f->weights || !f->noise || !f->moves || !f->extended) {
        return mr_fail_memory(err, pixels);
    }
    mr_gaussian_weights(f->weights, f->n_weights, sigma);
    return MR_OK;
}

static void blur_down(const field *f) {
    size_t width = (size_t)f->width;
    memset(f->moves, 0, (size_t)f->height * width * sizeof(float));
    for (int64_t y = 0; y < f->height; y++) {
        for (int32_t k = 0; k < f->n_weights; k++) {
            int64_t from = mr_reflect_index(y + k - f->n_weights / 2, f->height);
            mr_blur_add_floats(f->moves + (size_t)y * width, f->noise + (size_t)from * width, width,
                               f->weights[k]);
        }
    }
}

static void blur_along(const field *f, float alpha) {
    size_t width = (size_t)f->width;
    for (int64_t y = 0; y < f->height; y++) {
        float *row = f->moves + (size_t)y * width;
        for (int64_t i = 0; i < f->width + f->n_weights - 1; i++) {
            f->extended[i] = row[mr_reflect_index(i - f->n_weights / 2, f->width)];
        }
        mr_blur_along(row, f->extended, width, 1, f->weights, f->n_weights);
        for (size_t x = 0; x < width; x++) {
            row[x] *= alpha;
        }
    }
}

static const float *draw_field(const field *f, uint64_t draw, float alpha) {
    for (int64_t i = 0; i < f->height * f->width; i++) {
        f->noise[i] = mr_noise_unit(draw, (uint64_t)i);
    }
    blur_down(f);
    blur_along(f, alpha);
    return f->moves;
}

/* ---- Pixels ---- */
typedef struct bending {
    mr_scene scene;
    mr_region wanted;
    const float *across, *down;
    uint8_t fill[3];
    bool bilinear;
} bending;

static void bend_row(void *user, const mr_pixels *part, int64_t y, uint8_t *out) {
    bending *b = user;
    b->scene.part = *part;
    for (int64_t x = b->wanted.x; x < b->wanted.x + b->wanted.width; x++, out += part->channels) {
        size_t at = (size_t)(y * b->scene.width + x);
        double column = (double)x + 0.5 + (double)b->across[at];
        double row = (double)y + 0.5 + (double)b->down[at];
        if (!(b->bilinear ? mr_sample_bilinear : mr_sample_nearest)(&b->scene, column, row, out)) {
            memcpy(out, b->fill, (size_t)part->channels);
        }
    }
}

static mr_status make(const void *params, mr_call *call, const mr_flow *flow, mr_area *area,
                      mr_error *err) {
    const elastic_params *p = params;
    field across = {.height = flow->in->dims[0], .width = flow->in->dims[1]}, down = across;
    float alpha = (float)(p->alpha / 2.0);
    bending *b = mr_scratch(call, sizeof *b);
    if (!b) {
        return mr_fail_memory(err, sizeof *b);
    }
    MR_TRY(field_memory(&across, call, p->sigma, err));
    MR_TRY(field_memory(&down, call, p->sigma, err));
    *b = (bending){
        .scene = {.height = across.height, .width = across.width},
        .wanted = *flow->wanted,
        .across = draw_field(&across, mr_draw_u64(&call->key, DRAW_X), alpha),
        .down = draw_field(&down, mr_draw_u64(&call->key, DRAW_Y), alpha),
        .bilinear = p->warp.filter == 1,
    };
    mr_fill_bytes(&p->warp.fill, b->fill);
    *area = (mr_area){.user = b, .row = bend_row, .reach = MR_AREA_ALL};
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

static const mr_param rows[] = {
    {.name = "alpha",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(elastic_params, alpha),
     .fallback = "50",
     .min = 0,
     .max = 1e5,
     .doc = "How far pixels move."},
    {.name = "sigma",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(elastic_params, sigma),
     .fallback = "5",
     .min = 0.1,
     .max = 60,
     .doc = "How far a move spreads to the neighbours, in pixels."},
    MR_WARP_FILTER_ROW(elastic_params),
    MR_FILL_ROW(elastic_params, warp.fill),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"alpha\": 60, \"sigma\": 1, \"filter\": \"bilinear\"}", "image:9x11x3",
     "d1b08440e342ec1caf1023ec3fd3149e"},
    {"{\"alpha\": 20, \"sigma\": 0.5, \"fill\": 7}", "image:9x11x1",
     "137b6d33d78a32d3e9f971bd55ec2e68"},
    {"{}", "image:9x11x3", "0357364bedd17299b6006e31fea5f8ec"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_elastic = {
    MR_OP_HEADER,
    .name = "elastic",
    .summary = "Bends the image by smooth random moves of its pixels.",
    .doc =
        "As torchvision's ElasticTransform, which draws as many numbers as there are pixels from "
        "torch's generator and samples in float32, so that its bytes cannot be had again. Here: "
        "uniform noise in [-1, 1) for each pixel, the upper 24 bits of splitmix64 of draw 0 "
        "(along x) or 1 (along y) and the pixel's number; blurred by a Gaussian of sigma over "
        "8 sigma + 1 pixels (made odd), mirrored at the edges, in float32, down, then along; "
        "times alpha / 2 pixels. The image is then looked up as Pillow's Image.transform does.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(elastic_params),
    .params = rows,
    .plan = mr_warp_plan,
    .run = run,
    .want = want,
    .pass = pass,
    .examples = examples,
    .also = "elastic_transform",
};
