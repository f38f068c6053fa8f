/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_scans.h - the image data of a progressive JPEG: each scan adds to the coefficients of the
 * whole image, which are all in memory.
 *
 * As in jpeg_entropy.h, everything returns false at the least irregularity, no read goes past the
 * file, and all ends: a scan is as long as the image is large. */
#ifndef MR_CODECS_JPEG_SCANS_H
#define MR_CODECS_JPEG_SCANS_H

#include "codecs/jpeg_entropy.h"

/* Those of a component. The first scan of DC clears a block; nothing is defined before. */
typedef struct mr_jpeg_store {
    int16_t *coefficients; /* 64 of each block, aligned to 32 bytes */
    uint64_t *nonzero;     /* of each block: which of AC are not 0; the first in zigzag order is
                              the uppermost bit but one */
    int64_t width, height; /* blocks that hold pixels */
    int64_t stride;        /* blocks from one row to the next: those of whole MCUs */
    int32_t across, down;  /* blocks of an MCU */
} mr_jpeg_store;

typedef struct mr_jpeg_scan_tables {
    mr_jpeg_dc_table dc[MR_JPEG_COMPONENTS];
    union {
        mr_jpeg_first_table first;
        mr_jpeg_refine_table refine;
    };
} mr_jpeg_scan_tables;

typedef struct mr_jpeg_scans {
    mr_jpeg_scan scan;
    const mr_jpeg_frame *frame;
    mr_jpeg_store stores[MR_JPEG_COMPONENTS];
    mr_jpeg_scan_tables tables; /* of the scan that is read */
} mr_jpeg_scans;

/* Reads one scan, whose image data begin at a byte of the file. The codes are the frame's. Only for
 * a scan that follows from those before it. `marker` is the one that ends it. */
bool mr_jpeg_scans_read(mr_jpeg_scans *scans, const mr_jpeg_progression *progression, size_t byte,
                        int *marker);

#endif
