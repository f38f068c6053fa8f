/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_inner.h - what the files of the HDF5 reader share: bytes of the file that were checked. */
#ifndef MR_CODECS_HDF5_INNER_H
#define MR_CODECS_HDF5_INNER_H

#include "codecs/hdf5.h"

/* A piece of the file, read from front to back. Past its end numbers are 0 and `over` is set, so
 * that a structure is read first and then asked once whether all of it was there. */
typedef struct mr_h5_piece {
    const unsigned char *at, *end;
    const unsigned char *start; /* for checksums and messages */
    int64_t offset;             /* of the start, in the file */
    bool over;
} mr_h5_piece;

/* The bytes at an address; length -1: all that follow. */
mr_status mr_h5_look(mr_h5_file *file, int64_t address, int64_t length, mr_h5_piece *out,
                     mr_error *err);

const unsigned char *mr_h5_skip(mr_h5_piece *piece, int64_t n); /* NULL: past the end */
uint64_t mr_h5_number(mr_h5_piece *piece, int32_t bytes);
int64_t mr_h5_address(const mr_h5_file *file, mr_h5_piece *piece); /* -1: none */
int64_t mr_h5_length(const mr_h5_file *file, mr_h5_piece *piece);  /* at most INT64_MAX */
bool mr_h5_signed(mr_h5_piece *piece, const char signature[5]);

/* Fails unless the checksum that comes next is that of all bytes before it. */
mr_status mr_h5_checksum(mr_h5_piece *piece, const char *what, mr_error *err);

mr_status mr_h5_damaged(const mr_h5_piece *piece, const char *what, mr_error *err);

/* ---- B-trees of the second version: links by name, and chunks ---- */
typedef struct mr_h5_records {
    mr_status (*each)(void *user, mr_h5_piece *record, mr_error *err);
    void *user;
    int32_t type, other_type;
} mr_h5_records;

mr_status mr_h5_each_record(mr_h5_file *file, int64_t address, const mr_h5_records *records,
                            mr_error *err);

/* ---- Links of a group ---- */
typedef struct mr_h5_links {
    mr_status (*each)(void *user, const char *name, size_t length, int64_t address, mr_error *err);
    void *user;
} mr_h5_links;

mr_status mr_h5_each_symbol(mr_h5_file *file, int64_t tree, int64_t heap, const mr_h5_links *links,
                            mr_error *err);
mr_status mr_h5_each_dense_link(mr_h5_file *file, int64_t heap, int64_t tree,
                                const mr_h5_links *links, mr_error *err);

/* A link message; soft and external links are passed over. */
mr_status mr_h5_link(const mr_h5_file *file, mr_h5_piece *message, const mr_h5_links *links,
                     mr_error *err);

#endif
