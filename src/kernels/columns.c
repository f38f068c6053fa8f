/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - loops over encoded columns: the references, and which variants run where. */
#include "kernels/columns.h"

#include <string.h>

#include "core/cpu.h"

/* Bits from bit `at` of the input on: up to 64 of them, as far as there are bytes. */
static uint64_t bits_at(const uint8_t *in, const uint8_t *in_end, size_t at, int32_t width) {
    const uint8_t *byte = in + at / 8;
    size_t left = (size_t)(in_end - byte), shift = at % 8;
    uint64_t low = 0;
    if (left >= 8) {
        memcpy(&low, byte, 8); /* of a size that the compiler knows */
    } else {
        memcpy(&low, byte, left);
    }
    low >>= shift;
    if (shift + (size_t)width > 64 && left > 8) {
        low |= (uint64_t)byte[8] << (64 - shift);
    }
    return width == 64 ? low : low & (((uint64_t)1 << width) - 1);
}

static void unpack_32(uint32_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                      int32_t width) {
    if (width == 0) {
        memset(out, 0, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint32_t)bits_at(in, in_end, i * (size_t)width, width);
    }
}

static void unpack_64(uint64_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                      int32_t width) {
    if (width == 0) {
        memset(out, 0, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = bits_at(in, in_end, i * (size_t)width, width);
    }
}

static void unpack_bits(uint8_t *out, const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = in[i / 8] >> (i % 8) & 1;
    }
}

static uint32_t largest(const uint32_t *in, size_t n) {
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        found = in[i] > found ? in[i] : found;
    }
    return found;
}

static bool counts_up(const uint32_t *in, size_t n, uint32_t first) {
    uint32_t differ = 0;
    for (size_t i = 0; i < n; i++) {
        differ |= in[i] ^ (first + (uint32_t)i);
    }
    return differ == 0;
}

/* From the last cell on, until all before it are where they are to be. No branch: whether a cell is
 * valid is hard to guess. */
#define SPREAD(size, type)                                                                         \
    static void spread_##size(void *cells, const uint8_t *valid, size_t n, size_t values) {        \
        type *cell = cells;                                                                        \
        for (size_t i = n, k = values; i-- > 0 && k <= i;) {                                       \
            type value = cell[k - (k > 0)] & ((type)0 - (type)valid[i]);                           \
            k -= valid[i];                                                                         \
            cell[i] = value;                                                                       \
        }                                                                                          \
    }
SPREAD(4, uint32_t)
SPREAD(8, uint64_t)

static uint32_t sum_32(uint32_t *value, size_t n, uint32_t step, uint32_t start) {
    for (size_t i = 0; i < n; i++) {
        start += value[i] + step;
        value[i] = start;
    }
    return start;
}

static uint64_t sum_64(uint64_t *value, size_t n, uint64_t step, uint64_t start) {
    for (size_t i = 0; i < n; i++) {
        start += value[i] + step;
        value[i] = start;
    }
    return start;
}

static void join_bytes(uint8_t *out, const uint8_t *in, size_t n, size_t width) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < width; k++) {
            out[i * width + k] = in[k * n + i];
        }
    }
}

const mr_column_kernels mr_column_kernels_scalar = {
    .name = "scalar",
    .unpack_32 = unpack_32,
    .unpack_64 = unpack_64,
    .unpack_bits = unpack_bits,
    .largest = largest,
    .counts_up = counts_up,
    .spread_4 = spread_4,
    .spread_8 = spread_8,
    .sum_32 = sum_32,
    .sum_64 = sum_64,
    .join_bytes = join_bytes,
};

const mr_column_kernels *mr_column_kernels_for(uint32_t cpu_features) {
#if defined(__x86_64__)
    if (cpu_features & MR_CPU_AVX512) {
        return &mr_column_kernels_avx512;
    }
    if (cpu_features & MR_CPU_AVX2) {
        return &mr_column_kernels_avx2;
    }
#endif
    (void)cpu_features;
    return &mr_column_kernels_scalar;
}
