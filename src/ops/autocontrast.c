/* SPDX-License-Identifier: Apache-2.0 */
/* autocontrast.c - the op autocontrast: values stretched to the full range. */
#include "ops/points.h"

#include <stddef.h>

#include "core/error.h"

typedef struct autocontrast_params {
    mr_points_params points;
    mr_floats cutoff;
} autocontrast_params;

static void make_table(const void *params, const uint64_t histogram[256], uint8_t table[256]) {
    const autocontrast_params *p = params;
    mr_table_autocontrast(histogram, p->cutoff.v[0], p->cutoff.v[p->cutoff.n - 1], table);
}

static mr_status check(void *params, mr_error *err) {
    autocontrast_params *p = params;
    if (p->cutoff.v[0] + p->cutoff.v[p->cutoff.n - 1] > 100.0) {
        return mr_fail(err, MR_E_PARAM, "cutoff takes more than 100 percent off");
    }
    p->points.table_for = make_table;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "cutoff",
     .kind = MR_PARAM_FLOATS,
     .offset = offsetof(autocontrast_params, cutoff),
     .fallback = "0",
     .min = 0,
     .max = 100,
     .min_len = 1,
     .max_len = 2,
     .doc = "Percent of the values to leave out at both ends, or at the low and at the high one."},
    MR_POINTS_P_ROW(autocontrast_params),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:3x3x3", "242aed2989fec4ddba20fb999b673cb3"},
    {"{\"cutoff\": [10, 20]}", "image:20x30x1", "b767d40e6d9746213a4720570eca7389"},
    {"{\"p\": 0.5}", "image:3x3x3", "68d6b63ef8ee2338728d2be40062a932"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_autocontrast = {
    MR_OP_HEADER,
    .name = "autocontrast",
    .summary = "Stretches the values of each channel to the full range.",
    .doc =
        "Equal to Pillow's ImageOps.autocontrast. Done if draw 0, uniform in [0, 1), is below p.",
    .flags = MR_OP_RANDOM | MR_OP_HEAVY | MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(autocontrast_params),
    .params = rows,
    .check = check,
    .plan = mr_points_plan,
    .run = mr_points_run,
    .want = mr_points_want,
    .pass = mr_points_pass,
    .flags_for = mr_points_flags,
    .examples = examples,
    .also = "random_autocontrast",
};
