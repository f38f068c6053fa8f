/* SPDX-License-Identifier: Apache-2.0 */
/* store_admin.c - looking at a store from outside: what is in it, whether it is whole, and
 * deleting it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "core/registry.h"
#include "run/cache/store_parts.h"
#include "store/guard.h"

/* ---- Which store ---- */
static mr_status fill_params(const char *text, mr_store_params *out, const mr_param **rows,
                             mr_error *err) {
    const mr_op_class *op = mr_op_find("cache");
    json_t *json = NULL;
    json_error_t problem;
    const char *given = text ? text : "{}";
    if (!op) {
        return mr_fail(err, MR_E_UNSUPPORTED, "this build was made without lmdb");
    }
    if (mr_json_load(&json, given, strlen(given), 0, &problem) < 0) {
        return mr_fail(err, MR_E_PARAM, "not valid JSON: %s", problem.text);
    }
    *rows = op->params;
    mr_status status = mr_params_fill(op->params, json, "$", "op cache", NULL, out, err);
    json_decref(json);
    return status;
}

mr_status mr_store_open_text(mr_store **out, const char *text, const mr_log *log, mr_error *err) {
    mr_store_params params = {0};
    const mr_param *rows = NULL;
    MR_TRY(fill_params(text, &params, &rows, err));
    mr_status status = mr_store_open(out, &params, log, err);
    mr_params_free(rows, &params);
    return status;
}

/* A store that is shared with a group stays so, whoever looks at it. */
static bool is_shared(const mr_store_params *params) {
    struct stat info;
    mr_error ignored = MR_ERROR_INIT;
    char *path = mr_place_path(params, &ignored);
    bool shared = path && stat(path, &info) == 0 && (info.st_mode & 0070) == 0070;
    free(path);
    return shared;
}

/* Opens what is there as it is, and makes nothing. */
static mr_status open_existing(const char *text, mr_store **out, mr_error *err) {
    mr_store_params params = {0};
    const mr_param *rows = NULL;
    const mr_log silent = {NULL, NULL};
    MR_TRY(fill_params(text, &params, &rows, err));
    params.size = 0;
    params.group = params.group || is_shared(&params);
    mr_status status = mr_place_check(&params, err);
    if (status == MR_OK) {
        status = mr_store_open(out, &params, &silent, err);
    }
    mr_params_free(rows, &params);
    return status;
}

/* ---- What is in it ---- */
typedef struct census {
    mr_store_way *ways;
    size_t n, capacity;
    int64_t entries, bytes;
    bool failed;
} census;

static mr_store_way *way_of(census *c, const mr_store_key *key) {
    char hex[33];
    mr_hash128 prefix = {0, 0};
    memcpy(&prefix.low, key->bytes, sizeof prefix.low);
    mr_hash_hex(prefix, hex);
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->ways[i].prefix, hex + 16) == 0) {
            return &c->ways[i];
        }
    }
    if (c->n == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 16;
        mr_store_way *ways = realloc(c->ways, capacity * sizeof *ways);
        if (!ways) {
            return NULL;
        }
        c->ways = ways;
        c->capacity = capacity;
    }
    mr_store_way *way = &c->ways[c->n++];
    *way = (mr_store_way){.text = ""};
    memcpy(way->prefix, hex + 16, sizeof way->prefix);
    return way;
}

static bool location_of(const void *data, size_t size, mr_location *out) {
    unsigned char bytes[MR_LOCATION_BYTES];
    bool whole = size == sizeof bytes && mr_guard_copy(bytes, data, sizeof bytes);
    if (whole) {
        *out = mr_location_load(bytes);
    }
    return whole;
}

static bool count_entry(void *user, const mr_store_key *key, const void *data, size_t size) {
    census *c = user;
    mr_location location = {.length = 0};
    mr_store_way *way = way_of(c, key);
    location_of(data, size, &location);
    c->failed = !way;
    if (way) {
        way->entries++;
        way->bytes += (int64_t)location.length;
        c->entries++;
        c->bytes += (int64_t)location.length;
    }
    return way != NULL;
}

static mr_status take_census(mr_store *store, census *c, mr_error *err) {
    MR_TRY(mr_env_walk(store->index, count_entry, c, err));
    return c->failed ? mr_fail_memory(err, c->n * sizeof *c->ways) : MR_OK;
}

static void tell_way(mr_store *store, mr_store_way *way, const mr_store_visitor *visitor) {
    char bytes[MR_NOTE_BYTES];
    mr_plan_note note = {0};
    uint64_t prefix = strtoull(way->prefix, NULL, 16);
    if (mr_env_read_note(store->index, &prefix, sizeof prefix, bytes)) {
        memcpy(&note, bytes, sizeof note);
        note.text[sizeof note.text - 1] = '\0';
    }
    way->text = note.text;
    way->hits = note.hits;
    way->misses = note.misses;
    way->made = note.made;
    way->used = note.used;
    visitor->way(visitor->user, way);
}

static int64_t bytes_on_disk(const mr_store *store) {
    return mr_use_bytes(store->place.size) + mr_env_bytes(store->index) + MR_ENV_LOCK_BYTES +
           mr_segments_bytes(&store->place);
}

static void fill_info(const mr_store *store, const census *c, mr_store_info *out) {
    mr_store_info info = {.size = (uint32_t)sizeof info,
                          .limit = store->place.size,
                          .file_bytes = bytes_on_disk(store),
                          .entries = c->entries,
                          .bytes = c->bytes};
    size_t length = strlen(store->place.path);
    memcpy(info.path, store->place.path, length < sizeof info.path ? length : sizeof info.path - 1);
    uint32_t size = out->size;
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
    out->size = size;
}

/* What was wrong when the store was opened was made anew then, and is told all the same. */
static void tell_trouble(mr_store *store, const mr_store_visitor *visitor) {
    char text[1200];
    if (visitor && visitor->note && mr_store_trouble(store, text, sizeof text)) {
        visitor->note(visitor->user, text);
    }
}

/* As this version knows it; none is one that wants nothing. */
static mr_store_visitor own_visitor(const mr_store_visitor *given) {
    mr_store_visitor own = {0};
    if (given) {
        mr_take_sized(&own, sizeof own, given);
    }
    return own;
}

mr_status mr_store_stat(const char *params, const mr_store_visitor *given, mr_store_info *out,
                        mr_error *err) {
    const mr_store_visitor own = own_visitor(given), *visitor = &own;
    mr_store *store = NULL;
    census c = {0};
    MR_TRY(open_existing(params, &store, err));
    tell_trouble(store, visitor);
    mr_status status = take_census(store, &c, err);
    for (size_t i = 0; status == MR_OK && visitor && visitor->way && i < c.n; i++) {
        tell_way(store, &c.ways[i], visitor);
    }
    if (status == MR_OK) {
        fill_info(store, &c, out);
    }
    free(c.ways);
    mr_store_close(store);
    return status;
}

/* ---- Is it whole ---- */
enum { DAMAGED = 64 }; /* entries to delete in a transaction */

typedef struct inspection {
    mr_store *store;
    const mr_store_visitor *visitor;
    mr_arena arena;
    mr_store_key bad[DAMAGED];
    int32_t n_bad; /* more are counted, and found once more */
    int64_t checked, bytes, damaged;
    bool stopped;
} inspection;

/* By reading the bytes, not by looking at mapped ones: what the disk has is what is asked. */
static mr_status check_value(inspection *in, const mr_store_key *key, const mr_location *location) {
    mr_store *store = in->store;
    pthread_mutex_lock(&store->holding);
    mr_segment *segment = mr_segments_hold(store->segments, location);
    pthread_mutex_unlock(&store->holding);
    if (!segment) {
        return MR_E_CORRUPT;
    }
    void *bytes = mr_arena_take(&in->arena, location->length);
    mr_status status = bytes ? mr_segment_read(segment, location, bytes, NULL) : MR_E_MEMORY;
    status = status == MR_E_IO ? MR_E_CORRUPT : status;
    if (status == MR_OK) {
        status = mr_record_verify(key, bytes, location->length, &in->arena);
    }
    pthread_mutex_lock(&store->holding);
    mr_segments_release(store->segments, segment);
    pthread_mutex_unlock(&store->holding);
    return status;
}

static bool inspect(void *user, const mr_store_key *key, const void *data, size_t size) {
    inspection *in = user;
    mr_location location = {.length = 0};
    bool told = location_of(data, size, &location);
    mr_status status = told ? check_value(in, key, &location) : MR_E_CORRUPT;
    mr_arena_reset(&in->arena);
    in->checked++;
    in->bytes += (int64_t)location.length;
    if (status == MR_E_CORRUPT) {
        in->damaged++;
        if (in->n_bad < DAMAGED) {
            in->bad[in->n_bad++] = *key;
        }
    }
    in->stopped = in->visitor && in->visitor->progress &&
                  !in->visitor->progress(in->visitor->user, in->bytes, in->damaged);
    return !in->stopped;
}

mr_status mr_store_verify(const char *params, const mr_store_visitor *given, int64_t *checked,
                          int64_t *damaged, mr_error *err) {
    const mr_store_visitor own = own_visitor(given), *visitor = &own;
    mr_store *store = NULL;
    MR_TRY(open_existing(params, &store, err));
    inspection in = {.store = store, .visitor = visitor, .damaged = atomic_load(&store->damaged)};
    mr_error ignored = MR_ERROR_INIT;
    if (mr_env_walk(store->index, inspect, &in, &ignored) < 0) {
        in.damaged++;
    }
    if (in.n_bad > 0 && mr_place_mark(&store->place, NULL) == MR_OK) {
        mr_env_remove(store->index, in.bad, in.n_bad, NULL);
    }
    tell_trouble(store, visitor);
    *checked = in.checked;
    *damaged = in.damaged;
    mr_arena_free(&in.arena);
    mr_store_close(store);
    return MR_OK;
}

/* ---- Deleting ---- */
static bool has_prefix(void *user, const mr_store_key *key, const void *data, size_t size) {
    (void)data;
    (void)size;
    return memcmp(user, key->bytes, sizeof(uint64_t)) == 0;
}

/* A segment has the values of one pipeline. One that is written to stays; the next to need room
 * finds that nothing of it is wanted. */
static void drop_segments(mr_store *store, const uint64_t *prefix) {
    size_t n = 0;
    pthread_mutex_lock(&store->writing);
    mr_segments_pause(store->segments);
    mr_segment_info *list = mr_segments_list(store->segments, &n);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].is_written && memcmp(list[i].prefix, prefix, sizeof list[i].prefix) == 0) {
            mr_store_drop_segment(store, list[i].id);
        }
    }
    free(list);
    pthread_mutex_unlock(&store->writing);
}

/* Entries first; where the disk is full, they can go only when there is room. */
static mr_status clear_way(const char *params, const char *prefix, int64_t *deleted,
                           mr_error *err) {
    mr_store *store = NULL;
    uint64_t number = strtoull(prefix, NULL, 16);
    MR_TRY(open_existing(params, &store, err));
    mr_status status = mr_place_mark(&store->place, err);
    if (status == MR_OK) {
        int64_t rest = 0;
        status = mr_env_delete(store->index, has_prefix, &number, deleted, err);
        drop_segments(store, &number);
        if (status < 0 && !mr_env_is_doubtful(store->index)) {
            status = mr_env_delete(store->index, has_prefix, &number, &rest, err);
            *deleted += rest;
        }
    }
    if (status < 0) {
        char shown[200];
        mr_text_escape(shown, sizeof shown, store->place.path);
        mr_hint(err, "delete the store as a whole: `millrace cache clear --path %s`", shown);
    }
    mr_store_close(store);
    return status;
}

static mr_status clear_all(const char *text, mr_error *err) {
    mr_store_params params = {0};
    const mr_param *rows = NULL;
    MR_TRY(fill_params(text, &params, &rows, err));
    mr_status status = mr_place_check(&params, err);
    if (status == MR_OK) {
        status = mr_place_destroy(&params, err);
    }
    mr_params_free(rows, &params);
    return status;
}

mr_status mr_store_clear(const char *params, const char *prefix, int64_t *deleted, mr_error *err) {
    *deleted = 0;
    if (prefix) {
        return clear_way(params, prefix, deleted, err);
    }
    mr_store_info info = {.size = (uint32_t)sizeof info};
    mr_error ignored = MR_ERROR_INIT;
    if (mr_store_stat(params, NULL, &info, &ignored) == MR_OK) {
        *deleted = info.entries;
    }
    return clear_all(params, err);
}
