/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct_avx2.c - the inverse DCT of jpeg_idct.c, two blocks at a time: one in each half of a
 * register, so that no value ever crosses from half to half. Products of 16-bit values are summed
 * in pairs at 32 bits. */
#include "kernels/jpeg.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

enum { PASS_1_SHIFT = 11, PASS_2_SHIFT = 18, SPARSE = 10 };

/* Factors of rows 1 and 3 that are summed where rows 4 to 7 are 0. */
enum {
    ODD_0_1 = MR_DCT_1_501 - MR_DCT_0_899 + MR_DCT_1_175 - MR_DCT_0_390,
    ODD_1_3 = MR_DCT_3_072 - MR_DCT_2_562 + MR_DCT_1_175 - MR_DCT_1_961,
};

/* 16-bit values of both blocks, as 32-bit values: of the first four columns, of the others. */
typedef struct wide {
    __m256i low, high;
} wide;

AVX2_INLINE wide dot(__m256i x, int a, __m256i y, int b) {
    const __m256i factors = _mm256_set1_epi32((int)((uint32_t)b << 16 | (uint16_t)a));
    return (wide){_mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), factors),
                  _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), factors)};
}

AVX2_INLINE wide add(wide a, wide b) {
    return (wide){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

AVX2_INLINE wide subtract(wide a, wide b) {
    return (wide){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

/* Every result is one of these and something else, so what rounds the result is added here. */
AVX2_INLINE __m256i scaled_up(__m256i doubled, const int shift) {
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    return _mm256_add_epi32(_mm256_srai_epi32(doubled, 3), half);
}

AVX2_INLINE wide scale_up(__m256i x, const int shift) {
    const __m256i zero = _mm256_setzero_si256();
    return (wide){scaled_up(_mm256_unpacklo_epi16(zero, x), shift),
                  scaled_up(_mm256_unpackhi_epi16(zero, x), shift)};
}

AVX2_INLINE __m256i descale(wide x, const int shift) {
    return _mm256_packs_epi32(_mm256_srai_epi32(x.low, shift), _mm256_srai_epi32(x.high, shift));
}

AVX2_INLINE void finish(const wide even[4], const wide odd[4], __m256i out[8], const int shift) {
    for (int i = 0; i < 4; i++) {
        out[i] = descale(add(even[i], odd[i]), shift);
        out[7 - i] = descale(subtract(even[i], odd[i]), shift);
    }
}

AVX2_INLINE void transform(const __m256i in[8], __m256i out[8], const int shift) {
    wide even[4], odd[4];
    wide low = dot(in[2], MR_DCT_0_541, in[6], MR_DCT_0_541 - MR_DCT_1_847);
    wide high = dot(in[2], MR_DCT_0_541 + MR_DCT_0_765, in[6], MR_DCT_0_541);
    wide sum = scale_up(_mm256_add_epi16(in[0], in[4]), shift);
    wide difference = scale_up(_mm256_sub_epi16(in[0], in[4]), shift);
    even[0] = add(sum, high);
    even[1] = add(difference, low);
    even[2] = subtract(difference, low);
    even[3] = subtract(sum, high);
    __m256i z3 = _mm256_add_epi16(in[7], in[3]), z4 = _mm256_add_epi16(in[5], in[1]);
    wide common_3 = dot(z3, MR_DCT_1_175 - MR_DCT_1_961, z4, MR_DCT_1_175);
    wide common_4 = dot(z3, MR_DCT_1_175, z4, MR_DCT_1_175 - MR_DCT_0_390);
    odd[0] = add(dot(in[7], -MR_DCT_0_899, in[1], MR_DCT_1_501 - MR_DCT_0_899), common_4);
    odd[1] = add(dot(in[5], -MR_DCT_2_562, in[3], MR_DCT_3_072 - MR_DCT_2_562), common_3);
    odd[2] = add(dot(in[5], MR_DCT_2_053 - MR_DCT_2_562, in[3], -MR_DCT_2_562), common_4);
    odd[3] = add(dot(in[7], MR_DCT_0_298 - MR_DCT_0_899, in[1], -MR_DCT_0_899), common_3);
    finish(even, odd, out, shift);
}

/* The same where in[4] to in[7] are 0: all that is multiplied by them is left out, and factors of
 * the same value are summed beforehand. */
AVX2_INLINE void transform_4(const __m256i in[4], __m256i out[8], const int shift) {
    const __m256i zero = _mm256_setzero_si256();
    wide even[4], odd[4];
    wide low = dot(in[2], MR_DCT_0_541, zero, 0);
    wide high = dot(in[2], MR_DCT_0_541 + MR_DCT_0_765, zero, 0);
    wide sum = scale_up(in[0], shift);
    even[0] = add(sum, high);
    even[1] = add(sum, low);
    even[2] = subtract(sum, low);
    even[3] = subtract(sum, high);
    odd[0] = dot(in[1], ODD_0_1, in[3], MR_DCT_1_175);
    odd[1] = dot(in[1], MR_DCT_1_175, in[3], ODD_1_3);
    odd[2] = dot(in[1], MR_DCT_1_175 - MR_DCT_0_390, in[3], MR_DCT_1_175 - MR_DCT_2_562);
    odd[3] = dot(in[1], MR_DCT_1_175 - MR_DCT_0_899, in[3], MR_DCT_1_175 - MR_DCT_1_961);
    finish(even, odd, out, shift);
}

/* The same of four columns, the others being 0: of rows i and 4 + i, one behind the other. */
AVX2_INLINE void transform_4_narrow(const __m256i in[4], __m256i out[4], const int shift) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i even[4], odd[4], rows[8];
    __m256i low = dot(in[2], MR_DCT_0_541, zero, 0).low;
    __m256i high = dot(in[2], MR_DCT_0_541 + MR_DCT_0_765, zero, 0).low;
    __m256i sum = scale_up(in[0], shift).low;
    even[0] = _mm256_add_epi32(sum, high);
    even[1] = _mm256_add_epi32(sum, low);
    even[2] = _mm256_sub_epi32(sum, low);
    even[3] = _mm256_sub_epi32(sum, high);
    odd[0] = dot(in[1], ODD_0_1, in[3], MR_DCT_1_175).low;
    odd[1] = dot(in[1], MR_DCT_1_175, in[3], ODD_1_3).low;
    odd[2] = dot(in[1], MR_DCT_1_175 - MR_DCT_0_390, in[3], MR_DCT_1_175 - MR_DCT_2_562).low;
    odd[3] = dot(in[1], MR_DCT_1_175 - MR_DCT_0_899, in[3], MR_DCT_1_175 - MR_DCT_1_961).low;
    for (int i = 0; i < 4; i++) {
        rows[i] = _mm256_srai_epi32(_mm256_add_epi32(even[i], odd[i]), shift);
        rows[7 - i] = _mm256_srai_epi32(_mm256_sub_epi32(even[i], odd[i]), shift);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_packs_epi32(rows[i], rows[4 + i]);
    }
}

/* Rows as those to the four columns. */
AVX2_INLINE void transpose_narrow(const __m256i in[4], __m256i out[4]) {
    __m256i upper = _mm256_unpacklo_epi16(in[0], in[1]),
            below = _mm256_unpacklo_epi16(in[2], in[3]);
    __m256i third = _mm256_unpackhi_epi16(in[0], in[1]), last = _mm256_unpackhi_epi16(in[2], in[3]);
    __m256i top[2] = {_mm256_unpacklo_epi32(upper, below), _mm256_unpackhi_epi32(upper, below)};
    __m256i bottom[2] = {_mm256_unpacklo_epi32(third, last), _mm256_unpackhi_epi32(third, last)};
    for (size_t i = 0; i < 2; i++) {
        out[2 * i] = _mm256_unpacklo_epi64(top[i], bottom[i]);
        out[2 * i + 1] = _mm256_unpackhi_epi64(top[i], bottom[i]);
    }
}

/* Rows to columns. */
AVX2_INLINE void transpose(const __m256i in[8], __m256i out[8]) {
    __m256i pair[8], four[8];
    for (size_t i = 0; i < 4; i++) { /* rows i and i + 4 */
        pair[2 * i] = _mm256_unpacklo_epi16(in[i], in[i + 4]);
        pair[2 * i + 1] = _mm256_unpackhi_epi16(in[i], in[i + 4]);
    }
    for (size_t half = 0; half < 2; half++) { /* even rows, odd rows */
        four[4 * half + 0] = _mm256_unpacklo_epi16(pair[half], pair[4 + half]);
        four[4 * half + 1] = _mm256_unpackhi_epi16(pair[half], pair[4 + half]);
        four[4 * half + 2] = _mm256_unpacklo_epi16(pair[2 + half], pair[6 + half]);
        four[4 * half + 3] = _mm256_unpackhi_epi16(pair[2 + half], pair[6 + half]);
    }
    for (size_t half = 0; half < 2; half++) {
        for (size_t i = 0; i < 2; i++) {
            out[4 * half + 2 * i] =
                _mm256_unpacklo_epi16(four[4 * half + i], four[4 * half + 2 + i]);
            out[4 * half + 2 * i + 1] =
                _mm256_unpackhi_epi16(four[4 * half + i], four[4 * half + 2 + i]);
        }
    }
}

AVX2_INLINE void store_two_rows(__m256i rows, uint8_t *const out[2], size_t at, size_t stride) {
    __m256i shown = _mm256_xor_si256(rows, _mm256_set1_epi8(-128));
    __m128i first = _mm256_castsi256_si128(shown), second = _mm256_extracti128_si256(shown, 1);
    _mm_storel_epi64((__m128i *)(out[0] + at), first);
    _mm_storeh_pd((double *)(void *)(out[0] + at + stride), _mm_castsi128_pd(first));
    _mm_storel_epi64((__m128i *)(out[1] + at), second);
    _mm_storeh_pd((double *)(void *)(out[1] + at + stride), _mm_castsi128_pd(second));
}

/* Columns of 16-bit values to rows of bytes. */
AVX2_INLINE void store_columns(const __m256i in[8], uint8_t *const out[2], size_t stride) {
    __m256i a = _mm256_packs_epi16(in[0], in[2]), b = _mm256_packs_epi16(in[1], in[3]);
    __m256i c = _mm256_packs_epi16(in[4], in[6]), d = _mm256_packs_epi16(in[5], in[7]);
    __m256i ab = _mm256_unpacklo_epi8(a, b), ab_high = _mm256_unpackhi_epi8(a, b);
    __m256i cd = _mm256_unpacklo_epi8(c, d), cd_high = _mm256_unpackhi_epi8(c, d);
    __m256i top_left = _mm256_unpacklo_epi16(ab, ab_high);
    __m256i bottom_left = _mm256_unpackhi_epi16(ab, ab_high);
    __m256i top_right = _mm256_unpacklo_epi16(cd, cd_high);
    __m256i bottom_right = _mm256_unpackhi_epi16(cd, cd_high);
    store_two_rows(_mm256_unpacklo_epi32(top_left, top_right), out, 0, stride);
    store_two_rows(_mm256_unpackhi_epi32(top_left, top_right), out, 2 * stride, stride);
    store_two_rows(_mm256_unpacklo_epi32(bottom_left, bottom_right), out, 4 * stride, stride);
    store_two_rows(_mm256_unpackhi_epi32(bottom_left, bottom_right), out, 6 * stride, stride);
}

AVX2_INLINE __m256i dequantised_row(const int16_t *const blocks[2], const int16_t *quantisers,
                                    size_t y) {
    __m256i row = _mm256_castsi128_si256(_mm_load_si128((const __m128i *)(blocks[0] + 8 * y)));
    row = _mm256_inserti128_si256(row, _mm_load_si128((const __m128i *)(blocks[1] + 8 * y)), 1);
    __m128i factors = _mm_load_si128((const __m128i *)(quantisers + 8 * y));
    return _mm256_mullo_epi16(row, _mm256_broadcastsi128_si256(factors));
}

/* Whether values of the first row are so large that the reference's shortcut shows. */
AVX2_INLINE bool first_row_is_large(__m256i row) {
    __m256i shifted = _mm256_add_epi16(row, _mm256_set1_epi16(8192));
    return !_mm256_testz_si256(shifted, _mm256_set1_epi16((int16_t)0xC000));
}

AVX2_INLINE void store_flat(int16_t dc, int16_t quantiser, uint8_t *out, size_t stride) {
    int16_t value = (int16_t)(uint16_t)((uint32_t)(dc * quantiser) << 2);
    int32_t shown = ((value + 16) >> 5) + 128;
    uint8_t byte = (uint8_t)(shown < 0 ? 0 : shown > 255 ? 255 : shown);
    __m128i row = _mm_set1_epi8((char)byte);
    for (size_t y = 0; y < 8; y++) {
        _mm_storel_epi64((__m128i *)(out + y * stride), row);
    }
}

AVX2 static void idct_sparse(const int16_t *const blocks[2], const int16_t *quantisers,
                             uint8_t *const out[2], size_t stride) {
    __m256i in[4], rows[4], columns[4], result[8];
    for (size_t y = 0; y < 4; y++) {
        in[y] = dequantised_row(blocks, quantisers, y);
    }
    if (first_row_is_large(in[0])) {
        mr_jpeg_idct_scalar(blocks, quantisers, out, stride, MR_JPEG_BLOCK);
        return;
    }
    transform_4_narrow(in, rows, PASS_1_SHIFT);
    transpose_narrow(rows, columns);
    transform_4(columns, result, PASS_2_SHIFT);
    store_columns(result, out, stride);
}

AVX2 static void idct_full(const int16_t *const blocks[2], const int16_t *quantisers,
                           uint8_t *const out[2], size_t stride) {
    __m256i in[8], rows[8], columns[8], result[8];
    for (size_t y = 0; y < 8; y++) {
        in[y] = dequantised_row(blocks, quantisers, y);
    }
    if (first_row_is_large(in[0])) {
        mr_jpeg_idct_scalar(blocks, quantisers, out, stride, MR_JPEG_BLOCK);
        return;
    }
    transform(in, rows, PASS_1_SHIFT);
    transpose(rows, columns);
    transform(columns, result, PASS_2_SHIFT);
    store_columns(result, out, stride);
}

AVX2 void mr_jpeg_idct_avx2(const int16_t *const blocks[2], const int16_t *quantisers,
                            uint8_t *const out[2], size_t stride, int32_t known) {
    if (known <= 1) {
        store_flat(blocks[0][0], quantisers[0], out[0], stride);
        store_flat(blocks[1][0], quantisers[0], out[1], stride);
    } else if (known <= SPARSE) {
        idct_sparse(blocks, quantisers, out, stride);
    } else {
        idct_full(blocks, quantisers, out, stride);
    }
}
#endif
