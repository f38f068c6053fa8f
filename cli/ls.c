/* SPDX-License-Identifier: Apache-2.0 */
/* ls.c - millrace ls: the files or objects that a path of a source names, before a run is made of
 * it. */
#include <millrace/paths.h>
#include <stdio.h>

#include "command.h"
#include "errors.h"
#include "text.h"

typedef struct ls_values {
    const char *path;
    bool json;
} ls_values;

typedef struct totals {
    bool json;
    int64_t files, bytes;
} totals;

static void print_json(const mr_path_info *info) {
    json_t *object = json_object();
    json_object_set_new(object, "name", mr_json_text(info->name));
    json_object_set_new(object, "bytes", info->bytes < 0 ? json_null() : json_integer(info->bytes));
    json_object_set_new(object, "version",
                        info->version[0] ? mr_json_text(info->version) : json_null());
    mr_json_print(object, MR_DIGITS_SHORT);
}

static void print_text(const mr_path_info *info) {
    char bytes[32] = "?", version[512], name[8192];
    if (info->bytes >= 0) {
        mr_text_count(bytes, sizeof bytes, info->bytes);
    }
    mr_text_safe(version, sizeof version, info->version[0] ? info->version : "-");
    mr_text_safe(name, sizeof name, info->name);
    printf("%15s  %-20s  %s\n", bytes, version, name);
}

static mr_status print_file(void *user, const mr_path_info *info, mr_error *err) {
    totals *t = user;
    (void)err;
    t->files++;
    t->bytes += info->bytes > 0 ? info->bytes : 0;
    if (t->json) {
        print_json(info);
    } else {
        print_text(info);
    }
    return MR_OK;
}

static int run_ls(const void *values) {
    const ls_values *v = values;
    mr_error err = MR_ERROR_INIT;
    totals t = {.json = v->json};
    char files[32], bytes[32];
    if (mr_paths_list(v->path, print_file, &t, &err) != MR_OK) {
        return mr_error_print(&err);
    }
    if (!v->json) {
        printf("%s %s, %s\n", mr_text_count(files, sizeof files, t.files),
               mr_text_plural(t.files, "file", "files"),
               mr_text_bytes(bytes, sizeof bytes, t.bytes));
    }
    return MR_EXIT_OK;
}

static const mr_option_row operands[] = {
    {.name = "PATH",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(ls_values, path),
     .doc = "A file, a folder, a pattern (* ? [ or braces), or an address: http://, https://, "
            "s3://BUCKET/PREFIX."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    {.name = "json",
     .kind = MR_OPTION_FLAG,
     .offset = offsetof(ls_values, json),
     .doc = "Print a line of JSON for each file instead of text."},
    {.name = NULL},
};

const mr_command mr_command_ls = {
    .name = "ls",
    .summary = "List the files or objects that a path names.",
    .doc = "Lists what a source would find under a path: bytes, version and name of each file. The "
           "version of a file is the time of its last change, that of an object on a server its "
           "ETag. Sources take from a folder the files with endings of their own kind; here are "
           "all, without those that start with a dot. HTTP has no listings: braces name several "
           "addresses. See docs/far.md.",
    .operands = operands,
    .options = options,
    .values_size = sizeof(ls_values),
    .run = run_ls,
};
