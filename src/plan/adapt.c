/* SPDX-License-Identifier: Apache-2.0 */
/* adapt.c - see adapt.h.
 *
 * A trial compares neighbouring intervals: base, changed, base, changed. What else the machine does
 * meets both alike, and a move that loses in the first comparison is over. Moves that brought
 * nothing are tried again later and later. */
#include "plan/adapt.h"

#include <math.h>
#include <string.h>

/* Shares of the time. */
static const double little_wait = 0.01, much_wait = 0.03, worth_a_move = 0.1;
static const double on_cpu = 0.8;   /* below, workers are in each other's way */
static const double gain = 1.02;    /* that a move must bring */
static const double no_loss = 0.98; /* that a move that saves threads may cost */
static const double room = 1.2;     /* threads beside those that are busy */
static const double first_pause = 5, longest_pause = 300; /* seconds */

void mr_adapt_begin(mr_adapt *adapt, const mr_setting *start, const mr_setting *least,
                    const mr_setting *most) {
    memset(adapt, 0, sizeof *adapt);
    adapt->base = *start;
    adapt->least = *least;
    adapt->most = *most;
    adapt->threads_enough = most->threads;
    adapt->needed_pause = first_pause;
    adapt->lowered = -INFINITY;
    for (int i = 0; i < MR_N_MOVES; i++) {
        adapt->pause[i] = first_pause;
    }
}

/* ---- Moves ---- */
static uint32_t clamp(int64_t value, uint32_t least, uint32_t most) {
    return value < least ? least : value > most ? most : (uint32_t)value;
}

static int64_t at_most(int64_t value, int64_t most) {
    return value < most ? value : most;
}

static mr_setting moved(const mr_adapt *adapt, mr_adapt_move move) {
    mr_setting to = adapt->base;
    const mr_setting *most = &adapt->most;
    int64_t threads = to.threads, step = threads / 4 > 1 ? threads / 4 : 1;
    switch (move) {
    case MR_MORE_READS:
        to.reads = clamp(2 * (int64_t)to.reads, adapt->least.reads, most->reads);
        break;
    case MR_MORE_BYTES:
        to.bytes = at_most(2 * to.bytes, most->bytes);
        break;
    case MR_MORE_AHEAD:
        to.ahead = at_most(2 * to.ahead, most->ahead);
        break;
    case MR_FEWER_THREADS:
        to.threads = clamp(threads - step, adapt->least.threads, most->threads);
        break;
    default:
        to.threads = clamp(threads + step, adapt->least.threads, most->threads);
    }
    return to;
}

static bool is_same(const mr_setting *a, const mr_setting *b) {
    return a->threads == b->threads && a->reads == b->reads && a->ahead == b->ahead &&
           a->bytes == b->bytes;
}

static bool is_possible(const mr_adapt *adapt, mr_adapt_move move) {
    mr_setting to = moved(adapt, move);
    return adapt->clock >= adapt->due[move] && !is_same(&to, &adapt->base);
}

/* The move that what the workers wait for asks for; MR_N_MOVES: none. */
static mr_adapt_move choose_move(const mr_adapt *adapt, const mr_sight *sight) {
    double all = adapt->base.threads * sight->seconds, busy = sight->busy;
    bool reading = sight->reading > worth_a_move * busy;
    bool idle = all - busy > worth_a_move * all;
    bool crowded = sight->computing < on_cpu * (busy - sight->reading);
    if (reading && sight->memory_short && is_possible(adapt, MR_MORE_BYTES)) {
        return MR_MORE_BYTES;
    }
    if (reading && is_possible(adapt, MR_MORE_READS)) {
        return MR_MORE_READS;
    }
    if (idle && is_possible(adapt, MR_MORE_AHEAD)) {
        return MR_MORE_AHEAD;
    }
    if (!reading && !idle && crowded && is_possible(adapt, MR_FEWER_THREADS)) {
        return MR_FEWER_THREADS;
    }
    if (adapt->base.threads >= adapt->threads_enough && !crowded &&
        is_possible(adapt, MR_MORE_THREADS)) {
        return MR_MORE_THREADS;
    }
    return MR_N_MOVES;
}

/* ---- Trials ---- */
static void reject(mr_adapt *adapt) {
    double pause = adapt->pause[adapt->move];
    adapt->due[adapt->move] = adapt->clock + pause;
    adapt->pause[adapt->move] = 2 * pause < longest_pause ? 2 * pause : longest_pause;
    adapt->phase = 0;
}

static void accept(mr_adapt *adapt) {
    adapt->base = moved(adapt, adapt->move);
    adapt->pause[adapt->move] = first_pause;
    adapt->phase = 0;
    if (adapt->move == MR_FEWER_THREADS || adapt->move == MR_MORE_THREADS) {
        mr_adapt_move back = adapt->move == MR_FEWER_THREADS ? MR_MORE_THREADS : MR_FEWER_THREADS;
        adapt->threads_enough = adapt->base.threads;
        adapt->due[back] = adapt->clock + adapt->pause[back];
    }
}

/* An interval of a trial is over. */
static void follow_trial(mr_adapt *adapt, double rate) {
    double least = (adapt->move == MR_FEWER_THREADS ? no_loss : gain) * adapt->rate;
    if (adapt->phase == 2) {
        adapt->rate = rate;
        adapt->phase = 3;
    } else if (rate < least) {
        reject(adapt);
    } else if (adapt->phase == 1) {
        adapt->phase = 2;
    } else {
        accept(adapt);
    }
}

/* ---- Threads given back, and taken again ---- */
static void give_back(mr_adapt *adapt, const mr_sight *sight) {
    uint32_t floor = adapt->clock < adapt->needed_until ? adapt->threads_needed : 1;
    double wanted = ceil(room * sight->busy / sight->seconds);
    int64_t threads = wanted > floor ? (int64_t)wanted : floor;
    if (threads < adapt->base.threads) {
        adapt->base.threads = clamp(threads, adapt->least.threads, adapt->base.threads);
        adapt->lowered = adapt->clock;
    }
}

static void take_again(mr_adapt *adapt) {
    adapt->base.threads =
        clamp(2 * (int64_t)adapt->base.threads, adapt->least.threads, adapt->threads_enough);
    if (adapt->clock - adapt->lowered < adapt->needed_pause) {
        adapt->threads_needed = adapt->base.threads;
        adapt->needed_until = adapt->clock + 2 * adapt->needed_pause;
        adapt->needed_pause *= adapt->needed_pause < longest_pause ? 2 : 1;
    }
}

static void follow_consumer(mr_adapt *adapt, const mr_sight *sight, double waits) {
    adapt->slack = waits < little_wait ? adapt->slack + 1 : 0;
    if (adapt->slack >= 2) { /* one may be a consumer that did something else for once */
        give_back(adapt, sight);
    } else if (waits > much_wait && adapt->base.threads < adapt->threads_enough) {
        take_again(adapt);
    } else if (waits > much_wait) {
        adapt->move = choose_move(adapt, sight);
        adapt->phase = adapt->move < MR_N_MOVES ? 1 : 0;
    }
}

mr_setting mr_adapt_next(mr_adapt *adapt, const mr_sight *sight) {
    double waits = sight->waited / sight->seconds, rate = sight->samples / sight->seconds;
    adapt->clock += sight->seconds;
    if (adapt->phase > 0 && waits > much_wait) {
        follow_trial(adapt, rate);
    } else {
        adapt->phase = 0; /* rates are the consumer's now: they compare nothing */
        adapt->rate = rate;
        follow_consumer(adapt, sight, waits);
    }
    return adapt->phase == 1 || adapt->phase == 3 ? moved(adapt, adapt->move) : adapt->base;
}
