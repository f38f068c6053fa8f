/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that adapt, on machines that exist only here: after 20 of their seconds the rate is that
 * of the best fixed setting, and cores that a slow consumer has no use for are given back. */
#include "plan/adapt.h"
#include "test.h"

/* Samples cost CPU time, some of it under one lock, and a read that takes so long. */
typedef struct machine {
    double cores, work, asleep, locked, crowd; /* asleep: waiting for who knows what; crowd: more
                                                  locked time for each thread beside the first */
    double latency, bandwidth; /* seconds a read; samples a second that the disk gives */
    double overlap;            /* batches ahead that are enough */
    double consumer;           /* samples a second that it takes at most */
    double memory;             /* bytes a read holds */
    uint64_t state;            /* of the noise; 0: there is none */
    double noise;              /* rates vary by this share of them, each interval by itself */
    double stolen, thefts;     /* the share of the CPUs that others take, in so many intervals */
    double gaps;               /* in so many intervals hardly anything happens */
} machine;

typedef enum noise_kind { QUIET, MURMUR, LOUD, THEFT, GAPS, ALL_OF_IT, N_NOISES } noise_kind;

static machine with_noise(machine m, noise_kind kind, uint64_t seed) {
    m.state = seed;
    m.noise = kind == MURMUR ? 0.04 : kind == LOUD || kind == ALL_OF_IT ? 0.3 : 0.02;
    m.thefts = kind == THEFT || kind == ALL_OF_IT ? 0.5 : 0;
    m.stolen = 0.6;
    m.gaps = kind == GAPS || kind == ALL_OF_IT ? 0.08 : 0;
    if (kind == QUIET) {
        m.state = 0;
    }
    return m;
}

static double least_of(double a, double b) {
    return a < b ? a : b;
}

static double capacity(const machine *m, const mr_setting *s) {
    double threads = least_of(s->threads, m->cores);
    double locked = m->locked * (1 + m->crowd * (s->threads - 1));
    double rate = threads / (m->work + m->asleep);
    rate = locked > 0 ? least_of(rate, 1 / locked) : rate;
    double reads = m->memory > 0 ? least_of(s->reads, (double)s->bytes / m->memory) : s->reads;
    rate = m->latency > 0 ? least_of(rate, least_of(reads / m->latency, m->bandwidth)) : rate;
    return m->overlap > (double)s->ahead ? rate * (double)s->ahead / m->overlap : rate;
}

/* From 0 to below 1. */
static double draw(machine *m) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(m->state >> 40) / (double)(1 << 24);
}

/* The share of its usual rate that a machine reaches in an interval. */
static double shake(machine *m) {
    if (m->state == 0) {
        return 1;
    }
    double share = 1 + 2 * m->noise * (draw(m) - 0.5);
    share *= draw(m) < m->thefts ? 1 - m->stolen : 1;
    return share * (draw(m) < m->gaps ? 0.05 : 1);
}

static mr_sight look(machine *m, const mr_setting *s) {
    double had = shake(m), could = capacity(m, s) * had, rate = least_of(could, m->consumer);
    double share = rate / could, seconds = 0.4, all = s->threads * seconds;
    double computing = least_of(all, rate * m->work * seconds);
    double reads = m->memory > 0 ? least_of(s->reads, (double)s->bytes / m->memory) : s->reads;
    bool by_reads =
        m->latency > 0 && capacity(m, s) >= 0.999 * least_of(reads / m->latency, m->bandwidth);
    bool by_lock = m->locked + m->asleep > 0 && !by_reads;
    bool by_batches = m->overlap > (double)s->ahead;
    double queued = had < 1 ? computing * (1 / had - 1) : 0;
    double busy = by_reads || by_lock ? share * all : least_of(all, computing + queued);
    queued = least_of(queued, busy - computing);
    return (mr_sight){.seconds = seconds,
                      .samples = rate * seconds,
                      .waited = could < m->consumer ? seconds * (1 - could / m->consumer) : 0,
                      .busy = by_batches ? least_of(busy, computing + queued) : busy,
                      .reading = by_reads ? busy - computing - queued : 0,
                      .computing = computing,
                      .queued = queued,
                      .memory_short = m->memory > 0 && s->reads * m->memory > (double)s->bytes};
}

static const mr_setting least = {1, 4, 2, 1 << 20};

static mr_setting most_of(const machine *m) {
    return (mr_setting){(uint32_t)m->cores, 256, 64, 256 << 20};
}

/* What a setting is worth, noise aside. */
static double worth(const machine *m, const mr_setting *s) {
    return least_of(capacity(m, s), m->consumer);
}

static double best_fixed(const machine *m) {
    double best = 0;
    mr_setting most = most_of(m);
    for (uint32_t threads = 1; threads <= most.threads; threads++) {
        for (uint32_t reads = 4; reads <= most.reads; reads *= 2) {
            const mr_setting s = {threads, reads, most.ahead, most.bytes};
            best = worth(m, &s) > best ? worth(m, &s) : best;
        }
    }
    return best;
}

static bool is_within(const mr_setting *s, const mr_setting *most) {
    return s->threads >= least.threads && s->threads <= most->threads && s->reads >= least.reads &&
           s->reads <= most->reads && s->ahead >= least.ahead && s->ahead <= most->ahead &&
           s->bytes >= least.bytes && s->bytes <= most->bytes;
}

/* Runs for some seconds; what the settings were worth on the mean, trials among them. */
static double live(mr_adapt *adapt, machine *m, mr_setting *s, double seconds) {
    double sum = 0;
    int n = (int)(seconds / 0.4);
    mr_setting most = most_of(m);
    for (int i = 0; i < n; i++) {
        mr_sight sight = look(m, s);
        sum += worth(m, s);
        *s = mr_adapt_next(adapt, &sight);
        CHECK(is_within(s, &most));
    }
    return sum / n;
}

static mr_setting begin(mr_adapt *adapt, const machine *m) {
    mr_setting s = {(uint32_t)m->cores, 32, 4, 64 << 20}, most = most_of(m);
    mr_adapt_begin(adapt, &s, &least, &most);
    return s;
}

/* After 20 seconds, 60 where a gain is hard to tell from noise, the mean of a minute is near the
 * best. */
static mr_setting settle(machine m) {
    double seconds = m.state != 0 && m.noise + m.thefts + m.gaps > 0.05 ? 60 : 20;
    mr_adapt adapt;
    mr_setting s = begin(&adapt, &m);
    live(&adapt, &m, &s, seconds);
    CHECK_INT(1000 * live(&adapt, &m, &s, 60), >=, 950 * best_fixed(&m));
    return adapt.base;
}

enum { SEEDS = 100 };

TEST(what_computes_is_left_alone) {
    for (int cores = 1; cores <= 32; cores *= 2) {
        for (int i = 0; i < N_NOISES * SEEDS; i++) {
            machine m = {.cores = cores, .work = 0.01, .consumer = 1e9};
            m = with_noise(m, (noise_kind)(i % N_NOISES), (uint64_t)i);
            mr_setting s = settle(m);
            CHECK_INT(s.threads, ==, cores);
            CHECK_INT(s.reads, ==, 32);
        }
    }
}

/* What workers wait for may be no lock: then fewer of them are only tried, and seldom. */
TEST(threads_that_sleep_are_kept) {
    for (int cores = 2; cores <= 32; cores *= 4) {
        for (int i = 0; i < N_NOISES * SEEDS; i++) {
            machine m = {.cores = cores, .work = 0.01, .asleep = 0.01, .consumer = 1e9};
            m = with_noise(m, (noise_kind)(i % N_NOISES), (uint64_t)i);
            CHECK_INT(settle(m).threads, ==, cores);
        }
    }
}

TEST(far_storage_gets_more_reads) {
    machine m = {.cores = 32, .work = 0.001, .latency = 0.02, .bandwidth = 1e9, .consumer = 1e9};
    for (int i = 0; i < N_NOISES * SEEDS; i++) {
        CHECK_INT(settle(with_noise(m, (noise_kind)(i % N_NOISES), (uint64_t)i)).reads, ==, 256);
    }
    m.bandwidth = 1000; /* there is nothing to be had from more */
    CHECK_INT(settle(m).reads, ==, 32);
}

TEST(large_files_get_more_memory) {
    machine m = {.cores = 32, .work = 0.001, .latency = 0.02, .bandwidth = 1500, .consumer = 1e9};
    m.memory = 4e6; /* 16 reads at once at first */
    CHECK_INT(settle(m).bytes, ==, 128 << 20);
    for (int i = 0; i < N_NOISES * SEEDS; i++) {
        settle(with_noise(m, (noise_kind)(i % N_NOISES), (uint64_t)i));
    }
}

TEST(a_lock_gets_fewer_threads) {
    machine m = {.cores = 32, .work = 0.01, .locked = 0.01, .crowd = 0.05, .consumer = 1e9};
    for (int i = 0; i < 3 * SEEDS; i++) {
        mr_adapt adapt;
        mr_setting s = begin(&adapt, &m);
        m = with_noise(m, (noise_kind)(i % 3), (uint64_t)i);
        live(&adapt, &m, &s, m.noise > 0.1 ? 120 : 40);
        CHECK_INT(adapt.base.threads, <=, m.noise > 0.1 ? 8 : 3);
    }
}

TEST(more_batches_ahead_where_workers_idle) {
    machine m = {.cores = 32, .work = 0.01, .overlap = 12, .consumer = 1e9};
    for (int i = 0; i < N_NOISES * SEEDS; i++) {
        CHECK_INT(settle(with_noise(m, (noise_kind)(i % N_NOISES), (uint64_t)i)).ahead, >=, 12);
    }
}

TEST(cores_are_given_back_and_taken_again) {
    for (int i = 0; i < N_NOISES * SEEDS; i++) {
        machine m = {.cores = 32, .work = 0.01, .consumer = 500};
        mr_adapt adapt;
        mr_setting s = begin(&adapt, &m);
        m = with_noise(m, (noise_kind)(i % N_NOISES), (uint64_t)i);
        CHECK_INT(live(&adapt, &m, &s, 20), >=, 475);
        if (i % N_NOISES <= MURMUR) {
            CHECK_INT(s.threads, <=, 8); /* five are busy */
            CHECK_INT(s.threads, >=, 5);
        }
        m.consumer = 3000;
        live(&adapt, &m, &s, 5);
        CHECK_INT(live(&adapt, &m, &s, 20), >=, 2850);
    }
}

/* A machine that is away for an interval, at any moment, is forgotten within seconds. */
TEST(one_bad_interval_does_no_lasting_harm) {
    for (int bad = 0; bad < 100; bad++) {
        for (int i = 0; i < 4; i++) {
            machine m = {.cores = i % 2 ? 2 : 16, .work = 0.01, .consumer = i < 2 ? 1e9 : 150};
            m = with_noise(m, MURMUR, (uint64_t)bad + 1);
            mr_adapt adapt;
            mr_setting s = begin(&adapt, &m);
            live(&adapt, &m, &s, 0.4 * bad + 0.4);
            mr_sight away = {
                .seconds = 4, .samples = 4, .waited = 3.9, .busy = 8, .computing = 0.04};
            s = mr_adapt_next(&adapt, &away);
            live(&adapt, &m, &s, 4);
            CHECK_INT(100 * live(&adapt, &m, &s, 20), >=, 95 * best_fixed(&m));
        }
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
