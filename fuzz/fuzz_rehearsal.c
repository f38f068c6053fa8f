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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t words = size / 8;
    if (words < 13 || words > 4000) {
        return 0;
    }
    uint64_t *bytes = malloc(words * 8);
    memcpy(bytes, data, words * 8);
    bytes[0] = htole64(0x31636572686572u);
    bytes[words - 1] = htole64(mr_hash64(bytes, (words - 1) * 8, 0));
    mr_rehearsal *buffer = NULL;
    if (mr_rehearsal_restore(&buffer, (const unsigned char *)bytes, words * 8, NULL) == MR_OK) {
        unsigned char *again = NULL;
        size_t n = 0;
        want(mr_rehearsal_save(buffer, &again, &n, NULL) == MR_OK && n == words * 8);
        free(again);
        use(buffer);
    }
    mr_rehearsal_free(buffer);
    free(bytes);
    return 0;
}
