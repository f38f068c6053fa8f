/* SPDX-License-Identifier: Apache-2.0 */
/* The Parquet reader: kernels against their references, encodings by hand, files made of a few
 * bytes, and what it refuses. Values of real files are compared with pyarrow's in tests/python. */
#include "test.h"

#include "core/cpu.h"
#include "core/json.h"
#include "kernels/rows.h"
#include "parquet/parts.h"

/* ---- Kernels: every variant equals the reference ---- */
static uint32_t random_state = 1;

static uint32_t draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8 ^ random_state << 12;
}

static const mr_column_kernels *best_without(uint32_t features) {
    uint32_t cpu = 0;
    CHECK_INT(mr_cpu_features(NULL, &cpu, NULL), ==, MR_OK);
    return mr_column_kernels_for(cpu & ~features);
}

static const mr_column_kernels *best(void) {
    return best_without(0);
}

/* Runs a check on what this machine has. */
static void each_variant(void (*check)(const mr_column_kernels *fast)) {
    check(best());
    check(best_without(MR_CPU_AVX512));
}

/* Bytes that end exactly where they are said to end: reading on is found by the sanitizer. */
static uint8_t *random_bytes(size_t size) {
    uint8_t *bytes = malloc(size ? size : 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)draw();
    }
    return bytes;
}

static void check_unpack(const mr_column_kernels *a, const mr_column_kernels *b, size_t n,
                         int32_t width) {
    size_t size = (n * (size_t)width + 7) / 8;
    uint8_t *in = random_bytes(size);
    uint64_t *x = calloc(n + 1, 8), *y = calloc(n + 1, 8);
    a->unpack_64(x, in, in + size, n, width);
    b->unpack_64(y, in, in + size, n, width);
    CHECK(memcmp(x, y, n * 8) == 0);
    for (size_t i = 0; i < n && width < 64; i++) {
        CHECK(x[i] >> width == 0);
    }
    if (width <= 32) {
        a->unpack_32((uint32_t *)x, in, in + size, n, width);
        b->unpack_32((uint32_t *)y, in, in + size, n, width);
        CHECK(memcmp(x, y, n * 4) == 0);
    }
    if (width == 1) {
        a->unpack_bits((uint8_t *)x, in, n);
        b->unpack_bits((uint8_t *)y, in, n);
        CHECK(memcmp(x, y, n) == 0);
    }
    free(in);
    free(x);
    free(y);
}

static void check_every_width(const mr_column_kernels *fast) {
    for (int32_t width = 0; width <= 64; width++) {
        for (size_t n = 0; n < 70; n += 1 + n / 9) {
            check_unpack(&mr_column_kernels_scalar, fast, n, width);
        }
        check_unpack(&mr_column_kernels_scalar, fast, 1000, width);
    }
}

TEST(unpacking_equals_the_reference) {
    each_variant(check_every_width);
}

TEST(unpacking_takes_the_lowest_bits_first) {
    const uint8_t in[] = {0x88, 0xC6, 0xFA}; /* 0 to 7 in 3 bits: the format's own example */
    uint32_t out[8];
    best()->unpack_32(out, in, in + 3, 8, 3);
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_INT(out[i], ==, i);
    }
}

static void check_largest(const mr_column_kernels *fast) {
    for (size_t n = 0; n < 40; n++) {
        uint32_t index[40];
        for (size_t i = 0; i < n; i++) {
            index[i] = draw() % 100;
        }
        CHECK_INT(fast->largest(index, n), ==, mr_column_kernels_scalar.largest(index, n));
    }
}

/* Of every number of cells: few of them valid, most, all, none. */
static void check_spreading(const mr_column_kernels *fast) {
    const mr_column_kernels *slow = &mr_column_kernels_scalar;
    enum { MOST = 70 };
    for (uint32_t i = 0; i < 4 * MOST; i++) {
        size_t n = i % MOST, values = 0;
        uint8_t valid[MOST + 1] = {0};
        uint64_t x[MOST], y[MOST], z[MOST];
        for (size_t k = 0; k < n; k++) {
            valid[k] = i / MOST == 0   ? draw() % 8 == 0
                       : i / MOST == 1 ? draw() % 8 > 0
                                       : i / MOST == 2;
            values += valid[k];
        }
        for (size_t k = 0; k < MOST; k++) {
            x[k] = y[k] = z[k] = (uint64_t)draw() << 32 | draw();
        }
        fast->spread_8(x, valid, n, values);
        slow->spread_8(y, valid, n, values);
        CHECK(memcmp(x, y, sizeof x) == 0);
        for (size_t k = 0, at = 0; k < n; k++) {
            CHECK(x[k] == (valid[k] ? z[at] : 0));
            at += valid[k];
        }
        fast->spread_4(x, valid, n, values);
        slow->spread_4(y, valid, n, values);
        CHECK(memcmp(x, y, sizeof x) == 0);
    }
}

TEST(spreading_equals_the_reference) {
    each_variant(check_spreading);
}

TEST(the_largest_equals_the_reference) {
    each_variant(check_largest);
}

TEST(numbers_that_count_up_are_told_from_others) {
    const mr_column_kernels *all[] = {best(), best_without(MR_CPU_AVX512),
                                      &mr_column_kernels_scalar};
    for (size_t n = 0; n < 40; n++) {
        uint32_t index[40];
        for (size_t i = 0; i < n; i++) {
            index[i] = (uint32_t)i - 3; /* wraps around */
        }
        for (size_t k = 0; k < 3; k++) {
            CHECK(all[k]->counts_up(index, n, (uint32_t)-3));
            CHECK(all[k]->counts_up(index, n, 5) == (n == 0));
            for (size_t i = 0; i < n; i++) {
                index[i] ^= 1u << i % 32;
                CHECK(!all[k]->counts_up(index, n, (uint32_t)-3));
                index[i] ^= 1u << i % 32;
            }
        }
    }
}

/* Columns to rows and back again, by both variants: words of one number, of two and of none. */
static void check_rows(const mr_row_kernels *fast, size_t n, size_t first) {
    const mr_row_kernels *slow = &mr_row_kernels_scalar;
    size_t column = (first + n) * 8, stride = 40;
    uint8_t *in = random_bytes(4 * column), *out = calloc(8, column + 1);
    uint8_t *x = calloc(n + 1, stride), *y = calloc(n + 1, stride);
    const uint8_t *rows[64];
    const mr_word from[4] = {
        {in, NULL}, {in + column, in + 2 * column}, {NULL, NULL}, {in + 3 * column, NULL}};
    fast->fill(x, stride, from, first, n);
    slow->fill(y, stride, from, first, n);
    CHECK(memcmp(x, y, n * stride) == 0);
    for (size_t i = 0; i < n; i++) {
        rows[i] = x + (i * 7 % (n ? n : 1)) * stride;
    }
    for (size_t k = 0; k < 2; k++) {
        uint8_t *at = out + k * 4 * column;
        const mr_word to[4] = {
            {NULL, NULL}, {at, at + column}, {at + 2 * column, NULL}, {at + 3 * column, NULL}};
        (k ? slow : fast)->take(rows, 0, to, first, n);
    }
    CHECK(memcmp(out, out + 4 * column, 4 * column) == 0);
    for (size_t i = 0; i < n; i++) {
        size_t row = first + i * 7 % n;
        CHECK(memcmp(out + (first + i) * 4, in + column + row * 4, 4) == 0);
        CHECK(memcmp(out + column + (first + i) * 4, in + 2 * column + row * 4, 4) == 0);
        CHECK(memcmp(out + 3 * column + (first + i) * 8, in + 3 * column + row * 8, 8) == 0);
    }
    free(in);
    free(out);
    free(x);
    free(y);
}

TEST(rows_of_columns_equal_the_reference) {
    uint32_t cpu = 0;
    CHECK_INT(mr_cpu_features(NULL, &cpu, NULL), ==, MR_OK);
    const mr_row_kernels *fast = mr_row_kernels_for(cpu);
    _Alignas(32) uint8_t from[320], to[320];
    for (size_t n = 0; n < 64; n++) {
        check_rows(fast, n, n % 5);
    }
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t)draw();
        to[i] = 7;
    }
    fast->put(to, from, 288);
    CHECK(memcmp(to, from, 288) == 0 && to[288] == 7 && to[319] == 7);
}

static void check_sums_and_bytes(const mr_column_kernels *fast) {
    const mr_column_kernels *slow = &mr_column_kernels_scalar;
    for (size_t n = 0; n < 100; n++) {
        uint8_t *bytes = random_bytes(n * 8), *other = malloc(n * 8 + 1), *out = malloc(n * 9 + 1),
                *expected = malloc(n * 9 + 1);
        memcpy(other, bytes, n * 8);
        CHECK_INT(fast->sum_64((uint64_t *)(void *)bytes, n, 77, 5), ==,
                  slow->sum_64((uint64_t *)(void *)other, n, 77, 5));
        CHECK(memcmp(bytes, other, n * 8) == 0);
        CHECK_INT(fast->sum_32((uint32_t *)(void *)bytes, 2 * n, 3, 9), ==,
                  slow->sum_32((uint32_t *)(void *)other, 2 * n, 3, 9));
        CHECK(memcmp(bytes, other, n * 8) == 0);
        for (size_t width = 1; width <= 8; width++) {
            fast->join_bytes(out, bytes, n, width);
            slow->join_bytes(expected, bytes, n, width);
            CHECK(memcmp(out, expected, n * width) == 0);
        }
        free(bytes);
        free(other);
        free(out);
        free(expected);
    }
}

TEST(running_sums_and_split_bytes_equal_the_reference) {
    each_variant(check_sums_and_bytes);
}

/* ---- Runs and differences ---- */
TEST(runs_and_groups_come_in_any_order) {
    /* 10 times 1; 8 packed: 1 0 0 1 0 1 1 0; 3 times 0 */
    const uint8_t in[] = {20, 1, 3, 0x69, 6, 0};
    uint8_t out[21], expected[21] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0};
    for (int64_t step = 1; step <= 21; step++) { /* taken in pieces of any size */
        mr_pq_runs runs = mr_pq_runs_of((mr_pq_bytes){in, sizeof in}, 1, best());
        for (int64_t at = 0; at < 21; at += step) {
            CHECK(mr_pq_runs_u8(&runs, out + at, at + step <= 21 ? step : 21 - at));
        }
        CHECK(memcmp(out, expected, 21) == 0);
        CHECK(!mr_pq_runs_u8(&runs, out, 1));
    }
    int64_t zeros[16], found = 0;
    mr_pq_runs runs = mr_pq_runs_of((mr_pq_bytes){in, sizeof in}, 1, best());
    CHECK(mr_pq_runs_zeros(&runs, 21, 100, zeros, 16, &found));
    CHECK_INT(found, ==, 7);
    CHECK_INT(zeros[0], ==, 111);
    CHECK_INT(zeros[6], ==, 120);
    runs = mr_pq_runs_of((mr_pq_bytes){in, sizeof in}, 1, best());
    CHECK(!mr_pq_runs_zeros(&runs, 21, 0, zeros, 6, &found)); /* no room: nothing is overrun */
}

TEST(runs_all_of_one_value_are_told) {
    const uint8_t in[] = {20, 1, 6, 1, 6, 0};
    mr_pq_runs runs = mr_pq_runs_of((mr_pq_bytes){in, sizeof in}, 1, best());
    CHECK(mr_pq_runs_all(&runs, 13, 1));
    CHECK(!mr_pq_runs_all(&runs, 3, 1));
    CHECK(mr_pq_runs_all(&runs, 3, 0));
}

TEST(differences_are_added_up) {
    /* blocks of 128 in 4 miniblocks, 5 values: 7 5 3 1 2; least difference -2 */
    const uint8_t in[] = {0x80, 1, 4, 5, 14, 3, 2, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0};
    const int32_t expected[] = {7, 5, 3, 1, 2};
    int32_t out[5];
    const uint8_t *at = in;
    CHECK(mr_pq_delta(best(), &at, in + sizeof in, 4, out, 5));
    CHECK(memcmp(out, expected, sizeof out) == 0);
    CHECK_INT(at - in, ==, sizeof in);
    at = in;
    CHECK(!mr_pq_delta(best(), &at, in + 10, 4, out, 5)); /* cut off */
    at = in;
    CHECK(!mr_pq_delta(best(), &at, in + sizeof in, 4, out, 4)); /* another count */
}

/* ---- Thrift ---- */
TEST(thrift_survives_its_own_limits) {
    uint8_t deep[64];
    memset(deep, 0x1C, sizeof deep); /* structs in structs, without an end */
    mr_thrift in = {deep, deep + sizeof deep, false};
    mr_thrift_skip(&in, MR_THRIFT_STRUCT);
    CHECK(in.bad);
    const uint8_t long_list[] = {0xF8, 0xFF, 0xFF, 0xFF, 0xFF, 0x07};
    int32_t n;
    in = (mr_thrift){long_list, long_list + sizeof long_list, false};
    CHECK(!mr_thrift_list(&in, MR_THRIFT_LIST, MR_THRIFT_BINARY, &n) && in.bad && n == 0);
}

/* ---- A file of one column, made by hand ---- */
typedef struct tiny {
    uint8_t bytes[2048];
    size_t size;
    int64_t rows;
} tiny;

/* Column "x", required or optional, INT32, from the bytes of its pages. */
static tiny make_file(const void *pages, size_t size, bool optional, int64_t rows, int64_t n_values,
                      int64_t encryption) {
    tiny file = {.rows = rows};
    mr_thrift_out out = {0};
    int32_t last = 0, inner = 0;
    mr_thrift_put_int(&out, &last, 1, MR_THRIFT_I32, 2);
    mr_thrift_put_list(&out, &last, 2, MR_THRIFT_STRUCT, 2);
    mr_thrift_put_binary(&out, &inner, 4, "root", 4);
    mr_thrift_put_int(&out, &inner, 5, MR_THRIFT_I32, 1);
    mr_thrift_put_stop(&out);
    inner = 0;
    mr_thrift_put_int(&out, &inner, 1, MR_THRIFT_I32, MR_PQ_INT32);
    mr_thrift_put_int(&out, &inner, 3, MR_THRIFT_I32, optional);
    mr_thrift_put_binary(&out, &inner, 4, "x", 1);
    mr_thrift_put_stop(&out);
    mr_thrift_put_int(&out, &last, 3, MR_THRIFT_I64, rows);
    mr_thrift_put_list(&out, &last, 4, MR_THRIFT_STRUCT, 1);
    int32_t group = 0, chunk = 0, data = 0;
    mr_thrift_put_list(&out, &group, 1, MR_THRIFT_STRUCT, 1);
    mr_thrift_put_struct(&out, &chunk, 3);
    mr_thrift_put_int(&out, &data, 1, MR_THRIFT_I32, MR_PQ_INT32);
    mr_thrift_put_int(&out, &data, 4, MR_THRIFT_I32, MR_PQ_UNCOMPRESSED);
    mr_thrift_put_int(&out, &data, 5, MR_THRIFT_I64, n_values);
    mr_thrift_put_int(&out, &data, 6, MR_THRIFT_I64, (int64_t)size);
    mr_thrift_put_int(&out, &data, 7, MR_THRIFT_I64, (int64_t)size);
    mr_thrift_put_int(&out, &data, 9, MR_THRIFT_I64, 4);
    mr_thrift_put_stop(&out);
    mr_thrift_put_stop(&out);
    mr_thrift_put_int(&out, &group, 2, MR_THRIFT_I64, (int64_t)size);
    mr_thrift_put_int(&out, &group, 3, MR_THRIFT_I64, rows);
    mr_thrift_put_stop(&out);
    if (encryption) {
        mr_thrift_put_struct(&out, &last, 8);
        mr_thrift_put_stop(&out);
    }
    mr_thrift_put_stop(&out);
    memcpy(file.bytes, "PAR1", 4);
    memcpy(file.bytes + 4, pages, size);
    memcpy(file.bytes + 4 + size, out.data, out.size);
    uint32_t footer = (uint32_t)out.size;
    file.size = 4 + size + out.size;
    memcpy(file.bytes + file.size, &footer, 4);
    memcpy(file.bytes + file.size + 4, "PAR1", 4);
    file.size += 8;
    free(out.data);
    return file;
}

/* A V1 page of plain values behind these levels (none: a required column). */
static size_t make_page(uint8_t *to, const void *levels, size_t n_levels, const int32_t *values,
                        size_t n, int64_t n_values) {
    mr_thrift_out out = {0};
    int32_t last = 0, inner = 0;
    int64_t size = (int64_t)(n_levels + n * 4);
    mr_thrift_put_int(&out, &last, 1, MR_THRIFT_I32, MR_PQ_DATA_PAGE);
    mr_thrift_put_int(&out, &last, 2, MR_THRIFT_I32, size);
    mr_thrift_put_int(&out, &last, 3, MR_THRIFT_I32, size);
    mr_thrift_put_struct(&out, &last, 5);
    mr_thrift_put_int(&out, &inner, 1, MR_THRIFT_I32, n_values);
    mr_thrift_put_int(&out, &inner, 2, MR_THRIFT_I32, MR_PQ_PLAIN);
    mr_thrift_put_int(&out, &inner, 3, MR_THRIFT_I32, MR_PQ_RLE);
    mr_thrift_put_int(&out, &inner, 4, MR_THRIFT_I32, MR_PQ_RLE);
    mr_thrift_put_stop(&out);
    mr_thrift_put_stop(&out);
    memcpy(to, out.data, out.size);
    if (n_levels > 0) {
        memcpy(to + out.size, levels, n_levels);
    }
    memcpy(to + out.size + n_levels, values, n * 4);
    size_t all = out.size + (size_t)size;
    free(out.data);
    return all;
}

static mr_status open_tiny(const tiny *file, mr_pq_file **out, mr_error *err) {
    int64_t footer = 0;
    *out = NULL;
    MR_TRY(mr_pq_tail(file->bytes + file->size - 8, (int64_t)file->size, &footer, err));
    return mr_pq_open(out, file->bytes + file->size - footer, (size_t)footer, (int64_t)file->size,
                      err);
}

typedef struct decoded {
    mr_pq_file *file;
    mr_pq_vector *vector;
} decoded;

static mr_status decode_with(mr_pq_decoder *decoder, const tiny *file, mr_pq_null_policy policy,
                             decoded *out, mr_error *err) {
    mr_pq_extent extent;
    mr_pq_nulls nulls = {.policy = policy, .fill = -1};
    MR_TRY(open_tiny(file, &out->file, err));
    if (out->file->n_groups != 1 || out->file->n_columns != 1) {
        return mr_fail(err, MR_E_CORRUPT, "another file");
    }
    MR_TRY(mr_pq_chunk_extent(out->file, 0, 0, &extent, err));
    mr_pq_bytes bytes = {file->bytes + extent.offset, (size_t)extent.size};
    mr_pq_job job = {.file = out->file, .bytes = bytes, .nulls = nulls};
    return mr_pq_decode(decoder, &job, &out->vector, err);
}

/* Decodes the column of a tiny file. */
static mr_status decode_tiny(const tiny *file, mr_pq_null_policy policy, decoded *out,
                             mr_error *err) {
    mr_pq_decoder *decoder;
    *out = (decoded){NULL, NULL};
    CHECK_INT(mr_pq_decoder_new(&decoder, 0, NULL, &(mr_pq_limits){1 << 20}, err), ==, MR_OK);
    mr_status status = decode_with(decoder, file, policy, out, err);
    mr_pq_decoder_free(decoder);
    return status;
}

static void drop(decoded *d) {
    mr_pq_vector_free(d->vector);
    mr_pq_close(d->file);
}

static const int32_t four[] = {10, -20, 30, 40};
static const uint8_t two_nulls[] = {2, 0, 0, 0, 3, 0x2D}; /* 1 0 1 1 0 1, and no more */

TEST(a_file_by_hand_has_its_values) {
    uint8_t pages[512];
    size_t size = make_page(pages, NULL, 0, four, 4, 4);
    size += make_page(pages + size, NULL, 0, four, 2, 2);
    tiny file = make_file(pages, size, false, 6, 6, 0);
    mr_error err = MR_ERROR_INIT;
    decoded d;
    CHECK_INT(decode_tiny(&file, MR_PQ_NULL_ERROR, &d, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    const int32_t expected[] = {10, -20, 30, 40, 10, -20};
    CHECK(d.vector && memcmp(d.vector->values, expected, sizeof expected) == 0);
    CHECK(d.vector && !d.vector->valid && d.vector->n_rows == 6);
    drop(&d);
}

TEST(nulls_are_filled_masked_or_refused) {
    uint8_t pages[512];
    size_t size = make_page(pages, two_nulls, sizeof two_nulls, four, 4, 6);
    tiny file = make_file(pages, size, true, 6, 6, 0);
    mr_error err = MR_ERROR_INIT;
    decoded d;
    CHECK_INT(decode_tiny(&file, MR_PQ_NULL_MASK, &d, &err), ==, MR_OK);
    const int32_t expected[] = {10, -1, -20, 30, -1, 40};
    const uint8_t valid[] = {1, 0, 1, 1, 0, 1};
    CHECK(d.vector && memcmp(d.vector->values, expected, sizeof expected) == 0);
    CHECK(d.vector && memcmp(d.vector->valid, valid, sizeof valid) == 0);
    drop(&d);
    CHECK_INT(decode_tiny(&file, MR_PQ_NULL_ERROR, &d, &err), ==, MR_E_TYPE);
    CHECK_TEXT(
        err.text,
        "row group 0, column \"x\": row 1 of the file is null (and 1 more in the row group)");
    CHECK_HAS(err.hint, "fill");
    drop(&d);
}

TEST(counts_that_differ_are_refused) {
    static const struct {
        int64_t rows, values;
        const char *text;
    } cases[] = {{5, 5, "more values"},
                 {7, 7, "the footer says 7"},
                 {6, 5, "5 values and 6 rows"},
                 {(int64_t)1 << 60, (int64_t)1 << 60, "more than 1048576 bytes"}};
    uint8_t pages[512];
    size_t size = make_page(pages, two_nulls, sizeof two_nulls, four, 4, 6);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny file = make_file(pages, size, true, cases[i].rows, cases[i].values, 0);
        mr_error err = MR_ERROR_INIT;
        decoded d;
        CHECK_INT(decode_tiny(&file, MR_PQ_NULL_FILL, &d, &err), <, 0);
        CHECK_HAS(err.text, cases[i].text);
        CHECK_HAS(err.text, "row group 0, column \"x\"");
        drop(&d);
    }
}

TEST(every_cut_and_every_wrong_byte_is_survived) {
    uint8_t pages[512];
    size_t size = make_page(pages, two_nulls, sizeof two_nulls, four, 4, 6);
    tiny file = make_file(pages, size, true, 6, 6, 0);
    for (size_t at = 0; at < file.size; at++) {
        for (uint32_t value = 0; value < 256; value += 5) {
            tiny wrong = file;
            mr_error err = MR_ERROR_INIT;
            decoded d;
            wrong.bytes[at] = (uint8_t)(wrong.bytes[at] + 1 + value);
            mr_status status = decode_tiny(&wrong, MR_PQ_NULL_FILL, &d, &err);
            CHECK(status == MR_OK || (status < 0 && err.text[0]));
            drop(&d);
        }
    }
}

TEST(what_is_not_supported_is_named) {
    uint8_t pages[512];
    size_t size = make_page(pages, NULL, 0, four, 4, 4);
    tiny file = make_file(pages, size, false, 4, 4, 1);
    mr_error err = MR_ERROR_INIT;
    mr_pq_file *parsed;
    CHECK_INT(open_tiny(&file, &parsed, &err), ==, MR_E_UNSUPPORTED);
    CHECK_HAS(err.text, "encrypted");
    memcpy(file.bytes + file.size - 4, "PARE", 4);
    CHECK_INT(open_tiny(&file, &parsed, &err), ==, MR_E_UNSUPPORTED);
    memcpy(file.bytes + file.size - 4, "PNG1", 4);
    CHECK_INT(open_tiny(&file, &parsed, &err), ==, MR_E_CORRUPT);
    CHECK_HAS(err.text, "PAR1");
}

TEST(an_index_opens_as_its_footer_does) {
    uint8_t pages[512];
    size_t size = make_page(pages, NULL, 0, four, 4, 4);
    tiny file = make_file(pages, size, false, 4, 4, 0);
    mr_error err = MR_ERROR_INIT;
    mr_pq_file *first, *second;
    void *index = NULL, *again = NULL;
    size_t n = 0, m = 0;
    CHECK_INT(open_tiny(&file, &first, &err), ==, MR_OK);
    CHECK_INT(mr_pq_index(first, &index, &n, &err), ==, MR_OK);
    CHECK_INT(mr_pq_open_index(&second, index, n, (int64_t)file.size, &err), ==, MR_OK);
    CHECK_INT(mr_pq_index(second, &again, &m, &err), ==, MR_OK);
    CHECK(n == m && memcmp(index, again, n) == 0);
    CHECK_INT(second->groups[0].chunks[0].offset, ==, 4);
    for (size_t cut = 0; cut < n; cut++) {
        mr_pq_file *none;
        uint8_t *part = malloc(cut + 1);
        memcpy(part, index, cut);
        CHECK_INT(mr_pq_open_index(&none, part, cut, (int64_t)file.size, &err), <, 0);
        free(part);
    }
    free(index);
    free(again);
    mr_pq_close(first);
    mr_pq_close(second);
}

TEST(patterns_match_as_shells_do) {
    static const struct {
        const char *pattern, *text;
        bool fits;
    } cases[] = {{"*", "", true},         {"a*c", "abbc", true},   {"a*c", "abbd", false},
                 {"f[0-3]", "f2", true},  {"f[0-3]", "f4", false}, {"f[!0-3]", "f4", true},
                 {"?x*y?", "axyz", true}, {"", "a", false},        {"**a**", "bab", true},
                 {"a", "a", true},        {"[", "[", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT(mr_pq_matches(cases[i].pattern, cases[i].text), ==, cases[i].fits);
    }
}

TEST(checksums_are_those_of_the_format) {
    CHECK_INT(mr_pq_crc32((const uint8_t *)"123456789", 9), ==, 0xCBF43926u);
}

TEST(what_stands_in_a_path_is_found) {
    json_t *found = mr_pq_partitions("/a", "/a/x=1/y=b%20c/z/file=2");
    CHECK_INT(json_object_size(found), ==, 2);
    CHECK_TEXT(json_string_value(json_object_get(found, "x")), "1");
    CHECK_TEXT(json_string_value(json_object_get(found, "y")), "b c");
    json_decref(found);
}

TEST_MAIN()
