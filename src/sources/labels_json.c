/* SPDX-License-Identifier: Apache-2.0 */
/* labels_json.c - JSON lines, or an array of objects, to sheets. */
#include "sources/labels_sheet.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/utf8.h"
#include "core/error.h"
#include "core/json.h"
#include "core/number.h"

static char *json_part(const json_t *value, bool *is_text) {
    char text[64];
    if (json_is_string(value)) {
        *is_text = true;
        return strdup(json_string_value(value));
    }
    if (json_is_real(value)) {
        mr_number_print(text, sizeof text, "%.17g", json_real_value(value));
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
        j->text[j->used] = MR_CELL_PART;
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

static bool json_cell(const json_t *value, mr_label_cell *out) {
    out->width = common_width(value);
    out->is_nested = out->width == 0 && is_nested(value);
    if (!json_is_array(value)) {
        out->text = value ? json_part(value, &out->is_text) : strdup("");
        return out->text != NULL;
    }
    joined j = {.text = strdup(""), .capacity = 1};
    bool added = j.text != NULL;
    out->split = MR_CELL_PART;
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

static mr_status json_headers(mr_label_sheet *s, json_t *object, mr_error *err) {
    const char *key = NULL;
    json_t *value = NULL;
    int32_t i = 0;
    MR_TRY(mr_label_sheet_set_headers(s, (int32_t)json_object_size(object), err));
    json_object_foreach(object, key, value) {
        s->headers[i] = strdup(key);
        if (!s->headers[i++]) {
            return mr_fail_memory(err, strlen(key));
        }
    }
    return MR_OK;
}

static mr_status json_row(mr_label_sheet *s, json_t *object, int64_t line, mr_error *err) {
    if (!json_is_object(object) || json_object_size(object) == 0) {
        return mr_label_sheet_fail(s, line, "is no JSON object",
                                   "write {\"file_name\": ..., \"label\": ...}", err);
    }
    if (!s->headers) {
        MR_TRY(json_headers(s, object, err));
    }
    MR_TRY(mr_label_sheet_add_row(s, line, err));
    for (int32_t i = 0; i < s->n_columns; i++) {
        mr_label_cell value = {0};
        if (!json_cell(json_object_get(object, s->headers[i]), &value)) {
            return mr_fail_memory(err, 64);
        }
        MR_TRY(mr_label_sheet_set_cell(s, i, value, err));
    }
    return MR_OK;
}

/* A whole file that is an array of objects. */
static mr_status read_json_array(mr_label_sheet *s, json_t *list, mr_error *err) {
    s->unit = "entry";
    for (size_t i = 0; i < json_array_size(list); i++) {
        MR_TRY(json_row(s, json_array_get(list, i), (int64_t)i + 1, err));
    }
    return MR_OK;
}

/* A document that reaches over several lines; *is_one: it is none, and lines are read. */
static mr_status read_json_whole(mr_label_sheet *s, const char *text, bool *is_one, mr_error *err) {
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
        status = mr_label_sheet_fail(
            s, 1, "begins one object with \"images\" in it, as COCO has it",
            "write a line for each file: {\"file_name\": ..., \"boxes\": [[left, "
            "top, right, bottom], ...]}",
            err);
    } else if (*is_one) {
        status = json_row(s, document, 1, err);
    }
    json_decref(document);
    return status;
}

/* JSON is UTF-8; what its reader says of a byte that is not is hard to understand. */
static mr_status check_encoding(mr_label_sheet *s, const char *text, mr_error *err) {
    const size_t size = strlen(text), at = mr_utf8_check((const uint8_t *)text, size);
    int64_t line = 1;
    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n';
    }
    return at == size ? MR_OK
                      : mr_label_sheet_fail(s, line, "is not UTF-8", "save the file as UTF-8", err);
}

mr_status mr_label_sheet_read_json(mr_label_sheet *s, char *text, mr_error *err) {
    int64_t number = 0;
    bool is_one = false;
    MR_TRY(check_encoding(s, text, err));
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
            return status == MR_E_MEMORY
                       ? mr_fail_memory(err, length)
                       : mr_label_sheet_fail(s, number, "is not JSON", problem.text, err);
        }
        status = json_row(s, object, number, err);
        json_decref(object);
        MR_TRY(status);
    }
    return MR_OK;
}
