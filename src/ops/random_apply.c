/* SPDX-License-Identifier: Apache-2.0 */
/* random_apply.c - the op random_apply: a list of ops, all or none. */
#include "ops/chosen.h"

#include <stddef.h>

#include "core/error.h"

enum { DRAW_APPLY };

typedef struct random_apply_params {
    mr_chosen_params chosen;
    double p;
} random_apply_params;

static void choose_all(const random_apply_params *p, mr_chosen_places *out) {
    out->n = p->chosen.ops.n;
    for (int32_t i = 0; i < out->n; i++) {
        out->at[i] = i;
    }
}

static void choose(const void *params, const mr_key *key, mr_chosen_places *out) {
    const random_apply_params *p = params;
    choose_all(p, out);
    out->n = mr_applies(p->p, key, DRAW_APPLY) ? out->n : 0;
}

static mr_status check(void *params, mr_error *err) {
    random_apply_params *p = params;
    p->chosen.choose = choose;
    return mr_chosen_check(&p->chosen, err);
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const random_apply_params *p = params;
    mr_chosen_places all;
    choose_all(p, &all);
    MR_TRY(mr_chosen_type(&p->chosen, &all, in, out, err));
    if (!mr_same_type(in, out)) {
        char before[128], after[128];
        mr_fail(err, MR_E_TYPE, "the ops make %s of %s, so what comes out would depend on the draw",
                mr_type_text(out, after, sizeof after), mr_type_text(in, before, sizeof before));
        mr_hint(err, "put what changes the size before or behind random_apply");
        return MR_E_TYPE;
    }
    return MR_OK;
}

static const mr_param rows[] = {
    MR_CHOSEN_OPS_ROW(random_apply_params, "Ops to run, in order, or not to."),
    {.name = "p",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(random_apply_params, p),
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .doc = "Probability of running them."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"ops\": [{\"color_jitter\": {\"hue\": 0.2}}, {\"random_flip\": {}}]}", "image:6x7x3",
     "7a1a9e99bccb853e2867ac7756822de8"},
    {"{\"ops\": \"invert\", \"p\": 1}", "image:6x7x1", "9522233e680aebb34bf98a2c139fe30e"},
    {"{\"ops\": [{\"random_apply\": {\"ops\": [\"invert\", {\"rotate\": {\"degrees\": 20}}]}}, "
     "\"random_flip\"], \"p\": 1}",
     "image:6x7x3", "87a5e67b1734635b0b5d4f8d6bd9609f"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_random_apply = {
    MR_OP_HEADER,
    .name = "random_apply",
    .summary = "Runs a list of ops, all of them or none.",
    .doc =
        "They run if draw 0, uniform in [0, 1), is below p. The image must come out with the "
        "type it had. An inner op draws by its own key: its op word is a hash of its name, of how "
        "many of that name come before it in the list, and of this op's word.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(random_apply_params),
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
    .also = "sometimes",
};
