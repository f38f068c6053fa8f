/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - see window.h. Sleeping and waking as in ring.c. */
#include "run/window.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

mr_status mr_window_init(mr_window *window, const mr_window_config *config, mr_error *err) {
    window->source = config->source;
    window->source_state = config->source_state;
    window->caches = config->caches;
    window->n_entries = config->n_entries;
    window->plan_size = config->plan_size;
    window->own = (size_t)(config->bytes / 2 / config->n_entries);
    window->shared = (size_t)(config->bytes / 2);
    pthread_mutex_init(&window->lock, NULL);
    pthread_cond_init(&window->arrived, NULL);
    pthread_cond_init(&window->room, NULL);
    atomic_init(&window->free_entries, config->n_entries);
    window->entries = mr_zalloc((size_t)config->n_entries, sizeof *window->entries);
    window->plan = mr_zalloc((size_t)config->plan_size, sizeof *window->plan);
    if (!window->entries || !window->plan) {
        return mr_fail_memory(err, (size_t)config->plan_size * sizeof *window->plan);
    }
    for (int64_t i = 0; i < config->n_entries; i++) {
        atomic_init(&window->entries[i].usable_by, i);
        atomic_init(&window->entries[i].ready, -1);
    }
    return MR_OK;
}

void mr_window_free(mr_window *window) {
    for (int64_t i = 0; window->entries && i < window->n_entries; i++) {
        free(window->entries[i].buffer);
    }
    pthread_mutex_destroy(&window->lock);
    pthread_cond_destroy(&window->arrived);
    pthread_cond_destroy(&window->room);
    mr_free(window->entries);
    mr_free(window->plan);
}

static void wake_readers(mr_window *window) {
    if (atomic_load(&window->waiting_readers) == 0) {
        return;
    }
    if (window->wake_reader) {
        window->wake_reader(window->wake_user);
        return;
    }
    pthread_mutex_lock(&window->lock);
    window->wakes++;
    pthread_cond_broadcast(&window->room);
    pthread_mutex_unlock(&window->lock);
}

/* ---- The consumer ---- */
void mr_window_plan(mr_window *window, const int64_t *samples, int64_t count) {
    int64_t first = atomic_load(&window->planned);
    for (int64_t i = 0; i < count; i++) {
        window->plan[(first + i) % window->plan_size] = samples[i];
    }
    atomic_store(&window->planned, first + count);
    wake_readers(window);
}

/* ---- Workers ---- */
/* The plan has room for all batches that can be open, so what comes after an undelivered batch's
 * reads has not been written over. */
bool mr_window_upcoming(const mr_window *window, int64_t read, int64_t *sample) {
    if (read >= atomic_load(&window->planned)) {
        return false;
    }
    *sample = window->plan[read % window->plan_size];
    return true;
}

static bool is_settled(const mr_window *window, const mr_window_entry *entry, int64_t read) {
    return atomic_load(&entry->ready) == read || atomic_load(&window->stopped);
}

bool mr_window_is_there(const mr_window *window, int64_t read) {
    return is_settled(window, &window->entries[read % window->n_entries], read);
}

mr_window_entry *mr_window_get(mr_window *window, int64_t read) {
    mr_window_entry *entry = &window->entries[read % window->n_entries];
    if (!is_settled(window, entry, read)) {
        pthread_mutex_lock(&window->lock);
        atomic_fetch_add(&window->waiting_workers, 1);
        while (!is_settled(window, entry, read)) {
            pthread_cond_wait(&window->arrived, &window->lock);
        }
        atomic_fetch_sub(&window->waiting_workers, 1);
        pthread_mutex_unlock(&window->lock);
    }
    return atomic_load(&window->stopped) ? NULL : entry;
}

mr_status mr_window_failure(const mr_window *window, mr_error *err) {
    if (window->failure.code == MR_OK) {
        return mr_fail(err, MR_E_CANCELLED, "stopped");
    }
    if (err) {
        *err = window->failure;
    }
    return window->failure.code;
}

static void give_back_charge(mr_window *window, mr_window_entry *entry) {
    free(entry->buffer);
    entry->buffer = NULL;
    entry->capacity = 0;
    pthread_mutex_lock(&window->lock);
    window->charged -= entry->charged;
    pthread_mutex_unlock(&window->lock);
    entry->charged = 0;
}

/* Readers are woken for a quarter of the window at a time: one wake-up per sample would cost more
 * than the read of a small file. Workers hold less than that, so the rest always comes free. */
void mr_window_release(mr_window *window, mr_window_entry *entry) {
    bool large = entry->charged > 0;
    if (large) {
        give_back_charge(window, entry);
    }
    atomic_store(&entry->ready, -1);
    atomic_store(&entry->usable_by, entry->number + window->n_entries);
    int64_t free_entries = atomic_fetch_add(&window->free_entries, 1) + 1;
    bool refused = atomic_load(&window->refused) && atomic_exchange(&window->refused, false);
    if (large || refused || free_entries >= window->n_entries / 4) {
        wake_readers(window);
    }
}

/* ---- Readers ---- */
static bool has_work(const mr_window *window) {
    const mr_window_entry *entry = &window->entries[window->next % window->n_entries];
    return window->next < atomic_load(&window->planned) &&
           atomic_load(&entry->usable_by) == window->next;
}

static mr_window_entry *claim(mr_window *window) {
    mr_window_entry *entry = NULL;
    pthread_mutex_lock(&window->lock);
    if (has_work(window)) {
        entry = &window->entries[window->next % window->n_entries];
        entry->number = window->next++;
        atomic_fetch_sub(&window->free_entries, 1);
    }
    pthread_mutex_unlock(&window->lock);
    return entry;
}

static mr_status locate(mr_window *window, mr_window_entry *entry) {
    int64_t sample = window->plan[entry->number % window->plan_size];
    mr_error_clear(&entry->err);
    entry->read = (mr_uring_read){.err = &entry->err};
    entry->identity = (mr_identity){.asked = false};
    entry->kept = window->caches && window->caches->n > 0 &&
                  mr_caches_have(window->caches, sample, &entry->identity);
    if (entry->kept) {
        return MR_OK;
    }
    return window->source->locate(window->source_state, sample, &entry->read.extent, &entry->err);
}

mr_window_entry *mr_window_start(mr_window *window) {
    mr_window_entry *entry;
    while ((entry = claim(window)) != NULL) {
        mr_status status = locate(window, entry);
        if (status == MR_OK && !entry->kept) {
            return entry;
        }
        entry->read.status = status;
        mr_window_publish(window, entry);
    }
    return NULL;
}

static bool is_oldest(const mr_window *window, int64_t read) {
    for (int64_t r = read - 1; r >= 0 && r > read - window->n_entries; r--) {
        const mr_window_entry *entry = &window->entries[r % window->n_entries];
        if (atomic_load(&entry->usable_by) <= r) {
            return false;
        }
    }
    return true;
}

static bool is_granted(const mr_window *window, const mr_window_entry *entry, size_t size) {
    return window->charged + size <= window->shared || is_oldest(window, entry->number);
}

/* Charges a large read to the allowance if it fits or cannot wait. */
static bool charge(mr_window *window, mr_window_entry *entry, size_t size) {
    pthread_mutex_lock(&window->lock);
    bool granted = is_granted(window, entry, size);
    if (!granted) {
        atomic_store(&window->refused, true); /* before the second look: see ring.c */
        granted = is_granted(window, entry, size);
    }
    if (granted) {
        window->charged += size;
        entry->charged = size;
    }
    pthread_mutex_unlock(&window->lock);
    return granted;
}

bool mr_window_reserve(mr_window *window, mr_window_entry *entry) {
    size_t size = entry->read.open.size;
    if (size <= entry->capacity) {
        return true;
    }
    if (size > window->own && !charge(window, entry, size)) {
        return false;
    }
    size_t roomy = size + size / 4; /* files differ a little: do not allocate for each anew */
    size_t capacity = size > window->own ? size : roomy < window->own ? roomy : window->own;
    free(entry->buffer);
    entry->buffer = malloc(capacity);
    entry->capacity = entry->buffer ? capacity : 0;
    if (!entry->buffer) {
        entry->read.status = mr_fail_memory(&entry->err, capacity);
    }
    return true;
}

void mr_window_publish(mr_window *window, mr_window_entry *entry) {
    atomic_fetch_add(&window->bytes_read, (int64_t)entry->read.open.size);
    atomic_store(&entry->ready, entry->number);
    if (atomic_load(&window->waiting_workers) > 0) {
        pthread_mutex_lock(&window->lock);
        pthread_cond_broadcast(&window->arrived);
        pthread_mutex_unlock(&window->lock);
    }
}

int64_t mr_window_announce(mr_window *window) {
    pthread_mutex_lock(&window->lock);
    atomic_fetch_add(&window->waiting_readers, 1);
    int64_t wakes = window->wakes;
    pthread_mutex_unlock(&window->lock);
    return wakes;
}

void mr_window_sleep(mr_window *window, int64_t announced) {
    pthread_mutex_lock(&window->lock);
    while (window->wakes == announced && !atomic_load(&window->stopped)) {
        pthread_cond_wait(&window->room, &window->lock);
    }
    pthread_mutex_unlock(&window->lock);
}

void mr_window_retire(mr_window *window) {
    atomic_fetch_sub(&window->waiting_readers, 1);
}

void mr_window_stop(mr_window *window) {
    atomic_store(&window->stopped, true);
    pthread_mutex_lock(&window->lock);
    pthread_cond_broadcast(&window->arrived);
    pthread_cond_broadcast(&window->room);
    pthread_mutex_unlock(&window->lock);
    if (window->wake_reader) {
        window->wake_reader(window->wake_user);
    }
}
