/* SPDX-License-Identifier: Apache-2.0 */
/* invert_above.c - an op that lives outside the tree: a shared library with one table and one
 * exported function. It needs op.h and nothing else of millrace. */
#include <millrace/op.h>

typedef struct invert_above {
    int64_t threshold;
} invert_above;

static const mr_param params[] = {
    {.name = "threshold",
     .kind = MR_PARAM_INT,
     .offset = offsetof(invert_above, threshold),
     .fallback = "128",
     .min = 0,
     .max = 256,
     .doc = "Values from here on are inverted."},
    {.name = NULL},
};

static mr_status plan(const void *values, const mr_type *in, mr_type *out, mr_error *err) {
    (void)values;
    if (in->dtype != MR_U8 || in->layout == MR_PLAIN) {
        mr_fail(err, MR_E_TYPE, "invert_above needs an image of uint8");
        mr_hint(err, "put it after decode_image and before normalize");
        return MR_E_TYPE;
    }
    *out = *in;
    return MR_OK;
}

static mr_status run(const void *values, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const invert_above *p = values;
    const uint8_t *from = in->data;
    uint8_t *to = out->data;
    (void)call;
    (void)err;
    for (size_t i = 0; i < out->size; i++) {
        to[i] = from[i] < p->threshold ? from[i] : (uint8_t)(255 - from[i]);
    }
    return MR_OK;
}

static const mr_example examples[] = {
    {"{}", "image:5x7x3", "b28321e43deb1b3c1a38344558d13cb3"},
    {.params = NULL},
};

static const mr_op_class op_invert_above = {
    MR_OP_HEADER,
    .name = "invert_above",
    .summary = "Inverts the values of an image that are at or above a threshold.",
    .doc = "Equal to Pillow's ImageOps.solarize.",
    .version = 1,
    .param_size = sizeof(invert_above),
    .params = params,
    .plan = plan,
    .run = run,
    .examples = examples,
};

MR_API mr_plugin_entry_fn mr_plugin_entry;

const mr_op_class *const *mr_plugin_entry(uint32_t host_abi) {
    static const mr_op_class *const ops[] = {&op_invert_above, NULL};
    return host_abi == MR_OP_ABI ? ops : NULL;
}
