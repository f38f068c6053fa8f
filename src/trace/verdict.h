/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - what holds a run up, and what to change first. Pure: from figures to words. */
#ifndef MR_TRACE_VERDICT_H
#define MR_TRACE_VERDICT_H

#include "trace/model.h"

typedef enum mr_bound {
    MR_BOUND_UNKNOWN, /* too short a run, or too much of it dropped */
    MR_BOUND_BALANCED,
    MR_BOUND_CONSUMER,
    MR_BOUND_STORAGE,
    MR_BOUND_OP,
    MR_BOUND_STORE,
    MR_BOUND_HOST,
    MR_BOUND_MEMORY,
    MR_BOUND_OVERHEAD,
    MR_BOUND_CROWDED, /* other programs take the CPUs */
    MR_BOUND_STREAM,  /* it brings too little */
    MR_BOUND_NETWORK, /* bytes of other nodes and ranks */
    /* Of objects on servers: the time until an answer begins, the time its bytes take, and a server
     * that does not do more at once. */
    MR_BOUND_LATENCY,
    MR_BOUND_BANDWIDTH,
    MR_BOUND_SERVER,
    MR_BOUND_UNPACK /* blocks of many samples are decompressed and decoded */
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
    MR_ADVISE_CONSUMER,  /* the loader has time to spare */
    MR_ADVISE_ALONE,     /* without other programs, or with fewer threads */
    MR_ADVISE_NO_CACHE,  /* it brings nothing */
    MR_ADVISE_SHARE,     /* let ranks make what their node keeps */
    MR_ADVISE_VERSION,   /* so that a cache may keep what a function makes */
    MR_ADVISE_REQUESTS,  /* more of them at once */
    MR_ADVISE_OBJECTS,   /* kept on a disk of this machine */
    MR_ADVISE_CODEC      /* one that is unpacked faster, or fewer columns */
} mr_advice;

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

void mr_verdict_make(mr_verdict *out, const mr_figures *figures);

/* The arithmetic, as lines of text. Returns the length that was needed, as snprintf does. */
int mr_verdict_explain(const mr_verdict *verdict, const mr_figures *figures, char *out, int size);

const char *mr_bound_name(mr_bound bound); /* "storage", for programs */

#endif
