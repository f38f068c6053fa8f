/* SPDX-License-Identifier: Apache-2.0 */
/* one_hot.c - the op one_hot: a class number as a row of zeros with a one in its place. */
#include "ops/hot.h"

#include "core/error.h"

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mr_hot_params *p = params;
    if (!mr_is_whole(in->dtype) || in->n_dims == MR_MAX_DIMS) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs whole numbers of at most %d axes, not %s",
                       MR_MAX_DIMS - 1, mr_type_text(in, text, sizeof text));
    }
    *out = *in;
    out->dtype = mr_hot_dtypes[p->dtype];
    out->layout = MR_PLAIN;
    out->dims[out->n_dims++] = p->classes;
    if (mr_type_bytes(out) == -2) {
        return mr_fail(err, MR_E_TYPE, "so many classes for so many numbers fit into no memory");
    }
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)call;
    return mr_hot_fill(params, in, 1, out, err);
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, true, params, call, n, in, out, err);
}

static const mr_param rows[] = {MR_HOT_ROWS};

static const mr_example examples[] = {
    {"{\"classes\": 256}", "uint8:5", "116086364840e0482c1f304a4299fa4e"},
    {"{\"classes\": 300, \"dtype\": \"int64\"}", "uint16:2x3", "0f7ae93126ce228220ac7b9185907854"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_one_hot = {
    MR_OP_HEADER,
    .name = "one_hot",
    .summary = "Turns class numbers into rows of zeros with a one.",
    .doc =
        "Equal to torch.nn.functional.one_hot in another element type. A number that is no class "
        "is an error of the sample.",
    .version = 1,
    .param_size = sizeof(mr_hot_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
