/* SPDX-License-Identifier: Apache-2.0 */
/* far_pace.c - see far_pace.h. */
#include "io/far_pace.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_WIDTH = 32, LEAST_WIDTH = 2, REST = 16, REST_WHEN_BUSY = 4 };
static const double step = 1.5, gain = 1.05;

/* ---- Width ---- */
static void set_width(mr_far_pace *pace, double width) {
    pace->width = width < LEAST_WIDTH            ? LEAST_WIDTH
                  : width > MR_FAR_MOST_REQUESTS ? MR_FAR_MOST_REQUESTS
                                                 : width;
}

static void begin_trial(mr_far_pace *pace, int64_t now) {
    pace->trial_began = now;
    pace->trial_bytes = 0;
    pace->trial_done = 0;
    pace->was_full = true;
}

/* Where the width cannot go on, the other direction is the next to be tried. */
static void try_next(mr_far_pace *pace) {
    pace->before = pace->width;
    double by = pace->doubles ? 2 : step;
    set_width(pace, pace->upwards ? pace->width * by : pace->width / by);
    pace->trying = pace->width != pace->before;
    if (!pace->trying) {
        pace->doubles = false;
        pace->upwards = !pace->upwards;
        pace->rest = REST;
    }
}

static void give_up(mr_far_pace *pace) {
    pace->width = pace->before;
    pace->narrowed += pace->upwards;
    pace->upwards = !pace->upwards;
    pace->trying = pace->doubles = false;
    pace->rest = REST;
}

/* Of a trial in which tasks were always waiting. */
static void judge_trial(mr_far_pace *pace, double rate) {
    if (pace->rest > 0) {
        pace->rest--;
    } else if (pace->trying && rate <= gain * pace->rate) {
        give_up(pace);
    } else {
        pace->rate = rate;
        try_next(pace);
    }
}

static void end_trial(mr_far_pace *pace, int64_t now) {
    double seconds = (double)(now - pace->trial_began) * 1e-9;
    if (pace->was_full) {
        judge_trial(pace, (double)pace->trial_bytes / (seconds > 0 ? seconds : 1e-9));
    }
    begin_trial(pace, now);
}

void mr_far_pace_begin(mr_far_pace *pace, int64_t now) {
    *pace = (mr_far_pace){.width = FIRST_WIDTH, .upwards = true, .doubles = true, .slow_at = -1};
    begin_trial(pace, now);
}

void mr_far_pace_done(mr_far_pace *pace, size_t bytes, double first_byte, bool waiting,
                      int64_t now) {
    pace->trial_bytes += (int64_t)bytes;
    pace->times[pace->n_times++ % MR_FAR_TIMES] = first_byte;
    pace->was_full = pace->was_full && waiting;
    if (++pace->trial_done >= 2 * (int32_t)pace->width) {
        end_trial(pace, now);
    }
}

void mr_far_pace_busy(mr_far_pace *pace, int64_t now) {
    set_width(pace, pace->width / 2);
    pace->trying = pace->doubles = false;
    pace->upwards = true;
    pace->rest = REST_WHEN_BUSY;
    begin_trial(pace, now);
}

/* ---- Slow requests ---- */
static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A request that is only a little slower than most would come soon anyway, and a second one would
 * cost the server as much as the first. */
static double slow_of(const mr_far_pace *pace) {
    enum { ENOUGH = 32 };
    const double floor = 0.02, unknown = 5;
    double sorted[MR_FAR_TIMES];
    int32_t n = pace->n_times < MR_FAR_TIMES ? pace->n_times : MR_FAR_TIMES;
    if (n < ENOUGH) {
        return unknown;
    }
    memcpy(sorted, pace->times, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_times);
    double time = sorted[n - 1 - n / 100], half = 2 * sorted[n / 2];
    time = time > half ? time : half;
    return time > floor ? time : floor;
}

double mr_far_pace_slow(mr_far_pace *pace) {
    enum { EVERY = 64 }; /* requests after which it is worth looking again */
    if (pace->slow_at < 0 || pace->n_times - pace->slow_at >= EVERY) {
        pace->slow = slow_of(pace);
        pace->slow_at = pace->n_times;
    }
    return pace->slow;
}
