/* SPDX-License-Identifier: Apache-2.0 */
/* Rehearsal buffers: what they keep and draw follows from what was offered, and has the
 * distribution that the policy promises. */
#include "core/base64.h"
#include "plan/rehearsal.h"
#include "test.h"

static mr_rehearsal *buffer_of(mr_rehearsal_policy policy, int64_t size, uint64_t seed) {
    const mr_rehearsal_options options = {
        .policy = policy, .size = size, .lag = 2, .classes = 10, .rate = 0.3, .seed = seed};
    mr_rehearsal *buffer = NULL;
    CHECK_INT(mr_rehearsal_new(&buffer, &options, NULL), ==, MR_OK);
    return buffer;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

/* Labels of very different frequency: half of all are 0, a quarter 1, and so on. */
static mr_offer offer_of(int64_t step, uint64_t id) {
    int64_t label = 0;
    for (uint64_t bits = mix(id); label < 9 && (bits & 1); bits >>= 1) {
        label++;
    }
    return (mr_offer){step, id, label, (double)(mix(id + 7) % 1000) / 100};
}

static void offer(mr_rehearsal *buffer, int64_t step, uint64_t id) {
    const mr_offer own = offer_of(step, id);
    CHECK_INT(mr_rehearsal_offer(buffer, &own, NULL), ==, MR_OK);
}

enum { PER_STEP = 37 };

/* The offers of a step by `ranks`, one rank after the other, the last one first. */
static void offer_step(mr_rehearsal *buffer, int64_t step, int ranks) {
    for (int rank = ranks - 1; rank >= 0; rank--) {
        for (int i = rank; i < PER_STEP; i += ranks) {
            offer(buffer, step, (uint64_t)(step * PER_STEP + i));
        }
    }
}

static void run_steps(mr_rehearsal *buffer, int64_t from, int64_t to, int ranks) {
    for (int64_t step = from; step < to; step++) {
        offer_step(buffer, step, ranks);
        CHECK_INT(mr_rehearsal_advance(buffer, step, NULL), ==, MR_OK);
    }
}

static bool same_draws(const mr_rehearsal *a, const mr_rehearsal *b, int64_t step) {
    for (uint32_t slot = 0; slot < 200; slot++) {
        mr_representative x, y;
        if (!mr_rehearsal_draw(a, step, slot, &x) || !mr_rehearsal_draw(b, step, slot, &y) ||
            x.id != y.id || x.label != y.label || x.weight != y.weight) {
            return false;
        }
    }
    return true;
}

TEST(the_number_of_ranks_does_not_matter) {
    for (int policy = 0; policy < MR_REHEARSE_CUSTOM; policy++) {
        mr_rehearsal *one = buffer_of((mr_rehearsal_policy)policy, 200, 5);
        run_steps(one, 0, 60, 1);
        for (int ranks = 2; ranks <= 8; ranks++) {
            mr_rehearsal *many = buffer_of((mr_rehearsal_policy)policy, 200, 5);
            run_steps(many, 0, 60, ranks);
            CHECK(same_draws(one, many, 60));
            mr_rehearsal_free(many);
        }
        CHECK_INT(mr_rehearsal_count(one), >=, 150);
        mr_rehearsal_free(one);
    }
}

static mr_rehearsal *saved_and_restored(mr_rehearsal *buffer) {
    unsigned char *bytes = NULL;
    size_t size = 0;
    mr_rehearsal *back = NULL;
    CHECK_INT(mr_rehearsal_save(buffer, &bytes, &size, NULL), ==, MR_OK);
    CHECK_INT(mr_rehearsal_restore(&back, bytes, size, NULL), ==, MR_OK);
    free(bytes);
    mr_rehearsal_free(buffer);
    return back;
}

TEST(a_restart_at_any_step_does_not_matter) {
    for (int policy = 0; policy < MR_REHEARSE_CUSTOM; policy++) {
        mr_rehearsal *whole = buffer_of((mr_rehearsal_policy)policy, 200, 5);
        run_steps(whole, 0, 60, 1);
        for (int64_t cut = 0; cut < 60; cut += 7) {
            mr_rehearsal *parts = buffer_of((mr_rehearsal_policy)policy, 200, 5);
            run_steps(parts, 0, cut, 1);
            parts = saved_and_restored(parts);
            run_steps(parts, cut, 60, 1);
            CHECK(same_draws(whole, parts, 60));
            mr_rehearsal_free(parts);
        }
        mr_rehearsal_free(whole);
    }
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The set that is kept does not depend on when what arrived. */
TEST(what_is_kept_is_a_function_of_the_set_seen) {
    enum { N = 3000, SIZE = 250 };
    static const mr_rehearsal_policy policies[] = {
        MR_REHEARSE_RESERVOIR, MR_REHEARSE_CLASS_BALANCED, MR_REHEARSE_PRIORITY};
    for (int p = 0; p < 3; p++) {
        uint64_t first[SIZE], ids[SIZE];
        for (uint64_t order = 0; order < 10; order++) {
            mr_rehearsal *buffer = buffer_of(policies[p], SIZE, 9);
            for (uint64_t i = 0; i < N; i++) { /* 7 and others have no divisor in common with N */
                static const uint64_t strides[] = {1, 7, 2999, 1001, 11, 13, 1999, 17, 19, 23};
                offer(buffer, (int64_t)i / 10, i * strides[order] % N);
            }
            CHECK_INT(mr_rehearsal_advance(buffer, N, NULL), ==, MR_OK);
            CHECK_INT(mr_rehearsal_count(buffer), ==, SIZE);
            mr_rehearsal_ids(buffer, ids);
            qsort(ids, SIZE, sizeof *ids, by_number);
            if (order == 0) {
                memcpy(first, ids, sizeof ids);
            }
            CHECK(memcmp(first, ids, sizeof ids) == 0);
            mr_rehearsal_free(buffer);
        }
    }
}

/* Chi-square over 100 groups of ids: 99 degrees of freedom, 149 is exceeded once in 1000. */
static double chi_square(const int64_t *counts, int n, double expected) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double off = (double)counts[i] - expected;
        sum += off * off / expected;
    }
    return sum;
}

TEST(a_reservoir_is_uniform_over_all_that_was_seen) {
    enum { RUNS = 300, N = 2000, SIZE = 100, BINS = 100 };
    int64_t counts[BINS] = {0};
    uint64_t ids[SIZE];
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        mr_rehearsal *buffer = buffer_of(MR_REHEARSE_RESERVOIR, SIZE, seed);
        for (uint64_t id = 0; id < N; id++) {
            offer(buffer, 0, id);
        }
        CHECK_INT(mr_rehearsal_advance(buffer, 2, NULL), ==, MR_OK);
        mr_rehearsal_ids(buffer, ids);
        for (int i = 0; i < SIZE; i++) {
            counts[ids[i] * BINS / N]++;
        }
        mr_rehearsal_free(buffer);
    }
    CHECK(chi_square(counts, BINS, (double)RUNS * SIZE / BINS) < 149);
}

TEST(draws_are_uniform_over_the_buffer) {
    enum { SIZE = 100, DRAWS = 100000 };
    mr_rehearsal *buffer = buffer_of(MR_REHEARSE_RECENT, SIZE, 3);
    int64_t counts[SIZE] = {0}, pairs[SIZE] = {0};
    for (uint64_t id = 0; id < SIZE; id++) {
        offer(buffer, 0, id);
    }
    CHECK_INT(mr_rehearsal_advance(buffer, 2, NULL), ==, MR_OK);
    for (int i = 0; i < DRAWS; i++) {
        mr_representative a, b;
        CHECK(mr_rehearsal_draw(buffer, i / 50, (uint32_t)(i % 50), &a));
        CHECK(mr_rehearsal_draw(buffer, i / 50 + 1, (uint32_t)(i % 50), &b));
        counts[a.id]++;
        pairs[(a.id + SIZE - b.id) % SIZE]++; /* the same slot of the next step */
    }
    CHECK(chi_square(counts, SIZE, (double)DRAWS / SIZE) < 149);
    CHECK(chi_square(pairs, SIZE, (double)DRAWS / SIZE) < 149);
    mr_rehearsal_free(buffer);
}

/* Values 1 to 100, drawn in proportion; the weights make up for it: their mean is 1, and that of
 * weight x id is that of the ids. */
TEST(priorities_are_drawn_in_proportion) {
    enum { SIZE = 100, DRAWS = 200000 };
    mr_rehearsal *buffer = buffer_of(MR_REHEARSE_PRIORITY, SIZE, 3);
    double sum = 0, weights = 0, ids = 0;
    int64_t counts[SIZE] = {0};
    for (uint64_t id = 0; id < SIZE; id++) {
        const mr_offer first = {0, id, 0, 5}, changed = {1, id, 0, (double)id + 1};
        CHECK_INT(mr_rehearsal_offer(buffer, &first, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_offer(buffer, &changed, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_rehearsal_advance(buffer, 3, NULL), ==, MR_OK);
    CHECK_INT(mr_rehearsal_count(buffer), ==, SIZE);
    for (int i = 0; i < DRAWS; i++) {
        mr_representative r;
        CHECK(mr_rehearsal_draw(buffer, i, 0, &r));
        counts[r.id]++;
        weights += r.weight / DRAWS;
        ids += r.weight * (double)r.id / DRAWS;
    }
    for (int id = 0; id < SIZE; id++) {
        double expected = DRAWS * (id + 1) / 5050.0, off = (double)counts[id] - expected;
        sum += off * off / expected;
    }
    CHECK(sum < 149);
    CHECK(weights > 0.97 && weights < 1.03);
    CHECK(ids > 47 && ids < 52); /* 49.5 */
    mr_rehearsal_free(buffer);
}

static void fill(mr_rehearsal *buffer, uint64_t n) {
    for (uint64_t id = 0; id < n; id++) {
        offer(buffer, (int64_t)(id / PER_STEP), id);
    }
    CHECK_INT(mr_rehearsal_advance(buffer, (int64_t)n, NULL), ==, MR_OK);
}

/* 20,000 samples have 39 of the rarest label, so an equal share of 30 is there of each. */
TEST(labels_are_balanced) {
    static const mr_rehearsal_policy policies[] = {MR_REHEARSE_CLASS_BALANCED, MR_REHEARSE_GDUMB,
                                                   MR_REHEARSE_FIXED_RATE, MR_REHEARSE_CBRS};
    for (int p = 0; p < 4; p++) {
        mr_rehearsal *buffer = buffer_of(policies[p], 300, 4);
        fill(buffer, 20000);
        CHECK_INT(mr_rehearsal_count(buffer), ==, 300);
        for (int64_t label = 0; label < 10; label++) {
            int64_t n = mr_rehearsal_count_of(buffer, label);
            CHECK_INT(n, >=, policies[p] == MR_REHEARSE_CBRS ? 29 : 30);
            CHECK_INT(n, <=, policies[p] == MR_REHEARSE_CBRS ? 31 : 30);
        }
        mr_rehearsal_free(buffer);
    }
}

/* With fewer of a label than its share, the others have the rest in equal parts. */
TEST(room_that_a_label_does_not_need_is_the_others) {
    mr_rehearsal *buffer = buffer_of(MR_REHEARSE_CLASS_BALANCED, 100, 4);
    for (uint64_t id = 0; id < 1000; id++) {
        const mr_offer own = {0, id, id < 4 ? 7 : (int64_t)(id % 2), 0};
        CHECK_INT(mr_rehearsal_offer(buffer, &own, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_rehearsal_advance(buffer, 2, NULL), ==, MR_OK);
    CHECK_INT(mr_rehearsal_count_of(buffer, 7), ==, 4);
    CHECK_INT(mr_rehearsal_count_of(buffer, 0), ==, 48);
    CHECK_INT(mr_rehearsal_count_of(buffer, 1), ==, 48);
    mr_rehearsal_free(buffer);
}

/* What a balanced buffer shows too often weighs less: the weighted share of a label is that of the
 * stream. */
TEST(weights_undo_the_balance) {
    enum { DRAWS = 100000 };
    mr_rehearsal *buffer = buffer_of(MR_REHEARSE_CLASS_BALANCED, 300, 4);
    double zeros = 0, all = 0;
    fill(buffer, 20000);
    for (int i = 0; i < DRAWS; i++) {
        mr_representative r;
        CHECK(mr_rehearsal_draw(buffer, i, 1, &r));
        all += r.weight;
        zeros += r.label == 0 ? r.weight : 0;
    }
    CHECK(zeros / all > 0.48 && zeros / all < 0.52);
    CHECK(all / DRAWS > 0.95 && all / DRAWS < 1.05);
    mr_rehearsal_free(buffer);
}

TEST(the_last_ones_the_largest_and_the_first) {
    mr_rehearsal *recent = buffer_of(MR_REHEARSE_RECENT, 50, 1);
    fill(recent, 1000);
    for (uint64_t id = 0; id < 1000; id++) {
        CHECK_INT(mr_rehearsal_has(recent, id), ==, id >= 950);
    }
    mr_rehearsal_free(recent);
    mr_rehearsal *first = buffer_of(MR_REHEARSE_GDUMB, 40, 1);
    for (uint64_t id = 0; id < 1000; id++) {
        const mr_offer own = {0, id, (int64_t)(id % 4), 0};
        CHECK_INT(mr_rehearsal_offer(first, &own, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_rehearsal_advance(first, 2, NULL), ==, MR_OK);
    CHECK_INT(mr_rehearsal_count(first), ==, 40);
    mr_rehearsal_free(first);
}

TEST(offers_take_effect_after_the_lag) {
    mr_rehearsal *buffer = buffer_of(MR_REHEARSE_RESERVOIR, 50, 1);
    mr_representative r;
    mr_error err = MR_ERROR_INIT;
    offer(buffer, 5, 1);
    CHECK_INT(mr_rehearsal_advance(buffer, 6, NULL), ==, MR_OK);
    CHECK(!mr_rehearsal_draw(buffer, 6, 0, &r));
    CHECK_INT(mr_rehearsal_advance(buffer, 7, NULL), ==, MR_OK);
    CHECK(mr_rehearsal_draw(buffer, 7, 0, &r) && r.id == 1);
    const mr_offer late = offer_of(5, 2);
    CHECK_INT(mr_rehearsal_offer(buffer, &late, &err), ==, MR_E_PARAM);
    CHECK_HAS(err.text, "too late");
    CHECK_INT(mr_rehearsal_advance(buffer, 3, &err), ==, MR_E_PARAM);
    mr_rehearsal_free(buffer);
}

static void check_same_letters(mr_rehearsal *plain, mr_rehearsal *mirrored) {
    size_t length = mr_base64_length(mr_rehearsal_bytes(plain));
    char *a = malloc(length), *b = malloc(length);
    CHECK_INT(mr_base64_length(mr_rehearsal_bytes(mirrored)), ==, length);
    CHECK_INT(mr_rehearsal_write(plain, a, NULL), ==, MR_OK);
    CHECK_INT(mr_rehearsal_write(mirrored, b, NULL), ==, MR_OK);
    CHECK(memcmp(a, b, length) == 0);
    free(a);
    free(b);
}

/* What is kept up to date as letters is what would be made of it. */
TEST(a_mirror_is_what_is_saved) {
    for (int policy = 0; policy < MR_REHEARSE_CUSTOM; policy++) {
        mr_rehearsal *plain = buffer_of((mr_rehearsal_policy)policy, 200, 5),
                     *mirrored = buffer_of((mr_rehearsal_policy)policy, 200, 5);
        CHECK_INT(mr_rehearsal_mirror(mirrored, NULL), ==, MR_OK);
        for (int64_t step = 0; step < 60; step += 3) {
            run_steps(plain, step, step + 3, 1);
            run_steps(mirrored, step, step + 3, 1);
            for (uint64_t id = 0; policy == MR_REHEARSE_PRIORITY && id < 500; id += 7) {
                mr_rehearsal_value(plain, id, (double)(id % 13), NULL);
                mr_rehearsal_value(mirrored, id, (double)(id % 13), NULL);
            }
            check_same_letters(plain, mirrored);
        }
        mirrored = saved_and_restored(mirrored);
        CHECK(same_draws(plain, mirrored, 60));
        mr_rehearsal_free(plain);
        mr_rehearsal_free(mirrored);
    }
}

/* Rows are narrow until something does not fit; nothing of what is kept depends on it. */
TEST(large_numbers_widen_the_rows_of_a_state) {
    const mr_offer large[] = {{11, (uint64_t)1 << 40, 3, 1},
                              {11, 77, INT64_MIN, 1},
                              {11, 78, INT64_MAX, 1},
                              {11, UINT64_MAX, -1, 1}};
    for (int i = 0; i < MR_REHEARSE_CUSTOM * 4; i++) {
        mr_rehearsal *plain = buffer_of((mr_rehearsal_policy)(i / 4), 20, 5),
                     *mirrored = buffer_of((mr_rehearsal_policy)(i / 4), 20, 5);
        const mr_offer least = {8, 79, -300, 2};
        CHECK_INT(mr_rehearsal_mirror(mirrored, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_offer(plain, &least, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_offer(mirrored, &least, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_advance(plain, 10, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_advance(mirrored, 10, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_count_of(mirrored, -300), ==, mr_rehearsal_count_of(plain, -300));
        check_same_letters(plain, mirrored);
        size_t narrow = mr_rehearsal_bytes(plain);
        const mr_offer late = large[i % 4];
        CHECK_INT(mr_rehearsal_offer(plain, &late, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_offer(mirrored, &late, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_advance(plain, 13, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_advance(mirrored, 13, NULL), ==, MR_OK);
        CHECK_INT(mr_rehearsal_count(plain), ==, 2);
        CHECK_INT(mr_rehearsal_bytes(plain), >=, narrow + 36);
        check_same_letters(plain, mirrored);
        mirrored = saved_and_restored(mirrored);
        CHECK_INT(mr_rehearsal_count_of(mirrored, late.label), ==,
                  mr_rehearsal_count_of(plain, late.label));
        CHECK(same_draws(plain, mirrored, 13));
        mr_rehearsal_free(plain);
        mr_rehearsal_free(mirrored);
    }
}

TEST(damaged_states_are_refused) {
    mr_rehearsal *buffer = buffer_of(MR_REHEARSE_CLASS_BALANCED, 20, 1), *back = NULL;
    unsigned char *bytes = NULL;
    size_t size = 0;
    fill(buffer, 100);
    offer(buffer, 1000, 5);
    CHECK_INT(mr_rehearsal_save(buffer, &bytes, &size, NULL), ==, MR_OK);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 1;
        CHECK_INT(mr_rehearsal_restore(&back, bytes, size, NULL), ==, MR_E_STATE);
        bytes[i] ^= 1;
        CHECK_INT(mr_rehearsal_restore(&back, bytes, i, NULL), ==, MR_E_STATE);
    }
    mr_error err = MR_ERROR_INIT;
    bytes[6] = '3';
    CHECK_INT(mr_rehearsal_restore(&back, bytes, size, &err), ==, MR_E_STATE);
    CHECK_HAS(err.text, "earlier version");
    bytes[6] = '4';
    CHECK_INT(mr_rehearsal_restore(&back, bytes, size, NULL), ==, MR_OK);
    mr_rehearsal_free(back);
    free(bytes);
    mr_rehearsal_free(buffer);
}

TEST_MAIN()
