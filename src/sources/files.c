/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - one sample per file: a folder tree whose top folders are the classes, or a list of
 * paths and labels.
 *
 * The order of samples is the bytewise order of their paths below the root (for a list: the
 * list's), so it does not depend on the file system. */
#include <errno.h>
#include <millrace/source.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/file.h"
#include "io/tree.h"

typedef struct params {
    const char *path, *list;
    mr_strings extensions;
    int64_t max_file_bytes;
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, path),
     .fallback = "\"\"",
     .doc = "The folder. Its top folders, sorted, are the classes; without any, all labels are 0. "
            "With a list: what relative paths are relative to (default: the list's folder)."},
    {.name = "list",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, list),
     .fallback = "\"\"",
     .doc =
         "A text file with a path and a label on each line, separated by a tab or the last space. "
         "Labels that are not all numbers are sorted and numbered."},
    {.name = "extensions",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, extensions),
     .fallback = "[\".jpg\", \".jpeg\", \".png\", \".webp\"]",
     .doc = "Endings of the files to take from the folder, in upper or lower case; empty: all."},
    {.name = "max_file_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, max_file_bytes),
     .fallback = "\"64MB\"",
     .min = 1,
     .max = 1e15,
     .doc = "Refuse larger files."},
    {.name = NULL},
};

/* Field numbers. */
enum { IMAGE, LABEL, PATH, INDEX, N_FIELDS };

typedef struct item {
    char *path;        /* to open */
    char *label_text;  /* until labels are numbered, then NULL */
    size_t name_start; /* in path: the name below the folder, or as listed */
    int64_t label;
} item;

typedef struct files {
    const params *params;
    item *items;
    int64_t n, capacity;
    char **classes; /* names of a tree's top folders, sorted; also of those without samples */
    int64_t n_classes, classes_capacity;
    int64_t n_outside; /* files beside the class folders */
} files;

/* ---- The list of items ---- */
static char *join(const char *root, const char *path) {
    size_t root_length = strlen(root), length = strlen(path);
    bool slash = root_length > 0 && root[root_length - 1] != '/';
    char *out = malloc(root_length + slash + length + 1);
    if (out) {
        memcpy(out, root, root_length);
        memcpy(out + root_length, "/", slash);
        memcpy(out + root_length + slash, path, length + 1);
    }
    return out;
}

static mr_status grow(files *f, mr_error *err) {
    if (f->n < f->capacity) {
        return MR_OK;
    }
    int64_t capacity = f->capacity ? f->capacity * 2 : 256;
    item *items = realloc(f->items, (size_t)capacity * sizeof *items);
    if (!items) {
        return mr_fail_memory(err, (size_t)capacity * sizeof *items);
    }
    f->items = items;
    f->capacity = capacity;
    return MR_OK;
}

/* Adds root/name, or name alone where it is absolute. label_text may be NULL. */
static mr_status add(files *f, const char *root, const char *name, const char *label_text,
                     mr_error *err) {
    MR_TRY(grow(f, err));
    item *it = &f->items[f->n];
    *it = (item){.path = join(name[0] == '/' ? "" : root, name)};
    if (!it->path) {
        return mr_fail_memory(err, strlen(name));
    }
    f->n++; /* from here on freed with the rest */
    it->name_start = strlen(it->path) - strlen(name);
    it->label_text = label_text ? strdup(label_text) : NULL;
    return label_text && !it->label_text ? mr_fail_memory(err, strlen(label_text)) : MR_OK;
}

static const char *own_name(const item *it) {
    return it->path + it->name_start;
}

/* ---- A folder tree ---- */
static bool has_wanted_ending(const mr_strings *endings, const char *path) {
    size_t length = strlen(path);
    for (int32_t i = 0; i < endings->n; i++) {
        size_t ending = strlen(endings->v[i]);
        if (ending <= length && strcasecmp(path + length - ending, endings->v[i]) == 0) {
            return true;
        }
    }
    return endings->n == 0;
}

static mr_status add_file(void *user, const char *path, mr_error *err) {
    files *f = user;
    if (!has_wanted_ending(&f->params->extensions, path)) {
        return MR_OK;
    }
    return add(f, f->params->path, path, NULL, err);
}

static mr_status add_class(void *user, const char *name, mr_error *err) {
    files *f = user;
    if (f->n_classes == f->classes_capacity) {
        int64_t capacity = f->classes_capacity ? f->classes_capacity * 2 : 64;
        char **classes = realloc(f->classes, (size_t)capacity * sizeof *classes);
        if (!classes) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *classes);
        }
        f->classes = classes;
        f->classes_capacity = capacity;
    }
    f->classes[f->n_classes] = strdup(name);
    return f->classes[f->n_classes++] ? MR_OK : mr_fail_memory(err, strlen(name));
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const item *)a)->path, ((const item *)b)->path);
}

static size_t class_length(const char *name) {
    const char *slash = strchr(name, '/');
    return slash ? (size_t)(slash - name) : 0;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void drop_outsiders(files *f) {
    int64_t kept = 0;
    bool any_class = false;
    for (int64_t i = 0; i < f->n; i++) {
        any_class = any_class || class_length(own_name(&f->items[i])) > 0;
    }
    for (int64_t i = 0; i < f->n; i++) {
        if (any_class && class_length(own_name(&f->items[i])) == 0) {
            free(f->items[i].path);
            f->n_outside++;
        } else {
            f->items[kept++] = f->items[i];
        }
    }
    f->n = kept;
}

/* The class of a sample is its top folder; without any, all are of class 0. */
static mr_status label_by_folder(files *f, mr_error *err) {
    for (int64_t i = 0; i < f->n; i++) {
        const char *name = own_name(&f->items[i]);
        char *class = strndup(name, class_length(name));
        if (!class) {
            return mr_fail_memory(err, class_length(name));
        }
        char **found =
            class[0] && f->n_classes > 0
                ? bsearch(&class, f->classes, (size_t)f->n_classes, sizeof class, compare_texts)
                : NULL;
        f->items[i].label = found ? found - f->classes : 0;
        free(class);
    }
    return MR_OK;
}

static void report_empty_class(const files *f, int64_t class, const mr_log *log) {
    char text[640], name[512];
    mr_text_escape(name, sizeof name, f->classes[class]);
    snprintf(text, sizeof text, "class folder %s has no samples; it keeps label %lld", name,
             (long long)class);
    log->write(log->user, text);
}

/* A class without samples keeps its number, so that a set that lacks it has the labels of one that
 * does not. */
static mr_status report_empty_classes(const files *f, const mr_log *log, mr_error *err) {
    bool *seen = mr_zalloc((size_t)f->n_classes, sizeof *seen);
    if (!seen) {
        return mr_fail_memory(err, (size_t)f->n_classes);
    }
    for (int64_t i = 0; f->n_classes > 0 && i < f->n; i++) {
        seen[f->items[i].label] = true;
    }
    for (int64_t i = 0; log->write && i < f->n_classes; i++) {
        if (!seen[i]) {
            report_empty_class(f, i, log);
        }
    }
    mr_free(seen);
    return MR_OK;
}

/* ---- Labels ---- */
/* A whole number in decimal, whatever its size. */
static bool is_number(const char *text) {
    text += *text == '-';
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

static int64_t count_numbers(const files *f) {
    int64_t n = 0;
    for (int64_t i = 0; i < f->n; i++) {
        n += is_number(f->items[i].label_text);
    }
    return n;
}

static mr_status read_numbers(files *f, mr_error *err) {
    for (int64_t i = 0; i < f->n; i++) {
        errno = 0;
        f->items[i].label = strtoll(f->items[i].label_text, NULL, 10);
        if (errno != 0) {
            return mr_fail(err, MR_E_PARAM, "label %s in %s does not fit into 64 bits",
                           f->items[i].label_text, f->params->list);
        }
    }
    return MR_OK;
}

/* Numbers among names are more often a slip than a wish. */
static void report_mixture(const files *f, int64_t numbers, const mr_log *log) {
    char text[640], list[512];
    if (numbers > 0 && log->write) {
        mr_text_escape(list, sizeof list, f->params->list);
        snprintf(text, sizeof text,
                 "%s: %lld of %lld labels are numbers, so all are taken as names and numbered anew",
                 list, (long long)numbers, (long long)f->n);
        log->write(log->user, text);
    }
}

static int64_t unique(char **texts, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (kept == 0 || strcmp(texts[kept - 1], texts[i]) != 0) {
            texts[kept++] = texts[i];
        }
    }
    return kept;
}

/* Numbers the label texts in their sorted order. */
static mr_status number_labels(files *f, mr_error *err) {
    char **texts = mr_zalloc((size_t)f->n, sizeof *texts);
    if (!texts) {
        return mr_fail_memory(err, (size_t)f->n * sizeof *texts);
    }
    for (int64_t i = 0; i < f->n; i++) {
        texts[i] = f->items[i].label_text;
    }
    qsort(texts, (size_t)f->n, sizeof *texts, compare_texts);
    size_t n = (size_t)unique(texts, f->n);
    for (int64_t i = 0; i < f->n; i++) {
        char **found = bsearch(&f->items[i].label_text, texts, n, sizeof *texts, compare_texts);
        f->items[i].label = found - texts;
    }
    mr_free(texts);
    return MR_OK;
}

static void forget_label_texts(files *f) {
    for (int64_t i = 0; i < f->n; i++) {
        free(f->items[i].label_text);
        f->items[i].label_text = NULL;
    }
}

static void report_outsiders(const files *f, const mr_log *log) {
    char text[640], path[512];
    if (f->n_outside > 0 && log->write) {
        mr_text_escape(path, sizeof path, f->params->path);
        snprintf(text, sizeof text, "%s: %lld files beside the class folders were left out", path,
                 (long long)f->n_outside);
        log->write(log->user, text);
    }
}

static mr_status open_tree(files *f, const mr_log *log, mr_error *err) {
    const mr_tree_visitor visitor = {add_file, add_class, f};
    mr_status status = mr_tree_walk(f->params->path, &visitor, log, err);
    if (status == MR_E_NOT_FOUND) {
        mr_hint(err, "source files looks for path from the current folder");
    }
    MR_TRY(status);
    if (f->n == 0) {
        return MR_OK; /* said by the caller */
    }
    qsort(f->items, (size_t)f->n, sizeof *f->items, compare_paths);
    if (f->n_classes > 0) {
        qsort(f->classes, (size_t)f->n_classes, sizeof *f->classes, compare_texts);
    }
    drop_outsiders(f);
    report_outsiders(f, log);
    MR_TRY(label_by_folder(f, err));
    return report_empty_classes(f, log, err);
}

/* ---- A list file ---- */
static mr_status bad_line(const files *f, int64_t line, const char *what, mr_error *err) {
    char list[256];
    mr_text_escape(list, sizeof list, f->params->list);
    mr_fail(err, MR_E_PARAM, "line %lld of %s has no %s", (long long)line, list, what);
    mr_hint(err, "write a path, a tab and a label on each line");
    return MR_E_PARAM;
}

/* The list's own folder, with its slash. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("");
}

static mr_status add_line(files *f, const char *root, char *line, int64_t number, mr_error *err) {
    char *separator = strrchr(line, '\t');
    separator = separator ? separator : strrchr(line, ' ');
    if (!separator || separator[1] == '\0') {
        return bad_line(f, number, "label", err);
    }
    *separator = '\0';
    if (line[0] == '\0') {
        return bad_line(f, number, "path", err);
    }
    return add(f, root, line, separator + 1, err);
}

static mr_status add_lines(files *f, const char *root, char *text, mr_error *err) {
    int64_t number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        number++;
        line[strcspn(line, "\r")] = '\0';
        if (line[0] != '\0') {
            MR_TRY(add_line(f, root, line, number, err));
        }
    }
    return MR_OK;
}

static mr_status open_list(files *f, const mr_log *log, mr_error *err) {
    char *text = NULL;
    size_t size = 0;
    MR_TRY(mr_file_load(f->params->list, (size_t)1 << 34, &text, &size, err));
    char *root = f->params->path[0] ? strdup(f->params->path) : folder_of(f->params->list);
    mr_status status = MR_OK;
    if (!root) {
        status = mr_fail_memory(err, 64);
    } else if (strlen(text) != size) {
        status = mr_fail(err, MR_E_PARAM, "the list has a zero byte at %zu", strlen(text));
    } else {
        status = add_lines(f, root, text, err);
    }
    free(root);
    mr_free(text);
    MR_TRY(status);
    int64_t numbers = count_numbers(f);
    if (numbers == f->n) {
        return read_numbers(f, err);
    }
    report_mixture(f, numbers, log);
    return number_labels(f, err);
}

/* ---- The table's functions ---- */
static mr_status check(void *p, mr_error *err) {
    const params *own = p;
    if (!own->path[0] && !own->list[0]) {
        mr_fail(err, MR_E_PARAM, "source files needs a path or a list");
        mr_hint(err, "write {\"files\": {\"path\": \"photos\"}}");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static mr_status describe(const void *p, mr_field *fields, int32_t *n_fields, mr_error *err) {
    const mr_type bytes = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    const mr_type number = {.dtype = MR_I64};
    (void)p;
    (void)err;
    fields[IMAGE] = (mr_field){"image", bytes, false};
    fields[LABEL] = (mr_field){"label", number, false};
    fields[PATH] = (mr_field){"path", bytes, true};
    fields[INDEX] = (mr_field){"index", number, true};
    *n_fields = N_FIELDS;
    return MR_OK;
}

static mr_status nothing_found(const files *f, mr_error *err) {
    char path[256];
    mr_text_escape(path, sizeof path, f->params->list[0] ? f->params->list : f->params->path);
    mr_fail(err, MR_E_NOT_FOUND, "no samples found in %s", path);
    if (!f->params->list[0]) {
        mr_hint(err, "files must end in one of `extensions`; folders and files whose names start "
                     "with a dot are left out");
    }
    return MR_E_NOT_FOUND;
}

static mr_status open_(const void *p, const mr_log *log, void **state, mr_error *err) {
    files *f = mr_zalloc(1, sizeof *f);
    if (!f) {
        return mr_fail_memory(err, sizeof *f);
    }
    *state = f;
    f->params = p;
    MR_TRY(f->params->list[0] ? open_list(f, log, err) : open_tree(f, log, err));
    forget_label_texts(f);
    return f->n > 0 ? MR_OK : nothing_found(f, err);
}

static void close_(void *state) {
    files *f = state;
    if (f) {
        forget_label_texts(f);
        for (int64_t i = 0; i < f->n; i++) {
            free(f->items[i].path);
        }
        for (int64_t i = 0; i < f->n_classes; i++) {
            free(f->classes[i]);
        }
        free(f->classes);
        free(f->items);
        mr_free(f);
    }
}

static int64_t count(const void *state) {
    return ((const files *)state)->n;
}

static void fingerprint(const void *state, uint64_t out[2]) {
    const files *f = state;
    uint64_t low = 1, high = 2;
    for (int64_t i = 0; i < f->n; i++) {
        const char *name = own_name(&f->items[i]);
        uint64_t label = (uint64_t)f->items[i].label;
        low = mr_hash64(name, strlen(name), low ^ label);
        high = mr_hash64(name, strlen(name), high + label);
    }
    out[0] = low;
    out[1] = high;
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    snprintf(buffer, size, "%s", ((const files *)state)->items[sample].path);
}

static mr_status locate(const void *state, int64_t sample, mr_extent *out, mr_error *err) {
    const files *f = state;
    (void)err;
    *out = (mr_extent){f->items[sample].path, 0, -1, f->params->max_file_bytes};
    return MR_OK;
}

static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    const files *f = state;
    return mr_file_identity(f->items[sample].path, f->params->max_file_bytes, out);
}

static void point_at(mr_view *field, const void *bytes, size_t size) {
    field->data = (void *)(uintptr_t)bytes;
    field->size = size;
    field->type.dims[0] = (int64_t)size;
}

static mr_status fill(const void *state, int64_t sample, const void *bytes, size_t n_bytes,
                      mr_view *fields, mr_error *err) {
    const files *f = state;
    const char *path = own_name(&f->items[sample]);
    (void)err;
    point_at(&fields[IMAGE], bytes, n_bytes);
    point_at(&fields[PATH], path, strlen(path));
    memcpy(fields[LABEL].data, &f->items[sample].label, sizeof(int64_t));
    memcpy(fields[INDEX].data, &sample, sizeof sample);
    return MR_OK;
}

extern const mr_source_class mr_source_files;
const mr_source_class mr_source_files = {
    MR_SOURCE_HEADER,
    .name = "files",
    .summary = "One sample per file: a folder of class folders, or a list of paths and labels.",
    .doc =
        "Fields: image (the file's bytes), label (int64); on request path (the name below the "
        "folder, or as listed) and index (int64). Samples are in the bytewise order of their "
        "paths, or in the list's. Links are followed, loops are not; names that start with a dot "
        "are left out, and so are files beside class folders (said aloud). A folder that cannot be "
        "read is an error; a file that cannot be read is a bad sample.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .describe = describe,
    .open = open_,
    .close = close_,
    .count = count,
    .fingerprint = fingerprint,
    .sample_name = sample_name,
    .locate = locate,
    .fill = fill,
    .identify = identify,
};
