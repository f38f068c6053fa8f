/* SPDX-License-Identifier: Apache-2.0 */
/* log1p.c - the op log1p: log(1 + x), for counts and amounts that span orders of magnitude.
 *
 * Made of IEEE operations in a fixed order, since libm's log1p differs between versions. 1 + x is
 * rounded; multiplying by x / ((1 + x) - 1) takes that error out again. */
#include "ops/numbers.h"

#include "core/error.h"
#include "core/philox.h"

#include <math.h>

/* What the formula gives for `sum` = 1 + x with its logarithm, and what it cannot give: numbers
 * that vanish beside 1, and those that have no logarithm. */
static double log1p_of(double x, double sum, double log) {
    double value = log * (x / (sum - 1.0));
    value = sum > 0.0 ? value : sum == 0.0 ? (double)-INFINITY : (double)NAN;
    return sum == 1.0 || isnan(x) || x == (double)INFINITY ? x : value;
}

enum { TILE = 256 };

#define LOG1P(name, type, load)                                                                    \
    static void name(type *out, const void *in, size_t n) {                                        \
        double logs[TILE];                                                                         \
        for (size_t first = 0; first < n; first += TILE) {                                         \
            size_t count = n - first < TILE ? n - first : TILE;                                    \
            for (size_t i = 0; i < count; i++) {                                                   \
                logs[i] = 1.0 + (double)load(in, first + i);                                       \
            }                                                                                      \
            mr_exact_logs(logs, count);                                                            \
            for (size_t i = 0; i < count; i++) {                                                   \
                double x = (double)load(in, first + i);                                            \
                out[first + i] = (type)log1p_of(x, 1.0 + x, logs[i]);                              \
            }                                                                                      \
        }                                                                                          \
    }
LOG1P(log1p_f32, float, mr_load_f32)
LOG1P(log1p_f64, double, mr_load_f64)

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)params;
    if (in->type.dtype == MR_F64) {
        log1p_f64(out->data, in->data, mr_count(in));
        return MR_OK;
    }
    const void *from = mr_as_f32(call, in);
    if (!from) {
        return mr_fail_memory(err, out->size);
    }
    log1p_f32(out->data, from, mr_count(in));
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, true, params, call, n, in, out, err);
}

static const mr_example examples[] = {
    {"{}", "float32:6x7", "cb61cb03a5570f44f402f903b9149eb2"},
    {"{}", "int64:9", "1090f47c50ca36d9b781bba1b144320d"},
    {"{}", "float64:9", "62a17f7539aaafed4b2a976bc2c17480"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_log1p = {
    MR_OP_HEADER,
    .name = "log1p",
    .summary = "Takes the logarithm of one more: log(1 + x).",
    .doc =
        "Computed in float64 and rounded to the output's type: for float32 the nearest number in "
        "all but rare cases, within a few units in the last place for float64. -1 becomes minus "
        "infinity and numbers below it NaN, as in numpy. Whole numbers become float32.",
    .flags = MR_OP_TOTAL,
    .version = 1,
    .plan = mr_plan_to_floats,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
