/* SPDX-License-Identifier: Apache-2.0 */
/* chain.h - one worker's way from a sample's bytes to its slots in a batch: the source's fill, then
 * every op in order. The last op of a delivered field writes straight into the batch. */
#ifndef MR_RUN_CHAIN_H
#define MR_RUN_CHAIN_H

#include "core/memory.h"
#include "run/ring/batch.h"
#include "run/child.h"
#include "run/read/dataset.h"
#include "run/cache/memo.h"
#include "run/cache/recall.h"
#include "span/track.h"

struct mr_kernels;

/* How large an op's results were. Fused, that is more than what it made of them. */
typedef struct mr_sizes {
    int64_t n;
    double bytes;
} mr_sizes;

/* Ops that work on several fields, of the sample at hand: what the first of them was given and
 * gave. */
typedef struct mr_alike {
    const mr_op_node *first; /* NULL: none ran yet */
    mr_type in, out;
} mr_alike;

typedef struct mr_chain {
    const mr_pipeline *pipeline;
    const mr_dataset *dataset;
    const struct mr_kernels *kernels;
    uint64_t seed;
    int64_t first_sample; /* see child.h; for the track alone */
    mr_track *track;      /* what this worker records about itself */
    int32_t n_ops;        /* those on samples */
    void **op_states;
    mr_call *calls;         /* one per op, set anew for each sample */
    mr_alike *alike;        /* one per group of ops */
    mr_sizes *sizes;        /* one per op, of its results where it is fused */
    mr_arena data;          /* what lives for a sample: intermediate results */
    mr_arena scratch;       /* what lives for one op's run */
    int32_t *delivered_as;  /* variable to delivered field, or -1 */
    int32_t *last_op;       /* of a variable, or -1 */
    int32_t *kept_by;       /* the last cache that keeps the variable, or -1 */
    int64_t *fixed_bytes;   /* of a variable as it is first filled, or -1: varies */
    int32_t *wanted_fields; /* of the source: variables in order */
    int32_t n_wanted;
    mr_view
        *values; /* of the sample at hand, one per variable; those that nobody wants stay empty */
    mr_view *inputs;   /* of an op on whole samples, or of a cache */
    bool gathers;      /* many samples at once: see mr_chain_gather */
    bool borrows;      /* all of a batch at once, in memory of the source's where it lends that */
    mr_column *to;     /* where to */
    bool takes_rows;   /* every op can take many samples at once: see mr_chain_run_rows */
    int32_t enter;     /* the op at which a stream's samples are kept; -1: none. See enter.h */
    mr_caches *caches; /* NULL: none */
    mr_recall recall;  /* what they have */
    mr_memory memory;
} mr_chain;

typedef struct mr_chain_job {
    int64_t sample; /* the child's own number */
    int32_t child;
    uint32_t epoch;
    const mr_block *block; /* NULL where there is none, or none yet: see fetch */
    mr_batch *batch;       /* NULL: for the stores alone, up to the last cache */
    int64_t slot;
    mr_identity identity; /* asked for where the pipeline has caches */
    mr_identity abroad;   /* what names its block for other machines, where there is a fabric */
    const void *record;   /* (optional) the sample as it is at the last cache, from a fabric */
    size_t record_size;
    bool is_own_record; /* from our own store, read from its disk */
    const void *made;   /* (optional) the sample as it is at chain->enter */
    size_t made_size;
    bool packs;   /* the sample is wanted as it is there: packed, freed by the caller */
    void *packed; /* NULL: it was not, or there was no memory */
    size_t packed_size;
    bool lends;  /* what the source points at stays until the batch is sealed */
    bool offers; /* its bytes were read here: a fabric is offered what is made of them */
    /* (optional) Reads the block now: it was expected in a store, and is not there. */
    mr_status (*fetch)(void *user, struct mr_chain_job *job, mr_error *err);
    bool (*is_stopped)(void *user); /* (optional) */
    /* (optional) Somebody else is making the sample: makes another one for the stores, with
     * mr_chain_prepare. False: there was none to make. */
    bool (*help)(void *user, const struct mr_chain_job *job);
    void *user;
    int64_t batch_number; /* in the run */
} mr_chain_job;

/* mr_chain_close is due even if opening failed; a zeroed chain may be closed. */
mr_status mr_chain_open(mr_chain *chain, mr_child *child, const struct mr_kernels *kernels,
                        mr_track *track, mr_error *err);
void mr_chain_close(mr_chain *chain);

mr_status mr_chain_run(mr_chain *chain, mr_chain_job *job, mr_error *err);

/* Where chain.gathers: samples for n slots from the first on, at most MR_SPAN_MOST_ROWS, without a
 * word of each. What goes wrong has left nothing behind; make them one by one then. */
mr_status mr_chain_gather(mr_chain *chain, mr_batch *batch, int64_t batch_number,
                          const mr_block *const *blocks, const int64_t *samples, int64_t first,
                          int64_t n, mr_error *err);

/* Where chain.takes_rows: all ops on n samples at once. columns has one entry for each variable;
 * those of the source's wanted fields hold the samples' values, dense, and a field that no op
 * changes may lie in the batch already. Delivered fields come to lie in the batch's slots from
 * `first` on. */
mr_status mr_chain_run_rows(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n,
                            mr_column *columns, mr_error *err);

/* The ops on batches, when all samples are made. Children of a mix have the same: any of them. */
mr_status mr_chain_run_batch(mr_chain *chain, mr_batch *batch, int64_t batch_number, mr_error *err);

/* Whether no sample of the pipeline is changed behind the source, so that a batch may have the
 * source's memory. */
bool mr_chain_may_borrow(const mr_pipeline *pipeline, const mr_dataset *dataset);

/* Makes a sample for the stores alone; the job has no batch. MR_LATER: it is there, or somebody is
 * at it. */
mr_status mr_chain_prepare(mr_chain *chain, mr_chain_job *job, mr_error *err);

/* The type an op gives for a concrete input. */
mr_status mr_op_output_type(const mr_op_class *op, const void *params, mr_call *call,
                            const mr_view *in, mr_type *out, mr_error *err);

/* What an example is fed, as op.h says; out->data is freed by the caller, also after a failure. */
mr_status mr_example_input(const char *input, mr_view *out, mr_error *err);

/* ---- For the files of this folder ---- */
/* As tracks count ops: over all children of a mix. */
static inline int32_t mr_chain_op_number(const mr_chain *chain, int32_t i) {
    return chain->pipeline->first_op + i;
}

/* Whether the source has run the i-th op already: see run/read/mapping.h. */
static inline bool mr_chain_is_done(const mr_chain *chain, int32_t i) {
    return chain->dataset->mapping && chain->dataset->mapping->done[i];
}

/* What the source or an op on whole samples puts into a variable. */
static inline const mr_type *mr_chain_variable_type(const mr_chain *chain, int32_t variable) {
    const mr_mapping *mapping = chain->dataset->mapping;
    return mapping && mapping->is_mapped[variable] ? &mapping->types[variable]
                                                   : &chain->pipeline->variables[variable].type;
}

/* Makes calls[i] one for the job's sample. */
void mr_chain_set_call(mr_chain *chain, const mr_chain_job *job, int32_t i);
mr_status mr_chain_call_sample(mr_chain *chain, int32_t i, const mr_view *in, mr_view *out,
                               mr_error *err);

/* ---- For recall.c ---- */
/* Where a value of this type goes: the batch if it is the field's last word, else our memory. */
mr_status mr_chain_destination(mr_chain *chain, const mr_chain_job *job, int32_t field, bool last,
                               mr_view *out, mr_error *err);

/* What the source says of an entry besides its value, which is marked as not wanted. */
mr_status mr_chain_fill_said(mr_chain *chain, const mr_chain_job *job, mr_view *fields,
                             mr_error *err);

/* The source's fields that a cache does not keep. */
mr_status mr_chain_fill_rest(mr_chain *chain, const mr_chain_job *job, const mr_op_node *cache,
                             mr_view *fields, mr_error *err);

#endif
