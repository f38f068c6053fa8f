/* SPDX-License-Identifier: Apache-2.0 */
/* rows_avx2.c - numbers between columns and rows with AVX2: squares of four rows by four words are
 * transposed in registers. Equal to the scalar ones byte for byte. */
#include "kernels/rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

/* Rows of the square become its columns. */
AVX2_INLINE void transpose(__m256i v[4]) {
    __m256i a = _mm256_unpacklo_epi64(v[0], v[1]), b = _mm256_unpackhi_epi64(v[0], v[1]);
    __m256i c = _mm256_unpacklo_epi64(v[2], v[3]), d = _mm256_unpackhi_epi64(v[2], v[3]);
    v[0] = _mm256_permute2x128_si256(a, c, 0x20);
    v[1] = _mm256_permute2x128_si256(b, d, 0x20);
    v[2] = _mm256_permute2x128_si256(a, c, 0x31);
    v[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

/* A word of four rows, from number i of its columns on. */
AVX2_INLINE __m256i load_word(mr_word from, size_t i) {
    if (!from.low) {
        return _mm256_setzero_si256();
    }
    if (!from.high) {
        return _mm256_loadu_si256((const __m256i *)(from.low + i * 8));
    }
    __m128i low = _mm_loadu_si128((const __m128i *)(from.low + i * 4));
    __m128i high = _mm_loadu_si128((const __m128i *)(from.high + i * 4));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi32(low, high)),
                                   _mm_unpackhi_epi32(low, high), 1);
}

AVX2_INLINE void store_word(mr_word to, size_t i, __m256i word) {
    const __m256i apart = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    if (to.high) {
        __m256i both = _mm256_permutevar8x32_epi32(word, apart);
        _mm_storeu_si128((__m128i *)(to.low + i * 4), _mm256_castsi256_si128(both));
        _mm_storeu_si128((__m128i *)(to.high + i * 4), _mm256_extracti128_si256(both, 1));
    } else if (to.low) {
        _mm256_storeu_si256((__m256i *)(to.low + i * 8), word);
    }
}

AVX2 static void fill(uint8_t *rows, size_t stride, const mr_word from[MR_ROW_WORDS], size_t first,
                      size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4, rows += 4 * stride) {
        __m256i v[4];
        for (int k = 0; k < 4; k++) {
            v[k] = load_word(from[k], first + i);
        }
        transpose(v);
        for (size_t k = 0; k < 4; k++) {
            _mm256_storeu_si256((__m256i *)(rows + k * stride), v[k]);
        }
    }
    mr_row_kernels_scalar.fill(rows, stride, from, first + i, n - i);
}

AVX2 static void take(const uint8_t *const *rows, size_t offset, const mr_word to[MR_ROW_WORDS],
                      size_t first, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m256i v[4];
        for (size_t k = 0; k < 4; k++) {
            v[k] = _mm256_loadu_si256((const __m256i *)(rows[i + k] + offset));
        }
        transpose(v);
        for (int k = 0; k < 4; k++) {
            store_word(to[k], first + i, v[k]);
        }
    }
    mr_row_kernels_scalar.take(rows + i, offset, to, first + i, n - i);
}

/* Past the caches: lines that are written whole need not be read before. */
AVX2 static void put(uint8_t *to, const uint8_t *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 32) {
        _mm256_stream_si256((__m256i *)(to + at), _mm256_loadu_si256((const __m256i *)(from + at)));
    }
    _mm_sfence();
}

const mr_row_kernels mr_row_kernels_avx2 = {.name = "avx2", .fill = fill, .take = take, .put = put};
#endif
