/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - allocation: see memory.h. */
#include "core/memory.h"

#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *mr_zalloc(size_t count, size_t size) {
    return calloc(count ? count : 1, size ? size : 1);
}

void mr_free(void *memory) {
    free(memory);
}

static size_t round_up(size_t size) {
    return (size + MR_ALIGN - 1) & ~(size_t)(MR_ALIGN - 1);
}

/* A batch of images is tens of megabytes that are all written: with huge pages it is faulted in
 * with a few faults instead of tens of thousands. */
static void *default_alloc(void *user, size_t size, size_t align) {
    enum { HUGE_PAGE = 2 << 20 };
    (void)user;
    void *memory = NULL;
    bool large = size >= 4 * (size_t)HUGE_PAGE;
    if (posix_memalign(&memory, large ? HUGE_PAGE : align, size ? size : 1) != 0) {
        return NULL;
    }
    if (large) {
        (void)madvise(memory, size,
                      MADV_HUGEPAGE); /* advice: where it is not taken, nothing is lost */
    }
    return memory;
}

static void default_release(void *user, void *memory, size_t size) {
    (void)user;
    (void)size;
    free(memory);
}

const mr_allocator mr_default_allocator = {default_alloc, default_release, NULL};

/* ---- Arena ---- */
struct mr_arena_block {
    mr_arena_block *older;
    size_t capacity;
    _Alignas(MR_ALIGN) unsigned char data[];
};

static mr_arena_block *block_new(size_t capacity) {
    void *memory = NULL;
    if (posix_memalign(&memory, MR_ALIGN, sizeof(mr_arena_block) + capacity) != 0) {
        return NULL;
    }
    mr_arena_block *block = memory;
    block->older = NULL;
    block->capacity = capacity;
    return block;
}

void *mr_arena_take(mr_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    size = round_up(size ? size : 1);
    if (!arena->blocks || arena->blocks->capacity - arena->used < size) {
        mr_arena_block *block = block_new(size);
        if (!block) {
            return NULL;
        }
        block->older = arena->blocks;
        arena->blocks = block;
        arena->total += size;
        arena->used = 0;
    }
    void *piece = arena->blocks->data + arena->used;
    arena->used += size;
    return piece;
}

void mr_arena_reset(mr_arena *arena) {
    size_t total = arena->total;
    if (arena->blocks && (arena->blocks->older || total > MR_ARENA_KEEP)) {
        mr_arena_free(arena);
        arena->blocks = total <= MR_ARENA_KEEP ? block_new(total) : NULL;
        arena->total = arena->blocks ? total : 0;
    }
    arena->used = 0;
}

void mr_arena_free(mr_arena *arena) {
    while (arena->blocks) {
        mr_arena_block *older = arena->blocks->older;
        free(arena->blocks);
        arena->blocks = older;
    }
    arena->used = 0;
    arena->total = 0;
}

/* ---- Structs that the caller owns ---- */
static size_t known_to_both(const void *given, size_t own_size) {
    uint32_t size;
    memcpy(&size, given, sizeof size);
    return size < own_size ? size : own_size;
}

void mr_take_sized(void *own, size_t own_size, const void *given) {
    memset(own, 0, own_size);
    memcpy(own, given, known_to_both(given, own_size));
}

void mr_give_sized(void *given, const void *own, size_t own_size) {
    size_t known = known_to_both(given, own_size), head = sizeof(uint32_t);
    if (known > head) {
        memcpy((char *)given + head, (const char *)own + head, known - head);
    }
}
