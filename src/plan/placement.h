/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - who keeps what: samples or blocks ("items") over holders. Pure.
 *
 * A holder is a node, or a rank where ranks share no memory. Every item has one owner, who reads it
 * from storage when nobody has it yet, so the first epoch has the plan of all others. What an
 * owner's capacity has no room for is never kept: nothing is evicted within a run, and everybody
 * can compute who has what without asking.
 *
 * Weighted rendezvous hashing asks every holder about every item. Here it is asked once a bucket:
 * items are hashed to a table of buckets, and holders fill that table in turns, each in an order of
 * its own, up to a quota in proportion to its capacity. So an item costs one hash and one lookup,
 * holders have equal shares of the table (independent choices would differ by 1 / sqrt(buckets of a
 * holder)), and without one holder nearly all buckets of the others stay where they were. */
#ifndef MR_PLAN_PLACEMENT_H
#define MR_PLAN_PLACEMENT_H

#include "plan/course.h"

#define MR_MAX_HOLDERS 16384
#define MR_MAX_REPLICAS 16

typedef struct mr_placement_config {
    int32_t holders;
    const int64_t *capacity; /* bytes of each; NULL: equal and without end. Not kept */
    int64_t items;           /* samples, or blocks */
    int64_t item_bytes;      /* of every item, where there is no `size` */
    int64_t (*size)(void *context, int64_t item); /* bytes of an item; NULL: all alike. Called by
                                                     mr_placement_open alone */
    void *context;
    int32_t replicas; /* copies of each item, >= 1; at most one a holder */
    uint64_t seed;
} mr_placement_config;

/* Read-only once open: any number of threads may share it. Opening looks at every item once, where
 * capacities have an end. */
typedef struct mr_placement mr_placement;
mr_status mr_placement_open(mr_placement **out, const mr_placement_config *config, mr_error *err);
void mr_placement_free(mr_placement *placement); /* NULL allowed */

/* The holder of an item's copy `replica`; number 0 is the owner. Copies have holders that differ
 * and have capacity; -1 where there are not so many. */
int32_t mr_placement_at(const mr_placement *placement, int64_t item, int32_t replica);

/* Whether a copy's holder, as the function above gives it, has room for it. */
bool mr_placement_keeps(const mr_placement *placement, int64_t item, int32_t holder);

/* For each pick who keeps its block (its sample, where samples are single): the first of its
 * copies that is kept, or -1: nobody. */
void mr_placement_list(const mr_placement *placement, const mr_pick *picks, int64_t count,
                       int32_t *out);

#endif
