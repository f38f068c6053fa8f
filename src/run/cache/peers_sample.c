/* SPDX-License-Identifier: Apache-2.0 */
/* peers_sample.c - samples as they are at a cache op, on their way to the rank that owns them:
 * records as the store's, under a name that means the same everywhere. */
#include <stdlib.h>

#include "run/read/exchange.h"
#include "run/read/peers_parts.h"
#include "store/record.h"

/* Bytes that may be on their way; what is made beyond them is not offered. */
enum { MOST_OFFERED = 64 << 20 };

static goods *write_record(const mr_made_sample *made, size_t room) {
    const mr_cache *cache = made->cache;
    const mr_store_key key =
        mr_exchange_key(made->dataset, cache->node, made->abroad, made->sample);
    goods *g = malloc(ROOM + room);
    if (!g) {
        return NULL;
    }
    *g = (goods){.references = 1, .form = RECORD};
    if (mr_record_write(&key, made->values, cache->node->n_inputs, cache->packing,
                        mr_goods_bytes(g), &g->size, NULL) < 0) {
        free(g);
        return NULL;
    }
    g->hash = mr_hash(mr_goods_bytes(g), g->size);
    return g;
}

static void send_to_owner(mr_peers *x, int64_t item, int32_t owner, goods *g) {
    pthread_mutex_lock(&x->lock);
    if (!x->stopping && !x->failed && x->offered + (int64_t)g->size <= MOST_OFFERED) {
        mr_letters_post_goods(x, owner, KEEP, item, g);
    }
    pthread_mutex_unlock(&x->lock);
}

/* What a record takes unpacked is what counts; packed it takes less. */
void mr_peers_offer_sample(mr_peers *x, const mr_made_sample *made) {
    int64_t item = mr_locality_item(x->config.locality, made->dataset->number, made->block->number);
    int32_t owner = mr_locality_owner(x->config.locality, item);
    size_t room = mr_record_room(made->values, made->cache->node->n_inputs, made->cache->packing);
    goods *g = mr_peers_wants_record(x, item, room, mr_block_bytes(made->block))
                   ? write_record(made, room)
                   : NULL;
    if (g && owner == x->config.rank) {
        mr_peers_keep_record(x, item, g);
    } else if (g) {
        send_to_owner(x, item, owner, g);
    }
    mr_goods_release(g);
}
