/* SPDX-License-Identifier: Apache-2.0 */
/* pixels.c - rows of pixels from one form to another: see pixels.h. */
#include "codecs/pixels.h"

void mr_rgb_to_grey(const uint8_t *in, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++, in += 3) {
        out[i] = mr_luma(in[0], in[1], in[2]);
    }
}

/* a * b / 255, rounded. */
static unsigned scaled(unsigned a, unsigned b) {
    unsigned product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

void mr_cmyk_to_rgb(const uint8_t *in, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++, in += 4, out += 3) {
        unsigned white = in[3];
        out[0] = (uint8_t)(white - scaled(255u - in[0], white));
        out[1] = (uint8_t)(white - scaled(255u - in[1], white));
        out[2] = (uint8_t)(white - scaled(255u - in[2], white));
    }
}
