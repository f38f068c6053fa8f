/* SPDX-License-Identifier: Apache-2.0 */
/* recall.h - caches as a chain uses them: taking a sample up where a store has it, and keeping
 * what had to be made. */
#ifndef MR_RUN_RECALL_H
#define MR_RUN_RECALL_H

#include "run/cache/cache.h"

struct mr_chain;
struct mr_chain_job;

/* For each cache of the pipeline, in its order. */
typedef struct mr_recall_part {
    mr_store_reader *reader; /* NULL: there is no store */
    mr_store_key key;
    bool claimed;
    bool missed; /* the sample at hand was looked for, and is made */
} mr_recall_part;

typedef struct mr_recall {
    mr_caches *caches; /* NULL: the pipeline has none, or none with a store */
    mr_recall_part *parts;
    bool in_place; /* an op works on bytes where the store has them */
} mr_recall;

mr_status mr_recall_open(mr_recall *recall, mr_caches *caches, mr_error *err);
void mr_recall_close(mr_recall *recall);

/* *start becomes the cache op to go on from, its fields filled, or -1: nobody has the sample, and
 * this worker has claimed it. */
mr_status mr_recall_find(struct mr_chain *chain, struct mr_chain_job *job, mr_view *fields,
                         int32_t *start, mr_error *err);

/* At a cache op: keeps the sample if it was claimed. */
void mr_recall_keep(struct mr_chain *chain, const struct mr_chain_job *job, int32_t op,
                    const mr_view *fields);

/* The sample is done, well or not. */
void mr_recall_end(mr_recall *recall);

#endif
