/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - see file.h. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "io/far.h"
#include "io/whole.h"

/* ---- Wording ---- */
mr_status mr_open_failed(const char *path, int sys, mr_error *err) {
    char shown[256];
    if (sys == ENXIO || sys == ENODEV) {
        return mr_fail(err, MR_E_UNSUPPORTED, "not a regular file but a socket or a device");
    }
    mr_status code = sys == ENOENT || sys == ENOTDIR ? MR_E_NOT_FOUND
                     : sys == ENOMEM                 ? MR_E_MEMORY
                                                     : MR_E_IO;
    mr_text_escape(shown, sizeof shown, path);
    mr_fail_errno(err, code, sys, "cannot open %s", shown);
    if (sys == EMFILE || sys == ENFILE) {
        mr_hint(err, "raise the limit on open files (ulimit -n), or read fewer at once (--reads, "
                     "reads_in_flight)");
    }
    return code;
}

mr_status mr_read_failed(int sys, int64_t offset, mr_error *err) {
    if (err) {
        err->offset = offset;
    }
    return mr_fail_errno(err, MR_E_IO, sys, "cannot read");
}

mr_status mr_file_shrank(int64_t offset, mr_error *err) {
    if (err) {
        err->offset = offset;
    }
    return mr_fail(err, MR_E_CORRUPT, "the file became shorter while it was read");
}

/* ---- Extents ---- */
static int open_for_reading(const mr_extent *extent) {
    int fd;
    do {
        fd = openat(MR_EXTENT_FOLDER(extent), extent->path, MR_OPEN_FLAGS);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

mr_status mr_extent_check(const mr_extent *extent, uint32_t mode, int64_t file_size,
                          mr_open_extent *out, mr_error *err) {
    if (!S_ISREG(mode)) {
        return mr_fail(err, MR_E_UNSUPPORTED, "not a regular file%s",
                       S_ISDIR(mode) ? " but a folder" : "");
    }
    return mr_extent_check_size(extent, file_size, out, err);
}

mr_status mr_extent_check_size(const mr_extent *extent, int64_t file_size, mr_open_extent *out,
                               mr_error *err) {
    int64_t length = extent->length >= 0 ? extent->length : file_size - extent->offset;
    if (length < 0 || extent->offset < 0 || length > file_size - extent->offset) {
        return mr_fail(err, MR_E_CORRUPT, "the file has %lld bytes, wanted %lld from byte %lld",
                       (long long)file_size, (long long)length, (long long)extent->offset);
    }
    if (length > extent->limit) {
        mr_fail(err, MR_E_LIMIT, "%lld bytes are more than the limit of %lld", (long long)length,
                (long long)extent->limit);
        mr_hint(err, "raise max_file_bytes of the source if the file is what you want");
        return MR_E_LIMIT;
    }
    out->offset = extent->offset;
    out->size = (size_t)length;
    out->file_size = file_size;
    return MR_OK;
}

/* An object whose version is known needs no look. */
static mr_status open_far(const mr_extent *extent, const mr_far_limits *limits, mr_open_extent *out,
                          mr_error *err) {
    mr_far_pin pin;
    char *name = strdup(extent->path);
    if (!name) {
        return mr_fail_memory(err, strlen(extent->path));
    }
    mr_status status = mr_far_pin_names(&name, 1, limits, err);
    if (status == MR_OK) {
        mr_far_pin_of(name, &pin);
        status = mr_extent_check_size(extent, pin.size, out, err);
    }
    if (status < 0) {
        free(name);
        return status;
    }
    out->fd = -1;
    out->far = name;
    out->limits = limits;
    return MR_OK;
}

mr_status mr_extent_open(const mr_extent *extent, mr_open_extent *out, mr_error *err) {
    return mr_extent_open_within(extent, NULL, out, err);
}

mr_status mr_extent_open_within(const mr_extent *extent, const mr_far_limits *limits,
                                mr_open_extent *out, mr_error *err) {
    struct stat info;
    out->far = NULL;
    if (mr_is_far(extent->path)) {
        return open_far(extent, limits, out, err);
    }
    int fd = open_for_reading(extent);
    if (fd < 0) {
        return mr_open_failed(extent->path, errno, err);
    }
    mr_status status = fstat(fd, &info) == 0
                           ? mr_extent_check(extent, info.st_mode, info.st_size, out, err)
                           : mr_read_failed(errno, -1, err);
    if (status < 0) {
        close(fd);
        return status;
    }
    out->fd = fd;
    return MR_OK;
}

mr_status mr_extent_read(const mr_open_extent *open, void *data, mr_error *err) {
    size_t done = 0;
    if (open->far) {
        return mr_far_read(open->far, open->offset, open->size, data, open->limits, err);
    }
    while (done < open->size) {
        int64_t at = open->offset + (int64_t)done;
        ssize_t n = pread(open->fd, (char *)data + done, open->size - done, at);
        if (n < 0 && errno != EINTR) {
            return mr_read_failed(errno, at, err);
        }
        if (n == 0) {
            return mr_file_shrank(at, err);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return MR_OK;
}

void mr_extent_close(const mr_open_extent *open) {
    if (open->far) {
        free(open->far);
    } else {
        close(open->fd);
    }
}

/* ---- Whole small files ---- */
static mr_status load_failed(const char *path, mr_status status, mr_error *err) {
    if (err) {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}

mr_status mr_file_load(const char *path, size_t limit, char **out, size_t *size, mr_error *err) {
    const mr_extent extent = {.path = path, .length = -1, .limit = (int64_t)limit};
    mr_open_extent open = {.fd = -1};
    mr_status opened = mr_extent_open(&extent, &open, err);
    if (opened < 0) {
        return load_failed(path, opened, err);
    }
    char *data = malloc(open.size + 1);
    mr_status status = data ? mr_extent_read(&open, data, err) : mr_fail_memory(err, open.size + 1);
    mr_extent_close(&open);
    if (status < 0 || !data) {
        free(data);
        return load_failed(path, status, err);
    }
    data[open.size] = '\0';
    *out = data;
    *size = open.size;
    return MR_OK;
}

static int write_all(int fd, const char *text, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, text, size);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        text += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return fsync(fd);
}

/* The new name is safe only once the folder that holds it is on disk too. */
static int sync_folder_of(const char *path) {
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0) {
        return -1;
    }
    int result = fsync(fd);
    close(fd);
    return result == 0 || errno == EINVAL ? 0 : -1; /* some file systems cannot sync folders */
}

static mr_status replace_failed(const char *path, int sys, mr_error *err) {
    char shown[256];
    mr_text_escape(shown, sizeof shown, path);
    return mr_fail_errno(err, MR_E_IO, sys, "cannot write %s", shown);
}

/* Only a regular file may be replaced: renaming over /dev/null would take it away from everybody,
 * and writing into it would keep nothing. */
mr_status mr_file_replace(const char *path, const char *text, size_t size, mr_error *err) {
    mr_whole_file file;
    struct stat info;
    char shown[256];
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        mr_text_escape(shown, sizeof shown, path);
        return mr_fail(err, MR_E_IO, "cannot write %s: it is not a regular file", shown);
    }
    int failed = mr_whole_open(&file, path);
    if (!failed) {
        failed = mr_whole_close(&file, write_all(file.fd, text, size) != 0 ? errno : 0);
    }
    if (!failed && sync_folder_of(file.target) != 0) {
        failed = errno;
    }
    return failed ? replace_failed(path, failed, err) : MR_OK;
}

/* ---- Identity ---- */
/* File systems note times in steps: of up to 10 ms, or of one or two seconds where there are no
 * fractions. A time in the future is another clock's. */
static bool is_settled(const struct timespec *changed) {
    const int64_t fine = 50000000, coarse = 2500000000;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age =
        ((int64_t)now.tv_sec - changed->tv_sec) * 1000000000 + now.tv_nsec - changed->tv_nsec;
    return age > (changed->tv_nsec == 0 ? coarse : fine);
}

static bool name_file(const struct stat *info, const struct statvfs *system, int64_t limit,
                      uint64_t out[2]) {
    if (!S_ISREG(info->st_mode) || info->st_size > limit || !is_settled(&info->st_ctim)) {
        return false;
    }
    const uint64_t words[] = {
        (uint64_t)info->st_dev,          (uint64_t)info->st_ino,
        (uint64_t)info->st_size,         (uint64_t)info->st_mtim.tv_sec,
        (uint64_t)info->st_mtim.tv_nsec, (uint64_t)info->st_ctim.tv_sec,
        (uint64_t)info->st_ctim.tv_nsec, (uint64_t)system->f_blocks,
        (uint64_t)system->f_files,
    };
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

/* Images of file systems (squashfs and its like) may give all files one time; then the image's own
 * numbers are all that tells one image from the next. */
static bool has_no_times(const struct stat *info) {
    return info->st_ctim.tv_nsec == 0 && info->st_ctim.tv_sec == info->st_mtim.tv_sec;
}

bool mr_extent_identity(const mr_extent *extent, uint64_t out[2]) {
    struct stat info;
    struct statvfs system = {0};
    const int folder = MR_EXTENT_FOLDER(extent);
    if (mr_is_far(extent->path)) {
        return mr_far_identity(extent->path, out);
    }
    if (fstatat(folder, extent->path, &info, 0) != 0) {
        return false;
    }
    if (has_no_times(&info)) {
        int fd = openat(folder, extent->path, O_PATH | O_CLOEXEC);
        bool told = fd >= 0 && fstatvfs(fd, &system) == 0;
        if (fd >= 0) {
            close(fd);
        }
        return told && name_file(&info, &system, extent->limit, out);
    }
    return name_file(&info, &system, extent->limit, out);
}

int64_t mr_extent_file_size(const mr_extent *extent) {
    struct stat info;
    if (mr_is_far(extent->path)) {
        mr_far_pin pin;
        mr_far_pin_of(extent->path, &pin);
        return pin.size;
    }
    bool is_file =
        fstatat(MR_EXTENT_FOLDER(extent), extent->path, &info, 0) == 0 && S_ISREG(info.st_mode);
    return is_file ? (int64_t)info.st_size : -1;
}

bool mr_file_identity(const char *path, int64_t limit, uint64_t out[2]) {
    return mr_extent_identity(&(mr_extent){.path = path, .limit = limit}, out);
}

bool mr_file_stamp(const char *path, uint64_t out[2]) {
    struct stat info;
    if (mr_is_far(path) || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return false; /* what is far is pinned to a version */
    }
    const uint64_t words[] = {(uint64_t)info.st_dev, (uint64_t)info.st_ino, (uint64_t)info.st_size,
                              (uint64_t)info.st_mtim.tv_sec, (uint64_t)info.st_mtim.tv_nsec};
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

bool mr_open_file_identity(int fd, uint64_t out[2]) {
    struct stat info;
    struct statvfs system = {0};
    return fstat(fd, &info) == 0 && (!has_no_times(&info) || fstatvfs(fd, &system) == 0) &&
           name_file(&info, &system, INT64_MAX, out);
}

bool mr_open_extent_identity(const mr_open_extent *open, uint64_t out[2]) {
    return open->far ? mr_far_identity(open->far, out) : mr_open_file_identity(open->fd, out);
}

bool mr_extent_identity_abroad(const mr_extent *extent, uint64_t out[2]) {
    struct stat info;
    if (mr_is_far(extent->path)) {
        return mr_far_identity(extent->path, out);
    }
    if (fstatat(MR_EXTENT_FOLDER(extent), extent->path, &info, 0) != 0 || !S_ISREG(info.st_mode) ||
        has_no_times(&info) || !is_settled(&info.st_ctim)) {
        return false;
    }
    mr_hash128 name = mr_hash(extent->path, strlen(extent->path));
    const uint64_t words[] = {
        name.low,
        name.high,
        (uint64_t)info.st_ino,
        (uint64_t)info.st_size,
        (uint64_t)info.st_mtim.tv_sec,
        (uint64_t)info.st_mtim.tv_nsec,
        (uint64_t)info.st_ctim.tv_sec,
        (uint64_t)info.st_ctim.tv_nsec,
    };
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}
