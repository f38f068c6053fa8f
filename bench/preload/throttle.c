/* SPDX-License-Identifier: Apache-2.0 */
/* throttle.c - slow shared storage for measurements: preloaded, it makes pread of long pieces wait,
 * so that all processes with the same file in THROTTLE_FILE together read THROTTLE_RATE bytes a
 * second. Not part of anything that is installed. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SHORT = 4096 };

static _Atomic int64_t *free_at; /* nanoseconds: when storage is free again */
static double rate;
static ssize_t (*real_pread)(int, void *, size_t, off_t);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("THROTTLE_FILE"), *text = getenv("THROTTLE_RATE");
    void *symbol = dlsym(RTLD_NEXT, "pread64");
    memcpy(&real_pread, &symbol, sizeof real_pread);
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file >= 0 && text && ftruncate(file, sizeof *free_at) == 0) {
        void *map = mmap(NULL, sizeof *free_at, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        free_at = map == MAP_FAILED ? NULL : map;
        rate = atof(text);
    }
}

static void wait_for(size_t bytes) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec, was = atomic_load(free_at), then;
    do {
        then = (was > now ? was : now) + (int64_t)((double)bytes / rate * 1e9);
    } while (!atomic_compare_exchange_weak(free_at, &was, then));
    t = (struct timespec){then / 1000000000, then % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

__attribute__((visibility("default"))) ssize_t pread64(int fd, void *data, size_t n, off_t at);
ssize_t pread64(int fd, void *data, size_t n, off_t at) {
    ssize_t got = real_pread(fd, data, n, at);
    if (free_at && got >= SHORT) {
        wait_for((size_t)got);
    }
    return got;
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void *data, size_t n, off_t at);
ssize_t pread(int fd, void *data, size_t n, off_t at) {
    return pread64(fd, data, n, at);
}
