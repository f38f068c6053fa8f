/* SPDX-License-Identifier: Apache-2.0 */
/* held.h - entries of a stream in memory, and a pool of memory for them.
 *
 * Entries come and go at the rate of the stream, made by one thread and let go by another. Memory
 * that is given back to malloc by a thread that did not take it is given back to the system sooner
 * or later, and costs a page fault for each 4 KB when it is taken again: more than copying the
 * entry does. */
#ifndef MR_RUN_HELD_H
#define MR_RUN_HELD_H

#include <millrace/stream.h>

typedef struct mr_held_pool mr_held_pool;
typedef struct mr_held_slab mr_held_slab;

/* An entry in memory. All but its making is the consumer's. */
typedef struct mr_held {
    int32_t users;
    size_t bytes;         /* of it in memory */
    mr_held_slab *slab;   /* of a pool that takes it back; NULL: malloc's */
    struct mr_held *next; /* there */
    bool is_afar;         /* another rank has its value, which is not NULL and has no bytes */
    bool is_made;         /* its value is the sample as it is at a cache (chain/enter.h) */
    mr_entry entry;       /* without a value: it is damaged or missing */
} mr_held;

/* With one user; pool NULL: malloc's. NULL: no memory. One thread at a time takes from a pool. */
mr_held *mr_held_copy(const mr_entry *entry, mr_held_pool *pool);
mr_held *mr_held_keep(mr_held *held);
void mr_held_release(mr_held *held); /* NULL allowed */

/* A pool keeps so many bytes that nobody uses. It is freed after the last of its entries. */
mr_held_pool *mr_held_pool_new(size_t most); /* NULL: no memory */
void mr_held_pool_free(mr_held_pool *pool);  /* NULL allowed */

#endif
