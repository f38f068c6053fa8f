/* SPDX-License-Identifier: Apache-2.0 */
/* one_of.c - the op one_of: one of several ops, by chance. */
#include "ops/chosen.h"

#include <stddef.h>

#include "core/error.h"

enum { DRAW_CHOICE };

typedef struct one_of_params {
    mr_chosen_params chosen;
    mr_floats weights;
    double sum; /* derived */
} one_of_params;

static int32_t draw_place(const one_of_params *p, const mr_key *key) {
    int32_t n = p->chosen.ops.n, at = 0;
    if (p->weights.n == 0) {
        return (int32_t)mr_draw_below(key, DRAW_CHOICE, n);
    }
    double left = mr_draw_unit(key, DRAW_CHOICE) * p->sum;
    while (at < n - 1 && left >= p->weights.v[at]) {
        left -= p->weights.v[at++];
    }
    return at;
}

static void choose(const void *params, const mr_key *key, mr_chosen_places *out) {
    *out = (mr_chosen_places){1, {draw_place(params, key)}};
}

static mr_status check(void *params, mr_error *err) {
    one_of_params *p = params;
    p->chosen.choose = choose;
    MR_TRY(mr_chosen_check(&p->chosen, err));
    if (p->weights.n > 0 && p->weights.n != p->chosen.ops.n) {
        return mr_fail(err, MR_E_PARAM, "there are %d ops but %d weights", p->chosen.ops.n,
                       p->weights.n);
    }
    for (int32_t i = 0; i < p->weights.n; i++) {
        p->sum += p->weights.v[i];
    }
    if (p->weights.n > 0 && !(p->sum > 0.0)) {
        return mr_fail(err, MR_E_PARAM, "the weights must not all be 0");
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const one_of_params *p = params;
    for (int32_t i = 0; i < p->chosen.ops.n; i++) {
        const mr_chosen_places choice = {1, {i}};
        mr_type other;
        MR_TRY(mr_chosen_type(&p->chosen, &choice, in, i == 0 ? out : &other, err));
        if (i > 0 && !mr_same_type(out, &other)) {
            char first[128], this[128];
            mr_fail(err, MR_E_TYPE, "%s makes %s but %s makes %s", p->chosen.ops.v[0].op->name,
                    mr_type_text(out, first, sizeof first), p->chosen.ops.v[i].op->name,
                    mr_type_text(&other, this, sizeof this));
            mr_hint(err, "all of them must give the same type");
            return MR_E_TYPE;
        }
    }
    return MR_OK;
}

static const mr_param rows[] = {
    MR_CHOSEN_OPS_ROW(one_of_params, "Ops of which one is run."),
    {.name = "weights",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(one_of_params, weights),
     .fallback = "[]",
     .min = 0,
     .max = 1e9,
     .max_len = MR_LIST_MAX,
     .doc = "How likely each is, compared with the others; empty: all are equally likely."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"ops\": [\"invert\", {\"posterize\": {\"bits\": 2}}, \"equalize\"]}", "image:20x30x3",
     "8b9314a9957fba127d97a365b17b4ad5"},
    {"{\"ops\": [{\"center_crop\": {\"size\": 4}}, {\"resize\": {\"size\": [4, 4]}}], "
     "\"weights\": [1, 3]}",
     "image:6x7x3", "b682318186fe983fc0744be7b95973ea"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_one_of = {
    MR_OP_HEADER,
    .name = "one_of",
    .summary = "Runs one of several ops.",
    .doc = "Without weights it is the one at below(draw 0, number of ops). With weights: draw 0 in "
           "[0, 1) times their sum; the first op whose weight, added to those before it, is above "
           "that. All must give the same type. Inner ops draw as in random_apply.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY,
    .version = 1,
    .param_size = sizeof(one_of_params),
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
    .also = "random_choice",
};
