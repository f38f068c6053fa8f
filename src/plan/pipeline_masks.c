/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_masks.c - parameters of an op on a mask, whose numbers are names: some are not the
 * user's to choose there (`for_mask` in param.h), also those of ops inside the op. What is not
 * well-formed is left as it is, for others to complain of. */
#include "plan/compiler.h"

#include <string.h>

#include "core/json.h"
#include "core/registry.h"

static bool set_text(json_t *object, const char *name, const char *text) {
    json_t *value = NULL;
    json_error_t error;
    mr_json_load(&value, text, strlen(text), JSON_DECODE_ANY, &error);
    return json_object_set_new(object, name, value) == 0;
}

/* "NAME" or {"NAME": {...}}, with its parameters changed; a new reference, NULL: no memory. */
static json_t *call_on_mask(json_t *call) {
    void *only =
        json_is_object(call) && json_object_size(call) == 1 ? json_object_iter(call) : NULL;
    const char *name = only ? json_object_iter_key(only) : json_string_value(call);
    const mr_op_class *op = name ? mr_op_find(name) : NULL;
    if (!op) {
        return json_incref(call);
    }
    json_t *params = mr_params_on_mask(op->params, only ? json_object_iter_value(only) : NULL);
    return params ? json_pack("{s:o}", name, params) : NULL;
}

static bool set_calls(json_t *object, const char *name, json_t *given) {
    size_t n = json_is_array(given) ? json_array_size(given) : 1;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *call = call_on_mask(json_is_array(given) ? json_array_get(given, i) : given);
        if (json_array_append_new(list, call) != 0) {
            json_decref(list);
            return false;
        }
    }
    return json_object_set_new(object, name, list) == 0;
}

json_t *mr_params_on_mask(const mr_param *rows, json_t *params) {
    if (params && !json_is_object(params)) {
        return json_incref(params);
    }
    json_t *own = params ? json_copy(params) : json_object();
    bool whole = own != NULL;
    for (const mr_param *row = rows; whole && row && row->name; row++) {
        json_t *given = json_object_get(own, row->name);
        if (row->for_mask) {
            whole = set_text(own, row->name, row->for_mask);
        } else if (row->kind == MR_PARAM_OPS && given) {
            whole = set_calls(own, row->name, given);
        }
    }
    if (!whole) {
        json_decref(own);
        return NULL;
    }
    return own;
}
