/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - types, elements and axes of tensors of numbers. */
#include "ops/numbers.h"

#include "core/error.h"

bool mr_is_float(mr_dtype dtype) {
    return dtype == MR_F32 || dtype == MR_F64;
}

bool mr_is_whole(mr_dtype dtype) {
    return !mr_is_float(dtype) && dtype != MR_F16 && dtype != MR_BF16;
}

/* Little-endian, as everything here: the low bytes come first, the sign is in the last. */
int64_t mr_load_whole(mr_dtype dtype, const void *in, size_t i) {
    size_t width = mr_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const unsigned char *)in + i * width, width);
    if (dtype == MR_I8 || dtype == MR_I16 || dtype == MR_I32) {
        unsigned shift = 64 - 8 * (unsigned)width;
        return (int64_t)(bits << shift) >> shift;
    }
    return (int64_t)bits;
}

double mr_load_number(mr_dtype dtype, const void *in, size_t i) {
    if (dtype == MR_F32) {
        return (double)mr_load_f32(in, i);
    }
    if (dtype == MR_F64) {
        return mr_load_f64(in, i);
    }
    int64_t whole = mr_load_whole(dtype, in, i);
    return dtype == MR_U64 ? (double)(uint64_t)whole : (double)whole;
}

mr_status mr_run_each(mr_run_fn *run, bool apart, const void *params, mr_call *call, int64_t n,
                      const mr_column *in, const mr_column *out, mr_error *err) {
    if (in->pieces && in->type.n_dims > 1 && !apart) {
        return MR_E_UNSUPPORTED; /* pieces have no shape of their own */
    }
    bool as_one = apart && n > 0 && mr_column_is_packed(in) && mr_column_is_packed(out);
    for (int64_t i = 0; i < (as_one ? 1 : n); i++) {
        mr_view from = mr_column_value(in, i), to = mr_column_value(out, i);
        from.size *= as_one ? (size_t)n : 1;
        to.size *= as_one ? (size_t)n : 1;
        MR_TRY(run(params, call, &from, &to, err));
    }
    return MR_OK;
}

size_t mr_count(const mr_view *view) {
    return view->size / mr_dtype_size(view->type.dtype);
}

/* ---- Types ---- */
mr_status mr_plan_floats(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    if (!mr_is_float(in->dtype)) {
        mr_fail(err, MR_E_TYPE, "needs float32 or float64, not %s", mr_dtype_name(in->dtype));
        mr_hint(err, "put cast before it");
        return MR_E_TYPE;
    }
    *out = *in;
    return MR_OK;
}

mr_status mr_plan_to_floats(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    mr_type type = *in;
    if (mr_is_whole(in->dtype)) {
        type.dtype = MR_F32;
    }
    return mr_plan_floats(params, &type, out, err);
}

const void *mr_as_f32(mr_call *call, const mr_view *in) {
    size_t n = mr_count(in);
    if (in->type.dtype == MR_F32) {
        return in->data;
    }
    float *copy = mr_scratch(call, n * sizeof *copy + 1);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = (float)mr_load_number(in->type.dtype, in->data, i);
    }
    return copy;
}

/* ---- Axes ---- */
int32_t mr_axis_of(const mr_type *type, int64_t axis, mr_error *err) {
    int64_t place = axis < 0 ? axis + type->n_dims : axis;
    if (place < 0 || place >= type->n_dims) {
        mr_fail(err, MR_E_TYPE, "there is no axis %lld in a tensor of %d axes", (long long)axis,
                type->n_dims);
        return -1;
    }
    return (int32_t)place;
}

mr_axis_view mr_axis_around(const mr_type *type, int32_t axis) {
    mr_axis_view view = {1, (size_t)type->dims[axis], 1};
    for (int32_t i = 0; i < type->n_dims; i++) {
        view.outer *= i < axis ? (size_t)type->dims[i] : 1;
        view.inner *= i > axis ? (size_t)type->dims[i] : 1;
    }
    return view;
}

/* ---- Sums ---- */
static double block_sum(const double *values, size_t n) {
    double part[8];
    size_t i = 8;
    memcpy(part, values, sizeof part);
    for (; i < n - n % 8; i += 8) {
        for (size_t k = 0; k < 8; k++) {
            part[k] += values[i + k];
        }
    }
    double sum =
        ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; i < n; i++) {
        sum += values[i];
    }
    return sum;
}

/* The depth is that of a binary tree, at most 64. */
double mr_pairwise_sum(const double *values, size_t n) { // NOLINT(misc-no-recursion)
    if (n < 8) {
        double sum = -0.0; /* so that a sum of nothing but -0 is -0 */
        for (size_t i = 0; i < n; i++) {
            sum += values[i];
        }
        return sum;
    }
    if (n <= 128) {
        return block_sum(values, n);
    }
    size_t half = n / 2 - n / 2 % 8;
    return mr_pairwise_sum(values, half) + mr_pairwise_sum(values + half, n - half);
}
