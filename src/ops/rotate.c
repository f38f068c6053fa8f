/* SPDX-License-Identifier: Apache-2.0 */
/* rotate.c - the op rotate: turns the image by a drawn angle. */
#include "ops/warping.h"

#include <math.h>
#include <stddef.h>

#include "core/error.h"

enum { DRAW_ANGLE };

typedef struct rotate_params {
    mr_warp_params warp;
    mr_floats degrees, center;
    bool expand;
    double low, high; /* derived */
} rotate_params;

/* ---- The map of an angle ---- */
typedef struct turn {
    double m[6];
    int64_t height, width; /* of the output */
} turn;

static void apply(const double m[6], double x, double y, double *to_x, double *to_y) {
    *to_x = m[0] * x + m[1] * y + m[2];
    *to_y = m[3] * x + m[4] * y + m[5];
}

/* A quarter turn that exchanges height and width is exact. */
static turn quarter(bool left, double height, double width) {
    turn t = {{0, left ? -1 : 1, left ? width : 0, left ? 1 : -1, 0, left ? 0 : height},
              (int64_t)width,
              (int64_t)height};
    return t;
}

static void grow(turn *t, double height, double width) {
    double low_x = INFINITY, low_y = INFINITY, high_x = -INFINITY, high_y = -INFINITY;
    for (int corner = 0; corner < 4; corner++) {
        double x, y;
        apply(t->m, corner & 1 ? width : 0.0, corner & 2 ? height : 0.0, &x, &y);
        low_x = fmin(low_x, x);
        low_y = fmin(low_y, y);
        high_x = fmax(high_x, x);
        high_y = fmax(high_y, y);
    }
    double wide = ceil(high_x) - floor(low_x), tall = ceil(high_y) - floor(low_y);
    double x, y;
    apply(t->m, -(wide - width) / 2.0, -(tall - height) / 2.0, &x, &y);
    t->m[2] = x;
    t->m[5] = y;
    t->width = (int64_t)wide;
    t->height = (int64_t)tall;
}

static turn turn_of(const rotate_params *p, double degrees, const mr_type *in) {
    double height = (double)in->dims[0], width = (double)in->dims[1], angle = mr_in_turn(degrees);
    bool centred = p->center.n == 0;
    if (centred && p->expand && (angle == 90.0 || angle == 270.0)) {
        return quarter(angle == 90.0, height, width);
    }
    const double center[2] = {centred ? width / 2.0 : p->center.v[0],
                              centred ? height / 2.0 : p->center.v[1]};
    turn t = {.height = in->dims[0], .width = in->dims[1]};
    mr_rotation(degrees, center, t.m);
    bool whole_turn = centred && (angle == 0.0 || angle == 180.0);
    if (p->expand && !whole_turn) {
        grow(&t, height, width);
    }
    return t;
}

/* ---- Drawing ---- */
static double draw_angle(const rotate_params *p, const mr_key *key) {
    return mr_draw_range(key, DRAW_ANGLE, p->low, p->high);
}

static mr_warp_draw draw(const void *params, const mr_key *key, const mr_type *in,
                         const mr_type *out) {
    const rotate_params *p = params;
    double angle = draw_angle(p, key);
    turn t = turn_of(p, angle, in);
    (void)out;
    return (mr_warp_draw){.identity = mr_in_turn(angle) == 0.0,
                          .map = {{t.m[0], t.m[1], t.m[2], t.m[3], t.m[4], t.m[5], 0, 0}, false}};
}

static mr_status check(void *params, mr_error *err) {
    rotate_params *p = params;
    p->warp.draw = draw;
    p->low = p->degrees.n == 2 ? p->degrees.v[0] : -p->degrees.v[0];
    p->high = p->degrees.v[p->degrees.n - 1];
    if (p->low > p->high) {
        mr_fail(err, MR_E_PARAM, "degrees: the range [%g, %g] is not ordered", p->low, p->high);
        mr_hint(err, "one number f means [-f, f]; two are the smallest and the largest");
        return MR_E_PARAM;
    }
    if (p->center.n == 1) {
        return mr_fail(err, MR_E_PARAM, "center must be [x, y], or left out");
    }
    if (p->expand && p->low != p->high) {
        mr_fail(err, MR_E_PARAM,
                "expand needs one angle: with a drawn one the size of the output "
                "would not be known beforehand");
        mr_hint(err, "give degrees as [angle, angle], or pad the image first");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static uint32_t flags_for(const void *params) {
    const rotate_params *p = params;
    return MR_OP_HEAVY | MR_OP_SIZED | (p->low != p->high ? MR_OP_RANDOM : 0u);
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const rotate_params *p = params;
    MR_TRY(mr_warp_plan(params, in, out, err));
    if (!p->expand) {
        return MR_OK;
    }
    if (in->dims[0] < 0 || in->dims[1] < 0) {
        return mr_image_resized(in, -1, -1, out, err);
    }
    turn t = turn_of(p, p->low, in);
    return mr_image_resized(in, t.height, t.width, out, err);
}

static const mr_param rows[] = {
    {.name = "degrees",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(rotate_params, degrees),
     .min = -36000,
     .max = 36000,
     .min_len = 1,
     .max_len = 2,
     .doc = "Angles to draw from, against the clock: f for [-f, f], or [low, high]."},
    {.name = "expand",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(rotate_params, expand),
     .fallback = "false",
     .doc = "Make the output so large that the turned image fits; only with one angle."},
    {.name = "center",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(rotate_params, center),
     .fallback = "[]",
     .min = -MR_IMAGE_MAX_SIDE,
     .max = MR_IMAGE_MAX_SIDE,
     .max_len = 2,
     .doc = "[x, y] to turn around, from the upper left corner; empty: the middle."},
    MR_WARP_FILTER_ROW(rotate_params),
    MR_FILL_ROW(rotate_params, warp.fill),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"degrees\": 30}", "image:9x11x3", "d32e311524c44de7a9bee9ccf651de1a"},
    {"{\"degrees\": [20, 20], \"filter\": \"bilinear\", \"expand\": true}", "image:9x11x3",
     "c44b7283d6202cf239a448f145e16b86"},
    {"{\"degrees\": [90, 90], \"expand\": true}", "image:4x7x1",
     "cc95d73a4efda09dc940dc1cf1320948"},
    {"{\"degrees\": [-45, 10], \"center\": [0, 0], \"fill\": [1, 2, 3]}", "image:9x11x3",
     "09af02808ec32c4b0a773f3564b5bd7e"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_rotate = {
    MR_OP_HEADER,
    .name = "rotate",
    .summary = "Turns the image by a random angle.",
    .doc =
        "Equal to Image.rotate of Pillow 13, which torchvision calls, for the same angle. Draw 0 "
        "is the angle, uniform in its range. Sine and cosine are millrace's own, within a unit "
        "in the last place of libm's, and rounded to 15 decimals as Pillow does.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(rotate_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = mr_warp_run,
    .follow = mr_warp_follow,
    .want = mr_warp_want,
    .pass = mr_warp_pass,
    .flags_for = flags_for,
    .examples = examples,
    .also = "random_rotate random_rotation",
};
