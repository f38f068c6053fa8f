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

/* A magic number, as many samples as there is room for, and a checksum that fits. */
static void make_whole(uint64_t *bytes, size_t rows) {
    enum { HEAD = 5, ROW = 24 };
    const unsigned char *at = (const unsigned char *)bytes;
    size_t groups = (size_t)le64toh(bytes[10]) % 64, pending = (size_t)le64toh(bytes[12]) % 8;
    size_t before = HEAD + groups + 2 * pending;
    uint64_t *last = bytes + (rows - 1) * 3;
    bytes[0] = htole64(0x33636572686572u);
    last[0] = last[1] = last[2] = 0;
    if (before >= rows) {
        return;
    }
    bytes[10] = htole64(groups);
    bytes[11] = htole64(rows - 1 - before);
    bytes[12] = htole64(pending);
    bytes[13] = bytes[14] = 0;
    uint64_t sum = mr_hash64(bytes, before * ROW, 0);
    for (size_t i = 0; before + i < rows - 1; i++) {
        sum += mr_hash64(at + (before + i) * ROW, ROW, i);
    }
    last[0] = htole64(sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { HEAD = 5, ROW = 24 };
    size_t words = size / ROW * 3, rows = words / 3;
    if (rows < HEAD + 1 || words > 4000) {
        return 0;
    }
    uint64_t *bytes = malloc(words * 8);
    memcpy(bytes, data, words * 8);
    make_whole(bytes, rows);
    mr_rehearsal *buffer = NULL;
    if (mr_rehearsal_restore(&buffer, (const unsigned char *)bytes, words * 8, NULL) == MR_OK) {
        unsigned char *again = NULL;
        size_t n = 0;
        want(mr_rehearsal_save(buffer, &again, &n, NULL) == MR_OK && n == words * 8);
        free(again);
        want(mr_rehearsal_mirror(buffer, NULL) == MR_OK);
        use(buffer);
    }
    mr_rehearsal_free(buffer);
    free(bytes);
    return 0;
}
