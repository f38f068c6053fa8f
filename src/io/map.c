/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - see map.h. */
#include "io/map.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "io/file.h"

static mr_status map_failed(size_t size, int sys, mr_error *err) {
    mr_status code = sys == ENOMEM ? MR_E_MEMORY : MR_E_IO;
    mr_fail_errno(err, code, sys, "cannot map %zu bytes", size);
    if (sys == ENODEV) {
        mr_hint(err, "this file system cannot map files: copy the file to one that can");
    }
    return code;
}

static mr_status map_open_file(mr_map *map, const mr_open_extent *file, mr_error *err) {
    if (file->size == 0) {
        return MR_OK; /* which mmap refuses */
    }
    void *data = mmap(NULL, file->size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (data == MAP_FAILED) {
        return map_failed(file->size, errno, err);
    }
    map->data = data;
    map->size = file->size;
    return MR_OK;
}

static mr_status open_and_map(mr_map *map, const char *path, mr_error *err) {
    const mr_extent whole = {path, 0, -1, INT64_MAX};
    mr_open_extent file;
    MR_TRY(mr_extent_open(&whole, &file, err));
    map->fd = file.fd;
    return map_open_file(map, &file, err);
}

mr_status mr_map_open(mr_map *map, const char *path, mr_error *err) {
    *map = (mr_map){NULL, 0, -1};
    mr_status status = open_and_map(map, path, err);
    if (status < 0 && err) {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}

void mr_map_close(mr_map *map) {
    if (map->data) {
        munmap((void *)(uintptr_t)map->data, map->size);
    }
    if (map->fd >= 0) {
        close(map->fd);
    }
    *map = (mr_map){NULL, 0, -1};
}
