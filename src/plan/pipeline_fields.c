/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_fields.c - fields by name: the ones that ops work on, and those that are delivered. */
#include "plan/compiler.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/pattern.h"

/* The variable of a field of the sample as it is now, or -1. */
static int32_t find_field(const mr_compiler *c, const char *name) {
    for (int32_t i = 0; i < c->n_now; i++) {
        if (strcmp(c->names[c->now[i]], name) == 0) {
            return c->now[i];
        }
    }
    return -1;
}

static const char *source_words(const mr_pipeline *p, char *buffer, size_t size) {
    snprintf(buffer, size, "source %s", p->source->name);
    return buffer;
}

static mr_status unknown_field(const mr_compiler *c, const char *name, const char *where) {
    const mr_pipeline *p = c->pipeline;
    char list[160] = "", shown[64], words[64];
    for (int32_t i = 0; i < c->n_now; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", c->names[c->now[i]]);
    }
    mr_text_escape(shown, sizeof shown, name);
    mr_error_at_json(c->err, where);
    mr_fail(c->err, MR_E_PARAM, "there is no field \"%s\"", shown);
    mr_hint(c->err, "%s has: %s",
            p->n_variables > p->n_source_fields ? "the sample"
                                                : source_words(p, words, sizeof words),
            list);
    return MR_E_PARAM;
}

static void add_once(mr_choice *choice, int32_t variable) {
    for (int32_t i = 0; i < choice->n; i++) {
        if (choice->variables[i] == variable) {
            return;
        }
    }
    choice->variables[choice->n++] = variable;
}

/* Optional fields are there for those who name them. */
static bool fits(const mr_compiler *c, int32_t variable, const char *pattern) {
    return !c->pipeline->variables[variable].optional &&
           mr_pattern_fits(pattern, c->names[variable]);
}

mr_status mr_choose_by(const mr_compiler *c, const char *name, const char *where, mr_choice *out) {
    int32_t variable = find_field(c, name), before = out->n;
    if (variable >= 0) {
        add_once(out, variable);
        return MR_OK;
    }
    for (int32_t i = 0; mr_is_pattern(name) && i < c->n_now; i++) {
        if (fits(c, c->now[i], name)) {
            add_once(out, c->now[i]);
        }
    }
    return out->n > before ? MR_OK : unknown_field(c, name, where);
}

static mr_status choose_given(const mr_compiler *c, json_t *given, const char *where,
                              mr_choice *out) {
    size_t n = json_is_array(given) ? json_array_size(given) : 1;
    for (size_t i = 0; i < n; i++) {
        json_t *name = json_is_array(given) ? json_array_get(given, i) : given;
        if (!json_is_string(name)) {
            mr_error_at_json(c->err, where);
            return mr_fail(c->err, MR_E_PARAM, "field must be a string or a list of them");
        }
        MR_TRY(mr_choose_by(c, json_string_value(name), where, out));
    }
    if (out->n == 0) {
        mr_error_at_json(c->err, where);
        return mr_fail(c->err, MR_E_PARAM, "field is an empty list");
    }
    return MR_OK;
}

mr_status mr_choose_fields(const mr_compiler *c, json_t *params, const char *where,
                           mr_choice *out) {
    json_t *given = params ? json_object_get(params, "field") : NULL;
    char path[160];
    out->variables = mr_zalloc((size_t)c->n_now, sizeof *out->variables);
    if (!out->variables) {
        return mr_fail_memory(c->err, (size_t)c->n_now * sizeof *out->variables);
    }
    if (!given) {
        out->variables[out->n++] = c->now[0];
        return MR_OK;
    }
    snprintf(path, sizeof path, "%s.field", where);
    MR_TRY(choose_given(c, given, path, out));
    out->given = given;
    out->is_first = json_is_string(given) && out->n == 1 && out->variables[0] == c->now[0] &&
                    !mr_is_pattern(json_string_value(given));
    return MR_OK;
}

/* ---- Delivered fields ---- */
static void deliver(mr_compiler *c, int32_t variable) {
    mr_pipeline *p = c->pipeline;
    p->fields[p->n_fields] = p->variables[variable];
    p->fields[p->n_fields].name = c->names[variable];
    p->fields[p->n_fields].type = c->types[variable];
    p->field_variable[p->n_fields] = variable;
    p->n_fields++;
}

bool mr_is_delivered(const mr_pipeline *p, int32_t variable) {
    for (int32_t i = 0; i < p->n_fields; i++) {
        if (p->field_variable[i] == variable) {
            return true;
        }
    }
    return false;
}

static mr_status deliver_named(mr_compiler *c, int32_t i, mr_choice *choice) {
    mr_pipeline *p = c->pipeline;
    const char *name = p->settings.fields.v[i];
    char where[64];
    snprintf(where, sizeof where, "$.fields[%d]", i);
    choice->n = 0;
    MR_TRY(mr_choose_by(c, name, where, choice));
    for (int32_t k = 0; k < choice->n; k++) {
        if (!mr_is_delivered(p, choice->variables[k])) {
            deliver(c, choice->variables[k]);
        } else if (!mr_is_pattern(name)) {
            mr_error_at_json(c->err, where);
            return mr_fail(c->err, MR_E_PARAM, "field \"%s\" is listed twice", name);
        }
    }
    return MR_OK;
}

static mr_status deliver_listed(mr_compiler *c) {
    mr_choice choice = {.variables = mr_zalloc((size_t)c->n_now, sizeof *choice.variables)};
    mr_status status = choice.variables
                           ? MR_OK
                           : mr_fail_memory(c->err, (size_t)c->n_now * sizeof *choice.variables);
    for (int32_t i = 0; status == MR_OK && i < c->pipeline->settings.fields.n; i++) {
        status = deliver_named(c, i, &choice);
    }
    mr_free(choice.variables);
    return status;
}

mr_status mr_compile_fields(mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    p->fields = mr_zalloc((size_t)c->n_now, sizeof *p->fields);
    p->field_variable = mr_zalloc((size_t)c->n_now, sizeof *p->field_variable);
    if (!p->fields || !p->field_variable) {
        return mr_fail_memory(c->err, (size_t)c->n_now * sizeof *p->fields);
    }
    MR_TRY(deliver_listed(c));
    for (int32_t i = 0; p->settings.fields.n == 0 && i < c->n_now; i++) {
        if (!p->variables[c->now[i]].optional) {
            deliver(c, c->now[i]);
        }
    }
    MR_TRY(mr_check_batch_fields(c));
    return mr_compile_collations(c);
}

/* What an op takes is wanted even if nobody takes what it makes: it may fail on it. */
mr_status mr_find_wanted(mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    p->wanted = mr_zalloc((size_t)p->n_variables, sizeof *p->wanted);
    if (!p->wanted) {
        return mr_fail_memory(c->err, (size_t)p->n_variables);
    }
    for (int32_t i = 0; i < p->n_fields; i++) {
        p->wanted[p->field_variable[i]] = true;
    }
    for (const mr_op_node *node = p->ops; node < p->ops + p->n_ops; node++) {
        for (int32_t k = 0; k < node->n_inputs; k++) {
            p->wanted[node->inputs[k]] = true;
        }
        p->wanted[node->field] = p->wanted[node->field] || !mr_op_is_cache(node);
    }
    return MR_OK;
}
