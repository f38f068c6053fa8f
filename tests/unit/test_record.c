/* SPDX-License-Identifier: Apache-2.0 */
/* Stored samples: what goes in comes out, under its own key alone, and any byte that was changed is
 * noticed. */
#include "test.h"

#include "store/pack.h"
#include "store/record.h"

enum { BYTES = 10000 };

static unsigned char pattern[BYTES];

__attribute__((constructor)) static void fill_pattern(void) {
    for (int i = 0; i < BYTES; i++) {
        pattern[i] = (unsigned char)(i * 7 + i / 251);
    }
}

static mr_store_key key_of(int n) {
    mr_store_key key = {{0}};
    memcpy(key.bytes, &n, sizeof n);
    return key;
}

static mr_view image(int64_t height, int64_t width) {
    mr_view view = {.type = {.dtype = MR_U8, .layout = MR_HWC, .n_dims = 3}};
    view.type.dims[0] = height;
    view.type.dims[1] = width;
    view.type.dims[2] = 3;
    view.data = pattern;
    view.size = (size_t)(height * width * 3);
    return view;
}

static mr_view label(int64_t *value) {
    mr_view view = {.type = {.dtype = MR_I64}, .data = value, .size = sizeof *value};
    return view;
}

typedef struct stored {
    void *bytes;
    size_t size;
} stored;

static stored make(int key, const mr_view *values, int32_t n, int32_t packing) {
    stored s = {NULL, 0};
    mr_store_key k = key_of(key);
    mr_error err = MR_ERROR_INIT;
    s.bytes = malloc(mr_record_room(values, n, packing));
    CHECK(s.bytes != NULL);
    CHECK_INT(mr_record_write(&k, values, n, packing, s.bytes, &s.size, &err), ==, MR_OK);
    return s;
}

static mr_status check(int key, const void *bytes, size_t size) {
    mr_store_key k = key_of(key);
    mr_arena arena = {0};
    mr_status status = mr_record_verify(&k, bytes, size, &arena);
    mr_arena_free(&arena);
    return status;
}

static void check_values(const stored *s, const mr_view *values, int32_t n) {
    mr_store_key k = key_of(1);
    mr_arena arena = {0};
    mr_record record;
    CHECK_INT(mr_record_open(&record, &k, s->bytes, s->size, &arena), ==, MR_OK);
    CHECK_INT(record.n_fields, ==, n);
    for (int32_t i = 0; i < n; i++) {
        static unsigned char copy[BYTES];
        const mr_record_field *field = &record.fields[i];
        CHECK_INT(field->size, ==, values[i].size);
        CHECK_INT(field->type.n_dims, ==, values[i].type.n_dims);
        CHECK_INT(field->type.dtype, ==, values[i].type.dtype);
        CHECK_INT(field->type.layout, ==, values[i].type.layout);
        CHECK_INT(mr_record_copy(field, record.unpacked, copy), ==, MR_OK);
        CHECK(memcmp(copy, values[i].data, values[i].size) == 0);
    }
    mr_arena_free(&arena);
}

static int32_t packings[] = {MR_PACK_NONE, MR_PACK_LZ4, MR_PACK_ZSTD};
#define EACH_PACKING(p)                                                                            \
    for (size_t p##_i = 0; p##_i < 3; p##_i++)                                                     \
        if (mr_can_pack(packings[p##_i]))                                                          \
            for (int32_t p = packings[p##_i], p##_once = 1; p##_once; p##_once = 0)

TEST(values_come_back) {
    int64_t seven = 7;
    const mr_view values[] = {image(40, 50), label(&seven), image(1, 1)};
    EACH_PACKING(packing) {
        for (int32_t n = 1; n <= 3; n++) {
            stored s = make(1, values, n, packing);
            check_values(&s, values, n);
            CHECK_INT(check(1, s.bytes, s.size), ==, MR_OK);
            free(s.bytes);
        }
    }
}

TEST(a_value_of_no_bytes_comes_back) {
    mr_view nothing = {.type = {.dtype = MR_U8, .n_dims = 1}, .data = pattern, .size = 0};
    EACH_PACKING(packing) {
        stored s = make(1, &nothing, 1, packing);
        check_values(&s, &nothing, 1);
        free(s.bytes);
    }
}

TEST(another_key_does_not_fit) {
    const mr_view value = image(4, 5);
    EACH_PACKING(packing) {
        stored s = make(1, &value, 1, packing);
        CHECK_INT(check(2, s.bytes, s.size), ==, MR_E_CORRUPT);
        free(s.bytes);
    }
}

TEST(every_changed_bit_is_noticed) {
    int64_t seven = 7;
    const mr_view values[] = {image(6, 7), label(&seven)};
    EACH_PACKING(packing) {
        stored s = make(1, values, 2, packing);
        unsigned char *bytes = s.bytes;
        for (size_t bit = 0; bit < 8 * s.size; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            mr_status status = check(1, bytes, s.size);
            CHECK(status == MR_E_CORRUPT || status == MR_E_UNSUPPORTED);
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        CHECK_INT(check(1, bytes, s.size), ==, MR_OK);
        free(s.bytes);
    }
}

TEST(every_other_length_is_noticed) {
    const mr_view value = image(6, 7);
    EACH_PACKING(packing) {
        stored s = make(1, &value, 1, packing);
        for (size_t size = 0; size < s.size; size++) {
            void *part = malloc(size ? size : 1); /* so that a sanitizer sees reads beyond it */
            memcpy(part, s.bytes, size);
            CHECK_INT(check(1, part, size), ==, MR_E_CORRUPT);
            free(part);
        }
        unsigned char *longer = calloc(1, s.size + 1);
        memcpy(longer, s.bytes, s.size);
        CHECK_INT(check(1, longer, s.size + 1), ==, MR_E_CORRUPT);
        free(longer);
        free(s.bytes);
    }
}

/* A bit that differs after the record was opened: the copy is checked, not the original. */
TEST(a_copy_is_checked) {
    const mr_view value = image(40, 50);
    stored s = make(1, &value, 1, MR_PACK_NONE);
    mr_store_key k = key_of(1);
    mr_arena arena = {0};
    mr_record record;
    static unsigned char copy[BYTES];
    CHECK_INT(mr_record_open(&record, &k, s.bytes, s.size, &arena), ==, MR_OK);
    ((unsigned char *)s.bytes)[s.size - 1] ^= 1;
    CHECK_INT(mr_record_copy(&record.fields[0], record.unpacked, copy), ==, MR_E_CORRUPT);
    CHECK_INT(mr_record_copy(&record.fields[0], record.unpacked, NULL), ==, MR_E_CORRUPT);
    mr_arena_free(&arena);
    free(s.bytes);
}

TEST(another_format_is_told_from_damage) {
    const mr_view value = image(4, 5);
    stored s = make(1, &value, 1, MR_PACK_NONE);
    unsigned char *bytes = s.bytes;
    bytes[4] = 2; /* the format */
    CHECK_INT(check(1, bytes, s.size), ==, MR_E_UNSUPPORTED);
    bytes[4] = 1;
    bytes[7] = 9; /* the packing */
    CHECK_INT(check(1, bytes, s.size), ==, MR_E_UNSUPPORTED);
    free(s.bytes);
}

TEST(unpacking_wants_exactly_its_size) {
    unsigned char packed[BYTES + 1000], back[BYTES];
    EACH_PACKING(packing) {
        if (packing == MR_PACK_NONE) {
            continue;
        }
        size_t size = mr_pack(packing, pattern, BYTES, packed, sizeof packed);
        CHECK_INT(size, >, 0);
        CHECK_INT(size, <, BYTES);
        CHECK(mr_unpack(packing, packed, size, back, BYTES));
        CHECK(memcmp(back, pattern, BYTES) == 0);
        CHECK(!mr_unpack(packing, packed, size, back, BYTES - 1));
        CHECK(!mr_unpack(packing, packed, size - 1, back, BYTES));
        CHECK_INT(mr_pack(packing, pattern, BYTES, packed, 10), ==, 0);
    }
    CHECK(!mr_can_pack(-1) && !mr_can_pack(3) && !mr_can_pack(255));
}

TEST_MAIN()
