/* SPDX-License-Identifier: Apache-2.0 */
/* random_order.c - the op random_order: several ops, in an order that is drawn. */
#include "ops/chosen.h"

#include <stddef.h>

#include "core/error.h"

typedef struct random_order_params {
    mr_chosen_params chosen;
} random_order_params;

static void choose(const void *params, const mr_key *key, mr_chosen_places *out) {
    const random_order_params *p = params;
    uint32_t draw = 0;
    out->n = p->chosen.ops.n;
    for (int32_t i = 0; i < out->n; i++) {
        out->at[i] = i;
    }
    for (int32_t i = out->n - 1; i > 0; i--) {
        int64_t k = mr_draw_below(key, draw++, i + 1);
        int32_t swap = out->at[i];
        out->at[i] = out->at[k];
        out->at[k] = swap;
    }
}

static mr_status check(void *params, mr_error *err) {
    random_order_params *p = params;
    p->chosen.choose = choose;
    return mr_chosen_check(&p->chosen, err);
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const random_order_params *p = params;
    for (int32_t i = 0; i < p->chosen.ops.n; i++) {
        const mr_chosen_places choice = {1, {i}};
        MR_TRY(mr_chosen_type(&p->chosen, &choice, in, out, err));
        if (!mr_same_type(in, out)) {
            char before[128], after[128];
            mr_fail(err, MR_E_TYPE,
                    "%s makes %s of %s, so the order would matter to what comes out",
                    p->chosen.ops.v[i].op->name, mr_type_text(out, after, sizeof after),
                    mr_type_text(in, before, sizeof before));
            mr_hint(err, "put it before or behind random_order");
            return MR_E_TYPE;
        }
    }
    return MR_OK;
}

static const mr_param rows[] = {
    MR_CHOSEN_OPS_ROW(random_order_params, "Ops to run, each once."),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"ops\": [{\"posterize\": {\"bits\": 3}}, \"solarize\", {\"rotate\": {\"degrees\": 30}}]}",
     "image:6x7x3", "70547136d45fa0e4acc948cf656f216a"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_random_order = {
    MR_OP_HEADER,
    .name = "random_order",
    .summary = "Runs several ops in a random order.",
    .doc = "The order starts as it is given; for i = n - 1 .. 1, with draws 0, 1, ...: exchange "
           "entries i and below(i + 1). Each op must keep the type. Inner ops draw as in "
           "random_apply, by their place in the list, not in the order.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(random_order_params),
    .params = rows,
    .check = check,
    .plan = plan,
    .open = mr_chosen_open,
    .close = mr_chosen_close,
    .run = mr_chosen_run,
    .follow = mr_chosen_follow,
    .check_batch = mr_chosen_check_batch,
    .run_batch = mr_chosen_run_batch,
    .want = mr_chosen_want,
    .pass = mr_chosen_pass,
    .flags_for = mr_chosen_flags,
    .spare_mask = mr_chosen_spare_mask,
    .examples = examples,
};
