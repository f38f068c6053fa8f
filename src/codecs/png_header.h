/* SPDX-License-Identifier: Apache-2.0 */
/* png_header.h - what a PNG file says about itself, without libpng. */
#ifndef MR_CODECS_PNG_HEADER_H
#define MR_CODECS_PNG_HEADER_H

#include "codecs/codec.h"

#define MR_PNG_SIGNATURE_SIZE 8

/* The header() of the codec. */
mr_status mr_png_header(const uint8_t *bytes, size_t size, int64_t max_pixels, bool lenient,
                        mr_image_header *out, mr_error *err);

#endif
