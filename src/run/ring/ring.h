/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - tickets: who makes which part of which batch, in order, and when a batch is whole.
 *
 * Batches are numbered from 0 over the whole run; each is cut into the same number of tickets, and
 * a ticket's number says which batch and which part it is. Workers take tickets in order from one
 * counter; the consumer opens batches ahead (at most `depth` that it has not taken) and takes them
 * in order. Nobody locks unless somebody must sleep. */
#ifndef MR_RUN_RING_H
#define MR_RUN_RING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <millrace/types.h>

typedef struct mr_ring_cell {
    _Atomic int64_t pending;   /* tickets not finished */
    _Atomic int64_t published; /* the batch that is whole here, or -1 */
} mr_ring_cell;

typedef struct mr_ring {
    int64_t depth;
    _Atomic int64_t ahead; /* batches that may be open at the moment, at most `depth` */
    int64_t tickets_per_batch;
    int64_t n_batches;   /* in the run */
    mr_ring_cell *cells; /* batch b lives in cell b mod depth */
    int64_t unannounced; /* the consumer's: batches opened since workers were last woken */

    _Alignas(64) _Atomic int64_t next_ticket;
    _Alignas(64) _Atomic int64_t opened; /* batches 0 .. opened - 1 may be worked on */
    atomic_bool stopped;
    atomic_int sleeping_workers;
    _Atomic uint32_t admitted; /* workers that may draw tickets: those with lower numbers */
    _Atomic int64_t nudges;    /* how often workers were called for other work */
    _Atomic int64_t awaited;   /* the batch that wakes the sleeping consumer, or -1 */

    pthread_mutex_t lock; /* held only around sleeping and waking */
    pthread_cond_t work;  /* opened grew, or stopped */
    pthread_cond_t whole; /* a batch was published, or stopped */
    pthread_cond_t gate;  /* more workers are admitted, or stopped */
} mr_ring;

typedef struct mr_ticket {
    int64_t batch;
    int64_t part;   /* 0 .. tickets_per_batch - 1 */
    int64_t nudges; /* seen so far */
} mr_ticket;

bool mr_ring_init(mr_ring *ring, int64_t depth, int64_t tickets_per_batch, int64_t n_batches);
void mr_ring_free(mr_ring *ring);

/* Workers. A ticket is drawn (false: there are no more), its batch is waited for until it is open,
 * and then worked on. sleep returns when it is, when the ring stopped, and when somebody nudged
 * since the ticket was drawn or last slept with. finish says whether this ticket was the batch's
 * last: that worker seals the batch and then publishes it. */
bool mr_ring_draw_ticket(mr_ring *ring, mr_ticket *out);

/* Before it draws: waits until this worker is among those that are admitted (all, unless somebody
 * says otherwise), or the ring stopped. Who waits here has no ticket, so nobody waits for him. */
void mr_ring_enter(mr_ring *ring, uint32_t worker);
void mr_ring_admit(mr_ring *ring, uint32_t workers);                /* any thread */
bool mr_ring_is_open(const mr_ring *ring, const mr_ticket *ticket); /* or stopped */
void mr_ring_sleep(mr_ring *ring, mr_ticket *ticket);
void mr_ring_nudge(mr_ring *ring); /* any thread: there is other work for who sleeps */
bool mr_ring_finish_ticket(mr_ring *ring, mr_ticket ticket);
void mr_ring_publish(mr_ring *ring, int64_t batch);

/* The consumer. Batch numbers are opened and waited for one after the other. */
void mr_ring_open(mr_ring *ring, int64_t batch);

/* Tickets of open batches that nobody has drawn. */
int64_t mr_ring_undrawn(const mr_ring *ring);

/* Waits until a moment of CLOCK_MONOTONIC, NULL: for ever. MR_OK, MR_LATER or MR_E_CANCELLED. */
mr_status mr_ring_wait_until(mr_ring *ring, int64_t batch, const struct timespec *moment);

void mr_ring_stop(mr_ring *ring); /* any thread */
bool mr_ring_is_stopped(const mr_ring *ring);

#endif
