/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.h - a clock that is cheap enough to be read around every op.
 *
 * A tick is whatever the CPU counts: its time-stamp counter where that runs at one rate whatever
 * the CPU does (11 ns a reading), else a nanosecond of CLOCK_MONOTONIC (22 ns). Ticks become
 * nanoseconds when somebody looks: the rate is that between the clock's start and then. After
 * ten milliseconds it is right to a few millionths. */
#ifndef MR_SPAN_TICKS_H
#define MR_SPAN_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct mr_ticks {
    bool counter;        /* ticks are the CPU's counter, not nanoseconds */
    uint64_t start;      /* in ticks */
    int64_t start_ns;    /* the same moment on CLOCK_MONOTONIC */
    int64_t start_epoch; /* and on CLOCK_REALTIME */
} mr_ticks;

/* A straight line from ticks to nanoseconds since the clock's start. */
typedef struct mr_tick_rate {
    uint64_t start;
    double ns_per_tick;
} mr_tick_rate;

int64_t mr_monotonic_ns(void);

void mr_ticks_start(mr_ticks *clock);
mr_tick_rate mr_ticks_rate(const mr_ticks *clock);

/* The moment of CLOCK_MONOTONIC that counts as 0, judged now: the rate is not exact, and that clock
 * may be put right meanwhile. */
int64_t mr_ticks_zero(const mr_ticks *clock, mr_tick_rate rate);

static inline uint64_t mr_ticks_now(const mr_ticks *clock) {
#if defined(__x86_64__)
    if (clock->counter) {
        return __rdtsc();
    }
#elif defined(__aarch64__)
    if (clock->counter) {
        uint64_t count;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
        return count;
    }
#endif
    return (uint64_t)mr_monotonic_ns();
}

/* Nanoseconds since the clock's start; of a moment before it, 0. */
static inline uint64_t mr_ticks_moment(mr_tick_rate rate, uint64_t tick) {
    return tick > rate.start ? (uint64_t)((double)(tick - rate.start) * rate.ns_per_tick) : 0;
}

#endif
