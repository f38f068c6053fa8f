/* SPDX-License-Identifier: Apache-2.0 */
/* read_files - how fast pieces of files come, by pread in so many threads: what a disk gives to who
 * asks early enough.
 *
 *     read_files BYTES PIECES THREADS FILE...
 *
 * Pieces of BYTES, PIECES in all, each at a place of its own, scattered over all files: what was
 * read before is in the page cache, and says nothing about the disk. Prints pieces a second. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct reading {
    int *files;
    long *sizes;
    int n_files;
    size_t bytes;
    long pieces;
    _Atomic long next;
    atomic_bool failed;
} reading;

static long places_of(const reading *r, int file) {
    return r->sizes[file] / (long)r->bytes;
}

/* A prime number of steps from place to place, more than there are, comes to each once. */
static bool read_piece(reading *r, long piece, char *memory) {
    const long step = 2654435761;
    long all = 0;
    for (int i = 0; i < r->n_files; i++) {
        all += places_of(r, i);
    }
    long place = all > 0 ? piece * step % all : 0;
    int file = 0;
    while (file < r->n_files - 1 && place >= places_of(r, file)) {
        place -= places_of(r, file++);
    }
    return pread(r->files[file], memory, r->bytes, place * (long)r->bytes) > 0;
}

static void *work(void *state) {
    reading *r = state;
    char *memory = malloc(r->bytes);
    for (long piece; memory && (piece = atomic_fetch_add(&r->next, 1)) < r->pieces;) {
        if (!read_piece(r, piece, memory)) {
            atomic_store(&r->failed, true);
        }
    }
    free(memory);
    return NULL;
}

static bool open_all(reading *r, char **paths) {
    r->files = calloc((size_t)r->n_files, sizeof *r->files);
    r->sizes = calloc((size_t)r->n_files, sizeof *r->sizes);
    for (int i = 0; r->files && r->sizes && i < r->n_files; i++) {
        struct stat info;
        r->files[i] = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (r->files[i] < 0 || fstat(r->files[i], &info) != 0) {
            return false;
        }
        (void)posix_fadvise(r->files[i], 0, 0, POSIX_FADV_RANDOM);
        r->sizes[i] = (long)info.st_size;
    }
    return r->files && r->sizes;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    enum { MOST = 256 };
    pthread_t threads[MOST];
    if (argc < 5) {
        fprintf(stderr, "usage: read_files BYTES PIECES THREADS FILE...\n");
        return 2;
    }
    reading r = {.bytes = strtoul(argv[1], NULL, 10),
                 .pieces = strtol(argv[2], NULL, 10),
                 .n_files = argc - 4};
    int n = atoi(argv[3]);
    if (n < 1 || n > MOST || !open_all(&r, argv + 4)) {
        return 1;
    }
    double begun = now();
    for (int i = 0; i < n; i++) {
        if (pthread_create(&threads[i], NULL, work, &r) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%.1f\n", (double)r.pieces / (now() - begun));
    return atomic_load(&r.failed) ? 1 : 0;
}
