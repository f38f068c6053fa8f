/* SPDX-License-Identifier: Apache-2.0 */
/* store_admin.c - looking at a store from outside: what is in it, whether it is whole, and away
 * with it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "core/registry.h"
#include "run/store_parts.h"

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

static bool count_entry(void *user, const mr_store_key *key, const void *data, size_t size) {
    census *c = user;
    mr_store_way *way = way_of(c, key);
    (void)data;
    c->failed = !way;
    if (way) {
        way->entries++;
        way->bytes += (int64_t)size;
        c->entries++;
        c->bytes += (int64_t)size;
    }
    return way != NULL;
}

static mr_status take_census(mr_store *store, census *c, mr_error *err) {
    for (int32_t i = 0; i < store->place.n_envs; i++) {
        MR_TRY(mr_env_walk(store->envs[i], count_entry, c, err));
        if (c->failed) {
            return mr_fail_memory(err, c->n * sizeof *c->ways);
        }
    }
    return MR_OK;
}

static void tell_way(mr_store *store, mr_store_way *way, const mr_store_visitor *visitor) {
    char bytes[MR_NOTE_BYTES];
    mr_plan_note note = {0};
    uint64_t prefix = strtoull(way->prefix, NULL, 16);
    if (mr_env_read_note(store->envs[0], &prefix, sizeof prefix, bytes)) {
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
    int64_t total = mr_use_bytes(store->place.size);
    for (int32_t i = 0; i < store->place.n_envs; i++) {
        total += mr_env_bytes(store->envs[i]) + MR_ENV_LOCK_BYTES;
    }
    return total;
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

mr_status mr_store_stat(const char *params, const mr_store_visitor *visitor, mr_store_info *out,
                        mr_error *err) {
    mr_store *store = NULL;
    census c = {0};
    MR_TRY(open_existing(params, &store, err));
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
typedef struct inspection {
    const mr_store_visitor *visitor;
    mr_arena arena;
    int64_t checked, bytes, damaged;
    bool stopped;
} inspection;

static bool inspect(void *user, const mr_store_key *key, const void *data, size_t size) {
    inspection *in = user;
    mr_status status = mr_record_verify(key, data, size, &in->arena);
    mr_arena_reset(&in->arena);
    in->checked++;
    in->bytes += (int64_t)size;
    if (status == MR_E_CORRUPT) {
        in->damaged++;
    }
    in->stopped = in->visitor && in->visitor->progress &&
                  !in->visitor->progress(in->visitor->user, in->bytes, in->damaged);
    return !in->stopped;
}

/* What is damaged goes with the environment it lies in; see mr_store_doubt. */
static void inspect_env(mr_store *store, int32_t i, inspection *in) {
    int64_t before = in->damaged;
    mr_error ignored = MR_ERROR_INIT;
    if (mr_env_walk(store->envs[i], inspect, in, &ignored) < 0) {
        in->damaged++;
    }
    if (in->damaged > before) {
        mr_env_doubt(store->envs[i]);
    }
}

mr_status mr_store_verify(const char *params, const mr_store_visitor *visitor, int64_t *checked,
                          int64_t *damaged, mr_error *err) {
    mr_store *store = NULL;
    inspection in = {.visitor = visitor};
    MR_TRY(open_existing(params, &store, err));
    for (int32_t i = 0; !in.stopped && i < store->place.n_envs; i++) {
        inspect_env(store, i, &in);
    }
    *checked = in.checked;
    *damaged = in.damaged;
    mr_arena_free(&in.arena);
    mr_store_close(store);
    return MR_OK;
}

/* ---- Away with it ---- */
static bool has_prefix(void *user, const mr_store_key *key, size_t size) {
    (void)size;
    return memcmp(user, key->bytes, sizeof(uint64_t)) == 0;
}

static mr_status clear_way(const char *params, const char *prefix, int64_t *deleted,
                           mr_error *err) {
    mr_store *store = NULL;
    uint64_t number = strtoull(prefix, NULL, 16);
    MR_TRY(open_existing(params, &store, err));
    mr_status status = mr_place_mark(&store->place, err);
    for (int32_t i = 0; status == MR_OK && i < store->place.n_envs; i++) {
        int64_t n = 0;
        status = mr_env_delete(store->envs[i], has_prefix, &number, &n, err);
        *deleted += n;
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
