/* SPDX-License-Identifier: Apache-2.0 */
/* labels.c - lists and tables of labels: rows by the names of files.
 *
 * First all cells are read as text (labels_sheet.h), then each column is given the type that all
 * its cells have (labels_survey.h) and becomes values (labels_column.h). */
#include "sources/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/letters.h"
#include "core/memory.h"
#include "io/far.h"
#include "io/file.h"
#include "sources/labels_choice.h"
#include "sources/labels_classes.h"
#include "sources/labels_column.h"
#include "sources/sorted.h"

/* "./photos//0.jpg" is photos/0.jpg; not of addresses, whose slashes are theirs. */
static void tidy_name(char *name) {
    char *to = name;
    const char *from = name;
    if (mr_is_far(name)) {
        return;
    }
    while (from[0] == '.' && from[1] == '/') {
        from += 2 + strspn(from + 2, "/");
    }
    for (; *from; from++) {
        bool again = *from == '/' && from[1] == '/';
        bool here = *from == '/' && from[1] == '.' && from[2] == '/';
        from += here;
        if (!again && !here) {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static mr_status take_names(mr_label_sheet *s, int32_t column, mr_labels *l, mr_error *err) {
    l->names = mr_zalloc((size_t)s->n_rows + 1, sizeof *l->names);
    snprintf(l->key, sizeof l->key, "%s", s->headers[column]);
    if (!l->names) {
        return mr_fail_memory(err, (size_t)s->n_rows * sizeof *l->names);
    }
    for (int64_t row = 0; row < s->n_rows; row++) {
        mr_label_cell *c = &s->cells[row * s->n_columns + column];
        if (!c->text || !c->text[0]) {
            return mr_label_sheet_fail(
                s, s->lines[row], "names no file",
                "the column of the files' names is called file_name, filename, file, "
                "path or image, or is the first that names files",
                err);
        }
        l->names[row] = c->text;
        c->text = NULL;
        tidy_name(l->names[row]);
    }
    l->lines = s->lines;
    s->lines = NULL;
    return MR_OK;
}

/* What nobody chose need not be of one kind. */
static mr_status keep_unread(mr_label_sheet *s, int32_t column, const mr_labels_origin *from,
                             mr_labels *l, mr_error *err) {
    mr_error ignored = MR_ERROR_INIT;
    mr_survey v;
    mr_status status = mr_survey_column(s, column, from, &v, &ignored);
    if (status < 0 || !mr_survey_is_files(&v)) {
        return status == MR_E_MEMORY ? mr_fail_memory(err, 64) : MR_OK;
    }
    mr_label_column *grown = realloc(l->unread, (size_t)(l->n_unread + 1) * sizeof *grown);
    if (!grown) {
        return mr_fail_memory(err, sizeof *grown);
    }
    l->unread = grown;
    grown[l->n_unread] = (mr_label_column){.beside = v.beside};
    return mr_label_column_keep_texts(s, column, v.beside, &grown[l->n_unread++], err);
}

static mr_status take_column(mr_label_sheet *s, int32_t column, mr_label_use use,
                             const mr_labels_origin *from, mr_labels *l, mr_error *err) {
    switch (use) {
    case MR_USE_FIELD:
        return mr_label_column_make(s, column, from, &l->columns[l->n_columns++], err);
    case MR_USE_UNREAD:
        return keep_unread(s, column, from, l, err);
    default:
        return MR_OK;
    }
}

/* The names last: until then they are cells like others. */
static mr_status take_columns(mr_label_sheet *s, const mr_label_use *uses,
                              const mr_labels_origin *from, mr_labels *l, mr_error *err) {
    const size_t n = (size_t)mr_labels_count_uses(s, uses, MR_USE_FIELD);
    int32_t names = 0;
    l->columns = mr_zalloc(n + 1, sizeof *l->columns);
    if (!l->columns) {
        return mr_fail_memory(err, n * sizeof *l->columns);
    }
    for (int32_t i = 0; i < s->n_columns; i++) {
        names = uses[i] == MR_USE_NAMES ? i : names;
        MR_TRY(take_column(s, i, uses[i], from, l, err));
    }
    return s->n_columns > 0 ? take_names(s, names, l, err) : MR_OK;
}

static mr_status make_columns(mr_label_sheet *s, const mr_labels_origin *from, mr_labels *l,
                              mr_error *err) {
    mr_label_use *uses = mr_zalloc((size_t)s->n_columns + 1, sizeof *uses);
    if (!uses) {
        return mr_fail_memory(err, (size_t)s->n_columns * sizeof *uses);
    }
    l->n_rows = s->n_rows; /* from here on freed with the rest */
    mr_status status = mr_labels_choose(s, from, uses, err);
    status = status == MR_OK ? take_columns(s, uses, from, l, err) : status;
    mr_free(uses);
    return status;
}

static mr_status sort_names(mr_labels *l, const char *path, mr_error *err) {
    mr_sorted sorted;
    mr_status status = MR_OK;
    MR_TRY(mr_sorted_make(&sorted, (const char *const *)l->names, l->n_rows, err));
    l->by_name = mr_zalloc((size_t)l->n_rows + 1, sizeof *l->by_name);
    for (int64_t i = 0; l->by_name && i < l->n_rows; i++) {
        l->by_name[i] = sorted.v[i].place;
    }
    const mr_sorted_name *twin = mr_sorted_twin(&sorted);
    if (!l->by_name) {
        status = mr_fail_memory(err, (size_t)l->n_rows * sizeof *l->by_name);
    } else if (twin) {
        const mr_label_sheet s = {.path = path};
        status = mr_label_sheet_fail(&s, l->lines[twin->place],
                                     "names a file that a line above names too",
                                     "a file has one row", err);
    }
    mr_sorted_free(&sorted);
    return status;
}

/* ---- Public ---- */
mr_status mr_labels_parse(mr_labels **out, const mr_labels_origin *from, char *text,
                          mr_error *err) {
    mr_label_sheet s = {.path = from->path};
    mr_labels *l = mr_zalloc(1, sizeof *l);
    if (!l) {
        return mr_fail_memory(err, sizeof *l);
    }
    mr_status status = mr_label_sheet_read(&s, from, text, err);
    if (status == MR_OK) {
        status = make_columns(&s, from, l, err);
    }
    if (status == MR_OK && !from->is_list) {
        status = sort_names(l, from->path, err);
    }
    if (status == MR_OK && l->n_rows > 0) {
        status = mr_labels_number_classes(&s, l, from->classes, err);
    }
    mr_label_sheet_free(&s);
    if (status == MR_OK) {
        *out = l;
    } else {
        mr_labels_free(l);
    }
    return status;
}

mr_status mr_labels_load(mr_labels **out, const mr_labels_origin *from, mr_error *err) {
    char *text = NULL;
    size_t size = 0;
    MR_TRY(mr_file_load(from->path, (size_t)1 << 34, &text, &size, err));
    const size_t length = strlen(text);
    mr_status status = length == size
                           ? mr_labels_parse(out, from, text, err)
                           : mr_fail(err, MR_E_PARAM, "the list has a zero byte at %zu", length);
    if (length < size) {
        mr_hint(err, "save it as text in UTF-8");
    }
    mr_free(text);
    return status;
}

int64_t mr_labels_find_exactly(const mr_labels *l, const char *name) {
    int64_t low = 0, high = l->n_rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(l->names[l->by_name[middle]], name);
        if (order == 0) {
            return l->by_name[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return -1;
}

int64_t mr_labels_find(const mr_labels *l, const char *name) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    char stem[4096];
    int64_t row = mr_labels_find_exactly(l, name);
    row = row < 0 ? mr_labels_find_exactly(l, base) : row;
    for (int i = 0; row < 0 && dot && i < 2; i++) {
        const char *from = i == 0 ? name : base;
        if ((size_t)(dot - from) < sizeof stem) {
            memcpy(stem, from, (size_t)(dot - from));
            stem[dot - from] = '\0';
            row = mr_labels_find_exactly(l, stem);
        }
    }
    return row;
}

static const void *values_of(const mr_label_column *c, int64_t row, size_t *size) {
    int64_t start = c->starts[row], n = c->starts[row + 1] - start;
    *size = (size_t)n * (c->numbers ? sizeof *c->numbers : sizeof *c->whole);
    return c->numbers ? (const void *)&c->numbers[start] : (const void *)&c->whole[start];
}

void mr_labels_fill(const mr_label_column *c, int64_t row, mr_view *out) {
    size_t size = 0;
    const void *values = values_of(c, row, &size);
    if (out->data) {
        memcpy(out->data, values, size);
        return;
    }
    out->data = (void *)(uintptr_t)values;
    out->size = size;
    out->type.dims[0] =
        (c->starts[row + 1] - c->starts[row]) / (c->type.n_dims == 2 ? c->type.dims[1] : 1);
}

uint64_t mr_labels_hash(const mr_labels *l, int64_t row, uint64_t seed) {
    for (int32_t i = 0; i < l->n_columns; i++) {
        const mr_label_column *c = &l->columns[i];
        size_t size = c->is_file ? strlen(c->texts[row]) : 0;
        const void *values = c->is_file ? c->texts[row] : values_of(c, row, &size);
        seed = mr_hash64(values, size, seed);
    }
    return seed;
}

uint64_t mr_labels_hash_classes(const mr_labels *l, uint64_t seed) {
    for (int32_t i = 0; i < l->n_columns; i++) {
        const mr_label_column *c = &l->columns[i];
        for (int64_t k = 0; c->classes && k < c->n_classes; k++) {
            seed = mr_hash64(c->classes[k], strlen(c->classes[k]) + 1, seed);
        }
    }
    return seed;
}

static void free_texts(char **texts, int64_t n) {
    for (int64_t i = 0; texts && i < n; i++) {
        free(texts[i]);
    }
    mr_free(texts);
}

static void free_column(mr_label_column *c, int64_t n_rows) {
    mr_free(c->starts);
    mr_free(c->whole);
    mr_free(c->numbers);
    free_texts(c->texts, n_rows);
    free_texts(c->classes, c->n_classes);
}

void mr_labels_free(mr_labels *l) {
    if (!l) {
        return;
    }
    for (int32_t i = 0; i < l->n_columns; i++) {
        free_column(&l->columns[i], l->n_rows);
    }
    for (int32_t i = 0; i < l->n_unread; i++) {
        free_column(&l->unread[i], l->n_rows);
    }
    mr_free(l->columns);
    free(l->unread);
    free_texts(l->names, l->n_rows);
    free(l->lines);
    mr_free(l->by_name);
    mr_free(l);
}

bool mr_has_ending(const mr_strings *endings, const char *path) {
    for (int32_t i = 0; i < endings->n; i++) {
        if (mr_ends_in_letters(path, endings->v[i])) {
            return true;
        }
    }
    return endings->n == 0;
}
