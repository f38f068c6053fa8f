/* SPDX-License-Identifier: Apache-2.0 */
/* The course of an epoch against one that is laid out as a list, for many small shapes; what any
 * shuffle must have; and pinned values, so that no order changes by accident. */
#include "test.h"

#include <math.h>

#include "core/philox.h"
#include "plan/course.h"
#include "plan/course_measure.h"
#include "plan/order.h"

enum { MAX_BLOCKS = 24, MAX_ROWS = 400, MAX_VISITS = 400 };

/* ---- Shapes ---- */

typedef struct shape {
    int64_t first[MAX_BLOCKS + 1];
    mr_course_config config;
} shape;

static int64_t roll(uint64_t number, uint32_t draw, int64_t low, int64_t high) {
    mr_key key = {.seed = 77, .sample = number, .op = 5};
    return low + mr_draw_below(&key, draw, high - low + 1);
}

/* Blocks of 0 to `most` samples, not all empty. */
static void any_blocks(shape *s, uint64_t number, int64_t n_blocks, int64_t most) {
    s->first[0] = 0;
    for (int64_t b = 0; b < n_blocks; b++) {
        int64_t rows = roll(number, 10 + (uint32_t)b, 0, most);
        s->first[b + 1] = s->first[b] + (b == n_blocks / 2 && rows == 0 ? 1 : rows);
    }
    s->config.n_blocks = n_blocks;
    s->config.samples = s->first[n_blocks];
}

static void any_shape(shape *s, uint64_t number) {
    *s = (shape){.config.first = s->first};
    static const int64_t most[] = {1, 3, 16};
    any_blocks(s, number, roll(number, 0, 1, MAX_BLOCKS), most[roll(number, 1, 0, 2)]);
    s->config.lanes = (int32_t)roll(number, 2, 1, number % 5 == 0 ? 40 : 8);
    s->config.window = roll(number, 3, 0, number % 3 == 0 ? 4 : 40);
    s->config.seed = number;
    s->config.shuffle = number % 7 != 0;
}

/* ---- A course laid out as a list ---- */

typedef struct laid_window {
    int64_t first_position, end_position, first_row, rows, lane;
} laid_window;

typedef struct laid_out {
    int64_t n;
    mr_pick rows[MAX_ROWS]; /* before windows permute them */
    mr_pick picks[MAX_ROWS];
    int32_t window_of[MAX_ROWS]; /* of a position */
    laid_window windows[MAX_VISITS];
    int32_t n_windows;
    mr_visit visits[MAX_VISITS];
    int32_t n_visits;
} laid_out;

static mr_order order_of(int64_t n, const mr_course_config *c, uint32_t epoch, const char *what,
                         uint64_t number) {
    mr_order order = {0};
    if (c->shuffle) {
        CHECK_INT(mr_order_init_keyed(&order, n, c->seed, epoch, mr_op_word(what, 0), number, NULL),
                  ==, MR_OK);
    } else {
        CHECK_INT(mr_order_init(&order, n, false, 0, 0, NULL), ==, MR_OK);
    }
    return order;
}

static void lay_rows(laid_out *l, const mr_course_config *c, uint32_t epoch) {
    int64_t full[MAX_BLOCKS], n_full = 0;
    for (int64_t b = 0; b < c->n_blocks; b++) {
        if (c->first[b + 1] > c->first[b]) {
            full[n_full++] = b;
        }
    }
    mr_order order = order_of(n_full, c, epoch, "blocks", 0);
    l->n = 0;
    for (int64_t i = 0; i < n_full; i++) {
        int64_t block = full[mr_order_at(&order, i)];
        for (int64_t s = c->first[block]; s < c->first[block + 1]; s++) {
            l->rows[l->n++] = (mr_pick){.sample = s, .block = block, .epoch = epoch};
        }
    }
    mr_order_free(&order);
}

/* Rows [first, first + rows) are a window of a lane that begins at lane_first. */
static void lay_window(laid_out *l, const mr_course_config *c, int64_t lanes, int64_t lane,
                       int64_t lane_first, int64_t number, int64_t first, int64_t rows,
                       uint32_t epoch) {
    mr_order order = order_of(rows, c, epoch, "window", (uint64_t)lane << 31 | (uint64_t)number);
    int64_t at = (first - lane_first) * lanes + lane;
    l->windows[l->n_windows] = (laid_window){.first_position = at,
                                             .end_position = at + (rows - 1) * lanes + 1,
                                             .first_row = first,
                                             .rows = rows,
                                             .lane = lane};
    for (int64_t i = 0; i < rows; i++) {
        l->picks[at + i * lanes] = l->rows[first + mr_order_at(&order, i)];
        l->window_of[at + i * lanes] = l->n_windows;
        if (i == 0 || l->rows[first + i].block != l->rows[first + i - 1].block) {
            l->visits[l->n_visits++] = (mr_visit){.block = l->rows[first + i].block,
                                                  .lane = (int32_t)lane,
                                                  .first_position = at,
                                                  .end_position = at + (rows - 1) * lanes + 1};
        }
    }
    l->n_windows++;
    mr_order_free(&order);
}

/* Rows [first, end) are a lane. */
static void lay_lane(laid_out *l, const mr_course_config *c, int64_t lanes, int64_t lane,
                     int64_t first, int64_t end, uint32_t epoch) {
    int64_t begins[MAX_BLOCKS + 1], visits = 0;
    for (int64_t r = first; r < end; r++) {
        if (r == first || l->rows[r].block != l->rows[r - 1].block) {
            begins[visits++] = r;
        }
    }
    begins[visits] = end;
    int64_t most = !c->shuffle ? 1 : c->window == 0 ? visits : c->window / lanes;
    most = most < 1 ? 1 : most;
    int64_t windows = (visits + most - 1) / most;
    for (int64_t q = 0; q < windows; q++) {
        int64_t from = begins[q * visits / windows], to = begins[(q + 1) * visits / windows];
        lay_window(l, c, lanes, lane, first, q, from, to - from, epoch);
    }
}

static int by_first_position(const void *a, const void *b) {
    const mr_visit *x = a, *y = b;
    return (x->first_position > y->first_position) - (x->first_position < y->first_position);
}

/* Insertion keeps the order of those that are equal. */
static void sort_visits(laid_out *l) {
    for (int32_t i = 1; i < l->n_visits; i++) {
        for (int32_t j = i; j > 0 && by_first_position(&l->visits[j - 1], &l->visits[j]) > 0; j--) {
            mr_visit kept = l->visits[j];
            l->visits[j] = l->visits[j - 1];
            l->visits[j - 1] = kept;
        }
    }
}

static void lay_out(laid_out *l, const mr_course_config *c, uint32_t epoch) {
    *l = (laid_out){0};
    lay_rows(l, c, epoch);
    int64_t lanes = c->shuffle ? c->lanes : 1, first = 0;
    for (int64_t k = 0; k < lanes; k++) {
        int64_t rows = l->n > k ? (l->n - k + lanes - 1) / lanes : 0;
        lay_lane(l, c, lanes, k, first, first + rows, epoch);
        first += rows;
    }
    CHECK_INT(first, ==, l->n);
    sort_visits(l);
}

/* ---- Courses ---- */

typedef struct rig {
    mr_course *course;
    mr_course_cursor *cursor;
} rig;

static rig open_rig(const mr_course_config *config) {
    rig r = {0};
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_course_open(&r.course, config, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    CHECK_INT(mr_course_cursor_open(&r.cursor, r.course, NULL), ==, MR_OK);
    return r;
}

static void close_rig(rig *r) {
    mr_course_cursor_free(r->cursor);
    mr_course_free(r->course);
}

static void list(rig *r, uint32_t epoch, int64_t first, int64_t count, mr_pick *picks) {
    mr_positions positions = {first, count, 1, 1};
    CHECK_INT(mr_course_list(r->cursor, epoch, &positions, picks, NULL), ==, MR_OK);
}

static bool same_pick(const mr_pick *a, const mr_pick *b) {
    return a->sample == b->sample && a->block == b->block && a->epoch == b->epoch &&
           a->child == b->child;
}

enum { SHAPES = 600 };

TEST(every_position_is_as_laid_out) {
    static laid_out wanted;
    static mr_pick picks[MAX_ROWS];
    for (uint64_t number = 0; number < SHAPES; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            lay_out(&wanted, &s.config, epoch);
            CHECK_INT(mr_course_length(r.course), ==, wanted.n);
            list(&r, epoch, 0, wanted.n, picks);
            for (int64_t p = 0; p < wanted.n; p++) {
                CHECK(same_pick(&picks[p], &wanted.picks[p]));
            }
        }
        close_rig(&r);
    }
}

/* One cursor, jumping between epochs and positions, with patterns of every kind and past the end.
 */
TEST(any_pattern_from_anywhere_is_what_its_positions_say) {
    static laid_out wanted[4];
    static mr_pick picks[3 * MAX_ROWS];
    for (uint64_t number = 0; number < SHAPES / 4; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        for (uint32_t epoch = 0; epoch < 4; epoch++) {
            lay_out(&wanted[epoch], &s.config, epoch);
        }
        for (uint32_t i = 0; i < 60; i++) {
            const laid_out *l = &wanted[roll(number, 100 + 6 * i, 0, 3)];
            mr_positions at = {.first = roll(number, 101 + 6 * i, 0, 2 * l->n),
                               .count = roll(number, 102 + 6 * i, 0, 2 * MAX_ROWS),
                               .run = roll(number, 103 + 6 * i, 1, 9)};
            int64_t lanes = mr_course_lanes(r.course);
            at.run = i % 2 ? at.run : (at.run - 1) % lanes + 1;
            at.stride = i % 2 ? at.run + roll(number, 104 + 6 * i, 0, 5) : lanes;
            CHECK_INT(mr_course_list(r.cursor, l->picks[0].epoch, &at, picks, NULL), ==, MR_OK);
            for (int64_t k = 0; k < at.count; k++) {
                CHECK(same_pick(&picks[k], &l->picks[mr_positions_at(&at, k) % l->n]));
            }
        }
        close_rig(&r);
    }
}

TEST(every_row_comes_once_an_epoch_and_visits_are_numbered_apart) {
    static mr_pick picks[MAX_ROWS];
    for (uint64_t number = 0; number < SHAPES; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        int64_t n = mr_course_length(r.course), lanes = mr_course_lanes(r.course);
        bool seen[MAX_ROWS] = {false};
        int64_t block_of[MAX_VISITS], lane_of[MAX_VISITS];
        memset(block_of, -1, sizeof block_of);
        list(&r, 1, 0, n, picks);
        for (int64_t p = 0; p < n; p++) {
            const mr_pick *pick = &picks[p];
            CHECK(!seen[pick->sample]);
            seen[pick->sample] = true;
            CHECK_INT(pick->sample, >=, s.first[pick->block]);
            CHECK_INT(pick->sample, <, s.first[pick->block + 1]);
            CHECK_INT(pick->visit, <, mr_course_max_visits(r.course));
            CHECK(block_of[pick->visit] == -1 ||
                  (block_of[pick->visit] == pick->block && lane_of[pick->visit] == p % lanes));
            block_of[pick->visit] = pick->block;
            lane_of[pick->visit] = p % lanes;
        }
        CHECK_INT(n, ==, s.config.samples);
        close_rig(&r);
    }
}

/* Windows above the size of order tables, and blocks from 1 to 3,000 rows. */
TEST(large_windows_have_every_row_once) {
    enum { BLOCKS = 200 };
    static int64_t first[BLOCKS + 1];
    static mr_pick picks[700];
    for (int64_t b = 0; b < BLOCKS; b++) {
        first[b + 1] = first[b] + (b % 10 ? roll(1, (uint32_t)b, 1, 3000) : 1);
    }
    mr_course_config c = {.samples = first[BLOCKS],
                          .n_blocks = BLOCKS,
                          .first = first,
                          .shuffle = true,
                          .lanes = 3,
                          .seed = 8};
    for (c.window = 0; c.window <= 180; c.window += 60) {
        rig r = open_rig(&c);
        bool *seen = calloc((size_t)c.samples, sizeof *seen);
        int64_t good = 0;
        for (int64_t p = 0; p < c.samples; p += 700) {
            int64_t n = c.samples - p < 700 ? c.samples - p : 700;
            list(&r, 2, p, n, picks);
            for (int64_t i = 0; i < n; i++) {
                const mr_pick *at = &picks[i];
                good += !seen[at->sample] && at->sample >= first[at->block] &&
                        at->sample < first[at->block + 1];
                seen[at->sample] = true;
            }
        }
        CHECK_INT(good, ==, c.samples);
        free(seen);
        close_rig(&r);
    }
}

/* ---- Visits ---- */

static bool same_visit(const mr_visit *a, const mr_visit *b) {
    return a->block == b->block && a->lane == b->lane && a->first_position == b->first_position &&
           a->end_position == b->end_position;
}

static void check_walk(const rig *r, const laid_out *l, uint32_t epoch, int64_t position,
                       int32_t first_lane, int32_t end_lane) {
    mr_visit_walk *walk = NULL;
    mr_visit got;
    CHECK_INT(mr_visit_walk_open(&walk, r->course, epoch, position, first_lane, end_lane, NULL), ==,
              MR_OK);
    for (int32_t i = 0; i < l->n_visits; i++) {
        const mr_visit *wanted = &l->visits[i];
        if (wanted->end_position > position && wanted->lane >= first_lane &&
            wanted->lane < end_lane) {
            CHECK(mr_visit_walk_next(walk, &got));
            CHECK(same_visit(&got, wanted));
        }
    }
    CHECK(!mr_visit_walk_next(walk, &got));
    CHECK(!mr_visit_walk_next(walk, &got));
    mr_visit_walk_free(walk);
}

TEST(visits_come_in_the_order_of_their_windows_from_any_position) {
    static laid_out wanted;
    for (uint64_t number = 0; number < SHAPES; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        int32_t lanes = mr_course_lanes(r.course);
        lay_out(&wanted, &s.config, 5);
        int64_t step = number % 10 == 0 ? 1 : 1 + wanted.n / 3;
        for (int64_t position = 0; position <= wanted.n; position += step) {
            int32_t first = (int32_t)roll(number, 50, 0, lanes);
            check_walk(&r, &wanted, 5, position, 0, lanes);
            check_walk(&r, &wanted, 5, position, first, (int32_t)roll(number, 51, first, lanes));
        }
        close_rig(&r);
    }
}

/* What a reader relies on: who follows the walk has every pick's visit, with its numbers. */
TEST(every_pick_is_covered_by_its_visit) {
    static mr_pick picks[MAX_ROWS];
    for (uint64_t number = 0; number < SHAPES; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        mr_visit by_number[MAX_VISITS] = {0}, visit;
        mr_visit_walk *walk = NULL;
        int32_t lanes = mr_course_lanes(r.course);
        CHECK_INT(mr_visit_walk_open(&walk, r.course, 2, 0, 0, lanes, NULL), ==, MR_OK);
        while (mr_visit_walk_next(walk, &visit)) {
            CHECK_INT(by_number[visit.visit].end_position, ==, 0);
            by_number[visit.visit] = visit;
        }
        mr_visit_walk_free(walk);
        int64_t n = mr_course_length(r.course);
        list(&r, 2, 0, n, picks);
        for (int64_t p = 0; p < n; p++) {
            const mr_visit *of = &by_number[picks[p].visit];
            CHECK_INT(of->block, ==, picks[p].block);
            CHECK_INT(of->lane, ==, p % lanes);
            CHECK(of->first_position <= p && p < of->end_position);
        }
        close_rig(&r);
    }
}

/* ---- Substitutes ---- */

TEST(substitutes_are_uniform_over_the_rows_of_the_window) {
    static laid_out l;
    for (uint64_t number = 0; number < SHAPES; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        lay_out(&l, &s.config, 3);
        for (uint32_t i = 0; i < 20; i++) {
            int64_t p = roll(number, 200 + i, 0, l.n - 1);
            const laid_window *w = &l.windows[l.window_of[p]];
            mr_pick pick, *wanted;
            CHECK_INT(mr_course_substitute(r.cursor, 3, p, i, &pick, NULL), ==, MR_OK);
            wanted = &l.rows[w->first_row + mr_order_substitute(w->rows, s.config.seed, 3, p, i)];
            CHECK(same_pick(&pick, wanted));
        }
        close_rig(&r);
    }
}

TEST(a_substitute_belongs_to_a_visit_of_the_same_window) {
    for (uint64_t number = 0; number < SHAPES; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        int64_t lanes = mr_course_lanes(r.course), p = roll(number, 9, 0, s.config.samples - 1);
        mr_pick pick;
        CHECK_INT(mr_course_substitute(r.cursor, 0, p, 0, &pick, NULL), ==, MR_OK);
        mr_visit_walk *walk = NULL;
        mr_visit visit;
        bool found = false;
        CHECK_INT(mr_visit_walk_open(&walk, r.course, 0, 0, 0, (int32_t)lanes, NULL), ==, MR_OK);
        while (mr_visit_walk_next(walk, &visit)) {
            found = found || (visit.visit == pick.visit && visit.block == pick.block &&
                              visit.lane == p % lanes && visit.first_position <= p &&
                              p < visit.end_position);
        }
        CHECK(found);
        mr_visit_walk_free(walk);
        close_rig(&r);
    }
}

/* ---- Single samples ---- */

TEST(single_samples_have_the_order_of_order_h) {
    static const int64_t sizes[] = {1, 10, 1000, 70000};
    static int64_t samples[3000];
    static mr_pick picks[3000];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            mr_course_config c = {
                .samples = sizes[i], .shuffle = shuffle, .lanes = 4, .seed = 9, .window = 2};
            rig r = open_rig(&c);
            mr_order order;
            CHECK_INT(mr_order_init(&order, c.samples, shuffle, 9, 6, NULL), ==, MR_OK);
            mr_order_list(&order, c.samples / 2, 3000, samples);
            list(&r, 6, c.samples / 2, 3000, picks);
            for (int64_t k = 0; k < 3000; k++) {
                mr_pick wanted = {.sample = samples[k], .block = -1, .epoch = 6};
                CHECK(same_pick(&picks[k], &wanted));
                CHECK_INT(picks[k].visit, ==, -1);
            }
            CHECK_INT(mr_course_substitute(r.cursor, 6, 0, 1, picks, NULL), ==, MR_OK);
            CHECK_INT(picks[0].sample, ==, mr_order_substitute(c.samples, 9, 6, 0, 1));
            mr_visit_walk *walk = NULL;
            mr_visit visit;
            CHECK_INT(mr_visit_walk_open(&walk, r.course, 0, 0, 0, 4, NULL), ==, MR_OK);
            CHECK(!mr_visit_walk_next(walk, &visit));
            mr_visit_walk_free(walk);
            mr_order_free(&order);
            close_rig(&r);
        }
    }
}

/* ---- Statistics ---- */

/* Where each row of a window of 4 blocks of 6 comes to stand, over seeds: anywhere in the window,
 * and in any window. */
TEST(rows_stand_anywhere) {
    enum { N = 48, SEEDS = 6000 };
    static int64_t counts[N][N];
    int64_t first[9];
    for (int64_t b = 0; b <= 8; b++) {
        first[b] = 6 * b;
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        mr_course_config c = {.samples = N,
                              .n_blocks = 8,
                              .first = first,
                              .shuffle = true,
                              .window = 4,
                              .lanes = 2,
                              .seed = seed / 2};
        rig r = open_rig(&c);
        mr_pick picks[N];
        list(&r, seed % 2, 0, N, picks);
        for (int64_t p = 0; p < N; p++) {
            counts[p][picks[p].sample]++;
        }
        close_rig(&r);
    }
    double expected = (double)SEEDS / N, sum = 0, degrees = (N - 1) * (N - 1);
    for (int64_t i = 0; i < N * N; i++) {
        double off = (double)counts[i / N][i % N] - expected;
        sum += off * off / expected;
    }
    CHECK(fabs(sum - degrees) / sqrt(2 * degrees) < 4);
}

/* Over seeds, the order within one window is each of its orders equally often. */
TEST(all_orders_of_a_window_are_equally_likely) {
    int64_t first[] = {0, 2, 3, 5}, counts[120] = {0};
    for (uint64_t seed = 0; seed < 120 * 60; seed++) {
        mr_course_config c = {
            .samples = 5, .n_blocks = 3, .first = first, .shuffle = true, .lanes = 1, .seed = seed};
        rig r = open_rig(&c);
        mr_pick picks[5];
        list(&r, 4, 0, 5, picks);
        int64_t number = 0;
        for (int64_t i = 0; i < 5; i++) {
            int64_t smaller = 0;
            for (int64_t j = i + 1; j < 5; j++) {
                smaller += picks[j].sample < picks[i].sample;
            }
            number = number * (5 - i) + smaller;
        }
        counts[number]++;
        close_rig(&r);
    }
    double sum = 0;
    for (int i = 0; i < 120; i++) {
        sum += ((double)counts[i] - 60) * ((double)counts[i] - 60) / 60;
    }
    CHECK(fabs(sum - 119) / sqrt(2 * 119.0) < 4);
}

/* ---- Figures ---- */

static int64_t alive_at(const laid_out *l, int64_t position, int64_t span, int32_t end_lane,
                        const int64_t *size) {
    int64_t alive = 0;
    for (int32_t i = 0; i < l->n_visits; i++) {
        const mr_visit *v = &l->visits[i];
        bool touched = v->first_position < position + span && v->end_position > position;
        alive += touched && v->lane < end_lane ? size[v->block] : 0;
    }
    return alive;
}

TEST(what_is_alive_is_the_most_that_any_span_touches) {
    static laid_out l;
    int64_t size[MAX_BLOCKS];
    for (uint64_t number = 0; number < SHAPES / 2; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        lay_out(&l, &s.config, 1);
        for (int64_t b = 0; b < MAX_BLOCKS; b++) {
            size[b] = number % 3 == 0 ? 1 : roll(number, 300 + (uint32_t)b, 1, 50);
        }
        int64_t span = roll(number, 290, 1, 40), wanted = 0, got = 0;
        int32_t end_lane = (int32_t)roll(number, 291, 1, mr_course_lanes(r.course));
        for (int64_t p = -span; p < l.n; p++) {
            int64_t alive = alive_at(&l, p, span, end_lane, size);
            wanted = alive > wanted ? alive : wanted;
        }
        CHECK_INT(mr_course_alive(r.course, 1, span, 0, end_lane, number % 3 == 0 ? NULL : size,
                                  &got, NULL),
                  ==, MR_OK);
        CHECK_INT(got, ==, wanted);
        close_rig(&r);
    }
}

static int64_t touched_at(const laid_out *l, int64_t position, int64_t span) {
    int64_t touched = 0;
    for (int32_t i = 0; i < l->n_visits; i++) {
        const mr_visit *v = &l->visits[i];
        touched += v->first_position < position + span && v->end_position > position;
    }
    return touched;
}

/* Over the end of an epoch too: the span that ends the first begins the second. */
TEST(no_span_touches_more_visits_than_are_promised) {
    static laid_out l[2];
    for (uint64_t number = 0; number < SHAPES / 2; number++) {
        shape s;
        any_shape(&s, number);
        rig r = open_rig(&s.config);
        lay_out(&l[0], &s.config, 1);
        lay_out(&l[1], &s.config, 2);
        int64_t span = roll(number, 290, 1, 40), promised = 0;
        CHECK_INT(mr_course_most_touched(r.course, span, &promised, NULL), ==, MR_OK);
        for (int64_t p = 0; p < l[0].n; p++) {
            int64_t touched = touched_at(&l[0], p, span) + touched_at(&l[1], p - l[0].n, span);
            CHECK_INT(touched, <=, promised);
        }
        close_rig(&r);
    }
}

TEST(of_equal_blocks_little_more_is_promised_than_is_touched) {
    int64_t first[101], promised = 0;
    for (int64_t b = 0; b <= 100; b++) {
        first[b] = b * 10;
    }
    mr_course_config c = {.samples = first[100],
                          .n_blocks = 100,
                          .first = first,
                          .shuffle = true,
                          .window = 4,
                          .lanes = 1};
    rig r = open_rig(&c);
    CHECK_INT(mr_course_most_touched(r.course, 25, &promised, NULL), ==, MR_OK);
    CHECK_INT(promised, ==, 2 * 4 + 2 + 1);
    CHECK_INT(mr_course_most_touched(r.course, 2 * 1000 + 25, &promised, NULL), ==, MR_OK);
    CHECK_INT(promised, ==, 2 * 101 + 2 * 4 + 2 + 1);
    close_rig(&r);
}

static mr_shuffle_measure measure(int64_t window, int32_t lanes, int64_t batch) {
    enum { BLOCKS = 200, ROWS = 100 };
    static int64_t first[BLOCKS + 1];
    for (int64_t b = 0; b <= BLOCKS; b++) {
        first[b] = b * ROWS;
    }
    mr_course_config c = {.samples = first[BLOCKS],
                          .n_blocks = BLOCKS,
                          .first = first,
                          .shuffle = true,
                          .window = window,
                          .lanes = lanes,
                          .seed = 3};
    rig r = open_rig(&c);
    mr_shuffle_measure out = {0};
    CHECK_INT(mr_course_measure(r.course, 0, batch, &out, NULL), ==, MR_OK);
    close_rig(&r);
    return out;
}

/* The distance against the order itself: the mean over all pairs of rows of a visit. */
static double distance_by_hand(mr_course_config *c) {
    static mr_pick picks[MAX_ROWS];
    double sum = 0, weight = 0;
    rig r = open_rig(c);
    list(&r, 0, 0, c->samples, picks);
    for (int64_t i = 0; i < c->samples; i++) {
        double apart = 0, others = 0;
        for (int64_t j = 0; j < c->samples; j++) {
            bool same = i != j && picks[i].visit == picks[j].visit;
            apart += same ? fabs((double)(i - j)) : 0;
            others += same;
        }
        sum += others > 0 ? apart / others : 0;
        weight += others > 0;
    }
    close_rig(&r);
    return sum / weight;
}

TEST(distances_are_what_orders_show) {
    static const int64_t windows[] = {2, 4, 8, 0};
    int64_t first[17];
    for (int64_t b = 0; b <= 16; b++) {
        first[b] = b * 24;
    }
    for (size_t i = 0; i < 4; i++) {
        mr_course_config c = {.samples = first[16],
                              .n_blocks = 16,
                              .first = first,
                              .shuffle = true,
                              .window = windows[i],
                              .lanes = 2};
        double by_hand = 0;
        for (c.seed = 0; c.seed < 20; c.seed++) {
            by_hand += distance_by_hand(&c) / 20;
        }
        rig r = open_rig(&c);
        mr_shuffle_measure m;
        CHECK_INT(mr_course_measure(r.course, 0, 16, &m, NULL), ==, MR_OK);
        CHECK(fabs(by_hand / m.distance - 1) < 0.05);
        close_rig(&r);
    }
}

TEST(a_window_of_all_is_as_good_as_a_full_shuffle_and_smaller_ones_are_worse) {
    mr_shuffle_measure all = measure(0, 1, 64), half = measure(100, 1, 64),
                       few = measure(10, 1, 64), lanes = measure(16, 8, 64);
    CHECK(fabs(all.blocks_met / all.blocks_met_full - 1) < 0.02);
    CHECK(fabs(all.distance / all.distance_full - 1) < 1e-9);
    CHECK(fabs(half.distance / half.distance_full - 0.5) < 1e-3);
    CHECK(half.blocks_met < all.blocks_met);
    CHECK(few.blocks_met > 9 && few.blocks_met < 12); /* 10, and more where windows meet */
    CHECK(fabs(few.distance / few.distance_full - 0.05) < 1e-3);
    CHECK(lanes.blocks_met > few.blocks_met);
    CHECK(fabs(all.blocks_met_full - 55) < 1); /* 200 (1 - (1 - 1 / 200) ^ 64) = 54.9 */
}

/* ---- Keyed orders ---- */

static int64_t count_equal(int64_t n, uint32_t op_a, uint64_t a, uint32_t op_b, uint64_t b) {
    mr_order x, y;
    CHECK_INT(mr_order_init_keyed(&x, n, 1, 2, op_a, a, NULL), ==, MR_OK);
    CHECK_INT(mr_order_init_keyed(&y, n, 1, 2, op_b, b, NULL), ==, MR_OK);
    int64_t equal = 0;
    for (int64_t i = 0; i < 1000; i++) {
        equal += mr_order_at(&x, i) == mr_order_at(&y, i);
    }
    mr_order_free(&x);
    mr_order_free(&y);
    return equal;
}

TEST(every_part_of_an_orders_key_counts) {
    static const int64_t sizes[] = {1000, 100000};
    for (size_t i = 0; i < 2; i++) {
        CHECK_INT(count_equal(sizes[i], 7, 3, 7, 3), ==, 1000);
        CHECK_INT(count_equal(sizes[i], 7, 3, 8, 3), <, 12);
        for (int bit = 0; bit < 47; bit++) {
            CHECK_INT(count_equal(sizes[i], 7, 0, 7, (uint64_t)1 << bit), <, 12);
        }
    }
}

/* ---- Refusals ---- */

static void check_refused(mr_course_config c, mr_status code, const char *text) {
    mr_course *course = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_course_open(&course, &c, &err), ==, code);
    CHECK(course == NULL);
    CHECK_HAS(err.text, text);
}

TEST(what_cannot_be_is_refused) {
    const int64_t first[] = {0, 4, 10}, back[] = {0, 11, 10}, late[] = {1, 4, 10};
    mr_course_config good = {.samples = 10, .n_blocks = 2, .first = first, .lanes = 1}, bad = good;
    rig r = open_rig(&good);
    close_rig(&r);
    bad.samples = 0;
    check_refused(bad, MR_E_LIMIT, "0 samples");
    bad = good, bad.lanes = 0;
    check_refused(bad, MR_E_PARAM, "lanes is 0");
    bad = good, bad.window = -1;
    check_refused(bad, MR_E_PARAM, "window of -1");
    bad = good, bad.n_blocks = MR_MAX_BLOCKS + 1;
    check_refused(bad, MR_E_LIMIT, "blocks");
    bad = good, bad.first = back;
    check_refused(bad, MR_E_CORRUPT, "block 1 begins at sample 11");
    bad = good, bad.first = late;
    check_refused(bad, MR_E_CORRUPT, "samples 1 to 10");
    bad = good, bad.samples = 11;
    check_refused(bad, MR_E_CORRUPT, "there are 11");
}

/* ---- Golden values: if one of these changes, every saved run over blocks is broken ---- */

static void check_samples(mr_course_config c, uint32_t epoch, int64_t stride, const int64_t *wanted,
                          int64_t count) {
    rig r = open_rig(&c);
    for (int64_t i = 0; i < count; i++) {
        mr_pick pick;
        list(&r, epoch, i * stride, 1, &pick);
        CHECK_INT(pick.sample, ==, wanted[i]);
    }
    close_rig(&r);
}

TEST(courses_never_change) {
    static int64_t first[1001];
    for (int64_t b = 0; b < 1000; b++) {
        first[b + 1] = first[b] + 100 + b % 7;
    }
    static const int64_t small[] = {798, 763, 287, 620, 254, 259, 236, 128, 140, 200};
    static const int64_t middle[] = {78070, 73051, 52224, 8247, 96326, 5934, 1873, 18082};
    static const int64_t all[] = {89864, 40555, 18627, 66110, 79716, 52684, 94843, 69926};
    mr_course_config c = {.samples = first[10],
                          .n_blocks = 10,
                          .first = first,
                          .shuffle = true,
                          .window = 4,
                          .lanes = 2,
                          .seed = 1};
    check_samples(c, 0, 100, small, 10);
    c.n_blocks = 1000, c.samples = first[1000], c.window = 64, c.lanes = 8, c.seed = 12345678901;
    check_samples(c, 7, 12345, middle, 8);
    c.window = 0, c.lanes = 1;
    check_samples(c, 7, 12345, all, 8);
}

TEST_MAIN()
