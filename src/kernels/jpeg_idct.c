/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct.c - the accurate integer inverse DCT, as libjpeg-turbo does it with SIMD.
 *
 * For the coefficients of any sensible file this is the textbook's transform in exact arithmetic
 * with two roundings. Damaged and hostile files have larger ones, and there the widths of the
 * intermediate values show: dequantised values and some sums wrap around at 16 bits, results of
 * the first pass saturate at 16 bits. Where all rows but the first are 0, the first pass is left
 * out, and its result wraps around instead. Files must give the same pixels here as there, so all
 * of this is reproduced. */
#include "kernels/jpeg.h"

#include <stdbool.h>

enum { PASS_1_SHIFT = 11, PASS_2_SHIFT = 18, PASS_1_BITS = 2, CONST_BITS = 13 };

static int16_t wrap_16(int32_t value) {
    return (int16_t)(uint16_t)(uint32_t)value;
}

/* a * x + b * y, with sums that wrap around. */
static uint32_t dot(int32_t x, int32_t a, int32_t y, int32_t b) {
    return (uint32_t)(x * a) + (uint32_t)(y * b);
}

static int16_t descale(uint32_t sum, int shift) {
    int32_t value = (int32_t)(sum + (1u << (shift - 1))) >> shift;
    return (int16_t)(value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value);
}

static void even_part(const int16_t in[8], uint32_t even[4]) {
    uint32_t low = dot(in[2], MR_DCT_0_541, in[6], MR_DCT_0_541 - MR_DCT_1_847);
    uint32_t high = dot(in[2], MR_DCT_0_541 + MR_DCT_0_765, in[6], MR_DCT_0_541);
    uint32_t sum = (uint32_t)wrap_16(in[0] + in[4]) << CONST_BITS;
    uint32_t difference = (uint32_t)wrap_16(in[0] - in[4]) << CONST_BITS;
    even[0] = sum + high;
    even[1] = difference + low;
    even[2] = difference - low;
    even[3] = sum - high;
}

static void odd_part(const int16_t in[8], uint32_t odd[4]) {
    int16_t z3 = wrap_16(in[7] + in[3]), z4 = wrap_16(in[5] + in[1]);
    uint32_t common_3 = dot(z3, MR_DCT_1_175 - MR_DCT_1_961, z4, MR_DCT_1_175);
    uint32_t common_4 = dot(z3, MR_DCT_1_175, z4, MR_DCT_1_175 - MR_DCT_0_390);
    odd[0] = dot(in[7], -MR_DCT_0_899, in[1], MR_DCT_1_501 - MR_DCT_0_899) + common_4;
    odd[1] = dot(in[5], -MR_DCT_2_562, in[3], MR_DCT_3_072 - MR_DCT_2_562) + common_3;
    odd[2] = dot(in[5], MR_DCT_2_053 - MR_DCT_2_562, in[3], -MR_DCT_2_562) + common_4;
    odd[3] = dot(in[7], MR_DCT_0_298 - MR_DCT_0_899, in[1], -MR_DCT_0_899) + common_3;
}

static void transform(const int16_t in[8], int16_t out[8], int shift) {
    uint32_t even[4], odd[4];
    even_part(in, even);
    odd_part(in, odd);
    for (int i = 0; i < 4; i++) {
        out[i] = descale(even[i] + odd[i], shift);
        out[7 - i] = descale(even[i] - odd[i], shift);
    }
}

static bool only_first_row(const int16_t *block) {
    int any = 0;
    for (int i = 8; i < MR_JPEG_BLOCK; i++) {
        any |= block[i];
    }
    return any == 0;
}

static void column(const int16_t *block, const int16_t *quantisers, bool flat, int x,
                   int16_t rows[8][8]) {
    int16_t in[8], out[8];
    for (int y = 0; y < 8; y++) {
        in[y] = wrap_16(block[y * 8 + x] * quantisers[y * 8 + x]);
        out[y] = wrap_16((int32_t)((uint32_t)in[0] << PASS_1_BITS));
    }
    if (!flat) {
        transform(in, out, PASS_1_SHIFT);
    }
    for (int y = 0; y < 8; y++) {
        rows[y][x] = out[y];
    }
}

static void idct(const int16_t *block, const int16_t *quantisers, uint8_t *out, size_t stride) {
    int16_t rows[8][8], row[8];
    bool flat = only_first_row(block);
    for (int x = 0; x < 8; x++) {
        column(block, quantisers, flat, x, rows);
    }
    for (size_t y = 0; y < 8; y++) {
        transform(rows[y], row, PASS_2_SHIFT);
        for (int x = 0; x < 8; x++) {
            int32_t value = row[x] < -128 ? -128 : row[x] > 127 ? 127 : row[x];
            out[y * stride + (size_t)x] = (uint8_t)(value + 128);
        }
    }
}

void mr_jpeg_idct_scalar(const int16_t *const blocks[2], const int16_t *quantisers,
                         uint8_t *const out[2], size_t stride, int32_t known) {
    (void)known;
    idct(blocks[0], quantisers, out[0], stride);
    idct(blocks[1], quantisers, out[1], stride);
}
