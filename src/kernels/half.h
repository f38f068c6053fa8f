/* SPDX-License-Identifier: Apache-2.0 */
/* half.h - float16 and bfloat16 as bits: round to nearest, ties to even, as the hardware does. */
#ifndef MR_KERNELS_HALF_H
#define MR_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t mr_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float mr_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* bits >> shift, rounded to nearest, ties to even. */
static inline uint32_t mr_shift_round(uint32_t bits, uint32_t shift) {
    uint32_t odd = (bits >> shift) & 1u;
    return (bits + (1u << (shift - 1)) - 1u + odd) >> shift;
}

static inline uint16_t mr_bf16(float value) {
    uint32_t bits = mr_float_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) { /* keep NaN a NaN */
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)mr_shift_round(bits, 16);
}

static inline uint16_t mr_f16(float value) {
    uint32_t bits = mr_float_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u | (rest >> 13 & 0x3FFu));
    }
    if (rest >= 0x477FF000u) { /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7C00u);
    }
    if (rest >= 0x38800000u) { /* normal from 2^-14 on: rebias the exponent from 127 to 15 */
        return (uint16_t)(sign | mr_shift_round(rest - 0x38000000u, 13));
    }
    if (rest < 0x33000000u) { /* below half of the smallest subnormal, 2^-25 */
        return (uint16_t)sign;
    }
    uint32_t shift = 126u - (rest >> 23); /* 14 .. 24 */
    return (uint16_t)(sign | mr_shift_round((rest & 0x7FFFFFu) | 0x800000u, shift));
}

static inline float mr_float_of_bf16(uint16_t bits) {
    return mr_float_of_bits((uint32_t)bits << 16);
}

static inline float mr_float_of_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1Fu;
    uint32_t fraction = bits & 0x3FFu;
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-24f; /* exact */
        return sign ? -value : value;
    }
    exponent = exponent == 31 ? 255 : exponent + 112;
    return mr_float_of_bits(sign | exponent << 23 | fraction << 13);
}

#endif
