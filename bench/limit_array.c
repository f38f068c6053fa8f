/* SPDX-License-Identifier: Apache-2.0 */
/* limit_array - how fast rows in random order can be copied out of a mapped .npy or flat file:
 * memcpy into batches that are used again and again, the next row's first lines asked for in time,
 * nothing else. A loader that copies rows into batches and does nothing else at all would be this
 * fast.
 *
 *     limit_array FILE ROW_BYTES SECONDS THREADS [ROWS_A_BATCH]
 *
 * Prints one line of JSON. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 9, MAX_THREADS = 256, LINE = 64, HEAD = 1024 };

typedef struct bench {
    const unsigned char *rows;
    unsigned char *batches;
    size_t n, row_bytes;
    long long batch; /* rows */
    uint32_t *order;
    double seconds;
    atomic_llong next;
    struct timespec start;
} bench;

/* ---- Set-up ---- */
static bool map_file(bench *b, const char *path) {
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) != 0) {
        return false;
    }
    size_t size = (size_t)info.st_size;
    unsigned char *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (bytes == MAP_FAILED || size < 10) {
        return false;
    }
    bool npy = memcmp(bytes, "\x93NUMPY", 6) == 0; /* of version 1, which numpy writes */
    size_t header = npy ? 10 + (size_t)(bytes[8] | bytes[9] << 8) : 0;
    b->rows = bytes + header;
    b->n = header < size ? (size - header) / b->row_bytes : 0;
    return b->n > 0 && b->n < UINT32_MAX;
}

static bool shuffle(bench *b) {
    uint64_t state = 1;
    b->order = calloc(b->n, sizeof *b->order);
    b->batches = calloc((size_t)BATCHES * (size_t)b->batch, b->row_bytes);
    for (size_t i = 0; b->order && i < b->n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t j = (size_t)(state >> 33) % (i + 1);
        b->order[i] = b->order[j];
        b->order[j] = (uint32_t)i;
    }
    return b->order && b->batches;
}

/* ---- Copying ---- */
static const unsigned char *row(const bench *b, long long i) {
    return b->rows + b->order[(size_t)i % b->n] * b->row_bytes;
}

static void copy_batch(const bench *b, long long batch) {
    unsigned char *out = b->batches + (size_t)(batch % BATCHES * b->batch) * b->row_bytes;
    for (long long i = batch * b->batch; i < (batch + 1) * b->batch; i++, out += b->row_bytes) {
        const unsigned char *next = row(b, i + 1);
        for (size_t at = 0; at < HEAD && at < b->row_bytes; at += LINE) {
            __builtin_prefetch(next + at);
        }
        memcpy(out, row(b, i), b->row_bytes);
    }
}

static double elapsed(const bench *b) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - b->start.tv_sec) + (double)(now.tv_nsec - b->start.tv_nsec) * 1e-9;
}

static void *work(void *user) {
    bench *b = user;
    while (elapsed(b) < b->seconds) {
        copy_batch(b, atomic_fetch_add(&b->next, 1));
    }
    return NULL;
}

static void run(bench *b, int n_threads) {
    pthread_t threads[MAX_THREADS];
    int started = 0;
    clock_gettime(CLOCK_MONOTONIC, &b->start);
    while (started < n_threads && pthread_create(&threads[started], NULL, work, b) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(int argc, char **argv) {
    bench b = {0};
    int n_threads = argc >= 5 ? atoi(argv[4]) : 0;
    b.row_bytes = argc >= 5 ? (size_t)atoll(argv[2]) : 0;
    b.batch = argc == 6 ? atoll(argv[5]) : 128;
    if (n_threads < 1 || n_threads > MAX_THREADS || b.row_bytes == 0 || b.batch < 1) {
        fprintf(stderr, "usage: limit_array FILE ROW_BYTES SECONDS THREADS [ROWS_A_BATCH]\n");
        return 2;
    }
    b.seconds = atof(argv[3]);
    if (!map_file(&b, argv[1]) || !shuffle(&b)) {
        fprintf(stderr, "limit_array: cannot read %s\n", argv[1]);
        return 1;
    }
    run(&b, n_threads);
    double samples = (double)(atomic_load(&b.next) * b.batch);
    printf("{\"samples_per_second\": %.3f, \"samples\": %.0f}\n", samples / elapsed(&b), samples);
    free(b.order);
    free(b.batches);
    return 0;
}
