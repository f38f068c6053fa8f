/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - what a .npy file says about itself, read and written. */
#ifndef MR_CODECS_NPY_H
#define MR_CODECS_NPY_H

#include <millrace/types.h>

#define MR_NPY_DIMS (MR_MAX_DIMS + 1) /* samples, and the shape of one */
#define MR_NPY_HEADER_MAX 65536

typedef struct mr_npy {
    mr_dtype dtype;
    int32_t n_dims;
    int64_t dims[MR_NPY_DIMS];
    int64_t offset; /* of the data in the file */
    int64_t bytes;  /* of the data */
} mr_npy;

/* Reads the header at the start of a file and checks it against the file's size, which must be
 * exactly what the header promises. Only `size` bytes are read, and no more than the header's. */
mr_status mr_npy_parse(const void *file, size_t size, mr_npy *out, mr_error *err);

/* The header of an array of this type; returns its length, 0 where numpy has no such type. */
#define MR_NPY_WRITTEN_MAX 384
size_t mr_npy_header(mr_dtype dtype, const int64_t *dims, int32_t n_dims,
                     char out[MR_NPY_WRITTEN_MAX]);

#endif
