/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - see cache.h. */
#include "run/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

/* Readers of their own for the threads that read ahead; these ask rarely, and share them. */
struct mr_cache_probe {
    pthread_mutex_t lock;
    mr_store_reader **readers;
};

/* ---- Opening ---- */
static void say(const mr_log *log, const mr_error *err) {
    char text[1024];
    if (log->write) {
        snprintf(text, sizeof text, "no store: %s%s%s%s", err->text, err->hint[0] ? " (" : "",
                 err->hint, err->hint[0] ? ")" : "");
        log->write(log->user, text);
    }
}

/* The ops up to a cache, as people write them. */
static void describe_way(const mr_pipeline *p, int32_t cache, char *text, size_t size) {
    snprintf(text, size, "%s", p->source->name);
    for (int32_t i = 0; i < cache; i++) {
        size_t used = strlen(text);
        if (!mr_op_is_cache(&p->ops[i])) {
            snprintf(text + used, size - used, " > %s %s", p->stages[i + 1].name,
                     p->stages[i + 1].params);
        }
    }
}

static void open_cache(mr_cache *cache, const mr_pipeline *p, int32_t op, uint32_t world,
                       const mr_log *log) {
    const mr_store_params *params = p->ops[op].params;
    char text[768];
    mr_error failure = MR_ERROR_INIT;
    cache->node = &p->ops[op];
    cache->op = op;
    cache->packing = params->compression;
    if (mr_store_open(&cache->store, params, log, &failure) < 0) {
        cache->store = NULL;
        say(log, &failure);
        return;
    }
    describe_way(p, op, text, sizeof text);
    const mr_store_plan plan = {cache->node->prefix, text, world == 1};
    cache->plan = mr_store_join(cache->store, &plan);
}

static mr_status open_probe(mr_caches *caches, mr_error *err) {
    struct mr_cache_probe *probe = mr_zalloc(1, sizeof *probe);
    if (!probe) {
        return mr_fail_memory(err, sizeof *probe);
    }
    caches->probe = probe;
    pthread_mutex_init(&probe->lock, NULL);
    probe->readers = mr_zalloc((size_t)caches->n, sizeof *probe->readers);
    if (!probe->readers) {
        return mr_fail_memory(err, (size_t)caches->n * sizeof *probe->readers);
    }
    for (int32_t i = 0; i < caches->n; i++) {
        mr_store *store = caches->list[i].store;
        probe->readers[i] = store ? mr_store_reader_new(store) : NULL;
    }
    return MR_OK;
}

mr_status mr_caches_open(mr_caches *caches, const mr_pipeline *p, const void *source_state,
                         uint32_t world, const mr_log *log, mr_error *err) {
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        n += mr_op_is_cache(&p->ops[i]);
    }
    caches->pipeline = p;
    caches->source_state = source_state;
    if (n == 0) {
        return MR_OK;
    }
    caches->list = mr_zalloc((size_t)n, sizeof *caches->list);
    if (!caches->list) {
        return mr_fail_memory(err, (size_t)n * sizeof *caches->list);
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (mr_op_is_cache(&p->ops[i])) {
            open_cache(&caches->list[caches->n++], p, i, world, log);
        }
    }
    return open_probe(caches, err);
}

static void close_probe(const mr_caches *caches) {
    struct mr_cache_probe *probe = caches->probe;
    if (!probe) {
        return;
    }
    for (int32_t i = 0; probe->readers && i < caches->n; i++) {
        mr_store_reader_free(probe->readers[i]);
    }
    pthread_mutex_destroy(&probe->lock);
    mr_free(probe->readers);
    mr_free(probe);
}

void mr_caches_close(mr_caches *caches) {
    close_probe(caches);
    for (int32_t i = 0; i < caches->n; i++) {
        mr_cache *cache = &caches->list[i];
        if (cache->store) {
            mr_store_flush(cache->store); /* while its plan still counts */
            mr_store_leave(cache->store, cache->plan, cache->hits, cache->misses);
            mr_store_close(cache->store);
        }
    }
    mr_free(caches->list);
    *caches = (mr_caches){0};
}

void mr_caches_epoch(mr_caches *caches) {
    for (int32_t i = 0; i < caches->n; i++) {
        if (caches->list[i].store) {
            mr_store_epoch(caches->list[i].store, caches->list[i].plan);
        }
    }
}

void mr_caches_flush(const mr_caches *caches) {
    for (int32_t i = 0; i < caches->n; i++) {
        if (caches->list[i].store) {
            mr_store_flush(caches->list[i].store);
        }
    }
}

/* ---- Reporting ---- */
void mr_caches_report(mr_caches *caches, const mr_log *log) {
    for (int32_t i = 0; i < caches->n; i++) {
        mr_cache *cache = &caches->list[i];
        char text[1200];
        if (!cache->reported && cache->store && mr_store_trouble(cache->store, text, sizeof text)) {
            cache->reported = true;
            if (log->write) {
                log->write(log->user, text);
            }
        }
    }
}

void mr_caches_stats(const mr_caches *caches, int32_t i, mr_cache_stats *out) {
    const mr_cache *cache = &caches->list[i];
    mr_store_counts counts = {0};
    if (cache->store) {
        mr_store_counts_get(cache->store, &counts);
    }
    const mr_cache_stats stats = {
        .size = (uint32_t)sizeof stats,
        .op = cache->op,
        .path = cache->store ? mr_store_path(cache->store) : NULL,
        .hits = cache->hits,
        .misses = cache->misses,
        .waits = cache->waits,
        .bytes_read = cache->bytes,
        .stored = counts.stored,
        .bytes_stored = counts.stored_bytes,
        .evicted = counts.evicted,
        .refused = counts.refused,
        .damaged = counts.damaged,
    };
    size_t known = out->size < sizeof stats ? out->size : sizeof stats;
    uint32_t size = out->size;
    memcpy(out, &stats, known);
    out->size = size;
}

/* ---- Identity ---- */
/* Where ops before a cache read labels or names, these name the sample too. False: there is no room
 * for them. */
static bool add_rest(const mr_caches *caches, int64_t sample, uint64_t words[2]) {
    enum { ROOM = 1024 };
    const mr_pipeline *p = caches->pipeline;
    mr_view fields[MR_MAX_FIELDS];
    _Alignas(64) unsigned char memory[ROOM];
    size_t used = 0;
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        int64_t bytes = mr_type_bytes(&p->slots[f].type);
        bool fixed = bytes >= 0;
        fields[f] = (mr_view){.type = p->slots[f].type, .size = fixed ? (size_t)bytes : 0};
        fields[f].data = fixed ? memory + used : NULL;
        used += fields[f].size;
        if (used > ROOM) {
            return false;
        }
    }
    if (p->source->fill(caches->source_state, sample, NULL, 0, fields, NULL) < 0) {
        return false;
    }
    for (int32_t f = 1; f < p->n_source_fields; f++) {
        words[0] = mr_hash64(fields[f].data, fields[f].size, words[0]);
        words[1] = mr_hash64(fields[f].data, fields[f].size, ~words[1]);
    }
    return true;
}

void mr_caches_identify(const mr_caches *caches, int64_t sample, mr_identity *identity) {
    const mr_pipeline *p = caches->pipeline;
    identity->asked = true;
    identity->known = p->source->identify(caches->source_state, sample, identity->words);
    if (identity->known && p->reads_rest && p->source->locate) {
        identity->known = add_rest(caches, sample, identity->words);
    }
}

/* A store that has the last cache's value has all that is needed; an earlier cache's also saves
 * the read. */
bool mr_caches_have(mr_caches *caches, int64_t sample, mr_identity *identity) {
    struct mr_cache_probe *probe = caches->probe;
    bool have = false;
    mr_caches_identify(caches, sample, identity);
    if (!identity->known) {
        return false;
    }
    pthread_mutex_lock(&probe->lock);
    for (int32_t i = caches->n - 1; i >= 0 && !have; i--) {
        mr_store_key key = mr_store_key_of(caches->list[i].node->prefix, identity->words);
        have = probe->readers[i] && mr_store_has(probe->readers[i], &key);
    }
    pthread_mutex_unlock(&probe->lock);
    return have;
}
