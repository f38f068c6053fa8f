/* SPDX-License-Identifier: Apache-2.0 */
/* tune_cold.c - see tune_cold.h. The system is asked, and then whether it did so: a rate is called
 * cold only where it was. */
#include "tune_cold.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct dropping {
    double bytes, resident;
} dropping;

static size_t resident_pages(void *map, size_t size, size_t pages) {
    unsigned char *flags = malloc(pages);
    size_t resident = 0;
    if (!flags || mincore(map, size, flags) != 0) {
        free(flags);
        return pages; /* nobody knows: as if all were */
    }
    for (size_t i = 0; i < pages; i++) {
        resident += flags[i] & 1;
    }
    free(flags);
    return resident;
}

static void look(dropping *d, int fd, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page;
    void *map = size > 0 ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map != MAP_FAILED) {
        d->bytes += (double)(pages * page);
        d->resident += (double)(resident_pages(map, size, pages) * page);
        munmap(map, size);
    }
}

static void drop_file(dropping *d, int fd, const struct stat *info) {
    fdatasync(fd); /* what is not written yet cannot be dropped */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    look(d, fd, (size_t)info->st_size);
}

static void drop(dropping *d, int at, const char *name, int depth) {
    enum { DEEPEST = 16 };
    struct stat info = {0};
    int fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        drop_file(d, fd, &info);
    }
    DIR *folder = S_ISDIR(info.st_mode) && depth < DEEPEST ? fdopendir(fd) : NULL;
    if (!folder) {
        close(fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            drop(d, fd, entry->d_name, depth + 1);
        }
    }
    closedir(folder);
}

bool mr_cold_drop(const char *path) {
    dropping d = {0, 0};
    drop(&d, AT_FDCWD, path, 0);
    return d.bytes > 0 && d.resident <= 0.1 * d.bytes;
}
