/* SPDX-License-Identifier: Apache-2.0 */
/* adapt.h - how many threads, reads in flight, batches ahead and bytes a run should have, from what
 * it was seen to do so far. Pure: intervals in, settings out. No setting changes a byte, so
 * whatever is decided here can at worst be slow.
 *
 * Three states, told apart by how long the consumer waited:
 *
 *     lack    it waits: more of what the workers wait for, tried against what there is, and kept
 *             only where the rate grows. Threads that were given back come back at once.
 *     even    nothing changes
 *     slack   it hardly waits: threads that would idle are given back */
#ifndef MR_PLAN_ADAPT_H
#define MR_PLAN_ADAPT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_setting {
    uint32_t threads; /* that take work */
    uint32_t reads;   /* in flight */
    int64_t ahead;    /* batches */
    int64_t bytes;    /* that read-ahead may hold */
} mr_setting;

/* What was seen in an interval, under one setting. Times in seconds; those of threads summed. */
typedef struct mr_sight {
    double seconds, samples;
    double waited;     /* by the consumer, for batches */
    double busy;       /* by workers that had work ... */
    double reading;    /* ... of which they waited for reads ... */
    double computing;  /* ... and of which they had a CPU */
    bool memory_short; /* a read waited for memory */
} mr_sight;

typedef enum mr_adapt_move {
    MR_MORE_READS,
    MR_MORE_BYTES,
    MR_MORE_AHEAD,
    MR_FEWER_THREADS,
    MR_MORE_THREADS,
    MR_N_MOVES
} mr_adapt_move;

typedef struct mr_adapt {
    mr_setting least, most; /* limits */
    mr_setting base;        /* the best so far */
    double clock;           /* seconds of all intervals */
    double due[MR_N_MOVES], pause[MR_N_MOVES];
    uint32_t threads_enough; /* more were tried, and brought nothing */
    uint32_t threads_needed; /* fewer were tried, and the consumer waited ... */
    double needed_until;     /* ... which is forgotten then */
    double needed_pause, lowered;
    int32_t slack; /* intervals in a row */
    int32_t phase; /* of a trial: 0 none, then changed, base, changed */
    mr_adapt_move move;
    double rate; /* of the last interval under the base */
} mr_adapt;

/* Limits that are equal to the start are kept to. */
void mr_adapt_begin(mr_adapt *adapt, const mr_setting *start, const mr_setting *least,
                    const mr_setting *most);

/* Takes in an interval, gives the setting for the next. */
mr_setting mr_adapt_next(mr_adapt *adapt, const mr_sight *sight);

#endif
