/* SPDX-License-Identifier: Apache-2.0 */
/* area.h - image ops whose rows are made of several rows of the input, or of all: filters, warps,
 * whatever looks at the whole image first. Such an op says once how it makes a row; run and pass
 * follow. Among fused ops the part that is needed is kept, and rows go on as soon as they can. */
#ifndef MR_OPS_AREA_H
#define MR_OPS_AREA_H

#include "ops/flow.h"

#define MR_AREA_ALL INT64_MAX

typedef struct mr_area {
    void *user;
    /* (optional) All of the needed part is there; before the first row. */
    mr_status (*begin)(void *user, const mr_pixels *part, mr_error *err);
    /* Row y of the output, the wanted columns of it. NULL: the output is the input. */
    void (*row)(void *user, const mr_pixels *part, int64_t y, uint8_t *out);
    int64_t reach; /* how many rows below its own a row is made of; MR_AREA_ALL with begin */
} mr_area;

/* Settles how rows are made; flow->needed is what the op's want says, or all of the input. */
typedef mr_status mr_area_maker(const void *params, mr_call *call, const mr_flow *flow,
                                mr_area *area, mr_error *err);

mr_status mr_area_run(mr_area_maker *make, const void *params, mr_call *call, const mr_view *in,
                      mr_view *out, mr_error *err);
mr_status mr_area_pass(mr_area_maker *make, const void *params, mr_call *call, const mr_flow *flow,
                       const mr_rows *to, mr_rows *own, mr_error *err);

mr_region mr_whole_region(const mr_type *image);

/* The region and `radius` pixels around it, inside the image. */
mr_region mr_region_around(const mr_type *image, const mr_region *region, int64_t radius);

#endif
