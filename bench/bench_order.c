/* SPDX-License-Identifier: Apache-2.0 */
/* bench_order - nanoseconds per index of the shuffled order, for datasets of several sizes, and
 * whether a sample of the indexes has a duplicate (it must not); then nanoseconds per pick of
 * courses over blocks, in batches and one by one, and per visit of a block, with a view and in a
 * mix; then how good window shuffles are (docs/shuffle.md). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plan/course.h"
#include "plan/course_measure.h"
#include "plan/mix.h"
#include "plan/order.h"

enum { LOOKUPS = 1 << 20, REPEATS = 5 };

/* CPU time of this thread: other work on the machine disturbs it less than it does the clock. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t count_duplicates(int64_t *values, int64_t n) {
    int64_t duplicates = 0;
    qsort(values, (size_t)n, sizeof *values, compare);
    for (int64_t i = 1; i < n; i++) {
        duplicates += values[i] == values[i - 1];
    }
    return duplicates;
}

/* Independent lookups overlap in the CPU, as they do in a run; a chain, where each position is
 * the index before it, shows the time of one lookup by itself. */
static double time_independent(const mr_order *order, int64_t *out, int64_t n) {
    double start = now();
    for (int64_t i = 0; i < n; i++) {
        out[i] = mr_order_at(order, i);
    }
    return (now() - start) / (double)n;
}

static double time_chain(const mr_order *order, int64_t n) {
    double start = now();
    int64_t position = 0;
    for (int64_t i = 0; i < n; i++) {
        position = mr_order_at(order, position);
    }
    double seconds = now() - start;
    return position >= 0 ? seconds / (double)n : 0;
}

static int bench(int64_t n, int64_t *out) {
    mr_order order;
    double start = now();
    if (mr_order_init(&order, n, true, 1, 0, NULL) < 0) {
        fprintf(stderr, "bench_order: cannot make an order of %" PRId64 " samples\n", n);
        return 1;
    }
    double made = now() - start;
    int64_t lookups = n < LOOKUPS ? n : LOOKUPS;
    double independent = 1, chain = 1;
    for (int i = 0; i < REPEATS; i++) {
        independent = fmin(independent, time_independent(&order, out, lookups));
        chain = fmin(chain, time_chain(&order, lookups));
    }
    int64_t duplicates = count_duplicates(out, lookups);
    printf("%15" PRId64 " %12.1f %15.1f %17.1f %12" PRId64 "\n", n, made * 1e6, independent * 1e9,
           chain * 1e9, duplicates);
    mr_order_free(&order);
    return duplicates != 0;
}

/* ---- Courses over blocks ---- */

typedef struct course_case {
    int64_t n_blocks, rows_each, window;
    int32_t lanes;
} course_case;

/* Blocks of rows_each / 2 to rows_each * 3 / 2 rows. */
static mr_course *open_course(const course_case *c) {
    int64_t *first = calloc((size_t)c->n_blocks + 1, sizeof *first);
    for (int64_t b = 0; first && b < c->n_blocks; b++) {
        first[b + 1] = first[b] + c->rows_each / 2 + b * 7919 % (c->rows_each + 1);
    }
    mr_course_config config = {.samples = first ? first[c->n_blocks] : 0,
                               .n_blocks = c->n_blocks,
                               .first = first,
                               .shuffle = true,
                               .window = c->window,
                               .lanes = c->lanes,
                               .seed = 1};
    mr_course *course = NULL;
    mr_course_open(&course, &config, NULL);
    free(first);
    return course;
}

/* From the middle of an epoch; the first batch, which makes tables, is not counted. */
static double time_batches(mr_course_cursor *cursor, int64_t n, int64_t batch, int64_t batches,
                           mr_pick *picks) {
    double start = 0;
    for (int64_t i = -1; i < batches; i++) {
        mr_positions positions = {n / 2 + (i + 1) * batch, batch, batch, batch};
        start = i == 0 ? now() : start;
        mr_course_list(cursor, 0, &positions, picks, NULL);
    }
    return (now() - start) / (double)(batch * batches);
}

static double time_visits(const mr_course *course) {
    mr_visit_walk *walk = NULL;
    mr_visit visit;
    int64_t n = 0;
    if (mr_visit_walk_open(&walk, course, 0, 0, 0, mr_course_lanes(course), NULL) < 0) {
        return 0;
    }
    double start = now();
    while (mr_visit_walk_next(walk, &visit)) {
        n++;
    }
    double seconds = now() - start;
    mr_visit_walk_free(walk);
    return seconds / (double)n;
}

static int bench_course(const course_case *c) {
    enum { BATCH = 1024 };
    static mr_pick picks[BATCH];
    mr_course *course = open_course(c);
    mr_course_cursor *cursor = NULL;
    if (!course || mr_course_cursor_open(&cursor, course, NULL) < 0) {
        fprintf(stderr, "bench_order: no course\n");
        mr_course_free(course);
        return 1;
    }
    int64_t n = mr_course_length(course);
    double start = now();
    mr_course_list(cursor, 0, &(mr_positions){n / 2, 1, 1, 1}, picks, NULL);
    double made = now() - start;
    double batches = time_batches(cursor, n, BATCH, 1000, picks);
    double single = time_batches(cursor, n, 1, 100000, picks);
    printf("%9" PRId64 " %9" PRId64 " %7" PRId64 " %6d %12.1f %13.1f %12.1f %13.1f\n", c->n_blocks,
           c->rows_each, c->window, (int)c->lanes, made * 1e6, batches * 1e9, single * 1e9,
           time_visits(course) * 1e9);
    mr_course_cursor_free(cursor);
    mr_course_free(course);
    return 0;
}

static int bench_courses(void) {
    static const course_case cases[] = {
        {10000, 1000, 16, 1},   {10000, 1000, 64, 1}, {10000, 1000, 64, 8}, {10000, 1000, 512, 8},
        {10000, 1000, 0, 1},    {10000, 1000, 0, 8},  {1000000, 16, 64, 8}, {1000000, 16, 4096, 8},
        {1000000, 1000, 0, 16}, {100, 1000000, 16, 8}};
    int failed = 0;
    printf("\n%9s %9s %7s %6s %12s %13s %12s %13s\n", "blocks", "rows each", "window", "lanes",
           "first us", "ns per pick", "one by one", "ns per visit");
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !failed; i++) {
        failed = bench_course(&cases[i]);
    }
    return failed;
}

/* ---- A view and a mix over blocks ---- */

static mr_status keep_most(void *user, int32_t step, const char *condition, int64_t first,
                           int64_t count, uint64_t *bits, mr_error *err) {
    (void)user, (void)step, (void)condition, (void)err;
    for (int64_t i = 0; i < count; i++) {
        bits[i / 64] |= (uint64_t)((first + i) * 7919 % 10 != 0) << (i % 64);
    }
    return MR_OK;
}

/* As the course of 10,000 blocks in 8 lanes above, without one row in ten. */
static int bench_view(void) {
    enum { BLOCKS = 10000, ROWS = 1000, BATCH = 1024 };
    static int64_t first[BLOCKS + 1];
    static mr_pick picks[BATCH];
    static char condition[] = "most";
    for (int64_t b = 0; b <= BLOCKS; b++) {
        first[b] = b * ROWS;
    }
    mr_sample_facts facts = {.where = keep_most};
    mr_view_step step = {.kind = MR_VIEW_WHERE, .text = condition};
    mr_course_config config = {.samples = first[BLOCKS],
                               .n_blocks = BLOCKS,
                               .first = first,
                               .shuffle = true,
                               .window = 64,
                               .lanes = 8};
    mr_selection *view = NULL;
    mr_course *course = NULL;
    mr_course_cursor *cursor = NULL;
    bool made = mr_selection_open(&view, config.samples, &step, 1, &facts, NULL) == MR_OK;
    config.selection = view;
    made = made && mr_course_open(&course, &config, NULL) == MR_OK &&
           mr_course_cursor_open(&cursor, course, NULL) == MR_OK;
    if (made) {
        printf("\nview that keeps 9 rows in 10: %.1f ns per pick\n",
               1e9 * time_batches(cursor, mr_course_length(course), BATCH, 1000, picks));
    }
    mr_course_cursor_free(cursor);
    mr_course_free(course);
    mr_selection_free(view);
    return !made;
}

static double time_mix(mr_mix_cursor *cursor, int64_t batch, int64_t batches, mr_pick *picks) {
    double start = 0;
    for (int64_t i = -1; i < batches; i++) {
        mr_positions positions = {(i + 1) * batch, batch, batch, batch};
        start = i == 0 ? now() : start;
        mr_mix_list(cursor, 1, &positions, picks, NULL);
    }
    return (now() - start) / (double)(batch * batches);
}

static int bench_mix(void) {
    enum { BATCH = 1024 };
    static const course_case c = {10000, 1000, 64, 8};
    static const double weights[] = {0.6, 0.25, 0.1, 0.05};
    static mr_pick picks[BATCH];
    const mr_course *courses[4];
    mr_course *course = open_course(&c);
    for (int i = 0; i < 4; i++) {
        courses[i] = course;
    }
    mr_mix_config config = {
        .courses = courses, .weights = weights, .n_children = 4, .round = 1000, .lanes = c.lanes};
    mr_mix *mix = NULL;
    mr_mix_cursor *cursor = NULL;
    bool made = course && mr_mix_open(&mix, &config, NULL) == MR_OK &&
                mr_mix_cursor_open(&cursor, mix, NULL) == MR_OK;
    if (made) {
        printf("mix of 4 such courses: %.1f ns per pick\n",
               1e9 * time_mix(cursor, BATCH, 1000, picks));
    }
    mr_mix_cursor_free(cursor);
    mr_mix_free(mix);
    mr_course_free(course);
    return !made;
}

/* ---- How good ---- */

/* 1,000 blocks of about 1,000 rows, batches of 256. */
static int measure_shuffle(int64_t window, int32_t lanes) {
    course_case c = {1000, 1000, window, lanes};
    mr_course *course = open_course(&c);
    mr_shuffle_measure m = {0};
    int64_t alive = 0;
    if (!course || mr_course_measure(course, 0, 256, &m, NULL) < 0 ||
        mr_course_alive(course, 0, 256, 0, lanes, NULL, &alive, NULL) < 0) {
        fprintf(stderr, "bench_order: nothing to measure\n");
        mr_course_free(course);
        return 1;
    }
    printf("%7" PRId64 " %6d %13" PRId64 " %11.1f %16.1f %9.4f\n", window, (int)lanes, alive,
           m.blocks_met, m.blocks_met_full, m.distance / m.distance_full);
    mr_course_free(course);
    return 0;
}

static int measure_shuffles(void) {
    static const int64_t windows[] = {1, 8, 16, 64, 256, 0};
    int failed = 0;
    printf("\n%7s %6s %13s %11s %16s %9s\n", "window", "lanes", "visits alive", "blocks met",
           "full: blocks met", "distance");
    for (size_t i = 0; i < sizeof windows / sizeof *windows && !failed; i++) {
        failed = measure_shuffle(windows[i], 1) || measure_shuffle(windows[i], 8);
    }
    return failed;
}

int main(void) {
    static const int64_t sizes[] = {50000,     65536,      100000,        1280000,
                                    100000000, 1000000000, (1 << 30) + 1, 1000000000000};
    int64_t *out = malloc(LOOKUPS * sizeof *out);
    int failed = !out;
    printf("order: %d rounds above %" PRId64 " samples; best of %d\n", MR_FEISTEL_ROUNDS,
           MR_ORDER_TABLE_MAX, REPEATS);
    printf("%15s %12s %15s %17s %12s\n", "samples", "open us", "ns per index", "ns in a chain",
           "duplicates");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !failed; i++) {
        failed = bench(sizes[i], out);
    }
    free(out);
    return failed || bench_courses() || bench_view() || bench_mix() || measure_shuffles();
}
