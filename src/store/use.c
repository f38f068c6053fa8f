/* SPDX-License-Identifier: Apache-2.0 */
/* use.c - see use.h. */
#include "store/use.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/guard.h"

typedef struct table {
    _Atomic uint32_t round;
    _Atomic uint16_t stamps[];
} table;

int64_t mr_use_bytes(int64_t store_size) {
    return (int64_t)sizeof(table) + 2 * mr_place_stamps(store_size);
}

/* Allocated in full, so that no touch can find the disk full. */
static void *map_file(int fd, size_t size) {
    struct stat info;
    bool right = fstat(fd, &info) == 0 && (size_t)info.st_size == size;
    if (!right && (ftruncate(fd, 0) != 0 || posix_fallocate(fd, 0, (off_t)size) != 0)) {
        return NULL;
    }
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

void mr_use_open(mr_use *use, const mr_place *place) {
    uint32_t n = (uint32_t)mr_place_stamps(place->size);
    int fd =
        openat(place->dir, "use", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mr_place_mode(place));
    use->size = (size_t)mr_use_bytes(place->size);
    use->mask = n - 1;
    use->map = fd >= 0 ? map_file(fd, use->size) : NULL;
    if (fd >= 0) {
        if (place->group) {
            (void)fchmod(fd, mr_place_mode(place));
        }
        close(fd);
    }
}

void mr_use_close(mr_use *use) {
    if (use->map) {
        munmap(use->map, use->size);
    }
    *use = (mr_use){0};
}

/* ---- Guarded access: the file may lie on a failing disk like any other ---- */
typedef struct touch {
    table *table;
    uint32_t place;
    uint16_t value;
} touch;

static void do_read(void *user) {
    touch *a = user;
    a->value = atomic_load_explicit(&a->table->stamps[a->place], memory_order_relaxed);
}

static void do_write(void *user) {
    touch *a = user;
    uint16_t before = atomic_load_explicit(&a->table->stamps[a->place], memory_order_relaxed);
    if (before != a->value) {
        atomic_store_explicit(&a->table->stamps[a->place], a->value, memory_order_relaxed);
    }
    a->value = before;
}

static void do_round(void *user) {
    touch *a = user;
    a->value = (uint16_t)atomic_load_explicit(&a->table->round, memory_order_relaxed);
}

static void do_next_round(void *user) {
    touch *a = user;
    a->value = (uint16_t)(atomic_fetch_add_explicit(&a->table->round, 1, memory_order_relaxed) + 1);
}

static uint32_t place_of(const mr_use *use, const mr_store_key *key) {
    uint32_t place;
    memcpy(&place, key->bytes + MR_KEY_BYTES - sizeof place, sizeof place);
    return place & use->mask;
}

static uint16_t run_access(const mr_use *use, const mr_store_key *key, uint16_t value,
                           void (*body)(void *)) {
    touch a = {.table = use->map, .place = key ? place_of(use, key) : 0, .value = value};
    return use->map && mr_guard_call(body, &a) ? a.value : 0;
}

/* 0 means none, so rounds skip it. */
static uint16_t as_stamp(uint16_t round) {
    return round ? round : 1;
}

uint16_t mr_use_round(const mr_use *use) {
    return as_stamp(run_access(use, NULL, 0, do_round));
}

uint16_t mr_use_next_round(mr_use *use) {
    return as_stamp(run_access(use, NULL, 0, do_next_round));
}

void mr_use_expect(const mr_use *use, const mr_store_key *key) {
    const table *t = use->map;
    if (t) {
        __builtin_prefetch(&t->stamps[place_of(use, key)], 1);
    }
}

uint16_t mr_use_touch(mr_use *use, const mr_store_key *key, uint16_t round) {
    return run_access(use, key, round, do_write);
}

void mr_use_clear(mr_use *use, const mr_store_key *key) {
    run_access(use, key, 0, do_write);
}

uint16_t mr_use_stamp(const mr_use *use, const mr_store_key *key) {
    return run_access(use, key, 0, do_read);
}

/* Rounds are counted modulo 2^16. */
bool mr_use_is_older(uint16_t stamp, uint16_t than) {
    return stamp == 0 || (stamp != than && (uint16_t)(than - stamp) < 0x8000);
}
