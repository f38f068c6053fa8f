/* SPDX-License-Identifier: Apache-2.0 */
/* several_crops.h - what five_crop and ten_crop share: the corners and the middle, as one stack. */
#ifndef MR_OPS_SEVERAL_CROPS_H
#define MR_OPS_SEVERAL_CROPS_H

#include "ops/image.h"

#define MR_CROPS 5
#define MR_ALL_CROPS 10 /* of the image and of its mirror image */

/* uint8[n, height, width, C], where the image is known to be large enough. */
mr_status mr_crops_plan(const mr_ints *size, int64_t n, const mr_type *in, mr_type *out,
                        mr_error *err);

/* Upper left, upper right, lower left, lower right, middle; one after the other. */
void mr_crops_copy(const mr_pixels *image, uint8_t *out, int64_t height, int64_t width);

#endif
