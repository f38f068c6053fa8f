/* SPDX-License-Identifier: Apache-2.0 */
/* adapt.h - a loader whose numbers of threads, reads, batches and bytes follow what is measured
 * while it runs. plan/adapt.h decides; here is measured and done, in the consumer's thread between
 * two batches. */
#ifndef MR_RUN_ADAPT_H
#define MR_RUN_ADAPT_H

#include <stdatomic.h>

#include "plan/adapt.h"

struct mr_loader;

/* Sums so far, of which an interval is the difference. */
typedef struct mr_adapt_mark {
    int64_t at; /* nanoseconds */
    int64_t samples, batches, waited;
    int64_t short_of_memory;                 /* reads */
    double busy, reading, computing, queued; /* seconds of all workers; queued: -1 if unknown */
} mr_adapt_mark;

typedef struct mr_adapter {
    bool is_on;
    mr_setting start, most;
    mr_setting now;
    mr_adapt rules;
    mr_adapt_mark begun;
    bool settling; /* what was begun under the last setting is being finished */
    _Atomic int64_t changes;
} mr_adapter;

/* With `start` and `most` filled; after the threads have started. */
void mr_adapter_begin(struct mr_loader *loader);

/* After a batch was delivered. */
void mr_adapter_look(struct mr_loader *loader);

/* Sets the numbers, at any time, in the consumer's thread. */
void mr_adapter_set(struct mr_loader *loader, const mr_setting *setting);

#endif
