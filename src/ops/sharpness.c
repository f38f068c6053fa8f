/* SPDX-License-Identifier: Apache-2.0 */
/* sharpness.c - the op sharpness: sharper or softer. */
#include "ops/area.h"
#include "ops/enhance.h"

#include <stddef.h>

#include "core/error.h"

enum { DRAW_APPLY, DRAW_FACTOR };

typedef struct sharpness_params {
    mr_floats factor;
    double p;
} sharpness_params;

static mr_status check(void *params, mr_error *err) {
    const sharpness_params *p = params;
    if (p->factor.v[0] > p->factor.v[p->factor.n - 1]) {
        return mr_fail(err, MR_E_PARAM, "factor must be [smallest, largest], not [%g, %g]",
                       p->factor.v[0], p->factor.v[1]);
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    return MR_OK;
}

static mr_status want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                      const mr_region *wanted, mr_region *needed, mr_error *err) {
    const sharpness_params *p = params;
    (void)out;
    (void)err;
    *needed = mr_applies(p->p, &call->key, DRAW_APPLY) ? mr_region_around(in, wanted, 1) : *wanted;
    return MR_OK;
}

typedef struct sharpening {
    float factor;
    mr_region needed, wanted;
    int64_t height, width; /* of the image */
} sharpening;

static void sharpen_row(void *user, const mr_pixels *part, int64_t y, uint8_t *out) {
    const sharpening *s = user;
    const uint8_t *row = part->data + (size_t)(y - s->needed.y) * part->stride;
    const mr_three_rows rows = {.above = y > 0 ? row - part->stride : NULL,
                                .row = row,
                                .below = y < s->height - 1 ? row + part->stride : NULL,
                                .origin = s->needed.x,
                                .width = s->width,
                                .channels = part->channels};
    mr_enhance_sharpness_row(out, &rows, s->wanted.x, s->wanted.x + s->wanted.width, s->factor);
}

static mr_status make(const void *params, mr_call *call, const mr_flow *flow, mr_area *area,
                      mr_error *err) {
    const sharpness_params *p = params;
    if (!mr_applies(p->p, &call->key, DRAW_APPLY)) {
        return MR_OK;
    }
    sharpening *s = mr_scratch(call, sizeof *s);
    if (!s) {
        return mr_fail_memory(err, sizeof *s);
    }
    double factor =
        mr_draw_range(&call->key, DRAW_FACTOR, p->factor.v[0], p->factor.v[p->factor.n - 1]);
    *s = (sharpening){(float)factor, *flow->needed, *flow->wanted, flow->in->dims[0],
                      flow->in->dims[1]};
    *area = (mr_area){.user = s, .row = sharpen_row, .reach = 1};
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
    const sharpness_params *p = params;
    bool drawn = (p->p > 0.0 && p->p < 1.0) ||
                 (p->p > 0.0 && p->factor.v[0] != p->factor.v[p->factor.n - 1]);
    return MR_OP_HEAVY | (drawn ? MR_OP_RANDOM : 0u);
}

static const mr_param rows[] = {
    {.name = "factor",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(sharpness_params, factor),
     .fallback = "2",
     .min = 0,
     .max = 1e6,
     .min_len = 1,
     .max_len = 2,
     .doc = "0 is smooth, 1 the image, more is sharper; or [low, high] to draw from."},
    {.name = "p",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(sharpness_params, p),
     .fallback = "1",
     .min = 0,
     .max = 1,
     .doc = "Probability of doing it."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:6x7x3", "cdd79b6d9006c64e22cf0dbb18d8e77c"},
    {"{\"factor\": 0}", "image:6x7x1", "24bb32f74147614bb21c6c5739445c5e"},
    {"{\"factor\": [0, 3], \"p\": 0.5}", "image:6x7x3", "7a1a9e99bccb853e2867ac7756822de8"},
    {"{}", "image:2x7x3", "0e099e2c94028852e0425f34b5b6bed0"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_sharpness = {
    MR_OP_HEADER,
    .name = "sharpness",
    .summary = "Makes the image sharper or softer.",
    .doc =
        "Equal to Pillow's ImageEnhance.Sharpness, which torchvision calls, for the same factor. "
        "Done if draw 0, uniform in [0, 1), is below p; draw 1 is the factor, uniform in its "
        "range.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(sharpness_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .want = want,
    .pass = pass,
    .flags_for = flags_for,
    .examples = examples,
    .also = "random_adjust_sharpness adjust_sharpness sharpen",
};
