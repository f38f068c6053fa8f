/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - see ring.h.
 *
 * Sleeping without losing a wake-up: the sleeper announces itself and then looks again; the waker
 * changes the state and then looks for sleepers. Both sides use sequentially consistent atomics, so
 * at least one of them sees the other. */
#include "run/ring/ring.h"

#include "core/memory.h"
#include <millrace/millrace.h>

bool mr_ring_init(mr_ring *ring, int64_t depth, int64_t tickets_per_batch, int64_t n_batches) {
    ring->depth = depth;
    atomic_init(&ring->ahead, depth);
    atomic_init(&ring->admitted, UINT32_MAX);
    ring->tickets_per_batch = tickets_per_batch;
    ring->n_batches = n_batches;
    ring->cells = mr_zalloc((size_t)depth, sizeof *ring->cells);
    for (int64_t i = 0; ring->cells && i < depth; i++) {
        atomic_init(&ring->cells[i].published, -1);
    }
    atomic_init(&ring->awaited, -1);
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->work, NULL);
    pthread_cond_init(&ring->whole, NULL);
    pthread_cond_init(&ring->gate, NULL);
    return ring->cells != NULL;
}

void mr_ring_free(mr_ring *ring) {
    pthread_mutex_destroy(&ring->lock);
    pthread_cond_destroy(&ring->work);
    pthread_cond_destroy(&ring->whole);
    pthread_cond_destroy(&ring->gate);
    mr_free(ring->cells);
}

bool mr_ring_is_stopped(const mr_ring *ring) {
    return atomic_load(&ring->stopped);
}

static mr_ring_cell *cell_of(const mr_ring *ring, int64_t batch) {
    return &ring->cells[batch % ring->depth];
}

bool mr_ring_is_open(const mr_ring *ring, const mr_ticket *ticket) {
    return ticket->batch < atomic_load(&ring->opened) || mr_ring_is_stopped(ring);
}

void mr_ring_enter(mr_ring *ring, uint32_t worker) {
    if (worker < atomic_load(&ring->admitted)) {
        return;
    }
    pthread_mutex_lock(&ring->lock);
    while (worker >= atomic_load(&ring->admitted) && !mr_ring_is_stopped(ring)) {
        pthread_cond_wait(&ring->gate, &ring->lock);
    }
    pthread_mutex_unlock(&ring->lock);
}

void mr_ring_admit(mr_ring *ring, uint32_t workers) {
    pthread_mutex_lock(&ring->lock);
    atomic_store(&ring->admitted, workers);
    pthread_cond_broadcast(&ring->gate);
    pthread_mutex_unlock(&ring->lock);
}

bool mr_ring_draw_ticket(mr_ring *ring, mr_ticket *out) {
    int64_t ticket = atomic_fetch_add(&ring->next_ticket, 1);
    *out = (mr_ticket){.batch = ticket / ring->tickets_per_batch,
                       .part = ticket % ring->tickets_per_batch,
                       .nudges = atomic_load(&ring->nudges)};
    return out->batch < ring->n_batches && !mr_ring_is_stopped(ring);
}

void mr_ring_sleep(mr_ring *ring, mr_ticket *ticket) {
    pthread_mutex_lock(&ring->lock);
    atomic_fetch_add(&ring->sleeping_workers, 1);
    while (!mr_ring_is_open(ring, ticket) && atomic_load(&ring->nudges) == ticket->nudges) {
        pthread_cond_wait(&ring->work, &ring->lock);
    }
    ticket->nudges = atomic_load(&ring->nudges);
    atomic_fetch_sub(&ring->sleeping_workers, 1);
    pthread_mutex_unlock(&ring->lock);
}

void mr_ring_nudge(mr_ring *ring) {
    atomic_fetch_add(&ring->nudges, 1);
    if (atomic_load(&ring->sleeping_workers) > 0) {
        pthread_mutex_lock(&ring->lock);
        pthread_cond_broadcast(&ring->work);
        pthread_mutex_unlock(&ring->lock);
    }
}

bool mr_ring_finish_ticket(mr_ring *ring, mr_ticket ticket) {
    return atomic_fetch_sub(&cell_of(ring, ticket.batch)->pending, 1) == 1;
}

void mr_ring_publish(mr_ring *ring, int64_t batch) {
    atomic_store(&cell_of(ring, batch)->published, batch);
    if (atomic_load(&ring->awaited) == batch) {
        pthread_mutex_lock(&ring->lock);
        pthread_cond_signal(&ring->whole);
        pthread_mutex_unlock(&ring->lock);
    }
}

int64_t mr_ring_undrawn(const mr_ring *ring) {
    int64_t open = atomic_load(&ring->opened) * ring->tickets_per_batch;
    int64_t undrawn = open - atomic_load(&ring->next_ticket);
    return undrawn > 0 ? undrawn : 0; /* tickets are drawn before their batch is open, too */
}

static void announce_work(mr_ring *ring) {
    ring->unannounced = 0;
    if (atomic_load(&ring->sleeping_workers) > 0) {
        pthread_mutex_lock(&ring->lock);
        pthread_cond_broadcast(&ring->work);
        pthread_mutex_unlock(&ring->lock);
    }
}

/* Where many small batches may be ahead, workers are woken for half of them at a time: a wake-up
 * costs as much as tens of small samples. The other half is ready meanwhile, and whoever is about
 * to wait for a batch wakes them at once. */
void mr_ring_open(mr_ring *ring, int64_t batch) {
    atomic_store(&cell_of(ring, batch)->pending, ring->tickets_per_batch);
    atomic_store(&ring->opened, batch + 1);
    ring->unannounced++;
    if (2 * ring->unannounced >= atomic_load(&ring->ahead) || batch + 1 == ring->n_batches) {
        announce_work(ring);
    }
}

static bool is_whole(const mr_ring *ring, int64_t batch) {
    return atomic_load(&cell_of(ring, batch)->published) == batch;
}

static bool sleep_until(mr_ring *ring, const struct timespec *moment) {
    if (!moment) {
        return pthread_cond_wait(&ring->whole, &ring->lock) == 0;
    }
    return pthread_cond_clockwait(&ring->whole, &ring->lock, CLOCK_MONOTONIC, moment) == 0;
}

static void await(mr_ring *ring, int64_t batch, const struct timespec *moment) {
    bool in_time = true;
    atomic_store(&ring->awaited, batch);
    while (in_time && !is_whole(ring, batch) && !mr_ring_is_stopped(ring)) {
        in_time = sleep_until(ring, moment);
    }
    atomic_store(&ring->awaited, -1);
}

static bool is_before(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* A consumer that waits is faster than the workers. Waking it for every small batch would take them
 * off their CPUs each time, so it sleeps until several are ready, if that is soon. */
static void await_several(mr_ring *ring, int64_t batch, const struct timespec *moment) {
    enum { SOON_NS = 200000 };
    struct timespec soon;
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += SOON_NS;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    int64_t several = batch + atomic_load(&ring->ahead) / 2, last = atomic_load(&ring->opened) - 1;
    await(ring, several < last ? several : last,
          moment && is_before(moment, &soon) ? moment : &soon);
}

mr_status mr_ring_wait_until(mr_ring *ring, int64_t batch, const struct timespec *moment) {
    enum { SEVERAL = 8 };
    if (!is_whole(ring, batch)) {
        if (ring->unannounced > 0) {
            announce_work(ring);
        }
        pthread_mutex_lock(&ring->lock);
        if (atomic_load(&ring->ahead) >= SEVERAL && batch > 0) {
            await_several(ring, batch, moment);
        }
        await(ring, batch, moment);
        pthread_mutex_unlock(&ring->lock);
    }
    if (mr_ring_is_stopped(ring)) {
        return MR_E_CANCELLED;
    }
    return is_whole(ring, batch) ? MR_OK : MR_LATER;
}

void mr_ring_stop(mr_ring *ring) {
    atomic_store(&ring->stopped, true);
    pthread_mutex_lock(&ring->lock);
    pthread_cond_broadcast(&ring->work);
    pthread_cond_broadcast(&ring->whole);
    pthread_cond_broadcast(&ring->gate);
    pthread_mutex_unlock(&ring->lock);
}
