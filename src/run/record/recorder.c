/* SPDX-License-Identifier: Apache-2.0 */
/* recorder.c - see millrace/record.h. Tracks, rings and the thread that empties them are those of a
 * loader; only who tells what happens is another. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "run/record/trace_words.h"
#include <millrace/millrace.h>

enum { RING = 1 << 15 };

struct mr_recorder {
    mr_tracks tracks;
    mr_track *consumer, *worker; /* NULL: this process is none */
    mr_drain *drain;
    pid_t owner;
};

/* ---- Opening ---- */
static void set_clock(mr_ticks *clock, const mr_record_clock *zero) {
    if (zero) {
        clock->start = zero->ticks;
        clock->start_ns = zero->monotonic_ns;
        clock->start_epoch = zero->unix_ns;
    }
}

static mr_status add_track(mr_recorder *r, mr_track_kind kind, int wanted, mr_track **out,
                           mr_error *err) {
    if (!wanted) {
        return MR_OK;
    }
    *out = mr_tracks_add(&r->tracks, kind);
    return *out ? MR_OK : mr_fail_memory(err, sizeof **out);
}

static mr_status add_tracks(mr_recorder *r, const mr_record_config *config, mr_error *err) {
    if (!mr_tracks_init(&r->tracks, 2, config->n_ops, 1, RING)) {
        return mr_fail_memory(err, 2 * sizeof(mr_track *));
    }
    set_clock(&r->tracks.clock, config->zero);
    MR_TRY(add_track(r, MR_TRACK_CONSUMER, config->consumer, &r->consumer, err));
    return add_track(r, MR_TRACK_WORKER, config->worker, &r->worker, err);
}

/* The caller's object with the tracks and the clock in it. */
static mr_status header_text(const mr_recorder *r, const char *given, char **out, mr_error *err) {
    json_error_t error;
    json_t *header = NULL;
    bool lost = false;
    mr_status status = mr_json_load(&header, given, strlen(given), JSON_REJECT_DUPLICATES, &error);
    if (status < 0 || !json_is_object(header)) {
        json_decref(header);
        return status == MR_E_MEMORY ? mr_fail_memory(err, strlen(given))
                                     : mr_fail(err, MR_E_PARAM, "the header is no JSON object");
    }
    const mr_ticks *clock = &r->tracks.clock;
    mr_json_set(header, "tracks", mr_trace_tracks(&r->tracks, &lost), &lost);
    mr_json_set(header, "started_monotonic_ns", json_integer(clock->start_ns), &lost);
    mr_json_set(header, "started_unix_ns", json_integer(clock->start_epoch), &lost);
    header = mr_json_whole(header, lost);
    *out = header ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return *out ? MR_OK : mr_fail_memory(err, strlen(given));
}

static mr_status begin(mr_recorder *r, const mr_record_config *config, mr_error *err) {
    char *header = NULL;
    MR_TRY(add_tracks(r, config, err));
    MR_TRY(header_text(r, config->header, &header, err));
    mr_status status = mr_drain_open(&r->drain, config->path, &r->tracks, header, err);
    mr_free(header);
    if (status == MR_OK && r->worker) {
        mr_track_attach(r->worker);
    }
    return status;
}

mr_status mr_recorder_open(mr_recorder **out, const mr_record_config *config, mr_error *err) {
    mr_record_config own = {0};
    memcpy(&own, config, config->size < sizeof own ? config->size : sizeof own);
    if (!own.path || !own.header || own.n_ops < 0 || own.n_ops > UINT16_MAX) {
        return mr_fail(err, MR_E_PARAM, "a recorder wants a path, a header and up to 65,535 ops");
    }
    mr_recorder *r = mr_zalloc(1, sizeof *r);
    if (!r) {
        return mr_fail_memory(err, sizeof *r);
    }
    r->owner = getpid();
    mr_status status = begin(r, &own, err);
    if (status < 0) {
        mr_tracks_free(&r->tracks);
        mr_free(r);
        return status;
    }
    *out = r;
    return MR_OK;
}

/* ---- Recording ---- */
int mr_record_kind(const char *name) {
    int kind = MR_SPAN_KINDS - 1;
    while (kind >= 0 && strcmp(mr_span_names[kind], name) != 0) {
        kind--;
    }
    return kind;
}

void mr_recorder_clock(const mr_recorder *r, mr_record_clock *out) {
    const mr_ticks *clock = &r->tracks.clock;
    *out = (mr_record_clock){clock->start, clock->start_ns, clock->start_epoch};
}

uint64_t mr_recorder_now(const mr_recorder *r) {
    return mr_ticks_now(&r->tracks.clock);
}

void mr_recorder_begin(mr_recorder *r, int64_t sample, uint32_t batch) {
    if (r->worker) {
        mr_track_begin(r->worker, sample, batch);
    }
}

void mr_recorder_lap(mr_recorder *r, int kind, int op, size_t bytes_in, size_t bytes_out) {
    bool is_op = kind == MR_SPAN_OP;
    if (r->worker && kind >= 0 && kind < MR_SPAN_KINDS && (!is_op || op < r->tracks.n_ops)) {
        mr_track_lap(r->worker, (mr_span_kind)kind, is_op ? op : 0, is_op, bytes_in, bytes_out);
    }
}

void mr_recorder_end(mr_recorder *r) {
    if (r->worker) {
        mr_track_end(r->worker);
    }
}

static bool is_consumers(int kind) {
    return kind == MR_SPAN_WAIT_BATCH || kind == MR_SPAN_DELIVER || kind == MR_SPAN_CONSUME ||
           kind == MR_SPAN_START;
}

void mr_recorder_add(mr_recorder *r, const mr_record_span *given) {
    mr_record_span span;
    mr_take_sized(&span, sizeof span, given);
    bool about_op =
        span.kind == MR_SPAN_OP || span.kind == MR_SPAN_FUSED || span.kind == MR_SPAN_PART;
    mr_track *track = is_consumers(span.kind) ? r->consumer : r->worker;
    const mr_time_span single = {.item = span.item}; /* what is above an index counts rows */
    if (track && !about_op && span.kind >= 0 && span.kind < MR_SPAN_KINDS) {
        mr_track_since(track, (mr_span_kind)span.kind, span.begun, mr_span_item(&single),
                       span.batch, span.bytes);
    }
}

/* ---- The end ---- */
static char *end_text(mr_recorder *r, const char *given) {
    json_error_t error;
    json_t *end = NULL;
    if (!given || mr_json_load(&end, given, strlen(given), 0, &error) < 0 || !json_is_object(end)) {
        json_decref(end);
        end = json_object();
    }
    mr_trace_end(end, &r->tracks, r->drain, NULL);
    char *text = end ? json_dumps(end, JSON_COMPACT) : NULL;
    json_decref(end);
    return text;
}

/* In a forked child there is no thread to join, and the file is the parent's. */
void mr_recorder_close(mr_recorder *r, const char *end) {
    if (!r || r->owner != getpid()) {
        return;
    }
    if (r->worker) {
        mr_track_detach(r->worker);
    }
    mr_drain_finish(r->drain);
    char *text = end_text(r, end);
    mr_drain_close(r->drain, text);
    mr_free(text);
    mr_tracks_free(&r->tracks);
    mr_free(r);
}
