/* SPDX-License-Identifier: Apache-2.0 */
/* labels_choice.c - see labels_choice.h. Names are looked up in sorted ones: a table may have as
 * many columns as a sample has fields. */
#include "sources/labels_choice.h"

#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/letters.h"
#include "core/memory.h"

/* ---- The files' names ---- */
/* What pandas writes before the rows, unless it is told not to. */
static bool is_index(const char *header) {
    return header[0] == '\0' || strncmp(header, "Unnamed: ", 9) == 0;
}

static bool all_end_so(const mr_label_sheet *s, int32_t column, const mr_strings *extensions) {
    bool all = s->n_rows > 0 && extensions->n > 0;
    for (int64_t row = 0; all && row < s->n_rows; row++) {
        all = mr_has_ending(extensions, s->cells[row * s->n_columns + column].text);
    }
    return all;
}

/* By its header, else the first that names such files, else the first. */
static int32_t name_column(const mr_label_sheet *s, const mr_strings *extensions) {
    static const char *const known[] = {"file_name", "filename",   "file",       "path",
                                        "image",     "file_path",  "filepath",   "image_path",
                                        "img_path",  "image_file", "image_name", "img",
                                        "img_name",  "img_file",   "fname"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        for (int32_t i = 0; i < s->n_columns; i++) {
            if (mr_same_word(s->headers[i], known[k])) {
                return i;
            }
        }
    }
    int32_t first = 0;
    while (first < s->n_columns - 1 && is_index(s->headers[first])) {
        first++;
    }
    for (int32_t i = first; i < s->n_columns; i++) {
        if (all_end_so(s, i, extensions)) {
            return i;
        }
    }
    return first;
}

/* ---- Sorted names ---- */
typedef struct sorted {
    const char **v;
    int32_t n;
} sorted;

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mr_status sort(sorted *out, const char *const *names, int32_t n, mr_error *err) {
    out->v = mr_zalloc((size_t)n + 1, sizeof *out->v);
    out->n = n;
    if (!out->v) {
        return mr_fail_memory(err, (size_t)n * sizeof *out->v);
    }
    for (int32_t i = 0; i < n; i++) {
        out->v[i] = names[i];
    }
    qsort(out->v, (size_t)n, sizeof *out->v, compare_texts);
    return MR_OK;
}

static bool has(const sorted *names, const char *name) {
    return bsearch(&name, names->v, (size_t)names->n, sizeof *names->v, compare_texts) != NULL;
}

/* ---- Fields ---- */
static bool is_taken(const char *name) {
    return !name[0] || strlen(name) >= MR_LABEL_NAME || strcmp(name, "image") == 0 ||
           strcmp(name, "path") == 0 || strcmp(name, "index") == 0;
}

static mr_status check_name(const mr_label_sheet *s, const char *name, mr_error *err) {
    char what[192];
    MR_TRY(mr_label_sheet_check_text(s, 1, name, strlen(name), NULL, err));
    if (!is_taken(name)) {
        return MR_OK;
    }
    snprintf(what, sizeof what, "calls a column \"%.60s\", which cannot be a field's name", name);
    return mr_label_sheet_fail(s, 1, what, "call it otherwise, or choose others with `columns`",
                               err);
}

static mr_status check_number(const mr_label_sheet *s, int32_t n, mr_error *err) {
    char what[128];
    if (n <= MR_LABEL_COLUMNS) {
        return MR_OK;
    }
    snprintf(what, sizeof what, "has %d columns beside the files' names, more than %d", n,
             (int)MR_LABEL_COLUMNS);
    return mr_label_sheet_fail(s, 1, what, "choose some with `columns`", err);
}

static mr_status refuse_twins(const mr_label_sheet *s, const sorted *names, mr_error *err) {
    char what[192];
    for (int32_t i = 1; i < names->n; i++) {
        if (strcmp(names->v[i - 1], names->v[i]) == 0) {
            snprintf(what, sizeof what, "calls two columns \"%.60s\"", names->v[i]);
            return mr_label_sheet_fail(s, 1, what, "call one of them otherwise", err);
        }
    }
    return MR_OK;
}

static mr_status check_fields(const mr_label_sheet *s, const mr_label_use *uses, mr_error *err) {
    const int32_t n = mr_labels_count_uses(s, uses, MR_USE_FIELD);
    sorted names = {mr_zalloc((size_t)n + 1, sizeof *names.v), 0};
    mr_status status =
        names.v ? check_number(s, n, err) : mr_fail_memory(err, (size_t)n * sizeof *names.v);
    for (int32_t i = 0; status == MR_OK && i < s->n_columns; i++) {
        if (uses[i] == MR_USE_FIELD) {
            names.v[names.n++] = s->headers[i];
            status = check_name(s, s->headers[i], err);
        }
    }
    if (status == MR_OK) {
        qsort(names.v, (size_t)names.n, sizeof *names.v, compare_texts);
        status = refuse_twins(s, &names, err);
    }
    mr_free(names.v);
    return status;
}

/* Names in `columns` that the table does not have would be left out without a word. */
static mr_status check_wanted(const mr_label_sheet *s, const sorted *wanted, mr_error *err) {
    sorted headers = {NULL, 0};
    char shown[64], what[128];
    MR_TRY(sort(&headers, (const char *const *)s->headers, s->n_columns, err));
    int32_t i = 0;
    while (i < wanted->n && has(&headers, wanted->v[i])) {
        i++;
    }
    mr_free(headers.v);
    if (i == wanted->n) {
        return MR_OK;
    }
    mr_text_escape(shown, sizeof shown, wanted->v[i]);
    snprintf(what, sizeof what, "has no column \"%s\"", shown);
    return mr_label_sheet_fail(s, 1, what, "`columns` names columns of the table", err);
}

static void choose(const mr_label_sheet *s, int32_t names, const sorted *wanted,
                   mr_label_use *uses) {
    for (int32_t i = 0; i < s->n_columns; i++) {
        bool left_out = wanted->n == 0 && is_index(s->headers[i]);
        bool is_field = wanted->n == 0 || has(wanted, s->headers[i]);
        uses[i] = i == names ? MR_USE_NAMES
                  : left_out ? MR_USE_NONE
                  : is_field ? MR_USE_FIELD
                             : MR_USE_UNREAD;
    }
}

/* ---- Public ---- */
int32_t mr_labels_count_uses(const mr_label_sheet *s, const mr_label_use *uses, mr_label_use use) {
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_columns; i++) {
        n += uses[i] == use;
    }
    return n;
}

mr_status mr_labels_choose(const mr_label_sheet *s, const mr_labels_origin *from,
                           mr_label_use *uses, mr_error *err) {
    sorted wanted = {NULL, 0};
    if (s->n_columns == 0) {
        return MR_OK;
    }
    MR_TRY(sort(&wanted, from->columns.v, from->is_list ? 0 : from->columns.n, err));
    mr_status status = check_wanted(s, &wanted, err);
    if (status == MR_OK) {
        choose(s, from->is_list ? 0 : name_column(s, &from->extensions), &wanted, uses);
        status = check_fields(s, uses, err);
    }
    mr_free(wanted.v);
    return status;
}
