/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - see map.h. */
#include "io/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

/* ---- Objects on servers ---- */
/* A copy that goes with the map: a file without a name, where large things are put. All of its room
 * is taken beforehand: a disk that is full while a map is written to would end the process. */
static int open_nameless(size_t size, int *failed) {
    const char *chosen = getenv("TMPDIR");
    const char *const folders[] = {chosen && chosen[0] ? chosen : "/var/tmp", "/tmp", NULL};
    int fd = -1;
    for (const char *const *folder = folders; fd < 0 && *folder; folder++) {
        fd = open(*folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }
    *failed = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)size);
    if (*failed && fd >= 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static mr_status copy_object(const mr_open_extent *object, mr_map *map, mr_error *err) {
    int failed = 0, fd = open_nameless(object->size, &failed);
    if (fd < 0) {
        mr_fail_errno(err, MR_E_IO, failed, "no room for a copy of %zu bytes", object->size);
        mr_hint(err, "TMPDIR names the folder for such copies");
        return MR_E_IO;
    }
    void *data = mmap(NULL, object->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (data == MAP_FAILED) {
        return map_failed(object->size, errno, err);
    }
    mr_status status = mr_extent_read(object, data, err);
    if (status < 0 || mprotect(data, object->size, PROT_READ) != 0) {
        munmap(data, object->size);
        return status < 0 ? status : map_failed(object->size, errno, err);
    }
    map->data = data;
    map->size = object->size;
    return MR_OK;
}

static mr_status map_object(mr_map *map, mr_open_extent *object, mr_error *err) {
    mr_status status = object->size > 0 ? copy_object(object, map, err) : MR_OK;
    mr_extent_close(object);
    return status;
}

static mr_status open_and_map(mr_map *map, const char *path, mr_error *err) {
    const mr_extent whole = {.path = path, .length = -1, .limit = INT64_MAX};
    mr_open_extent file;
    MR_TRY(mr_extent_open(&whole, &file, err));
    if (file.far) {
        return map_object(map, &file, err);
    }
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

void mr_map_keep_memory(mr_map *map) {
    if (map->fd >= 0) {
        close(map->fd);
    }
    map->fd = -1;
}

void mr_map_close(mr_map *map) {
    if (map->data) {
        munmap((void *)(uintptr_t)map->data, map->size);
    }
    mr_map_keep_memory(map);
    *map = (mr_map){NULL, 0, -1};
}
