/* SPDX-License-Identifier: Apache-2.0 */
/* trivial_augment.c - the op trivial_augment: one drawn change of a drawn magnitude. */
#include "ops/augment.h"

#include <stddef.h>

enum { DRAW_KIND, DRAW_LEVEL, DRAW_SIGN };

typedef struct trivial_augment_params {
    mr_augment_params augment;
    int64_t bins;
} trivial_augment_params;

static const mr_augment_space space = {
    .shear = 0.99, .turn = 135, .enhance = 0.99, .translate = 32, .posterize = 6};

static void draw(const void *params, const mr_key *key, const mr_type *in, mr_augment_list *out) {
    const trivial_augment_params *p = params;
    mr_augment_kind kind = (mr_augment_kind)mr_draw_below(key, DRAW_KIND, MR_AUGMENT_DRAWN);
    int64_t level = mr_draw_below(key, DRAW_LEVEL, p->bins);
    bool negative = mr_draw_below(key, DRAW_SIGN, 2) == 1;
    out->n = 1;
    out->steps[0] = mr_augment_at(&space, kind, level, p->bins, negative, in);
}

static mr_status check(void *params, mr_error *err) {
    trivial_augment_params *p = params;
    (void)err;
    p->augment.draw = draw;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "bins",
     .kind = MR_PARAM_INT,
     .offset = offsetof(trivial_augment_params, bins),
     .fallback = "31",
     .min = 2,
     .max = 1001,
     .doc = "How many levels of magnitude there are."},
    MR_WARP_FILTER_ROW(mr_augment_params),
    MR_FILL_ROW(mr_augment_params, warp.fill),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:12x15x3", "610f4232694d0a826bc996ba8c025329"},
    {"{\"filter\": \"bilinear\", \"fill\": 9}", "image:12x15x1",
     "60f2fcc089c827a2f7b63e28b48fcd63"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_trivial_augment = {
    MR_OP_HEADER,
    .name = "trivial_augment",
    .summary = "Changes the image in one random way, by a random magnitude.",
    .doc =
        "torchvision's TrivialAugmentWide over Pillow, for the same draws. Draw 0 is the change, "
        "below(14) in the order that rand_augment names; draw 1 the level, below(bins); it is "
        "negative where it has a sign and below(draw 2, 2) is 1.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_SIZED,
    .version = 1,
    .param_size = sizeof(trivial_augment_params),
    .params = rows,
    .check = check,
    .plan = mr_warp_plan,
    .run = mr_augment_run,
    .want = mr_augment_want,
    .pass = mr_augment_pass,
    .follow = mr_augment_follow,
    .spare_mask = mr_augment_spare_mask,
    .examples = examples,
    .also = "trivial_augment_wide",
};
