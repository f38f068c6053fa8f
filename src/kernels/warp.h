/* SPDX-License-Identifier: Apache-2.0 */
/* warp.h - images seen through a plane map: each output pixel is looked up where the map says.
 *
 * Equal to Pillow's Image.transform, which has an arithmetic of its own for each kind of map:
 * tables of rows and columns where the axes stay apart, 16.16 fixed point for other affine maps
 * with nearest, and doubles for the rest. The bytes depend on which, so all are kept. */
#ifndef MR_KERNELS_WARP_H
#define MR_KERNELS_WARP_H

#include <millrace/op.h>

#include "kernels/kernels.h"

/* What is looked at: an image of which a part is at hand, the only one that is touched. */
typedef struct mr_scene {
    mr_pixels part;
    int64_t top, left;     /* of the part in the image */
    int64_t height, width; /* of the image */
} mr_scene;

/* From the middle (x + 0.5, y + 0.5) of an output pixel to a place in the image:
 * x' = (m0 x + m1 y + m2) / d, y' = (m3 x + m4 y + m5) / d, d = m6 x + m7 y + 1. */
typedef struct mr_map {
    double m[8];
    bool perspective; /* else m6 and m7 are 0 and d is left out */
} mr_map;

typedef struct mr_warp mr_warp;

/* Memory that a warp to an image of this size takes; 64-byte aligned. */
size_t mr_warp_memory(int64_t height, int64_t width);

/* `fill` (a byte for each channel) is what lies outside of the image. */
mr_warp *mr_warp_start(const mr_map *map, bool bilinear, const uint8_t *fill, int64_t height,
                       int64_t width, void *memory);

/* Pixels x .. x + n - 1 of output row y. */
void mr_warp_row(const mr_warp *warp, const mr_scene *scene, int64_t y, int64_t x, int64_t n,
                 uint8_t *out);

/* One pixel at a place of the image; false where that lies outside, and nothing is written. */
bool mr_sample_nearest(const mr_scene *scene, double x, double y, uint8_t *out);
bool mr_sample_bilinear(const mr_scene *scene, double x, double y, uint8_t *out);

/* The part of an image (height x width) that a region of the output needs. */
mr_region mr_map_needs(const mr_map *map, int64_t height, int64_t width, mr_region wanted);

#endif
