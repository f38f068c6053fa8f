/* SPDX-License-Identifier: Apache-2.0 */
/* multi_hot.c - the op multi_hot: the classes of a sample as one row of zeros with ones. */
#include "ops/hot.h"

#include "core/error.h"

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const mr_hot_params *p = params;
    if (!mr_is_whole(in->dtype) || in->n_dims != 1) {
        char text[96];
        mr_fail(err, MR_E_TYPE, "needs a list of whole numbers, not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "one_hot takes single numbers");
        return MR_E_TYPE;
    }
    *out = (mr_type){.dtype = mr_hot_dtypes[p->dtype], .n_dims = 1, .dims = {p->classes}};
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)call;
    size_t n = mr_count(in);
    return mr_hot_fill(params, in, n > 0 ? n : 1, out, err);
}

static const mr_param rows[] = {MR_HOT_ROWS};

static const mr_example examples[] = {
    {"{\"classes\": 256}", "uint8:5", "5678cb55a48861b4c2c0ae1c9666429c"},
    {"{\"classes\": 300, \"dtype\": \"int64\"}", "uint16:3", "542600ac9f77682cf317a010bede6bb9"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_multi_hot = {
    MR_OP_HEADER,
    .name = "multi_hot",
    .summary = "Turns the class numbers of a sample into one row of zeros with a one for each.",
    .doc = "Equal to scikit-learn's MultiLabelBinarizer, with classes 0 to classes - 1, in another "
           "element type. Lists may differ in length, and be empty; a number may come twice. A "
           "number that is no class is an error of the sample.",
    .version = 1,
    .param_size = sizeof(mr_hot_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .examples = examples,
    .also = "multilabel multi_label multi_label_binarizer",
};
