/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - a pipeline's source, opened: the only caller of source tables while a run goes on.
 *
 * Read-only once it is open, and shared by all threads. */
#ifndef MR_RUN_DATASET_H
#define MR_RUN_DATASET_H

#include "run/read/mapping.h"
#include "run/read/news.h"

/* What holds while a source is opened: see mr_wanted. Whoever opens it keeps the text. */
typedef struct mr_dataset_terms {
    const char *objects;
    uint32_t cpu;
} mr_dataset_terms;

typedef struct mr_dataset {
    const mr_source_class *class;
    void *state;
    mr_shape shape;
    int64_t *first;      /* shape.blocks + 1 first samples, or NULL: every sample is a block */
    mr_mapping *mapping; /* ops that the source runs; NULL: none */
    int32_t number, of;  /* which of the run's datasets it is */
    char fingerprint[33];
    mr_dataset_terms terms; /* that it was opened with */
    bool is_far;            /* some of its bytes lie on servers */
    mr_far_limits limits;   /* of what is asked of them */
    mr_news *news;          /* (streams) what advance said; its caller tells it */
    mr_log noting;          /* that writes to it */
} mr_dataset;

/* mr_dataset_close is due even if opening failed; a zeroed one may be closed. */
mr_status mr_dataset_open(mr_dataset *dataset, const mr_pipeline *pipeline,
                          const mr_dataset_terms *terms, const mr_log *log, mr_error *err);
void mr_dataset_close(mr_dataset *dataset);

/* Whether the pipeline's source can run ops on values, and on those of a field. */
bool mr_dataset_may_map(const mr_pipeline *pipeline);
bool mr_dataset_maps(const mr_pipeline *pipeline, int32_t field);

/* Opened for other fields than those that the pipeline wants, `wanted` of each, and for samples
 * that are taken one by one or not. */
mr_status mr_dataset_open_for(mr_dataset *dataset, const mr_pipeline *pipeline, const bool *wanted,
                              bool single, const mr_dataset_terms *terms, const mr_log *log,
                              mr_error *err);

static inline bool mr_dataset_is_read(const mr_dataset *dataset) {
    return dataset->class->locate != NULL && !dataset->shape.mapped;
}

static inline bool mr_dataset_has_blocks(const mr_dataset *dataset) {
    return dataset->first != NULL;
}

static inline bool mr_dataset_is_unpacked(const mr_dataset *dataset) {
    return dataset->class->unpack != NULL;
}

int64_t mr_dataset_block_of(const mr_dataset *dataset, int64_t sample);
int64_t mr_dataset_first_of(const mr_dataset *dataset, int64_t block);
int64_t mr_dataset_end_of(const mr_dataset *dataset, int64_t block); /* after its last sample */
int64_t mr_dataset_block_bytes(const mr_dataset *dataset, int64_t block); /* -1: not told */

/* That were read for it. */
static inline size_t mr_block_bytes(const mr_block *block) {
    size_t total = 0;
    for (int32_t i = 0; i < block->n_bytes; i++) {
        total += block->bytes[i].size;
    }
    return total;
}

/* Only what is wrong with the sample itself may be skipped: a disk or a server that fails for a
 * moment, or a machine without memory or file handles, would otherwise change the data that a run
 * sees. */
bool mr_is_samples_fault(const mr_error *err);

void mr_dataset_name(const mr_dataset *dataset, int64_t sample, char *buffer, size_t size);
const char *mr_dataset_class_name(const mr_dataset *dataset, int32_t field,
                                  int64_t i); /* or NULL */
bool mr_dataset_gathers(const mr_dataset *dataset);
bool mr_dataset_lends(const mr_dataset *dataset);
bool mr_dataset_has_files(const mr_dataset *dataset);       /* mapped ones, too */
bool mr_dataset_may_have_blocks(const mr_dataset *dataset); /* opened for other uses */
bool mr_dataset_identify(const mr_dataset *dataset, int64_t sample, uint64_t out[2]);
void mr_dataset_prefetch(const mr_dataset *dataset, int64_t sample);

/* Of a stream: see source.h. */
mr_status mr_dataset_advance(const mr_dataset *dataset, int32_t partition, int64_t number,
                             const mr_entry_sink *sink, mr_error *err);
mr_status mr_dataset_recall(const mr_dataset *dataset, int32_t partition, int64_t number,
                            const mr_entry_sink *sink, mr_error *err);
mr_status mr_dataset_oldest(const mr_dataset *dataset, int32_t partition, int64_t *out,
                            mr_error *err);
bool mr_dataset_tells_newest(const mr_dataset *dataset);
mr_status mr_dataset_newest(const mr_dataset *dataset, int32_t partition, int64_t *out,
                            mr_error *err);

/* Lengths of a field of `count` samples, as far as the source can tell them without reading; else
 * MR_E_UNSUPPORTED, without a word. */
mr_status mr_dataset_lengths(const mr_dataset *dataset, int32_t field, int64_t first, int64_t count,
                             int64_t *out, mr_error *err);

/* The extents of a block: as many as fit into `own`, else in new memory; *out says where. The
 * caller frees *out unless it is `own`. */
mr_status mr_dataset_locate(const mr_dataset *dataset, int64_t block, mr_extent *own,
                            int32_t capacity, mr_extent **out, int32_t *n, mr_error *err);

mr_status mr_dataset_unpack(const mr_dataset *dataset, const mr_block *block, int32_t part,
                            void **out, mr_error *err);
void mr_dataset_drop(const mr_dataset *dataset, int32_t part, void *unpacked);

mr_status mr_dataset_fill(const mr_dataset *dataset, const mr_block *block, int64_t sample,
                          mr_view *fields, mr_error *err);
mr_status mr_dataset_gather(const mr_dataset *dataset, const mr_block *const *blocks,
                            const int64_t *samples, int64_t n, const mr_column *columns,
                            mr_error *err);

bool mr_dataset_lend(const mr_dataset *dataset, const mr_block *block, int32_t field,
                     int64_t sample, int64_t n, mr_loan *out);

/* Reads and unpacks a block at once, by the calling thread. Released with mr_dataset_release. */
typedef struct mr_own_block {
    mr_block block;
    mr_bytes *bytes;
    void **parts;
    void *memory;
} mr_own_block;

mr_status mr_dataset_fetch(const mr_dataset *dataset, int64_t block, mr_own_block *out,
                           mr_error *err);
void mr_dataset_release(const mr_dataset *dataset, mr_own_block *block);

#endif
