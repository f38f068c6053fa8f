/* SPDX-License-Identifier: Apache-2.0 */
/* live_step.c - steps: planned, waited for, delivered or forgotten. */
#include "core/error.h"
#include "core/memory.h"
#include "run/stream/live_parts.h"
#include "span/ticks.h"

/* ---- Planning ---- */
static mr_status make_room(const mr_live *live, mr_live_step *step, mr_error *err) {
    size_t batch = (size_t)live->config.batch;
    if (!step->arrived) {
        step->arrived = mr_zalloc(batch, sizeof(mr_held *));
    }
    if (!step->samples) {
        step->samples = mr_zalloc(batch, sizeof *step->samples);
    }
    if (!step->rows) {
        step->rows = mr_zalloc(batch / (size_t)live->config.world, sizeof *step->rows);
    }
    return step->arrived && step->samples && step->rows
               ? MR_OK
               : mr_fail_memory(err, batch * sizeof *step->rows);
}

static void describe(const mr_live_step *step, mr_portion *portion) {
    *portion = (mr_portion){.step = step->step,
                            .positions = {0, step->n_rows, 1, 1},
                            .valid = step->n_rows,
                            .position = step->end};
}

static mr_status fail_again(const mr_live *live, mr_error *err) {
    if (err) {
        *err = live->failure;
    }
    return live->failed;
}

/* Takes samples up to the last one that is chosen; the others are let go. */
static void take_news(mr_live *live, mr_live_step *step, const mr_rate_decision *d) {
    enum { PART = 256 };
    mr_held *part[PART];
    int64_t first = live->position + d->drop, passed;
    mr_live_count_chosen(live, d->keep, first, mr_feed_reach(live->feed), d->take, &passed);
    step->end = first + passed;
    for (int64_t at = live->position; at < step->end;) {
        int64_t n = step->end - at < PART ? step->end - at : PART;
        mr_feed_take(live->feed, at, n, part);
        for (int64_t i = 0; i < n; i++, at++) {
            bool taken = at >= first &&
                         (d->keep >= MR_KEEP_ALL || mr_live_is_chosen(live, d->keep, at, part[i]));
            if (taken) {
                step->samples[step->count] = at;
                step->arrived[step->count++] = part[i];
            } else {
                mr_held_release(part[i]);
            }
        }
    }
    live->left_out += step->end - live->position - step->count;
    live->position = step->end;
}

/* Entries that were taken are planned or the run is over: what fails in between ends it. */
mr_status mr_live_plan(mr_live *live, mr_live_step *step, mr_portion *portion, mr_error *err) {
    mr_rate_decision decision = {.step = 0};
    if (live->failed < 0) {
        return fail_again(live, err);
    }
    if (step->is_planned) {
        describe(step, portion);
        return MR_OK;
    }
    MR_TRY(make_room(live, step, err));
    mr_status status = mr_live_decide(live, &decision, err);
    if (status != MR_OK) {
        return status;
    }
    live->is_awaited = false;
    live->filled += decision.replay > live->replays;
    step->step = decision.step;
    step->count = step->n_rows = 0;
    step->is_planned = true;
    take_news(live, step, &decision);
    mr_live_add_news(live, step);
    live->failed = mr_live_rehearse(live, step, decision.replay, &live->failure);
    if (live->failed < 0) {
        return fail_again(live, err);
    }
    describe(step, portion);
    return step->n_rows > 0 ? MR_OK : MR_END; /* the last few samples are other ranks' */
}

static bool is_earlier(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

mr_status mr_live_wait(mr_live *live, const struct timespec *moment, mr_error *err) {
    const struct timespec own = {live->until / 1000000000, live->until % 1000000000};
    bool own_first = live->until < INT64_MAX && (!moment || is_earlier(&own, moment));
    bool fills = live->config.pipeline->pace.late == MR_LATE_FILL;
    if (fills && !live->is_awaited) {
        live->is_awaited = true;
        return MR_OK; /* ask again, now that it matters */
    }
    int64_t begun = mr_monotonic_ns();
    mr_status status = mr_feed_wait(live->feed, live->before, own_first ? &own : moment, err);
    live->starved += mr_monotonic_ns() - begun;
    return status == MR_LATER && own_first ? MR_OK : status;
}

/* ---- After ---- */
void mr_live_forget(mr_live_step *step) {
    for (int64_t i = 0; step->is_planned && i < step->count; i++) {
        mr_held_release(step->arrived[i]);
    }
    for (int64_t i = 0; step->is_planned && i < step->n_rows; i++) {
        mr_held_release(step->rows[i].held);
        mr_held_release(step->rows[i].recalled);
        mr_held_release(step->rows[i].stand_in);
        mr_held_release(step->rows[i].made);
        mr_free(step->rows[i].extra);
    }
    mr_choices_free(step->choices);
    step->choices = NULL;
    step->is_planned = false;
}

void mr_live_step_free(mr_live_step *step) {
    mr_live_forget(step);
    mr_free(step->arrived);
    mr_free(step->samples);
    mr_free(step->rows);
}

/* What was read once more is kept for the next time, unless it is another rank's to keep. */
static void keep_recalled(mr_live *live, const mr_live_step *step) {
    for (int64_t i = 0; i < step->n_rows; i++) {
        const mr_live_row *row = &step->rows[i];
        bool own = mr_live_reader_of(live, row->sample) < 0;
        if (row->recalled && own && mr_rehearsal_has(live->planned, (uint64_t)row->sample)) {
            mr_live_keep_entry(live, row->sample, row->recalled);
        }
    }
}

/* As far as it fits beside the entries; in place of its own, unless other ranks want that. */
static void keep_made(mr_live *live, const mr_live_step *step) {
    for (int64_t i = 0; i < step->n_rows; i++) {
        const mr_live_row *row = &step->rows[i];
        uint64_t id = (uint64_t)row->sample;
        int64_t room = live->made.most_bytes - live->payloads.bytes - live->made.bytes;
        if (!row->made || !mr_rehearsal_knows(live->planned, id)) {
            continue;
        }
        const mr_held *entry = live->relay ? NULL : mr_payloads_find(&live->payloads, id);
        room += entry ? (int64_t)entry->bytes : 0;
        if ((int64_t)row->made->bytes <= room) {
            mr_payloads_add(&live->made, id, row->made);
        }
        if (entry && mr_payloads_find(&live->made, id)) {
            mr_payloads_remove(&live->payloads, id);
        }
    }
}

mr_status mr_live_delivered(mr_live *live, mr_live_step *step, mr_error *err) {
    mr_status status = MR_OK;
    if (live->delivered) {
        keep_recalled(live, step);
        keep_made(live, step);
        status = mr_live_hear_delivered(live, step->step, err);
        status = status == MR_OK ? mr_live_advance_delivered(live, step, err) : status;
        live->kept = mr_rehearsal_count(live->delivered);
    }
    for (int64_t i = 0; i < step->n_rows; i++) {
        live->replayed += step->rows[i].is_replay;
    }
    live->delivered_step = step->step + 1;
    if (live->relay) {
        mr_relay_passed(live->relay, live->delivered_step);
    }
    mr_feed_delivered(live->feed, step->end);
    mr_live_forget(step);
    return status;
}
