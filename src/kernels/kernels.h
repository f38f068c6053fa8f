/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the inner loops over pixels.
 *
 * Every loop has a scalar reference; a variant for more capable CPUs gives the same bits (integer
 * arithmetic, or values taken from a table), so which one runs cannot be told from the result.
 * Images are rows of interleaved bytes, 1 or 3 channels where a kernel asks for `channels`. */
#ifndef MR_KERNELS_KERNELS_H
#define MR_KERNELS_KERNELS_H

#include <millrace/types.h>

#include "kernels/jpeg.h"

/* ---- Resampling -----------------------------------------------------------------------------
 * An output pixel is a weighted sum of `count` input pixels from `first` on. Weights are fixed
 * point with MR_TAP_BITS bits behind the point, as Pillow's are. A variant keeps them in the parts
 * that its multiplications take as well:
 * - weight = high * 2^15 + low with 0 <= low < 2^15, for those of 16 bits;
 * - weight = digit[0] * 2^16 + digit[1] * 2^8 + digit[2], each from -128 to 127, for those of
 * bytes. Four of them, a group, stand in 32 bits. No filter has a weight that needs a fourth digit.
 */
#define MR_TAP_BITS 22
#define MR_TAP_LOW_BITS 15
#define MR_TAP_ALIGN 8
#define MR_TAP_GROUP 4

typedef struct mr_taps {
    int32_t n_out;
    int32_t width;    /* weights per output: a multiple of MR_TAP_ALIGN; those unused are 0 */
    int32_t most;     /* largest count */
    int32_t groups;   /* of MR_TAP_GROUP weights that hold `most` */
    int32_t *first;   /* n_out */
    int32_t *count;   /* n_out, at least 1 */
    int32_t *weights; /* n_out x width */
    int16_t *high, *low;
    int32_t *digits[3]; /* groups x n_out */
    int32_t spread;     /* how far apart the inputs of neighbours are: the variant's matter */
} mr_taps;

/* ---- Normalising -----------------------------------------------------------------------------
 * What a byte of each channel becomes: (byte / 255 - mean) / std in float32, rounded after each
 * operation. It can be computed without a division: 1 / 255 and 1 / std are written as the sum of
 * two floats, the larger and the rest, and x * larger + x * rest, with one rounding of the sum, is
 * as good as always what the division gives. Making the table checks it for every byte. */
typedef struct mr_normal {
    uint32_t bits[3 * 256];       /* the float32 of byte b of channel c at 256 * c + b */
    bool computable;              /* whether computing it gives the same for all of them */
    float mean[3];                /* of each channel ... */
    float inverse[3], residue[3]; /* ... and 1 / std in two parts */
} mr_normal;

void mr_normal_make(mr_normal *normal, const float mean[3], const float std[3]);

/* 1 / 255 in two parts. */
#define MR_INVERSE_255 0x1.010102p-8f
#define MR_RESIDUE_255 -0x1.fdfdfep-33f

typedef struct mr_kernels {
    const char *name;

    /* Makes the parts of the weights that the loops below take; NULL: none. */
    void (*split_taps)(mr_taps *taps);

    /* Along rows: `rows` rows of `in`, stride apart, become rows of taps->n_out pixels without
     * gaps. No byte from in_end on is read. */
    void (*resample_rows)(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                          int32_t rows, int32_t channels, const mr_taps *taps);

    /* Along columns: the rows of row_bytes bytes, stride apart, that output y is made of, from its
     * first on, become one row. */
    void (*resample_columns)(uint8_t *out, const uint8_t *top, size_t stride, size_t row_bytes,
                             const mr_taps *taps, int32_t y);

    /* Each byte replaced by its entry in the table of its channel: tables[channel * 256 + byte].
     * plane: elements from one channel's plane to the next; 0: pixels stay interleaved. */
    void (*lookup_32)(uint32_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                      const uint32_t *tables, size_t plane);
    void (*lookup_16)(uint16_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                      const uint16_t *tables, size_t plane);

    /* The same as lookup_32 of normal->bits, of three channels to planes. The table must be
     * computable. */
    void (*normalize)(uint32_t *out, const uint8_t *in, size_t pixels, const mr_normal *normal,
                      size_t plane);

    /* Interleaved bytes to planes. */
    void (*split)(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels, size_t plane);

    /* One row with its pixels in reverse order. out and in do not overlap. */
    void (*mirror)(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels);

    const struct mr_sound_kernels *sound; /* kernels/sound.h */
    mr_jpeg_kernels jpeg;

    uint32_t cpu; /* features of core/cpu.h that it takes for granted */
} mr_kernels;

/* The best variant for a set of features of core/cpu.h; 0 is the scalar reference. */
const mr_kernels *mr_kernels_for(uint32_t cpu_features);

/* ---- Resampling, from the top ---------------------------------------------------------------- */
typedef enum mr_filter { MR_BILINEAR, MR_BICUBIC, MR_NEAREST, MR_LANCZOS, MR_BOX } mr_filter;

/* A rectangle of pixels inside a larger image. */
typedef struct mr_pixels {
    const uint8_t *data; /* its first pixel */
    size_t stride;       /* bytes from row to row */
    int64_t height, width;
    int32_t channels;
    const uint8_t *end; /* one past the last byte of the whole image */
} mr_pixels;

/* Bytes of memory that mr_resample needs; 0 when it needs none. */
size_t mr_resample_memory(const mr_pixels *in, int64_t height, int64_t width, mr_filter filter);

/* Makes `out` (height x width x channels, no gaps) of `in`. Equal to Pillow's Image.resize of the
 * cut-out rectangle. `memory` is aligned to 64 bytes. */
void mr_resample(const mr_kernels *kernels, const mr_pixels *in, uint8_t *out, int64_t height,
                 int64_t width, mr_filter filter, void *memory);

/* Whether columns are resampled before rows; seen in the rounding. */
bool mr_resample_columns_first(int64_t in_height, int64_t in_width, int64_t height, int64_t width);

/* One axis of a resize: of n_in inputs those from `from` on, `length` of them, become n_out
 * outputs. Both may end between two inputs; as a rule it is all of them. */
typedef struct mr_axis {
    int64_t n_in, n_out;
    double from, length;
} mr_axis;

mr_axis mr_whole_axis(int64_t n_in, int64_t n_out);
bool mr_axis_changes(const mr_axis *axis); /* whether the outputs are not just the inputs */

typedef struct mr_span {
    int64_t from, to;
} mr_span;

/* The inputs that output `at` is made of. Not for MR_NEAREST. */
mr_span mr_taps_reach(const mr_axis *axis, mr_filter filter, int64_t at);

/* Nearest: the input of each of n_out outputs, and a row made of the picked pixels. */
void mr_nearest_make(int32_t *columns, int64_t n_in, int64_t n_out);
void mr_nearest_row(uint8_t *out, const uint8_t *in, const int32_t *columns, int64_t width,
                    int32_t channels);

/* The weights of the wanted outputs of one axis, whose inputs are counted from `origin`; memory of
 * mr_taps_memory bytes, aligned to 64. */
size_t mr_taps_memory(const mr_axis *axis, mr_filter filter);
void mr_taps_make(mr_taps *taps, const mr_kernels *kernels, const mr_axis *axis, mr_filter filter,
                  mr_span wanted, int64_t origin, void *memory);

/* ---- Scalar references ----------------------------------------------------------------------- */
void mr_resample_rows_scalar(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                             int32_t rows, int32_t channels, const mr_taps *taps);
void mr_resample_columns_scalar(uint8_t *out, const uint8_t *top, size_t stride, size_t row_bytes,
                                const mr_taps *taps, int32_t y);
void mr_lookup_32_scalar(uint32_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                         const uint32_t *tables, size_t plane);
void mr_lookup_16_scalar(uint16_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                         const uint16_t *tables, size_t plane);
void mr_normalize_scalar(uint32_t *out, const uint8_t *in, size_t pixels, const mr_normal *normal,
                         size_t plane);
void mr_split_scalar(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                     size_t plane);
void mr_mirror_scalar(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels);

/* The end of a row that a vector does not fit. */
void mr_resample_row_part(uint8_t *out, const uint8_t *in, int32_t channels, const mr_taps *taps,
                          int32_t from);

/* ---- Variants -------------------------------------------------------------------------------- */
#if defined(__x86_64__)
void mr_split_taps_avx2(mr_taps *taps);
void mr_resample_rows_avx2(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                           int32_t rows, int32_t channels, const mr_taps *taps);
void mr_resample_columns_avx2(uint8_t *out, const uint8_t *top, size_t stride, size_t row_bytes,
                              const mr_taps *taps, int32_t y);
void mr_lookup_32_avx2(uint32_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                       const uint32_t *tables, size_t plane);
void mr_lookup_16_avx2(uint16_t *out, const uint8_t *in, size_t pixels, int32_t channels,
                       const uint16_t *tables, size_t plane);
void mr_normalize_avx2(uint32_t *out, const uint8_t *in, size_t pixels, const mr_normal *normal,
                       size_t plane);
void mr_split_avx2(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels, size_t plane);
void mr_mirror_avx2(uint8_t *out, const uint8_t *in, size_t pixels, int32_t channels);
void mr_normalize_avx512(uint32_t *out, const uint8_t *in, size_t pixels, const mr_normal *normal,
                         size_t plane);
void mr_split_taps_avx512(mr_taps *taps);
void mr_resample_rows_avx512(uint8_t *out, const uint8_t *in, size_t stride, const uint8_t *in_end,
                             int32_t rows, int32_t channels, const mr_taps *taps);
void mr_resample_columns_avx512(uint8_t *out, const uint8_t *top, size_t stride, size_t row_bytes,
                                const mr_taps *taps, int32_t y);
#endif

#endif
