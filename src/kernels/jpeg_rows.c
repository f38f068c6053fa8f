/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_rows.c - rows of samples on their way from the DCT to pixels: smooth upsampling (each new
 * sample is 3/4 of the nearer one and 1/4 of the next, rounded up and down in turns), colour. And
 * the bytes on their way to the Huffman decoder. */
#include "kernels/jpeg.h"

#include <string.h>

void mr_jpeg_widen_scalar(uint8_t *out, const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i++, in++) {
        out[2 * i] = (uint8_t)((3 * in[0] + in[-1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((3 * in[0] + in[1] + 2) >> 2);
    }
}

void mr_jpeg_heighten_scalar(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n,
                             int upper) {
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint8_t)((3 * near[i] + far[i] + (upper ? 1 : 2)) >> 2);
    }
}

void mr_jpeg_enlarge_scalar(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n) {
    for (size_t i = 0; i < n; i++, near++, far++) {
        int before = 3 * near[-1] + far[-1], here = 3 * near[0] + far[0];
        int after = 3 * near[1] + far[1];
        out[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + after + 7) >> 4);
    }
}

/* ---- Colour ---- */
static uint8_t limit(int value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

void mr_jpeg_to_rgb_scalar(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                           size_t n) {
    enum { HALF = 1 << 15 };
    for (size_t i = 0; i < n; i++, out += 3) {
        int blue = cb[i] - 128, red = cr[i] - 128;
        out[0] = limit(y[i] + red + ((MR_RED_CR * red + HALF) >> 16));
        out[1] = limit(y[i] - red + ((MR_GREEN_CB * blue + MR_GREEN_CR * red + HALF) >> 16));
        out[2] = limit(y[i] + 2 * blue + ((MR_BLUE_CB * blue + HALF) >> 16));
    }
}

/* ---- Bytes ---- */
size_t mr_jpeg_unstuff_scalar(uint8_t *out, const uint8_t *in, size_t size, size_t *written) {
    size_t at = 0, n = 0;
    while (at < size) {
        const uint8_t *mark = memchr(in + at, 0xFF, size - at);
        size_t plain = mark ? (size_t)(mark - in) - at : size - at;
        memcpy(out + n, in + at, plain);
        at += plain;
        n += plain;
        if (!mark || size - at < 2 || in[at + 1] != 0) {
            break;
        }
        out[n++] = 0xFF;
        at += 2;
    }
    *written = n;
    return at;
}
