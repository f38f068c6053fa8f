/* SPDX-License-Identifier: Apache-2.0 */
/* mix_up.c - the op mix_up: every sample blended with another one of its batch, targets too. */
#include "ops/mixing.h"

#include <stddef.h>

#include "core/error.h"

enum { DRAW_SHARE };

typedef struct mix_up_params {
    double alpha;
} mix_up_params;

static mr_status check_batch(const void *params, const mr_field *fields, int32_t n, mr_error *err) {
    (void)params;
    for (int32_t i = 0; i < n; i++) {
        MR_TRY(mr_check_blended("mix_up", &fields[i], err));
    }
    return MR_OK;
}

static mr_status run_batch(const void *params, mr_call *call, int64_t n, const mr_column *fields,
                           int32_t n_fields, mr_error *err) {
    const mix_up_params *p = params;
    double own = mr_draw_beta(&call->key, DRAW_SHARE, p->alpha);
    for (int32_t i = 0; i < n_fields; i++) {
        MR_TRY(mr_blend(call, n, &fields[i], own, err));
    }
    return MR_OK;
}

static const mr_param rows[] = {
    MR_MIXING_ALPHA_ROW(mix_up_params),
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "fields:image=float32x3x2x4x5,label=float32x3x7", "dafc794c10a0a3e070ef2674366039b4"},
    {"{\"alpha\": 0.2}", "fields:image=float16x4x6,label=bfloat16x4x3",
     "0d766a1b1985516d5ae80950ac29beda"},
    {"{\"alpha\": 8}", "fields:label=float32x2", "94c44ce915a0ecef4982dcefcac909de"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_mix_up = {
    MR_OP_HEADER,
    .name = "mix_up",
    .summary = "Blends every sample of a batch with the one before it, targets alike.",
    .doc =
        "For the same share equal to torchvision's v2.MixUp: sample i becomes share * sample i + "
        "(1 - share) * sample i - 1, the first with the last, in float32 and for the halves as "
        "torch rounds them; labels must be rows of numbers, as one_hot makes them. The share is of "
        "Beta(alpha, alpha), by rejection with draws 0 and 1, 2 and 3, ..., of the batch's first "
        "sample. What is mixed with what depends on the batch, so on world and rank.",
    .flags = MR_OP_RANDOM | MR_OP_BATCH,
    .version = 1,
    .param_size = sizeof(mix_up_params),
    .params = rows,
    .check_batch = check_batch,
    .run_batch = run_batch,
    .examples = examples,
};
