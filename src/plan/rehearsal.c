/* SPDX-License-Identifier: Apache-2.0 */
/* rehearsal.c - see rehearsal.h: policies and draws. */
#include "plan/rehearsal.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/philox.h"
#include "plan/rehearsal_parts.h"

/* ---- Random numbers ---- */
typedef enum purpose { KEY, CHANCE, VICTIM, DRAW } purpose;

static uint64_t random_of(const mr_rehearsal *b, uint64_t number, uint32_t slot, uint32_t again,
                          purpose why) {
    const uint32_t key[2] = {(uint32_t)b->seed, (uint32_t)(b->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), slot,
                                 (uint32_t)why << 24 | (again & 0xffffff)};
    uint32_t out[4];
    mr_philox(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

/* Below n, each as likely as the others: numbers of the last, incomplete run of n are drawn again.
 */
static uint64_t random_below(const mr_rehearsal *b, uint64_t number, uint32_t slot, purpose why,
                             uint64_t n) {
    uint64_t complete = UINT64_MAX - UINT64_MAX % n;
    for (uint32_t again = 0;; again++) {
        uint64_t drawn = random_of(b, number, slot, again, why);
        if (drawn < complete) {
            return drawn % n;
        }
    }
}

static bool happens(const mr_rehearsal *b, uint64_t id, double chance) {
    double unit = (double)(random_of(b, id, 0, 0, CHANCE) >> 11) * 0x1p-53;
    return unit < chance;
}

/* ---- Policies ---- */
enum { REFUSED = UINT32_MAX };

static uint32_t random_member(const mr_rehearsal *b, uint64_t id, uint32_t which) {
    const group *g = &b->groups[which];
    return g->members[random_below(b, id, 0, VICTIM, g->n)].place;
}

static bool is_full(const mr_rehearsal *b) {
    return (int64_t)b->n == b->options.size;
}

/* The sample that has the least key, the new one included, goes. */
static uint32_t instead_of_least(const mr_rehearsal *b, const kept *sample, uint32_t which) {
    const group *g = &b->groups[which];
    if (g->n == 0) {
        return REFUSED;
    }
    const kept *least = &b->kept[g->members[0].place];
    bool larger = sample->key != least->key ? sample->key > least->key : sample->id > least->id;
    return larger ? g->members[0].place : REFUSED;
}

static uint32_t place_by_key(const mr_rehearsal *b, const kept *sample) {
    return is_full(b) ? instead_of_least(b, sample, sample->group) : b->n;
}

/* The least of the group that is the largest once the sample is in its own; of several the one with
 * the highest label. What stays is the first `size` by (how many of its label have larger keys,
 * label), which does not depend on the order of arrival. */
static uint32_t place_balanced(const mr_rehearsal *b, const kept *sample) {
    if (!is_full(b)) {
        return b->n;
    }
    const group *own = &b->groups[sample->group], *largest = &b->groups[b->ranked[0]];
    bool own_is_largest =
        own->n + 1 > largest->n || (own->n + 1 == largest->n && own->label > largest->label);
    if (own_is_largest) {
        return instead_of_least(b, sample, sample->group);
    }
    return largest->members[0].place;
}

static uint32_t place_cbrs(mr_rehearsal *b, const kept *sample) {
    if (!is_full(b)) {
        return b->n;
    }
    group *own = &b->groups[sample->group], *largest = &b->groups[b->ranked[0]];
    largest->was_largest = true;
    own->was_largest = own->was_largest || own->n == largest->n;
    if (!own->was_largest) {
        return random_member(b, sample->id, b->ranked[0]);
    }
    bool enters = own->n > 0 && happens(b, sample->id, (double)own->n / (double)own->seen);
    return enters ? random_member(b, sample->id, sample->group) : REFUSED;
}

static uint32_t place_gdumb(const mr_rehearsal *b, const kept *sample) {
    int64_t share = b->options.size / b->n_groups;
    if (b->groups[sample->group].n >= (share > 0 ? share : 1)) {
        return REFUSED;
    }
    return is_full(b) ? random_member(b, sample->id, b->ranked[0]) : b->n;
}

static uint32_t place_fixed_rate(const mr_rehearsal *b, const kept *sample) {
    int64_t share = b->options.size / b->options.classes;
    bool fits = b->groups[sample->group].n < share;
    if (fits && !is_full(b)) {
        return b->n;
    }
    bool enters = !fits && happens(b, sample->id, b->options.rate);
    return enters ? random_member(b, sample->id, sample->group) : REFUSED;
}

/* The next of the places that somebody chose. */
static uint32_t place_chosen(mr_rehearsal *b) {
    if (b->n_places == 0) {
        return REFUSED;
    }
    int64_t place = *b->places++;
    b->n_places--;
    return place < 0 ? REFUSED : (uint32_t)place;
}

static uint32_t place_for(mr_rehearsal *b, const kept *sample) {
    switch (b->options.policy) {
    case MR_REHEARSE_CLASS_BALANCED:
        return place_balanced(b, sample);
    case MR_REHEARSE_CBRS:
        return place_cbrs(b, sample);
    case MR_REHEARSE_GDUMB:
        return place_gdumb(b, sample);
    case MR_REHEARSE_FIXED_RATE:
        return place_fixed_rate(b, sample);
    case MR_REHEARSE_CUSTOM:
        return place_chosen(b);
    default:
        return place_by_key(b, sample);
    }
}

/* ---- Inserting ---- */
bool mr_rehearsal_by_label(const mr_rehearsal *b) {
    mr_rehearsal_policy policy = b->options.policy;
    return policy == MR_REHEARSE_CLASS_BALANCED || policy == MR_REHEARSE_CBRS ||
           policy == MR_REHEARSE_GDUMB || policy == MR_REHEARSE_FIXED_RATE;
}

/* 16.16; never 0: everything that is kept can be drawn. */
static uint32_t weight_of(double value) {
    double scaled = value * 65536.0;
    return scaled < 1 ? 1 : (uint32_t)scaled;
}

static uint64_t key_of(const mr_rehearsal *b, const mr_offer *offer) {
    switch (b->options.policy) {
    case MR_REHEARSE_RECENT:
        return (uint64_t)b->seen;
    case MR_REHEARSE_PRIORITY:
        return weight_of(offer->value);
    default:
        return random_of(b, offer->id, 0, 0, KEY);
    }
}

static void change_value(mr_rehearsal *b, uint32_t place, const mr_offer *offer) {
    if (b->options.policy == MR_REHEARSE_PRIORITY) {
        uint32_t weight = weight_of(offer->value);
        mr_rehearsal_revalue(b, place, weight, weight);
    }
}

static void tell_left(const mr_rehearsal *b, uint64_t id) {
    if (b->left) {
        b->left(b->left_user, id);
    }
}

/* Of somebody's choice: a place that there is, or the next one while there is room. */
static mr_status check_place(const mr_rehearsal *b, mr_error *err) {
    int64_t place = b->n_places > 0 ? *b->places : -1;
    if (b->options.policy != MR_REHEARSE_CUSTOM || place < (int64_t)b->n ||
        (place == (int64_t)b->n && !is_full(b))) {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "the policy chose place %lld of a buffer with %lld samples",
            (long long)place, (long long)b->n);
    mr_hint(err, "places are 0 to %lld, or -1 for a sample that is not kept",
            (long long)b->n - is_full(b));
    return MR_E_PARAM;
}

static mr_status insert(mr_rehearsal *b, const mr_offer *offer, mr_error *err) {
    uint32_t there = mr_rehearsal_find(b, offer->id);
    if (there != UINT32_MAX) {
        change_value(b, there, offer);
        return MR_OK;
    }
    MR_TRY(check_place(b, err));
    MR_TRY(mr_rehearsal_reserve(b, err));
    uint32_t which = mr_rehearsal_group(b, mr_rehearsal_by_label(b) ? offer->label : 0);
    group *g = &b->groups[which];
    if (!mr_rehearsal_grow(g, g->n + 1)) {
        return mr_fail_memory(err, (size_t)g->n * sizeof *g->members);
    }
    const kept sample = {.id = offer->id,
                         .key = key_of(b, offer),
                         .label = offer->label,
                         .group = which,
                         .weight = weight_of(offer->value)};
    b->seen++;
    g->seen++;
    uint32_t place = place_for(b, &sample);
    if (place == b->n) {
        mr_rehearsal_put(b, place, &sample);
    } else if (place == REFUSED) {
        tell_left(b, sample.id);
    } else {
        tell_left(b, b->kept[place].id);
        mr_rehearsal_replace(b, place, &sample);
    }
    return MR_OK;
}

/* ---- Offers ---- */
static mr_status check_offer(const mr_rehearsal *b, const mr_offer *offer, mr_error *err) {
    bool in_range = offer->value >= 0 && offer->value <= MR_REHEARSAL_VALUE_MAX;
    if (offer->step < 0 || !in_range) {
        return mr_fail(err, MR_E_PARAM, "steps are not negative, values are 0 to %g",
                       MR_REHEARSAL_VALUE_MAX);
    }
    if (b->step >= 0 && offer->step <= b->step - b->options.lag) {
        mr_fail(err, MR_E_PARAM, "sample %llu of step %lld is offered at step %lld, too late",
                (unsigned long long)offer->id, (long long)offer->step, (long long)b->step);
        mr_hint(err, "offers take effect %lld steps later: a larger lag gives them more time",
                (long long)b->options.lag);
        return MR_E_PARAM;
    }
    return MR_OK;
}

mr_status mr_rehearsal_offer(mr_rehearsal *b, const mr_offer *offer, mr_error *err) {
    MR_TRY(check_offer(b, offer, err));
    if (b->n_pending == b->pending_room) {
        int64_t room = b->pending_room ? 2 * b->pending_room : 256;
        mr_offer *grown = realloc(b->pending, (size_t)room * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)room * sizeof *grown);
        }
        b->pending = grown;
        b->pending_room = room;
    }
    b->pending[b->n_pending++] = *offer;
    return MR_OK;
}

mr_status mr_rehearsal_value(mr_rehearsal *b, uint64_t id, double value, mr_error *err) {
    const mr_offer offer = {.step = b->step < 0 ? 0 : b->step, .id = id, .value = value};
    uint32_t place = mr_rehearsal_find(b, id);
    MR_TRY(check_offer(b, &offer, err));
    if (place != UINT32_MAX) {
        change_value(b, place, &offer);
    }
    for (int64_t i = 0; i < b->n_pending; i++) {
        b->pending[i].value = b->pending[i].id == id ? value : b->pending[i].value;
    }
    return MR_OK;
}

/* By all that an offer has, so that not even two offers of one id depend on who came first. */
static int by_step(const void *x_, const void *y_) {
    const mr_offer *x = x_, *y = y_;
    if (x->step != y->step) {
        return x->step < y->step ? -1 : 1;
    }
    if (x->id != y->id) {
        return x->id < y->id ? -1 : 1;
    }
    if (x->label != y->label) {
        return x->label < y->label ? -1 : 1;
    }
    return x->value < y->value ? -1 : x->value > y->value;
}

static bool is_sorted(const mr_rehearsal *b) {
    for (int64_t i = 1; i < b->n_pending; i++) {
        if (by_step(&b->pending[i - 1], &b->pending[i]) > 0) {
            return false;
        }
    }
    return true;
}

static void sort_pending(mr_rehearsal *b) {
    if (!is_sorted(b)) {
        qsort(b->pending, (size_t)b->n_pending, sizeof *b->pending, by_step);
    }
}

int64_t mr_rehearsal_due(mr_rehearsal *b, int64_t step, const mr_offer **out) {
    int64_t n = 0;
    sort_pending(b);
    while (n < b->n_pending && b->pending[n].step <= step - b->options.lag) {
        n++;
    }
    *out = b->pending;
    return n;
}

void mr_rehearsal_choose(mr_rehearsal *b, const int64_t *places, int64_t n) {
    b->places = places;
    b->n_places = n;
}

mr_status mr_rehearsal_advance(mr_rehearsal *b, int64_t step, mr_error *err) {
    int64_t done = 0;
    mr_status status = MR_OK;
    if (step < b->step) {
        return mr_fail(err, MR_E_PARAM, "the buffer is that of step %lld, which comes after %lld",
                       (long long)b->step, (long long)step);
    }
    sort_pending(b);
    while (status == MR_OK && done < b->n_pending &&
           b->pending[done].step <= step - b->options.lag) {
        status = insert(b, &b->pending[done], err);
        done += status == MR_OK;
    }
    b->n_pending -= done;
    if (done > 0 && b->n_pending > 0) {
        memmove(b->pending, b->pending + done, (size_t)b->n_pending * sizeof *b->pending);
    }
    b->step = status == MR_OK ? step : b->step;
    return status;
}

/* ---- Draws ---- */
static double share_weight(const mr_rehearsal *b, const kept *sample) {
    const group *g = &b->groups[sample->group];
    return (double)g->seen / (double)b->seen * (double)b->n / (double)g->n;
}

bool mr_rehearsal_draw(const mr_rehearsal *b, int64_t step, uint32_t slot, mr_representative *out) {
    if (b->n == 0) {
        return false;
    }
    bool weighted = b->options.policy == MR_REHEARSE_PRIORITY;
    uint64_t total = weighted ? mr_rehearsal_total(b) : b->n;
    uint64_t drawn = random_below(b, (uint64_t)step, slot, DRAW, total);
    uint32_t place = weighted ? mr_rehearsal_place_of(b, drawn) : (uint32_t)drawn;
    const kept *sample = &b->kept[place];
    out->id = sample->id;
    out->label = sample->label;
    out->weight =
        weighted ? (double)total / ((double)b->n * sample->weight) : share_weight(b, sample);
    return true;
}

uint64_t mr_rehearsal_key(const mr_rehearsal *b, uint64_t id) {
    return random_of(b, id, 0, 0, KEY);
}

uint64_t mr_rehearsal_draw_key(const mr_rehearsal *b, int64_t step, uint32_t slot) {
    return random_of(b, (uint64_t)step, slot, 0, DRAW);
}

mr_representative mr_rehearsal_at(const mr_rehearsal *b, int64_t place) {
    const kept *sample = &b->kept[place];
    return (mr_representative){.id = sample->id, .label = sample->label, .weight = 1};
}

void mr_rehearsal_drew(mr_rehearsal *b, int64_t n) {
    b->drawn += n;
}

int64_t mr_rehearsal_drawn(const mr_rehearsal *b) {
    return b->drawn;
}

int64_t mr_rehearsal_offered(const mr_rehearsal *b) {
    return b->seen + b->n_pending;
}

/* ---- What is there ---- */
void mr_rehearsal_watch(mr_rehearsal *b, mr_rehearsal_left *left, void *user) {
    b->left = left;
    b->left_user = user;
}

int64_t mr_rehearsal_count(const mr_rehearsal *b) {
    return b->n;
}

int64_t mr_rehearsal_count_of(const mr_rehearsal *b, int64_t label) {
    int64_t n = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        n += b->kept[i].label == label;
    }
    return n;
}

bool mr_rehearsal_has(const mr_rehearsal *b, uint64_t id) {
    return mr_rehearsal_find(b, id) != UINT32_MAX;
}

bool mr_rehearsal_knows(const mr_rehearsal *b, uint64_t id) {
    bool found = mr_rehearsal_has(b, id);
    for (int64_t i = 0; !found && i < b->n_pending; i++) {
        found = b->pending[i].id == id;
    }
    return found;
}

void mr_rehearsal_ids(const mr_rehearsal *b, uint64_t *out) {
    for (uint32_t i = 0; i < b->n; i++) {
        out[i] = b->kept[i].id;
    }
}

/* ---- Making ---- */
static mr_status check_options(const mr_rehearsal_options *o, mr_error *err) {
    if ((uint32_t)o->policy >= MR_REHEARSE_POLICIES || o->size < 1 || o->size > MR_REHEARSAL_MAX ||
        o->lag < 1 || o->lag > INT32_MAX) {
        return mr_fail(err, MR_E_PARAM, "a rehearsal buffer has 1 to %lld samples and a lag of 1",
                       (long long)MR_REHEARSAL_MAX);
    }
    bool fixed = o->policy == MR_REHEARSE_FIXED_RATE;
    if (fixed && (o->classes < 1 || o->classes > o->size || !(o->rate >= 0 && o->rate <= 1))) {
        return mr_fail(err, MR_E_PARAM,
                       "fixed_rate needs 1 to `size` classes and a rate from 0 to 1");
    }
    return MR_OK;
}

mr_status mr_rehearsal_new(mr_rehearsal **out, const mr_rehearsal_options *options, mr_error *err) {
    *out = NULL;
    MR_TRY(check_options(options, err));
    mr_rehearsal *b = mr_zalloc(1, sizeof *b);
    if (!b) {
        return mr_fail_memory(err, sizeof *b);
    }
    b->options = *options;
    b->seed = mr_hash64("rehearsal", 9, options->seed);
    b->step = -1;
    b->form = mr_rehearsal_narrow(b);
    *out = b;
    return MR_OK;
}

void mr_rehearsal_free(mr_rehearsal *b) {
    if (b) {
        for (uint32_t i = 0; i < b->n_groups; i++) {
            free(b->groups[i].members);
        }
        free(b->kept);
        free(b->index);
        free(b->groups);
        free(b->group_index);
        free(b->ranked);
        free(b->sums);
        free(b->pending);
        mr_rehearsal_free_mirror(b);
        free(b);
    }
}
