/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - the way of a run through its data: one course, or a mix of several. Pure.
 *
 * What is asked of it is what course.h, mix.h and bucket.h say. Visits have positions of the run:
 * position p of epoch e is e * length + p, whoever is asked. */
#ifndef MR_PLAN_ROUTE_H
#define MR_PLAN_ROUTE_H

#include "plan/bucket.h"
#include "plan/mix.h"

/* What the document says of a mix. */
typedef struct mr_mix_terms {
    double *weights; /* NULL: there is no mix, but one course */
    int32_t n_children;
    int64_t round, length; /* as in mr_mix_config */
} mr_mix_terms;

typedef struct mr_route {
    const mr_course **courses; /* its own array of somebody else's courses */
    int32_t n_courses;
    mr_mix *mix;         /* NULL: the first course is all */
    mr_bucketing bucket; /* length 0: there is none */
} mr_route;

/* The first course alone, or, where the terms have weights, a mix of as many as there are. Ended
 * with mr_route_free also where it failed; a zeroed one may be. */
mr_status mr_route_open(mr_route *route, mr_course *const *courses, const mr_mix_terms *terms,
                        uint64_t seed, mr_error *err);
void mr_route_free(mr_route *route);

/* Puts samples of like length together. Lengths, of each child, must outlive the route; `stretch`
 * and `group` as in bucket.h; by_lanes: lanes are kept where they divide a group. Before any cursor
 * or walk is opened. */
void mr_route_bucket(mr_route *route, int64_t group, int64_t stretch, bool by_lanes, bool shuffle,
                     uint64_t seed, const uint32_t *const *lengths);

int64_t mr_route_length(const mr_route *route); /* positions of an epoch */
int32_t mr_route_lanes(const mr_route *route);  /* that positions belong to in turn */

bool mr_route_needs_no_table(const mr_route *route); /* see mr_course_needs_no_table */

/* The run's position that epoch and position are; the largest number where there is none. */
int64_t mr_route_run(const mr_route *route, int64_t epoch, int64_t position);

/* A place in all courses: see mr_course_cursor. */
typedef struct mr_route_cursor mr_route_cursor;
mr_status mr_route_cursor_open(mr_route_cursor **out, const mr_route *route, mr_error *err);
void mr_route_cursor_free(mr_route_cursor *cursor); /* NULL allowed */

mr_status mr_route_list(mr_route_cursor *cursor, uint32_t epoch, const mr_positions *positions,
                        mr_pick *picks, mr_error *err);
mr_status mr_route_substitute(mr_route_cursor *cursor, uint32_t epoch, int64_t position,
                              uint32_t attempt, mr_pick *pick, mr_error *err);

/* Visits from a position of an epoch on, over all epochs that follow; see mr_mix_walk. */
typedef struct mr_route_walk mr_route_walk;
mr_status mr_route_walk_open(mr_route_walk **out, const mr_route *route, uint32_t epoch,
                             int64_t position, int32_t first_lane, int32_t end_lane, mr_error *err);
void mr_route_walk_free(mr_route_walk *walk); /* NULL allowed */
mr_status mr_route_walk_next(mr_route_walk *walk, mr_mix_visit *out, mr_error *err); /* or MR_END */

#endif
