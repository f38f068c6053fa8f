/* SPDX-License-Identifier: Apache-2.0 */
/* whole_shard.h - files of a shard, written beside their names and renamed when all are whole.
 *
 * The name beside is the same for everybody who makes this file (.NAME.part): whoever comes after a
 * process that was killed writes over what that one left. A lock tells a dead maker from one that
 * is at work. */
#ifndef MR_TUNE_WHOLE_SHARD_H
#define MR_TUNE_WHOLE_SHARD_H

#include <millrace/types.h>

#include "codecs/packer.h"
#include "core/hash.h"

enum { MR_SHARD_NAME = 160 };

typedef struct mr_shard_file {
    int fd;                   /* -1: not open */
    char name[MR_SHARD_NAME]; /* in the folder */
    int64_t bytes;            /* of the file so far */
    mr_hasher *hasher;        /* of them */
    char hash[33];            /* once it is finished */
    mr_packer *packer;        /* NULL: written as it is */
    int64_t unpacked_bytes;   /* that it was given; 0 without a packer */
    unsigned char *buffer;
    size_t used;
} mr_shard_file;

/* A file that is compressed while it is written. folder is an open directory. A zeroed file with fd
 * -1 may be dropped. */
mr_status mr_shard_file_open_packed(mr_shard_file *file, int folder, const char *name,
                                    mr_packing packing, mr_error *err);
mr_status mr_shard_file_write(mr_shard_file *file, const void *data, size_t size, mr_error *err);

/* Everything is on the disk; it does not have its name yet. */
mr_status mr_shard_file_finish(mr_shard_file *file, mr_error *err);
mr_status mr_shard_file_name(mr_shard_file *file, int folder, mr_error *err);

/* Closes it; what did not get its name is deleted. */
void mr_shard_file_drop(mr_shard_file *file, int folder);

/* A small file in one go. Several may write the same text at once: they take turns. */
mr_status mr_shard_file_text(int folder, const char *name, const char *text, mr_error *err);

#endif
