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

int mr_whole_open(mr_whole_file *file, const char *path) {
    struct stat info;
    if (strlen(path) >= sizeof file->target) {
        return ENAMETOOLONG;
    }
    if (!realpath(path, file->target)) {
        snprintf(file->target, sizeof file->target, "%s", path);
    }
    bool there = stat(path, &info) == 0;
    file->temporary[0] = '\0';
    if (there && S_ISDIR(info.st_mode)) {
        return EISDIR;
    }
    file->fd = there && !S_ISREG(info.st_mode) ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
                                               : create_beside(file);
    return file->fd >= 0 ? 0 : errno;
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
