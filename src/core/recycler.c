/* SPDX-License-Identifier: Apache-2.0 */
/* recycler.c - see recycler.h. Sizes are rounded up to one of eight steps between powers of two, so
 * that pieces of nearly one size replace each other; idle pieces of a size are a list in
 * themselves. */
#include "core/recycler.h"

#include <millrace/millrace.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory.h"

enum { STEPS = 8, SIZES = 64 * STEPS };

typedef struct idle_piece {
    struct idle_piece *next;
} idle_piece;

struct mr_recycler {
    mr_allocator allocator;
    atomic_int references;
    pid_t owner;      /* a forked child has the lock as a thread of the parent may have held it */
    atomic_flag busy; /* held for a few instructions */
    idle_piece *idle[SIZES];
    size_t in_use, most_in_use, idle_bytes;
    size_t most_lately, taken; /* see note_use */
};

static void lock(struct mr_recycler *recycler) {
    while (atomic_flag_test_and_set_explicit(&recycler->busy, memory_order_acquire)) {
    }
}

static void unlock(struct mr_recycler *recycler) {
    atomic_flag_clear_explicit(&recycler->busy, memory_order_release);
}

/* The size with a number among the steps. */
static size_t size_of(int number) {
    size_t power = (size_t)1 << number / STEPS;
    return power + power / STEPS * (size_t)(number % STEPS);
}

/* The number of the least size that is enough. */
static int number_of(size_t size) {
    size = size < 4096 ? 4096 : size;
    int power = 63 - __builtin_clzll(size);
    size_t step = ((size_t)1 << power) / STEPS;
    size_t steps = (size - ((size_t)1 << power) + step - 1) / step;
    return power * STEPS + (int)steps; /* STEPS steps are the next power's first */
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The most in use is that of late: since as much was taken as that, some times over. So what
 * somebody kept once is not held for ever. */
static void note_use(mr_recycler *recycler, size_t size) {
    enum { TIMES = 4 };
    recycler->in_use += size;
    recycler->taken += size;
    recycler->most_lately = larger(recycler->most_lately, recycler->in_use);
    recycler->most_in_use = larger(recycler->most_in_use, recycler->in_use);
    if (recycler->taken / TIMES > recycler->most_in_use) {
        recycler->most_in_use = recycler->most_lately;
        recycler->most_lately = recycler->in_use;
        recycler->taken = 0;
    }
}

/* Idle pieces that would be more than it may hold; with the lock held. The smallest first, so that
 * no more goes than has to: all of a piece that comes anew is cleared by the kernel. */
static idle_piece *surplus(mr_recycler *recycler) {
    idle_piece *taken = NULL;
    for (int i = 0; i < SIZES && recycler->in_use + recycler->idle_bytes > recycler->most_in_use;
         i++) {
        while (recycler->idle[i] &&
               recycler->in_use + recycler->idle_bytes > recycler->most_in_use) {
            idle_piece *piece = recycler->idle[i];
            recycler->idle[i] = piece->next;
            recycler->idle_bytes -= size_of(i);
            piece->next = taken;
            taken = piece;
        }
    }
    return taken;
}

static void release_all(idle_piece *piece) {
    while (piece) {
        idle_piece *next = piece->next;
        mr_default_allocator.release(NULL, piece, 0);
        piece = next;
    }
}

/* Rows are taken from it in any order: huge pages save a miss of the address cache for each. */
static void *take_fresh(size_t size, size_t align) {
    enum { HUGE_PAGE = 2 << 20 };
    bool large = size >= HUGE_PAGE;
    void *memory = mr_default_allocator.alloc(NULL, size, large ? HUGE_PAGE : align);
    if (memory && large) {
        (void)madvise(memory, size, MADV_HUGEPAGE); /* advice: not taken, nothing is lost */
    }
    return memory;
}

static void *recycler_alloc(void *user, size_t size, size_t align) {
    mr_recycler *recycler = user;
    if (size > SIZE_MAX / 4) {
        return NULL;
    }
    int number = number_of(size);
    size_t rounded = size_of(number);
    lock(recycler);
    idle_piece *piece = recycler->idle[number];
    if (piece) {
        recycler->idle[number] = piece->next;
        recycler->idle_bytes -= rounded;
    }
    note_use(recycler, rounded);
    idle_piece *others = surplus(recycler);
    unlock(recycler);
    release_all(others);
    if (!piece) {
        piece = take_fresh(rounded, align > MR_ALIGN ? align : MR_ALIGN);
    }
    if (!piece) {
        lock(recycler);
        recycler->in_use -= rounded;
        unlock(recycler);
    }
    return piece;
}

static void recycler_release(void *user, void *memory, size_t size) {
    mr_recycler *recycler = user;
    if (!memory || recycler->owner != getpid()) {
        mr_default_allocator.release(NULL, memory, size);
        return;
    }
    int number = number_of(size);
    size_t rounded = size_of(number);
    lock(recycler);
    recycler->in_use -= rounded;
    bool keep = recycler->in_use + recycler->idle_bytes + rounded <= recycler->most_in_use;
    if (keep) {
        idle_piece *piece = memory;
        piece->next = recycler->idle[number];
        recycler->idle[number] = piece;
        recycler->idle_bytes += rounded;
    }
    unlock(recycler);
    if (!keep) {
        mr_default_allocator.release(NULL, memory, rounded);
    }
}

mr_recycler *mr_recycler_new(void) {
    mr_recycler *recycler = mr_zalloc(1, sizeof *recycler);
    if (recycler) {
        atomic_init(&recycler->references, 1);
        recycler->owner = getpid();
        recycler->allocator = (mr_allocator){recycler_alloc, recycler_release, recycler};
    }
    return recycler;
}

const mr_allocator *mr_recycler_allocator(const mr_recycler *recycler) {
    return &recycler->allocator;
}

mr_recycler *mr_recycler_ref(mr_recycler *recycler) {
    atomic_fetch_add_explicit(&recycler->references, 1, memory_order_relaxed);
    return recycler;
}

void mr_recycler_unref(mr_recycler *recycler) {
    if (atomic_fetch_sub(&recycler->references, 1) == 1) {
        mr_free(recycler);
    }
}

size_t mr_recycler_idle(mr_recycler *recycler) {
    lock(recycler);
    size_t bytes = recycler->idle_bytes;
    unlock(recycler);
    return bytes;
}

void mr_recycler_close(mr_recycler *recycler) {
    if (!recycler) {
        return;
    }
    lock(recycler);
    recycler->most_in_use = 0;
    idle_piece *all = surplus(recycler);
    unlock(recycler);
    release_all(all);
    mr_recycler_unref(recycler);
}
