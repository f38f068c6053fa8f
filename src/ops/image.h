/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - what the image ops share: the type they take, sizes, cutouts. */
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

/* The same for ops that only move pixels: of any element type. */
mr_status mr_image_check_any(const mr_type *in, mr_error *err);

/* *out = *in (checked) with another height and width, -1 where unknown. Refuses what is too large.
 */
mr_status mr_image_resized(const mr_type *in, int64_t height, int64_t width, mr_type *out,
                           mr_error *err);

/* [n] is a square, [height, width] is itself. */
int64_t mr_size_height(const mr_ints *size);
int64_t mr_size_width(const mr_ints *size);

/* A fill has a value for all channels or one for each of three: refuses what does not fit the
 * image, and gives a byte for each channel. */
mr_status mr_fill_check(const mr_ints *fill, const mr_type *in, mr_error *err);
void mr_fill_bytes(const mr_ints *fill, uint8_t out[3]);

/* Whether an op that is applied with probability p is, by the given draw. */
bool mr_applies(double p, const mr_key *key, uint32_t draw);

/* The whole of a view's image. */
mr_pixels mr_image_pixels(const mr_view *view);

/* The rectangle of `image` whose first pixel is (top, left); it must lie inside. */
mr_pixels mr_image_part(const mr_pixels *image, int64_t top, int64_t left, int64_t height,
                        int64_t width);

/* Fills out (height x width) with what a cutout of the image shows whose first pixel is
 * (top, left); what lies outside of the image is 0. */
void mr_image_cutout(const mr_pixels *image, int64_t top, int64_t left, uint8_t *out,
                     int64_t height, int64_t width);

/* Resamples a rectangle into out->data, with scratch memory of the call. */
mr_status mr_image_resample(mr_call *call, const mr_pixels *in, mr_view *out, mr_filter filter,
                            mr_error *err);

/* Pillow's weights of red, green and blue in grey. */
static inline uint8_t mr_luma(const uint8_t *rgb) {
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

/* For follow: the input moved by so many pixels ... */
void mr_follow_shift(double m[8], int64_t x, int64_t y);
/* One map, and then another. */
void mr_follow_then(double m[8], const double next[8]);
/* ... and a part of it made as large as the output. */
void mr_follow_box(double m[8], const mr_region *box, const mr_type *out);

#endif
