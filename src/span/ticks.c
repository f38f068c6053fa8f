/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.c - see ticks.h. */
#include "span/ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static int64_t read_clock(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t mr_monotonic_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

/* Whether the counter keeps one rate through sleep states and frequency changes. arm64's does by
 * definition. */
static bool counter_is_steady(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

/* A moment in ticks and in nanoseconds: the closest of a few tries, since the thread may be
 * interrupted between the two readings. */
static void read_pair(const mr_ticks *clock, uint64_t *ticks, int64_t *ns) {
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = mr_ticks_now(clock);
        int64_t between = mr_monotonic_ns();
        uint64_t after = mr_ticks_now(clock);
        if (after - before < closest) {
            closest = after - before;
            *ticks = before + closest / 2;
            *ns = between;
        }
    }
}

void mr_ticks_start(mr_ticks *clock) {
    clock->counter = counter_is_steady();
    clock->start_epoch = read_clock(CLOCK_REALTIME);
    read_pair(clock, &clock->start, &clock->start_ns);
}

mr_tick_rate mr_ticks_rate(const mr_ticks *clock) {
    mr_tick_rate rate = {clock->start, 1.0};
    uint64_t ticks = clock->start;
    int64_t ns = clock->start_ns;
    read_pair(clock, &ticks, &ns);
    if (clock->counter && ticks > clock->start) {
        rate.ns_per_tick = (double)(ns - clock->start_ns) / (double)(ticks - clock->start);
    }
    return rate;
}

int64_t mr_ticks_zero(const mr_ticks *clock, mr_tick_rate rate) {
    uint64_t ticks = clock->start;
    int64_t ns = clock->start_ns;
    read_pair(clock, &ticks, &ns);
    return ns - (int64_t)mr_ticks_moment(rate, ticks);
}
