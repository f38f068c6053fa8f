/* SPDX-License-Identifier: Apache-2.0 */
/* track.h - what one thread records about itself: tallies always, spans while a trace is written.
 *
 * A track belongs to one thread; nobody else writes to it, so recording takes no lock. Tallies are
 * a few counters and a histogram for each line of the table that `millrace run --top` shows: one
 * line for each kind of span and one for each op. Any thread may read them meanwhile. Spans go
 * into a ring that one other thread empties; when it is full, spans are dropped and counted. */
#ifndef MR_SPAN_TRACK_H
#define MR_SPAN_TRACK_H

#include <stdatomic.h>
#include <stddef.h>

#include "span/counters.h"
#include "span/probe.h"
#include "span/span.h"
#include "span/ticks.h"

#define MR_TALLY_BUCKETS 64

/* A line of the table, as one thread sees it. Bucket b counts times of 2^b to 2^(b+1) - 1 ticks. */
typedef struct mr_tally {
    _Atomic uint64_t count; /* how often it happened */
    _Atomic uint64_t timed; /* how often it was timed; the rest is about those */
    _Atomic uint64_t ticks, bytes_in, bytes_out;
    _Atomic uint64_t fused,
        fused_ticks; /* of an op: fused runs that began with it and were timed */
    _Atomic uint64_t buckets[MR_TALLY_BUCKETS];
} mr_tally;

/* What a line's laps counted, in the samples that were counted. */
typedef struct mr_line_counts {
    int64_t n;
    mr_counts sum;
} mr_line_counts;

typedef enum mr_track_kind { MR_TRACK_CONSUMER, MR_TRACK_WORKER, MR_TRACK_READER } mr_track_kind;

typedef struct mr_track {
    const mr_ticks *clock;
    mr_track_kind kind;
    int32_t n_lines;
    mr_tally *lines;
    mr_counters counters;
    mr_probes probes;       /* of a worker, while a trace is written */
    mr_counts usage;        /* of the thread's whole life; set when it ends */
    mr_line_counts *counts; /* of each line, while a trace is written: the thread's until it ends */
    mr_counts at_lap;

    /* The sample in work. */
    uint32_t every; /* one sample in so many is timed while no trace is written */
    uint32_t turn;
    bool timed;    /* this sample */
    bool inside;   /* row by row inside fused ops */
    bool counting; /* with counters */
    uint64_t begun, lap;
    int64_t sample;
    int64_t more; /* rows behind it that are made together with it */
    uint32_t batch;

    /* The ring of spans; NULL: no trace. Positions only grow. */
    mr_time_span *spans;
    uint64_t capacity; /* a power of two */
    _Atomic uint64_t written, dropped;
    char apart[64]; /* so that the two threads do not share a cache line */
    _Atomic uint64_t taken;
} mr_track;

/* Fused ops are looked into once in so many samples, and counters are read once in so many: timing
 * every row of every image, or two system calls around every op, would cost more than the shares
 * are worth. */
enum { MR_TRACK_INSIDE_EVERY = 16, MR_TRACK_COUNT_EVERY = 64, MR_TRACK_VISIT_EVERY = 16 };

/* Lines: one for each kind, then one for each op. */
static inline int32_t mr_line_of_op(int32_t op) {
    return MR_SPAN_KINDS + op;
}

static inline uint64_t mr_track_now(const mr_track *track) {
    return mr_ticks_now(track->clock);
}

/* Whether somebody looks for marks on this thread's stack. */
static inline bool mr_track_is_probed(mr_track *track) {
    return atomic_load_explicit(&track->probes.ring, memory_order_relaxed) != NULL;
}

/* Counts and, while a trace is written, keeps a span whose times are ticks. */
void mr_track_add(mr_track *track, const mr_time_span *span);

/* The same for what lasted from `begun` until now. */
void mr_track_since(mr_track *track, mr_span_kind kind, uint64_t begun, int64_t item, int64_t batch,
                    size_t bytes);

/* An op on a batch, from `begun` until now. */
void mr_track_op(mr_track *track, int32_t op, uint64_t begun, int64_t batch, size_t bytes);

/* The thread itself, when it starts and when it ends. */
void mr_track_attach(mr_track *track);
void mr_track_detach(mr_track *track);

/* The consumer's thread is the program's, and only its time inside of the loader counts: between
 * enter and leave. While a trace is written one visit in MR_TRACK_VISIT_EVERY is counted. */
void mr_track_enter(mr_track *track);
void mr_track_leave(mr_track *track);

/* What all visits used, as far as those say that were counted; else the thread's usage. */
void mr_track_usage(const mr_track *track, mr_counts *out);

/* Timing a sample: begin, a lap after each part of its way, end. */
void mr_track_begin(mr_track *track, int64_t sample, uint32_t batch);
void mr_track_lap(mr_track *track, mr_span_kind kind, int32_t op, int32_t n_ops, size_t bytes_in,
                  size_t bytes_out);
void mr_track_end(mr_track *track);

/* Takes the place of mr_track_begin for n rows that are made together, `sample` the first of them
 * and n at most MR_SPAN_MOST_ROWS: one span a lap, and the rows' mean stands for each. Bytes are
 * those of one row. mr_track_give_up instead of mr_track_end: they will be made one by one; laps
 * that were taken stay counted. */
void mr_track_begin_rows(mr_track *track, int64_t sample, uint32_t batch, int64_t n);
void mr_track_give_up(mr_track *track);

/* One fused op's own time; the next lap closes all of them. */
void mr_track_part(mr_track *track, int32_t op, uint64_t ticks, size_t bytes_in, size_t bytes_out);

/* The thread that empties rings: copies at most `most` spans and frees their places. */
size_t mr_track_take(mr_track *track, mr_time_span *out, size_t most);

/* ---- All tracks of a loader ---- */
typedef struct mr_tracks {
    mr_ticks clock;
    int32_t n_ops;
    uint32_t every;
    size_t ring; /* spans in a worker's ring; 0: no trace */
    mr_track **list;
    int32_t n, most;
} mr_tracks;

/* Makes room for `most` tracks; adding them happens before the threads start. NULL: no memory, or
 * more than `most`. */
bool mr_tracks_init(mr_tracks *tracks, int32_t most, int32_t n_ops, uint32_t every, size_t ring);
mr_track *mr_tracks_add(mr_tracks *tracks, mr_track_kind kind);
void mr_tracks_free(mr_tracks *tracks);

/* A line's sum over all tracks, in ticks. */
typedef struct mr_tally_sum {
    uint64_t count, timed, ticks, bytes_in, bytes_out, fused, fused_ticks;
    uint64_t buckets[MR_TALLY_BUCKETS];
} mr_tally_sum;

void mr_tracks_sum(const mr_tracks *tracks, int32_t line, mr_tally_sum *out);
uint64_t mr_tracks_dropped(const mr_tracks *tracks);

/* The time that a share of the timed ones stays below, in ticks: read off the histogram, so to
 * within its buckets. */
double mr_tally_quantile(const mr_tally_sum *sum, double share);

#endif
