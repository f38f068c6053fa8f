/* SPDX-License-Identifier: Apache-2.0 */
/* frequency_mask.c - the op frequency_mask of SpecAugment. */
#include "ops/mask.h"

static const mr_param rows[] = {MR_MASK_ROWS(
    "-2", "Which axis is frequency: -2 for spectrograms of layout freq_time, -1 for time_freq.")};

static const mr_example examples[] = {
    {"{\"width\": 8, \"value\": -1}", "float64:30x5", "e6fe6825e9c9696d0c99c002d152b876"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_frequency_mask = {
    MR_OP_HEADER,
    .name = "frequency_mask",
    .summary = "Covers bands of frequencies of a spectrogram.",
    .doc = MR_MASK_DOC,
    .flags = MR_OP_RANDOM,
    .version = 1,
    .param_size = sizeof(mr_mask_params),
    .params = rows,
    .plan = mr_mask_plan,
    .run = mr_mask_run,
    .examples = examples,
};
