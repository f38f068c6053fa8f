/* SPDX-License-Identifier: Apache-2.0 */
/* shard_index.h - where the samples of a shard begin, in a file beside it, as DALI's tools write
 * them: wds2idx for tar, tfrecord2idx for TFRecord. An index that is older than its shard, or does
 * not add up to its size, is not used, and the log says so. */
#ifndef MR_SOURCES_SHARD_INDEX_H
#define MR_SOURCES_SHARD_INDEX_H

#include "sources/shards.h"

enum { MR_INDEX_READ, MR_INDEX_WRITE, MR_INDEX_NONE };
extern const char *const mr_shard_index_choices[];

/* True: the shard's pieces are marked. Of a compressed shard that is not unpacked yet (no data)
 * only the index can tell. */
bool mr_shard_index_read_tar(mr_shards *shards, const mr_shard *shard, const mr_shard_data *data,
                             int32_t choice, const mr_log *log);
bool mr_shard_index_read_tfrecord(mr_shards *shards, const mr_shard *shard,
                                  const mr_shard_data *data, int32_t choice, const mr_log *log);

/* The text of an index, for a shard of at most `size` bytes: `data`, where it is at hand; of
 * TFRecord, of just as many where it is `whole`. False: it does not fit, and what was marked is to
 * be taken back. */
bool mr_shard_index_parse_tar(mr_shards *shards, const char *index, size_t n,
                              const unsigned char *data, int64_t size);
bool mr_shard_index_parse_tfrecord(mr_shards *shards, const char *index, size_t n, bool whole,
                                   int64_t size);

/* An index in the making; it does nothing where none is wanted. */
typedef struct mr_shard_index {
    const mr_shard *shard;
    char *text;
    size_t length, capacity;
    int64_t n_samples;
    bool on;        /* it is wanted, and can be written in this format so far */
    bool has_space; /* it cannot, since a name has a space */
} mr_shard_index;

void mr_shard_index_begin(mr_shard_index *index, const mr_shard *shard, int32_t choice);
void mr_shard_index_sample(mr_shard_index *index);
void mr_shard_index_part(mr_shard_index *index, const char *extension, int64_t offset, int64_t size,
                         const char *name);
void mr_shard_index_record(mr_shard_index *index, int64_t offset, int64_t size);

/* Writes it if all went well, and lets it go. That it cannot be written is no failure; that a name
 * is in the way is said unless it was *said. */
void mr_shard_index_write_tar(mr_shard_index *index, bool well, bool *said, const mr_log *log);
void mr_shard_index_write_tfrecord(mr_shard_index *index, bool well, const mr_log *log);

#endif
