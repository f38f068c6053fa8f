/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - a trace of loading that somebody else does: another library's loader, for instance.
 *
 * A recorder writes a trace as a loader does (trace.h), of what it is told. It is one process's: of
 * a loader with worker processes each has its own, into a file of its own, all with the clock of
 * the first. A file that a killed process leaves is good up to its last milliseconds.
 *
 * One thread uses a recorder at a time; its worker's track counts and probes the thread that opened
 * it. Part of millrace.h. */
#ifndef MILLRACE_RECORD_H
#define MILLRACE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_recorder mr_recorder;

/* A moment on the clocks of this machine, which all its processes share. */
typedef struct mr_record_clock {
    uint64_t ticks;       /* of the CPU's counter, or nanoseconds where there is none to trust */
    int64_t monotonic_ns; /* CLOCK_MONOTONIC */
    int64_t unix_ns;      /* CLOCK_REALTIME */
} mr_record_clock;

typedef struct mr_record_config {
    uint32_t size;               /* sizeof(mr_record_config), set by the caller */
    const char *path;            /* of the file */
    const char *header;          /* a JSON object with "ops", "setup" and whatever else is known */
    const mr_record_clock *zero; /* where times count from; NULL: from now on */
    int32_t n_ops;               /* of the header's */
    int consumer, worker; /* which tracks there are: this process takes batches, makes them */
} mr_record_config;

/* What a span is about; a name of docs/tracing.md: "fill", "op", "sample", "seal", ... Returns -1
 * where there is none. */
MR_API int mr_record_kind(const char *name);

MR_API mr_status mr_recorder_open(mr_recorder **out, const mr_record_config *config, mr_error *err);

/* The clock's beginning, for recorders of other processes. */
MR_API void mr_recorder_clock(const mr_recorder *recorder, mr_record_clock *out);
MR_API uint64_t mr_recorder_now(const mr_recorder *recorder); /* in ticks */

/* ---- Timing a sample, on the worker's track: begin, a lap after each part of its way (a kind
 * that is "op" has its place among the header's ops, others 0), end. */
MR_API void mr_recorder_begin(mr_recorder *recorder, int64_t sample, uint32_t batch);
MR_API void mr_recorder_lap(mr_recorder *recorder, int kind, int op, size_t bytes_in,
                            size_t bytes_out);
MR_API void mr_recorder_end(mr_recorder *recorder);

/* ---- Anything else that has just ended. "wait_batch", "deliver", "consume" and "start" are the
 * consumer's, all others the worker's. A track or kind that there is none of: nothing is written.
 */
typedef struct mr_record_span {
    uint32_t size; /* sizeof(mr_record_span) */
    int kind;
    uint64_t begun; /* mr_recorder_now, then */
    int64_t item;   /* the batch's number, or the sample's index */
    uint32_t batch; /* the batch's number; UINT32_MAX: not known */
    size_t bytes;
} mr_record_span;

MR_API void mr_recorder_add(mr_recorder *recorder, const mr_record_span *span);

/* Writes the last word, made of `end` (a JSON object, or NULL) and of what was counted, and closes.

 * NULL allowed. In a forked child it does nothing: the file and its writer are the parent's. */
MR_API void mr_recorder_close(mr_recorder *recorder, const char *end);

#ifdef __cplusplus
}
#endif
#endif
