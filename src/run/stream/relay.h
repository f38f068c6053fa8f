/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - ranks that follow a stream together: each reads its own partitions, and the others hear
 * of what it read.
 *
 * Of every entry all ranks learn its number, label, key and time as it arrives, so that all plan
 * the same steps and have the same rehearsal buffer. The bytes stay with the rank that read them.
 * It knows from the plan which rank makes a row of which entry, and sends them there as it plans
 * the step, before anybody asks.
 *
 * Nothing that is delivered depends on it: bytes that have not come within a second, that do not
 * fit into the window of bytes under way, or that their reader has no more, are read from the
 * stream by whoever needs them; partitions of a rank that has left are read by all others. A rank
 * that dies is that over Redis, and an error over MPI, which cannot go on without it.
 *
 * What a rank tells ahead of what others have taken in is bounded, for each partition by itself:
 * there it reads no further until they say that they have (mr_relay_may_tell). So entries that
 * one partition lacks never wait behind those of another.
 *
 * One thread speaks with the others over a link (fabric/link.h), one reads what is wanted of
 * this rank and not in memory. */
#ifndef MR_RUN_RELAY_H
#define MR_RUN_RELAY_H

#include "plan/merge.h"
#include "run/read/dataset.h"
#include "run/stream/held.h"
#include "run/stream/relay_record.h"
#include "span/track.h"

typedef struct mr_relay mr_relay;

/* What all ranks must agree on. */
typedef struct mr_relay_terms {
    char pipeline[33], dataset[33]; /* fingerprints */
    int64_t seed, batch, step, position;
    int32_t remainder, zero;
} mr_relay_terms;

typedef struct mr_relay_config {
    const char *url;                  /* "mpi", "redis://HOST" */
    const struct mr_link_class *link; /* (optional) in place of the one that the URL names */
    const mr_dataset *dataset;
    mr_merge merge;
    int32_t rank, world;
    int64_t lends;            /* bytes of memory, to all other ranks together */
    mr_track *speaks, *reads; /* (optional) of the threads that speak, and read for others */
    mr_relay_terms terms;
} mr_relay_config;

/* Waits for all ranks. mr_relay_close is due even if opening failed. */
mr_status mr_relay_open(mr_relay **out, const mr_relay_config *config, mr_error *err);
void mr_relay_stop(mr_relay *relay);  /* any thread: nobody waits any more */
void mr_relay_end(mr_relay *relay);   /* other ranks are told, and the threads end */
void mr_relay_close(mr_relay *relay); /* NULL allowed */

/* Which partitions a rank reads; which rank reads one. */
int32_t mr_relay_first(const mr_relay *relay, int32_t rank);
int32_t mr_relay_reader(const mr_relay *relay, int32_t partition);
bool mr_relay_is_mine(const mr_relay *relay, int32_t partition);
bool mr_relay_is_here(mr_relay *relay, int32_t rank); /* false: it has left */

/* ---- The feed's thread ---- */
/* Somebody who is told when entries of others were told of, or more may be told to them; NULL:
 * nobody any more. */
typedef void mr_relay_wake(void *user);
void mr_relay_listen(mr_relay *relay, mr_relay_wake *wake, void *user);

/* Tells the others of an entry that was read here. mr_relay_may_tell: whether they have taken in
 * enough of what they were told of this partition, which is this rank's. */
bool mr_relay_may_tell(mr_relay *relay, int32_t partition);
void mr_relay_tell(mr_relay *relay, int32_t partition, const mr_entry *entry);

/* Gives what another rank told of, from number `number` on, until the sink takes no more; values
 * have no bytes. */
mr_status mr_relay_advance(mr_relay *relay, int32_t partition, int64_t number,
                           const mr_entry_sink *sink, mr_error *err);

/* Memory of other ranks (lent.h): gives a chunk to a rank, which takes the bytes over (false: it
 * did not); asks for it; and has it back. MR_LATER: it has not come; MR_E_NOT_FOUND: it never will.
 */
bool mr_relay_lend(mr_relay *relay, int32_t rank, int64_t id, mr_relay_bytes *bytes);
void mr_relay_ask_back(mr_relay *relay, int32_t rank, int64_t id);
mr_status mr_relay_back(mr_relay *relay, int32_t rank, int64_t id, mr_relay_bytes *out);

/* ---- The consumer ---- */
/* A rank's row is an entry of this rank's: sends its bytes. held NULL: they are read, and kept for
 * mr_relay_found where `wanted`. */
typedef struct mr_relay_row {
    int32_t rank;
    int64_t step, row, sample;
} mr_relay_row;
void mr_relay_give(mr_relay *relay, const mr_relay_row *row, const mr_held *held, bool wanted);

mr_held *mr_relay_found(mr_relay *relay, int64_t *sample);    /* the caller's; NULL: none */
void mr_relay_passed(mr_relay *relay, int64_t step);          /* steps before it are delivered */
bool mr_relay_news(mr_relay *relay, char *text, size_t size); /* what a log should say; once */

/* MR_OK, or why nothing comes any more. Any thread. */
mr_status mr_relay_failure(mr_relay *relay, mr_error *err);

/* ---- A worker ---- */
/* What the reader of an entry, row->rank, sends for a row, within so many seconds. MR_OK and *out
 * NULL: it does not, or sent something else: read it yourself. MR_LATER: it has not come yet. */
mr_status mr_relay_take(mr_relay *relay, const mr_relay_row *row, double seconds, mr_held **out,
                        mr_error *err);

typedef struct mr_relay_counts {
    int64_t told;               /* entries of others that were heard of */
    int64_t received, bytes_in; /* entries whose bytes came */
    int64_t sent, bytes_out;
    int64_t missed; /* that did not come in time, or at all */
} mr_relay_counts;
void mr_relay_counts_of(mr_relay *relay, mr_relay_counts *out);

#endif
