/* SPDX-License-Identifier: Apache-2.0 */
/* throttle.h - storage that is slower than this machine's, for tests and benchmarks: one server
 * that works off requests one after the other. Opening a file takes it a time, bytes come at a
 * rate; who asks waits until his request would be done. The bytes themselves come from the real
 * files. */
#ifndef MR_IO_THROTTLE_H
#define MR_IO_THROTTLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_throttle {
    int64_t bytes_per_second; /* 0: as fast as it is */
    int64_t open_ns;
    _Atomic int64_t free_at; /* when the server has worked off what was asked; CLOCK_MONOTONIC */
} mr_throttle;

void mr_throttle_init(mr_throttle *throttle, int64_t bytes_per_second, int64_t open_ns);
bool mr_throttle_is_on(const mr_throttle *throttle);

/* When a request that is made at `now` is done. Later requests come after it. */
int64_t mr_throttle_due(mr_throttle *throttle, int64_t now, bool opens, size_t bytes);

/* Waits for one that is made now. */
void mr_throttle_wait(mr_throttle *throttle, bool opens, size_t bytes);

#endif
