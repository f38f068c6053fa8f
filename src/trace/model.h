/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - how fast a run could go, from what was measured of it. Pure: from figures to figures.
 *
 * Samples pass five stations: storage, the threads, the CPUs, the host language's lock
 * (where ops are functions of a host language) and the consumer. Each has a highest rate; the run
 * goes at the lowest. The rates come from what was measured:
 *
 *     threads    min(threads, CPUs) / time of a thread per sample, waiting left out
 *     CPUs       CPUs / CPU time of all threads per sample, those that read, those that speak with
 *                other ranks and the consumer's in next() included, but not those that read what
 *                others ask a rank for (peers)
 *     host lock  1 / time under the lock per sample
 *     storage    reads in flight / time of a read (Little's law: the most it has shown to give),
 *                times the samples that a read brings; of servers, requests in flight / time of a
 *                request
 *     consumer   samples / time the consumer spends on them
 *
 * What the run did is a lower bound of each. Where other programs took the CPUs, times are about as
 * long with other numbers of threads as they were. Time in host functions counts as under the lock
 * as far as it is CPU time.
 *
 * A prediction changes one of the terms and takes the lowest again. A cache takes the time of the
 * ops before it away, and adds that of finding a sample in a store and checking its bytes. */
#ifndef MR_TRACE_MODEL_H
#define MR_TRACE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_op_figure {
    const char *name;
    double seconds;   /* of all threads together */
    double runs;      /* how often */
    double bytes_out; /* per sample: its whole result, also where fused ops make only a part */
    double
        passed_on; /* the part of it that goes to the next op, fused with it; 0: it is kept whole */
    bool host;     /* runs a function of a host language, under its lock */
    bool random;   /* its result differs from epoch to epoch */
    bool opaque;   /* a function without a version: no cache may keep what it made */
    bool cache;    /* keeps what the ops before it made */
    bool partly;   /* bytes_out is only of the parts that were made: the trace was cut off */
    bool fused;    /* fused with the next, which takes only the part of its input that is wanted */
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
    double elsewhere; /* in host functions that run in processes of their own */
    double fill;      /* the source turns bytes into fields */
    double store_read, store_write, store_wait;
    double seal, unpack, wait_read, wait_work; /* of all workers, beside work */
    double wait_peer;         /* in wait_read: for bytes of other nodes and ranks */
    double cpu;               /* CPU time of all workers, or -1 */
    double readers_cpu;       /* CPU time of the threads that read */
    double consumer_cpu;      /* CPU time of the consumer inside of the loader; 0: not known */
    double preempted, paused; /* how often workers were taken off a CPU, and left it themselves */
    double major_faults;      /* pages read back from disk */

    double read_seconds;    /* of a read, on average; 0: nothing is read */
    double reads_in_flight; /* on average */
    double reads_most;      /* that may be */
    double read_bytes;      /* of a read, on average */
    double reads;           /* that ended; of a block of many samples, one */

    /* Of requests to servers. Seconds and bytes are means of those that brought something. */
    double requests;           /* that ended; 0: nothing lies on servers */
    double requests_in_flight; /* on average */
    double requests_most;      /* that there may be at once */
    double request_wait, first_byte, transfer, request_bytes;
    double asked;    /* requests of the whole run, with those that failed */
    double retries;  /* of them, after a failure */
    double busy;     /* answers that the server is */
    double narrowed; /* how often more of them at once brought nothing */

    double store_hits;             /* samples that a store had */
    double hit_seconds, hit_bytes; /* of a hit, on average */
    double check_rate;             /* bytes a second that this machine checks; 0: not known */

    double sample_p50, sample_longest;
    const char *longest_name;
    double straggler_wait; /* part of `wait`, for batches with a sample 20 times the median */
    double longest_seen, longest_slow; /* how often that sample was made, and was as slow */
    double lost;                       /* share of the spans that were dropped */
    double refused;                    /* samples that a store could not take */
    double starved;  /* seconds of the whole run in which a stream had too little */
    double entries;  /* of the stream that were read; 0: there is none */
    double behind;   /* entries of it that no step had at the end; -1: unknown */
    double replayed; /* samples that were shown again */

    bool foreign;    /* a loader of another library: what follows is about those alone */
    bool persistent; /* its workers stay for further epochs */
    int32_t workers; /* its processes; 0: the program makes samples itself */
    double starts;   /* how often workers were started after the first time */
    double start;    /* part of `wait`, for that and for the first batch after it */
    double absent; /* of all workers: between the end of one and the start of the next, or while the
                      program that makes samples itself does other things */
    double handover;   /* part of `wait`, for batches that were ready */
    double pinning;    /* of the program: batches are copied to memory that is pinned */
    double beside;     /* CPU time of the program's other threads during `wait` */
    double disk_bytes; /* that its workers had to get from a disk */

    const mr_op_figure *ops;
    int32_t n_ops;
} mr_figures;

/* Highest rates, samples a second; 0: there is no such station. */
typedef struct mr_model {
    double thread_seconds; /* per sample, waiting left out */
    double cpu_seconds;    /* per sample, of all threads; 0: not known */
    double host_seconds;   /* per sample, under the lock */
    double threads, cpus, host, storage, consumer;
    double rate; /* the lowest */
} mr_model;

/* A run with a cache that is full, in place of the ops up to one of them. */
typedef struct mr_cached {
    int32_t ops;         /* so many ops lie before the cache */
    double bytes;        /* of a sample in the store */
    double saved, added; /* seconds of a thread per sample */
    double rate;
} mr_cached;

/* Another number of threads in place of the run's; 0: the run's own. */
mr_model mr_model_make(const mr_figures *figures, int32_t threads);

/* The rate with so many threads: what the run stayed below its own lowest station by, it stays
 * below theirs. */
double mr_model_threads(const mr_figures *figures, int32_t threads);

/* With a full cache after so many ops; where the run's pipeline has a cache, after those before it.
 * False: there can be none, or the trace does not tell. */
bool mr_model_cached(const mr_figures *figures, int32_t ops, mr_cached *out);

/* Without the cache that the run's pipeline has; 0: it has none, or everything came from it. At
 * least so much, where ops behind the cache want a part of what the ops before it made whole. */
double mr_model_uncached(const mr_figures *figures, bool *at_least);

/* With so many requests to servers in flight, on average. Until its first byte a request waits by
 * itself; the bytes of all share the line, so that more of them take longer each. */
double mr_model_requests(const mr_figures *figures, double in_flight);
double mr_model_kept(const mr_figures *figures); /* if reading took no time */

/* ---- What both the model and the verdict count with ---- */
static inline double mr_divide(double a, double b) {
    return b > 0 ? a / b : 0;
}

/* 0 stands for no limit. */
static inline double mr_lower(double a, double b) {
    return a <= 0 ? b : b <= 0 ? a : a < b ? a : b;
}

static inline double mr_thread_time(const mr_figures *f) {
    return f->threads * f->seconds - f->absent;
}

double mr_host_time(const mr_figures *figures); /* of all workers, in host functions */
double mr_busy_time(const mr_figures *figures); /* of all workers, not waiting */
/* Share of the time that workers wanted a CPU in which they had one, where others took it; 1: they
 * had it, or it is not known. */
double mr_cpu_share(const mr_figures *figures);
mr_model mr_model_alone(const mr_figures *figures);  /* if nobody had taken it */
int32_t mr_figures_cache(const mr_figures *figures); /* the last cache's place, or -1 */

#endif
