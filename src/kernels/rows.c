/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - see rows.h: the scalar reference, word by word. */
#include "kernels/rows.h"

#include <string.h>

#include "core/cpu.h"

static void fill_word(uint8_t *rows, size_t stride, mr_word from, size_t first, size_t n) {
    for (size_t i = 0; i < n; i++, rows += stride) {
        if (from.high) {
            memcpy(rows, from.low + (first + i) * 4, 4);
            memcpy(rows + 4, from.high + (first + i) * 4, 4);
        } else if (from.low) {
            memcpy(rows, from.low + (first + i) * 8, 8);
        } else {
            memset(rows, 0, 8);
        }
    }
}

static void fill(uint8_t *rows, size_t stride, const mr_word from[MR_ROW_WORDS], size_t first,
                 size_t n) {
    for (size_t k = 0; k < MR_ROW_WORDS; k++) {
        fill_word(rows + k * 8, stride, from[k], first, n);
    }
}

static void take_word(const uint8_t *const *rows, size_t offset, mr_word to, size_t first,
                      size_t n) {
    for (size_t i = 0; to.low && i < n; i++) {
        const uint8_t *word = rows[i] + offset;
        if (to.high) {
            memcpy(to.low + (first + i) * 4, word, 4);
            memcpy(to.high + (first + i) * 4, word + 4, 4);
        } else {
            memcpy(to.low + (first + i) * 8, word, 8);
        }
    }
}

static void take(const uint8_t *const *rows, size_t offset, const mr_word to[MR_ROW_WORDS],
                 size_t first, size_t n) {
    for (size_t k = 0; k < MR_ROW_WORDS; k++) {
        take_word(rows, offset + k * 8, to[k], first, n);
    }
}

static void put(uint8_t *to, const uint8_t *from, size_t bytes) {
    memcpy(to, from, bytes);
}

const mr_row_kernels mr_row_kernels_scalar = {
    .name = "scalar", .fill = fill, .take = take, .put = put};

const mr_row_kernels *mr_row_kernels_for(uint32_t cpu_features) {
#if defined(__x86_64__)
    if (cpu_features & MR_CPU_AVX2) {
        return &mr_row_kernels_avx2;
    }
#endif
    (void)cpu_features;
    return &mr_row_kernels_scalar;
}
