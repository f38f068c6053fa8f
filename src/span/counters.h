/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h - what the operating system and the CPU count for one thread.
 *
 * CPU time, page faults and switches are always there. Cycles, instructions and cache misses come
 * from the CPU's own counters, in user mode, where the machine has them and lets us: most virtual
 * machines do not. A reading costs about 0.4 us, with the CPU's counters about 1 us. */
#ifndef MR_SPAN_COUNTERS_H
#define MR_SPAN_COUNTERS_H

#include <stdint.h>

enum {
    MR_COUNT_CPU_NS,
    MR_COUNT_MINOR_FAULTS,
    MR_COUNT_MAJOR_FAULTS,
    MR_COUNT_WAITS,     /* it gave the CPU up by itself */
    MR_COUNT_PREEMPTED, /* it was taken off the CPU */
    MR_COUNT_CYCLES,
    MR_COUNT_INSTRUCTIONS,
    MR_COUNT_CACHE_MISSES,
    MR_COUNTERS
};

extern const char *const mr_counter_names[MR_COUNTERS];

typedef struct mr_counters {
    int group;   /* of the CPU's counters; 0: not opened, -1: there are none */
    int refused; /* errno, if so */
    int others[2];
} mr_counters;

typedef struct mr_counts {
    int64_t v[MR_COUNTERS];
} mr_counts;

/* All of the calling thread. */
void mr_counters_open(mr_counters *counters);
void mr_counters_read(const mr_counters *counters, mr_counts *out);
void mr_counters_close(mr_counters *counters);

#endif
