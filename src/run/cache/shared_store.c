/* SPDX-License-Identifier: Apache-2.0 */
/* shared_store.c - see shared_store.h. */
#include "run/cache/shared_store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

/* A reader is one thread's while it is used; those that are not wait in a list. */
typedef struct lookout {
    struct lookout *next;
    mr_store_reader *reader;
    mr_arena arena;
} lookout;

struct mr_shared_store {
    mr_store *store;
    mr_hash128 prefix;
    int32_t plan;
    _Atomic int64_t hits, misses;
    pthread_mutex_t lock; /* of the list */
    lookout *idle;
};

static mr_store_key key_of(const mr_shared_store *shared, mr_hash128 name) {
    const uint64_t words[2] = {name.low, name.high};
    return mr_store_key_of(shared->prefix, words);
}

/* ---- Readers ---- */
static lookout *new_lookout(mr_store *store) {
    lookout *own = mr_zalloc(1, sizeof *own);
    if (own && !(own->reader = mr_store_reader_new(store))) {
        mr_free(own);
        own = NULL;
    }
    return own;
}

static lookout *take_lookout(mr_shared_store *shared) {
    pthread_mutex_lock(&shared->lock);
    lookout *own = shared->idle;
    if (own) {
        shared->idle = own->next;
    }
    pthread_mutex_unlock(&shared->lock);
    return own ? own : new_lookout(shared->store);
}

static void give_lookout(mr_shared_store *shared, lookout *own) {
    mr_arena_reset(&own->arena);
    pthread_mutex_lock(&shared->lock);
    own->next = shared->idle;
    shared->idle = own;
    pthread_mutex_unlock(&shared->lock);
}

static void free_lookout(lookout *own) {
    mr_store_reader_free(own->reader);
    mr_arena_free(&own->arena);
    mr_free(own);
}

/* ---- Opening ---- */
static mr_status open_store(mr_shared_store *shared, const char *params, const char *space,
                            const mr_log *log, mr_error *err) {
    char text[256];
    snprintf(text, sizeof text, "shared %s", space);
    shared->prefix = mr_hash(text, strlen(text));
    MR_TRY(mr_store_open_text(&shared->store, params, log, err));
    const mr_store_plan plan = {shared->prefix, text, false};
    shared->plan = mr_store_join(shared->store, &plan);
    return MR_OK;
}

mr_status mr_shared_store_open(mr_shared_store **out, const char *params, const char *space,
                               const mr_log *log, mr_error *err) {
    mr_shared_store *shared = mr_zalloc(1, sizeof *shared);
    if (!shared) {
        return mr_fail_memory(err, sizeof *shared);
    }
    pthread_mutex_init(&shared->lock, NULL);
    mr_status status = open_store(shared, params, space, log, err);
    if (status < 0) {
        pthread_mutex_destroy(&shared->lock);
        mr_free(shared);
        return status;
    }
    *out = shared;
    return MR_OK;
}

void mr_shared_store_close(mr_shared_store *shared) {
    if (!shared) {
        return;
    }
    while (shared->idle) {
        lookout *own = shared->idle;
        shared->idle = own->next;
        free_lookout(own);
    }
    mr_store_flush(shared->store); /* while its plan still counts */
    mr_store_leave(shared->store, shared->plan, shared->hits, shared->misses);
    mr_store_close(shared->store);
    pthread_mutex_destroy(&shared->lock);
    mr_free(shared);
}

/* ---- Finding ---- */
/* MR_E_CORRUPT: not a value of ours, or damaged. */
static mr_status copy_value(const mr_record *record, void **value, size_t *size, mr_error *err) {
    if (record->n_fields != 1) {
        return MR_E_CORRUPT;
    }
    const mr_record_field *field = &record->fields[0];
    void *copy = malloc(field->size > 0 ? field->size : 1);
    if (!copy) {
        return mr_fail_memory(err, field->size);
    }
    if (mr_record_copy(field, record->unpacked, copy) < 0) {
        free(copy);
        return MR_E_CORRUPT;
    }
    *value = copy;
    *size = field->size;
    return MR_OK;
}

static mr_status look(mr_shared_store *shared, lookout *own, const mr_store_key *key, void **value,
                      size_t *size, mr_error *err) {
    mr_record record;
    if (!mr_store_find(own->reader, key, &record, &own->arena)) {
        return MR_LATER;
    }
    mr_status status = copy_value(&record, value, size, err);
    mr_store_done(own->reader);
    if (status == MR_E_CORRUPT) {
        mr_store_doubt(shared->store, key);
        status = MR_LATER;
    }
    return status;
}

mr_status mr_shared_store_find(mr_shared_store *shared, mr_hash128 name, void **value, size_t *size,
                               mr_error *err) {
    const mr_store_key key = key_of(shared, name);
    lookout *own = take_lookout(shared);
    if (!own) {
        return mr_fail_memory(err, sizeof *own);
    }
    mr_status status = look(shared, own, &key, value, size, err);
    give_lookout(shared, own);
    atomic_fetch_add(status == MR_OK ? &shared->hits : &shared->misses, 1);
    return status;
}

/* ---- Making ---- */
mr_claim mr_shared_store_claim(mr_shared_store *shared, mr_hash128 name) {
    const mr_store_key key = key_of(shared, name);
    return mr_store_claim(shared->store, &key);
}

void mr_shared_store_abandon(mr_shared_store *shared, mr_hash128 name) {
    const mr_store_key key = key_of(shared, name);
    mr_store_abandon(shared->store, &key);
}

bool mr_shared_store_keep(mr_shared_store *shared, mr_hash128 name, const void *value,
                          size_t size) {
    const mr_store_key key = key_of(shared, name);
    const mr_view view = {.type = {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)size}},
                          .data = (void *)(uintptr_t)value,
                          .size = size};
    mr_store_buffer *record = mr_store_take_buffer(shared->store, mr_record_room(&view, 1, 0));
    if (record && mr_record_write(&key, &view, 1, 0, record->bytes, &record->used, NULL) < 0) {
        mr_store_give_buffer(shared->store, record);
        record = NULL;
    }
    if (!record) {
        mr_store_abandon(shared->store, &key);
        return false;
    }
    mr_store_put(shared->store, &key, record);
    return true;
}

bool mr_shared_store_trouble(mr_shared_store *shared, char *text, size_t size) {
    return mr_store_trouble(shared->store, text, size);
}
