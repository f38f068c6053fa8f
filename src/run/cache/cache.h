/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - a pipeline's caches at work: each of its cache ops with the store behind it. */
#ifndef MR_RUN_CACHE_H
#define MR_RUN_CACHE_H

#include <stdatomic.h>

#include "plan/pipeline.h"
#include "run/read/dataset.h"
#include "run/read/origin.h"
#include "run/cache/stores.h"

typedef struct mr_cache {
    const mr_op_node *node;
    int32_t op;      /* its place in the pipeline */
    mr_store *store; /* NULL: it could not be opened */
    int32_t plan;    /* see mr_store_join */
    int32_t packing;
    bool is_left_out; /* another one pays more */
    bool keeps;       /* samples; else nothing, or what memo.h keeps */
    bool reported;
    _Atomic int64_t hits, misses, waits, bytes;
    _Atomic int64_t tired_until; /* waits for nobody before this time */
} mr_cache;

/* See memo.h. */
typedef struct mr_memos {
    mr_cache *cache; /* in whose store they are; NULL: none are kept */
    int32_t op;
    mr_hash128 prefix;
    int32_t plan;
    _Atomic int64_t hits, misses;
} mr_memos;

/* What the choice between caches depends on, beside the dataset: see plan/keep.h. */
typedef struct mr_caches_config {
    uint32_t world, threads;
    int64_t epochs;
} mr_caches_config;

typedef struct mr_caches {
    const mr_pipeline *pipeline;
    const mr_dataset *dataset;
    mr_cache *list;
    int32_t n;
    int32_t last; /* that keeps samples; -1: none does */
    bool parts;   /* ops, which therefore do not run fused: a cache behind ops keeps samples */
    mr_memos memos;
    struct mr_cache_asker *asker; /* the readers', see mr_store_origin */
    struct mr_fetch *fetch;       /* likewise; NULL: nothing is read ahead from a disk */
    struct mr_exchange *exchange; /* (optional) that is offered what was made: the loader's */
    struct mr_peers *peers;       /* likewise */
} mr_caches;

/* Opens the stores. One that cannot be opened is reported and left out: the run goes on. */
mr_status mr_caches_open(mr_caches *caches, const mr_pipeline *pipeline, const mr_dataset *dataset,
                         const mr_caches_config *config, const mr_log *log, mr_error *err);
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

/* What the stores of a pipeline have of its loads need not be read; its state is the mr_caches. */
extern const mr_origin_class mr_store_origin;

#endif
