/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - the pipelines of a loader with their data: those that a mix has, or the only one.
 *
 * Samples of all children are numbered one child after the other: these are the numbers that
 * batches, errors and traces have. Inside, a pick has its child and the child's own number. */
#ifndef MR_RUN_CHILD_H
#define MR_RUN_CHILD_H

#include "plan/route.h"
#include "run/cache/cache.h"
#include "run/read/dataset.h"

typedef struct mr_child {
    const mr_pipeline *pipeline;
    uint64_t seed; /* other draws than the other children's */
    int64_t first_sample;
    mr_dataset dataset;
    mr_selection *selection; /* NULL: all samples take part */
    uint32_t *lengths;       /* of its samples, where there is a bucket */
    bool has_numbers;        /* that decide the order ... */
    mr_hash128 numbers;      /* ... and a hash of them */
    mr_course *course;
    mr_caches caches;
} mr_child;

typedef struct mr_children {
    mr_child *list;
    int32_t n;
    mr_route route;
    const uint32_t **lengths; /* each child's, for the route */
    char fingerprint[33];     /* of all datasets */
} mr_children;

/* cpu: features that may be used. mr_children_close is due even if opening failed; a zeroed one may
 * be closed. */
mr_status mr_children_open(mr_children *children, const mr_pipeline *pipeline, uint64_t seed,
                           uint32_t cpu, const mr_log *log, mr_error *err);
mr_status mr_children_open_caches(mr_children *children, const mr_caches_config *config,
                                  const mr_log *log, mr_error *err);
void mr_children_close(mr_children *children);

bool mr_children_are_read(const mr_children *children);     /* any of them */
bool mr_children_are_far(const mr_children *children);      /* likewise: lies on servers */
bool mr_children_have_blocks(const mr_children *children);  /* any that is read */
bool mr_children_keep_samples(const mr_children *children); /* any of them, in a store */
int32_t mr_children_n_caches(const mr_children *children);

const mr_child *mr_child_of_op(const mr_children *children, int32_t op);
const mr_child *mr_child_of_cache(const mr_children *children, int32_t *cache); /* its own number */
void mr_children_name(const mr_children *children, int64_t sample, char *buffer, size_t size);

/* How many blocks of a child make up the window of its shuffle (0: all), how many are read ahead
 * where reading has so many bytes, how many are alive at once where so many are read ahead and so
 * many positions are open (and batches have up to so many padded ones), and the memory of so many.
 * 0: it has none that are read. */
int64_t mr_child_window(const mr_child *child);
int64_t mr_child_blocks(const mr_child *child);   /* in all */
int64_t mr_child_shuffled(const mr_child *child); /* together, by the window; 0: none */
int64_t mr_child_blocks_ahead(const mr_child *child, uint32_t threads, int64_t bytes);
mr_status mr_child_blocks_bound(const mr_child *child, int64_t ahead, int64_t open, int64_t padded,
                                int64_t *out, mr_error *err);
int64_t mr_child_block_memory(const mr_child *child, int64_t blocks);

/* What the children's stores have of a load need not be read; its state is the mr_children. */
extern const mr_origin_class mr_stores_origin;

#endif
