/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - what image ops share when they work row by row: cutouts and resampling. */
#ifndef MR_OPS_FLOW_H
#define MR_OPS_FLOW_H

#include "ops/image.h"

/* ---- Windows ---------------------------------------------------------------------------------
 * A cutout of the image whose first pixel is (top, left); what lies outside of the image is
 * `fill`, a byte for each channel, or 0 where that is NULL. */
mr_region mr_cutout_needs(const mr_type *in, int64_t top, int64_t left, const mr_region *wanted);
mr_status mr_cutout_pass(mr_call *call, const mr_flow *flow, int64_t top, int64_t left,
                         const uint8_t *fill, const mr_rows *to, mr_rows *own, mr_error *err);

/* Crops differ in where the cutout lies; that is all their parameters must begin with. A place is
 * drawn from the key, the parameters and the sizes alone, so other fields can be cut alike. */
typedef struct mr_place {
    int64_t top, left;
} mr_place;

typedef struct mr_crop_params {
    mr_place (*place)(const void *params, const mr_key *key, const mr_type *in, const mr_type *out);
} mr_crop_params;

/* Members for the tables of crops. */
mr_status mr_crop_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                      mr_error *err);
mr_status mr_crop_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                       const mr_region *wanted, mr_region *needed, mr_error *err);
mr_status mr_crop_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                       mr_rows *own, mr_error *err);
mr_status mr_crop_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         double m[8], mr_error *err);

/* ---- Resampling ------------------------------------------------------------------------------
 * A rectangle of the image resized to the whole output. Where the image that comes is smaller than
 * its type says (call->shrink), so is the rectangle. */
mr_region mr_resample_needs(const mr_call *call, const mr_region *box, const mr_type *out,
                            mr_filter filter, const mr_region *wanted);
int32_t mr_resample_tolerates(const mr_region *box, const mr_type *out, mr_filter filter);
mr_status mr_resample_pass(mr_call *call, const mr_flow *flow, const mr_region *box,
                           mr_filter filter, const mr_rows *to, mr_rows *own, mr_error *err);

/* Resizes differ in which box of the image they take; their parameters begin with this. */
typedef struct mr_resize_params {
    mr_region (*box)(const void *params, const mr_key *key, const mr_type *in);
    mr_ints size;
    int32_t filter; /* mr_filter */
} mr_resize_params;

/* Members for the tables of resizes. */
mr_status mr_resize_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                        mr_error *err);
mr_status mr_resize_want(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                         const mr_region *wanted, mr_region *needed, mr_error *err);
mr_status mr_resize_pass(const void *params, mr_call *call, const mr_flow *flow, const mr_rows *to,
                         mr_rows *own, mr_error *err);
mr_status mr_resize_follow(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                           double m[8], mr_error *err);
int32_t mr_resize_tolerate(const void *params, mr_call *call, const mr_type *in,
                           const mr_type *out);

/* ---- Pixels at the same place ----------------------------------------------------------------
 * `want` for ops whose output pixels are made of the input pixels at the same place. */
mr_status mr_want_same(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                       const mr_region *wanted, mr_region *needed, mr_error *err);

#endif
