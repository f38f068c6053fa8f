/* SPDX-License-Identifier: Apache-2.0 */
/* course_epoch.c - permutes the blocks of an epoch and cuts their rows into lanes and windows. */
#include "plan/course_epoch.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/order.h"

#include <millrace/millrace.h>

/* ---- Places ---- */

static mr_status order_blocks(mr_order *order, const mr_course *course, uint32_t epoch,
                              mr_error *err) {
    if (!course->config.shuffle) {
        return mr_order_init(order, course->n_units, false, 0, 0, err);
    }
    return mr_order_init_keyed(order, course->n_units, course->config.seed, epoch,
                               mr_op_word("blocks", 0), 0, err);
}

/* Places for those of `count` units that have rows. */
static void lay_run(mr_course_epoch *epoch, const mr_course *course, const int64_t *units,
                    int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t *below = &epoch->rows.below[units[i]];
        mr_course_place *place = &epoch->places[epoch->n_places];
        place->shift = below[0] - place->row;
        place->block = mr_selection_blocks_block(course->blocks, units[i]);
        place->unit = units[i];
        if (below[1] > below[0]) {
            epoch->n_places++;
            place[1].row = place->row + below[1] - below[0];
        }
    }
}

static void lay_places(mr_course_epoch *epoch, const mr_course *course, const mr_order *order) {
    enum { CHUNK = 256 };
    int64_t units[CHUNK];
    for (int64_t done = 0; done < course->n_units;) {
        int64_t left = course->n_units - done, n = left < CHUNK ? left : CHUNK;
        mr_order_list(order, done, n, units);
        lay_run(epoch, course, units, n);
        done += n;
    }
}

int64_t mr_course_find_place(const mr_course_epoch *epoch, int64_t low, int64_t high, int64_t row) {
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (epoch->places[middle].row <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- Lanes ---- */

static mr_course_lane cut_lane(const mr_course_epoch *epoch, const mr_course *course, int64_t k) {
    int64_t least = course->length / course->lanes, longer = course->length % course->lanes;
    mr_course_lane lane = {.first_row = k * least + (k < longer ? k : longer),
                           .rows = least + (k < longer ? 1 : 0)};
    if (lane.rows > 0) {
        int64_t last_row = lane.first_row + lane.rows - 1;
        lane.first_place = mr_course_find_place(epoch, 0, epoch->n_places, lane.first_row);
        lane.visits = mr_course_find_place(epoch, lane.first_place, epoch->n_places, last_row) + 1 -
                      lane.first_place;
        lane.windows = (lane.visits + course->window_visits - 1) / course->window_visits;
    }
    return lane;
}

static mr_status alloc_epoch(mr_course_epoch *epoch, const mr_course *course, mr_error *err) {
    size_t n_places = (size_t)course->n_units + 1, n_lanes = (size_t)course->lanes;
    epoch->places = mr_zalloc(n_places, sizeof *epoch->places);
    epoch->lanes = mr_zalloc(n_lanes, sizeof *epoch->lanes);
    return epoch->places && epoch->lanes ? MR_OK
                                         : mr_fail_memory(err, n_places * sizeof *epoch->places +
                                                                   n_lanes * sizeof *epoch->lanes);
}

static mr_status fill_epoch(mr_course_epoch *epoch, const mr_course *course, mr_error *err) {
    mr_order order = {0};
    MR_TRY(alloc_epoch(epoch, course, err));
    MR_TRY(mr_selection_epoch_init(&epoch->rows, course->blocks, epoch->epoch, err));
    MR_TRY(order_blocks(&order, course, epoch->epoch, err));
    lay_places(epoch, course, &order);
    mr_order_free(&order);
    for (int32_t k = 0; k < course->lanes; k++) {
        epoch->lanes[k] = cut_lane(epoch, course, k);
    }
    return MR_OK;
}

mr_status mr_course_epoch_init(mr_course_epoch *epoch, const mr_course *course, uint32_t number,
                               mr_error *err) {
    mr_course_epoch made = {.epoch = number};
    mr_status status = fill_epoch(&made, course, err);
    if (status < 0) {
        mr_course_epoch_free(&made);
        return status;
    }
    *epoch = made;
    return MR_OK;
}

void mr_course_epoch_free(mr_course_epoch *epoch) {
    mr_selection_epoch_free(&epoch->rows);
    mr_free(epoch->places);
    mr_free(epoch->lanes);
    *epoch = (mr_course_epoch){0};
}

/* ---- Windows ----
 * Visits and windows of a lane are fewer than 2^31, so no product overflows. */

mr_course_window mr_course_window_at(const mr_course_epoch *epoch, int32_t k, int64_t number) {
    const mr_course_lane *lane = &epoch->lanes[k];
    mr_course_window window = {.lane = k, .number = number};
    window.first_place = lane->first_place + number * lane->visits / lane->windows;
    window.end_place = lane->first_place + (number + 1) * lane->visits / lane->windows;
    int64_t first = epoch->places[window.first_place].row;
    int64_t end = epoch->places[window.end_place].row, lane_end = lane->first_row + lane->rows;
    window.first_row = first < lane->first_row ? lane->first_row : first;
    window.rows = (end < lane_end ? end : lane_end) - window.first_row;
    return window;
}

mr_course_window mr_course_window_of(const mr_course_epoch *epoch, int32_t k, int64_t row) {
    const mr_course_lane *lane = &epoch->lanes[k];
    int64_t end = lane->first_place + lane->visits;
    int64_t visit = mr_course_find_place(epoch, lane->first_place, end, row) - lane->first_place;
    /* The only number with number * visits / windows <= visit < (number + 1) * visits / windows,
     * both rounded down. */
    return mr_course_window_at(epoch, k, ((visit + 1) * lane->windows - 1) / lane->visits);
}
