/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - see keep.h. A value is a record of one field of bytes, filed under the source's name. */
#include "run/cache/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "run/cache/stores.h"

struct mr_keep {
    mr_keeper keeper;
    const char *source;
    const mr_log *log;
    mr_hash128 prefix;
    mr_store *store;
    mr_store_reader *reader;
    mr_arena arena;
    int32_t plan;
    int64_t hits, misses;
    bool opened;
};

static void say(const mr_keep *keep, const mr_error *failure) {
    char text[700];
    if (keep->log->write) {
        snprintf(text, sizeof text, "nothing is kept: %s", failure->text);
        keep->log->write(keep->log->user, text);
    }
}

static bool open_store(mr_keep *keep, const char *path) {
    const mr_store_params params = {.path = strcmp(path, "auto") == 0 ? "" : path};
    char text[96];
    mr_error failure = MR_ERROR_INIT;
    if (keep->opened) {
        return keep->reader != NULL;
    }
    keep->opened = true;
    if (mr_store_open(&keep->store, &params, keep->log, &failure) < 0) {
        keep->store = NULL;
        say(keep, &failure);
        return false;
    }
    snprintf(text, sizeof text, "%s: what its files are", keep->source);
    keep->plan = mr_store_join(keep->store, &(mr_store_plan){keep->prefix, text, false});
    keep->reader = mr_store_reader_new(keep->store);
    return keep->reader != NULL;
}

static bool copy_field(const mr_record *record, void **value, size_t *size) {
    const mr_record_field *field = &record->fields[0];
    if (record->n_fields != 1) {
        return false;
    }
    *value = malloc(field->size + 1);
    *size = field->size;
    if (*value && mr_record_copy(field, record->unpacked, *value) == MR_OK) {
        return true;
    }
    free(*value);
    *value = NULL;
    return false;
}

static bool find(void *user, const char *store, const uint64_t key[2], void **value, size_t *size) {
    mr_keep *keep = user;
    mr_record record;
    if (!open_store(keep, store)) {
        return false;
    }
    const mr_store_key full = mr_store_key_of(keep->prefix, key);
    bool found = mr_store_find(keep->reader, &full, &record, &keep->arena);
    if (found) {
        found = copy_field(&record, value, size);
        mr_store_done(keep->reader);
        if (!found) {
            mr_store_doubt(keep->store, &full);
        }
    }
    mr_arena_reset(&keep->arena);
    *(found ? &keep->hits : &keep->misses) += 1;
    return found;
}

static mr_store_buffer *write_record(mr_keep *keep, const mr_store_key *key, const void *value,
                                     size_t size) {
    const mr_view view = {
        {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)size}}, (void *)(uintptr_t)value, size};
    mr_store_buffer *record = mr_store_take_buffer(keep->store, mr_record_room(&view, 1, 0));
    if (record && mr_record_write(key, &view, 1, 0, record->bytes, &record->used, NULL) < 0) {
        mr_store_give_buffer(keep->store, record);
        record = NULL;
    }
    return record;
}

static void put(void *user, const char *store, const uint64_t key[2], const void *value,
                size_t size) {
    mr_keep *keep = user;
    if (!open_store(keep, store)) {
        return;
    }
    const mr_store_key full = mr_store_key_of(keep->prefix, key);
    if (mr_store_claim(keep->store, &full) != MR_CLAIM_OURS) {
        return;
    }
    mr_store_buffer *record = write_record(keep, &full, value, size);
    if (record) {
        mr_store_put(keep->store, &full, record);
    } else {
        mr_store_abandon(keep->store, &full);
    }
}

mr_keep *mr_keep_new(const char *source, const mr_log *log) {
    mr_keep *keep = mr_zalloc(1, sizeof *keep);
    if (keep) {
        keep->keeper = (mr_keeper){keep, find, put};
        keep->source = source;
        keep->log = log;
        keep->prefix = mr_hash(source, strlen(source));
    }
    return keep;
}

void mr_keep_free(mr_keep *keep) {
    if (!keep) {
        return;
    }
    mr_store_reader_free(keep->reader);
    if (keep->store) {
        mr_store_leave(keep->store, keep->plan, keep->hits, keep->misses);
        mr_store_close(keep->store);
    }
    mr_arena_free(&keep->arena);
    mr_free(keep);
}

const mr_keeper *mr_keep_keeper(mr_keep *keep) {
    return keep ? &keep->keeper : NULL;
}
