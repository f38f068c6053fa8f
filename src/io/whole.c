/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - see whole.h. */
#include "io/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file beside the target, with the mode that the user's umask gives. A name that is taken was
 * left by a run that died. */
static int create_beside(mr_whole_file *file) {
    int fd = -1;
    for (int attempt = 0; attempt < 100 && fd < 0; attempt++) {
        int n = snprintf(file->temporary, sizeof file->temporary, "%s.%ld-%d", file->target,
                         (long)getpid(), attempt);
        if (n < 0 || (size_t)n >= sizeof file->temporary) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST && errno != EINTR) {
            return -1;
        }
    }
    return fd;
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* /dev/stdout, say: who has it open would not see another file of its name. -1: none of ours. */
static int own_output(const struct stat *info) {
    struct stat open_file;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &open_file) == 0 && is_same(info, &open_file)) {
            return fd;
        }
    }
    return -1;
}

/* Regular, and found under the name that would be taken: a link to what was deleted is not. */
static bool is_replaceable(const struct stat *info, const char *target) {
    struct stat named;
    return S_ISREG(info->st_mode) && lstat(target, &named) == 0 && is_same(info, &named);
}

static int open_there(mr_whole_file *file, const char *path, const struct stat *info) {
    int own = own_output(info);
    if (own >= 0) {
        return fcntl(own, F_DUPFD_CLOEXEC, 0);
    }
    if (!is_replaceable(info, file->target)) {
        return open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    }
    int fd = create_beside(file);
    if (fd >= 0) {
        (void)fchmod(fd, info->st_mode & 0777); /* who might read it before may now */
    }
    return fd;
}

int mr_whole_open(mr_whole_file *file, const char *path) {
    struct stat info;
    if (strlen(path) >= sizeof file->target) {
        return ENAMETOOLONG;
    }
    if (!realpath(path, file->target)) {
        snprintf(file->target, sizeof file->target, "%s", path);
    }
    file->temporary[0] = '\0';
    if (stat(path, &info) == 0) {
        file->fd = S_ISDIR(info.st_mode) ? -1 : open_there(file, path, &info);
        return S_ISDIR(info.st_mode) ? EISDIR : file->fd >= 0 ? 0 : errno;
    }
    bool link = lstat(path, &info) == 0; /* that leads nowhere so far: it stays a link */
    file->fd =
        link ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666) : create_beside(file);
    return file->fd >= 0 ? 0 : errno;
}

int mr_whole_write(const mr_whole_file *file, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t n = write(file->fd, at, size);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int mr_whole_close(mr_whole_file *file, int failed) {
    if (close(file->fd) != 0 && !failed) {
        failed = errno;
    }
    if (!failed && file->temporary[0] && rename(file->temporary, file->target) != 0) {
        failed = errno;
    }
    if (failed && file->temporary[0]) {
        unlink(file->temporary);
    }
    return failed;
}
