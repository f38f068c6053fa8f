/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that adapt, on machines that exist only here: after 20 of their seconds the rate is that
 * of the best fixed setting, and cores that a slow consumer has no use for are given back. */
#include "plan/adapt.h"
#include "test.h"

/* Samples cost CPU time, some of it under one lock, and a read that takes so long. */
typedef struct machine {
    double cores, work, locked,
        crowd;                 /* crowd: more locked time for each thread beside the first */
    double latency, bandwidth; /* seconds a read; samples a second that the disk gives */
    double overlap;            /* batches ahead that are enough */
    double consumer;           /* samples a second that it takes at most */
    double memory;             /* bytes a read holds */
    uint64_t noise;            /* state; 0: none */
} machine;

static double least_of(double a, double b) {
    return a < b ? a : b;
}

static double capacity(const machine *m, const mr_setting *s) {
    double threads = least_of(s->threads, m->cores);
    double locked = m->locked * (1 + m->crowd * (s->threads - 1));
    double rate = threads / m->work;
    rate = locked > 0 ? least_of(rate, 1 / locked) : rate;
    double reads = m->memory > 0 ? least_of(s->reads, (double)s->bytes / m->memory) : s->reads;
    rate = m->latency > 0 ? least_of(rate, least_of(reads / m->latency, m->bandwidth)) : rate;
    return m->overlap > (double)s->ahead ? rate * (double)s->ahead / m->overlap : rate;
}

/* 1 +- 4 %. */
static double shake(machine *m) {
    m->noise = m->noise * 6364136223846793005u + 1442695040888963407u;
    return m->noise ? 1 + 0.08 * ((double)(m->noise >> 40) / (double)(1 << 24) - 0.5) : 1;
}

static mr_sight look(machine *m, const mr_setting *s) {
    double could = capacity(m, s), rate = least_of(could, m->consumer) * shake(m);
    double share = rate / could, seconds = 0.4, all = s->threads * seconds;
    double computing = least_of(all, rate * m->work * seconds);
    double reads = m->memory > 0 ? least_of(s->reads, (double)s->bytes / m->memory) : s->reads;
    bool by_reads = m->latency > 0 && could >= 0.999 * least_of(reads / m->latency, m->bandwidth);
    bool by_lock = m->locked > 0 && !by_reads;
    bool by_batches = m->overlap > (double)s->ahead;
    double busy = by_reads || by_lock ? share * all : computing;
    return (mr_sight){.seconds = seconds,
                      .samples = rate * seconds,
                      .waited = could < m->consumer ? seconds * (1 - could / m->consumer) : 0,
                      .busy = by_batches ? computing : busy,
                      .reading = by_reads ? busy - computing : 0,
                      .computing = computing,
                      .memory_short = m->memory > 0 && s->reads * m->memory > (double)s->bytes};
}

static const mr_setting least = {1, 4, 2, 1 << 20}, most = {32, 256, 64, 256 << 20};

static double best_fixed(const machine *m) {
    double best = 0;
    for (uint32_t threads = 1; threads <= most.threads; threads++) {
        for (uint32_t reads = 4; reads <= most.reads; reads *= 2) {
            const mr_setting s = {threads, reads, most.ahead, most.bytes};
            double rate = least_of(capacity(m, &s), m->consumer);
            best = rate > best ? rate : best;
        }
    }
    return best;
}

static bool is_within(const mr_setting *s) {
    return s->threads >= least.threads && s->threads <= most.threads && s->reads >= least.reads &&
           s->reads <= most.reads && s->ahead >= least.ahead && s->ahead <= most.ahead &&
           s->bytes >= least.bytes && s->bytes <= most.bytes;
}

/* Runs for some seconds; the mean rate of the last ten. */
static double live(mr_adapt *adapt, machine *m, mr_setting *s, double seconds) {
    double last = 0;
    int n = (int)(seconds / 0.4), counted = n < 25 ? n : 25;
    for (int i = 0; i < n; i++) {
        mr_sight sight = look(m, s);
        last += i >= n - counted ? sight.samples / (0.4 * counted) : 0;
        *s = mr_adapt_next(adapt, &sight);
        CHECK(is_within(s));
    }
    return last;
}

static mr_setting settle(machine m, uint64_t noise) {
    mr_adapt adapt;
    mr_setting s = {32, 32, 4, 64 << 20};
    mr_adapt_begin(&adapt, &s, &least, &most);
    m.noise = noise;
    live(&adapt, &m, &s, 20);
    double rate = live(&adapt, &m, &s, 20), best = best_fixed(&m);
    CHECK_INT(1000 * rate, >=, 950 * best * (noise ? 0.99 : 1));
    return adapt.base;
}

TEST(what_computes_is_left_alone) {
    for (uint64_t noise = 0; noise < 20; noise++) {
        mr_setting s = settle((machine){.cores = 32, .work = 0.01, .consumer = 1e9}, noise);
        CHECK_INT(s.threads, ==, 32);
        CHECK_INT(s.reads, ==, 32);
    }
}

TEST(far_storage_gets_more_reads) {
    machine m = {.cores = 32, .work = 0.001, .latency = 0.02, .bandwidth = 1e9, .consumer = 1e9};
    for (uint64_t noise = 0; noise < 20; noise++) {
        CHECK_INT(settle(m, noise).reads, ==, 256);
    }
    m.bandwidth = 1000; /* there is nothing to be had from more */
    CHECK_INT(settle(m, 0).reads, ==, 32);
}

TEST(large_files_get_more_memory) {
    machine m = {.cores = 32, .work = 0.001, .latency = 0.02, .bandwidth = 1500, .consumer = 1e9};
    m.memory = 4e6; /* 16 reads at once at first */
    CHECK_INT(settle(m, 0).bytes, ==, 128 << 20);
}

TEST(a_lock_gets_fewer_threads) {
    machine m = {.cores = 32, .work = 0.01, .locked = 0.01, .crowd = 0.05, .consumer = 1e9};
    for (uint64_t noise = 0; noise < 20; noise++) {
        mr_adapt adapt;
        mr_setting s = {32, 32, 4, 64 << 20};
        mr_adapt_begin(&adapt, &s, &least, &most);
        m.noise = noise;
        live(&adapt, &m, &s, 40);
        CHECK_INT(adapt.base.threads, <=, 3);
    }
}

TEST(more_batches_ahead_where_workers_idle) {
    machine m = {.cores = 32, .work = 0.01, .overlap = 12, .consumer = 1e9};
    CHECK_INT(settle(m, 0).ahead, >=, 12);
}

TEST(cores_are_given_back_and_taken_again) {
    for (uint64_t noise = 0; noise < 20; noise++) {
        machine m = {.cores = 32, .work = 0.01, .consumer = 500, .noise = noise};
        mr_adapt adapt;
        mr_setting s = {32, 32, 4, 64 << 20};
        mr_adapt_begin(&adapt, &s, &least, &most);
        CHECK_INT(live(&adapt, &m, &s, 20), >=, 475);
        CHECK_INT(s.threads, <=, 8); /* five are busy */
        CHECK_INT(s.threads, >=, 5);
        m.consumer = 3000;
        live(&adapt, &m, &s, 5);
        CHECK_INT(live(&adapt, &m, &s, 20), >=, 2850);
    }
}

TEST(stated_numbers_are_kept) {
    machine m = {.cores = 32, .work = 0.001, .latency = 0.02, .bandwidth = 1e9, .consumer = 1e9};
    const mr_setting only = {4, 16, 3, 1 << 20};
    mr_setting s = only;
    mr_adapt adapt;
    mr_adapt_begin(&adapt, &only, &only, &only);
    for (int i = 0; i < 100; i++) {
        mr_sight sight = look(&m, &s);
        s = mr_adapt_next(&adapt, &sight);
        CHECK(memcmp(&s, &only, sizeof s) == 0);
    }
}

TEST_MAIN()
