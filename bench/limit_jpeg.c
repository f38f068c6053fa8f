/* SPDX-License-Identifier: Apache-2.0 */
/* limit_jpeg - how fast libjpeg-turbo alone can decode the parts of photos that a pipeline shows:
 * crop_scanline, skip_scanlines, nothing else. Files are in memory, structs are reused, rows are
 * asked for 16 at a time and thrown away. A loader that decodes with libjpeg-turbo and does nothing
 * else at all would be this fast.
 *
 *     limit_jpeg train|val LIST SECONDS THREADS
 *
 * train draws RandomResizedCrop's boxes with a fixed seed; val takes the part that resize 256,
 * center crop 224 shows. Prints one line of JSON. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

enum { ROWS = 16, MAX_THREADS = 256 };

typedef struct photo {
    unsigned char *bytes;
    size_t size;
} photo;

typedef struct box {
    unsigned x, y, w, h;
} box;

typedef struct bench {
    photo *photos;
    size_t n;
    bool train;
    double seconds;
    atomic_llong next, decoded, failed;
    struct timespec start;
} bench;

/* ---- Photos ---- */
static bool load(photo *out, const char *path) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (!file) {
        return false;
    }
    if (fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
        rewind(file);
    }
    out->bytes = size > 0 ? malloc((size_t)size) : NULL;
    out->size = out->bytes ? fread(out->bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    return out->size > 0;
}

static bool load_list(bench *b, const char *path) {
    char line[4096];
    FILE *list = fopen(path, "r");
    bool ok = list != NULL;
    while (ok && fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = '\0';
        photo *more = realloc(b->photos, (b->n + 1) * sizeof *more);
        ok = more != NULL;
        b->photos = ok ? more : b->photos;
        ok = ok && load(&b->photos[b->n], line);
        b->n += ok;
    }
    if (list) {
        fclose(list);
    }
    return ok && b->n > 0;
}

/* ---- Boxes ---- */
/* SplitMix64: one state per photo, so that the boxes do not depend on the threads. */
static double uniform(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static box random_box(unsigned width, unsigned height, uint64_t state) {
    for (int attempt = 0; attempt < 10; attempt++) {
        double area = (double)width * height * (0.08 + 0.92 * uniform(&state));
        double ratio = exp(log(0.75) + (log(4.0 / 3) - log(0.75)) * uniform(&state));
        double w = round(sqrt(area * ratio)), h = round(sqrt(area / ratio));
        if (w >= 1 && h >= 1 && w <= width && h <= height) {
            return (box){(unsigned)(uniform(&state) * (width - w + 1)),
                         (unsigned)(uniform(&state) * (height - h + 1)), (unsigned)w, (unsigned)h};
        }
    }
    return (box){0, 0, width, height};
}

static box center_box(unsigned width, unsigned height) {
    unsigned side = (width < height ? width : height) * 224 / 256;
    side = side ? side : 1;
    return (box){(width - side) / 2, (height - side) / 2, side, side};
}

/* ---- Decoding ---- */
typedef struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    unsigned char *rows;
    size_t row_size;
} decoder;

static void give_up(j_common_ptr info) {
    longjmp(((decoder *)info)->escape, 1);
}

static void stay_silent(j_common_ptr info) {
    (void)info;
}

static bool make_rows(decoder *d, size_t row_size) {
    if (row_size > d->row_size) {
        free(d->rows);
        d->rows = malloc(row_size * ROWS);
        d->row_size = d->rows ? row_size : 0;
    }
    return d->rows != NULL;
}

static void read_box(decoder *d, const box *wanted) {
    JSAMPROW rows[ROWS];
    JDIMENSION x = wanted->x, w = wanted->w;
    jpeg_crop_scanline(&d->info, &x, &w);
    if (!make_rows(d, (size_t)d->info.output_width * 3)) {
        return;
    }
    for (int i = 0; i < ROWS; i++) {
        rows[i] = d->rows + (size_t)i * d->row_size;
    }
    jpeg_skip_scanlines(&d->info, wanted->y);
    while (d->info.output_scanline < wanted->y + wanted->h) {
        unsigned left = wanted->y + wanted->h - d->info.output_scanline;
        jpeg_read_scanlines(&d->info, rows, left < ROWS ? left : ROWS);
    }
}

static bool decode(decoder *d, const photo *p, bool train, uint64_t seed) {
    if (setjmp(d->escape)) {
        jpeg_abort_decompress(&d->info);
        return false;
    }
    jpeg_mem_src(&d->info, p->bytes, p->size);
    jpeg_read_header(&d->info, TRUE);
    d->info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d->info);
    box wanted = train ? random_box(d->info.output_width, d->info.output_height, seed)
                       : center_box(d->info.output_width, d->info.output_height);
    read_box(d, &wanted);
    jpeg_abort_decompress(&d->info);
    return true;
}

/* ---- Threads ---- */
static double elapsed(const bench *b) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - b->start.tv_sec) + (double)(now.tv_nsec - b->start.tv_nsec) * 1e-9;
}

static void *work(void *user) {
    bench *b = user;
    decoder *d = calloc(1, sizeof *d);
    if (!d) {
        return NULL;
    }
    d->info.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = give_up;
    d->errors.output_message = stay_silent;
    jpeg_create_decompress(&d->info);
    while (elapsed(b) < b->seconds) {
        long long i = atomic_fetch_add(&b->next, 1);
        bool ok = decode(d, &b->photos[(size_t)i % b->n], b->train, (uint64_t)i * 0x1000193u);
        atomic_fetch_add(ok ? &b->decoded : &b->failed, 1);
    }
    jpeg_destroy_decompress(&d->info);
    free(d->rows);
    free(d);
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

static void report(const bench *b, double wall) {
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    double seconds = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
    long long n = atomic_load(&b->decoded);
    printf("{\"samples_per_second\": %.3f, \"cpu_seconds_per_1000\": %.6f, \"samples\": %lld, "
           "\"failed\": %lld}\n",
           (double)n / wall, n ? seconds / (double)n * 1000 : 0.0, n, atomic_load(&b->failed));
}

int main(int argc, char **argv) {
    bench b = {0};
    int n_threads = argc == 5 ? atoi(argv[4]) : 0;
    if (n_threads < 1 || n_threads > MAX_THREADS) {
        fprintf(stderr, "usage: limit_jpeg train|val LIST SECONDS THREADS\n");
        return 2;
    }
    b.train = strcmp(argv[1], "train") == 0;
    b.seconds = atof(argv[3]);
    if (!load_list(&b, argv[2])) {
        fprintf(stderr, "limit_jpeg: cannot read %s, or a file it names\n", argv[2]);
        return 1;
    }
    run(&b, n_threads);
    report(&b, elapsed(&b));
    for (size_t i = 0; i < b.n; i++) {
        free(b.photos[i].bytes);
    }
    free(b.photos);
    return 0;
}
