/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_picture.h - from coefficients to pixels: what our decoders of JPEG have in common. The
 * pixels are those of libjpeg-turbo, bit for bit.
 *
 * A row of MCUs at a time is made into planes of samples, one for each component. Where chroma has
 * half of the rows, a row of pixels is made of two of them, and those may be of two MCU rows:
 * planes hold two then, in turns. */
#ifndef MR_CODECS_JPEG_PICTURE_H
#define MR_CODECS_JPEG_PICTURE_H

#include "codecs/codec.h"
#include "codecs/jpeg_markers.h"
#include "kernels/kernels.h"

typedef struct mr_jpeg_plane {
    uint8_t *samples; /* rows of them, with a margin on both sides */
    size_t stride;
    int64_t ring;   /* rows: a power of two */
    int64_t column; /* of the first sample */
    int64_t width, height;
    int32_t across, down;
    _Alignas(32) int16_t quantisers[MR_JPEG_BLOCK];
} mr_jpeg_plane;

typedef struct mr_jpeg_range {
    int64_t from, to;
} mr_jpeg_range;

typedef struct mr_jpeg_picture {
    const mr_jpeg_frame *frame;
    const mr_decode_request *request;
    const mr_kernels *kernels;
    const mr_rows *to;           /* gets the rows; NULL: they go to the request's memory */
    mr_region part;              /* of pixels */
    mr_jpeg_range columns, rows; /* of MCUs that hold them, and what upsampling needs beside them */
    int64_t mcus_across, mcus_down;
    mr_status status; /* of whoever took a row; or there was no memory */
    mr_error *err;
    mr_jpeg_plane planes[MR_JPEG_COMPONENTS];
    int64_t next_row;                    /* of pixels */
    uint8_t *chroma[MR_JPEG_COMPONENTS]; /* a row of it at full size; [0] is not used */
    uint8_t *pixels;                     /* a row of them */
} mr_jpeg_picture;

/* False for a frame of another size than the request says. */
bool mr_jpeg_picture_open(mr_jpeg_picture *picture, const mr_jpeg_frame *frame,
                          const mr_decode_request *request, mr_error *err);

/* Which pixels are wanted; none until then. False: libjpeg upsamples this frame in another way. */
bool mr_jpeg_picture_want(mr_jpeg_picture *picture, const mr_region *part, const mr_rows *to);

/* Takes memory for what is wanted; false: there is none. */
bool mr_jpeg_picture_prepare(mr_jpeg_picture *picture);

/* Memory as of mr_scratch; sets the status where there is none. */
void *mr_jpeg_picture_take(mr_jpeg_picture *picture, size_t size);

/* Coefficients of blocks one after the other, and of each how many may be other than 0, counted in
 * zigzag order. */
typedef struct mr_jpeg_coefficients {
    const int16_t *values;
    const uint8_t *known;
} mr_jpeg_coefficients;

/* Makes samples of `n` blocks side by side, which lie `apart` blocks from each other, the first of
 * them at a sample of a component. */
void mr_jpeg_picture_put(const mr_jpeg_picture *picture, int component, mr_jpeg_coefficients from,
                         int64_t apart, int64_t n, int64_t y, int64_t x);

/* Gives all rows of pixels whose samples are there once this MCU row is. */
bool mr_jpeg_picture_give(mr_jpeg_picture *picture, int64_t mcu_row);

#endif
