/* SPDX-License-Identifier: Apache-2.0 */
/* course.h - the course of an epoch: which pick stands at which position, and which blocks are
 * needed when. Pure.
 *
 * Single samples are ordered as order.h says. Samples that lie in blocks (runs of consecutive
 * samples that are read together) are shuffled in windows, so that every block is read once an
 * epoch and only a window's blocks are in memory:
 *
 *  1. The blocks are permuted; their rows, one block after the other, are a sequence of n rows.
 *  2. The sequence is cut into K lanes. Lane k has ceil((n - k) / K) rows and begins where the one
 *     before ends; a block on a cut is visited by both. Row i of lane k stands at position
 *     i * K + k: position p belongs to lane p mod K.
 *  3. Each lane is cut into windows of whole visits: as few windows as have at most W / K visits
 *     (rounded down, at least one), and as equal as possible: window q of v has the lane's visits
 *     from q * P / v to (q + 1) * P / v, rounded down, of P.
 *  4. The rows of a window are permuted.
 *
 * A selection of samples (selection.h) takes the place of all: then a block's rows are those of its
 * samples that are selected, each as often as it comes (selection_blocks.h). For single samples the
 * order is one of the selection's indexes; where weights or balance draw from it, positions are
 * those of the draws.
 *
 * Everything depends on the configuration and the epoch alone. Without shuffle the rows stand in
 * the source's order, lanes count as one, and each block is a window. */
#ifndef MR_PLAN_COURSE_H
#define MR_PLAN_COURSE_H

#include <millrace/types.h>

#include "plan/selection.h"

#define MR_MAX_BLOCKS ((int64_t)1 << 30)
#define MR_MAX_LANES 65536

typedef struct mr_course_config {
    int64_t samples;
    int64_t n_blocks;     /* 0: samples are single */
    const int64_t *first; /* block b has samples [first[b], first[b + 1]): n_blocks + 1 numbers from
                             0 to samples, none less than the one before. Not kept */
    bool shuffle;
    int64_t window; /* W, in blocks over all lanes; 0: all. Without meaning for single samples */
    int32_t lanes;  /* K >= 1 */
    uint64_t seed;
    const mr_selection *selection; /* of the same samples; NULL: all, once. Kept: it must outlive
                                      the course */
} mr_course_config;

/* What a position asks for. */
typedef struct mr_pick {
    int64_t sample;
    int64_t block;  /* -1: samples are single */
    int64_t visit;  /* of this block by this lane: unique within the epoch (of the child, in a
                       mix), below mr_course_max_visits; -1: samples are single */
    uint32_t epoch; /* of the sample's draws */
    int32_t child;  /* of a mix, else 0 */
} mr_pick;

/* A pattern of positions: `count` of them, the k-th being first + k / run * stride + k % run.
 * Consecutive ones have run = stride = count (or 1, or anything else that is equal). */
typedef struct mr_positions {
    int64_t first, count, run, stride;
} mr_positions;

static inline int64_t mr_positions_at(const mr_positions *positions, int64_t k) {
    return positions->first + k / positions->run * positions->stride + k % positions->run;
}

/* Read-only once open: any number of threads may share it. */
typedef struct mr_course mr_course;
mr_status mr_course_open(mr_course **out, const mr_course_config *config, mr_error *err);
void mr_course_free(mr_course *course); /* NULL allowed */

int64_t mr_course_length(const mr_course *course);     /* positions of an epoch, at least 1 */
int32_t mr_course_lanes(const mr_course *course);      /* K as it counts: 1 where lanes do not */
int64_t mr_course_max_visits(const mr_course *course); /* no epoch has more; 0: single samples */

/* Whether a cursor lists any positions without making a table first, so that it costs nothing to
 * have many cursors. */
bool mr_course_needs_no_table(const mr_course *course);

/* A place in a course, with tables of O(blocks) for the last two epochs asked for and the orders of
 * one window a lane. The caller owns it and uses it from one thread at a time; any position of any
 * epoch may be asked for at any time, going on from the last is what is quick. */
typedef struct mr_course_cursor mr_course_cursor;
mr_status mr_course_cursor_open(mr_course_cursor **out, const mr_course *course, mr_error *err);
void mr_course_cursor_free(mr_course_cursor *cursor); /* NULL allowed */

/* The picks of `positions->count` positions, all >= 0; behind the last of the epoch comes its first
 * again. Fails for want of memory alone. */
mr_status mr_course_list(mr_course_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                         mr_pick *picks, mr_error *err);

/* The pick that stands in for a bad one at a position in [0, length): attempt 0, 1, 2 ... By the
 * law. Uniform over the rows of the position's window (single samples: over all, as
 * mr_order_substitute), so it may be the bad one itself or another bad one: then ask again with the
 * next attempt. Attempts from 2^16 on repeat the earlier ones. */
mr_status mr_course_substitute(mr_course_cursor *cursor, uint32_t epoch, int64_t position,
                               uint32_t attempt, mr_pick *pick, mr_error *err);

/* A visit of a block. Its window's positions lie in [first_position, end_position): both of them
 * and every K-th between belong to it. Where the block must be there is not known more exactly;
 * substitutes may ask for it up to the end. */
typedef struct mr_visit {
    int64_t block;
    int64_t visit;
    int32_t lane;
    int64_t first_position, end_position;
} mr_visit;

/* The visits of an epoch in the order in which they are needed: from the windows that a position
 * stands in (or before) to the end, by first_position; those of one window in the order of their
 * rows before they were permuted. Blocks without rows are not visited. */
typedef struct mr_visit_walk mr_visit_walk;
mr_status mr_visit_walk_open(mr_visit_walk **out, const mr_course *course, uint32_t epoch,
                             int64_t position, int32_t first_lane, int32_t end_lane, mr_error *err);
void mr_visit_walk_free(mr_visit_walk *walk); /* NULL allowed */

/* The next visit; false: there is none, or samples are single. O(1), and O(log lanes) where a
 * window begins. */
bool mr_visit_walk_next(mr_visit_walk *walk, mr_visit *out);

#endif
