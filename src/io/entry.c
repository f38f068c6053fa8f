/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - see entry.h. */
#include "io/entry.h"

#include <endian.h>
#include <string.h>

#include "core/hash.h"

enum { FORMAT = 1, CHECKED = MR_ENTRY_HEAD - sizeof(uint64_t) };
#define SEGMENT_MAGIC 0x656d616572745300u /* "\0Streame" */
#define ENTRY_MAGIC 0x79727465722d6d00u   /* "\0m-retry" */

typedef struct segment_head {
    uint64_t magic;
    uint32_t format, partition;
    uint64_t first, zero[4];
    uint64_t check; /* of what comes before */
} segment_head;

typedef struct entry_head {
    uint64_t magic;
    uint64_t number, label, time;
    uint32_t key_size, size;
    uint64_t zero, sum;
    uint64_t check; /* of what comes before */
} entry_head;

_Static_assert(sizeof(segment_head) == MR_ENTRY_HEAD, "no padding");
_Static_assert(sizeof(entry_head) == MR_ENTRY_HEAD, "no padding");

uint64_t mr_stream_segment_seed(const mr_stream_segment *name) {
    const uint64_t words[3] = {htole64(name->stream), htole64(name->partition),
                               htole64((uint64_t)name->first)};
    return mr_hash64(words, sizeof words, 0);
}

void mr_stream_segment_head_make(const mr_stream_segment *name, unsigned char out[MR_ENTRY_HEAD]) {
    segment_head head = {.magic = htole64(SEGMENT_MAGIC),
                         .format = htole32(FORMAT),
                         .partition = htole32(name->partition),
                         .first = htole64((uint64_t)name->first)};
    head.check = htole64(mr_hash64(&head, CHECKED, mr_stream_segment_seed(name)));
    memcpy(out, &head, sizeof head);
}

bool mr_stream_segment_head_check(const mr_stream_segment *name,
                                  const unsigned char bytes[MR_ENTRY_HEAD]) {
    unsigned char expected[MR_ENTRY_HEAD];
    mr_stream_segment_head_make(name, expected);
    return memcmp(bytes, expected, sizeof expected) == 0;
}

size_t mr_entry_bytes(size_t size, size_t key_size) {
    return (MR_ENTRY_HEAD + size + key_size + MR_ENTRY_ALIGN - 1) / MR_ENTRY_ALIGN * MR_ENTRY_ALIGN;
}

static uint64_t add_key(uint64_t sum, const void *key, size_t size) {
    return size > 0 ? mr_hash64(key, size, sum) : sum;
}

void mr_entry_make(const mr_entry *entry, uint64_t seed, unsigned char *out) {
    unsigned char *value = out + MR_ENTRY_HEAD, *key = value + entry->size;
    size_t bytes = mr_entry_bytes(entry->size, entry->key_size);
    memset(out + bytes - MR_ENTRY_ALIGN, 0, MR_ENTRY_ALIGN);
    uint64_t sum =
        entry->size > 0 ? mr_hash64_copy(value, entry->value, entry->size) : mr_hash64(value, 0, 0);
    if (entry->key_size > 0) {
        memcpy(key, entry->key, entry->key_size);
    }
    entry_head head = {.magic = htole64(ENTRY_MAGIC),
                       .number = htole64((uint64_t)entry->number),
                       .label = htole64((uint64_t)entry->label),
                       .time = htole64((uint64_t)entry->time),
                       .key_size = htole32((uint32_t)entry->key_size),
                       .size = htole32((uint32_t)entry->size),
                       .sum = htole64(add_key(sum, entry->key, entry->key_size))};
    head.check = htole64(mr_hash64(&head, CHECKED, seed));
    memcpy(out, &head, sizeof head);
}

bool mr_entry_head_parse(const unsigned char bytes[MR_ENTRY_HEAD], uint64_t seed,
                         mr_entry_head *head) {
    entry_head own;
    memcpy(&own, bytes, sizeof own);
    if (le64toh(own.magic) != ENTRY_MAGIC || le64toh(own.check) != mr_hash64(&own, CHECKED, seed)) {
        return false;
    }
    *head = (mr_entry_head){.number = (int64_t)le64toh(own.number),
                            .label = (int64_t)le64toh(own.label),
                            .time = (int64_t)le64toh(own.time),
                            .key_size = le32toh(own.key_size),
                            .size = le32toh(own.size),
                            .sum = le64toh(own.sum)};
    return head->number >= 0 && head->size <= (size_t)MR_ENTRY_MAX &&
           head->key_size <= MR_ENTRY_KEY_MAX;
}

bool mr_entry_parse(const mr_entry_head *head, const unsigned char *bytes, mr_entry *entry) {
    const unsigned char *value = bytes + MR_ENTRY_HEAD, *key = value + head->size;
    *entry = (mr_entry){.number = head->number,
                        .label = head->label,
                        .time = head->time,
                        .key = key,
                        .key_size = head->key_size,
                        .value = value,
                        .size = head->size};
    return add_key(mr_hash64_copy(NULL, value, head->size), key, head->key_size) == head->sum;
}

bool mr_entry_find_head(const unsigned char *bytes, size_t size, uint64_t seed, size_t *at,
                        mr_entry_head *head) {
    for (; size >= MR_ENTRY_HEAD && *at <= size - MR_ENTRY_HEAD; *at += MR_ENTRY_ALIGN) {
        if (mr_entry_head_parse(bytes + *at, seed, head)) {
            return true;
        }
    }
    return false;
}

bool mr_entry_find(const unsigned char *bytes, size_t size, uint64_t seed, size_t *at,
                   mr_entry *entry) {
    mr_entry_head head;
    while (mr_entry_find_head(bytes, size, seed, at, &head)) {
        size_t length = mr_entry_bytes(head.size, head.key_size);
        if (length > size - *at) {
            return false;
        }
        if (mr_entry_parse(&head, bytes + *at, entry)) {
            return true;
        }
        *at += length;
    }
    return false;
}
