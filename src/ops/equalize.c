/* SPDX-License-Identifier: Apache-2.0 */
/* equalize.c - the op equalize: an even histogram. */
#include "ops/points.h"

#include <stddef.h>

typedef struct equalize_params {
    mr_points_params points;
} equalize_params;

static void make_table(const void *params, const uint64_t histogram[256], uint8_t table[256]) {
    (void)params;
    mr_table_equalize(histogram, table);
}

static mr_status check(void *params, mr_error *err) {
    equalize_params *p = params;
    (void)err;
    p->points.table_for = make_table;
    return MR_OK;
}

static const mr_param rows[] = {
    MR_POINTS_P_ROW(equalize_params),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:20x30x3", "8b9314a9957fba127d97a365b17b4ad5"},
    {"{}", "image:5x7x1", "f4587909b02fb7af887e8e8458b9c5a8"},
    {"{\"p\": 0.5}", "image:20x30x3", "709f169b8b7f3a6483e59f88d016da9a"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_equalize = {
    MR_OP_HEADER,
    .name = "equalize",
    .summary = "Spreads the values of each channel evenly.",
    .doc = "Equal to Pillow's ImageOps.equalize. Done if draw 0, uniform in [0, 1), is below p.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(equalize_params),
    .params = rows,
    .check = check,
    .plan = mr_points_plan,
    .run = mr_points_run,
    .want = mr_points_want,
    .pass = mr_points_pass,
    .flags_for = mr_points_flags,
    .examples = examples,
    .also = "random_equalize",
};
