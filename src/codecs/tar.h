/* SPDX-License-Identifier: Apache-2.0 */
/* tar.h - the entries of a tar file in memory: ustar, GNU long names, pax. */
#ifndef MR_CODECS_TAR_H
#define MR_CODECS_TAR_H

#include <millrace/types.h>

enum { MR_TAR_BLOCK = 512, MR_TAR_NAME = 4096 };

typedef struct mr_tar_entry {
    int64_t offset; /* of its first header, which may be one that only carries a long name */
    int64_t data;   /* of its bytes */
    int64_t size;   /* of its bytes */
    int64_t next;   /* of what follows */
    bool is_file;   /* a regular file; else it has no bytes that count */
    char name[MR_TAR_NAME];
    size_t name_length;
} mr_tar_entry;

/* The entry whose headers begin at `at`. MR_END: the archive ends there. On failure err->offset is
 * the byte in `data`. Always goes forward: next > at. */
mr_status mr_tar_next(const unsigned char *data, size_t size, int64_t at, mr_tar_entry *out,
                      mr_error *err);

/* The entries of an archive that comes piece by piece and is not kept. Begins as zeros; entries are
 * those of mr_tar_next, with offsets in the whole archive. On a failure, which may be for want of
 * the rest, mr_tar_next over all of it can tell the byte. */
typedef mr_status mr_tar_visit(void *user, const mr_tar_entry *entry, mr_error *err);

typedef struct mr_tar_stream {
    unsigned char *pending; /* headers that belong together, so far; at `at` in the archive */
    size_t n, capacity;
    size_t header, need; /* where the last one begins, and how many bytes are waited for */
    int64_t at, skip;    /* bytes of a file to come */
    bool in_extra, is_over;
    mr_tar_entry entry;
} mr_tar_stream;

mr_status mr_tar_stream_feed(mr_tar_stream *stream, const unsigned char *bytes, size_t n,
                             mr_tar_visit *visit, void *user, mr_error *err);
bool mr_tar_stream_is_whole(const mr_tar_stream *stream); /* it may end here */
void mr_tar_stream_free(mr_tar_stream *stream);

/* A file's part in a sample, by WebDataset's rules: the first dot of the last part of the name ends
 * the key; what follows is the extension. Names whose first part begins and ends with two
 * underscores ("__meta__/x.json") are about the shard. False: the file belongs to no sample. */
typedef struct mr_tar_part {
    size_t key_length;
    const char *extension; /* to the end of the name */
} mr_tar_part;

bool mr_tar_part_of(const mr_tar_entry *entry, mr_tar_part *out);

/* Likewise, of a file's name of n bytes. */
bool mr_tar_name_part(const char *name, size_t n, mr_tar_part *out);

#endif
