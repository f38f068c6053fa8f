/* SPDX-License-Identifier: Apache-2.0 */
/* cusum.c - the op cusum: the running sum of deviations from the mean, which bends where a signal
 * changes its level. */
#include "ops/numbers.h"

#include "core/error.h"

typedef struct cusum_params {
    mr_ints rows;
} cusum_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const cusum_params *p = params;
    MR_TRY(mr_plan_floats(params, in, out, err));
    if (in->n_dims < 1) {
        return mr_fail(err, MR_E_TYPE, "needs a signal, not a single number");
    }
    if (p->rows.n > 0 && in->n_dims != 2) {
        return mr_fail(err, MR_E_TYPE, "rows can be chosen of two axes, not of %d", in->n_dims);
    }
    for (int32_t i = 0; i < p->rows.n; i++) {
        if (in->dims[0] >= 0 && p->rows.v[i] >= in->dims[0]) {
            return mr_fail(err, MR_E_TYPE, "there is no row %lld among %lld",
                           (long long)p->rows.v[i], (long long)in->dims[0]);
        }
    }
    return MR_OK;
}

static bool is_chosen(const cusum_params *p, size_t row) {
    bool chosen = p->rows.n == 0;
    for (int32_t i = 0; i < p->rows.n; i++) {
        chosen = chosen || (size_t)p->rows.v[i] == row;
    }
    return chosen;
}

/* In place: n values of one signal. */
static void cusum_values(double *values, size_t n) {
    double mean = mr_pairwise_sum(values, n) / (double)n, sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double deviation = values[i] - mean;
        sum = i == 0 ? deviation : sum + deviation;
        values[i] = sum;
    }
}

static void store(mr_view *out, size_t first, const double *values, size_t n) {
    if (out->type.dtype == MR_F64) {
        memcpy((double *)out->data + first, values, n * sizeof *values);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ((float *)out->data)[first + i] = (float)values[i];
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    size_t n = (size_t)in->type.dims[in->type.n_dims - 1], all = mr_count(in);
    double *values = mr_scratch(call, n * sizeof *values + 1);
    if (!values) {
        return mr_fail_memory(err, n * sizeof *values);
    }
    for (size_t row = 0; n > 0 && row < all / n; row++) {
        for (size_t i = 0; i < n; i++) {
            values[i] = mr_load_number(in->type.dtype, in->data, row * n + i);
        }
        if (is_chosen(params, row)) {
            cusum_values(values, n);
        }
        store(out, row * n, values, n);
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "rows",
     .kind = MR_PARAM_INTS,
     .offset = offsetof(cusum_params, rows),
     .fallback = "[]",
     .min = 0,
     .max = 9007199254740992.0,
     .doc = "Of two axes, the rows that are summed, the others stay; empty: all."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "float64:3x50", "579ffe51c033067f36851070bbda240c"},
    {"{\"rows\": 2}", "float32:3x20", "bc2f807c29760738ba2b9161532c4e0e"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_cusum = {
    MR_OP_HEADER,
    .name = "cusum",
    .summary = "Sums up a signal's deviations from its mean, along the last axis.",
    .doc = "Computed in float64; for float64 equal to numpy's cumsum(x - x.mean(-1)), bit for bit.",
    .version = 1,
    .param_size = sizeof(cusum_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .examples = examples,
};
