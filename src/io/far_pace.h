/* SPDX-License-Identifier: Apache-2.0 */
/* far_pace.h - how many requests there are at once, and after how long one is slow. Pure: moments
 * come from the caller, in nanoseconds.
 *
 * While more tasks wait than are sent, another width is tried now and then, wider and narrower in
 * turn, for a trial of requests: one that brings a twentieth more is kept and gone on from, one
 * that does not is given up. Until one was, the width doubles. A server that says it is busy halves
 * it. */
#ifndef MR_IO_FAR_PACE_H
#define MR_IO_FAR_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_FAR_MOST_REQUESTS = 256, MR_FAR_TIMES = 256 };

typedef struct mr_far_pace {
    double width;  /* requests that there may be */
    double before; /* a trial: the width to go back to */
    double rate;   /* bytes a second at that width */
    bool trying, upwards, doubles;
    int64_t trial_began, trial_bytes;
    int32_t trial_done, rest;
    bool was_full;
    int64_t narrowed;           /* how often a wider line brought nothing */
    double times[MR_FAR_TIMES]; /* seconds to the first byte, of the last requests */
    int32_t n_times;
    double slow; /* see mr_far_pace_slow; as of `slow_at` times */
    int32_t slow_at;
} mr_far_pace;

void mr_far_pace_begin(mr_far_pace *pace, int64_t now);

/* A request brought so many bytes; waiting: there were more tasks than may be sent. */
void mr_far_pace_done(mr_far_pace *pace, size_t bytes, double first_byte, bool waiting,
                      int64_t now);
void mr_far_pace_busy(mr_far_pace *pace, int64_t now);

/* Seconds to the first byte after which a request is among the slowest hundredth; long, while too
 * few are known. */
double mr_far_pace_slow(mr_far_pace *pace);

#endif
