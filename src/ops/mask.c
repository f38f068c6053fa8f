/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - bands of one axis set to a value. */
#include "ops/mask.h"

#include "core/error.h"
#include "ops/numbers.h"

mr_status mr_mask_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mr_mask_params *p = params;
    MR_TRY(mr_plan_floats(params, in, out, err));
    return mr_axis_of(in, p->axis, err) < 0 ? MR_E_TYPE : MR_OK;
}

static void cover(mr_view *out, size_t at, size_t n, double value) {
    for (size_t i = at; i < at + n; i++) {
        if (out->type.dtype == MR_F64) {
            ((double *)out->data)[i] = value;
        } else {
            ((float *)out->data)[i] = (float)value;
        }
    }
}

/* A band of places of the axis, in [from, to). */
typedef struct band {
    size_t from, to;
} band;

/* Width and place are drawn as real numbers and cut to whole ones together, as torchaudio does. */
static band draw_band(const mr_mask_params *p, const mr_key *key, uint32_t k, size_t side) {
    double part = (double)(int64_t)((double)side * p->share);
    double limit = (double)p->width < part ? (double)p->width : part;
    double width = mr_draw_unit(key, 2 * k) * limit;
    double start = mr_draw_unit(key, 2 * k + 1) * ((double)side - width);
    size_t from = (size_t)start;
    return (band){from, from + (size_t)width};
}

mr_status mr_mask_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                      mr_error *err) {
    const mr_mask_params *p = params;
    mr_axis_view view = mr_axis_around(&in->type, mr_axis_of(&in->type, p->axis, err));
    memcpy(out->data, in->data, in->size);
    for (uint32_t k = 0; k < (uint32_t)p->masks; k++) {
        band b = draw_band(p, &call->key, k, view.length);
        for (size_t o = 0; o < view.outer; o++) {
            cover(out, (o * view.length + b.from) * view.inner, (b.to - b.from) * view.inner,
                  p->value);
        }
    }
    return MR_OK;
}
