/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - what a loader is made of, for the files of run/. */
#ifndef MR_RUN_LOADER_H
#define MR_RUN_LOADER_H

#include <jansson.h>
#include <sys/types.h>

#include "core/hash.h"
#include "plan/locality.h"
#include "plan/share.h"
#include "plan/state.h"
#include "run/adapt.h"
#include "run/read/ahead.h"
#include "run/cache/raw_tier.h"
#include "run/chain/chain.h"
#include "run/child.h"
#include "run/record/drain.h"
#include "run/read/exchange.h"
#include "run/read/peers.h"
#include "run/read/far_origin.h"
#include "run/stream/live.h"
#include "run/read/readahead.h"
#include "run/ring/ring.h"
#include "run/threads.h"

#define MR_SKIPS_KEPT 1000
#define MR_SUBSTITUTE_ATTEMPTS 64
#define MR_ORIGINS 7 /* store, memory, peers, node, fabric, kept objects, objects */

/* A bad sample that was replaced. */
typedef struct mr_skip_note {
    struct mr_skip_note *next;
    int64_t slot;
    mr_skip skip;
    mr_error error;
} mr_skip_note;

/* A batch in the making: cell b mod depth of the ring. */
typedef struct mr_making {
    mr_batch *batch;
    mr_portion portion;  /* of the step: which positions */
    mr_pick *picks;      /* of each slot */
    int32_t *slots;      /* the portion's, where it is local */
    mr_load **loads;     /* of those that are planned for themselves */
    mr_load *own;        /* where a sample is a block: a load for each slot */
    mr_live_step live;   /* where a stream is followed */
    mr_skip_note *skips; /* guarded by the loader's notes_lock */
    int64_t n_skips;     /* likewise */
    int64_t failed_slot; /* likewise; -1: none. The lowest wins, so the error is always the same */
    mr_error failure;    /* likewise */
} mr_making;

typedef struct mr_worker {
    struct mr_loader *loader;
    mr_track *track;
    mr_chain *chains;  /* one for each child */
    mr_chain *helpers; /* likewise where there are stores: for samples made while another waits */
    mr_route_cursor *cursor;
    const mr_block **blocks; /* of a run of rows */
    int64_t *samples;        /* likewise */
    mr_own_block fetched;    /* read for the sample at hand, not ahead of it ... */
    const mr_dataset *fetched_from;
    int64_t looked_batch, looked_slot; /* up to where it looked for samples to help with */
    _Atomic uint64_t busy;             /* ticks at work, waiting for reads included */
    _Atomic int32_t thread;            /* the system's number for it; 0: it has not begun */
} mr_worker;

/* How far other ranks' needs are known: see loader_foresee.c. */
typedef struct mr_foresight {
    mr_pick *picks; /* of one rank's portion */
    int64_t *items; /* likewise */
    int64_t opened; /* the newest step that is open here, of those of all ranks */
    int64_t next;   /* that is not foreseen yet */
    bool is_over;
} mr_foresight;

struct mr_loader {
    const mr_pipeline *pipeline;
    pid_t owner; /* the process whose threads these are */
    uint64_t seed;
    int32_t on_error;
    bool digest;
    mr_log log;
    mr_schedule schedule;
    mr_share share;
    mr_locality *locality; /* NULL: nothing is shared with other ranks */
    mr_foresight foresight;
    int64_t n_steps; /* of this run */
    int64_t morsel;
    bool borrows; /* see mr_loader_may_borrow */

    mr_children children;
    mr_live *live;                /* NULL: the dataset is all there */
    mr_ahead *ahead;              /* NULL: samples are single, or nothing is read */
    int32_t first_lane, end_lane; /* of this rank */
    int64_t blocks_ahead;         /* that are planned before they are needed */
    int64_t blocks_bound;         /* of those that are alive at once */
    int64_t block_memory;         /* of so many, as large as the largest */
    uint32_t cpu;

    mr_pool *pool;
    mr_ring ring;
    bool ring_ready;
    mr_making *making;
    mr_origin origins[MR_ORIGINS]; /* asked before files are read, in order of cost */
    int32_t n_origins;
    mr_exchange *exchange;   /* NULL: there is no fabric of servers */
    mr_peers *peers;         /* NULL: ranks send each other nothing */
    mr_far_origin *far;      /* NULL: nothing lies on servers */
    mr_raw_tier *raw;        /* NULL: nothing of that is kept */
    mr_readahead *readahead; /* NULL: the source needs no reads */
    mr_worker *workers;
    mr_threads threads;
    uint32_t n_workers;
    int64_t read_ahead_bytes; /* at most */
    int64_t idle_bytes;       /* of buffers kept for the next read */
    int64_t entry_bytes;      /* of a stream that is followed, at most: see mr_live_memory */
    mr_adapter adapter;
    mr_tracks tracks;
    mr_drain *drain;   /* NULL: no trace is written */
    double check_rate; /* bytes a second, see tracing.c; 0: no trace */

    /* the consumer's */
    mr_track *track;
    uint64_t delivered_at; /* in ticks, the last batch; 0: none yet */
    uint64_t waited;       /* in ticks, for the next batch, in calls that came too early */
    mr_route_cursor *cursor;
    int64_t opened_epoch;      /* of the newest batch that was opened, or -1 */
    int64_t n_opened, n_taken; /* batches */
    bool by_epoch;             /* see mr_options */
    bool no_names;             /* likewise */
    int64_t asked_epoch;       /* of the newest batch that was asked for, or -1 */
    int64_t epoch, position;   /* after the last delivered batch */
    mr_state restored;         /* what the run began with */
    char *classes;             /* their names, see state.h; NULL: there are none, or too many */
    mr_hash128 stream_digest;
    mr_status final; /* MR_OK, or what every later call returns */
    mr_error final_error;
    mr_skip_note **skips;
    int64_t n_skips_kept;

    atomic_bool cancelled;
    pthread_mutex_t notes_lock;
    _Atomic int64_t delivered_samples, delivered_batches, skipped, wait_ns;
};

void mr_loader_outlook(const mr_loader *loader, mr_outlook *out); /* as far as it is planned */

/* Of this rank, in a full step. */
static inline int64_t mr_loader_share(const mr_loader *loader) {
    return loader->schedule.batch / loader->schedule.world;
}

/* The run's position behind a step. */
static inline int64_t mr_loader_position(const mr_loader *loader, const mr_portion *portion) {
    return mr_route_run(&loader->children.route, portion->epoch, portion->position);
}

static inline bool mr_loader_is_mix(const mr_loader *loader) {
    return loader->children.route.mix != NULL;
}

static inline bool mr_loader_is_local(const mr_loader *loader) {
    return loader->locality && loader->pipeline->share.mode == MR_SHARE_LOCAL;
}

/* Rows of blocks, and single samples that are neither read nor prepared ahead and whose order is
 * computed, are listed by the workers, each for its ticket, see worker.c. What a mix takes next, or
 * a rank that makes what its node has, is known only once it is listed: the consumer does that, and
 * the rest. */
static inline bool mr_lists_early(const mr_loader *loader) {
    bool waited_for = loader->readahead || mr_children_n_caches(&loader->children) > 0;
    bool by_workers = loader->ahead || (!loader->live && !waited_for &&
                                        mr_route_needs_no_table(&loader->children.route));
    return !by_workers || mr_loader_is_mix(loader) || mr_loader_is_local(loader);
}

/* loader_choices.c: samples per ticket, batches ahead, blocks that may be held. */
mr_options mr_loader_options(const mr_options *given);
mr_status mr_loader_check_options(const mr_options *options, mr_error *err);
bool mr_loader_may_borrow(const mr_loader *loader);
int64_t mr_loader_choose_morsel(const mr_loader *loader);
int64_t mr_loader_choose_depth(const mr_loader *loader, const mr_options *options);
int64_t mr_loader_most_ahead(const mr_loader *loader, const mr_options *options, int64_t depth);
int64_t mr_loader_most_held(const mr_loader *loader, uint32_t reads, uint32_t threads);
void mr_loader_limit_adapter(mr_adapter *adapter, const mr_options *given, const mr_options *whole,
                             const mr_settings *settings);

/* loader_classes.c: the names of a field's classes; those of all fields, for states. */
json_t *mr_loader_classes_of(const mr_loader *loader, const char *field, bool *lost);
mr_status mr_loader_name_classes(mr_loader *loader, mr_error *err);

/* loader_state.c */
mr_state mr_loader_state(const mr_loader *loader);
mr_status mr_loader_restore(mr_loader *loader, const mr_options *options, mr_error *err);
mr_status mr_loader_note_digest(const mr_loader *loader, mr_error *err);

/* loader_batches.c: all that may be open; the picks of n slots from the first on, where the portion
 * does not come with them; and with their samples in the batch. */
mr_status mr_loader_open_batches(mr_loader *loader, mr_error *err);
void mr_loader_ask(mr_loader *loader); /* the next batch is wanted */
mr_status mr_list_portion(mr_route_cursor *cursor, const mr_portion *portion, int64_t first,
                          int64_t n, mr_pick *picks, mr_error *err);
mr_status mr_list_picks(const mr_loader *loader, mr_route_cursor *cursor, mr_making *making,
                        int64_t first, int64_t n, mr_error *err);

/* loader_foresee.c: a portion was opened here. */
void mr_loader_foresee(mr_loader *loader, const mr_portion *opened);
void mr_loader_free_foresight(mr_loader *loader);

/* loader_next.c */
void mr_loader_note_wait(mr_loader *loader);
void mr_loader_report_trouble(mr_loader *loader);

/* worker.c */
void *mr_worker_main(void *context);

/* tracing.c: tracks are there before threads are, the trace begins after them and ends with them.
 */
mr_status mr_tracing_open(mr_loader *loader, const mr_options *options, mr_error *err);
mr_status mr_tracing_begin(mr_loader *loader, const mr_options *options, mr_error *err);
void mr_tracing_close(mr_loader *loader);

#endif
