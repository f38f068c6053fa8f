/* SPDX-License-Identifier: Apache-2.0 */
/* fill_null.c - the op fill_null: a number in the place of NaN, which is how tables of floats say
 * that a value is missing. */
#include "ops/numbers.h"

typedef struct fill_null_params {
    double value;
} fill_null_params;

static void fill_f32(float *out, const void *in, size_t n, float fill) {
    for (size_t i = 0; i < n; i++) {
        float value = mr_load_f32(in, i);
        out[i] = value == value ? value : fill;
    }
}

static void fill_f64(double *out, const void *in, size_t n, double fill) {
    for (size_t i = 0; i < n; i++) {
        double value = mr_load_f64(in, i);
        out[i] = value == value ? value : fill;
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const fill_null_params *p = params;
    (void)call;
    (void)err;
    if (in->type.dtype == MR_F32) {
        fill_f32(out->data, in->data, mr_count(in), (float)p->value);
    } else {
        fill_f64(out->data, in->data, mr_count(in), p->value);
    }
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, true, params, call, n, in, out, err);
}

static const mr_param rows[] = {
    {.name = "value",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(fill_null_params, value),
     .fallback = "0",
     .doc = "What stands in the place of NaN."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"value\": -1}", "float32:2x2:0000c07f000080bf000000000000c0ff",
     "082f118356152cde236bb8d7444da0d4"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_fill_null = {
    MR_OP_HEADER,
    .name = "fill_null",
    .summary = "Puts a number in the place of missing ones (NaN).",
    .doc = "Equal to numpy's where(isnan(x), value, x).",
    .flags = MR_OP_TOTAL,
    .version = 1,
    .param_size = sizeof(fill_null_params),
    .params = rows,
    .plan = mr_plan_floats,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
