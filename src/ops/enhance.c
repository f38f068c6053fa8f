/* SPDX-License-Identifier: Apache-2.0 */
/* enhance.c - see enhance.h. Where a value is rounded to float32 is part of the result. */
#include "ops/enhance.h"

#include <string.h>

/* Every byte blended with the same one. */
static void blend_with(uint8_t *bytes, size_t size, uint8_t base, float factor) {
    uint8_t table[256];
    for (int i = 0; i < 256; i++) {
        table[i] = mr_blend(base, (uint8_t)i, factor);
    }
    for (size_t i = 0; i < size; i++) {
        bytes[i] = table[bytes[i]];
    }
}

/* The mean grey, rounded: halves up. */
static uint8_t mean_grey(const uint8_t *bytes, size_t pixels, size_t channels) {
    uint64_t sum = 0;
    for (size_t i = 0; i < pixels; i++) {
        sum += channels == 3 ? mr_luma(bytes + 3 * i) : bytes[i];
    }
    return (uint8_t)((double)sum / (double)pixels + 0.5);
}

void mr_enhance_brightness(uint8_t *bytes, size_t size, float factor) {
    blend_with(bytes, size, 0, factor);
}

void mr_enhance_contrast(uint8_t *bytes, size_t pixels, size_t channels, float factor) {
    blend_with(bytes, pixels * channels, mean_grey(bytes, pixels, channels), factor);
}

void mr_enhance_saturation(uint8_t *bytes, size_t pixels, size_t channels, float factor) {
    for (size_t i = 0; channels == 3 && i < pixels; i++, bytes += 3) {
        uint8_t grey = mr_luma(bytes);
        bytes[0] = mr_blend(grey, bytes[0], factor);
        bytes[1] = mr_blend(grey, bytes[1], factor);
        bytes[2] = mr_blend(grey, bytes[2], factor);
    }
}

/* ---- Sharpness: the image against a smooth one, whose border is the image's own ---- */
static inline float three(const uint8_t *at, ptrdiff_t step, float side, float middle) {
    return (float)at[-step] * side + (float)at[0] * middle + (float)at[step] * side;
}

/* Pillow's SMOOTH: 1 1 1, 1 5 1, 1 1 1 over 13, from the lower row to the upper; and the blend. */
static void sharpen(uint8_t *restrict out, const uint8_t *restrict above,
                    const uint8_t *restrict row, const uint8_t *restrict below, size_t n,
                    ptrdiff_t step, float factor) {
    const float edge = 1.0f / 13.0f, middle = 5.0f / 13.0f;
    for (size_t i = 0; i < n; i++) {
        float sum = 0.5f;
        sum += three(below + i, step, edge, edge);
        sum += three(row + i, step, edge, middle);
        sum += three(above + i, step, edge, edge);
        int32_t smooth = (int32_t)sum; /* below 256: the weights' sum is 1 */
        int32_t value = (int32_t)((float)smooth + factor * (float)(row[i] - smooth));
        value = value < 0 ? 0 : value;
        out[i] = (uint8_t)(value > 255 ? 255 : value);
    }
}

/* At the border the smooth image is the image, and so is what comes out. */
void mr_enhance_sharpness_row(uint8_t *out, const mr_three_rows *r, int64_t from, int64_t to,
                              float factor) {
    int64_t step = r->channels, first = from > 1 ? from : 1;
    int64_t last = to < r->width - 1 ? to : r->width - 1;
    memcpy(out, r->row + (from - r->origin) * step, (size_t)((to - from) * step));
    if (r->above && r->below && last > first) {
        int64_t at = (first - r->origin) * step;
        sharpen(out + (first - from) * step, r->above + at, r->row + at, r->below + at,
                (size_t)((last - first) * step), (ptrdiff_t)step, factor);
    }
}
