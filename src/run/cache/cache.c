/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - see cache.h. */
#include "run/cache/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/cache/cache_choice.h"
#include "run/cache/fetch.h"
#include "run/read/intake.h"
#include "run/cache/memo.h"

/* Readers of their own for the threads that ask ahead; these ask rarely, and share them. */
struct mr_cache_asker {
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
    cache->keeps = params->keep == MR_KEEP_SAMPLES;
    if (mr_store_open(&cache->store, params, log, &failure) < 0) {
        cache->store = NULL;
        say(log, &failure);
        return;
    }
    describe_way(p, op, text, sizeof text);
    const mr_store_plan plan = {cache->node->prefix, text, world == 1};
    cache->plan = mr_store_join(cache->store, &plan);
}

static mr_status open_asker(mr_caches *caches, mr_error *err) {
    struct mr_cache_asker *asker = mr_zalloc(1, sizeof *asker);
    if (!asker) {
        return mr_fail_memory(err, sizeof *asker);
    }
    caches->asker = asker;
    caches->fetch = caches->last >= 0 ? mr_fetch_new() : NULL;
    pthread_mutex_init(&asker->lock, NULL);
    asker->readers = mr_zalloc((size_t)caches->n, sizeof *asker->readers);
    if (!asker->readers) {
        return mr_fail_memory(err, (size_t)caches->n * sizeof *asker->readers);
    }
    for (int32_t i = 0; i < caches->n; i++) {
        mr_store *store = caches->list[i].keeps ? caches->list[i].store : NULL;
        asker->readers[i] = store ? mr_store_reader_new(store) : NULL;
    }
    return MR_OK;
}

static void find_keepers(mr_caches *caches) {
    for (int32_t i = 0; i < caches->n; i++) {
        const mr_cache *cache = &caches->list[i];
        caches->parts = caches->parts || (cache->keeps && cache->op > 0);
        caches->last = cache->keeps ? i : caches->last;
    }
}

mr_status mr_caches_open(mr_caches *caches, const mr_pipeline *p, const mr_dataset *dataset,
                         const mr_caches_config *config, const mr_log *log, mr_error *err) {
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_ops && !p->is_stream; i++) { /* a stream's: chain/enter.h */
        n += mr_op_is_cache(&p->ops[i]);
    }
    caches->pipeline = p;
    caches->dataset = dataset;
    caches->last = -1;
    if (n == 0) {
        return MR_OK;
    }
    caches->list = mr_zalloc((size_t)n, sizeof *caches->list);
    if (!caches->list) {
        return mr_fail_memory(err, (size_t)n * sizeof *caches->list);
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (mr_op_is_cache(&p->ops[i])) {
            open_cache(&caches->list[caches->n++], p, i, config->world, log);
        }
    }
    mr_caches_choose(caches, config);
    find_keepers(caches);
    mr_memos_open(caches, config->world);
    return open_asker(caches, err);
}

static void close_asker(const mr_caches *caches) {
    struct mr_cache_asker *asker = caches->asker;
    if (!asker) {
        return;
    }
    for (int32_t i = 0; asker->readers && i < caches->n; i++) {
        mr_store_reader_free(asker->readers[i]);
    }
    pthread_mutex_destroy(&asker->lock);
    mr_free(asker->readers);
    mr_free(asker);
}

void mr_caches_close(mr_caches *caches) {
    mr_fetch_free(caches->fetch);
    close_asker(caches);
    mr_caches_flush(caches); /* while plans still count */
    mr_memos_close(caches);
    for (int32_t i = 0; i < caches->n; i++) {
        mr_cache *cache = &caches->list[i];
        if (cache->store) {
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

static const char *kept_by(const mr_cache *cache) {
    return cache->is_left_out ? "nothing"
           : !cache->store    ? NULL
           : cache->keeps     ? "samples"
                              : "index";
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
        .kept = kept_by(cache),
    };
    size_t known = out->size < sizeof stats ? out->size : sizeof stats;
    uint32_t size = out->size;
    memcpy(out, &stats, known);
    out->size = size;
}

/* ---- Identity ---- */
static bool hash_rest(const mr_caches *caches, int64_t sample, mr_view *fields, uint64_t words[2]) {
    enum { ROOM = 1024 };
    const mr_pipeline *p = caches->pipeline;
    _Alignas(64) unsigned char memory[ROOM];
    size_t used = 0;
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        int64_t bytes = mr_type_bytes(&p->variables[f].type);
        bool fixed = bytes >= 0;
        fields[f] = (mr_view){.type = p->variables[f].type, .size = fixed ? (size_t)bytes : 0};
        fields[f].data = fixed ? memory + used : NULL;
        used += fields[f].size;
        if (used > ROOM) {
            return false;
        }
    }
    if (mr_dataset_fill(caches->dataset, NULL, sample, fields, NULL) < 0) {
        return false;
    }
    for (int32_t f = 1; f < p->n_source_fields; f++) {
        words[0] = mr_hash64(fields[f].data, fields[f].size, words[0]);
        words[1] = mr_hash64(fields[f].data, fields[f].size, ~words[1]);
    }
    return true;
}

/* Where ops before a cache read labels or names, these name the sample too. False: there is no room
 * for them. */
static bool add_rest(const mr_caches *caches, int64_t sample, uint64_t words[2]) {
    mr_view *fields = mr_zalloc((size_t)caches->pipeline->n_source_fields, sizeof *fields);
    bool known = fields && hash_rest(caches, sample, fields, words);
    mr_free(fields);
    return known;
}

void mr_caches_identify(const mr_caches *caches, int64_t sample, mr_identity *identity) {
    const mr_pipeline *p = caches->pipeline;
    identity->asked = true;
    identity->known = mr_dataset_identify(caches->dataset, sample, identity->words);
    if (identity->known && p->reads_rest && mr_source_fills_rest(p->source)) {
        identity->known = add_rest(caches, sample, identity->words);
    }
}

/* ---- As an origin ---- */
/* A store that has the last cache's value has all that is needed; an earlier cache's also saves
 * the read. */
static bool have(const mr_caches *caches, const mr_identity *identity, int32_t last) {
    struct mr_cache_asker *asker = caches->asker;
    bool found = false;
    if (!identity->known) {
        return false;
    }
    pthread_mutex_lock(&asker->lock);
    for (int32_t i = last; i >= 0 && !found; i--) {
        mr_store_key key = mr_store_key_of(caches->list[i].node->prefix, identity->words);
        found = asker->readers[i] && mr_store_has(asker->readers[i], &key);
    }
    pthread_mutex_unlock(&asker->lock);
    return found;
}

/* What the last cache has of a sample that is a block of its own. Values on disk are read ahead. */
static mr_answer ask_last(const mr_caches *caches, mr_load *load) {
    const mr_cache *last = &caches->list[caches->last];
    struct mr_cache_asker *asker = caches->asker;
    mr_store_location location;
    if (!load->identity.known || !asker->readers[caches->last]) {
        return MR_ANSWER_NOT_HERE;
    }
    mr_store_key key = mr_store_key_of(last->node->prefix, load->identity.words);
    pthread_mutex_lock(&asker->lock);
    mr_value_place place = mr_store_where(asker->readers[caches->last], &key, &location);
    pthread_mutex_unlock(&asker->lock);
    if (place == MR_VALUE_ON_DISK) {
        if (mr_fetch_later(caches->fetch, load, last->store, &location)) {
            return MR_ANSWER_LATER;
        }
        mr_store_let_go(last->store, &location);
    }
    return place == MR_VALUE_ABSENT ? MR_ANSWER_NOT_HERE : MR_ANSWER_KEPT;
}

static mr_answer ask_sample(const mr_caches *caches, mr_load *load) {
    mr_caches_identify(caches, load->block.first, &load->identity);
    mr_answer answer = ask_last(caches, load);
    if (answer == MR_ANSWER_NOT_HERE && have(caches, &load->identity, caches->last - 1)) {
        answer = MR_ANSWER_KEPT;
    }
    return answer;
}

/* A block is kept when all of its samples are. */
static mr_answer ask(void *state, mr_load *load) {
    const mr_caches *caches = state;
    int64_t first = load->block.first, end = mr_dataset_end_of(load->dataset, load->block.number);
    bool found = true;
    if (!mr_dataset_has_blocks(load->dataset)) {
        return ask_sample(caches, load);
    }
    for (int64_t sample = first; found && sample < end; sample++) {
        mr_identity identity = {.asked = false};
        mr_caches_identify(caches, sample, &identity);
        found = have(caches, &identity, caches->n - 1);
    }
    return found ? MR_ANSWER_KEPT : MR_ANSWER_NOT_HERE;
}

static void stop_asking(void *state) {
    const mr_caches *caches = state;
    mr_fetch_stop(caches->fetch);
}

static void end_asking(void *state) {
    const mr_caches *caches = state;
    mr_fetch_end(caches->fetch);
}

const mr_origin_class mr_store_origin = {
    .name = "store", .ask = ask, .stop = stop_asking, .end = end_asking};
