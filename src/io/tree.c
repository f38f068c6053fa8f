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
#include "core/hash.h"
#include "core/memory.h"
#include "io/file.h"

/* A folder on the way down; its ancestors tell a loop. */
typedef struct level {
    const struct level *parent;
    dev_t device;
    ino_t inode;
    int depth;
} level;

/* How often a folder was walked. Links can lead to it by as many ways as there are paths, which
 * double with each folder that has two. */
typedef struct visit {
    dev_t device;
    ino_t inode;
    uint32_t times; /* 0: none */
} visit;

typedef struct walk {
    visit *visits; /* by hash; its size is a power of two, at least twice the number of folders */
    size_t n_visits, visits_size;
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

static visit *find_visit(const walk *w, dev_t device, ino_t inode) {
    const uint64_t words[] = {(uint64_t)device, (uint64_t)inode};
    size_t at = (size_t)mr_hash64(words, sizeof words, 0);
    for (;; at++) {
        visit *v = &w->visits[at & (w->visits_size - 1)];
        if (v->times == 0 || (v->device == device && v->inode == inode)) {
            return v;
        }
    }
}

static bool grow_visits(walk *w) {
    const walk old = {.visits = w->visits, .visits_size = w->visits_size};
    w->visits_size = old.visits_size ? 2 * old.visits_size : 64;
    w->visits = mr_zalloc(w->visits_size, sizeof *w->visits);
    for (size_t i = 0; w->visits && i < old.visits_size; i++) {
        if (old.visits[i].times > 0) {
            *find_visit(w, old.visits[i].device, old.visits[i].inode) = old.visits[i];
        }
    }
    mr_free(old.visits);
    return w->visits != NULL;
}

static mr_status count_visit(walk *w, const struct stat *info) {
    enum { MOST = 64 };
    char shown[256];
    if (2 * (w->n_visits + 1) > w->visits_size && !grow_visits(w)) {
        w->visits_size = 0;
        return mr_fail_memory(w->err, sizeof *w->visits);
    }
    visit *v = find_visit(w, info->st_dev, info->st_ino);
    w->n_visits += v->times == 0;
    *v = (visit){info->st_dev, info->st_ino, v->times + 1};
    if (v->times <= MOST) {
        return MR_OK;
    }
    mr_text_escape(shown, sizeof shown, w->path);
    mr_fail(w->err, MR_E_LIMIT, "links lead to the folder %s by more than %d ways", shown, MOST);
    mr_hint(w->err, "take away links between folders, or name the files in a list");
    return MR_E_LIMIT;
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

/* Without the slash at its end. */
static mr_status tell_folder(walk *w, size_t length, const struct stat *info) {
    if (!w->visitor->folder) {
        return MR_OK;
    }
    bool below = length > w->root_length;
    if (below) {
        w->path[length - 1] = '\0';
    }
    mr_status status = w->visitor->folder(w->visitor->user, w->path + w->root_length, info, w->err);
    if (below) {
        w->path[length - 1] = '/';
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
    mr_status status = tell_folder(w, length, &info);
    if (status < 0) {
        closedir(folder);
        return status;
    }
    if (is_loop(parent, &info)) {
        report(w, "a link back to a folder it lies in: not followed");
    } else if (here.depth > DEEPEST) {
        status = mr_fail(w->err, MR_E_LIMIT, "folders lie more than %d deep", DEEPEST);
    } else {
        status = count_visit(w, &info);
        status = status == MR_OK ? visit_all(w, folder, length, &here) : status;
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
    mr_status status = walk_folder(&w, w.root_length, NULL);
    mr_free(w.visits);
    return status;
}
