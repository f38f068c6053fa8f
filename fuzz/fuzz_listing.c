/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of a listing's index, whose checksum is not looked at in this build.
 * All names lie inside of it. */
#include <stdlib.h>
#include <string.h>

#include "sources/listing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_listing listing = {.map.fd = -1};
    uint64_t key = 0;
    void *copy = malloc(size + 8); /* aligned, as a map is */
    if (!copy) {
        return 0;
    }
    memcpy(copy, data, size);
    memcpy(&key, (char *)copy + (size >= 24 ? 16 : 0), size >= 24 ? sizeof key : 0);
    bool objects = key % 2 == 1;
    if (mr_listing_parse(&listing, copy, size, key, objects)) {
        const char *end = (const char *)copy + size;
        for (int64_t i = 0; i < listing.n; i++) {
            const char *name = listing.names + listing.starts[i];
            want(name + strlen(name) < end);
            want(!objects || mr_listing_object(name) + strlen(mr_listing_object(name)) < end);
        }
        for (int64_t i = 0; i < listing.n_folders; i++) {
            const char *name = listing.folder_names + listing.folders[i].name;
            want(name + strlen(name) < end);
        }
    }
    free(copy);
    return 0;
}
