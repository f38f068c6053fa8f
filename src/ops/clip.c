/* SPDX-License-Identifier: Apache-2.0 */
/* clip.c - the op clip: numbers brought into a range. */
#include "ops/numbers.h"

#include "core/error.h"

typedef struct clip_params {
    double low, high;
} clip_params;

static mr_status check(void *params, mr_error *err) {
    const clip_params *p = params;
    if (p->low > p->high) {
        return mr_fail(err, MR_E_PARAM, "low (%g) is above high (%g)", p->low, p->high);
    }
    return MR_OK;
}

/* NaN is neither below nor above, and stays. */
static void clip_f32(float *out, const void *in, size_t n, float low, float high) {
    for (size_t i = 0; i < n; i++) {
        float value = mr_load_f32(in, i);
        value = value < low ? low : value;
        out[i] = value > high ? high : value;
    }
}

static void clip_f64(double *out, const void *in, size_t n, double low, double high) {
    for (size_t i = 0; i < n; i++) {
        double value = mr_load_f64(in, i);
        value = value < low ? low : value;
        out[i] = value > high ? high : value;
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const clip_params *p = params;
    size_t n = mr_count(in);
    (void)call;
    (void)err;
    if (in->type.dtype == MR_F32) {
        clip_f32(out->data, in->data, n, (float)p->low, (float)p->high);
    } else {
        clip_f64(out->data, in->data, n, p->low, p->high);
    }
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, true, params, call, n, in, out, err);
}

static const mr_param rows[] = {
    {.name = "low",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(clip_params, low),
     .doc = "Numbers below become this one."},
    {.name = "high",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(clip_params, high),
     .doc = "Numbers above become this one."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"low\": -2, \"high\": 3.5}", "float32:6x7", "dd6b9587cb86a289c1c87d3bec161339"},
    {"{\"low\": 0, \"high\": 1}", "float64:9", "3bbf4a0ee25156da0287880daec31610"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_clip = {
    MR_OP_HEADER,
    .name = "clip",
    .summary = "Brings numbers into a range.",
    .doc = "Equal to numpy's clip and torch's clamp, bit for bit; NaN stays NaN.",
    .flags = MR_OP_TOTAL,
    .version = 1,
    .param_size = sizeof(clip_params),
    .params = rows,
    .check = check,
    .plan = mr_plan_floats,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
