/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - batches, the pool they come from, and putting samples into them.
 *
 * A pool knows the layout of its batches: one block of memory per batch with a 64-byte aligned
 * array per dense field. Batches hold a reference to the pool, so they may outlive the loader. How
 * values of varying size get into their array is told in batch_parts.h. */
#ifndef MR_RUN_BATCH_H
#define MR_RUN_BATCH_H

#include <millrace/source.h>

#include "plan/pipeline.h"

typedef struct mr_pool mr_pool;

typedef struct mr_pool_config {
    const mr_pipeline *pipeline;
    int64_t capacity; /* samples in a full batch of this rank */
    bool digest, poison;
    uint32_t keep; /* idle batches kept for reuse */
    mr_allocator allocator;
} mr_pool_config;

mr_status mr_pool_new(mr_pool **out, const mr_pool_config *config, mr_error *err);
void mr_pool_unref(mr_pool *pool);
int64_t mr_pool_batch_bytes(const mr_pool *pool); /* dense part of a full batch */
bool mr_pool_has_idle(mr_pool *pool);             /* or the next batch needs new memory */

/* An empty batch for `count` samples; mr_batch_samples is for the caller to fill. */
mr_status mr_pool_take(mr_pool *pool, int64_t count, mr_batch **out, mr_error *err);

void mr_batch_place(mr_batch *batch, int64_t epoch, int64_t step, int64_t valid);
int64_t *mr_batch_samples_mutable(mr_batch *batch);

bool mr_batch_is_ragged(const mr_batch *batch, int32_t field); /* field: index among delivered */

/* Do bytes lie in their place for a sample? */
bool mr_batch_has(mr_batch *batch, int32_t field, int64_t i, const void *data);

/* Where a dense field of a sample goes. */
void *mr_batch_slot(mr_batch *batch, int32_t field, int64_t i);

/* Whether the pool's batches may have memory that is not of its allocator. */
bool mr_pool_borrows(const mr_pool *pool);

/* A dense field of all samples lies in memory that is lent: its slots are there from now on. The
 * batch gives it back when nobody holds the batch any more, or with mr_batch_return. */
void mr_batch_borrow(mr_batch *batch, int32_t field, const mr_loan *loan);
void mr_batch_return(mr_batch *batch);

/* A piece of memory for a sample of a ragged field, or NULL. */
void *mr_batch_piece(mr_batch *batch, int32_t field, int64_t i, const mr_type *type);

/* A sample of a ragged field that lies elsewhere until the batch is sealed, and is copied once,
 * then.
 */
void mr_batch_lend(mr_batch *batch, int32_t field, int64_t i, const mr_view *value);

/* Makes the arrays of a field whose values vary in size, before the batch is sealed. */
mr_status mr_batch_collate(mr_batch *batch, const mr_collation *how, const mr_op_node *node,
                           mr_call *call, mr_error *err);

/* Gives back what a failed attempt at a sample left behind. */
void mr_batch_clear_sample(mr_batch *batch, int64_t i);

/* Notes that sample i is complete (its digest). */
void mr_batch_sample_done(mr_batch *batch, int64_t i);

/* The same for n of them. */
void mr_batch_rows_done(mr_batch *batch, int64_t first, int64_t n);

/* After the last sample: joins ragged pieces, makes the digest. One thread. */
mr_status mr_batch_seal(mr_batch *batch, mr_error *err);

/* 128-bit digest of a sealed batch; zero where digests are off. */
void mr_batch_digest_words(const mr_batch *batch, uint64_t out[2]);

#endif
