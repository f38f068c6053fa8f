/* SPDX-License-Identifier: Apache-2.0 */
/* held.c - see held.h. */
#include "run/stream/held.h"

#include <millrace/millrace.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"

/* Sizes of memory: eight for each power of two, up to 1 MB; what is larger is malloc's. */
enum { LEAST_BITS = 8, MOST_BITS = 20, KINDS = 8 * (MOST_BITS - LEAST_BITS) };

struct mr_held_pool {
    _Atomic(mr_held *) returned; /* by whoever let it go, last first */
    mr_held *unused[KINDS];
    size_t bytes, most;
};

/* The kind whose memory has room for `bytes`, and how much that is; KINDS: none. */
static uint32_t kind_of(size_t bytes, size_t *room) {
    size_t needed = bytes < ((size_t)1 << LEAST_BITS) ? (size_t)1 << LEAST_BITS : bytes;
    uint32_t bits = 63 - (uint32_t)__builtin_clzll(needed);
    size_t step = (size_t)1 << (bits - 3), steps = (needed + step - 1) / step;
    *room = steps * step;
    return bytes > ((size_t)1 << MOST_BITS) - step ? KINDS
                                                   : 8 * (bits - LEAST_BITS) + (uint32_t)steps - 8;
}

/* ---- The pool ---- */
mr_held_pool *mr_held_pool_new(size_t most) {
    mr_held_pool *pool = mr_zalloc(1, sizeof *pool);
    if (pool) {
        pool->most = most;
    }
    return pool;
}

static size_t room_of(uint32_t kind) {
    return ((size_t)8 + kind % 8) << (LEAST_BITS - 3 + kind / 8);
}

static void free_list(mr_held *held) {
    while (held) {
        mr_held *next = held->next;
        free(held);
        held = next;
    }
}

void mr_held_pool_free(mr_held_pool *pool) {
    if (pool) {
        free_list(atomic_load(&pool->returned));
        for (int i = 0; i < KINDS; i++) {
            free_list(pool->unused[i]);
        }
        mr_free(pool);
    }
}

/* What came back since is sorted by size; what is too much goes. */
static void collect(mr_held_pool *pool) {
    mr_held *held = atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire);
    while (held) {
        mr_held *next = held->next;
        if (pool->bytes + room_of(held->kind) > pool->most) {
            free(held);
        } else {
            pool->bytes += room_of(held->kind);
            held->next = pool->unused[held->kind];
            pool->unused[held->kind] = held;
        }
        held = next;
    }
}

static mr_held *take(mr_held_pool *pool, uint32_t kind) {
    if (!pool->unused[kind]) {
        collect(pool);
    }
    mr_held *held = pool->unused[kind];
    if (held) {
        pool->unused[kind] = held->next;
        pool->bytes -= room_of(kind);
    }
    return held;
}

static void give_back(mr_held_pool *pool, mr_held *held) {
    mr_held *first = atomic_load_explicit(&pool->returned, memory_order_relaxed);
    do {
        held->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&pool->returned, &first, held,
                                                    memory_order_release, memory_order_relaxed));
}

/* ---- Entries ---- */
static mr_held *take_memory(mr_held_pool *pool, size_t bytes) {
    size_t room = bytes;
    uint32_t kind = pool ? kind_of(bytes, &room) : KINDS;
    mr_held *held = kind < KINDS ? take(pool, kind) : NULL;
    held = held ? held : malloc(kind < KINDS ? room : bytes);
    if (held) {
        held->pool = kind < KINDS ? pool : NULL;
        held->kind = kind;
    }
    return held;
}

mr_held *mr_held_copy(const mr_entry *entry, mr_held_pool *pool) {
    size_t bytes = sizeof(mr_held) + entry->size + entry->key_size + 1;
    mr_held *held = take_memory(pool, bytes);
    if (!held) {
        return NULL;
    }
    char *value = (char *)(held + 1), *key = value + entry->size;
    held->users = 1;
    held->bytes = bytes;
    held->entry = *entry;
    if (entry->value) {
        memcpy(value, entry->value, entry->size);
        held->entry.value = value;
    }
    if (entry->key_size > 0) {
        memcpy(key, entry->key, entry->key_size);
    }
    held->entry.key = key;
    return held;
}

mr_held *mr_held_keep(mr_held *held) {
    held->users++;
    return held;
}

void mr_held_release(mr_held *held) {
    if (held && --held->users == 0) {
        if (held->pool) {
            give_back(held->pool, held);
        } else {
            free(held);
        }
    }
}
