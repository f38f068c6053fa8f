/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - see csv.h. RFC 4180, with \n or \r\n at the end of rows. */
#include "codecs/csv.h"

#include <string.h>

bool mr_text_line(mr_text *text, bool keep_empty, mr_text *line) {
    while (text->at < text->end) {
        const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
        line->at = text->at;
        line->end = newline ? newline : text->end;
        text->at = newline ? newline + 1 : text->end;
        if (line->end > line->at && line->end[-1] == '\r') {
            line->end--;
        }
        if (keep_empty || line->end > line->at) {
            return true;
        }
    }
    return false;
}

/* Stands at the end of a row, or of the text. */
static bool at_end(const mr_text *text) {
    size_t left = (size_t)(text->end - text->at);
    return left == 0 || text->at[0] == '\n' ||
           (text->at[0] == '\r' && (left == 1 || text->at[1] == '\n'));
}

static void skip_end(mr_text *text) {
    text->at += text->at < text->end && *text->at == '\r';
    text->at += text->at < text->end && *text->at == '\n';
}

static void skip_plain(mr_text *text, char delimiter) {
    while (text->at < text->end && *text->at != delimiter && !at_end(text)) {
        text->at++;
    }
}

/* After the opening quote. */
static void take_quoted(mr_text *text, mr_cell *cell) {
    cell->is_quoted = true;
    cell->data = text->at;
    for (;;) {
        const char *quote = memchr(text->at, '"', (size_t)(text->end - text->at));
        if (!quote) {
            cell->size = (size_t)(text->end - cell->data);
            cell->is_bad = true;
            text->at = text->end;
            return;
        }
        text->at = quote + 1;
        if (text->at == text->end || *text->at != '"') {
            cell->size = (size_t)(quote - cell->data);
            return;
        }
        cell->has_quotes = true;
        text->at++;
    }
}

bool mr_csv_cell(mr_text *text, char delimiter, mr_cell *cell) {
    *cell = (mr_cell){.data = text->at};
    if (text->at < text->end && *text->at == '"') {
        text->at++;
        take_quoted(text, cell);
        const char *closed = text->at;
        skip_plain(text, delimiter);
        cell->is_bad = cell->is_bad || text->at > closed;
    } else {
        skip_plain(text, delimiter);
        cell->size = (size_t)(text->at - cell->data);
    }
    if (text->at < text->end && *text->at == delimiter) {
        text->at++;
        return false;
    }
    skip_end(text);
    return true;
}

bool mr_csv_row(mr_text *text, char delimiter, mr_text *row, bool *is_bad) {
    mr_cell cell;
    bool is_last = false;
    *is_bad = false;
    while (text->at < text->end && at_end(text)) {
        skip_end(text);
    }
    if (text->at == text->end) {
        return false;
    }
    row->at = text->at;
    while (!is_last) {
        is_last = mr_csv_cell(text, delimiter, &cell);
        *is_bad = *is_bad || cell.is_bad;
    }
    row->end = text->at;
    return true;
}

size_t mr_cell_copy(const mr_cell *cell, char *out) {
    size_t n = 0;
    if (!cell->has_quotes) {
        memcpy(out, cell->data, cell->size);
        return cell->size;
    }
    for (size_t i = 0; i < cell->size; i++) {
        out[n++] = cell->data[i];
        i += cell->data[i] == '"';
    }
    return n;
}
