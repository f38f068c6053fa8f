/* SPDX-License-Identifier: Apache-2.0 */
/* shared.c - see millrace/shared.h. Whoever makes a value holds a claim in the store, so that
 * nobody of this machine makes it too, and one in the fabric, for other machines: a value under
 * another key that ends by itself. The store's claim is taken first and given back last. */
#include <millrace/shared.h>

#include <millrace/millrace.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/cache/shared_store.h"

struct mr_shared {
    pid_t owner;
    mr_shared_store *store; /* (optional) */
    mr_fabric *fabric;      /* (optional) */
    pthread_mutex_t lock;   /* of the fabric */
    double patience;
    mr_log log;
    atomic_bool told; /* of trouble */
    _Atomic int64_t from_store, from_fabric, made, waits, kept;
};

/* A key in the fabric: of a value, or of the claim to make it. */
typedef enum fabric_kind { VALUE = 'v', CLAIM = 'c' } fabric_kind;

typedef struct fabric_key {
    unsigned char bytes[17];
} fabric_key;

static fabric_key key_of(fabric_kind kind, mr_hash128 name) {
    fabric_key key = {{(unsigned char)kind}};
    memcpy(key.bytes + 1, &name.low, 8);
    memcpy(key.bytes + 9, &name.high, 8);
    return key;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Opening ---- */
static mr_status open_levels(mr_shared *shared, const mr_shared_config *c, mr_error *err) {
    const char *space = c->space ? c->space : "default";
    char fabric_space[128];
    if ((size_t)snprintf(fabric_space, sizeof fabric_space, "shared:%s", space) >=
        sizeof fabric_space) {
        return mr_fail(err, MR_E_PARAM, "a namespace has at most 100 bytes");
    }
    const mr_fabric_config fabric = {.size = (uint32_t)sizeof fabric,
                                     .url = c->fabric,
                                     .space = fabric_space,
                                     .timeout = c->timeout,
                                     .ttl = c->ttl};
    if (c->fabric) {
        MR_TRY(mr_fabric_open(&shared->fabric, &fabric, err));
    }
    if (c->store || !c->fabric) {
        MR_TRY(mr_shared_store_open(&shared->store, c->store, space, &shared->log, err));
    }
    return MR_OK;
}

mr_status mr_shared_open(mr_shared **out, const mr_shared_config *config, mr_error *err) {
    mr_shared_config c = {.size = (uint32_t)sizeof c};
    memcpy(&c, config, config->size < sizeof c ? config->size : sizeof c);
    if (!(c.patience >= 0 && c.patience <= 1e6)) {
        return mr_fail(err, MR_E_PARAM, "patience is from 0 to 1e6 seconds");
    }
    mr_shared *shared = mr_zalloc(1, sizeof *shared);
    if (!shared) {
        return mr_fail_memory(err, sizeof *shared);
    }
    shared->owner = getpid();
    shared->patience = c.patience > 0 ? c.patience : 60;
    shared->log = c.log;
    pthread_mutex_init(&shared->lock, NULL);
    mr_status status = open_levels(shared, &c, err);
    if (status < 0) {
        mr_shared_close(shared);
        return status;
    }
    *out = shared;
    return MR_OK;
}

/* In a child nothing is given back but memory that is the child's own. */
void mr_shared_close(mr_shared *shared) {
    if (shared && shared->owner == getpid()) {
        mr_shared_store_close(shared->store);
        mr_fabric_close(shared->fabric);
        pthread_mutex_destroy(&shared->lock);
        mr_free(shared);
    }
}

static mr_status check_owner(const mr_shared *shared, mr_error *err) {
    if (shared->owner == getpid()) {
        return MR_OK;
    }
    mr_fail(err, MR_E_FORKED, "this shared object belongs to the parent process");
    mr_hint(err, "open one in the process that uses it");
    return MR_E_FORKED;
}

/* ---- The fabric ---- */
static mr_status ask_fabric(mr_shared *shared, mr_hash128 name, void **value, size_t *size,
                            mr_error *err) {
    const fabric_key key = key_of(VALUE, name);
    mr_parcel parcel = {.key = key.bytes, .key_size = sizeof key.bytes};
    if (!shared->fabric) {
        return MR_LATER;
    }
    pthread_mutex_lock(&shared->lock);
    mr_status status = mr_fabric_get(shared->fabric, &parcel, 1, err);
    pthread_mutex_unlock(&shared->lock);
    if (status < 0 || !parcel.done) {
        return status < 0 ? status : MR_LATER;
    }
    *value = parcel.value;
    *size = parcel.size;
    return MR_OK;
}

static void give_fabric(mr_shared *shared, mr_parcel *parcel) {
    mr_error ignored = MR_ERROR_INIT; /* no memory for it: then it is not kept */
    pthread_mutex_lock(&shared->lock);
    mr_fabric_put(shared->fabric, parcel, 1, &ignored);
    pthread_mutex_unlock(&shared->lock);
}

static bool put_in_fabric(mr_shared *shared, mr_hash128 name, const void *value, size_t size) {
    const fabric_key key = key_of(VALUE, name);
    mr_parcel parcel = {.key = key.bytes,
                        .key_size = sizeof key.bytes,
                        .value = (void *)(uintptr_t)value,
                        .size = size,
                        .only_new = true};
    if (!shared->fabric) {
        return false;
    }
    give_fabric(shared, &parcel);
    return parcel.done;
}

/* A server that does not answer has no claims: MR_CLAIM_VOID. */
static mr_claim claim_in_fabric(mr_shared *shared, mr_hash128 name) {
    const fabric_key key = key_of(CLAIM, name);
    mr_parcel parcel = {.key = key.bytes,
                        .key_size = sizeof key.bytes,
                        .value = "",
                        .only_new = true,
                        .seconds = shared->patience};
    if (!shared->fabric) {
        return MR_CLAIM_VOID;
    }
    give_fabric(shared, &parcel);
    return parcel.done ? MR_CLAIM_OURS : parcel.taken ? MR_CLAIM_BUSY : MR_CLAIM_VOID;
}

/* Replaced by a claim that ends at once. */
static void release_in_fabric(mr_shared *shared, mr_hash128 name) {
    const fabric_key key = key_of(CLAIM, name);
    mr_parcel parcel = {
        .key = key.bytes, .key_size = sizeof key.bytes, .value = "", .seconds = 0.001};
    give_fabric(shared, &parcel);
}

/* ---- A value on its way ---- */
typedef struct errand {
    mr_shared *shared;
    mr_hash128 name;
    void **value;
    size_t *size;
    bool in_store, in_fabric; /* claims */
    bool waited;
    double until;
    double pause;
} errand;

static bool is_patient(errand *e) {
    const double longest = 0.02;
    double left = e->until - now();
    if (left <= 0) {
        return false;
    }
    double nap = e->pause < left ? e->pause : left;
    const struct timespec time = {(time_t)nap, (long)((nap - (double)(time_t)nap) * 1e9)};
    nanosleep(&time, NULL);
    e->pause = 2 * e->pause < longest ? 2 * e->pause : longest;
    atomic_fetch_add(&e->shared->waits, e->waited ? 0 : 1);
    e->waited = true;
    return true;
}

static mr_status look_in_store(errand *e, mr_error *err) {
    mr_status status = e->shared->store
                           ? mr_shared_store_find(e->shared->store, e->name, e->value, e->size, err)
                           : MR_LATER;
    atomic_fetch_add(&e->shared->from_store, status == MR_OK);
    return status;
}

static mr_status look_in_fabric(errand *e, mr_error *err) {
    mr_status status = ask_fabric(e->shared, e->name, e->value, e->size, err);
    atomic_fetch_add(&e->shared->from_fabric, status == MR_OK);
    return status;
}

/* MR_OK: found. MR_LATER: nobody of this machine has it, and it is ours to get, or nobody's. */
static mr_status find_or_claim_in_store(errand *e, mr_error *err) {
    mr_status status;
    while ((status = look_in_store(e, err)) == MR_LATER && e->shared->store) {
        mr_claim claim = mr_shared_store_claim(e->shared->store, e->name);
        if (claim == MR_CLAIM_OURS) {
            e->in_store = true;
            return look_in_store(e, err); /* it may just have been put */
        }
        if (claim == MR_CLAIM_VOID || !is_patient(e)) {
            return MR_LATER;
        }
    }
    return status;
}

static mr_status find_or_claim_in_fabric(errand *e, mr_error *err) {
    mr_status status;
    while ((status = look_in_fabric(e, err)) == MR_LATER && e->shared->fabric) {
        mr_claim claim = claim_in_fabric(e->shared, e->name);
        if (claim == MR_CLAIM_OURS) {
            e->in_fabric = true;
            return look_in_fabric(e, err);
        }
        if (claim == MR_CLAIM_VOID || !is_patient(e)) {
            return MR_LATER;
        }
    }
    return status;
}

static bool keep_in_store(errand *e) {
    bool kept = e->in_store && mr_shared_store_keep(e->shared->store, e->name, *e->value, *e->size);
    e->in_store = false;
    return kept;
}

static void give_claims_back(errand *e) {
    if (e->in_fabric) {
        release_in_fabric(e->shared, e->name);
    }
    if (e->in_store) {
        mr_shared_store_abandon(e->shared->store, e->name);
    }
}

static mr_status make_and_keep(errand *e, mr_shared_make_fn *make, void *user, mr_error *err) {
    MR_TRY(make(user, e->value, e->size, err));
    bool abroad = put_in_fabric(e->shared, e->name, *e->value, *e->size);
    bool here = keep_in_store(e);
    atomic_fetch_add(&e->shared->made, 1);
    atomic_fetch_add(&e->shared->kept, abroad || here);
    return MR_OK;
}

static void tell_trouble(mr_shared *shared) {
    char text[1400];
    bool any = shared->store && mr_shared_store_trouble(shared->store, text, sizeof text);
    if (!any && shared->fabric) {
        mr_fabric_stats stats = {.size = (uint32_t)sizeof stats};
        pthread_mutex_lock(&shared->lock);
        mr_fabric_stats_now(shared->fabric, &stats);
        pthread_mutex_unlock(&shared->lock);
        any = stats.trouble[0] != '\0';
        snprintf(text, sizeof text, "the fabric: %s; values that it lacks are made again",
                 stats.trouble);
    }
    if (any && !atomic_exchange(&shared->told, true) && shared->log.write) {
        shared->log.write(shared->log.user, text);
    }
}

static errand begin(mr_shared *shared, const void *key, size_t key_size, void **value,
                    size_t *size) {
    return (errand){.shared = shared,
                    .name = mr_hash(key, key_size),
                    .value = value,
                    .size = size,
                    .until = now() + shared->patience,
                    .pause = 0.0001};
}

static void finish(errand *e) {
    give_claims_back(e);
    if (!atomic_load(&e->shared->told)) {
        tell_trouble(e->shared);
    }
}

/* ---- Public ---- */
mr_status mr_shared_get(mr_shared *shared, const void *key, size_t key_size, void **value,
                        size_t *size, mr_error *err) {
    MR_TRY(check_owner(shared, err));
    errand e = begin(shared, key, key_size, value, size);
    mr_status status = look_in_store(&e, err);
    if (status == MR_LATER && (status = look_in_fabric(&e, err)) == MR_OK && shared->store) {
        e.in_store = mr_shared_store_claim(shared->store, e.name) == MR_CLAIM_OURS;
        (void)keep_in_store(&e);
    }
    finish(&e);
    return status;
}

mr_status mr_shared_put(mr_shared *shared, const void *key, size_t key_size, const void *value,
                        size_t size, mr_error *err) {
    MR_TRY(check_owner(shared, err));
    void *given = (void *)(uintptr_t)value, *there = NULL;
    size_t its_size = 0;
    errand e = begin(shared, key, key_size, &there, &its_size);
    bool kept = put_in_fabric(shared, e.name, value, size);
    mr_status status =
        shared->store ? mr_shared_store_find(shared->store, e.name, &there, &its_size, err) : MR_OK;
    if (status == MR_LATER) {
        e.in_store = mr_shared_store_claim(shared->store, e.name) == MR_CLAIM_OURS;
        e.value = &given;
        e.size = &size;
        kept |= keep_in_store(&e);
        status = MR_OK;
    }
    mr_free(there);
    atomic_fetch_add(&shared->kept, kept);
    finish(&e);
    return status;
}

mr_status mr_shared_get_or_make(mr_shared *shared, const void *key, size_t key_size,
                                mr_shared_make_fn *make, void *user, void **value, size_t *size,
                                mr_error *err) {
    MR_TRY(check_owner(shared, err));
    errand e = begin(shared, key, key_size, value, size);
    mr_status status = find_or_claim_in_store(&e, err);
    if (status == MR_LATER) {
        status = find_or_claim_in_fabric(&e, err);
        if (status == MR_OK) {
            (void)keep_in_store(&e);
        }
    }
    if (status == MR_LATER) {
        status = make_and_keep(&e, make, user, err);
    }
    finish(&e);
    return status;
}

void mr_shared_stats_now(mr_shared *shared, mr_shared_stats *out) {
    mr_shared_stats stats = {
        .size = out->size,
        .from_store = atomic_load(&shared->from_store),
        .from_fabric = atomic_load(&shared->from_fabric),
        .made = atomic_load(&shared->made),
        .waits = atomic_load(&shared->waits),
        .kept = atomic_load(&shared->kept),
        .fabric = {.size = (uint32_t)sizeof stats.fabric},
    };
    if (shared->fabric) {
        pthread_mutex_lock(&shared->lock);
        mr_fabric_stats_now(shared->fabric, &stats.fabric);
        pthread_mutex_unlock(&shared->lock);
    }
    memcpy(out, &stats, out->size < sizeof stats ? out->size : sizeof stats);
}
