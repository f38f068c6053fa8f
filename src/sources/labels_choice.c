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
#include "sources/sorted.h"

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

static mr_status refuse_twins(const mr_label_sheet *s, const char *const *names, int32_t n,
                              mr_error *err) {
    char what[192];
    mr_sorted sorted;
    MR_TRY(mr_sorted_make(&sorted, names, n, err));
    const mr_sorted_name *twin = mr_sorted_twin(&sorted);
    if (twin) {
        snprintf(what, sizeof what, "calls two columns \"%.60s\"", twin->name);
    }
    mr_sorted_free(&sorted);
    return twin ? mr_label_sheet_fail(s, 1, what, "call one of them otherwise", err) : MR_OK;
}

static mr_status check_fields(const mr_label_sheet *s, const mr_label_use *uses, mr_error *err) {
    const int32_t n = mr_labels_count_uses(s, uses, MR_USE_FIELD);
    const char **names = mr_zalloc((size_t)n + 1, sizeof *names);
    mr_status status =
        names ? check_number(s, n, err) : mr_fail_memory(err, (size_t)n * sizeof *names);
    for (int32_t i = 0, k = 0; status == MR_OK && i < s->n_columns; i++) {
        if (uses[i] == MR_USE_FIELD) {
            names[k++] = s->headers[i];
            status = check_name(s, s->headers[i], err);
        }
    }
    status = status == MR_OK ? refuse_twins(s, names, n, err) : status;
    mr_free(names);
    return status;
}

/* Names in `columns` that the table does not have would be left out without a word. */
static mr_status check_wanted(const mr_label_sheet *s, const mr_sorted *wanted, mr_error *err) {
    mr_sorted headers;
    char shown[64], what[128];
    MR_TRY(mr_sorted_make(&headers, (const char *const *)s->headers, s->n_columns, err));
    int64_t i = 0;
    while (i < wanted->n && mr_sorted_find(&headers, wanted->v[i].name) >= 0) {
        i++;
    }
    mr_sorted_free(&headers);
    if (i == wanted->n) {
        return MR_OK;
    }
    mr_text_escape(shown, sizeof shown, wanted->v[i].name);
    snprintf(what, sizeof what, "has no column \"%s\"", shown);
    return mr_label_sheet_fail(s, 1, what, "`columns` names columns of the table", err);
}

static void choose(const mr_label_sheet *s, int32_t names, const mr_sorted *wanted,
                   mr_label_use *uses) {
    for (int32_t i = 0; i < s->n_columns; i++) {
        bool left_out = wanted->n == 0 && is_index(s->headers[i]);
        bool is_field = wanted->n == 0 || mr_sorted_find(wanted, s->headers[i]) >= 0;
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
    mr_sorted wanted;
    if (s->n_columns == 0) {
        return MR_OK;
    }
    MR_TRY(mr_sorted_make(&wanted, from->columns.v, from->is_list ? 0 : from->columns.n, err));
    mr_status status = check_wanted(s, &wanted, err);
    if (status == MR_OK) {
        choose(s, from->is_list ? 0 : name_column(s, &from->extensions), &wanted, uses);
        status = check_fields(s, uses, err);
    }
    mr_sorted_free(&wanted);
    return status;
}
