/* SPDX-License-Identifier: Apache-2.0 */
/* pixels.c - loops that treat each pixel by itself: tables, planes, mirrors. Scalar references. */
#include "kernels/kernels.h"

#include <math.h>

#include "kernels/half.h"

/* One pass per channel, for 32-bit and 16-bit entries. */
#define LOOKUP(out, in, pixels, channels, tables, plane)                                           \
    for (size_t c = 0; c < (channels); c++) {                                                      \
        size_t step = (plane) ? 1 : (channels), at = (plane) ? c * (plane) : c;                    \
        for (size_t i = 0; i < (pixels); i++) {                                                    \
            (out)[at + i * step] = (tables)[c * 256 + (in)[i * (channels) + c]];                   \
        }                                                                                          \
    }

void mr_lookup_32_scalar(uint32_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                         const uint32_t *tables, size_t plane) {
    if (channels == 3) {
        LOOKUP(out, in, pixels, 3u, tables, plane)
    } else {
        LOOKUP(out, in, pixels, 1u, tables, plane)
    }
}

void mr_lookup_16_scalar(uint16_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                         const uint16_t *tables, size_t plane) {
    if (channels == 3) {
        LOOKUP(out, in, pixels, 3u, tables, plane)
    } else {
        LOOKUP(out, in, pixels, 1u, tables, plane)
    }
}

/* ---- Normalising ---- */
/* In float32, one operation after the other, as torch computes it. */
static float divided(float byte, float mean, float std) {
    float unit = byte / 255.0f;
    float centred = unit - mean;
    return centred / std;
}

static float multiplied(float byte, const mr_normal *normal, int channel) {
    float unit = fmaf(byte, MR_INVERSE_255, byte * MR_RESIDUE_255);
    float centred = unit - normal->mean[channel];
    return fmaf(centred, normal->inverse[channel], centred * normal->residue[channel]);
}

void mr_normal_make(mr_normal *normal, const float mean[3], const float std[3]) {
    normal->computable = true;
    for (int i = 0; i < 3 * 256; i++) {
        int c = i / 256;
        normal->mean[c] = mean[c];
        normal->inverse[c] = 1.0f / std[c];
        normal->residue[c] = (float)(1.0 / (double)std[c] - (double)normal->inverse[c]);
        normal->bits[i] = mr_float_bits(divided((float)(i % 256), mean[c], std[c]));
        uint32_t bits = mr_float_bits(multiplied((float)(i % 256), normal, c));
        normal->computable = normal->computable && bits == normal->bits[i];
    }
}

void mr_normalize_scalar(uint32_t *out, const uint8_t *in, size_t pixels, const mr_normal *normal,
                         size_t plane) {
    mr_lookup_32_scalar(out, in, pixels, 3, normal->bits, plane);
}

/* ---- Layout ---- */
void mr_split_scalar(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                     size_t plane) {
    size_t n = (size_t)channels;
    for (size_t c = 0; c < n; c++) {
        for (size_t i = 0; i < pixels; i++) {
            out[c * plane + i] = in[i * n + c];
        }
    }
}

static void mirror_3(uint8_t *out, const uint8_t *in, size_t pixels) {
    const uint8_t *from = in + 3 * pixels;
    for (size_t i = 0; i < pixels; i++) {
        from -= 3;
        out[0] = from[0];
        out[1] = from[1];
        out[2] = from[2];
        out += 3;
    }
}

void mr_mirror_scalar(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels) {
    if (channels == 3) {
        mirror_3(out, in, pixels);
        return;
    }
    for (size_t i = 0; i < pixels; i++) {
        out[i] = in[pixels - 1 - i];
    }
}
