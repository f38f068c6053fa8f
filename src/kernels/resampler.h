/* SPDX-License-Identifier: Apache-2.0 */
/* resampler.h - resizing an image whose rows come one after the other, any rectangle of the result.
 * The same bytes as mr_resample; memory for the few rows that a row of the result is made of. */
#ifndef MR_KERNELS_RESAMPLER_H
#define MR_KERNELS_RESAMPLER_H

#include "kernels/kernels.h"

typedef struct mr_resampler_config {
    const mr_kernels *kernels;
    mr_filter filter;
    int32_t channels;
    mr_axis x, y;          /* the whole input and the whole result */
    mr_span rows, columns; /* of the result that are wanted */
} mr_resampler_config;

/* The rows (columns) of the input that the wanted rows (columns) are made of. */
mr_span mr_resampler_needs(const mr_axis *axis, mr_filter filter, mr_span wanted);

typedef struct mr_resampler mr_resampler;

/* Bytes of memory for a resampler, aligned to 64, and making one in it. */
size_t mr_resampler_memory(const mr_resampler_config *config);
mr_resampler *mr_resampler_start(const mr_resampler_config *config, void *memory);

/* The next needed row of the input, cut to the needed columns. */
void mr_resampler_put(mr_resampler *resampler, const uint8_t *row);

/* The next wanted row of the result, cut to the wanted columns, valid until the next call; NULL:
 * more input is needed. */
const uint8_t *mr_resampler_get(mr_resampler *resampler);

#endif
