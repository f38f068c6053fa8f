/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - samples into the files of one shard: a tar with its index, or an array for each field.
 */
#ifndef MR_TUNE_SHARD_H
#define MR_TUNE_SHARD_H

#include <jansson.h>
#include <millrace/tune.h>

#include "tune/whole_shard.h"

enum { MR_PACK_FIELDS = 64, MR_PACK_EXTENSION = 64 };

/* How a field is written. */
typedef enum mr_pack_kind {
    MR_PACK_BYTES,  /* as it is: encoded images and sound, text */
    MR_PACK_NUMBER, /* .cls: a whole number as decimal digits */
    MR_PACK_ARRAY   /* .npy */
} mr_pack_kind;

typedef struct mr_pack_field {
    const char *name; /* borrowed from the pipeline */
    mr_type type;
    mr_pack_kind kind;
    char extension[MR_PACK_EXTENSION]; /* "jpg", "mask.npy" */
} mr_pack_field;

typedef struct mr_pack_shape {
    mr_pack_format format;
    const mr_pack_field *fields;
    int32_t n_fields;
    mr_packing packing; /* of tar shards */
} mr_pack_shape;

typedef struct mr_shard_writer {
    const mr_pack_shape *shape;
    int folder; /* open directory */
    int64_t number, samples;
    mr_shard_file *files;
    int32_t n_files;
    char *index; /* of a tar, as text */
    size_t index_size;
    FILE *index_stream;
    mr_hasher *digests;
} mr_shard_writer;

/* "tar", "tar.zst", "tar.lz4". */
const char *mr_shard_ending(const mr_pack_shape *shape);

void mr_shard_base(char *out, size_t size, int64_t number); /* "shard-000000" */

/* A shard of `samples` samples. Dropped also after a failure. */
mr_status mr_shard_begin(mr_shard_writer *writer, const mr_pack_shape *shape, int folder,
                         int64_t number, int64_t samples, mr_error *err);
mr_status mr_shard_add(mr_shard_writer *writer, const mr_batch *batch, int64_t i, mr_error *err);

void mr_shard_digest(const mr_shard_writer *writer, char out[33]); /* of the samples so far */

/* Gives the files their names and *out what is to be noted of them. */
mr_status mr_shard_end(mr_shard_writer *writer, json_t **out, mr_error *err);
void mr_shard_drop(mr_shard_writer *writer);

/* Looks at one sample and decides how its fields are written. */
mr_status mr_pack_field_choose(mr_pack_field *fields, int32_t n, const mr_batch *batch,
                               mr_pack_format format, mr_error *err);

#endif
