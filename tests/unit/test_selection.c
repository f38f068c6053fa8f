/* SPDX-License-Identifier: Apache-2.0 */
/* Views against sequences that are written out, for many chains of steps; splits, weights and
 * classes by what they promise; and pinned values. */
#include "test.h"

#include <math.h>

#include "core/hash.h"
#include "core/philox.h"
#include "plan/bitmap.h"
#include "plan/course.h"
#include "plan/order.h"
#include "plan/selection.h"

static int64_t roll(uint64_t number, uint32_t draw, int64_t low, int64_t high) {
    mr_key key = {.seed = 99, .sample = number, .op = 6};
    return low + mr_draw_below(&key, draw, high - low + 1);
}

/* ---- Bits ---- */

static void check_bitmap(int64_t size, int64_t one_in, uint64_t number) {
    mr_bitmap bitmap;
    CHECK_INT(mr_bitmap_init(&bitmap, size, NULL), ==, MR_OK);
    for (int64_t i = 0; i < size; i++) {
        mr_key key = {.seed = number, .sample = (uint64_t)i};
        if (mr_draw_below(&key, 0, one_in) == 0) {
            mr_bitmap_add(&bitmap, i);
        }
    }
    CHECK_INT(mr_bitmap_count(&bitmap, NULL), ==, MR_OK);
    int64_t members = 0, wrong = 0;
    for (int64_t i = 0; i < size; i++) {
        wrong += mr_bitmap_rank(&bitmap, i) != members;
        if (mr_bitmap_has(&bitmap, i)) {
            wrong += mr_bitmap_select(&bitmap, members++) != i;
        }
    }
    CHECK_INT(wrong, ==, 0);
    CHECK_INT(mr_bitmap_rank(&bitmap, size), ==, members);
    CHECK_INT(bitmap.members, ==, members);
    mr_bitmap_free(&bitmap);
}

TEST(bits_are_counted_and_found) {
    static const int64_t sizes[] = {1, 63, 64, 65, 511, 512, 513, 5000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_bitmap(sizes[i], 1, i);
        check_bitmap(sizes[i], 2, i);
        check_bitmap(sizes[i], 50, i);
        check_bitmap(sizes[i], 20000, i);
    }
}

/* ---- Facts ---- */

static bool holds(const char *condition, int64_t sample) {
    return (mr_hash64(&sample, sizeof sample, strlen(condition)) & 3) != 0;
}

static mr_status fact_name(void *user, int64_t sample, const char **name, size_t *size,
                           mr_error *err) {
    static char text[32];
    (void)user;
    (void)err;
    *size = (size_t)snprintf(text, sizeof text, "photo%lld.jpg", (long long)sample);
    *name = text;
    return MR_OK;
}

static mr_status fact_where(void *user, int32_t step, const char *condition, int64_t first,
                            int64_t count, uint64_t *bits, mr_error *err) {
    (void)user;
    (void)step;
    (void)err;
    CHECK_INT(first % 64, ==, 0);
    for (int64_t i = 0; i < count; i++) {
        bits[i / 64] |= (uint64_t)holds(condition, first + i) << (i % 64);
    }
    return MR_OK;
}

static double weight_of(int64_t sample) {
    return sample % 5 == 4 ? 0 : (double)(1 + sample % 5);
}

static mr_status fact_weights(void *user, int32_t step, const char *field, int64_t first,
                              int64_t count, double *out, mr_error *err) {
    (void)user;
    (void)step;
    (void)err;
    for (int64_t i = 0; i < count; i++) {
        out[i] = strcmp(field, "bad") == 0 ? -1 : weight_of(first + i);
    }
    return MR_OK;
}

/* Classes of very unequal size, with numbers that are not 0, 1, 2 ... */
static int64_t class_of(int64_t sample) {
    return sample % 7 == 0 ? -5 : sample % 11 == 0 ? 1000000 : sample % 3;
}

static mr_status fact_classes(void *user, int32_t step, const char *field, int64_t first,
                              int64_t count, int64_t *out, mr_error *err) {
    (void)user;
    (void)step;
    (void)field;
    (void)err;
    for (int64_t i = 0; i < count; i++) {
        out[i] = class_of(first + i);
    }
    return MR_OK;
}

static const mr_sample_facts facts = {
    .name = fact_name, .where = fact_where, .weights = fact_weights, .classes = fact_classes};

/* ---- Sequences written out ---- */

enum { MAX_LENGTH = 3000, MAX_STEPS = 5 };

static char train[] = "train", val[] = "val", test[] = "test", salt[] = "1", even[] = "even",
            field[] = "label";
static mr_view_part parts[] = {{test, 0.25}, {train, 0.5}, {val, 0.25}};

typedef struct sequence {
    int64_t n, samples[MAX_LENGTH];
} sequence;

/* Which part a sample is in: its hash among the parts' shares of [0, 1). */
static int32_t part_of(int64_t sample, const char *with_salt) {
    const char *name;
    size_t size;
    fact_name(NULL, sample, &name, &size, NULL);
    uint64_t hash = mr_hash64(name, size, mr_hash64(with_salt, strlen(with_salt), 0));
    double place = (double)(hash >> 11) * 0x1p-53;
    return place < 0.25 ? 0 : place < 0.75 ? 1 : 2;
}

static bool keeps(const mr_view_step *step, const sequence *in, int64_t i) {
    int64_t sample = in->samples[i];
    switch (step->kind) {
    case MR_VIEW_TAKE:
        return i < step->count;
    case MR_VIEW_SKIP:
        return i >= step->count;
    case MR_VIEW_EVERY:
        return i % step->count == step->offset;
    case MR_VIEW_SPLIT:
        return strcmp(parts[part_of(sample, step->salt ? step->salt : "")].name, step->part) == 0;
    case MR_VIEW_WHERE:
        return holds(step->text, sample);
    default:
        return true;
    }
}

static void apply(sequence *s, const mr_view_step *step) {
    static sequence in;
    in = *s;
    int64_t times = step->kind == MR_VIEW_REPEAT ? step->count : 1;
    s->n = 0;
    for (int64_t i = 0; i < in.n * times; i++) {
        if (keeps(step, &in, i % in.n)) {
            s->samples[s->n++] = in.samples[i % in.n];
        }
    }
}

static mr_view_step any_step(uint64_t number, uint32_t i, bool subset) {
    mr_view_step step = {.kind = (mr_view_kind)roll(number, 10 * i, 0, subset ? 4 : 5)};
    step.count = roll(number, 10 * i + 1, 1, step.kind == MR_VIEW_TAKE ? 400 : 3);
    switch (step.kind) {
    case MR_VIEW_SPLIT:
        step.parts = parts;
        step.n_parts = 3;
        step.part = parts[roll(number, 10 * i + 2, 0, 2)].name;
        step.salt = number % 2 ? salt : NULL;
        break;
    case MR_VIEW_WHERE:
        step.text = number % 3 ? even : field;
        break;
    case MR_VIEW_EVERY:
        step.offset = roll(number, 10 * i + 3, 0, step.count - 1);
        break;
    default:
        break;
    }
    return step;
}

/* A chain of steps, what it gives written out, and the selection: NULL where nothing is left. */
typedef struct chain {
    mr_view_step steps[MAX_STEPS];
    int32_t n_steps;
    int64_t samples;
    sequence wanted;
    mr_selection *selection;
} chain;

/* Repeats come last here: what splits or conditions cannot follow. */
static void any_chain(chain *c, uint64_t number) {
    *c = (chain){.samples = roll(number, 900, 1, 500), .n_steps = (int32_t)roll(number, 901, 0, 4)};
    c->wanted.n = c->samples;
    for (int64_t i = 0; i < c->samples; i++) {
        c->wanted.samples[i] = i;
    }
    for (int32_t i = 0; i < c->n_steps; i++) {
        c->steps[i] = any_step(number, (uint32_t)i, i + 1 < c->n_steps);
        apply(&c->wanted, &c->steps[i]);
    }
    mr_error err = MR_ERROR_INIT;
    mr_status status =
        mr_selection_open(&c->selection, c->samples, c->steps, c->n_steps, &facts, &err);
    CHECK_INT(status, ==, c->wanted.n > 0 ? MR_OK : MR_E_PARAM);
    if (c->wanted.n == 0) {
        CHECK_HAS(err.text, "no sample is left after");
        CHECK_HAS(err.where, "$.view[");
    }
}

enum { CHAINS = 2000 };

TEST(chains_of_steps_give_what_is_written_out) {
    static chain c;
    int64_t tried = 0;
    for (uint64_t number = 0; number < CHAINS; number++) {
        any_chain(&c, number);
        if (!c.selection) {
            continue;
        }
        tried++;
        CHECK_INT(mr_selection_length(c.selection), ==, c.wanted.n);
        for (int64_t i = 0; i < c.wanted.n; i++) {
            CHECK_INT(mr_selection_at(c.selection, i), ==, c.wanted.samples[i]);
        }
        mr_selection_free(c.selection);
    }
    CHECK_INT(tried, >, CHAINS / 2);
}

static void check_ranks(const chain *c) {
    int64_t below = 0;
    for (int64_t s = 0; s <= c->samples; s++) {
        CHECK_INT(mr_selection_rank(c->selection, s), ==, below);
        below += below < c->wanted.n && c->wanted.samples[below] == s;
    }
}

TEST(a_subset_counts_the_samples_below_any) {
    static chain c;
    for (uint64_t number = 0; number < CHAINS; number++) {
        any_chain(&c, number);
        bool repeats = c.n_steps > 0 && c.steps[c.n_steps - 1].kind == MR_VIEW_REPEAT;
        if (c.selection) {
            CHECK_INT(mr_selection_is_subset(c.selection), ==, !repeats);
            CHECK(!mr_selection_is_drawn(c.selection));
        }
        if (c.selection && !repeats) {
            check_ranks(&c);
        }
        mr_selection_free(c.selection);
    }
}

/* ---- Splits ---- */

static mr_selection *select_part(int64_t samples, char *part, char *with_salt) {
    mr_view_step step = {
        .kind = MR_VIEW_SPLIT, .parts = parts, .n_parts = 3, .part = part, .salt = with_salt};
    mr_selection *selection = NULL;
    CHECK_INT(mr_selection_open(&selection, samples, &step, 1, &facts, NULL), ==, MR_OK);
    return selection;
}

TEST(the_parts_of_a_split_are_all_samples_once_and_near_their_fractions) {
    enum { N = 20000 };
    static int8_t seen[N];
    for (int i = 0; i < 3; i++) {
        mr_selection *s = select_part(N, parts[i].name, NULL);
        double n = (double)mr_selection_length(s), wanted = parts[i].fraction * N;
        CHECK(fabs(n - wanted) < 4 * sqrt(wanted * (1 - parts[i].fraction)));
        for (int64_t k = 0; k < mr_selection_length(s); k++) {
            seen[mr_selection_at(s, k)]++;
        }
        mr_selection_free(s);
    }
    for (int64_t i = 0; i < N; i++) {
        CHECK_INT(seen[i], ==, 1);
    }
}

TEST(new_samples_move_no_old_one) {
    mr_selection *before = select_part(1000, train, NULL), *after = select_part(1700, train, NULL);
    int64_t n = mr_selection_length(before);
    CHECK_INT(mr_selection_rank(after, 1000), ==, n);
    for (int64_t k = 0; k < n; k++) {
        CHECK_INT(mr_selection_at(after, k), ==, mr_selection_at(before, k));
    }
    mr_selection_free(before);
    mr_selection_free(after);
}

TEST(another_salt_is_another_split) {
    mr_selection *a = select_part(10000, train, NULL), *b = select_part(10000, train, salt);
    int64_t both = 0;
    for (int64_t s = 0; s < 10000; s++) {
        bool in_a = mr_selection_rank(a, s + 1) > mr_selection_rank(a, s);
        both += in_a && mr_selection_rank(b, s + 1) > mr_selection_rank(b, s);
    }
    CHECK(labs((long)both - 2500) < 200);
    mr_selection_free(a);
    mr_selection_free(b);
}

/* ---- Weights ---- */

static mr_selection *open_steps(int64_t samples, const mr_view_step *steps, int32_t n) {
    mr_selection *selection = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_selection_open(&selection, samples, steps, n, &facts, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    return selection;
}

static void draw(const mr_selection *s, uint64_t seed, bool shuffle, uint32_t epoch, int64_t first,
                 int64_t count, int64_t *out) {
    mr_selection_cursor *cursor = NULL;
    CHECK_INT(mr_selection_cursor_open(&cursor, s, seed, shuffle, NULL), ==, MR_OK);
    CHECK_INT(mr_selection_draw(cursor, epoch, first, count, out, NULL), ==, MR_OK);
    mr_selection_cursor_free(cursor);
}

TEST(samples_are_drawn_by_their_weights) {
    enum { N = 53, DRAWS = 200000 };
    static int64_t samples[DRAWS];
    mr_view_step step = {.kind = MR_VIEW_WEIGHTS, .text = field, .count = DRAWS};
    mr_selection *s = open_steps(N, &step, 1);
    CHECK_INT(mr_selection_length(s), ==, DRAWS);
    CHECK(mr_selection_is_drawn(s));
    CHECK(!mr_selection_is_subset(s));
    draw(s, 1, true, 0, 0, DRAWS, samples);
    double counts[N] = {0}, weights = 0, sum = 0, degrees = -1;
    for (int64_t i = 0; i < DRAWS; i++) {
        counts[samples[i]]++;
    }
    for (int64_t i = 0; i < N; i++) {
        weights += weight_of(i);
    }
    for (int64_t i = 0; i < N; i++) {
        double wanted = weight_of(i) / weights * DRAWS;
        if (wanted == 0) {
            CHECK_INT(counts[i], ==, 0);
            continue;
        }
        sum += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
        degrees++;
    }
    CHECK(fabs(sum - degrees) / sqrt(2 * degrees) < 4);
    mr_selection_free(s);
}

TEST(weights_keep_to_the_samples_before_and_the_steps_behind) {
    enum { N = 300 };
    mr_view_step steps[] = {{.kind = MR_VIEW_EVERY, .count = 2, .offset = 1},
                            {.kind = MR_VIEW_WEIGHTS, .text = field},
                            {.kind = MR_VIEW_SKIP, .count = 10},
                            {.kind = MR_VIEW_TAKE, .count = 50}};
    mr_selection *s = open_steps(N, steps, 4), *all = open_steps(N, steps, 2);
    int64_t some[50], more[150];
    CHECK_INT(mr_selection_length(s), ==, 50);
    CHECK_INT(mr_selection_length(all), ==, 150);
    draw(s, 3, true, 2, 0, 50, some);
    draw(all, 3, true, 2, 0, 150, more);
    for (int i = 0; i < 50; i++) {
        CHECK_INT(some[i], ==, more[10 + i]);
        CHECK_INT(some[i] % 2, ==, 1);
        CHECK(weight_of(some[i]) > 0);
    }
    mr_selection_free(s);
    mr_selection_free(all);
}

/* ---- Balance ---- */

/* Classes -5, 0, 1, 2 and 1000000 have 4, 6, 6, 5 and 2 of 23 samples. */
enum { FEW = 23, CLASSES = 5, LARGEST = 6 };

static int64_t class_number(int64_t sample) {
    int64_t c = class_of(sample);
    return c == -5 ? 0 : c == 1000000 ? 4 : c + 1;
}

static int64_t class_size(int64_t number) {
    int64_t n = 0;
    for (int64_t i = 0; i < FEW; i++) {
        n += class_number(i) == number;
    }
    return n;
}

static void check_balance(int64_t count, bool shuffle, uint32_t epoch) {
    mr_view_step step = {.kind = MR_VIEW_BALANCE, .text = field, .count = count};
    mr_selection *s = open_steps(FEW, &step, 1);
    static int64_t samples[1000];
    int64_t n = mr_selection_length(s), times[FEW] = {0};
    CHECK_INT(n, ==, count ? count : CLASSES * LARGEST);
    draw(s, 8, shuffle, epoch, 0, n, samples);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = class_number(samples[i]), round = i / CLASSES;
        for (int64_t j = round * CLASSES; j < i; j++) {
            CHECK_INT(class_number(samples[j]), !=, c); /* each class once a round */
        }
        CHECK_INT(times[samples[i]]++, ==, round / class_size(c)); /* each sample once a pass */
        CHECK(shuffle || c == i % CLASSES);
    }
    for (int64_t i = n - 1; i >= 0; i -= 3) { /* any index by itself */
        int64_t one;
        draw(s, 8, shuffle, epoch, i, 1, &one);
        CHECK_INT(one, ==, samples[i]);
    }
    mr_selection_free(s);
}

TEST(the_classes_of_these_tests_are_as_unequal_as_said) {
    static const int64_t sizes[] = {4, 6, 6, 5, 2};
    for (int64_t c = 0; c < CLASSES; c++) {
        CHECK_INT(class_size(c), ==, sizes[c]);
    }
}

TEST(classes_come_equally_often_and_samples_of_a_class_too) {
    check_balance(0, true, 0);
    check_balance(0, false, 0);
    check_balance(333, true, 5);
    check_balance(333, false, 5);
    check_balance(3, true, 1);
}

TEST(rounds_and_passes_are_ordered_anew) {
    mr_view_step step = {.kind = MR_VIEW_BALANCE, .text = field, .count = 400};
    mr_selection *s = open_steps(FEW, &step, 1);
    int64_t a[400], b[400], same_rounds = 0, same = 0;
    draw(s, 8, true, 0, 0, 400, a);
    draw(s, 8, true, 1, 0, 400, b);
    for (int64_t i = 0; i < 400; i++) {
        same += a[i] == b[i];
    }
    CHECK_INT(same, <, 80);
    for (int64_t r = 1; r < 80; r++) {
        int64_t equal = 0;
        for (int64_t i = 0; i < CLASSES; i++) {
            equal += class_number(a[r * CLASSES + i]) == class_number(a[(r - 1) * CLASSES + i]);
        }
        same_rounds += equal == CLASSES;
    }
    CHECK_INT(same_rounds, <, 5);
    mr_selection_free(s);
}

/* The samples of class 1 (six of them) pass by pass: not in one order over and over. */
TEST(a_class_has_another_order_in_each_pass) {
    mr_view_step step = {.kind = MR_VIEW_BALANCE, .text = field, .count = 60 * CLASSES};
    mr_selection *s = open_steps(FEW, &step, 1);
    int64_t samples[60 * CLASSES], of_class[60], n = 0, same_passes = 0;
    draw(s, 8, true, 0, 0, 60 * CLASSES, samples);
    for (int64_t i = 0; i < 60 * CLASSES; i++) {
        if (class_number(samples[i]) == 1) {
            of_class[n++] = samples[i];
        }
    }
    CHECK_INT(n, ==, 60);
    for (int64_t pass = 1; pass < 10; pass++) {
        same_passes += memcmp(of_class, of_class + 6 * pass, 6 * sizeof *of_class) == 0;
    }
    CHECK_INT(same_passes, <, 2);
    mr_selection_free(s);
}

/* ---- In a course ---- */

static mr_course *open_course(const mr_course_config *config) {
    mr_course *course = NULL;
    CHECK_INT(mr_course_open(&course, config, NULL), ==, MR_OK);
    return course;
}

static void list_all(const mr_course *course, uint32_t epoch, int64_t n, mr_pick *picks) {
    mr_course_cursor *cursor = NULL;
    mr_positions positions = {0, n, n, n};
    CHECK_INT(mr_course_cursor_open(&cursor, course, NULL), ==, MR_OK);
    CHECK_INT(mr_course_list(cursor, epoch, &positions, picks, NULL), ==, MR_OK);
    mr_course_cursor_free(cursor);
}

/* Blocks of which only some samples take part are blocks of fewer samples. */
static void check_blocks(const chain *c, uint64_t number) {
    enum { BLOCKS = 12 };
    static mr_pick got[MAX_LENGTH], wanted[MAX_LENGTH];
    int64_t first[BLOCKS + 1] = {0}, fewer[BLOCKS + 1] = {0};
    for (int64_t b = 1; b <= BLOCKS; b++) {
        first[b] =
            b == BLOCKS ? c->samples : roll(number, 800 + (uint32_t)b, first[b - 1], c->samples);
        fewer[b] = mr_selection_rank(c->selection, first[b]);
    }
    mr_course_config config = {.samples = c->samples,
                               .n_blocks = BLOCKS,
                               .first = first,
                               .shuffle = number % 4 != 0,
                               .window = (int64_t)number % 7,
                               .lanes = 1 + (int32_t)(number % 3),
                               .seed = number,
                               .selection = c->selection};
    mr_course *course = open_course(&config);
    CHECK_INT(mr_course_length(course), ==, c->wanted.n);
    list_all(course, 1, c->wanted.n, got);
    mr_course_free(course);
    config.samples = c->wanted.n;
    config.first = fewer;
    config.selection = NULL;
    course = open_course(&config);
    list_all(course, 1, c->wanted.n, wanted);
    mr_course_free(course);
    for (int64_t i = 0; i < c->wanted.n; i++) {
        CHECK_INT(got[i].sample, ==, c->wanted.samples[wanted[i].sample]);
        CHECK_INT(got[i].block, ==, wanted[i].block);
        CHECK_INT(got[i].visit, ==, wanted[i].visit);
    }
}

TEST(a_course_over_blocks_has_the_selected_rows_alone) {
    static chain c;
    for (uint64_t number = 0; number < CHAINS / 4; number++) {
        any_chain(&c, number);
        if (c.selection && mr_selection_is_subset(c.selection)) {
            check_blocks(&c, number);
        }
        mr_selection_free(c.selection);
    }
}

TEST(a_course_of_single_samples_orders_the_selection) {
    static chain c;
    static mr_pick picks[MAX_LENGTH];
    for (uint64_t number = 0; number < CHAINS / 4; number++) {
        any_chain(&c, number);
        if (c.selection) {
            mr_course_config config = {.samples = c.samples,
                                       .shuffle = true,
                                       .lanes = 1,
                                       .seed = number,
                                       .selection = c.selection};
            mr_course *course = open_course(&config);
            mr_order order;
            CHECK_INT(mr_order_init(&order, c.wanted.n, true, number, 2, NULL), ==, MR_OK);
            list_all(course, 2, c.wanted.n, picks);
            for (int64_t i = 0; i < c.wanted.n; i++) {
                CHECK_INT(picks[i].sample, ==, c.wanted.samples[mr_order_at(&order, i)]);
            }
            mr_order_free(&order);
            mr_course_free(course);
        }
        mr_selection_free(c.selection);
    }
}

TEST(a_course_draws_where_the_selection_does) {
    mr_view_step steps[] = {{.kind = MR_VIEW_BALANCE, .text = field},
                            {.kind = MR_VIEW_WEIGHTS, .text = field}};
    for (int i = 0; i < 2; i++) {
        mr_selection *s = open_steps(FEW, &steps[i], 1);
        int64_t n = mr_selection_length(s), wanted[100];
        mr_course_config config = {
            .samples = FEW, .shuffle = true, .lanes = 1, .seed = 4, .selection = s};
        mr_course *course = open_course(&config);
        mr_pick picks[100], pick;
        draw(s, 4, true, 7, 0, n, wanted);
        list_all(course, 7, n, picks);
        for (int64_t k = 0; k < n; k++) {
            CHECK_INT(picks[k].sample, ==, wanted[k]);
        }
        mr_course_cursor *cursor = NULL;
        CHECK_INT(mr_course_cursor_open(&cursor, course, NULL), ==, MR_OK);
        CHECK_INT(mr_course_substitute(cursor, 7, 3, 1, &pick, NULL), ==, MR_OK);
        CHECK_INT(pick.sample, ==, wanted[mr_order_substitute(n, 4, 7, 3, 1)]);
        mr_course_cursor_free(cursor);
        mr_course_free(course);
        mr_selection_free(s);
    }
}

/* ---- Refusals ---- */

static void check_refused(const mr_view_step *steps, int32_t n, const mr_sample_facts *with,
                          const char *text, const char *where) {
    mr_selection *selection = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_selection_open(&selection, 100, steps, n, with, &err), <, 0);
    CHECK(selection == NULL);
    CHECK_HAS(err.text, text);
    CHECK_TEXT(err.where, where);
}

TEST(what_cannot_be_is_refused) {
    mr_view_step take = {.kind = MR_VIEW_TAKE}, skip = {.kind = MR_VIEW_SKIP, .count = 100};
    mr_view_step every = {.kind = MR_VIEW_EVERY, .count = 3, .offset = 3};
    mr_view_step where = {.kind = MR_VIEW_WHERE, .text = even};
    mr_view_step weights = {.kind = MR_VIEW_WEIGHTS, .text = field};
    mr_view_step repeat = {.kind = MR_VIEW_REPEAT, .count = (int64_t)1 << 48};
    char bad[] = "bad";
    mr_view_step bad_weights = {.kind = MR_VIEW_WEIGHTS, .text = bad};
    check_refused(&take, 1, &facts, "take is 0", "$.view[0]");
    check_refused(&skip, 1, &facts, "no sample is left after skip", "$.view[0]");
    check_refused(&every, 1, &facts, "offset of every 3 is 3", "$.view[0]");
    check_refused(&repeat, 1, &facts, "more than", "$.view[0]");
    check_refused(&where, 1, NULL, "does not know what where needs", "$.view[0]");
    check_refused(&bad_weights, 1, &facts, "weight of sample 0", "$.view[0]");
    mr_view_step after[] = {weights, where}, twice[] = {weights, weights};
    check_refused(after, 2, &facts, "where cannot follow", "$.view[1]");
    check_refused(twice, 2, &facts, "weights cannot follow", "$.view[1]");
}

TEST(bad_splits_are_refused) {
    mr_view_part much[] = {{train, 0.7}, {val, 0.4}}, none[] = {{train, 0}};
    mr_view_step step = {.kind = MR_VIEW_SPLIT, .parts = much, .n_parts = 2, .part = train};
    check_refused(&step, 1, &facts, "add up to 1.1", "$.view[0]");
    step.part = test;
    check_refused(&step, 1, &facts, "no part \"test\"", "$.view[0]");
    step.parts = none;
    step.n_parts = 1;
    check_refused(&step, 1, &facts, "fraction of part \"train\" is 0", "$.view[0]");
}

/* ---- Golden values: if one of these changes, every saved run with such a view is broken ---- */

TEST(splits_never_change) {
    static const int64_t wanted[] = {1, 64, 141, 216, 302, 387, 469, 558};
    mr_selection *s = select_part(1000, val, salt);
    for (int64_t i = 0; i < 8; i++) {
        CHECK_INT(mr_selection_at(s, i * 20), ==, wanted[i]);
    }
    mr_selection_free(s);
}

TEST(draws_never_change) {
    static const int64_t by_weight[] = {38, 953, 623, 430, 568, 18, 970, 106};
    static const int64_t balanced[] = {884, 526, 271, 285, 215, 805, 686, 776};
    mr_view_step weights = {.kind = MR_VIEW_WEIGHTS, .text = field};
    mr_view_step balance = {.kind = MR_VIEW_BALANCE, .text = field};
    mr_selection *w = open_steps(1000, &weights, 1), *b = open_steps(1000, &balance, 1);
    for (int64_t i = 0; i < 8; i++) {
        int64_t one, other;
        draw(w, 1, true, 2, i * 111, 1, &one);
        draw(b, 1, true, 2, i * 111, 1, &other);
        CHECK_INT(one, ==, by_weight[i]);
        CHECK_INT(other, ==, balanced[i]);
    }
    mr_selection_free(w);
    mr_selection_free(b);
}

TEST_MAIN()
