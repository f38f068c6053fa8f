/* SPDX-License-Identifier: Apache-2.0 */
/* throttle.c - see throttle.h. */
#include "io/throttle.h"

#include <errno.h>
#include <time.h>

void mr_throttle_init(mr_throttle *throttle, int64_t bytes_per_second, int64_t open_ns) {
    throttle->bytes_per_second = bytes_per_second;
    throttle->open_ns = open_ns;
    atomic_init(&throttle->free_at, 0);
}

bool mr_throttle_is_on(const mr_throttle *throttle) {
    return throttle->bytes_per_second > 0 || throttle->open_ns > 0;
}

static int64_t cost(const mr_throttle *throttle, bool opens, size_t bytes) {
    double rate = (double)throttle->bytes_per_second;
    double transfer = rate > 0 ? 1e9 * (double)bytes / rate : 0;
    return (opens ? throttle->open_ns : 0) + (int64_t)transfer;
}

int64_t mr_throttle_due(mr_throttle *throttle, int64_t now, bool opens, size_t bytes) {
    int64_t takes = cost(throttle, opens, bytes), free_at = atomic_load(&throttle->free_at), due;
    do {
        due = (free_at > now ? free_at : now) + takes;
    } while (!atomic_compare_exchange_weak(&throttle->free_at, &free_at, due));
    return due;
}

void mr_throttle_wait(mr_throttle *throttle, bool opens, size_t bytes) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    int64_t due = mr_throttle_due(throttle, at, opens, bytes);
    const struct timespec moment = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
    while (due > at && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR) {
    }
}
