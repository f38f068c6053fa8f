/* SPDX-License-Identifier: Apache-2.0 */
/* enhance.h - Pillow's ImageEnhance, in place: a blend of the image with something plain. A factor
 * of 1 changes nothing, 0 leaves only the plain. */
#ifndef MR_OPS_ENHANCE_H
#define MR_OPS_ENHANCE_H

#include "ops/image.h"

/* first + factor * (second - first) in float32, cut to a byte. */
static inline uint8_t mr_blend(uint8_t first, uint8_t second, float factor) {
    float value = (float)first + factor * (float)(second - first);
    return (uint8_t)(value <= 0.0f ? 0.0f : value >= 255.0f ? 255.0f : value);
}

void mr_enhance_brightness(uint8_t *bytes, size_t size, float factor);
void mr_enhance_contrast(uint8_t *bytes, size_t pixels, size_t channels, float factor);
void mr_enhance_saturation(uint8_t *bytes, size_t pixels, size_t channels, float factor);

/* Sharpness, of one row: `above` and `below` are NULL at the image's ends. Columns [from, to) of
 * rows whose first pixel is column `origin` of an image `width` wide. */
typedef struct mr_three_rows {
    const uint8_t *above, *row, *below;
    int64_t origin, width;
    int32_t channels;
} mr_three_rows;

void mr_enhance_sharpness_row(uint8_t *out, const mr_three_rows *rows, int64_t from, int64_t to,
                              float factor);

#endif
