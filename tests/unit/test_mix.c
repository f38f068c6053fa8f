/* SPDX-License-Identifier: Apache-2.0 */
/* Mixes against runs that are played out group by group, with children of every kind. */
#include "test.h"

#include <math.h>

#include "core/philox.h"
#include "plan/mix.h"
#include "plan/order.h"

enum { MAX_CHILDREN = 5, MAX_BLOCKS = 12, MAX_RUN = 2400, MIXES = 150 };

static int64_t roll(uint64_t number, uint32_t draw, int64_t low, int64_t high) {
    mr_key key = {.seed = 33, .sample = number, .op = 8};
    return low + mr_draw_below(&key, draw, high - low + 1);
}

typedef struct rig {
    mr_course *courses[MAX_CHILDREN];
    double weights[MAX_CHILDREN];
    mr_mix_config config;
    mr_mix *mix;
} rig;

/* Single samples, blocks in the same lanes or in others, blocks without shuffle, or few rows. */
static mr_course *any_course(uint64_t number, uint32_t child, int32_t lanes) {
    uint32_t draw = 40 * (child + 1);
    int64_t first[MAX_BLOCKS + 1] = {0}, blocks = roll(number, draw, 0, MAX_BLOCKS);
    for (int64_t b = 0; b < blocks; b++) {
        first[b + 1] = first[b] + roll(number, draw + 1 + (uint32_t)b, b == 0, 9);
    }
    mr_course_config c = {.samples = blocks ? first[blocks] : roll(number, draw + 20, 1, 60),
                          .n_blocks = blocks,
                          .first = first,
                          .shuffle = roll(number, draw + 21, 0, 4) > 0,
                          .window = roll(number, draw + 22, 0, 8),
                          .lanes = roll(number, draw + 23, 0, 3) ? lanes : lanes + 1,
                          .seed = number + child};
    mr_course *course = NULL;
    CHECK_INT(mr_course_open(&course, &c, NULL), ==, MR_OK);
    return course;
}

static void open_any(rig *r, uint64_t number) {
    *r = (rig){0};
    mr_mix_config *c = &r->config;
    c->n_children = (int32_t)roll(number, 0, 1, MAX_CHILDREN);
    c->lanes = (int32_t)roll(number, 1, 1, 5);
    c->round = roll(number, 2, 20, 60);
    c->length = number % 2 ? roll(number, 3, 1, 300) : 0;
    c->seed = number;
    for (int32_t i = 0; i < c->n_children; i++) {
        r->courses[i] = any_course(number, (uint32_t)i, c->lanes);
        r->weights[i] = (double)roll(number, 10 + (uint32_t)i, 1, 4);
    }
    c->courses = (const mr_course *const *)r->courses;
    c->weights = r->weights;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_mix_open(&r->mix, c, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
}

static void close_rig(rig *r) {
    mr_mix_free(r->mix);
    for (int i = 0; i < MAX_CHILDREN; i++) {
        mr_course_free(r->courses[i]);
    }
}

/* ---- A run played out ---- */

typedef struct played {
    mr_pick picks[MAX_RUN];
    mr_mix_place places[MAX_RUN];
} played;

static bool is_aligned(const rig *r, int32_t child) {
    const mr_course *course = r->courses[child];
    return mr_course_max_visits(course) > 0 && mr_course_lanes(course) == r->config.lanes &&
           mr_course_length(course) >= r->config.lanes;
}

static int64_t epoch_of_child(const rig *r, int32_t child) {
    int64_t n = mr_course_length(r->courses[child]);
    return is_aligned(r, child) ? n - n % r->config.lanes : n;
}

static void play(played *out, const rig *r) {
    int64_t next[MAX_CHILDREN] = {0}, lanes = r->config.lanes, at = 0;
    for (uint64_t round = 0; at < MAX_RUN; round++) {
        mr_order order;
        CHECK_INT(mr_order_init_keyed(&order, r->config.round, r->config.seed, 0,
                                      mr_op_word("mix", 0), round, NULL),
                  ==, MR_OK);
        for (int64_t g = 0; g < r->config.round; g++) {
            int64_t number = mr_order_at(&order, g);
            int32_t child = 0;
            while (number >= mr_mix_quota(r->mix, child)) {
                number -= mr_mix_quota(r->mix, child++);
            }
            for (int64_t k = 0; k < lanes && at < MAX_RUN; k++, at++, next[child]++) {
                int64_t length = epoch_of_child(r, child);
                out->places[at] = (mr_mix_place){.child = child,
                                                 .epoch = (uint32_t)(next[child] / length),
                                                 .position = next[child] % length};
            }
        }
        mr_order_free(&order);
    }
}

static void play_picks(played *out, const rig *r) {
    mr_course_cursor *cursors[MAX_CHILDREN] = {0};
    for (int32_t i = 0; i < r->config.n_children; i++) {
        CHECK_INT(mr_course_cursor_open(&cursors[i], r->courses[i], NULL), ==, MR_OK);
    }
    for (int64_t at = 0; at < MAX_RUN; at++) {
        const mr_mix_place *place = &out->places[at];
        mr_positions one = {place->position, 1, 1, 1};
        CHECK_INT(mr_course_list(cursors[place->child], place->epoch, &one, &out->picks[at], NULL),
                  ==, MR_OK);
        out->picks[at].child = place->child;
    }
    for (int32_t i = 0; i < r->config.n_children; i++) {
        mr_course_cursor_free(cursors[i]);
    }
}

static bool same_pick(const mr_pick *a, const mr_pick *b) {
    return a->sample == b->sample && a->block == b->block && a->visit == b->visit &&
           a->epoch == b->epoch && a->child == b->child;
}

static played run;

TEST(every_position_is_as_played_out) {
    for (uint64_t number = 0; number < MIXES; number++) {
        rig r;
        open_any(&r, number);
        play(&run, &r);
        play_picks(&run, &r);
        mr_mix_cursor *cursor = NULL;
        CHECK_INT(mr_mix_cursor_open(&cursor, r.mix, NULL), ==, MR_OK);
        static mr_pick picks[MAX_RUN];
        int64_t length = mr_mix_length(r.mix);
        for (int64_t first = 0; first < MAX_RUN; first += length) {
            int64_t count = MAX_RUN - first < length ? MAX_RUN - first : length;
            mr_positions all = {0, count, count, count};
            uint32_t epoch = (uint32_t)(first / length);
            CHECK_INT(mr_mix_list(cursor, epoch, &all, picks, NULL), ==, MR_OK);
            for (int64_t i = 0; i < count; i++) {
                CHECK(same_pick(&picks[i], &run.picks[first + i]));
            }
        }
        mr_mix_cursor_free(cursor);
        close_rig(&r);
    }
}

/* Jumping about, in patterns of every kind, also past the end of the epoch. */
static void check_pattern(const rig *r, mr_mix_cursor *cursor, uint64_t number, uint32_t i) {
    static mr_pick picks[MAX_RUN];
    int64_t length = mr_mix_length(r->mix), epochs = MAX_RUN / length;
    int64_t epoch = roll(number, 500 + 7 * i, 0, epochs - 1);
    mr_positions at = {.first = roll(number, 501 + 7 * i, 0, length + 3),
                       .count = roll(number, 502 + 7 * i, 1, 200),
                       .run = roll(number, 503 + 7 * i, 1, r->config.lanes)};
    at.stride = i % 2 ? r->config.lanes : at.run + roll(number, 504 + 7 * i, 0, 4);
    CHECK_INT(mr_mix_list(cursor, (uint32_t)epoch, &at, picks, NULL), ==, MR_OK);
    for (int64_t k = 0; k < at.count; k++) {
        int64_t position = mr_positions_at(&at, k) % length;
        CHECK(same_pick(&picks[k], &run.picks[epoch * length + position]));
    }
}

TEST(any_pattern_from_anywhere_is_what_its_positions_say) {
    for (uint64_t number = 0; number < MIXES; number++) {
        rig r;
        open_any(&r, number);
        play(&run, &r);
        play_picks(&run, &r);
        mr_mix_cursor *cursor = NULL;
        CHECK_INT(mr_mix_cursor_open(&cursor, r.mix, NULL), ==, MR_OK);
        for (uint32_t i = 0; i < 40; i++) {
            check_pattern(&r, cursor, number, i);
        }
        mr_mix_cursor_free(cursor);
        close_rig(&r);
    }
}

TEST(a_place_is_found_by_itself_and_substitutes_come_from_the_child) {
    for (uint64_t number = 0; number < MIXES; number++) {
        rig r;
        open_any(&r, number);
        play(&run, &r);
        mr_mix_cursor *cursor = NULL;
        CHECK_INT(mr_mix_cursor_open(&cursor, r.mix, NULL), ==, MR_OK);
        for (uint32_t i = 0; i < 20; i++) {
            int64_t at = roll(number, 900 + i, 0, MAX_RUN - 1), length = mr_mix_length(r.mix);
            const mr_mix_place *wanted = &run.places[at];
            mr_mix_place got = {0};
            mr_pick pick, other;
            uint32_t epoch = (uint32_t)(at / length);
            CHECK_INT(mr_mix_at(cursor, epoch, at % length, &got, NULL), ==, MR_OK);
            CHECK_INT(got.child, ==, wanted->child);
            CHECK_INT(got.epoch, ==, wanted->epoch);
            CHECK_INT(got.position, ==, wanted->position);
            mr_course_cursor *own = NULL;
            CHECK_INT(mr_course_cursor_open(&own, r.courses[got.child], NULL), ==, MR_OK);
            CHECK_INT(mr_course_substitute(own, got.epoch, got.position, i, &other, NULL), ==,
                      MR_OK);
            CHECK_INT(mr_mix_substitute(cursor, epoch, at % length, i, &pick, NULL), ==, MR_OK);
            other.child = got.child;
            CHECK(same_pick(&pick, &other));
            mr_course_cursor_free(own);
        }
        mr_mix_cursor_free(cursor);
        close_rig(&r);
    }
}

TEST(lanes_of_the_mix_are_lanes_of_its_children) {
    int64_t seen = 0;
    for (uint64_t number = 0; number < MIXES; number++) {
        rig r;
        open_any(&r, number);
        play(&run, &r);
        for (int64_t at = 0; at < MAX_RUN; at++) {
            if (is_aligned(&r, run.places[at].child)) {
                CHECK_INT(run.places[at].position % r.config.lanes, ==, at % r.config.lanes);
                seen += r.config.lanes > 1;
            }
        }
        CHECK_INT(mr_mix_length(r.mix) % r.config.lanes, ==, 0);
        close_rig(&r);
    }
    CHECK_INT(seen, >, 1000);
}

/* ---- Quotas ---- */

TEST(quotas_are_the_weights_to_a_group) {
    for (uint64_t number = 0; number < MIXES; number++) {
        rig r;
        open_any(&r, number);
        double sum = 0;
        int64_t all = 0;
        for (int32_t i = 0; i < r.config.n_children; i++) {
            sum += r.weights[i];
        }
        for (int32_t i = 0; i < r.config.n_children; i++) {
            double exact = r.weights[i] / sum * (double)r.config.round;
            CHECK(fabs((double)mr_mix_quota(r.mix, i) - exact) < 1);
            all += mr_mix_quota(r.mix, i);
        }
        CHECK_INT(all, ==, r.config.round);
        close_rig(&r);
    }
}

/* ---- Visits ---- */

enum { MAX_VISITS = 3000 };

static int32_t walk_visits(const rig *r, uint32_t epoch, int64_t position, int32_t first_lane,
                           int32_t end_lane, mr_mix_visit *out) {
    mr_mix_walk *walk = NULL;
    int32_t n = 0;
    CHECK_INT(mr_mix_walk_open(&walk, r->mix, epoch, position, first_lane, end_lane, NULL), ==,
              MR_OK);
    while (n < MAX_VISITS && mr_mix_walk_next(walk, &out[n], NULL) == MR_OK &&
           out[n].visit.first_position < MAX_RUN) {
        n++;
    }
    mr_mix_walk_free(walk);
    return n;
}

/* Each pick has its visit; a window's visits begin and end with its first and last pick. */
static void check_visits(const mr_mix_visit *visits, int32_t n) {
    static int64_t first[MAX_VISITS], last[MAX_VISITS];
    for (int32_t i = 0; i < n; i++) {
        first[i] = last[i] = -1;
        CHECK(i == 0 || visits[i - 1].visit.first_position <= visits[i].visit.first_position);
    }
    for (int64_t at = 0; at < MAX_RUN; at++) {
        const mr_pick *pick = &run.picks[at];
        int32_t found = 0;
        for (int32_t i = 0; pick->block >= 0 && i < n; i++) {
            const mr_mix_visit *v = &visits[i];
            if (v->child == pick->child && v->epoch == pick->epoch &&
                v->visit.visit == pick->visit) {
                CHECK_INT(v->visit.block, ==, pick->block);
                CHECK(v->visit.first_position <= at && at < v->visit.end_position);
                first[i] = first[i] < 0 ? at : first[i];
                last[i] = at;
                found++;
            }
        }
        CHECK_INT(found, ==, pick->block >= 0);
    }
    for (int32_t i = 0; i < n;) { /* visits of one window follow one another */
        int64_t earliest = INT64_MAX, latest = -1;
        const mr_visit *window = &visits[i].visit;
        for (; i < n && visits[i].visit.first_position == window->first_position; i++) {
            earliest = first[i] >= 0 && first[i] < earliest ? first[i] : earliest;
            latest = last[i] > latest ? last[i] : latest;
        }
        if (window->end_position <= MAX_RUN) {
            CHECK_INT(earliest, ==, window->first_position);
            CHECK_INT(latest + 1, ==, window->end_position);
        }
    }
}

TEST(visits_come_as_the_mix_needs_them) {
    static mr_mix_visit visits[MAX_VISITS];
    for (uint64_t number = 0; number < MIXES / 3; number++) {
        rig r;
        open_any(&r, number);
        play(&run, &r);
        play_picks(&run, &r);
        int32_t n = walk_visits(&r, 0, 0, 0, r.config.lanes, visits);
        CHECK_INT(n, <, MAX_VISITS);
        check_visits(visits, n);
        close_rig(&r);
    }
}

static bool same_visit(const mr_mix_visit *a, const mr_mix_visit *b) {
    return a->child == b->child && a->epoch == b->epoch && a->visit.block == b->visit.block &&
           a->visit.visit == b->visit.visit && a->visit.lane == b->visit.lane &&
           a->visit.first_position == b->visit.first_position &&
           a->visit.end_position == b->visit.end_position;
}

/* From any position on: the same without windows that are over, and of given lanes. */
static void check_rest(const rig *r, const mr_mix_visit *all, int32_t n, int64_t at,
                       int32_t first_lane, int32_t end_lane) {
    static mr_mix_visit rest[MAX_VISITS];
    int64_t length = mr_mix_length(r->mix);
    int32_t n_rest =
        walk_visits(r, (uint32_t)(at / length), at % length, first_lane, end_lane, rest);
    int32_t k = 0;
    for (int32_t i = 0; i < n; i++) {
        bool wanted = !is_aligned(r, all[i].child) ||
                      (all[i].visit.lane >= first_lane && all[i].visit.lane < end_lane);
        if (wanted && all[i].visit.end_position > at) {
            CHECK(k < n_rest && same_visit(&rest[k], &all[i]));
            k++;
        }
    }
    CHECK_INT(k, ==, n_rest);
}

TEST(visits_go_on_from_any_position) {
    static mr_mix_visit visits[MAX_VISITS];
    for (uint64_t number = 0; number < MIXES; number++) {
        rig r;
        open_any(&r, number);
        int32_t n = walk_visits(&r, 0, 0, 0, r.config.lanes, visits);
        for (uint32_t i = 0; i < 6; i++) {
            int32_t first = (int32_t)roll(number, 700 + i, 0, r.config.lanes - 1);
            check_rest(&r, visits, n, roll(number, 710 + i, 0, MAX_RUN - 1), i % 2 ? first : 0,
                       r.config.lanes);
        }
        close_rig(&r);
    }
}

/* ---- Refusals and extremes ---- */

static void check_refused(mr_mix_config c, const char *text) {
    mr_mix *mix = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_mix_open(&mix, &c, &err), <, 0);
    CHECK(mix == NULL);
    CHECK_HAS(err.text, text);
}

static mr_course *single(int64_t samples, uint64_t seed) {
    mr_course_config c = {.samples = samples, .shuffle = true, .lanes = 1, .seed = seed};
    mr_course *course = NULL;
    CHECK_INT(mr_course_open(&course, &c, NULL), ==, MR_OK);
    return course;
}

TEST(what_cannot_be_is_refused) {
    mr_course *courses[] = {single(10, 0), single(20, 0)};
    double weights[] = {1, 1e-9};
    mr_mix_config c = {.courses = (const mr_course *const *)courses,
                       .weights = weights,
                       .n_children = 2,
                       .round = 1000,
                       .lanes = 1};
    check_refused(c, "weight 1 of the mix is too small for a round of 1000");
    weights[1] = 0;
    check_refused(c, "weight 1 of the mix is 0");
    weights[1] = NAN;
    check_refused(c, "weight 1 of the mix is");
    c.round = 0;
    check_refused(c, "round of 0");
    c.n_children = 0;
    check_refused(c, "mix of 0");
    mr_course_free(courses[0]);
    mr_course_free(courses[1]);
}

TEST(the_longest_run_ends_with_an_error) {
    mr_course *courses[] = {single(1, 0), single((int64_t)1 << 47, 0)};
    double weights[] = {1, 1};
    mr_mix_config c = {.courses = (const mr_course *const *)courses,
                       .weights = weights,
                       .n_children = 2,
                       .round = 1000,
                       .lanes = 1};
    mr_mix *mix = NULL;
    mr_mix_cursor *cursor = NULL;
    mr_mix_place place;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_mix_open(&mix, &c, NULL), ==, MR_OK);
    CHECK_INT(mr_mix_cursor_open(&cursor, mix, NULL), ==, MR_OK);
    CHECK_INT(mr_mix_at(cursor, UINT32_MAX, 0, &place, &err), ==, MR_E_LIMIT);
    CHECK_HAS(err.text, "beyond the longest run");
    mr_status status = MR_OK;
    for (int64_t p = 0; p < 100 && status == MR_OK; p++) { /* a child of one sample */
        status = mr_mix_at(cursor, 30000, p, &place, &err);
    }
    CHECK_INT(status, ==, MR_E_LIMIT);
    CHECK_HAS(err.text, "child 0 of the mix would begin its epoch");
    mr_mix_cursor_free(cursor);
    mr_mix_free(mix);
    mr_course_free(courses[0]);
    mr_course_free(courses[1]);
}

/* ---- Golden values: if one of these changes, every saved run of a mix is broken ---- */

TEST(mixes_never_change) {
    static const int64_t wanted[] = {50873, 82, 665, 501, 357, 2, 584, 2, 909, 30713};
    static const int64_t of[] = {1, 0, 0, 0, 0, 2, 0, 2, 0, 1};
    mr_course *courses[] = {single(1000, 1), single(70000, 2), single(10, 3)};
    double weights[] = {0.7, 0.2, 0.1};
    mr_mix_config c = {.courses = (const mr_course *const *)courses,
                       .weights = weights,
                       .n_children = 3,
                       .round = 1000,
                       .lanes = 2,
                       .seed = 5};
    mr_mix *mix = NULL;
    mr_mix_cursor *cursor = NULL;
    CHECK_INT(mr_mix_open(&mix, &c, NULL), ==, MR_OK);
    CHECK_INT(mr_mix_cursor_open(&cursor, mix, NULL), ==, MR_OK);
    CHECK_INT(mr_mix_length(mix), ==, 71010);
    for (int64_t i = 0; i < 10; i++) {
        mr_pick pick = {0};
        mr_positions one = {i * 7001, 1, 1, 1};
        CHECK_INT(mr_mix_list(cursor, 3, &one, &pick, NULL), ==, MR_OK);
        CHECK_INT(pick.sample, ==, wanted[i]);
        CHECK_INT(pick.child, ==, of[i]);
    }
    mr_mix_cursor_free(cursor);
    mr_mix_free(mix);
    for (int i = 0; i < 3; i++) {
        mr_course_free(courses[i]);
    }
}

TEST_MAIN()
