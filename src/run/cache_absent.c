/* SPDX-License-Identifier: Apache-2.0 */
/* cache_absent.c - stands for cache.c and recall.c in a build without LMDB, where no pipeline can
 * have a cache: there is nothing to open, to find or to keep. */
#include "run/cache.h"
#include "run/recall.h"

mr_status mr_caches_open(mr_caches *caches, const mr_pipeline *pipeline, const void *source_state,
                         uint32_t world, const mr_log *log, mr_error *err) {
    (void)world;
    (void)log;
    (void)err;
    caches->pipeline = pipeline;
    caches->source_state = source_state;
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

bool mr_caches_have(mr_caches *caches, int64_t sample, mr_identity *identity) {
    (void)caches;
    (void)sample;
    (void)identity;
    return false;
}

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
