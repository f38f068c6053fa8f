/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - what holds a run up, and what to change first. Pure: from figures to words.
 *
 * The model. Samples pass four stations: storage, the threads, the host language's lock (where ops
 * are functions of a host language) and the consumer. Each has a highest rate; the run goes at the
 * lowest. The rates come from what was measured:
 *
 *     threads    min(threads, CPUs) / time of a thread per sample, waiting left out
 *     host lock  1 / time under the lock per sample
 *     storage    reads in flight / time of a read      (Little's law: the most it has shown to
 * give) consumer   batch / time the consumer spends on a batch
 *
 * A prediction changes one of the terms and takes the lowest again. */
#ifndef MR_TRACE_VERDICT_H
#define MR_TRACE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_op_figure {
    const char *name;
    double seconds;   /* of all threads together */
    double bytes_out; /* per sample */
    bool host;        /* runs a function of a host language, under its lock */
    bool random;      /* its result differs from epoch to epoch */
} mr_op_figure;

/* Of the steady part of a run: from the first batch to the last. Times are seconds. */
typedef struct mr_figures {
    double seconds;
    double samples; /* delivered in that time */
    double made;    /* samples that workers ended in that time; may differ by the batches ahead */
    double batches;
    int32_t threads, cpus, batch;
    double dataset_samples;
    int32_t batches_ahead;
    double batch_bytes;

    double wait, consume, deliver; /* of the consumer */

    double work;      /* of all workers, on samples; what follows down to store_wait is in it */
    double wait_host; /* for the host language's lock */
    double store_read, store_write, store_wait;
    double seal, wait_read, wait_work; /* of all workers, beside work */
    double cpu;                        /* CPU time of all workers, or -1 */
    double major_faults;               /* pages read back from disk */

    double read_seconds;    /* of a read, on average; 0: nothing is read */
    double reads_in_flight; /* on average */
    double reads_most;      /* that may be */
    double read_bytes;      /* per sample */

    double sample_p50, sample_longest;
    const char *longest_name;
    double straggler_wait; /* part of `wait`, for batches with a sample 20 times the median */

    const mr_op_figure *ops;
    int32_t n_ops;
} mr_figures;

typedef enum mr_bound {
    MR_BOUND_UNKNOWN, /* too short a run */
    MR_BOUND_BALANCED,
    MR_BOUND_CONSUMER,
    MR_BOUND_STORAGE,
    MR_BOUND_OP,
    MR_BOUND_STORE,
    MR_BOUND_HOST,
    MR_BOUND_MEMORY,
    MR_BOUND_OVERHEAD
} mr_bound;

typedef enum mr_advice {
    MR_ADVISE_NOTHING,
    MR_ADVISE_THREADS,   /* more of them */
    MR_ADVISE_CACHE,     /* what is the same every epoch */
    MR_ADVISE_CPUS,      /* more of them, or less work */
    MR_ADVISE_READS,     /* more in flight, or faster storage */
    MR_ADVISE_FILL,      /* the store is cold: the next epoch is faster */
    MR_ADVISE_STORE,     /* on a faster disk, or at another place in the pipeline */
    MR_ADVISE_PROCESSES, /* host functions in processes of their own */
    MR_ADVISE_STRAGGLER, /* look at that one sample */
    MR_ADVISE_AHEAD,     /* more batches ahead */
    MR_ADVISE_MEMORY,    /* less of it in flight, or more of it */
    MR_ADVISE_PACK,      /* many small samples into one file or array */
    MR_ADVISE_CONSUMER   /* the loader has time to spare */
} mr_advice;

/* Highest rates, samples a second; 0: there is no such station. */
typedef struct mr_model {
    double thread_seconds; /* per sample, waiting left out */
    double host_seconds;   /* per sample, under the lock */
    double threads, host, storage, consumer;
    double rate; /* the lowest */
} mr_model;

typedef struct mr_verdict {
    mr_bound bound;
    mr_advice advice;
    char title[64];     /* "decode-bound" */
    char evidence[256]; /* a sentence */
    char change[320];   /* what to do first, a sentence; "" where there is nothing */
    mr_model model;
    double rate;      /* measured, samples a second */
    double predicted; /* after the change; 0: none */
    double stall;     /* share of the consumer's time spent waiting */
    double idle;      /* share of the workers' time without work to do */
} mr_verdict;

/* Another number of threads in place of the run's; 0: the run's own. */
mr_model mr_model_make(const mr_figures *figures, int32_t threads);
void mr_verdict_make(mr_verdict *out, const mr_figures *figures);

/* The arithmetic, as lines of text. Returns the length that was needed, as snprintf does. */
int mr_verdict_explain(const mr_verdict *verdict, const mr_figures *figures, char *out, int size);

const char *mr_bound_name(mr_bound bound); /* "storage", for programs */

#endif
