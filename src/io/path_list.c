/* SPDX-License-Identifier: Apache-2.0 */
/* path_list.c - what a path names, one file after the other. Names come from patterns.c, so they
 * are those that sources find; only a prefix of S3 is listed here, page by page, because sources
 * look there for names with certain endings, and because there may be more than memory has room
 * for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/error.h"
#include "io/far.h"
#include "io/file.h"
#include "io/patterns.h"

#include <millrace/paths.h>

typedef struct visitor {
    mr_path_visit *visit;
    void *user;
    const char *prefix; /* (S3) the path itself, and what is below it */
    bool any;
} visitor;

/* ---- One name ---- */
static mr_status visit_object(const visitor *v, const char *name, mr_error *err) {
    mr_far_pin pin;
    char *shown = strndup(name, mr_path_public(name));
    if (!shown) {
        return mr_fail_memory(err, strlen(name));
    }
    mr_far_pin_of(name, &pin);
    const mr_path_info info = {sizeof info, shown, pin.size, pin.tag};
    mr_status status = v->visit(v->user, &info, err);
    free(shown);
    return status;
}

static mr_status visit_file(const visitor *v, const char *name, mr_error *err) {
    struct stat file;
    struct tm parts;
    char changed[64] = "";
    if (stat(name, &file) != 0) {
        return mr_open_failed(name, errno, err);
    }
    if (gmtime_r(&file.st_mtim.tv_sec, &parts)) {
        strftime(changed, sizeof changed, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    const mr_path_info info = {sizeof info, name, (int64_t)file.st_size, changed};
    return v->visit(v->user, &info, err);
}

/* ---- A prefix of S3 ---- */
/* "b/a" is the object of that name and those below "b/a/", not "b/ab". */
static mr_status visit_listed(void *user, const char *name, mr_error *err) {
    visitor *v = user;
    size_t length = strlen(v->prefix), bare = mr_far_bare(name);
    bool whole = v->prefix[length - 1] == '/' || bare == length || name[length] == '/';
    v->any = v->any || whole;
    return whole ? visit_object(v, name, err) : MR_OK;
}

static mr_status list_prefix(visitor *v, mr_error *err) {
    MR_TRY(mr_far_list(v->prefix, visit_listed, v, err));
    if (!v->any) {
        mr_fail(err, MR_E_NOT_FOUND, "no object has a name like this");
        mr_error_at_sample(err, -1, v->prefix);
    }
    return v->any ? MR_OK : MR_E_NOT_FOUND;
}

/* ---- Everything else ---- */
static mr_status list_names(const visitor *v, const char *path, mr_error *err) {
    static const char *const every_ending[] = {"", NULL};
    const mr_strings one = {.v = (const char **)&path, .n = 1};
    mr_names names;
    mr_status status = mr_patterns_find(&names, &one, every_ending, err);
    for (int32_t i = 0; status == MR_OK && i < names.n; i++) {
        status = mr_is_far(names.v[i]) ? visit_object(v, names.v[i], err)
                                       : visit_file(v, names.v[i], err);
    }
    mr_patterns_free(&names);
    return status;
}

mr_status mr_paths_list(const char *path, mr_path_visit *visit, void *user, mr_error *err) {
    visitor v = {visit, user, path, false};
    bool is_prefix =
        mr_has_bucket(path) && !strpbrk(path, "*?[{") && path[mr_far_bare(path)] == '\0';
    return is_prefix ? list_prefix(&v, err) : list_names(&v, path, err);
}
