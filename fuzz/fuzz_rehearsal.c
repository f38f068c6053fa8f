/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of saved rehearsal buffers, with a checksum that fits. What it accepts
 * must go on working and save as the same bytes. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "plan/rehearsal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void use(mr_rehearsal *buffer) {
    mr_representative drawn;
    for (uint32_t slot = 0; slot < 20; slot++) {
        (void)mr_rehearsal_draw(buffer, 1, slot, &drawn);
    }
    for (uint64_t id = 0; id < 50; id++) {
        const mr_offer offer = {INT64_MAX / 2, id, (int64_t)id % 3, 1};
        if (mr_rehearsal_offer(buffer, &offer, NULL) < 0) {
            return;
        }
    }
    (void)mr_rehearsal_advance(buffer, INT64_MAX, NULL);
    (void)mr_rehearsal_draw(buffer, 2, 0, &drawn);
}

enum { HEAD = 5, ROW = 24 };

/* A magic number, as many samples as there is room for in rows of one of the forms, and a checksum
 * that fits; how many bytes that are. */
static size_t make_whole(uint64_t *bytes, size_t rows) {
    static const size_t forms[] = {24, 9, 12};
    unsigned char *at = (unsigned char *)bytes;
    size_t groups = (size_t)le64toh(bytes[10]) % 64, pending = (size_t)le64toh(bytes[12]) % 8;
    size_t before = HEAD + groups + 2 * pending, form = (size_t)le64toh(bytes[13]) % 3;
    bytes[0] = htole64(0x34636572686572u);
    if (before >= rows) {
        return rows * ROW;
    }
    size_t own = forms[form], kept = (rows - 1 - before) * ROW / own;
    bytes[10] = htole64(groups);
    bytes[11] = htole64(kept);
    bytes[12] = htole64(pending);
    bytes[13] = htole64(form);
    bytes[14] = 0;
    uint64_t sum = mr_hash64(bytes, before * ROW, 0);
    at += before * ROW;
    for (size_t i = 0; i < kept; i++, at += own) {
        sum += mr_hash64(at, own, i);
    }
    const uint64_t last[3] = {htole64(sum), 0, 0};
    memcpy(at, last, sizeof last);
    return before * ROW + kept * own + ROW;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t rows = size / ROW;
    if (rows < HEAD + 1 || rows > 1300) {
        return 0;
    }
    uint64_t *bytes = malloc(rows * ROW);
    memcpy(bytes, data, rows * ROW);
    size_t whole = make_whole(bytes, rows);
    mr_rehearsal *buffer = NULL;
    if (mr_rehearsal_restore(&buffer, (const unsigned char *)bytes, whole, NULL) == MR_OK) {
        unsigned char *again = NULL;
        size_t n = 0;
        want(mr_rehearsal_save(buffer, &again, &n, NULL) == MR_OK && n == whole);
        free(again);
        want(mr_rehearsal_mirror(buffer, NULL) == MR_OK);
        use(buffer);
    }
    mr_rehearsal_free(buffer);
    free(bytes);
    return 0;
}
