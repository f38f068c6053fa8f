/* SPDX-License-Identifier: Apache-2.0 */
/* tune.h - which steps once and which in every epoch: writing prepared samples, and choosing where
 * to cut. Included by millrace.h's users who want it; the command's pack and tune are made of it.
 */
#ifndef MILLRACE_TUNE_H
#define MILLRACE_TUNE_H

#include <millrace/millrace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Cuts -----------------------------------------------------------------------------------
 * A cut is a number of ops of the document, counted from the first: what stands before it is done
 * once. Only what is the same in every epoch can be; so a cut lies before the first random op. */
MR_API int32_t mr_cut_last(const mr_pipeline *pipeline); /* the furthest that is allowed */

/* "source" (before all ops), a number of ops, or the name of an op: behind the last of that name
 * that can be done once. NULL: mr_cut_last. Says why not, where a cut is impossible. */
MR_API mr_status mr_cut_find(const mr_pipeline *pipeline, const char *upto, int32_t *out,
                             mr_error *err);

/* The part before a cut as a pipeline of its own: without shuffle, one epoch, all fields that the
 * rest may need. extra_ops as for mr_pipeline_parse. */
MR_API mr_status mr_cut_head(const mr_pipeline *pipeline, int32_t cut,
                             const mr_op_class *const *extra_ops, mr_pipeline **out, mr_error *err);

/* ---- Packs ----------------------------------------------------------------------------------
 * Samples as they are at a cut, in files that others read too. A pack is a folder: pack.json says
 * what is in it and is there from the start; shards are whole or not there; manifest.json comes
 * when all shards are. Which process makes which shard changes no byte. */
typedef enum mr_pack_format {
    MR_PACK_TAR, /* WebDataset: shard-000000.tar with DALI's index shard-000000.idx */
    MR_PACK_NPY  /* shard-000000.FIELD.npy for each field; all samples are of one size */
} mr_pack_format;

typedef enum mr_pack_compression { MR_PACK_PLAIN, MR_PACK_ZSTD, MR_PACK_LZ4 } mr_pack_compression;

#define MR_PACK_SHARD 1000 /* samples, where the caller does not say */

typedef struct mr_pack_options {
    uint32_t size;      /* sizeof(mr_pack_options): MR_PACK_OPTIONS_INIT sets it */
    const char *folder; /* made where it is missing; else it must be this very pack, or empty */
    const char *upto;   /* as mr_cut_find takes it */
    mr_pack_format format;
    int64_t shard;       /* samples in a shard; 0: MR_PACK_SHARD */
    int64_t part, parts; /* this call makes part `part` (from 0) of `parts`; 0 parts: all */
    uint32_t threads;    /* 0: one for each CPU */
    int64_t take;        /* only the first so many samples, for trying; 0: all */
    const mr_op_class *const *extra_ops; /* those that the pipeline was parsed with */
    mr_log log;                          /* (optional) */
    /* (optional) Samples that this call still had to make, and has made. False: stop. */
    bool (*progress)(void *user, int64_t made, int64_t wanted);
    void *user;
    mr_pack_compression compression; /* of whole tar shards, which then have no index */
} mr_pack_options;

#define MR_PACK_OPTIONS_INIT                                                                       \
    { .size = (uint32_t)sizeof(mr_pack_options) }

typedef struct mr_pack_result {
    uint32_t size;           /* sizeof(mr_pack_result), set by the caller */
    int64_t samples, shards; /* of the whole pack */
    int64_t made, found;     /* shards that this call made, and those of its part it found */
    int64_t part_left;       /* shards of this part that are missing still */
    int64_t left;            /* shards of all parts that are missing still */
    int64_t bytes;           /* of the shards that are there; the index files count */
    int64_t unpacked_bytes;  /* the same before they were compressed; 0: they are not */
    char digest[33];         /* over the digests of all samples; "" while shards are missing */
    char *document;          /* that loads the pack; NULL: no source of this build does, or
                                shards are missing. Freed with mr_free */
} mr_pack_result;

/* Fills *out also when it fails, as far as it came. Stopped or killed, it goes on when called
 * again. MR_E_STATE: the folder has a pack of something else, and the error says what differs. */
MR_API mr_status mr_pipeline_pack(const mr_pipeline *pipeline, const mr_pack_options *options,
                                  mr_pack_result *out, mr_error *err);

/* ---- Rewrites -------------------------------------------------------------------------------
 * Other orders of the ops that may be cheaper. Those that change no byte by what the ops are known
 * to do come as one; compare the digests before you believe it. Each of the others changes bytes.
 */
#define MR_REWRITES_MAX 16

typedef struct mr_rewrite {
    bool same_bytes;
    char text[160];
    char *document;
} mr_rewrite;

typedef struct mr_rewrites {
    uint32_t size; /* sizeof(mr_rewrites), set by the caller: as many as fit are given */
    int32_t n;
    mr_rewrite list[MR_REWRITES_MAX];
} mr_rewrites;

MR_API mr_status mr_rewrites_find(const mr_pipeline *pipeline, mr_rewrites *out, mr_error *err);
MR_API void mr_rewrites_free(mr_rewrites *rewrites);

/* ---- Choosing -------------------------------------------------------------------------------
 * Pure: measurements in, a choice out. A strategy is a cut and what is kept there. */
typedef enum mr_keep_kind {
    MR_KEEP_NOTHING,  /* all is done in every epoch */
    MR_KEEP_DISK,     /* the op cache, on disk */
    MR_KEEP_LZ4,      /* the same, packed by lz4 */
    MR_KEEP_ZSTD,     /* the same, packed by zstd */
    MR_KEEP_MEMORY,   /* the op cache in memory */
    MR_KEEP_TAR,      /* a pack of tar shards */
    MR_KEEP_NPY,      /* a pack of .npy shards */
    MR_KEEP_TAR_ZSTD, /* a pack of tar shards, compressed; in memory once it is loaded */
    MR_KEEP_TAR_LZ4,  /* likewise */
    MR_N_KEEP_KINDS
} mr_keep_kind;

MR_API const char *mr_keep_name(mr_keep_kind kind); /* "cache lz4", "pack tar" */

typedef struct mr_strategy {
    uint32_t size; /* sizeof(mr_strategy), in each of a list */
    int32_t cut;
    mr_keep_kind keep;
    uint32_t threads, reads;
    bool measured; /* else the figures count for nothing */

    /* Measured, and reckoned for the whole dataset. */
    double offline_seconds;     /* before the first epoch */
    double first_rate;          /* samples a second of an epoch that fills a store; 0: as `rate` */
    double rate;                /* samples a second of every other epoch, for a consumer that takes
                                   them at once */
    double first_batch_seconds; /* from opening the loader */
    double disk_bytes, memory_bytes;

    /* Filled by mr_tune_choose. */
    double total_seconds; /* of all epochs and what comes before */
    int64_t break_even;   /* the first epoch at whose end it took no longer than doing all each
                             time; -1: never */
    double score;         /* PRESTO's, where weights are given */
    bool over_cap;
} mr_strategy;

typedef struct mr_tune_goal {
    uint32_t size; /* sizeof(mr_tune_goal) */
    int64_t samples, epochs;
    double consumer;                         /* samples a second it can take; 0: any number */
    double disk_cap, memory_cap;             /* bytes; 0: none */
    double w_prepare, w_store, w_throughput; /* PRESTO's weights; all 0: the least total time */
} mr_tune_goal;

/* The place of the best strategy, or -1: none was measured and fits, or no memory is left. Without
 * weights: the least total time, and of those within 1 % of it the one that keeps the fewest bytes.
 */
MR_API int32_t mr_tune_choose(mr_strategy *list, int32_t n, const mr_tune_goal *goal);

/* What keeps anything made at make_rate at best takes at least so long. */
MR_API double mr_tune_least_seconds(const mr_tune_goal *goal, double make_rate);

#ifdef __cplusplus
}
#endif
#endif
