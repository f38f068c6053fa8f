/* SPDX-License-Identifier: Apache-2.0 */
/* labels_survey.c - see labels_survey.h. */
#include "sources/labels_survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "io/far.h"
#include "io/file.h"

static mr_value_kind kind_of(const char *text, size_t length, bool is_text) {
    return is_text                           ? MR_VALUE_NAME
           : mr_text_is_whole(text, length)  ? MR_VALUE_WHOLE
           : mr_text_is_number(text, length) ? MR_VALUE_NUMBER
                                             : MR_VALUE_NAME;
}

/* JSON quotes names; where all that is quoted are numbers, somebody's program quoted these. */
static void unquote_numbers(mr_label_sheet *s, int32_t column) {
    bool numbers = true;
    for (int64_t row = 0; numbers && row < s->n_rows; row++) {
        const mr_label_cell *c = &s->cells[row * s->n_columns + column];
        const char *at = c->text, *part = NULL;
        size_t length = 0;
        while (numbers && c->is_text && (part = mr_label_cell_next(c, &at, &length)) != NULL) {
            numbers = mr_text_is_number(part, length);
        }
    }
    for (int64_t row = 0; numbers && row < s->n_rows; row++) {
        s->cells[row * s->n_columns + column].is_text = false;
    }
}

static mr_status mixture(const mr_label_sheet *s, const mr_survey *v, int32_t column, int64_t row,
                         const char *part, size_t length, mr_error *err) {
    char what[320], shown[96], text[64];
    snprintf(text, sizeof text, "%.*s", (int)(length < 60 ? length : 60), part);
    mr_text_escape(shown, sizeof shown, text);
    snprintf(what, sizeof what, "has \"%s\" for %.60s, where line %lld has a %s", shown,
             s->headers[column], (long long)v->first_line,
             v->kind == MR_VALUE_NAME ? "name" : "number");
    return mr_label_sheet_fail(
        s, s->lines[row], what,
        "a column has numbers only, or names only: correct the line, or quote nothing "
        "and name all",
        err);
}

static mr_status nested(const mr_label_sheet *s, int32_t column, int64_t row, mr_error *err) {
    char what[160];
    snprintf(what, sizeof what, "has lists or objects inside %.60s, which are no labels",
             s->headers[column]);
    return mr_label_sheet_fail(
        s, s->lines[row], what,
        "lists of numbers that are equally long are taken, boxes as [[left, top, "
        "right, bottom], ...]; name the columns that are wanted with `columns`",
        err);
}

/* Boxes have four numbers in every row; an image without any has an empty list. */
static mr_status survey_width(const mr_label_sheet *s, int32_t column, int64_t row, int64_t n,
                              mr_survey *v, mr_error *err) {
    const mr_label_cell *c = &s->cells[row * s->n_columns + column];
    char what[240];
    if (n == 0) {
        return MR_OK;
    }
    if (v->width_line == 0) {
        v->width = c->width;
        v->width_line = s->lines[row];
    }
    if (v->width == c->width) {
        return MR_OK;
    }
    const char *shapes[] = {"lists", "numbers or names"};
    snprintf(what, sizeof what, "has %s of another length or kind inside %.60s than line %lld, %s",
             shapes[c->width == 0], s->headers[column], (long long)v->width_line,
             v->width ? "which has lists" : "which has no lists");
    return mr_label_sheet_fail(s, s->lines[row], what, "give all rows lists that are equally long",
                               err);
}

/* An ending of a few letters or digits. */
static bool looks_like_file(const char *text) {
    const char *slash = strrchr(text, '/'), *base = slash ? slash + 1 : text;
    const char *dot = strrchr(base, '.');
    size_t length = dot ? strlen(dot + 1) : 0;
    return dot > base && length > 0 && length <= 8 &&
           strspn(dot + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") ==
               length;
}

static mr_status survey_cell(const mr_label_sheet *s, int32_t column, int64_t row,
                             const mr_strings *extensions, mr_survey *v, mr_error *err) {
    const mr_label_cell *c = &s->cells[row * s->n_columns + column];
    const char *at = c->text, *part = NULL;
    size_t length = 0;
    int64_t n = 0;
    char what[128];
    if (c->text[0] == '\0' && c->split == '\0' && !c->is_nested) {
        snprintf(what, sizeof what, "has no %.80s", s->headers[column]);
        return mr_label_sheet_fail(s, s->lines[row], what,
                                   "give each file a value, or choose other columns with `columns`",
                                   err);
    }
    if (c->is_nested) {
        return nested(s, column, row, err);
    }
    for (; (part = mr_label_cell_next(c, &at, &length)) != NULL; n++) {
        mr_value_kind k = kind_of(part, length, c->is_text);
        if (v->any && (k == MR_VALUE_NAME) != (v->kind == MR_VALUE_NAME)) {
            return mixture(s, v, column, row, part, length, err);
        }
        v->first_line = v->any ? v->first_line : s->lines[row];
        v->kind = v->any && v->kind != MR_VALUE_WHOLE ? v->kind : k;
        v->any = true;
    }
    v->split = v->split || c->split;
    v->files = v->files && extensions->n > 0 && !c->split && mr_has_ending(extensions, c->text);
    v->ended = v->ended && !c->split && looks_like_file(c->text);
    v->slashed = v->slashed && !c->split && strchr(c->text, '/');
    v->parts += n;
    v->least = n < v->least ? n : v->least;
    v->most = n > v->most ? n : v->most;
    return survey_width(s, column, row, n, v, err);
}

/* ---- Files that cells name ---- */
char *mr_labels_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("");
}

static mr_status look_up(const char *folder, const char *text, bool *is_there, mr_error *err) {
    const bool is_whole_path = text[0] == '/' || mr_is_far(text);
    size_t n = strlen(folder);
    char *path = NULL;
    mr_error ignored = MR_ERROR_INIT;
    if (asprintf(&path, "%s%s%s", is_whole_path ? "" : folder,
                 !is_whole_path && n > 0 && folder[n - 1] != '/' ? "/" : "", text) < 0) {
        return mr_fail_memory(err, n + strlen(text));
    }
    mr_status status = mr_is_far(path) ? mr_far_pin_names(&path, 1, NULL, &ignored) : MR_OK;
    *is_there = status == MR_OK &&
                (mr_is_far(path) || mr_extent_file_size(&(mr_extent){.path = path}) >= 0);
    free(path);
    return status == MR_E_MEMORY ? mr_fail_memory(err, n + strlen(text)) : MR_OK;
}

static mr_status look_for_part(const mr_labels_origin *from, const char *folder, const char *part,
                               size_t length, mr_survey *v, mr_error *err) {
    char name[4096];
    bool below = false, beside = false;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 0), part);
    if (!looks_like_file(name) && !strchr(name, '/')) {
        return MR_OK;
    }
    MR_TRY(from->root[0] ? look_up(from->root, name, &below, err) : MR_OK);
    MR_TRY(below ? MR_OK : look_up(folder, name, &beside, err));
    v->is_found = below || beside;
    v->beside = beside;
    return MR_OK;
}

static mr_status look_for_cell(const mr_label_sheet *s, int32_t column, int64_t row,
                               const mr_labels_origin *from, const char *folder, mr_survey *v,
                               mr_error *err) {
    const mr_label_cell *c = &s->cells[row * s->n_columns + column];
    const char *at = c->text, *part = NULL;
    size_t length = 0;
    v->found_line = s->lines[row];
    while (!v->is_found && (part = mr_label_cell_next(c, &at, &length)) != NULL) {
        MR_TRY(look_for_part(from, folder, part, length, v, err));
    }
    return MR_OK;
}

/* Looks for a file that a cell of the column names, among the first ones; on a server, of the first
 * one alone. */
static mr_status look_for_files(const mr_label_sheet *s, int32_t column,
                                const mr_labels_origin *from, mr_survey *v, mr_error *err) {
    enum { LOOK_AT = 1000 };
    if (!from->root || v->kind != MR_VALUE_NAME) {
        return MR_OK;
    }
    char *folder = mr_labels_folder(from->path);
    const int64_t most = mr_is_far(from->root) ? 1 : LOOK_AT;
    if (!folder) {
        return mr_fail_memory(err, strlen(from->path));
    }
    mr_status status = MR_OK;
    for (int64_t row = 0; status == MR_OK && !v->is_found && row < s->n_rows && row < most; row++) {
        status = look_for_cell(s, column, row, from, folder, v, err);
    }
    free(folder);
    return status;
}

/* Classes of names of files are nothing that anybody wants. */
static mr_status refuse_files(const mr_label_sheet *s, int32_t column, const mr_survey *v,
                              mr_error *err) {
    char what[200];
    snprintf(what, sizeof what, "names a file for %.60s, but %s", s->headers[column],
             v->split ? "several for one sample" : "other lines have something else there");
    return mr_label_sheet_fail(
        s, v->found_line, what,
        v->split ? "give each of them a column of its own"
                 : "a column has names of files in every row, or in none: give each "
                   "row one, or leave the column out with `columns`",
        err);
}

bool mr_survey_is_files(const mr_survey *v) {
    return v->kind == MR_VALUE_NAME && !v->split && v->any &&
           (v->files || (v->is_found && (v->ended || v->slashed)));
}

static bool is_once(const mr_label_sheet *s, int32_t column) {
    for (int64_t row = 1; row < s->n_rows && row < 100; row++) {
        const char *text = s->cells[row * s->n_columns + column].text;
        for (int64_t other = 0; other < row; other++) {
            if (strcmp(text, s->cells[other * s->n_columns + column].text) == 0) {
                return false;
            }
        }
    }
    return s->n_rows > 1;
}

/* Words with an ending of letters, or with a folder, none of them twice: nobody's classes. */
static mr_status refuse_missing(const mr_label_sheet *s, int32_t column,
                                const mr_labels_origin *from, const mr_survey *v, mr_error *err) {
    const char *text = s->n_rows > 0 ? s->cells[column].text : "";
    const char *dot = v->ended ? strrchr(text, '.') : NULL;
    bool lettered = dot && strspn(dot + 1, "0123456789") < strlen(dot + 1);
    if (!from->root || v->kind != MR_VALUE_NAME || v->split || v->is_found ||
        !(lettered || v->slashed) || !is_once(s, column)) {
        return MR_OK;
    }
    char what[320], shown[128], root[96];
    mr_text_escape(shown, sizeof shown, text);
    mr_text_escape(root, sizeof root, from->root);
    snprintf(what, sizeof what, "names \"%.100s\" for %.60s, which is not below %s", shown,
             s->headers[column], root[0] ? root : "the current folder");
    return mr_label_sheet_fail(
        s, s->lines[0], what,
        "names of files are looked for below the folder, then beside the table; if "
        "they are classes, leave out slashes and endings; if they are not needed, "
        "choose others with `columns`",
        err);
}

mr_status mr_survey_column(mr_label_sheet *s, int32_t column, const mr_labels_origin *from,
                           mr_survey *v, mr_error *err) {
    *v = (mr_survey){.files = !from->is_list, .ended = true, .slashed = true, .least = INT64_MAX};
    unquote_numbers(s, column);
    for (int64_t row = 0; row < s->n_rows; row++) {
        MR_TRY(survey_cell(s, column, row, &from->extensions, v, err));
    }
    v->kind = v->width > 0 ? MR_VALUE_NUMBER : v->kind; /* whole by chance: boxes are float32 */
    MR_TRY(look_for_files(s, column, from, v, err));
    if (mr_survey_is_files(v)) {
        return MR_OK;
    }
    return v->is_found ? refuse_files(s, column, v, err) : refuse_missing(s, column, from, v, err);
}

mr_type mr_survey_type(const mr_survey *v) {
    mr_type type = {.dtype = v->kind == MR_VALUE_NUMBER ? MR_F32 : MR_I64};
    const int64_t width = v->width > 0 ? v->width : 1;
    if (v->split) {
        type.n_dims = v->width > 0 ? 2 : 1;
        type.dims[0] = v->least == v->most ? v->most / width : -1;
        type.dims[1] = v->width;
    }
    return type;
}
