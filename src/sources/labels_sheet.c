/* SPDX-License-Identifier: Apache-2.0 */
/* labels_sheet.c - see labels_sheet.h. */
#include "sources/labels_sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/utf8.h"
#include "core/error.h"
#include "core/number.h"

/* ---- Failing ---- */
mr_status mr_label_sheet_fail(const mr_label_sheet *s, int64_t line, const char *what,
                              const char *hint, mr_error *err) {
    char path[256];
    mr_text_escape(path, sizeof path, s->path);
    mr_fail(err, MR_E_PARAM, "%s %lld of %s %s", s->unit ? s->unit : "line", (long long)line, path,
            what);
    mr_hint(err, "%s", hint);
    return MR_E_PARAM;
}

mr_status mr_label_sheet_check_text(const mr_label_sheet *s, int64_t line, const char *text,
                                    size_t length, const char *of, mr_error *err) {
    char what[256], shown[128], part[64];
    if (mr_utf8_check((const uint8_t *)text, length) == length) {
        return MR_OK;
    }
    snprintf(part, sizeof part, "%.*s", (int)(length < 40 ? length : 40), text);
    mr_text_escape(shown, sizeof shown, part);
    snprintf(what, sizeof what, "%s \"%s\"%s%.60s, which is not UTF-8",
             of ? "has" : "calls a column", shown, of ? " for " : "", of ? of : "");
    return mr_label_sheet_fail(s, line, what,
                               "save the file as UTF-8: names of classes and fields are text", err);
}

void mr_label_sheet_free(mr_label_sheet *s) {
    for (int64_t i = 0; s->cells && i < s->n_rows * s->n_columns; i++) {
        free(s->cells[i].text);
    }
    for (int32_t i = 0; s->headers && i < s->n_columns; i++) {
        free(s->headers[i]);
    }
    free(s->cells);
    free(s->headers);
    free(s->lines);
}

/* ---- Sheets ---- */
mr_status mr_label_sheet_set_headers(mr_label_sheet *s, int32_t n, mr_error *err) {
    s->headers = calloc((size_t)n, sizeof *s->headers);
    s->n_columns = n;
    return s->headers ? MR_OK : mr_fail_memory(err, (size_t)n);
}

/* A new row of empty cells. */
mr_status mr_label_sheet_add_row(mr_label_sheet *s, int64_t line, mr_error *err) {
    const size_t width = (size_t)s->n_columns;
    const int64_t at_first = width < 256 ? 256 : 8; /* rows */
    if (s->n_rows == s->capacity) {
        int64_t capacity = s->capacity ? 2 * s->capacity : at_first;
        mr_label_cell *cells = realloc(s->cells, (size_t)capacity * width * sizeof *cells);
        s->cells = cells ? cells : s->cells;
        int64_t *lines = cells ? realloc(s->lines, (size_t)capacity * sizeof *lines) : NULL;
        s->lines = lines ? lines : s->lines;
        if (!lines) {
            return mr_fail_memory(err, (size_t)capacity * width * sizeof *cells);
        }
        s->capacity = capacity;
    }
    memset(&s->cells[s->n_rows * s->n_columns], 0, width * sizeof *s->cells);
    s->lines[s->n_rows++] = line;
    return MR_OK;
}

mr_status mr_label_sheet_set_cell(mr_label_sheet *s, int32_t column, mr_label_cell value,
                                  mr_error *err) {
    if (!value.text) {
        return mr_fail_memory(err, 64);
    }
    mr_label_cell *at = &s->cells[(s->n_rows - 1) * s->n_columns + column];
    free(at->text);
    *at = value;
    return MR_OK;
}

/* ---- Numbers ---- */
bool mr_text_is_whole(const char *text, size_t length) {
    size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
    return length > sign && strspn(text + sign, "0123456789") >= length - sign;
}

bool mr_text_is_number(const char *text, size_t length) {
    char copy[64], *end = NULL;
    if (length == 0 || length >= sizeof copy ||
        strspn(text, "0123456789+-.eEinfatyINFATY") < length) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    (void)mr_number_parse(copy, &end);
    return *end == '\0';
}

/* Whether all parts between separators are numbers, and there are several. */
static bool are_numbers(const char *text, char separator) {
    const char separators[] = {separator, '\0'};
    bool several = strchr(text, separator) != NULL;
    while (several) {
        size_t length = strcspn(text, separators);
        several = mr_text_is_number(text, length);
        if (text[length] == '\0') {
            break;
        }
        text += length + 1;
    }
    return several;
}

mr_label_cell mr_label_cell_of_text(const char *text, size_t length) {
    mr_label_cell out = {.text = strndup(text, length)};
    if (out.text) {
        bool commas = are_numbers(out.text, ','), spaces = are_numbers(out.text, ' ');
        const char split[] = {'\0', ' ', ','};
        out.split = split[commas ? 2 : spaces];
    }
    return out;
}

/* ---- Parts ---- */
const char *mr_label_cell_next(const mr_label_cell *c, const char **at, size_t *length) {
    const char *part = *at;
    if (!part || (c->split == MR_CELL_PART && c->text[0] == '\0')) {
        return NULL;
    }
    const char *end = c->split ? strchr(part, c->split) : NULL;
    *length = end ? (size_t)(end - part) : strlen(part);
    *at = end ? end + 1 : NULL;
    return part;
}
