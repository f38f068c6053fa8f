/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - see machine.h. */
#include "io/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

/* ---- File systems ---- */
typedef struct file_system {
    unsigned long type;
    const char *name;
} file_system;

static const file_system networks[] = {
    {0x6969, "NFS"},        {0x517b, "SMB"},        {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},
    {0x5346414f, "AFS"},    {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"}, {0x00c36400, "Ceph"},
    {0x19830326, "BeeGFS"}, {0x01021997, "9P"},     {0x73757245, "Coda"}, {0, NULL},
};
enum { FUSE = 0x65735546 };

static unsigned long type_of(const struct statfs *info) {
    return (unsigned long)info->f_type & 0xffffffffu;
}

static const char *network_of(const struct statfs *info) {
    const file_system *fs = networks;
    while (fs->name && fs->type != type_of(info)) {
        fs++;
    }
    return fs->name;
}

const char *mr_network_of_file(int fd) {
    struct statfs info;
    return fstatfs(fd, &info) == 0 ? network_of(&info) : NULL;
}

bool mr_path_is_far(const char *path) {
    struct statfs info;
    bool known = statfs(path, &info) == 0;
    return strstr(path, "://") || (known && (network_of(&info) || type_of(&info) == FUSE));
}

/* ---- Memory ---- */
/* Of control groups; files of both versions, as a container sees its own, and as groups inside it
 * are found by the names in /proc/self/cgroup. */
static const char *const limits[][2] = {{"/sys/fs/cgroup", "memory.max"},
                                        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};

static int64_t number_in(const char *path) {
    long long number = INT64_MAX;
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%lld", &number) != 1) {
            number = INT64_MAX; /* "max" */
        }
        fclose(file);
    }
    return number;
}

static int64_t lower(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Of a group and of those that it lies in. */
static int64_t limit_of(int version, const char *group) {
    char path[1024], name[512];
    int64_t limit = INT64_MAX;
    snprintf(name, sizeof name, "%s", group);
    for (char *end = name + strlen(name); end; end = strrchr(name, '/')) {
        *end = '\0';
        snprintf(path, sizeof path, "%s%s/%s", limits[version][0], name, limits[version][1]);
        limit = lower(limit, number_in(path));
    }
    return limit;
}

/* Lines are NUMBER:CONTROLLERS:GROUP; of version 2 there is one, 0::GROUP. */
static int64_t limit_of_own_groups(void) {
    char line[512], group[400];
    int64_t limit = INT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "0::%399s", group) == 1) {
            limit = lower(limit, limit_of(0, group));
        } else if (sscanf(line, "%*d:memory:%399s", group) == 1) {
            limit = lower(limit, limit_of(1, group));
        }
    }
    if (file) {
        fclose(file);
    }
    return limit;
}

int64_t mr_machine_memory(void) {
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    return lower(lower(memory, limit_of_own_groups()), lower(limit_of(0, ""), limit_of(1, "")));
}
