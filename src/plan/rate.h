/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h - what a step takes from a stream that is slower or faster than training.
 *
 * A stream's rate cannot be known beforehand, so what is decided by the clock is written down: a
 * decision that does not follow from the document is an entry of the journal, and with the journal
 * the same decisions are made again without a clock. Pure: times and counts are arguments.
 *
 * A step has `batch` new samples and `replay` old ones. It goes over entries from the cursor on:
 * `drop` are left out, then those that `keep` does not choose, until `take` are chosen. Limits of
 * samples per insert change both numbers. */
#ifndef MR_PLAN_RATE_H
#define MR_PLAN_RATE_H

#include <millrace/types.h>

typedef enum mr_late {
    MR_LATE_WAIT, /* until there is enough */
    MR_LATE_FILL  /* after `patience`, old samples take the places of new ones */
} mr_late;

typedef enum mr_early {
    MR_EARLY_HOLD,       /* nothing is read beyond `most_waiting`: the stream keeps it */
    MR_EARLY_SPILL,      /* likewise, but beyond that it is written to a folder */
    MR_EARLY_THIN,       /* samples are chosen by a hash of their keys, at a rate that adapts */
    MR_EARLY_DROP_OLDEST /* what waits beyond `most_waiting` is left out */
} mr_early;

#define MR_KEEP_ALL 65536u

typedef struct mr_rate_options {
    mr_late late;
    mr_early early;
    int64_t batch, replay;
    int64_t patience;     /* nanoseconds */
    int64_t most_waiting; /* entries, at least `batch` */
    uint32_t least_kept;  /* of MR_KEEP_ALL; at least 1 */
    uint64_t seed;        /* of the choice */
} mr_rate_options;

typedef struct mr_rate_decision {
    int64_t step;
    int64_t take, replay; /* samples */
    int64_t drop;         /* entries left out, the oldest */
    uint32_t keep;        /* of MR_KEEP_ALL, for this step's entries */
} mr_rate_decision;

/* ---- Samples per insert ----
 * As Reverb's rate limiter, by counts alone: where inserts are ahead, steps have fewer new samples
 * and more old ones; where samples are, they have no old ones. */
typedef struct mr_rate_limit {
    double samples_per_insert;
    double least, most; /* of inserts x samples_per_insert - samples */
    int64_t least_size; /* before which nothing is sampled */
    int64_t inserts, samples;
    int64_t size; /* of the buffer */
} mr_rate_limit;  /* a zeroed one is no limit */

/* samples_per_insert x least_size, give or take `slack`. */
mr_status mr_rate_limit_start(mr_rate_limit *limit, double samples_per_insert, int64_t least_size,
                              double slack, mr_error *err);

/* How many may be sampled or inserted now, up to `most`. */
int64_t mr_rate_may_sample(const mr_rate_limit *limit, int64_t most);
int64_t mr_rate_may_insert(const mr_rate_limit *limit, int64_t most);

/* ---- Steps ---- */
typedef struct mr_rate {
    mr_rate_options options;
    mr_rate_limit limit; /* its counts are those before the next step */
    int64_t step;        /* the next to be decided */
    uint32_t keep;       /* for it */
    uint32_t noted_keep; /* of the last step decided: without a word from the journal it stays */
    bool asked;          /* for this step already */
    int64_t since;       /* when it was asked first */
} mr_rate;

mr_status mr_rate_start(mr_rate *rate, const mr_rate_options *options, mr_error *err);

/* What the next step takes where the stream is neither late nor early. */
mr_rate_decision mr_rate_usual(const mr_rate *rate);

/* What can be seen when a step is wanted. */
typedef struct mr_rate_view {
    int64_t now;     /* nanoseconds, of any clock; where it jumps back, waiting begins anew */
    int64_t waiting; /* entries that are there and were not gone over yet */
    int64_t chosen;  /* those of them that rate->keep chooses */
    bool can_replay; /* there is something to replay */
} mr_rate_view;

/* MR_LATER: not yet; ask again when there is more, or at *until (INT64_MAX: time alone changes
 * nothing). `*noted`: the decision must be in the journal before it takes effect. */
mr_status mr_rate_decide(mr_rate *rate, const mr_rate_view *view, mr_rate_decision *out,
                         bool *noted, int64_t *until);

/* The same step again: `entry` is the journal's next, or NULL where there are no more. *used: it
 * was this step's. */
mr_status mr_rate_replay(mr_rate *rate, const mr_rate_decision *entry, mr_rate_decision *out,
                         bool *used, mr_error *err);

/* Whether a sample is chosen, by its key. A lower rate chooses among what a higher one chose. */
bool mr_rate_chooses(const mr_rate *rate, uint32_t keep, const void *key, size_t size);

/* Whether the clock has a say in what steps take. */
bool mr_rate_is_by_the_clock(const mr_rate_options *options);

/* A decision as bytes of a journal. MR_E_CORRUPT: it is none. */
#define MR_RATE_ENTRY_BYTES 40u
void mr_rate_entry_save(const mr_rate_decision *decision, unsigned char out[MR_RATE_ENTRY_BYTES]);
mr_status mr_rate_entry_load(mr_rate_decision *decision, const void *bytes, size_t size,
                             mr_error *err);

#endif
