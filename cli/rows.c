/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - parameter rows in words. */
#include "rows.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

static const char *const kind_names[] = {
    [MR_PARAM_INT] = "int",       [MR_PARAM_FLOAT] = "float",     [MR_PARAM_BOOL] = "bool",
    [MR_PARAM_CHOICE] = "choice", [MR_PARAM_STRING] = "string",   [MR_PARAM_INTS] = "ints",
    [MR_PARAM_FLOATS] = "floats", [MR_PARAM_STRINGS] = "strings", [MR_PARAM_BYTES] = "bytes",
};

static bool is_list(const mr_param *row) {
    return row->kind == MR_PARAM_INTS || row->kind == MR_PARAM_FLOATS ||
           row->kind == MR_PARAM_STRINGS;
}

static void list_text(const mr_param *row, char *buffer, size_t size) {
    const char *items = kind_names[row->kind];
    if (row->min_len == 0 && row->max_len == 0) {
        snprintf(buffer, size, "list of %s", items);
    } else if (row->min_len == row->max_len) {
        snprintf(buffer, size, "list of %d %s", row->min_len, items);
    } else {
        snprintf(buffer, size, "list of %d to %d %s", row->min_len, row->max_len, items);
    }
}

static void choice_text(const mr_param *row, char *buffer, size_t size) {
    snprintf(buffer, size, "one of");
    for (int32_t i = 0; row->choices && row->choices[i]; i++) {
        size_t used = strlen(buffer);
        snprintf(buffer + used, size - used, "%s %s", i ? "," : "", row->choices[i]);
    }
}

char *mr_row_kind(const mr_param *row, char *buffer, size_t size) {
    if (row->kind == MR_PARAM_CHOICE) {
        choice_text(row, buffer, size);
    } else if (is_list(row)) {
        list_text(row, buffer, size);
    } else {
        snprintf(buffer, size, "%s", kind_names[row->kind]);
    }
    return buffer;
}

/* Large bounds stand for "no bound": nobody reads 9.22337e+18. */
static bool bounded(double bound) {
    return bound > -1e15 && bound < 1e15;
}

char *mr_row_range(const mr_param *row, char *buffer, size_t size) {
    bool low = bounded(row->min), high = bounded(row->max);
    buffer[0] = '\0';
    if (row->min == 0 && row->max == 0) {
        return buffer;
    }
    if (low && high) {
        snprintf(buffer, size, "%.15g to %.15g", row->min, row->max);
    } else if (low) {
        snprintf(buffer, size, "at least %.15g", row->min);
    } else if (high) {
        snprintf(buffer, size, "at most %.15g", row->max);
    }
    return buffer;
}

static json_t *row_json(const mr_param *row) {
    char text[256];
    json_t *object = json_object();
    json_object_set_new(object, "name", mr_json_text(row->name));
    json_object_set_new(object, "kind", json_string(kind_names[row->kind]));
    json_object_set_new(object, "range", mr_json_text(mr_row_range(row, text, sizeof text)));
    json_object_set_new(object, "required", json_boolean(row->fallback == NULL));
    json_t *fallback = row->fallback ? json_loads(row->fallback, JSON_DECODE_ANY, NULL) : NULL;
    json_object_set_new(object, "default", fallback ? fallback : json_null());
    json_t *choices = row->choices ? json_array() : NULL;
    for (int32_t i = 0; row->choices && row->choices[i]; i++) {
        json_array_append_new(choices, mr_json_text(row->choices[i]));
    }
    json_object_set_new(object, "choices", choices ? choices : json_null());
    json_object_set_new(object, "min_length", json_integer(row->min_len));
    json_object_set_new(object, "max_length", json_integer(row->max_len));
    json_object_set_new(object, "doc", mr_json_text(row->doc));
    return object;
}

json_t *mr_rows_json(const mr_param *rows) {
    json_t *array = json_array();
    for (; rows && rows->name; rows++) {
        json_array_append_new(array, row_json(rows));
    }
    return array;
}
