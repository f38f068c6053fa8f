/* SPDX-License-Identifier: Apache-2.0 */
/* labels.c - reads lists and tables of labels.
 *
 * First all cells are read as text, then each column is given the type that all its cells have: a
 * type that only most of them have would give the others a meaning nobody wrote. */
#include "sources/labels.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "io/far.h"
#include "io/file.h"

enum { PART = 0x1F }; /* between the parts of a JSON array */

typedef struct cell {
    char *text;
    bool is_text;   /* JSON says so: "7" is a name there */
    bool is_nested; /* JSON has lists or objects in it, which no label has, but for: */
    int64_t width;  /* lists of so many numbers each, one behind the other; 0: no lists */
    char split;     /* what separates its parts; 0: it has one */
} cell;

/* All cells, row by row. */
typedef struct sheet {
    const char *path;
    const char *unit; /* what `lines` counts; NULL: lines */
    char **headers;
    int32_t n_columns;
    cell *cells;
    int64_t *lines;
    int64_t n_rows, capacity;
} sheet;

/* ---- Failing ---- */
static mr_status fail_line(const sheet *s, int64_t line, const char *what, const char *hint,
                           mr_error *err) {
    char path[256];
    mr_text_escape(path, sizeof path, s->path);
    mr_fail(err, MR_E_PARAM, "%s %lld of %s %s", s->unit ? s->unit : "line", (long long)line, path,
            what);
    mr_hint(err, "%s", hint);
    return MR_E_PARAM;
}

static void free_sheet(sheet *s) {
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
static mr_status set_headers(sheet *s, int32_t n, mr_error *err) {
    s->headers = calloc((size_t)n, sizeof *s->headers);
    s->n_columns = n;
    return s->headers ? MR_OK : mr_fail_memory(err, (size_t)n);
}

/* A new row of empty cells. */
static mr_status add_row(sheet *s, int64_t line, mr_error *err) {
    size_t width = (size_t)s->n_columns;
    if (s->n_rows == s->capacity) {
        int64_t capacity = s->capacity ? 2 * s->capacity : 256;
        cell *cells = realloc(s->cells, (size_t)capacity * width * sizeof *cells);
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

static mr_status set_cell(sheet *s, int32_t column, cell value, mr_error *err) {
    if (!value.text) {
        return mr_fail_memory(err, 64);
    }
    cell *at = &s->cells[(s->n_rows - 1) * s->n_columns + column];
    free(at->text);
    *at = value;
    return MR_OK;
}

/* ---- Numbers ---- */
static bool is_whole(const char *text, size_t length) {
    size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
    return length > sign && strspn(text + sign, "0123456789") >= length - sign;
}

static bool is_number(const char *text, size_t length) {
    char copy[64], *end = NULL;
    if (length == 0 || length >= sizeof copy ||
        strspn(text, "0123456789+-.eEinfatyINFATY") < length) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    (void)strtod(copy, &end);
    return *end == '\0';
}

/* Whether all parts between separators are numbers, and there are several. */
static bool are_numbers(const char *text, char separator) {
    const char separators[] = {separator, '\0'};
    bool several = strchr(text, separator) != NULL;
    while (several) {
        size_t length = strcspn(text, separators);
        several = is_number(text, length);
        if (text[length] == '\0') {
            break;
        }
        text += length + 1;
    }
    return several;
}

static cell text_cell(const char *text, size_t length) {
    cell out = {.text = strndup(text, length)};
    if (out.text) {
        bool commas = are_numbers(out.text, ','), spaces = are_numbers(out.text, ' ');
        const char split[] = {'\0', ' ', ','};
        out.split = split[commas ? 2 : spaces];
    }
    return out;
}

/* ---- A list ---- */
static mr_status read_list_line(sheet *s, char *line, int64_t number, mr_error *err) {
    const char *hint = "write a path, a tab and a label on each line";
    char *separator = strrchr(line, '\t');
    separator = separator ? separator : strrchr(line, ' ');
    if (!separator || separator[1] == '\0') {
        return fail_line(s, number, "has no label", hint, err);
    }
    if (separator == line) {
        return fail_line(s, number, "has no path", hint, err);
    }
    MR_TRY(add_row(s, number, err));
    cell name = {.text = strndup(line, (size_t)(separator - line))};
    MR_TRY(set_cell(s, 0, name, err));
    return set_cell(s, 1, text_cell(separator + 1, strlen(separator + 1)), err);
}

static mr_status read_list(sheet *s, char *text, mr_error *err) {
    int64_t number = 0;
    MR_TRY(set_headers(s, 2, err));
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

static mr_status read_csv_header(sheet *s, char **at, char separator, int64_t *line,
                                 mr_error *err) {
    int32_t n = 1;
    for (const char *c = *at; *c && *c != '\n'; c++) {
        n += *c == separator;
    }
    MR_TRY(set_headers(s, n, err));
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

static mr_status read_csv_row(sheet *s, char **at, char separator, int64_t *line, mr_error *err) {
    const int64_t number = *line;
    int32_t column = 0;
    MR_TRY(add_row(s, number, err));
    for (;; ++*at) {
        size_t length = 0;
        const char *text = take_csv_cell(at, separator, line, &length);
        if (column < s->n_columns) {
            MR_TRY(set_cell(s, column, text_cell(text, length), err));
        }
        column++;
        if (**at != separator) {
            break;
        }
    }
    return column == s->n_columns
               ? MR_OK
               : fail_line(s, number, "has another number of columns than the header",
                           "text that has the separator in it goes between double quotes", err);
}

static void skip_line_end(char **at, int64_t *line) {
    *at += **at == '\r';
    *line += **at == '\n';
    *at += **at == '\n';
}

static mr_status read_csv(sheet *s, char *text, char separator, mr_error *err) {
    int64_t line = 1;
    text += strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* as some programs begin theirs */
    MR_TRY(read_csv_header(s, &text, separator, &line, err));
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

/* ---- JSON lines ---- */
static char *json_part(const json_t *value, bool *is_text) {
    char text[64];
    if (json_is_string(value)) {
        *is_text = true;
        return strdup(json_string_value(value));
    }
    if (json_is_real(value)) {
        snprintf(text, sizeof text, "%.17g%s", json_real_value(value), "");
        bool shows = strpbrk(text, ".eEn") != NULL;
        return strdup(shows ? text : strcat(text, ".0"));
    }
    snprintf(text, sizeof text, "%lld",
             json_is_integer(value) ? (long long)json_integer_value(value)
                                    : (long long)json_is_true(value));
    return json_is_integer(value) || json_is_boolean(value) ? strdup(text) : strdup("");
}

/* The length that all lists in a list of lists of numbers have, a box for instance; 0: it is none.
 */
static int64_t common_width(const json_t *value) {
    size_t width = json_array_size(json_array_get(value, 0));
    for (size_t i = 0; width > 0 && i < json_array_size(value); i++) {
        const json_t *row = json_array_get(value, i);
        width = json_array_size(row) == width ? width : 0;
        for (size_t k = 0; k < width; k++) {
            width = json_is_number(json_array_get(row, k)) ? width : 0;
        }
    }
    return (int64_t)width;
}

static bool is_nested(const json_t *value) {
    bool nested = json_is_object(value);
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *part = json_array_get(value, i);
        nested = nested || json_is_array(part) || json_is_object(part) || json_is_null(part);
    }
    return nested;
}

/* Parts one behind the other, separated. */
typedef struct joined {
    char *text;
    size_t used, capacity;
    int64_t n;
} joined;

static bool add_part(joined *j, const json_t *value, bool *is_text) {
    char *part = json_part(value, is_text);
    size_t length = part ? strlen(part) : 0;
    if (part && j->capacity < j->used + length + 2) {
        size_t capacity = 2 * j->capacity + length + 16;
        char *grown = realloc(j->text, capacity);
        j->text = grown ? grown : j->text;
        j->capacity = grown ? capacity : j->capacity;
    }
    bool fits = part && j->capacity >= j->used + length + 2;
    if (fits) {
        j->text[j->used] = PART;
        j->used += j->n++ > 0;
        memcpy(j->text + j->used, part, length + 1);
        j->used += length;
    }
    free(part);
    return fits;
}

static bool add_parts(joined *j, const json_t *list, bool *is_text) {
    bool added = true;
    for (size_t i = 0; added && i < json_array_size(list); i++) {
        added = add_part(j, json_array_get(list, i), is_text);
    }
    return added;
}

static bool json_cell(const json_t *value, cell *out) {
    out->width = common_width(value);
    out->is_nested = out->width == 0 && is_nested(value);
    if (!json_is_array(value)) {
        out->text = value ? json_part(value, &out->is_text) : strdup("");
        return out->text != NULL;
    }
    joined j = {.text = strdup(""), .capacity = 1};
    bool added = j.text != NULL;
    out->split = PART;
    for (size_t i = 0; added && out->width > 0 && i < json_array_size(value); i++) {
        added = add_parts(&j, json_array_get(value, i), &out->is_text);
    }
    if (out->width == 0) {
        added = added && add_parts(&j, value, &out->is_text);
    }
    if (!added) {
        free(j.text);
    }
    out->text = added ? j.text : NULL;
    return added;
}

static mr_status json_headers(sheet *s, json_t *object, mr_error *err) {
    const char *key = NULL;
    json_t *value = NULL;
    int32_t i = 0;
    MR_TRY(set_headers(s, (int32_t)json_object_size(object), err));
    json_object_foreach(object, key, value) {
        s->headers[i] = strdup(key);
        if (!s->headers[i++]) {
            return mr_fail_memory(err, strlen(key));
        }
    }
    return MR_OK;
}

static mr_status json_row(sheet *s, json_t *object, int64_t line, mr_error *err) {
    if (!json_is_object(object) || json_object_size(object) == 0) {
        return fail_line(s, line, "is no JSON object", "write {\"file_name\": ..., \"label\": ...}",
                         err);
    }
    if (!s->headers) {
        MR_TRY(json_headers(s, object, err));
    }
    MR_TRY(add_row(s, line, err));
    for (int32_t i = 0; i < s->n_columns; i++) {
        cell value = {0};
        if (!json_cell(json_object_get(object, s->headers[i]), &value)) {
            return mr_fail_memory(err, 64);
        }
        MR_TRY(set_cell(s, i, value, err));
    }
    return MR_OK;
}

/* A whole file that is an array of objects. */
static mr_status read_json_array(sheet *s, json_t *list, mr_error *err) {
    s->unit = "entry";
    for (size_t i = 0; i < json_array_size(list); i++) {
        MR_TRY(json_row(s, json_array_get(list, i), (int64_t)i + 1, err));
    }
    return MR_OK;
}

/* A document that reaches over several lines; *is_one: it is none, and lines are read. */
static mr_status read_json_whole(sheet *s, const char *text, bool *is_one, mr_error *err) {
    const char *first = text + strspn(text, " \t\r\n");
    json_error_t problem;
    json_t *document = NULL;
    *is_one = false;
    if (*first != '[' && *first != '{') {
        return MR_OK;
    }
    mr_status status = mr_json_load(&document, first, strlen(first), 0, &problem);
    if (status < 0) {
        return status == MR_E_MEMORY ? mr_fail_memory(err, strlen(first)) : MR_OK;
    }
    *is_one = json_is_array(document) || strchr(first, '\n') != NULL;
    if (json_is_array(document)) {
        status = read_json_array(s, document, err);
    } else if (*is_one && json_object_get(document, "images")) {
        status = fail_line(s, 1, "begins one object with \"images\" in it, as COCO has it",
                           "write a line for each file: {\"file_name\": ..., \"boxes\": [[left, "
                           "top, right, bottom], ...]}",
                           err);
    } else if (*is_one) {
        status = json_row(s, document, 1, err);
    }
    json_decref(document);
    return status;
}

static mr_status read_json_lines(sheet *s, char *text, mr_error *err) {
    int64_t number = 0;
    bool is_one = false;
    MR_TRY(read_json_whole(s, text, &is_one, err));
    if (is_one) {
        return MR_OK;
    }
    for (char *line = text, *next; line && *line; line = next) {
        json_error_t problem;
        json_t *object = NULL;
        next = strchr(line, '\n');
        size_t length = next ? (size_t)(next++ - line) : strlen(line);
        number++;
        if (strspn(line, " \t\r") >= length) {
            continue;
        }
        mr_status status = mr_json_load(&object, line, length, 0, &problem);
        if (status < 0) {
            return status == MR_E_MEMORY ? mr_fail_memory(err, length)
                                         : fail_line(s, number, "is not JSON", problem.text, err);
        }
        status = json_row(s, object, number, err);
        json_decref(object);
        MR_TRY(status);
    }
    return MR_OK;
}

/* ---- Types ---- */
typedef enum kind { WHOLE, NUMBER, NAME } kind;

static kind kind_of(const char *text, size_t length, bool is_text) {
    return is_text                   ? NAME
           : is_whole(text, length)  ? WHOLE
           : is_number(text, length) ? NUMBER
                                     : NAME;
}

/* The next part of a cell: *at moves behind it; NULL: there is none. */
static const char *next_part(const cell *c, const char **at, size_t *length) {
    const char *part = *at;
    if (!part || (c->split == PART && c->text[0] == '\0')) {
        return NULL;
    }
    const char *end = c->split ? strchr(part, c->split) : NULL;
    *length = end ? (size_t)(end - part) : strlen(part);
    *at = end ? end + 1 : NULL;
    return part;
}

/* JSON quotes names; where all that is quoted are numbers, somebody's program quoted these. */
static void unquote_numbers(sheet *s, int32_t column) {
    bool numbers = true;
    for (int64_t row = 0; numbers && row < s->n_rows; row++) {
        const cell *c = &s->cells[row * s->n_columns + column];
        const char *at = c->text, *part = NULL;
        size_t length = 0;
        while (numbers && c->is_text && (part = next_part(c, &at, &length)) != NULL) {
            numbers = is_number(part, length);
        }
    }
    for (int64_t row = 0; numbers && row < s->n_rows; row++) {
        s->cells[row * s->n_columns + column].is_text = false;
    }
}

/* What is known of a column after some of its cells. */
typedef struct survey {
    kind kind;
    bool any, split, files;
    bool ended;    /* all of them look like names of files */
    bool slashed;  /* all of them have folders before them */
    bool is_found; /* some of them are files */
    bool beside;   /* the first of these lies beside the table */
    int64_t first_line, parts, least, most, width, width_line, found_line;
} survey;

static mr_status mixture(const sheet *s, const survey *v, int32_t column, int64_t row,
                         const char *part, size_t length, mr_error *err) {
    char what[320], shown[96], text[64];
    snprintf(text, sizeof text, "%.*s", (int)(length < 60 ? length : 60), part);
    mr_text_escape(shown, sizeof shown, text);
    snprintf(what, sizeof what, "has \"%s\" for %.60s, where line %lld has a %s", shown,
             s->headers[column], (long long)v->first_line, v->kind == NAME ? "name" : "number");
    return fail_line(s, s->lines[row], what,
                     "a column has numbers only, or names only: correct the line, or quote nothing "
                     "and name all",
                     err);
}

static mr_status nested(const sheet *s, int32_t column, int64_t row, mr_error *err) {
    char what[160];
    snprintf(what, sizeof what, "has lists or objects inside %.60s, which are no labels",
             s->headers[column]);
    return fail_line(s, s->lines[row], what,
                     "lists of numbers that are equally long are taken, boxes as [[left, top, "
                     "right, bottom], ...]; name the columns that are wanted with `columns`",
                     err);
}

/* Boxes have four numbers in every row; an image without any has an empty list. */
static mr_status survey_width(const sheet *s, int32_t column, int64_t row, int64_t n, survey *v,
                              mr_error *err) {
    const cell *c = &s->cells[row * s->n_columns + column];
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
    return fail_line(s, s->lines[row], what, "give all rows lists that are equally long", err);
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

static mr_status survey_cell(const sheet *s, int32_t column, int64_t row,
                             const mr_strings *extensions, survey *v, mr_error *err) {
    const cell *c = &s->cells[row * s->n_columns + column];
    const char *at = c->text, *part = NULL;
    size_t length = 0;
    int64_t n = 0;
    char what[128];
    if (c->text[0] == '\0' && c->split == '\0' && !c->is_nested) {
        snprintf(what, sizeof what, "has no %.80s", s->headers[column]);
        return fail_line(s, s->lines[row], what,
                         "give each file a value, or choose other columns with `columns`", err);
    }
    if (c->is_nested) {
        return nested(s, column, row, err);
    }
    for (; (part = next_part(c, &at, &length)) != NULL; n++) {
        kind k = kind_of(part, length, c->is_text);
        if (v->any && (k == NAME) != (v->kind == NAME)) {
            return mixture(s, v, column, row, part, length, err);
        }
        v->first_line = v->any ? v->first_line : s->lines[row];
        v->kind = v->any && v->kind != WHOLE ? v->kind : k;
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
    mr_status status = mr_is_far(path) ? mr_far_pin_names(&path, 1, &ignored) : MR_OK;
    *is_there = status == MR_OK &&
                (mr_is_far(path) || mr_extent_file_size(&(mr_extent){.path = path}) >= 0);
    free(path);
    return status == MR_E_MEMORY ? mr_fail_memory(err, n + strlen(text)) : MR_OK;
}

static mr_status look_for_part(const mr_labels_origin *from, const char *folder, const char *part,
                               size_t length, survey *v, mr_error *err) {
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

static mr_status look_for_cell(const sheet *s, int32_t column, int64_t row,
                               const mr_labels_origin *from, const char *folder, survey *v,
                               mr_error *err) {
    const cell *c = &s->cells[row * s->n_columns + column];
    const char *at = c->text, *part = NULL;
    size_t length = 0;
    v->found_line = s->lines[row];
    while (!v->is_found && (part = next_part(c, &at, &length)) != NULL) {
        MR_TRY(look_for_part(from, folder, part, length, v, err));
    }
    return MR_OK;
}

/* Looks for a file that a cell of the column names, among the first ones; on a server, of the first
 * one alone. */
static mr_status look_for_files(const sheet *s, int32_t column, const mr_labels_origin *from,
                                survey *v, mr_error *err) {
    enum { LOOK_AT = 1000 };
    if (!from->root || v->kind != NAME) {
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
static mr_status refuse_files(const sheet *s, int32_t column, const survey *v, mr_error *err) {
    char what[200];
    snprintf(what, sizeof what, "names a file for %.60s, but %s", s->headers[column],
             v->split ? "several for one sample" : "other lines have something else there");
    return fail_line(s, v->found_line, what,
                     v->split ? "give each of them a column of its own"
                              : "a column has names of files in every row, or in none: give each "
                                "row one, or leave the column out with `columns`",
                     err);
}

static bool are_files(const survey *v) {
    return v->kind == NAME && !v->split && v->any &&
           (v->files || (v->is_found && (v->ended || v->slashed)));
}

static bool is_once(const sheet *s, int32_t column) {
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
static mr_status refuse_missing(const sheet *s, int32_t column, const mr_labels_origin *from,
                                const survey *v, mr_error *err) {
    const char *text = s->n_rows > 0 ? s->cells[column].text : "";
    const char *dot = v->ended ? strrchr(text, '.') : NULL;
    bool lettered = dot && strspn(dot + 1, "0123456789") < strlen(dot + 1);
    if (!from->root || v->kind != NAME || v->split || v->is_found || !(lettered || v->slashed) ||
        !is_once(s, column)) {
        return MR_OK;
    }
    char what[320], shown[128], root[96];
    mr_text_escape(shown, sizeof shown, text);
    mr_text_escape(root, sizeof root, from->root);
    snprintf(what, sizeof what, "names \"%.100s\" for %.60s, which is not below %s", shown,
             s->headers[column], root[0] ? root : "the current folder");
    return fail_line(s, s->lines[0], what,
                     "names of files are looked for below the folder, then beside the table; if "
                     "they are classes, leave out slashes and endings; if they are not needed, "
                     "choose others with `columns`",
                     err);
}

static mr_status survey_column(sheet *s, int32_t column, const mr_labels_origin *from, survey *v,
                               mr_error *err) {
    *v = (survey){.files = !from->is_list, .ended = true, .slashed = true, .least = INT64_MAX};
    unquote_numbers(s, column);
    for (int64_t row = 0; row < s->n_rows; row++) {
        MR_TRY(survey_cell(s, column, row, &from->extensions, v, err));
    }
    v->kind = v->width > 0 ? NUMBER : v->kind; /* whole by chance: boxes are float32 */
    MR_TRY(look_for_files(s, column, from, v, err));
    if (are_files(v)) {
        return MR_OK;
    }
    return v->is_found ? refuse_files(s, column, v, err) : refuse_missing(s, column, from, v, err);
}

static mr_type type_for(const survey *v) {
    mr_type type = {.dtype = v->kind == NUMBER ? MR_F32 : MR_I64};
    const int64_t width = v->width > 0 ? v->width : 1;
    if (v->split) {
        type.n_dims = v->width > 0 ? 2 : 1;
        type.dims[0] = v->least == v->most ? v->most / width : -1;
        type.dims[1] = v->width;
    }
    return type;
}

/* ---- Values ---- */
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

static mr_status collect_classes(const sheet *s, int32_t column, const survey *v,
                                 mr_label_column *out, mr_error *err) {
    out->classes = mr_zalloc((size_t)v->parts + 1, sizeof *out->classes);
    for (int64_t row = 0; out->classes && row < s->n_rows; row++) {
        const cell *c = &s->cells[row * s->n_columns + column];
        const char *at = c->text, *part = NULL;
        size_t length = 0;
        while ((part = next_part(c, &at, &length)) != NULL) {
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

static mr_status read_whole(const sheet *s, int64_t row, const char *part, int64_t *out,
                            mr_error *err) {
    errno = 0;
    *out = strtoll(part, NULL, 10);
    return errno == 0 ? MR_OK
                      : fail_line(s, s->lines[row], "has a label that does not fit into 64 bits",
                                  "give it a name, or a smaller number", err);
}

static mr_status set_value(const sheet *s, mr_label_column *c, int64_t row, int64_t at,
                           const char *part, size_t length, mr_error *err) {
    if (c->numbers) {
        c->numbers[at] = (float)strtod(part, NULL);
        return MR_OK;
    }
    return c->classes ? class_number(c, part, length, &c->whole[at], err)
                      : read_whole(s, row, part, &c->whole[at], err);
}

static mr_status set_values(const sheet *s, int32_t column, mr_label_column *out, mr_error *err) {
    int64_t used = 0;
    for (int64_t row = 0; row < s->n_rows; row++) {
        const cell *c = &s->cells[row * s->n_columns + column];
        const char *at = c->text, *part = NULL;
        size_t length = 0;
        out->starts[row] = used;
        while ((part = next_part(c, &at, &length)) != NULL) {
            MR_TRY(set_value(s, out, row, used++, part, length, err));
        }
    }
    out->starts[s->n_rows] = used;
    return MR_OK;
}

static mr_status keep_texts(sheet *s, int32_t column, bool beside, mr_label_column *out,
                            mr_error *err) {
    out->is_file = true;
    out->beside = beside;
    out->type = (mr_type){.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    out->texts = mr_zalloc((size_t)s->n_rows, sizeof *out->texts);
    if (!out->texts) {
        return mr_fail_memory(err, (size_t)s->n_rows * sizeof *out->texts);
    }
    for (int64_t row = 0; row < s->n_rows; row++) {
        cell *c = &s->cells[row * s->n_columns + column];
        out->texts[row] = c->text;
        c->text = NULL;
    }
    return MR_OK;
}

static mr_status make_column(sheet *s, int32_t column, const mr_labels_origin *from,
                             mr_label_column *out, mr_error *err) {
    survey v;
    snprintf(out->name, sizeof out->name, "%s", s->headers[column]);
    MR_TRY(survey_column(s, column, from, &v, err));
    if (are_files(&v)) {
        return keep_texts(s, column, v.beside, out, err);
    }
    out->type = type_for(&v);
    out->starts = mr_zalloc((size_t)s->n_rows + 1, sizeof *out->starts);
    if (v.kind == NUMBER) {
        out->numbers = mr_zalloc((size_t)v.parts + 1, sizeof *out->numbers);
    } else {
        out->whole = mr_zalloc((size_t)v.parts + 1, sizeof *out->whole);
    }
    if (!out->starts || (!out->numbers && !out->whole)) {
        return mr_fail_memory(err, (size_t)v.parts * sizeof *out->whole);
    }
    if (v.kind == NAME) {
        MR_TRY(collect_classes(s, column, &v, out, err));
    }
    return set_values(s, column, out, err);
}

/* ---- Tables ---- */
/* What pandas writes before the rows, unless it is told not to. */
static bool is_index(const char *header) {
    return header[0] == '\0' || strncmp(header, "Unnamed: ", 9) == 0;
}

static bool all_end_so(const sheet *s, int32_t column, const mr_strings *extensions) {
    bool all = s->n_rows > 0 && extensions->n > 0;
    for (int64_t row = 0; all && row < s->n_rows; row++) {
        all = mr_has_ending(extensions, s->cells[row * s->n_columns + column].text);
    }
    return all;
}

/* By its header, else the first that names such files, else the first. */
static int32_t name_column(const sheet *s, const mr_strings *extensions) {
    static const char *const known[] = {"file_name", "filename",   "file",       "path",
                                        "image",     "file_path",  "filepath",   "image_path",
                                        "img_path",  "image_file", "image_name", "img",
                                        "img_name",  "img_file",   "fname"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        for (int32_t i = 0; i < s->n_columns; i++) {
            if (strcasecmp(s->headers[i], known[k]) == 0) {
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

static bool is_wanted(const mr_strings *columns, const char *name) {
    for (int32_t i = 0; i < columns->n; i++) {
        if (strcmp(columns->v[i], name) == 0) {
            return true;
        }
    }
    return columns->n == 0;
}

static bool is_taken(const char *name) {
    return !name[0] || strlen(name) >= MR_LABEL_NAME || strcmp(name, "image") == 0 ||
           strcmp(name, "path") == 0 || strcmp(name, "index") == 0;
}

static mr_status check_header(const sheet *s, const mr_labels *l, const char *name, mr_error *err) {
    char what[192];
    for (int32_t i = 0; i < l->n_columns; i++) {
        if (strcmp(l->columns[i].name, name) == 0) {
            snprintf(what, sizeof what, "calls two columns \"%.60s\"", name);
            return fail_line(s, 1, what, "call one of them otherwise", err);
        }
    }
    if (l->n_columns == MR_LABEL_COLUMNS) {
        snprintf(what, sizeof what, "has more than %d columns beside the files' names",
                 (int)MR_LABEL_COLUMNS);
        return fail_line(s, 1, what, "choose some with `columns`", err);
    }
    if (is_taken(name)) {
        snprintf(what, sizeof what, "calls a column \"%.60s\", which cannot be a field's name",
                 name);
        return fail_line(s, 1, what, "call it otherwise, or choose others with `columns`", err);
    }
    return MR_OK;
}

/* Names in `columns` that the table does not have would be left out without a word. */
static mr_status check_wanted(const sheet *s, const mr_strings *columns, mr_error *err) {
    for (int32_t k = 0; k < columns->n; k++) {
        int32_t i = 0;
        while (i < s->n_columns && strcmp(s->headers[i], columns->v[k]) != 0) {
            i++;
        }
        if (i == s->n_columns) {
            char shown[64], what[128];
            mr_text_escape(shown, sizeof shown, columns->v[k]);
            snprintf(what, sizeof what, "has no column \"%s\"", shown);
            return fail_line(s, 1, what, "`columns` names columns of the table", err);
        }
    }
    return MR_OK;
}

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

static mr_status take_names(sheet *s, int32_t column, mr_labels *l, mr_error *err) {
    l->names = mr_zalloc((size_t)s->n_rows + 1, sizeof *l->names);
    snprintf(l->key, sizeof l->key, "%s", s->headers[column]);
    if (!l->names) {
        return mr_fail_memory(err, (size_t)s->n_rows * sizeof *l->names);
    }
    for (int64_t row = 0; row < s->n_rows; row++) {
        cell *c = &s->cells[row * s->n_columns + column];
        if (!c->text || !c->text[0]) {
            return fail_line(s, s->lines[row], "names no file",
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
static mr_status keep_unread(sheet *s, int32_t column, const mr_labels_origin *from, mr_labels *l,
                             mr_error *err) {
    mr_error ignored = MR_ERROR_INIT;
    survey v;
    mr_status status = survey_column(s, column, from, &v, &ignored);
    if (status < 0 || !are_files(&v)) {
        return status == MR_E_MEMORY ? mr_fail_memory(err, 64) : MR_OK;
    }
    mr_label_column *grown = realloc(l->unread, (size_t)(l->n_unread + 1) * sizeof *grown);
    if (!grown) {
        return mr_fail_memory(err, sizeof *grown);
    }
    l->unread = grown;
    grown[l->n_unread] = (mr_label_column){.beside = v.beside};
    return keep_texts(s, column, v.beside, &grown[l->n_unread++], err);
}

static mr_status make_columns(sheet *s, const mr_labels_origin *from, mr_labels *l, mr_error *err) {
    const bool is_list = from->is_list;
    l->n_rows = s->n_rows; /* from here on freed with the rest */
    int32_t names = is_list || s->n_columns == 0 ? 0 : name_column(s, &from->extensions);
    if (!is_list && s->n_columns > 0) {
        MR_TRY(check_wanted(s, &from->columns, err));
    }
    for (int32_t i = 0; i < s->n_columns; i++) {
        if (i == names || is_index(s->headers[i])) {
            continue;
        }
        if (!is_list && !is_wanted(&from->columns, s->headers[i])) {
            MR_TRY(keep_unread(s, i, from, l, err));
            continue;
        }
        MR_TRY(check_header(s, l, s->headers[i], err));
        MR_TRY(make_column(s, i, from, &l->columns[l->n_columns++], err));
    }
    return s->n_columns > 0 ? take_names(s, names, l, err) : MR_OK;
}

/* Rows and their names, to be sorted together. */
typedef struct named {
    const char *name;
    int64_t row;
} named;

static int compare_named(const void *a, const void *b) {
    const named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

static mr_status sort_names(mr_labels *l, const char *path, mr_error *err) {
    named *all = mr_zalloc((size_t)l->n_rows + 1, sizeof *all);
    l->by_name = mr_zalloc((size_t)l->n_rows + 1, sizeof *l->by_name);
    if (!all || !l->by_name) {
        mr_free(all);
        return mr_fail_memory(err, (size_t)l->n_rows * 24);
    }
    mr_status status = MR_OK;
    for (int64_t i = 0; i < l->n_rows; i++) {
        all[i] = (named){l->names[i], i};
    }
    qsort(all, (size_t)l->n_rows, sizeof *all, compare_named);
    for (int64_t i = 0; status == MR_OK && i < l->n_rows; i++) {
        l->by_name[i] = all[i].row;
        if (i > 0 && strcmp(all[i - 1].name, all[i].name) == 0) {
            const sheet s = {.path = path};
            status = fail_line(&s, l->lines[all[i].row], "names a file that a line above names too",
                               "a file has one row", err);
        }
    }
    mr_free(all);
    return status;
}

typedef enum sheet_format { LIST, CSV, TSV, JSON_LINES } sheet_format;

static sheet_format format_of(const char *path) {
    size_t length = strlen(path);
    static const struct {
        const char *ending;
        sheet_format format;
    } known[] = {{".csv", CSV},
                 {".tsv", TSV},
                 {".jsonl", JSON_LINES},
                 {".ndjson", JSON_LINES},
                 {".json", JSON_LINES}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t ending = strlen(known[i].ending);
        if (length >= ending && strcasecmp(path + length - ending, known[i].ending) == 0) {
            return known[i].format;
        }
    }
    return CSV;
}

static mr_status read_sheet(sheet *s, sheet_format format, char *text, mr_error *err) {
    switch (format) {
    case LIST:
        return read_list(s, text, err);
    case JSON_LINES:
        return read_json_lines(s, text, err);
    case TSV:
        return read_csv(s, text, '\t', err);
    default:
        return read_csv(s, text, ',', err);
    }
}

/* ---- Public ---- */
mr_status mr_labels_parse(mr_labels **out, const mr_labels_origin *from, char *text,
                          mr_error *err) {
    const sheet_format format = from->is_list ? LIST : format_of(from->path);
    sheet s = {.path = from->path};
    mr_labels *l = mr_zalloc(1, sizeof *l);
    if (!l) {
        return mr_fail_memory(err, sizeof *l);
    }
    mr_status status = read_sheet(&s, format, text, err);
    if (status == MR_OK) {
        status = make_columns(&s, from, l, err);
    }
    if (status == MR_OK && format != LIST) {
        status = sort_names(l, from->path, err);
    }
    free_sheet(&s);
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
    mr_status status =
        strlen(text) == size
            ? mr_labels_parse(out, from, text, err)
            : mr_fail(err, MR_E_PARAM, "the list has a zero byte at %zu", strlen(text));
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
    free(l->unread);
    free_texts(l->names, l->n_rows);
    free(l->lines);
    mr_free(l->by_name);
    mr_free(l);
}

bool mr_has_ending(const mr_strings *endings, const char *path) {
    size_t length = strlen(path);
    for (int32_t i = 0; i < endings->n; i++) {
        size_t ending = strlen(endings->v[i]);
        if (ending <= length && strcasecmp(path + length - ending, endings->v[i]) == 0) {
            return true;
        }
    }
    return endings->n == 0;
}
