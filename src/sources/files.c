/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - one sample per file: a folder tree whose top folders are the classes, a folder with a
 * table of labels, or a list of paths and labels. labels.c reads lists and tables.
 *
 * The order of samples is the bytewise order of their paths below the root (for a list: the
 * list's), so it does not depend on the file system. Of a file only its name below the root is
 * kept, beside 12 bytes: files are opened from the root's handle. */
#include <errno.h>
#include <fcntl.h>
#include <millrace/source.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/letters.h"
#include "core/memory.h"
#include "io/far.h"
#include "io/file.h"
#include "sources/classes.h"
#include "sources/labels.h"
#include "sources/listing.h"
#include "sources/named.h"

/* A field from a column: read by check, so that describe knows it. */
typedef struct described {
    char name[MR_LABEL_NAME];
    mr_type type;
    bool is_file;
} described;

typedef struct params {
    const char *path, *list, *labels, *index, *classes;
    mr_strings extensions, columns;
    int64_t max_file_bytes;
    described *described; /* not a parameter: found by check */
    int32_t n_described;
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, path),
     .fallback = "\"\"",
     .doc =
         "The folder. Its top folders are the classes, in the order of `classes` or else sorted; "
         "without any, all labels are 0. "
         "With a list: what relative paths are relative to (default: the list's folder)."},
    {.name = "list",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, list),
     .fallback = "\"\"",
     .doc = "A text file with a path and a label on each line, separated by a tab or the last "
            "space. Labels are all whole numbers (int64), all numbers (float32), all lists of "
            "numbers (\"0,3\"), or all names, which are sorted and numbered. Names of classes are "
            "UTF-8, paths any bytes."},
    {.name = "labels",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, labels),
     .fallback = "\"\"",
     .doc =
         "A table with a row for each file of the folder: CSV or TSV with a header, or JSON lines. "
         "Column file_name, file, path or image, else the first, has the files' names: below the "
         "folder, or without folders, or without their endings. Every other column is a field, "
         "typed as a list's labels are, in JSON lines also lists of lists of numbers, as boxes "
         "are; "
         "where all its values name files (with an ending of `extensions`, or found below the "
         "folder or beside the table), they are read as the image is, and are no samples "
         "themselves. Names of classes and columns are UTF-8 (JSON is as a whole), those of files "
         "any bytes."},
    {.name = "columns",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, columns),
     .fallback = "[]",
     .doc = "Columns of the table to take; empty: all."},
    {.name = "classes",
     .kind = MR_PARAM_JSON,
     .offset = offsetof(params, classes),
     .fallback = "null",
     .doc =
         "Names of the classes in the order of their numbers: a list, or a text file with a name "
         "on each line; an object of these by column where a table has several columns of names. "
         "A name that is none of them is an error. null or empty: the names that are found, "
         "sorted, which "
         "another set that lacks a class numbers otherwise."},
    {.name = "extensions",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, extensions),
     .fallback = "[\".jpg\", \".jpeg\", \".png\", \".webp\"]",
     .doc = "Endings of the files to take from the folder, in upper or lower case; empty: all."},
    {.name = "index",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, index),
     .fallback = "\"\"",
     .doc =
         "A file that keeps the folder's listing, for folders of millions of files: written where "
         "there is none, used while all folders have the times they had then, else written "
         "anew. \"\": the folder is listed at every start."},
    {.name = "max_file_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, max_file_bytes),
     .fallback = "\"64MB\"",
     .min = 1,
     .max = 1e15,
     .doc = "Refuse larger files."},
    {.name = NULL},
};

/* Field numbers: the image, the columns, the path, the index. */
enum { IMAGE, COLUMNS };

typedef struct files {
    const params *params;
    mr_listing listing;
    int64_t n;
    const int64_t *starts; /* of names in the listing; NULL: names are the list's */
    int64_t *kept;         /* starts without those of files that were left out */
    uint32_t *rows;        /* of samples: the class, or the row of the table; NULL: the sample */
    char *root;            /* that names are relative to */
    char **objects;        /* a list's: what to open, where something of it is on a server */
    int folder;            /* its handle, or -1 */
    char **classes; /* names of a tree's top folders, also of those without samples: sorted, or as
                       given */
    int64_t n_classes, classes_capacity;
    int64_t n_outside; /* files beside the class folders */
    mr_labels *labels; /* NULL: classes are folders */
    int32_t *extents;  /* of columns of files that are wanted, from 1 on; else 0 */
    int32_t n_extents;
    mr_far_limits limits; /* of what is asked of servers after it was opened */
    uint64_t fingerprint[2];
} files;

/* ---- Names ---- */
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

static const char *name_of(const files *f, int64_t sample) {
    return f->starts ? f->listing.names + f->starts[sample] : f->labels->names[sample];
}

/* What to open. */
static const char *path_of(const files *f, int64_t sample) {
    if (f->objects) {
        return f->objects[sample];
    }
    const char *name = name_of(f, sample);
    return f->starts && mr_is_far(f->root) ? mr_listing_object(name) : name;
}

static int64_t row_of(const files *f, int64_t sample) {
    return f->rows ? (int64_t)f->rows[sample] : sample;
}

static mr_status make_rows(files *f, mr_error *err) {
    f->rows = f->n <= UINT32_MAX ? mr_zalloc((size_t)f->n, sizeof *f->rows) : NULL;
    return f->rows ? MR_OK : mr_fail_memory(err, (size_t)f->n * sizeof *f->rows);
}

/* ---- A folder tree ---- */
static mr_status add_class(files *f, const char *name, mr_error *err) {
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

static size_t class_length(const char *name) {
    const char *slash = strchr(name, '/');
    return slash ? (size_t)(slash - name) : 0;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The classes are the top folders, also those without samples. */
static mr_status find_classes(files *f, mr_error *err) {
    for (int64_t i = 0; i < f->listing.n_folders; i++) {
        const char *name = f->listing.folder_names + f->listing.folders[i].name;
        if (name[0] != '\0' && !strchr(name, '/')) {
            MR_TRY(add_class(f, name, err));
        }
    }
    if (f->n_classes > 0) {
        qsort(f->classes, (size_t)f->n_classes, sizeof *f->classes, compare_texts);
    }
    return MR_OK;
}

/* Where no sample lies in a folder, folders are no classes: label 0 is not the first of them. */
static void forget_classes(files *f) {
    while (f->n_classes > 0) {
        free(f->classes[--f->n_classes]);
    }
}

static mr_status drop_outsiders(files *f, mr_error *err) {
    int64_t n_inside = 0, n = 0;
    for (int64_t i = 0; i < f->n; i++) {
        n_inside += class_length(name_of(f, i)) > 0;
    }
    if (n_inside == 0) {
        forget_classes(f);
    }
    if (n_inside == 0 || n_inside == f->n) {
        return MR_OK;
    }
    f->kept = malloc((size_t)n_inside * sizeof *f->kept);
    if (!f->kept) {
        return mr_fail_memory(err, (size_t)n_inside * sizeof *f->kept);
    }
    for (int64_t i = 0; i < f->n; i++) {
        if (class_length(name_of(f, i)) > 0) {
            f->kept[n++] = f->starts[i];
        }
    }
    f->n_outside = f->n - n;
    f->n = n;
    f->starts = f->kept;
    return MR_OK;
}

static int64_t find_class(const files *f, const char *name, size_t length) {
    int64_t low = 0, high = f->n_classes;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strncmp(f->classes[middle], name, length);
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return low < f->n_classes ? low : 0;
}

/* The class of a sample is its top folder; without any, all are of class 0. Samples of a class
 * follow each other. */
static mr_status label_by_folder(files *f, mr_error *err) {
    const char *class = "";
    size_t length = 0;
    MR_TRY(make_rows(f, err));
    for (int64_t i = 0; i < f->n; i++) {
        const char *name = name_of(f, i);
        if (length > 0 && strncmp(name, class, length + 1) == 0) {
            f->rows[i] = f->rows[i - 1];
            continue;
        }
        class = name;
        length = class_length(name);
        f->rows[i] = length > 0 ? (uint32_t)find_class(f, name, length) : 0;
    }
    return MR_OK;
}

static mr_status no_class(const files *f, int64_t class, const mr_classes *classes, mr_error *err) {
    char name[256], hint[256];
    mr_fail(err, MR_E_PARAM, "folder %s is none of the %lld classes given",
            mr_text_escape(name, sizeof name, f->classes[class]), (long long)classes->n);
    mr_classes_hint(classes, f->classes[class], "take its files out of the folder", hint,
                    sizeof hint);
    mr_hint(err, "%s", hint);
    return MR_E_PARAM;
}

/* Folders are numbered as their names are listed. One without samples may be anything. */
static mr_status number_as_given(files *f, mr_classes *classes, int64_t *numbers, mr_error *err) {
    if (f->n_classes == 0) {
        mr_fail(err, MR_E_PARAM, "there are classes, but no file is in a class folder");
        mr_hint(err, "`classes` numbers folders, or names in a list or table");
        return MR_E_PARAM;
    }
    for (int64_t i = 0; i < f->n_classes; i++) {
        numbers[i] = mr_classes_number(classes, f->classes[i]);
    }
    for (int64_t i = 0; i < f->n; i++) {
        if (numbers[f->rows[i]] < 0 || numbers[f->rows[i]] > UINT32_MAX) {
            return no_class(f, f->rows[i], classes, err);
        }
        f->rows[i] = (uint32_t)numbers[f->rows[i]];
    }
    mr_classes_swap(classes, &f->classes, &f->n_classes);
    return MR_OK;
}

static mr_status number_folders(files *f, bool *given, mr_error *err) {
    mr_classes classes;
    char *stranger = NULL;
    const char *label = "label";
    int64_t *numbers = mr_zalloc((size_t)f->n_classes + 1, sizeof *numbers);
    if (!numbers) {
        return mr_fail_memory(err, (size_t)f->n_classes * sizeof *numbers);
    }
    mr_status status = mr_classes_load(&classes, f->params->classes, label, err);
    *given = classes.given;
    if (status == MR_OK && classes.given) {
        status = number_as_given(f, &classes, numbers, err);
    }
    mr_classes_free(&classes);
    mr_free(numbers);
    MR_TRY(status);
    MR_TRY(mr_classes_stranger(f->params->classes, &label, 1, &stranger, err));
    if (stranger) {
        free(stranger);
        mr_fail(err, MR_E_PARAM, "classes of folders are those of field \"label\"");
        return MR_E_PARAM;
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
        seen[f->rows[i]] = true;
    }
    for (int64_t i = 0; log->write && i < f->n_classes; i++) {
        if (!seen[i]) {
            report_empty_class(f, i, log);
        }
    }
    mr_free(seen);
    return MR_OK;
}

/* Called as masks are. */
static bool is_for_masks(const char *folder, size_t length) {
    static const char *const words[] = {"mask", "segm", "annotation", NULL};
    for (const char *const *word = words; *word; word++) {
        const char *found = mr_find_letters(folder, *word);
        if (found && found < folder + length) {
            return true;
        }
    }
    return false;
}

static bool lies_among_masks(const char *name) {
    const char *base = strrchr(name, '/');
    return base && is_for_masks(name, (size_t)(base - name));
}

static void report_masks(const files *f, const mr_log *log) {
    char text[640], name[256];
    for (int64_t i = 0; log->write && i < f->n_classes; i++) {
        if (is_for_masks(f->classes[i], strlen(f->classes[i]))) {
            mr_text_escape(name, sizeof name, f->classes[i]);
            snprintf(
                text, sizeof text,
                "folder %s was taken for a class. If it has the masks of other images, write a "
                "table that names both (file_name,mask) and give it as labels",
                name);
            log->write(log->user, text);
        }
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

/* ---- A table of labels ---- */
static mr_labels_origin origin_of(const params *p) {
    return (mr_labels_origin){.path = p->list[0] ? p->list : p->labels,
                              .is_list = p->list[0] != '\0',
                              .columns = p->columns,
                              .extensions = p->extensions,
                              .root = p->path,
                              .classes = p->classes};
}

static mr_status no_row(const files *f, int64_t sample, const char *what, mr_error *err) {
    char name[256], table[256], key[128], first[160];
    const mr_labels *l = f->labels;
    mr_text_escape(name, sizeof name, name_of(f, sample));
    mr_text_escape(table, sizeof table, f->params->labels);
    mr_text_escape(key, sizeof key, l->key);
    mr_text_escape(first, sizeof first, l->n_rows > 0 ? l->names[0] : "");
    mr_fail(err, MR_E_PARAM, "%s %s %s, whose column \"%s\" was taken for the files' names", name,
            what, table, key);
    if (lies_among_masks(name_of(f, sample))) {
        mr_hint(
            err,
            "if it is a mask, name it in a column of the table, mask for instance: it is then a "
            "field of its sample and no sample of its own");
        return MR_E_PARAM;
    }
    mr_hint(err,
            "the column is called file_name, filename, file, path or image, else it is the first "
            "that names files; it begins with \"%s\". Files are joined to rows by their names "
            "below the folder, else without folders, else "
            "without endings: each needs a row of its own",
            first);
    return MR_E_PARAM;
}

static mr_status join_row(files *f, int64_t sample, int64_t row, bool *used, mr_error *err) {
    if (row < 0 || row > UINT32_MAX) {
        return no_row(f, sample, "has no row in", err);
    }
    if (used[row]) {
        return no_row(f, sample, "and a file before it have the same row in", err);
    }
    used[row] = true;
    f->rows[sample] = (uint32_t)row;
    return MR_OK;
}

/* Whether a file belongs to samples and is none. One whose name without folders or ending would be
 * that of a row, which no other file has, could be meant as either. */
static mr_status is_no_sample(const files *f, int64_t sample, const mr_named *named,
                              const bool *used, bool *out, mr_error *err) {
    const char *name = name_of(f, sample);
    *out = mr_labels_find_exactly(f->labels, name) < 0 && mr_named_has(named, name);
    int64_t row = *out && used ? mr_labels_find(f->labels, name) : -1;
    if (row < 0 || used[row]) {
        return MR_OK;
    }
    char shown[256], table[256];
    mr_text_escape(shown, sizeof shown, name);
    mr_text_escape(table, sizeof table, f->params->labels);
    mr_fail(err, MR_E_PARAM, "%s is named by a column of %s, and line %lld may mean it too", shown,
            table, (long long)f->labels->lines[row]);
    mr_hint(err, "write whole names below the folder, with endings, into column \"%s\"",
            f->labels->key);
    return MR_E_PARAM;
}

/* Samples first: what they leave of the rows tells whether the others are theirs. */
static mr_status join_rows(files *f, const mr_named *named, bool *used, mr_error *err) {
    bool left_out = false, any = false;
    for (int64_t i = 0; i < f->n; i++) {
        MR_TRY(is_no_sample(f, i, named, NULL, &left_out, err));
        any = any || !left_out;
        if (!left_out) {
            MR_TRY(join_row(f, i, mr_labels_find(f->labels, name_of(f, i)), used, err));
        }
    }
    if (!any) { /* the files' names are in another column than was thought */
        return no_row(f, 0, "has no row in", err);
    }
    for (int64_t i = 0; i < f->n; i++) {
        MR_TRY(is_no_sample(f, i, named, used, &left_out, err));
    }
    return MR_OK;
}

static mr_status drop_named(files *f, const mr_named *named, mr_error *err) {
    mr_error ignored = MR_ERROR_INIT;
    int64_t n = 0;
    if (named->n == 0) {
        return MR_OK;
    }
    f->kept = malloc((size_t)f->n * sizeof *f->kept);
    if (!f->kept) {
        return mr_fail_memory(err, (size_t)f->n * sizeof *f->kept);
    }
    for (int64_t i = 0; i < f->n; i++) {
        bool left_out = false;
        is_no_sample(f, i, named, NULL, &left_out, &ignored);
        if (!left_out) {
            f->rows[n] = f->rows[i];
            f->kept[n++] = f->starts[i];
        }
    }
    f->n = n;
    f->starts = f->kept;
    return MR_OK;
}

static void report_unused(const files *f, const mr_log *log) {
    char text[640], table[512];
    if (f->labels->n_rows > f->n && log->write) {
        mr_text_escape(table, sizeof table, f->params->labels);
        snprintf(text, sizeof text, "%s: %lld of %lld rows belong to no file", table,
                 (long long)(f->labels->n_rows - f->n), (long long)f->labels->n_rows);
        log->write(log->user, text);
    }
}

static mr_status join_labels(files *f, const mr_log *log, mr_error *err) {
    const mr_labels_origin from = origin_of(f->params);
    MR_TRY(mr_labels_load(&f->labels, &from, err));
    MR_TRY(make_rows(f, err));
    mr_named named = {NULL, 0, 0};
    bool *used = mr_zalloc((size_t)f->labels->n_rows + 1, sizeof *used);
    if (!used) {
        return mr_fail_memory(err, (size_t)f->labels->n_rows);
    }
    mr_status status = mr_named_make(&named, f->labels, f->params->path, from.path, err);
    status = status == MR_OK ? join_rows(f, &named, used, err) : status;
    status = status == MR_OK ? drop_named(f, &named, err) : status;
    mr_named_free(&named);
    mr_free(used);
    if (status == MR_OK) {
        report_unused(f, log);
    }
    return status;
}

static mr_status open_tree(files *f, const mr_log *log, mr_error *err) {
    const mr_listing_config config = {f->params->path, &f->params->extensions, f->params->index,
                                      log};
    mr_status status = mr_listing_open(&f->listing, &config, err);
    if (status == MR_E_NOT_FOUND) {
        mr_hint(err, "source files looks for path from the current folder");
    }
    MR_TRY(status);
    f->n = f->listing.n;
    f->starts = f->listing.starts;
    if (f->n == 0) {
        return MR_OK; /* said by the caller */
    }
    MR_TRY(find_classes(f, err));
    if (f->params->labels[0]) {
        return join_labels(f, log, err);
    }
    MR_TRY(drop_outsiders(f, err));
    report_outsiders(f, log);
    report_masks(f, log);
    bool given = false;
    MR_TRY(label_by_folder(f, err));
    MR_TRY(number_folders(f, &given, err));
    return given ? MR_OK : report_empty_classes(f, log, err);
}

/* ---- A list file ---- */
static char *root_of(const params *p) {
    return p->path[0] ? strdup(p->path) : mr_labels_folder(p->list);
}

static mr_status open_list(files *f, mr_error *err) {
    const mr_labels_origin from = origin_of(f->params);
    MR_TRY(mr_labels_load(&f->labels, &from, err));
    f->n = f->labels->n_rows;
    return MR_OK;
}

/* ---- Lists of objects on servers ---- */
static bool is_absolute(const char *name) {
    return name[0] == '/' || mr_is_far(name);
}

/* Names of a list are those of files: in an address on the web they are encoded. */
static char *join_far(const char *root, const char *name) {
    if (is_absolute(name)) {
        return strdup(name);
    }
    if (!mr_is_far(root) || mr_has_bucket(root)) {
        return join(root, name);
    }
    size_t size = strlen(root) + 3 * strlen(name) + 8, at = strlen(root);
    char *out = malloc(size);
    if (out) {
        memcpy(out, root, at + 1);
        if (at > 0 && out[at - 1] != '/') {
            out[at++] = '/';
        }
        mr_far_encode(out, size, &at, name, strlen(name), "/");
    }
    return out;
}

/* Versions of so many are looked up; more would take minutes at every start. */
static mr_status pin_some(char **names, int64_t n, mr_error *err) {
    enum { PINNED = 1 << 16 };
    return n <= PINNED ? mr_far_pin_names(names, (int32_t)n, NULL, err) : MR_OK;
}

static mr_status name_objects(files *f, mr_error *err) {
    bool far = mr_is_far(f->root);
    for (int64_t i = 0; !far && i < f->n; i++) {
        far = mr_is_far(name_of(f, i));
    }
    if (f->starts || !far) {
        return MR_OK;
    }
    f->objects = mr_zalloc((size_t)f->n, sizeof *f->objects);
    if (!f->objects) {
        return mr_fail_memory(err, (size_t)f->n * sizeof *f->objects);
    }
    for (int64_t i = 0; i < f->n; i++) {
        f->objects[i] = join_far(f->root, name_of(f, i));
        if (!f->objects[i]) {
            return mr_fail_memory(err, strlen(name_of(f, i)));
        }
    }
    return pin_some(f->objects, f->n, err);
}

/* Files are opened from the root's handle. */
static mr_status open_root(files *f, mr_error *err) {
    f->root = root_of(f->params);
    if (!f->root) {
        return mr_fail_memory(err, 64);
    }
    MR_TRY(name_objects(f, err));
    if (f->objects || mr_is_far(f->root)) {
        return MR_OK;
    }
    const char *path = f->root[0] ? f->root : ".";
    do {
        f->folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    } while (f->folder < 0 && errno == EINTR);
    return f->folder >= 0 ? MR_OK : mr_open_failed(path, errno, err);
}

/* ---- The table's functions ---- */
static void describe_column(params *own, const char *name, mr_type type, bool is_file) {
    described *d = &own->described[own->n_described++];
    *d = (described){.type = type, .is_file = is_file};
    snprintf(d->name, sizeof d->name, "%s", name);
}

static mr_status describe_columns(params *own, const mr_labels *labels, mr_error *err) {
    const size_t n = labels ? (size_t)labels->n_columns : 1;
    own->described = mr_zalloc(n + 1, sizeof *own->described);
    if (!own->described) {
        return mr_fail_memory(err, n * sizeof *own->described);
    }
    for (int32_t i = 0; labels && i < labels->n_columns; i++) {
        const mr_label_column *c = &labels->columns[i];
        describe_column(own, c->name, c->type, c->is_file);
    }
    if (!labels) {
        describe_column(own, "label", (mr_type){.dtype = MR_I64}, false);
    }
    return MR_OK;
}

/* What cannot be read yet is said by open, and so is what is wrong with classes: they change no
 * type. */
static mr_status read_columns(params *own, mr_error *err) {
    mr_error ignored = MR_ERROR_INIT;
    mr_labels *labels = NULL;
    mr_labels_origin from = origin_of(own);
    from.classes = NULL;
    mr_status status = from.path[0] ? mr_labels_load(&labels, &from, &ignored) : MR_OK;
    status = status == MR_E_MEMORY ? mr_fail_memory(err, 64) : describe_columns(own, labels, err);
    mr_labels_free(labels);
    return status;
}

static void forget(void *p) {
    params *own = p;
    mr_free(own->described);
    own->described = NULL;
    own->n_described = 0;
}

static mr_status check(void *p, mr_error *err) {
    params *own = p;
    own->described = NULL;
    own->n_described = 0;
    if (!own->path[0] && !own->list[0]) {
        mr_fail(err, MR_E_PARAM, "source files needs a path or a list");
        mr_hint(err, "write {\"files\": {\"path\": \"photos\"}}");
        return MR_E_PARAM;
    }
    if (own->list[0] && own->labels[0]) {
        mr_fail(err, MR_E_PARAM, "source files takes a list or labels, not both");
        mr_hint(err, "a list has the labels in it; labels are a table beside a folder");
        return MR_E_PARAM;
    }
    MR_TRY(mr_classes_check(own->classes, err));
    return read_columns(own, err);
}

static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err) {
    const params *own = p;
    const mr_type bytes = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    const mr_type number = {.dtype = MR_I64};
    int32_t n = COLUMNS;
    (void)err;
    *n_fields = COLUMNS + own->n_described + 2;
    if (capacity < *n_fields) {
        return MR_OK;
    }
    fields[IMAGE] = (mr_field){"image", bytes, false};
    for (int32_t i = 0; i < own->n_described; i++) {
        fields[n++] = (mr_field){own->described[i].name, own->described[i].type, false};
    }
    fields[n++] = (mr_field){"path", bytes, true};
    fields[n++] = (mr_field){"index", number, true};
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

static bool same_type(const mr_type *a, const mr_type *b) {
    return a->dtype == b->dtype && a->n_dims == b->n_dims &&
           (a->n_dims == 0 || a->dims[0] == b->dims[0]) &&
           (a->n_dims < 2 || a->dims[1] == b->dims[1]);
}

/* The pipeline was made for the columns of that moment. */
static mr_status check_columns(const files *f, mr_error *err) {
    const params *p = f->params;
    bool same = !f->labels || f->labels->n_columns == p->n_described;
    for (int32_t i = 0; same && f->labels && i < p->n_described; i++) {
        same = same_type(&p->described[i].type, &f->labels->columns[i].type) &&
               strcmp(p->described[i].name, f->labels->columns[i].name) == 0;
    }
    if (same) {
        return MR_OK;
    }
    mr_fail(err, MR_E_PARAM, "%s has other columns than when the pipeline was read",
            p->list[0] ? p->list : p->labels);
    mr_hint(err, "read the pipeline again");
    return MR_E_PARAM;
}

static void make_fingerprint(files *f) {
    uint64_t low = 1, high = 2;
    for (int64_t i = 0; i < f->n; i++) {
        const char *name = name_of(f, i);
        uint64_t label = (uint64_t)row_of(f, i);
        if (f->labels) {
            label = mr_labels_hash(f->labels, row_of(f, i), 3);
        }
        low = mr_hash64(name, strlen(name), low ^ label);
        high = mr_hash64(name, strlen(name), high + label);
        const char *path = path_of(f, i), *version = path + mr_far_bare(path);
        if (*version) {
            low = mr_hash64(version, strlen(version), low);
            high = mr_hash64(version, strlen(version), high);
        }
    }
    if (f->labels) {
        low = mr_labels_hash_classes(f->labels, low);
        high = mr_labels_hash_classes(f->labels, high);
    }
    f->fingerprint[0] = low;
    f->fingerprint[1] = high;
}

/* Paths of a column of files, to open. */
static mr_status name_column_files(files *f, mr_label_column *column, mr_error *err) {
    const char *table = f->params->list[0] ? f->params->list : f->params->labels;
    char *folder = column->beside ? mr_labels_folder(table) : strdup(f->root);
    if (!folder) {
        return mr_fail_memory(err, strlen(table));
    }
    mr_status status = MR_OK;
    for (int64_t row = 0; status == MR_OK && row < f->labels->n_rows; row++) {
        char *path = join_far(folder, column->texts[row]);
        status = path ? MR_OK : mr_fail_memory(err, strlen(column->texts[row]));
        if (path) {
            free(column->texts[row]);
            column->texts[row] = path;
        }
    }
    free(folder);
    return status == MR_OK ? pin_some(column->texts, f->labels->n_rows, err) : status;
}

/* Which of them are to be read. */
static mr_status find_columns_of_files(files *f, const mr_wanted *wanted, mr_error *err) {
    mr_status status = MR_OK;
    const size_t n = f->labels ? (size_t)f->labels->n_columns : 0;
    f->n_extents = 1;
    f->extents = mr_zalloc(n + 1, sizeof *f->extents);
    if (!f->extents) {
        return mr_fail_memory(err, n * sizeof *f->extents);
    }
    for (int32_t c = 0; status == MR_OK && f->labels && c < f->labels->n_columns; c++) {
        mr_label_column *column = &f->labels->columns[c];
        if (column->is_file && (!wanted->fields || wanted->fields[COLUMNS + c])) {
            f->extents[c] = f->n_extents++;
            status = name_column_files(f, column, err);
        }
    }
    return status;
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    files *f = mr_zalloc(1, sizeof *f);
    if (!f) {
        return mr_fail_memory(err, sizeof *f);
    }
    *state = f;
    f->params = p;
    f->limits = mr_far_limits_settle(NULL);
    f->folder = -1;
    f->listing.map.fd = -1;
    MR_TRY(f->params->list[0] ? open_list(f, err) : open_tree(f, wanted->log, err));
    if (f->n == 0) {
        return nothing_found(f, err);
    }
    MR_TRY(open_root(f, err));
    MR_TRY(check_columns(f, err));
    make_fingerprint(f);
    return find_columns_of_files(f, wanted, err);
}

static void close_(void *state) {
    files *f = state;
    if (f) {
        for (int64_t i = 0; i < f->n_classes; i++) {
            free(f->classes[i]);
        }
        free(f->classes);
        if (f->folder >= 0) {
            close(f->folder);
        }
        for (int64_t i = 0; f->objects && i < f->n; i++) {
            free(f->objects[i]);
        }
        mr_free(f->objects);
        mr_free(f->extents);
        free(f->kept);
        free(f->root);
        mr_free(f->rows);
        mr_listing_close(&f->listing);
        mr_labels_free(f->labels);
        mr_free(f);
    }
}

/* Names that are addresses have made f->objects; those of other columns are looked at here. */
static bool lies_on_servers(const files *f) {
    bool any = f->objects || mr_is_far(f->root);
    for (int32_t c = 0; !any && f->labels && c < f->labels->n_columns; c++) {
        for (int64_t i = 0; !any && f->extents[c] > 0 && i < f->n; i++) {
            any = mr_is_far(f->labels->columns[c].texts[row_of(f, i)]);
        }
    }
    return any;
}

static void shape(const void *state, mr_shape *out) {
    const files *f = state;
    out->samples = f->n;
    out->fingerprint[0] = f->fingerprint[0];
    out->fingerprint[1] = f->fingerprint[1];
    out->servers = lies_on_servers(f) ? MR_SERVERS_SOME : MR_SERVERS_NONE;
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const files *f = state;
    const char *name = name_of(f, sample), *root = is_absolute(name) ? "" : f->root;
    size_t length = strlen(root);
    snprintf(buffer, size, "%s%s%s", root, length > 0 && root[length - 1] != '/' ? "/" : "", name);
}

static mr_extent extent_of(const files *f, int64_t sample) {
    return (mr_extent){.path = path_of(f, sample),
                       .length = -1,
                       .limit = f->params->max_file_bytes,
                       .folder = f->folder + 1};
}

/* Of several extents each must say how long it is. */
static mr_status measure(const files *f, mr_extent *extent, mr_error *err) {
    mr_open_extent open;
    MR_TRY(mr_extent_open_within(extent, &f->limits, &open, err));
    extent->length = (int64_t)open.size;
    mr_extent_close(&open);
    return MR_OK;
}

static mr_status locate(const void *state, int64_t sample, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err) {
    const files *f = state;
    const int64_t limit = f->params->max_file_bytes;
    *n = f->n_extents;
    if (capacity < *n) {
        return MR_OK;
    }
    extents[0] = extent_of(f, sample);
    for (int32_t c = 0; f->labels && c < f->labels->n_columns; c++) {
        if (f->extents[c] > 0) {
            const char *path = f->labels->columns[c].texts[row_of(f, sample)];
            extents[f->extents[c]] = (mr_extent){.path = path, .length = -1, .limit = limit};
        }
    }
    for (int32_t i = 0; *n > 1 && i < *n; i++) {
        MR_TRY(measure(f, &extents[i], err));
    }
    return MR_OK;
}

/* A sample of several files cannot be stored: a store gives back the first field alone. */
static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    const files *f = state;
    const mr_extent extent = extent_of(f, sample);
    return f->n_extents == 1 && mr_extent_identity(&extent, out);
}

/* Of the file itself; one that is not there is empty until it is asked for. */
static mr_status lengths(const void *state, int32_t field, int64_t first, int64_t count,
                         int64_t *out, mr_error *err) {
    const files *f = state;
    if (field != 0) {
        return MR_E_UNSUPPORTED;
    }
    for (int64_t i = 0; i < count; i++) {
        const mr_extent extent = extent_of(f, first + i);
        errno = 0;
        int64_t size = mr_extent_file_size(&extent);
        int sys = size < 0 ? errno : 0;
        if (sys != 0 && sys != ENOENT && sys != ENOTDIR && sys != EACCES && sys != ELOOP) {
            return mr_fail_errno(err, MR_E_IO, sys, "cannot look up the size of %s", extent.path);
        }
        out[i] = size > 0 ? size : 0;
    }
    return MR_OK;
}

static void point_at(mr_view *field, const void *bytes, size_t size) {
    if (mr_is_wanted(field)) {
        field->data = (void *)(uintptr_t)bytes;
        field->size = size;
        field->type.dims[0] = (int64_t)size;
    }
}

static void put_number(const mr_view *field, int64_t number) {
    if (mr_is_wanted(field)) {
        memcpy(field->data, &number, sizeof number);
    }
}

static void fill_columns(const files *f, const mr_block *block, int64_t row, mr_view *fields) {
    for (int32_t c = 0; c < f->labels->n_columns; c++) {
        const mr_label_column *column = &f->labels->columns[c];
        if (!mr_is_wanted(&fields[c])) {
            continue;
        }
        if (!column->is_file) {
            mr_labels_fill(column, row, &fields[c]);
        } else if (block && f->extents[c] > 0) {
            point_at(&fields[c], block->bytes[f->extents[c]].data,
                     block->bytes[f->extents[c]].size);
        } else {
            point_at(&fields[c], NULL, 0);
        }
    }
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const files *f = state;
    const char *path = name_of(f, sample);
    const mr_bytes none = {NULL, 0}, *file = block ? block->bytes : &none;
    const int32_t n = f->params->n_described;
    (void)err;
    point_at(&fields[IMAGE], file->data, file->size);
    if (f->labels) {
        fill_columns(f, block, row_of(f, sample), &fields[COLUMNS]);
    } else {
        put_number(&fields[COLUMNS], row_of(f, sample));
    }
    point_at(&fields[COLUMNS + n], path, strlen(path));
    put_number(&fields[COLUMNS + n + 1], sample);
    return MR_OK;
}

static const char *class_name(const void *state, int32_t field, int64_t i) {
    const files *f = state;
    char **classes = field == COLUMNS && !f->labels ? f->classes : NULL;
    int64_t n = f->n_classes;
    if (f->labels && field >= COLUMNS && field < COLUMNS + f->labels->n_columns) {
        classes = f->labels->columns[field - COLUMNS].classes;
        n = f->labels->columns[field - COLUMNS].n_classes;
    }
    return classes && i >= 0 && i < n ? classes[i] : NULL;
}

extern const mr_source_class mr_source_files;
const mr_source_class mr_source_files = {
    MR_SOURCE_HEADER,
    .name = "files",
    .summary =
        "One sample per file: a folder of class folders, a folder with a table of labels, or a "
        "list of paths and labels.",
    .doc =
        "Fields: image (the file's bytes), label (int64), or the list's label or the table's "
        "columns; "
        "on request path (the name below the "
        "folder, or as listed) and index (int64). Samples are in the bytewise order of their "
        "paths, or in the list's. Links are followed, loops are not; names that start with a dot "
        "are left out, and so are files beside class folders (said aloud). A folder that cannot be "
        "read is an error; a file that cannot be read is a bad sample.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .forget = forget,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .sample_name = sample_name,
    .locate = locate,
    .fill = fill,
    .identify = identify,
    .lengths = lengths,
    .class_name = class_name,
    .also = "image_folder folder directory image_dataset",
};
