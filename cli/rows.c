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
    [MR_PARAM_JSON] = "JSON",     [MR_PARAM_OPS] = "ops",         [MR_PARAM_NUMBERS] = "floats",
};

static bool is_list(const mr_param *row) {
    return row->kind == MR_PARAM_INTS || row->kind == MR_PARAM_FLOATS ||
           row->kind == MR_PARAM_STRINGS || row->kind == MR_PARAM_OPS ||
           row->kind == MR_PARAM_NUMBERS;
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

/* Bounds past what an int64 or a double counts exactly stand for "no bound". */
static bool bounded(double bound) {
    return bound > -1e18 && bound < 1e18;
}

static char *number_text(double number, char *buffer, size_t size) {
    bool whole = number == (double)(int64_t)number;
    snprintf(buffer, size, whole ? "%.0f" : "%.15g", number);
    return buffer;
}

char *mr_row_range(const mr_param *row, char *buffer, size_t size) {
    char least[32] = "", most[32] = "";
    buffer[0] = '\0';
    if (row->min == 0 && row->max == 0) {
        return buffer;
    }
    if (bounded(row->min)) {
        number_text(row->min, least, sizeof least);
    }
    if (bounded(row->max)) {
        number_text(row->max, most, sizeof most);
    }
    if (*least && *most) {
        snprintf(buffer, size, "%s to %s", least, most);
    } else if (*least) {
        snprintf(buffer, size, "at least %s", least);
    } else if (*most) {
        snprintf(buffer, size, "at most %s", most);
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

const char *mr_beside_text(const mr_op_class *op) {
    if (op->flags & MR_OP_COLOR) {
        return "About colours: masks, boxes and points named beside an image are left as they are.";
    }
    if (op->spare_mask) {
        return "Masks, boxes and points named beside an image go where its pixels go; what is "
               "about colours leaves them as they are.";
    }
    return op->follow ? "Moves pixels: masks, boxes and points named beside an image follow it."
                      : NULL;
}
