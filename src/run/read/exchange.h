/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - what a run takes from a fabric and gives to it (millrace/fabric.h): what others have
 * is asked for before it is read, and what was read or made here is offered to them.
 *
 * Two threads, each with connections of its own: one asks, for many loads at once and in plan
 * order, the other offers, so that what is slow to go out holds up nothing that comes in. A fabric
 * that is gone, slow or full is "not here" within its timeout, and later without any wait until it
 * is back; offers that it does not take are dropped.
 *
 * What travels: the bytes of a block as its files have them; or, of a sample that is a block, the
 * sample as it is at its pipeline's last cache op, where that is smaller. Names are made of what
 * all machines see alike of a file (mr_extent_identity_abroad). */
#ifndef MR_RUN_EXCHANGE_H
#define MR_RUN_EXCHANGE_H

#include <millrace/fabric.h>

#include "plan/share_document.h"
#include "run/child.h"
#include "run/read/origin.h"
#include "span/track.h"

typedef struct mr_exchange mr_exchange;

typedef struct mr_exchange_config {
    const char *url;
    const mr_children *children; /* open, with their caches, until the exchange is closed */
    mr_travel travel;
    mr_track *asks, *offers; /* of the two threads; open as long */
} mr_exchange_config;

mr_status mr_exchange_open(mr_exchange **out, const mr_exchange_config *config, mr_error *err);
void mr_exchange_close(mr_exchange *exchange); /* NULL allowed */

/* When nobody asks or offers any more: what was offered goes out, and the threads end. */
void mr_exchange_end(mr_exchange *exchange);

/* Waits until what was offered is sent or dropped. */
void mr_exchange_flush(mr_exchange *exchange);

/* The state is the exchange. */
extern const mr_origin_class mr_fabric_origin;

/* Offers bytes under a name: a copy that is the exchange's from now on (malloc). What they were
 * read from is looked at once more before they go: a dataset's block, and the name that it had. */
typedef struct mr_goods {
    unsigned char key[MR_KEY_BYTES];
    void *value;
    size_t size;
    const mr_dataset *dataset;
    int64_t block;
    mr_identity abroad;
} mr_goods;

bool mr_exchange_has_room(mr_exchange *exchange, size_t size);
void mr_exchange_offer(mr_exchange *exchange, const mr_goods *goods);
void mr_exchange_offer_bytes(mr_exchange *exchange, const mr_dataset *dataset,
                             const mr_block *block, const mr_identity *abroad);

/* What names the bytes of extents for all machines, and the cache op at which a dataset's samples
 * travel: the last; NULL: their bytes alone do. Samples that lie many in a block travel in it;
 * their cache is this machine's. */
void mr_exchange_name(const mr_extent *extents, int32_t n, mr_identity *abroad);
const mr_op_node *mr_exchange_cache(const mr_children *children, const mr_dataset *dataset,
                                    mr_travel travel);
mr_travel mr_exchange_travel(const mr_exchange *exchange);

/* ---- exchange_sample.c: samples at a cache op, for recall.c ---- */
/* What names a sample at a cache op for all machines. */
mr_store_key mr_exchange_key(const mr_dataset *dataset, const mr_op_node *cache,
                             const mr_identity *abroad, int64_t sample);

/* A sample was made here: offers it, or the bytes that it was made of, whichever are fewer. */
typedef struct mr_made_sample {
    const mr_dataset *dataset;
    const mr_cache *cache;
    const mr_identity *abroad; /* of its block */
    int64_t sample;
    const mr_block *block;
    const mr_view *values; /* that the cache keeps */
} mr_made_sample;

void mr_exchange_offer_sample(mr_exchange *exchange, const mr_made_sample *made);

/* ---- Figures ---- */
/* At most so many bytes wait to be sent. About half as many are on their way in. */
#define MR_EXCHANGE_BYTES 64000000

typedef struct mr_exchange_counts {
    mr_fabric_stats asking, offering;
    int64_t samples; /* that came as they are at the cache op */
    int64_t dropped; /* offers, for want of room */
} mr_exchange_counts;

void mr_exchange_counts_get(mr_exchange *exchange, mr_exchange_counts *out);

/* What is wrong with the fabric, for people, once; false: nothing, or it was said. */
bool mr_exchange_trouble(mr_exchange *exchange, char *text, size_t size);

#endif
