/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - the inner loops over encoded columns of numbers: bit-packed integers, dictionaries,
 * differences, split bytes. Numbers are little-endian. As with pixels, each has a scalar reference
 * and variants that give the same bits. */
#ifndef MR_KERNELS_COLUMNS_H
#define MR_KERNELS_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_column_kernels {
    const char *name;

    /* n integers of `width` bits, packed from the lowest bit of the first byte on. Nothing from
     * in + (n * width + 7) / 8 on is used, and nothing from in_end on is read. */
    void (*unpack_32)(uint32_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                      int32_t width); /* 0 to 32 */
    void (*unpack_64)(uint64_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                      int32_t width); /* 0 to 64 */

    /* n bits to bytes of 0 or 1. */
    void (*unpack_bits)(uint8_t *out, const uint8_t *in, size_t n);

    uint32_t (*largest)(const uint32_t *in, size_t n); /* 0 of none */

    /* Whether they are first, first + 1 and so on. */
    bool (*counts_up)(const uint32_t *in, size_t n, uint32_t first);

    /* Numbers of 4 and 8 bytes stand at the beginning of n cells, one for each cell that is valid
     * (1; else 0): each goes to its cell, in place, and the other cells become zeros. */
    void (*spread_4)(void *cells, const uint8_t *valid, size_t n, size_t values);
    void (*spread_8)(void *cells, const uint8_t *valid, size_t n, size_t values);

    /* Running sums of differences, in place: value[i] = start + sum of (value[k] + step), k <= i,
     * with wrap-around. Returns the last (start where n is 0). */
    uint32_t (*sum_32)(uint32_t *value, size_t n, uint32_t step, uint32_t start);
    uint64_t (*sum_64)(uint64_t *value, size_t n, uint64_t step, uint64_t start);

    /* Byte k of value i is in[k * n + i]: n values of `width` bytes put together. */
    void (*join_bytes)(uint8_t *out, const uint8_t *in, size_t n, size_t width);
} mr_column_kernels;

/* The best variant for a set of features of core/cpu.h; 0 is the scalar reference. */
const mr_column_kernels *mr_column_kernels_for(uint32_t cpu_features);

extern const mr_column_kernels mr_column_kernels_scalar;
#if defined(__x86_64__)
extern const mr_column_kernels mr_column_kernels_avx2;
extern const mr_column_kernels mr_column_kernels_avx512;
#endif

#endif
