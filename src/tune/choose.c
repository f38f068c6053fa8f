/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - the choice between strategies whose figures are known. Pure.
 *
 * What counts is the time until the training ends: what is made beforehand, and then every epoch at
 * the rate of the loader or of the consumer, whichever is lower. A store fills while the first
 * epoch runs, so that epoch has a rate of its own. */
#include <math.h>
#include <millrace/millrace.h>
#include <millrace/tune.h>

#include "core/memory.h"

#define AS_GOOD 1.01 /* times the best: within what measurements tell apart */

const char *mr_keep_name(mr_keep_kind kind) {
    static const char *const names[MR_N_KEEP_KINDS] = {"nothing",    "cache",     "cache lz4",
                                                       "cache zstd", "in memory", "pack tar",
                                                       "pack npy",   "pack zstd", "pack lz4"};
    return (int)kind >= 0 && kind < MR_N_KEEP_KINDS ? names[kind] : "?";
}

/* ---- Times ---- */
static double epoch_seconds(const mr_tune_goal *goal, double rate) {
    bool waits = goal->consumer > 0 && goal->consumer < rate;
    return (double)goal->samples / (waits ? goal->consumer : rate);
}

static double first_seconds(const mr_strategy *s, const mr_tune_goal *goal) {
    double rate = s->first_rate > 0 ? s->first_rate : s->rate;
    return s->offline_seconds + epoch_seconds(goal, rate);
}

static double later_seconds(const mr_strategy *s, const mr_tune_goal *goal) {
    return epoch_seconds(goal, s->rate);
}

static double total_seconds(const mr_strategy *s, const mr_tune_goal *goal) {
    return first_seconds(s, goal) + (double)(goal->epochs - 1) * later_seconds(s, goal);
}

static double least_seconds(const mr_tune_goal *goal, double make_rate) {
    double epochs = goal->consumer > 0 ? (double)goal->samples / goal->consumer : 0;
    double making = (double)goal->samples / make_rate;
    /* The first epoch may be the one that makes. */
    return (making > epochs ? making : epochs) + (double)(goal->epochs - 1) * epochs;
}

static int64_t break_even(const mr_strategy *s, const mr_strategy *plain,
                          const mr_tune_goal *goal) {
    double behind = first_seconds(s, goal) - first_seconds(plain, goal);
    double gain = later_seconds(plain, goal) - later_seconds(s, goal);
    if (behind <= 0) {
        return 1;
    }
    double epochs = gain > 0 ? ceil(behind / gain) : INFINITY;
    return epochs < 1e15 ? 1 + (int64_t)epochs : -1;
}

/* ---- PRESTO's score ---- */
static double preparing(const mr_strategy *s, const mr_tune_goal *goal) {
    double extra = first_seconds(s, goal) - later_seconds(s, goal);
    return extra > 0 ? extra : 0;
}

static double kept(const mr_strategy *s) {
    return s->disk_bytes + s->memory_bytes;
}

typedef struct range {
    double low, high;
} range;

static void widen(range *r, double value) {
    r->low = value < r->low ? value : r->low;
    r->high = value > r->high ? value : r->high;
}

/* 1 is the best; where all are alike each is. */
static double share(const range *r, double value, bool more_is_better) {
    double place = r->high > r->low ? (value - r->low) / (r->high - r->low) : 1;
    return more_is_better || !(r->high > r->low) ? place : 1 - place;
}

static void score_all(mr_strategy *list, int32_t n, const mr_tune_goal *goal) {
    range p = {INFINITY, -INFINITY}, s = p, t = p;
    for (int32_t i = 0; i < n; i++) {
        if (list[i].measured) {
            widen(&p, preparing(&list[i], goal));
            widen(&s, kept(&list[i]));
            widen(&t, list[i].rate);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        mr_strategy *own = &list[i];
        own->score = !own->measured ? 0
                                    : goal->w_prepare * share(&p, preparing(own, goal), false) +
                                          goal->w_store * share(&s, kept(own), false) +
                                          goal->w_throughput * share(&t, own->rate, true);
    }
}

/* ---- The choice ---- */
static bool is_possible(const mr_strategy *s) {
    return s->measured && !s->over_cap;
}

static const mr_strategy *best_plain(const mr_strategy *list, int32_t n) {
    const mr_strategy *best = NULL;
    for (int32_t i = 0; i < n; i++) {
        bool plain = list[i].measured && list[i].keep == MR_KEEP_NOTHING;
        best = plain && (!best || list[i].total_seconds < best->total_seconds) ? &list[i] : best;
    }
    return best;
}

static void fill_figures(mr_strategy *list, int32_t n, const mr_tune_goal *goal) {
    for (int32_t i = 0; i < n; i++) {
        mr_strategy *s = &list[i];
        s->measured = s->measured && s->rate > 0;
        s->total_seconds = s->measured ? total_seconds(s, goal) : 0;
        s->over_cap = (goal->disk_cap > 0 && s->disk_bytes > goal->disk_cap) ||
                      (goal->memory_cap > 0 && s->memory_bytes > goal->memory_cap);
    }
    const mr_strategy *plain = best_plain(list, n);
    for (int32_t i = 0; i < n; i++) {
        list[i].break_even = plain && list[i].measured ? break_even(&list[i], plain, goal) : -1;
    }
}

static int32_t least_total(const mr_strategy *list, int32_t n) {
    int32_t best = -1, chosen = -1;
    for (int32_t i = 0; i < n; i++) {
        bool better = best < 0 || list[i].total_seconds < list[best].total_seconds;
        best = is_possible(&list[i]) && better ? i : best;
    }
    for (int32_t i = 0; best >= 0 && i < n; i++) {
        bool as_good =
            is_possible(&list[i]) && list[i].total_seconds <= AS_GOOD * list[best].total_seconds;
        bool smaller = chosen < 0 || kept(&list[i]) < kept(&list[chosen]) ||
                       (kept(&list[i]) <= kept(&list[chosen]) &&
                        list[i].total_seconds < list[chosen].total_seconds);
        chosen = as_good && smaller ? i : chosen;
    }
    return chosen;
}

static int32_t highest_score(const mr_strategy *list, int32_t n) {
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        best = is_possible(&list[i]) && (best < 0 || list[i].score > list[best].score) ? i : best;
    }
    return best;
}

static int32_t choose(mr_strategy *list, int32_t n, const mr_tune_goal *goal) {
    bool weights = goal->w_prepare > 0 || goal->w_store > 0 || goal->w_throughput > 0;
    fill_figures(list, n, goal);
    score_all(list, n, goal);
    return weights ? highest_score(list, n) : least_total(list, n);
}

/* ---- Structs of the caller's size ---- */
int32_t mr_tune_choose(mr_strategy *list, int32_t n, const mr_tune_goal *goal) {
    mr_tune_goal own_goal;
    size_t step = n > 0 ? list[0].size : 0;
    mr_strategy *own = step > 0 ? mr_zalloc((size_t)n, sizeof *own) : NULL;
    if (!own) {
        return -1;
    }
    mr_take_sized(&own_goal, sizeof own_goal, goal);
    for (int32_t i = 0; i < n; i++) {
        mr_take_sized(&own[i], sizeof *own, (const char *)list + (size_t)i * step);
    }
    int32_t chosen = choose(own, n, &own_goal);
    for (int32_t i = 0; i < n; i++) {
        mr_give_sized((char *)list + (size_t)i * step, &own[i], sizeof *own);
    }
    mr_free(own);
    return chosen;
}

double mr_tune_least_seconds(const mr_tune_goal *goal, double make_rate) {
    mr_tune_goal own;
    mr_take_sized(&own, sizeof own, goal);
    return least_seconds(&own, make_rate);
}
