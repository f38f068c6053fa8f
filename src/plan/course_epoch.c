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
        return mr_order_init(order, course->n_blocks, false, 0, 0, err);
    }
    return mr_order_init_keyed(order, course->n_blocks, course->config.seed, epoch,
                               mr_op_word("blocks", 0), 0, err);
}

/* `count` places from a row on; returns the row behind them. */
static int64_t lay_run(mr_course_place *places, const mr_course *course, const int64_t *blocks,
                       int64_t count, int64_t row) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t *below = &course->below[blocks[i]];
        places[i] = (mr_course_place){
            .row = row, .shift = below[0] - row, .block = course->block[blocks[i]]};
        row += below[1] - below[0];
    }
    return row;
}

static void lay_places(mr_course_place *places, const mr_course *course, const mr_order *order) {
    enum { CHUNK = 256 };
    int64_t blocks[CHUNK], row = 0;
    for (int64_t done = 0; done < course->n_blocks;) {
        int64_t left = course->n_blocks - done, n = left < CHUNK ? left : CHUNK;
        mr_order_list(order, done, n, blocks);
        row = lay_run(places + done, course, blocks, n, row);
        done += n;
    }
    places[course->n_blocks].row = row;
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
        lane.first_place = mr_course_find_place(epoch, 0, course->n_blocks, lane.first_row);
        lane.visits = mr_course_find_place(epoch, lane.first_place, course->n_blocks, last_row) +
                      1 - lane.first_place;
        lane.windows = (lane.visits + course->window_visits - 1) / course->window_visits;
    }
    return lane;
}

mr_status mr_course_epoch_init(mr_course_epoch *epoch, const mr_course *course, uint32_t number,
                               mr_error *err) {
    mr_order order = {0};
    MR_TRY(order_blocks(&order, course, number, err));
    mr_course_epoch made = {.epoch = number};
    size_t n_places = (size_t)course->n_blocks + 1, n_lanes = (size_t)course->lanes;
    made.places = mr_zalloc(n_places, sizeof *made.places);
    made.lanes = mr_zalloc(n_lanes, sizeof *made.lanes);
    if (!made.places || !made.lanes) {
        mr_order_free(&order);
        mr_course_epoch_free(&made);
        return mr_fail_memory(err, n_places * sizeof *made.places + n_lanes * sizeof *made.lanes);
    }
    lay_places(made.places, course, &order);
    mr_order_free(&order);
    for (int32_t k = 0; k < course->lanes; k++) {
        made.lanes[k] = cut_lane(&made, course, k);
    }
    *epoch = made;
    return MR_OK;
}

void mr_course_epoch_free(mr_course_epoch *epoch) {
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
