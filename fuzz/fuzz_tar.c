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

/* Entries of a stream are the same ones; where the archive is cut off there may be one more. */
typedef struct both {
    const uint8_t *data;
    size_t size;
    int64_t at;
    bool is_more;
} both;

static mr_status compare(void *user, const mr_tar_entry *entry, mr_error *err) {
    both *b = user;
    mr_tar_entry expected;
    want(!b->is_more);
    b->is_more = mr_tar_next(b->data, b->size, b->at, &expected, err) != MR_OK;
    if (!b->is_more) {
        want(entry->offset == expected.offset && entry->data == expected.data);
        want(entry->size == expected.size && entry->next == expected.next);
        want(entry->is_file == expected.is_file && strcmp(entry->name, expected.name) == 0);
        b->at = entry->next;
    }
    return MR_OK;
}

static void check_stream(const uint8_t *data, size_t size, int64_t end, bool whole) {
    mr_error err = MR_ERROR_INIT;
    mr_tar_stream stream = {.n = 0};
    both b = {data, size, 0, false};
    mr_status status = MR_OK;
    for (size_t at = 0, piece = 1; status == MR_OK && at < size; at += piece) {
        piece = piece % 900 + 100;
        piece = piece < size - at ? piece : size - at;
        status = mr_tar_stream_feed(&stream, data + at, piece, compare, &b, &err);
    }
    want(b.at == end && whole == (status == MR_OK && mr_tar_stream_is_whole(&stream)));
    mr_tar_stream_free(&stream);
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
    check_stream(data, size, at, status == MR_END);
    want(status == MR_END || (err.code == status && err.offset >= 0 && err.text[0] != '\0'));
    return 0;
}
