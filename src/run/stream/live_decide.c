/* SPDX-License-Identifier: Apache-2.0 */
/* live_decide.c - how much of the stream the next step takes: what the journal says, or what the
 * clock does; see decisions.h and plan/rate.h. */
#include "core/error.h"
#include "run/stream/live_parts.h"
#include "span/ticks.h"

typedef struct choosing {
    const mr_live *live;
    uint32_t keep;
    int64_t wanted, chosen;
} choosing;

/* Entries without a key have their number for one. */
bool mr_live_is_chosen(const mr_live *live, uint32_t keep, int64_t sample, const mr_held *held) {
    const mr_rate *rate = mr_decisions_rate(live->decisions);
    const mr_entry *entry = &held->entry;
    return entry->key_size > 0 ? mr_rate_chooses(rate, keep, entry->key, entry->key_size)
                               : mr_rate_chooses(rate, keep, &sample, sizeof sample);
}

static bool choose(void *user, int64_t sample, const mr_held *held) {
    choosing *c = user;
    c->chosen += mr_live_is_chosen(c->live, c->keep, sample, held);
    return c->chosen < c->wanted;
}

/* Of the samples [first, end), those that are chosen, as far as they are wanted; *passed: how many
 * it takes to find them. */
int64_t mr_live_count_chosen(const mr_live *live, uint32_t keep, int64_t first, int64_t end,
                             int64_t wanted, int64_t *passed) {
    choosing c = {.live = live, .keep = keep, .wanted = wanted};
    int64_t there = end > first ? end - first : 0;
    if (keep >= MR_KEEP_ALL || wanted == 0) {
        *passed = there < wanted ? there : wanted;
        return *passed;
    }
    *passed = mr_feed_look(live->feed, first, first + there, choose, &c);
    return c.chosen;
}

static bool has_enough(const mr_live *live, const mr_rate_decision *d, int64_t reach) {
    int64_t passed;
    return mr_live_count_chosen(live, d->keep, live->position + d->drop, reach, d->take, &passed) >=
           d->take;
}

/* The stream ends within the step: what is left, and nothing old. */
static mr_status decide_last(const mr_live *live, mr_rate_decision *out, mr_error *err) {
    const mr_rate *rate = mr_decisions_rate(live->decisions);
    int64_t passed, left = live->end - live->position;
    int64_t chosen =
        mr_live_count_chosen(live, rate->noted_keep, live->position, live->end, left, &passed);
    *out = (mr_rate_decision){.step = rate->step, .take = chosen, .keep = rate->noted_keep};
    if (chosen == 0 || live->config.remainder == MR_DROP) {
        return MR_END;
    }
    return mr_decisions_last(live->decisions, out, err);
}

static mr_status decide_now(mr_live *live, int64_t reach, mr_rate_decision *out, mr_error *err) {
    const mr_rate *rate = mr_decisions_rate(live->decisions);
    const uint32_t keep = rate->keep;
    bool thins = keep < MR_KEEP_ALL;
    const int64_t take = mr_rate_usual(rate).take;
    int64_t passed, drops = rate->options.early == MR_EARLY_DROP_OLDEST ? INT64_MAX : take;
    mr_rate_view view = {
        .now = mr_monotonic_ns(),
        .waiting = reach - live->position,
        .can_replay = live->is_awaited && live->planned && mr_rehearsal_count(live->planned) > 0,
    };
    view.chosen = mr_live_count_chosen(live, rate->keep, live->position, reach, drops, &passed);
    mr_status status = mr_decisions_next(live->decisions, &view, out, &live->until, err);
    live->before = thins ? reach : live->position + take - 1;
    live->before = live->before < live->end ? live->before : live->end - 1; /* the last is short */
    if (status == MR_LATER && rate->keep > keep) {
        live->until = view.now; /* more is chosen now: ask again */
    }
    return status;
}

enum { LOOK_AGAIN = 1000000 }; /* nanoseconds */

/* A replay asks no policy, and ranks that follow neither policy nor clock: what the journal does
 * not have is not shown. */
static bool is_beyond_journal(const mr_live *live, bool is_known) {
    bool follows = mr_decisions_follows(live->decisions);
    int64_t step = mr_decisions_rate(live->decisions)->step;
    bool lacks_choices = mr_live_is_custom(live) && !mr_decisions_has_chosen(live->decisions, step);
    return (follows && !is_known) || ((follows || live->config.replay) && lacks_choices);
}

static mr_status wait_for_journal(mr_live *live) {
    live->before = INT64_MAX - 1;
    live->until = live->config.replay ? INT64_MAX : mr_monotonic_ns() + LOOK_AGAIN;
    return MR_LATER;
}

static mr_status decide_known(mr_live *live, int64_t reach, mr_rate_decision *out, mr_error *err) {
    if (has_enough(live, out, reach)) {
        return mr_decisions_next(live->decisions, NULL, out, &live->until, err);
    }
    return reach == live->end ? decide_last(live, out, err) : MR_LATER;
}

static mr_status decide_new(mr_live *live, int64_t reach, mr_rate_decision *out, mr_error *err) {
    if (reach == live->end) { /* nothing more comes that thinning could wait for */
        mr_decisions_keep(live->decisions);
    }
    const mr_rate_decision usual = mr_rate_usual(mr_decisions_rate(live->decisions));
    if (reach < live->end || has_enough(live, &usual, reach)) {
        return decide_now(live, reach, out, err);
    }
    mr_status status = decide_last(live, out, err);
    if (status == MR_END) {
        MR_TRY(mr_decisions_end(live->decisions, err));
    }
    return status;
}

/* MR_LATER, MR_END: as mr_live_plan. */
mr_status mr_live_decide(mr_live *live, mr_rate_decision *out, mr_error *err) {
    int64_t reach = mr_feed_reach(live->feed);
    live->until = INT64_MAX;
    live->before = reach;
    if (live->position == live->end) {
        return MR_END;
    }
    if (live->planned) {
        mr_decisions_count(live->decisions, mr_rehearsal_offered(live->planned),
                           mr_rehearsal_drawn(live->planned), mr_rehearsal_count(live->planned));
    }
    if (mr_decisions_follows(live->decisions)) {
        MR_TRY(mr_decisions_look(live->decisions, err));
    }
    bool is_known = mr_decisions_known(live->decisions, out);
    if (is_known && out->take == 0 && out->replay == 0) {
        return MR_END;
    }
    if (is_beyond_journal(live, is_known)) {
        return wait_for_journal(live);
    }
    return is_known ? decide_known(live, reach, out, err) : decide_new(live, reach, out, err);
}
