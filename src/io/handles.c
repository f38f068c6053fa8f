/* SPDX-License-Identifier: Apache-2.0 */
/* handles.c - see handles.h. */
#include "io/handles.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/memory.h"
#include <millrace/millrace.h>

/* A quarter of the files that a process may have open. */
enum { LEAST_PLACES = 64, MOST_PLACES = 4096 };

typedef struct place {
    int32_t object; /* 0: empty */
    int fd;
    int32_t readers;
    int64_t file_size;
} place;

struct mr_handles {
    atomic_flag busy; /* held for a few instructions, and never while something is waited for */
    uint32_t n_places;
    place places[];
};

static uint32_t choose_places(void) {
    struct rlimit limit;
    rlim_t places = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 4 : 0;
    return places < LEAST_PLACES  ? LEAST_PLACES
           : places > MOST_PLACES ? MOST_PLACES
                                  : (uint32_t)places;
}

mr_handles *mr_handles_new(void) {
    uint32_t n = choose_places();
    mr_handles *handles = mr_zalloc(1, sizeof *handles + n * sizeof(place));
    if (handles) {
        handles->n_places = n;
    }
    return handles;
}

void mr_handles_free(mr_handles *handles) {
    for (uint32_t i = 0; handles && i < handles->n_places; i++) {
        if (handles->places[i].object) {
            close(handles->places[i].fd);
        }
    }
    mr_free(handles);
}

static void lock(mr_handles *handles) {
    while (atomic_flag_test_and_set_explicit(&handles->busy, memory_order_acquire)) {
    }
}

static void unlock(mr_handles *handles) {
    atomic_flag_clear_explicit(&handles->busy, memory_order_release);
}

static place *place_of(mr_handles *handles, int32_t object) {
    return &handles->places[(uint32_t)object % handles->n_places];
}

int mr_handles_take(mr_handles *handles, int32_t object, int64_t *file_size) {
    place *at = place_of(handles, object);
    int fd = -1;
    lock(handles);
    if (at->object == object) {
        at->readers++;
        fd = at->fd;
        *file_size = at->file_size;
    }
    unlock(handles);
    return fd;
}

void mr_handles_give(mr_handles *handles, int32_t object, int fd) {
    place *at = place_of(handles, object);
    lock(handles);
    if (at->object == object && at->fd == fd) {
        at->readers--;
    }
    unlock(handles);
}

bool mr_handles_offer(mr_handles *handles, int32_t object, int fd, int64_t file_size) {
    place *at = place_of(handles, object);
    lock(handles);
    bool room = at->object == 0 || (at->readers == 0 && at->object != object);
    int old = room && at->object ? at->fd : -1;
    if (room) {
        *at = (place){.object = object, .fd = fd, .readers = 1, .file_size = file_size};
    }
    unlock(handles);
    if (old >= 0) {
        close(old);
    }
    return room;
}
