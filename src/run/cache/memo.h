/* SPDX-License-Identifier: Apache-2.0 */
/* memo.h - what the op that is given a sample's bytes found out about them (mr_memo in op.h), kept
 * in the store of a cache before it: the row index of a JPEG, for instance.
 *
 * It is named by the sample and by the op's name and version alone, so that pipelines share it,
 * whatever else they do. What is found may be of bytes that changed meanwhile: the op sees that. */
#ifndef MR_RUN_MEMO_H
#define MR_RUN_MEMO_H

#include "run/cache/cache.h"

struct mr_chain;
struct mr_chain_job;

/* One worker's. */
typedef struct mr_memory {
    mr_store_reader *reader; /* NULL: nothing is kept */
    mr_store_key key;
    mr_memo memo;
    bool is_named; /* the sample at hand has a key */
} mr_memory;

/* The op that is given a sample's bytes as the source has them, if it remembers; or -1. */
int32_t mr_memos_op(const mr_pipeline *pipeline);

/* Which cache's store, and for which op; nothing where no cache stands before such an op. */
void mr_memos_open(mr_caches *caches, uint32_t world);
void mr_memos_close(mr_caches *caches); /* before the stores */

void mr_memory_open(mr_memory *memory, const mr_caches *caches);
void mr_memory_close(mr_memory *memory);

/* Before the i-th op runs: what its call is given; NULL: nothing is kept of this op. */
mr_memo *mr_memory_find(struct mr_chain *chain, struct mr_chain_job *job, int32_t i);

/* After it ran well, while what it found is still there. */
void mr_memory_keep(struct mr_chain *chain, int32_t i);

#endif
