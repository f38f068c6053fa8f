/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - what the ops on plain numbers share: which types they take, elements of tensors that
 * need not be aligned, and loops over contiguous values that know nothing of samples. */
#ifndef MR_OPS_NUMBERS_H
#define MR_OPS_NUMBERS_H

#include <millrace/op.h>
#include <string.h>

static inline float mr_load_f32(const void *in, size_t i) {
    float value;
    memcpy(&value, (const unsigned char *)in + i * sizeof value, sizeof value);
    return value;
}

static inline double mr_load_f64(const void *in, size_t i) {
    double value;
    memcpy(&value, (const unsigned char *)in + i * sizeof value, sizeof value);
    return value;
}

bool mr_is_float(mr_dtype dtype); /* float32 or float64 */
bool mr_is_whole(mr_dtype dtype); /* any integer, and bool */

/* Element i of a tensor of whole numbers; uint64 above 2^63 becomes negative. */
int64_t mr_load_whole(mr_dtype dtype, const void *in, size_t i);

/* Element i of a tensor of whole numbers, float32 or float64. */
double mr_load_number(mr_dtype dtype, const void *in, size_t i);

size_t mr_count(const mr_view *view); /* elements */

/* run_rows of an op by its run: rows that lie without gaps are one long value where the op takes
 * each number by itself (`apart`), else each row is one. */
typedef mr_status mr_run_fn(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                            mr_error *err);
mr_status mr_run_each(mr_run_fn *run, bool apart, const void *params, mr_call *call, int64_t n,
                      const mr_column *in, const mr_column *out, mr_error *err);

/* plan for ops that give float32 for float32 and for whole numbers, float64 for float64, in the
 * input's shape. mr_plan_floats takes floats alone. */
mr_status mr_plan_to_floats(const void *params, const mr_type *in, mr_type *out, mr_error *err);
mr_status mr_plan_floats(const void *params, const mr_type *in, mr_type *out, mr_error *err);

/* As many float32 as the input has numbers: itself where it is float32, a converted copy in scratch
 * memory where it is whole; NULL: no memory. */
const void *mr_as_f32(mr_call *call, const mr_view *in);

/* ---- Axes ---- */
/* A tensor as outer x length x inner, around one axis. */
typedef struct mr_axis_view {
    size_t outer, length, inner;
} mr_axis_view;

/* The axis that `axis` names, negative from the end; -1 where there is none, and err says so. */
int32_t mr_axis_of(const mr_type *type, int64_t axis, mr_error *err);
mr_axis_view mr_axis_around(const mr_type *type, int32_t axis);

/* Sum in numpy's order (pairwise, eight partial sums in blocks of up to 128), so that means equal
 * numpy's bit for bit. */
double mr_pairwise_sum(const double *values, size_t n);

#endif
