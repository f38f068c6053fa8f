/* SPDX-License-Identifier: Apache-2.0 */
/* columns_avx512.c - the loops over encoded columns that gain from AVX-512, equal to the scalar
 * ones bit for bit. Masks take the ends of what is packed: nothing is left for the scalar loops. */
#include "kernels/columns.h"

#if defined(__x86_64__)
#include <string.h>

#include "kernels/avx512.h"

AVX512_INLINE __m512i load_up_to(const uint8_t *in, const uint8_t *in_end) {
    return _mm512_maskz_loadu_epi8(first_64(in < in_end ? (size_t)(in_end - in) : 0), in);
}

/* ---- Bit-packed integers ----
 * A permutation of bytes brings to each lane those of its value, and a shift and a mask do the
 * rest. A value begins at one of the lowest eight bits of its lane: lanes of 4 bytes hold up to 25
 * bits, those of 8 up to 57. */
typedef struct layout {
    __m512i bytes, shift, mask;
} layout;

AVX512_INLINE layout layout_16(size_t width) {
    const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i lowest =
        _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C));
    __m512i bit = _mm512_mullo_epi32(count, _mm512_set1_epi32((int32_t)width));
    __m512i byte = _mm512_shuffle_epi8(_mm512_srli_epi32(bit, 3), lowest);
    return (layout){.bytes = _mm512_add_epi8(byte, _mm512_set1_epi32(0x03020100)),
                    .shift = _mm512_and_si512(bit, _mm512_set1_epi32(7)),
                    .mask = _mm512_set1_epi32((int32_t)(((uint32_t)1 << width) - 1))};
}

AVX512_INLINE layout layout_8(size_t width) {
    const __m512i count = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i lowest = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0x08080808, 0x08080808));
    __m512i bit = _mm512_mullo_epi32(count, _mm512_set1_epi64((int64_t)width));
    __m512i byte = _mm512_shuffle_epi8(_mm512_srli_epi64(bit, 3), lowest);
    return (layout){.bytes = _mm512_add_epi8(byte, _mm512_set1_epi64(0x0706050403020100)),
                    .shift = _mm512_and_si512(bit, _mm512_set1_epi64(7)),
                    .mask = _mm512_set1_epi64((int64_t)(((uint64_t)1 << width) - 1))};
}

AVX512_INLINE __m512i values_16(__m512i in, const layout *l) {
    __m512i lanes = _mm512_permutexvar_epi8(l->bytes, in);
    return _mm512_and_si512(_mm512_srlv_epi32(lanes, l->shift), l->mask);
}

AVX512_INLINE __m512i values_8(__m512i in, const layout *l) {
    __m512i lanes = _mm512_permutexvar_epi8(l->bytes, in);
    return _mm512_and_si512(_mm512_srlv_epi64(lanes, l->shift), l->mask);
}

AVX512 static void unpack_narrow(uint32_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                                 size_t width) {
    layout l = layout_16(width);
    size_t i = 0;
    for (; i + 16 <= n && (size_t)(in_end - in) >= i / 8 * width + 64; i += 16) {
        _mm512_storeu_si512(out + i, values_16(_mm512_loadu_si512(in + i / 8 * width), &l));
    }
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_si512(out + i, values_16(load_up_to(in + i / 8 * width, in_end), &l));
    }
    __m512i rest = values_16(load_up_to(in + i / 8 * width, in_end), &l);
    _mm512_mask_storeu_epi32(out + i, (__mmask16)first_64(n - i), rest);
}

/* The lower halves of two times eight. */
AVX512_INLINE __m512i values_of(__m512i low, __m512i high, const layout *l) {
    const __m512i halves =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_epi32(values_8(low, l), halves, values_8(high, l));
}

AVX512 static void unpack_wide(uint32_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                               size_t width) {
    layout l = layout_8(width);
    size_t i = 0;
    for (; i + 16 <= n && (size_t)(in_end - in) >= (i / 8 + 1) * width + 64; i += 16) {
        const uint8_t *at = in + i / 8 * width;
        __m512i low = _mm512_loadu_si512(at), high = _mm512_loadu_si512(at + width);
        _mm512_storeu_si512(out + i, values_of(low, high, &l));
    }
    for (; i < n; i += 16) {
        const uint8_t *at = in + i / 8 * width;
        __m512i low = load_up_to(at, in_end), high = load_up_to(at + width, in_end);
        _mm512_mask_storeu_epi32(out + i, (__mmask16)first_64(n - i), values_of(low, high, &l));
    }
}

AVX512 static void unpack_32(uint32_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                             int32_t width) {
    if (width == 0) {
        memset(out, 0, n * sizeof *out);
    } else if (width <= 25) {
        unpack_narrow(out, in, in_end, n, (size_t)width);
    } else {
        unpack_wide(out, in, in_end, n, (size_t)width);
    }
}

AVX512 static void unpack_64(uint64_t *out, const uint8_t *in, const uint8_t *in_end, size_t n,
                             int32_t width) {
    size_t step = (size_t)width, i = 0;
    if (width == 0 || width > 57) {
        mr_column_kernels_scalar.unpack_64(out, in, in_end, n, width);
        return;
    }
    layout l = layout_8(step);
    for (; i + 8 <= n && (size_t)(in_end - in) >= i / 8 * step + 64; i += 8) {
        _mm512_storeu_si512(out + i, values_8(_mm512_loadu_si512(in + i / 8 * step), &l));
    }
    for (; i + 8 <= n; i += 8) {
        _mm512_storeu_si512(out + i, values_8(load_up_to(in + i / 8 * step, in_end), &l));
    }
    __m512i rest = values_8(load_up_to(in + i / 8 * step, in_end), &l);
    _mm512_mask_storeu_epi64(out + i, (__mmask8)first_64(n - i), rest);
}

/* Levels of columns with some nulls are runs of some dozens of bits: those go by eight. */
AVX512 static void unpack_bits(uint8_t *out, const uint8_t *in, size_t n) {
    const __m512i one = _mm512_set1_epi8(1);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bits;
        memcpy(&bits, in + i / 8, sizeof bits);
        _mm512_storeu_si512(out + i, _mm512_maskz_mov_epi8(bits, one));
    }
    for (; i + 8 <= n; i += 8) {
        uint64_t eight = _pdep_u64(in[i / 8], 0x0101010101010101u);
        memcpy(out + i, &eight, sizeof eight);
    }
    for (; i < n; i++) {
        out[i] = in[i / 8] >> i % 8 & 1;
    }
}

AVX512 static uint32_t largest(const uint32_t *in, size_t n) {
    __m512i found = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        found = _mm512_max_epu32(found, _mm512_loadu_si512(in + i));
    }
    __m512i rest = _mm512_maskz_loadu_epi32((__mmask16)first_64(n - i), in + i);
    return _mm512_reduce_max_epu32(_mm512_max_epu32(found, rest));
}

static bool counts_up(const uint32_t *in, size_t n, uint32_t first) {
    return mr_column_kernels_avx2.counts_up(in, n, first);
}

/* ---- Values between nulls: sixteen or eight cells at once, the last first. What is written lies
 * behind all that is still to be read. ---- */
AVX512 static void spread_4(void *cells, const uint8_t *valid, size_t n, size_t values) {
    uint32_t *cell = cells;
    while (n >= 16 && values < n) {
        __m128i flags = _mm_loadu_si128((const __m128i *)(const void *)(valid + n - 16));
        __mmask16 mask = _mm_test_epi8_mask(flags, flags);
        uint32_t count = (uint32_t)__builtin_popcount(mask);
        if (count > values) {
            break; /* not so many are there: as the scalar loop takes it */
        }
        __m512i in =
            _mm512_maskz_loadu_epi32((__mmask16)((1u << count) - 1), cell + values - count);
        _mm512_storeu_si512(cell + n - 16, _mm512_maskz_expand_epi32(mask, in));
        values -= count;
        n -= 16;
    }
    mr_column_kernels_scalar.spread_4(cells, valid, n, values);
}

AVX512 static void spread_8(void *cells, const uint8_t *valid, size_t n, size_t values) {
    uint64_t *cell = cells;
    while (n >= 8 && values < n) {
        __m128i flags = _mm_loadl_epi64((const __m128i *)(const void *)(valid + n - 8));
        __mmask8 mask = (__mmask8)_mm_test_epi8_mask(flags, flags);
        uint32_t count = (uint32_t)__builtin_popcount(mask);
        if (count > values) {
            break;
        }
        __m512i in = _mm512_maskz_loadu_epi64((__mmask8)((1u << count) - 1), cell + values - count);
        _mm512_storeu_si512(cell + n - 8, _mm512_maskz_expand_epi64(mask, in));
        values -= count;
        n -= 8;
    }
    mr_column_kernels_scalar.spread_8(cells, valid, n, values);
}

/* ---- Running sums: the sum before a vector is added last. So the next one waits for an addition
 * alone. ---- */
AVX512 static uint32_t sum_32(uint32_t *value, size_t n, uint32_t step, uint32_t start) {
    const __m512i steps = _mm512_set1_epi32((int32_t)step), last = _mm512_set1_epi32(15);
    const __m512i zero = _mm512_setzero_si512();
    __m512i before = _mm512_set1_epi32((int32_t)start);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512i v = _mm512_add_epi32(_mm512_loadu_si512(value + i), steps);
        v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
        v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
        v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
        v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
        _mm512_storeu_si512(value + i, _mm512_add_epi32(v, before));
        before = _mm512_add_epi32(before, _mm512_permutexvar_epi32(last, v));
    }
    start = (uint32_t)_mm512_cvtsi512_si32(before);
    return mr_column_kernels_scalar.sum_32(value + i, n - i, step, start);
}

AVX512 static uint64_t sum_64(uint64_t *value, size_t n, uint64_t step, uint64_t start) {
    const __m512i steps = _mm512_set1_epi64((int64_t)step), last = _mm512_set1_epi64(7);
    const __m512i zero = _mm512_setzero_si512();
    __m512i before = _mm512_set1_epi64((int64_t)start);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512i v = _mm512_add_epi64(_mm512_loadu_si512(value + i), steps);
        v = _mm512_add_epi64(v, _mm512_alignr_epi64(v, zero, 7));
        v = _mm512_add_epi64(v, _mm512_alignr_epi64(v, zero, 6));
        v = _mm512_add_epi64(v, _mm512_alignr_epi64(v, zero, 4));
        _mm512_storeu_si512(value + i, _mm512_add_epi64(v, before));
        before = _mm512_add_epi64(before, _mm512_permutexvar_epi64(last, v));
    }
    start = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(before));
    return mr_column_kernels_scalar.sum_64(value + i, n - i, step, start);
}

/* ---- Split bytes: 16 values at a time, whose bytes lie in as many pieces of 16 ---- */
AVX512_INLINE __m512i four_planes(const uint8_t *in, size_t n) {
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)in));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(in + n)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(in + 2 * n)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(in + 3 * n)), 3);
}

AVX512 static size_t join_4(uint8_t *out, const uint8_t *in, size_t n) {
    uint8_t places[64];
    size_t i = 0;
    for (uint32_t k = 0; k < 64; k++) {
        places[k] = (uint8_t)(k % 4 * 16 + k / 4);
    }
    __m512i order = _mm512_loadu_si512(places);
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_si512(out + i * 4, _mm512_permutexvar_epi8(order, four_planes(in + i, n)));
    }
    return i;
}

AVX512 static size_t join_8(uint8_t *out, const uint8_t *in, size_t n) {
    uint8_t places[128];
    size_t i = 0;
    for (uint32_t k = 0; k < 128; k++) {
        places[k] = (uint8_t)(k % 8 * 16 + k / 8);
    }
    __m512i low = _mm512_loadu_si512(places), high = _mm512_loadu_si512(places + 64);
    for (; i + 16 <= n; i += 16) {
        __m512i a = four_planes(in + i, n), b = four_planes(in + 4 * n + i, n);
        _mm512_storeu_si512(out + i * 8, _mm512_permutex2var_epi8(a, low, b));
        _mm512_storeu_si512(out + i * 8 + 64, _mm512_permutex2var_epi8(a, high, b));
    }
    return i;
}

AVX512 static void join_bytes(uint8_t *out, const uint8_t *in, size_t n, size_t width) {
    if (width != 4 && width != 8) {
        mr_column_kernels_avx2.join_bytes(out, in, n, width);
        return;
    }
    size_t done = width == 4 ? join_4(out, in, n) : join_8(out, in, n);
    for (size_t i = done; i < n; i++) {
        for (size_t k = 0; k < width; k++) {
            out[i * width + k] = in[k * n + i];
        }
    }
}

const mr_column_kernels mr_column_kernels_avx512 = {
    .name = "avx512",
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
