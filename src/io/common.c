/* SPDX-License-Identifier: Apache-2.0 */
/* common.c - see common.h. */
#include "io/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Memory is asked for ahead, a piece at a time: a page that is not there when it is written to
 * would end the process, and a signal undoes all that was asked for at once. */
enum { PIECE = 256 << 10 };
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Pages come as they are used, also in a program that locks all that it maps (mlockall): its system
 * would else fill the whole of it at once. A child of fork has no use for it. NULL: it cannot be
 * had. */
static void *map_shared(int fd, size_t size, int access) {
    void *data = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        return NULL;
    }
    if (munlock(data, size) != 0 || mprotect(data, size, access) != 0) {
        munmap(data, size);
        return NULL;
    }
    (void)madvise(data, size, MADV_DONTDUMP);
    (void)madvise(data, size, MADV_DONTFORK);
    return data;
}

/* ---- The process that writes ---- */
/* A file larger than its limit would not be refused, but end the process by a signal. Where address
 * space is limited, what is mapped would be missing where the program asks for memory. */
static bool is_allowed(size_t size) {
    struct rlimit file, space;
    return getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur >= size &&
           getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur == RLIM_INFINITY;
}

/* Some systems want to hear that it is not to be run, older ones do not know the word. */
static int make_unnamed(void) {
    int fd = memfd_create("millrace", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create("millrace", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                                     : fd;
}

static bool make_file(mr_common *c) {
    c->fd = make_unnamed();
    return c->fd >= 0 && ftruncate(c->fd, (off_t)c->size) == 0 &&
           fcntl(c->fd, F_ADD_SEALS, SEALS) == 0;
}

bool mr_common_open(mr_common *c, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *c = (mr_common){.fd = -1, .size = size / page * page};
    c->data = c->size > 0 && is_allowed(c->size) && make_file(c)
                  ? map_shared(c->fd, c->size, PROT_READ | PROT_WRITE)
                  : NULL;
    return c->data != NULL;
}

void mr_common_close(mr_common *c) {
    if (c->data) {
        munmap(c->data, c->size);
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    *c = (mr_common){.fd = -1};
}

void mr_common_leave(mr_common *c) {
    if (c->fd >= 0) {
        close(c->fd);
    }
    *c = (mr_common){.fd = -1};
}

void mr_common_tell(const mr_common *c, mr_common_name *out) {
    struct stat info;
    *out = (mr_common_name){.pid = getpid(), .fd = -1};
    if (c->data && fstat(c->fd, &info) == 0) {
        out->fd = c->fd;
        out->device = (uint64_t)info.st_dev;
        out->inode = (uint64_t)info.st_ino;
        out->size = c->size;
    }
}

static bool fill(mr_common *c, size_t end) {
    int failed = 0;
    while (c->filled < end && !failed) {
        size_t more = c->size - c->filled < PIECE ? c->size - c->filled : PIECE;
        failed = fallocate(c->fd, 0, (off_t)c->filled, (off_t)more);
        c->filled += failed ? 0 : more;
        failed = failed && errno != EINTR;
    }
    return !failed;
}

void *mr_common_take(mr_common *c, size_t size) {
    void *taken = NULL;
    if (!c->data || size > c->size) {
        return NULL;
    }
    size = (size + MR_COMMON_ALIGN - 1) / MR_COMMON_ALIGN * MR_COMMON_ALIGN;
    if (size <= c->size - c->used && fill(c, c->used + size)) {
        taken = c->last = c->data + c->used;
        c->used += size;
    }
    return taken;
}

void mr_common_give_back(mr_common *c, const void *taken) {
    if (taken == c->last) {
        c->used = (size_t)((const char *)taken - c->data);
        c->last = NULL;
    }
}

/* ---- Those that read ---- */
static bool is_the_file(const struct stat *info, const mr_common_name *name) {
    return (uint64_t)info->st_dev == name->device && (uint64_t)info->st_ino == name->inode &&
           (uint64_t)info->st_size == name->size && name->size > 0;
}

static bool cannot_be_cut(int fd) {
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* The number may mean another file by now, which is not to be opened: some do something then. */
static int open_file(const mr_common_name *name) {
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)name->pid, (long long)name->fd);
    int fd = stat(path, &info) == 0 && is_the_file(&info, name)
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
                 : -1;
    if (fd >= 0 && (fstat(fd, &info) != 0 || !is_the_file(&info, name) || !cannot_be_cut(fd))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool mr_common_look(mr_common_view *view, const mr_common_name *name) {
    *view = (mr_common_view){NULL, 0};
    const size_t size = (size_t)name->size;
    int fd = name->fd >= 0 && name->pid > 0 && is_allowed(size) ? open_file(name) : -1;
    void *data = fd >= 0 ? map_shared(fd, size, PROT_READ) : NULL;
    if (fd >= 0) {
        close(fd);
    }
    *view = (mr_common_view){data, data ? size : 0};
    return data != NULL;
}

void mr_common_look_away(mr_common_view *view) {
    if (view->data) {
        munmap((void *)(uintptr_t)view->data, view->size);
    }
    *view = (mr_common_view){NULL, 0};
}
