/* SPDX-License-Identifier: Apache-2.0 */
/* mix.h - several courses in one, by weights. Pure.
 *
 * Positions of a mix are counted over the whole run: position p of epoch e is the run's position
 * e * length + p. K of them, one for each lane, are a group; a round of groups (1,000, say) holds
 * each child exactly by its quota, in an order of its own for each round. A child's groups follow
 * one another in the order they have in the rounds, and so do the child's epochs: its j-th group
 * has its run's positions j * K to (j + 1) * K - 1.
 *
 * Lanes line up: where a child's course has K lanes too, lane k of the mix takes from its lane k
 * alone. Then fewer than K rows, others in each of its epochs, are left out, so that an epoch of
 * the child is a multiple of K. A child with other lanes, or fewer than K rows, is taken as it
 * comes.
 *
 * Any position is found by itself, from the table of its round; a state stays one number. */
#ifndef MR_PLAN_MIX_H
#define MR_PLAN_MIX_H

#include "plan/course.h"

#define MR_MAX_CHILDREN 1024
#define MR_MAX_ROUND 65536
#define MR_MAX_RUN ((int64_t)1 << 62) /* positions of a run, of a mix and of each child */

typedef struct mr_mix_config {
    const mr_course *const *courses; /* kept: they, not the array, must outlive the mix */
    const double *weights;           /* above 0 */
    int32_t n_children;
    int64_t round;  /* groups of a round; each child's quota must come to 1 at least */
    int64_t length; /* positions of an epoch, rounded up to a multiple of K; 0: those of all
                       children together */
    int32_t lanes;  /* K */
    uint64_t seed;
} mr_mix_config;

/* Read-only once open: any number of threads may share it. */
typedef struct mr_mix mr_mix;
mr_status mr_mix_open(mr_mix **out, const mr_mix_config *config, mr_error *err);
void mr_mix_free(mr_mix *mix); /* NULL allowed */

int64_t mr_mix_length(const mr_mix *mix);               /* positions of an epoch */
int64_t mr_mix_quota(const mr_mix *mix, int32_t child); /* its groups of a round */

/* Where a position of the mix comes from. */
typedef struct mr_mix_place {
    int32_t child;
    uint32_t epoch;   /* the child's */
    int64_t position; /* of that epoch */
} mr_mix_place;

/* A place in a mix and in each of its children: as mr_course_cursor. Positions that do not exist
 * (MR_MAX_RUN, 2^32 epochs of a child) are MR_E_LIMIT. */
typedef struct mr_mix_cursor mr_mix_cursor;
mr_status mr_mix_cursor_open(mr_mix_cursor **out, const mr_mix *mix, mr_error *err);
void mr_mix_cursor_free(mr_mix_cursor *cursor); /* NULL allowed */

mr_status mr_mix_at(mr_mix_cursor *cursor, uint32_t epoch, int64_t position, mr_mix_place *out,
                    mr_error *err);

/* As mr_course_list and mr_course_substitute, with pick.child set and pick.epoch the child's. */
mr_status mr_mix_list(mr_mix_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                      mr_pick *picks, mr_error *err);
mr_status mr_mix_substitute(mr_mix_cursor *cursor, uint32_t epoch, int64_t position,
                            uint32_t attempt, mr_pick *pick, mr_error *err);

/* A visit of a child's block; first_position and end_position are the run's, of the mix. */
typedef struct mr_mix_visit {
    int32_t child;
    uint32_t epoch; /* the child's */
    mr_visit visit;
} mr_mix_visit;

/* The visits of all children, from a position of an epoch on, by first_position. It goes on over
 * epochs of the mix: the caller stops it. Of children whose lanes line up only the visits by lanes
 * [first_lane, end_lane) come. */
typedef struct mr_mix_walk mr_mix_walk;
mr_status mr_mix_walk_open(mr_mix_walk **out, const mr_mix *mix, uint32_t epoch, int64_t position,
                           int32_t first_lane, int32_t end_lane, mr_error *err);
void mr_mix_walk_free(mr_mix_walk *walk); /* NULL allowed */

/* MR_OK, MR_END where no child has blocks (or epochs) left, or a failure for want of memory. */
mr_status mr_mix_walk_next(mr_mix_walk *walk, mr_mix_visit *out, mr_error *err);

#endif
