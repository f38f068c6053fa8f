/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_rows_avx2.c - the loops of jpeg_rows.c with AVX2. */
#include "kernels/jpeg.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

/* ---- Upsampling: 16 samples at a time, as 16-bit values ---- */
AVX2_INLINE __m256i load_16(const uint8_t *in) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)in));
}

AVX2_INLINE __m256i three_and_one(__m256i near, __m256i far) {
    return _mm256_add_epi16(_mm256_add_epi16(near, far), _mm256_add_epi16(near, near));
}

/* (value + bias) >> shift */
AVX2_INLINE __m256i round_down(__m256i value, int bias, const int shift) {
    return _mm256_srli_epi16(_mm256_add_epi16(value, _mm256_set1_epi16((int16_t)bias)), shift);
}

/* One value after the other, in turns. */
AVX2_INLINE void store_turns(uint8_t *out, __m256i even, __m256i odd) {
    _mm256_storeu_si256((__m256i *)out, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

AVX2 void mr_jpeg_widen_avx2(uint8_t *out, const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i += 16) {
        __m256i here = load_16(in + i);
        __m256i even = three_and_one(here, load_16(in + i - 1));
        __m256i odd = three_and_one(here, load_16(in + i + 1));
        store_turns(out + 2 * i, round_down(even, 1, 2), round_down(odd, 2, 2));
    }
}

AVX2 void mr_jpeg_heighten_avx2(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n,
                                int upper) {
    int bias = upper ? 1 : 2;
    for (size_t i = 0; i < n; i += 16) {
        __m256i sum = round_down(three_and_one(load_16(near + i), load_16(far + i)), bias, 2);
        __m128i low = _mm256_castsi256_si128(sum), high = _mm256_extracti128_si256(sum, 1);
        _mm_storeu_si128((__m128i *)(out + i), _mm_packus_epi16(low, high));
    }
}

AVX2_INLINE __m256i column_sums(const uint8_t *near, const uint8_t *far) {
    return three_and_one(load_16(near), load_16(far));
}

AVX2 void mr_jpeg_enlarge_avx2(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n) {
    for (size_t i = 0; i < n; i += 16, near += 16, far += 16) {
        __m256i here = column_sums(near, far);
        __m256i even = three_and_one(here, column_sums(near - 1, far - 1));
        __m256i odd = three_and_one(here, column_sums(near + 1, far + 1));
        store_turns(out + 2 * i, round_down(even, 8, 4), round_down(odd, 7, 4));
    }
}

/* ---- Colour: 32 pixels at a time ---- */
typedef struct colours {
    __m256i red, green, blue; /* 16 bits */
} colours;

AVX2_INLINE __m256i green_part(__m256i cb, __m256i cr) {
    const __m256i factors = _mm256_set1_epi32(MR_GREEN_CR * 65536 | (MR_GREEN_CB & 0xFFFF));
    const __m256i half = _mm256_set1_epi32(1 << 15);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    return _mm256_packs_epi32(low, high);
}

/* The instruction that rounds has 15 bits behind the point, so it takes half of a factor. Half of
 * MR_RED_CR is not a whole number; what it is rounded to gives the same for all samples. */
AVX2_INLINE colours convert_16(__m256i y, __m256i cb, __m256i cr) {
    const __m256i middle = _mm256_set1_epi16(128);
    const __m256i red = _mm256_set1_epi16(MR_RED_CR / 2), blue = _mm256_set1_epi16(MR_BLUE_CB / 2);
    cb = _mm256_sub_epi16(cb, middle);
    cr = _mm256_sub_epi16(cr, middle);
    colours c;
    c.red = _mm256_add_epi16(_mm256_add_epi16(y, cr), _mm256_mulhrs_epi16(cr, red));
    c.green = _mm256_add_epi16(_mm256_sub_epi16(y, cr), green_part(cb, cr));
    c.blue = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)),
                              _mm256_mulhrs_epi16(cb, blue));
    return c;
}

/* Three channels of 16 bytes in each half to 48 bytes. Pixel i's first byte lies at 3i, and 3i
 * modulo 16 is another place for every i: one shuffle brings all bytes of a channel to the places
 * that they have in their third, and what remains is to choose between channels. */
AVX2_INLINE void store_interleaved(uint8_t *out, __m256i red, __m256i green, __m256i blue) {
    const __m256i to_red = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5));
    const __m256i to_green = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10));
    const __m256i to_blue = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15));
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i third = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    __m256i r = _mm256_shuffle_epi8(red, to_red), g = _mm256_shuffle_epi8(green, to_green);
    __m256i b = _mm256_shuffle_epi8(blue, to_blue);
    __m256i part[3] = {_mm256_blendv_epi8(_mm256_blendv_epi8(b, g, second), r, first),
                       _mm256_blendv_epi8(_mm256_blendv_epi8(b, g, first), r, third),
                       _mm256_blendv_epi8(_mm256_blendv_epi8(b, g, third), r, second)};
    for (size_t k = 0; k < 3; k++) {
        _mm_storeu_si128((__m128i *)(out + 16 * k), _mm256_castsi256_si128(part[k]));
        _mm_storeu_si128((__m128i *)(out + 48 + 16 * k), _mm256_extracti128_si256(part[k], 1));
    }
}

AVX2_INLINE void convert_32(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i ys = _mm256_loadu_si256((const __m256i *)y);
    __m256i cbs = _mm256_loadu_si256((const __m256i *)cb);
    __m256i crs = _mm256_loadu_si256((const __m256i *)cr);
    colours low = convert_16(_mm256_unpacklo_epi8(ys, zero), _mm256_unpacklo_epi8(cbs, zero),
                             _mm256_unpacklo_epi8(crs, zero));
    colours high = convert_16(_mm256_unpackhi_epi8(ys, zero), _mm256_unpackhi_epi8(cbs, zero),
                              _mm256_unpackhi_epi8(crs, zero));
    store_interleaved(out, _mm256_packus_epi16(low.red, high.red),
                      _mm256_packus_epi16(low.green, high.green),
                      _mm256_packus_epi16(low.blue, high.blue));
}

AVX2 void mr_jpeg_to_rgb_avx2(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                              size_t n) {
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        convert_32(out + 3 * i, y + i, cb + i, cr + i);
    }
    if (i < n && n >= 32) { /* some once more */
        i = n - 32;
        convert_32(out + 3 * i, y + i, cb + i, cr + i);
    } else if (i < n) {
        uint8_t last[96];
        convert_32(last, y, cb, cr);
        memcpy(out, last, 3 * n);
    }
}

/* ---- Bytes ---- */
AVX2 size_t mr_jpeg_unstuff_avx2(uint8_t *out, const uint8_t *in, size_t size, size_t *written) {
    const __m256i mark = _mm256_set1_epi8(-1);
    size_t at = 0, n = 0;
    while (size - at > 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(in + at));
        _mm256_storeu_si256((__m256i *)(out + n), bytes);
        uint32_t marks = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, mark));
        if (marks == 0) { /* a branch, so that the next bytes are not waited for */
            at += 32;
            n += 32;
            continue;
        }
        at += (size_t)__builtin_ctz(marks);
        n += (size_t)__builtin_ctz(marks);
        if (in[at + 1] != 0) { /* within size: more than 32 bytes were left */
            *written = n;
            return at;
        }
        n += 1; /* the 0xFF itself is already copied */
        at += 2;
    }
    size_t rest, read = mr_jpeg_unstuff_scalar(out + n, in + at, size - at, &rest);
    *written = n + rest;
    return at + read;
}
#endif
