/* SPDX-License-Identifier: Apache-2.0 */
/* noise.h - randomness for each pixel. A key has 65,536 draws, fewer than an image has pixels, so
 * one draw is spread: bits for index i are a hash (splitmix64) of the draw and i. Any place of an
 * image can be asked for by itself, so rows need not come in order. */
#ifndef MR_OPS_NOISE_H
#define MR_OPS_NOISE_H

#include <stdint.h>

static inline uint64_t mr_noise_bits(uint64_t draw, uint64_t index) {
    uint64_t z = draw + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in [-1, 1), 24 bits. */
static inline float mr_noise_unit(uint64_t draw, uint64_t index) {
    return (float)(mr_noise_bits(draw, index) >> 40) * 0x1p-23f - 1.0f;
}

#endif
