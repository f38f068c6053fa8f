/* SPDX-License-Identifier: Apache-2.0 */
/* track.c - see track.h. Counters have one writer, so a relaxed load and store adds to them;
 * readers see each counter whole, and several of them within a sample of each other. */
#include "span/track.h"

#include <string.h>

#include "core/memory.h"
#include <millrace/millrace.h>

static inline void grow(_Atomic uint64_t *counter, uint64_t by) {
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + by, memory_order_relaxed);
}

static inline uint32_t clamp(size_t bytes) {
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static inline int bucket_of(uint64_t ticks) {
    return 63 - __builtin_clzll(ticks | 1);
}

/* ---- Tallies ---- */
/* Of rows that were made together, their mean. */
static void tally_time(mr_tally *line, const mr_time_span *span, uint64_t rows) {
    uint64_t each = rows > 1 ? span->duration / rows : span->duration;
    grow(&line->timed, 1);
    grow(&line->ticks, each);
    grow(&line->bytes_in, span->bytes_in);
    grow(&line->bytes_out, span->bytes_out);
    grow(&line->buckets[bucket_of(each)], 1);
}

/* How often is told by ops and fused ops, how long by ops and by the parts of fused ones. */
static void tally(mr_track *track, const mr_time_span *span) {
    mr_tally *op = &track->lines[mr_line_of_op(span->op)];
    uint64_t rows = (uint64_t)mr_span_rows(span);
    switch ((mr_span_kind)span->kind) {
    case MR_SPAN_OP:
        grow(&op->count, rows);
        tally_time(op, span, rows);
        break;
    case MR_SPAN_FUSED:
        for (int k = 0; k < span->n_ops; k++) {
            grow(&op[k].count, 1);
        }
        grow(&op->fused, 1);
        grow(&op->fused_ticks, span->duration);
        break;
    case MR_SPAN_PART:
        tally_time(op, span, 1);
        break;
    default:
        grow(&track->lines[span->kind].count, rows);
        tally_time(&track->lines[span->kind], span, rows);
    }
}

/* ---- Spans ---- */
static void keep(mr_track *track, const mr_time_span *span) {
    uint64_t at = atomic_load_explicit(&track->written, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&track->taken, memory_order_acquire);
    if (at - taken == track->capacity) {
        grow(&track->dropped, 1);
        return;
    }
    track->spans[at & (track->capacity - 1)] = *span;
    atomic_store_explicit(&track->written, at + 1, memory_order_release);
}

size_t mr_track_take(mr_track *track, mr_time_span *out, size_t most) {
    uint64_t from = atomic_load_explicit(&track->taken, memory_order_relaxed);
    uint64_t to = atomic_load_explicit(&track->written, memory_order_acquire);
    size_t n = to - from < most ? (size_t)(to - from) : most;
    for (size_t i = 0; i < n; i++) {
        out[i] = track->spans[(from + i) & (track->capacity - 1)];
    }
    atomic_store_explicit(&track->taken, from + n, memory_order_release);
    return n;
}

void mr_track_add(mr_track *track, const mr_time_span *span) {
    tally(track, span);
    if (track->spans) {
        keep(track, span);
    }
}

static mr_time_span span_since(const mr_track *track, mr_span_kind kind, uint64_t begun,
                               int64_t item, int64_t batch, size_t bytes) {
    return (mr_time_span){.start = begun,
                          .duration = mr_track_now(track) - begun,
                          .item = item,
                          .batch = (uint32_t)batch,
                          .bytes_in = clamp(bytes),
                          .bytes_out = clamp(bytes),
                          .kind = (uint8_t)kind};
}

void mr_track_since(mr_track *track, mr_span_kind kind, uint64_t begun, int64_t item, int64_t batch,
                    size_t bytes) {
    const mr_time_span span = span_since(track, kind, begun, item, batch, bytes);
    mr_track_add(track, &span);
}

void mr_track_op(mr_track *track, int32_t op, uint64_t begun, int64_t batch, size_t bytes) {
    mr_time_span span = span_since(track, MR_SPAN_OP, begun, batch, batch, bytes);
    span.op = (uint16_t)op;
    span.n_ops = 1;
    mr_track_add(track, &span);
}

/* ---- Counters ---- */
void mr_track_attach(mr_track *track) {
    if (track->spans) {
        mr_counters_open(&track->counters);
    }
    if (track->spans && track->kind == MR_TRACK_WORKER) {
        mr_probes_open(&track->probes);
    }
}

void mr_track_detach(mr_track *track) {
    mr_counters_read(&track->counters, &track->usage);
    mr_counters_close(&track->counters);
}

static void count_lap(mr_track *track, int32_t line) {
    mr_line_counts *counts = &track->counts[line];
    mr_counts now;
    mr_counters_read(&track->counters, &now);
    counts->n += 1 + track->more;
    for (int i = 0; i < MR_COUNTERS; i++) {
        counts->sum.v[i] += now.v[i] - track->at_lap.v[i];
    }
    track->at_lap = now;
    track->lap = mr_track_now(track); /* counting is not part of what comes next */
}

/* Not the first visit: the batches before it are still to be made. */
void mr_track_enter(mr_track *track) {
    track->counting = track->spans && track->turn++ % MR_TRACK_VISIT_EVERY == 1;
    if (track->counting) {
        mr_counters_read(&track->counters, &track->at_lap);
    }
}

void mr_track_leave(mr_track *track) {
    if (track->counting) {
        count_lap(track, MR_SPAN_WAIT_BATCH);
        track->counting = false;
    }
}

/* Nanoseconds of a long run times its visits are more than there are numbers for. */
void mr_track_usage(const mr_track *track, mr_counts *out) {
    const mr_line_counts *visits = &track->counts[MR_SPAN_WAIT_BATCH];
    *out = track->usage;
    for (int i = 0; i < MR_COUNTERS && visits->n > 0; i++) {
        out->v[i] = (int64_t)((double)visits->sum.v[i] * ((double)track->turn / (double)visits->n));
    }
}

/* ---- Timing a sample ---- */
void mr_track_begin(mr_track *track, int64_t sample, uint32_t batch) {
    uint32_t turn = track->turn++;
    track->timed = track->spans || turn % track->every == 0;
    track->inside = turn % MR_TRACK_INSIDE_EVERY == 0;
    /* Not the first: it also finds out what comes once, in a process or in a cache. */
    track->counting = track->spans && turn % MR_TRACK_COUNT_EVERY == 1;
    if (track->counting) {
        mr_counters_read(&track->counters, &track->at_lap);
    }
    if (track->timed) {
        track->sample = sample;
        track->batch = batch;
        track->begun = track->lap = mr_track_now(track);
    }
}

static mr_time_span span_of(const mr_track *track, mr_span_kind kind, uint64_t start,
                            uint64_t end) {
    return (mr_time_span){.start = start,
                          .duration = end - start,
                          .item = track->sample | track->more << MR_SPAN_ITEM_BITS,
                          .batch = track->batch,
                          .kind = (uint8_t)kind};
}

static void count_only(mr_track *track, mr_span_kind kind, int32_t op, int32_t n_ops) {
    if (n_ops == 0) {
        grow(&track->lines[kind].count, 1);
    }
    for (int32_t k = 0; k < n_ops; k++) {
        grow(&track->lines[mr_line_of_op(op + k)].count, 1);
    }
}

void mr_track_lap(mr_track *track, mr_span_kind kind, int32_t op, int32_t n_ops, size_t bytes_in,
                  size_t bytes_out) {
    if (!track->timed) {
        count_only(track, kind, op, n_ops);
        return;
    }
    uint64_t now = mr_track_now(track);
    mr_time_span span = span_of(track, kind, track->lap, now);
    span.op = (uint16_t)op;
    span.n_ops = (uint8_t)n_ops;
    span.bytes_in = clamp(bytes_in);
    span.bytes_out = clamp(bytes_out);
    track->lap = now;
    mr_track_add(track, &span);
    if (track->counting) {
        count_lap(track, n_ops > 0 ? mr_line_of_op(op) : (int32_t)kind);
    }
}

void mr_track_part(mr_track *track, int32_t op, uint64_t ticks, size_t bytes_in, size_t bytes_out) {
    mr_time_span span = span_of(track, MR_SPAN_PART, track->lap, track->lap + ticks);
    span.op = (uint16_t)op;
    span.n_ops = 1;
    span.bytes_in = clamp(bytes_in);
    span.bytes_out = clamp(bytes_out);
    mr_track_add(track, &span);
}

void mr_track_end(mr_track *track) {
    if (!track->timed) {
        count_only(track, MR_SPAN_SAMPLE, 0, 0);
        return;
    }
    const mr_time_span span = span_of(track, MR_SPAN_SAMPLE, track->begun, mr_track_now(track));
    mr_track_add(track, &span);
    track->more = 0;
}

/* Every run is timed: a few readings of the clock are little beside its rows. */
void mr_track_begin_rows(mr_track *track, int64_t sample, uint32_t batch, int64_t n) {
    mr_track_begin(track, sample, batch);
    track->inside = false;
    track->more = n - 1;
    if (!track->timed) {
        track->timed = true;
        track->sample = sample;
        track->batch = batch;
        track->begun = track->lap = mr_track_now(track);
    }
}

void mr_track_give_up(mr_track *track) {
    track->more = 0;
}

/* ---- All tracks ---- */
bool mr_tracks_init(mr_tracks *tracks, int32_t most, int32_t n_ops, uint32_t every, size_t ring) {
    mr_ticks_start(&tracks->clock);
    tracks->n_ops = n_ops;
    tracks->every = every;
    tracks->ring = ring;
    tracks->most = most;
    tracks->list = mr_zalloc((size_t)most, sizeof(mr_track *));
    return tracks->list != NULL;
}

static void free_track(mr_track *track) {
    if (track) {
        mr_probes_close(&track->probes);
        mr_free(track->lines);
        mr_free(track->counts);
        mr_free(track->spans);
        mr_free(track);
    }
}

mr_track *mr_tracks_add(mr_tracks *tracks, mr_track_kind kind) {
    mr_track *track = tracks->n < tracks->most ? mr_zalloc(1, sizeof *track) : NULL;
    if (!track) {
        return NULL;
    }
    track->clock = &tracks->clock;
    track->kind = kind;
    track->every = tracks->every;
    track->n_lines = MR_SPAN_KINDS + tracks->n_ops;
    track->lines = mr_zalloc((size_t)track->n_lines, sizeof *track->lines);
    /* Only workers record several spans a sample. */
    track->capacity = kind == MR_TRACK_WORKER ? tracks->ring : tracks->ring / 8;
    track->spans = track->capacity ? mr_zalloc(track->capacity, sizeof *track->spans) : NULL;
    track->counts = mr_zalloc((size_t)track->n_lines, sizeof *track->counts);
    if (!track->lines || !track->counts || (track->capacity && !track->spans)) {
        free_track(track);
        return NULL;
    }
    tracks->list[tracks->n++] = track;
    return track;
}

void mr_tracks_free(mr_tracks *tracks) {
    for (int32_t i = 0; i < tracks->n; i++) {
        free_track(tracks->list[i]);
    }
    mr_free(tracks->list);
    tracks->list = NULL;
    tracks->n = 0;
}

static uint64_t look(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void mr_tracks_sum(const mr_tracks *tracks, int32_t line, mr_tally_sum *out) {
    memset(out, 0, sizeof *out);
    for (int32_t i = 0; i < tracks->n; i++) {
        const mr_tally *tally = &tracks->list[i]->lines[line];
        out->count += look(&tally->count);
        out->timed += look(&tally->timed);
        out->ticks += look(&tally->ticks);
        out->bytes_in += look(&tally->bytes_in);
        out->bytes_out += look(&tally->bytes_out);
        out->fused += look(&tally->fused);
        out->fused_ticks += look(&tally->fused_ticks);
        for (int b = 0; b < MR_TALLY_BUCKETS; b++) {
            out->buckets[b] += look(&tally->buckets[b]);
        }
    }
}

uint64_t mr_tracks_dropped(const mr_tracks *tracks) {
    uint64_t dropped = 0;
    for (int32_t i = 0; i < tracks->n; i++) {
        dropped += look(&tracks->list[i]->dropped);
    }
    return dropped;
}

double mr_tally_quantile(const mr_tally_sum *sum, double share) {
    double rank = share * (double)sum->timed;
    for (int b = 0; b < MR_TALLY_BUCKETS; b++) {
        double here = (double)sum->buckets[b];
        if (here > 0 && rank <= here) {
            double low = (double)(b ? 1ull << b : 0ull);
            double width = (double)(1ull << b);
            return low + (b ? width : 2 * width) * rank / here;
        }
        rank -= here;
    }
    return 0;
}
