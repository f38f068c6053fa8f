/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the readers of segments and of the index's entries: they become the content of a
 * segment, and their first 32 also an entry that leads into it. What is found is read, and checked
 * as a record of its key. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/guard.h"
#include "store/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ID = 1 };

typedef struct reading {
    mr_segments *segments;
    size_t size;
    int64_t n;
} reading;

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static bool use(void *user, const mr_store_key *key, const mr_location *location) {
    reading *r = user;
    mr_arena arena = {0};
    mr_segment *segment = mr_segments_hold(r->segments, location);
    if (segment) {
        const void *view = mr_segment_view(segment, location);
        want(view != NULL);
        (void)mr_record_verify(key, view, location->length, &arena);
        void *bytes = location->length <= r->size ? malloc(location->length + 1) : NULL;
        if (bytes && mr_segment_read(segment, location, bytes, NULL) == MR_OK) {
            (void)mr_record_verify(key, bytes, location->length, &arena);
        }
        free(bytes);
        mr_segments_release(r->segments, segment);
    }
    mr_arena_free(&arena);
    return ++r->n < 1000;
}

/* A folder in memory, made once: what a segment's name leads to is what counts. */
static char folder[] = "/dev/shm/millrace-fuzz-XXXXXX";

static void remove_folder(void) {
    rmdir(folder);
}

static int folder_of_fuzzer(void) {
    static int dir = -1;
    if (dir < 0) {
        want(mkdtemp(folder) != NULL && atexit(remove_folder) == 0);
        dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        mr_guard_install();
    }
    return dir;
}

/* A fuzzer hardly guesses a frame's checksum: the bytes also become a record in a good one. */
static void append_and_scan(reading *r, const uint8_t *data, size_t size) {
    const mr_store_key key = {{7}};
    mr_location location = {0};
    const mr_segment_item item = {&key, data, size};
    want(mr_segments_append(r->segments, &item, 1 << 26, &location, NULL) == MR_OK);
    int64_t before = r->n;
    r->size = size;
    mr_segment_scan(r->segments, location.segment, use, r);
    want(r->n > before);
    mr_segments_drop(r->segments, location.segment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_place place = {.dir = folder_of_fuzzer(), .users = -1, .size = 1000000};
    char name[24];
    snprintf(name, sizeof name, "%016x.seg", ID);
    int fd = openat(place.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    want(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    reading r = {.segments = mr_segments_open(&place), .size = size};
    mr_segment_scan(r.segments, ID, use, &r);
    if (size >= MR_LOCATION_BYTES) {
        unsigned char bytes[MR_LOCATION_BYTES];
        const mr_store_key key = {{0}};
        mr_location entry = mr_location_load(data);
        entry.segment = ID;
        mr_location_save(entry, bytes);
        entry = mr_location_load(bytes);
        want(entry.segment == ID);
        use(&r, &key, &entry);
    }
    r.n = 0;
    append_and_scan(&r, data, size);
    mr_segments_close(r.segments);
    unlinkat(place.dir, name, 0);
    return 0;
}
