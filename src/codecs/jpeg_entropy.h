/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_entropy.h - the image data of a baseline JPEG: from bytes to coefficients.
 *
 * Everything returns false at the least irregularity: a code that does not exist, coefficients past
 * the end of a block, data that end early, markers where none should be. libjpeg, which knows what
 * to make of it, is asked then. No read goes past the file; each block takes at least one bit, so
 * all ends. */
#ifndef MR_CODECS_JPEG_ENTROPY_H
#define MR_CODECS_JPEG_ENTROPY_H

#include "codecs/jpeg_huffman.h"
#include "kernels/kernels.h"

enum {
    MR_JPEG_MCU_BLOCKS = 6,
    MR_JPEG_BLOCK_BYTES = 248, /* that a block takes at most: 64 symbols of 31 bits */
};

typedef struct mr_jpeg_mcu_block {
    const mr_jpeg_dc_table *dc;
    const mr_jpeg_ac_table *ac;
    int32_t component;
} mr_jpeg_mcu_block;

typedef struct mr_jpeg_mcu {
    int32_t n_blocks;
    mr_jpeg_mcu_block blocks[MR_JPEG_MCU_BLOCKS];
} mr_jpeg_mcu;

/* Bits to come, the next one uppermost; `count` of them are certain, others may be there. */
typedef struct mr_jpeg_bits {
    uint64_t buffer;
    uint32_t count;
    const uint8_t *next;
} mr_jpeg_bits;

/* Where MCUs begin, and what must be known to begin there. */
typedef struct mr_jpeg_place {
    size_t byte; /* of the file */
    uint32_t bit;
    int32_t predictors[MR_JPEG_COMPONENTS];
} mr_jpeg_place;

typedef struct mr_jpeg_scan {
    const mr_kernels *kernels;
    const uint8_t *bytes; /* the file */
    size_t size;
    const mr_jpeg_mcu *mcu;
    uint8_t *data;  /* a piece of the scan up to its next marker, without stuffed bytes */
    size_t filled;  /* bytes of it that are there; then zeros where the piece has ended */
    size_t segment; /* where in the file the piece begins */
    size_t read;    /* where in the file the first byte lies that is not there */
    bool ended;     /* at `read` is a marker, or the end of the file */
    mr_jpeg_bits bits;
    int32_t predictors[MR_JPEG_COMPONENTS];
    int32_t interval, left; /* MCUs between restarts (0: none), and up to the next */
    int32_t restarts;       /* so far */
    size_t counted;         /* bytes of data that `stuffed` counts */
    size_t stuffed;         /* how many of them had a 0 behind them */
} mr_jpeg_scan;

/* Memory that data must have, for a scan that begins at a byte of a file. */
size_t mr_jpeg_scan_memory(size_t size, size_t scan);

/* Begins at MCU `mcu`, which begins at a place. */
void mr_jpeg_scan_begin(mr_jpeg_scan *scan, const mr_jpeg_place *place, int64_t mcu);

/* The same further on in a scan that has begun. */
void mr_jpeg_scan_jump(mr_jpeg_scan *scan, const mr_jpeg_place *place, int64_t mcu);

/* The next n MCUs. Coefficients of their blocks one after the other, dequantised by nobody, 64 of
 * each; then one coefficient more, which is written to. known: how many of a block's coefficients
 * may be other than 0, counted in zigzag order. */
bool mr_jpeg_scan_decode(mr_jpeg_scan *scan, int64_t n, int16_t *coefficients, uint8_t *known);
bool mr_jpeg_scan_skip(mr_jpeg_scan *scan, int64_t n);

/* Where the next MCU begins. Takes the restart marker before it. */
bool mr_jpeg_scan_place(mr_jpeg_scan *scan, mr_jpeg_place *place);

/* After the last MCU: whether the end of the image follows, and nothing in between. */
bool mr_jpeg_scan_ends(mr_jpeg_scan *scan);

/* ---- For decoders of other scans ---- */

/* Reads on until `need` bytes are there that were not taken, or the piece ends. Behind the end are
 * zeros, as many as an MCU takes at most. */
void mr_jpeg_scan_fill(mr_jpeg_scan *scan, size_t need);

/* Whether no more was taken than there was. */
bool mr_jpeg_scan_within(const mr_jpeg_scan *scan);

/* Whether every byte of the piece was taken, up to a marker: which. The last byte's bits need not
 * be all taken. */
bool mr_jpeg_scan_reaches(mr_jpeg_scan *scan, int *marker);

/* Takes the restart marker, where one must be before the next MCU; `left` is counted by the caller.
 */
bool mr_jpeg_scan_restart(mr_jpeg_scan *scan);

#endif
