/* SPDX-License-Identifier: Apache-2.0 */
/* blur.c - see blur.h. */
#include "kernels/blur.h"

#include <millrace/op.h>
#include <string.h>

static double gaussian(int32_t i, int32_t n, double sigma) {
    double x = ((double)i - (double)(n - 1) / 2.0) / sigma, exponent = -0.5 * x * x;
    return exponent < -700.0 ? 0.0 : mr_exact_exp(exponent);
}

void mr_gaussian_weights(float *weights, int32_t n, double sigma) {
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += gaussian(i, n, sigma);
    }
    for (int32_t i = 0; i < n; i++) {
        weights[i] = (float)(gaussian(i, n, sigma) / sum);
    }
}

int64_t mr_reflect_index(int64_t i, int64_t n) {
    if (n == 1) {
        return 0;
    }
    int64_t period = 2 * (n - 1), at = i % period;
    at = at < 0 ? at + period : at;
    return at < n ? at : period - at;
}

void mr_blur_add_bytes(float *sums, const uint8_t *row, size_t n, float weight) {
    for (size_t i = 0; i < n; i++) {
        sums[i] += weight * (float)row[i];
    }
}

void mr_blur_add_floats(float *sums, const float *row, size_t n, float weight) {
    for (size_t i = 0; i < n; i++) {
        sums[i] += weight * row[i];
    }
}

void mr_blur_along(float *out, const float *in, size_t n, size_t step, const float *weights,
                   int32_t n_weights) {
    memset(out, 0, n * sizeof *out);
    for (int32_t k = 0; k < n_weights; k++) {
        mr_blur_add_floats(out, in + (size_t)k * step, n, weights[k]);
    }
}
