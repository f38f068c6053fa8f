/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - what image ops share when they work row by row: windows and resampling. */
#ifndef MR_OPS_FLOW_H
#define MR_OPS_FLOW_H

#include "ops/image.h"

/* A window onto the image whose first pixel is (top, left); what lies outside of the image is 0. */
mr_region mr_window_needs(const mr_type *in, int64_t top, int64_t left, const mr_region *wanted);
mr_status mr_window_pass(mr_call *call, const mr_flow *flow, int64_t top, int64_t left,
                         const mr_rows *to, mr_rows *own, mr_error *err);

/* A rectangle of the image resized to the whole output. Where the image that comes is smaller than
 * its type says (call->shrink), so is the rectangle. */
mr_region mr_resample_needs(const mr_call *call, const mr_region *box, const mr_type *out,
                            mr_filter filter, const mr_region *wanted);
int32_t mr_resample_tolerates(const mr_region *box, const mr_type *out, mr_filter filter);
mr_status mr_resample_pass(mr_call *call, const mr_flow *flow, const mr_region *box,
                           mr_filter filter, const mr_rows *to, mr_rows *own, mr_error *err);

/* `want` for ops whose output pixels are made of the input pixels at the same place. */
mr_status mr_want_same(const void *params, mr_call *call, const mr_type *in, const mr_type *out,
                       const mr_region *wanted, mr_region *needed, mr_error *err);

#endif
