/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - a trace file in memory: its header, its spans track by track, its last word. */
#ifndef MR_TRACE_READER_H
#define MR_TRACE_READER_H

#include <jansson.h>
#include <millrace/millrace.h>

#include "span/span.h"

typedef struct mr_trace_track {
    char name[24];    /* "worker 3" */
    const char *kind; /* "worker" */
} mr_trace_track;

typedef struct mr_trace_op {
    const char *name;
    bool host; /* it runs a function of a host language */
    bool random;
    bool opaque;   /* nothing it made may be kept */
    int32_t fused; /* ops from this one on that run fused; 0 or 1: by itself */
    bool mapped;   /* the source runs it while it unpacks: its time is there */
} mr_trace_op;

/* Spans of one track that lie together in the file, or probes of one. */
typedef struct mr_trace_piece {
    int32_t track;
    const mr_time_span *spans;
    int64_t n;
    const mr_probe *probes;
    int64_t n_probes;
} mr_trace_piece;

struct mr_trace {
    char *path;
    char *bytes; /* the file, as far as it can be believed */
    size_t size;
    size_t file_size;
    json_t *header, *end; /* end: NULL where the file was cut off */
    mr_trace_op *ops;
    int32_t n_ops;
    mr_trace_track *tracks;
    int32_t n_tracks;
    mr_trace_piece *pieces;
    int64_t n_pieces, n_spans, n_probes;
    int64_t dropped;   /* spans that the run had to drop */
    size_t damaged_at; /* what follows this byte is not believed; 0: nothing is damaged */
    char missing[256]; /* what is missing and why, or "" */
};

/* The bytes become the trace's, also on failure. path is for messages. */
mr_status mr_trace_parse(mr_trace **out, const char *path, char *bytes, size_t size, mr_error *err);

/* Fails where the file at `path` is the trace's own: what is made of it would take its place. */
mr_status mr_export_apart(const mr_trace *trace, const char *path, mr_error *err);

/* A page or an export could not be written; fails with the reason. */
mr_status mr_export_failed(const char *path, const char *what, int sys, mr_error *err);

/* A number of the header's "setup"; 0 where it is not there. */
int64_t mr_trace_setup(const mr_trace *trace, const char *name);

/* Whether a span is one that this library could have written into this trace. */
static inline bool mr_trace_is_sound(const mr_trace *trace, const mr_time_span *span) {
    bool about_op =
        span->kind == MR_SPAN_OP || span->kind == MR_SPAN_FUSED || span->kind == MR_SPAN_PART;
    bool has_op = span->op < trace->n_ops && span->op + span->n_ops <= trace->n_ops;
    return span->kind < MR_SPAN_KINDS && (!about_op || has_op) && span->start < INT64_MAX / 2 &&
           span->duration < INT64_MAX / 2;
}

#endif
