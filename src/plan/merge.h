/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - the one order of a stream's entries: which entry of which partition is which sample.
 * Pure.
 *
 * Samples are `quantum` entries of partition 0, as many of partition 1, and so on, round after
 * round, whatever came first. So the order is known before anything has arrived, a sample's place
 * is a few divisions, and the cursors of all partitions follow from how many samples are done. */
#ifndef MR_PLAN_MERGE_H
#define MR_PLAN_MERGE_H

#include "plan/course.h"

typedef struct mr_merge {
    int32_t partitions; /* at least 1 */
    int64_t quantum;    /* likewise */
    int64_t from;       /* the number of each partition's first entry */
} mr_merge;

typedef struct mr_merge_place {
    int32_t partition;
    int64_t number;
} mr_merge_place;

mr_merge_place mr_merge_at(const mr_merge *merge, int64_t sample);

/* The number of a partition's first entry at or behind a sample. */
int64_t mr_merge_number(const mr_merge *merge, int32_t partition, int64_t sample);

/* The first sample of a partition that needs its entry `number` or a later one. */
int64_t mr_merge_sample(const mr_merge *merge, int32_t partition, int64_t number);

/* Where a rank's part of `count` things begins; the low ranks have no less than the others. */
int64_t mr_merge_cut(int64_t count, int64_t world, int64_t rank);

/* Which of `count` samples from `first` on a rank makes, and which partitions it must read for
 * them: its own alone, where ranks divide partitions and steps are whole rounds. */
typedef struct mr_merge_share {
    mr_positions samples;
    int32_t first_partition, end_partition;
} mr_merge_share;

mr_merge_share mr_merge_share_of(const mr_merge *merge, int64_t first, int64_t count, int64_t world,
                                 int64_t rank);

#endif
