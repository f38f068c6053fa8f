/* SPDX-License-Identifier: Apache-2.0 */
/* standardize.c - the op standardize: (x - mean) / std with numbers that are known beforehand, one
 * for all columns or one for each. */
#include "ops/numbers.h"

#include "core/error.h"

typedef struct standardize_params {
    mr_numbers mean, std;
} standardize_params;

static mr_status check(void *params, mr_error *err) {
    const standardize_params *p = params;
    if (p->mean.n > 1 && p->std.n > 1 && p->mean.n != p->std.n) {
        return mr_fail(err, MR_E_PARAM, "mean has %d numbers and std %d", p->mean.n, p->std.n);
    }
    for (int32_t i = 0; i < p->std.n; i++) {
        if (!((float)p->std.v[i] > 0.0f)) {
            return mr_fail(err, MR_E_PARAM, "std must be above 0, not %g", p->std.v[i]);
        }
    }
    return MR_OK;
}

/* How many columns the numbers are for; 1: any. */
static int32_t columns_of(const standardize_params *p) {
    return p->mean.n > p->std.n ? p->mean.n : p->std.n;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    int32_t columns = columns_of(params);
    int64_t last = in->n_dims > 0 ? in->dims[in->n_dims - 1] : 1;
    MR_TRY(mr_plan_to_floats(params, in, out, err));
    if (columns > 1 && last >= 0 && last != columns) {
        return mr_fail(err, MR_E_TYPE, "mean and std are for %d columns, the last axis has %lld",
                       columns, (long long)last);
    }
    return MR_OK;
}

/* The numbers of the columns lie side by side, again and again where there are few columns, so that
 * one loop without a jump goes over many values. n values, of which the first belongs to column 0.
 */
enum { TILE = 512 };

#define STANDARDIZE(name, real, load)                                                              \
    static void name(real *out, const void *in, size_t n, const standardize_params *p) {           \
        size_t columns = (size_t)columns_of(p), copies = columns < TILE ? TILE / columns : 1;      \
        real mean[TILE], std[TILE];                                                                \
        for (size_t first = 0; first < columns && first < n; first += TILE) {                      \
            size_t width = columns - first < TILE ? columns - first : TILE;                        \
            size_t tile = width * copies < n ? width * copies : n;                                 \
            for (size_t i = 0; i < tile; i++) {                                                    \
                mean[i] = (real)p->mean.v[(first + i) % (size_t)p->mean.n];                        \
                std[i] = (real)p->std.v[(first + i) % (size_t)p->std.n];                           \
            }                                                                                      \
            for (size_t at = first; at < n; at += columns * copies) {                              \
                size_t here = n - at < tile ? n - at : tile;                                       \
                for (size_t i = 0; i < here; i++) {                                                \
                    out[at + i] = (load(in, at + i) - mean[i]) / std[i];                           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

STANDARDIZE(standardize_f32, float, mr_load_f32)
STANDARDIZE(standardize_f64, double, mr_load_f64)

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    if (in->type.dtype == MR_F64) {
        standardize_f64(out->data, in->data, mr_count(in), params);
        return MR_OK;
    }
    const void *from = mr_as_f32(call, in);
    if (!from) {
        return mr_fail_memory(err, out->size);
    }
    standardize_f32(out->data, from, mr_count(in), params);
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, true, params, call, n, in, out, err);
}

static const mr_param rows[] = {
    {.name = "mean",
     .kind = MR_PARAM_NUMBERS,
     .offset = offsetof(standardize_params, mean),
     .min_len = 1,
     .max_len = MR_FIELDS_LIMIT,
     .doc = "Subtracted: one number, or one for each place of the last axis."},
    {.name = "std",
     .kind = MR_PARAM_NUMBERS,
     .offset = offsetof(standardize_params, std),
     .min_len = 1,
     .max_len = MR_FIELDS_LIMIT,
     .doc = "What the difference is divided by; likewise."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"mean\": [0, 1, 2], \"std\": [1, 3, 0.7]}", "float32:5x3",
     "e7aeea7e17cb4b9ed34ec39528a6bf7b"},
    {"{\"mean\": 127.5, \"std\": 127.5}", "image:4x5x3", "61984aeb5e9fe7d500065122b27e5a84"},
    {"{\"mean\": 0.1, \"std\": [3, 7]}", "float64:2", "67d62a23ac73f2373de21952e02461d0"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_standardize = {
    MR_OP_HEADER,
    .name = "standardize",
    .summary = "Subtracts a mean and divides by a deviation: (x - mean) / std.",
    .doc =
        "In float32 (float64 for float64), one rounding per operation, as numpy and torch compute "
        "it. Whole numbers become float32 first.",
    .flags = MR_OP_TOTAL,
    .version = 1,
    .param_size = sizeof(standardize_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
