/* SPDX-License-Identifier: Apache-2.0 */
/* resample_avx512.c - resampling with AVX-512, equal to the scalar loops bit for bit.
 *
 * The multiply-and-add of VNNI takes four bytes of pixels and four of weights at a time. So a
 * weight is written with three digits, weight = top * 2^16 + middle * 2^8 + bottom, each from -128
 * to 127, and a sum is made digit by digit, from the top: shifted by 8 bits after each. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <string.h>

#include "kernels/avx512.h"

#define ROUNDING (1 << (MR_TAP_BITS - 1))
#define DIGIT_BITS 8

enum { TOP, MIDDLE, BOTTOM, DIGITS };

/* Pixels of a row that are made at once; groups of taps whose weights are kept in registers; bytes
 * of a vector, and of a group. */
enum { FIVE = 5, MOST_GROUPS = 3, WINDOW = 64, GROUP_BYTES = 3 * MR_TAP_GROUP };

/* What the sum of the top digits begins with, so that the whole sum begins with ROUNDING. */
AVX512_INLINE __m512i rounding(void) {
    return _mm512_set1_epi32(ROUNDING >> 2 * DIGIT_BITS);
}

/* ---- Weights ---- */
/* Four weights; byte k of each becomes one digit of the four. Adding 128 at both lower digits
 * carries where a digit is above 127, and the exclusive or takes the 128 away again. */
AVX512 static void store_digits(mr_taps *taps, size_t at, const int32_t *weights) {
    const __m128i carry = _mm_set1_epi32(0x8080);
    const __m128i order = _mm_setr_epi8(2, 6, 10, 14, 1, 5, 9, 13, 0, 4, 8, 12, 3, 7, 11, 15);
    __m128i four = _mm_loadu_si128((const __m128i *)(const void *)weights);
    four = _mm_shuffle_epi8(_mm_xor_si128(_mm_add_epi32(four, carry), carry), order);
    taps->digits[TOP][at] = _mm_cvtsi128_si32(four);
    taps->digits[MIDDLE][at] = _mm_extract_epi32(four, 1);
    taps->digits[BOTTOM][at] = _mm_extract_epi32(four, 2);
}

/* Bytes that a group of taps of any five neighbours lies within. */
static int32_t widest_five(const mr_taps *taps) {
    int32_t widest = 0;
    for (int32_t x = 0; x < taps->n_out; x++) {
        int32_t last = x + FIVE <= taps->n_out ? x + FIVE - 1 : taps->n_out - 1;
        int32_t bytes = 3 * (taps->first[last] - taps->first[x]) + GROUP_BYTES;
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

void mr_split_taps_avx512(mr_taps *taps) {
    mr_split_taps_avx2(taps); /* rows of one channel need them; other images pay for them, too */
    taps->spread = widest_five(taps);
    for (size_t x = 0; x < (size_t)taps->n_out; x++) {
        const int32_t *weights = taps->weights + x * (size_t)taps->width;
        for (size_t i = 0; i < (size_t)taps->groups; i++) {
            store_digits(taps, i * (size_t)taps->n_out + x, weights + i * MR_TAP_GROUP);
        }
    }
}

/* ---- Columns: 64 bytes of a row at a time, four taps per multiplication ---- */

/* Four vectors of 64 bytes to four with the bytes of each column together. Unpacking works within
 * quarters of a vector, and so does packing the sums: they end up in order. */
AVX512_INLINE void interleave(const __m512i rows[4], __m512i quads[4]) {
    __m512i low_a = _mm512_unpacklo_epi8(rows[0], rows[1]);
    __m512i high_a = _mm512_unpackhi_epi8(rows[0], rows[1]);
    __m512i low_b = _mm512_unpacklo_epi8(rows[2], rows[3]);
    __m512i high_b = _mm512_unpackhi_epi8(rows[2], rows[3]);
    quads[0] = _mm512_unpacklo_epi16(low_a, low_b);
    quads[1] = _mm512_unpackhi_epi16(low_a, low_b);
    quads[2] = _mm512_unpacklo_epi16(high_a, high_b);
    quads[3] = _mm512_unpackhi_epi16(high_a, high_b);
}

/* A group of taps of 64 columns. Beyond the last row stands the last one again: its weight is 0.
 * Here and below what could be a loop of four is written out: compilers leave such loops as they
 * are, and then the vectors are kept in memory. */
AVX512_INLINE void column_group(const uint8_t *top, size_t stride, int32_t from, int32_t count,
                                __m512i quads[4]) {
    size_t last = (size_t)(count - 1 - from);
    const uint8_t *row = top + (size_t)from * stride;
    const __m512i rows[4] = {_mm512_loadu_si512(row),
                             _mm512_loadu_si512(row + (last < 1 ? last : 1) * stride),
                             _mm512_loadu_si512(row + (last < 2 ? last : 2) * stride),
                             _mm512_loadu_si512(row + (last < 3 ? last : 3) * stride)};
    interleave(rows, quads);
}

AVX512_INLINE void add_products(__m512i sums[4], const __m512i quads[4], int32_t weights) {
    __m512i four = _mm512_set1_epi32(weights);
    sums[0] = _mm512_dpbusd_epi32(sums[0], quads[0], four);
    sums[1] = _mm512_dpbusd_epi32(sums[1], quads[1], four);
    sums[2] = _mm512_dpbusd_epi32(sums[2], quads[2], four);
    sums[3] = _mm512_dpbusd_epi32(sums[3], quads[3], four);
}

/* To the next digit. */
AVX512_INLINE void shift(__m512i sums[4]) {
    sums[0] = _mm512_slli_epi32(sums[0], DIGIT_BITS);
    sums[1] = _mm512_slli_epi32(sums[1], DIGIT_BITS);
    sums[2] = _mm512_slli_epi32(sums[2], DIGIT_BITS);
    sums[3] = _mm512_slli_epi32(sums[3], DIGIT_BITS);
}

AVX512_INLINE void add(__m512i sums[4], const __m512i others[4]) {
    sums[0] = _mm512_add_epi32(sums[0], others[0]);
    sums[1] = _mm512_add_epi32(sums[1], others[1]);
    sums[2] = _mm512_add_epi32(sums[2], others[2]);
    sums[3] = _mm512_add_epi32(sums[3], others[3]);
}

AVX512_INLINE __m512i in_bytes(const __m512i sums[4]) {
    __m512i lower = _mm512_packs_epi32(_mm512_srai_epi32(sums[0], MR_TAP_BITS),
                                       _mm512_srai_epi32(sums[1], MR_TAP_BITS));
    __m512i upper = _mm512_packs_epi32(_mm512_srai_epi32(sums[2], MR_TAP_BITS),
                                       _mm512_srai_epi32(sums[3], MR_TAP_BITS));
    return _mm512_packus_epi16(lower, upper);
}

/* Up to four taps: the columns are kept in registers from digit to digit. */
AVX512_INLINE __m512i few_taps(const uint8_t *top, size_t stride, const mr_taps *taps, int32_t y) {
    __m512i quads[4], sums[4] = {rounding(), rounding(), rounding(), rounding()};
    column_group(top, stride, 0, taps->count[y], quads);
    add_products(sums, quads, taps->digits[TOP][y]);
    shift(sums);
    add_products(sums, quads, taps->digits[MIDDLE][y]);
    shift(sums);
    add_products(sums, quads, taps->digits[BOTTOM][y]);
    return in_bytes(sums);
}

/* Any number of taps: a sum for each digit. */
AVX512_INLINE __m512i many_taps(const uint8_t *top, size_t stride, const mr_taps *taps, int32_t y) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i sums[4] = {rounding(), rounding(), rounding(), rounding()};
    __m512i middle[4] = {zero, zero, zero, zero}, bottom[4] = {zero, zero, zero, zero};
    size_t at = (size_t)y;
    for (int32_t i = 0; i < taps->count[y]; i += MR_TAP_GROUP, at += (size_t)taps->n_out) {
        __m512i quads[4];
        column_group(top, stride, i, taps->count[y], quads);
        add_products(sums, quads, taps->digits[TOP][at]);
        add_products(middle, quads, taps->digits[MIDDLE][at]);
        add_products(bottom, quads, taps->digits[BOTTOM][at]);
    }
    shift(sums);
    add(sums, middle);
    shift(sums);
    add(sums, bottom);
    return in_bytes(sums);
}

AVX512 void mr_resample_columns_avx512(uint8_t *out, const uint8_t *top, size_t stride,
                                       size_t row_bytes, const mr_taps *taps, int32_t y) {
    if (row_bytes < 64) {
        mr_resample_columns_avx2(out, top, stride, row_bytes, taps, y);
        return;
    }
    for (size_t x = 0; x < row_bytes; x += 64) {
        size_t at = x + 64 <= row_bytes ? x : row_bytes - 64; /* the last overlaps its neighbour */
        __m512i bytes = taps->groups == 1 ? few_taps(top + at, stride, taps, y)
                                          : many_taps(top + at, stride, taps, y);
        _mm512_storeu_si512(out + at, bytes);
    }
}

/* ---- Rows of three channels, five pixels of a row at a time ----
 * Their 15 sums fill a vector of 16. For each group of taps one permutation of 64 bytes of the row
 * brings four pixels of a channel together, where the pixels lie within these bytes. */

/* The bytes of four taps, from `in` on, for five pixels: the byte for tap t and channel c of a
 * pixel is 3 * (its first input - that of the first pixel) + 3 * t + c. */
AVX512_INLINE __m512i byte_order(const int32_t *first, __mmask16 pixels) {
    const __m512i pixel = _mm512_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4);
    const __m512i within =
        _mm512_setr_epi32(0x09060300, 0x0A070401, 0x0B080502, 0x09060300, 0x0A070401, 0x0B080502,
                          0x09060300, 0x0A070401, 0x0B080502, 0x09060300, 0x0A070401, 0x0B080502,
                          0x09060300, 0x0A070401, 0x0B080502, 0);
    __m512i from = _mm512_maskz_loadu_epi32(pixels, first);
    from = _mm512_sub_epi32(_mm512_permutexvar_epi32(pixel, from), _mm512_set1_epi32(first[0]));
    return _mm512_add_epi8(_mm512_mullo_epi32(from, _mm512_set1_epi32(0x03030303)), within);
}

/* A digit of the weights of five pixels' group, each for three channels. */
AVX512_INLINE __m512i five_weights(const int32_t *digits, __mmask16 pixels) {
    const __m512i pixel = _mm512_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 15);
    return _mm512_permutexvar_epi32(pixel, _mm512_maskz_loadu_epi32(pixels, digits));
}

/* Bytes from in_end on are 0. */
AVX512_INLINE __m512i load_window(const uint8_t *in, const uint8_t *in_end) {
    if (in_end - in >= WINDOW) {
        return _mm512_loadu_si512(in);
    }
    return in_end <= in ? _mm512_setzero_si512()
                        : _mm512_maskz_loadu_epi8(~0ull >> (WINDOW - (in_end - in)), in);
}

/* What the pixels have in common in all rows. `groups` is a constant wherever it is used. */
typedef struct five {
    __m512i order;
    __m512i weights[DIGITS][MOST_GROUPS];
    __mmask16 wanted; /* bytes of the result: the last pixels of a row are fewer */
} five;

AVX512_INLINE five five_from(const mr_taps *taps, int32_t x, size_t groups) {
    int n = taps->n_out - x < FIVE ? taps->n_out - x : FIVE;
    const __mmask16 pixels = (__mmask16)((1u << n) - 1);
    five f = {.order = byte_order(taps->first + x, pixels),
              .wanted = (__mmask16)((1u << 3 * n) - 1)};
    for (int digit = TOP; digit < DIGITS; digit++) {
        for (size_t g = 0; g < groups; g++) {
            const int32_t *digits = taps->digits[digit] + g * (size_t)taps->n_out + x;
            f.weights[digit][g] = five_weights(digits, pixels);
        }
    }
    return f;
}

AVX512_INLINE void five_of_row(uint8_t *out, const uint8_t *in, const uint8_t *in_end,
                               const five *f, size_t groups) {
    __m512i pixels[MOST_GROUPS], sum = rounding();
    for (size_t g = 0; g < groups; g++) {
        pixels[g] = _mm512_permutexvar_epi8(f->order, load_window(in + g * GROUP_BYTES, in_end));
    }
    for (int digit = TOP; digit < DIGITS; digit++) {
        sum = digit == TOP ? sum : _mm512_slli_epi32(sum, DIGIT_BITS);
        for (size_t g = 0; g < groups; g++) {
            sum = _mm512_dpbusd_epi32(sum, pixels[g], f->weights[digit][g]);
        }
    }
    sum = _mm512_max_epi32(_mm512_srai_epi32(sum, MR_TAP_BITS), _mm512_setzero_si512());
    _mm_mask_storeu_epi8(out, f->wanted, _mm512_cvtusepi32_epi8(sum));
}

#define ALL_FIVES(groups)                                                                          \
    for (int32_t x = 0; x < taps->n_out; x += FIVE) {                                              \
        const five f = five_from(taps, x, groups);                                                 \
        const uint8_t *from = in + (size_t)taps->first[x] * 3;                                     \
        uint8_t *to = out + (size_t)x * 3;                                                         \
        for (int32_t y = 0; y < rows; y++, from += stride, to += (size_t)taps->n_out * 3) {        \
            five_of_row(to, from, in_end, &f, groups);                                             \
        }                                                                                          \
    }

AVX512 static void by_fives(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                            int32_t rows, const mr_taps *taps) {
    if (taps->groups == 1) {
        ALL_FIVES(1)
    } else if (taps->groups == 2) {
        ALL_FIVES(2)
    } else {
        ALL_FIVES(3)
    }
}

/* ---- Rows of three channels, any reach: four rows, a quarter of a vector each ---- */
typedef struct four_rows {
    const uint8_t *in[4];
    uint8_t *out[4];
} four_rows;

AVX512_INLINE __m512i load_four(const four_rows *rows, size_t at) {
    __m256i lower = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows->in[0] + at)));
    __m256i upper = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows->in[2] + at)));
    lower = _mm256_inserti128_si256(lower, _mm_loadu_si128((const __m128i *)(rows->in[1] + at)), 1);
    upper = _mm256_inserti128_si256(upper, _mm_loadu_si128((const __m128i *)(rows->in[3] + at)), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}

/* One pixel of four rows: three sums in each quarter. */
AVX512_INLINE __m512i pixel_of_four(const four_rows *rows, const mr_taps *taps, int32_t x) {
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    __m512i top = rounding(), middle = _mm512_setzero_si512(), bottom = middle;
    size_t from = (size_t)taps->first[x] * 3, at = (size_t)x;
    for (int32_t i = 0; i < taps->groups; i++, at += (size_t)taps->n_out, from += GROUP_BYTES) {
        __m512i pixels = _mm512_shuffle_epi8(load_four(rows, from), order);
        top = _mm512_dpbusd_epi32(top, pixels, _mm512_set1_epi32(taps->digits[TOP][at]));
        middle = _mm512_dpbusd_epi32(middle, pixels, _mm512_set1_epi32(taps->digits[MIDDLE][at]));
        bottom = _mm512_dpbusd_epi32(bottom, pixels, _mm512_set1_epi32(taps->digits[BOTTOM][at]));
    }
    top = _mm512_add_epi32(_mm512_slli_epi32(top, DIGIT_BITS), middle);
    top = _mm512_add_epi32(_mm512_slli_epi32(top, DIGIT_BITS), bottom);
    return _mm512_srai_epi32(top, MR_TAP_BITS);
}

AVX512 static void four_pixels(const four_rows *rows, const mr_taps *taps, int32_t x) {
    const __m512i order = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __mmask16 wanted = 0xFFF;
    __m512i lower =
        _mm512_packs_epi32(pixel_of_four(rows, taps, x), pixel_of_four(rows, taps, x + 1));
    __m512i upper =
        _mm512_packs_epi32(pixel_of_four(rows, taps, x + 2), pixel_of_four(rows, taps, x + 3));
    __m512i bytes = _mm512_shuffle_epi8(_mm512_packus_epi16(lower, upper), order);
    size_t at = (size_t)x * 3;
    _mm_mask_storeu_epi8(rows->out[0] + at, wanted, _mm512_castsi512_si128(bytes));
    _mm_mask_storeu_epi8(rows->out[1] + at, wanted, _mm512_extracti32x4_epi32(bytes, 1));
    _mm_mask_storeu_epi8(rows->out[2] + at, wanted, _mm512_extracti32x4_epi32(bytes, 2));
    _mm_mask_storeu_epi8(rows->out[3] + at, wanted, _mm512_extracti32x4_epi32(bytes, 3));
}

/* Four rows from row y on; past the last one stands the last again, and is made again. */
static four_rows rows_from(uint8_t *out, const uint8_t *in, size_t stride, int32_t y, int32_t rows,
                           size_t out_stride) {
    four_rows four;
    for (int32_t r = 0; r < 4; r++) {
        size_t row = (size_t)(y + r < rows ? y + r : rows - 1);
        four.in[r] = in + row * stride;
        four.out[r] = out + row * out_stride;
    }
    return four;
}

/* Pixels that four rows can be made of at once, without a load past the end: whole fours. */
static int32_t fours_inside(const mr_taps *taps, size_t readable) {
    size_t reach = (size_t)taps->groups * GROUP_BYTES + 4;
    int32_t upto = taps->n_out;
    while (upto > 0 && (size_t)taps->first[upto - 1] * 3 + reach > readable) {
        upto--;
    }
    return upto / 4 * 4;
}

static void by_fours(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                     int32_t rows, const mr_taps *taps) {
    for (int32_t y = 0; y < rows; y += 4) {
        four_rows four = rows_from(out, in, stride, y, rows, (size_t)taps->n_out * 3);
        int32_t upto = fours_inside(taps, (size_t)(in_end - four.in[3]));
        for (int32_t x = 0; x < upto; x += 4) {
            four_pixels(&four, taps, x);
        }
        for (int r = 0; r < 4 && y + r < rows; r++) {
            mr_resample_row_part(four.out[r], four.in[r], 3, taps, upto);
        }
    }
}

void mr_resample_rows_avx512(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                             int32_t rows, int32_t channels, const mr_taps *taps) {
    if (channels != 3) {
        mr_resample_rows_avx2(out, in, stride, in_end, rows, channels, taps);
    } else if (taps->spread <= WINDOW && taps->groups <= MOST_GROUPS) {
        by_fives(out, in, stride, in_end, rows, taps);
    } else {
        by_fours(out, in, stride, in_end, rows, taps);
    }
}
#endif
