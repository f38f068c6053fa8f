/* SPDX-License-Identifier: Apache-2.0 */
/* labels_classes.c - see labels_classes.h. */
#include "sources/labels_classes.h"

#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "sources/classes.h"

/* The line of the first row that has this class. */
static int64_t line_of(const mr_labels *l, const mr_label_column *c, int64_t class) {
    int64_t row = 0;
    for (int64_t i = 0; i < c->starts[l->n_rows]; i++) {
        while (i >= c->starts[row + 1]) {
            row++;
        }
        if (c->whole[i] == class) {
            break;
        }
    }
    return l->lines[row];
}

static mr_status no_class(const mr_label_sheet *s, const mr_labels *l, const mr_label_column *c,
                          int64_t class, const mr_classes *classes, mr_error *err) {
    char what[256], hint[256], name[96];
    mr_text_escape(name, sizeof name, c->classes[class]);
    snprintf(what, sizeof what, "has \"%s\" for %.60s, which is none of the %lld classes given",
             name, c->name, (long long)classes->n);
    mr_classes_hint(classes, c->classes[class], "correct the line", hint, sizeof hint);
    return mr_label_sheet_fail(s, line_of(l, c, class), what, hint, err);
}

static mr_status number(const mr_label_sheet *s, const mr_labels *l, mr_label_column *c,
                        mr_classes *classes, int64_t *numbers, mr_error *err) {
    for (int64_t i = 0; i < c->n_classes; i++) {
        numbers[i] = mr_classes_number(classes, c->classes[i]);
        if (numbers[i] < 0) {
            return no_class(s, l, c, i, classes, err);
        }
    }
    for (int64_t i = 0; i < c->starts[l->n_rows]; i++) {
        c->whole[i] = numbers[c->whole[i]];
    }
    mr_classes_swap(classes, &c->classes, &c->n_classes);
    return MR_OK;
}

static mr_status number_column(const mr_label_sheet *s, const mr_labels *l, mr_label_column *c,
                               const char *param, mr_error *err) {
    mr_classes classes;
    int64_t *numbers = mr_zalloc((size_t)c->n_classes + 1, sizeof *numbers);
    mr_status status = numbers ? mr_classes_load(&classes, param, c->name, err)
                               : mr_fail_memory(err, (size_t)c->n_classes * sizeof *numbers);
    if (numbers) {
        status =
            status == MR_OK && classes.given ? number(s, l, c, &classes, numbers, err) : status;
        mr_classes_free(&classes);
    }
    mr_free(numbers);
    return status;
}

/* A list of classes that names no field is that of the only column that has any. */
static mr_status check_list(const mr_label_sheet *s, const char *const *names, int32_t n,
                            const char *param, mr_error *err) {
    char what[256];
    bool is_list = false;
    MR_TRY(mr_classes_name_no_field(param, &is_list, err));
    if (!is_list || n == 1) {
        return MR_OK;
    }
    if (n > 1) {
        snprintf(what, sizeof what, "has several columns of names, %.60s and %.60s for instance",
                 names[0], names[1]);
        return mr_label_sheet_fail(s, 1, what, "give `classes` by column: {\"label\": [\"cat\"]}",
                                   err);
    }
    return mr_label_sheet_fail(s, 1, "has no column of names, which `classes` could number",
                               "leave `classes` out: numbers are taken as they are", err);
}

/* Classes of a column that is not there, or has no names, would be left out without a word. */
static mr_status check_columns(const mr_label_sheet *s, const char *const *names, int32_t n,
                               const char *param, mr_error *err) {
    char *stranger = NULL, what[160], shown[96];
    MR_TRY(mr_classes_stranger(param, names, n, &stranger, err));
    if (!stranger) {
        return MR_OK;
    }
    snprintf(what, sizeof what, "has no column \"%s\" of names",
             mr_text_escape(shown, sizeof shown, stranger));
    free(stranger);
    return mr_label_sheet_fail(s, 1, what, "`classes` names classes by columns of names", err);
}

mr_status mr_labels_number_classes(const mr_label_sheet *s, mr_labels *l, const char *classes,
                                   mr_error *err) {
    const char **names = mr_zalloc((size_t)l->n_columns + 1, sizeof *names);
    int32_t n = 0;
    if (!names) {
        return mr_fail_memory(err, (size_t)l->n_columns * sizeof *names);
    }
    for (int32_t i = 0; i < l->n_columns; i++) {
        if (l->columns[i].classes) {
            names[n++] = l->columns[i].name;
        }
    }
    mr_status status = check_list(s, names, n, classes, err);
    status = status == MR_OK ? check_columns(s, names, n, classes, err) : status;
    mr_free(names);
    MR_TRY(status);
    for (int32_t i = 0; i < l->n_columns; i++) {
        if (l->columns[i].classes) {
            MR_TRY(number_column(s, l, &l->columns[i], classes, err));
        }
    }
    return MR_OK;
}
