/* SPDX-License-Identifier: Apache-2.0 */
/* solarize.c - the op solarize: bright values turned over. */
#include "ops/points.h"

#include <stddef.h>

typedef struct solarize_params {
    mr_points_params points;
    double threshold;
} solarize_params;

static void make_table(const void *params, uint8_t table[256]) {
    const solarize_params *p = params;
    mr_table_solarize(p->threshold, table);
}

static mr_status check(void *params, mr_error *err) {
    solarize_params *p = params;
    (void)err;
    p->points.table = make_table;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "threshold",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(solarize_params, threshold),
     .fallback = "128",
     .min = 0,
     .max = 256,
     .doc = "Values from here on become 255 less themselves."},
    MR_POINTS_P_ROW(solarize_params),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:5x7x3", "b28321e43deb1b3c1a38344558d13cb3"},
    {"{\"threshold\": 30.5}", "image:5x7x1", "c66efa21035a0b0379aac7760357b47a"},
    {"{\"p\": 0.5}", "image:5x7x3", "8f358a71d85f5fbf2b77e9cf19b9781b"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_solarize = {
    MR_OP_HEADER,
    .name = "solarize",
    .summary = "Turns bright values over.",
    .doc = "Equal to Pillow's ImageOps.solarize. Done if draw 0, uniform in [0, 1), is below p.",
    .flags = MR_OP_RANDOM | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(solarize_params),
    .params = rows,
    .check = check,
    .plan = mr_points_plan,
    .run = mr_points_run,
    .want = mr_points_want,
    .pass = mr_points_pass,
    .flags_for = mr_points_flags,
    .examples = examples,
    .also = "random_solarize",
};
