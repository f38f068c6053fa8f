/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - the reads that are ahead of the workers: what is to be read next, what has arrived,
 * and how much memory that may take.
 *
 * Reads are numbered in plan order over the whole run. Read r uses entry r mod n_entries, which is
 * free for it once read r - n_entries was released. Entries keep buffers of up to `own` bytes;
 * larger ones draw from a shared allowance, except that the oldest read that is not released always
 * gets its memory: so nothing waits for ever, and the excess is one file. */
#ifndef MR_RUN_WINDOW_H
#define MR_RUN_WINDOW_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/uring.h"
#include "run/cache.h"

typedef struct mr_window_entry {
    _Atomic int64_t usable_by; /* the read that may use this entry */
    _Atomic int64_t ready;     /* the read whose result is here, or -1 */
    mr_uring_read read;        /* extent, size and outcome; both back-ends use it */
    int64_t number;            /* of the read in progress */
    uint64_t started;          /* when, in ticks; the readers' */
    mr_error err;
    void *buffer;
    size_t capacity; /* of buffer */
    size_t charged;  /* to the shared allowance */
    bool waits;      /* the io_uring reader's: refused memory, to be tried again */
    bool kept;       /* a store has it: nothing was read */
    mr_identity identity;
} mr_window_entry;

typedef struct mr_window {
    const mr_source_class *source;
    const void *source_state;
    mr_caches *caches; /* (optional) what they have is not read */

    int64_t n_entries;
    mr_window_entry *entries;
    size_t own;    /* bytes an entry keeps */
    size_t shared; /* allowance beyond that, for all */

    int64_t plan_size; /* samples to read, in order: read r is plan[r mod plan_size] */
    int64_t *plan;
    _Atomic int64_t planned; /* reads whose sample is known */

    pthread_mutex_t lock;   /* guards next, charged and wakes; held around sleeping and waking */
    pthread_cond_t arrived; /* for workers: a read became ready */
    pthread_cond_t room;    /* for pool readers: plan, entry or memory became available */
    int64_t next;           /* read to start next */
    size_t charged;
    int64_t wakes;       /* how often readers were woken */
    atomic_bool refused; /* a read waits for memory */
    atomic_int waiting_workers;
    atomic_int waiting_readers;
    _Atomic int64_t free_entries;
    atomic_bool stopped;
    _Atomic int64_t bytes_read;

    mr_error failure; /* why reading ended, set before `stopped`; code MR_OK: on request */
    void (*wake_reader)(void *user); /* (optional) for a reader that sleeps elsewhere */
    void *wake_user;
} mr_window;

typedef struct mr_window_config {
    const mr_source_class *source;
    const void *source_state;
    mr_caches *caches;
    int64_t n_entries;
    int64_t plan_size;
    int64_t bytes;
} mr_window_config;

mr_status mr_window_init(mr_window *window, const mr_window_config *config, mr_error *err);
void mr_window_free(mr_window *window);

/* The consumer: the next samples of the plan. */
void mr_window_plan(mr_window *window, const int64_t *samples, int64_t count);

/* What will be read as this read, for a worker whose own batch is not delivered yet and that looks
 * ahead; false: not planned so far. */
bool mr_window_upcoming(const mr_window *window, int64_t read, int64_t *sample);

/* Why mr_window_get gave nothing: the readers' failure, or MR_E_CANCELLED. */
mr_status mr_window_failure(const mr_window *window, mr_error *err);

/* Workers: waits for a read. NULL: stopped. The entry is the worker's until released. is_there: it
 * would not wait. */
bool mr_window_is_there(const mr_window *window, int64_t read);
mr_window_entry *mr_window_get(mr_window *window, int64_t read);
void mr_window_release(mr_window *window, mr_window_entry *entry);

/* Readers. start: the next read's entry with its extent located, or NULL if there is none at
 * the moment; what a store has, and a failure to locate, is published at once and the next one
 * tried. reserve: memory for
 * the read's size; false: not now. */
mr_window_entry *mr_window_start(mr_window *window);
bool mr_window_reserve(mr_window *window, mr_window_entry *entry);
void mr_window_publish(mr_window *window, mr_window_entry *entry);
void mr_window_stop(mr_window *window);

/* Sleeping for pool readers: announce, try once more, then sleep with what announce returned (or
 * not), and always retire. */
int64_t mr_window_announce(mr_window *window);
void mr_window_sleep(mr_window *window, int64_t announced);
void mr_window_retire(mr_window *window);

#endif
