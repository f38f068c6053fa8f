/* SPDX-License-Identifier: Apache-2.0 */
/* blur.h - Gaussian weights, and their application in float32 along a row and down columns. Sums
 * are made tap by tap, each for all outputs, so that what a compiler makes of the loops is the
 * same. */
#ifndef MR_KERNELS_BLUR_H
#define MR_KERNELS_BLUR_H

#include <stddef.h>
#include <stdint.h>

/* n weights (odd) of a Gaussian, whose sum is 1: as torchvision makes them, but in double, rounded
 * to float32 at the end. */
void mr_gaussian_weights(float *weights, int32_t n, double sigma);

/* ... 2 1 0 1 2 ... n-2 n-1 n-2 ...: the index inside [0, n) that stands for i outside of it. */
int64_t mr_reflect_index(int64_t i, int64_t n);

void mr_blur_add_bytes(float *sums, const uint8_t *row, size_t n, float weight);
void mr_blur_add_floats(float *sums, const float *row, size_t n, float weight);

/* out[i] = sum over k of weights[k] * in[i + k * step], for n outputs. */
void mr_blur_along(float *out, const float *in, size_t n, size_t step, const float *weights,
                   int32_t n_weights);

#endif
