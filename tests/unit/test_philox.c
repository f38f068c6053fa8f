/* SPDX-License-Identifier: Apache-2.0 */
/* Philox against the published known answers, the draws made of it, and the exact exp and log. */
#include "test.h"

#include <math.h>

#include "core/philox.h"

/* ---- The generator ---- */

static void check_philox(const uint32_t counter[4], const uint32_t key[2], const uint32_t want[4]) {
    uint32_t out[4];
    mr_philox(counter, key, out);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(out[i], ==, want[i]);
    }
}

/* From the Random123 distribution's table of known answers for philox4x32-10. */
TEST(known_answers) {
    check_philox((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0},
                 (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check_philox((uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
                 (uint32_t[]){UINT32_MAX, UINT32_MAX},
                 (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check_philox((uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 (uint32_t[]){0xa4093822, 0x299f31d0},
                 (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(op_words_never_change) {
    CHECK_INT(mr_op_word("order", 0), ==, 0x7b609679);
    CHECK_INT(mr_op_word("substitute", 0), ==, 0xac403b7e);
    CHECK_INT(mr_op_word("random_flip", 0), ==, 0xc9d6682);
    CHECK_INT(mr_op_word("random_flip", 1), ==, 0x386fb67);
}

/* ---- Draws ---- */

static const mr_key example = {
    .seed = 0x1111111122222222, .epoch = 0x33333333, .op = 0x44444444, .sample = 0x555566666666};

/* Each part of the key has its own bits of the counter, as philox.h says. */
TEST(a_draw_is_philox_of_its_words) {
    const uint32_t counter[4] = {0x33333333, 0x66666666, 0x44444444, 0x5555abcd};
    const uint32_t key[2] = {0x22222222, 0x11111111};
    uint32_t out[4];
    mr_philox(counter, key, out);
    CHECK_INT(mr_draw_u64(&example, 0xabcd), ==, (uint64_t)out[1] << 32 | out[0]);
}

TEST(every_part_of_the_key_matters) {
    mr_key keys[7] = {example, example, example, example, example, example, example};
    keys[1].seed++;
    keys[2].seed ^= (uint64_t)1 << 63;
    keys[3].epoch++;
    keys[4].op++;
    keys[5].sample++;
    keys[6].sample ^= (uint64_t)1 << 47;
    for (int i = 0; i < 7; i++) {
        for (int j = 0; j < i; j++) {
            CHECK(mr_draw_u64(&keys[i], 0) != mr_draw_u64(&keys[j], 0));
        }
        CHECK(mr_draw_u64(&keys[i], 0) != mr_draw_u64(&keys[i], 1));
    }
}

/* 53 bits of the 64, as a fraction: nothing is rounded, so 1 cannot come out. */
TEST(unit_draws_are_the_top_bits_as_a_fraction) {
    double sum = 0;
    for (uint32_t draw = 0; draw < 10000; draw++) {
        double unit = mr_draw_unit(&example, draw);
        CHECK(unit >= 0 && unit < 1);
        CHECK(unit == ldexp((double)(mr_draw_u64(&example, draw) >> 11), -53));
        CHECK(mr_draw_range(&example, draw, -3, 5) == -3 + 8 * unit);
        sum += unit;
    }
    CHECK(fabs(sum / 10000 - 0.5) < 0.01); /* the standard deviation is 0.0029 */
}

static double chi_square(const int64_t *counts, int64_t n, double expected) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double off = (double)counts[i] - expected;
        sum += off * off / expected;
    }
    return sum;
}

/* Over draws, samples, epochs and seeds alike. */
static void check_uniform(int64_t n) {
    enum { MAX = 1000, EACH = 200 };
    int64_t counts[4][MAX] = {0};
    for (int64_t i = 0; i < n * EACH; i++) {
        mr_key by_sample = example, by_epoch = example, by_seed = example;
        by_sample.sample = (uint64_t)i / 60000; /* draws have 16 bits */
        counts[0][mr_draw_below(&by_sample, (uint32_t)(i % 60000), n)]++;
        by_sample.sample = (uint64_t)i;
        counts[1][mr_draw_below(&by_sample, 0, n)]++;
        by_epoch.epoch = (uint32_t)i;
        counts[2][mr_draw_below(&by_epoch, 0, n)]++;
        by_seed.seed = (uint64_t)i;
        counts[3][mr_draw_below(&by_seed, 0, n)]++;
    }
    for (int i = 0; i < 4; i++) {
        double degrees = (double)n - 1;
        CHECK(fabs(chi_square(counts[i], n, EACH) - degrees) < 4 * sqrt(2 * degrees));
    }
}

TEST(bounded_draws_are_uniform) {
    check_uniform(2);
    check_uniform(7);
    check_uniform(10);
    check_uniform(64);
    check_uniform(1000);
}

TEST(bounded_draws_stay_in_bounds_and_reach_them) {
    bool lowest = false, highest = false;
    for (uint32_t draw = 0; draw < 1000; draw++) {
        CHECK_INT(mr_draw_below(&example, draw, 1), ==, 0);
        int64_t large = mr_draw_below(&example, draw, INT64_MAX);
        CHECK_INT(large, >=, 0);
        CHECK_INT(large, <, INT64_MAX);
        lowest = lowest || large < INT64_MAX / 100;
        highest = highest || large > INT64_MAX / 100 * 99;
    }
    CHECK(lowest);
    CHECK(highest);
}

TEST(draws_never_change) {
    CHECK_INT(mr_draw_u64(&example, 0), ==, 0xb640f05da13d157c);
    CHECK_INT(mr_draw_below(&example, 1, 1000000), ==, 418585);
    CHECK(mr_draw_unit(&example, 2) == 0x1.f679c2214829fp-1);
    CHECK(mr_draw_range(&example, 3, 0.08, 1) == 0x1.3242fa8f84785p-1);
}

/* ---- exp and log ---- */

/* Distance from the true value, in units in the last place of the result. */
static double off_by(double got, long double truth) {
    double ulp = nextafter(fabs(got), INFINITY) - fabs(got);
    return (double)(fabsl((long double)got - truth) / (long double)ulp);
}

TEST(exact_exp_is_within_two_units) {
    double worst = 0;
    for (uint32_t draw = 0; draw < 20000; draw++) {
        double reach = draw % 2 ? 690 : 4;
        double x = mr_draw_range(&example, draw, -reach, reach);
        worst = fmax(worst, off_by(mr_exact_exp(x), expl((long double)x)));
    }
    CHECK(worst < 2);
    CHECK(mr_exact_exp(0) == 1);
}

TEST(exact_logs_of_many_are_those_of_one) {
    const double first[] = {0x1.6a09e667f3bccp-1, 0x1.6a09e667f3bcdp-1, 1.0, 2.0};
    double values[500], x = 0x1p-1022;
    for (int i = 0; i < 500; i++) {
        values[i] = i < 4 ? first[i] : x;
        x *= 4.127;
    }
    for (size_t n = 0; n <= 9; n++) { /* ends of vectors */
        double some[9];
        memcpy(some, values, n * sizeof *some);
        mr_exact_logs(some, n);
        for (size_t i = 0; i < n; i++) {
            CHECK(some[i] == mr_exact_log(values[i]));
        }
    }
    double all[500];
    memcpy(all, values, sizeof all);
    mr_exact_logs(all, 500);
    for (int i = 0; i < 500; i++) {
        CHECK(all[i] == mr_exact_log(values[i]));
    }
}

TEST(exact_log_is_within_three_units) {
    double worst = 0;
    for (uint32_t draw = 0; draw < 20000; draw++) {
        double x = draw % 2 ? ldexp(mr_draw_range(&example, draw, 1, 2), (int)(draw % 1000) - 500)
                            : mr_draw_range(&example, draw, 0.25, 4);
        worst = fmax(worst, off_by(mr_exact_log(x), logl((long double)x)));
    }
    CHECK(worst < 3);
    CHECK(mr_exact_log(1) == 0);
}

TEST(exp_and_log_never_change) {
    CHECK(mr_exact_exp(1) == 0x1.5bf0a8b14576ap+1);
    CHECK(mr_exact_exp(-1) == 0x1.78b56362cef38p-2);
    CHECK(mr_exact_exp(0.5) == 0x1.a61298e1e069cp+0);
    CHECK(mr_exact_exp(-20) == 0x1.1b48655f37267p-29);
    CHECK(mr_exact_exp(100.25) == 0x1.8c39b9134bac4p+144);
    CHECK(mr_exact_exp(-0.2876820724517809) == 0x1.8p-1);
    CHECK(mr_exact_exp(690) == 0x1.6009282aba144p+995);
    CHECK(mr_exact_log(2) == 0x1.62e42fefa39efp-1);
    CHECK(mr_exact_log(0.75) == -0x1.269621134db92p-2);
    CHECK(mr_exact_log(1.3333333333333333) == 0x1.269621134db92p-2);
    CHECK(mr_exact_log(10) == 0x1.26bb1bbb55516p+1);
    CHECK(mr_exact_log(1e-300) == -0x1.5963447f87fb5p+9);
    CHECK(mr_exact_log(0.70710678118654746) == -0x1.62e42fefa39f1p-2);
    CHECK(mr_exact_log(1.0000000001) == 0x1.b7cdffffa18d8p-34);
}

/* Across 2^32, where a sample's number goes on in another word, and for counts of every remainder.
 */
TEST(a_run_of_draws_is_what_single_draws_are) {
    static const uint64_t firsts[] = {0, 5, 0xFFFFFFFAu, ((uint64_t)1 << 48) - 40};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        for (int64_t count = 0; count < 20; count++) {
            mr_key key = {.seed = 0x123456789abcdefu, .epoch = 3, .op = 77, .sample = firsts[f]};
            uint64_t run[20];
            mr_draw_u64_run(&key, 9, count, run);
            for (int64_t i = 0; i < count; i++, key.sample++) {
                CHECK(run[i] == mr_draw_u64(&key, 9));
            }
        }
    }
}

TEST_MAIN()
