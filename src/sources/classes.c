/* SPDX-License-Identifier: Apache-2.0 */
/* classes.c - see classes.h. */
#include "sources/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/utf8.h"
#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "io/file.h"

static mr_status wrong_shape(mr_error *err) {
    mr_fail(err, MR_E_PARAM, "classes are a list of names, or a file with a name on each line");
    mr_hint(err, "write [\"cat\", \"dog\"], or \"names.txt\", or an object of these by field where "
                 "several fields have classes");
    return MR_E_PARAM;
}

static mr_status parse(json_t **out, const char *param, mr_error *err) {
    json_error_t ignored;
    mr_status status = mr_json_load(out, param, strlen(param), JSON_DECODE_ANY, &ignored);
    return status == MR_E_MEMORY ? mr_fail_memory(err, strlen(param))
           : status == MR_OK     ? MR_OK
                                 : wrong_shape(err);
}

/* ---- Names ---- */
static mr_status add(mr_classes *c, const char *name, size_t length, mr_error *err) {
    if (length == 0) {
        mr_fail(err, MR_E_PARAM, "class %lld has no name", (long long)c->n);
        mr_hint(err, "a class has a name of at least one letter");
        return MR_E_PARAM;
    }
    c->names[c->n] = strndup(name, length);
    return c->names[c->n++] ? MR_OK : mr_fail_memory(err, length);
}

static mr_status make_room(mr_classes *c, size_t n, mr_error *err) {
    c->names = mr_zalloc(n + 1, sizeof *c->names);
    return c->names ? MR_OK : mr_fail_memory(err, n * sizeof *c->names);
}

static mr_status take_list(mr_classes *c, json_t *list, mr_error *err) {
    size_t i = 0;
    json_t *name = NULL;
    MR_TRY(make_room(c, json_array_size(list), err));
    json_array_foreach(list, i, name) {
        if (!json_is_string(name)) {
            return wrong_shape(err);
        }
        MR_TRY(add(c, json_string_value(name), json_string_length(name), err));
    }
    return MR_OK;
}

static mr_status take_lines(mr_classes *c, const char *text, mr_error *err) {
    size_t n = 1;
    text += strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* as some editors begin a file */
    for (const char *at = text; *at; at++) {
        n += *at == '\n';
    }
    MR_TRY(make_room(c, n, err));
    for (const char *at = text, *end; *at; at = end + (*end == '\n')) {
        end = at + strcspn(at, "\n");
        size_t length = (size_t)(end - at);
        if (mr_utf8_check((const uint8_t *)at, length) < length) {
            return mr_fail(err, MR_E_PARAM, "line %lld is not UTF-8", (long long)c->n + 1);
        }
        MR_TRY(add(c, at, length - (length > 0 && at[length - 1] == '\r'), err));
    }
    return MR_OK;
}

static mr_status read_names(mr_classes *c, const char *path, mr_error *err) {
    mr_error inner = MR_ERROR_INIT;
    char *text = NULL, shown[256];
    size_t size = 0;
    MR_TRY(mr_file_load(path, (size_t)1 << 30, &text, &size, err));
    mr_status status = strlen(text) == size ? take_lines(c, text, &inner)
                                            : mr_fail(&inner, MR_E_PARAM, "there is a zero byte");
    if (status == MR_OK && c->n == 0) {
        status = mr_fail(&inner, MR_E_PARAM, "it is empty");
    }
    mr_free(text);
    if (status < 0) {
        mr_fail(err, status, "%s, the file of classes: %s",
                mr_text_escape(shown, sizeof shown, path), inner.text);
        mr_hint(err, "it is text in UTF-8 with a name on each line");
    }
    return status;
}

static mr_status refuse_twins(const mr_classes *c, mr_error *err) {
    char shown[256];
    const mr_sorted_name *twin = mr_sorted_twin(&c->sorted);
    return twin ? mr_fail(err, MR_E_PARAM, "class %s is listed twice",
                          mr_text_escape(shown, sizeof shown, twin->name))
                : MR_OK;
}

static bool is_given(const json_t *value) {
    return value && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0);
}

static mr_status take(mr_classes *c, json_t *value, mr_error *err) {
    if (!is_given(value)) {
        return MR_OK;
    }
    c->given = true;
    if (json_is_string(value)) {
        MR_TRY(read_names(c, json_string_value(value), err));
    } else {
        MR_TRY(json_is_array(value) ? take_list(c, value, err) : wrong_shape(err));
    }
    MR_TRY(mr_sorted_make(&c->sorted, (const char *const *)c->names, c->n, err));
    return refuse_twins(c, err);
}

/* ---- Public ---- */
mr_status mr_classes_check(const char *param, mr_error *err) {
    json_t *root = NULL, *value = NULL;
    const char *field = NULL;
    MR_TRY(parse(&root, param, err));
    mr_classes c = {0};
    mr_status status = json_is_object(root) || json_is_string(root) ? MR_OK : take(&c, root, err);
    mr_classes_free(&c);
    json_object_foreach(root, field, value) {
        if (status == MR_OK && !json_is_string(value)) {
            status = take(&c, value, err);
            mr_classes_free(&c);
        }
    }
    json_decref(root);
    return status;
}

mr_status mr_classes_load(mr_classes *out, const char *param, const char *field, mr_error *err) {
    json_t *root = NULL;
    *out = (mr_classes){0};
    MR_TRY(param ? parse(&root, param, err) : MR_OK);
    mr_status status = take(out, json_is_object(root) ? json_object_get(root, field) : root, err);
    json_decref(root);
    return status;
}

mr_status mr_classes_stranger(const char *param, const char *const *fields, int32_t n, char **name,
                              mr_error *err) {
    json_t *root = NULL, *value = NULL;
    const char *field = NULL;
    mr_status status = MR_OK;
    *name = NULL;
    MR_TRY(param ? parse(&root, param, err) : MR_OK);
    json_object_foreach(root, field, value) {
        int32_t i = 0;
        while (i < n && strcmp(fields[i], field) != 0) {
            i++;
        }
        if (i == n && !*name) {
            *name = strdup(field);
            status = *name ? MR_OK : mr_fail_memory(err, strlen(field));
        }
    }
    json_decref(root);
    return status;
}

mr_status mr_classes_name_no_field(const char *param, bool *out, mr_error *err) {
    json_t *root = NULL;
    MR_TRY(param ? parse(&root, param, err) : MR_OK);
    *out = is_given(root) && !json_is_object(root);
    json_decref(root);
    return MR_OK;
}

int64_t mr_classes_number(const mr_classes *classes, const char *name) {
    return mr_sorted_find(&classes->sorted, name);
}

void mr_classes_swap(mr_classes *classes, char ***names, int64_t *n) {
    const mr_classes before = {.names = *names, .n = *n};
    *names = classes->names;
    *n = classes->n;
    mr_sorted_free(&classes->sorted);
    *classes = before;
}

typedef struct cursor {
    const mr_classes *classes;
    int64_t i;
} cursor;

static const char *next_name(void *user) {
    cursor *c = user;
    return c->i < c->classes->n ? c->classes->names[c->i++] : NULL;
}

void mr_classes_hint(const mr_classes *classes, const char *name, const char *otherwise, char *out,
                     size_t size) {
    char near[96];
    cursor from = {classes, 0};
    const char *nearest = mr_nearest_name(name, next_name, &from);
    snprintf(out, size, "%s%s%sadd it to `classes`, or %s", nearest ? "did you mean \"" : "",
             nearest ? mr_text_escape(near, sizeof near, nearest) : "", nearest ? "\"? Else " : "",
             otherwise);
}

void mr_classes_free(mr_classes *classes) {
    for (int64_t i = 0; classes->names && i < classes->n; i++) {
        free(classes->names[i]);
    }
    mr_free(classes->names);
    mr_sorted_free(&classes->sorted);
    *classes = (mr_classes){0};
}
