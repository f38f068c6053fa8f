/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - see fetch.h. Loads are taken in the order in which they came, so the oldest that a
 * worker waits for is being read by some thread, and gets memory: see origin.h. */
#include "run/cache/fetch.h"

#include <pthread.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/read/intake.h"
#include "run/threads.h"

enum { MOST_THREADS = 32 };

typedef struct order {
    struct order *next;
    mr_load *load;
    mr_store *store;
    mr_store_location location;
} order;

struct mr_fetch {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t ordered;
    order *first, **last;
    int32_t n_orders, n_idle, n_threads;
    bool stopping;
    mr_threads threads[MOST_THREADS];
};

mr_fetch *mr_fetch_new(void) {
    mr_fetch *fetch = mr_zalloc(1, sizeof *fetch);
    if (fetch) {
        pthread_mutex_init(&fetch->lock, NULL);
        pthread_cond_init(&fetch->ordered, NULL);
        fetch->last = &fetch->first;
    }
    return fetch;
}

void mr_fetch_free(mr_fetch *fetch) {
    if (fetch) {
        mr_fetch_stop(fetch);
        mr_fetch_end(fetch);
        pthread_mutex_destroy(&fetch->lock);
        pthread_cond_destroy(&fetch->ordered);
        mr_free(fetch);
    }
}

/* ---- The threads ---- */
/* What cannot be read is left to the workers, who look for it in the store once more and make it
 * where it is gone or damaged. */
static mr_answer bring(const order *o) {
    size_t size = o->location.size;
    if (!mr_load_reserve(o->load, size + MR_STORE_BRING_ROOM, true)) {
        return MR_ANSWER_NOT_HERE;
    }
    if (!o->load->buffer) {
        return MR_ANSWER_FAILED; /* and the load says why */
    }
    if (mr_store_bring(&o->location, o->load->buffer, &o->load->record_at, NULL) == MR_OK) {
        o->load->record_size = size;
        o->load->is_own_record = true;
    }
    return MR_ANSWER_KEPT;
}

static void work_off(order *o) {
    mr_load *load = o->load;
    mr_answer answer = bring(o);
    mr_store_let_go(o->store, &o->location);
    mr_free(o);
    mr_load_answer(load, answer);
}

/* NULL: it was stopped, and nothing is left. */
static order *next_order(mr_fetch *fetch) {
    pthread_mutex_lock(&fetch->lock);
    fetch->n_idle++;
    while (!fetch->first && !fetch->stopping) {
        pthread_cond_wait(&fetch->ordered, &fetch->lock);
    }
    fetch->n_idle--;
    order *o = fetch->first;
    if (o) {
        fetch->first = o->next;
        fetch->last = fetch->first ? fetch->last : &fetch->first;
        fetch->n_orders--;
    }
    pthread_mutex_unlock(&fetch->lock);
    return o;
}

static void *fetch_main(void *context) {
    order *o;
    while ((o = next_order(context)) != NULL) {
        work_off(o);
    }
    return NULL;
}

/* One more where all are busy; with the lock held. False: there is none at all. */
static bool have_threads(mr_fetch *fetch) {
    if (fetch->n_idle <= fetch->n_orders && fetch->n_threads < MOST_THREADS) {
        mr_threads *group = &fetch->threads[fetch->n_threads];
        if (mr_threads_start(group, 1, "mr-fetch", fetch_main, fetch, 0, NULL) == MR_OK) {
            fetch->n_threads++;
        } else {
            mr_threads_join(group);
        }
    }
    return fetch->n_threads > 0;
}

/* ---- Public ---- */
bool mr_fetch_later(mr_fetch *fetch, mr_load *load, mr_store *store,
                    const mr_store_location *location) {
    order *o = fetch ? mr_zalloc(1, sizeof *o) : NULL;
    if (!o) {
        return false;
    }
    *o = (order){.load = load, .store = store, .location = *location};
    pthread_mutex_lock(&fetch->lock);
    bool taken = !fetch->stopping && have_threads(fetch);
    if (taken) {
        *fetch->last = o;
        fetch->last = &o->next;
        fetch->n_orders++;
        pthread_cond_signal(&fetch->ordered);
    }
    pthread_mutex_unlock(&fetch->lock);
    if (!taken) {
        mr_free(o);
    }
    return taken;
}

void mr_fetch_stop(mr_fetch *fetch) {
    if (fetch) {
        pthread_mutex_lock(&fetch->lock);
        fetch->stopping = true;
        pthread_cond_broadcast(&fetch->ordered);
        pthread_mutex_unlock(&fetch->lock);
    }
}

void mr_fetch_end(mr_fetch *fetch) {
    for (int32_t i = 0; fetch && i < fetch->n_threads; i++) {
        mr_threads_join(&fetch->threads[i]);
    }
}
