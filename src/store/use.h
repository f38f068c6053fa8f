/* SPDX-License-Identifier: Apache-2.0 */
/* use.h - when entries were last used, for choosing what to evict: a table of stamps in a small
 * mapped file that all processes share. A stamp is the number of the round in which somebody used
 * an entry; rounds are counted by the store, one for each epoch that any process begins. Entries
 * share stamps by hash, and updates are not ordered: a wrong stamp evicts one entry too early or
 * too late, and nothing else. */
#ifndef MR_STORE_USE_H
#define MR_STORE_USE_H

#include "store/place.h"
#include "store/record.h"

typedef struct mr_use {
    void *map; /* NULL: no table; then everything counts as never used */
    size_t size;
    uint32_t mask;
} mr_use;

void mr_use_open(mr_use *use, const mr_place *place);
void mr_use_close(mr_use *use);

uint16_t mr_use_round(const mr_use *use);
uint16_t mr_use_next_round(mr_use *use);

void mr_use_expect(const mr_use *use, const mr_store_key *key); /* will be touched soon */
uint16_t mr_use_touch(mr_use *use, const mr_store_key *key, uint16_t round); /* stamp until now */
void mr_use_clear(mr_use *use, const mr_store_key *key);
uint16_t mr_use_stamp(const mr_use *use, const mr_store_key *key); /* 0: none */
bool mr_use_is_older(uint16_t stamp, uint16_t than);               /* none is older than any */

/* Bytes of the table for a store of this size. */
int64_t mr_use_bytes(int64_t store_size);

#endif
