/* SPDX-License-Identifier: Apache-2.0 */
/* drain.h - the thread that carries spans and probes from the tracks' rings to the trace file.
 *
 * A disk that is full or fails ends the trace, not the run: spans are then thrown away, and the
 * loader says so. */
#ifndef MR_RUN_DRAIN_H
#define MR_RUN_DRAIN_H

#include <millrace/millrace.h>

#include "span/track.h"

typedef struct mr_drain mr_drain;

/* Creates the file, writes `header` (a JSON object) and starts the thread. All tracks are there. */
mr_status mr_drain_open(mr_drain **out, const char *path, mr_tracks *tracks, const char *header,
                        mr_error *err);

/* After the threads that record have ended: carries the rest, ends the thread. NULL allowed. */
void mr_drain_finish(mr_drain *drain);

/* The samples that took longest, as far as the trace goes, longest first. After mr_drain_finish. */
enum { MR_SLOWEST = 100 };
typedef struct mr_slow_sample {
    uint64_t duration; /* nanoseconds */
    int64_t sample;
    uint32_t batch;
} mr_slow_sample;
int32_t mr_drain_slowest(mr_drain *drain, const mr_slow_sample **out);

/* The addresses of all probes but `no_room_for`, ascending, each once. After mr_drain_finish, which
 * is the last to add to them. */
size_t mr_drain_addresses(mr_drain *drain, const uint64_t **out, int64_t *no_room_for);

/* Writes the last chunk, a JSON object, then closes and frees. NULL allowed for both. */
void mr_drain_close(mr_drain *drain, const char *end);

/* Any thread, while it is open. */
void mr_drain_status(const mr_drain *drain, mr_trace_status *out);

#endif
