/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - see live.h. */
#include "run/stream/live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base64.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "plan/order.h"
#include "plan/rehearsal.h"
#include "run/chain/enter.h"
#include "run/stream/decisions.h"
#include "run/stream/payloads.h"
#include "span/ticks.h"

struct mr_live {
    mr_live_config config;
    mr_merge merge;
    int64_t end;           /* no sample from here on; MR_MAX_SAMPLES: without end */
    int64_t news, replays; /* of a usual step */
    mr_feed *feed;
    mr_spill *spill; /* NULL: none */
    mr_relay *ranks; /* the other ranks; NULL: there is nothing to say to them */
    mr_relay *relay; /* the same, where they read for each other; NULL: each reads what it needs */
    mr_decisions *decisions;

    int64_t position;                   /* the next step to be planned begins here */
    bool is_awaited;                    /* somebody waits for it ... */
    int64_t before;                     /* ... to have a sample behind this one ... */
    int64_t until;                      /* ... or for this moment */
    int64_t first_step, delivered_step; /* of this run; the next to be delivered */
    int64_t noted_step;                 /* up to which the journal has a digest */
    _Atomic int64_t replayed, left_out, filled, kept, starved; /* see mr_stream_stats */
    mr_rehearsal *planned, *delivered;                         /* NULL: nothing is shown again */
    mr_custom custom; /* for the policy of that name: the planned buffer, as the host sees it */
    mr_payloads payloads;
    mr_payloads made;   /* likewise, as they are at the cache op ("enter": "cached") */
    bool enters;        /* such are kept */
    mr_hearsay hearsay; /* what the trainer said ... */
    int64_t heard_planned, heard_delivered; /* ... and how much of it the buffers know */
    mr_extras extras;                       /* of samples that the planned buffer has */
    mr_status failed;                       /* in the middle of a step: there is no going on */
    mr_error failure;
};

/* ---- Opening ---- */
static void forget_payload(void *user, uint64_t id) {
    mr_live *live = user;
    mr_payloads_remove(&live->payloads, id);
    mr_payloads_remove(&live->made, id);
    mr_extras_remove(&live->extras, id);
}

static mr_status make_buffer(const mr_live *live, mr_rehearsal **out, mr_error *err) {
    const mr_rehearse *r = &live->config.pipeline->rehearse;
    const mr_state *state = live->config.state;
    const mr_rehearsal_options options = {.policy = (mr_rehearsal_policy)r->policy,
                                          .size = r->size,
                                          .lag = r->lag,
                                          .classes = r->classes,
                                          .rate = r->rate,
                                          .seed = live->config.seed};
    return state->rehearsal_size > 0
               ? mr_rehearsal_restore(out, state->rehearsal, state->rehearsal_size, err)
               : mr_rehearsal_new(out, &options, err);
}

/* What will be shown again must still be there. */
static mr_status check_kept(const mr_live *live, const uint64_t *ids, int64_t n, int64_t *oldest,
                            mr_error *err) {
    const mr_dataset *dataset = live->config.dataset;
    for (int32_t i = 0; i < live->merge.partitions; i++) {
        MR_TRY(mr_dataset_oldest(dataset, i, &oldest[i], err));
    }
    for (int64_t i = 0; i < n; i++) {
        mr_merge_place place = mr_merge_at(&live->merge, (int64_t)ids[i]);
        if (place.number < oldest[place.partition]) {
            mr_fail(err, MR_E_STATE,
                    "the rehearsal buffer has entry %" PRId64 " of partition %" PRId32
                    ", which the stream keeps no more",
                    place.number, place.partition);
            mr_hint(err, "keep more of the stream, or begin anew without the state");
            return MR_E_STATE;
        }
    }
    return MR_OK;
}

static mr_status check_retention(const mr_live *live, mr_error *err) {
    int64_t n = mr_rehearsal_count(live->planned);
    uint64_t *ids = mr_zalloc((size_t)n + 1, sizeof *ids);
    int64_t *oldest = mr_zalloc((size_t)live->merge.partitions, sizeof *oldest);
    mr_status status = MR_E_MEMORY;
    if (ids && oldest) {
        mr_rehearsal_ids(live->planned, ids);
        status = check_kept(live, ids, n, oldest, err);
    } else {
        mr_fail_memory(err, (size_t)n * sizeof *ids);
    }
    mr_free(ids);
    mr_free(oldest);
    return status;
}

static bool is_custom(const mr_live *live) {
    return live->planned && live->config.pipeline->rehearse.policy == MR_REHEARSE_CUSTOM;
}

static mr_status open_rehearsal(mr_live *live, mr_error *err) {
    if (live->replays == 0) {
        return MR_OK;
    }
    MR_TRY(make_buffer(live, &live->planned, err));
    MR_TRY(make_buffer(live, &live->delivered, err));
    MR_TRY(mr_rehearsal_mirror(live->delivered, err));
    live->kept = mr_rehearsal_count(live->delivered);
    mr_rehearsal_watch(live->planned, forget_payload, live);
    live->made.most_bytes = live->config.pipeline->rehearse.memory;
    live->enters = mr_enter_op(live->config.pipeline) >= 0;
    if (is_custom(live)) {
        MR_TRY(mr_custom_open(&live->custom, live->config.policy, live->planned,
                              live->config.pipeline->rehearse.size, err));
    }
    return check_retention(live, err);
}

static bool leaves_out(const mr_live *live) {
    const mr_rate_options *o = &mr_decisions_rate(live->decisions)->options;
    return o->early == MR_EARLY_THIN || o->early == MR_EARLY_DROP_OLDEST;
}

/* Which partitions steps need: all, unless they are whole rounds and nothing is shown again. */
static mr_merge_share needed(const mr_live *live) {
    const mr_live_config *c = &live->config;
    mr_merge_share share =
        mr_merge_share_of(&live->merge, live->position, live->news, c->world, c->rank);
    if (live->replays > 0 || leaves_out(live)) {
        share.first_partition = 0;
        share.end_partition = live->merge.partitions;
    }
    return share;
}

static bool spills_to_ranks(const mr_live *live) {
    const mr_pace *pace = &live->config.pipeline->pace;
    return pace->early == MR_EARLY_SPILL && pace->spill_to == MR_SPILL_RANKS &&
           live->config.world > 1 && !live->config.replay;
}

static mr_status fail_without_fabric(mr_error *err) {
    mr_error_at_json(err, "$.pace.spill_to");
    mr_fail(err, MR_E_PARAM, "there is no fabric over which other ranks could be reached");
    mr_hint(err, "add --fabric mpi or --fabric redis://HOST (fabric= in Python), or spill to a "
                 "folder");
    return MR_E_PARAM;
}

/* A rank that needs its own partitions alone has nothing to do with others. */
static mr_status open_relay(mr_live *live, mr_error *err) {
    const mr_live_config *c = &live->config;
    mr_merge_share share = needed(live);
    bool needs_all = share.end_partition - share.first_partition == live->merge.partitions;
    if (!c->fabric && spills_to_ranks(live)) {
        return fail_without_fabric(err);
    }
    if (!c->fabric || c->world < 2 || c->replay || (!needs_all && !spills_to_ranks(live))) {
        return MR_OK;
    }
    mr_relay_config config = {.lends = spills_to_ranks(live) ? c->pipeline->pace.spill_bytes : 0,
                              .url = c->fabric,
                              .dataset = c->dataset,
                              .merge = live->merge,
                              .rank = (int32_t)c->rank,
                              .world = (int32_t)c->world};
    mr_relay_terms *terms = &config.terms;
    memset(terms, 0, sizeof *terms); /* compared as bytes */
    memcpy(terms->pipeline, c->pipeline->fingerprint, sizeof terms->pipeline);
    memcpy(terms->dataset, c->dataset->fingerprint, sizeof terms->dataset);
    terms->seed = (int64_t)c->seed;
    terms->batch = c->batch;
    terms->remainder = c->remainder;
    terms->step = live->first_step;
    terms->position = live->position;
    mr_status status = mr_relay_open(&live->ranks, &config, err);
    live->relay = needs_all ? live->ranks : NULL;
    return status;
}

static mr_status open_lent(mr_live *live, mr_error *err) {
    const mr_lent_config lent = {
        .relay = live->ranks,
        .dataset = live->config.dataset,
        .partitions = live->merge.partitions,
        .rank = (int32_t)live->config.rank,
        .world = (int32_t)live->config.world,
        .bytes = live->config.pipeline->pace.spill_bytes,
    };
    mr_spill_config config = {.partitions = live->merge.partitions};
    mr_status status = mr_lent_open(&config.lent, &lent, err);
    if (status < 0) {
        mr_lent_close(config.lent);
        return status;
    }
    status = mr_spill_open(&live->spill, &config, err);
    if (!live->spill) {
        mr_lent_close(config.lent);
    }
    return status;
}

/* Ranks have folders of their own: what one has too early, another may not. */
static mr_status open_spill(mr_live *live, mr_error *err) {
    const mr_live_config *c = &live->config;
    const mr_pace *pace = &c->pipeline->pace;
    char folder[512];
    if (spills_to_ranks(live)) {
        return open_lent(live, err);
    }
    if (pace->early != MR_EARLY_SPILL || pace->spill_to != MR_SPILL_FOLDER || c->replay) {
        return MR_OK; /* one rank has no others: it holds */
    }
    int size = c->world > 1 ? snprintf(folder, sizeof folder, "%s-%" PRId64, pace->spill, c->rank)
                            : snprintf(folder, sizeof folder, "%s", pace->spill);
    if (size >= (int)sizeof folder) {
        return mr_fail(err, MR_E_PARAM, "the path of the folder to spill to is too long");
    }
    const mr_spill_config config = {
        .folder = folder,
        .id = mr_hash64(c->dataset->fingerprint, 32, 0),
        .partitions = live->merge.partitions,
        .bytes = pace->spill_bytes,
    };
    return mr_spill_open(&live->spill, &config, err);
}

static mr_status open_feed(mr_live *live, mr_error *err) {
    const mr_live_config *c = &live->config;
    const mr_rate_options *o = &mr_decisions_rate(live->decisions)->options;
    mr_merge_share share = needed(live);
    const mr_feed_config config = {
        .dataset = c->dataset,
        .merge = live->merge,
        .first_partition = share.first_partition,
        .end_partition = share.end_partition,
        .position = live->position,
        .end = live->end,
        .least = leaves_out(live) ? 2 * o->most_waiting + live->news : 2 * live->news,
        .bytes = c->bytes,
        .spill = live->spill,
        .relay = live->relay,
        .ranks = live->ranks,
    };
    return mr_feed_open(&live->feed, &config, err);
}

static mr_status open_decisions(mr_live *live, mr_error *err) {
    const mr_live_config *c = &live->config;
    const mr_decisions_config config = {
        .pipeline = c->pipeline,
        .dataset = c->dataset->fingerprint,
        .seed = c->seed,
        .batch = c->batch,
        .replays = live->replays,
        .world = c->world,
        .rank = c->rank,
        .step = live->first_step,
        .journal = c->journal,
        .hearsay = &live->hearsay,
        .replay = c->replay,
    };
    return mr_decisions_open(&live->decisions, &config, err);
}

/* ---- What the trainer said ---- */
static mr_status keep_extra(mr_live *live, const mr_said *said, mr_error *err) {
    for (int64_t i = 0; said->width > 0 && i < said->n; i++) {
        if (mr_rehearsal_knows(live->planned, said->ids[i])) {
            MR_TRY(mr_extras_set(&live->extras, said->ids[i], said->extra + i * said->width,
                                 said->width, err));
        }
    }
    return MR_OK;
}

static mr_status apply_values(mr_rehearsal *buffer, const mr_said *said, mr_error *err) {
    for (int64_t i = 0; said->has_values && i < said->n; i++) {
        MR_TRY(mr_rehearsal_value(buffer, said->ids[i], said->values[i], err));
    }
    return MR_OK;
}

static mr_status hear_planned(mr_live *live, int64_t step, mr_error *err) {
    const mr_said *said;
    while ((said = mr_hearsay_next(&live->hearsay, step, &live->heard_planned))) {
        MR_TRY(apply_values(live->planned, said, err));
        MR_TRY(keep_extra(live, said, err));
    }
    return MR_OK;
}

static mr_status hear_delivered(mr_live *live, int64_t step, mr_error *err) {
    const mr_said *said;
    while ((said = mr_hearsay_next(&live->hearsay, step, &live->heard_delivered))) {
        MR_TRY(apply_values(live->delivered, said, err));
    }
    mr_hearsay_forget(&live->hearsay, live->heard_delivered); /* planning is ahead of it */
    return MR_OK;
}

/* What held before a state was saved is in its buffer, but for what the journal alone has. */
static mr_status hear_the_past(mr_live *live, mr_error *err) {
    const mr_said *said;
    while (live->planned && live->first_step > 0 &&
           (said = mr_hearsay_next(&live->hearsay, live->first_step - 1, &live->heard_planned))) {
        MR_TRY(keep_extra(live, said, err));
    }
    live->heard_delivered = live->heard_planned;
    return MR_OK;
}

static mr_status check_feedback(const mr_live *live, const mr_feedback *f, mr_error *err) {
    if (!live->planned) {
        mr_fail(err, MR_E_PARAM, "nothing is shown again, so nobody wants to know of samples");
        mr_hint(err, "add \"rehearse\" to the pipeline");
        return MR_E_PARAM;
    }
    if (f->values && live->config.pipeline->rehearse.policy != MR_REHEARSE_PRIORITY) {
        mr_fail(err, MR_E_PARAM, "values are for the policy \"priority\"");
        mr_hint(err, "use \"policy\": \"priority\", or give extra alone");
        return MR_E_PARAM;
    }
    for (int64_t i = 0; i < f->n; i++) {
        bool in_range = !f->values || (f->values[i] >= 0 && f->values[i] <= MR_REHEARSAL_VALUE_MAX);
        if (!in_range || f->samples[i] < 0) {
            return mr_fail(err, MR_E_PARAM, "values are 0 to %g, samples are not negative",
                           MR_REHEARSAL_VALUE_MAX);
        }
    }
    return MR_OK;
}

static void fill_said(mr_said *said, const mr_feedback *f) {
    size_t n = (size_t)f->n;
    memcpy(said->ids, f->samples, n * sizeof *said->ids);
    if (f->values) {
        memcpy(said->values, f->values, n * sizeof *said->values);
    }
    if (said->width > 0) {
        memcpy(said->extra, f->extra, n * (size_t)said->width * sizeof *said->extra);
    }
}

/* What the journal has already, from before the run was killed, is said once more by a trainer that
 * sees the same batches again: it holds from where it held. */
mr_status mr_live_hear(mr_live *live, const mr_feedback *f, mr_error *err) {
    mr_said *said = NULL;
    MR_TRY(check_feedback(live, f, err));
    if (f->n == 0 || live->delivered_step - 1 <= live->hearsay.known_after) {
        return MR_OK;
    }
    MR_TRY(mr_said_new(&said, f->n, f->values != NULL, f->extra ? f->width : 0, err));
    said->after = live->delivered_step - 1;
    fill_said(said, f);
    return mr_decisions_hear(live->decisions, said, err);
}

mr_status mr_live_open(mr_live **out, const mr_live_config *config, mr_error *err) {
    const mr_shape *shape = &config->dataset->shape;
    mr_live *live = mr_zalloc(1, sizeof *live);
    *out = live;
    if (!live) {
        return mr_fail_memory(err, sizeof *live);
    }
    live->config = *config;
    live->hearsay.known_after = -1;
    live->merge = (mr_merge){shape->partitions, shape->quantum, shape->from};
    live->end = shape->samples;
    live->replays = mr_rehearse_replays(&config->pipeline->rehearse, config->batch);
    live->news = config->batch - live->replays;
    live->position = config->state->position;
    live->first_step = live->delivered_step = live->noted_step = config->state->step;
    MR_TRY(open_rehearsal(live, err));
    MR_TRY(open_decisions(live, err));
    MR_TRY(hear_the_past(live, err));
    live->config.state = NULL;
    MR_TRY(open_relay(live, err));
    MR_TRY(open_spill(live, err));
    return open_feed(live, err);
}

void mr_live_stop(mr_live *live) {
    if (live->feed) {
        mr_feed_stop(live->feed);
    }
    if (live->ranks) {
        mr_relay_stop(live->ranks);
    }
}

void mr_live_close(mr_live *live) {
    if (live) {
        mr_payloads_free(&live->payloads);
        mr_payloads_free(&live->made);
        mr_feed_close(live->feed);
        mr_spill_close(live->spill);
        mr_relay_close(live->ranks);
        mr_decisions_close(live->decisions);
        mr_rehearsal_free(live->planned);
        mr_rehearsal_free(live->delivered);
        mr_custom_free(&live->custom);
        mr_extras_free(&live->extras);
        mr_hearsay_free(&live->hearsay);
        mr_free(live);
    }
}

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

/* The rank that has an entry in memory; -1: nobody but, perhaps, this one. */
static int32_t reader_of(const mr_live *live, int64_t sample) {
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

static void add_news(const mr_live *live, mr_live_step *step) {
    mr_merge_share share = news_of(live, step, live->config.rank);
    for (int64_t i = 0; i < share.samples.count; i++) {
        int64_t at = place_of(step, &share, i);
        mr_held *held = step->arrived[at];
        bool is_afar = held && held->is_afar;
        step->rows[step->n_rows++] =
            (mr_live_row){.sample = step->samples[at],
                          .weight = 1,
                          .from = is_afar ? reader_of(live, step->samples[at]) : -1,
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
                          .from = held ? -1 : reader_of(live, (int64_t)drawn.id),
                          .held = held ? mr_held_keep(held) : NULL,
                          .extra = own};
    }
    return MR_OK;
}

/* What is kept as it is at the cache op takes of the same memory. */
static void keep_entry(mr_live *live, int64_t sample, mr_held *held) {
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
            keep_entry(live, sample, held);
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
            keep_entry(live, step->samples[i], step->arrived[i]);
        }
    }
}

/* The buffer as it is at this step; what the host's policy says of it is in the journal before
 * anybody sees a sample that it chose. */
static mr_status advance_planned(mr_live *live, mr_live_step *step, int64_t replays,
                                 mr_error *err) {
    if (!is_custom(live)) {
        return mr_rehearsal_advance(live->planned, step->step, err);
    }
    step->choices = mr_decisions_chosen(live->decisions, step->step);
    if (step->choices) {
        return mr_custom_follow(&live->custom, live->planned, step->choices, err);
    }
    MR_TRY(mr_custom_ask(&live->custom, live->planned, step->step, replays, &step->choices, err));
    return mr_decisions_choose(live->decisions, step->choices, err);
}

static mr_status advance_delivered(mr_live *live, const mr_live_step *step, mr_error *err) {
    if (step->choices) {
        mr_rehearsal_choose(live->delivered, step->choices->places, step->choices->n_places);
    }
    MR_TRY(mr_rehearsal_advance(live->delivered, step->step, err));
    mr_rehearsal_drew(live->delivered, step->drawn);
    return offer(live->delivered, step, err);
}

static mr_status rehearse(mr_live *live, mr_live_step *step, int64_t replays, mr_error *err) {
    step->drawn = 0;
    if (!live->planned) {
        give_to_others(live, step);
        return MR_OK;
    }
    MR_TRY(hear_planned(live, step->step, err));
    MR_TRY(advance_planned(live, step, replays, err));
    step->drawn = mr_rehearsal_count(live->planned) > 0 ? replays : 0;
    mr_rehearsal_drew(live->planned, step->drawn);
    MR_TRY(add_replays(live, step, step->drawn, err));
    give_to_others(live, step);
    MR_TRY(offer(live->planned, step, err));
    keep_payloads(live, step);
    return MR_OK;
}

/* ---- What the next step takes ---- */
typedef struct choosing {
    const mr_live *live;
    uint32_t keep;
    int64_t wanted, chosen;
} choosing;

/* Entries without a key have their number for one. */
static bool is_chosen(const mr_live *live, uint32_t keep, int64_t sample, const mr_held *held) {
    const mr_rate *rate = mr_decisions_rate(live->decisions);
    const mr_entry *entry = &held->entry;
    return entry->key_size > 0 ? mr_rate_chooses(rate, keep, entry->key, entry->key_size)
                               : mr_rate_chooses(rate, keep, &sample, sizeof sample);
}

static bool choose(void *user, int64_t sample, const mr_held *held) {
    choosing *c = user;
    c->chosen += is_chosen(c->live, c->keep, sample, held);
    return c->chosen < c->wanted;
}

/* Of the samples [first, end), those that are chosen, as far as they are wanted; *passed: how many
 * it takes to find them. */
static int64_t count_chosen(const mr_live *live, uint32_t keep, int64_t first, int64_t end,
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
    return count_chosen(live, d->keep, live->position + d->drop, reach, d->take, &passed) >=
           d->take;
}

/* The stream ends within the step: what is left, and nothing old. */
static mr_status decide_last(const mr_live *live, mr_rate_decision *out, mr_error *err) {
    const mr_rate *rate = mr_decisions_rate(live->decisions);
    int64_t passed, left = live->end - live->position;
    int64_t chosen = count_chosen(live, rate->noted_keep, live->position, live->end, left, &passed);
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
    view.chosen = count_chosen(live, rate->keep, live->position, reach, drops, &passed);
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
    bool lacks_choices = is_custom(live) && !mr_decisions_has_chosen(live->decisions, step);
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
static mr_status decide(mr_live *live, mr_rate_decision *out, mr_error *err) {
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

/* ---- Steps ---- */
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
    count_chosen(live, d->keep, first, mr_feed_reach(live->feed), d->take, &passed);
    step->end = first + passed;
    for (int64_t at = live->position; at < step->end;) {
        int64_t n = step->end - at < PART ? step->end - at : PART;
        mr_feed_take(live->feed, at, n, part);
        for (int64_t i = 0; i < n; i++, at++) {
            bool taken =
                at >= first && (d->keep >= MR_KEEP_ALL || is_chosen(live, d->keep, at, part[i]));
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
    mr_status status = decide(live, &decision, err);
    if (status != MR_OK) {
        return status;
    }
    live->is_awaited = false;
    live->filled += decision.replay > live->replays;
    step->step = decision.step;
    step->count = step->n_rows = 0;
    step->is_planned = true;
    take_news(live, step, &decision);
    add_news(live, step);
    live->failed = rehearse(live, step, decision.replay, &live->failure);
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

/* ---- Rows ---- */
typedef struct copy {
    mr_held *held;
} copy;

static bool take_copy(void *user, const mr_entry *entry) {
    copy *out = user;
    out->held = mr_held_copy(entry, NULL);
    return out->held != NULL;
}

static mr_status recall(const mr_live *live, int64_t sample, mr_held **to, mr_error *err) {
    const mr_dataset *dataset = live->config.dataset;
    mr_merge_place place = mr_merge_at(&live->merge, sample);
    copy out = {NULL};
    const mr_entry_sink sink = {take_copy, &out};
    MR_TRY(mr_dataset_recall(dataset, place.partition, place.number, &sink, err));
    mr_held_release(*to);
    *to = out.held;
    return MR_OK;
}

/* From the rank that has it, or from the stream where that does not send it soon; where the stream
 * has it no more, the rank is waited for, unless it has said that it sends nothing. That nobody has
 * it any more is not the sample's fault: it was there, and faster ranks would have had it. A row is
 * one worker's, so nobody else reads it now. */
static mr_status fetch_row(const mr_live *live, const mr_live_step *step, int64_t at,
                           mr_error *err) {
    const double soon = 1, late = 60;
    mr_live_row *row = &step->rows[at];
    const mr_relay_row wanted = {row->from, step->step, at, row->sample};
    mr_status sent = MR_OK;
    if (row->from >= 0) {
        sent = mr_relay_take(live->relay, &wanted, soon, &row->recalled, err);
        MR_TRY(sent);
    }
    mr_status status = row->recalled ? MR_OK : recall(live, row->sample, &row->recalled, err);
    if (status < 0 && sent == MR_LATER) {
        MR_TRY(mr_relay_take(live->relay, &wanted, late, &row->recalled, err));
    }
    if (!row->recalled && status == MR_E_NOT_FOUND && row->from >= 0 && err) {
        err->sys = ETIMEDOUT;
    }
    return row->recalled ? MR_OK : status;
}

static void fill_block(mr_live_block *out, int64_t sample, const mr_held *held,
                       const mr_live_row *row) {
    const mr_extra *extra = sample == row->sample ? row->extra : NULL; /* else it stands in */
    out->sample = sample;
    out->arrival = (mr_arrival){.entry = held->entry,
                                .weight = row->weight,
                                .is_replay = row->is_replay,
                                .extra = extra ? extra->values : NULL,
                                .n_extra = extra ? extra->n : 0};
    out->part = &out->arrival;
    out->block = (mr_block){.number = sample, .first = sample, .n_parts = 1, .parts = &out->part};
}

/* The n-th new sample of the step that may stand in for a bad one, or how many there are: of the
 * same partition, since a rank may have read no other; any, where every rank reads all. */
static int64_t find_stand_in(const mr_live *live, const mr_live_step *step, int64_t bad,
                             int64_t which) {
    int32_t own = mr_merge_at(&live->merge, bad).partition;
    int64_t n = 0;
    for (int64_t i = 0; i < step->count; i++) {
        bool fits = live->planned || mr_merge_at(&live->merge, step->samples[i]).partition == own;
        if (fits && n++ == which) {
            return i;
        }
    }
    return n;
}

/* *out NULL: there is none. */
static mr_status stand_in(const mr_live *live, const mr_live_step *step, mr_live_row *row,
                          uint32_t attempt, int64_t *sample, const mr_held **out, mr_error *err) {
    int64_t n = find_stand_in(live, step, row->sample, -1);
    *out = NULL;
    if (n == 0) {
        return MR_OK;
    }
    int64_t which = mr_order_substitute(n, live->config.seed, row->epoch, row->sample, attempt);
    int64_t at = find_stand_in(live, step, row->sample, which);
    *sample = step->samples[at];
    *out = step->arrived[at];
    if (*out && (*out)->is_afar) {
        MR_TRY(recall(live, *sample, &row->stand_in, err));
        *out = row->stand_in;
    }
    return MR_OK;
}

mr_status mr_live_fetch(const mr_live *live, const mr_live_step *step, int64_t row, int64_t attempt,
                        mr_live_block *out, mr_error *err) {
    mr_live_row *own = &step->rows[row];
    int64_t sample = own->sample;
    const mr_held *held = own->held ? own->held : own->recalled;
    if (attempt >= 0) {
        MR_TRY(stand_in(live, step, own, (uint32_t)attempt, &sample, &held, err));
    } else if (!held) {
        MR_TRY(fetch_row(live, step, row, err));
        held = own->recalled;
    }
    if (!held) {
        return mr_fail(err, MR_E_NOT_FOUND, "the step has no sample to take in its place");
    }
    fill_block(out, sample, held, own);
    out->made = held->is_made ? held->entry.value : NULL;
    out->made_size = held->is_made ? held->entry.size : 0;
    out->packs = live->enters && attempt < 0 && !held->is_made;
    return MR_OK;
}

/* A row is one worker's. Without memory it is made again the next time. */
void mr_live_keep(const mr_live_step *step, int64_t row, const void *bytes, size_t size) {
    mr_live_row *own = &step->rows[row];
    mr_entry entry = (own->held ? own->held : own->recalled)->entry;
    entry.value = bytes;
    entry.size = size;
    own->made = mr_held_copy(&entry, NULL);
    if (own->made) {
        own->made->is_made = true;
    }
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
        bool own = reader_of(live, row->sample) < 0;
        if (row->recalled && own && mr_rehearsal_has(live->planned, (uint64_t)row->sample)) {
            keep_entry(live, row->sample, row->recalled);
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
        status = hear_delivered(live, step->step, err);
        status = status == MR_OK ? advance_delivered(live, step, err) : status;
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

mr_status mr_live_note(mr_live *live, const char *digest, mr_error *err) {
    if (live->noted_step == live->delivered_step) {
        return MR_OK;
    }
    live->noted_step = live->delivered_step;
    return mr_decisions_digest(live->decisions, live->first_step, live->delivered_step, digest,
                               err);
}

int64_t mr_live_memory(const mr_live *live) {
    return live->config.bytes + live->made.most_bytes + (int64_t)MR_FEED_UNUSED;
}

void mr_live_stats(const mr_live *live, mr_stream_stats *out) {
    mr_feed_counts counts;
    mr_relay_counts relay = {0};
    mr_feed_counts_of(live->feed, &counts);
    if (live->ranks) {
        mr_relay_counts_of(live->ranks, &relay);
    }
    *out = (mr_stream_stats){
        .size = (uint32_t)sizeof *out,
        .entries = counts.entries,
        .bytes = counts.bytes,
        .missing = counts.missing,
        .waiting = counts.waiting,
        .behind = mr_feed_behind(live->feed),
        .newest = counts.newest,
        .replayed = live->replayed,
        .left_out = live->left_out,
        .filled = live->filled,
        .kept = live->kept,
        .starved_ns = live->starved,
        .spilled = counts.spilled,
        .spill_bytes = counts.spill_bytes,
        .received = relay.received,
        .received_bytes = relay.bytes_in,
        .sent = relay.sent,
        .sent_bytes = relay.bytes_out,
    };
}

mr_status mr_live_failure(const mr_live *live, mr_error *err) {
    return live->ranks ? mr_relay_failure(live->ranks, err) : MR_OK;
}

size_t mr_live_state_bytes(const mr_live *live) {
    return live->delivered ? mr_base64_length(mr_rehearsal_bytes(live->delivered)) : 0;
}

void mr_live_save(const mr_live *live, mr_state *state) {
    state->is_stream = true;
    state->step = live->delivered_step;
    mr_feed_saved(live->feed, state->position);
    state->buffer = live->delivered;
}
