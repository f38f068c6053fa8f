/* SPDX-License-Identifier: Apache-2.0 */
/* cache_absent.c - stands for cache.c, exchange_sample.c, keep.c, memo.c and recall.c in a build
 * without LMDB, where no pipeline can have a cache: there is nothing to open, to find or to keep.
 */
#include "run/cache/cache.h"
#include "run/read/exchange.h"
#include "run/cache/keep.h"
#include "run/cache/memo.h"
#include "run/cache/recall.h"

mr_status mr_caches_open(mr_caches *caches, const mr_pipeline *pipeline, const mr_dataset *dataset,
                         const mr_caches_config *config, const mr_log *log, mr_error *err) {
    (void)config;
    (void)log;
    (void)err;
    caches->pipeline = pipeline;
    caches->dataset = dataset;
    return MR_OK;
}

void mr_caches_close(mr_caches *caches) {
    (void)caches;
}

void mr_caches_epoch(mr_caches *caches) {
    (void)caches;
}

void mr_caches_flush(const mr_caches *caches) {
    (void)caches;
}

void mr_caches_report(mr_caches *caches, const mr_log *log) {
    (void)caches;
    (void)log;
}

void mr_caches_stats(const mr_caches *caches, int32_t i, mr_cache_stats *out) {
    (void)caches;
    (void)i;
    (void)out;
}

static mr_answer ask(void *state, struct mr_load *load) {
    (void)state;
    (void)load;
    return MR_ANSWER_NOT_HERE;
}

static void leave_be(void *state) {
    (void)state;
}

const mr_origin_class mr_store_origin = {
    .name = "store", .ask = ask, .stop = leave_be, .end = leave_be};

mr_status mr_recall_open(mr_recall *recall, mr_caches *caches, mr_error *err) {
    (void)recall;
    (void)caches;
    (void)err;
    return MR_OK;
}

void mr_recall_close(mr_recall *recall) {
    (void)recall;
}

mr_status mr_recall_find(struct mr_chain *chain, struct mr_chain_job *job, mr_view *fields,
                         int32_t *start, mr_error *err) {
    (void)chain;
    (void)job;
    (void)fields;
    (void)start;
    (void)err;
    return MR_OK;
}

void mr_recall_keep(struct mr_chain *chain, const struct mr_chain_job *job, int32_t op,
                    const mr_view *fields) {
    (void)chain;
    (void)job;
    (void)op;
    (void)fields;
}

void mr_recall_end(mr_recall *recall) {
    (void)recall;
}

mr_keep *mr_keep_new(const char *source, const mr_log *log) {
    (void)source;
    (void)log;
    return NULL;
}

void mr_keep_free(mr_keep *keep) {
    (void)keep;
}

const mr_keeper *mr_keep_keeper(mr_keep *keep) {
    (void)keep;
    return NULL;
}

void mr_memory_open(mr_memory *memory, const mr_caches *caches) {
    (void)memory;
    (void)caches;
}

void mr_memory_close(mr_memory *memory) {
    (void)memory;
}

mr_memo *mr_memory_find(struct mr_chain *chain, struct mr_chain_job *job, int32_t i) {
    (void)chain;
    (void)job;
    (void)i;
    return NULL;
}

void mr_memory_keep(struct mr_chain *chain, int32_t i) {
    (void)chain;
    (void)i;
}

mr_store_key mr_exchange_key(const mr_dataset *dataset, const mr_op_node *cache,
                             const mr_identity *abroad, int64_t sample) {
    (void)dataset;
    (void)cache;
    (void)abroad;
    (void)sample;
    return (mr_store_key){{0}};
}
