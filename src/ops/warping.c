/* SPDX-License-Identifier: Apache-2.0 */
/* warping.c - see warping.h. */
#include "ops/warping.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/angle.h"
#include "core/error.h"
#include "core/number.h"

const char *const mr_warp_filter_names[] = {"nearest", "bilinear", NULL};

/* To 15 decimals, as Pillow does: a quarter turn then has a cosine of 0. */
static double rounded(double value) {
    char text[40];
    mr_number_print(text, sizeof text, "%.15f", value);
    return mr_number_parse(text, NULL);
}

double mr_in_turn(double degrees) {
    double rest = fmod(degrees, 360.0);
    return rest < 0.0 ? rest + 360.0 : rest;
}

void mr_rotation(double degrees, const double center[2], double m[6]) {
    double radians = -mr_radians(mr_in_turn(degrees)), cx = center[0], cy = center[1];
    double cosine = rounded(mr_exact_cos(radians)), sine = rounded(mr_exact_sin(radians));
    m[0] = m[4] = cosine;
    m[1] = sine;
    m[3] = -sine;
    m[2] = cosine * -cx + sine * -cy + cx;
    m[5] = -sine * -cx + cosine * -cy + cy;
}

mr_map mr_affine_map(double angle, const double shift[2], double scale, const double shear[2],
                     const double center[2]) {
    double turn = mr_radians(angle), sx = mr_radians(shear[0]), sy = mr_radians(shear[1]);
    double a = mr_exact_cos(turn - sy) / mr_exact_cos(sy);
    double b = -mr_exact_cos(turn - sy) * mr_exact_tan(sx) / mr_exact_cos(sy) - mr_exact_sin(turn);
    double c = mr_exact_sin(turn - sy) / mr_exact_cos(sy);
    double d = -mr_exact_sin(turn - sy) * mr_exact_tan(sx) / mr_exact_cos(sy) + mr_exact_cos(turn);
    mr_map map = {{d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0, 0.0, 0.0}, false};
    double x = -center[0] - shift[0], y = -center[1] - shift[1], *m = map.m;
    m[2] = m[0] * x + m[1] * y + center[0];
    m[5] = m[3] * x + m[4] * y + center[1];
    return map;
}

mr_status mr_warp_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mr_warp_params *p = params;
    MR_TRY(mr_image_check(in, err));
    *out = *in;
    return mr_fill_check(&p->fill, in, err);
}

mr_status mr_warp_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                       const mr_region *wanted, mr_region *needed, mr_error *err) {
    const mr_warp_params *p = params;
    mr_warp_draw drawn = p->draw(params, &call->key, in, out);
    (void)err;
    *needed =
        drawn.identity ? *wanted : mr_map_needs(&drawn.map, in->dims[0], in->dims[1], *wanted);
    return MR_OK;
}

void mr_map_invert(const double a[8], double m[8]) {
    double unit = a[0] * a[4] - a[1] * a[3];
    m[0] = (a[4] - a[5] * a[7]) / unit;
    m[1] = (a[2] * a[7] - a[1]) / unit;
    m[2] = (a[1] * a[5] - a[2] * a[4]) / unit;
    m[3] = (a[5] * a[6] - a[3]) / unit;
    m[4] = (a[0] - a[2] * a[6]) / unit;
    m[5] = (a[2] * a[3] - a[0] * a[5]) / unit;
    m[6] = (a[3] * a[7] - a[4] * a[6]) / unit;
    m[7] = (a[1] * a[6] - a[0] * a[7]) / unit;
}

mr_status mr_warp_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         double m[8], mr_error *err) {
    const mr_warp_params *p = params;
    mr_warp_draw drawn = p->draw(params, &call->key, in, out);
    (void)err;
    if (drawn.identity) {
        mr_follow_shift(m, 0, 0);
    } else {
        mr_map_invert(drawn.map.m, m);
    }
    return MR_OK;
}

typedef struct warping {
    const mr_warp *warp;
    mr_scene scene; /* its part is set by the row */
    mr_region wanted;
} warping;

static void warp_row(void *user, const mr_pixels *part, int64_t y, uint8_t *out) {
    warping *w = user;
    w->scene.part = *part;
    mr_warp_row(w->warp, &w->scene, y, w->wanted.x, w->wanted.width, out);
}

static mr_status make(const void *params, mr_call *call, const mr_flow *flow, mr_area *area,
                      mr_error *err) {
    const mr_warp_params *p = params;
    mr_warp_draw drawn = p->draw(params, &call->key, flow->in, flow->out);
    const int64_t *in = flow->in->dims, *out = flow->out->dims;
    uint8_t fill[3];
    if (drawn.identity) {
        return MR_OK;
    }
    size_t bytes = mr_warp_memory(out[0], out[1]);
    warping *w = mr_scratch(call, sizeof *w);
    void *memory = mr_scratch(call, bytes);
    if (!w || !memory) {
        return mr_fail_memory(err, bytes);
    }
    mr_fill_bytes(&p->fill, fill);
    *w = (warping){
        .warp = mr_warp_start(&drawn.map, p->filter == 1, fill, out[0], out[1], memory),
        .scene = {.top = flow->needed->y, .left = flow->needed->x, .height = in[0], .width = in[1]},
        .wanted = *flow->wanted,
    };
    *area = (mr_area){.user = w, .row = warp_row, .reach = MR_AREA_ALL};
    return MR_OK;
}

mr_status mr_warp_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                      mr_error *err) {
    return mr_area_run(make, params, call, in, out, err);
}

mr_status mr_warp_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                       mr_rows *own, mr_error *err) {
    return mr_area_pass(make, params, call, flow, to, own, err);
}
