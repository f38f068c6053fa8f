/* SPDX-License-Identifier: Apache-2.0 */
/* store_parts.h - what an open store is made of, for stores.c (opening, finding) and spill.c
 * (writing, evicting). */
#ifndef MR_RUN_STORE_PARTS_H
#define MR_RUN_STORE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "run/cache/stores.h"
#include "run/threads.h"
#include "store/claim.h"
#include "store/env.h"
#include "store/segment.h"
#include "store/use.h"

/* A value that is being made (no record yet), or waits to be written. */
typedef struct mr_pending {
    struct mr_pending *next;   /* of the same bucket */
    struct mr_pending *behind; /* in the queue */
    mr_store_key key;
    mr_store_buffer *record;
    int32_t readers; /* that look at the record */
    bool settled;    /* out of the table: goes with its last reader */
} mr_pending;

#define MR_PENDING_BUCKETS 256u
#define MR_MAX_PLANS 64
#define MR_MAX_UNWANTED 1024
#define MR_PLAN_TRIAL 50 /* misses after which a plan that found next to nothing is new here */

typedef struct mr_joined {
    unsigned char prefix[8]; /* as keys begin */
    char text[768];
    int32_t users;
    bool whole;
    int32_t epochs;
    uint16_t began[3];             /* rounds in which this epoch and the two before it began */
    atomic_uint first;             /* round in which the first epoch began */
    _Atomic int64_t found, missed; /* found: of what was there before */
} mr_joined;

struct mr_store {
    struct mr_store *next; /* of this process */
    pid_t owner;
    int32_t users;
    dev_t device;
    ino_t inode;

    mr_place place;
    mr_env *index;
    mr_segments *segments;
    pthread_mutex_t holding; /* of holding and releasing segments */
    pthread_mutex_t writing; /* of appending, dropping and listing them; taken before `holding` */
    bool whole;              /* all of it was opened */
    mr_use use;
    int claims;

    pthread_mutex_t lock; /* of all below that is not atomic */
    pthread_cond_t work, room;
    mr_pending *table[MR_PENDING_BUCKETS];
    mr_pending *first, **last; /* queue */
    size_t queued_bytes;
    mr_store_buffer *idle; /* buffers */
    size_t idle_bytes;
    int32_t n_gathered; /* in the queue, and not taken by the writer yet */
    size_t gathered_bytes;
    int32_t flushers; /* that wait for all of it to be written */
    bool stopping;
    mr_store_key unwanted[MR_MAX_UNWANTED]; /* entries that led to nothing, or to damage */
    atomic_int n_unwanted;
    mr_joined plans[MR_MAX_PLANS];
    char trouble[1200]; /* the first */

    atomic_int n_pending;
    atomic_bool troubled;
    atomic_uint round;
    _Atomic int64_t closed_until; /* takes nothing before this time */
    _Atomic int64_t stored, stored_bytes, evicted, refused, damaged;
    mr_threads writer;
};

/* What the index notes of a pipeline, under the 8 bytes that its keys begin with. */
typedef struct mr_plan_note {
    int64_t hits, misses, made, used;
    char text[768];
} mr_plan_note;
_Static_assert(sizeof(mr_plan_note) <= MR_NOTE_BYTES, "fits into a note");

void mr_store_note_trouble(mr_store *store, const mr_error *err);

/* spill.c */
void mr_store_free_buffers(mr_store *store);
void *mr_spill_main(void *store);
void mr_store_drop_segment(mr_store *store, uint64_t id); /* its file; writing is locked */
mr_pending *mr_pending_find(mr_store *store, const mr_store_key *key); /* locked */
void mr_pending_release(mr_store *store, mr_pending *pending);         /* a reader is done */

#endif
