/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c - see outputs.h. What exists is known by device and inode, what does not by its folder
 * and its name there. */
#include "outputs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Who a file is. `last` is empty where it exists. */
typedef struct identity {
    bool known;
    dev_t device;
    ino_t inode;
    const char *last;
} identity;

static identity identity_to_be(const char *path) {
    char folder[PATH_MAX];
    struct stat info;
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash + 1 - path) : 1;
    snprintf(folder, sizeof folder, "%.*s", length, slash ? path : ".");
    bool known = stat(folder, &info) == 0;
    return known ? (identity){true, info.st_dev, info.st_ino, slash ? slash + 1 : path}
                 : (identity){.known = false};
}

static identity identity_of(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return identity_to_be(path);
    }
    return (identity){S_ISREG(info.st_mode), info.st_dev, info.st_ino, ""};
}

static bool is_same(const char *a, const char *b) {
    identity x = identity_of(a), y = identity_of(b);
    return x.known && y.known && x.device == y.device && x.inode == y.inode &&
           strcmp(x.last, y.last) == 0;
}

static bool is_given(const mr_named_file *file) {
    return file->path && file->path[0];
}

static mr_status check_pair(const mr_named_file *a, const mr_named_file *b, mr_error *err) {
    bool concerns = is_given(a) && is_given(b) && !(a->is_read && b->is_read);
    if (!concerns || !is_same(a->path, b->path)) {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "%s and %s are the same file: %s", a->name, b->name, b->path);
    mr_hint(err, "name another file for %s: one would replace the other",
            b->is_read ? a->name : b->name);
    return MR_E_PARAM;
}

static mr_status check_dash(const mr_named_file *file, mr_error *err) {
    if (file->is_read || !is_given(file) || strcmp(file->path, "-") != 0) {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "%s wants the name of a file, not \"-\"", file->name);
    mr_hint(err, "/dev/stdout is standard output, ./- a file of that name");
    return MR_E_PARAM;
}

mr_status mr_outputs_check(const mr_named_file *files, int32_t n, mr_error *err) {
    mr_status status = MR_OK;
    for (int32_t b = 0; b < n && status == MR_OK; b++) {
        status = check_dash(&files[b], err);
        for (int32_t a = 0; a < b && status == MR_OK; a++) {
            status = check_pair(&files[a], &files[b], err);
        }
    }
    return status;
}
