/* SPDX-License-Identifier: Apache-2.0 */
/* The law where samples lie in blocks: a source with uneven blocks in two files, read by several
 * extents, unpacked in parts, rows of fixed and of varying size. */
#include "core/cpu.h"
#include "toy_rig.h"

static course whole, other, part;

#define EPOCHS "\"batch\": 8, \"seed\": 3, \"epochs\": 3"
static const char *const orders[] = {
    EPOCHS ", \"shuffle\": false",
    EPOCHS ", \"shuffle\": {\"window\": \"1GB\", \"lanes\": 1}",
    EPOCHS ", \"shuffle\": {\"window\": 5, \"lanes\": 1}",
    EPOCHS ", \"shuffle\": {\"window\": 1, \"lanes\": 1}",
    EPOCHS ", \"shuffle\": {\"window\": 6, \"lanes\": 2}",
    EPOCHS ", \"shuffle\": {\"window\": 8, \"lanes\": 8}",
    EPOCHS ", \"shuffle\": true",
    EPOCHS ", \"shuffle\": {\"window\": \"all\"}",
    EPOCHS ", \"shuffle\": {\"window\": 4}, \"remainder\": \"pad\"",
    EPOCHS ", \"shuffle\": {\"window\": 4}, \"remainder\": \"drop\"",
    "\"batch\": 1000, \"epochs\": 3, \"shuffle\": {\"window\": 4}",
    "\"batch\": 1, \"epochs\": 2, \"shuffle\": {\"window\": 3, \"lanes\": 2}",
};
enum { N_ORDERS = sizeof orders / sizeof *orders };

static void check_every_row_once(const course *c, int64_t rows) {
    int seen[BLOCKS * 11] = {0};
    for (int64_t i = 0; i < rows; i++) {
        seen[c->samples[i]]++;
    }
    for (int64_t i = 0; i < rows; i++) {
        CHECK_INT(seen[i], ==, 1);
    }
}

static void law(void) {
    static const uint32_t counts[] = {1, 2, 3, 8};
    for (int o = 0; o < N_ORDERS; o++) {
        for (size_t i = 0; i < 4; i++) {
            mr_options options = with_threads(counts[i]);
            options.io = i == 1 ? MR_IO_PREAD : MR_IO_AUTO;
            options.reads_in_flight = i == 2 ? 1 : 8;
            run(i == 0 ? &whole : &other, orders[o], options, -1);
            CHECK(i == 0 || same(&whole, &other));
        }
        if (!strstr(orders[o], "drop")) {
            check_every_row_once(&whole, own.first[BLOCKS]);
        }
    }
}

TEST(make_files) {
    write_files(fixture_folder());
    CHECK(own.first[BLOCKS] > 100);
}

TEST(threads_and_ways_of_reading_do_not_matter) {
    law();
}

TEST(gathered_rows_are_the_same) {
    own.gathers = true;
    law();
    own.gathers = false;
}

static bool lent(const char *settings) {
    run(&other, settings, with_threads(2), -1);
    return atomic_load(&own.lent) > 0;
}

/* Rows in order that come once are lent, and nothing else is. */
TEST(batches_borrow_rows_of_a_block) {
    own.gathers = true;
    for (int o = 0; o < N_ORDERS; o++) {
        run(&whole, orders[o], with_threads(2), -1);
        own.lends = true;
        CHECK_INT(lent(orders[o]), ==, o == 0);
        CHECK(same(&whole, &other));
        own.lends = false;
    }
    own.lends = true;
    law();
    CHECK(lent(EPOCHS ", \"shuffle\": false, \"remainder\": \"drop\""));
    CHECK(!lent(EPOCHS ", \"shuffle\": false, \"remainder\": \"pad\""));
    CHECK(!lent(EPOCHS ", \"shuffle\": false, \"view\": [{\"repeat\": 2}]"));
    own.gathers = own.lends = false;
}

/* After a part of the run, and where a block is bad. */
TEST(loans_are_given_back) {
    own.gathers = own.lends = true;
    for (int steps = 0; steps < 12; steps++) {
        run(&whole, orders[0], with_threads(3), steps);
    }
    own.bad_block = 5;
    run(&whole, orders[0], with_threads(2), -1);
    CHECK_INT(whole.err.code, ==, MR_E_CORRUPT);
    run(&whole, EPOCHS ", \"shuffle\": false, \"on_error\": \"skip\"", with_threads(2), -1);
    CHECK_INT(whole.skipped, ==, 3 * rows_of(5));
    own.bad_block = -1;
    own.gathers = own.lends = false;
}

TEST(a_run_goes_on_at_any_step) {
    for (int o = 0; o < 10; o++) {
        run(&whole, orders[o], with_threads(2), -1);
        for (int steps = 1; steps < whole.n_batches; steps += 3) {
            mr_options options = with_threads(2);
            run(&part, orders[o], options, steps);
            options.state = part.state;
            options.state_size = strlen(part.state);
            run(&other, orders[o], options, -1);
            int taken = whole.batch_end[steps - 1];
            CHECK_INT(part.n + other.n, ==, whole.n);
            CHECK(memcmp(part.digests, whole.digests, (size_t)taken * 8) == 0);
            CHECK(memcmp(other.digests, whole.digests + taken, (size_t)other.n * 8) == 0);
        }
    }
}

/* The union of what the ranks deliver at a step is what one rank delivers. */
TEST(worlds_do_not_matter) {
    static const uint32_t worlds[] = {2, 4, 8};
    for (int o = 0; o < 10; o++) {
        run(&whole, orders[o], with_threads(1), -1);
        for (size_t w = 0; w < 3; w++) {
            int64_t n = 0;
            uint64_t sum = 0, expected = 0;
            for (uint32_t rank = 0; rank < worlds[w]; rank++) {
                mr_options options = with_threads(2);
                options.world = worlds[w];
                options.rank = rank;
                run(&other, orders[o], options, -1);
                n += other.n;
                for (int i = 0; i < other.n; i++) {
                    sum += other.digests[i];
                }
            }
            for (int i = 0; i < whole.n; i++) {
                expected += whole.digests[i];
            }
            CHECK_INT(n, ==, whole.n);
            CHECK(sum == expected);
        }
    }
}

TEST(every_block_is_read_once_an_epoch) {
    for (int o = 0; o < 4; o++) {
        run(&whole, orders[o], with_threads(2), -1);
        CHECK_INT(atomic_load(&own.unpacked), ==, 3 * BLOCKS * PARTS);
    }
    run(&whole, orders[4], with_threads(2), -1); /* one cut: a block on it is read twice */
    CHECK(atomic_load(&own.unpacked) <= 3 * (BLOCKS + 1) * PARTS);
}

TEST(a_bad_block_is_named_or_replaced) {
    own.bad_block = 5;
    run(&whole, orders[2], with_threads(2), -1);
    CHECK_INT(whole.err.code, ==, MR_E_CORRUPT);
    CHECK_HAS(whole.err.text, "a bad block");
    CHECK_HAS(whole.err.source, "row ");
    char settings[256];
    snprintf(settings, sizeof settings, "%s, \"on_error\": \"skip\"", orders[2]);
    run(&whole, settings, with_threads(1), -1);
    CHECK_INT(whole.skipped, ==, 3 * rows_of(5));
    run(&other, settings, with_threads(3), -1);
    CHECK(same(&whole, &other));
    /* a window that has nothing but the bad block: others stand in */
    snprintf(settings, sizeof settings, "%s, \"on_error\": \"skip\"", orders[3]);
    run(&whole, settings, with_threads(1), -1);
    CHECK_TEXT(whole.err.text, "");
    CHECK_INT(whole.skipped, ==, 3 * rows_of(5));
    run(&other, settings, with_threads(3), -1);
    CHECK(same(&whole, &other));
    own.bad_block = -1;
}

TEST(a_file_that_is_cut_off_is_an_error) {
    char cut[160];
    snprintf(cut, sizeof cut, "%s", own.paths[1]);
    CHECK_INT(truncate(cut, own.offset[21]), ==, 0);
    run(&whole, orders[0], with_threads(2), -1);
    CHECK_INT(whole.err.code, ==, MR_E_CORRUPT);
}

TEST(a_source_is_told_which_features_it_may_use) {
    mr_options options = with_threads(1);
    uint32_t all = 0;
    CHECK_INT(mr_cpu_features(NULL, &all, NULL), ==, MR_OK);
    run(&whole, orders[0], options, -1);
    CHECK_INT(own.cpu, ==, all);
    options.disable_cpu = "avx512";
    run(&other, orders[0], options, -1);
    CHECK_INT(own.cpu, ==, all & ~(uint32_t)MR_CPU_AVX512);
    options.disable_cpu = "avx2,neon";
    run(&other, orders[0], options, -1);
    CHECK_INT(own.cpu, ==, 0);
}

TEST(ending_at_any_time_leaks_nothing) {
    for (int steps = 0; steps < 20; steps++) {
        run(&part, orders[5], with_threads(3), steps % 12);
    }
    char *slash = strrchr(own.paths[0], '/');
    *slash = '\0';
    fixture_remove(own.paths[0]);
}

TEST_MAIN()
