/* SPDX-License-Identifier: Apache-2.0 */
/* warping.h - what rotate, affine and perspective share: all but the map that they draw. */
#ifndef MR_OPS_WARPING_H
#define MR_OPS_WARPING_H

#include "kernels/warp.h"
#include "ops/area.h"

/* What is drawn for an image: from parameters, key and sizes alone, so that masks, boxes and
 * points of the same sample can follow it. */
typedef struct mr_warp_draw {
    bool identity; /* nothing is to be done */
    mr_map map;
} mr_warp_draw;

/* What the parameters of these ops begin with; `draw` is set by check. */
typedef struct mr_warp_params {
    mr_warp_draw (*draw)(const void *params, const mr_key *key, const mr_type *in,
                         const mr_type *out);
    int32_t filter; /* mr_warp_filter_names */
    mr_ints fill;
} mr_warp_params;

extern const char *const mr_warp_filter_names[]; /* nearest, bilinear */

#define MR_WARP_FILTER_ROW(struct_name)                                                            \
    {                                                                                              \
        .name = "filter", .kind = MR_PARAM_CHOICE, .offset = offsetof(struct_name, warp.filter),   \
        .fallback = "\"nearest\"", .for_mask = "\"nearest\"", .choices = mr_warp_filter_names,     \
        .doc = "nearest, or bilinear between the four pixels around a place."                      \
    }

#define MR_FILL_ROW(struct_name, member)                                                           \
    {                                                                                              \
        .name = "fill", .kind = MR_PARAM_INTS, .offset = offsetof(struct_name, member),            \
        .fallback = "[0]", .for_mask = "[0]", .min = 0, .max = 255, .min_len = 1, .max_len = 3,    \
        .doc = "Value of what lies outside of the image, for all channels or for each."            \
    }

/* Degrees in [0, 360). */
double mr_in_turn(double degrees);

/* Pillow's rotation around a point, against the clock: the first six numbers of a map. */
void mr_rotation(double degrees, const double center[2], double m[6]);

/* torchvision's affine map: the inverse of shift * center * turn * shear * scale * -center, angles
 * in degrees, pairs as x and y. */
mr_map mr_affine_map(double angle, const double shift[2], double scale, const double shear[2],
                     const double center[2]);

/* The map says where an output pixel comes from; things on the image go the other way. */
void mr_map_invert(const double a[8], double m[8]);

/* Same type out as in; members for the tables. */
mr_status mr_warp_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err);
mr_status mr_warp_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                      mr_error *err);
mr_status mr_warp_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                       const mr_region *wanted, mr_region *needed, mr_error *err);
mr_status mr_warp_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         double m[8], mr_error *err);
mr_status mr_warp_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                       mr_rows *own, mr_error *err);

#endif
