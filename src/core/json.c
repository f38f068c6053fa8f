/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - see json.h. jansson collects a token in a buffer that grows, and does not look whether
 * growing failed: a byte of a name goes missing without an error, or an assertion ends the process
 * at a number. So the text is read as the second element of an array whose first is a string as
 * long as the whole text: the buffer has its full size before the text begins, and if that went
 * wrong it shows in the string. */
#include "core/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ["xxx",\nTEXT\n], with as many x as TEXT has bytes. NULL: no memory. */
static char *wrap(const char *text, size_t size, size_t *wrapped_size) {
    char *out = size < SIZE_MAX / 4 ? malloc(2 * size + 8) : NULL;
    if (out) {
        memcpy(out, "[\"", 2);
        memset(out + 2, 'x', size);
        memcpy(out + 2 + size, "\",\n", 3);
        memcpy(out + 5 + size, text, size);
        memcpy(out + 5 + 2 * size, "\n]", 2);
        *wrapped_size = 2 * size + 7;
    }
    return out;
}

/* The document in a wrapped text; NULL where there is not just one, or where bytes went missing. */
static json_t *unwrap(json_t *array, size_t size, size_t flags) {
    json_t *document = json_array_get(array, 1);
    bool whole =
        json_array_size(array) == 2 && json_string_length(json_array_get(array, 0)) == size;
    bool allowed = (flags & JSON_DECODE_ANY) || json_is_object(document) || json_is_array(document);
    return whole && allowed ? json_incref(document) : NULL;
}

/* The text by itself, for what is wrong with it in its own lines and columns. */
static mr_status explain(const char *text, size_t size, size_t flags, json_error_t *error) {
    json_t *document = json_loadb(text, size, flags, error);
    bool memory = document || !error->text[0] || json_error_code(error) == json_error_out_of_memory;
    json_decref(document);
    return memory ? MR_E_MEMORY : MR_E_PARAM;
}

/* jansson takes a zero byte after a number for the end of the text. */
static mr_status refuse_zero(const char *text, const char *zero, json_error_t *error) {
    *error = (json_error_t){.line = 1, .position = (int)(zero - text)};
    for (const char *at = text; at < zero; at++) {
        error->column = *at == '\n' ? 0 : error->column + 1;
        error->line += *at == '\n';
    }
    snprintf(error->text, sizeof error->text, "a zero byte");
    return MR_E_PARAM;
}

mr_status mr_json_load(json_t **out, const char *text, size_t size, size_t flags,
                       json_error_t *error) {
    size_t wrapped_size = 0;
    const char *zero = size > 0 ? memchr(text, '\0', size) : NULL;
    if (zero) {
        return refuse_zero(text, zero, error);
    }
    char *wrapped = wrap(text, size, &wrapped_size);
    if (!wrapped) {
        return MR_E_MEMORY;
    }
    json_t *array = json_loadb(wrapped, wrapped_size, flags & ~(size_t)JSON_DECODE_ANY, error);
    json_t *document = unwrap(array, size, flags);
    json_decref(array);
    free(wrapped);
    if (!document) {
        return explain(text, size, flags, error);
    }
    *out = document;
    return MR_OK;
}

/* ---- Making ---- */
void mr_json_set(json_t *object, const char *name, json_t *value, bool *lost) {
    *lost = json_object_set_new(object, name, value) != 0 || *lost;
}

void mr_json_append(json_t *array, json_t *value, bool *lost) {
    *lost = json_array_append_new(array, value) != 0 || *lost;
}

json_t *mr_json_whole(json_t *document, bool lost) {
    if (document && lost) {
        json_decref(document);
        return NULL;
    }
    return document;
}
