/* SPDX-License-Identifier: Apache-2.0 */
/* secrets.c - see secrets.h. Traces are shown to others, so what they hold of a document is made
 * harmless when it is written. */
#include "core/secrets.h"

#include <millrace/types.h>
#include <string.h>

#include "core/json.h"
#include "core/letters.h"
#include "core/memory.h"

static const char cover[] = "...";

static bool names_secret(const char *name, size_t size) {
    static const char *const words[] = {"password", "secret", "token", "passphrase"};
    bool found = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        for (size_t at = 0; at + length <= size && !found; at++) {
            found = mr_same_letters(name + at, words[i], length);
        }
    }
    return found;
}

/* Text with [from, to) covered. */
static json_t *without(const char *text, size_t from, size_t to) {
    return json_sprintf("%.*s%s%s", (int)from, text, cover, text + to);
}

/* NULL: there is nothing to cover. */
static json_t *covered_text(const char *text) {
    const char *scheme = strstr(text, "://"), *equals = strchr(text, '=');
    if (!scheme) {
        bool secret = equals && names_secret(text, (size_t)(equals - text));
        return secret ? without(text, (size_t)(equals + 1 - text), strlen(text)) : NULL;
    }
    const char *host = scheme + 3, *query = strchr(host, '?');
    const char *at = memchr(host, '@', strcspn(host, "/?#"));
    if (at) {
        return without(text, (size_t)(host - text), (size_t)(at - text));
    }
    bool is_web = mr_same_letters(text, "http", 4);
    return is_web && query ? without(text, (size_t)(query + 1 - text), strlen(text)) : NULL;
}

static void cover_value(json_t *value, bool *lost);

static void cover_object(json_t *object, bool *lost) {
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value) {
        bool secret = json_is_string(value) && names_secret(key, strlen(key));
        json_t *text = secret                  ? json_string(cover)
                       : json_is_string(value) ? covered_text(json_string_value(value))
                                               : NULL;
        if (secret || text) {
            *lost = *lost || !text || json_object_set_new(object, key, text) < 0;
        } else {
            cover_value(value, lost);
        }
    }
}

static void cover_array(json_t *array, bool *lost) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *value = json_array_get(array, i);
        json_t *text = json_is_string(value) ? covered_text(json_string_value(value)) : NULL;
        if (text) {
            *lost = *lost || json_array_set_new(array, i, text) < 0;
        } else {
            cover_value(value, lost);
        }
    }
}

static void cover_value(json_t *value, bool *lost) {
    if (json_is_object(value)) {
        cover_object(value, lost);
    } else if (json_is_array(value)) {
        cover_array(value, lost);
    }
}

char *mr_secrets_covered(const char *document) {
    json_t *whole = NULL;
    json_error_t error;
    bool lost = false;
    if (mr_json_load(&whole, document, strlen(document), 0, &error) < 0) {
        return NULL;
    }
    cover_value(whole, &lost);
    char *text = lost ? NULL : json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    return text;
}
