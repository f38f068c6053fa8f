/* SPDX-License-Identifier: Apache-2.0 */
/* pixels.h - rows of pixels from one form to another, with Pillow's formulas to the last bit. */
#ifndef MR_CODECS_PIXELS_H
#define MR_CODECS_PIXELS_H

#include <stddef.h>
#include <stdint.h>

/* ITU-R 601 luma in 16-bit fixed point, rounded: Pillow's RGB to L. */
static inline uint8_t mr_luma(uint8_t r, uint8_t g, uint8_t b) {
    return (uint8_t)((r * 19595u + g * 38470u + b * 7471u + 0x8000u) >> 16);
}

void mr_rgb_to_grey(const uint8_t *in, uint8_t *out, size_t n);

/* CMYK as Adobe stores it in JPEG files, inverted: 255 is no ink. In place is allowed. */
void mr_cmyk_to_rgb(const uint8_t *in, uint8_t *out, size_t n);

#endif
