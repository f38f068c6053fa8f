/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of stored samples: as they are, and with all checksums made right,
 * which no fuzzer guesses. What it accepts must lie within what there is; nothing may be read
 * beyond. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static const mr_store_key key = {"a key of twenty-four byt"};

static void check_accepted(const mr_record *record, const uint8_t *data, size_t size) {
    want(record->n_fields >= 1 && record->n_fields <= MR_FIELDS_LIMIT);
    for (int32_t i = 0; i < record->n_fields; i++) {
        const mr_record_field *field = &record->fields[i];
        want(mr_type_bytes(&field->type) == (int64_t)field->size);
        want(record->unpacked || (field->data >= data && field->data + field->size <= data + size));
        uint8_t *copy = malloc(field->size + 1);
        mr_record_copy(field, record->unpacked, copy);
        free(copy);
    }
}

static void check(const uint8_t *data, size_t size) {
    mr_record record;
    mr_arena arena = {0};
    mr_status status = mr_record_open(&record, &key, data, size, &arena);
    want(status == MR_OK || status == MR_E_CORRUPT || status == MR_E_UNSUPPORTED);
    if (status == MR_OK) {
        check_accepted(&record, data, size);
    }
    mr_arena_reset(&arena);
    mr_record_verify(&key, data, size, &arena);
    mr_arena_free(&arena);
}

/* Where the head of record.c has its numbers. */
enum {
    FIELDS = 6,
    RAW_SIZE = 8,
    STORED_SIZE = 16,
    PACKED_SUM = 24,
    HEAD_SUM = 32,
    HEAD = 40,
    ROW = 8 + 8 * (MR_MAX_DIMS + 2)
};

static void put(uint8_t *at, uint64_t number) {
    number = htole64(number);
    memcpy(at, &number, sizeof number);
}

static uint64_t get(const uint8_t *at) {
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return le64toh(number);
}

static void check_made_right(const uint8_t *data, size_t size) {
    uint8_t *bytes = malloc(size);
    size_t front = HEAD + (size_t)data[FIELDS] * ROW;
    if (size >= front) {
        memcpy(bytes, data, size);
        memcpy(bytes, "MrrS\1\0", 6);
        put(bytes + RAW_SIZE, get(bytes + RAW_SIZE) & 0xFFFFF); /* a size that was not guessed */
        put(bytes + STORED_SIZE, size - front);
        put(bytes + PACKED_SUM, mr_hash64(bytes + front, size - front, 0));
        uint64_t sum = mr_hash64(&key, sizeof key, 0);
        sum = mr_hash64(bytes, HEAD_SUM, sum);
        put(bytes + HEAD_SUM, mr_hash64(bytes + HEAD, front - HEAD, sum));
        check(bytes, size);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check(data, size);
    if (size >= HEAD) {
        check_made_right(data, size);
    }
    return 0;
}
