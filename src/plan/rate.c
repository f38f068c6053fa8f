/* SPDX-License-Identifier: Apache-2.0 */
/* rate.c - see rate.h. */
#include "plan/rate.h"

#include <endian.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"

mr_status mr_rate_start(mr_rate *rate, const mr_rate_options *o, mr_error *err) {
    if (o->batch < 1 || o->replay < 0 || o->patience < 0 || o->most_waiting < o->batch ||
        o->batch > INT32_MAX || o->replay > INT32_MAX) {
        return mr_fail(err, MR_E_PARAM,
                       "a step takes 1 sample or more, and at least as many may be waiting");
    }
    if (o->least_kept < 1 || o->least_kept > MR_KEEP_ALL) {
        return mr_fail(err, MR_E_PARAM, "the least share that is kept is above 0 and at most 1");
    }
    *rate = (mr_rate){.options = *o, .keep = MR_KEEP_ALL, .noted_keep = MR_KEEP_ALL};
    return MR_OK;
}

/* ---- Samples per insert ---- */
mr_status mr_rate_limit_start(mr_rate_limit *limit, double samples_per_insert, int64_t least_size,
                              double slack, mr_error *err) {
    double narrowest = samples_per_insert > 1 ? samples_per_insert : 1;
    if (!(samples_per_insert > 0) || least_size < 1 || !(slack >= narrowest)) {
        mr_fail(err, MR_E_PARAM, "samples per insert are above 0, the least size is 1 or more");
        mr_hint(err, "the slack must be at least %g, or neither side could go on", narrowest);
        return MR_E_PARAM;
    }
    double middle = samples_per_insert * (double)least_size;
    *limit = (mr_rate_limit){.samples_per_insert = samples_per_insert,
                             .least = middle - slack,
                             .most = middle + slack,
                             .least_size = least_size};
    return MR_OK;
}

static int64_t whole_below(double number, int64_t most) {
    return number <= 0 ? 0 : number >= (double)most ? most : (int64_t)number;
}

int64_t mr_rate_may_sample(const mr_rate_limit *limit, int64_t most) {
    double surplus = (double)limit->inserts * limit->samples_per_insert - (double)limit->samples;
    if (limit->samples_per_insert == 0) {
        return most;
    }
    return limit->size < limit->least_size ? 0 : whole_below(surplus - limit->least, most);
}

int64_t mr_rate_may_insert(const mr_rate_limit *limit, int64_t most) {
    double room = (limit->most + (double)limit->samples) / limit->samples_per_insert;
    if (limit->samples_per_insert == 0) {
        return most;
    }
    int64_t first = limit->least_size - limit->inserts; /* so many come in whatever was sampled */
    int64_t n = whole_below(room - (double)limit->inserts, most);
    return n > first ? n : first < most ? first : most;
}

/* ---- Deciding ---- */
/* The share for the next step: down by a quarter where too much waits, up by a third where less
 * than half of that does. Whole numbers, so that it is the same everywhere. */
static uint32_t next_share(const mr_rate *rate, uint32_t keep, int64_t waiting) {
    const mr_rate_options *o = &rate->options;
    if (o->early != MR_EARLY_THIN) {
        return keep;
    }
    if (waiting > o->most_waiting) {
        keep -= keep / 4;
        return keep < o->least_kept ? o->least_kept : keep;
    }
    if (waiting < o->most_waiting / 2) {
        keep += keep / 3 + 1;
        return keep > MR_KEEP_ALL ? MR_KEEP_ALL : keep;
    }
    return keep;
}

/* Steps without anything are none: where neither side may go on, because what was inserted is not
 * to be seen yet, new samples come. */
mr_rate_decision mr_rate_usual(const mr_rate *rate) {
    const mr_rate_options *o = &rate->options;
    int64_t take = mr_rate_may_insert(&rate->limit, o->batch);
    int64_t replay = mr_rate_may_sample(&rate->limit, o->batch + o->replay - take);
    if (take == 0 && replay == 0) {
        take = o->batch;
    }
    return (mr_rate_decision){
        .step = rate->step, .take = take, .replay = replay, .keep = rate->keep};
}

static bool is_usual(const mr_rate *rate, const mr_rate_decision *decision) {
    mr_rate_decision expected = mr_rate_usual(rate);
    return decision->take == expected.take && decision->replay == expected.replay &&
           decision->drop == 0 && decision->keep == expected.keep;
}

static int64_t too_many(const mr_rate *rate, int64_t waiting) {
    bool drops = rate->options.early == MR_EARLY_DROP_OLDEST;
    return drops && waiting > rate->options.most_waiting ? waiting - rate->options.most_waiting : 0;
}

static void settle(mr_rate *rate, const mr_rate_decision *decision) {
    rate->keep = decision->keep;
    rate->step++;
    rate->asked = false;
}

static int64_t later(int64_t since, int64_t patience) {
    return since > INT64_MAX - patience ? INT64_MAX : since + patience;
}

/* Fewer new samples and more old ones, once it has taken too long. */
static bool fill_up(const mr_rate *rate, const mr_rate_view *view, mr_rate_decision *decision,
                    int64_t *until) {
    const mr_rate_options *o = &rate->options;
    if (o->late != MR_LATE_FILL || !view->can_replay) {
        return false;
    }
    *until = later(rate->since, o->patience);
    int64_t wanted = o->batch + o->replay - view->chosen;
    if (mr_rate_may_sample(&rate->limit, wanted) < wanted) {
        *until = INT64_MAX; /* there are too few new ones for so many old ones */
        return false;
    }
    decision->take = view->chosen;
    decision->replay = wanted;
    return (uint64_t)view->now - (uint64_t)rate->since >= (uint64_t)o->patience;
}

mr_status mr_rate_decide(mr_rate *rate, const mr_rate_view *view, mr_rate_decision *out,
                         bool *noted, int64_t *until) {
    mr_rate_decision decision = mr_rate_usual(rate);
    *until = INT64_MAX;
    if (!rate->asked || view->now < rate->since) {
        rate->asked = true;
        rate->since = view->now;
    }
    decision.drop = too_many(rate, view->waiting);
    if (view->chosen - decision.drop < decision.take && !fill_up(rate, view, &decision, until)) {
        uint32_t keep = next_share(rate, rate->keep, view->waiting);
        rate->keep = keep > rate->keep ? keep : rate->keep; /* or it would wait for ever */
        return MR_LATER;
    }
    *noted = !is_usual(rate, &decision) || rate->keep != rate->noted_keep;
    *out = decision;
    settle(rate, &decision);
    rate->noted_keep = decision.keep;
    rate->keep = next_share(rate, decision.keep, view->waiting);
    return MR_OK;
}

/* ---- Again ---- */
mr_status mr_rate_replay(mr_rate *rate, const mr_rate_decision *entry, mr_rate_decision *out,
                         bool *used, mr_error *err) {
    *used = entry && entry->step == rate->step;
    if (entry && entry->step < rate->step) {
        return mr_fail(err, MR_E_CORRUPT, "the journal has step %lld after step %lld",
                       (long long)entry->step, (long long)rate->step - 1);
    }
    *out = *used ? *entry : mr_rate_usual(rate);
    settle(rate, out);
    rate->noted_keep = out->keep;
    return MR_OK;
}

/* ---- Choosing ---- */
bool mr_rate_chooses(const mr_rate *rate, uint32_t keep, const void *key, size_t size) {
    return keep >= MR_KEEP_ALL || mr_hash64(key, size, rate->options.seed) >> 48 < keep;
}

bool mr_rate_is_by_the_clock(const mr_rate_options *o) {
    return o->late != MR_LATE_WAIT || o->early == MR_EARLY_THIN || o->early == MR_EARLY_DROP_OLDEST;
}

/* ---- As bytes ---- */
void mr_rate_entry_save(const mr_rate_decision *d, unsigned char out[MR_RATE_ENTRY_BYTES]) {
    const uint64_t words[5] = {htole64((uint64_t)d->step), htole64((uint64_t)d->take),
                               htole64((uint64_t)d->replay), htole64((uint64_t)d->drop),
                               htole64(d->keep)};
    memcpy(out, words, sizeof words);
}

mr_status mr_rate_entry_load(mr_rate_decision *d, const void *bytes, size_t size, mr_error *err) {
    uint64_t words[5];
    if (size != sizeof words) {
        return mr_fail(err, MR_E_CORRUPT, "an entry of %zu bytes is no decision", size);
    }
    memcpy(words, bytes, sizeof words);
    for (int i = 0; i < 5; i++) {
        words[i] = le64toh(words[i]);
        if (words[i] > (i == 4 ? MR_KEEP_ALL : (uint64_t)INT64_MAX)) {
            return mr_fail(err, MR_E_CORRUPT, "a decision with impossible numbers");
        }
    }
    *d = (mr_rate_decision){(int64_t)words[0], (int64_t)words[1], (int64_t)words[2],
                            (int64_t)words[3], (uint32_t)words[4]};
    return MR_OK;
}
