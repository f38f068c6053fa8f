/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - numbers between columns and rows. A row is words of eight bytes; a word is one number of
 * eight bytes or two of four. Four words are handled together, so that four rows of them are a
 * square to be transposed. Each loop has a scalar reference and variants that give the same
 * bytes. */
#ifndef MR_KERNELS_ROWS_H
#define MR_KERNELS_ROWS_H

#include <stddef.h>
#include <stdint.h>

enum { MR_ROW_WORDS = 4 };

/* Where a word is among columns: its numbers have eight bytes, or `high` is another column and they
 * have four. Without `low` there are none: rows get zeros, and nothing is taken. */
typedef struct mr_word {
    uint8_t *low, *high;
} mr_word;

typedef struct mr_row_kernels {
    const char *name;

    /* Numbers first + i of the columns become four words at rows + i * stride. */
    void (*fill)(uint8_t *rows, size_t stride, const mr_word from[MR_ROW_WORDS], size_t first,
                 size_t n);

    /* The other way, from rows that are anywhere: four words at rows[i] + offset become numbers
     * first + i of the columns. */
    void (*take)(const uint8_t *const *rows, size_t offset, const mr_word to[MR_ROW_WORDS],
                 size_t first, size_t n);

    /* Bytes, a multiple of 32 and aligned to as many, to where nobody will look for them soon. */
    void (*put)(uint8_t *to, const uint8_t *from, size_t bytes);
} mr_row_kernels;

/* The best variant for a set of features of core/cpu.h; 0 is the scalar reference. */
const mr_row_kernels *mr_row_kernels_for(uint32_t cpu_features);

extern const mr_row_kernels mr_row_kernels_scalar;
#if defined(__x86_64__)
extern const mr_row_kernels mr_row_kernels_avx2;
#endif

#endif
