/* SPDX-License-Identifier: Apache-2.0 */
/* patterns.c - see patterns.h. */
#include "io/patterns.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
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
/* Whether one name of a path fits; *rest goes behind it and its slash. */
static bool name_fits(const char *pattern, size_t length, const char **rest) {
    char one[NAME_MAX + 1], name[NAME_MAX + 1];
    size_t size = strcspn(*rest, "/");
    if (length > NAME_MAX || size > NAME_MAX) {
        return false;
    }
    memcpy(one, pattern, length);
    memcpy(name, *rest, size);
    one[length] = name[size] = '\0';
    *rest += size + ((*rest)[size] == '/');
    return fnmatch(one, name, FNM_PERIOD) == 0;
}

/* As fnmatch, a name at a time, but that a name of two stars stands for any folders, or none. Each
 * tries all places of those behind it, so there are few of them. */
static bool path_fits(const char *pattern, const char *path) {
    while (*pattern && *path) {
        size_t length = strcspn(pattern, "/");
        const char *behind = pattern + length + (pattern[length] == '/');
        if (length == 2 && strncmp(pattern, "**", 2) == 0) {
            while (*behind && !path_fits(behind, path) && *path) {
                path += strcspn(path, "/");
                path += *path == '/';
            }
            return *path || !*behind;
        }
        bool is_last = pattern[length] == '\0', ends = !strchr(path, '/');
        if (is_last != ends || !name_fits(pattern, length, &path)) {
            return false;
        }
        pattern = behind;
    }
    return !*pattern && !*path;
}

static bool has_deep_stars(const char *pattern) {
    return strncmp(pattern, "**/", 3) == 0 || strstr(pattern, "/**/") ||
           (strlen(pattern) >= 3 && strcmp(pattern + strlen(pattern) - 3, "/**") == 0);
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
        return endings[0][0] ? mr_fail(err, MR_E_NOT_FOUND, "no files that end in %s in the folder",
                                       endings[0])
                             : mr_fail(err, MR_E_NOT_FOUND, "no files in the folder");
    }
    sort_from(paths, first);
    return MR_OK;
}

static mr_status add_matches(mr_names *paths, const char *pattern, const char *const *endings,
                             mr_error *err) {
    struct stat info;
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
        bool folder = stat(found.gl_pathv[i], &info) == 0 && S_ISDIR(info.st_mode);
        status = folder ? add_folder(paths, found.gl_pathv[i], endings, err)
                        : add(paths, found.gl_pathv[i], err);
    }
    sort_from(paths, first);
    globfree(&found);
    return status;
}

/* Files below a folder whose names fit. */
typedef struct deep_walk {
    mr_names *paths;
    const char *folder;  /* with its slash */
    const char *pattern; /* of what is below it */
    const char *const *endings;
} deep_walk;

/* A pattern that ends in ** asks for what a folder would give. */
static bool deep_fits(const char *pattern, const char *name, const char *const *endings) {
    size_t length = strlen(pattern);
    bool all = length >= 2 && strcmp(pattern + length - 2, "**") == 0;
    return path_fits(pattern, name) && (!all || ends_in(name, endings));
}

static mr_status add_deep(void *user, const char *name, mr_error *err) {
    const deep_walk *walk = user;
    char *path = NULL;
    if (!deep_fits(walk->pattern, name, walk->endings)) {
        return MR_OK;
    }
    if (asprintf(&path, "%s%s", walk->folder, name) < 0) {
        return mr_fail_memory(err, strlen(name));
    }
    mr_status status = add(walk->paths, path, err);
    free(path);
    return status;
}

static mr_status add_deep_matches(mr_names *paths, const char *pattern, const char *const *endings,
                                  mr_error *err) {
    static const mr_log silent = {NULL, NULL};
    size_t plain = strcspn(pattern, "*?[");
    while (plain > 0 && pattern[plain - 1] != '/') {
        plain--;
    }
    char *folder = strndup(pattern, plain);
    if (!folder) {
        return mr_fail_memory(err, plain);
    }
    int32_t first = paths->n;
    deep_walk walk = {paths, folder, pattern + plain, endings};
    const mr_tree_visitor visitor = {.file = add_deep, .user = &walk};
    mr_status status = mr_tree_walk(plain > 0 ? folder : ".", &visitor, &silent, err);
    free(folder);
    MR_TRY(status);
    sort_from(paths, first);
    return paths->n > first ? MR_OK : mr_fail(err, MR_E_NOT_FOUND, "no file has a name like this");
}

/* ---- Objects on servers ---- */
typedef struct object_walk {
    mr_names *paths;
    const char *const *endings; /* (a folder, or all below one) to take */
    const char *pattern;        /* (wildcards) likewise; NULL: all below a folder */
} object_walk;

static mr_status add_object(void *user, const char *name, mr_error *err) {
    const object_walk *walk = user;
    char *bare = strndup(name, mr_far_bare(name));
    if (!bare) {
        return mr_fail_memory(err, strlen(name));
    }
    bool taken = !walk->pattern                  ? ends_in(bare, walk->endings)
                 : has_deep_stars(walk->pattern) ? deep_fits(walk->pattern, bare, walk->endings)
                                                 : fnmatch(walk->pattern, bare, FNM_PATHNAME) == 0;
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
    const object_walk walk = {paths, endings, name};
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
    if (exists || !strpbrk(name, "*?[")) {
        return add(paths, name, err);
    }
    return has_deep_stars(name) ? add_deep_matches(paths, name, endings, err)
                                : add_matches(paths, name, endings, err);
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
    MR_TRY(mr_far_pin_names(paths->v, paths->n, NULL, err));
    return paths->n > 0 ? MR_OK : mr_fail(err, MR_E_NOT_FOUND, "no files are named");
}

bool mr_path_is_newer(const char *made, const char *of) {
    struct stat a, b;
    return stat(made, &a) == 0 && stat(of, &b) == 0 &&
           (a.st_mtim.tv_sec > b.st_mtim.tv_sec ||
            (a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec >= b.st_mtim.tv_nsec));
}
