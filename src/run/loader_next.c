/* SPDX-License-Identifier: Apache-2.0 */
/* loader_next.c - delivering batches in order. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "run/loader.h"

static mr_status end_with(mr_loader *loader, const mr_error *failure) {
    loader->final = failure->code;
    loader->final_error = *failure;
    mr_ring_stop(&loader->ring);
    return failure->code;
}

/* One wait for one batch, however many calls it took. What happened between them is not in it, so
 * it seems to have begun later than it did. */
void mr_loader_note_wait(mr_loader *loader) {
    mr_track_since(loader->track, MR_SPAN_WAIT_BATCH, mr_track_now(loader->track) - loader->waited,
                   loader->n_taken, loader->n_taken, 0);
    loader->waited = 0;
}

/* Where no batch is open because the stream has not come that far: until one is, or the run is
 * over. */
static mr_status wait_for_stream(mr_loader *loader, const struct timespec *moment, mr_error *err) {
    mr_status status = MR_OK;
    while (status == MR_OK && loader->n_opened == loader->n_taken &&
           loader->n_opened < loader->n_steps) {
        status = mr_live_wait(loader->live, moment, err);
        status = status == MR_OK ? mr_loader_open_batches(loader, err) : status;
    }
    return status;
}

/* Peers that are slow are reported, and those that are gone end the run, also where nothing of
 * theirs is waited for. */
static mr_status wait_with_peers(mr_loader *loader, const struct timespec *moment, mr_error *err) {
    mr_status status = MR_LATER;
    while (status == MR_LATER) {
        struct timespec soon;
        clock_gettime(CLOCK_MONOTONIC, &soon);
        soon.tv_sec++;
        bool last = moment && (moment->tv_sec < soon.tv_sec ||
                               (moment->tv_sec == soon.tv_sec && moment->tv_nsec <= soon.tv_nsec));
        status = mr_ring_wait_until(&loader->ring, loader->n_taken, last ? moment : &soon);
        if (status == MR_LATER) {
            mr_loader_report_trouble(loader);
            MR_TRY(mr_peers_failure(loader->peers, err));
        }
        if (last) {
            break;
        }
    }
    return status;
}

static mr_status wait_until(mr_loader *loader, const struct timespec *moment, mr_error *err) {
    mr_status status = loader->live ? wait_for_stream(loader, moment, err) : MR_OK;
    if (status == MR_OK && loader->n_taken == loader->n_steps) {
        return MR_END;
    }
    if (status == MR_OK) {
        status = loader->peers ? wait_with_peers(loader, moment, err)
                               : mr_ring_wait_until(&loader->ring, loader->n_taken, moment);
    }
    return status == MR_E_CANCELLED ? mr_fail(err, MR_E_CANCELLED, "the loader was cancelled")
                                    : status;
}

/* within: nanoseconds, or -1 for ever. */
static mr_status wait_for_batch(mr_loader *loader, int64_t within) {
    mr_error failure = MR_ERROR_INIT;
    int64_t start = mr_monotonic_ns(), end = start;
    uint64_t begun = mr_track_now(loader->track);
    if (within > 0 && __builtin_add_overflow(start, within, &end)) {
        end = INT64_MAX;
    }
    const struct timespec moment = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
    mr_status status = wait_until(loader, within < 0 ? NULL : &moment, &failure);
    atomic_fetch_add(&loader->wait_ns, mr_monotonic_ns() - start);
    loader->waited += mr_track_now(loader->track) - begun;
    if (status != MR_LATER) {
        mr_loader_note_wait(loader);
    }
    return status < 0 ? end_with(loader, &failure) : status;
}

/* Keeps a batch's notes in the order of its slots; they were made in any order. */
static void keep_skips(mr_loader *loader, mr_making *making) {
    atomic_fetch_add(&loader->skipped, making->n_skips);
    while (making->skips) {
        mr_skip_note **lowest = &making->skips;
        for (mr_skip_note **at = lowest; *at; at = &(*at)->next) {
            lowest = (*at)->slot < (*lowest)->slot ? at : lowest;
        }
        mr_skip_note *note = *lowest;
        *lowest = note->next;
        bool keep = loader->skips && loader->n_skips_kept < MR_SKIPS_KEPT;
        if (keep) {
            note->skip.error = &note->error;
            loader->skips[loader->n_skips_kept++] = note;
        } else {
            mr_free(note);
        }
    }
    making->n_skips = 0;
}

static void extend_digest(mr_loader *loader, const mr_batch *batch) {
    uint64_t words[4] = {loader->stream_digest.low, loader->stream_digest.high, 0, 0};
    mr_batch_digest_words(batch, words + 2);
    loader->stream_digest = mr_hash(words, sizeof words);
}

static mr_batch *take_batch(mr_loader *loader, mr_making *making) {
    mr_batch *batch = making->batch;
    making->batch = NULL;
    if (making->n_skips > 0 && !loader->skips) {
        loader->skips = mr_zalloc(MR_SKIPS_KEPT, sizeof(mr_skip_note *));
    }
    keep_skips(loader, making);
    loader->n_taken++;
    loader->epoch = making->portion.epoch;
    loader->position = making->portion.position;
    if (loader->digest) {
        extend_digest(loader, batch);
    }
    if (loader->ahead) {
        mr_ahead_pass(loader->ahead, mr_loader_position(loader, &making->portion));
    }
    atomic_fetch_add(&loader->delivered_samples, mr_batch_size(batch));
    atomic_fetch_add(&loader->delivered_batches, 1);
    return batch;
}

static mr_status check_usable(const mr_loader *loader, mr_error *err) {
    if (loader->owner != getpid()) {
        mr_fail(err, MR_E_FORKED, "this loader belongs to the parent process");
        mr_hint(err, "open the loader after fork, in the process that uses it");
        return MR_E_FORKED;
    }
    if (loader->final < 0 && err) {
        *err = loader->final_error;
    }
    return loader->final;
}

/* Whether another batch is better opened by the next call, when this one may have come back: the
 * batch is large, needs new memory, and workers have half a batch to make meanwhile. A consumer
 * that keeps up with them never needs that memory then. */
static bool can_open_later(const mr_loader *loader) {
    enum { LARGE_BATCH = 1 << 25 };
    return mr_pool_batch_bytes(loader->pool) >= LARGE_BATCH && !mr_pool_has_idle(loader->pool) &&
           2 * mr_ring_undrawn(&loader->ring) >= loader->ring.tickets_per_batch;
}

static mr_status deliver(mr_loader *loader, int64_t within, mr_batch **out) {
    mr_error failure = MR_ERROR_INIT;
    mr_making *making = &loader->making[loader->n_taken % loader->ring.depth];
    mr_loader_ask(loader);
    if ((loader->peers && mr_peers_failure(loader->peers, &failure) < 0) ||
        (loader->live && mr_live_failure(loader->live, &failure) < 0) ||
        mr_loader_open_batches(loader, &failure) < 0) {
        return end_with(loader, &failure);
    }
    mr_status status = wait_for_batch(loader, within);
    if (status != MR_OK) {
        return status;
    }
    if (making->failed_slot >= 0) {
        bool is_lost = loader->live && mr_live_failure(loader->live, &failure) < 0;
        return end_with(loader, is_lost ? &failure : &making->failure);
    }
    uint64_t begun = mr_track_now(loader->track);
    *out = take_batch(loader, making);
    if (loader->live && mr_live_delivered(loader->live, &making->live, &failure) < 0) {
        mr_batch_unref(*out);
        return end_with(loader, &failure);
    }
    mr_adapter_look(loader);
    /* Keep the workers busy meanwhile; next() tries again. */
    if (!can_open_later(loader)) {
        (void)mr_loader_open_batches(loader, NULL);
    }
    mr_track_since(loader->track, MR_SPAN_DELIVER, begun, loader->n_taken - 1, loader->n_taken - 1,
                   0);
    loader->delivered_at = mr_track_now(loader->track);
    return MR_OK;
}

/* What went wrong beside the batches, which are as they should be. */
void mr_loader_report_trouble(mr_loader *loader) {
    char text[320];
    for (int32_t i = 0; i < loader->children.n; i++) {
        mr_caches_report(&loader->children.list[i].caches, &loader->log);
    }
    bool trouble = loader->exchange && mr_exchange_trouble(loader->exchange, text, sizeof text);
    trouble = trouble || (loader->peers && mr_peers_trouble(loader->peers, text, sizeof text));
    if (trouble && loader->log.write) {
        loader->log.write(loader->log.user, text);
    }
}

static mr_status next(mr_loader *loader, int64_t within, mr_batch **out, mr_error *err) {
    if (!loader) {
        return mr_fail(err, MR_E_PARAM, "there is no loader");
    }
    MR_TRY(check_usable(loader, err));
    if (loader->delivered_at) {
        mr_track_since(loader->track, MR_SPAN_CONSUME, loader->delivered_at, loader->n_taken - 1,
                       loader->n_taken - 1, 0);
        loader->delivered_at = 0;
    }
    if (atomic_load(&loader->cancelled)) {
        mr_error failure = MR_ERROR_INIT;
        mr_fail(&failure, MR_E_CANCELLED, "the loader was cancelled");
        end_with(loader, &failure);
    } else if (loader->n_taken == loader->n_steps) {
        return MR_END;
    } else {
        mr_track_enter(loader->track);
        mr_status status = deliver(loader, within, out);
        mr_track_leave(loader->track);
        mr_loader_report_trouble(loader);
        if (status >= 0) {
            return status;
        }
    }
    if (err) {
        *err = loader->final_error;
    }
    return loader->final;
}

mr_status mr_loader_next(mr_loader *loader, mr_batch **out, mr_error *err) {
    return next(loader, -1, out, err);
}

mr_status mr_loader_next_within(mr_loader *loader, int64_t nanoseconds, mr_batch **out,
                                mr_error *err) {
    return next(loader, nanoseconds < 0 ? 0 : nanoseconds, out, err);
}
