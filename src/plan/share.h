/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - which positions of a step a rank makes. Pure.
 *
 * The positions of a step are fixed by schedule.h for all ranks together: its global slice. A share
 * cuts it, and any rank can compute any other's. There are three rules:
 *
 *   contiguous  as schedule.h has it: equal runs of positions, one rank after the other.
 *   by lane     rank r makes the positions of lanes [r K / world, (r + 1) K / world) of a course
 * with K lanes (course.h), so that it reads the blocks of its own lanes alone.
 *
 * A step is shared by lane where world divides K, K divides the batch, and the step begins at a
 * multiple of K (after a run with another batch size it may not, until the epoch ends), and not the
 * short last one of MR_EVEN, in which lanes are not equal; otherwise contiguously. Either way each
 * rank has the same number of positions of a whole batch, and the positions of all ranks together
 * are the same. The last batch of an epoch with MR_KEEP goes to the low ranks first: rank 0 takes
 * every step.
 *
 *   local       a rank makes what its node has (placement.h), balanced (balance.h), as many
 * positions as contiguously. The caller lists the step's picks, asks the placement who has them and
 * balances with mr_share_quotas; the portion then has a list of slots in place of the pattern. A
 * node's ranks take runs of its slots, one after the other. */
#ifndef MR_PLAN_SHARE_H
#define MR_PLAN_SHARE_H

#include "plan/balance.h"
#include "plan/course.h"
#include "plan/schedule.h"

typedef struct mr_share {
    mr_schedule schedule; /* of all ranks; its own rank is not looked at */
    int32_t lanes;        /* K; 1: contiguous always, and local */
} mr_share;

/* What one rank makes of one step. */
typedef struct mr_portion {
    int64_t epoch, step;    /* as mr_slice */
    mr_positions positions; /* count may be 0; from `valid` on they are padding, behind the last of
                               the epoch: picks of its first positions, whose blocks are those of
                               other windows, and of any lane */
    int64_t valid;
    int64_t position;             /* as mr_slice: once all ranks have done this step */
    int32_t first_lane, end_lane; /* the lanes that the valid positions lie in */
    const int32_t *slots; /* local: the k-th position is positions.first + slots[k], ascending; else
                             NULL. The balance's, until its next step */
} mr_portion;

/* The k-th position of a portion by any rule. */
static inline int64_t mr_portion_at(const mr_portion *portion, int64_t k) {
    return portion->slots ? portion->positions.first + portion->slots[k]
                          : mr_positions_at(&portion->positions, k);
}

/* The i-th global slice of the run; 0 <= i < mr_share_steps. */
int64_t mr_share_steps(const mr_share *share);
mr_slice mr_share_step(const mr_share *share, int64_t i);

/* A rank's portion of a global slice. */
mr_portion mr_share_of(const mr_share *share, const mr_slice *step, int64_t rank);

/* Local: how many slots of a step the nodes make, where each has `per_node` consecutive ranks (the
 * last one perhaps fewer); and a rank's portion of a step that was balanced with these quotas. */
void mr_share_quotas(const mr_share *share, const mr_slice *step, int64_t per_node, int64_t *quota);
mr_portion mr_share_local(const mr_share *share, const mr_slice *step, const mr_balance *balance,
                          int64_t per_node, int64_t rank);

/* Steps in which a rank has positions, and its i-th of them: a rank other than 0 may have none in
 * the last batch of an epoch with MR_KEEP. INT64_MAX if there are more. */
int64_t mr_share_rank_steps(const mr_share *share, int64_t rank);
mr_portion mr_share_at(const mr_share *share, int64_t rank, int64_t i);
mr_slice mr_share_step_of(const mr_share *share, int64_t rank, int64_t i); /* whose portion it is */

#endif
