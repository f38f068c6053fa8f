/* SPDX-License-Identifier: Apache-2.0 */
/* whole_shard.c - see whole_shard.h. */
#include "tune/whole_shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

enum { BUFFER = 1 << 20, TRIES = 100 };

static void beside(const mr_shard_file *file, char out[MR_SHARD_NAME + 8]) {
    snprintf(out, MR_SHARD_NAME + 8, ".%s.part", file->name);
}

static mr_status write_failed(const mr_shard_file *file, int sys, mr_error *err) {
    return mr_fail_errno(err, MR_E_IO, sys, "cannot write %s", file->name);
}

static bool is_still_named(int fd, int folder, const char *name) {
    struct stat mine, named;
    return fstat(fd, &mine) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

/* Between opening and locking another maker may have finished and given the file its name: what is
 * whole must not be written to. */
static mr_status open_locked(mr_shard_file *file, int folder, bool wait, mr_error *err) {
    char name[MR_SHARD_NAME + 8];
    beside(file, name);
    for (int i = 0; i < TRIES; i++) {
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0) {
            return write_failed(file, errno, err);
        }
        if (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(fd);
            mr_fail(err, MR_E_IO, "another process is making %s", file->name);
            mr_hint(err, "give each process a part of its own: --part 0/2, --part 1/2");
            return MR_E_IO;
        }
        if (is_still_named(fd, folder, name)) {
            file->fd = fd;
            return ftruncate(fd, 0) == 0 ? MR_OK : write_failed(file, errno, err);
        }
        close(fd);
    }
    return mr_fail(err, MR_E_IO, "others keep making %s", file->name);
}

static mr_status open_file(mr_shard_file *file, int folder, const char *name, bool wait,
                           mr_error *err) {
    *file = (mr_shard_file){.fd = -1};
    int n = snprintf(file->name, sizeof file->name, "%s", name);
    if (n < 0 || (size_t)n >= sizeof file->name) {
        return mr_fail(err, MR_E_LIMIT, "the file name %.64s... is too long", name);
    }
    file->buffer = malloc(BUFFER);
    file->hasher = mr_hasher_new();
    if (!file->buffer || !file->hasher) {
        return mr_fail_memory(err, BUFFER);
    }
    return open_locked(file, folder, wait, err);
}

static mr_status flush(mr_shard_file *file, mr_error *err) {
    size_t done = 0;
    mr_hasher_bytes(file->hasher, file->buffer, file->used);
    while (done < file->used) {
        ssize_t n = write(file->fd, file->buffer + done, file->used - done);
        if (n < 0 && errno != EINTR) {
            return write_failed(file, errno, err);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    file->used = 0;
    return MR_OK;
}

static mr_status write_bytes(void *user, const void *data, size_t size, mr_error *err) {
    mr_shard_file *file = user;
    const unsigned char *at = data;
    file->bytes += (int64_t)size;
    while (size > 0) {
        size_t room = BUFFER - file->used, n = size < room ? size : room;
        memcpy(file->buffer + file->used, at, n);
        file->used += n;
        at += n;
        size -= n;
        if (file->used == BUFFER) {
            MR_TRY(flush(file, err));
        }
    }
    return MR_OK;
}

mr_status mr_shard_file_write(mr_shard_file *file, const void *data, size_t size, mr_error *err) {
    if (!file->packer) {
        return write_bytes(file, data, size, err);
    }
    file->unpacked_bytes += (int64_t)size;
    return mr_packer_put(file->packer, data, size, err);
}

mr_status mr_shard_file_open_packed(mr_shard_file *file, int folder, const char *name,
                                    mr_packing packing, mr_error *err) {
    MR_TRY(open_file(file, folder, name, false, err));
    return packing == MR_NOT_PACKED
               ? MR_OK
               : mr_packer_open(&file->packer, packing, write_bytes, file, err);
}

mr_status mr_shard_file_finish(mr_shard_file *file, mr_error *err) {
    if (file->packer) {
        MR_TRY(mr_packer_end(file->packer, err));
    }
    MR_TRY(flush(file, err));
    mr_hash_hex(mr_hasher_value(file->hasher), file->hash);
    return fdatasync(file->fd) == 0 ? MR_OK : write_failed(file, errno, err);
}

mr_status mr_shard_file_name(mr_shard_file *file, int folder, mr_error *err) {
    char name[MR_SHARD_NAME + 8];
    beside(file, name);
    if (renameat(folder, name, folder, file->name) != 0) {
        return write_failed(file, errno, err);
    }
    close(file->fd);
    file->fd = -1;
    return MR_OK;
}

void mr_shard_file_drop(mr_shard_file *file, int folder) {
    char name[MR_SHARD_NAME + 8];
    if (file->fd >= 0) {
        beside(file, name);
        unlinkat(folder, name, 0);
        close(file->fd);
    }
    mr_packer_close(file->packer);
    mr_hasher_free(file->hasher);
    free(file->buffer);
    *file = (mr_shard_file){.fd = -1};
}

mr_status mr_shard_file_text(int folder, const char *name, const char *text, mr_error *err) {
    mr_shard_file file;
    mr_status status = open_file(&file, folder, name, true, err);
    if (status == MR_OK) {
        status = mr_shard_file_write(&file, text, strlen(text), err);
    }
    if (status == MR_OK) {
        status = mr_shard_file_finish(&file, err);
    }
    if (status == MR_OK) {
        status = mr_shard_file_name(&file, folder, err);
    }
    mr_shard_file_drop(&file, folder);
    return status;
}
