/* SPDX-License-Identifier: Apache-2.0 */
/* course_measure.c - what a course holds in memory and how good its shuffle is. */
#include "plan/course_measure.h"

#include <math.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/memory.h"
#include "plan/course_epoch.h"

#include <millrace/millrace.h>

/* ---- Alive ----
 * Visits come by first position. The most is alive just as one begins: with every visit that began
 * until then, without those that ended before the span that ends with it. */

typedef struct ending {
    int64_t position, size;
} ending;

static int by_position(const void *a, const void *b) {
    const ending *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

static int64_t size_of(const int64_t *size, int64_t block) {
    return size ? size[block] : 1;
}

static int64_t list_endings(mr_visit_walk *walk, const int64_t *size, ending *endings) {
    mr_visit visit;
    int64_t n = 0;
    while (mr_visit_walk_next(walk, &visit)) {
        endings[n++] = (ending){visit.end_position, size_of(size, visit.block)};
    }
    qsort(endings, (size_t)n, sizeof *endings, by_position);
    return n;
}

static int64_t most_alive(mr_visit_walk *walk, const int64_t *size, const ending *endings,
                          int64_t n, int64_t span) {
    mr_visit visit;
    int64_t alive = 0, most = 0, ended = 0;
    while (mr_visit_walk_next(walk, &visit)) {
        while (ended < n && endings[ended].position <= visit.first_position - span + 1) {
            alive -= endings[ended++].size;
        }
        alive += size_of(size, visit.block);
        most = alive > most ? alive : most;
    }
    return most;
}

mr_status mr_course_alive(const mr_course *course, uint32_t epoch, int64_t span, int32_t first_lane,
                          int32_t end_lane, const int64_t *size, int64_t *out, mr_error *err) {
    size_t visits = (size_t)mr_course_max_visits(course) + 1;
    mr_visit_walk *ends = NULL, *begins = NULL;
    ending *endings = mr_zalloc(visits, sizeof *endings);
    mr_status status = endings ? MR_OK : mr_fail_memory(err, visits * sizeof *endings);
    if (endings) {
        status = mr_visit_walk_open(&ends, course, epoch, 0, first_lane, end_lane, err);
    }
    if (ends) {
        status = mr_visit_walk_open(&begins, course, epoch, 0, first_lane, end_lane, err);
    }
    if (begins) {
        int64_t n = list_endings(ends, size, endings);
        *out = most_alive(begins, size, endings, n, span < 1 ? 1 : span);
    }
    mr_visit_walk_free(ends);
    mr_visit_walk_free(begins);
    mr_free(endings);
    return status;
}

/* ---- Touched ----
 * Of the windows that a stretch of positions touches, those at its ends lie in it in part, the
 * others wholly: their rows are positions of the stretch, and the smaller the blocks, the more of
 * them there are. A lane's ends cut a visit in two. */

static int by_rows(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Of the epoch's units, those that have rows; where rows are drawn, any may come to have one. */
static mr_status list_rows(const mr_course *course, int64_t *rows, int64_t *n, mr_error *err) {
    mr_course_epoch epoch;
    if (course->config.selection && mr_selection_is_drawn(course->config.selection)) {
        for (*n = 0; *n < course->n_units; ++*n) {
            rows[*n] = 1;
        }
        return MR_OK;
    }
    MR_TRY(mr_course_epoch_init(&epoch, course, 0, err));
    for (*n = 0; *n < epoch.n_places; ++*n) {
        rows[*n] = epoch.places[*n + 1].row - epoch.places[*n].row;
    }
    mr_course_epoch_free(&epoch);
    qsort(rows, (size_t)*n, sizeof *rows, by_rows);
    return MR_OK;
}

static int64_t most_within(const int64_t *rows, int64_t n, int64_t span) {
    int64_t visits = 0;
    while (visits < n && span >= rows[visits]) {
        span -= rows[visits++];
    }
    return visits;
}

mr_status mr_course_most_touched(const mr_course *course, int64_t span, int64_t *out,
                                 mr_error *err) {
    int64_t n = 0, lanes = course->lanes;
    *out = 0;
    if (!course->blocks) {
        return MR_OK;
    }
    int64_t *rows = mr_zalloc((size_t)course->n_units, sizeof *rows);
    mr_status status = rows ? list_rows(course, rows, &n, err)
                            : mr_fail_memory(err, (size_t)course->n_units * sizeof *rows);
    if (status == MR_OK) {
        int64_t epoch = n + lanes, ends = 2 * lanes * course->window_visits;
        *out = span / course->length * epoch + most_within(rows, n, span % course->length) + lanes +
               (ends < 2 * epoch ? ends : 2 * epoch);
    }
    mr_free(rows);
    return status;
}

/* ---- How good ---- */

static int by_block(const void *a, const void *b) {
    const mr_pick *x = a, *y = b;
    return (x->block > y->block) - (x->block < y->block);
}

static int64_t count_blocks(mr_pick *picks, int64_t n) {
    int64_t blocks = 0;
    qsort(picks, (size_t)n, sizeof *picks, by_block);
    for (int64_t i = 0; i < n; i++) {
        blocks += i == 0 || picks[i].block != picks[i - 1].block;
    }
    return blocks;
}

static mr_status meet_blocks(mr_course_cursor *cursor, const mr_course *course, uint32_t epoch,
                             int64_t batch, mr_pick *picks, double *out, mr_error *err) {
    int64_t batches = course->length / batch, met = 0;
    int64_t looked = batches < 64 ? batches : 64;
    for (int64_t i = 0; i < looked; i++) {
        mr_positions positions = {batches * i / looked * batch, batch, batch, batch};
        MR_TRY(mr_course_list(cursor, epoch, &positions, picks, err));
        met += count_blocks(picks, batch);
    }
    *out = (double)met / (double)looked;
    return MR_OK;
}

/* A block of r of n rows is met by a batch of B unless all B are among the others: the product of
 * (n - r - i) / (n - i), taken as (1 - r / (n - (B - 1) / 2)) ^ B, which is near enough. */
static double blocks_to_expect(const mr_course *course, const mr_course_epoch *epoch,
                               int64_t batch) {
    double rows = (double)course->length - (double)(batch - 1) / 2, met = 0;
    for (int64_t i = 0; i < epoch->n_places; i++) {
        double part = (double)(epoch->places[i + 1].row - epoch->places[i].row) / rows;
        met += part >= 1 ? 1 : 1 - pow(1 - part, (double)batch);
    }
    return met;
}

/* Two of R rows in a random order are (R + 1) / 3 apart, K positions each. */
static double distance_to_expect(const mr_course *course, const mr_course_epoch *epoch) {
    double sum = 0;
    for (int32_t k = 0; k < course->lanes; k++) {
        for (int64_t w = 0; w < epoch->lanes[k].windows; w++) {
            double rows = (double)mr_course_window_at(epoch, k, w).rows;
            sum += rows * (rows + 1) / 3 * course->lanes;
        }
    }
    return sum / (double)course->length;
}

static mr_status measure_batches(const mr_course *course, uint32_t epoch, int64_t batch,
                                 double *out, mr_error *err) {
    mr_course_cursor *cursor = NULL;
    mr_pick *picks = mr_zalloc((size_t)batch, sizeof *picks);
    if (!picks) {
        return mr_fail_memory(err, (size_t)batch * sizeof *picks);
    }
    mr_status status = mr_course_cursor_open(&cursor, course, err);
    if (cursor) {
        status = meet_blocks(cursor, course, epoch, batch, picks, out, err);
    }
    mr_course_cursor_free(cursor);
    mr_free(picks);
    return status;
}

mr_status mr_course_measure(const mr_course *course, uint32_t epoch, int64_t batch,
                            mr_shuffle_measure *out, mr_error *err) {
    if (!course->blocks || !course->config.shuffle || batch < 1 || batch > course->length) {
        return mr_fail(err, MR_E_PARAM, "batches of %lld have no window shuffle to measure",
                       (long long)batch);
    }
    mr_shuffle_measure measure = {.distance_full = (double)(course->length + 1) / 3};
    mr_course_epoch table;
    MR_TRY(mr_course_epoch_init(&table, course, epoch, err));
    measure.blocks_met_full = blocks_to_expect(course, &table, batch);
    measure.distance = distance_to_expect(course, &table);
    mr_course_epoch_free(&table);
    MR_TRY(measure_batches(course, epoch, batch, &measure.blocks_met, err));
    *out = measure;
    return MR_OK;
}
