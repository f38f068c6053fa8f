/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h - entries of a stream that have arrived and wait for their step.
 *
 * One thread asks the source for what comes next of each partition and copies it here, in the
 * order of numbers; a number that is missing has a place of its own. Nothing is read further ahead
 * than a number of bytes, except what the next steps need: a partition that is fast waits for one
 * that is slow, and the stream keeps the rest. Where there is a spill (spill.h), the rest goes
 * there as long as it fits. Where ranks read for each other (relay.h), entries of their partitions
 * are here without their bytes (mr_held.is_afar). */
#ifndef MR_RUN_FEED_H
#define MR_RUN_FEED_H

#include <time.h>

#include "plan/merge.h"
#include "run/read/dataset.h"
#include "run/stream/held.h"
#include "run/stream/relay.h"
#include "run/stream/spill.h"

#define MR_FEED_UNUSED ((size_t)16 << 20) /* bytes of memory that wait for entries, at most */

typedef struct mr_feed mr_feed;

typedef struct mr_feed_config {
    const mr_dataset *dataset;
    mr_merge merge;
    int32_t first_partition, end_partition; /* that steps wait for */
    int64_t position;                       /* the first sample wanted */
    int64_t end;                            /* no sample from here on is read */
    int64_t least;                          /* samples that may always be waiting */
    int64_t bytes;                          /* beyond that, as long as so many do not wait */
    mr_spill *spill;                        /* where the rest waits; NULL: in the stream */
    mr_relay *ranks;                        /* who tell when something came; NULL: none */
    const mr_log *log; /* told of the source's news by who waits; may be NULL */
    mr_relay *relay;   /* ranks that read the other partitions; NULL: all are read here */
} mr_feed_config;

/* mr_feed_close is due even if opening failed. */
mr_status mr_feed_open(mr_feed **out, const mr_feed_config *config, mr_error *err);
void mr_feed_stop(mr_feed *feed);  /* any thread: nobody waits any more */
void mr_feed_end(mr_feed *feed);   /* its thread ends, and tells other ranks nothing more */
void mr_feed_close(mr_feed *feed); /* NULL allowed. After the last entry that was taken is let go */

/* The first sample that is not there: all before it are, of the partitions that are read. */
int64_t mr_feed_reach(mr_feed *feed);

/* Takes samples from `first` on, which are there, into out[0..count); those of partitions that are
 * not read are NULL. Each is the caller's to release. */
void mr_feed_take(mr_feed *feed, int64_t first, int64_t count, mr_held **out);

/* Looks at samples that are there, from `first` on, until the visitor has seen enough (false) or
 * `end` is reached; how many it looked at. */
typedef bool mr_feed_visit(void *user, int64_t sample, const mr_held *held);
int64_t mr_feed_look(mr_feed *feed, int64_t first, int64_t end, mr_feed_visit *visit, void *user);

/* Samples before this one were delivered, or a state was saved there. What was spilled stays as
 * long as a run may go on from it: from the state before the last, which is the last that somebody
 * has for certain; where there is none, from the beginning, which only the stream has. */
void mr_feed_delivered(mr_feed *feed, int64_t sample);
void mr_feed_saved(mr_feed *feed, int64_t sample);

/* MR_OK: sample `before` may be there now, ask; MR_LATER: the moment of CLOCK_MONOTONIC (NULL:
 * none) has come; MR_E_CANCELLED; or why nothing comes any more. */
mr_status mr_feed_wait(mr_feed *feed, int64_t before, const struct timespec *moment, mr_error *err);

typedef struct mr_feed_counts {
    int64_t entries, bytes; /* that came */
    int64_t missing;        /* numbers that did not */
    int64_t waiting;        /* entries now */
    int64_t newest;         /* time of the newest entry; 0: none came */
    int64_t spilled;        /* entries that were spilled */
    int64_t spill_bytes;    /* of files that they take now */
} mr_feed_counts;
void mr_feed_counts_of(mr_feed *feed, mr_feed_counts *out);

/* Entries of the partitions that are read which no step has; -1: the source cannot tell. */
int64_t mr_feed_behind(mr_feed *feed);

#endif
