/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5.h - the structure of an HDF5 file in memory: which datasets it has, and where their bytes
 * are.
 *
 * Why not libhdf5: it is one library with one state and one lock for all threads of a process, and
 * it is not safe against files that were made to harm. Here only the structure is read, by bounds
 * that are checked; chunks are read as any other bytes and unpacked by any thread. Groups of old
 * and new style, all layouts but the virtual one and all indexes of chunks are known. */
#ifndef MR_CODECS_HDF5_H
#define MR_CODECS_HDF5_H

#include <millrace/types.h>

enum { MR_H5_DIMS = MR_MAX_DIMS + 1, MR_H5_FILTERS = 8, MR_H5_WHY = 96 };

typedef enum mr_h5_layout { MR_H5_CONTIGUOUS, MR_H5_COMPACT, MR_H5_CHUNKED } mr_h5_layout;

typedef struct mr_h5_chunk {
    int64_t number;  /* in the grid of chunks, the last dimension fastest */
    int64_t address; /* in the file */
    int64_t size;    /* there */
    uint32_t mask;   /* bit i: filter i was not applied */
} mr_h5_chunk;

typedef struct mr_h5_filter {
    int32_t id;
} mr_h5_filter;

/* How the index of a dataset's chunks is written; kinds as in the file. */
typedef struct mr_h5_index {
    int32_t kind;
    int64_t address; /* -1: there are no chunks */
    int64_t size;    /* of a single chunk; 0: as it is unpacked */
    uint32_t mask;
    unsigned char page_bits;
} mr_h5_index;

typedef struct mr_h5_dataset {
    char *path;          /* below the root: "train/images" */
    char why[MR_H5_WHY]; /* why it cannot be read; empty: it can */
    mr_dtype dtype;
    size_t element; /* bytes; of a string of fixed length its length */
    bool is_text;   /* elements are strings of fixed length: uint8, one dimension more */
    int32_t n_dims; /* of the dataset as it is written */
    int64_t dims[MR_H5_DIMS], most[MR_H5_DIMS]; /* most: -1 without bound */
    mr_h5_layout layout;
    int64_t address, bytes; /* contiguous and compact; address -1: nothing was ever written */
    int64_t chunk[MR_H5_DIMS];
    mr_h5_index index;
    mr_h5_filter filters[MR_H5_FILTERS];
    int32_t n_filters;
    unsigned char fill[16]; /* an element where nothing was written; zeros for strings */
    mr_h5_chunk *chunks;    /* by mr_h5_find_chunks, sorted by number */
    int64_t n_chunks;
} mr_h5_dataset;

typedef struct mr_h5_file {
    const unsigned char *data;
    int64_t size, base;
    int64_t budget; /* bytes that may still be looked at: what refers to itself uses it up */
    int32_t offset_bytes, length_bytes;
    mr_h5_dataset *datasets; /* in the order of the file's groups */
    int32_t n_datasets, capacity;
} mr_h5_file;

/* Lists the datasets. `data` must stay until chunks were found. On failure err->offset is the byte;
 * mr_h5_close is due all the same. */
mr_status mr_h5_open(mr_h5_file *file, const void *data, size_t size, mr_error *err);
void mr_h5_close(mr_h5_file *file);

/* Reads the index of a dataset's chunks. All lie within the file. */
mr_status mr_h5_find_chunks(mr_h5_file *file, mr_h5_dataset *dataset, mr_error *err);

/* Chunks along a dimension, bytes of an unpacked chunk. */
int64_t mr_h5_grid(const mr_h5_dataset *dataset, int32_t dim);
int64_t mr_h5_chunk_bytes(const mr_h5_dataset *dataset);
const mr_h5_chunk *mr_h5_chunk_at(const mr_h5_dataset *dataset, int64_t number);

/* ---- Unpacking ---- */
/* The filters can be undone by this build; else `why` says which cannot. */
bool mr_h5_filters_known(const mr_h5_dataset *dataset, char why[MR_H5_WHY]);

/* One chunk's bytes as read from the file, into `out` of mr_h5_chunk_bytes. */
mr_status mr_h5_unpack(const mr_h5_dataset *dataset, const mr_h5_chunk *chunk, const void *data,
                       size_t size, void *out, mr_error *err);

/* As many elements of the fill value. */
void mr_h5_fill(const mr_h5_dataset *dataset, void *out, size_t bytes);

#endif
