/* SPDX-License-Identifier: Apache-2.0 */
/* balance.h - who makes which slot of a step, when each holder makes what it has. Pure.
 *
 * Yang & Cong's greedy balancing, made the same on every rank by breaking ties:
 *
 *  1. A holder keeps the first of its slots, up to its quota. The last ones are its surplus.
 *  2. Slots that nobody has (somebody must read them anyway) fill deficits, the smallest deficit
 *     first, so that the fewest holders are left to receive; ties go to the lower holder.
 *  3. The largest surplus gives to the largest deficit as much as both allow, until none is left;
 *     ties by the lower holder.
 *
 * Each message of rule 3 settles a giver or a receiver and the last one both, so there are fewer
 * messages than holders; the slots that move are as few as can be. */
#ifndef MR_PLAN_BALANCE_H
#define MR_PLAN_BALANCE_H

#include <millrace/types.h>

/* One message of a step. Its slots are those that `from` has and `to` makes. */
typedef struct mr_move {
    int32_t from, to;
    int64_t slots;
} mr_move;

/* Memory for the steps of one thread. */
typedef struct mr_balance mr_balance;
mr_status mr_balance_open(mr_balance **out, int64_t max_slots, int32_t holders, mr_error *err);
void mr_balance_free(mr_balance *balance); /* NULL allowed */

/* holder[k] has slot k (-1: nobody); quota[h] is how many slots holder h shall make. Quotas are
 * not negative, and their sum is `slots`, at most max_slots. */
void mr_balance_step(mr_balance *balance, const int32_t *holder, int64_t slots,
                     const int64_t *quota);

/* Of the last step: */
const int32_t *mr_balance_makers(const mr_balance *balance); /* of each slot */
const int32_t *mr_balance_slots(const mr_balance *balance, int32_t holder,
                                int64_t *count); /* that it makes, ascending */
const mr_move *mr_balance_moves(const mr_balance *balance, int32_t *n); /* as they were found */
int64_t mr_balance_moved(const mr_balance *balance);                    /* slots of all moves */

#endif
