/* SPDX-License-Identifier: Apache-2.0 */
/* patterns.c - see patterns.h. */
#include "io/patterns.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "io/braces.h"
#include "io/far.h"
#include "io/file.h"
#include "io/tree.h"

/* ---- The list ---- */
static mr_status add(mr_names *paths, const char *path, mr_error *err) {
    if (paths->n == MR_NAMES_MAX) {
        return mr_fail(err, MR_E_LIMIT, "more than %d files", MR_NAMES_MAX);
    }
    if (paths->n == paths->capacity) {
        int32_t capacity = paths->capacity ? paths->capacity * 2 : 16;
        char **v = realloc(paths->v, (size_t)capacity * sizeof *v);
        if (!v) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *v);
        }
        paths->v = v;
        paths->capacity = capacity;
    }
    char *copy = strdup(path);
    if (!copy) {
        return mr_fail_memory(err, strlen(path));
    }
    paths->v[paths->n++] = copy;
    return MR_OK;
}

void mr_patterns_free(mr_names *paths) {
    for (int32_t i = 0; i < paths->n; i++) {
        free(paths->v[i]);
    }
    free(paths->v);
    *paths = (mr_names){NULL, 0, 0};
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_from(mr_names *paths, int32_t first) {
    if (paths->n > first) {
        qsort(paths->v + first, (size_t)(paths->n - first), sizeof *paths->v, compare);
    }
}

/* ---- Wildcards and folders ---- */
static mr_status add_matches(mr_names *paths, const char *pattern, mr_error *err) {
    glob_t found = {0};
    int failed = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    mr_status status = MR_OK;
    int32_t first = paths->n;
    if (failed == GLOB_NOSPACE) {
        status = mr_fail_memory(err, 0);
    } else if (failed == GLOB_ABORTED) {
        status = mr_fail(err, MR_E_IO, "a folder of the pattern cannot be read");
    } else if (failed) {
        status = mr_fail(err, MR_E_NOT_FOUND, "no file has a name like this");
    }
    for (size_t i = 0; status == MR_OK && i < found.gl_pathc; i++) {
        status = add(paths, found.gl_pathv[i], err);
    }
    sort_from(paths, first);
    globfree(&found);
    return status;
}

static bool ends_in(const char *name, const char *const *endings) {
    size_t length = strlen(name);
    for (; *endings; endings++) {
        size_t n = strlen(*endings);
        if (length > n && strcmp(name + length - n, *endings) == 0) {
            return true;
        }
    }
    return false;
}

typedef struct folder_walk {
    mr_names *paths;
    const char *folder;
    const char *const *endings;
} folder_walk;

static mr_status add_entry(void *user, const char *name, mr_error *err) {
    const folder_walk *walk = user;
    char *path = NULL;
    if (!ends_in(name, walk->endings)) {
        return MR_OK;
    }
    if (asprintf(&path, "%s/%s", walk->folder, name) < 0) {
        return mr_fail_memory(err, strlen(name));
    }
    mr_status status = add(walk->paths, path, err);
    free(path);
    return status;
}

static mr_status add_folder(mr_names *paths, const char *folder, const char *const *endings,
                            mr_error *err) {
    static const mr_log silent = {NULL, NULL};
    int32_t first = paths->n;
    folder_walk walk = {paths, folder, endings};
    const mr_tree_visitor visitor = {.file = add_entry, .user = &walk};
    MR_TRY(mr_tree_walk(folder, &visitor, &silent, err));
    if (paths->n == first) {
        mr_fail(err, MR_E_NOT_FOUND, "no files that end in %s in the folder", endings[0]);
        return MR_E_NOT_FOUND;
    }
    sort_from(paths, first);
    return MR_OK;
}

/* ---- Objects on servers ---- */
typedef struct object_walk {
    mr_names *paths;
    const char *const *endings; /* (a folder) to take */
    const char *pattern;        /* (wildcards) likewise; NULL: all below a folder */
} object_walk;

static mr_status add_object(void *user, const char *name, mr_error *err) {
    const object_walk *walk = user;
    char *bare = strndup(name, mr_far_bare(name));
    if (!bare) {
        return mr_fail_memory(err, strlen(name));
    }
    bool taken = walk->pattern ? fnmatch(walk->pattern, bare, FNM_PATHNAME) == 0
                               : ends_in(bare, walk->endings);
    free(bare);
    return taken ? add(walk->paths, name, err) : MR_OK;
}

static mr_status add_listed(mr_names *paths, const char *from, const object_walk *walk,
                            mr_error *err) {
    int32_t first = paths->n;
    MR_TRY(mr_far_list(from, add_object, (void *)(uintptr_t)walk, err));
    sort_from(paths, first);
    return paths->n > first ? MR_OK
                            : mr_fail(err, MR_E_NOT_FOUND, "no object has a name like this");
}

static mr_status add_below(mr_names *paths, const char *name, const char *const *endings,
                           mr_error *err) {
    const object_walk walk = {paths, endings, NULL};
    char *prefix = NULL;
    if (asprintf(&prefix, "%s%s", name, name[strlen(name) - 1] == '/' ? "" : "/") < 0) {
        return mr_fail_memory(err, strlen(name));
    }
    mr_status status = add_listed(paths, prefix, &walk, err);
    free(prefix);
    return status;
}

/* HTTP has no listings, and its names have question marks. */
static mr_status add_far(mr_names *paths, const char *name, const char *const *endings,
                         mr_error *err) {
    const object_walk walk = {paths, NULL, name};
    size_t plain = strcspn(name, "*?[");
    if (!mr_has_bucket(name) || name[mr_far_bare(name)] != '\0') {
        return add(paths, name, err);
    }
    if (name[plain] == '\0') {
        return ends_in(name, endings) ? add(paths, name, err)
                                      : add_below(paths, name, endings, err);
    }
    char *prefix = strndup(name, plain);
    mr_status status =
        prefix ? add_listed(paths, prefix, &walk, err) : mr_fail_memory(err, strlen(name));
    free(prefix);
    return status;
}

/* A name without braces. */
static mr_status add_plain(mr_names *paths, const char *name, const char *const *endings,
                           mr_error *err) {
    struct stat info;
    if (mr_is_far(name)) {
        return add_far(paths, name, endings, err);
    }
    bool exists = stat(name, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        return add_folder(paths, name, endings, err);
    }
    return !exists && strpbrk(name, "*?[") ? add_matches(paths, name, err) : add(paths, name, err);
}

/* ---- Braces ---- */
typedef struct expansion {
    mr_names *paths;
    const char *const *endings;
} expansion;

static mr_status add_expanded(void *user, const char *name, mr_error *err) {
    const expansion *to = user;
    return add_plain(to->paths, name, to->endings, err);
}

/* A file whose own name has braces is that file. */
static mr_status expand(mr_names *paths, const char *pattern, const char *const *endings,
                        mr_error *err) {
    struct stat info;
    expansion to = {paths, endings};
    return stat(pattern, &info) == 0 ? add_plain(paths, pattern, endings, err)
                                     : mr_braces_expand(pattern, add_expanded, &to, err);
}

mr_status mr_patterns_find(mr_names *paths, const mr_strings *patterns, const char *const *endings,
                           mr_error *err) {
    *paths = (mr_names){NULL, 0, 0};
    for (int32_t i = 0; i < patterns->n; i++) {
        mr_status status = expand(paths, patterns->v[i], endings, err);
        if (status < 0) {
            mr_error_at_sample(err, -1, patterns->v[i]);
            return status;
        }
    }
    MR_TRY(mr_far_pin_names(paths->v, paths->n, err));
    return paths->n > 0 ? MR_OK : mr_fail(err, MR_E_NOT_FOUND, "no files are named");
}

bool mr_path_is_newer(const char *made, const char *of) {
    struct stat a, b;
    return stat(made, &a) == 0 && stat(of, &b) == 0 &&
           (a.st_mtim.tv_sec > b.st_mtim.tv_sec ||
            (a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec >= b.st_mtim.tv_nsec));
}
