/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - how values get into a store: what is in the making, the queue, the thread that writes,
 * and what is evicted for it.
 *
 * In an epoch every sample is used once, so of the values that fit, no choice finds more in the
 * next epoch than any other: at most what lies in the store when the epoch begins. A store that is
 * full of what its own pipelines use therefore stays as it is, and new values are refused. What
 * makes room is what nobody uses any more: values of other pipelines that were not used since the
 * hand passed them last (CLOCK), own ones that a whole epoch did not ask for, and another
 * dataset's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/store_parts.h"

enum {
    QUEUE_ITEMS = 1024, /* makers wait beyond this: each has a claim, and the kernel walks all */
    GROUP = 64,         /* values in a transaction */
    GROUP_BYTES = 32 << 20,
    ENOUGH = 64, /* values to begin writing with: some for each environment */
    ENOUGH_BYTES = 8 << 20,
    IDLE_BYTES = 16 << 20, /* of buffers that are kept */
};
/* For a transaction to gather company: it costs as much as a value. What is not written yet is
 * found by this process, but not by others, who wait for it. */
static const int64_t linger_ns = 2000000, linger_alone_ns = 50000000;
static const int64_t patience_ns = 2000000000; /* of a maker, for the queue */
static const int64_t pause_ns = 10000000000;   /* after a failure, before the next try */

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
static bool is_closed(const mr_store *store, int32_t env) {
    int64_t until = atomic_load_explicit(&store->closed_until[env], memory_order_relaxed);
    return mr_env_is_doubtful(store->envs[env]) || (until > 0 && mr_store_clock() < until);
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
    if (is_closed(store, mr_store_env_of(store, key))) {
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

static void close_env(mr_store *store, int32_t env) {
    atomic_store(&store->closed_until[env], mr_store_clock() + pause_ns);
}

static void close_all(mr_store *store) {
    for (int32_t i = 0; i < store->place.n_envs; i++) {
        close_env(store, i);
    }
}

static bool is_full(mr_store *store) {
    return store->queued_bytes > MR_STORE_QUEUE_BYTES ||
           atomic_load(&store->n_pending) > QUEUE_ITEMS;
}

static void wait_for_room(mr_store *store) {
    const struct timespec deadline = after(patience_ns);
    while (is_full(store) && !store->stopping) {
        if (pthread_cond_timedwait(&store->room, &store->lock, &deadline) == ETIMEDOUT) {
            close_all(store); /* the disk is stuck: the training is not to be */
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

void mr_store_flush(mr_store *store) {
    pthread_mutex_lock(&store->lock);
    store->flushers++;
    pthread_cond_signal(&store->work);
    while (store->queued_bytes > 0) {
        pthread_cond_wait(&store->room, &store->lock);
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

static bool is_victim(void *user, const mr_store_key *key, size_t size) {
    mr_store *store = user;
    uint16_t stamp = mr_use_stamp(&store->use, key);
    (void)size;
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

/* Twice: the first pass may only have taken second chances away. */
static bool make_room(mr_store *store, int32_t env, int64_t bytes) {
    int64_t freed = 0, n = 0;
    for (int pass = 0; pass < 2 && freed < bytes; pass++) {
        freed += mr_env_evict(store->envs[env], bytes - freed, is_victim, store, &n);
        atomic_fetch_add(&store->evicted, n);
    }
    return freed > 0;
}

/* ---- Writing ---- */
typedef struct group {
    mr_pending *members[GROUP];
    mr_env_item items[GROUP];
    int32_t n;
    int64_t bytes;
} group;

/* A value that is not small beside its environment would cost many others. */
static bool is_too_large(const mr_store *store, int64_t bytes) {
    return bytes > store->env_bytes / 4;
}

static mr_env_result write_items(mr_store *store, int32_t env, const mr_env_item *items, int32_t n,
                                 int64_t bytes, mr_error *err) {
    if (is_too_large(store, bytes)) {
        return MR_ENV_FULL;
    }
    mr_env_result result = mr_env_put(store->envs[env], items, n, err);
    for (int tries = 0; result == MR_ENV_FULL && tries < 2; tries++) {
        if (!make_room(store, env, 2 * bytes)) {
            close_env(store, env);
            return MR_ENV_FULL;
        }
        result = mr_env_put(store->envs[env], items, n, err);
    }
    return result;
}

static void count_written(mr_store *store, const group *g, int32_t i, mr_env_result result) {
    if (result == MR_ENV_OK) {
        mr_use_touch(&store->use, &g->members[i]->key, (uint16_t)atomic_load(&store->round));
        atomic_fetch_add(&store->stored, 1);
        atomic_fetch_add(&store->stored_bytes, (int64_t)g->items[i].size);
    } else {
        atomic_fetch_add(&store->refused, 1);
    }
}

/* A group that does not fit as a whole may fit in part. */
static mr_env_result write_group(mr_store *store, int32_t env, const group *g, mr_error *err) {
    mr_env_result result = write_items(store, env, g->items, g->n, g->bytes, err);
    for (int32_t i = 0; i < g->n; i++) {
        mr_env_result one = result;
        if (result == MR_ENV_FULL && g->n > 1 && !is_too_large(store, (int64_t)g->items[i].size)) {
            one = mr_env_put(store->envs[env], &g->items[i], 1, err);
        }
        count_written(store, g, i, one);
    }
    return result;
}

/* Twice, since what one change freed can be given back after the next. */
static bool exchange(mr_store *store, int32_t env, int64_t lacking) {
    int64_t waiting;
    if (lacking > mr_env_bytes(store->envs[env]) || mr_place_mark(&store->place, NULL) < 0 ||
        !make_room(store, env, lacking)) {
        return false;
    }
    make_room(store, env, lacking);
    return mr_env_give_back(store->envs[env], &waiting);
}

/* Where the file system is what limits the store, the store is full as it is at its own limit: what
 * nobody uses makes room. */
static bool is_room_on_disk(mr_store *store, int32_t env, int64_t cost) {
    int64_t slack, waiting = 0;
    if (mr_place_room(&store->place, &slack) >= cost + slack) {
        return true;
    }
    if (!mr_env_give_back(store->envs[env], &waiting)) {
        return false;
    }
    int64_t lacking = cost + slack - mr_place_room(&store->place, &slack);
    if (lacking > waiting && !exchange(store, env, lacking)) {
        return false;
    }
    return mr_place_room(&store->place, &slack) >= cost;
}

static mr_status may_write(mr_store *store, int32_t env, const group *g, mr_error *err) {
    if (!is_room_on_disk(store, env, mr_env_cost(store->envs[env], g->items, g->n))) {
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
    g->n = 0;
    g->bytes = 0;
}

static void write_or_refuse(mr_store *store, int32_t env, const group *g, mr_error *err) {
    mr_status allowed = is_closed(store, env) ? MR_LATER : may_write(store, env, g, err);
    if (allowed != MR_OK) {
        atomic_fetch_add(&store->refused, g->n);
    }
    if (allowed < 0 || (allowed == MR_OK && write_group(store, env, g, err) == MR_ENV_FAILED)) {
        close_env(store, env);
        mr_store_note_trouble(store, err);
    }
}

static void flush_group(mr_store *store, int32_t env, group *g) {
    mr_error err = MR_ERROR_INIT;
    if (g->n > 0) {
        write_or_refuse(store, env, g, &err);
        mr_env_start_writeback(store->envs[env], g->bytes);
        finish_group(store, g);
    }
}

/* Members are freed as their group is finished, so the next one is noted first. */
static void write_list(mr_store *store, int32_t env, mr_pending *list) {
    group g = {.n = 0};
    for (mr_pending *p = list, *behind; p; p = behind) {
        behind = p->behind;
        g.members[g.n] = p;
        g.items[g.n++] = (mr_env_item){&p->key, p->record->bytes, p->record->used};
        g.bytes += (int64_t)p->record->used;
        if (g.n == GROUP || g.bytes >= GROUP_BYTES || is_too_large(store, 2 * g.bytes)) {
            flush_group(store, env, &g);
        }
    }
    flush_group(store, env, &g);
}

static void write_all(mr_store *store, mr_pending *list) {
    mr_pending *first[MR_MAX_ENVS] = {NULL}, **last[MR_MAX_ENVS];
    for (int32_t i = 0; i < MR_MAX_ENVS; i++) {
        last[i] = &first[i];
    }
    for (mr_pending *p = list, *behind; p; p = behind) {
        int32_t env = mr_store_env_of(store, &p->key);
        behind = p->behind;
        p->behind = NULL;
        *last[env] = p;
        last[env] = &p->behind;
    }
    for (int32_t i = 0; i < store->place.n_envs; i++) {
        write_list(store, i, first[i]);
    }
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
        write_all(store, list);
    }
    return NULL;
}
