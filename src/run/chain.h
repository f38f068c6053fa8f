/* SPDX-License-Identifier: Apache-2.0 */
/* chain.h - one worker's way from a sample's bytes to its slots in a batch: the source's fill, then
 * every op in order. The last op of a delivered field writes straight into the batch. */
#ifndef MR_RUN_CHAIN_H
#define MR_RUN_CHAIN_H

#include "core/memory.h"
#include "run/batch.h"
#include "run/recall.h"
#include "span/track.h"

struct mr_kernels;

/* How large an op's results were. In a stream that is more than what it made of them. */
typedef struct mr_sizes {
    int64_t n;
    double bytes;
} mr_sizes;

typedef struct mr_chain {
    const mr_pipeline *pipeline;
    const void *source_state;
    const struct mr_kernels *kernels;
    uint64_t seed;
    mr_track *track; /* what this worker records about itself */
    void **op_states;
    mr_call *calls;                     /* one per op, set anew for each sample */
    mr_sizes *sizes;                    /* one per op, of its results in streams */
    mr_arena data;                      /* what lives for a sample: intermediate results */
    mr_arena scratch;                   /* what lives for one op's run */
    int32_t delivered_as[MR_MAX_SLOTS]; /* slot to delivered field, or -1 */
    int32_t last_op[MR_MAX_SLOTS];      /* of a slot, or -1 */
    int32_t kept_by[MR_MAX_SLOTS];      /* the last cache that keeps the slot, or -1 */
    int64_t fixed_bytes[MR_MAX_SLOTS];  /* of a slot as it is first filled, or -1: varies */
    bool gathers;                       /* many samples at once: see mr_chain_gather */
    mr_recall recall;                   /* its caches */
} mr_chain;

typedef struct mr_chain_job {
    int64_t sample;
    uint32_t epoch;
    const void *bytes; /* NULL where there are none, or none yet: see fetch */
    size_t n_bytes;
    mr_batch *batch; /* NULL: for the stores alone, up to the last cache */
    int64_t slot;
    mr_identity identity; /* asked for where the pipeline has caches */
    /* (optional) Reads the sample now: it was expected in a store, and is not there. */
    mr_status (*fetch)(void *user, struct mr_chain_job *job, mr_error *err);
    bool (*is_stopped)(void *user); /* (optional) */
    /* (optional) Somebody else is making the sample: makes another one for the stores, with
     * mr_chain_prepare. False: there was none to make. */
    bool (*help)(void *user, const struct mr_chain_job *job);
    void *user;
    int64_t batch_number; /* in the run */
} mr_chain_job;

/* mr_chain_close is due even if opening failed; a zeroed chain may be closed. */
mr_status mr_chain_open(mr_chain *chain, const mr_pipeline *pipeline, const void *source_state,
                        const struct mr_kernels *kernels, uint64_t seed, mr_caches *caches,
                        mr_track *track, mr_error *err);
void mr_chain_close(mr_chain *chain);

mr_status mr_chain_run(mr_chain *chain, mr_chain_job *job, mr_error *err);

/* Where chain.gathers: the samples in n slots from the first on, without a word of each. What goes
 * wrong has left nothing behind; make them one by one then. */
mr_status mr_chain_gather(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n,
                          mr_error *err);

/* Makes a sample for the stores alone; the job has no batch. MR_LATER: it is there, or somebody is
 * at it. */
mr_status mr_chain_prepare(mr_chain *chain, mr_chain_job *job, mr_error *err);

/* The type an op gives for a concrete input. */
mr_status mr_op_output_type(const mr_op_class *op, const void *params, mr_call *call,
                            const mr_view *in, mr_type *out, mr_error *err);

/* ---- For recall.c ---- */
/* Where a value of this type goes: the batch if it is the field's last word, else our memory. */
mr_status mr_chain_destination(mr_chain *chain, const mr_chain_job *job, int32_t field, bool last,
                               mr_view *out, mr_error *err);

/* The source's fields that a cache does not keep. */
mr_status mr_chain_fill_rest(mr_chain *chain, const mr_chain_job *job, const mr_op_node *cache,
                             mr_view *fields, mr_error *err);

#endif
