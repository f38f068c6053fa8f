/* SPDX-License-Identifier: Apache-2.0 */
/* resample_avx2.c - resampling with AVX2, equal to the scalar loops bit for bit.
 *
 * A weight has 23 bits and a sign, too wide for the 16-bit multiply-and-add, which is the fastest
 * there is. So it is split: weight = high * 2^15 + low. Both parts are summed apart and joined at
 * the end. A partial sum may wrap around; the joined sum is right modulo 2^32 and fits. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))
#define ROUNDING (1 << (MR_TAP_BITS - 1))

AVX2_INLINE __m256i join(__m256i high, __m256i low) {
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, MR_TAP_LOW_BITS), low),
                             MR_TAP_BITS);
}

/* Two 16-bit weights as one 32-bit pattern. */
static inline int32_t pair(const int16_t *weights) {
    int32_t both;
    memcpy(&both, weights, sizeof both);
    return both;
}

/* ---- Weights ---- */
AVX2 void mr_split_taps_avx2(mr_taps *taps) {
    const __m256i low_bits = _mm256_set1_epi32((1 << MR_TAP_LOW_BITS) - 1);
    size_t all = (size_t)taps->n_out * (size_t)taps->width;
    for (size_t i = 0; i < all; i += MR_TAP_ALIGN) {
        __m256i eight = _mm256_load_si256((const __m256i *)(const void *)(taps->weights + i));
        __m256i high = _mm256_srai_epi32(eight, MR_TAP_LOW_BITS);
        __m256i both = _mm256_packs_epi32(high, _mm256_and_si256(eight, low_bits));
        both = _mm256_permute4x64_epi64(both, 0xD8); /* halves: high 0 to 7, low 0 to 7 */
        _mm_store_si128((__m128i *)(void *)(taps->high + i), _mm256_castsi256_si128(both));
        _mm_store_si128((__m128i *)(void *)(taps->low + i), _mm256_extracti128_si256(both, 1));
    }
}

/* ---- Columns: 32 bytes of a row at a time, two taps per multiplication ---- */
AVX2 static void column_block(uint8_t *out, const uint8_t *top, size_t stride, const int16_t *high,
                              const int16_t *low, int32_t count) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum_high[4] = {zero, zero, zero, zero}, sum_low[4];
    for (int k = 0; k < 4; k++) {
        sum_low[k] = _mm256_set1_epi32(ROUNDING);
    }
    for (int32_t i = 0; i < count; i += 2) {
        const uint8_t *row = top + (size_t)i * stride;
        /* A last tap without a partner is paired with itself: that weight is 0. */
        const uint8_t *next = i + 1 < count ? row + stride : row;
        __m256i a = _mm256_loadu_si256((const __m256i *)row);
        __m256i b = _mm256_loadu_si256((const __m256i *)next);
        __m256i first = _mm256_unpacklo_epi8(a, b), second = _mm256_unpackhi_epi8(a, b);
        __m256i pairs[4] = {_mm256_unpacklo_epi8(first, zero), _mm256_unpackhi_epi8(first, zero),
                            _mm256_unpacklo_epi8(second, zero), _mm256_unpackhi_epi8(second, zero)};
        __m256i weight_high = _mm256_set1_epi32(pair(high + i));
        __m256i weight_low = _mm256_set1_epi32(pair(low + i));
        for (int k = 0; k < 4; k++) {
            sum_high[k] = _mm256_add_epi32(sum_high[k], _mm256_madd_epi16(pairs[k], weight_high));
            sum_low[k] = _mm256_add_epi32(sum_low[k], _mm256_madd_epi16(pairs[k], weight_low));
        }
    }
    __m256i lower =
        _mm256_packs_epi32(join(sum_high[0], sum_low[0]), join(sum_high[1], sum_low[1]));
    __m256i upper =
        _mm256_packs_epi32(join(sum_high[2], sum_low[2]), join(sum_high[3], sum_low[3]));
    _mm256_storeu_si256((__m256i *)out, _mm256_packus_epi16(lower, upper));
}

AVX2 void mr_resample_columns_avx2(uint8_t *out, const uint8_t *top, size_t stride,
                                   size_t row_bytes, const mr_taps *taps, int32_t y) {
    size_t weights = (size_t)y * (size_t)taps->width;
    const int16_t *high = taps->high + weights, *low = taps->low + weights;
    if (row_bytes < 32) {
        mr_resample_columns_scalar(out, top, stride, row_bytes, taps, y);
        return;
    }
    for (size_t x = 0; x + 32 <= row_bytes; x += 32) {
        column_block(out + x, top + x, stride, high, low, taps->count[y]);
    }
    if (row_bytes % 32) { /* the last block overlaps the one before it */
        size_t x = row_bytes - 32;
        column_block(out + x, top + x, stride, high, low, taps->count[y]);
    }
}

/* ---- Rows of three channels: four taps per multiplication, several rows share the weights ---- */
#define GROUP 4 /* taps: 12 bytes of a load of 16 */

/* Four taps of two pixels, one in each half of a vector. Bytes r0 g0 b0 .. r3 g3 b3 become 16-bit
 * pairs (r0 r1) (g0 g1) (b0 b1) 0 and (r2 r3) (g2 g3) (b2 b3) 0. */
typedef struct two_groups {
    __m256i first, second;
} two_groups;

AVX2_INLINE two_groups pixel_pairs(const uint8_t *a, const uint8_t *b) {
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    __m256i bytes = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a));
    bytes = _mm256_inserti128_si256(bytes, _mm_loadu_si128((const __m128i *)b), 1);
    return (two_groups){_mm256_shuffle_epi8(bytes, first), _mm256_shuffle_epi8(bytes, second)};
}

/* Weights w0 w1 w2 w3, the same for both: (w0 w1) eight times, (w2 w3) eight times. */
AVX2_INLINE two_groups same_weights(const int16_t *weights) {
    return (two_groups){_mm256_set1_epi32(pair(weights)), _mm256_set1_epi32(pair(weights + 2))};
}

/* Weights of each: (w0 w1) four times, of the one and of the other. */
AVX2_INLINE two_groups own_weights(const int16_t *a, const int16_t *b) {
    __m256i four = _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)(const void *)a));
    four = _mm256_inserti128_si256(four, _mm_loadl_epi64((const __m128i *)(const void *)b), 1);
    return (two_groups){_mm256_shuffle_epi32(four, 0x00), _mm256_shuffle_epi32(four, 0x55)};
}

/* Sums of two pixels: both parts of the weights. */
typedef struct pixel_sums {
    __m256i high, low;
} pixel_sums;

AVX2_INLINE pixel_sums no_sums(void) {
    return (pixel_sums){_mm256_setzero_si256(), _mm256_set1_epi32(ROUNDING)};
}

AVX2_INLINE __m256i add_products(__m256i sum, two_groups a, two_groups b) {
    __m256i products = _mm256_add_epi32(_mm256_madd_epi16(a.first, b.first),
                                        _mm256_madd_epi16(a.second, b.second));
    return _mm256_add_epi32(sum, products);
}

AVX2_INLINE void add_groups(pixel_sums *sums, two_groups pixels, two_groups high, two_groups low) {
    sums->high = add_products(sums->high, pixels, high);
    sums->low = add_products(sums->low, pixels, low);
}

static inline void store_pixel(uint8_t *out, uint64_t pixel) {
    uint32_t four = (uint32_t)pixel;
    memcpy(out, &four, sizeof four);
}

/* Four pixels, `stride` apart. Each store writes a fourth byte, into the pixel behind it. */
AVX2_INLINE void finish_four(const pixel_sums sums[2], uint8_t *out, size_t stride) {
    __m256i wide =
        _mm256_packs_epi32(join(sums[0].high, sums[0].low), join(sums[1].high, sums[1].low));
    __m256i bytes = _mm256_packus_epi16(wide, wide); /* rows 0 2 0 2 | 1 3 1 3 */
    uint64_t even = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(bytes));
    uint64_t odd = (uint64_t)_mm_cvtsi128_si64(_mm256_extracti128_si256(bytes, 1));
    store_pixel(out, even);
    store_pixel(out + stride, odd);
    store_pixel(out + 2 * stride, even >> 32);
    store_pixel(out + 3 * stride, odd >> 32);
}

/* Pixels [0, upto) of four rows. Every pixel takes the same number of groups, its unused weights
 * are 0: a loop whose length changes costs more than it saves. */
AVX2 static void colour_four(uint8_t *out, size_t out_stride, const uint8_t *in, size_t stride,
                             const mr_taps *taps, int32_t upto) {
    for (int32_t x = 0; x < upto; x++) {
        const uint8_t *pixels = in + (size_t)taps->first[x] * 3;
        size_t weights = (size_t)x * (size_t)taps->width;
        pixel_sums sums[2] = {no_sums(), no_sums()};
        for (int32_t i = 0; i < taps->most; i += GROUP, pixels += (size_t)3 * GROUP) {
            two_groups high = same_weights(taps->high + weights + i);
            two_groups low = same_weights(taps->low + weights + i);
            add_groups(&sums[0], pixel_pairs(pixels, pixels + stride), high, low);
            add_groups(&sums[1], pixel_pairs(pixels + 2 * stride, pixels + 3 * stride), high, low);
        }
        finish_four(sums, out + (size_t)x * 3, out_stride);
    }
}

/* Four pixels of one row at a time, [0, upto) less what does not fill four; returns how many. */
AVX2 static int32_t colour_one(uint8_t *out, const uint8_t *in, const mr_taps *taps, int32_t upto) {
    int32_t x = 0;
    for (; x + 4 <= upto; x += 4) {
        const int32_t *first = taps->first + x;
        size_t width = (size_t)taps->width, weights = (size_t)x * width;
        pixel_sums sums[2] = {no_sums(), no_sums()};
        for (int32_t i = 0; i < taps->most; i += GROUP) {
            for (size_t k = 0; k < 4; k += 2) {
                const int16_t *high = taps->high + weights + k * width + i;
                const int16_t *low = taps->low + weights + k * width + i;
                const uint8_t *a = in + 3 * ((size_t)first[k] + (size_t)i);
                const uint8_t *b = in + 3 * ((size_t)first[k + 1] + (size_t)i);
                add_groups(&sums[k / 2], pixel_pairs(a, b), own_weights(high, high + width),
                           own_weights(low, low + width));
            }
        }
        finish_four(sums, out + (size_t)x * 3, 3);
    }
    return x;
}

/* Outputs whose loads, whole groups of taps and `extra` bytes, stay inside of what is readable. */
static int32_t loads_inside(const mr_taps *taps, size_t readable, size_t pixel_bytes, int32_t group,
                            size_t extra) {
    size_t groups = (size_t)((taps->most + group - 1) / group);
    size_t reach = groups * (size_t)group * pixel_bytes + extra;
    int32_t upto = taps->n_out;
    while (upto > 0 && (size_t)taps->first[upto - 1] * pixel_bytes + reach > readable) {
        upto--;
    }
    return upto;
}

/* The end of a row is left to the scalar loop: the last pixel, since a store writes one byte more,
 * and those whose loads would leave the image. */
static void rows_of_three(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                          int32_t rows, const mr_taps *taps) {
    size_t out_stride = (size_t)taps->n_out * 3;
    int32_t y = 0;
    for (; y + 4 <= rows; y += 4) {
        int32_t upto = loads_inside(taps, (size_t)(in_end - (in + 3 * stride)), 3, GROUP, 4);
        upto = upto < taps->n_out ? upto : taps->n_out - 1;
        colour_four(out, out_stride, in, stride, taps, upto);
        for (int r = 0; r < 4; r++, out += out_stride, in += stride) {
            mr_resample_row_part(out, in, 3, taps, upto);
        }
    }
    for (; y < rows; y++, out += out_stride, in += stride) {
        int32_t upto = loads_inside(taps, (size_t)(in_end - in), 3, GROUP, 4);
        int32_t done = colour_one(out, in, taps, upto < taps->n_out ? upto : taps->n_out - 1);
        mr_resample_row_part(out, in, 3, taps, done);
    }
}

/* ---- Rows of one channel: eight taps per multiplication ---- */
AVX2_INLINE uint8_t finish_grey(__m128i high, __m128i low) {
    __m128i sum = _mm_add_epi32(_mm_slli_epi32(high, MR_TAP_LOW_BITS), low);
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
    sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(ROUNDING)), MR_TAP_BITS);
    sum = _mm_packs_epi32(sum, sum);
    return (uint8_t)_mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
}

AVX2 static void grey_row(uint8_t *out, const uint8_t *in, const mr_taps *taps, int32_t upto) {
    for (int32_t x = 0; x < upto; x++) {
        const int16_t *weights_high = taps->high + (size_t)x * (size_t)taps->width;
        const int16_t *weights_low = taps->low + (size_t)x * (size_t)taps->width;
        const uint8_t *pixels = in + taps->first[x];
        __m128i high = _mm_setzero_si128(), low = _mm_setzero_si128();
        for (int32_t i = 0; i < taps->count[x]; i += 8) {
            __m128i eight = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(pixels + i)));
            __m128i part_high = _mm_loadu_si128((const __m128i *)(weights_high + i));
            __m128i part_low = _mm_loadu_si128((const __m128i *)(weights_low + i));
            high = _mm_add_epi32(high, _mm_madd_epi16(eight, part_high));
            low = _mm_add_epi32(low, _mm_madd_epi16(eight, part_low));
        }
        out[x] = finish_grey(high, low);
    }
}

static void rows_of_one(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                        int32_t rows, const mr_taps *taps) {
    for (int32_t y = 0; y < rows; y++, out += taps->n_out, in += stride) {
        int32_t upto = loads_inside(taps, (size_t)(in_end - in), 1, 8, 0);
        grey_row(out, in, taps, upto);
        mr_resample_row_part(out, in, 1, taps, upto);
    }
}

void mr_resample_rows_avx2(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                           int32_t rows, int32_t channels, const mr_taps *taps) {
    if (channels == 3) {
        rows_of_three(out, in, stride, in_end, rows, taps);
    } else {
        rows_of_one(out, in, stride, in_end, rows, taps);
    }
}
#endif
