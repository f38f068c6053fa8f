/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_rows_avx512.c - the loops of jpeg_rows.c with AVX-512. Masks take the ends of rows, so
 * nothing is read or written beyond them. */
#include "kernels/jpeg.h"

#if defined(__x86_64__)
#include "kernels/avx512.h"

/* The first n of 32. */
AVX512_INLINE __mmask32 first_32(size_t n) {
    return n < 32 ? (1u << n) - 1 : UINT32_MAX;
}

/* ---- Upsampling: 32 samples at a time, as 16-bit values ---- */
AVX512_INLINE __m512i load_32(const uint8_t *in, __mmask32 wanted) {
    return _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(wanted, in));
}

AVX512_INLINE __m512i three_and_one(__m512i near, __m512i far) {
    return _mm512_add_epi16(_mm512_add_epi16(near, far), _mm512_add_epi16(near, near));
}

/* even >> shift and odd >> shift, in turns, as bytes: no sum needs more than 8 bits once shifted.
 */
AVX512_INLINE void store_turns(uint8_t *out, size_t n, __m512i even, __m512i odd, const int shift) {
    const __m512i upper = _mm512_set1_epi16((int16_t)0xFF00);
    even = _mm512_srlv_epi16(even, _mm512_set1_epi16((int16_t)shift));
    odd = _mm512_sllv_epi16(odd, _mm512_set1_epi16((int16_t)(8 - shift)));
    enum { ODD_WHERE_UPPER = 0xCA }; /* upper ? odd : even */
    __m512i both = _mm512_ternarylogic_epi64(upper, odd, even, ODD_WHERE_UPPER);
    _mm512_mask_storeu_epi8(out, first_64(2 * n), both);
}

AVX512 void mr_jpeg_widen_avx512(uint8_t *out, const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i += 32) {
        __mmask32 wanted = first_32(n - i);
        __m512i here = load_32(in + i, wanted);
        __m512i even = three_and_one(here, load_32(in + i - 1, wanted));
        __m512i odd = three_and_one(here, load_32(in + i + 1, wanted));
        even = _mm512_add_epi16(even, _mm512_set1_epi16(1));
        odd = _mm512_add_epi16(odd, _mm512_set1_epi16(2));
        store_turns(out + 2 * i, n - i, even, odd, 2);
    }
}

AVX512 void mr_jpeg_heighten_avx512(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n,
                                    int upper) {
    const __m512i bias = _mm512_set1_epi16(upper ? 1 : 2);
    for (size_t i = 0; i < n; i += 32) {
        __mmask32 wanted = first_32(n - i);
        __m512i sum = three_and_one(load_32(near + i, wanted), load_32(far + i, wanted));
        sum = _mm512_srli_epi16(_mm512_add_epi16(sum, bias), 2);
        _mm256_mask_storeu_epi8(out + i, wanted, _mm512_cvtepi16_epi8(sum));
    }
}

/* Of samples from `at` on, up to and with sample n. */
AVX512_INLINE __m512i column_sums(const uint8_t *near, const uint8_t *far, size_t at, size_t n) {
    __mmask32 wanted = at > n ? 0 : first_32(n + 1 - at);
    return three_and_one(load_32(near + at, wanted), load_32(far + at, wanted));
}

/* A sum is needed for three samples, so each is computed once: what is missing on both sides of 32
 * comes from the sums before and after them. */
AVX512 void mr_jpeg_enlarge_avx512(uint8_t *out, const uint8_t *near, const uint8_t *far,
                                   size_t n) {
    const __m512i counting =
        _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13,
                         12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i one_before = _mm512_add_epi16(counting, _mm512_set1_epi16(31));
    const __m512i one_after = _mm512_add_epi16(counting, _mm512_set1_epi16(1));
    __m512i last = _mm512_set1_epi16((int16_t)(3 * near[-1] + far[-1]));
    __m512i here = column_sums(near, far, 0, n);
    for (size_t i = 0; i < n; i += 32) {
        __m512i next = column_sums(near, far, i + 32, n);
        __m512i before = _mm512_permutex2var_epi16(last, one_before, here);
        __m512i after = _mm512_permutex2var_epi16(here, one_after, next);
        __m512i three = _mm512_add_epi16(here, _mm512_add_epi16(here, here));
        __m512i even = _mm512_add_epi16(three, _mm512_add_epi16(before, _mm512_set1_epi16(8)));
        __m512i odd = _mm512_add_epi16(three, _mm512_add_epi16(after, _mm512_set1_epi16(7)));
        store_turns(out + 2 * i, n - i, even, odd, 4);
        last = here;
        here = next;
    }
}

/* ---- Colour: 64 pixels at a time ---- */
typedef struct colours {
    __m512i red, green, blue; /* 16 bits */
} colours;

AVX512_INLINE __m512i green_part(__m512i cb, __m512i cr) {
    const __m512i factors = _mm512_set1_epi32(MR_GREEN_CR * 65536 | (MR_GREEN_CB & 0xFFFF));
    const __m512i half = _mm512_set1_epi32(1 << 15);
    __m512i low = _mm512_dpwssd_epi32(half, _mm512_unpacklo_epi16(cb, cr), factors);
    __m512i high = _mm512_dpwssd_epi32(half, _mm512_unpackhi_epi16(cb, cr), factors);
    return _mm512_packs_epi32(_mm512_srai_epi32(low, 16), _mm512_srai_epi32(high, 16));
}

/* As with AVX2. */
AVX512_INLINE colours convert_32(__m512i y, __m512i cb, __m512i cr) {
    const __m512i middle = _mm512_set1_epi16(128);
    const __m512i red = _mm512_set1_epi16(MR_RED_CR / 2), blue = _mm512_set1_epi16(MR_BLUE_CB / 2);
    cb = _mm512_sub_epi16(cb, middle);
    cr = _mm512_sub_epi16(cr, middle);
    colours c;
    c.red = _mm512_add_epi16(_mm512_add_epi16(y, cr), _mm512_mulhrs_epi16(cr, red));
    c.green = _mm512_add_epi16(_mm512_sub_epi16(y, cr), green_part(cb, cr));
    c.blue = _mm512_add_epi16(_mm512_add_epi16(y, _mm512_add_epi16(cb, cb)),
                              _mm512_mulhrs_epi16(cb, blue));
    return c;
}

/* Where the bytes of interleaved pixels come from: red of pixel i is i, green 64 + i; blue, which
 * is put in after them, i. */
#define PIXEL(i) (i), 64 + (i), (i)
#define PIXELS_4(i) PIXEL(i), PIXEL((i) + 1), PIXEL((i) + 2), PIXEL((i) + 3)
#define PIXELS_16(i) PIXELS_4(i), PIXELS_4((i) + 4), PIXELS_4((i) + 8), PIXELS_4((i) + 12)
_Alignas(64) static const uint8_t pixel_bytes[192] = {PIXELS_16(0), PIXELS_16(16), PIXELS_16(32),
                                                      PIXELS_16(48)};

/* The first n pixels. */
AVX512_INLINE void store_interleaved(uint8_t *out, size_t n, __m512i red, __m512i green,
                                     __m512i blue) {
    const __mmask64 is_blue[3] = {0x4924924924924924, 0x2492492492492492, 0x9249249249249249};
    for (size_t k = 0; k < 3; k++) {
        __m512i from = _mm512_load_si512(pixel_bytes + 64 * k);
        __m512i bytes = _mm512_permutex2var_epi8(red, from, green);
        bytes = _mm512_mask_permutexvar_epi8(bytes, is_blue[k], from, blue);
        size_t wanted = 3 * n > 64 * k ? 3 * n - 64 * k : 0;
        _mm512_mask_storeu_epi8(out + 64 * k, first_64(wanted), bytes);
    }
}

AVX512_INLINE void convert_64(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                              size_t n) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i ys = _mm512_maskz_loadu_epi8(first_64(n), y);
    __m512i cbs = _mm512_maskz_loadu_epi8(first_64(n), cb);
    __m512i crs = _mm512_maskz_loadu_epi8(first_64(n), cr);
    colours low = convert_32(_mm512_unpacklo_epi8(ys, zero), _mm512_unpacklo_epi8(cbs, zero),
                             _mm512_unpacklo_epi8(crs, zero));
    colours high = convert_32(_mm512_unpackhi_epi8(ys, zero), _mm512_unpackhi_epi8(cbs, zero),
                              _mm512_unpackhi_epi8(crs, zero));
    store_interleaved(out, n, _mm512_packus_epi16(low.red, high.red),
                      _mm512_packus_epi16(low.green, high.green),
                      _mm512_packus_epi16(low.blue, high.blue));
}

AVX512 void mr_jpeg_to_rgb_avx512(uint8_t *out, const uint8_t *y, const uint8_t *cb,
                                  const uint8_t *cr, size_t n) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        convert_64(out + 3 * i, y + i, cb + i, cr + i, 64);
    }
    if (i < n) {
        convert_64(out + 3 * i, y + i, cb + i, cr + i, n - i);
    }
}
#endif
