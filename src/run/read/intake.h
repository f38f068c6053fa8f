/* SPDX-License-Identifier: Apache-2.0 */
/* intake.h - blocks on their way in: planned, read, unpacked, used, given back.
 *
 * A load is one block that the plan takes rows of. The consumer plans loads in the order in which
 * the plan needs them; readers start them in that order; workers wait for them, unpack them in
 * parts, use them and let them go. A sample that is a file is a block of one row, and its load
 * is used once.
 *
 *     planned --> [asked] --> reading --> there --> whole --> let go
 *                    |                      '-- unpacked in parts, by whichever worker has nothing
 *                    |                          better to do
 *                    '-- where there are origins before the files: origin.h
 *
 * Memory: samples of their own that are started and not given back are bounded by number and by
 * bytes, except that the oldest load that a worker waits for always goes on: so nothing waits in a
 * circle. How many blocks of many rows are planned ahead is the consumer's to bound (see ahead.h),
 * and these do not count here. */
#ifndef MR_RUN_INTAKE_H
#define MR_RUN_INTAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/uring.h"
#include "run/cache/cache.h"
#include "run/read/dataset.h"
#include "run/read/origin.h"
#include "span/track.h"

typedef enum mr_load_stage {
    MR_LOAD_PLANNED, /* or being read */
    MR_LOAD_THERE,   /* its bytes are; parts may be left to unpack */
    MR_LOAD_WHOLE    /* settled: `status` says how it went */
} mr_load_stage;

struct mr_intake;

typedef struct mr_load {
    mr_block block; /* complete when the load is whole and well */
    int64_t turn;   /* its place among all loads of the run */
    const mr_dataset *dataset;
    struct mr_intake *intake;
    atomic_int stage;
    atomic_int status; /* mr_status */
    mr_error *failure; /* where status is one */

    mr_extent extent, *extents; /* one of its own, or several */
    mr_bytes one, *bytes;       /* likewise */
    int32_t n_extents;
    _Atomic int32_t pieces_left; /* reads that are not done */
    void *buffer;
    size_t capacity, charged;
    uint64_t started; /* in ticks */

    int32_t next_part; /* guarded by the intake's lock */
    _Atomic int32_t parts_left;
    struct mr_load *next_unpackable; /* likewise */

    int32_t origin;             /* that is asked, or that gave the bytes; the last is the files */
    bool is_answered;           /* by all: nobody has it. Guarded by the intake's lock */
    struct mr_load *next_asked; /* likewise */
    struct mr_load *next_again; /* likewise */
    bool lent;                  /* the bytes are the origin's */

    bool kept; /* a store has what is wanted of it: nothing was read */
    bool is_started;
    mr_identity identity; /* of a single sample */
    mr_identity abroad;   /* what names its bytes for other machines: see exchange.h */
    size_t record_size;   /* kept: the buffer, or what is lent, has the sample as it is at the last
                             cache, as a record (0: a store has it) */
    size_t record_at;     /* where in the buffer */
    bool is_own_record;   /* under the name that our own store has it by, not a fabric */
} mr_load;

/* A buffer that waits for its next load. */
typedef struct mr_idle_buffer {
    void *data;
    size_t capacity;
} mr_idle_buffer;

#define MR_IDLE_BUFFERS 64

typedef struct mr_intake {
    mr_origin *origins; /* (optional) asked before files are read */
    int32_t n_origins;
    _Atomic int64_t most_held; /* loads started and not given back */
    size_t allowance;          /* bytes of them; guarded by the lock */
    size_t most_idle;          /* bytes of buffers kept for the next */

    pthread_mutex_t lock;   /* guards what follows up to the atomics */
    pthread_cond_t arrived; /* for workers: a load became whole, or can be unpacked */
    pthread_cond_t room; /* for readers and the asker: a load was planned, was answered, or memory
                            came free */
    mr_load **queue;     /* planned loads in their order; a ring of queue_size */
    int64_t queue_size, queue_first, queue_end;
    mr_load *asked, **asked_end; /* behind the queue: loads that are asked for, or that nobody but
                                    the files has, in their order */
    mr_load *again;              /* of these, what the next origin is to be asked for, in order */
    int64_t n_planned;           /* in the run */
    int64_t held;
    size_t charged;
    mr_idle_buffer idle[MR_IDLE_BUFFERS];
    int32_t n_idle;
    size_t idle_bytes;
    mr_load *unpackable; /* there, with parts left; oldest first */
    int64_t *awaited;    /* turns that workers wait for */
    int32_t n_awaited;
    int64_t wakes; /* how often readers were woken */

    atomic_bool unpacks; /* there was something to unpack */
    atomic_bool refused; /* a read waits for memory */
    atomic_bool full;    /* a load was not begun: as many as may be are held */
    atomic_int waiting_workers, waiting_readers;
    _Atomic int64_t released; /* since readers were last woken */
    atomic_bool stopped;
    _Atomic int64_t bytes_read, blocks_alive, most_alive, loads_read;
    _Atomic int64_t short_of_memory; /* reads that had to wait for it */

    mr_error failure; /* why reading ended, set before `stopped`; code MR_OK: on request */
    void (*wake_reader)(void *user); /* (optional) for a reader that sleeps elsewhere */
    void *wake_user;
    void (*wake_worker)(void *user); /* (optional) for workers that sleep elsewhere */
    void *worker_user;
} mr_intake;

typedef struct mr_intake_config {
    mr_origin *origins; /* in order of cost; the caller's */
    int32_t n_origins;
    int64_t most_held;
    int64_t bytes;      /* of loads started and not given back */
    int64_t idle_bytes; /* of buffers kept for the next */
    uint32_t threads;   /* workers */
} mr_intake_config;

mr_status mr_intake_init(mr_intake *intake, const mr_intake_config *config, mr_error *err);
void mr_intake_free(mr_intake *intake);

/* Other bounds from now on, any thread; `most_held` as in the config. What is held stays. */
void mr_intake_allow(mr_intake *intake, int64_t most_held, int64_t bytes);

/* ---- The consumer ---- */
/* Plans loads in their order; each arrives with dataset and block.number set. False: no memory. */
bool mr_intake_plan(mr_intake *intake, mr_load *const *loads, int64_t n);

/* ---- Workers ---- */
bool mr_load_is_settled(const mr_load *load);

/* Unpacks one part: of the load (NULL: none in particular), else of the oldest that has one. False:
 * there is nothing to unpack. */
bool mr_intake_unpack_one(mr_intake *intake, mr_load *load, mr_track *track);

/* Who waits, and for which sample: for the spans of it. */
typedef struct mr_waiter {
    mr_track *track;
    int64_t sample;
    uint32_t batch;
} mr_waiter;

/* Waits until the load is whole, and unpacks meanwhile what can be unpacked. MR_OK: use its block;
 * else the failure. */
mr_status mr_intake_await(mr_intake *intake, mr_load *load, const mr_waiter *waiter, mr_error *err);

/* Lets a load go that nobody needs any more, at whatever stage it is; it is empty then, and the
 * caller's again. False: somebody is at work on it right now, ask again later. */
bool mr_intake_let_go(mr_intake *intake, mr_load *load);

/* Frees what a load holds, whoever uses it: when all threads have ended. */
void mr_intake_empty(mr_intake *intake, mr_load *load);

/* Why nothing comes any more: the readers' failure, or MR_E_CANCELLED. */
mr_status mr_intake_failure(const mr_intake *intake, mr_error *err);

/* ---- Readers ---- */
/* The next load to read, located, or NULL: none at the moment. A failure to locate is settled at
 * once. */
mr_load *mr_intake_start(mr_intake *intake);

/* The asker: takes the next load through the origins. False: there is none at the moment. */
bool mr_intake_ask_one(mr_intake *intake);
void mr_intake_wake_readers(mr_intake *intake); /* for what was answered since */
void mr_intake_end_origins(mr_intake *intake);  /* when it is stopped and the asker is gone */

/* Memory for `size` bytes of it. False: not now. Where there is none at all the load fails. */
bool mr_intake_reserve(mr_intake *intake, mr_load *load, size_t size);

/* Every reader calls it once for each piece of the load; a failure is noted before. */
void mr_intake_piece_done(mr_intake *intake, mr_load *load);
void mr_load_fail(mr_load *load, mr_status status, const mr_error *err);
void mr_intake_stop(mr_intake *intake);

/* Sleeping for readers of the pool and the asker: announce, try once more, then sleep with what
 * announce returned (or not), and always retire. */
int64_t mr_intake_announce(mr_intake *intake);
void mr_intake_sleep(mr_intake *intake, int64_t announced);
void mr_intake_retire(mr_intake *intake);

#endif
