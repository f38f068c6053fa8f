/* SPDX-License-Identifier: Apache-2.0 */
/* labels_text.c - lists, CSV and TSV to sheets. */
#include "sources/labels_sheet.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/letters.h"

/* ---- A list ---- */
static mr_status read_list_line(mr_label_sheet *s, char *line, int64_t number, mr_error *err) {
    const char *hint = "write a path, a tab and a label on each line";
    char *separator = strrchr(line, '\t');
    separator = separator ? separator : strrchr(line, ' ');
    if (!separator || separator[1] == '\0') {
        return mr_label_sheet_fail(s, number, "has no label", hint, err);
    }
    if (separator == line) {
        return mr_label_sheet_fail(s, number, "has no path", hint, err);
    }
    MR_TRY(mr_label_sheet_add_row(s, number, err));
    mr_label_cell name = {.text = strndup(line, (size_t)(separator - line))};
    MR_TRY(mr_label_sheet_set_cell(s, 0, name, err));
    return mr_label_sheet_set_cell(
        s, 1, mr_label_cell_of_text(separator + 1, strlen(separator + 1)), err);
}

static mr_status read_list(mr_label_sheet *s, char *text, mr_error *err) {
    int64_t number = 0;
    MR_TRY(mr_label_sheet_set_headers(s, 2, err));
    s->headers[0] = strdup("file");
    s->headers[1] = strdup("label");
    if (!s->headers[0] || !s->headers[1]) {
        return mr_fail_memory(err, 8);
    }
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        number++;
        line[strcspn(line, "\r")] = '\0';
        if (line[0] != '\0') {
            MR_TRY(read_list_line(s, line, number, err));
        }
    }
    return MR_OK;
}

/* ---- CSV ---- */
/* The length of the mark that some programs begin text with. */
static size_t mark_of(const char *text) {
    return strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

static bool is_blank(char c, char separator) {
    return (c == ' ' || c == '\t') && c != separator;
}

/* Takes a cell off the text, quotes resolved in place; *at is left at what ends it. Blanks around a
 * cell are nobody's label: people write "cat, 3". */
static char *take_csv_cell(char **at, char separator, int64_t *line, size_t *length) {
    char *from = *at;
    while (is_blank(*from, separator)) {
        from++;
    }
    char *start = from, *to = from, *kept = from;
    bool quoted = *from == '"';
    from += quoted;
    while (*from && (quoted || (*from != separator && *from != '\n' && *from != '\r'))) {
        if (quoted && *from == '"' && from[1] != '"') {
            quoted = false;
            kept = to;
            from++;
            continue;
        }
        from += quoted && *from == '"'; /* the first of two */
        *line += *from == '\n';
        *to++ = *from++;
    }
    while (to > kept && is_blank(to[-1], separator)) {
        to--;
    }
    *length = (size_t)(to - start);
    *at = from;
    return start;
}

/* As many cells as the first line may have: one more than separators, also where these are text. */
static mr_status count_headers(const mr_label_sheet *s, const char *at, char separator, int32_t *n,
                               mr_error *err) {
    enum { LIMIT = 1 << 20 };
    int64_t found = 1;
    for (; *at && *at != '\n' && found <= LIMIT; at++) {
        found += *at == separator;
    }
    *n = (int32_t)found;
    return found <= LIMIT
               ? MR_OK
               : mr_label_sheet_fail(s, 1, "has more than a million columns",
                                     "a table begins with a line of its columns' names", err);
}

static mr_status read_csv_header(mr_label_sheet *s, char **at, char separator, int64_t *line,
                                 mr_error *err) {
    int32_t n = 0;
    MR_TRY(count_headers(s, *at, separator, &n, err));
    MR_TRY(mr_label_sheet_set_headers(s, n, err));
    s->n_columns = 0; /* a separator within quotes was counted too */
    do {
        size_t length = 0;
        *at += s->n_columns > 0;
        const char *text = take_csv_cell(at, separator, line, &length);
        s->headers[s->n_columns] = strndup(text, length);
        if (!s->headers[s->n_columns++]) {
            return mr_fail_memory(err, length);
        }
    } while (**at == separator && s->n_columns < n);
    return MR_OK;
}

static mr_status read_csv_row(mr_label_sheet *s, char **at, char separator, int64_t *line,
                              mr_error *err) {
    const int64_t number = *line;
    int32_t column = 0;
    MR_TRY(mr_label_sheet_add_row(s, number, err));
    for (;; ++*at) {
        size_t length = 0;
        const char *text = take_csv_cell(at, separator, line, &length);
        if (column < s->n_columns) {
            MR_TRY(mr_label_sheet_set_cell(s, column, mr_label_cell_of_text(text, length), err));
        }
        column++;
        if (**at != separator) {
            break;
        }
    }
    return column == s->n_columns
               ? MR_OK
               : mr_label_sheet_fail(s, number, "has another number of columns than the header",
                                     "text that has the separator in it goes between double quotes",
                                     err);
}

/* As programs write it where commas are part of numbers. */
static mr_status check_separator(const mr_label_sheet *s, mr_error *err) {
    char what[192], shown[96];
    if (s->n_columns != 1 || !strchr(s->headers[0], ';')) {
        return MR_OK;
    }
    snprintf(what, sizeof what, "calls the only column \"%s\"",
             mr_text_escape(shown, sizeof shown, s->headers[0]));
    return mr_label_sheet_fail(s, 1, what,
                               "columns are separated by commas, or by tabs in a file whose name "
                               "ends in .tsv, and not by semicolons",
                               err);
}

static void skip_line_end(char **at, int64_t *line) {
    *at += **at == '\r';
    *line += **at == '\n';
    *at += **at == '\n';
}

static mr_status read_csv(mr_label_sheet *s, char *text, char separator, mr_error *err) {
    int64_t line = 1;
    text += mark_of(text);
    MR_TRY(read_csv_header(s, &text, separator, &line, err));
    MR_TRY(check_separator(s, err));
    skip_line_end(&text, &line);
    while (*text) {
        if (*text != '\n' && *text != '\r') {
            MR_TRY(read_csv_row(s, &text, separator, &line, err));
        }
        if (*text == '\r' && text[1] != '\n') {
            text++;
            continue;
        }
        skip_line_end(&text, &line);
    }
    return MR_OK;
}

/* ---- Any of them ---- */
typedef enum sheet_format { CSV, TSV, JSON_LINES } sheet_format;

/* Of a list without lines the source says that no samples were found. */
static mr_status refuse_empty(const mr_label_sheet *s, const char *what, mr_error *err) {
    char path[256];
    mr_fail(err, MR_E_PARAM, "%s %s", mr_text_escape(path, sizeof path, s->path), what);
    mr_hint(err, "a table has a row for each file: file_name,label and below it 0.jpg,cat");
    return MR_E_PARAM;
}

static bool is_blank_text(const char *text) {
    text += mark_of(text);
    return text[strspn(text, " \t\r\n")] == '\0';
}

static sheet_format format_of(const char *path) {
    static const struct {
        const char *ending;
        sheet_format format;
    } known[] = {{".csv", CSV},
                 {".tsv", TSV},
                 {".jsonl", JSON_LINES},
                 {".ndjson", JSON_LINES},
                 {".json", JSON_LINES}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (mr_ends_in_letters(path, known[i].ending)) {
            return known[i].format;
        }
    }
    return CSV;
}

static mr_status read_table(mr_label_sheet *s, const char *path, char *text, mr_error *err) {
    switch (format_of(path)) {
    case JSON_LINES:
        return mr_label_sheet_read_json(s, text, err);
    case TSV:
        return read_csv(s, text, '\t', err);
    default:
        return read_csv(s, text, ',', err);
    }
}

mr_status mr_label_sheet_read(mr_label_sheet *s, const mr_labels_origin *from, char *text,
                              mr_error *err) {
    if (from->is_list) {
        return read_list(s, text, err);
    }
    if (is_blank_text(text)) {
        return refuse_empty(s, "is empty", err);
    }
    MR_TRY(read_table(s, from->path, text, err));
    return s->n_rows > 0 ? MR_OK : refuse_empty(s, "has no rows", err);
}
