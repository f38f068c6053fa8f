/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_sample.c - samples as they are at a cache op, on their way to other machines: records as
 * the store's, under a name that means the same everywhere. */
#include <stdlib.h>
#include <string.h>

#include "run/read/exchange.h"
#include "store/record.h"

/* Beside the bytes of its block and the ops up to the cache, a sample is made of what the dataset
 * says of it: the dataset's fingerprint has that. */
mr_store_key mr_exchange_key(const mr_dataset *dataset, const mr_op_node *cache,
                             const mr_identity *abroad, int64_t sample) {
    const uint64_t words[] = {abroad->words[0], abroad->words[1], (uint64_t)sample,
                              dataset->shape.fingerprint[0], dataset->shape.fingerprint[1]};
    mr_hash128 hash = mr_hash(words, sizeof words);
    const uint64_t identity[2] = {hash.low, hash.high};
    return mr_store_key_of(cache->prefix, identity);
}

static void offer_record(mr_exchange *x, const mr_made_sample *made, size_t room) {
    const mr_cache *cache = made->cache;
    mr_goods goods = {
        .dataset = made->dataset, .block = made->block->number, .abroad = *made->abroad};
    if (!mr_exchange_has_room(x, room) || !(goods.value = malloc(room))) {
        return;
    }
    const mr_store_key key =
        mr_exchange_key(made->dataset, cache->node, made->abroad, made->sample);
    memcpy(goods.key, key.bytes, sizeof goods.key);
    if (mr_record_write(&key, made->values, cache->node->n_inputs, cache->packing, goods.value,
                        &goods.size, NULL) < 0) {
        free(goods.value);
        return;
    }
    mr_exchange_offer(x, &goods);
}

/* What a record takes unpacked is what counts; packed it takes less. */
void mr_exchange_offer_sample(mr_exchange *x, const mr_made_sample *made) {
    size_t room = mr_record_room(made->values, made->cache->node->n_inputs, made->cache->packing);
    bool prepared =
        mr_exchange_travel(x) == MR_TRAVEL_PREPARED || room < mr_block_bytes(made->block);
    if (prepared && mr_exchange_travel(x) != MR_TRAVEL_RAW) {
        offer_record(x, made, room);
    } else {
        mr_exchange_offer_bytes(x, made->dataset, made->block, made->abroad);
    }
}
