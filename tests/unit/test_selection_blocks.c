/* SPDX-License-Identifier: Apache-2.0 */
/* Views over samples that lie in blocks: what an epoch has, beside the same view written out. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "core/philox.h"
#include "plan/course.h"
#include "plan/selection.h"

enum { MOST = 4000, SAMPLES = 300, BLOCKS = 17, CASES = 400 };

static int64_t roll(uint64_t number, uint32_t what, int64_t least, int64_t most) {
    mr_key key = {.seed = number, .op = what};
    return least + mr_draw_below(&key, 0, most - least + 1);
}

static double weight_of(int64_t sample) {
    return sample % 5 == 4 || sample > SAMPLES - 9 ? 0 : 0.1 * (double)(1 + sample % 13);
}

static int64_t class_of(int64_t sample) {
    return sample % 7 == 0 ? -5 : sample % 11 == 0 ? 1000000 : sample / 60 % 3;
}

static mr_status fact_weights(void *user, int32_t step, const char *field, int64_t first,
                              int64_t count, double *out, mr_error *err) {
    (void)user, (void)step, (void)field, (void)err;
    for (int64_t i = 0; i < count; i++) {
        out[i] = weight_of(first + i);
    }
    return MR_OK;
}

static mr_status fact_classes(void *user, int32_t step, const char *field, int64_t first,
                              int64_t count, int64_t *out, mr_error *err) {
    (void)user, (void)step, (void)field, (void)err;
    for (int64_t i = 0; i < count; i++) {
        out[i] = class_of(first + i);
    }
    return MR_OK;
}

static const mr_sample_facts in_blocks = {
    .weights = fact_weights, .classes = fact_classes, .in_blocks = true};

/* ---- A view, its blocks, and an epoch of it ---- */

typedef struct view {
    mr_view_step steps[6];
    int32_t n;
    mr_selection *selection;
    int64_t first[BLOCKS + 1];
    mr_course *course;
    int64_t length;
    mr_pick picks[MOST];
    int64_t seen[SAMPLES]; /* how often each sample came */
} view;

static void add(view *v, mr_view_kind kind, int64_t count, int64_t offset) {
    static char field[] = "field";
    v->steps[v->n++] =
        (mr_view_step){.kind = kind, .count = count, .offset = offset, .text = field};
}

static void cut_blocks(view *v, uint64_t number) {
    for (int64_t b = 1; b <= BLOCKS; b++) {
        int64_t rest = SAMPLES - v->first[b - 1];
        v->first[b] =
            b == BLOCKS ? SAMPLES : v->first[b - 1] + roll(number, 50 + (uint32_t)b, 0, rest / 4);
    }
}

static bool open_view(view *v, uint64_t number, bool shuffle) {
    mr_error err = MR_ERROR_INIT;
    cut_blocks(v, number);
    mr_status status = mr_selection_open(&v->selection, SAMPLES, v->steps, v->n, &in_blocks, &err);
    if (status < 0) {
        CHECK_HAS(err.text, "no sample is left");
        return false;
    }
    const mr_course_config config = {.samples = SAMPLES,
                                     .n_blocks = BLOCKS,
                                     .first = v->first,
                                     .shuffle = shuffle,
                                     .window = roll(number, 1, 0, 6),
                                     .lanes = (int32_t)roll(number, 2, 1, 4),
                                     .seed = number,
                                     .selection = v->selection};
    CHECK_INT(mr_course_open(&v->course, &config, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    v->length = mr_course_length(v->course);
    CHECK_INT(v->length, ==, mr_selection_length(v->selection));
    return v->length <= MOST;
}

static void close_view(view *v) {
    mr_course_free(v->course);
    mr_selection_free(v->selection);
    *v = (view){.n = 0};
}

static bool is_of_its_block(const view *v, const mr_pick *pick) {
    return pick->sample >= v->first[pick->block] && pick->sample < v->first[pick->block + 1];
}

static void check_one(const view *v, mr_course_cursor *cursor, uint32_t epoch, int64_t p) {
    mr_pick one;
    const mr_positions alone = {p, 1, 1, 1};
    CHECK_INT(mr_course_list(cursor, epoch, &alone, &one, NULL), ==, MR_OK);
    CHECK(one.sample == v->picks[p].sample && one.visit == v->picks[p].visit);
    CHECK_INT(mr_course_substitute(cursor, epoch, p, 3, &one, NULL), ==, MR_OK);
    CHECK(is_of_its_block(v, &one));
}

/* Lists an epoch, also backwards and in pieces, and checks that picks are of their blocks. */
static void list(view *v, uint32_t epoch) {
    mr_course_cursor *cursor = NULL;
    const mr_positions all = {0, v->length, v->length, v->length};
    CHECK_INT(mr_course_cursor_open(&cursor, v->course, NULL), ==, MR_OK);
    CHECK_INT(mr_course_list(cursor, epoch, &all, v->picks, NULL), ==, MR_OK);
    memset(v->seen, 0, sizeof v->seen);
    for (int64_t p = 0; p < v->length; p++) {
        const mr_pick *pick = &v->picks[p];
        CHECK(is_of_its_block(v, pick));
        CHECK(pick->visit < mr_course_max_visits(v->course));
        v->seen[pick->sample]++;
    }
    for (int64_t p = v->length - 1; p >= 0; p -= 1 + v->length / 50) {
        check_one(v, cursor, epoch, p);
    }
    mr_course_cursor_free(cursor);
}

/* Every visit that picks name comes, with room for their positions, and no block is visited more
 * often than `most` times beside the cuts between lanes. */
static void check_visits(const view *v, uint32_t epoch, int64_t most) {
    mr_visit_walk *walk = NULL;
    mr_visit visit;
    int64_t visits[BLOCKS] = {0}, n = 0;
    static int64_t first[MOST], end[MOST];
    memset(end, 0, sizeof end);
    CHECK_INT(mr_visit_walk_open(&walk, v->course, epoch, 0, 0, mr_course_lanes(v->course), NULL),
              ==, MR_OK);
    while (mr_visit_walk_next(walk, &visit)) {
        visits[visit.block]++;
        first[visit.visit] = visit.first_position;
        end[visit.visit] = visit.end_position;
        n++;
    }
    mr_visit_walk_free(walk);
    for (int64_t p = 0; p < v->length; p++) {
        CHECK(p >= first[v->picks[p].visit] && p < end[v->picks[p].visit]);
    }
    int64_t blocks = 0, cuts = mr_course_lanes(v->course) - 1;
    for (int64_t b = 0; b < BLOCKS; b++) {
        blocks += visits[b] > 0;
        CHECK(visits[b] <= most + cuts);
    }
    CHECK(n <= blocks * most + cuts);
}

/* ---- Repeats ---- */

static void any_repeat(view *v, uint64_t number) {
    add(v, MR_VIEW_SKIP, roll(number, 10, 0, 100), 0);
    add(v, MR_VIEW_EVERY, roll(number, 11, 1, 3), 0);
    for (uint32_t i = 0; i < 2; i++) {
        add(v, MR_VIEW_REPEAT, roll(number, 12 + 3 * i, 1, 4), 0);
        int64_t kind = roll(number, 13 + 3 * i, 0, 3), count = roll(number, 14 + 3 * i, 1, 500);
        if (kind == 0) {
            add(v, MR_VIEW_TAKE, count, 0);
        } else if (kind == 1) {
            add(v, MR_VIEW_SKIP, count, 0);
        } else if (kind == 2) {
            add(v, MR_VIEW_EVERY, 1 + count % 5, count % (1 + count % 5));
        }
    }
}

TEST(with_shuffle_each_sample_comes_as_often_as_the_view_has_it) {
    static view v;
    int64_t tried = 0;
    for (uint64_t number = 0; number < CASES; number++) {
        any_repeat(&v, number);
        if (open_view(&v, number, true)) {
            int64_t wanted[SAMPLES] = {0};
            for (int64_t i = 0; i < v.length; i++) {
                wanted[mr_selection_at(v.selection, i)]++;
            }
            list(&v, 1);
            CHECK(memcmp(wanted, v.seen, sizeof wanted) == 0);
            check_visits(&v, 1, 1);
            tried++;
        }
        close_view(&v);
    }
    CHECK_INT(tried, >, CASES / 2);
}

static void check_sequence(view *v) {
    list(v, 1);
    for (int64_t i = 0; i < v->length; i++) {
        CHECK_INT(v->picks[i].sample, ==, mr_selection_at(v->selection, i));
    }
    check_visits(v, 1, 16);
}

TEST(without_shuffle_the_sequence_is_the_views_own) {
    static view v;
    for (uint64_t number = 0; number < CASES; number++) {
        any_repeat(&v, number);
        if (open_view(&v, number, false)) {
            check_sequence(&v);
        }
        close_view(&v);
    }
}

TEST(too_many_passes_are_refused) {
    static view v;
    mr_error err = MR_ERROR_INIT;
    add(&v, MR_VIEW_REPEAT, 1LL << 38, 0);
    cut_blocks(&v, 1);
    CHECK_INT(mr_selection_open(&v.selection, SAMPLES, v.steps, v.n, &in_blocks, &err), ==, MR_OK);
    const mr_course_config config = {.samples = SAMPLES,
                                     .n_blocks = BLOCKS,
                                     .first = v.first,
                                     .shuffle = true,
                                     .lanes = 1,
                                     .selection = v.selection};
    CHECK_INT(mr_course_open(&v.course, &config, &err), ==, MR_E_LIMIT);
    CHECK_HAS(err.text, "cannot be gone through");
    v.course = NULL;
    close_view(&v);
}

/* ---- Weights ---- */

static void any_drawn(view *v, uint64_t number, mr_view_kind kind) {
    add(v, MR_VIEW_SKIP, roll(number, 10, 0, 100), 0);
    add(v, MR_VIEW_EVERY, roll(number, 11, 1, 3), 0);
    add(v, kind, roll(number, 12, 0, 2) == 0 ? 0 : roll(number, 13, 1, 900), 0);
    if (roll(number, 14, 0, 2) == 0) {
        add(v, MR_VIEW_TAKE, roll(number, 15, 1, 400), 0);
    }
}

static bool takes_part(const view *v, int64_t sample) {
    int64_t at = sample - v->steps[0].count;
    return at >= 0 && at % v->steps[1].count == 0;
}

/* What comes before the draws. */
static double expected(const view *v, int64_t sample) {
    double sum = 0;
    for (int64_t s = 0; s < SAMPLES; s++) {
        sum += takes_part(v, s) ? weight_of(s) : 0;
    }
    return takes_part(v, sample) ? weight_of(sample) / sum * (double)v->length : 0;
}

/* A sample's strata are whole but for two, at its ends, which it may get or not. */
TEST(weights_hold_to_two) {
    static view v;
    for (uint64_t number = 0; number < CASES; number++) {
        any_drawn(&v, number, MR_VIEW_WEIGHTS);
        CHECK(open_view(&v, number, number % 4 != 0));
        list(&v, 1);
        for (int64_t s = 0; s < SAMPLES; s++) {
            double wanted = expected(&v, s);
            CHECK(fabs((double)v.seen[s] - wanted) < 2);
            CHECK(wanted > 0 || v.seen[s] == 0);
        }
        check_visits(&v, 1, 1);
        close_view(&v);
    }
}

/* Over many epochs, which draw apart. The bound is 5 times the deviation of a coin for each. */
TEST(weights_hold_on_average) {
    enum { EPOCHS = 400 };
    static view v;
    double sum[SAMPLES] = {0};
    int64_t same = 0;
    static mr_pick before[MOST];
    add(&v, MR_VIEW_SKIP, 0, 0);
    add(&v, MR_VIEW_EVERY, 1, 0);
    add(&v, MR_VIEW_WEIGHTS, 97, 0);
    CHECK(open_view(&v, 3, true));
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        list(&v, epoch);
        for (int64_t s = 0; s < SAMPLES; s++) {
            sum[s] += (double)v.seen[s];
        }
        same += memcmp(before, v.picks, (size_t)v.length * sizeof *before) == 0;
        memcpy(before, v.picks, sizeof before);
    }
    CHECK_INT(same, ==, 0);
    for (int64_t s = 0; s < SAMPLES; s++) {
        CHECK(fabs(sum[s] / EPOCHS - expected(&v, s)) < 5 * 0.5 / sqrt(EPOCHS));
    }
    close_view(&v);
}

/* ---- Balance ---- */

static void check_balance(const view *v) {
    static const int64_t labels[] = {-5, 0, 1, 2, 1000000};
    int64_t least = INT64_MAX, most = 0, classes = 0;
    for (size_t c = 0; c < 5; c++) {
        int64_t rows = 0, low = INT64_MAX, high = 0, members = 0;
        for (int64_t s = 0; s < SAMPLES; s++) {
            if (takes_part(v, s) && class_of(s) == labels[c]) {
                rows += v->seen[s];
                low = v->seen[s] < low ? v->seen[s] : low;
                high = v->seen[s] > high ? v->seen[s] : high;
                members++;
            }
        }
        if (members > 0) {
            CHECK(high - low <= 1);
            least = rows < least ? rows : least;
            most = rows > most ? rows : most;
            classes++;
        }
    }
    CHECK(classes > 0 && most - least <= 1);
    for (int64_t s = 0; s < SAMPLES; s++) {
        CHECK(takes_part(v, s) || v->seen[s] == 0);
    }
}

TEST(classes_and_their_members_come_equally_often_to_one) {
    static view v;
    for (uint64_t number = 0; number < CASES; number++) {
        any_drawn(&v, number, MR_VIEW_BALANCE);
        if (open_view(&v, number, number % 4 != 0)) {
            list(&v, 2);
            check_balance(&v);
            check_visits(&v, 2, 1);
        }
        close_view(&v);
    }
}

TEST(who_comes_once_more_changes_with_the_epoch) {
    enum { EPOCHS = 400 };
    static view v;
    double sum[SAMPLES] = {0};
    int64_t of_class[5] = {0};
    add(&v, MR_VIEW_SKIP, 0, 0);
    add(&v, MR_VIEW_EVERY, 1, 0);
    add(&v, MR_VIEW_BALANCE, 333, 0);
    CHECK(open_view(&v, 3, true));
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        list(&v, epoch);
        for (int64_t s = 0; s < SAMPLES; s++) {
            sum[s] += (double)v.seen[s];
        }
    }
    for (int64_t s = 0; s < SAMPLES; s++) {
        of_class[class_of(s) < 0 ? 4 : class_of(s) > 2 ? 3 : class_of(s)]++;
    }
    for (int64_t s = 0; s < SAMPLES; s++) {
        int64_t members = of_class[class_of(s) < 0 ? 4 : class_of(s) > 2 ? 3 : class_of(s)];
        double wanted = 333 / 5.0 / (double)members;
        CHECK(fabs(sum[s] / EPOCHS - wanted) < 5 * 0.5 / sqrt(EPOCHS));
    }
    close_view(&v);
}

/* ---- Golden values: if one of these changes, every saved run with such a view is broken ---- */

TEST(draws_in_blocks_never_change) {
    static view w, b;
    static const int64_t by_weight[] = {263, 115, 21, 220, 86, 70, 278, 187};
    static const int64_t balanced[] = {264, 116, 24, 214, 85, 134, 207, 140};
    add(&w, MR_VIEW_WEIGHTS, 0, 0);
    add(&b, MR_VIEW_BALANCE, 0, 0);
    CHECK(open_view(&w, 9, true) && open_view(&b, 9, true));
    list(&w, 2);
    list(&b, 2);
    for (size_t i = 0; i < sizeof by_weight / sizeof *by_weight; i++) {
        CHECK_INT(w.picks[i * 31].sample, ==, by_weight[i]);
        CHECK_INT(b.picks[i * 31].sample, ==, balanced[i]);
    }
    close_view(&w);
    close_view(&b);
}

TEST_MAIN()
