/* SPDX-License-Identifier: Apache-2.0 */
/* posterize.c - the op posterize: fewer levels. */
#include "ops/points.h"

#include <stddef.h>

typedef struct posterize_params {
    mr_points_params points;
    int64_t bits;
} posterize_params;

static void make_table(const void *params, uint8_t table[256]) {
    const posterize_params *p = params;
    mr_table_posterize(p->bits, table);
}

static mr_status check(void *params, mr_error *err) {
    posterize_params *p = params;
    (void)err;
    p->points.table = make_table;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "bits",
     .kind = MR_PARAM_INT,
     .offset = offsetof(posterize_params, bits),
     .fallback = "4",
     .min = 0,
     .max = 8,
     .doc = "How many leading bits of a value to keep."},
    MR_POINTS_P_ROW(posterize_params),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"bits\": 2}", "image:5x7x3", "d3b6659a0e12b122f65dd29b401348f8"},
    {"{\"bits\": 0}", "image:5x7x1", "148197250223a89230d6b22bf1d666cc"},
    {"{\"p\": 0.5}", "image:5x7x3", "8f358a71d85f5fbf2b77e9cf19b9781b"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_posterize = {
    MR_OP_HEADER,
    .name = "posterize",
    .summary = "Keeps the leading bits of each value.",
    .doc = "Equal to Pillow's ImageOps.posterize (bits 0, which Pillow refuses, gives black). Done "
           "if draw 0, uniform in [0, 1), is below p.",
    .flags = MR_OP_RANDOM | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(posterize_params),
    .params = rows,
    .check = check,
    .plan = mr_points_plan,
    .run = mr_points_run,
    .want = mr_points_want,
    .pass = mr_points_pass,
    .flags_for = mr_points_flags,
    .examples = examples,
    .also = "random_posterize",
};
