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
 *     slack   it hardly waits: threads that would idle are given back
 *
 * Rates vary by themselves, above all where others use the machine too. How much is learned from
 * neighbouring intervals under one setting, and a trial goes on until what the change brings stands
 * out from that. */
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

/* What was seen in an interval, under one setting. Times in seconds; those of threads summed. What
 * is left of `busy` workers spent in each other's way, or waiting for something unknown. */
typedef struct mr_sight {
    double seconds, samples;
    double waited;     /* by the consumer, for batches */
    double busy;       /* by workers that had work ... */
    double reading;    /* ... of which they waited for reads, ... */
    double computing;  /* ... had a CPU, ... */
    double queued;     /* ... and could have used one that others had; 0 where nobody knows */
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

/* Rates of neighbouring intervals are compared in pairs, as logarithms. */
typedef struct mr_trial {
    mr_adapt_move move; /* MR_N_MOVES: none is under way */
    bool is_changed;    /* the running interval is under the changed setting */
    bool is_second;     /* ... and the second of its pair */
    double first;       /* the rate of the pair's first interval */
    int32_t pairs;
    double sum, squares; /* of what the change brought in each */
} mr_trial;

typedef struct mr_adapt {
    mr_setting least, most; /* limits */
    mr_setting base;        /* the best so far */
    double clock;           /* seconds of all intervals */
    double due[MR_N_MOVES], pause[MR_N_MOVES];
    bool small[MR_N_MOVES];  /* a large step was tried, and brought nothing */
    uint32_t threads_enough; /* more were tried, and brought nothing */
    uint32_t threads_needed; /* fewer were tried, and the consumer waited ... */
    double needed_until;     /* ... which is forgotten then */
    double needed_pause, lowered;
    int32_t slack;   /* intervals in a row ... */
    double at_work;  /* ... and the most threads that were busy in one of them */
    double rate;     /* of the last interval, 0: under another setting than the next */
    double variance; /* of the logarithm of a rate from interval to interval ... */
    int32_t seen;    /* ... from so many */
    mr_trial trial;
} mr_adapt;

/* Limits that are equal to the start are kept to. */
void mr_adapt_begin(mr_adapt *adapt, const mr_setting *start, const mr_setting *least,
                    const mr_setting *most);

/* Takes in an interval, gives the setting for the next. */
mr_setting mr_adapt_next(mr_adapt *adapt, const mr_sight *sight);

#endif
