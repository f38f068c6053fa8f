/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_source.c - the source, and the fields it gives. */
#include "plan/compiler.h"

#include <stdio.h>

#include "core/error.h"
#include "core/params.h"

static mr_status describe(void *user, mr_field *fields, int32_t capacity, int32_t *n,
                          mr_error *err) {
    const mr_pipeline *p = user;
    return p->source->describe(p->source_params, fields, capacity, n, err);
}

static mr_status add_fields(mr_compiler *c) {
    const mr_field_maker maker = {describe, c->pipeline, false};
    MR_TRY(mr_make_room(c, 8));
    MR_TRY(mr_add_variables(c, &maker, &c->pipeline->n_source_fields));
    for (; c->n_now < c->pipeline->n_source_fields; c->n_now++) {
        c->now[c->n_now] = c->n_now;
    }
    return MR_OK;
}

mr_status mr_compile_source(mr_compiler *c, json_t *document) {
    mr_pipeline *p = c->pipeline;
    json_t *item = json_object_get(document, "source"), *params = NULL;
    const char *name = NULL;
    char what[64], where[96];
    if (!item) {
        mr_error_at_json(c->err, "$.source");
        mr_fail(c->err, MR_E_PARAM, "the pipeline has no source");
        mr_hint(c->err, "add \"source\": {\"files\": {\"path\": \"photos\"}}");
        return MR_E_PARAM;
    }
    MR_TRY(mr_split_call(item, "source", "$.source", &name, &params, c->err));
    p->source = mr_find_source(c, name);
    if (!p->source) {
        return mr_unknown_name(c, true, name, "$.source");
    }
    p->source_params = mr_new_params(p->source->param_size, p->source->user);
    if (!p->source_params) {
        return mr_fail_memory(c->err, p->source->param_size);
    }
    snprintf(what, sizeof what, "source %s", p->source->name);
    snprintf(where, sizeof where, "$.source.%s", p->source->name);
    MR_TRY(mr_params_fill(p->source->params, params, where, what, NULL, p->source_params, c->err));
    mr_error_at_json(c->err, where);
    if (p->source->check) {
        MR_TRY(p->source->check(p->source_params, c->err));
    }
    return add_fields(c);
}
