/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c - from a JSON document to a checked chain of ops: the order of the steps, each of
 * which has a file of its own (compiler.h). */
#include "plan/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "core/registry.h"

static const char *const structure_keys[] = {"source", "ops",      "cache", "view",
                                             "kinds",  "rehearse", "pace",  "share",
                                             "bucket", "servers",  NULL};

static mr_status write_texts(mr_pipeline *p, mr_error *err) {
    MR_TRY(mr_write_stages(p, err));
    MR_TRY(mr_write_json(p, err));
    MR_TRY(mr_write_prefixes(p, err));
    return mr_write_fingerprint(p, err);
}

static mr_status read_settings(mr_compiler *c, json_t *document) {
    MR_TRY(mr_compile_order(c, document));
    MR_TRY(mr_params_fill(mr_settings_params(), document, "$", "the pipeline", structure_keys,
                          &c->pipeline->settings, c->err));
    return mr_compile_kinds(c, document);
}

/* What may be meant otherwise than it is written. */
static mr_status warn_of_ops(mr_compiler *c) {
    MR_TRY(mr_warn_of_twins(c));
    MR_TRY(mr_warn_of_unnamed_masks(c));
    return mr_warn_of_doubts(c);
}

static mr_status compile_chain(mr_compiler *c, json_t *document) {
    MR_TRY(mr_compile_source(c, document));
    MR_TRY(mr_compile_stream(c, document));
    MR_TRY(mr_check_bucket(c));
    MR_TRY(mr_compile_ops(c, document));
    MR_TRY(mr_check_kinds(c));
    MR_TRY(warn_of_ops(c));
    MR_TRY(mr_find_fused(c));
    MR_TRY(mr_compile_fields(c));
    MR_TRY(mr_warn_of_left_behind(c));
    return mr_find_wanted(c);
}

/* Sources and ops that are checked may look at objects on servers. */
static mr_status compile_within_limits(mr_compiler *c, json_t *document) {
    const mr_far_limits limits = mr_servers_limits(&c->pipeline->servers);
    const mr_far_limits *before = mr_far_limits_hold(&limits);
    mr_status status = compile_chain(c, document);
    mr_far_limits_hold(before);
    return status;
}

static mr_status refuse_in_mix(mr_compiler *c, json_t *document, const char *key,
                               const char *advice) {
    char where[32];
    if (!json_object_get(document, key)) {
        return MR_OK;
    }
    snprintf(where, sizeof where, "$.%s", key);
    mr_error_at_json(c->err, where);
    mr_fail(c->err, MR_E_PARAM, "a mix has no %s", key);
    mr_hint(c->err, "%s", advice);
    return MR_E_PARAM;
}

/* Reading the settings changes the document, and children are made of it as it was. */
static mr_status compile_mix(mr_compiler *c, json_t *document) {
    static const char streams[] = "only a stream that is followed has it, and that is no mix";
    MR_TRY(refuse_in_mix(c, document, "view", "each child may have one of its own"));
    MR_TRY(refuse_in_mix(c, document, "rehearse", streams));
    MR_TRY(refuse_in_mix(c, document, "pace", streams));
    json_t *as_it_was = json_copy(document);
    if (!as_it_was) {
        return mr_fail_memory(c->err, 1024);
    }
    mr_status status = read_settings(c, document);
    if (status == MR_OK) {
        status = mr_compile_mix(c, as_it_was);
    }
    json_decref(as_it_was);
    return status;
}

static mr_status compile(mr_compiler *c, json_t *document) {
    if (mr_is_mix(document)) {
        return compile_mix(c, document);
    }
    MR_TRY(read_settings(c, document));
    MR_TRY(compile_within_limits(c, document));
    return write_texts(c->pipeline, c->err);
}

static mr_status syntax_error(const json_error_t *json, mr_error *err) {
    char text[160];
    mr_text_escape(text, sizeof text, json->text);
    return mr_fail(err, MR_E_PARAM, "not valid JSON: line %d, column %d: %s", json->line,
                   json->column, text);
}

mr_status mr_compile_document(mr_pipeline **out, json_t *document, const mr_tables *tables,
                              bool is_child, mr_error *err) {
    mr_compiler c = {.pipeline = mr_zalloc(1, sizeof(mr_pipeline)),
                     .tables = *tables,
                     .is_child = is_child,
                     .err = err};
    mr_status status = MR_OK;
    if (!c.pipeline) {
        status = mr_fail_memory(err, sizeof(mr_pipeline));
    } else if (!json_is_object(document)) {
        status = mr_fail(err, MR_E_PARAM, "the pipeline must be a JSON object");
    } else {
        status = compile(&c, document);
    }
    mr_compiler_free(&c);
    if (status < 0) {
        mr_pipeline_free(c.pipeline);
        return status;
    }
    *out = c.pipeline;
    return MR_OK;
}

mr_status mr_pipeline_parse_with(mr_pipeline **out, const char *json, size_t size,
                                 const mr_tables *tables, mr_error *err) {
    mr_error local = MR_ERROR_INIT; /* places are noted before failures: keep the caller's clean */
    json_error_t json_error;
    json_t *document = NULL;
    mr_own_tables own = {0};
    mr_tables given;
    if (tables->size < sizeof tables->size) {
        return mr_fail(err, MR_E_PARAM, "the tables lack their size");
    }
    mr_take_sized(&given, sizeof given, tables);
    mr_status loaded = mr_json_load(&document, json, size, JSON_REJECT_DUPLICATES, &json_error);
    if (loaded < 0) {
        return loaded == MR_E_MEMORY ? mr_fail_memory(err, size) : syntax_error(&json_error, err);
    }
    mr_status status = mr_tables_own(&own, given.ops, given.sources, &local);
    const mr_tables known = {sizeof known, own.ops, own.sources};
    status = status == MR_OK ? mr_compile_document(out, document, &known, false, &local) : status;
    json_decref(document);
    if (status == MR_OK) {
        (*out)->tables = own;
        return MR_OK;
    }
    mr_tables_free(&own);
    if (err) {
        *err = local;
    }
    return status;
}

mr_status mr_pipeline_parse(mr_pipeline **out, const char *json, size_t size,
                            const mr_op_class *const *extra_ops, mr_error *err) {
    const mr_tables tables = {.size = sizeof tables, .ops = extra_ops};
    return mr_pipeline_parse_with(out, json, size, &tables, err);
}

/* Those of a mix are its children's. */
static void free_ops(mr_pipeline *p) {
    for (int32_t i = 0; !p->children && i < p->n_ops; i++) {
        if (p->ops[i].params) {
            mr_params_free(p->ops[i].class->params, p->ops[i].params);
            mr_free(p->ops[i].params);
        }
        mr_free(p->ops[i].inputs);
        mr_free(p->ops[i].input_types);
    }
    for (int32_t i = 0; i < p->n_calls; i++) {
        json_decref(p->calls[i].field);
        if (p->calls[i].params) {
            mr_params_free(p->calls[i].class->params, p->calls[i].params);
            mr_free(p->calls[i].params);
        }
    }
    mr_free(p->calls);
    mr_free(p->ops);
}

static void free_source(mr_pipeline *p) {
    if (p->source_params) {
        if (p->source->forget) {
            p->source->forget(p->source_params);
        }
        mr_params_free(p->source->params, p->source_params);
        mr_free(p->source_params);
    }
    for (int32_t i = 0; i < p->n_children; i++) {
        mr_pipeline_free(p->children[i]);
    }
    mr_free(p->children);
    mr_free(p->mix.weights);
}

static void free_texts(mr_pipeline *p) {
    for (int32_t i = 0; p->stage_params && i <= p->n_ops; i++) {
        free(p->stage_params[i]);
    }
    for (int32_t i = 0; i < p->n_warnings; i++) {
        free(p->warnings[i]);
    }
    free(p->warnings);
    mr_free(p->stages);
    mr_free(p->stage_params);
    free(p->json);
}

void mr_pipeline_free(mr_pipeline *p) {
    if (!p) {
        return;
    }
    free_texts(p);
    free_ops(p);
    free_source(p);
    mr_params_free(mr_settings_params(), &p->settings);
    mr_pace_free(&p->pace);
    mr_servers_terms_free(&p->servers);
    mr_view_free(&p->view);
    mr_bucket_terms_free(&p->bucket);
    json_decref(p->kinds);
    mr_free(p->variables);
    mr_free(p->wanted);
    mr_free(p->fields);
    mr_free(p->field_variable);
    mr_collations_free(p);
    mr_tables_free(&p->tables);
    mr_free(p);
}

const char *mr_pipeline_json(const mr_pipeline *p) {
    return p->json;
}

bool mr_pipeline_is_stream(const mr_pipeline *p) {
    return p->is_stream;
}

const char *mr_pipeline_fingerprint(const mr_pipeline *p) {
    return p->fingerprint;
}

const mr_settings *mr_pipeline_settings(const mr_pipeline *p) {
    return &p->settings;
}

int32_t mr_pipeline_n_stages(const mr_pipeline *p) {
    return p->n_ops + 1;
}

const mr_stage *mr_pipeline_stage(const mr_pipeline *p, int32_t i) {
    return i >= 0 && i <= p->n_ops ? &p->stages[i] : NULL;
}

int32_t mr_pipeline_n_fields(const mr_pipeline *p) {
    return p->n_fields;
}

const mr_field *mr_pipeline_field(const mr_pipeline *p, int32_t i) {
    return i >= 0 && i < p->n_fields ? &p->fields[i] : NULL;
}

mr_status mr_pipeline_cache_prefix(const mr_pipeline *p, int32_t i, char out[17]) {
    char hex[33];
    if (i < 1 || i > p->n_ops || !mr_op_is_cache(&p->ops[i - 1])) {
        return MR_E_PARAM;
    }
    mr_hash_hex(p->ops[i - 1].prefix, hex);
    memcpy(out, hex + 16, 17); /* the low half, which keys begin with */
    return MR_OK;
}

const char *mr_pipeline_warning(const mr_pipeline *p, int32_t i) {
    return i >= 0 && i < p->n_warnings ? p->warnings[i] : NULL;
}
