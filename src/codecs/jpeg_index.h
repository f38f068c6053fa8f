/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_index.h - where in a file the rows of MCUs begin: a few bytes for each, which spare a reader
 * of a lower part of the image all that lies above.
 *
 * An index knows its file by a hash of all its bytes, and itself by another: one of another file,
 * or a damaged one, is nothing. It may know the upper rows only. */
#ifndef MR_CODECS_JPEG_INDEX_H
#define MR_CODECS_JPEG_INDEX_H

#include "codecs/jpeg_entropy.h"

typedef struct mr_jpeg_file {
    const uint8_t *bytes;
    size_t size;
    const mr_jpeg_frame *frame;
} mr_jpeg_file;

/* The most bytes that an index of so many rows takes. */
size_t mr_jpeg_index_memory(int64_t rows);

/* Writes the places of `rows` rows, the first of which is the scan's; returns the size. */
size_t mr_jpeg_index_write(uint8_t *out, const mr_jpeg_file *file, const mr_jpeg_place *places,
                           int64_t rows);

/* How many rows an index knows of this file; 0 where it is not this file's, or not whole. */
int64_t mr_jpeg_index_rows(const mr_index *index, const mr_jpeg_file *file);

/* The places of its first rows; false where it holds nonsense. Only for an index that knows them.
 */
bool mr_jpeg_index_read(const mr_index *index, const mr_jpeg_file *file, mr_jpeg_place *places,
                        int64_t rows);

#endif
