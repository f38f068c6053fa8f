/* SPDX-License-Identifier: Apache-2.0 */
/* decode_jpeg - our JPEG decoders against libjpeg-turbo, one thread, files in memory: whole images,
 * the boxes of RandomResizedCrop, and these with a row index; then the same photos as progressive
 * files. The ways take turns file by file, and of each file and way the quickest repetition counts,
 * so that others who use the machine matter little; what counts is the ratio.
 *
 *     decode_jpeg LIST [REPETITIONS [WAY]]
 *
 * LIST names a file on each line; WAY is the number of the only way to take, for a profile. */
#include "codecs/codec.h"
#include "core/cpu.h"
#include "core/memory.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jpeglib.h>

typedef struct way {
    const char *name;
    const char *without;
    bool whole, indexed;
} way;

#define OURS "jpeg_baseline,jpeg_progressive"
static const way ways[] = {
    {"whole image, libjpeg-turbo", OURS, true, false}, {"whole image, ours", NULL, true, false},
    {"crop, libjpeg-turbo", OURS, false, false},       {"crop, ours", NULL, false, false},
    {"crop with index, ours", NULL, false, true},
};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct photo {
    uint8_t *bytes;
    size_t size;
    mr_index index;
    double seconds[WAYS]; /* of the quickest repetition */
} photo;

/* ---- Photos ---- */
static bool load(photo *out, const char *path) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
        rewind(file);
    }
    out->bytes = size > 0 ? malloc((size_t)size) : NULL;
    out->size = out->bytes ? fread(out->bytes, 1, (size_t)size, file) : 0;
    if (file) {
        fclose(file);
    }
    return out->size > 0;
}

static photo *load_list(const char *path, size_t *n) {
    char line[4096];
    photo *photos = NULL;
    FILE *list = fopen(path, "r");
    while (list && fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = '\0';
        photos = realloc(photos, (*n + 1) * sizeof *photos);
        memset(&photos[*n], 0, sizeof *photos);
        *n += load(&photos[*n], line);
    }
    if (list) {
        fclose(list);
    }
    return photos;
}

/* The same coefficients in progressive scans. libjpeg ends the program where it cannot. */
static void make_progressive(photo *p) {
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    from.err = to.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&from);
    jpeg_create_compress(&to);
    jpeg_mem_src(&from, p->bytes, p->size);
    jpeg_mem_dest(&to, &bytes, &size);
    jpeg_read_header(&from, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&from);
    jpeg_copy_critical_parameters(&from, &to);
    jpeg_simple_progression(&to);
    jpeg_write_coefficients(&to, coefficients);
    jpeg_finish_compress(&to);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    free(p->bytes);
    free((void *)(uintptr_t)p->index.data);
    *p = (photo){.bytes = bytes, .size = size};
}

/* ---- Boxes ---- */
static double uniform(uint64_t *state) { /* SplitMix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static mr_region random_box(int64_t width, int64_t height, uint64_t state) {
    for (int attempt = 0; attempt < 10; attempt++) {
        double area = (double)(width * height) * (0.08 + 0.92 * uniform(&state));
        double ratio = exp(log(0.75) + (log(4.0 / 3) - log(0.75)) * uniform(&state));
        int64_t w = (int64_t)round(sqrt(area * ratio)), h = (int64_t)round(sqrt(area / ratio));
        if (w >= 1 && h >= 1 && w <= width && h <= height) {
            return (mr_region){(int64_t)(uniform(&state) * (double)(width - w + 1)),
                               (int64_t)(uniform(&state) * (double)(height - h + 1)), w, h};
        }
    }
    return (mr_region){0, 0, width, height};
}

/* ---- Decoding ---- */
static mr_status drop_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    (void)user, (void)y, (void)pixels, (void)err;
    return MR_OK;
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool decode(const photo *p, const way *w, mr_call *call, uint64_t seed) {
    mr_image_file file = {.bytes = p->bytes, .size = p->size, .without = w->without};
    if (mr_image_file_open(&file, INT64_MAX, false, NULL) != MR_OK) {
        return false;
    }
    mr_decode_request request = {
        .width = file.header.width, .height = file.header.height, .channels = 3, .call = call};
    if (w->whole) {
        request.out = mr_scratch(call, (size_t)(request.width * request.height * 3));
        return mr_image_file_decode(&file, &request, NULL) == MR_OK;
    }
    const mr_rows to = {.row = drop_row};
    mr_region box = random_box(request.width, request.height, seed);
    request.index = w->indexed ? p->index : (mr_index){0};
    return mr_image_file_part(&file, &request, &box, &to, NULL) == MR_OK;
}

static void make_index(photo *p, mr_call *call) {
    mr_image_file file = {.bytes = p->bytes, .size = p->size};
    mr_index index;
    if (mr_image_file_open(&file, INT64_MAX, false, NULL) == MR_OK &&
        mr_image_file_index(&file, call, &index, NULL) == MR_OK) {
        uint8_t *copy = malloc(index.size);
        memcpy(copy, index.data, index.size);
        p->index = (mr_index){copy, index.size};
    }
}

/* The same boxes every time. */
static void run(photo *photos, size_t n, mr_call *call, int only) {
    for (size_t i = 0; i < n; i++) {
        for (int w = only < 0 ? 0 : only; w < (only < 0 ? WAYS : only + 1); w++) {
            double start = cpu_seconds();
            decode(&photos[i], &ways[w], call, i);
            double seconds = cpu_seconds() - start, *best = &photos[i].seconds[w];
            *best = *best == 0 || seconds < *best ? seconds : *best;
            mr_arena_reset(call->arena);
        }
    }
}

static double microseconds(const photo *photos, size_t n, int w) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += photos[i].seconds[w];
    }
    return sum / (double)n * 1e6;
}

static void report_indexes(const photo *photos, size_t n) {
    size_t index_bytes = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        index_bytes += photos[i].index.size;
        bytes += photos[i].size;
    }
    printf("index: %.0f bytes a file, %.2f %% of it\n", (double)index_bytes / (double)n,
           100.0 * (double)index_bytes / (double)bytes);
}

static void measure(photo *photos, size_t n, int repetitions, mr_call *call, int only) {
    for (size_t i = 0; i < n; i++) {
        make_index(&photos[i], call);
        mr_arena_reset(call->arena);
    }
    for (int r = 0; r < repetitions; r++) {
        run(photos, n, call, only);
    }
    for (int w = 0; w < WAYS && (!ways[w].indexed || photos[0].index.size > 0); w++) {
        double base = microseconds(photos, n, ways[w].whole ? 0 : 2);
        double own = microseconds(photos, n, w);
        printf("%-32s %8.1f us, ratio %.2f\n", ways[w].name, own, base / own);
    }
    if (photos[0].index.size > 0) {
        report_indexes(photos, n);
    }
}

int main(int argc, char **argv) {
    size_t n = 0;
    photo *photos = argc > 1 ? load_list(argv[1], &n) : NULL;
    int repetitions = argc > 2 ? atoi(argv[2]) : 5, only = argc > 3 ? atoi(argv[3]) : -1;
    mr_arena arena = {0};
    uint32_t cpu = 0;
    mr_cpu_features(NULL, &cpu, NULL);
    mr_call call = {.arena = &arena, .kernels = mr_kernels_for(cpu)};
    if (n == 0) {
        fprintf(stderr, "usage: decode_jpeg LIST [REPETITIONS [WAY]]\n");
        return 2;
    }
    measure(photos, n, repetitions, &call, only);
    for (size_t i = 0; i < n; i++) {
        make_progressive(&photos[i]);
    }
    printf("as progressive files:\n");
    measure(photos, n, repetitions, &call, only);
    for (size_t i = 0; i < n; i++) {
        free(photos[i].bytes);
        free((void *)(uintptr_t)photos[i].index.data);
    }
    free(photos);
    mr_arena_free(&arena);
    return 0;
}
