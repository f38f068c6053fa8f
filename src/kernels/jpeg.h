/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg.h - the inner loops of a JPEG decoder, bit for bit those of libjpeg-turbo 2.1.5 on x86: the
 * accurate integer DCT, smooth upsampling, YCbCr to RGB. */
#ifndef MR_KERNELS_JPEG_H
#define MR_KERNELS_JPEG_H

#include <stddef.h>
#include <stdint.h>

enum {
    MR_JPEG_BLOCK = 64,  /* coefficients, in rows of 8 from the lowest frequency on */
    MR_JPEG_MARGIN = 32, /* bytes around a row of samples that a kernel may read and write */
};

typedef struct mr_jpeg_kernels {
    /* Two blocks to 8 x 8 samples each. `known`: none but the first so many coefficients in zigzag
     * order are other than 0, in either. Blocks and quantisers are aligned to 32 bytes. */
    void (*idct)(const int16_t *const blocks[2], const int16_t *quantisers, uint8_t *const out[2],
                 size_t stride, int32_t known);

    /* Twice as many columns. Reads in[-1] to in[n]; at the edge of an image those are copies of
     * their neighbours. Writes up to MR_JPEG_MARGIN bytes more than 2n. */
    void (*widen)(uint8_t *out, const uint8_t *in, size_t n);
    /* Twice as many rows: the one that lies between `near` and `far`, closer to near. The upper
     * of the two rows made of `near` rounds otherwise than the lower. Writes and reads up to
     * MR_JPEG_MARGIN bytes more than n. */
    void (*heighten)(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n, int upper);
    /* Both. */
    void (*enlarge)(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n);

    /* Writes exactly 3n bytes; reads up to MR_JPEG_MARGIN bytes more than n. */
    void (*to_rgb)(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n);

    /* Copies image data up to a byte that is 0xFF and not followed by 0, or up to `size`, without
     * the 0 after each 0xFF. Returns how many bytes were read, sets how many were written; writes
     * up to MR_JPEG_MARGIN more. A 0xFF at the very end stays unread. */
    size_t (*unstuff)(uint8_t *out, const uint8_t *in, size_t size, size_t *written);
} mr_jpeg_kernels;

/* ---- Scalar references ---- */
void mr_jpeg_idct_scalar(const int16_t *const blocks[2], const int16_t *quantisers,
                         uint8_t *const out[2], size_t stride, int32_t known);
void mr_jpeg_widen_scalar(uint8_t *out, const uint8_t *in, size_t n);
void mr_jpeg_heighten_scalar(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n,
                             int upper);
void mr_jpeg_enlarge_scalar(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n);
void mr_jpeg_to_rgb_scalar(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                           size_t n);
size_t mr_jpeg_unstuff_scalar(uint8_t *out, const uint8_t *in, size_t size, size_t *written);

/* ---- Variants ---- */
#if defined(__x86_64__)
void mr_jpeg_idct_avx2(const int16_t *const blocks[2], const int16_t *quantisers,
                       uint8_t *const out[2], size_t stride, int32_t known);
void mr_jpeg_widen_avx2(uint8_t *out, const uint8_t *in, size_t n);
void mr_jpeg_heighten_avx2(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n,
                           int upper);
void mr_jpeg_enlarge_avx2(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n);
void mr_jpeg_to_rgb_avx2(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                         size_t n);
size_t mr_jpeg_unstuff_avx2(uint8_t *out, const uint8_t *in, size_t size, size_t *written);
void mr_jpeg_widen_avx512(uint8_t *out, const uint8_t *in, size_t n);
void mr_jpeg_heighten_avx512(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n,
                             int upper);
void mr_jpeg_enlarge_avx512(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n);
void mr_jpeg_to_rgb_avx512(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                           size_t n);
#endif

/* Fixed point with 13 bits behind the point, of the DCT after Loeffler, Ligtenberg and Moschytz. */
enum {
    MR_DCT_0_298 = 2446,
    MR_DCT_0_390 = 3196,
    MR_DCT_0_541 = 4433,
    MR_DCT_0_765 = 6270,
    MR_DCT_0_899 = 7373,
    MR_DCT_1_175 = 9633,
    MR_DCT_1_501 = 12299,
    MR_DCT_1_847 = 15137,
    MR_DCT_1_961 = 16069,
    MR_DCT_2_053 = 16819,
    MR_DCT_2_562 = 20995,
    MR_DCT_3_072 = 25172,
};

/* Fixed point with 16 bits behind the point, of ITU-R 601. Those above 1/2 are kept as their
 * distance from a whole number, which fits 16-bit multipliers. */
enum {
    MR_RED_CR = 26345,    /* 1.40200 - 1 */
    MR_BLUE_CB = -14942,  /* 1.77200 - 2 */
    MR_GREEN_CB = -22554, /* -0.34414 */
    MR_GREEN_CR = 18734,  /* -0.71414 + 1 */
};

#endif
