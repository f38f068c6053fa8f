/* SPDX-License-Identifier: Apache-2.0 */
/* bucketize.c - the op bucketize: which interval between boundaries a number lies in. */
#include "ops/numbers.h"

#include "core/error.h"

typedef struct bucketize_params {
    mr_numbers boundaries;
    bool right;
} bucketize_params;

static mr_status check(void *params, mr_error *err) {
    const bucketize_params *p = params;
    for (int32_t i = 1; i < p->boundaries.n; i++) {
        if (!(p->boundaries.v[i - 1] < p->boundaries.v[i])) {
            return mr_fail(err, MR_E_PARAM, "boundaries must rise: %g does not come after %g",
                           p->boundaries.v[i], p->boundaries.v[i - 1]);
        }
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    mr_type floats;
    MR_TRY(mr_plan_to_floats(params, in, &floats, err));
    *out = *in;
    out->dtype = MR_I64;
    out->layout = MR_PLAIN;
    return MR_OK;
}

/* NaN lies behind the last boundary, as torch has it. */
static int64_t bucket_of(const bucketize_params *p, double value) {
    const double *bounds = p->boundaries.v;
    int32_t from = 0, to = p->boundaries.n;
    while (from < to) {
        int32_t middle = (from + to) / 2;
        bool before = p->right ? !(value < bounds[middle]) : !(value <= bounds[middle]);
        from = before ? middle + 1 : from;
        to = before ? to : middle;
    }
    return from;
}

static void bucketize_values(int64_t *out, mr_dtype dtype, const void *in, size_t n,
                             const bucketize_params *p) {
    for (size_t i = 0; i < n; i++) {
        out[i] = bucket_of(p, mr_load_number(dtype, in, i));
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)call;
    (void)err;
    bucketize_values(out->data, in->type.dtype, in->data, mr_count(in), params);
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, true, params, call, n, in, out, err);
}

static const mr_param rows[] = {
    {.name = "boundaries",
     .kind = MR_PARAM_NUMBERS,
     .offset = offsetof(bucketize_params, boundaries),
     .min_len = 1,
     .max_len = MR_FIELDS_LIMIT,
     .doc = "Rising numbers between the buckets; n of them make n + 1 buckets."},
    {.name = "right",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(bucketize_params, right),
     .fallback = "false",
     .doc = "Whether a number equal to a boundary belongs to the bucket after it."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"boundaries\": [-4, -1.5, 0, 2]}", "float32:6x7", "f4818ace8a1137d0d4d88e333c3fa49e"},
    {"{\"boundaries\": [-100, 0, 24], \"right\": true}", "int32:12",
     "c5963237259badd9d9c21cd0ea512eb5"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_bucketize = {
    MR_OP_HEADER,
    .name = "bucketize",
    .summary = "Turns numbers into the index of the interval they lie in.",
    .doc = "Equal to torch.bucketize with the same right, and to numpy.digitize with the opposite "
           "one. Compared in float64. NaN gets the last bucket.",
    .flags = MR_OP_TOTAL,
    .version = 1,
    .param_size = sizeof(bucketize_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
