/* SPDX-License-Identifier: Apache-2.0 */
/* live_rows.c - which samples are a step's rows, new and old, on this rank and on the others, and
 * what the rehearsal buffers make of the step. */
#include "core/error.h"
#include "run/stream/live_parts.h"

int32_t mr_live_reader_of(const mr_live *live, int64_t sample) {
    int32_t partition = mr_merge_at(&live->merge, sample).partition;
    return live->relay && !mr_relay_is_mine(live->relay, partition)
               ? mr_relay_reader(live->relay, partition)
               : -1;
}

/* Shares are of samples where none is left out, else of places in the list. */
static mr_merge_share news_of(const mr_live *live, const mr_live_step *step, int64_t rank) {
    int64_t first = step->count > 0 ? step->samples[0] : 0;
    return mr_merge_share_of(&live->merge, first, step->count, live->config.world, rank);
}

static int64_t place_of(const mr_live_step *step, const mr_merge_share *share, int64_t i) {
    return mr_positions_at(&share->samples, i) - step->samples[0];
}

void mr_live_add_news(const mr_live *live, mr_live_step *step) {
    mr_merge_share share = news_of(live, step, live->config.rank);
    for (int64_t i = 0; i < share.samples.count; i++) {
        int64_t at = place_of(step, &share, i);
        mr_held *held = step->arrived[at];
        bool is_afar = held && held->is_afar;
        step->rows[step->n_rows++] =
            (mr_live_row){.sample = step->samples[at],
                          .weight = 1,
                          .from = is_afar ? mr_live_reader_of(live, step->samples[at]) : -1,
                          .held = is_afar ? NULL : mr_held_keep(held)};
    }
}

static uint32_t epoch_of(const mr_live *live, int64_t step, int64_t slot) {
    uint64_t shown = (uint64_t)step * (uint64_t)live->config.batch + (uint64_t)slot;
    return 1 + (uint32_t)(shown % UINT32_MAX);
}

static bool draw(const mr_live *live, const mr_live_step *step, int64_t slot,
                 mr_representative *out) {
    const mr_choices *choices = step->choices;
    if (!choices) {
        return mr_rehearsal_draw(live->planned, step->step, (uint32_t)slot, out);
    }
    if (slot >= choices->n_draws) {
        return false;
    }
    *out = mr_rehearsal_at(live->planned, choices->draws[slot]);
    out->weight = choices->weights[slot];
    return true;
}

/* The slots of a step that are shown again are numbered over all ranks. Together with the new ones
 * every rank has as many rows. */
typedef struct slots {
    int64_t first, end;
} slots;

static slots slots_of(const mr_live *live, const mr_live_step *step, int64_t replays,
                      int64_t rank) {
    int64_t all = step->count + replays, world = live->config.world;
    return (slots){mr_merge_cut(all, world, rank) - mr_merge_cut(step->count, world, rank),
                   mr_merge_cut(all, world, rank + 1) - mr_merge_cut(step->count, world, rank + 1)};
}

static mr_status add_replays(mr_live *live, mr_live_step *step, int64_t replays, mr_error *err) {
    const slots own_slots = slots_of(live, step, replays, live->config.rank);
    for (int64_t slot = own_slots.first; slot < own_slots.end; slot++) {
        mr_representative drawn;
        if (!draw(live, step, slot, &drawn)) {
            return MR_OK;
        }
        const mr_extra *extra = mr_extras_find(&live->extras, drawn.id);
        mr_extra *own = extra ? mr_extra_copy(extra, err) : NULL;
        if (extra && !own) {
            return MR_E_MEMORY;
        }
        mr_held *held = mr_payloads_find(&live->made, drawn.id);
        held = held ? held : mr_payloads_find(&live->payloads, drawn.id);
        step->rows[step->n_rows++] =
            (mr_live_row){.sample = (int64_t)drawn.id,
                          .epoch = epoch_of(live, step->step, slot),
                          .is_replay = true,
                          .weight = (float)drawn.weight,
                          .from = held ? -1 : mr_live_reader_of(live, (int64_t)drawn.id),
                          .held = held ? mr_held_keep(held) : NULL,
                          .extra = own};
    }
    return MR_OK;
}

/* What is kept as it is at the cache op takes of the same memory. */
void mr_live_keep_entry(mr_live *live, int64_t sample, mr_held *held) {
    live->payloads.most_bytes = live->made.most_bytes - live->made.bytes;
    mr_payloads_add(&live->payloads, (uint64_t)sample, held);
}

/* ---- What other ranks make of this rank's entries ---- */
static bool is_here(const mr_live *live, int64_t sample) {
    return mr_relay_is_mine(live->relay, mr_merge_at(&live->merge, sample).partition);
}

static void give_news(mr_live *live, const mr_live_step *step, int32_t rank) {
    mr_merge_share share = news_of(live, step, rank);
    for (int64_t i = 0; i < share.samples.count; i++) {
        int64_t at = place_of(step, &share, i);
        const mr_held *held = step->arrived[at];
        const mr_relay_row row = {rank, step->step, i, step->samples[at]};
        if (is_here(live, row.sample) && held->entry.value) {
            mr_relay_give(live->relay, &row, held, false);
        }
    }
}

/* What is not in memory, after a state was loaded for instance, is read by its owner as long as
 * there is room to keep it; else by who needs it. */
static void give_replays(mr_live *live, const mr_live_step *step, int32_t rank) {
    const slots theirs = slots_of(live, step, step->drawn, rank);
    int64_t news = news_of(live, step, rank).samples.count;
    bool has_room = live->payloads.bytes + live->made.bytes < live->made.most_bytes;
    for (int64_t slot = theirs.first; slot < theirs.end; slot++) {
        mr_representative drawn;
        if (draw(live, step, slot, &drawn) && is_here(live, (int64_t)drawn.id)) {
            const mr_relay_row row = {rank, step->step, news + slot - theirs.first,
                                      (int64_t)drawn.id};
            mr_relay_give(live->relay, &row, mr_payloads_find(&live->payloads, drawn.id), has_room);
        }
    }
}

static void keep_found(mr_live *live) {
    int64_t sample = 0;
    for (mr_held *held; (held = mr_relay_found(live->relay, &sample));) {
        if (live->planned && mr_rehearsal_has(live->planned, (uint64_t)sample)) {
            mr_live_keep_entry(live, sample, held);
        }
        mr_held_release(held);
    }
}

static void say_news(const mr_live *live) {
    char text[256];
    const mr_log *log = live->config.log;
    if (live->ranks && mr_relay_news(live->ranks, text, sizeof text) && log && log->write) {
        log->write(log->user, text);
    }
}

/* Everybody plans the same steps, so nobody need ask. */
static void give_to_others(mr_live *live, const mr_live_step *step) {
    say_news(live);
    if (!live->relay) {
        return;
    }
    keep_found(live);
    for (int32_t r = 0; r < live->config.world; r++) {
        if (r != live->config.rank && mr_relay_is_here(live->relay, r)) {
            give_news(live, step, r);
            give_replays(live, step, r);
        }
    }
}

/* What is damaged is offered to nobody. */
static mr_status offer(mr_rehearsal *buffer, const mr_live_step *step, mr_error *err) {
    for (int64_t i = 0; i < step->count; i++) {
        const mr_offer own = {.step = step->step,
                              .id = (uint64_t)step->samples[i],
                              .label = step->arrived[i]->entry.label,
                              .value = 1};
        if (step->arrived[i]->entry.value) {
            MR_TRY(mr_rehearsal_offer(buffer, &own, err));
        }
    }
    return MR_OK;
}

static void keep_payloads(mr_live *live, const mr_live_step *step) {
    for (int64_t i = 0; i < step->count; i++) {
        if (step->arrived[i]->entry.value && !step->arrived[i]->is_afar) {
            mr_live_keep_entry(live, step->samples[i], step->arrived[i]);
        }
    }
}

/* The buffer as it is at this step; what the host's policy says of it is in the journal before
 * anybody sees a sample that it chose. */
static mr_status advance_planned(mr_live *live, mr_live_step *step, int64_t replays,
                                 mr_error *err) {
    if (!mr_live_is_custom(live)) {
        return mr_rehearsal_advance(live->planned, step->step, err);
    }
    step->choices = mr_decisions_chosen(live->decisions, step->step);
    if (step->choices) {
        return mr_custom_follow(&live->custom, live->planned, step->choices, err);
    }
    MR_TRY(mr_custom_ask(&live->custom, live->planned, step->step, replays, &step->choices, err));
    return mr_decisions_choose(live->decisions, step->choices, err);
}

mr_status mr_live_advance_delivered(mr_live *live, const mr_live_step *step, mr_error *err) {
    if (step->choices) {
        mr_rehearsal_choose(live->delivered, step->choices->places, step->choices->n_places);
    }
    MR_TRY(mr_rehearsal_advance(live->delivered, step->step, err));
    mr_rehearsal_drew(live->delivered, step->drawn);
    return offer(live->delivered, step, err);
}

mr_status mr_live_rehearse(mr_live *live, mr_live_step *step, int64_t replays, mr_error *err) {
    step->drawn = 0;
    if (!live->planned) {
        give_to_others(live, step);
        return MR_OK;
    }
    MR_TRY(mr_live_hear_planned(live, step->step, err));
    MR_TRY(advance_planned(live, step, replays, err));
    step->drawn = mr_rehearsal_count(live->planned) > 0 ? replays : 0;
    mr_rehearsal_drew(live->planned, step->drawn);
    MR_TRY(add_replays(live, step, step->drawn, err));
    give_to_others(live, step);
    MR_TRY(offer(live->planned, step, err));
    keep_payloads(live, step);
    return MR_OK;
}
