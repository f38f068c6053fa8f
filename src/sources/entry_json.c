/* SPDX-License-Identifier: Apache-2.0 */
/* entry_json.c - see entry_json.h. A packed value: for each field the offset and the length of its
 * bytes, 8 bytes each; then those, each at a multiple of 8. */
#include "sources/entry_json.h"

#include <ctype.h>
#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"

/* ---- Schemas ---- */
static const struct {
    const char *name;
    mr_dtype dtype;
} dtypes[] = {{"uint8", MR_U8},    {"int32", MR_I32},   {"int64", MR_I64}, {"bool", MR_BOOL},
              {"float32", MR_F32}, {"float64", MR_F64}, {"string", MR_U8}};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes, STRING = N_DTYPES - 1 };

static mr_status fail_line(const char *line, const char *why, mr_error *err) {
    mr_fail(err, MR_E_PARAM, "\"%.80s\" in the schema: %s", line, why);
    mr_hint(err, "write members as \"price: float32\", \"pixels: uint8[28,28]\", \"tokens: "
                 "int32[]\" or \"title: string\"");
    return MR_E_PARAM;
}

static const char *after_blanks(const char *at) {
    while (*at == ' ') {
        at++;
    }
    return at;
}

/* "[28,28]", "[]" or nothing. */
static bool read_dims(const char *at, mr_type *type) {
    if (*at == 0) {
        return true;
    }
    if (*at++ != '[') {
        return false;
    }
    if (*at == ']') {
        type->dims[type->n_dims++] = -1;
        return at[1] == 0;
    }
    for (char *end; type->n_dims < MR_MAX_DIMS; at = end + 1) {
        long long dim = isdigit((unsigned char)*after_blanks(at)) ? strtoll(at, &end, 10) : 0;
        if (dim < 1 || dim > INT32_MAX || (*end != ',' && *end != ']')) {
            return false;
        }
        type->dims[type->n_dims++] = dim;
        if (*end == ']') {
            return end[1] == 0;
        }
    }
    return false;
}

static bool read_type(const char *text, mr_json_member *out) {
    size_t size = strcspn(text, "[");
    for (int i = 0; i < N_DTYPES; i++) {
        if (strlen(dtypes[i].name) == size && memcmp(text, dtypes[i].name, size) == 0) {
            out->type = (mr_type){.dtype = dtypes[i].dtype};
            out->is_text = i == STRING;
            if (out->is_text) {
                out->type.n_dims = 1;
                out->type.dims[0] = -1;
                return text[size] == 0;
            }
            return read_dims(text + size, &out->type);
        }
    }
    return false;
}

static bool is_taken(const char *name) {
    static const char *const own[] = {"value",  "key",       "time",  "index",
                                      "weight", "is_replay", "extra", NULL};
    for (int i = 0; own[i]; i++) {
        if (strcmp(own[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static mr_status read_member(mr_json_schema *s, const char *line, mr_error *err) {
    const char *colon = strchr(line, ':');
    mr_json_member *own = &s->members[s->n];
    if (!colon || colon == line) {
        return fail_line(line, "it has no name and type", err);
    }
    own->name = strndup(line, (size_t)(colon - line));
    s->n++;
    if (!own->name) {
        return mr_fail_memory(err, (size_t)(colon - line));
    }
    if (!read_type(after_blanks(colon + 1), own)) {
        return fail_line(line, "this is no type", err);
    }
    own->is_label = strcmp(own->name, "label") == 0;
    if (own->is_label && (own->type.dtype != MR_I64 || own->type.n_dims > 0)) {
        return fail_line(line, "a label is an int64", err);
    }
    for (int32_t i = 0; i < s->n - 1; i++) {
        if (strcmp(s->members[i].name, own->name) == 0) {
            return fail_line(line, "the name is there twice", err);
        }
    }
    s->n_fields += !own->is_label;
    return is_taken(own->name) ? fail_line(line, "the stream has a field of this name", err)
                               : MR_OK;
}

mr_status mr_json_schema_read(mr_json_schema **out, const mr_strings *lines, mr_error *err) {
    mr_json_schema *s = mr_zalloc(1, sizeof *s);
    *out = s;
    if (!s || !(s->members = mr_zalloc((size_t)lines->n + 1, sizeof *s->members))) {
        return mr_fail_memory(err, (size_t)lines->n * sizeof *s->members);
    }
    for (int32_t i = 0; i < lines->n; i++) {
        MR_TRY(read_member(s, lines->v[i], err));
    }
    return s->n_fields > 0 ? MR_OK
                           : mr_fail(err, MR_E_PARAM, "a schema has a member besides the label");
}

void mr_json_schema_free(mr_json_schema *s) {
    if (s) {
        for (int32_t i = 0; i < s->n; i++) {
            free(s->members[i].name);
        }
        mr_free(s->members);
        mr_free(s);
    }
}

/* ---- Packing ---- */
static bool reserve(mr_json_packer *p, size_t more) {
    if (p->size + more > p->room) {
        size_t room = 2 * (p->size + more);
        unsigned char *grown = realloc(p->packed, room);
        if (!grown) {
            return false;
        }
        p->packed = grown;
        p->room = room;
    }
    return true;
}

static bool put(mr_json_packer *p, const void *bytes, size_t size) {
    if (!reserve(p, size + 8)) {
        snprintf(p->why, sizeof p->why, "there is no memory for it");
        return false;
    }
    if (size > 0) {
        memcpy(p->packed + p->size, bytes, size);
    }
    p->size += size;
    return true;
}

static bool blame(mr_json_packer *p, const char *name, const char *is, const char *wanted) {
    snprintf(p->why, sizeof p->why, "the member %.60s %s%s%s", name, is, wanted[0] ? ", not " : "",
             wanted);
    return false;
}

static const char *kind_of(const json_t *value) {
    static const char *const kinds[] = {
        [JSON_OBJECT] = "is an object", [JSON_ARRAY] = "is a list",  [JSON_STRING] = "is a string",
        [JSON_INTEGER] = "is a number", [JSON_REAL] = "is a number", [JSON_TRUE] = "is a bool",
        [JSON_FALSE] = "is a bool",     [JSON_NULL] = "is null"};
    return kinds[json_typeof(value)];
}

/* One number of the member's type. */
static bool put_number(mr_json_packer *p, const mr_json_member *m, const json_t *value) {
    mr_dtype dtype = m->type.dtype;
    bool is_float = dtype == MR_F32 || dtype == MR_F64;
    bool fits = dtype == MR_BOOL ? json_is_boolean(value)
                : is_float       ? json_is_number(value)
                                 : json_is_integer(value);
    if (!fits) {
        return blame(p, m->name, kind_of(value), mr_dtype_name(dtype));
    }
    if (is_float) {
        double wide = json_number_value(value);
        float narrow = (float)wide;
        return dtype == MR_F32 ? put(p, &narrow, sizeof narrow) : put(p, &wide, sizeof wide);
    }
    int64_t whole = dtype == MR_BOOL ? json_is_true(value) : json_integer_value(value);
    if ((dtype == MR_U8 && (whole < 0 || whole > UINT8_MAX)) ||
        (dtype == MR_I32 && (whole < INT32_MIN || whole > INT32_MAX))) {
        return blame(p, m->name, "has a number that does not fit", mr_dtype_name(dtype));
    }
    const int32_t middle = (int32_t)whole;
    const uint8_t small = (uint8_t)whole;
    return dtype == MR_I64   ? put(p, &whole, sizeof whole)
           : dtype == MR_I32 ? put(p, &middle, sizeof middle)
                             : put(p, &small, sizeof small);
}

/* Lists in lists, down to numbers. */
static bool put_list(mr_json_packer *p, const mr_json_member *m, const json_t *value, int32_t dim) {
    if (dim == m->type.n_dims) {
        return put_number(p, m, value);
    }
    if (!json_is_array(value)) {
        return blame(p, m->name, kind_of(value), "a list");
    }
    int64_t n = (int64_t)json_array_size(value);
    if (m->type.dims[dim] >= 0 && m->type.dims[dim] != n) {
        char is[48], wanted[24];
        snprintf(is, sizeof is, "has a list of %" PRId64, n);
        snprintf(wanted, sizeof wanted, "%" PRId64, m->type.dims[dim]);
        return blame(p, m->name, is, wanted);
    }
    for (int64_t i = 0; i < n; i++) {
        if (!put_list(p, m, json_array_get(value, (size_t)i), dim + 1)) {
            return false;
        }
    }
    return true;
}

static bool put_value(mr_json_packer *p, const mr_json_member *m, const json_t *value) {
    if (!m->is_text) {
        return put_list(p, m, value, 0);
    }
    return json_is_string(value) ? put(p, json_string_value(value), json_string_length(value))
                                 : blame(p, m->name, kind_of(value), "a string");
}

static bool put_member(mr_json_packer *p, const mr_json_member *m, const json_t *value,
                       int32_t field) {
    uint64_t place[2] = {p->size, 0};
    if (!put_value(p, m, value)) {
        return false;
    }
    place[1] = p->size - place[0];
    memcpy(p->packed + (size_t)field * sizeof place, place, sizeof place);
    while (p->size % 8) {
        p->packed[p->size++] = 0; /* put keeps room for it */
    }
    return true;
}

static bool pack_object(mr_json_packer *p, const json_t *object, int64_t *label) {
    const mr_json_schema *s = p->schema;
    int32_t field = 0;
    p->size = 0;
    if (!reserve(p, (size_t)s->n_fields * 16)) {
        snprintf(p->why, sizeof p->why, "there is no memory for it");
        return false;
    }
    p->size = (size_t)s->n_fields * 16;
    for (int32_t i = 0; i < s->n; i++) {
        const mr_json_member *m = &s->members[i];
        const json_t *value = json_object_get(object, m->name);
        if (!value) {
            return blame(p, m->name, "is missing", "");
        }
        if (m->is_label && !json_is_integer(value)) {
            return blame(p, m->name, kind_of(value), "a whole number");
        }
        if (m->is_label) {
            *label = json_integer_value(value);
        } else if (!put_member(p, m, value, field++)) {
            return false;
        }
    }
    return true;
}

static bool pack(mr_json_packer *p, const mr_entry *entry, int64_t *label) {
    json_t *object = NULL;
    json_error_t error = {.line = 0};
    if (mr_json_load(&object, entry->value, entry->size, 0, &error) != MR_OK) {
        snprintf(p->why, sizeof p->why, "it is no JSON: %.100s", error.text);
        return false;
    }
    bool whole = json_is_object(object) && pack_object(p, object, label);
    if (!json_is_object(object)) {
        snprintf(p->why, sizeof p->why, "it %s, not an object", kind_of(object));
    }
    json_decref(object);
    return whole;
}

bool mr_json_pack(void *packer, const mr_entry *entry) {
    mr_json_packer *p = packer;
    mr_entry own = *entry;
    if (entry->value && pack(p, entry, &own.label)) {
        own.value = p->packed;
        own.size = p->size;
    } else if (entry->value) {
        own.value = NULL;
        own.size = 0;
        own.key = p->why;
        own.key_size = strlen(p->why);
    }
    return p->to->take(p->to->user, &own);
}

void mr_json_packer_free(mr_json_packer *p) {
    free(p->packed);
    p->packed = NULL;
    p->size = p->room = 0;
}

bool mr_json_packed(const mr_entry *entry, int32_t i, const void **data, size_t *size) {
    uint64_t place[2];
    if (((size_t)i + 1) * sizeof place > entry->size) {
        return false;
    }
    memcpy(place, (const unsigned char *)entry->value + (size_t)i * sizeof place, sizeof place);
    if (place[0] > entry->size || place[1] > entry->size - place[0]) {
        return false;
    }
    *data = (const unsigned char *)entry->value + place[0];
    *size = place[1];
    return true;
}
