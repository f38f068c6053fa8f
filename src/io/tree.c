/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - see tree.h. */
#include "io/tree.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "io/file.h"

/* A folder on the way down; its ancestors tell a loop. */
typedef struct level {
    const struct level *parent;
    dev_t device;
    ino_t inode;
    int depth;
} level;

typedef struct walk {
    char path[PATH_MAX]; /* of what is looked at */
    size_t root_length;  /* with its slash */
    const mr_tree_visitor *visitor;
    const mr_log *log;
    mr_error *err;
} walk;

static mr_status walk_folder(walk *w, size_t length, const level *parent);

static void report(const walk *w, const char *what) {
    char name[512], text[600];
    if (w->log && w->log->write) {
        mr_text_escape(name, sizeof name, w->path);
        snprintf(text, sizeof text, "%s: %s", name, what);
        w->log->write(w->log->user, text);
    }
}

static bool is_loop(const level *ancestors, const struct stat *info) {
    for (const level *l = ancestors; l; l = l->parent) {
        if (l->device == info->st_dev && l->inode == info->st_ino) {
            return true;
        }
    }
    return false;
}

/* Whether the entry is a folder; what cannot be looked at counts as a file and fails when read. */
static bool is_folder(const walk *w, const struct dirent *entry) {
    struct stat info;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) {
        return entry->d_type == DT_DIR;
    }
    return stat(w->path, &info) == 0 && S_ISDIR(info.st_mode);
}

static mr_status visit_entry(walk *w, size_t length, const struct dirent *entry,
                             const level *here) {
    size_t name_length = strlen(entry->d_name);
    if (entry->d_name[0] == '.') {
        return MR_OK;
    }
    if (length + name_length + 2 > sizeof w->path) {
        report(w, "a path below this folder is too long");
        return mr_open_failed(w->path, ENAMETOOLONG, w->err);
    }
    memcpy(w->path + length, entry->d_name, name_length + 1);
    if (!is_folder(w, entry)) {
        return w->visitor->file(w->visitor->user, w->path + w->root_length, w->err);
    }
    if (!here->parent) {
        MR_TRY(w->visitor->top_folder(w->visitor->user, entry->d_name, w->err));
    }
    w->path[length + name_length] = '/';
    w->path[length + name_length + 1] = '\0';
    return walk_folder(w, length + name_length + 1, here);
}

static mr_status visit_all(walk *w, DIR *folder, size_t length, const level *here) {
    mr_status status = MR_OK;
    const struct dirent *entry;
    errno = 0;
    while (status == MR_OK && (entry = readdir(folder)) != NULL) {
        status = visit_entry(w, length, entry, here);
        w->path[length] = '\0';
        errno = 0;
    }
    if (status == MR_OK && errno != 0) {
        return mr_open_failed(w->path, errno, w->err);
    }
    return status;
}

/* w->path is the folder, ending in a slash, `length` long. */
static mr_status walk_folder(walk *w, size_t length, const level *parent) {
    enum { DEEPEST = 256 };
    struct stat info;
    DIR *folder = opendir(w->path);
    if (!folder || fstat(dirfd(folder), &info) != 0) {
        int failed = errno;
        if (folder) {
            closedir(folder);
        }
        return mr_open_failed(w->path, failed, w->err);
    }
    const level here = {parent, info.st_dev, info.st_ino, parent ? parent->depth + 1 : 0};
    mr_status status = MR_OK;
    if (is_loop(parent, &info)) {
        report(w, "a link back to a folder it lies in: not followed");
    } else if (here.depth > DEEPEST) {
        status = mr_fail(w->err, MR_E_LIMIT, "folders lie more than %d deep", DEEPEST);
    } else {
        status = visit_all(w, folder, length, &here);
    }
    closedir(folder);
    return status;
}

mr_status mr_tree_walk(const char *root, const mr_tree_visitor *visitor, const mr_log *log,
                       mr_error *err) {
    walk w = {.visitor = visitor, .log = log, .err = err};
    size_t length = strlen(root);
    bool slash = length > 0 && root[length - 1] == '/';
    if (length + 2 > sizeof w.path) {
        return mr_open_failed(root, ENAMETOOLONG, err);
    }
    memcpy(w.path, root, length);
    w.root_length = length + !slash;
    memcpy(w.path + length, slash ? "" : "/", slash ? 1 : 2);
    return walk_folder(&w, w.root_length, NULL);
}
