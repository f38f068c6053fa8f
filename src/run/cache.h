/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - a pipeline's caches at work: each of its cache ops with the store behind it. */
#ifndef MR_RUN_CACHE_H
#define MR_RUN_CACHE_H

#include <stdatomic.h>

#include "plan/pipeline.h"
#include "run/stores.h"

typedef struct mr_cache {
    const mr_op_node *node;
    int32_t op;      /* its place in the pipeline */
    mr_store *store; /* NULL: it could not be opened */
    int32_t plan;    /* see mr_store_join */
    int32_t packing;
    bool reported;
    _Atomic int64_t hits, misses, waits, bytes;
    _Atomic int64_t tired_until; /* waits for nobody before this time */
} mr_cache;

typedef struct mr_caches {
    const mr_pipeline *pipeline;
    const void *source_state;
    mr_cache *list;
    int32_t n;
    struct mr_cache_probe *probe; /* the readers', see mr_caches_have */
} mr_caches;

/* Opens the stores. One that cannot be opened is reported and left out: the run goes on. */
mr_status mr_caches_open(mr_caches *caches, const mr_pipeline *pipeline, const void *source_state,
                         uint32_t world, const mr_log *log, mr_error *err);
void mr_caches_close(mr_caches *caches); /* a zeroed one may be closed */
void mr_caches_epoch(mr_caches *caches); /* another epoch begins */
void mr_caches_flush(const mr_caches *caches);
void mr_caches_report(mr_caches *caches, const mr_log *log);
void mr_caches_stats(const mr_caches *caches, int32_t i, mr_cache_stats *out);

/* What names a sample for the stores. */
typedef struct mr_identity {
    bool asked, known;
    uint64_t words[2];
} mr_identity;

void mr_caches_identify(const mr_caches *caches, int64_t sample, mr_identity *identity);

/* Does a store have the sample, so that it need not be read? Any thread. */
bool mr_caches_have(mr_caches *caches, int64_t sample, mr_identity *identity);

#endif
