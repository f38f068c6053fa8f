/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h - samples that lie one behind the other in large files: what tar, tfrecord and lines
 * have in common. It helps a source with shape, first_sample, block_bytes, locate, unpack and drop.
 *
 * A source walks through a shard once, when it is opened, and marks where pieces begin: a piece is
 * a sample, or (lines) a run of them. Shards that are not compressed are then mapped, where samples
 * are taken one by one; else pieces are put together to blocks, which are read. A compressed shard
 * is one block, or, on request, stays unpacked in memory. */
#ifndef MR_SOURCES_SHARDS_H
#define MR_SOURCES_SHARDS_H

#include <millrace/source.h>

#include "codecs/unpack.h"
#include "io/map.h"
#include "io/patterns.h"

typedef struct mr_shard {
    const char *path;
    mr_map map; /* open while the shard is walked through, and longer where shards are mapped */
    int64_t size;
    mr_packing packing;
    unsigned char *unpacked; /* a compressed shard that is kept in memory, or NULL */
    int64_t first_piece, first_sample;
    int64_t end;          /* of its last piece, unpacked */
    uint64_t identity[2]; /* of the file that was walked through */
    bool named;           /* it has one */
} mr_shard;

typedef struct mr_shard_block {
    int64_t first_piece;
    int32_t shard;
} mr_shard_block;

typedef struct mr_shards {
    mr_names paths;
    mr_shard *v; /* one more than there are, which has the ends */
    int32_t n;
    int64_t *starts; /* of pieces, in their shard, unpacked */
    int64_t *firsts; /* first samples of pieces; NULL: a piece is a sample */
    int64_t n_pieces, capacity, n_samples;
    mr_shard_block *blocks;
    int64_t n_blocks;
    int64_t max_unpacked;
    bool mapped;
    bool single; /* on servers: samples are located one by one */
    uint64_t fingerprint[2];
    uint64_t meaning; /* of the fields: see mr_shards_meaning */
} mr_shards;

/* The bytes of a shard, unpacked; data NULL: it is compressed, and was not unpacked yet. */
typedef struct mr_shard_data {
    const unsigned char *data;
    size_t size;
} mr_shard_data;

typedef struct mr_shards_config {
    const mr_strings *patterns;
    const char *const *endings; /* of files to take from a folder */
    int64_t block_bytes;        /* about as many */
    int64_t max_unpacked;       /* refuse compressed shards that have more */
    bool may_map;               /* samples are taken one by one */
    bool may_locate;            /* likewise, and each may be read by itself: a shard on a server
                                   need not be copied */
    bool in_memory;             /* where they are: compressed shards stay unpacked */
    bool runs;                  /* pieces are runs of samples */
    const mr_keeper *keeper;    /* (optional) for where samples begin in shards on servers */
    const char *kind;           /* with a keeper: what decides where they begin */
    const char *objects;        /* likewise: the store, "": none */

    /* (optional) Marks the pieces of a shard as an index says, and is asked before the shard is
     * walked through; also before it is unpacked: then there is no data. */
    bool (*find)(void *user, mr_shards *shards, const mr_shard *shard, const mr_shard_data *data);

    /* Marks the pieces of a shard, unpacked, with mr_shards_mark, and the end of the last with
     * mr_shards_end. */
    mr_status (*walk)(void *user, mr_shards *shards, const mr_shard *shard,
                      const unsigned char *data, size_t size, mr_error *err);

    /* (optional) Likewise of a compressed shard, as it is unpacked piece by piece, so that no
     * memory is taken for it. *again: walk must find out what is wrong. */
    mr_status (*stream)(void *user, mr_shards *shards, const mr_shard *shard, bool *again,
                        mr_error *err);
    void *user;
} mr_shards_config;

/* mr_shards_close is due even if opening failed. */
mr_status mr_shards_open(mr_shards *shards, const mr_shards_config *config, mr_error *err);
void mr_shards_close(mr_shards *shards);

mr_status mr_shards_mark(mr_shards *shards, int64_t offset, int64_t n_samples, mr_error *err);
void mr_shards_end(mr_shards *shards, int64_t offset);

/* The first bytes of the first file that patterns name, up to `most`, unpacked; *whole: that is all
 * of it. For check: to see what fields there are. */
typedef struct mr_shard_head {
    char path[512];
    unsigned char *data; /* freed with free */
    size_t size;
    bool whole;
} mr_shard_head;

mr_status mr_shards_head(mr_shard_head *head, const mr_strings *patterns,
                         const char *const *endings, size_t most, mr_error *err);

/* ---- For the table ---- */
void mr_shards_shape(const mr_shards *shards, mr_shape *out);
int64_t mr_shards_first_sample(const mr_shards *shards, int64_t block);
int64_t mr_shards_block_bytes(const mr_shards *shards, int64_t block);
mr_status mr_shards_locate(const mr_shards *shards, int64_t block, mr_extent *extents,
                           int32_t capacity, int32_t *n, mr_error *err);

/* A block's bytes: those that were read, or, of a compressed shard, unpacked: then *owned is to be
 * freed with free. */
mr_status mr_shards_unpack(const mr_shards *shards, const mr_block *block, mr_bytes *bytes,
                           unsigned char **owned, mr_error *err);

/* What names a sample for a store: its file, its place there and what fields mean. False: the file
 * is not the one that was walked through. */
bool mr_shards_identify(const mr_shards *shards, int64_t sample, uint64_t out[2]);

/* Notes which fields a sample has and what the parameters say of them; `more` is whatever else the
 * values depend on. */
typedef mr_status mr_describe_fn(const void *params, mr_field *fields, int32_t capacity,
                                 int32_t *n_fields, mr_error *err);
mr_status mr_shards_meaning(mr_shards *shards, mr_describe_fn *describe, const void *params,
                            const mr_strings *said, uint64_t more, mr_error *err);
const mr_shard *mr_shards_of_sample(const mr_shards *shards, int64_t sample);

/* ---- Pieces ---- */
typedef struct mr_shard_piece {
    const unsigned char *data; /* NULL: asked for without a block where shards are read */
    size_t size;
    const mr_shard *shard;
    int64_t offset; /* in the shard, unpacked */
} mr_shard_piece;

const mr_shard *mr_shards_of_piece(const mr_shards *shards, int64_t piece);
int64_t mr_shards_piece_end(const mr_shards *shards, const mr_shard *shard, int64_t piece);

/* A piece in the bytes of its block, or (block NULL) in the shard that is mapped. unpacked: what
 * mr_shards_unpack gave, or NULL where the block's own bytes serve. */
mr_shard_piece mr_shards_piece(const mr_shards *shards, const mr_block *block,
                               const unsigned char *unpacked, int64_t piece);

/* Says which byte of which shard a failure is about. */
mr_status mr_shard_blame(mr_status status, const char *path, int64_t offset, mr_error *err);

#endif
