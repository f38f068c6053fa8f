/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - where the time goes: figures while a loader runs, traces, and what can be made of them.
 *
 * Every loader counts: how often each op ran, how long it took, how long its threads waited and for
 * what. That costs some 30 ns an op and is always there: mr_loader_line.
 *
 * With mr_options.trace it also writes a span for everything it does into a file, at some 50 ns
 * each. mr_trace_open reads such a file; the rest of this header is what can be asked of it.
 * docs/tracing.md says what each figure means. Part of millrace.h. */
#ifndef MILLRACE_TRACE_H
#define MILLRACE_TRACE_H

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mr_loader;

/* ---- While a loader runs ----------------------------------------------------------------------
 * A line for each kind of work and for each op, summed over all threads. */
typedef enum mr_line_kind {
    MR_LINE_WORK, /* threads compute or read: "read", "fill", ... */
    MR_LINE_WAIT, /* threads wait: "wait_read", "wait_work", ... */
    MR_LINE_OP    /* an op of the pipeline */
} mr_line_kind;

typedef struct mr_line {
    uint32_t size; /* sizeof(mr_line), set by the caller */
    mr_line_kind kind;
    const char *name; /* "decode_image", "read" */
    int64_t count;    /* how often */
    int64_t timed;    /* of these, how many were measured: ops of small samples and ops that run
                         row by row are measured once in 16 samples */
    double seconds;   /* all together; where not all were measured, as much as those say */
    double mean, p50, p99;      /* seconds; the quantiles to within a factor of 1.4 */
    double bytes_in, bytes_out; /* all together, likewise */
} mr_line;

MR_API int32_t mr_loader_n_lines(const struct mr_loader *loader);
/* Any thread. Lines of things that this pipeline never does have count 0. */
MR_API mr_status mr_loader_line(const struct mr_loader *loader, int32_t i, mr_line *out);

/* The same as text that Prometheus scrapes; *out is to be freed with mr_free. Any thread. */
MR_API mr_status mr_loader_metrics(const struct mr_loader *loader, char **out, mr_error *err);

/* How the trace is doing; all zero without one. */
typedef struct mr_trace_status {
    uint32_t size;   /* sizeof(mr_trace_status), set by the caller */
    int64_t spans;   /* written */
    int64_t dropped; /* that came faster than they could be written */
    int64_t bytes;   /* of the file */
    int failed;      /* errno of the write that ended the trace, or 0 */
} mr_trace_status;

MR_API void mr_loader_trace_status(const struct mr_loader *loader, mr_trace_status *out);

/* ---- Traces ----------------------------------------------------------------------------------
 * Reading takes the whole file into memory: 40 bytes a span. */
typedef struct mr_trace mr_trace;

MR_API mr_status mr_trace_open(mr_trace **out, const char *path, mr_error *err);
MR_API void mr_trace_close(mr_trace *trace); /* NULL allowed */

/* What the file lacks (it was cut off, spans were dropped), or "". */
MR_API const char *mr_trace_missing(const mr_trace *trace);

typedef enum mr_trace_text_kind {
    MR_TRACE_REPORT,  /* verdict, tables of ops, waits and functions, batches, slowest samples: for
                         a terminal */
    MR_TRACE_EXPLAIN, /* the arithmetic behind the verdict, and predictions */
    MR_TRACE_JSON,    /* every figure */
    MR_TRACE_SWEEP    /* what mr_sweep_text wants of a traced run: "title" and "ops", as JSON */
} mr_trace_text_kind;

/* *out is a text to be freed with mr_free. */
MR_API mr_status mr_trace_text(const mr_trace *trace, mr_trace_text_kind kind, char **out,
                               mr_error *err);

typedef enum mr_trace_export_kind {
    MR_TRACE_CHROME, /* JSON for ui.perfetto.dev and chrome://tracing */
    MR_TRACE_CSV     /* a line a span */
} mr_trace_export_kind;

/* Writes all spans. Here and below: a path that is the trace's own file is refused. */
MR_API mr_status mr_trace_export(const mr_trace *trace, mr_trace_export_kind kind, const char *path,
                                 mr_error *err);

/* One HTML page that needs nothing else. With two traces it compares them. photos (NULL: none) is
 * a folder where the slowest samples of the first are looked for by name, for thumbnails: besides
 * the traces nothing outside of it is read, whatever they say. */
MR_API mr_status mr_trace_page(const mr_trace *trace, const mr_trace *other, const char *photos,
                               const char *path, mr_error *err);

/* The traces of one run's ranks, together: who holds the others up, and where ranks differ. kind is
 * MR_TRACE_REPORT or MR_TRACE_JSON. Traces that are not of one run, or two of one rank, are
 * refused. The page also shows the slowest rank's own. */
MR_API bool mr_trace_are_ranks(const mr_trace *a, const mr_trace *b); /* two of one run */
MR_API mr_status mr_trace_ranks(mr_trace *const *traces, int32_t n, mr_trace_text_kind kind,
                                char **out, mr_error *err);
MR_API mr_status mr_trace_ranks_page(mr_trace *const *traces, int32_t n, const char *photos,
                                     const char *path, mr_error *err);

/* ---- Sweeps ----------------------------------------------------------------------------------
 * One job measured under several settings, each several times. `measurements` is a JSON document:
 *
 *   {"what": "training.json", "axes": {"threads": [1, 2, 4]}, "runs": [
 *      {"set": {"threads": 1}, "title": "decode_image-bound",
 *       "rounds": [{"seconds": 2.1, "samples": 1000, "cpu": 2.3, "memory": 9e7}, ...],
 *       "ops": [{"name": "decode_image", "seconds": 1.2e-3, "cpu": 1.1e-3,
 *                "counters": {"minor_faults": 0.2}}, ...]}, ...]}
 *
 * Seconds are of the whole job, cpu those of all its threads and processes, memory bytes at most;
 * figures of ops are those of one sample. `title`, `ops`, `cpu` and `memory` may be missing; a run
 * with "error" has no figures. */
typedef enum mr_sweep_text_kind {
    MR_SWEEP_TABLE,     /* for a terminal, with the conclusion */
    MR_SWEEP_CSV,       /* a row for each run, with columns for each op and its counters */
    MR_SWEEP_PAGE,      /* HTML, complete in itself: curves, conclusion, table */
    MR_SWEEP_CONCLUSION /* which is fastest, and where more of it stops paying */
} mr_sweep_text_kind;

/* *out is a text to be freed with mr_free. */
MR_API mr_status mr_sweep_text(const char *measurements, mr_sweep_text_kind kind, char **out,
                               mr_error *err);

#ifdef __cplusplus
}
#endif
#endif
