/* SPDX-License-Identifier: Apache-2.0 */
/* labels_column.c - see labels_column.h. */
#include "sources/labels_column.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/number.h"

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int64_t unique(char **texts, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (kept > 0 && strcmp(texts[kept - 1], texts[i]) == 0) {
            free(texts[i]);
        } else {
            texts[kept++] = texts[i];
        }
    }
    return kept;
}

static mr_status collect_classes(const mr_label_sheet *s, int32_t column, const mr_survey *v,
                                 mr_label_column *out, mr_error *err) {
    out->classes = mr_zalloc((size_t)v->parts + 1, sizeof *out->classes);
    for (int64_t row = 0; out->classes && row < s->n_rows; row++) {
        const mr_label_cell *c = &s->cells[row * s->n_columns + column];
        const char *at = c->text, *part = NULL;
        size_t length = 0;
        while ((part = mr_label_cell_next(c, &at, &length)) != NULL) {
            MR_TRY(mr_label_sheet_check_text(s, s->lines[row], part, length, out->name, err));
            char *name = strndup(part, length);
            if (!name) {
                return mr_fail_memory(err, length);
            }
            out->classes[out->n_classes++] = name;
        }
    }
    if (!out->classes) {
        return mr_fail_memory(err, (size_t)v->parts * sizeof *out->classes);
    }
    qsort(out->classes, (size_t)out->n_classes, sizeof *out->classes, compare_texts);
    out->n_classes = unique(out->classes, out->n_classes);
    return MR_OK;
}

static mr_status class_number(const mr_label_column *c, const char *part, size_t length,
                              int64_t *out, mr_error *err) {
    char *name = strndup(part, length);
    if (!name) {
        return mr_fail_memory(err, length);
    }
    char **found = bsearch(&name, c->classes, (size_t)c->n_classes, sizeof name, compare_texts);
    *out = found - c->classes; /* it is there: all names were collected */
    free(name);
    return MR_OK;
}

static mr_status too_large(const mr_label_sheet *s, const mr_label_column *c, int64_t row,
                           const char *part, size_t length, const char *into, mr_error *err) {
    char what[200], shown[64], name[64];
    snprintf(shown, sizeof shown, "%.*s", (int)(length < 40 ? length : 40), part);
    mr_text_escape(name, sizeof name, c->name);
    snprintf(what, sizeof what, "has %s for %s, which does not fit into %s", shown, name, into);
    return mr_label_sheet_fail(s, s->lines[row], what,
                               "give it a name, or a smaller number; a column that is not needed "
                               "is left out by `columns`",
                               err);
}

static mr_status read_whole(const mr_label_sheet *s, const mr_label_column *c, int64_t row,
                            const char *part, size_t length, int64_t *out, mr_error *err) {
    errno = 0;
    *out = strtoll(part, NULL, 10);
    return errno == 0 ? MR_OK : too_large(s, c, row, part, length, "64 bits", err);
}

/* 1e400, or 1e39, which becomes infinite; "inf" is. */
static bool is_too_large(const char *part, double number) {
    return isinf((float)number) && !strchr("iI", part[strspn(part, "+-")]);
}

static mr_status read_number(const mr_label_sheet *s, const mr_label_column *c, int64_t row,
                             const char *part, size_t length, float *out, mr_error *err) {
    const double number = mr_number_parse(part, NULL);
    *out = (float)number;
    return is_too_large(part, number) ? too_large(s, c, row, part, length, "float32", err) : MR_OK;
}

static mr_status set_value(const mr_label_sheet *s, mr_label_column *c, int64_t row, int64_t at,
                           const char *part, size_t length, mr_error *err) {
    if (c->numbers) {
        return read_number(s, c, row, part, length, &c->numbers[at], err);
    }
    return c->classes ? class_number(c, part, length, &c->whole[at], err)
                      : read_whole(s, c, row, part, length, &c->whole[at], err);
}

static mr_status set_values(const mr_label_sheet *s, int32_t column, mr_label_column *out,
                            mr_error *err) {
    int64_t used = 0;
    for (int64_t row = 0; row < s->n_rows; row++) {
        const mr_label_cell *c = &s->cells[row * s->n_columns + column];
        const char *at = c->text, *part = NULL;
        size_t length = 0;
        out->starts[row] = used;
        while ((part = mr_label_cell_next(c, &at, &length)) != NULL) {
            MR_TRY(set_value(s, out, row, used++, part, length, err));
        }
    }
    out->starts[s->n_rows] = used;
    return MR_OK;
}

mr_status mr_label_column_keep_texts(mr_label_sheet *s, int32_t column, bool beside,
                                     mr_label_column *out, mr_error *err) {
    out->is_file = true;
    out->beside = beside;
    out->type = (mr_type){.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    out->texts = mr_zalloc((size_t)s->n_rows, sizeof *out->texts);
    if (!out->texts) {
        return mr_fail_memory(err, (size_t)s->n_rows * sizeof *out->texts);
    }
    for (int64_t row = 0; row < s->n_rows; row++) {
        mr_label_cell *c = &s->cells[row * s->n_columns + column];
        out->texts[row] = c->text;
        c->text = NULL;
    }
    return MR_OK;
}

mr_status mr_label_column_make(mr_label_sheet *s, int32_t column, const mr_labels_origin *from,
                               mr_label_column *out, mr_error *err) {
    mr_survey v;
    snprintf(out->name, sizeof out->name, "%s", s->headers[column]);
    MR_TRY(mr_survey_column(s, column, from, &v, err));
    if (mr_survey_is_files(&v)) {
        return mr_label_column_keep_texts(s, column, v.beside, out, err);
    }
    out->type = mr_survey_type(&v);
    out->starts = mr_zalloc((size_t)s->n_rows + 1, sizeof *out->starts);
    if (v.kind == MR_VALUE_NUMBER) {
        out->numbers = mr_zalloc((size_t)v.parts + 1, sizeof *out->numbers);
    } else {
        out->whole = mr_zalloc((size_t)v.parts + 1, sizeof *out->whole);
    }
    if (!out->starts || (!out->numbers && !out->whole)) {
        return mr_fail_memory(err, (size_t)v.parts * sizeof *out->whole);
    }
    if (v.kind == MR_VALUE_NAME) {
        MR_TRY(collect_classes(s, column, &v, out, err));
    }
    return set_values(s, column, out, err);
}
