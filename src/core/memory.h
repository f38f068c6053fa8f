/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - allocation: checked sizes, the default allocator, and the workers' scratch arena. */
#ifndef MR_CORE_MEMORY_H
#define MR_CORE_MEMORY_H

#include <millrace/types.h>

#define MR_ALIGN 64u

/* Zeroed memory, or NULL. Freed with mr_free (which is free). */
void *mr_zalloc(size_t count, size_t size);

/* The allocator used where the caller gives none. */
extern const mr_allocator mr_default_allocator;

/* Scratch memory that is taken piece by piece and given back all at once. Between samples it
 * keeps one block as large as all pieces of the largest sample so far, so that a steady state
 * allocates nothing; blocks beyond MR_ARENA_KEEP are given back. */
#define MR_ARENA_KEEP ((size_t)64 << 20)

typedef struct mr_arena_block mr_arena_block;
typedef struct mr_arena {
    mr_arena_block *blocks; /* newest first */
    size_t used;            /* in the newest block */
    size_t total;           /* capacity of all blocks */
} mr_arena;

void *mr_arena_take(mr_arena *arena, size_t size); /* 64-byte aligned, or NULL */
void mr_arena_reset(mr_arena *arena);
void mr_arena_free(mr_arena *arena); /* a zeroed arena is a valid one */

/* Structs of the interface begin with their size as the caller knows it, an uint32_t. What an older
 * caller's lacks arrives as zeros, and is not written. */
void mr_take_sized(void *own, size_t own_size, const void *given);
void mr_give_sized(void *given, const void *own, size_t own_size);

#endif
