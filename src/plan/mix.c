/* SPDX-License-Identifier: Apache-2.0 */
/* mix.c - quotas, and the tables of rounds.
 *
 * Changing anything here changes every run of a mix: tests/unit/test_mix.c pins values. */
#include "plan/mix_round.h"

#include <math.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/order.h"

#include <millrace/millrace.h>

/* ---- Checks ---- */

static mr_status check_config(const mr_mix_config *c, mr_error *err) {
    if (c->n_children < 1 || c->n_children > MR_MAX_CHILDREN) {
        return mr_fail(err, MR_E_PARAM, "a mix of %d: from 1 to %d are possible",
                       (int)c->n_children, MR_MAX_CHILDREN);
    }
    if (c->round < 1 || c->round > MR_MAX_ROUND) {
        return mr_fail(err, MR_E_PARAM, "a round of %lld groups: from 1 to %d are possible",
                       (long long)c->round, MR_MAX_ROUND);
    }
    if (c->lanes < 1 || c->lanes > MR_MAX_LANES) {
        return mr_fail(err, MR_E_PARAM, "the number of lanes is %d, but must be from 1 to %d",
                       (int)c->lanes, MR_MAX_LANES);
    }
    if (c->length < 0 || c->length > MR_MAX_SAMPLES) {
        return mr_fail(err, MR_E_PARAM, "an epoch of %lld positions is not possible",
                       (long long)c->length);
    }
    for (int32_t i = 0; i < c->n_children; i++) {
        if (!(c->weights[i] > 0) || !isfinite(c->weights[i])) {
            return mr_fail(err, MR_E_PARAM, "weight %d of the mix is %g, not above 0", (int)i,
                           c->weights[i]);
        }
    }
    return MR_OK;
}

/* ---- Quotas: largest remainder ---- */

static double exact_quota(const mr_mix_config *c, int32_t child) {
    double sum = 0;
    for (int32_t i = 0; i < c->n_children; i++) {
        sum += c->weights[i];
    }
    return c->weights[child] / sum * (double)c->round;
}

/* The child that lacks most of its exact quota; the first of them. */
static int32_t most_lacking(const mr_mix *mix, const mr_mix_config *c) {
    int32_t best = 0;
    double most = -INFINITY;
    for (int32_t i = 0; i < mix->n_children; i++) {
        double lacks = exact_quota(c, i) - (double)mix->children[i].quota;
        if (lacks > most) {
            most = lacks;
            best = i;
        }
    }
    return best;
}

static mr_status share_quotas(mr_mix *mix, const mr_mix_config *c, mr_error *err) {
    int64_t left = mix->round, first = 0;
    for (int32_t i = 0; i < mix->n_children; i++) {
        int64_t whole = (int64_t)exact_quota(c, i);
        mix->children[i].quota = whole < left ? whole : left;
        left -= mix->children[i].quota;
    }
    for (; left > 0; left--) {
        mix->children[most_lacking(mix, c)].quota++;
    }
    for (int32_t i = 0; i < mix->n_children; i++) {
        mix->children[i].first = first;
        first += mix->children[i].quota;
        if (mix->children[i].quota == 0) {
            mr_status status =
                mr_fail(err, MR_E_PARAM, "weight %d of the mix is too small for a round of %lld",
                        (int)i, (long long)mix->round);
            mr_hint(err, "raise the weight, or make rounds longer");
            return status;
        }
    }
    return MR_OK;
}

/* ---- Mixes ---- */

static void add_child(mr_mix *mix, int32_t i, const mr_course *course) {
    mr_mix_child *child = &mix->children[i];
    int64_t length = mr_course_length(course);
    child->course = course;
    child->aligned = mr_course_max_visits(course) > 0 && mr_course_lanes(course) == mix->lanes &&
                     length >= mix->lanes;
    child->epoch = child->aligned ? length - length % mix->lanes : length;
}

static mr_status set_length(mr_mix *mix, int64_t length, mr_error *err) {
    for (int32_t i = 0; length < MR_MAX_SAMPLES && i < mix->n_children; i++) {
        mix->length += mix->children[i].epoch;
    }
    mix->length = length > 0 ? length : mix->length;
    mix->length += (mix->lanes - mix->length % mix->lanes) % mix->lanes;
    if (mix->length > MR_MAX_SAMPLES) {
        return mr_fail(err, MR_E_LIMIT, "an epoch of the mix would have %lld positions",
                       (long long)mix->length);
    }
    return MR_OK;
}

mr_status mr_mix_open(mr_mix **out, const mr_mix_config *config, mr_error *err) {
    MR_TRY(check_config(config, err));
    mr_mix *mix = mr_zalloc(1, sizeof *mix);
    size_t n = (size_t)config->n_children;
    mr_mix_child *children = mr_zalloc(n, sizeof *children);
    if (!mix || !children) {
        mr_free(mix);
        mr_free(children);
        return mr_fail_memory(err, sizeof *mix + n * sizeof *children);
    }
    *mix = (mr_mix){.children = children,
                    .n_children = config->n_children,
                    .round = config->round,
                    .lanes = config->lanes,
                    .seed = config->seed};
    for (int32_t i = 0; i < mix->n_children; i++) {
        add_child(mix, i, config->courses[i]);
    }
    mr_status status = share_quotas(mix, config, err);
    status = status < 0 ? status : set_length(mix, config->length, err);
    if (status < 0) {
        mr_mix_free(mix);
        return status;
    }
    *out = mix;
    return MR_OK;
}

void mr_mix_free(mr_mix *mix) {
    if (mix) {
        mr_free(mix->children);
        mr_free(mix);
    }
}

int64_t mr_mix_length(const mr_mix *mix) {
    return mix->length;
}

int64_t mr_mix_quota(const mr_mix *mix, int32_t child) {
    return mix->children[child].quota;
}

/* ---- Rounds ---- */

mr_status mr_mix_round_init(mr_mix_round *round, const mr_mix *mix, mr_error *err) {
    size_t n = (size_t)mix->round;
    *round = (mr_mix_round){.number = -1};
    round->child = mr_zalloc(n, sizeof *round->child);
    round->rank = mr_zalloc(n, sizeof *round->rank);
    round->group = mr_zalloc(n, sizeof *round->group);
    if (!round->child || !round->rank || !round->group) {
        mr_mix_round_free(round);
        return mr_fail_memory(err, n * 20);
    }
    return MR_OK;
}

void mr_mix_round_free(mr_mix_round *round) {
    mr_free(round->child);
    mr_free(round->rank);
    mr_free(round->group);
    *round = (mr_mix_round){.number = -1};
}

/* Shuffled numbers below the round's length stand for children: quota by quota. */
static int32_t child_of_number(const mr_mix *mix, int64_t number) {
    int32_t low = 0, high = mix->n_children;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (mix->children[middle].first <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Groups are ranked through how many of each child are in `group` so far, counted in the last
 * place of the child's run, which is filled last. */
static void lay_round(mr_mix_round *round, const mr_mix *mix, const mr_order *order) {
    for (int32_t c = 0; c < mix->n_children; c++) {
        round->group[mix->children[c].first + mix->children[c].quota - 1] = 0;
    }
    for (int64_t g = 0; g < mix->round; g++) {
        int32_t c = child_of_number(mix, mr_order_at(order, g));
        const mr_mix_child *child = &mix->children[c];
        int64_t last = child->first + child->quota - 1, rank = round->group[last];
        round->child[g] = c;
        round->rank[g] = rank;
        round->group[last] = rank + 1;
        round->group[child->first + rank] = g;
    }
}

mr_status mr_mix_round_enter(mr_mix_round *round, const mr_mix *mix, int64_t number,
                             mr_error *err) {
    mr_order order = {0};
    if (round->number == number) {
        return MR_OK;
    }
    MR_TRY(mr_order_init_keyed(&order, mix->round, mix->seed, 0, mr_op_word("mix", 0),
                               (uint64_t)number & (((uint64_t)1 << 47) - 1), err));
    lay_round(round, mix, &order);
    round->number = number;
    mr_order_free(&order);
    return MR_OK;
}

int64_t mr_mix_round_before(const mr_mix_round *round, const mr_mix *mix, int32_t child,
                            int64_t group) {
    const int64_t *groups = round->group + mix->children[child].first;
    int64_t low = 0, high = mix->children[child].quota;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (groups[middle] < group) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
