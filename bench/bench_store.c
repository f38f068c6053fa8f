/* SPDX-License-Identifier: Apache-2.0 */
/* What the store costs.
 *
 *     bench_store                       all sizes
 *     bench_store values BYTES FOLDER   one: microseconds to bring a value into a batch, as JSON
 *     bench_store photos FOLDER STORE BEFORE AFTER EPOCHS   samples a second, epoch by epoch, as
 * JSON
 *
 * photos: BEFORE and AFTER are ops, the store is between them. auto:STORE is the document's store,
 * which finds a place itself; - is none.
 *
 * values: the same number of bytes, in random order, by memcpy from memory, by pread from a file in
 * the page cache, and out of a store; in turn, several rounds, the median. */
#include <fcntl.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "run/cache/stores.h"

enum { ROUNDS = 9, PLACES = 64, TOTAL = 128 << 20 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[n / 2];
}

/* ---- Values ---- */
typedef struct values {
    size_t bytes;
    int n;
    int *order;
    unsigned char *memory, *batch;
    int file;
    mr_store *store;
    mr_store_reader *reader;
    mr_arena arena;
} values;

static mr_store_key key_of(int i) {
    const uint64_t identity[2] = {(uint64_t)i, 1};
    return mr_store_key_of((mr_hash128){1, 2}, identity);
}

static unsigned char *place(const values *v, int i) {
    return v->batch + (size_t)(i % PLACES) * v->bytes;
}

static bool by_memcpy(values *v, int i) {
    memcpy(place(v, i), v->memory + (size_t)v->order[i] * v->bytes, v->bytes);
    return true;
}

static bool by_pread(values *v, int i) {
    return pread(v->file, place(v, i), v->bytes, (off_t)v->order[i] * (off_t)v->bytes) ==
           (ssize_t)v->bytes;
}

static bool by_store(values *v, int i) {
    mr_record record;
    mr_store_key key = key_of(v->order[i]);
    bool found = mr_store_find(v->reader, &key, &record, &v->arena) &&
                 mr_record_copy(&record.fields[0], record.unpacked, place(v, i)) == MR_OK;
    mr_store_done(v->reader);
    return found;
}

static bool by_copy_without_store(values *v, int i) {
    volatile uint64_t hash =
        mr_hash64_copy(place(v, i), v->memory + (size_t)v->order[i] * v->bytes, v->bytes);
    (void)hash;
    return true;
}

static bool put_all(values *v) {
    for (int i = 0; i < v->n; i++) {
        mr_view view = {.type = {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)v->bytes}},
                        .data = v->memory + (size_t)i * v->bytes,
                        .size = v->bytes};
        mr_store_key key = key_of(i);
        mr_store_buffer *record = mr_store_take_buffer(v->store, mr_record_room(&view, 1, 0));
        if (!record || mr_store_claim(v->store, &key) != MR_CLAIM_OURS ||
            mr_record_write(&key, &view, 1, 0, record->bytes, &record->used, NULL) < 0) {
            return false;
        }
        mr_store_put(v->store, &key, record);
    }
    return true;
}

static bool make_order(values *v) {
    v->order = malloc((size_t)v->n * sizeof *v->order);
    for (int i = 0; v->order && i < v->n; i++) {
        v->order[i] = i;
    }
    for (int i = v->n - 1; v->order && i > 0; i--) {
        int other = rand() % (i + 1), kept = v->order[i];
        v->order[i] = v->order[other];
        v->order[other] = kept;
    }
    return v->order != NULL;
}

static bool open_values(values *v, const char *folder) {
    char path[512], store[500];
    size_t total = (size_t)v->n * v->bytes;
    const mr_log silent = {NULL, NULL};
    snprintf(path, sizeof path, "%s/values", folder);
    snprintf(store, sizeof store, "%s/store", folder);
    const mr_store_params params = {.size = (int64_t)4 << 30, .path = store};
    v->memory = malloc(total);
    v->batch = aligned_alloc(4096, (PLACES * v->bytes + 4095) / 4096 * 4096);
    v->file = open(path, O_RDWR | O_CREAT, 0600);
    if (!v->memory || !v->batch || v->file < 0 || !make_order(v)) {
        return false;
    }
    for (size_t i = 0; i < total; i++) {
        v->memory[i] = (unsigned char)(i * 31 + i / 253);
    }
    memset(v->batch, 1, PLACES * v->bytes);
    if (write(v->file, v->memory, total) != (ssize_t)total ||
        mr_store_open(&v->store, &params, &silent, NULL) < 0 || !put_all(v)) {
        return false;
    }
    mr_store_close(v->store); /* so that all of it is written */
    v->reader =
        mr_store_open(&v->store, &params, &silent, NULL) < 0 ? NULL : mr_store_reader_new(v->store);
    return v->reader != NULL;
}

static double time_round(values *v, bool (*bring)(values *v, int i)) {
    double start = now();
    for (int i = 0; i < v->n; i++) {
        if (!bring(v, i)) {
            fprintf(stderr, "value %d is not there\n", v->order[i]);
            exit(1);
        }
        if (i % PLACES == 0) {
            mr_arena_reset(&v->arena);
        }
    }
    return (now() - start) * 1e6 / v->n;
}

static int measure_values(size_t bytes, const char *folder) {
    static bool (*const ways[])(values *, int) = {by_memcpy, by_pread, by_store,
                                                  by_copy_without_store};
    enum { WAYS = 4 };
    values v = {.bytes = bytes, .n = (int)(TOTAL / bytes)};
    double times[WAYS][ROUNDS];
    if (!open_values(&v, folder)) {
        fprintf(stderr, "cannot make the values in %s\n", folder);
        return 1;
    }
    for (int round = -1; round < ROUNDS; round++) {
        for (int way = 0; way < WAYS; way++) {
            double time = time_round(&v, ways[way]);
            if (round >= 0) {
                times[way][round] = time;
            }
        }
    }
    printf("{\"bytes\": %zu, \"memcpy\": %.3f, \"pread\": %.3f, \"store\": %.3f, \"hashed\": "
           "%.3f}\n",
           bytes, median(times[0], ROUNDS), median(times[1], ROUNDS), median(times[2], ROUNDS),
           median(times[3], ROUNDS));
    mr_store_reader_free(v.reader);
    mr_store_close(v.store);
    close(v.file);
    return 0;
}

/* ---- Photos ---- */
typedef struct photos {
    const char *folder, *store;
    const char *before, *after; /* ops, without brackets */
    int epochs;
} photos;

static void write_document(const photos *p, char *json, size_t room) {
    char op[1024] = "", key[1024] = "";
    if (strncmp(p->store, "auto:", 5) == 0) {
        snprintf(key, sizeof key, ", \"cache\": {\"path\": \"%s\"}", p->store + 5);
    } else if (strcmp(p->store, "-") != 0) {
        snprintf(op, sizeof op, ", {\"cache\": {\"path\": \"%s\"}}", p->store);
    }
    snprintf(json, room,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [%s%s%s%s], \"batch\": 128, "
             "\"epochs\": %d%s}",
             p->folder, p->before, op, p->after[0] ? ", " : "", p->after, p->epochs, key);
}

static int measure_photos(const photos *p) {
    char json[4096];
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_options options = MR_OPTIONS_INIT;
    mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
    write_document(p, json, sizeof json);
    options.threads = 2;
    double start = now();
    if (mr_pipeline_parse(&pipeline, json, strlen(json), NULL, &err) < 0 ||
        mr_loader_open(&loader, pipeline, &options, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int64_t epoch = 0, samples = 0;
    printf("{\"rates\": [");
    double begun = now();
    while (mr_loader_next(loader, &batch, &err) == MR_OK) {
        if (mr_batch_epoch(batch) != epoch) {
            double time = now();
            printf("%.1f, ", (double)samples / (time - begun));
            epoch = mr_batch_epoch(batch);
            samples = 0;
            begun = time;
        }
        samples += mr_batch_size(batch);
        mr_batch_unref(batch);
    }
    printf("%.1f], ", (double)samples / (now() - begun));
    mr_loader_flush(loader);
    mr_loader_cache(loader, 0, &stats);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    printf("\"made\": %lld, \"waits\": %lld, \"seconds\": %.3f, \"cpu\": %.3f}\n",
           (long long)(stats.stored + stats.refused), (long long)stats.waits, now() - start,
           cpu_seconds());
    return err.code == MR_OK || err.code == MR_END ? 0 : 1;
}

static int measure_all(void) {
    static const size_t sizes[] = {3072, 65536, 150528};
    int failed = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !failed; i++) {
        char folder[] = "/tmp/millrace-bench-XXXXXX", command[64];
        if (!mkdtemp(folder)) {
            return 1;
        }
        failed = measure_values(sizes[i], folder);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        failed |= system(command) != 0;
    }
    return failed;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "values") == 0) {
        return measure_values(strtoull(argv[2], NULL, 10), argv[3]);
    }
    if (argc == 7 && strcmp(argv[1], "photos") == 0) {
        const photos p = {argv[2], argv[3], argv[4], argv[5], atoi(argv[6])};
        return measure_photos(&p);
    }
    return measure_all();
}
