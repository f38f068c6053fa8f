/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - what the image ops share: the type they take, sizes, windows. */
#ifndef MR_OPS_IMAGE_H
#define MR_OPS_IMAGE_H

#include <millrace/op.h>

#include "kernels/kernels.h"

/* No image that goes in or out of an op has more pixels; a bound on what a damaged size or an
 * extreme aspect ratio can ask for. */
#define MR_IMAGE_MAX_PIXELS ((int64_t)1 << 28)
#define MR_IMAGE_MAX_SIDE 65535.0 /* of a parameter */

extern const char *const mr_filter_names[]; /* in the order of mr_filter */

/* Refuses what is not uint8[H, W, C] in HWC with 1 or 3 channels; dimensions may be unknown. */
mr_status mr_image_check(const mr_type *in, mr_error *err);

/* *out = *in (checked) with another height and width, -1 where unknown. Refuses what is too large.
 */
mr_status mr_image_resized(const mr_type *in, int64_t height, int64_t width, mr_type *out,
                           mr_error *err);

/* [n] is a square, [height, width] is itself. */
int64_t mr_size_height(const mr_ints *size);
int64_t mr_size_width(const mr_ints *size);

/* The whole of a view's image. */
mr_pixels mr_image_pixels(const mr_view *view);

/* The rectangle of `image` whose first pixel is (top, left); it must lie inside. */
mr_pixels mr_image_part(const mr_pixels *image, int64_t top, int64_t left, int64_t height,
                        int64_t width);

/* Fills out (height x width) with what a window onto the image shows whose first pixel is
 * (top, left); what lies outside of the image is 0. */
void mr_image_window(const mr_pixels *image, int64_t top, int64_t left, uint8_t *out,
                     int64_t height, int64_t width);

/* Resamples a rectangle into out->data, with scratch memory of the call. */
mr_status mr_image_resample(mr_call *call, const mr_pixels *in, mr_view *out, mr_filter filter,
                            mr_error *err);

/* Pillow's weights of red, green and blue in grey. */
static inline uint8_t mr_luma(const uint8_t *rgb) {
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

#endif
