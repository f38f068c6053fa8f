/* SPDX-License-Identifier: Apache-2.0 */
/* pixels_avx512.c - the loops of pixels.c that gain from AVX-512. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include "kernels/avx512.h"

/* One channel of 16 pixels: the bytes from `channel` on, each third, become floats. */
AVX512_INLINE __m512 channel_of(__m512i pixels, int channel) {
    const __m512i third =
        _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    __m512i order = _mm512_add_epi32(third, _mm512_set1_epi32(channel));
    return _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(0x1111111111111111, order, pixels));
}

/* As pixels.c's `multiplied` does it. */
AVX512_INLINE __m512 normal_16(__m512i pixels, const mr_normal *normal, int c) {
    __m512 byte = channel_of(pixels, c);
    __m512 unit = _mm512_fmadd_ps(byte, _mm512_set1_ps(MR_INVERSE_255),
                                  _mm512_mul_ps(byte, _mm512_set1_ps(MR_RESIDUE_255)));
    __m512 centred = _mm512_sub_ps(unit, _mm512_set1_ps(normal->mean[c]));
    return _mm512_fmadd_ps(centred, _mm512_set1_ps(normal->inverse[c]),
                           _mm512_mul_ps(centred, _mm512_set1_ps(normal->residue[c])));
}

AVX512 void mr_normalize_avx512(uint32_t *out, const uint8_t *in, size_t pixels,
                                const mr_normal *normal, size_t plane) {
    const __mmask64 sixteen = (1ull << 48) - 1;
    size_t i = 0;
    for (; i + 16 <= pixels; i += 16) {
        __m512i part = _mm512_maskz_loadu_epi8(sixteen, in + 3 * i);
        _mm512_storeu_ps(out + i, normal_16(part, normal, 0));
        _mm512_storeu_ps(out + plane + i, normal_16(part, normal, 1));
        _mm512_storeu_ps(out + 2 * plane + i, normal_16(part, normal, 2));
    }
    mr_normalize_scalar(out + i, in + 3 * i, pixels - i, normal, plane);
}
#endif
