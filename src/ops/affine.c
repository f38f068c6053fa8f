/* SPDX-License-Identifier: Apache-2.0 */
/* affine.c - the op affine: turns, shifts, scales and shears by drawn amounts. */
#include "ops/warping.h"

#include <math.h>
#include <stddef.h>

#include "core/error.h"

enum { DRAW_ANGLE, DRAW_SHIFT_X, DRAW_SHIFT_Y, DRAW_SCALE, DRAW_SHEAR_X, DRAW_SHEAR_Y };

typedef struct affine_params {
    mr_warp_params warp;
    mr_floats degrees, translate, scale, shear, center;
    double low, high;                   /* of the angle; derived */
    double shear_low[2], shear_high[2]; /* derived */
} affine_params;

/* ---- Drawing ---- */
typedef struct affine_draw {
    double angle, scale, shear[2]; /* degrees */
    double shift[2];               /* whole pixels, x and y */
} affine_draw;

static double draw_shift(const affine_params *p, const mr_key *key, uint32_t draw, int axis,
                         int64_t side) {
    if (p->translate.n == 0) {
        return 0.0;
    }
    double most = p->translate.v[axis % p->translate.n] * (double)side;
    return rint(mr_draw_range(key, draw, -most, most));
}

static affine_draw draw_values(const affine_params *p, const mr_key *key, const mr_type *in) {
    affine_draw d = {
        .angle = mr_draw_range(key, DRAW_ANGLE, p->low, p->high),
        .scale = mr_draw_range(key, DRAW_SCALE, p->scale.v[0], p->scale.v[p->scale.n - 1]),
        .shift = {draw_shift(p, key, DRAW_SHIFT_X, 0, in->dims[1]),
                  draw_shift(p, key, DRAW_SHIFT_Y, 1, in->dims[0])},
    };
    for (int axis = 0; axis < 2; axis++) {
        d.shear[axis] = mr_draw_range(key, DRAW_SHEAR_X + (uint32_t)axis, p->shear_low[axis],
                                      p->shear_high[axis]);
    }
    return d;
}

static mr_warp_draw draw(const void *params, const mr_key *key, const mr_type *in,
                         const mr_type *out) {
    const affine_params *p = params;
    const affine_draw d = draw_values(p, key, in);
    bool centred = p->center.n == 0;
    const double center[2] = {centred ? (double)in->dims[1] * 0.5 : p->center.v[0],
                              centred ? (double)in->dims[0] * 0.5 : p->center.v[1]};
    (void)out;
    return (mr_warp_draw){.map = mr_affine_map(d.angle, d.shift, d.scale, d.shear, center)};
}

/* ---- Parameters ---- */
static mr_status not_ordered(const char *name, double low, double high, mr_error *err) {
    return mr_fail(err, MR_E_PARAM, "%s: the range [%g, %g] is not ordered", name, low, high);
}

/* f for [-f, f] along x; two for a range along x; four for ranges along x and y. */
static mr_status check_shear(affine_params *p, mr_error *err) {
    const mr_floats *given = &p->shear;
    if (given->n == 3) {
        return mr_fail(err, MR_E_PARAM, "shear must have 1, 2 or 4 numbers, not 3");
    }
    p->shear_low[0] = given->n == 1 ? -given->v[0] : given->v[0];
    p->shear_high[0] = given->n == 1 ? given->v[0] : given->v[1];
    if (given->n == 4) {
        p->shear_low[1] = given->v[2];
        p->shear_high[1] = given->v[3];
    }
    for (int axis = 0; axis < 2; axis++) {
        if (p->shear_low[axis] > p->shear_high[axis]) {
            return not_ordered("shear", p->shear_low[axis], p->shear_high[axis], err);
        }
    }
    return MR_OK;
}

static mr_status check(void *params, mr_error *err) {
    affine_params *p = params;
    p->warp.draw = draw;
    p->low = p->degrees.n == 2 ? p->degrees.v[0] : -p->degrees.v[0];
    p->high = p->degrees.v[p->degrees.n - 1];
    if (p->low > p->high) {
        return not_ordered("degrees", p->low, p->high, err);
    }
    if (p->scale.v[0] > p->scale.v[p->scale.n - 1]) {
        return not_ordered("scale", p->scale.v[0], p->scale.v[1], err);
    }
    if (p->center.n == 1) {
        return mr_fail(err, MR_E_PARAM, "center must be [x, y], or left out");
    }
    return check_shear(p, err);
}

static bool is_drawn(const affine_params *p) {
    bool shifts = false;
    for (int32_t i = 0; i < p->translate.n; i++) {
        shifts = shifts || p->translate.v[i] > 0.0;
    }
    return shifts || p->low != p->high || p->scale.v[0] != p->scale.v[p->scale.n - 1] ||
           p->shear_low[0] != p->shear_high[0] || p->shear_low[1] != p->shear_high[1];
}

static uint32_t flags_for(const void *params) {
    return MR_OP_HEAVY | MR_OP_SIZED | (is_drawn(params) ? MR_OP_RANDOM : 0u);
}

static const mr_param rows[] = {
    {.name = "degrees",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(affine_params, degrees),
     .fallback = "0",
     .min = -36000,
     .max = 36000,
     .min_len = 1,
     .max_len = 2,
     .doc = "Angles to draw from, with the clock: f for [-f, f], or [low, high]."},
    {.name = "translate",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(affine_params, translate),
     .fallback = "[]",
     .min = 0,
     .max = 1,
     .max_len = 2,
     .doc = "Largest shift as a share of the width and of the height; one number is for both."},
    {.name = "scale",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(affine_params, scale),
     .fallback = "[1]",
     .min = 1e-3,
     .max = 1e3,
     .min_len = 1,
     .max_len = 2,
     .doc = "Factor, or [smallest, largest]."},
    {.name = "shear",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(affine_params, shear),
     .fallback = "[0, 0]",
     .min = -80,
     .max = 80,
     .min_len = 1,
     .max_len = 4,
     .doc = "Degrees: f for [-f, f] along x, [low, high] along x, or both ranges, x then y."},
    {.name = "center",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(affine_params, center),
     .fallback = "[]",
     .min = -MR_IMAGE_MAX_SIDE,
     .max = MR_IMAGE_MAX_SIDE,
     .max_len = 2,
     .doc = "[x, y] that stays where it is but for the shift; empty: the middle."},
    MR_WARP_FILTER_ROW(affine_params),
    MR_FILL_ROW(affine_params, warp.fill),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"degrees\": 25, \"translate\": [0.2, 0.1], \"scale\": [0.8, 1.3], \"shear\": 10}",
     "image:9x11x3", "9d4ddb5cbbdc10910c98ead5d8f32dca"},
    {"{\"degrees\": [30, 30], \"shear\": [5, 5, -7, -7], \"filter\": \"bilinear\"}", "image:9x11x1",
     "ebac2c8ad5bbb07791ce57f294a5ec5e"},
    {"{\"scale\": 0.5, \"fill\": 7}", "image:9x11x3", "3bdf5ce4961c5693f344153ab3beba97"},
    {"{\"scale\": 0.001, \"degrees\": [45, 45]}", "image:40x50x3",
     "936240b63b1a3199a64d065bdc0aeb7e"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_affine = {
    MR_OP_HEADER,
    .name = "affine",
    .summary = "Turns, shifts, scales and shears the image by random amounts.",
    .doc = "For the same values equal to torchvision's affine over Pillow 13's Image.transform. "
           "Draw 0 is the angle; draws 1 and 2 the shift, uniform in [-share * side, share * side] "
           "and rounded, halves to even; draw 3 the scale; draws 4 and 5 the shear along x and y; "
           "each uniform in its range. Sine, cosine and tangent are millrace's own, within two "
           "units in the last place of libm's: where a value lies between two bytes, as in the "
           "middle of an image of odd sides, it may become the other one.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(affine_params),
    .params = rows,
    .check = check,
    .plan = mr_warp_plan,
    .run = mr_warp_run,
    .follow = mr_warp_follow,
    .want = mr_warp_want,
    .pass = mr_warp_pass,
    .flags_for = flags_for,
    .examples = examples,
    .also = "random_affine shift_scale_rotate",
};
