/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - which blocks are planned when, where samples lie in blocks.
 *
 * Blocks are planned in the order in which the course needs them: at once where an open batch takes
 * rows of them, and beyond that as long as fewer than `bound` are alive. A block is kept until
 * every batch that may take rows of it was delivered: so nobody counts uses, and a row costs no
 * atomic operation. All but mr_ahead_load is the consumer's. */
#ifndef MR_RUN_AHEAD_H
#define MR_RUN_AHEAD_H

#include "run/child.h"
#include "run/read/intake.h"

typedef struct mr_ahead mr_ahead;

typedef struct mr_ahead_config {
    mr_intake *intake;
    const mr_children *children;
    int32_t first_lane, end_lane; /* that this rank takes rows of */
    int64_t epoch, position;      /* where the run starts */
    bool is_over;                 /* there is nothing to start with */
    int64_t end_of_run;           /* a position of the run, as those below */
    int64_t positions_open;       /* most that batches can be open for at once */
    int64_t bound;                /* blocks alive at once */
    bool (*wants)(void *context, int32_t child, int64_t block); /* (optional) blocks to plan without
                                                                   being asked for each */
    void *context;
} mr_ahead_config;

mr_status mr_ahead_open(mr_ahead **out, const mr_ahead_config *config, mr_error *err);
void mr_ahead_close(mr_ahead *ahead); /* after all threads have ended; NULL allowed */

/* A batch is to be opened, with positions of the run before `end`: plans what it needs, and more.
 */
mr_status mr_ahead_reach(mr_ahead *ahead, int64_t end, mr_error *err);

/* A batch takes rows of blocks that may be gone, or that were left to other ranks: from behind the
 * epoch's end, which are those at its beginning, and of other lanes. They are planned once more. */
mr_status mr_ahead_again(mr_ahead *ahead, const mr_pick *picks, int64_t n, int64_t until,
                         mr_error *err);

/* All batches up to a position of the run are delivered: blocks whose windows are over go. */
void mr_ahead_pass(mr_ahead *ahead, int64_t position);

/* Workers: the load of a pick of an open batch. */
mr_load *mr_ahead_load(const mr_ahead *ahead, const mr_pick *pick);

#endif
