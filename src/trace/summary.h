/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - a trace in figures. Times are seconds; moments count from the trace's beginning. */
#ifndef MR_TRACE_SUMMARY_H
#define MR_TRACE_SUMMARY_H

#include <math.h>

#include "trace/functions.h"
#include "trace/reader.h"
#include "trace/verdict.h"

enum { MR_SIZE_BINS = 32, MR_SUMMARY_SLOWEST = 100, MR_TIME_BINS = 240 };

/* Times of one thing: a kind of span, an op, or fused ops. */
typedef struct mr_times {
    int64_t count; /* how often */
    int64_t timed; /* of these, how often measured; the following is about those */
    double p50, p99, longest;
    double bytes_in, bytes_out;
    double total, mean; /* of all, measured or not */

    /* How it grows with the bytes that go in: seconds = fixed + per_byte * bytes. */
    double fixed, per_byte;
    int64_t bin_count[MR_SIZE_BINS]; /* bin b: inputs of 2^b to 2^(b+1) - 1 bytes */
    double bin_seconds[MR_SIZE_BINS];
} mr_times;

/* Lotus's quantities of a batch. */
typedef struct mr_batch_times {
    double begun;   /* its first sample was begun */
    double ready;   /* it was whole */
    double asked;   /* the consumer asked for it */
    double taken;   /* the consumer had it */
    double work;    /* of all threads on its samples */
    double wait;    /* of the consumer */
    double consume; /* what the consumer did with it */
    bool seen;      /* it was taken */
    bool overtaken; /* a later batch was whole before it */
    double worst;   /* its longest sample */
    int64_t samples;
} mr_batch_times;

/* How long it was both ready and wanted until it was there: on its way between processes, where
 * workers are some. */
static inline double mr_batch_handover(const mr_batch_times *batch) {
    bool known = batch->seen && batch->ready > 0;
    return known ? fmax(batch->taken - fmax(batch->ready, batch->asked), 0) : 0;
}

typedef struct mr_slow {
    double seconds;
    double start;
    int64_t sample;
    uint32_t batch;
    int32_t track;
    const char *name; /* NULL: the trace does not tell */
} mr_slow;

/* A slice of the run's time: what share of its threads did what. */
typedef struct mr_time_bin {
    double work, seal, wait_read, wait_work; /* of the workers, 0 to 1 */
    double wait_batch, consume;              /* of the consumer, 0 to 1 */
    double reads;                            /* in flight, on average */
    double samples;                          /* ended in it */
} mr_time_bin;

typedef struct mr_summary {
    const mr_trace *trace;
    double seconds;           /* from the beginning to the last span's end */
    int64_t samples, batches; /* delivered */
    int64_t skipped;          /* bad samples that others took the place of */
    int64_t unsound;          /* spans that cannot be */
    int32_t n_workers;
    mr_times kinds[MR_SPAN_KINDS];
    mr_times *ops;   /* n_ops */
    mr_times *fused; /* by first op, n_ops */
    mr_batch_times *per_batch;
    int64_t n_per_batch;
    int64_t overtaken;
    mr_slow slowest[MR_SUMMARY_SLOWEST];
    int32_t n_slowest;
    mr_time_bin time_bins[MR_TIME_BINS];
    double *heat; /* of each track, MR_TIME_BINS shares of work, then of waiting */
    mr_function_table functions;
    mr_figures figures;
    mr_verdict verdict;
} mr_summary;

mr_status mr_summary_make(mr_summary *out, const mr_trace *trace, mr_error *err);
void mr_summary_free(mr_summary *summary);

/* All of it as a JSON object; NULL: no memory. */
json_t *mr_summary_json(const mr_summary *summary);

#endif
