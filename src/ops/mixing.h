/* SPDX-License-Identifier: Apache-2.0 */
/* mixing.h - what mix_up and cut_mix share: each sample of a batch is put together with the one
 * before it, the first with the last, by a share that is drawn once for the batch. */
#ifndef MR_OPS_MIXING_H
#define MR_OPS_MIXING_H

#include <millrace/op.h>

#define MR_MIXING_ALPHA_ROW(struct_name)                                                           \
    {                                                                                              \
        .name = "alpha", .kind = MR_PARAM_FLOAT, .offset = offsetof(struct_name, alpha),           \
        .fallback = "1", .min = 1e-3, .max = 1e3,                                                  \
        .doc = "Of the Beta(alpha, alpha) that a sample's own share is drawn from: 1 is uniform, " \
               "less is nearer to 0 or 1."                                                         \
    }

/* A number of Beta(alpha, alpha), by rejection; takes draws from `draw` on. */
double mr_draw_beta(const mr_key *key, uint32_t draw, double alpha);

/* Whether values of the field can be blended; `name` is the op's. */
mr_status mr_check_blended(const char *name, const mr_field *field, mr_error *err);

/* own * value + (1 - own) * that of the sample before, for n samples. */
mr_status mr_blend(mr_call *call, int64_t n, const mr_column *column, double own, mr_error *err);

/* Calls put for every sample and the one before it, as both were at the beginning. */
mr_status mr_with_previous(mr_call *call, int64_t n, const mr_column *column,
                           void (*put)(const void *user, void *to, const void *from),
                           const void *user, mr_error *err);

#endif
