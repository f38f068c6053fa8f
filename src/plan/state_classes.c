/* SPDX-License-Identifier: Apache-2.0 */
/* state_classes.c - see state_classes.h. A dataset's fingerprint says that classes are others;
 * their names say which. */
#include "plan/state_classes.h"

#include <string.h>

#include "core/error.h"
#include "core/json.h"

char *mr_state_classes_text(const json_t *classes) {
    return json_dumps(classes, JSON_COMPACT | JSON_SORT_KEYS);
}

static bool is_names(const json_t *list) {
    bool fits = json_is_array(list);
    for (size_t i = 0; fits && i < json_array_size(list); i++) {
        fits = json_is_string(json_array_get(list, i));
    }
    return fits;
}

bool mr_state_is_classes(json_t *classes) {
    const char *field;
    json_t *list;
    bool fits = json_is_object(classes);
    json_object_foreach(classes, field, list) {
        fits = fits && is_names(list);
    }
    return fits;
}

/* ---- Differences ---- */
/* A name for a message; "(none)": there are not so many. */
static const char *shown(const json_t *list, size_t i, char *out, size_t size) {
    const char *name = json_string_value(json_array_get(list, i));
    return name ? mr_text_escape(out, size, name) : "(none)";
}

static mr_status match_field(const char *field, const json_t *saved, const json_t *current,
                             mr_error *err) {
    char was[100], is[100], name[100];
    size_t n = json_array_size(saved), now = json_array_size(current), i = 0;
    while (i < n && i < now && json_equal(json_array_get(saved, i), json_array_get(current, i))) {
        i++;
    }
    if (i == n && i == now) {
        return MR_OK;
    }
    mr_status status = mr_fail(
        err, MR_E_STATE,
        "the state was saved with other classes: %s had %zu, and has %zu; class %zu was %s and is "
        "%s",
        mr_text_escape(name, sizeof name, field), n, now, i, shown(saved, i, was, sizeof was),
        shown(current, i, is, sizeof is));
    mr_hint(err, "bring back the dataset as it was, or start without the state");
    return status;
}

/* Fields that only the current one has are of no matter: their names were not asked for. */
static mr_status match(json_t *saved, const json_t *current, mr_error *err) {
    const char *field;
    json_t *list;
    mr_status status = MR_OK;
    json_object_foreach(saved, field, list) {
        const json_t *now = json_object_get(current, field);
        status = status == MR_OK ? match_field(field, list, now, err) : status;
    }
    return status;
}

mr_status mr_state_match_classes(const char *saved, const char *current, mr_error *err) {
    json_t *a = NULL, *b = NULL;
    json_error_t ignored;
    if (strcmp(saved, current) == 0) {
        return MR_OK;
    }
    mr_status status = mr_json_load(&a, saved, strlen(saved), 0, &ignored) < 0 ||
                               mr_json_load(&b, current, strlen(current), 0, &ignored) < 0
                           ? mr_fail_memory(err, strlen(saved) + strlen(current))
                           : match(a, b, err);
    json_decref(a);
    json_decref(b);
    return status;
}
