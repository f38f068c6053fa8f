/* SPDX-License-Identifier: Apache-2.0 */
/* course_visits.c - the visits of blocks in the order in which they are needed.
 *
 * Each lane has a window whose visits come next; a heap holds the lanes by the first position of
 * that window. First positions of lanes differ, so the order is fixed. */
#include "plan/course_epoch.h"

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

typedef struct waiting_lane {
    int64_t first_position;
    mr_course_window window;
} waiting_lane;

struct mr_visit_walk {
    const mr_course *course;
    mr_course_epoch epoch;
    waiting_lane *heap; /* no lane comes before its parent, (i - 1) / 2 */
    int32_t n_waiting;
    int64_t next_place; /* of the first lane's window */
};

/* ---- Heap ---- */

static bool comes_before(const mr_visit_walk *walk, int32_t a, int32_t b) {
    return walk->heap[a].first_position < walk->heap[b].first_position;
}

static void swap(mr_visit_walk *walk, int32_t a, int32_t b) {
    waiting_lane kept = walk->heap[a];
    walk->heap[a] = walk->heap[b];
    walk->heap[b] = kept;
}

static void sink(mr_visit_walk *walk, int32_t i) {
    for (;;) {
        int32_t least = i;
        for (int32_t child = 2 * i + 1; child <= 2 * i + 2 && child < walk->n_waiting; child++) {
            least = comes_before(walk, child, least) ? child : least;
        }
        if (least == i) {
            return;
        }
        swap(walk, i, least);
        i = least;
    }
}

/* ---- Windows ---- */

static int64_t position_of(const mr_visit_walk *walk, const mr_course_window *window,
                           int64_t row_of_window) {
    int64_t first_row = walk->epoch.lanes[window->lane].first_row;
    return (window->first_row + row_of_window - first_row) * walk->course->lanes + window->lane;
}

static waiting_lane waiting_with(const mr_visit_walk *walk, mr_course_window window) {
    return (waiting_lane){position_of(walk, &window, 0), window};
}

static void show_first(mr_visit_walk *walk) {
    walk->next_place = walk->n_waiting > 0 ? walk->heap[0].window.first_place : 0;
}

static void leave_window(mr_visit_walk *walk) {
    const mr_course_window *done = &walk->heap[0].window;
    if (done->number + 1 < walk->epoch.lanes[done->lane].windows) {
        walk->heap[0] =
            waiting_with(walk, mr_course_window_at(&walk->epoch, done->lane, done->number + 1));
    } else {
        walk->heap[0] = walk->heap[--walk->n_waiting];
    }
    sink(walk, 0);
    show_first(walk);
}

/* ---- Walks ---- */

/* Lane k waits with the window of its first row at or behind the position, if it has one. */
static void add_lane(mr_visit_walk *walk, int32_t k, int64_t position) {
    const mr_course_lane *lane = &walk->epoch.lanes[k];
    int64_t lanes = walk->course->lanes;
    int64_t index = position <= k ? 0 : (position - k + lanes - 1) / lanes;
    if (index < lane->rows) {
        walk->heap[walk->n_waiting++] =
            waiting_with(walk, mr_course_window_of(&walk->epoch, k, lane->first_row + index));
    }
}

static mr_status enter_epoch(mr_visit_walk *walk, uint32_t epoch, int64_t position, int32_t first,
                             int32_t end, mr_error *err) {
    size_t n_lanes = (size_t)walk->course->lanes;
    MR_TRY(mr_course_epoch_init(&walk->epoch, walk->course, epoch, err));
    walk->heap = mr_zalloc(n_lanes, sizeof *walk->heap);
    if (!walk->heap) {
        return mr_fail_memory(err, n_lanes * sizeof *walk->heap);
    }
    for (int32_t k = first; k < end; k++) {
        add_lane(walk, k, position);
    }
    for (int32_t i = walk->n_waiting / 2 - 1; i >= 0; i--) {
        sink(walk, i);
    }
    show_first(walk);
    return MR_OK;
}

mr_status mr_visit_walk_open(mr_visit_walk **out, const mr_course *course, uint32_t epoch,
                             int64_t position, int32_t first_lane, int32_t end_lane,
                             mr_error *err) {
    if (first_lane < 0 || first_lane > end_lane || end_lane > course->lanes || position < 0) {
        return mr_fail(err, MR_E_PARAM, "lanes %d to %d from position %lld do not exist",
                       (int)first_lane, (int)end_lane, (long long)position);
    }
    mr_visit_walk *walk = mr_zalloc(1, sizeof *walk);
    if (!walk) {
        return mr_fail_memory(err, sizeof *walk);
    }
    walk->course = course;
    mr_status status = course->blocks == NULL
                           ? MR_OK
                           : enter_epoch(walk, epoch, position, first_lane, end_lane, err);
    if (status < 0) {
        mr_visit_walk_free(walk);
        return status;
    }
    *out = walk;
    return MR_OK;
}

void mr_visit_walk_free(mr_visit_walk *walk) {
    if (walk) {
        mr_course_epoch_free(&walk->epoch);
        mr_free(walk->heap);
        mr_free(walk);
    }
}

bool mr_visit_walk_next(mr_visit_walk *walk, mr_visit *out) {
    if (walk->n_waiting == 0) {
        return false;
    }
    const mr_course_window *window = &walk->heap[0].window;
    *out = (mr_visit){.block = walk->epoch.places[walk->next_place].block,
                      .visit = walk->next_place + window->lane,
                      .lane = window->lane,
                      .first_position = walk->heap[0].first_position,
                      .end_position = position_of(walk, window, window->rows - 1) + 1};
    if (++walk->next_place == window->end_place) {
        leave_window(walk);
    }
    return true;
}
