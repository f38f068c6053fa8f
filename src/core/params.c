/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - parameter structs from JSON and back, by the rows of a table. */
#include "core/params.h"

#include <math.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/inner_ops.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/number.h"

typedef struct place {
    const char *where; /* JSON path of the object */
    const char *what;  /* "op resize" */
    const mr_param *row;
    json_t *given; /* the whole value; NULL: the default is read */
    mr_error *err;
} place;

static const char *const kind_words[] = {
    [MR_PARAM_INT] = "a whole number",
    [MR_PARAM_FLOAT] = "a number",
    [MR_PARAM_BOOL] = "true or false",
    [MR_PARAM_CHOICE] = "one of its choices",
    [MR_PARAM_STRING] = "a string",
    [MR_PARAM_INTS] = "a whole number or a list of them",
    [MR_PARAM_FLOATS] = "a number or a list of them",
    [MR_PARAM_STRINGS] = "a string or a list of them",
    [MR_PARAM_BYTES] = "a number of bytes, such as 1000000 or \"64MB\"",
    [MR_PARAM_JSON] = "valid JSON",
    [MR_PARAM_OPS] = "a list of ops",
    [MR_PARAM_NUMBERS] = "a number or a list of them",
};

static void set_where(const place *at) {
    char path[128];
    snprintf(path, sizeof path, "%s.%s", at->where, at->row->name);
    mr_error_at_json(at->err, path);
}

/* ", not VALUE", as it was given, or cut off. */
static const char *not_this(const place *at, char *out, size_t size) {
    char *text = json_dumps(at->given, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    char shown[48];
    out[0] = '\0';
    if (text) {
        mr_text_escape(shown, sizeof shown, text);
        snprintf(out, size, ", not %s%s", shown, strlen(shown) < strlen(text) ? "..." : "");
    }
    free(text);
    return out;
}

static mr_status wrong_kind(const place *at) {
    char given[64];
    set_where(at);
    return mr_fail(at->err, MR_E_TYPE, "%s: %s must be %s%s", at->what, at->row->name,
                   kind_words[at->row->kind], not_this(at, given, sizeof given));
}

typedef struct number_text {
    char text[32];
} number_text;

/* As it may be written: bytes with the largest unit. */
static number_text show(const mr_param *row, double value) {
    static const char *const units[] = {"", "KB", "MB", "GB", "TB"};
    number_text out;
    int unit = 0;
    while (row->kind == MR_PARAM_BYTES && unit < 4 && value >= 1000) {
        value /= 1000;
        unit++;
    }
    bool whole = floor(value) == value && fabs(value) < 0x1p63;
    mr_number_print(out.text, sizeof out.text, whole ? "%.0f%s" : "%.10g%s", value, units[unit]);
    return out;
}

static mr_status check_range(const place *at, double value) {
    const mr_param *row = at->row;
    bool any = row->min == 0 && row->max == 0;
    if (!isfinite(value)) {
        return wrong_kind(at);
    }
    if (any || (value >= row->min && value <= row->max)) {
        return MR_OK;
    }
    set_where(at);
    if (isinf(row->max)) {
        return mr_fail(at->err, MR_E_PARAM, "%s: %s is %s, must be at least %s", at->what,
                       row->name, show(row, value).text, show(row, row->min).text);
    }
    return mr_fail(at->err, MR_E_PARAM, "%s: %s is %s, must be from %s to %s", at->what, row->name,
                   show(row, value).text, show(row, row->min).text, show(row, row->max).text);
}

static mr_status check_length(const place *at, size_t length) {
    const mr_param *row = at->row;
    int32_t max = row->max_len ? row->max_len : MR_LIST_MAX;
    if ((row->kind == MR_PARAM_STRINGS || row->kind == MR_PARAM_NUMBERS) && !row->max_len) {
        max = INT32_MAX;
    }
    if (length >= (size_t)row->min_len && length <= (size_t)max) {
        return MR_OK;
    }
    set_where(at);
    return mr_fail(at->err, MR_E_PARAM, "%s: %s has %zu values, must have %d to %d", at->what,
                   row->name, length, row->min_len, max);
}

/* ---- One reader per kind: JSON value to struct member ---- */
static mr_status read_int(const place *at, json_t *value, void *out) {
    double real = json_is_real(value) ? json_real_value(value) : 0.0;
    bool whole = json_is_integer(value) ||
                 (json_is_real(value) && floor(real) == real && fabs(real) < 0x1p53);
    if (!whole) {
        return wrong_kind(at);
    }
    int64_t number = json_is_real(value) ? (int64_t)real : (int64_t)json_integer_value(value);
    MR_TRY(check_range(at, (double)number));
    *(int64_t *)out = number;
    return MR_OK;
}

static mr_status read_float(const place *at, json_t *value, void *out) {
    if (!json_is_number(value)) {
        return wrong_kind(at);
    }
    double number = json_number_value(value);
    MR_TRY(check_range(at, number));
    *(double *)out = number;
    return MR_OK;
}

static mr_status read_bool(const place *at, json_t *value, void *out) {
    if (!json_is_boolean(value)) {
        return wrong_kind(at);
    }
    *(bool *)out = json_is_true(value);
    return MR_OK;
}

static void list_choices(const mr_param *row, char *buffer, size_t size) {
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t i = 0; row->choices[i] && used < size; i++) {
        int n = snprintf(buffer + used, size - used, "%s\"%s\"", i ? ", " : "", row->choices[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

static mr_status read_choice(const place *at, json_t *value, void *out) {
    char choices[160], given[64];
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    for (int32_t i = 0; at->row->choices[i]; i++) {
        if (strcmp(at->row->choices[i], text) == 0) {
            *(int32_t *)out = i;
            return MR_OK;
        }
    }
    list_choices(at->row, choices, sizeof choices);
    set_where(at);
    return mr_fail(at->err, MR_E_PARAM, "%s: %s must be one of %s%s", at->what, at->row->name,
                   choices, not_this(at, given, sizeof given));
}

static mr_status read_string(const place *at, json_t *value, void *out) {
    if (!json_is_string(value)) {
        return wrong_kind(at);
    }
    char *copy = strdup(json_string_value(value));
    if (!copy) {
        return mr_fail_memory(at->err, json_string_length(value));
    }
    *(char **)out = copy;
    return MR_OK;
}

typedef mr_status read_value(const place *at, json_t *value, void *out);

/* Calls `read` for each element of a list, or once for a single value. */
static mr_status read_list(const place *at, json_t *value, read_value *read, void *items,
                           size_t item_size, int32_t *n) {
    bool list = json_is_array(value);
    size_t length = list ? json_array_size(value) : 1;
    MR_TRY(check_length(at, length));
    for (size_t i = 0; i < length; i++) {
        json_t *item = list ? json_array_get(value, i) : value;
        MR_TRY(read(at, item, (char *)items + i * item_size));
        *n = (int32_t)(i + 1);
    }
    return MR_OK;
}

static mr_status read_strings(const place *at, json_t *value, mr_strings *out) {
    size_t length = json_is_array(value) ? json_array_size(value) : 1;
    out->v = mr_zalloc(length, sizeof *out->v);
    if (!out->v) {
        return mr_fail_memory(at->err, length * sizeof *out->v);
    }
    return read_list(at, value, read_string, out->v, sizeof *out->v, &out->n);
}

static mr_status read_numbers(const place *at, json_t *value, mr_numbers *out) {
    size_t length = json_is_array(value) ? json_array_size(value) : 1;
    MR_TRY(check_length(at, length));
    out->v = mr_zalloc(length, sizeof *out->v);
    if (!out->v) {
        return mr_fail_memory(at->err, length * sizeof *out->v);
    }
    return read_list(at, value, read_float, out->v, sizeof *out->v, &out->n);
}

typedef struct unit_row {
    const char *name;
    double bytes;
} unit_row;

static double unit_bytes(const char *unit) {
    static const unit_row units[] = {
        {"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
        {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].name, unit) == 0) {
            return units[i].bytes;
        }
    }
    return -1.0;
}

static mr_status read_bytes(const place *at, json_t *value, void *out) {
    if (!json_is_string(value)) {
        return json_is_integer(value) ? read_int(at, value, out) : wrong_kind(at);
    }
    const char *text = json_string_value(value);
    char *end = NULL;
    double number = mr_number_parse(text, &end);
    double unit = unit_bytes(end + strspn(end, " "));
    double bytes = number * unit;
    if (end == text || unit < 0 || !(bytes >= 0 && bytes < 0x1p62)) {
        return wrong_kind(at);
    }
    MR_TRY(check_range(at, bytes));
    *(int64_t *)out = (int64_t)bytes;
    return MR_OK;
}

static mr_status read_ops(const place *at, json_t *value, void *out) {
    char path[160];
    size_t length = json_is_array(value) ? json_array_size(value) : 1;
    MR_TRY(check_length(at, length));
    int needed = snprintf(path, sizeof path, "%s.%s", at->where, at->row->name);
    if (needed >= MR_INNER_PATH_MAX) {
        set_where(at);
        return mr_fail(at->err, MR_E_PARAM, "%s: ops stand inside ops too deeply", at->what);
    }
    return mr_inner_ops_read(value, path, out, at->err);
}

static mr_status read_json(const place *at, json_t *value, void *out) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    *(char **)out = text;
    return text ? MR_OK : mr_fail_memory(at->err, 64);
}

static mr_status read_param(const place *at, json_t *value, void *out) {
    mr_ints *ints = out;
    mr_floats *floats = out;
    switch (at->row->kind) {
    case MR_PARAM_INT:
        return read_int(at, value, out);
    case MR_PARAM_FLOAT:
        return read_float(at, value, out);
    case MR_PARAM_BOOL:
        return read_bool(at, value, out);
    case MR_PARAM_CHOICE:
        return read_choice(at, value, out);
    case MR_PARAM_STRING:
        return read_string(at, value, out);
    case MR_PARAM_INTS:
        return read_list(at, value, read_int, ints->v, sizeof *ints->v, &ints->n);
    case MR_PARAM_FLOATS:
        return read_list(at, value, read_float, floats->v, sizeof *floats->v, &floats->n);
    case MR_PARAM_STRINGS:
        return read_strings(at, value, out);
    case MR_PARAM_BYTES:
        return read_bytes(at, value, out);
    case MR_PARAM_JSON:
        return read_json(at, value, out);
    case MR_PARAM_OPS:
        return read_ops(at, value, out);
    case MR_PARAM_NUMBERS:
        return read_numbers(at, value, out);
    }
    return mr_fail(at->err, MR_E_INTERNAL, "unknown parameter kind");
}

/* ---- Calls ---- */
mr_status mr_split_call(json_t *item, const char *kind, const char *where, const char **name,
                        json_t **params, mr_error *err) {
    *params = NULL;
    if (json_is_string(item)) {
        *name = json_string_value(item);
        return MR_OK;
    }
    if (json_is_object(item) && json_object_size(item) == 1) {
        void *first = json_object_iter(item);
        *name = json_object_iter_key(first);
        *params = json_object_iter_value(first);
        return MR_OK;
    }
    mr_error_at_json(err, where);
    mr_fail(err, MR_E_PARAM, "%s must be an object with one key, its name", kind);
    mr_hint(err, "write {\"name\": {\"parameter\": value}}");
    return MR_E_PARAM;
}

void *mr_new_params(size_t size, const void *user) {
    void *params = mr_zalloc(1, size);
    if (params && user && size >= sizeof user) {
        memcpy(params, &user, sizeof user);
    }
    return params;
}

/* ---- Names ---- */
/* Edit distance of two short names, where swapping two neighbours counts as one edit. */
static size_t name_distance(const char *a, const char *b) {
    enum { MAX = 40 };
    size_t table[MAX + 1][MAX + 1], la = strlen(a), lb = strlen(b);
    if (la > MAX || lb > MAX) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i <= la; i++) {
        for (size_t j = 0; j <= lb; j++) {
            size_t best = i == 0 ? j : i;
            if (i > 0 && j > 0) {
                best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                best = table[i - 1][j] + 1 < best ? table[i - 1][j] + 1 : best;
                best = table[i][j - 1] + 1 < best ? table[i][j - 1] + 1 : best;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = table[i - 2][j - 2] + 1 < best ? table[i - 2][j - 2] + 1 : best;
            }
            table[i][j] = best;
        }
    }
    return table[la][lb];
}

const char *mr_nearest_name(const char *name, const char *(*next)(void *user), void *user) {
    const char *best = NULL, *candidate;
    size_t best_distance = strlen(name) / 3 + 2; /* further away is no help */
    while ((candidate = next(user)) != NULL) {
        size_t distance = name_distance(name, candidate);
        bool starts = strlen(name) >= 3 && strncmp(name, candidate, strlen(name)) == 0;
        distance = starts && distance > 1 ? 1 : distance;
        bool longer = strncmp(name, candidate, strlen(candidate)) == 0; /* prob for p */
        distance = longer && distance > strlen(name) / 3 + 1 ? strlen(name) / 3 + 1 : distance;
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

/* All keys that an object may have: those of rows, and those that are left to the caller. */
typedef struct key_cursor {
    const mr_param *row;
    const char *const *other;
} key_cursor;

static const char *next_key(void *user) {
    key_cursor *cursor = user;
    if (cursor->row && cursor->row->name) {
        return (cursor->row++)->name;
    }
    return cursor->other && *cursor->other ? *cursor->other++ : NULL;
}

static void list_keys(key_cursor cursor, mr_error *err) {
    char text[sizeof err->hint] = "";
    const char *key;
    size_t n = 0;
    while ((key = next_key(&cursor)) != NULL && n < sizeof text) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n > 0 ? ", " : "", key);
    }
    if (n > 0) {
        mr_hint(err, "known: %s", text);
    }
}

static mr_status unknown_key(const mr_param *rows, const char *key, const char *where,
                             const char *what, const char *const *others, mr_error *err) {
    char path[128], name[64];
    const key_cursor all = {rows, others};
    key_cursor cursor = all;
    const char *nearest = mr_nearest_name(key, next_key, &cursor);
    mr_text_escape(name, sizeof name, key);
    snprintf(path, sizeof path, "%s.%s", where, name);
    mr_error_at_json(err, path);
    mr_fail(err, MR_E_PARAM, "%s has no parameter \"%s\"", what, name);
    if (nearest) {
        mr_hint(err, "did you mean \"%s\"?", nearest);
    } else {
        list_keys(all, err);
    }
    return MR_E_PARAM;
}

static bool is_known(const mr_param *rows, const char *const *ignore, const char *key) {
    for (const mr_param *row = rows; row && row->name; row++) {
        if (strcmp(row->name, key) == 0) {
            return true;
        }
    }
    for (; ignore && *ignore; ignore++) {
        if (strcmp(*ignore, key) == 0) {
            return true;
        }
    }
    return false;
}

static mr_status check_keys(const mr_param *rows, json_t *object, const char *where,
                            const char *what, const char *const *ignore, mr_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!is_known(rows, ignore, key)) {
            return unknown_key(rows, key, where, what, ignore, err);
        }
    }
    return MR_OK;
}

/* ---- Whole structs ---- */
static mr_status refuse_missing(const place *at) {
    char choices[200];
    set_where(at);
    mr_fail(at->err, MR_E_PARAM, "%s needs %s: %s", at->what, at->row->name, at->row->doc);
    if (at->row->choices) {
        list_choices(at->row, choices, sizeof choices);
        mr_hint(at->err, "%s is one of %s", at->row->name, choices);
    }
    return MR_E_PARAM;
}

static mr_status fill_one(const place *at, json_t *object, void *out) {
    json_t *value = object ? json_object_get(object, at->row->name) : NULL;
    if (value) {
        return read_param(at, value, out);
    }
    if (!at->row->fallback) {
        return refuse_missing(at);
    }
    json_t *fallback = NULL;
    json_error_t error;
    size_t size = strlen(at->row->fallback);
    if (mr_json_load(&fallback, at->row->fallback, size, JSON_DECODE_ANY, &error) < 0) {
        return mr_fail_memory(at->err, size);
    }
    mr_status status = read_param(at, fallback, out);
    json_decref(fallback);
    return status;
}

mr_status mr_params_fill(const mr_param *rows, json_t *object, const char *where, const char *what,
                         const char *const *ignore, void *out, mr_error *err) {
    mr_status status = MR_OK;
    if (object && !json_is_object(object)) {
        mr_error_at_json(err, where);
        return mr_fail(err, MR_E_PARAM, "%s: its parameters must be a JSON object", what);
    }
    if (object) {
        MR_TRY(check_keys(rows, object, where, what, ignore, err));
    }
    for (const mr_param *row = rows; row && row->name && status == MR_OK; row++) {
        const place at = {where, what, row, json_object_get(object, row->name), err};
        status = fill_one(&at, object, (char *)out + row->offset);
    }
    if (status < 0) {
        mr_params_free(rows, out);
    }
    return status;
}

void mr_params_free(const mr_param *rows, void *params) {
    for (const mr_param *row = rows; row && row->name; row++) {
        void *member = (char *)params + row->offset;
        if (row->kind == MR_PARAM_STRING || row->kind == MR_PARAM_JSON) {
            free(*(char **)member);
            *(char **)member = NULL;
        } else if (row->kind == MR_PARAM_STRINGS) {
            mr_strings *list = member;
            for (int32_t i = 0; i < list->n; i++) {
                free((char *)(uintptr_t)list->v[i]);
            }
            free(list->v);
            *list = (mr_strings){0, NULL};
        } else if (row->kind == MR_PARAM_NUMBERS) {
            mr_numbers *list = member;
            mr_free(list->v);
            *list = (mr_numbers){0, NULL};
        } else if (row->kind == MR_PARAM_OPS) {
            mr_inner_ops_free(member);
        }
    }
}

/* ---- Back to JSON ---- */
static json_t *float_json(double value) {
    bool whole = floor(value) == value && fabs(value) < 0x1p53;
    return whole ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *list_json(const mr_param *row, const void *member) {
    json_t *list = json_array();
    const mr_ints *ints = member;
    const mr_floats *floats = member;
    const mr_numbers *numbers = member;
    const mr_strings *strings = member;
    int32_t n = row->kind == MR_PARAM_INTS      ? ints->n
                : row->kind == MR_PARAM_FLOATS  ? floats->n
                : row->kind == MR_PARAM_NUMBERS ? numbers->n
                                                : strings->n;
    for (int32_t i = 0; i < n; i++) {
        json_t *item = row->kind == MR_PARAM_INTS      ? json_integer(ints->v[i])
                       : row->kind == MR_PARAM_FLOATS  ? float_json(floats->v[i])
                       : row->kind == MR_PARAM_NUMBERS ? float_json(numbers->v[i])
                                                       : json_string(strings->v[i]);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *text_json(const char *text) {
    json_t *value = NULL;
    json_error_t ignored;
    return mr_json_load(&value, text, strlen(text), JSON_DECODE_ANY, &ignored) < 0 ? NULL : value;
}

static json_t *param_json(const mr_param *row, const void *member) {
    switch (row->kind) {
    case MR_PARAM_INT:
    case MR_PARAM_BYTES:
        return json_integer(*(const int64_t *)member);
    case MR_PARAM_FLOAT:
        return float_json(*(const double *)member);
    case MR_PARAM_BOOL:
        return json_boolean(*(const bool *)member);
    case MR_PARAM_CHOICE:
        return json_string(row->choices[*(const int32_t *)member]);
    case MR_PARAM_STRING:
        return json_string(*(const char *const *)member);
    case MR_PARAM_INTS:
    case MR_PARAM_FLOATS:
    case MR_PARAM_STRINGS:
    case MR_PARAM_NUMBERS:
        return list_json(row, member);
    case MR_PARAM_JSON:
        return text_json(*(const char *const *)member);
    case MR_PARAM_OPS:
        return mr_inner_ops_json(member);
    }
    return NULL;
}

json_t *mr_params_json(const mr_param *rows, const void *params) {
    json_t *object = json_object();
    for (const mr_param *row = rows; object && row && row->name; row++) {
        json_t *value = param_json(row, (const char *)params + row->offset);
        if (!value || json_object_set_new(object, row->name, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}
