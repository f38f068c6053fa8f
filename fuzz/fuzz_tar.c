/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of tar entries, from the beginning to the end. Entries lie inside the
 * archive and go forward; what is refused names a byte. */
#include <stdlib.h>
#include <string.h>

#include "codecs/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_entry(const mr_tar_entry *entry, int64_t at, size_t size) {
    mr_tar_part part;
    want(entry->offset == at && entry->next > at && entry->next <= (int64_t)size);
    want(entry->data > at && entry->size >= 0 && entry->data + entry->size <= entry->next);
    want(strlen(entry->name) == entry->name_length && entry->name_length < MR_TAR_NAME);
    if (mr_tar_part_of(entry, &part)) {
        want(entry->is_file && part.key_length > 0 && part.extension[0] != '\0');
        want(part.extension == entry->name + part.key_length + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    mr_tar_entry entry = {.next = 0};
    mr_status status;
    int64_t at = 0;
    while ((status = mr_tar_next(data, size, at, &entry, &err)) == MR_OK) {
        check_entry(&entry, at, size);
        at = entry.next;
    }
    want(status == MR_END || (err.code == status && err.offset >= 0 && err.text[0] != '\0'));
    return 0;
}
