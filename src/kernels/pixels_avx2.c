/* SPDX-License-Identifier: Apache-2.0 */
/* pixels_avx2.c - the loops of pixels.c with AVX2. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define FMA __attribute__((target("avx2,fma")))
#define FMA_INLINE static inline __attribute__((target("avx2,fma"), always_inline))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

/* 16 pixels of three interleaved bytes to three vectors of 16. Each third of the 48 bytes holds
 * some of each channel: gathered by a shuffle, absent bytes 0, then put together. */
AVX2_INLINE void split_16(const uint8_t *in, __m128i channel[3]) {
    const __m128i order[3][3] = {
        {_mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
         _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1),
         _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13)},
        {_mm_setr_epi8(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
         _mm_setr_epi8(-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1),
         _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14)},
        {_mm_setr_epi8(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
         _mm_setr_epi8(-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1),
         _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15)}};
    __m128i part[3];
    for (size_t k = 0; k < 3; k++) {
        part[k] = _mm_loadu_si128((const __m128i *)(in + 16 * k));
    }
    for (int c = 0; c < 3; c++) {
        __m128i found = _mm_or_si128(_mm_shuffle_epi8(part[0], order[c][0]),
                                     _mm_shuffle_epi8(part[1], order[c][1]));
        channel[c] = _mm_or_si128(found, _mm_shuffle_epi8(part[2], order[c][2]));
    }
}

AVX2 void mr_split_avx2(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                        size_t plane) {
    size_t i = 0;
    if (channels != 3) {
        mr_split_scalar(out, in, pixels, channels, plane);
        return;
    }
    for (; i + 16 <= pixels; i += 16) {
        __m128i channel[3];
        split_16(in + 3 * i, channel);
        for (size_t c = 0; c < 3; c++) {
            _mm_storeu_si128((__m128i *)(out + c * plane + i), channel[c]);
        }
    }
    for (; i < pixels; i++) {
        for (size_t c = 0; c < 3; c++) {
            out[c * plane + i] = in[3 * i + c];
        }
    }
}

/* Table entries are collected into a vector before they are stored: single stores are what limits
 * the scalar loop. A gather instruction is no faster, and on many CPUs slower. */
AVX2_INLINE __m128i entries_32(const uint8_t *in, const uint32_t *table) {
    __m128i four = _mm_cvtsi32_si128((int)table[in[0]]);
    four = _mm_insert_epi32(four, (int)table[in[3]], 1);
    four = _mm_insert_epi32(four, (int)table[in[6]], 2);
    return _mm_insert_epi32(four, (int)table[in[9]], 3);
}

AVX2_INLINE __m128i entries_16(const uint8_t *in, const uint16_t *table) {
    __m128i eight = _mm_cvtsi32_si128((int)table[in[0]]);
    eight = _mm_insert_epi16(eight, table[in[3]], 1);
    eight = _mm_insert_epi16(eight, table[in[6]], 2);
    eight = _mm_insert_epi16(eight, table[in[9]], 3);
    eight = _mm_insert_epi16(eight, table[in[12]], 4);
    eight = _mm_insert_epi16(eight, table[in[15]], 5);
    eight = _mm_insert_epi16(eight, table[in[18]], 6);
    return _mm_insert_epi16(eight, table[in[21]], 7);
}

/* `entries` pixels at a time, and the rest one by one. */
#define LOOKUP_PLANES(entries, collect)                                                            \
    size_t i = 0;                                                                                  \
    for (; i + (entries) <= pixels; i += (entries)) {                                              \
        for (size_t c = 0; c < 3; c++) {                                                           \
            _mm_storeu_si128((__m128i *)(out + c * plane + i),                                     \
                             collect(in + 3 * i + c, tables + c * 256));                           \
        }                                                                                          \
    }                                                                                              \
    for (; i < pixels; i++) {                                                                      \
        for (size_t c = 0; c < 3; c++) {                                                           \
            out[c * plane + i] = tables[c * 256 + in[3 * i + c]];                                  \
        }                                                                                          \
    }

AVX2 void mr_lookup_32_avx2(uint32_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                            const uint32_t *tables, size_t plane) {
    if (channels != 3 || plane == 0) {
        mr_lookup_32_scalar(out, in, pixels, channels, tables, plane);
        return;
    }
    LOOKUP_PLANES(4, entries_32)
}

AVX2 void mr_lookup_16_avx2(uint16_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                            const uint16_t *tables, size_t plane) {
    if (channels != 3 || plane == 0) {
        mr_lookup_16_scalar(out, in, pixels, channels, tables, plane);
        return;
    }
    LOOKUP_PLANES(8, entries_16)
}

/* Eight bytes of one channel, as pixels.c's `multiplied` does it. */
FMA_INLINE __m256 normal_8(__m128i bytes, const mr_normal *normal, size_t channel) {
    __m256 byte = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    __m256 unit = _mm256_fmadd_ps(byte, _mm256_set1_ps(MR_INVERSE_255),
                                  _mm256_mul_ps(byte, _mm256_set1_ps(MR_RESIDUE_255)));
    __m256 centred = _mm256_sub_ps(unit, _mm256_set1_ps(normal->mean[channel]));
    return _mm256_fmadd_ps(centred, _mm256_set1_ps(normal->inverse[channel]),
                           _mm256_mul_ps(centred, _mm256_set1_ps(normal->residue[channel])));
}

FMA_INLINE void store_16(float *out, __m128i bytes, const mr_normal *normal, size_t channel) {
    _mm256_storeu_ps(out, normal_8(bytes, normal, channel));
    _mm256_storeu_ps(out + 8, normal_8(_mm_srli_si128(bytes, 8), normal, channel));
}

FMA void mr_normalize_avx2(uint32_t *out, const uint8_t *in, size_t pixels, const mr_normal *normal,
                           size_t plane) {
    float *red = (float *)(void *)out, *green = red + plane, *blue = green + plane;
    size_t i = 0;
    for (; i + 16 <= pixels; i += 16) {
        __m128i channel[3];
        split_16(in + 3 * i, channel);
        store_16(red + i, channel[0], normal, 0);
        store_16(green + i, channel[1], normal, 1);
        store_16(blue + i, channel[2], normal, 2);
    }
    mr_normalize_scalar(out + i, in + 3 * i, pixels - i, normal, plane);
}

/* Five pixels of a load of 16 bytes at a time; the 16th byte is not touched by the shuffle's
 * meaning and is overwritten by the next store, so the last pixels are left to the scalar loop. */
AVX2 static size_t mirror_3(uint8_t *out, const uint8_t *in, size_t pixels) {
    const __m128i order = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, -1);
    size_t i = 0;
    for (; i + 6 <= pixels; i += 5) {
        const uint8_t *from = in + 3 * (pixels - i) - 16;
        __m128i five = _mm_loadu_si128((const __m128i *)from);
        _mm_storeu_si128((__m128i *)(out + 3 * i), _mm_shuffle_epi8(five, order));
    }
    return i;
}

AVX2 static size_t mirror_1(uint8_t *out, const uint8_t *in, size_t pixels) {
    const __m128i order = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    size_t i = 0;
    for (; i + 16 <= pixels; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(in + pixels - i - 16));
        _mm_storeu_si128((__m128i *)(out + i), _mm_shuffle_epi8(bytes, order));
    }
    return i;
}

void mr_mirror_avx2(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels) {
    size_t done = channels == 3 ? mirror_3(out, in, pixels) : mirror_1(out, in, pixels);
    mr_mirror_scalar(out + done * (size_t)channels, in, pixels - done, channels);
}
#endif
