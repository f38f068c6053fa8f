/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - what time_mask and frequency_mask share: bands of one axis set to a value. */
#ifndef MR_OPS_MASK_H
#define MR_OPS_MASK_H

#include <millrace/op.h>

#define MR_MASKS_MAX 1024

typedef struct mr_mask_params {
    int64_t width, masks, axis;
    double share, value;
} mr_mask_params;

mr_status mr_mask_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err);
mr_status mr_mask_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                      mr_error *err);

/* The rows of both ops, which differ in the axis alone. */
#define MR_MASK_ROWS(axis_fallback, axis_doc)                                                      \
    {.name = "width",                                                                              \
     .kind = MR_PARAM_INT,                                                                         \
     .offset = offsetof(mr_mask_params, width),                                                    \
     .min = 1,                                                                                     \
     .max = 2147483647,                                                                            \
     .doc = "A mask covers fewer places than this."},                                              \
        {.name = "masks",                                                                          \
         .kind = MR_PARAM_INT,                                                                     \
         .offset = offsetof(mr_mask_params, masks),                                                \
         .fallback = "1",                                                                          \
         .min = 1,                                                                                 \
         .max = MR_MASKS_MAX,                                                                      \
         .doc = "How many masks; they may overlap."},                                              \
        {.name = "share",                                                                          \
         .kind = MR_PARAM_FLOAT,                                                                   \
         .offset = offsetof(mr_mask_params, share),                                                \
         .fallback = "1",                                                                          \
         .min = 0,                                                                                 \
         .max = 1,                                                                                 \
         .doc = "A mask covers no more than this part of the axis."},                              \
        {.name = "value",                                                                          \
         .kind = MR_PARAM_FLOAT,                                                                   \
         .offset = offsetof(mr_mask_params, value),                                                \
         .fallback = "0",                                                                          \
         .doc = "What the covered numbers become."},                                               \
        {.name = "axis",                                                                           \
         .kind = MR_PARAM_INT,                                                                     \
         .offset = offsetof(mr_mask_params, axis),                                                 \
         .fallback = (axis_fallback),                                                              \
         .min = -MR_MAX_DIMS,                                                                      \
         .max = MR_MAX_DIMS - 1,                                                                   \
         .doc = (axis_doc)},                                                                       \
    {                                                                                              \
        .name = NULL                                                                               \
    }

#define MR_MASK_DOC                                                                                \
    "As in SpecAugment and torchaudio, the same mask for all channels. Of a limit l = min(width, " \
    "floor(share x places)), mask k takes draw 2k for its width, unit() x l rounded down, and "    \
    "draw "                                                                                        \
    "2k + 1 for its first place, unit() x (places - that width before rounding), rounded down."

#endif
