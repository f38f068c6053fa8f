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

/* Pieces of one kind that were taken from malloc together: piece by piece its heap would grow by a
 * system call each. */
struct mr_held_slab {
    mr_held_pool *pool;
    mr_held_slab *next, *before; /* of the kind that have pieces nobody uses */
    mr_held *unused;
    uint32_t kind, n, out; /* pieces, and those in use */
};

enum { SLAB = 512 << 10, HEAD = 64 };
_Static_assert(sizeof(mr_held_slab) <= HEAD, "pieces begin behind it");

struct mr_held_pool {
    _Atomic(mr_held *) returned; /* by whoever let it go, last first */
    mr_held_slab *slabs[KINDS];  /* that have pieces nobody uses */
    size_t bytes, most;          /* of those pieces */
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

static void link_slab(mr_held_pool *pool, mr_held_slab *slab) {
    slab->before = NULL;
    slab->next = pool->slabs[slab->kind];
    if (slab->next) {
        slab->next->before = slab;
    }
    pool->slabs[slab->kind] = slab;
}

static void unlink_slab(mr_held_pool *pool, mr_held_slab *slab) {
    if (slab->before) {
        slab->before->next = slab->next;
    } else {
        pool->slabs[slab->kind] = slab->next;
    }
    if (slab->next) {
        slab->next->before = slab->before;
    }
}

static mr_held_slab *new_slab(mr_held_pool *pool, uint32_t kind) {
    size_t room = room_of(kind), n = room < SLAB ? SLAB / room : 1;
    mr_held_slab *slab = malloc(HEAD + n * room);
    if (!slab) {
        return NULL;
    }
    *slab = (mr_held_slab){.pool = pool, .kind = kind, .n = (uint32_t)n};
    for (size_t i = n; i-- > 0;) {
        mr_held *held = (mr_held *)(void *)((char *)slab + HEAD + i * room);
        held->slab = slab;
        held->next = slab->unused;
        slab->unused = held;
    }
    pool->bytes += n * room;
    link_slab(pool, slab);
    return slab;
}

static void free_slab(mr_held_pool *pool, mr_held_slab *slab) {
    unlink_slab(pool, slab);
    pool->bytes -= slab->n * room_of(slab->kind);
    free(slab);
}

/* What came back since goes to its slab; one that nobody uses goes where there is too much. */
static void collect(mr_held_pool *pool) {
    mr_held *held = atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire);
    while (held) {
        mr_held *next = held->next;
        mr_held_slab *slab = held->slab;
        if (!slab->unused) {
            link_slab(pool, slab);
        }
        held->next = slab->unused;
        slab->unused = held;
        slab->out--;
        pool->bytes += room_of(slab->kind);
        if (slab->out == 0 && pool->bytes > pool->most) {
            free_slab(pool, slab);
        }
        held = next;
    }
}

static void free_all(mr_held_slab *slab) {
    while (slab) {
        mr_held_slab *next = slab->next;
        free(slab);
        slab = next;
    }
}

void mr_held_pool_free(mr_held_pool *pool) {
    if (pool) {
        collect(pool);
        for (int i = 0; i < KINDS; i++) {
            free_all(pool->slabs[i]);
        }
        mr_free(pool);
    }
}

static mr_held *take(mr_held_pool *pool, uint32_t kind) {
    if (!pool->slabs[kind]) {
        collect(pool);
    }
    mr_held_slab *slab = pool->slabs[kind] ? pool->slabs[kind] : new_slab(pool, kind);
    mr_held *held = slab ? slab->unused : NULL;
    if (!held) {
        return NULL;
    }
    slab->unused = held->next;
    slab->out++;
    pool->bytes -= room_of(kind);
    if (!slab->unused) {
        unlink_slab(pool, slab);
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
    size_t room;
    uint32_t kind = pool ? kind_of(bytes, &room) : KINDS;
    mr_held *held = kind < KINDS ? take(pool, kind) : malloc(bytes);
    if (held && kind == KINDS) {
        held->slab = NULL;
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
    held->is_afar = held->is_made = false;
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
        if (held->slab) {
            give_back(held->slab->pool, held);
        } else {
            free(held);
        }
    }
}
