/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - see live.h: opening, closing, and how a run stands. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base64.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "run/chain/enter.h"
#include "run/stream/live_parts.h"

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

bool mr_live_is_custom(const mr_live *live) {
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
    if (mr_live_is_custom(live)) {
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

static void write_terms(const mr_live *live, mr_relay_terms *terms) {
    const mr_live_config *c = &live->config;
    memset(terms, 0, sizeof *terms); /* compared as bytes */
    memcpy(terms->pipeline, c->pipeline->fingerprint, sizeof terms->pipeline);
    memcpy(terms->dataset, c->dataset->fingerprint, sizeof terms->dataset);
    terms->seed = (int64_t)c->seed;
    terms->batch = c->batch;
    terms->remainder = c->remainder;
    terms->step = live->first_step;
    terms->position = live->position;
}

static mr_status meet_ranks(mr_live *live, mr_error *err) {
    const mr_live_config *c = &live->config;
    mr_relay_config config = {.lends = spills_to_ranks(live) ? c->pipeline->pace.spill_bytes : 0,
                              .url = c->fabric,
                              .dataset = c->dataset,
                              .merge = live->merge,
                              .rank = (int32_t)c->rank,
                              .world = (int32_t)c->world,
                              .speaks = mr_tracks_add(c->tracks, MR_TRACK_READER),
                              .reads = mr_tracks_add(c->tracks, MR_TRACK_READER)};
    write_terms(live, &config.terms);
    return config.speaks && config.reads ? mr_relay_open(&live->ranks, &config, err)
                                         : mr_fail_memory(err, sizeof *config.speaks);
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
    mr_status status = meet_ranks(live, err);
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
        .log = c->log,
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
    MR_TRY(mr_live_hear_the_past(live, err));
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

void mr_live_end(mr_live *live) {
    if (live->feed) {
        mr_feed_end(live->feed);
    }
    if (live->ranks) {
        mr_relay_end(live->ranks);
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

/* ---- How it stands ---- */
mr_status mr_live_note(mr_live *live, const char *digest, mr_error *err) {
    if (live->noted_step == live->delivered_step) {
        return MR_OK;
    }
    live->noted_step = live->delivered_step;
    return mr_decisions_digest(live->decisions, live->first_step, live->delivered_step, digest,
                               err);
}

int64_t mr_live_memory(const mr_pipeline *pipeline, int64_t batch, int64_t bytes) {
    const mr_rehearse *r = &pipeline->rehearse;
    int64_t old = mr_rehearse_replays(r, batch) > 0 ? r->memory : 0;
    return bytes + old + (int64_t)MR_FEED_UNUSED;
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
