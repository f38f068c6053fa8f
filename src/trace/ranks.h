/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - the traces of one run's ranks, together: who holds the others up, and where ranks
 * differ. Clocks of several machines are not compared; times of one rank are. */
#ifndef MR_TRACE_RANKS_H
#define MR_TRACE_RANKS_H

#include "trace/summary.h"

typedef struct mr_rank_summary {
    int32_t rank;
    mr_summary summary;
    double longest; /* share of the steps in which its consumer waited longest of all */
} mr_rank_summary;

typedef struct mr_ranks {
    mr_rank_summary *list; /* by rank */
    int32_t n, world;
    int32_t slowest; /* place in the list */
    bool stands_out; /* the slowest differs from the others by more than noise */
    double rate;     /* of all together, samples a second */
} mr_ranks;

/* Traces that are not of one run, or of one rank twice, are refused. */
mr_status mr_ranks_make(mr_ranks *out, mr_trace *const *traces, int32_t n, mr_error *err);
void mr_ranks_free(mr_ranks *ranks);

json_t *mr_ranks_json(const mr_ranks *ranks); /* NULL: no memory */

#endif
