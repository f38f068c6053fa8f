/* SPDX-License-Identifier: Apache-2.0 */
/* The order of an epoch: a permutation for every n, even in every respect that is cheap to measure,
 * and never changed by accident. Seeds are fixed, so the statistics are the same in every run. */
#include "test.h"

#include <math.h>

#include "core/philox.h"
#include "plan/order.h"

static mr_order make(int64_t n, uint64_t seed, uint32_t epoch) {
    mr_order order = {0};
    CHECK_INT(mr_order_init(&order, n, true, seed, epoch, NULL), ==, MR_OK);
    return order;
}

/* ---- A permutation ---- */

static bool is_permutation(int64_t n, uint64_t seed) {
    mr_order order = make(n, seed, 3);
    bool *seen = calloc((size_t)n, sizeof *seen);
    int64_t good = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = mr_order_at(&order, i);
        if (sample >= 0 && sample < n && !seen[sample]) {
            seen[sample] = true;
            good++;
        }
    }
    free(seen);
    mr_order_free(&order);
    return good == n;
}

TEST(every_small_size_is_permuted) {
    for (int64_t n = 1; n <= 300; n++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            if (!is_permutation(n, seed)) {
                CHECK_INT(n, ==, -1);
            }
        }
    }
}

TEST(sizes_around_the_switch_and_around_squares_are_permuted) {
    static const int64_t sizes[] = {65535,   65536,   65537,         65538,   66049,
                                    70000,   100000,  (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
                                    1048609, 1280000, 1281167};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!is_permutation(sizes[i], i)) {
            CHECK_INT(sizes[i], ==, -1);
        }
    }
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Positions from the start, the end and all over a set too large to go through. */
static void check_no_duplicates(int64_t n) {
    enum { COUNT = 30000 };
    static int64_t samples[COUNT];
    mr_order order = make(n, 9, 1);
    for (int64_t i = 0; i < COUNT / 3; i++) {
        samples[3 * i] = mr_order_at(&order, i);
        samples[3 * i + 1] = mr_order_at(&order, n - 1 - i);
        samples[3 * i + 2] = mr_order_at(&order, n / 4 + i * (n / 4 / COUNT));
    }
    qsort(samples, COUNT, sizeof *samples, compare);
    CHECK_INT(samples[0], >=, 0);
    CHECK_INT(samples[COUNT - 1], <, n);
    int64_t duplicates = 0;
    for (int64_t i = 1; i < COUNT; i++) {
        duplicates += samples[i] == samples[i - 1];
    }
    CHECK_INT(duplicates, ==, 0);
    mr_order_free(&order);
}

TEST(large_sizes_have_no_duplicates) {
    check_no_duplicates(1000000000);
    check_no_duplicates(((int64_t)1 << 30) + 1);
    check_no_duplicates((int64_t)1 << 32);
    check_no_duplicates(1000000000000);
    check_no_duplicates(MR_MAX_SAMPLES - 1);
    check_no_duplicates(MR_MAX_SAMPLES);
}

/* So that walks stay rare: fewer than one position in sqrt(n) is beyond n. */
TEST(the_feistel_domain_is_hardly_larger_than_the_set) {
    for (int64_t n = MR_ORDER_TABLE_MAX + 1; n <= MR_MAX_SAMPLES; n += n / 7) {
        mr_order order = make(n, 1, 0);
        int64_t domain = (int64_t)order.left * order.right;
        CHECK(order.table == NULL);
        CHECK_INT(order.left, <=, 1 << 24);
        CHECK_INT(order.right, <=, 1 << 24);
        CHECK_INT(domain, >=, n);
        CHECK_INT(domain - n, <, order.left);
        mr_order_free(&order);
    }
}

TEST(without_shuffle_the_order_is_the_identity) {
    static const int64_t sizes[] = {1, 10, 100000, (int64_t)1 << 48};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mr_order order;
        CHECK_INT(mr_order_init(&order, sizes[i], false, 1, 0, NULL), ==, MR_OK);
        CHECK_INT(mr_order_at(&order, 0), ==, 0);
        CHECK_INT(mr_order_at(&order, sizes[i] / 2), ==, sizes[i] / 2);
        CHECK_INT(mr_order_at(&order, sizes[i] - 1), ==, sizes[i] - 1);
        CHECK(order.table == NULL);
        mr_order_free(&order);
    }
}

/* From `first` on, past the end, and in every phase of what is computed together. */
static void check_list(int64_t n, bool shuffle, int64_t first, int64_t count) {
    mr_order order = {0};
    CHECK_INT(mr_order_init(&order, n, shuffle, 5, 1, NULL), ==, MR_OK);
    int64_t *list = calloc((size_t)count, sizeof *list);
    mr_order_list(&order, first, count, list);
    for (int64_t k = 0; k < count; k++) {
        CHECK_INT(list[k], ==, mr_order_at(&order, (first + k) % n));
    }
    free(list);
    mr_order_free(&order);
}

TEST(a_list_is_what_its_positions_say) {
    static const int64_t sizes[] = {1, 2, 100, 65536, 65537, 65793, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int64_t count = 1; count < 12; count++) {
            int64_t first = sizes[i] > count ? sizes[i] - count + count % 3 : 0;
            check_list(sizes[i], true, first % sizes[i], count);
            check_list(sizes[i], false, 0, count);
        }
    }
    check_list(65537, true, 3, 2 * 65537); /* cells beyond n are walked over */
}

TEST(impossible_sizes_are_refused) {
    static const int64_t sizes[] = {0, -1, INT64_MIN, MR_MAX_SAMPLES + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mr_order order = {.n = 77};
        mr_error err = MR_ERROR_INIT;
        CHECK_INT(mr_order_init(&order, sizes[i], true, 1, 0, &err), ==, MR_E_LIMIT);
        CHECK_INT(order.n, ==, 77);
        CHECK_HAS(err.text, "281474976710656");
    }
}

/* ---- Keys ---- */

static int64_t count_equal(int64_t n, uint64_t seed_a, uint32_t epoch_a, uint64_t seed_b,
                           uint32_t epoch_b) {
    mr_order a = make(n, seed_a, epoch_a), b = make(n, seed_b, epoch_b);
    int64_t equal = 0;
    for (int64_t i = 0; i < 1000; i++) {
        equal += mr_order_at(&a, i) == mr_order_at(&b, i);
    }
    mr_order_free(&a);
    mr_order_free(&b);
    return equal;
}

TEST(seed_and_epoch_are_separate_words) {
    static const int64_t sizes[] = {1000, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t n = sizes[i];
        CHECK_INT(count_equal(n, 1, 1, 1, 1), ==, 1000);
        CHECK_INT(count_equal(n, 1, 1, 2, 0), <, 10);
        CHECK_INT(count_equal(n, 0, 0, 0, 1), <, 10);
        CHECK_INT(count_equal(n, 0, 0, 1, 0), <, 10);
        CHECK_INT(count_equal(n, 0, 1, 1, 0), <, 10);
        CHECK_INT(count_equal(n, 5, 0, 5 + ((uint64_t)1 << 32), 0), <, 10);
        CHECK_INT(count_equal(n, 5, 0, 5, UINT32_MAX), <, 10);
    }
}

/* ---- Statistics ---- */

/* How far a chi-square lies from its mean, in standard deviations; far below is as wrong as far
 * above. */
static double chi_square_z(const int64_t *counts, int64_t n, double degrees) {
    double total = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        total += (double)counts[i];
    }
    double expected = total / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double off = (double)counts[i] - expected;
        sum += off * off / expected;
    }
    return (sum - degrees) / sqrt(2 * degrees);
}

#define CHECK_EVEN(counts, n, degrees)                                                             \
    do {                                                                                           \
        double check_z = chi_square_z(counts, n, degrees);                                         \
        if (!(fabs(check_z) < 4)) {                                                                \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: chi-square is %.1f standard deviations off\n", __FILE__,       \
                    __LINE__, check_z);                                                            \
        }                                                                                          \
    } while (0)

/* Number of a permutation of 7 in [0, 5040): its Lehmer code. */
static int64_t permutation_number(const mr_order *order) {
    int64_t number = 0;
    for (int64_t i = 0; i < 7; i++) {
        int64_t smaller = 0;
        for (int64_t j = i + 1; j < 7; j++) {
            smaller += mr_order_at(order, j) < mr_order_at(order, i);
        }
        number = number * (7 - i) + smaller;
    }
    return number;
}

TEST(all_orders_of_seven_are_equally_likely) {
    static int64_t by_seed[5040], by_epoch[5040];
    for (uint32_t i = 0; i < 5040 * 20; i++) {
        mr_order a = make(7, i, 0), b = make(7, 1, i);
        by_seed[permutation_number(&a)]++;
        by_epoch[permutation_number(&b)]++;
        mr_order_free(&a);
        mr_order_free(&b);
    }
    CHECK_EVEN(by_seed, 5040, 5039);
    CHECK_EVEN(by_epoch, 5040, 5039);
}

enum { BLOCKS = 32, PER_BLOCK = 2200, FEISTEL_N = BLOCKS * PER_BLOCK, SEEDS = 40 };

/* A permutation has fixed row and column sums, hence (blocks - 1)^2 degrees of freedom. Each seed
 * by itself would hide a bias that all share, so the sum over seeds is what is tested. */
TEST(feistel_fills_blocks_of_positions_and_values_evenly) {
    static int64_t counts[BLOCKS * BLOCKS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        mr_order order = make(FEISTEL_N, seed, 0);
        for (int64_t i = 0; i < FEISTEL_N; i++) {
            counts[i / PER_BLOCK * BLOCKS + mr_order_at(&order, i) / PER_BLOCK]++;
        }
        mr_order_free(&order);
    }
    CHECK_EVEN(counts, BLOCKS * BLOCKS, (BLOCKS - 1) * (BLOCKS - 1));
}

/* Where the sample `lag` positions further lies, relative to this one: anywhere. Lags of one and of
 * a row of the Feistel grid change only one half of the cell, the worst case for its rounds. */
static void check_lag(int64_t lag) {
    enum { BINS = 64 };
    int64_t counts[BINS] = {0};
    for (uint64_t seed = 0; seed < SEEDS / 2; seed++) {
        mr_order order = make(FEISTEL_N, seed, 1);
        for (int64_t i = 0; i + lag < FEISTEL_N; i++) {
            int64_t apart = mr_order_at(&order, i + lag) - mr_order_at(&order, i) + FEISTEL_N;
            counts[apart % FEISTEL_N * BINS / FEISTEL_N]++;
        }
        mr_order_free(&order);
    }
    CHECK_EVEN(counts, BINS, BINS - 1);
}

TEST(feistel_neighbours_lie_anywhere) {
    mr_order order = make(FEISTEL_N, 0, 0);
    check_lag(1);
    check_lag(2);
    check_lag(order.right);
    check_lag(order.right + 1);
    mr_order_free(&order);
}

/* The same over keys: the first two positions, and one column of the grid, as pairs. */
static void check_pair_over_seeds(int64_t n, int64_t first, int64_t second) {
    enum { SIDE = 24, KEYS = SIDE * SIDE * 60 };
    static int64_t counts[SIDE * SIDE];
    memset(counts, 0, sizeof counts);
    for (uint32_t i = 0; i < KEYS; i++) {
        mr_order order = make(n, i / 8, i % 8);
        int64_t a = mr_order_at(&order, first) * SIDE / n;
        int64_t b = mr_order_at(&order, second) * SIDE / n;
        counts[a * SIDE + b]++;
        mr_order_free(&order);
    }
    CHECK_EVEN(counts, SIDE * SIDE, SIDE * SIDE - 1);
}

TEST(feistel_pairs_are_independent_over_seeds) {
    mr_order order = make(FEISTEL_N, 0, 0);
    check_pair_over_seeds(FEISTEL_N, 0, 1);
    check_pair_over_seeds(FEISTEL_N, 0, order.right);
    check_pair_over_seeds(FEISTEL_N, FEISTEL_N - 1, 0);
    check_pair_over_seeds(1000000000, 0, 1);
    check_pair_over_seeds(1000000000, 499999999, 500000000);
    mr_order_free(&order);
}

TEST(epochs_are_independent) {
    enum { SIDE = 32 };
    static int64_t counts[SIDE * SIDE];
    for (uint32_t epoch = 0; epoch < SEEDS / 2; epoch++) {
        mr_order a = make(FEISTEL_N, 1, epoch), b = make(FEISTEL_N, 1, epoch + 1);
        for (int64_t i = 0; i < FEISTEL_N; i++) {
            counts[mr_order_at(&a, i) / PER_BLOCK * SIDE + mr_order_at(&b, i) / PER_BLOCK]++;
        }
        mr_order_free(&a);
        mr_order_free(&b);
    }
    CHECK_EVEN(counts, SIDE * SIDE, (SIDE - 1) * (SIDE - 1));
}

/* ---- Substitutes ---- */

TEST(substitutes_are_uniform_over_positions_and_attempts) {
    enum { N = 100 };
    int64_t by_position[N] = {0}, by_attempt[N] = {0}, by_epoch[N] = {0};
    for (uint32_t i = 0; i < 20000; i++) {
        by_position[mr_order_substitute(N, 1, 0, i, 0)]++;
        by_attempt[mr_order_substitute(N, 1, 0, 7, i)]++;
        by_epoch[mr_order_substitute(N, 1, i, 7, 0)]++;
    }
    CHECK_EVEN(by_position, N, N - 1);
    CHECK_EVEN(by_attempt, N, N - 1);
    CHECK_EVEN(by_epoch, N, N - 1);
}

TEST(substitutes_depend_on_every_part_of_the_key) {
    int64_t n = MR_MAX_SAMPLES, base = mr_order_substitute(n, 1, 2, 3, 4);
    CHECK_INT(mr_order_substitute(n, 1, 2, 3, 4), ==, base);
    CHECK_INT(mr_order_substitute(n, 2, 2, 3, 4), !=, base);
    CHECK_INT(mr_order_substitute(n, 1, 3, 3, 4), !=, base);
    CHECK_INT(mr_order_substitute(n, 1, 2, 4, 4), !=, base);
    CHECK_INT(mr_order_substitute(n, 1, 2, 3, 5), !=, base);
    CHECK_INT(mr_order_substitute(n, 1, 2, 3 + ((int64_t)1 << 32), 4), !=, base);
    CHECK_INT(mr_order_substitute(1, 1, 2, 3, 4), ==, 0);
}

/* ---- Golden values: if one of these changes, every saved run is broken ---- */

static void check_values(int64_t n, uint64_t seed, uint32_t epoch, int64_t stride,
                         const int64_t *wanted, int64_t count) {
    mr_order order = make(n, seed, epoch);
    for (int64_t i = 0; i < count; i++) {
        CHECK_INT(mr_order_at(&order, i * stride), ==, wanted[i]);
    }
    mr_order_free(&order);
}

TEST(small_orders_never_change) {
    static const int64_t ten[] = {8, 3, 2, 6, 0, 7, 1, 4, 5, 9};
    static const int64_t thousand[] = {122, 60, 638, 773, 174, 415, 212, 294, 792};
    static const int64_t largest[] = {42826, 53628, 46861, 7234, 37582, 28802, 43683, 4802, 32768};
    check_values(10, 0, 0, 1, ten, 10);
    check_values(1000, 1, 7, 111, thousand, 9);
    check_values(65536, 1, 0, 8191, largest, 9);
}

TEST(large_orders_never_change) {
    static const int64_t smallest[] = {64768, 658, 35752, 54887, 8897, 50564, 37516, 48092, 6416};
    static const int64_t photos[] = {4930, 498191, 730426, 363840, 1057293, 713937, 1604, 769631};
    static const int64_t billion[] = {834048191, 166709454, 6283118,   76847599, 816158862,
                                      499196131, 423325549, 264731910, 905440772};
    static const int64_t largest[] = {113535669706055, 229735972480656, 222764294771049,
                                      261615423238430, 206205284194818, 101740923602879,
                                      129103806486964, 95794068997611};
    check_values(65537, 1, 0, 8192, smallest, 9);
    check_values(1281167, 1234567890123, 89, 142351, photos, 8);
    check_values(1000000000, 1, 0, 111111111, billion, 9);
    check_values((int64_t)1 << 48, UINT64_MAX, UINT32_MAX, (int64_t)1 << 45, largest, 8);
}

TEST(substitutes_never_change) {
    CHECK_INT(mr_order_substitute(1000000, 1, 2, 3, 0), ==, 119840);
    CHECK_INT(mr_order_substitute(1000000, 1, 2, 3, 1), ==, 14252);
    CHECK_INT(mr_order_substitute(1000000, 1, 2, 3, 2), ==, 544064);
    CHECK_INT(mr_order_substitute(1000000, 1, 2, 3, 3), ==, 115102);
}

TEST_MAIN()
