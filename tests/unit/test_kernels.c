/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels.c - every variant of a kernel against its scalar reference: random bytes, odd sizes,
 * buffers that end where an access past the end shows (guard bytes, and the sanitizers). The time
 * of each variant is printed, never judged. */
#include "test.h"

#include <time.h>

#include "core/cpu.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

#define GUARD 64
#define GUARD_BYTE 0xA5

/* ---- Help ---- */
static uint64_t random_state = 1;

static uint32_t random_u32(void) { /* splitmix64: the tests need no better */
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}

static int32_t random_between(int32_t low, int32_t high) {
    return low + (int32_t)(random_u32() % (uint32_t)(high - low + 1));
}

/* Random bytes; half of the time only extremes, which show a missing clip. */
static void fill_random(uint8_t *bytes, size_t size) {
    bool extremes = random_u32() & 1;
    for (size_t i = 0; i < size; i++) {
        uint32_t r = random_u32();
        bytes[i] = extremes ? (r & 1 ? 255 : 0) : (uint8_t)r;
    }
}

/* Memory with guard bytes behind it. */
static void *guarded(size_t size) {
    uint8_t *memory = aligned_alloc(64, (size + GUARD + 63) / 64 * 64);
    memset(memory, GUARD_BYTE, size + GUARD);
    return memory;
}

static bool guard_is_whole(const void *memory, size_t size) {
    for (size_t i = 0; i < GUARD; i++) {
        if (((const uint8_t *)memory)[size + i] != GUARD_BYTE) {
            return false;
        }
    }
    return true;
}

/* Compares two results, checks both guards and frees them. */
static bool same_and_free(void *a, void *b, size_t size) {
    bool same = memcmp(a, b, size) == 0 && guard_is_whole(a, size) && guard_is_whole(b, size);
    free(a);
    free(b);
    return same;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const mr_kernels *scalar_kernels(void) {
    return mr_kernels_for(0);
}

/* The variants that this CPU has, the scalar reference first; NULL behind the last. */
static const mr_kernels *variant(int number) {
    static const char *const disabled[] = {"avx2,neon", "avx512", ""};
    const mr_kernels *last = NULL;
    for (size_t i = 0; i < sizeof disabled / sizeof *disabled; i++) {
        uint32_t features = 0;
        mr_cpu_features(disabled[i], &features, NULL);
        const mr_kernels *next = mr_kernels_for(features);
        if (next != last && number-- == 0) {
            return next;
        }
        last = next;
    }
    return NULL;
}

static const mr_kernels *tested; /* of the variants */

#define FOR_EACH_VARIANT for (int variant_ = 0; (tested = variant(variant_)) != NULL; variant_++)

/* ---- Resampling ---- */
typedef struct resample_case {
    int64_t in_height, in_width, height, width, margin;
    int32_t channels;
    mr_filter filter;
} resample_case;

static resample_case random_case(int32_t most) {
    resample_case one = {random_between(1, most),
                         random_between(1, most),
                         random_between(1, most),
                         random_between(1, most),
                         random_between(0, 5),
                         random_u32() & 1 ? 3 : 1,
                         (mr_filter)random_between(MR_BILINEAR, MR_BOX)};
    one.width = random_u32() % 8 == 0 ? one.in_width : one.width;
    one.height = random_u32() % 8 == 0 ? one.in_height : one.height;
    return one;
}

/* The rectangle ends at the last byte of an allocation of exactly its size. */
static mr_pixels place_input(const resample_case *one, uint8_t *bytes, size_t size) {
    size_t stride = (size_t)(one->in_width + one->margin) * (size_t)one->channels;
    return (mr_pixels){.data = bytes + (size_t)one->margin * (size_t)one->channels,
                       .stride = stride,
                       .height = one->in_height,
                       .width = one->in_width,
                       .channels = one->channels,
                       .end = bytes + size};
}

static void check_resample(const resample_case *one) {
    size_t row = (size_t)(one->in_width + one->margin) * (size_t)one->channels;
    size_t in_size = row * (size_t)one->in_height;
    size_t out_size = (size_t)(one->height * one->width) * (size_t)one->channels;
    uint8_t *bytes = malloc(in_size);
    fill_random(bytes, in_size);
    mr_pixels in = place_input(one, bytes, in_size);
    size_t memory_size = mr_resample_memory(&in, one->height, one->width, one->filter);
    uint8_t *memory = guarded(memory_size);
    uint8_t *a = guarded(out_size), *b = guarded(out_size);
    mr_resample(scalar_kernels(), &in, a, one->height, one->width, one->filter, memory);
    memset(memory, 0x5A, memory_size);
    mr_resample(tested, &in, b, one->height, one->width, one->filter, memory);
    bool whole = guard_is_whole(memory, memory_size);
    if (!same_and_free(a, b, out_size) || !whole) {
        test_failures++;
        fprintf(stderr,
                "%s resample %d: %" PRId64 "x%" PRId64 "x%d -> %" PRId64 "x%" PRId64 " differs\n",
                tested->name, (int)one->filter, one->in_height, one->in_width, (int)one->channels,
                one->height, one->width);
    }
    free(memory);
    free(bytes);
}

TEST(resample_variants_agree) {
    FOR_EACH_VARIANT {
        for (int i = 0; i < 1500; i++) {
            resample_case one = random_case(i < 1000 ? 40 : 200);
            check_resample(&one);
        }
    }
}

TEST(resample_variants_agree_at_extremes) {
    static const resample_case cases[] = {
        {1, 20000, 1, 1, 0, 3, MR_BILINEAR}, {20000, 1, 1, 1, 0, 3, MR_BICUBIC},
        {1, 20000, 3, 7, 0, 1, MR_BICUBIC},  {1, 1, 300, 300, 0, 3, MR_BICUBIC},
        {2, 9000, 2, 5, 3, 3, MR_BILINEAR},  {3000, 11, 2, 40, 1, 3, MR_BILINEAR},
    };
    FOR_EACH_VARIANT {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            check_resample(&cases[i]);
        }
    }
}

/* The parts that the tested variant made of a weight, put together again. */
static void check_parts(const mr_taps *taps, int32_t output, int32_t tap) {
    size_t at = (size_t)output * (size_t)taps->width + (size_t)tap;
    int32_t weight = taps->weights[at];
    if (tested->cpu & MR_CPU_AVX2) {
        CHECK_INT(taps->high[at] * (1 << MR_TAP_LOW_BITS) + taps->low[at], ==, weight);
    }
    if (tested->cpu & MR_CPU_AVX512 && tap < taps->groups * MR_TAP_GROUP) {
        int32_t sum = 0;
        for (int digit = 0; digit < 3; digit++) {
            int32_t group = taps->digits[digit][tap / MR_TAP_GROUP * taps->n_out + output];
            sum = sum * 256 + (int8_t)(group >> 8 * (tap % MR_TAP_GROUP));
        }
        CHECK_INT(sum, ==, weight);
    }
}

static void check_weights(int64_t n_in, int64_t n_out, mr_filter filter) {
    mr_taps taps;
    const mr_axis axis = mr_whole_axis(n_in, n_out);
    void *memory = guarded(mr_taps_memory(&axis, filter));
    mr_taps_make(&taps, tested, &axis, filter, (mr_span){0, n_out}, 0, memory);
    for (int32_t i = 0; i < taps.n_out; i++) {
        int64_t sum = 0;
        for (int32_t k = 0; k < taps.width; k++) {
            sum += taps.weights[i * taps.width + k];
            check_parts(&taps, i, k);
        }
        CHECK(llabs(sum - (1 << MR_TAP_BITS)) <= taps.count[i]);
        CHECK(taps.first[i] >= 0 && taps.first[i] + taps.count[i] <= n_in);
    }
    CHECK(guard_is_whole(memory, mr_taps_memory(&axis, filter)));
    free(memory);
}

static const mr_filter weighing_filters[] = {MR_BILINEAR, MR_BICUBIC, MR_LANCZOS, MR_BOX};

TEST(weights_sum_to_one_and_split_exactly) {
    FOR_EACH_VARIANT {
        for (int round = 0; round < 200; round++) {
            int32_t most =
                round % 2 ? 900 : 12; /* at the edges of few inputs weights are largest */
            check_weights(random_between(1, most), random_between(1, 900),
                          weighing_filters[random_u32() % 4]);
        }
    }
}

/* The weights of some outputs are those of all, cut out. */
TEST(weights_of_some_outputs) {
    enum { IN = 300, OUT = 100, FROM = 20, TO = 70, ORIGIN = 50 };
    mr_taps all, some;
    const mr_axis axis = mr_whole_axis(IN, OUT);
    void *memory_a = guarded(mr_taps_memory(&axis, MR_BICUBIC));
    void *memory_b = guarded(mr_taps_memory(&axis, MR_BICUBIC));
    mr_taps_make(&all, scalar_kernels(), &axis, MR_BICUBIC, (mr_span){0, OUT}, 0, memory_a);
    mr_taps_make(&some, scalar_kernels(), &axis, MR_BICUBIC, (mr_span){FROM, TO}, ORIGIN, memory_b);
    CHECK_INT(some.n_out, ==, TO - FROM);
    for (int32_t i = 0; i < some.n_out; i++) {
        CHECK_INT(some.first[i], ==, all.first[FROM + i] - ORIGIN);
        CHECK_INT(some.count[i], ==, all.count[FROM + i]);
        CHECK(memcmp(some.weights + i * some.width, all.weights + (FROM + i) * all.width,
                     (size_t)all.width * sizeof *all.weights) == 0);
    }
    free(memory_a);
    free(memory_b);
}

/* ---- Pixel by pixel ---- */
static void check_lookups(size_t pixels, int32_t channels, size_t plane) {
    size_t n = pixels * (size_t)channels;
    uint32_t tables[3 * 256];
    uint16_t short_tables[3 * 256];
    for (size_t i = 0; i < 3 * 256; i++) {
        tables[i] = random_u32();
        short_tables[i] = (uint16_t)random_u32();
    }
    uint8_t *in = malloc(n);
    fill_random(in, n);
    uint32_t *a = guarded(4 * n), *b = guarded(4 * n);
    scalar_kernels()->lookup_32(a, in, pixels, channels, tables, plane);
    tested->lookup_32(b, in, pixels, channels, tables, plane);
    CHECK(same_and_free(a, b, 4 * n));
    uint16_t *c = guarded(2 * n), *d = guarded(2 * n);
    scalar_kernels()->lookup_16(c, in, pixels, channels, short_tables, plane);
    tested->lookup_16(d, in, pixels, channels, short_tables, plane);
    CHECK(same_and_free(c, d, 2 * n));
    free(in);
}

static mr_normal normal_of(float mean, float std) {
    mr_normal normal;
    const float means[3] = {mean, mean + 0.01f, mean - 0.01f}, stds[3] = {std, std * 1.7f, std / 3};
    mr_normal_make(&normal, means, stds);
    return normal;
}

static void check_normalize(size_t pixels, const mr_normal *normal) {
    uint8_t *in = malloc(3 * pixels);
    fill_random(in, 3 * pixels);
    uint32_t *a = guarded(12 * pixels), *b = guarded(12 * pixels);
    scalar_kernels()->lookup_32(a, in, pixels, 3, normal->bits, pixels);
    tested->normalize(b, in, pixels, normal, pixels);
    CHECK(same_and_free(a, b, 12 * pixels));
    free(in);
}

TEST(normalize_variants_agree) {
    int computable = 0;
    for (int i = 0; i < 300; i++) {
        mr_normal normal =
            normal_of((float)random_between(-100, 300) / 199, (float)random_between(1, 2000) / 997);
        computable += normal.computable;
        FOR_EACH_VARIANT {
            if (normal.computable) {
                check_normalize((size_t)random_between(1, 300), &normal);
            }
        }
    }
    CHECK_INT(computable, >, 290); /* or the fast loops would hardly run */
}

/* Every byte, and what the definition says of it. */
TEST(normalize_means_what_it_says) {
    const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    mr_normal normal;
    mr_normal_make(&normal, mean, std);
    CHECK(normal.computable);
    for (int i = 0; i < 3 * 256; i++) {
        volatile float unit = (float)(i % 256) / 255.0f, centred = unit - mean[i / 256];
        CHECK_INT(normal.bits[i], ==, mr_float_bits(centred / std[i / 256]));
    }
    FOR_EACH_VARIANT {
        check_normalize(4096, &normal);
    }
    normal = normal_of(0.5f, 1e-39f); /* 1 / std is infinite */
    CHECK(!normal.computable);
}

static void check_moves(size_t pixels, int32_t channels) {
    size_t n = pixels * (size_t)channels;
    uint8_t *in = malloc(n);
    fill_random(in, n);
    uint8_t *a = guarded(n), *b = guarded(n);
    scalar_kernels()->split(a, in, pixels, channels, pixels);
    tested->split(b, in, pixels, channels, pixels);
    CHECK(same_and_free(a, b, n));
    a = guarded(n), b = guarded(n);
    scalar_kernels()->mirror(a, in, pixels, channels);
    tested->mirror(b, in, pixels, channels);
    CHECK(same_and_free(a, b, n));
    free(in);
}

TEST(pixel_variants_agree) {
    FOR_EACH_VARIANT {
        for (int32_t pixels = 1; pixels < 200; pixels++) {
            for (int32_t channels = 1; channels <= 3; channels += 2) {
                check_lookups((size_t)pixels, channels, (size_t)pixels);
                check_lookups((size_t)pixels, channels, 0);
                check_moves((size_t)pixels, channels);
            }
        }
    }
}

TEST(lookup_means_what_it_says) {
    const uint8_t in[6] = {1, 2, 3, 4, 5, 6};
    uint32_t tables[3 * 256], planar[6], interleaved[6];
    for (uint32_t i = 0; i < 3 * 256; i++) {
        tables[i] = i;
    }
    scalar_kernels()->lookup_32(planar, in, 2, 3, tables, 2);
    scalar_kernels()->lookup_32(interleaved, in, 2, 3, tables, 0);
    const uint32_t want_planar[6] = {1, 4, 256 + 2, 256 + 5, 512 + 3, 512 + 6};
    const uint32_t want_interleaved[6] = {1, 256 + 2, 512 + 3, 4, 256 + 5, 512 + 6};
    CHECK(memcmp(planar, want_planar, sizeof planar) == 0);
    CHECK(memcmp(interleaved, want_interleaved, sizeof interleaved) == 0);
}

/* ---- Halves ---- */
TEST(halves_survive_a_round_trip) {
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        bool f16_nan = (bits & 0x7FFF) > 0x7C00, bf16_nan = (bits & 0x7FFF) > 0x7F80;
        if (!f16_nan) {
            CHECK_INT(mr_f16(mr_float_of_f16((uint16_t)bits)), ==, bits);
        }
        if (!bf16_nan) {
            CHECK_INT(mr_bf16(mr_float_of_bf16((uint16_t)bits)), ==, bits);
        }
    }
}

/* Between two neighbouring halves the nearer is taken, and in the middle the even one. */
TEST(halves_round_to_nearest_even) {
    for (uint32_t bits = 0; bits < 0x7BFF; bits++) {
        double low = (double)mr_float_of_f16((uint16_t)bits);
        double high = (double)mr_float_of_f16((uint16_t)(bits + 1));
        float middle = (float)((low + high) / 2);
        float above = mr_float_of_bits(mr_float_bits(middle) + 1);
        CHECK_INT(mr_f16(middle), ==, bits + (bits & 1));
        CHECK_INT(mr_f16(above), ==, bits + 1);
        CHECK_INT(mr_f16(-above), ==, 0x8000 | (bits + 1));
    }
    CHECK_INT(mr_f16(65519.996f), ==, 0x7BFF);
    CHECK_INT(mr_f16(65520.0f), ==, 0x7C00);
    CHECK_INT(mr_bf16(mr_float_of_bits(0x3F808000)), ==, 0x3F80);
    CHECK_INT(mr_bf16(mr_float_of_bits(0x3F818000)), ==, 0x3F82);
    CHECK_INT(mr_bf16(mr_float_of_bits(0x3F808001)), ==, 0x3F81);
    CHECK((mr_bf16(mr_float_of_bits(0x7F800001)) & 0x7FFF) > 0x7F80);
    CHECK((mr_f16(mr_float_of_bits(0x7F800001)) & 0x7FFF) > 0x7C00);
}

/* ---- Times: the best of several runs ---- */
#define BEST_OF(ns, statement)                                                                     \
    int64_t ns = INT64_MAX;                                                                        \
    for (int round_ = 0; round_ < 15; round_++) {                                                  \
        int64_t start_ = now_ns();                                                                 \
        statement;                                                                                 \
        int64_t took_ = now_ns() - start_;                                                         \
        ns = took_ < ns ? took_ : ns;                                                              \
    }

static void print_resample_times(const mr_kernels *kernels, int32_t side, int32_t channels,
                                 mr_filter filter) {
    enum { SIZE = 224 };
    size_t n = (size_t)side, in_row = n * (size_t)channels, in_size = n * in_row;
    size_t row = (size_t)(SIZE * channels);
    uint8_t *bytes = malloc(in_size), *out = malloc(n * row), *final = malloc(SIZE * row);
    mr_taps taps;
    const mr_axis axis = mr_whole_axis(side, SIZE);
    void *memory = guarded(mr_taps_memory(&axis, filter));
    fill_random(bytes, in_size);
    BEST_OF(weights, mr_taps_make(&taps, kernels, &axis, filter, (mr_span){0, SIZE}, 0, memory))
    BEST_OF(rows,
            kernels->resample_rows(out, bytes, in_row, bytes + in_size, side, channels, &taps))
    BEST_OF(columns, {
        for (int32_t y = 0; y < SIZE; y++) {
            kernels->resample_columns(final + (size_t)y * row, out + (size_t)taps.first[y] * row,
                                      row, row, &taps, y);
        }
    })
    printf("  %-6s %s x%d %4d -> %d: weights %6" PRId64 " ns, rows %8" PRId64
           " ns, columns %7" PRId64 " ns\n",
           kernels->name, filter == MR_BICUBIC ? "bicubic " : "bilinear", (int)channels, (int)side,
           (int)SIZE, weights, rows, columns);
    free(memory);
    free(bytes);
    free(out);
    free(final);
}

static void print_pixel_times(const mr_kernels *kernels) {
    enum { PIXELS = 224 * 224 };
    uint8_t *in = malloc(3 * PIXELS);
    uint32_t *out = calloc(3 * PIXELS, sizeof *out);
    const mr_normal normal = normal_of(0.45f, 0.22f);
    static const uint32_t tables[3 * 256];
    const uint16_t *halves = (const uint16_t *)tables;
    fill_random(in, 3 * PIXELS);
    BEST_OF(words, kernels->lookup_32(out, in, PIXELS, 3, tables, PIXELS))
    BEST_OF(shorts, kernels->lookup_16((uint16_t *)out, in, PIXELS, 3, halves, PIXELS))
    BEST_OF(floats, kernels->normalize(out, in, PIXELS, &normal, PIXELS))
    BEST_OF(split, kernels->split((uint8_t *)out, in, PIXELS, 3, PIXELS))
    BEST_OF(mirror, kernels->mirror((uint8_t *)out, in, PIXELS, 3))
    printf("  %-6s 224x224x3: lookup_32 %" PRId64 " ns, lookup_16 %" PRId64
           " ns, normalize %" PRId64 " ns, split %" PRId64 " ns, mirror %" PRId64 " ns\n",
           kernels->name, words, shorts, floats, split, mirror);
    free(in);
    free(out);
}

TEST(print_times) {
    FOR_EACH_VARIANT {
        print_resample_times(tested, 200, 3, MR_BILINEAR);
        print_resample_times(tested, 300, 3, MR_BILINEAR);
        print_resample_times(tested, 500, 3, MR_BILINEAR);
        print_resample_times(tested, 500, 3, MR_BICUBIC);
        print_resample_times(tested, 500, 1, MR_BILINEAR);
        print_resample_times(tested, 2000, 3, MR_BILINEAR);
        print_pixel_times(tested);
    }
}

/* ---- JPEG ---- */

/* Coefficients of any size, sensible or not; the first `known` in zigzag order, as far as rows and
 * columns tell. */
static void random_block(int16_t *block, int32_t known) {
    int bits = (int)random_between(1, 16), side = known <= 1 ? 1 : known <= 10 ? 4 : 8;
    for (int i = 0; i < MR_JPEG_BLOCK; i++) {
        bool may = i / 8 < side && i % 8 < side && (known > 10 || i / 8 + i % 8 < 4);
        block[i] = may && random_u32() & 1 ? (int16_t)((int16_t)random_u32() >> (16 - bits)) : 0;
    }
}

TEST(jpeg_transforms_agree) {
    static const int32_t known[] = {1, 10, 64};
    FOR_EACH_VARIANT {
        for (int i = 0; i < 20000; i++) {
            _Alignas(32) int16_t blocks[2][MR_JPEG_BLOCK], quantisers[MR_JPEG_BLOCK];
            uint8_t a[2][128], b[2][128];
            const int16_t *in[2] = {blocks[0], blocks[1]};
            uint8_t *out_a[2] = {a[0], a[1]}, *out_b[2] = {b[0], b[1]};
            int32_t most = random_u32() & 1 ? 64 : 32767;
            for (int k = 0; k < MR_JPEG_BLOCK; k++) {
                quantisers[k] = (int16_t)random_between(1, most);
            }
            random_block(blocks[0], known[i % 3]);
            random_block(blocks[1], known[i % 3]);
            memset(a, 1, sizeof a);
            memset(b, 1, sizeof b);
            scalar_kernels()->jpeg.idct(in, quantisers, out_a, 16, known[i % 3]);
            tested->jpeg.idct(in, quantisers, out_b, 16, known[i % 3]);
            bool same = memcmp(a, b, sizeof a) == 0;
            CHECK(same);
        }
    }
}

enum { JPEG_ROW = 300, JPEG_ROOM = 2 * JPEG_ROW + 4 * MR_JPEG_MARGIN };

static void check_jpeg_rows(size_t n) {
    uint8_t in[3][JPEG_ROOM], a[3 * JPEG_ROW + MR_JPEG_MARGIN], b[3 * JPEG_ROW + MR_JPEG_MARGIN];
    const mr_jpeg_kernels *slow = &scalar_kernels()->jpeg, *fast = &tested->jpeg;
    const uint8_t *row[3];
    for (int i = 0; i < 3; i++) {
        fill_random(in[i], JPEG_ROOM);
        row[i] = in[i] + MR_JPEG_MARGIN;
    }
    slow->widen(a, row[0], n);
    fast->widen(b, row[0], n);
    CHECK(memcmp(a, b, 2 * n) == 0);
    slow->enlarge(a, row[0], row[1], n);
    fast->enlarge(b, row[0], row[1], n);
    CHECK(memcmp(a, b, 2 * n) == 0);
    for (int upper = 0; upper < 2; upper++) {
        slow->heighten(a, row[0], row[1], n, upper);
        fast->heighten(b, row[0], row[1], n, upper);
        CHECK(memcmp(a, b, n) == 0);
    }
    memset(a, 7, sizeof a);
    memset(b, 7, sizeof b);
    slow->to_rgb(a, row[0], row[1], row[2], n);
    fast->to_rgb(b, row[0], row[1], row[2], n);
    CHECK(memcmp(a, b, sizeof a) == 0); /* nothing is written behind the pixels */
}

TEST(jpeg_rows_agree) {
    FOR_EACH_VARIANT {
        for (size_t n = 1; n <= JPEG_ROW; n++) {
            check_jpeg_rows(n);
        }
    }
}

TEST(jpeg_bytes_agree) {
    FOR_EACH_VARIANT {
        for (int i = 0; i < 3000; i++) {
            size_t size = (size_t)random_between(0, 200), written_a = 0, written_b = 0;
            uint8_t *in = malloc(size + 1), a[300], b[300];
            fill_random(in, size);
            for (size_t k = 0; k < size; k++) { /* enough of what matters */
                uint32_t kind = random_u32() % 32;
                in[k] = kind == 0 || (k > 0 && in[k - 1] == 0xFF && kind < 30) ? 0 : in[k];
                in[k] = kind == 31 ? 0xFF : in[k];
            }
            size_t read_a = scalar_kernels()->jpeg.unstuff(a, in, size, &written_a);
            size_t read_b = tested->jpeg.unstuff(b, in, size, &written_b);
            CHECK_INT(read_a, ==, read_b);
            CHECK_INT(written_a, ==, written_b);
            CHECK(memcmp(a, b, written_a < written_b ? written_a : written_b) == 0);
            free(in);
        }
    }
}

TEST_MAIN()
