/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - how values get into a store: what is in the making, the queue, the thread that writes,
 * and what is evicted for it.
 *
 * In an epoch every sample is used once, so of the values that fit, no choice finds more in the
 * next epoch than any other: at most what lies in the store when the epoch begins. A store that is
 * full of what its own pipelines use therefore stays as it is, and new values are refused. What
 * makes room is what nobody uses any more: values of other pipelines that were not used since they
 * were last looked at (CLOCK), own ones that a whole epoch did not ask for, and another dataset's.
 * Room is made by segments: one goes when less than half of it is wanted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/cache/store_parts.h"
#include "store/guard.h"

enum {
    QUEUE_ITEMS = 1024, /* makers wait beyond this: each has a claim, and the kernel walks all */
    GROUP = 64,         /* values in a transaction */
    GROUP_BYTES = 32 << 20,
    ENOUGH = 64, /* values to begin writing with */
    ENOUGH_BYTES = 8 << 20,
    IDLE_BYTES = 16 << 20, /* of buffers that are kept */
};
/* Waits for more values of a transaction, which costs as much as a value. What is not written yet
 * is found by this process, but not by others, who wait for it. */
static const int64_t linger_ns = 2000000, linger_alone_ns = 50000000;
static const int64_t patience_ns = 2000000000;        /* of a maker, for the queue */
static const int64_t flush_patience_ns = 30000000000; /* without a value written */
static const int64_t pause_ns = 10000000000;          /* after a failure, before the next try */

/* ---- Buffers ---- */
/* The first idle one that is large enough without wasting more than it holds. */
mr_store_buffer *mr_store_take_buffer(mr_store *store, size_t room) {
    pthread_mutex_lock(&store->lock);
    mr_store_buffer **link = &store->idle, *buffer;
    while ((buffer = *link) != NULL && (buffer->room < room || buffer->room / 2 > room + 4096)) {
        link = &buffer->next;
    }
    if (buffer) {
        *link = buffer->next;
        store->idle_bytes -= buffer->room;
    }
    pthread_mutex_unlock(&store->lock);
    if (!buffer) {
        buffer = aligned_alloc(64, (sizeof *buffer + room + 63) / 64 * 64);
        if (buffer) {
            buffer->room = room;
        }
    }
    return buffer;
}

/* Locked. */
static void keep_buffer(mr_store *store, mr_store_buffer *buffer) {
    if (!buffer || store->idle_bytes + buffer->room > IDLE_BYTES) {
        free(buffer);
        return;
    }
    buffer->next = store->idle;
    store->idle = buffer;
    store->idle_bytes += buffer->room;
}

void mr_store_give_buffer(mr_store *store, mr_store_buffer *buffer) {
    pthread_mutex_lock(&store->lock);
    keep_buffer(store, buffer);
    pthread_mutex_unlock(&store->lock);
}

void mr_store_free_buffers(mr_store *store) {
    while (store->idle) {
        mr_store_buffer *next = store->idle->next;
        free(store->idle);
        store->idle = next;
    }
}

/* ---- The table of what is in the making ---- */
static mr_pending **bucket(mr_store *store, const mr_store_key *key) {
    return &store->table[key->bytes[16] % MR_PENDING_BUCKETS];
}

mr_pending *mr_pending_find(mr_store *store, const mr_store_key *key) {
    mr_pending *pending = *bucket(store, key);
    while (pending && memcmp(&pending->key, key, sizeof *key) != 0) {
        pending = pending->next;
    }
    return pending;
}

static void free_pending(mr_store *store, mr_pending *pending) {
    keep_buffer(store, pending->record);
    mr_free(pending);
}

/* Out of the table; locked. */
static void settle(mr_store *store, mr_pending *pending) {
    mr_pending **link = bucket(store, &pending->key);
    while (*link != pending) {
        link = &(*link)->next;
    }
    *link = pending->next;
    pending->settled = true;
    atomic_fetch_sub(&store->n_pending, 1);
    if (pending->readers == 0) {
        free_pending(store, pending);
    }
}

void mr_pending_release(mr_store *store, mr_pending *pending) {
    pthread_mutex_lock(&store->lock);
    if (--pending->readers == 0 && pending->settled) {
        free_pending(store, pending);
    }
    pthread_mutex_unlock(&store->lock);
}

/* ---- Claims ---- */
static bool is_closed(const mr_store *store) {
    int64_t until = atomic_load_explicit(&store->closed_until, memory_order_relaxed);
    return mr_env_is_doubtful(store->index) || (until > 0 && mr_store_clock() < until);
}

static bool add_pending(mr_store *store, const mr_store_key *key, bool *no_memory) {
    bool added = false;
    pthread_mutex_lock(&store->lock);
    if (!mr_pending_find(store, key)) {
        mr_pending *pending = mr_zalloc(1, sizeof *pending);
        if (pending) {
            pending->key = *key;
            pending->next = *bucket(store, key);
            *bucket(store, key) = pending;
            atomic_fetch_add(&store->n_pending, 1);
        }
        added = pending != NULL;
        *no_memory = !added;
    }
    pthread_mutex_unlock(&store->lock);
    return added;
}

mr_claim mr_store_claim(mr_store *store, const mr_store_key *key) {
    bool no_memory = false;
    if (is_closed(store)) {
        return MR_CLAIM_VOID;
    }
    if (!add_pending(store, key, &no_memory)) {
        return no_memory ? MR_CLAIM_VOID : MR_CLAIM_BUSY;
    }
    if (mr_claim_take(store->claims, key)) {
        return MR_CLAIM_OURS;
    }
    pthread_mutex_lock(&store->lock);
    settle(store, mr_pending_find(store, key));
    pthread_mutex_unlock(&store->lock);
    return MR_CLAIM_BUSY;
}

void mr_store_abandon(mr_store *store, const mr_store_key *key) {
    mr_claim_drop(store->claims, key);
    pthread_mutex_lock(&store->lock);
    settle(store, mr_pending_find(store, key));
    pthread_mutex_unlock(&store->lock);
}

/* ---- The queue ---- */
static struct timespec after(int64_t ns) {
    int64_t then = mr_store_clock() + ns;
    return (struct timespec){then / 1000000000, then % 1000000000};
}

static void close_store(mr_store *store) {
    atomic_store(&store->closed_until, mr_store_clock() + pause_ns);
}

static bool is_full(mr_store *store) {
    return store->queued_bytes > MR_STORE_QUEUE_BYTES ||
           atomic_load(&store->n_pending) > QUEUE_ITEMS;
}

static void wait_for_room(mr_store *store) {
    const struct timespec deadline = after(patience_ns);
    while (is_full(store) && !store->stopping) {
        if (pthread_cond_timedwait(&store->room, &store->lock, &deadline) == ETIMEDOUT) {
            close_store(store); /* the disk is stuck: the training is not to be */
            return;
        }
    }
}

static bool is_enough(const mr_store *store) {
    return store->n_gathered >= ENOUGH || store->gathered_bytes >= ENOUGH_BYTES ||
           store->flushers > 0 || store->stopping;
}

/* The writer is woken for the first value, and when there is enough. */
void mr_store_put(mr_store *store, const mr_store_key *key, mr_store_buffer *record) {
    pthread_mutex_lock(&store->lock);
    mr_pending *pending = mr_pending_find(store, key);
    pending->record = record;
    *store->last = pending;
    store->last = &pending->behind;
    store->queued_bytes += record->used;
    store->gathered_bytes += record->used;
    if (store->n_gathered++ == 0 || is_enough(store)) {
        pthread_cond_signal(&store->work);
    }
    wait_for_room(store);
    pthread_mutex_unlock(&store->lock);
}

/* Not for ever: a disk that took nothing for so long is stuck, and what it lacks is made again. */
void mr_store_flush(mr_store *store) {
    pthread_mutex_lock(&store->lock);
    store->flushers++;
    pthread_cond_signal(&store->work);
    struct timespec deadline = after(flush_patience_ns);
    for (size_t left = store->queued_bytes; store->queued_bytes > 0;) {
        int waited = pthread_cond_timedwait(&store->room, &store->lock, &deadline);
        if (store->queued_bytes != left) {
            left = store->queued_bytes;
            deadline = after(flush_patience_ns);
        } else if (waited == ETIMEDOUT) {
            close_store(store);
            break;
        }
    }
    store->flushers--;
    pthread_mutex_unlock(&store->lock);
}

/* ---- Room ---- */
static const mr_joined *plan_of(const mr_store *store, const mr_store_key *key) {
    for (int32_t i = 0; i < MR_MAX_PLANS; i++) {
        const mr_joined *plan = &store->plans[i];
        if (plan->users > 0 && memcmp(plan->prefix, key->bytes, sizeof plan->prefix) == 0) {
            return plan;
        }
    }
    return NULL;
}

/* An epoch begins, for the plan, while the last samples of the one before are still being made: so
 * what was not used since the one before that began is what a whole epoch passed by. */
static bool is_forgotten(const mr_joined *plan, uint16_t stamp) {
    return plan->whole && plan->epochs > 2 && stamp && mr_use_is_older(stamp, plan->began[2]);
}

/* Ops may be the same and the dataset another one. A plan that looked often and found next to
 * nothing has no claim on what lay there before it came. */
static bool is_strangers(const mr_joined *plan, uint16_t stamp) {
    int64_t found = atomic_load(&plan->found), missed = atomic_load(&plan->missed);
    return missed >= MR_PLAN_TRIAL && found < missed / 16 &&
           mr_use_is_older(stamp, (uint16_t)atomic_load(&plan->first));
}

static bool is_victim(mr_store *store, const mr_store_key *key) {
    uint16_t stamp = mr_use_stamp(&store->use, key);
    pthread_mutex_lock(&store->lock);
    const mr_joined *plan = plan_of(store, key);
    bool own = plan != NULL;
    bool forgotten = own && (is_forgotten(plan, stamp) || is_strangers(plan, stamp));
    pthread_mutex_unlock(&store->lock);
    if (own) {
        return forgotten;
    }
    if (stamp) {
        mr_use_clear(&store->use, key);
    }
    return stamp == 0;
}

/* What is wanted of a segment. What no entry leads to is garbage, and counts as nothing. */
typedef struct worth {
    uint64_t id;
    int64_t bytes, wanted; /* of the file, and of values in it */
    bool doomed;
} worth;

typedef struct appraisal {
    mr_store *store;
    worth *list; /* ascending by id */
    size_t n;
} appraisal;

static int compare_worths(const void *a, const void *b) {
    uint64_t x = ((const worth *)a)->id, y = ((const worth *)b)->id;
    return (x > y) - (x < y);
}

static worth *worth_of(const appraisal *all, const void *data, size_t size) {
    unsigned char bytes[MR_LOCATION_BYTES];
    if (size != sizeof bytes || !mr_guard_copy(bytes, data, sizeof bytes)) {
        return NULL;
    }
    const worth wanted = {.id = mr_location_load(bytes).segment};
    return all->n ? bsearch(&wanted, all->list, all->n, sizeof wanted, compare_worths) : NULL;
}

static bool appraise_value(void *user, const mr_store_key *key, const void *data, size_t size) {
    const appraisal *all = user;
    unsigned char bytes[MR_LOCATION_BYTES];
    worth *segment = worth_of(all, data, size);
    if (segment && mr_guard_copy(bytes, data, sizeof bytes) && !is_victim(all->store, key)) {
        segment->wanted += (int64_t)mr_location_load(bytes).length;
    }
    return true;
}

/* Of all segments that nobody appends to. */
static bool appraise(mr_store *store, appraisal *all) {
    size_t n = 0;
    mr_segment_info *list = mr_segments_list(store->segments, &n);
    *all = (appraisal){.store = store, .list = mr_zalloc(n, sizeof *all->list)};
    for (size_t i = 0; all->list && i < n; i++) {
        if (!list[i].is_written) {
            all->list[all->n++] = (worth){.id = list[i].id, .bytes = list[i].bytes};
        }
    }
    free(list);
    if (all->n > 0) {
        qsort(all->list, all->n, sizeof *all->list, compare_worths);
    }
    return all->list && mr_env_walk(store->index, appraise_value, all, NULL) == MR_OK;
}

/* The one that is wanted least, if more is gained than lost. */
static worth *choose_segment(const appraisal *all) {
    worth *chosen = NULL;
    for (size_t i = 0; i < all->n; i++) {
        worth *w = &all->list[i];
        bool unwanted = !w->doomed && w->wanted < w->bytes / 2;
        chosen = unwanted && (!chosen || w->wanted < chosen->wanted) ? w : chosen;
    }
    return chosen;
}

static bool is_doomed(void *user, const mr_store_key *key, const void *data, size_t size) {
    const worth *segment = worth_of(user, data, size);
    (void)key;
    return segment && segment->doomed;
}

void mr_store_drop_segment(mr_store *store, uint64_t id) {
    pthread_mutex_lock(&store->holding);
    mr_segments_drop(store->segments, id);
    pthread_mutex_unlock(&store->holding);
}

/* Entries first: a process that is killed in between leaves garbage, not entries that lead nowhere.
 * On a full disk they cannot be deleted before there is room: they lead nowhere then, until
 * somebody looks. */
static void drop_doomed(mr_store *store, appraisal *all) {
    int64_t n = 0;
    mr_env_delete(store->index, is_doomed, all, &n, NULL);
    for (size_t i = 0; i < all->n; i++) {
        if (all->list[i].doomed) {
            mr_store_drop_segment(store, all->list[i].id);
        }
    }
    atomic_fetch_add(&store->evicted, n);
}

static int64_t evict(mr_store *store, int64_t bytes) {
    appraisal all;
    int64_t freed = 0;
    if (appraise(store, &all)) {
        for (worth *w; freed < bytes && (w = choose_segment(&all)) != NULL;) {
            w->doomed = true;
            freed += w->bytes;
        }
    }
    if (freed > 0) {
        drop_doomed(store, &all);
    }
    mr_free(all.list);
    return freed;
}

/* Twice: the first pass may only have taken second chances away. */
static bool make_room(mr_store *store, int64_t bytes) {
    int64_t freed = evict(store, bytes);
    freed += freed < bytes ? evict(store, bytes - freed) : 0;
    return freed > 0;
}

/* ---- Writing ---- */
typedef struct group {
    mr_pending *members[GROUP];
    mr_location locations[GROUP];
    bool appended[GROUP], filed[GROUP];
    int32_t n;
    int64_t bytes;
} group;

/* A value that is not small beside the store would cost many others. */
static bool is_too_large(const mr_store *store, int64_t bytes) {
    return bytes > mr_place_bytes(&store->place) / 8;
}

/* What segments may take: the rest is the index's, with room for what it may grow by. */
static int64_t most_for_segments(const mr_store *store) {
    const int64_t least = 131072;
    int64_t index = mr_env_bytes(store->index) * 5 / 4;
    return mr_place_bytes(&store->place) - (index > least ? index : least);
}

static mr_status append(mr_store *store, const mr_pending *p, mr_location *location,
                        mr_error *err) {
    const mr_segment_item item = {&p->key, p->record->bytes, p->record->used};
    int64_t most = most_for_segments(store);
    mr_status status = mr_segments_append(store->segments, &item, most, location, err);
    if (status == MR_E_LIMIT && make_room(store, mr_segments_target(most))) {
        status = mr_segments_append(store->segments, &item, most, location, err);
    }
    return status;
}

/* Entries for what was appended and has none yet. */
static mr_env_result file_all(mr_store *store, group *g, mr_error *err) {
    mr_env_item items[GROUP];
    unsigned char bytes[GROUP][MR_LOCATION_BYTES];
    int32_t n = 0;
    for (int32_t i = 0; i < g->n; i++) {
        if (g->appended[i] && !g->filed[i]) {
            mr_use_touch(&store->use, &g->members[i]->key, (uint16_t)atomic_load(&store->round));
            mr_location_save(g->locations[i], bytes[n]);
            items[n] = (mr_env_item){&g->members[i]->key, bytes[n], MR_LOCATION_BYTES};
            n++;
        }
    }
    mr_env_result result = n > 0 ? mr_env_put(store->index, items, n, err) : MR_ENV_OK;
    if (result == MR_ENV_FULL && make_room(store, 1)) {
        result = mr_env_put(store->index, items, n, err);
    }
    for (int32_t i = 0; i < g->n && result == MR_ENV_OK; i++) {
        g->filed[i] = g->appended[i];
    }
    mr_segments_filed(store->segments); /* or they are garbage */
    return result;
}

/* MR_E_LIMIT: the store is full of what is wanted. */
static mr_status append_all(mr_store *store, group *g, mr_env_result *filed, mr_error *err) {
    mr_status status = MR_OK;
    *filed = MR_ENV_OK;
    for (int32_t i = 0; i < g->n && status == MR_OK && *filed == MR_ENV_OK; i++) {
        if (is_too_large(store, (int64_t)g->members[i]->record->used)) {
            continue;
        }
        status = append(store, g->members[i], &g->locations[i], err);
        if (status == MR_LATER) {
            *filed = file_all(store, g, err);
            status = append(store, g->members[i], &g->locations[i], err);
        }
        g->appended[i] = status == MR_OK;
    }
    if (*filed == MR_ENV_OK) {
        *filed = file_all(store, g, err);
    }
    return status;
}

static void count_written(mr_store *store, const mr_pending *p, bool stored) {
    if (stored) {
        atomic_fetch_add(&store->stored, 1);
        atomic_fetch_add(&store->stored_bytes, (int64_t)p->record->used);
    } else {
        atomic_fetch_add(&store->refused, 1);
    }
}

/* Values first, then the entries that lead to them. A full store takes nothing for a while. */
static mr_env_result write_group(mr_store *store, group *g, mr_error *err) {
    pthread_mutex_lock(&store->writing);
    mr_env_result filed;
    mr_status status = append_all(store, g, &filed, err);
    pthread_mutex_unlock(&store->writing);
    if (status == MR_E_LIMIT || filed == MR_ENV_FULL) {
        close_store(store);
    }
    for (int32_t i = 0; i < g->n; i++) {
        count_written(store, g->members[i], g->filed[i]);
    }
    return filed == MR_ENV_FAILED || (status < 0 && status != MR_E_LIMIT) ? MR_ENV_FAILED
                                                                          : MR_ENV_OK;
}

/* Where the file system is what limits the store, the store is full as it is at its own limit: what
 * nobody uses makes room. */
static bool is_room_on_disk(mr_store *store, int64_t cost) {
    int64_t slack, room = mr_place_room(&store->place, &slack), lacking = cost + slack - room;
    if (lacking <= 0) {
        return true;
    }
    pthread_mutex_lock(&store->writing);
    bool made = lacking <= mr_segments_bytes(&store->place) &&
                mr_place_mark(&store->place, NULL) == MR_OK && make_room(store, lacking);
    pthread_mutex_unlock(&store->writing);
    return made && mr_place_room(&store->place, &slack) >= cost;
}

/* Of the index a page for each value, and some for its lists. */
static int64_t cost_of(const group *g) {
    enum { PAGE = 4096, PAGES = 64 };
    return g->bytes + (int64_t)PAGE * (PAGES + 2 * g->n);
}

static mr_status may_write(mr_store *store, const group *g, mr_error *err) {
    if (!is_room_on_disk(store, cost_of(g))) {
        return mr_fail(err, MR_E_LIMIT, "the file system is nearly full");
    }
    return mr_place_mark(&store->place, err);
}

static void finish_group(mr_store *store, group *g) {
    for (int32_t i = 0; i < g->n; i++) {
        mr_claim_drop(store->claims, &g->members[i]->key);
    }
    pthread_mutex_lock(&store->lock);
    for (int32_t i = 0; i < g->n; i++) {
        store->queued_bytes -= g->members[i]->record->used;
        settle(store, g->members[i]);
    }
    pthread_cond_broadcast(&store->room);
    pthread_mutex_unlock(&store->lock);
    *g = (group){.n = 0};
}

static void write_or_refuse(mr_store *store, group *g, mr_error *err) {
    mr_status allowed = is_closed(store) ? MR_LATER : may_write(store, g, err);
    if (allowed != MR_OK) {
        atomic_fetch_add(&store->refused, g->n);
    }
    if (allowed < 0 || (allowed == MR_OK && write_group(store, g, err) == MR_ENV_FAILED)) {
        close_store(store);
        mr_store_note_trouble(store, err);
    }
}

static void flush_group(mr_store *store, group *g) {
    mr_error err = MR_ERROR_INIT;
    if (g->n > 0) {
        write_or_refuse(store, g, &err);
        finish_group(store, g);
    }
}

/* Members are freed as their group is finished, so the next one is noted first. */
static void write_all(mr_store *store, mr_pending *list) {
    group g = {.n = 0};
    for (mr_pending *p = list, *behind; p; p = behind) {
        behind = p->behind;
        g.members[g.n++] = p;
        g.bytes += (int64_t)p->record->used;
        if (g.n == GROUP || g.bytes >= GROUP_BYTES) {
            flush_group(store, &g);
        }
    }
    flush_group(store, &g);
}

/* Entries that led to nothing go before what takes their places. */
static void remove_unwanted(mr_store *store) {
    mr_store_key keys[GROUP];
    int32_t n;
    do {
        pthread_mutex_lock(&store->lock);
        n = store->n_unwanted < GROUP ? store->n_unwanted : GROUP;
        memcpy(keys, store->unwanted, (size_t)n * sizeof *keys);
        pthread_mutex_unlock(&store->lock);
        if (n > 0 && !mr_env_is_doubtful(store->index) &&
            mr_place_mark(&store->place, NULL) == MR_OK) {
            mr_env_remove(store->index, keys, n, NULL);
        }
        pthread_mutex_lock(&store->lock);
        store->n_unwanted -= n;
        memmove(store->unwanted, store->unwanted + n,
                (size_t)store->n_unwanted * sizeof *store->unwanted);
        pthread_mutex_unlock(&store->lock);
    } while (n > 0);
}

/* Locked. */
static void gather(mr_store *store) {
    bool others = mr_place_has_others(&store->place);
    const struct timespec deadline = after(others ? linger_ns : linger_alone_ns);
    while (!is_enough(store) &&
           pthread_cond_timedwait(&store->work, &store->lock, &deadline) != ETIMEDOUT) {
    }
}

/* All that waits, or NULL: the end. */
static mr_pending *take_queue(mr_store *store) {
    pthread_mutex_lock(&store->lock);
    while (!store->first && !store->stopping) {
        pthread_cond_wait(&store->work, &store->lock);
    }
    gather(store);
    mr_pending *list = store->first;
    store->first = NULL;
    store->last = &store->first;
    store->n_gathered = 0;
    store->gathered_bytes = 0;
    pthread_mutex_unlock(&store->lock);
    return list;
}

void *mr_spill_main(void *context) {
    mr_store *store = context;
    mr_pending *list;
    while ((list = take_queue(store)) != NULL) {
        remove_unwanted(store);
        write_all(store, list);
    }
    remove_unwanted(store);
    return NULL;
}
