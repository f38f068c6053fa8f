/* SPDX-License-Identifier: Apache-2.0 */
/* adapt.c - see adapt.h.
 *
 * A trial's intervals are base, changed, changed, base, base, changed, ...: each pair has both, a
 * steady drift meets both alike, and where two equal ones meet, noise is seen. Moves that brought
 * nothing are tried again later and later. */
#include "plan/adapt.h"

#include <math.h>
#include <string.h>

/* Shares of the time. */
static const double little_wait = 0.01, much_wait = 0.03, worth_a_move = 0.1;
static const double in_the_way = 0.2;   /* of a worker's time that nothing accounts for */
static const double gain = 0.02;        /* that a move must bring, as a logarithm */
static const double no_loss = -0.02;    /* that a move that saves threads may cost */
static const double most_brought = 0.7; /* by a doubling; more is chance */
/* Standard errors that decide for and against a move. More reads, batches or bytes do no harm. */
static const double sure_of_threads[2] = {2, 1.5}, sure_of_others[2] = {1, 3};
static const double supposed_noise = 0.03; /* before any was seen */
static const double much_noise = 0.25;     /* in which nothing shows that threads may go */
static const double room = 1.2;            /* threads beside those that are busy */
static const double first_pause = 5, longest_pause = 300; /* seconds */
enum { LEAST_PAIRS = 2, LEAST_PAIRS_OF_FEWER = 4, MOST_PAIRS = 12, SLACK = 3 };
enum { NOISE_KNOWN = 8, NOISE_KEPT = 16 };

void mr_adapt_begin(mr_adapt *adapt, const mr_setting *start, const mr_setting *least,
                    const mr_setting *most) {
    memset(adapt, 0, sizeof *adapt);
    adapt->base = *start;
    adapt->least = *least;
    adapt->most = *most;
    adapt->threads_enough = most->threads;
    adapt->needed_pause = first_pause;
    adapt->lowered = -INFINITY;
    adapt->variance = supposed_noise * supposed_noise;
    adapt->seen = 1;
    adapt->trial.move = MR_N_MOVES;
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

/* Half or twice as many; once that brought nothing, a quarter of them, at least one. */
static int64_t step_of_threads(const mr_adapt *adapt, mr_adapt_move move) {
    int64_t threads = adapt->base.threads, quarter = threads / 4 > 1 ? threads / 4 : 1;
    int64_t large = move == MR_FEWER_THREADS ? threads - threads / 2 : threads;
    return adapt->small[move] ? quarter : large;
}

static mr_setting moved(const mr_adapt *adapt, mr_adapt_move move) {
    mr_setting to = adapt->base;
    const mr_setting *most = &adapt->most;
    int64_t threads = to.threads, step = step_of_threads(adapt, move);
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

/* Time that workers neither read, nor computed, nor were kept from computing by other programs:
 * fewer of them help against locks, never against other programs. */
static bool are_in_the_way(const mr_sight *sight) {
    double known = sight->reading + sight->computing + sight->queued;
    return sight->busy - known > in_the_way * (sight->busy - sight->reading);
}

/* The move that what the workers wait for asks for; MR_N_MOVES: none. */
static mr_adapt_move choose_move(const mr_adapt *adapt, const mr_sight *sight) {
    double all = adapt->base.threads * sight->seconds, busy = sight->busy;
    bool reading = sight->reading > worth_a_move * busy;
    bool idle = all - busy > worth_a_move * all;
    bool is_clear = adapt->seen >= NOISE_KNOWN && adapt->variance < much_noise * much_noise;
    if (reading && sight->memory_short && is_possible(adapt, MR_MORE_BYTES)) {
        return MR_MORE_BYTES;
    }
    if (reading && is_possible(adapt, MR_MORE_READS)) {
        return MR_MORE_READS;
    }
    if (idle && is_possible(adapt, MR_MORE_AHEAD)) {
        return MR_MORE_AHEAD;
    }
    if (!reading && !idle && is_clear && are_in_the_way(sight) &&
        is_possible(adapt, MR_FEWER_THREADS)) {
        return MR_FEWER_THREADS;
    }
    return is_possible(adapt, MR_MORE_THREADS) ? MR_MORE_THREADS : MR_N_MOVES;
}

/* ---- Noise ---- */
/* Within what a move can bring: an interval in which the machine stood still counts for no more. */
static double brought(double changed, double base) {
    double ratio = changed > 0 && base > 0 ? log(changed / base) : 0;
    return fmax(-most_brought, fmin(most_brought, ratio));
}

/* Of two neighbouring intervals under one setting. */
static void learn_noise(mr_adapt *adapt, double rate) {
    double ratio = brought(rate, adapt->rate);
    if (adapt->rate > 0) {
        adapt->seen += adapt->seen < NOISE_KEPT ? 1 : 0;
        adapt->variance += (ratio * ratio / 2 - adapt->variance) / adapt->seen;
    }
}

/* Of the mean of a trial's pairs. */
static double standard_error(const mr_adapt *adapt) {
    const mr_trial *t = &adapt->trial;
    double own = t->pairs > 2 ? (t->squares - t->sum * t->sum / t->pairs) / (t->pairs - 1) : 0;
    return sqrt(fmax(2 * adapt->variance, own) / t->pairs);
}

/* ---- Trials ---- */
static bool is_of_threads(mr_adapt_move move) {
    return move == MR_FEWER_THREADS || move == MR_MORE_THREADS;
}

static void end_trial(mr_adapt *adapt) {
    adapt->trial = (mr_trial){.move = MR_N_MOVES};
}

static void reject(mr_adapt *adapt) {
    mr_adapt_move move = adapt->trial.move;
    double pause = adapt->pause[move];
    adapt->due[move] = adapt->clock + pause;
    adapt->pause[move] = fmin((is_of_threads(move) ? 3 : 2) * pause, longest_pause);
    adapt->small[move] = !adapt->small[move];
    end_trial(adapt);
}

static void accept(mr_adapt *adapt) {
    mr_adapt_move move = adapt->trial.move;
    adapt->base = moved(adapt, move);
    adapt->pause[move] = first_pause;
    if (is_of_threads(move)) {
        mr_adapt_move back = move == MR_FEWER_THREADS ? MR_MORE_THREADS : MR_FEWER_THREADS;
        adapt->threads_enough = adapt->base.threads;
        adapt->due[back] = adapt->clock + adapt->pause[back];
    }
    end_trial(adapt);
}

/* Fewer threads must be shown to do no harm; more reads or memory do none, so that in the end the
 * likelier decides. */
static void judge_trial(mr_adapt *adapt) {
    const mr_trial *t = &adapt->trial;
    bool threads = is_of_threads(t->move), ends = t->pairs >= MOST_PAIRS;
    double bar = t->move == MR_FEWER_THREADS ? no_loss : gain, mean = t->sum / t->pairs;
    double error = standard_error(adapt);
    const double *sure = threads ? sure_of_threads : sure_of_others;
    bool is_better = mean - sure[0] * error > bar;
    int32_t least = t->move == MR_FEWER_THREADS ? LEAST_PAIRS_OF_FEWER : LEAST_PAIRS;
    bool is_worse = mean + sure[1] * error < bar;
    if (t->pairs >= least && (is_better || (ends && !threads && mean > bar))) {
        accept(adapt);
    } else if (is_worse || ends) {
        reject(adapt);
    }
}

/* An interval of a trial is over. */
static void follow_trial(mr_adapt *adapt, double rate) {
    mr_trial *t = &adapt->trial;
    if (!t->is_second) {
        t->first = rate;
        t->is_second = true;
        t->is_changed = !t->is_changed;
        return;
    }
    double ratio = t->is_changed ? brought(rate, t->first) : brought(t->first, rate);
    t->sum += ratio;
    t->squares += ratio * ratio;
    t->pairs++;
    t->is_second = false;
    judge_trial(adapt);
}

static void begin_trial(mr_adapt *adapt, mr_adapt_move move, double rate) {
    adapt->trial = (mr_trial){.move = move};
    if (move < MR_N_MOVES) {
        follow_trial(adapt, rate); /* this interval was the first under the base */
    }
}

/* ---- Threads given back, and taken again ---- */
static void give_back(mr_adapt *adapt) {
    uint32_t floor = adapt->clock < adapt->needed_until ? adapt->threads_needed : 1;
    double wanted = ceil(room * adapt->at_work);
    int64_t threads = wanted > floor ? (int64_t)wanted : floor;
    if (threads < adapt->base.threads) {
        adapt->base.threads = clamp(threads, adapt->least.threads, adapt->base.threads);
        adapt->lowered = adapt->clock;
    }
    adapt->slack = 0;
    adapt->at_work = 0;
}

/* All at once: a consumer that waits loses more than threads that idle for a second. Those that
 * were just now too few are not gone back to for a while. */
static void take_again(mr_adapt *adapt) {
    if (adapt->clock - adapt->lowered < adapt->needed_pause) {
        uint32_t few = adapt->base.threads;
        adapt->threads_needed = few + (few / 4 > 1 ? few / 4 : 1);
        adapt->needed_until = adapt->clock + 2 * adapt->needed_pause;
        adapt->needed_pause *= adapt->needed_pause < longest_pause ? 2 : 1;
    }
    adapt->base.threads = adapt->threads_enough;
}

static void follow_consumer(mr_adapt *adapt, const mr_sight *sight, double waits) {
    bool slack = waits < little_wait;
    adapt->slack = slack ? adapt->slack + 1 : 0;
    adapt->at_work = slack ? fmax(adapt->at_work, sight->busy / sight->seconds) : 0;
    if (adapt->slack >= SLACK) { /* fewer may be a consumer that did something else for once */
        give_back(adapt);
    } else if (waits > much_wait && adapt->base.threads < adapt->threads_enough) {
        take_again(adapt);
    } else if (waits > much_wait) {
        begin_trial(adapt, choose_move(adapt, sight), sight->samples / sight->seconds);
    }
}

/* ---- Intervals ---- */
static mr_setting setting_of(const mr_adapt *adapt) {
    return adapt->trial.is_changed ? moved(adapt, adapt->trial.move) : adapt->base;
}

mr_setting mr_adapt_next(mr_adapt *adapt, const mr_sight *sight) {
    double waits = sight->waited / sight->seconds, rate = sight->samples / sight->seconds;
    mr_setting before = setting_of(adapt);
    adapt->clock += sight->seconds;
    if (waits <= much_wait) { /* rates are the consumer's now: they compare nothing */
        end_trial(adapt);
        adapt->rate = 0;
    }
    learn_noise(adapt, rate);
    if (adapt->trial.move < MR_N_MOVES) {
        follow_trial(adapt, rate);
    } else {
        follow_consumer(adapt, sight, waits);
    }
    mr_setting next = setting_of(adapt);
    adapt->rate = waits > much_wait && is_same(&before, &next) ? rate : 0;
    return next;
}
