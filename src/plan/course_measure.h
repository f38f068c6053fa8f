/* SPDX-License-Identifier: Apache-2.0 */
/* course_measure.h - figures of a course for people: what it holds in memory, and how good its
 * shuffle is. Pure. */
#ifndef MR_PLAN_COURSE_MEASURE_H
#define MR_PLAN_COURSE_MEASURE_H

#include "plan/course.h"

/* The most that is alive at once in an epoch: the sum of `size` over the visits by lanes
 * [first_lane, end_lane) whose windows any `span` consecutive positions (at least 1) touch. `size`
 * has a number for each block of the source, say its unpacked bytes; NULL: each counts 1. 0 for
 * single samples. */
mr_status mr_course_alive(const mr_course *course, uint32_t epoch, int64_t span, int32_t first_lane,
                          int32_t end_lane, const int64_t *size, int64_t *out, mr_error *err);

/* So many visits may the windows have that `span` consecutive positions of a run touch, in whatever
 * epochs they lie. 0 for single samples. O(blocks log blocks). */
mr_status mr_course_most_touched(const mr_course *course, int64_t span, int64_t *out,
                                 mr_error *err);

/* How good a shuffle is, beside a full one of the same rows. */
typedef struct mr_shuffle_measure {
    /* Blocks met in a batch: mean over up to 64 batches, evenly spread over the epoch, and what a
     * full shuffle has to expect. */
    double blocks_met, blocks_met_full;
    /* How far apart two rows of one visit come to stand: positions to expect, mean over rows. */
    double distance, distance_full;
} mr_shuffle_measure;

/* Of a shuffled course over blocks. */
mr_status mr_course_measure(const mr_course *course, uint32_t epoch, int64_t batch,
                            mr_shuffle_measure *out, mr_error *err);

#endif
