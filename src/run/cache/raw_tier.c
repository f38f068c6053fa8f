/* SPDX-License-Identifier: Apache-2.0 */
/* raw_tier.c - see raw_tier.h. A load is one value: its extents one behind the other. Values are
 * copied when the load is let go, and handed to the store by a thread: the store may make who puts
 * something wait for the disk. */
#include "run/cache/raw_tier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/far_name.h"
#include "run/cache/stores.h"
#include "run/read/intake.h"
#include "run/threads.h"

enum { MOST_PARKED = 128 << 20 }; /* bytes on their way to the store; more are not kept */

typedef struct parked {
    struct parked *next;
    mr_store_key key;
    mr_store_buffer *record;
    size_t size; /* of the load */
} parked;

struct mr_raw_tier {
    mr_store *store;
    mr_store_reader *reader; /* the asker's */
    mr_arena arena;          /* likewise */
    mr_hash128 prefix;
    int32_t plan;
    int64_t hits, misses; /* likewise */
    mr_threads thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work;
    parked *first, **last;
    size_t parked_bytes;
    bool ended;
};

/* False: some of it is not of a known version. */
static bool key_of(const mr_raw_tier *tier, const mr_load *load, mr_store_key *out) {
    uint64_t words[4] = {0};
    for (int32_t i = 0; i < load->n_extents; i++) {
        const mr_extent *extent = &load->extents[i];
        uint64_t own[6];
        if (!mr_is_far(extent->path) || !mr_far_identity(extent->path, own)) {
            return false;
        }
        own[2] = (uint64_t)extent->offset;
        own[3] = (uint64_t)extent->length;
        memcpy(&own[4], words, 2 * sizeof *words);
        mr_hash128 hash = mr_hash(own, sizeof own);
        words[0] = hash.low;
        words[1] = hash.high;
    }
    *out = mr_store_key_of(tier->prefix, words);
    return load->n_extents > 0;
}

/* ---- Asking ---- */
/* How many bytes the load's extents have; -1: one does not say, and the object's version does. */
static int64_t bytes_of(mr_load *load) {
    int64_t total = 0;
    for (int32_t i = 0; i < load->n_extents; i++) {
        mr_extent *extent = &load->extents[i];
        if (extent->length < 0) {
            mr_far_pin pin;
            mr_far_pin_of(extent->path, &pin);
            extent->length = pin.size - extent->offset;
        }
        if (extent->length < 0 || extent->length > extent->limit ||
            __builtin_add_overflow(total, extent->length, &total)) {
            return -1;
        }
    }
    return total;
}

static bool copy_out(mr_raw_tier *tier, mr_load *load, const mr_store_key *key,
                     const mr_record *record) {
    const mr_record_field *field = &record->fields[0];
    int64_t total = bytes_of(load);
    if (record->n_fields != 1 || total < 0 || (int64_t)field->size != total ||
        !mr_load_reserve(load, (size_t)total, true) || !load->buffer) {
        return false;
    }
    if (mr_record_copy(field, record->unpacked, load->buffer) < 0) {
        mr_store_doubt(tier->store, key);
        return false;
    }
    mr_load_lay_out(load);
    return true;
}

static mr_answer ask(void *state, mr_load *load) {
    mr_raw_tier *tier = state;
    mr_store_key key;
    mr_record record;
    if (bytes_of(load) < 0 || !key_of(tier, load, &key)) {
        return MR_ANSWER_NOT_HERE;
    }
    bool found = mr_store_find(tier->reader, &key, &record, &tier->arena);
    bool taken = found && copy_out(tier, load, &key, &record);
    if (found) {
        mr_store_done(tier->reader);
    }
    mr_arena_reset(&tier->arena);
    *(taken ? &tier->hits : &tier->misses) += 1;
    mr_store_tally(tier->store, tier->plan, taken);
    return taken                            ? MR_ANSWER_HERE
           : atomic_load(&load->status) < 0 ? MR_ANSWER_FAILED
                                            : MR_ANSWER_NOT_HERE;
}

/* ---- Keeping ---- */
static mr_store_buffer *write_record(mr_raw_tier *tier, const mr_store_key *key,
                                     const mr_load *load, size_t size) {
    const mr_view view = {
        {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)size}}, load->buffer, size};
    mr_store_buffer *record = mr_store_take_buffer(tier->store, mr_record_room(&view, 1, 0));
    if (record && mr_record_write(key, &view, 1, 0, record->bytes, &record->used, NULL) < 0) {
        mr_store_give_buffer(tier->store, record);
        record = NULL;
    }
    return record;
}

static bool take_room(mr_raw_tier *tier, size_t size) {
    pthread_mutex_lock(&tier->lock);
    bool room = tier->parked_bytes + size <= MOST_PARKED && !tier->ended;
    tier->parked_bytes += room ? size : 0;
    pthread_mutex_unlock(&tier->lock);
    return room;
}

static void give_room(mr_raw_tier *tier, size_t size) {
    pthread_mutex_lock(&tier->lock);
    tier->parked_bytes -= size;
    pthread_mutex_unlock(&tier->lock);
}

static void park(mr_raw_tier *tier, parked *p) {
    pthread_mutex_lock(&tier->lock);
    *tier->last = p;
    tier->last = &p->next;
    pthread_cond_signal(&tier->work);
    pthread_mutex_unlock(&tier->lock);
}

static size_t size_of(const mr_load *load) {
    size_t size = 0;
    for (int32_t i = 0; i < load->block.n_bytes; i++) {
        size += load->block.bytes[i].size;
    }
    return size;
}

static void offer(void *state, const mr_load *load) {
    mr_raw_tier *tier = state;
    size_t size = size_of(load);
    parked *p = mr_zalloc(1, sizeof *p);
    if (!p || !key_of(tier, load, &p->key) || !take_room(tier, size)) {
        mr_free(p);
        return;
    }
    p->size = size;
    if (mr_store_claim(tier->store, &p->key) == MR_CLAIM_OURS) {
        p->record = write_record(tier, &p->key, load, size);
        if (p->record) {
            park(tier, p);
            return;
        }
        mr_store_abandon(tier->store, &p->key);
    }
    give_room(tier, size);
    mr_free(p);
}

static parked *take_parked(mr_raw_tier *tier) {
    pthread_mutex_lock(&tier->lock);
    while (!tier->first && !tier->ended) {
        pthread_cond_wait(&tier->work, &tier->lock);
    }
    parked *p = tier->first;
    if (p) {
        tier->first = p->next;
        tier->last = tier->first ? tier->last : &tier->first;
    }
    pthread_mutex_unlock(&tier->lock);
    return p;
}

static void *raw_main(void *context) {
    mr_raw_tier *tier = context;
    parked *p;
    while ((p = take_parked(tier)) != NULL) {
        mr_store_put(tier->store, &p->key, p->record);
        give_room(tier, p->size);
        mr_free(p);
    }
    return NULL;
}

/* ---- Opening, ending ---- */
static mr_status open_parts(mr_raw_tier *tier, const mr_store_params *params, const mr_log *log,
                            mr_error *err) {
    MR_TRY(mr_store_open(&tier->store, params, log, err));
    tier->plan =
        mr_store_join(tier->store, &(mr_store_plan){tier->prefix, "bytes of objects", true});
    tier->reader = mr_store_reader_new(tier->store);
    if (!tier->reader) {
        return mr_fail_memory(err, 4096);
    }
    return mr_threads_start(&tier->thread, 1, "mr-raw", raw_main, tier, 0, err);
}

mr_status mr_raw_tier_open(mr_raw_tier **out, const char *path, int64_t size, const mr_log *log,
                           mr_error *err) {
    static const char name[] = "bytes of objects";
    if (!path[0]) {
        return MR_OK;
    }
    const mr_store_params params = {.path = strcmp(path, "auto") == 0 ? "" : path, .size = size};
    mr_raw_tier *tier = mr_zalloc(1, sizeof *tier);
    if (!tier) {
        return mr_fail_memory(err, sizeof *tier);
    }
    tier->prefix = mr_hash(name, sizeof name);
    tier->last = &tier->first;
    tier->plan = -1;
    pthread_mutex_init(&tier->lock, NULL);
    pthread_cond_init(&tier->work, NULL);
    *out = tier; /* the caller closes it, also where this fails */
    return open_parts(tier, &params, log, err);
}

void mr_raw_tier_close(mr_raw_tier *tier) {
    if (!tier) {
        return;
    }
    pthread_mutex_lock(&tier->lock);
    tier->ended = true;
    pthread_cond_broadcast(&tier->work);
    pthread_mutex_unlock(&tier->lock);
    mr_threads_join(&tier->thread);
    mr_store_reader_free(tier->reader);
    if (tier->store) {
        mr_store_leave(tier->store, tier->plan, tier->hits, tier->misses);
        mr_store_close(tier->store);
    }
    mr_arena_free(&tier->arena);
    pthread_mutex_destroy(&tier->lock);
    pthread_cond_destroy(&tier->work);
    mr_free(tier);
}

const mr_origin_class mr_raw_origin = {.name = "objects", .ask = ask, .offer = offer};
