/* SPDX-License-Identifier: Apache-2.0 */
/* relay_record.c - see relay_record.h. */
#include "run/stream/relay_record.h"

#include <stdlib.h>
#include <string.h>

#include "core/philox.h"

enum { MOST_KEY = 65535, MOST_VALUE = 1 << 30 };

static size_t rounded(size_t size) {
    return (size + 7) & ~(size_t)7;
}

size_t mr_relay_told_bytes(const mr_entry *entry) {
    return rounded(sizeof(mr_relay_record) + entry->key_size);
}

static bool make_room(mr_relay_bytes *to, size_t more) {
    size_t room = to->room ? to->room : 4096;
    while (room < to->size + more) {
        room *= 2;
    }
    char *bytes = room > to->room ? realloc(to->bytes, room) : to->bytes;
    if (bytes) {
        to->bytes = bytes;
        to->room = room;
    }
    return bytes != NULL;
}

static void add(mr_relay_bytes *to, const void *bytes, size_t size) {
    if (size > 0) {
        memcpy(to->bytes + to->size, bytes, size);
    }
    to->size += size;
}

static mr_relay_record describe(const mr_entry *entry, bool afar) {
    uint32_t flags = entry->value ? afar ? MR_RECORD_AFAR : 0 : MR_RECORD_BAD;
    return (mr_relay_record){.flags = flags,
                             .number = entry->number,
                             .label = entry->label,
                             .time = entry->time,
                             .key_size = (uint32_t)entry->key_size,
                             .size = entry->value ? entry->size : 0};
}

size_t mr_relay_write(mr_relay_bytes *to, int64_t step, int32_t place, const mr_entry *entry,
                      bool afar) {
    static const char zeros[8] = {0};
    mr_relay_record head =
        entry ? describe(entry, afar) : (mr_relay_record){.flags = MR_RECORD_NOT_HERE};
    head.step = step;
    head.place = place;
    size_t value = head.flags == 0 ? (size_t)head.size : 0;
    size_t bytes = rounded(sizeof head + head.key_size + value), before = to->size;
    if (!make_room(to, bytes)) {
        return 0;
    }
    add(to, &head, sizeof head);
    add(to, entry ? entry->key : NULL, head.key_size);
    add(to, entry ? entry->value : NULL, value);
    add(to, zeros, bytes - (to->size - before));
    return bytes;
}

bool mr_relay_read(const char **at, const char *end, mr_relay_record *record, mr_entry *entry) {
    size_t left = (size_t)(end - *at);
    if (left < sizeof *record) {
        return false;
    }
    memcpy(record, *at, sizeof *record);
    size_t value = record->flags == 0 ? (size_t)record->size : 0;
    bool well = record->key_size <= MOST_KEY && record->size <= MOST_VALUE &&
                record->flags <= MR_RECORD_NOT_HERE && record->number >= 0 &&
                record->number < MR_MAX_SAMPLES && record->step >= 0 && record->place >= 0 &&
                rounded(sizeof *record + record->key_size + value) <= left;
    if (!well) {
        return false;
    }
    const char *key = *at + sizeof *record;
    bool is_there = !(record->flags & (MR_RECORD_BAD | MR_RECORD_NOT_HERE));
    *entry = (mr_entry){.number = record->number,
                        .label = record->label,
                        .time = record->time,
                        .key = key,
                        .key_size = record->key_size,
                        .value = is_there ? key + record->key_size : NULL,
                        .size = value};
    *at += rounded(sizeof *record + record->key_size + value);
    return true;
}
