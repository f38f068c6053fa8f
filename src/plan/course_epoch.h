/* SPDX-License-Identifier: Apache-2.0 */
/* course_epoch.h - the blocks of one epoch in their order, lanes and windows; for the course's own
 * files.
 *
 * "Row" counts the epoch's sequence of rows before windows permute them: [0, n). */
#ifndef MR_PLAN_COURSE_EPOCH_H
#define MR_PLAN_COURSE_EPOCH_H

#include "plan/course.h"
#include "plan/selection_blocks.h"

struct mr_course {
    mr_course_config config;
    int64_t length;
    int32_t lanes;               /* that count */
    int64_t window_visits;       /* at most, of one lane */
    mr_selection_blocks *blocks; /* NULL: samples are single */
    int64_t n_units;             /* of them */
    bool plain;                  /* a row in the source's order is an index of the selection */
};

/* A block at its place of the epoch. */
typedef struct mr_course_place {
    int64_t row;   /* its first */
    int64_t shift; /* row + shift: the row in the source's order */
    int64_t block; /* number in the source */
    int64_t unit;  /* see selection_blocks.h */
} mr_course_place;

typedef struct mr_course_lane {
    int64_t first_row, rows;
    int64_t first_place, visits; /* places from first_place on; none where it has no rows */
    int64_t windows;
} mr_course_lane;

typedef struct mr_course_epoch {
    uint32_t epoch;
    mr_selection_epoch rows;
    mr_course_place *places; /* n_places + 1: the last has only a row, n */
    int64_t n_places;        /* units that have rows */
    mr_course_lane *lanes;
} mr_course_epoch;

/* A window: what of places [first_place, end_place) lies within its lane. */
typedef struct mr_course_window {
    int32_t lane;
    int64_t number; /* within the lane */
    int64_t first_place, end_place;
    int64_t first_row, rows;
} mr_course_window;

mr_status mr_course_epoch_init(mr_course_epoch *epoch, const mr_course *course, uint32_t number,
                               mr_error *err);
void mr_course_epoch_free(mr_course_epoch *epoch); /* a zeroed one is allowed */

/* A window by its number in a lane; the window with a row of its lane. */
mr_course_window mr_course_window_at(const mr_course_epoch *epoch, int32_t lane, int64_t number);
mr_course_window mr_course_window_of(const mr_course_epoch *epoch, int32_t lane, int64_t row);

/* The last place in [low, high) whose row is at most `row`; that of low is. */
int64_t mr_course_find_place(const mr_course_epoch *epoch, int64_t low, int64_t high, int64_t row);

#endif
