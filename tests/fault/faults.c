/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - see faults.h. The executable's symbols come first when the dynamic linker looks a name
 * up, so these stand in for libc's everywhere, and no preloaded library is needed. Memory goes on
 * to glibc's own names for it; files go to the kernel directly. */
#undef _FILE_OFFSET_BITS /* the names below are those without 64 behind them */
#include "faults.h"
#include "record.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define HOOK __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *memory);

static fault armed; /* written while no other thread runs */
static const char *only_within;
static _Atomic int64_t calls, strikes, live;

void fault_arm(const fault *wanted) {
    calls = 0;
    strikes = 0;
    armed = *wanted;
}

int64_t fault_disarm(void) {
    armed = (fault){0};
    return strikes;
}

void fault_within(const char *part) {
    only_within = part;
}

int64_t fault_live_blocks(void) {
    return live;
}

static bool is_hit(int64_t number) {
    switch (armed.kind) {
    case FAULT_ONCE:
        return number == armed.at;
    case FAULT_LASTING:
    case FAULT_EOF:
        return number >= armed.at;
    case FAULT_EVERY:
        return number % armed.at == 0;
    case FAULT_SHORT:
        return true;
    }
    return false;
}

static bool strike(unsigned call) {
    if (!(armed.calls & call) || !is_hit(++calls)) {
        return false;
    }
    strikes++;
    errno = armed.error;
    return true;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void *counted(void *memory) {
    live += memory != NULL;
    return memory;
}

static bool no_memory(void) {
    return strike(FAULT_ALLOC);
}

HOOK void *malloc(size_t size) {
    return no_memory() ? NULL : counted(__libc_malloc(size));
}

HOOK void *calloc(size_t count, size_t size) {
    return no_memory() ? NULL : counted(__libc_calloc(count, size));
}

HOOK void *realloc(void *memory, size_t size) {
    if (no_memory()) {
        return NULL;
    }
    return memory ? __libc_realloc(memory, size) : counted(__libc_realloc(NULL, size));
}

HOOK void *memalign(size_t align, size_t size) {
    return no_memory() ? NULL : counted(__libc_memalign(align, size));
}

HOOK void *aligned_alloc(size_t align, size_t size) {
    return memalign(align, size);
}

HOOK int posix_memalign(void **out, size_t align, size_t size) {
    void *memory = memalign(align, size);
    if (!memory) {
        return ENOMEM;
    }
    *out = memory;
    return 0;
}

HOOK void free(void *memory) {
    live -= memory != NULL;
    __libc_free(memory);
}

HOOK int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                        void *argument) {
    typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (no_memory()) {
        return EAGAIN;
    }
    create_fn *real = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attr, start, argument);
}

/* ---- Which files ---- */

static bool is_path_within(const char *path) {
    return !only_within || strstr(path, only_within) != NULL;
}

static bool is_file_within(int fd) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, name, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return is_path_within(path);
}

/* A relative path is a file in the folder. */
static bool is_named_within(int folder, const char *path) {
    return path[0] == '/' || folder == AT_FDCWD ? is_path_within(path) : is_file_within(folder);
}

static bool strike_file(unsigned call, int fd) {
    return (armed.calls & call) && (!only_within || is_file_within(fd)) && strike(call);
}

static bool strike_name(unsigned call, int folder, const char *path) {
    return (armed.calls & call) && (!only_within || is_named_within(folder, path)) && strike(call);
}

/* ---- Files ---------------------------------------------------------------------------------- */

static int open_file(int folder, const char *path, int flags, mode_t mode) {
    if (strike_name(FAULT_OPEN, folder, path)) {
        return -1;
    }
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    record_open(fd, flags);
    return fd;
}

static mode_t mode_of(int flags, va_list *more) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(*more, mode_t) : 0;
}

HOOK int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, &more);
    va_end(more);
    return open_file(AT_FDCWD, path, flags, mode);
}

HOOK int openat(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, &more);
    va_end(more);
    return open_file(folder, path, flags, mode);
}

HOOK int fstat(int fd, struct stat *out) {
    return strike_file(FAULT_STAT, fd) ? -1
                                       : (int)syscall(SYS_newfstatat, fd, "", out, AT_EMPTY_PATH);
}

HOOK int fstatat(int folder, const char *path, struct stat *out, int flags) {
    return strike_name(FAULT_STAT, folder, path)
               ? -1
               : (int)syscall(SYS_newfstatat, folder, path, out, flags);
}

HOOK int statx(int folder, const char *path, int flags, unsigned mask, struct statx *out) {
    return strike_name(FAULT_STAT, folder, path)
               ? -1
               : (int)syscall(SYS_statx, folder, path, flags, mask, out);
}

/* How much of a transfer to do: all of it, a part, nothing (0), or to fail (-1). */
static ssize_t allowed(unsigned call, int fd, size_t size) {
    if (!strike_file(call, fd)) {
        return (ssize_t)size;
    }
    if (armed.kind == FAULT_SHORT) {
        return (ssize_t)(size - size / 2);
    }
    return armed.kind == FAULT_EOF ? 0 : -1;
}

HOOK ssize_t read(int fd, void *buffer, size_t size) {
    ssize_t part = allowed(FAULT_READ, fd, size);
    return part <= 0 ? part : (ssize_t)syscall(SYS_read, fd, buffer, part);
}

HOOK ssize_t pread(int fd, void *buffer, size_t size, off_t offset) {
    ssize_t part = allowed(FAULT_READ, fd, size);
    return part <= 0 ? part : (ssize_t)syscall(SYS_pread64, fd, buffer, part, offset);
}

HOOK ssize_t write(int fd, const void *buffer, size_t size) {
    ssize_t part = allowed(FAULT_WRITE, fd, size);
    ssize_t n = part <= 0 ? part : (ssize_t)syscall(SYS_write, fd, buffer, part);
    record_write(fd, &(struct iovec){(void *)(uintptr_t)buffer, (size_t)part}, 1, n, -1);
    return n;
}

HOOK ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset) {
    ssize_t part = allowed(FAULT_WRITE, fd, size);
    ssize_t n = part <= 0 ? part : (ssize_t)syscall(SYS_pwrite64, fd, buffer, part, offset);
    record_write(fd, &(struct iovec){(void *)(uintptr_t)buffer, (size_t)part}, 1, n, offset);
    return n;
}

/* A short one: about half of the pieces. */
HOOK ssize_t writev(int fd, const struct iovec *pieces, int n) {
    ssize_t part = allowed(FAULT_WRITE, fd, (size_t)n);
    if (part == 1 && n == 1 && armed.kind == FAULT_SHORT && armed.calls & FAULT_WRITE) {
        const struct iovec half = {pieces->iov_base, pieces->iov_len - pieces->iov_len / 2};
        return (ssize_t)syscall(SYS_writev, fd, &half, 1);
    }
    ssize_t done = part <= 0 ? part : (ssize_t)syscall(SYS_writev, fd, pieces, part);
    record_write(fd, pieces, (int)part, done, -1);
    return done;
}

HOOK ssize_t pwritev(int fd, const struct iovec *pieces, int n, off_t offset) {
    ssize_t done = (ssize_t)syscall(SYS_pwritev, fd, pieces, n, offset, 0);
    record_write(fd, pieces, n, done, offset);
    return done;
}

HOOK int ftruncate(int fd, off_t size) {
    if (strike_file(FAULT_WRITE, fd) && armed.kind != FAULT_SHORT) {
        return -1;
    }
    int result = (int)syscall(SYS_ftruncate, fd, size);
    record_size(fd, size, result == 0);
    return result;
}

HOOK int posix_fallocate(int fd, off_t offset, off_t size) {
    if (strike_file(FAULT_WRITE, fd) && armed.kind != FAULT_SHORT) {
        return armed.error;
    }
    int result = syscall(SYS_fallocate, fd, 0, offset, size) == 0 ? 0 : errno;
    record_grow(fd, offset + size, result == 0);
    return result;
}

HOOK int fsync(int fd) {
    int result = strike_file(FAULT_SYNC, fd) ? -1 : (int)syscall(SYS_fsync, fd);
    record_sync(fd, result == 0);
    return result;
}

HOOK int fdatasync(int fd) {
    int result = strike_file(FAULT_SYNC, fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
    record_sync(fd, result == 0);
    return result;
}

HOOK int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    if (strike_name(FAULT_RENAME, to_folder, to)) {
        return -1;
    }
    int result = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
    record_rename(from_folder, from, to_folder, to, result == 0);
    return result;
}

HOOK int unlinkat(int folder, const char *path, int flags) {
    int result = (int)syscall(SYS_unlinkat, folder, path, flags);
    record_unlink(folder, path, result == 0);
    return result;
}

HOOK int rename(const char *from, const char *to) {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

HOOK int close(int fd) {
    bool struck = strike_file(FAULT_CLOSE, fd);
    long result = syscall(SYS_close, fd);
    return struck ? -1 : (int)result;
}

/* What is built with _FILE_OFFSET_BITS=64 calls these by other names; off_t and struct stat are the
 * same where a long has 64 bits. */
_Static_assert(sizeof(off_t) == 8, "one layout for both names");
#define ALSO_64(name)                                                                              \
    HOOK extern __typeof__(name) also_##name __asm__(#name "64")                                   \
        __attribute__((alias(#name), copy(name)));
ALSO_64(open)
ALSO_64(openat)
ALSO_64(fstat)
ALSO_64(fstatat)
ALSO_64(pread)
ALSO_64(pwrite)
ALSO_64(pwritev)
ALSO_64(ftruncate)
ALSO_64(posix_fallocate)
