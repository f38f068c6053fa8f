/* SPDX-License-Identifier: Apache-2.0 */
/* invert.c - the op invert: the negative. */
#include "ops/points.h"

#include <stddef.h>

typedef struct invert_params {
    mr_points_params points;
} invert_params;

static void make_table(const void *params, uint8_t table[256]) {
    (void)params;
    mr_table_invert(table);
}

static mr_status check(void *params, mr_error *err) {
    invert_params *p = params;
    (void)err;
    p->points.table = make_table;
    return MR_OK;
}

static const mr_param rows[] = {
    MR_POINTS_P_ROW(invert_params),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:5x7x3", "5a2dff226ca33694f4b54dcce764865b"},
    {"{\"p\": 0.5}", "image:5x7x3", "8f358a71d85f5fbf2b77e9cf19b9781b"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_invert = {
    MR_OP_HEADER,
    .name = "invert",
    .summary = "Makes the negative of the image.",
    .doc = "Equal to Pillow's ImageOps.invert. Done if draw 0, uniform in [0, 1), is below p.",
    .flags = MR_OP_RANDOM | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(invert_params),
    .params = rows,
    .check = check,
    .plan = mr_points_plan,
    .run = mr_points_run,
    .want = mr_points_want,
    .pass = mr_points_pass,
    .flags_for = mr_points_flags,
    .examples = examples,
    .also = "random_invert invert_img",
};
