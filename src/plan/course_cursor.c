/* SPDX-License-Identifier: Apache-2.0 */
/* course_cursor.c - positions to picks.
 *
 * Positions are taken lane by lane and window by window: within a window each row costs one step of
 * its order and the search for its block. That search begins from a table of the places at evenly
 * spaced rows, at least as many as the window has places, so it steps on once or less on average
 * however uneven the blocks are. */
#include "plan/course_epoch.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/order.h"

#include <millrace/millrace.h>

enum { EPOCHS = 2, CHUNK = 256 };

/* A window that rows are taken from. */
typedef struct lane_window {
    mr_course_window window; /* rows == 0: none */
    mr_order order;
    uint32_t *near; /* the place, counted from first_place, with row t << shift of the window */
    size_t near_capacity;
    int shift;
} lane_window;

typedef struct open_epoch {
    mr_course_epoch table;      /* single samples: only the number */
    mr_order order;             /* of single samples ... */
    mr_selection_cursor *draws; /* ... or, where they are drawn, this */
    lane_window *lanes;
    bool open;
    int64_t used; /* the cursor's clock when it was asked for last */
} open_epoch;

struct mr_course_cursor {
    const mr_course *course;
    open_epoch epochs[EPOCHS];
    int64_t clock;
};

static bool single_samples(const mr_course *course) {
    return course->blocks == NULL;
}

/* ---- Epochs ---- */

static void close_epoch(open_epoch *epoch, const mr_course *course) {
    for (int32_t k = 0; epoch->lanes && k < course->lanes; k++) {
        mr_order_free(&epoch->lanes[k].order);
        mr_free(epoch->lanes[k].near);
    }
    mr_free(epoch->lanes);
    mr_order_free(&epoch->order);
    mr_selection_cursor_free(epoch->draws);
    mr_course_epoch_free(&epoch->table);
    *epoch = (open_epoch){0};
}

static mr_status fill_epoch(open_epoch *epoch, const mr_course *course, uint32_t number,
                            mr_error *err) {
    const mr_course_config *c = &course->config;
    epoch->table.epoch = number;
    if (single_samples(course) && c->selection && mr_selection_is_drawn(c->selection)) {
        return mr_selection_cursor_open(&epoch->draws, c->selection, c->seed, c->shuffle, err);
    }
    if (single_samples(course)) {
        return mr_order_init(&epoch->order, course->length, c->shuffle, c->seed, number, err);
    }
    epoch->lanes = mr_zalloc((size_t)course->lanes, sizeof *epoch->lanes);
    if (!epoch->lanes) {
        return mr_fail_memory(err, (size_t)course->lanes * sizeof *epoch->lanes);
    }
    return mr_course_epoch_init(&epoch->table, course, number, err);
}

/* The epoch's tables, in place of those not asked for longest where they must be made. */
static mr_status find_epoch(mr_course_cursor *cursor, uint32_t number, open_epoch **out,
                            mr_error *err) {
    open_epoch *oldest = cursor->epochs;
    for (int i = 0; i < EPOCHS; i++) {
        open_epoch *epoch = &cursor->epochs[i];
        if (epoch->open && epoch->table.epoch == number) {
            epoch->used = ++cursor->clock;
            *out = epoch;
            return MR_OK;
        }
        oldest = epoch->used < oldest->used ? epoch : oldest;
    }
    close_epoch(oldest, cursor->course);
    mr_status status = fill_epoch(oldest, cursor->course, number, err);
    if (status < 0) {
        close_epoch(oldest, cursor->course);
        return status;
    }
    oldest->open = true;
    oldest->used = ++cursor->clock;
    *out = oldest;
    return MR_OK;
}

/* ---- Windows ---- */

static mr_status order_window(mr_order *order, const mr_course *course, uint32_t epoch,
                              const mr_course_window *window, mr_error *err) {
    if (!course->config.shuffle) {
        return mr_order_init(order, window->rows, false, 0, 0, err);
    }
    uint64_t number = (uint64_t)window->lane << 31 | (uint64_t)window->number;
    return mr_order_init_keyed(order, window->rows, course->config.seed, epoch,
                               mr_op_word("window", 0), number, err);
}

/* As many rows of the table as the window has places, or twice that. */
static int shift_of(int64_t rows, int64_t places) {
    int shift = 0;
    while ((rows - 1) >> (shift + 1) >= places) {
        shift++;
    }
    return shift;
}

static mr_status reserve_near(lane_window *lane, size_t count, mr_error *err) {
    if (count <= lane->near_capacity) {
        return MR_OK;
    }
    uint32_t *near = mr_zalloc(count, sizeof *near);
    if (!near) {
        return mr_fail_memory(err, count * sizeof *near);
    }
    mr_free(lane->near);
    lane->near = near;
    lane->near_capacity = count;
    return MR_OK;
}

static mr_status index_window(lane_window *lane, const mr_course_place *places,
                              const mr_course_window *window, mr_error *err) {
    int64_t n_places = window->end_place - window->first_place;
    int shift = shift_of(window->rows, n_places);
    int64_t count = ((window->rows - 1) >> shift) + 1, place = 0;
    MR_TRY(reserve_near(lane, (size_t)count, err));
    const mr_course_place *first = places + window->first_place;
    for (int64_t t = 0; t < count; t++) {
        int64_t row = window->first_row + (t << shift);
        while (first[place + 1].row <= row) {
            place++;
        }
        lane->near[t] = (uint32_t)place;
    }
    lane->shift = shift;
    return MR_OK;
}

static mr_status enter_window(open_epoch *epoch, const mr_course *course,
                              const mr_course_window *window, mr_error *err) {
    lane_window *lane = &epoch->lanes[window->lane];
    lane->window.rows = 0;
    mr_order_free(&lane->order);
    MR_TRY(index_window(lane, epoch->table.places, window, err));
    MR_TRY(order_window(&lane->order, course, epoch->table.epoch, window, err));
    lane->window = *window;
    return MR_OK;
}

/* Makes the lane's window the one that has a row of its lane. */
static mr_status reach_row(open_epoch *epoch, const mr_course *course, int32_t k, int64_t row,
                           mr_error *err) {
    const mr_course_window *now = &epoch->lanes[k].window;
    if (now->rows > 0 && row >= now->first_row && row - now->first_row < now->rows) {
        return MR_OK;
    }
    mr_course_window window = now->rows > 0 && row == now->first_row + now->rows
                                  ? mr_course_window_at(&epoch->table, k, now->number + 1)
                                  : mr_course_window_of(&epoch->table, k, row);
    return enter_window(epoch, course, &window, err);
}

/* ---- Picks ---- */

/* The sample at a row in the source's order of those that take part. */
static int64_t sample_at(const mr_course *course, int64_t row) {
    return course->config.selection ? mr_selection_at(course->config.selection, row) : row;
}

static mr_pick pick_at(const open_epoch *epoch, const mr_course *course, int64_t place, int64_t row,
                       int32_t lane) {
    const mr_course_place *at = &epoch->table.places[place];
    int64_t sample = course->plain ? sample_at(course, row + at->shift)
                                   : mr_selection_epoch_sample(&epoch->table.rows, course->blocks,
                                                               at->unit, row - at->row);
    return (mr_pick){
        .sample = sample, .block = at->block, .visit = place + lane, .epoch = epoch->table.epoch};
}

/* Of rows that stay in the source's order and all take part, those of a block follow each other. */
static void take_in_order(const open_epoch *epoch, const mr_course *course, int32_t k,
                          int64_t first, int64_t count, mr_pick *picks, int64_t stride) {
    const lane_window *lane = &epoch->lanes[k];
    const mr_course_place *places = epoch->table.places;
    int64_t place = lane->window.first_place + lane->near[first >> lane->shift];
    int64_t row = lane->window.first_row + first, end = row + count;
    while (row < end) {
        while (places[place + 1].row <= row) {
            place++;
        }
        mr_pick pick = pick_at(epoch, course, place, row, k);
        int64_t until = places[place + 1].row < end ? places[place + 1].row : end;
        for (; row < until; row++, pick.sample++, picks += stride) {
            *picks = pick;
        }
    }
}

/* `count` rows of the lane's window, from its `first` on, to every `stride`-th pick. A visit's
 * number is its place plus its lane: the place of a lane's first visit is that of the last of the
 * lane before, or a later one, so no two visits share a number. */
static void take_rows(const open_epoch *epoch, const mr_course *course, int32_t k, int64_t first,
                      int64_t count, mr_pick *picks, int64_t stride) {
    const lane_window *lane = &epoch->lanes[k];
    const mr_course_place *places = epoch->table.places;
    int64_t rows[CHUNK];
    if (!lane->order.shuffle && course->plain && !course->config.selection) {
        take_in_order(epoch, course, k, first, count, picks, stride);
        return;
    }
    for (int64_t done = 0; done < count;) {
        int64_t n = count - done < CHUNK ? count - done : CHUNK;
        mr_order_list(&lane->order, first + done, n, rows);
        for (int64_t i = 0; i < n; i++) {
            int64_t place = lane->window.first_place + lane->near[rows[i] >> lane->shift];
            int64_t row = lane->window.first_row + rows[i];
            while (places[place + 1].row <= row) {
                place++;
            }
            picks[(done + i) * stride] = pick_at(epoch, course, place, row, k);
        }
        done += n;
    }
}

/* The picks of lane k from its `index`-th row on. */
static mr_status list_lane(open_epoch *epoch, const mr_course *course, int32_t k, int64_t index,
                           int64_t count, mr_pick *picks, int64_t stride, mr_error *err) {
    int64_t row = epoch->table.lanes[k].first_row + index;
    for (int64_t done = 0; done < count;) {
        MR_TRY(reach_row(epoch, course, k, row, err));
        const mr_course_window *window = &epoch->lanes[k].window;
        int64_t skipped = row - window->first_row, left = window->rows - skipped;
        int64_t n = count - done < left ? count - done : left;
        take_rows(epoch, course, k, skipped, n, picks + done * stride, stride);
        done += n;
        row += n;
    }
    return MR_OK;
}

/* Positions of which none is behind the last and whose stride is the number of lanes: each of the
 * first `run` is the first of a lane. */
static mr_status list_lanes(open_epoch *epoch, const mr_course *course,
                            const mr_positions *positions, mr_pick *picks, mr_error *err) {
    for (int64_t i = 0; i < positions->run && i < positions->count; i++) {
        int64_t position = positions->first + i;
        int64_t count = (positions->count - i + positions->run - 1) / positions->run;
        MR_TRY(list_lane(epoch, course, (int32_t)(position % course->lanes),
                         position / course->lanes, count, picks + i, positions->run, err));
    }
    return MR_OK;
}

/* ---- Single samples ---- */

/* The samples at consecutive positions, of which none is behind the last. */
static mr_status single_at(const open_epoch *epoch, const mr_course *course, int64_t first,
                           int64_t count, int64_t *samples, mr_error *err) {
    if (epoch->draws) {
        return mr_selection_draw(epoch->draws, epoch->table.epoch, first, count, samples, err);
    }
    mr_order_list(&epoch->order, first, count, samples);
    for (int64_t i = 0; course->config.selection && i < count; i++) {
        samples[i] = mr_selection_at(course->config.selection, samples[i]);
    }
    return MR_OK;
}

/* Field by field: a whole one would be put together elsewhere and then moved. */
static void put_single(mr_pick *pick, uint32_t epoch, int64_t sample) {
    pick->sample = sample;
    pick->block = pick->visit = -1;
    pick->epoch = epoch;
    pick->child = 0;
}

static mr_status list_single(const open_epoch *epoch, const mr_course *course, int64_t first,
                             int64_t count, mr_pick *picks, mr_error *err) {
    int64_t samples[CHUNK];
    for (int64_t done = 0; done < count;) {
        int64_t n = count - done < CHUNK ? count - done : CHUNK;
        MR_TRY(single_at(epoch, course, first + done, n, samples, err));
        for (int64_t i = 0; i < n; i++) {
            put_single(&picks[done + i], epoch->table.epoch, samples[i]);
        }
        done += n;
    }
    return MR_OK;
}

/* ---- Patterns of positions ---- */

/* Consecutive positions of which none is behind the last. */
static mr_status list_inside(open_epoch *epoch, const mr_course *course, int64_t first,
                             int64_t count, mr_pick *picks, mr_error *err) {
    if (single_samples(course)) {
        return list_single(epoch, course, first, count, picks, err);
    }
    mr_positions all_lanes = {first, count, course->lanes, course->lanes};
    return list_lanes(epoch, course, &all_lanes, picks, err);
}

static mr_status list_run(open_epoch *epoch, const mr_course *course, int64_t first, int64_t count,
                          mr_pick *picks, mr_error *err) {
    first %= course->length;
    for (int64_t done = 0; done < count;) {
        int64_t left = course->length - first, n = count - done < left ? count - done : left;
        MR_TRY(list_inside(epoch, course, first, n, picks + done, err));
        done += n;
        first = 0;
    }
    return MR_OK;
}

/* How many of the positions come before `end`. */
static int64_t count_below(const mr_positions *positions, int64_t end) {
    int64_t apart = end - positions->first;
    if (apart <= 0) {
        return 0;
    }
    int64_t rest = apart % positions->stride;
    int64_t count = apart / positions->stride * positions->run +
                    (rest < positions->run ? rest : positions->run);
    return count < positions->count ? count : positions->count;
}

static mr_status list_pattern(open_epoch *epoch, const mr_course *course,
                              const mr_positions *positions, mr_pick *picks, mr_error *err) {
    int64_t done = 0;
    if (!single_samples(course) && positions->stride == course->lanes) {
        mr_positions inside = *positions;
        inside.count = done = count_below(positions, course->length);
        MR_TRY(list_lanes(epoch, course, &inside, picks, err));
    }
    while (done < positions->count) {
        int64_t left = positions->run - done % positions->run, rest = positions->count - done;
        int64_t n = left < rest ? left : rest;
        MR_TRY(list_run(epoch, course, mr_positions_at(positions, done), n, picks + done, err));
        done += n;
    }
    return MR_OK;
}

mr_status mr_course_list(mr_course_cursor *cursor, uint32_t number, const mr_positions *positions,
                         mr_pick *picks, mr_error *err) {
    open_epoch *epoch = NULL;
    MR_TRY(find_epoch(cursor, number, &epoch, err));
    bool consecutive = positions->run == positions->stride || positions->count <= positions->run;
    if (consecutive) {
        return list_run(epoch, cursor->course, positions->first, positions->count, picks, err);
    }
    return list_pattern(epoch, cursor->course, positions, picks, err);
}

/* ---- Substitutes ---- */

/* The window that a position stands in; its order is not needed, so none is made. */
static mr_course_window window_at_position(const open_epoch *epoch, const mr_course *course,
                                           int64_t position) {
    int32_t k = (int32_t)(position % course->lanes);
    int64_t row = epoch->table.lanes[k].first_row + position / course->lanes;
    return mr_course_window_of(&epoch->table, k, row);
}

/* The single sample at an index; only one that is drawn needs the epoch's tables. */
static mr_status single_at_index(mr_course_cursor *cursor, uint32_t number, int64_t index,
                                 int64_t *sample, mr_error *err) {
    const mr_selection *selection = cursor->course->config.selection;
    if (!selection || !mr_selection_is_drawn(selection)) {
        *sample = sample_at(cursor->course, index);
        return MR_OK;
    }
    open_epoch *epoch = NULL;
    MR_TRY(find_epoch(cursor, number, &epoch, err));
    return mr_selection_draw(epoch->draws, number, index, 1, sample, err);
}

static mr_status substitute_row(mr_course_cursor *cursor, uint32_t number, int64_t position,
                                uint32_t attempt, mr_pick *pick, mr_error *err) {
    const mr_course *course = cursor->course;
    open_epoch *epoch = NULL;
    MR_TRY(find_epoch(cursor, number, &epoch, err));
    mr_course_window window = window_at_position(epoch, course, position);
    int64_t row = window.first_row +
                  mr_order_substitute(window.rows, course->config.seed, number, position, attempt);
    int64_t place = mr_course_find_place(&epoch->table, window.first_place, window.end_place, row);
    *pick = pick_at(epoch, course, place, row, window.lane);
    return MR_OK;
}

mr_status mr_course_substitute(mr_course_cursor *cursor, uint32_t number, int64_t position,
                               uint32_t attempt, mr_pick *pick, mr_error *err) {
    const mr_course *course = cursor->course;
    if (!single_samples(course)) {
        return substitute_row(cursor, number, position, attempt, pick, err);
    }
    int64_t sample = 0, index = mr_order_substitute(course->length, course->config.seed, number,
                                                    position, attempt);
    MR_TRY(single_at_index(cursor, number, index, &sample, err));
    put_single(pick, number, sample);
    return MR_OK;
}

/* ---- Cursors ---- */

mr_status mr_course_cursor_open(mr_course_cursor **out, const mr_course *course, mr_error *err) {
    mr_course_cursor *cursor = mr_zalloc(1, sizeof *cursor);
    if (!cursor) {
        return mr_fail_memory(err, sizeof *cursor);
    }
    cursor->course = course;
    *out = cursor;
    return MR_OK;
}

void mr_course_cursor_free(mr_course_cursor *cursor) {
    if (cursor) {
        for (int i = 0; i < EPOCHS; i++) {
            close_epoch(&cursor->epochs[i], cursor->course);
        }
        mr_free(cursor);
    }
}
