/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.h - samples of like length side by side. Pure.
 *
 * A route has an order of its own (route.h). A bucket changes it within stretches of positions, so
 * that groups of `group` consecutive positions, batches say, have samples of like length:
 *
 *  1. An epoch is cut into stretches of `stretch` positions; the last may be shorter.
 *  2. The samples of a stretch that fill whole groups are sorted by length and cut into groups.
 * What is left over, the last ones in the route's order, stays at the end: so a short last batch
 *     has no lengths of its own, and leaving it out is fair.
 *  3. The groups are permuted (with shuffle), and the samples of a group stand in the route's
 * order.
 *
 * Where lanes are kept, which must divide a group, each is sorted by itself, and the groups of all
 * lanes are permuted alike: position p still belongs to lane p mod K, and a group has from each
 * lane the samples of the same rank by length. Those differ as ranks of small samples do: of K
 * lanes each has a K-th part of the stretch. Otherwise there are no lanes.
 *
 * The order depends on the group, the stretch, the lengths, seed and epoch alone; any position is
 * found from its stretch. */
#ifndef MR_PLAN_BUCKET_H
#define MR_PLAN_BUCKET_H

#include "plan/course.h"

#define MR_MAX_STRETCH ((int64_t)1 << 24)

/* Read-only: any number of threads may share it. */
typedef struct mr_bucketing {
    int64_t length;  /* positions of an epoch */
    int64_t group;   /* samples of like length; at least 1 */
    int64_t stretch; /* a multiple of group, at most MR_MAX_STRETCH */
    int32_t lanes;   /* that are kept: they divide the group */
    bool shuffle;
    uint64_t seed;
    const uint32_t *const *lengths; /* of each child's samples */
} mr_bucketing;

/* A run's positions [*first, *end), at which something is needed by the route's own order, as far
 * as the bucket may move them: to both ends of their stretches. */
void mr_bucket_widen(const mr_bucketing *bucket, int64_t *first, int64_t *end);

/* Who lists picks by the route's own order: as mr_course_list. */
typedef struct mr_pick_lister {
    mr_status (*list)(void *user, uint32_t epoch, const mr_positions *positions, mr_pick *picks,
                      mr_error *err);
    void *user;
} mr_pick_lister;

/* The stretches asked for last, in order: two of each lane. The caller owns it and uses it from one
 * thread at a time. */
typedef struct mr_bucket_cursor mr_bucket_cursor;
mr_status mr_bucket_cursor_open(mr_bucket_cursor **out, const mr_bucketing *bucket,
                                const mr_pick_lister *lister, mr_error *err);
void mr_bucket_cursor_free(mr_bucket_cursor *cursor); /* NULL allowed */

/* As mr_course_list. */
mr_status mr_bucket_list(mr_bucket_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                         mr_pick *picks, mr_error *err);

/* Where the route's own order has what stands at a position in [0, length). */
mr_status mr_bucket_origin(mr_bucket_cursor *cursor, uint32_t epoch, int64_t position, int64_t *out,
                           mr_error *err);

#endif
