/* SPDX-License-Identifier: Apache-2.0 */
/* columns_avx2.c - loops over encoded columns with AVX2, equal to the scalar ones bit for bit. */
#include "kernels/columns.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

/* ---- Bit-packed integers: 8 values are `width` bytes ----
 * A value of up to 25 bits lies within 4 bytes from the byte it begins in. So a shuffle brings to
 * each 32-bit lane the 4 bytes of its value; a shift by the bits before it and a mask do the rest.
 * Values 4 to 7 begin at bit 4 * width: their half of the vector is loaded from that byte on. */
typedef struct layout {
    __m256i shuffle, shift, mask;
    size_t second; /* byte that the upper half is loaded from */
} layout;

AVX2_INLINE layout layout_of(int32_t width) {
    uint8_t shuffle[32];
    uint32_t shift[8];
    layout l;
    l.second = (size_t)width * 4 / 8;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t bit = i * (uint32_t)width - (i < 4 ? 0 : (uint32_t)l.second * 8);
        for (uint32_t k = 0; k < 4; k++) {
            shuffle[i * 4 + k] = (uint8_t)(bit / 8 + k);
        }
        shift[i] = bit % 8;
    }
    l.shuffle = _mm256_loadu_si256((const __m256i *)shuffle);
    l.shift = _mm256_loadu_si256((const __m256i *)shift);
    l.mask = _mm256_set1_epi32((int32_t)(((uint64_t)1 << width) - 1));
    return l;
}

AVX2_INLINE __m256i unpack_8(const uint8_t *in, const layout *l) {
    __m128i low = _mm_loadu_si128((const __m128i *)in);
    __m128i high = _mm_loadu_si128((const __m128i *)(in + l->second));
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    __m256i lanes = _mm256_shuffle_epi8(both, l->shuffle);
    return _mm256_and_si256(_mm256_srlv_epi32(lanes, l->shift), l->mask);
}

AVX2 static void unpack_32(uint32_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                           int32_t width) {
    size_t i = 0;
    if (width > 0 && width <= 25) {
        layout l = layout_of(width);
        size_t reach = l.second + 16; /* bytes that a step reads */
        for (; i + 8 <= n && (size_t)(in_end - in) >= reach; i += 8) {
            _mm256_storeu_si256((__m256i *)(out + i), unpack_8(in, &l));
            in += width;
        }
    }
    mr_column_kernels_scalar.unpack_32(out + i, in, in_end, n - i, width);
}

/* Narrow ones as 32 bits, then widened; wide ones as the reference does. */
AVX2 static void unpack_64(uint64_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                           int32_t width) {
    size_t i = 0;
    if (width > 0 && width <= 25) {
        layout l = layout_of(width);
        size_t reach = l.second + 16;
        for (; i + 8 <= n && (size_t)(in_end - in) >= reach; i += 8) {
            __m256i eight = unpack_8(in, &l);
            __m256i low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(eight));
            __m256i high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(eight, 1));
            _mm256_storeu_si256((__m256i *)(out + i), low);
            _mm256_storeu_si256((__m256i *)(out + i + 4), high);
            in += width;
        }
    }
    mr_column_kernels_scalar.unpack_64(out + i, in, in_end, n - i, width);
}

AVX2 static void unpack_bits(uint8_t *out, const uint8_t *in, size_t n) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                            2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i one = _mm256_set1_epi8(1);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        int32_t four;
        memcpy(&four, in + i / 8, sizeof four);
        __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(four), spread);
        __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_and_si256(set, one));
    }
    /* 8 at a time: a bit to each byte, which then is made 1 by a carry into its highest bit. */
    for (; i + 8 <= n; i += 8) {
        uint64_t one_each = (in[i / 8] * (uint64_t)0x0101010101010101) & 0x8040201008040201;
        uint64_t bytes = ((one_each + 0x7F7F7F7F7F7F7F7F) >> 7) & 0x0101010101010101;
        memcpy(out + i, &bytes, sizeof bytes);
    }
    mr_column_kernels_scalar.unpack_bits(out + i, in + i / 8, n - i);
}

AVX2 static uint32_t largest(const uint32_t *in, size_t n) {
    __m256i found = _mm256_setzero_si256();
    uint32_t lanes[8];
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        found = _mm256_max_epu32(found, _mm256_loadu_si256((const __m256i *)(in + i)));
    }
    _mm256_storeu_si256((__m256i *)lanes, found);
    uint32_t rest = mr_column_kernels_scalar.largest(in + i, n - i);
    uint32_t most = mr_column_kernels_scalar.largest(lanes, 8);
    return most > rest ? most : rest;
}

AVX2 static bool counts_up(const uint32_t *in, size_t n, uint32_t first) {
    const __m256i step = _mm256_set1_epi32(8);
    __m256i differ = _mm256_setzero_si256();
    __m256i wanted =
        _mm256_add_epi32(_mm256_set1_epi32((int)first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i found = _mm256_loadu_si256((const __m256i *)(in + i));
        differ = _mm256_or_si256(differ, _mm256_xor_si256(found, wanted));
        wanted = _mm256_add_epi32(wanted, step);
    }
    return _mm256_testz_si256(differ, differ) &&
           mr_column_kernels_scalar.counts_up(in + i, n - i, first + (uint32_t)i);
}

/* ---- Running sums: within each half, then across ---- */
AVX2 static uint32_t sum_32(uint32_t *value, size_t n, uint32_t step, uint32_t start) {
    const __m256i steps = _mm256_set1_epi32((int32_t)step);
    const __m256i last = _mm256_set1_epi32(7);
    __m256i carry = _mm256_set1_epi32((int32_t)start);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i v = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(value + i)), steps);
        v = _mm256_add_epi32(v, _mm256_slli_si256(v, 4));
        v = _mm256_add_epi32(v, _mm256_slli_si256(v, 8));
        __m256i low =
            _mm256_permute2x128_si256(v, v, 0x08); /* lower half to the upper, zeros below */
        v = _mm256_add_epi32(v, _mm256_shuffle_epi32(low, 0xFF));
        v = _mm256_add_epi32(v, carry);
        _mm256_storeu_si256((__m256i *)(value + i), v);
        carry = _mm256_permutevar8x32_epi32(v, last);
    }
    start = (uint32_t)_mm256_cvtsi256_si32(carry);
    return mr_column_kernels_scalar.sum_32(value + i, n - i, step, start);
}

AVX2 static uint64_t sum_64(uint64_t *value, size_t n, uint64_t step, uint64_t start) {
    const __m256i steps = _mm256_set1_epi64x((int64_t)step);
    __m256i carry = _mm256_set1_epi64x((int64_t)start);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m256i v = _mm256_add_epi64(_mm256_loadu_si256((const __m256i *)(value + i)), steps);
        v = _mm256_add_epi64(v, _mm256_slli_si256(v, 8));
        __m256i low = _mm256_permute2x128_si256(v, v, 0x08);
        v = _mm256_add_epi64(v, _mm256_unpackhi_epi64(low, low));
        v = _mm256_add_epi64(v, carry);
        _mm256_storeu_si256((__m256i *)(value + i), v);
        carry = _mm256_permute4x64_epi64(v, 0xFF);
    }
    start = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(carry));
    return mr_column_kernels_scalar.sum_64(value + i, n - i, step, start);
}

/* ---- Split bytes: interleaving pairs, then pairs of pairs ---- */
AVX2_INLINE __m128i plane(const uint8_t *in, size_t n, size_t k, size_t i) {
    return _mm_loadu_si128((const __m128i *)(in + k * n + i));
}

AVX2 static size_t join_4(uint8_t *out, const uint8_t *in, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = plane(in, n, 0, i), b = plane(in, n, 1, i);
        __m128i c = plane(in, n, 2, i), d = plane(in, n, 3, i);
        __m128i ab_low = _mm_unpacklo_epi8(a, b), ab_high = _mm_unpackhi_epi8(a, b);
        __m128i cd_low = _mm_unpacklo_epi8(c, d), cd_high = _mm_unpackhi_epi8(c, d);
        __m128i *to = (__m128i *)(out + i * 4);
        _mm_storeu_si128(to, _mm_unpacklo_epi16(ab_low, cd_low));
        _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(ab_low, cd_low));
        _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(ab_high, cd_high));
        _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(ab_high, cd_high));
    }
    return i;
}

AVX2 static size_t join_8(uint8_t *out, const uint8_t *in, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i pair[8], four[8]; /* pair: bytes 2k, 2k + 1 of values 0 to 7, then 8 to 15 */
        for (size_t k = 0; k < 4; k++) {
            __m128i a = plane(in, n, 2 * k, i), b = plane(in, n, 2 * k + 1, i);
            pair[k] = _mm_unpacklo_epi8(a, b);
            pair[4 + k] = _mm_unpackhi_epi8(a, b);
        }
        for (size_t half = 0; half < 2; half++) {
            const __m128i *p = pair + 4 * half;
            four[4 * half] = _mm_unpacklo_epi16(p[0], p[1]);
            four[4 * half + 1] = _mm_unpackhi_epi16(p[0], p[1]);
            four[4 * half + 2] = _mm_unpacklo_epi16(p[2], p[3]);
            four[4 * half + 3] = _mm_unpackhi_epi16(p[2], p[3]);
        }
        __m128i *to = (__m128i *)(out + i * 8);
        for (size_t half = 0; half < 2; half++) {
            const __m128i *f = four + 4 * half;
            _mm_storeu_si128(to++, _mm_unpacklo_epi32(f[0], f[2]));
            _mm_storeu_si128(to++, _mm_unpackhi_epi32(f[0], f[2]));
            _mm_storeu_si128(to++, _mm_unpacklo_epi32(f[1], f[3]));
            _mm_storeu_si128(to++, _mm_unpackhi_epi32(f[1], f[3]));
        }
    }
    return i;
}

AVX2 static size_t join_2(uint8_t *out, const uint8_t *in, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = plane(in, n, 0, i), b = plane(in, n, 1, i);
        _mm_storeu_si128((__m128i *)(out + i * 2), _mm_unpacklo_epi8(a, b));
        _mm_storeu_si128((__m128i *)(out + i * 2) + 1, _mm_unpackhi_epi8(a, b));
    }
    return i;
}

AVX2 static void join_bytes(uint8_t *out, const uint8_t *in, size_t n, size_t width) {
    size_t done = width == 4   ? join_4(out, in, n)
                  : width == 8 ? join_8(out, in, n)
                  : width == 2 ? join_2(out, in, n)
                               : 0;
    if (width > 8 || done == 0) {
        mr_column_kernels_scalar.join_bytes(out, in, n, width);
        return;
    }
    for (size_t i = done; i < n; i++) {
        for (size_t k = 0; k < width; k++) {
            out[i * width + k] = in[k * n + i];
        }
    }
}

static void spread_4(void *cells, const uint8_t *valid, size_t n, size_t values) {
    mr_column_kernels_scalar.spread_4(cells, valid, n, values);
}

static void spread_8(void *cells, const uint8_t *valid, size_t n, size_t values) {
    mr_column_kernels_scalar.spread_8(cells, valid, n, values);
}

const mr_column_kernels mr_column_kernels_avx2 = {
    .name = "avx2",
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
#endif
