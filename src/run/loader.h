/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - what a loader is made of, for the files of run/. */
#ifndef MR_RUN_LOADER_H
#define MR_RUN_LOADER_H

#include <sys/types.h>

#include "core/hash.h"
#include "plan/order.h"
#include "plan/schedule.h"
#include "run/chain.h"
#include "run/drain.h"
#include "run/readahead.h"
#include "run/ring.h"
#include "run/threads.h"

#define MR_SKIPS_KEPT 1000
#define MR_SUBSTITUTE_ATTEMPTS 64

/* A bad sample that was replaced. */
typedef struct mr_skip_note {
    struct mr_skip_note *next;
    int64_t slot;
    mr_skip skip;
    mr_error error;
} mr_skip_note;

/* A batch in the making: slot b mod depth of the ring. */
typedef struct mr_making {
    mr_batch *batch;
    mr_slice slice;
    int64_t first_read;  /* number of its first read */
    mr_skip_note *skips; /* guarded by the loader's notes_lock */
    int64_t n_skips;     /* likewise */
    int64_t failed_slot; /* likewise; -1: none. The lowest wins, so the error is always the same */
    mr_error failure;    /* likewise */
} mr_making;

typedef struct mr_worker {
    struct mr_loader *loader;
    mr_track *track;
    mr_chain chain;
    void *fetched;  /* bytes read for the sample at hand, not ahead of it */
    int64_t looked; /* the place in the run up to which it looked for samples to help with */
} mr_worker;

struct mr_loader {
    const mr_pipeline *pipeline;
    pid_t owner; /* the process whose threads these are */
    uint64_t seed;
    int32_t on_error;
    bool digest;
    mr_log log;
    mr_schedule schedule;
    int64_t n_steps; /* of this run */
    int64_t morsel;

    void *source_state;
    char dataset_fingerprint[33];
    uint32_t cpu;

    mr_pool *pool;
    mr_ring ring;
    bool ring_ready;
    mr_making *making;
    mr_caches caches;
    mr_readahead *readahead; /* NULL: the source needs no reads */
    mr_worker *workers;
    mr_threads threads;
    uint32_t n_workers;
    uint32_t in_flight;
    int64_t read_ahead_bytes;
    mr_tracks tracks;
    mr_drain *drain;   /* NULL: no trace is written */
    double check_rate; /* bytes a second, see tracing.c; 0: no trace */

    /* the consumer's */
    mr_track *track;
    uint64_t delivered_at; /* in ticks, the last batch; 0: none yet */
    uint64_t waited;       /* in ticks, for the next batch, in calls that came too early */
    mr_order order;        /* of order_epoch */
    int64_t order_epoch;
    int64_t n_opened, n_taken; /* batches */
    int64_t n_reads;           /* planned so far */
    int64_t epoch, position;   /* after the last delivered batch */
    mr_hash128 stream_digest;
    mr_status final; /* MR_OK, or what every later call returns */
    mr_error final_error;
    mr_skip_note **skips;
    int64_t n_skips_kept;

    atomic_bool cancelled;
    pthread_mutex_t notes_lock;
    _Atomic int64_t delivered_samples, delivered_batches, skipped, wait_ns;
};

/* worker.c */
void *mr_worker_main(void *context);

/* tracing.c: tracks are there before threads are, the trace begins after them and ends with them.
 */
mr_status mr_tracing_open(mr_loader *loader, const mr_options *options, mr_error *err);
mr_status mr_tracing_begin(mr_loader *loader, const mr_options *options, mr_error *err);
void mr_tracing_close(mr_loader *loader);

#endif
