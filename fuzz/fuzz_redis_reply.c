/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes, as two replies of a Redis server, to what makes numbered entries of them. What is
 * accepted has numbers without gaps and ids that rise. The first byte says where the reader stands,
 * the next two how long the first reply is. */
#include <stdlib.h>

#include "fabric/redis_line.h"
#include "sources/redis_marks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void take_entries(const mr_redis_part *part, mr_redis_cursor *cursor) {
    const mr_redis_names names = {"value", "label", "key", "time"};
    mr_redis_marks marks = {.list = NULL};
    mr_redis_cursor found;
    const char *why;
    mr_entry entry;
    for (int64_t i = 0; i < part->n; i++) {
        mr_redis_cursor before = *cursor;
        if (!mr_redis_entry_read(part->entries[i], &names, cursor, &entry, &why)) {
            break;
        }
        want(entry.number == before.next && cursor->next == before.next + 1);
        want(mr_redis_id_before(before.last, cursor->last));
        want((entry.value == NULL) == (why != NULL));
        mr_redis_marks_add(&marks, &before);
        want(mr_redis_marks_find(&marks, entry.number, &found) && found.next <= entry.number);
    }
    mr_redis_marks_free(&marks);
}

static void read_part(redisReply *const replies[2], unsigned how) {
    mr_redis_cursor cursor = {.last = {how & 2 ? 5 : 0, how & 4 ? 1 : 0}, .next = how & 8 ? 3 : -1};
    const mr_redis_cursor before = cursor;
    bool checks = how & 1 && cursor.next > 0;
    mr_redis_part part;
    if (mr_redis_part_read(replies, "key", 1 + how / 16, checks, &cursor, &part, NULL) < 0) {
        return;
    }
    want(cursor.next >= before.next);
    want(part.n == 0 || cursor.next >= 0);
    want(cursor.next + part.n <= part.facts.added || part.n == 0);
    take_entries(&part, &cursor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t first = size >= 3 ? (size_t)data[1] + 256 * (size_t)data[2] : 0;
    if (size < 3 || first > size - 3) {
        return 0;
    }
    redisReply *replies[2] = {mr_redis_parse(data + 3, first),
                              mr_redis_parse(data + 3 + first, size - 3 - first)};
    if (replies[0] && replies[1]) {
        read_part(replies, data[0]);
    }
    if (replies[0]) {
        mr_redis_cursor cursor = {.next = 9};
        mr_status status = mr_redis_go_back(replies[0], 8, 3, &cursor);
        want(status != MR_OK || cursor.next <= 3);
    }
    for (int i = 0; i < 2; i++) {
        if (replies[i]) {
            mr_redis_reply_free(replies[i]);
        }
    }
    return 0;
}
