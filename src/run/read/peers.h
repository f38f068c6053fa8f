/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - ranks that send each other what they keep, over a link (fabric/link.h).
 *
 * Every item (a sample, or a block) has a rank that owns it: see plan/locality.h. The owner reads
 * it from storage when somebody needs it for the first time, keeps it if the plan says that there
 * is room, and sends it to whoever makes a slot of it. So nothing is read twice, and in later
 * epochs nothing that is kept is read at all.
 *
 * Three origins: "memory", what this rank owns, lent where it lies; "peers", what others own; and
 * "node", what others own whose memory can be seen here, because they run on this machine: that is
 * lent where it lies, too, and no bytes of it travel (peers_node.c).
 * One thread speaks with the others, a few read what is owned here. There is no directory: an owner
 * pushes what it keeps and what the plan says another needs next (mr_peers_foresee). What has not
 * come by the time that the other plans it is asked for, many items in a message.
 *
 * A peer that has closed its loader is "not here" from then on. One that has died is an error that
 * names it: a run by MPI cannot go on without it. What comes from a peer is checked as if it came
 * from a stranger. */
#ifndef MR_RUN_PEERS_H
#define MR_RUN_PEERS_H

#include "plan/locality.h"
#include "run/child.h"
#include "run/read/origin.h"
#include "span/track.h"

typedef struct mr_peers mr_peers;

/* What all ranks must agree on. */
typedef struct mr_peers_terms {
    char pipeline[33], dataset[33]; /* fingerprints */
    int64_t seed, batch, epochs, first_epoch, first_position;
    mr_share_terms share;
    int32_t remainder;
    int32_t shuffle; /* which children are shuffled: fingerprints have the rest of it */
} mr_peers_terms;

typedef struct mr_peers_config {
    const char *url; /* "mpi", "mpi?in_flight=64000000&rate=0&timeout=60&map=1" */
    const mr_children *children;
    const mr_locality *locality;
    int32_t rank, world;
    bool foresees; /* mr_peers_foresee will be called */
    mr_peers_terms terms;
    mr_track *track;                  /* of the thread that speaks with the others */
    const struct mr_link_class *link; /* (optional) in place of the one that the URL names */
} mr_peers_config;

/* Whether a fabric's URL is one of peers. */
bool mr_peers_is_url(const char *url);

/* Waits for all ranks. */
mr_status mr_peers_open(mr_peers **out, const mr_peers_config *config, mr_error *err);

/* When nobody here asks any more: the other ranks are told, and the threads end. delivered: all
 * that the plan has for this rank; then others that still ask are served for a while. What was lent
 * stays until mr_peers_close. */
void mr_peers_end(mr_peers *peers, bool delivered);
void mr_peers_close(mr_peers *peers); /* NULL allowed */

/* The state is the peers. In this order: what lies where it can be seen is "not here" for peers,
 * at once or when its owner has read it. */
extern const mr_origin_class mr_memory_origin, mr_peer_origin, mr_node_origin;

/* A sample was made here (exchange.h): its owner keeps it as it is at the cache op in place of its
 * bytes, where the document wants that. Any thread. */
struct mr_made_sample;
void mr_peers_offer_sample(mr_peers *peers, const struct mr_made_sample *made);

/* The plan: another rank will ask for these items, in this order; those of other owners are left
 * out. What is kept here is pushed to it, within the window of bytes that it has not taken yet,
 * when nothing waits to be sent that was asked for. One thread. */
void mr_peers_foresee(mr_peers *peers, int32_t rank, const int64_t *items, int64_t n);
bool mr_peers_pushes(const mr_peers *peers); /* false: nothing need be foreseen */
bool mr_peers_pushes_to(const mr_peers *peers, int32_t rank);

/* MR_OK, or that a peer was lost. */
mr_status mr_peers_failure(mr_peers *peers, mr_error *err);

/* Who waits for whom, where it takes long; false: nobody does, or it was said. */
bool mr_peers_trouble(mr_peers *peers, char *text, size_t size);

typedef struct mr_peers_counts {
    int64_t asked, found, damaged, bytes_in; /* of others */
    int64_t sent, bytes_out;
    int64_t reads, bytes_read; /* from files, to be kept or sent */
    int64_t kept, bytes_kept;
    int64_t pushed;      /* of those found: that came before they were asked for */
    int64_t samples;     /* that came as they are at the cache op */
    int64_t letters;     /* messages that went out, of all kinds */
    int64_t again;       /* asked of another copy's rank: the first was silent, or had it not */
    int64_t wait_ns;     /* while something was asked for and nothing came */
    int32_t world, here; /* ranks; those that have not closed */
} mr_peers_counts;

void mr_peers_counts_get(mr_peers *peers, mr_peers_counts *out);

#endif
