/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of entries that ranks send each other. Keys and values lie inside the
 * bytes, and what is read and written again is read the same. */
#include <stdlib.h>
#include <string.h>

#include "run/stream/relay_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static bool is_inside(const void *part, size_t size, const char *at, const char *end) {
    const char *begin = part;
    return size == 0 || (begin >= at && begin <= end && size <= (size_t)(end - begin));
}

static void write_again(const mr_relay_record *record, const mr_entry *entry) {
    bool is_there = !(record->flags & MR_RECORD_NOT_HERE);
    mr_relay_bytes bytes = {.bytes = NULL};
    mr_relay_record other;
    mr_entry same;
    size_t n = mr_relay_write(&bytes, record->step, record->place, is_there ? entry : NULL,
                              record->flags == MR_RECORD_AFAR);
    const char *at = bytes.bytes;
    want(n == bytes.size && mr_relay_read(&at, bytes.bytes + n, &other, &same));
    want(other.step == record->step && other.place == record->place &&
         (same.value == NULL) == (entry->value == NULL));
    want(!is_there ||
         (same.number == entry->number && same.size == entry->size &&
          same.key_size == entry->key_size && memcmp(same.key, entry->key, entry->key_size) == 0));
    free(bytes.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *bytes = malloc(size + 1); /* of its own, so that a byte too far is seen */
    memcpy(bytes, data, size);
    const char *at = bytes, *end = bytes + size;
    mr_relay_record record;
    mr_entry entry;
    while (mr_relay_read(&at, end, &record, &entry)) {
        want(record.step >= 0 && record.number >= 0 && record.number <= (int64_t)1 << 48);
        want(at <= end && is_inside(entry.key, entry.key_size, bytes, end) &&
             is_inside(entry.value, entry.size, bytes, end));
        if (record.flags <= MR_RECORD_AFAR || record.flags == MR_RECORD_NOT_HERE) {
            write_again(&record, &entry);
        }
    }
    free(bytes);
    return 0;
}
