/* SPDX-License-Identifier: Apache-2.0 */
/* time_mask.c - the op time_mask of SpecAugment. */
#include "ops/mask.h"

static const mr_param rows[] = {MR_MASK_ROWS(
    "-1", "Which axis is time: -1 for spectrograms of layout freq_time, -2 for time_freq.")};

static const mr_example examples[] = {
    {"{\"width\": 8, \"masks\": 2}", "float32:6x40", "4633aed6a7a38b8d2e6119d0380ad70e"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_time_mask = {
    MR_OP_HEADER,
    .name = "time_mask",
    .summary = "Covers stretches of time of a spectrogram.",
    .doc = MR_MASK_DOC,
    .flags = MR_OP_RANDOM,
    .version = 1,
    .param_size = sizeof(mr_mask_params),
    .params = rows,
    .plan = mr_mask_plan,
    .run = mr_mask_run,
    .examples = examples,
};
