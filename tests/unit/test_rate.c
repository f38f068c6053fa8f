/* SPDX-License-Identifier: Apache-2.0 */
/* What a step takes from a stream of any rate, and the journal that lets it be taken again. */
#include "plan/rate.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "fixture.h"
#include "io/journal.h"
#include "io/partition.h"
#include "test.h"

enum { MS = 1000000 };

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

static mr_rate rate_of(mr_late late, mr_early early) {
    const mr_rate_options options = {.late = late,
                                     .early = early,
                                     .batch = 8,
                                     .replay = 4,
                                     .patience = 10 * MS,
                                     .most_waiting = 50,
                                     .least_kept = 1000,
                                     .seed = 3};
    mr_rate rate;
    CHECK_INT(mr_rate_start(&rate, &options, NULL), ==, MR_OK);
    return rate;
}

/* ---- A stream whose entry i has the key i, and what steps make of it ---- */
typedef struct consumer {
    int64_t cursor, digest;
    int64_t taken, dropped, thinned, replayed;
} consumer;

static void apply(consumer *c, const mr_rate *rate, const mr_rate_decision *d) {
    c->cursor += d->drop;
    c->dropped += d->drop;
    c->replayed += d->replay;
    for (int64_t left = d->take; left > 0; c->cursor++) {
        if (mr_rate_chooses(rate, d->keep, &c->cursor, sizeof c->cursor)) {
            c->digest = (int64_t)mix((uint64_t)(c->digest ^ c->cursor ^ d->step << 32));
            left--;
            c->taken++;
        } else {
            c->thinned++;
        }
    }
}

static int64_t chosen_of(const mr_rate *rate, int64_t from, int64_t to) {
    int64_t n = 0;
    for (int64_t i = from; i < to; i++) {
        n += mr_rate_chooses(rate, rate->keep, &i, sizeof i);
    }
    return n;
}

typedef struct record {
    mr_rate_decision entries[4000];
    int n;
} record;
static record noted_ones;

/* `steps` steps of a millisecond each; arrivals change from none to far too many. */
static consumer run_live(mr_rate *rate, int steps, uint64_t seed) {
    consumer c = {0};
    int64_t arrived = 0, now = 0;
    noted_ones.n = 0;
    while (rate->step < steps && now < (int64_t)steps * 100 * MS) {
        uint64_t phase = mix(seed + (uint64_t)(now / (50 * MS))) % 4;
        static const uint64_t most[] = {1, 9, 9, 30};
        arrived += (int64_t)(mix(seed ^ (uint64_t)now) % most[phase]);
        const mr_rate_view view = {now, arrived - c.cursor, chosen_of(rate, c.cursor, arrived),
                                   rate->step > 0};
        mr_rate_decision decision;
        bool noted = false;
        int64_t until = 0;
        if (mr_rate_decide(rate, &view, &decision, &noted, &until) == MR_OK) {
            if (noted && noted_ones.n < 4000) {
                noted_ones.entries[noted_ones.n++] = decision;
            }
            apply(&c, rate, &decision);
            CHECK_INT(c.cursor, <=, arrived);
            CHECK_INT(decision.take + decision.replay, ==, 12);
        }
        now += MS;
    }
    CHECK_INT(rate->step, ==, steps);
    return c;
}

static consumer run_again(mr_rate *rate, int steps) {
    consumer c = {0};
    int at = 0;
    for (int i = 0; i < steps; i++) {
        mr_rate_decision decision;
        bool used = false;
        const mr_rate_decision *entry = at < noted_ones.n ? &noted_ones.entries[at] : NULL;
        CHECK_INT(mr_rate_replay(rate, entry, &decision, &used, NULL), ==, MR_OK);
        at += used;
        apply(&c, rate, &decision);
    }
    CHECK_INT(at, ==, noted_ones.n);
    return c;
}

TEST(the_journal_gives_the_same_decisions) {
    enum { STEPS = 2000 };
    for (int late = 0; late < 2; late++) {
        for (int early = 0; early <= MR_EARLY_DROP_OLDEST; early++) {
            mr_rate live = rate_of((mr_late)late, (mr_early)early), again = live;
            consumer a = run_live(&live, STEPS, 11), b = run_again(&again, STEPS);
            CHECK(memcmp(&a, &b, sizeof a) == 0);
            CHECK(late == MR_LATE_WAIT || a.replayed > 4 * STEPS);
            CHECK(late == MR_LATE_FILL || a.taken == 8 * STEPS);
            CHECK((a.dropped > 0) == (early == MR_EARLY_DROP_OLDEST));
            CHECK((a.thinned > 0) == (early == MR_EARLY_THIN));
            CHECK_INT(noted_ones.n, <, STEPS);
            CHECK((noted_ones.n > 0) == mr_rate_is_by_the_clock(&live.options));
        }
    }
}

static mr_status ask(mr_rate *rate, int64_t now, int64_t waiting, mr_rate_decision *d,
                     int64_t *until) {
    const mr_rate_view view = {now, waiting, waiting, true};
    bool noted;
    return mr_rate_decide(rate, &view, d, &noted, until);
}

TEST(a_stream_that_stops) {
    mr_rate_decision d;
    int64_t until = 0;
    mr_rate waits = rate_of(MR_LATE_WAIT, MR_EARLY_HOLD),
            fills = rate_of(MR_LATE_FILL, MR_EARLY_HOLD);
    for (int64_t now = 0; now < 10000 * (int64_t)MS; now += MS) {
        CHECK_INT(ask(&waits, now, 7, &d, &until), ==, MR_LATER);
        CHECK(until == INT64_MAX);
        (void)ask(&fills, now, 0, &d, &until);
    }
    CHECK_INT(waits.step, ==, 0);
    CHECK_INT(fills.step, >=, 900); /* each after 10 ms */
    CHECK_INT(ask(&waits, 0, 8, &d, &until), ==, MR_OK);
    CHECK_INT(d.take, ==, 8);
}

TEST(clocks_that_jump) {
    mr_rate_decision d;
    int64_t until = 0;
    mr_rate rate = rate_of(MR_LATE_FILL, MR_EARLY_HOLD);
    CHECK_INT(ask(&rate, 1000 * (int64_t)MS, 3, &d, &until), ==, MR_LATER);
    CHECK_INT(ask(&rate, 0, 3, &d, &until), ==, MR_LATER);
    CHECK_INT(until, ==, 10 * MS);
    CHECK_INT(ask(&rate, 10 * MS, 3, &d, &until), ==, MR_OK);
    CHECK(d.take == 3 && d.replay == 9);
    CHECK_INT(ask(&rate, INT64_MAX, 3, &d, &until), ==, MR_LATER);
    CHECK_INT(ask(&rate, INT64_MIN, 3, &d, &until), ==, MR_LATER);
}

TEST(a_lower_share_chooses_among_what_a_higher_one_chose) {
    mr_rate rate = rate_of(MR_LATE_WAIT, MR_EARLY_THIN);
    int64_t half = 0, tenth = 0;
    for (int64_t i = 0; i < 100000; i++) {
        bool low = mr_rate_chooses(&rate, 6554, &i, sizeof i);
        bool high = mr_rate_chooses(&rate, 32768, &i, sizeof i);
        CHECK(high || !low);
        half += high;
        tenth += low;
    }
    CHECK(half > 49000 && half < 51000);
    CHECK(tenth > 9500 && tenth < 10500);
}

/* A quarter less, or a third more and one, by hand. */
TEST(the_share_goes_down_to_the_least_and_back_to_all) {
    static const uint32_t down[] = {49152, 36864, 27648, 20736, 20000, 20000};
    static const uint32_t up[] = {26667, 35557, 47410, 63214, MR_KEEP_ALL, MR_KEEP_ALL};
    mr_rate_decision d;
    int64_t until = 0;
    mr_rate rate = rate_of(MR_LATE_WAIT, MR_EARLY_THIN);
    rate.options.least_kept = 20000;
    for (size_t i = 0; i < sizeof down / sizeof *down; i++) {
        CHECK_INT(ask(&rate, 0, rate.options.most_waiting + 1, &d, &until), ==, MR_OK);
        CHECK_INT(d.keep, ==, i > 0 ? down[i - 1] : MR_KEEP_ALL);
        CHECK_INT(rate.keep, ==, down[i]);
    }
    for (int64_t waiting = rate.options.most_waiting; waiting >= 25; waiting -= 25) {
        CHECK_INT(ask(&rate, 0, waiting, &d, &until), ==, MR_OK); /* neither */
        CHECK_INT(rate.keep, ==, 20000);
    }
    for (size_t i = 0; i < sizeof up / sizeof *up; i++) {
        CHECK_INT(ask(&rate, 0, rate.options.most_waiting / 2 - 1, &d, &until), ==, MR_OK);
        CHECK_INT(rate.keep, ==, up[i]);
    }
}

/* Where the least is next to nothing, the share comes back from there too. */
TEST(the_smallest_share_is_left_again) {
    mr_rate_decision d;
    int64_t until = 0;
    mr_rate rate = rate_of(MR_LATE_WAIT, MR_EARLY_THIN);
    rate.options.least_kept = 1;
    rate.keep = 1;
    CHECK_INT(ask(&rate, 0, rate.options.most_waiting + 1, &d, &until), ==, MR_OK);
    CHECK_INT(rate.keep, ==, 1);
    for (int i = 0; i < 60; i++) {
        CHECK_INT(ask(&rate, 0, 8, &d, &until), ==, MR_OK);
    }
    CHECK_INT(rate.keep, ==, MR_KEEP_ALL);
    CHECK(mr_rate_chooses(&rate, rate.keep, &until, sizeof until));
}

TEST(shares_that_are_none_are_refused) {
    mr_rate rate = rate_of(MR_LATE_WAIT, MR_EARLY_THIN);
    mr_rate_options options = rate.options;
    options.least_kept = MR_KEEP_ALL;
    CHECK_INT(mr_rate_start(&rate, &options, NULL), ==, MR_OK);
    options.least_kept = MR_KEEP_ALL + 1;
    CHECK_INT(mr_rate_start(&rate, &options, NULL), ==, MR_E_PARAM);
    options.least_kept = 0;
    CHECK_INT(mr_rate_start(&rate, &options, NULL), ==, MR_E_PARAM);
}

/* The counts stay within the bounds whoever wants to go on. */
TEST(samples_per_insert) {
    mr_rate_limit limit;
    CHECK_INT(mr_rate_limit_start(&limit, 4, 10, 2, NULL), ==, MR_E_PARAM);
    CHECK_INT(mr_rate_limit_start(&limit, 4, 10, 8, NULL), ==, MR_OK);
    CHECK(!mr_rate_may_sample(&limit, 1));
    for (int i = 0; i < 20000; i++) {
        bool insert = mix((uint64_t)i) % 2;
        bool may = insert ? mr_rate_may_insert(&limit, 1) : mr_rate_may_sample(&limit, 1);
        limit.inserts += insert && may;
        limit.size = limit.inserts;
        limit.samples += !insert && may;
        CHECK(mr_rate_may_insert(&limit, 1) || mr_rate_may_sample(&limit, 1));
    }
    CHECK_INT(limit.samples, >, 4000);
    double off = 4.0 * (double)limit.inserts - (double)limit.samples - 40;
    CHECK(off >= -8 && off <= 8);
}

/* Steps of 8 new and 8 old ones: whatever the share says, the counts stay within the bounds. */
static void check_limited_steps(double wanted, double slack, int64_t least_size) {
    mr_rate rate = rate_of(MR_LATE_WAIT, MR_EARLY_HOLD);
    int64_t total = rate.options.batch + rate.options.replay, late_size = 0;
    CHECK_INT(mr_rate_limit_start(&rate.limit, wanted, least_size, slack, NULL), ==, MR_OK);
    for (int i = 0; i < 3000; i++) {
        mr_rate_decision d = mr_rate_usual(&rate);
        CHECK(d.take >= 0 && d.replay >= 0 && d.take + d.replay > 0 && d.take + d.replay <= total);
        CHECK(d.replay == 0 || rate.limit.size >= least_size);
        rate.limit.size = late_size; /* the buffer is behind by a step */
        late_size += d.take;
        rate.limit.inserts += d.take;
        rate.limit.samples += d.replay;
        double off =
            wanted * (double)(rate.limit.inserts - least_size) - (double)rate.limit.samples;
        CHECK(off <= slack + wanted * (double)rate.options.batch);
        CHECK(rate.limit.samples == 0 || off >= -slack);
    }
    CHECK_INT(rate.limit.inserts, >, 1000);
    double ratio = (double)rate.limit.samples / (double)rate.limit.inserts;
    CHECK(ratio > 0.9 * wanted - 0.05 && ratio < 1.05 * wanted + 0.05);
}

TEST(steps_keep_to_samples_per_insert) {
    check_limited_steps(4, 64, 10);
    check_limited_steps(0.25, 8, 10);
    check_limited_steps(1, 40, 100);
    check_limited_steps(12, 200, 1);
}

/* ---- Journals ---- */
static const uint64_t run_id[2] = {1, 2};

static int64_t read_journal(const char *folder, mr_status *status, mr_error *err) {
    mr_journal_reader *reader = NULL;
    uint64_t run[2];
    mr_entry entry;
    int64_t kind, n = 0;
    *status = mr_journal_reader_open(&reader, folder, 0, run, err);
    while (*status == MR_OK && (*status = mr_journal_next(reader, &kind, &entry, err)) == MR_OK) {
        mr_rate_decision d;
        CHECK_INT(kind, ==, 7);
        CHECK_INT(mr_rate_entry_load(&d, entry.value, entry.size, NULL), ==, MR_OK);
        CHECK_INT(d.step, ==, n);
        n++;
    }
    mr_journal_reader_close(reader);
    return n;
}

static mr_status note(mr_journal *journal, int64_t step) {
    unsigned char bytes[MR_RATE_ENTRY_BYTES];
    const mr_rate_decision d = {step, 1, 2, 3, 4};
    mr_rate_entry_save(&d, bytes);
    return mr_journal_append(journal, 7, bytes, sizeof bytes, NULL);
}

static void write_journal(const char *folder, int64_t from, int64_t to) {
    mr_journal *journal = NULL;
    CHECK_INT(mr_journal_open(&journal, folder, 0, run_id, NULL), ==, MR_OK);
    for (int64_t i = from; i < to; i++) {
        CHECK_INT(note(journal, i), ==, MR_OK);
    }
    CHECK_INT(mr_journal_close(journal, NULL), ==, MR_OK);
}

TEST(a_journal_is_read_back_and_goes_on) {
    char *folder = fixture_folder();
    mr_error err = MR_ERROR_INIT;
    mr_status status;
    write_journal(folder, 0, 20);
    write_journal(folder, 20, 50);
    CHECK_INT(read_journal(folder, &status, &err), ==, 50);
    CHECK_INT(status, ==, MR_END);
    mr_journal *journal = NULL, *other = NULL;
    const uint64_t another[2] = {1, 3};
    CHECK_INT(mr_journal_open(&journal, folder, 0, another, &err), ==, MR_E_STATE);
    CHECK_INT(mr_journal_open(&journal, folder, 0, run_id, &err), ==, MR_OK);
    CHECK_INT(mr_journal_open(&other, folder, 0, run_id, &err), ==, MR_E_IO);
    mr_journal_close(journal, NULL);
    fixture_remove(folder);
}

static int open_journal(const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/00000-0000000000000000000.seg", folder);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Whatever byte is damaged, a decision is never passed over in silence. */
TEST(a_damaged_journal_is_refused) {
    char *folder = fixture_folder();
    write_journal(folder, 0, 5);
    int fd = open_journal(folder);
    struct stat info;
    CHECK_INT(fstat(fd, &info), ==, 0);
    for (int64_t at = MR_ENTRY_HEAD; at < info.st_size; at++) {
        unsigned char byte = 0, wrong;
        mr_status status;
        mr_error err = MR_ERROR_INIT;
        CHECK_INT(pread(fd, &byte, 1, at), ==, 1);
        wrong = (unsigned char)(byte ^ 1);
        CHECK_INT(pwrite(fd, &wrong, 1, at), ==, 1);
        read_journal(folder, &status, &err);
        CHECK_INT(status, ==, MR_E_CORRUPT);
        CHECK_INT(pwrite(fd, &byte, 1, at), ==, 1);
    }
    close(fd);
    fixture_remove(folder);
}

/* A tail that was cut off was never acknowledged: the run goes on without it. */
TEST(a_journal_that_was_cut_off_goes_on) {
    char *folder = fixture_folder();
    write_journal(folder, 0, 5);
    int fd = open_journal(folder);
    struct stat info;
    mr_status status;
    CHECK_INT(fstat(fd, &info), ==, 0);
    CHECK_INT(ftruncate(fd, info.st_size - 3), ==, 0);
    close(fd);
    CHECK_INT(read_journal(folder, &status, NULL), ==, 4);
    CHECK_INT(status, ==, MR_END);
    write_journal(folder, 4, 9);
    CHECK_INT(read_journal(folder, &status, NULL), ==, 9);
    CHECK_INT(status, ==, MR_END);
    fixture_remove(folder);
}

TEST_MAIN()
