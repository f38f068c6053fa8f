/* SPDX-License-Identifier: Apache-2.0 */
/* batch_parts.h - what batches and their pool are made of, for the files of this folder. */
#ifndef MR_RUN_BATCH_PARTS_H
#define MR_RUN_BATCH_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/hash.h"
#include "run/ring/batch.h"

#define MR_POOL_KEEP_MAX 16

/* One sample of a ragged field before the batch is sealed. */
typedef struct mr_batch_value {
    void *data;
    size_t size;
    mr_type type;
    bool lent;   /* data is somebody else's, who keeps it until the batch is sealed */
    bool inside; /* data lies in the field's room */
    bool sized;  /* those that come after it know how much it asked for first ... */
    size_t room; /* ... this; both guarded by the part's lock */
} mr_batch_value;

/* How a field lies in a batch. */
typedef struct mr_pool_field {
    const char *name;
    mr_type type;
    bool ragged;
    bool collated;       /* an op makes the array: see collate in op.h */
    size_t sample_bytes; /* of a dense field */
    size_t offset;       /* of a dense field in the block */
    _Atomic size_t most; /* of a ragged field: bytes of the largest batch so far */
} mr_pool_field;

struct mr_pool {
    atomic_int references; /* the loader's, and one per batch that exists */
    mr_allocator allocator;
    int64_t capacity;
    bool digest, poison;
    bool late; /* samples change until the batch is sealed: digests are made then */
    uint32_t keep;

    int32_t n_fields; /* those of samples */
    int32_t n_arrays; /* and those that only batches have, behind them */
    mr_pool_field *fields;
    bool any_ragged;
    size_t block_bytes;
    char *names; /* own copies: batches may outlive the pipeline */

    /* Idle batches. Exchanging whole cells needs no lock and has no ABA problem. */
    _Atomic(mr_batch *) idle[MR_POOL_KEEP_MAX];
    atomic_bool closed;
};

/* What a ragged field has besides its array.
 *
 * Values are written where they stay: room for a batch's values, as large as earlier batches
 * needed, is there before the first is made, and a value's place is known once the sizes of all
 * before it are. Samples are begun in order and say their sizes early, so that is the rule; a value
 * whose place is not known yet, or for which there is no room, gets memory of its own and is copied
 * when the batch is sealed. The room is the array's own memory, or, where an op makes the array of
 * all values, memory beside it. */
typedef struct mr_ragged_part {
    pthread_mutex_t lock; /* guards next, end, and `sized` of the pieces */
    int64_t next;         /* samples before it have their place */
    size_t end;           /* of them, in the room */
    unsigned char *room;
    size_t room_bytes;
    mr_batch_value *pieces; /* one per sample */
    int64_t *offsets;       /* capacity + 1 */
    int64_t *shapes;        /* capacity x dims */
    size_t values_bytes;    /* what the array's data was allocated with */
} mr_ragged_part;

struct mr_batch {
    atomic_int references;
    mr_pool *pool;
    int64_t count, valid, epoch, step;
    unsigned char *block;
    int64_t *samples;
    uint64_t *sample_digests;
    mr_hash128 digest;
    char digest_hex[33];

    mr_loan *loans; /* one per field of samples: the memory that stands in for its own */
    int32_t n_loans;
    mr_array *arrays;
    mr_ragged_part *parts; /* one per field too; empty where it is dense */
};

static inline bool mr_pool_is_ragged(const mr_pool *pool, int32_t field) {
    return pool->fields[field].ragged;
}

/* pool.c: memory for an array that is made when its size is known, kept for the next batch. */
mr_status mr_batch_reserve(mr_batch *batch, int32_t array, size_t bytes, mr_error *err);
void mr_batch_release(const mr_batch *batch, void *memory, size_t size); /* NULL allowed */

/* batch.c: gives back all values of a ragged field. Nobody makes any. */
void mr_batch_forget(mr_batch *batch, int32_t field);

#endif
