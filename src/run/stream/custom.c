/* SPDX-License-Identifier: Apache-2.0 */
/* custom.c - see custom.h. */
#include "run/stream/custom.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"

/* Labels and numbers by place, as the policy sees them. */
mr_status mr_custom_open(mr_custom *c, const mr_policy *policy, const mr_rehearsal *buffer,
                         int64_t size, mr_error *err) {
    if (policy) {
        memcpy(&c->policy, policy,
               policy->size < sizeof c->policy ? policy->size : sizeof c->policy);
    }
    c->size = size;
    c->n = mr_rehearsal_count(buffer);
    c->samples = mr_zalloc((size_t)size, sizeof *c->samples);
    c->labels = mr_zalloc((size_t)size, sizeof *c->labels);
    if (!c->samples || !c->labels) {
        return mr_fail_memory(err, (size_t)size * sizeof *c->samples);
    }
    for (int64_t i = 0; i < c->n; i++) {
        mr_representative there = mr_rehearsal_at(buffer, i);
        c->samples[i] = (int64_t)there.id;
        c->labels[i] = there.label;
    }
    return MR_OK;
}

void mr_custom_free(mr_custom *c) {
    mr_free(c->samples);
    mr_free(c->labels);
    *c = (mr_custom){.n = 0};
}

static mr_policy_view view_of(const mr_custom *c, int64_t step) {
    return (mr_policy_view){
        .step = step, .size = c->size, .n = c->n, .samples = c->samples, .labels = c->labels};
}

/* ---- Carrying out ---- */
static void note_place(mr_custom *c, int64_t place, const mr_offer *offer) {
    if (place >= 0 && place <= c->n && place < c->size) {
        c->samples[place] = (int64_t)offer->id;
        c->labels[place] = offer->label;
        c->n += place == c->n;
    }
}

/* What the buffer refuses, a place that there is none of, ends the run. */
static mr_status carry_out(mr_custom *c, mr_rehearsal *buffer, const mr_choices *choices,
                           mr_error *err) {
    const mr_offer *offers;
    int64_t n = mr_rehearsal_due(buffer, choices->step, &offers);
    for (int64_t i = 0; i < n && i < choices->n_places; i++) {
        note_place(c, choices->places[i], &offers[i]);
    }
    mr_rehearsal_choose(buffer, choices->places, choices->n_places);
    return mr_rehearsal_advance(buffer, choices->step, err);
}

mr_status mr_custom_follow(mr_custom *c, mr_rehearsal *buffer, const mr_choices *choices,
                           mr_error *err) {
    MR_TRY(carry_out(c, buffer, choices, err));
    for (int64_t i = 0; i < choices->n_draws; i++) {
        if (choices->draws[i] < 0 || choices->draws[i] >= c->n) {
            mr_fail(err, MR_E_PARAM,
                    "the policy wants to show place %lld of a buffer with %lld samples",
                    (long long)choices->draws[i], (long long)c->n);
            mr_hint(err, "places are 0 to %lld", (long long)c->n - 1);
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

/* ---- Asking ---- */
typedef struct offered {
    int64_t *samples, *labels;
    uint64_t *keys;
} offered;

static mr_status ask_places(const mr_custom *c, const mr_rehearsal *buffer, const mr_offer *offers,
                            const offered *memory, mr_choices *choices, mr_error *err) {
    const mr_policy_view view = view_of(c, choices->step);
    for (int64_t i = 0; i < choices->n_places; i++) {
        memory->samples[i] = (int64_t)offers[i].id;
        memory->labels[i] = offers[i].label;
        memory->keys[i] = mr_rehearsal_key(buffer, offers[i].id);
        choices->places[i] = -1;
    }
    return c->policy.place(c->policy.user, &view, memory->samples, memory->labels, memory->keys,
                           choices->n_places, choices->places, err);
}

static mr_status ask_draws(const mr_custom *c, const mr_rehearsal *buffer, uint64_t *keys,
                           mr_choices *choices, mr_error *err) {
    const mr_policy_view view = view_of(c, choices->step);
    for (int64_t i = 0; i < choices->n_draws; i++) {
        keys[i] = mr_rehearsal_draw_key(buffer, choices->step, (uint32_t)i);
        choices->weights[i] = 1;
    }
    return c->policy.draw(c->policy.user, &view, keys, choices->n_draws, choices->draws,
                          choices->weights, err);
}

static mr_status ask(mr_custom *c, mr_rehearsal *buffer, const mr_offer *offers,
                     const offered *memory, mr_choices *choices, mr_error *err) {
    int64_t draws = choices->n_draws;
    if (choices->n_places > 0) {
        MR_TRY(ask_places(c, buffer, offers, memory, choices, err));
    }
    choices->n_draws = 0;
    MR_TRY(carry_out(c, buffer, choices, err));
    choices->n_draws = c->n > 0 ? draws : 0;
    if (choices->n_draws > 0) {
        MR_TRY(ask_draws(c, buffer, memory->keys, choices, err));
    }
    const mr_choices drawn = {
        .step = choices->step, .n_draws = choices->n_draws, .draws = choices->draws};
    return mr_custom_follow(c, buffer, &drawn, err); /* nothing is offered: only looks at draws */
}

mr_status mr_custom_ask(mr_custom *c, mr_rehearsal *buffer, int64_t step, int64_t draws,
                        mr_choices **out, mr_error *err) {
    const mr_offer *offers;
    *out = NULL;
    if (!c->policy.place || !c->policy.draw) {
        mr_fail(err, MR_E_PARAM, "the policy \"custom\" is the host's, and there is none");
        mr_hint(err, "give it: policy=... of loader()");
        return MR_E_PARAM;
    }
    int64_t due = mr_rehearsal_due(buffer, step, &offers);
    size_t room = (size_t)(due > draws ? due : draws) + 1;
    MR_TRY(mr_choices_new(out, due, draws, err));
    (*out)->step = step;
    uint64_t *words = mr_zalloc(3 * room, sizeof *words);
    if (!words) {
        return mr_fail_memory(err, 3 * room * sizeof *words);
    }
    const offered memory = {(int64_t *)words, (int64_t *)words + room, words + 2 * room};
    mr_status status = ask(c, buffer, offers, &memory, *out, err);
    mr_free(words);
    return status;
}
