/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_text.c - a compiled pipeline as text: stages for people, the canonical document, and
 * fingerprints. */
#include "plan/compiler.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"

/* ---- Canonical text and fingerprint ---- */
static json_t *call_json(const char *name, const mr_param *rows, const void *params,
                         json_t *field) {
    json_t *inner = mr_params_json(rows, params);
    if (inner && field && json_object_set(inner, "field", field) != 0) {
        json_decref(inner);
        inner = NULL;
    }
    return inner ? json_pack("{s:o}", name, inner) : NULL;
}

static json_t *ops_json(const mr_pipeline *p) {
    json_t *list = json_array();
    for (int32_t i = 0; i < p->n_calls; i++) {
        const mr_op_call *call = &p->calls[i];
        const void *params = call->node >= 0 ? p->ops[call->node].params : call->params;
        json_t *object = call_json(call->class->name, call->class->params, params, call->field);
        if (!object || json_array_append_new(list, object) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Numbers as short as they can be written and still be read back as themselves: 0.08, not
 * 0.080000000000000002. */
char *mr_dump_json(json_t *value) {
    char *text = NULL;
    bool exact = false;
    for (size_t digits = 15; value && !exact && digits <= 17; digits++) {
        free(text);
        text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits));
        json_t *again = NULL;
        json_error_t error;
        if (!text || mr_json_load(&again, text, strlen(text), JSON_DECODE_ANY, &error) < 0) {
            free(text);
            return NULL;
        }
        exact = json_equal(value, again) != 0;
        json_decref(again);
    }
    return text;
}

mr_status mr_write_json(mr_pipeline *p, mr_error *err) {
    json_t *document = json_object();
    json_t *settings = mr_settings_json(&p->settings);
    json_t *source = call_json(p->source->name, p->source->params, p->source_params, NULL);
    bool whole = json_object_set_new(document, "source", source) == 0 && /* takes it either way */
                 json_object_set_new(document, "ops", ops_json(p)) == 0 && settings &&
                 json_object_update(document, settings) == 0 &&
                 mr_write_order(p, document) == MR_OK && mr_write_stream(p, document) == MR_OK &&
                 mr_write_share(p, document) == MR_OK && mr_write_bucket(p, document) == MR_OK &&
                 (!p->kinds || json_object_set(document, "kinds", p->kinds) == 0);
    p->json = whole ? mr_dump_json(document) : NULL;
    json_decref(settings);
    json_decref(document);
    return p->json ? MR_OK : mr_fail_memory(err, 1024);
}

static void hash_source(const mr_pipeline *p, mr_hasher *hasher) {
    mr_hasher_text(hasher, p->source->name);
    mr_hasher_number(hasher, p->source->version);
    mr_hasher_number(hasher,
                     p->settings.fuse); /* decides which damage is seen, so what is skipped */
}

/* Ops inside an op: what they are stands in its parameters, but for their versions. */
static void hash_inner(const mr_param *rows, const void *params, mr_hasher *hasher) {
    for (const mr_param *row = rows; row && row->name; row++) {
        const mr_ops *ops = (const void *)((const char *)params + row->offset);
        for (int32_t i = 0; row->kind == MR_PARAM_OPS && i < ops->n; i++) {
            mr_hasher_number(hasher, ops->v[i].op->version);
            hash_inner(ops->v[i].op->params, ops->v[i].params, hasher);
        }
    }
}

/* A cache changes no byte, so it is no part of any fingerprint. Ops of a group share draws, which
 * neither name nor place tells. */
static void hash_op(const mr_pipeline *p, int32_t i, mr_hasher *hasher) {
    const mr_op_node *node = &p->ops[i];
    if (mr_op_is_cache(node)) {
        return;
    }
    mr_hasher_text(hasher, node->class->name);
    mr_hasher_number(hasher, node->class->version);
    mr_hasher_text(hasher, node->field_name);
    mr_hasher_text(hasher, p->stages[i + 1].params);
    if (node->group >= 0) {
        mr_hasher_text(hasher, "one of several fields");
        mr_hasher_number(hasher, node->op_word);
    }
    hash_inner(node->class->params, node->params, hasher);
    if (node->spares_mask) {
        mr_hasher_text(hasher, "mask");
    }
    if (node->follows) {
        mr_hasher_text(hasher, node->kind == MR_KIND_BOXES ? "boxes" : "points");
        mr_hasher_bytes(hasher, &node->min_visible, sizeof node->min_visible);
        if (node->format != MR_BOX_CORNERS) {
            mr_hasher_number(hasher, (int64_t)node->format);
        }
    }
    bool on_several = node->class->run_sample || (node->flags & MR_OP_BATCH);
    for (int32_t k = 1; on_several && node->named && k < node->n_inputs; k++) {
        mr_hasher_text(hasher, p->variables[node->inputs[k]].name);
    }
}

static void hash_libraries(const mr_op_class *op, const void *params, mr_hasher *hasher) {
    char text[512] = "";
    if (op->libraries) {
        op->libraries(text, sizeof text);
        mr_hasher_text(hasher, text);
    }
    for (const mr_param *row = op->params; row && row->name; row++) {
        const mr_ops *inner = (const void *)((const char *)params + row->offset);
        for (int32_t i = 0; row->kind == MR_PARAM_OPS && i < inner->n; i++) {
            hash_libraries(inner->v[i].op, inner->v[i].params, hasher);
        }
    }
}

/* What a cache's values depend on besides the sample: the way there, the libraries that were used,
 * and which fields are kept. */
static mr_status write_prefix(mr_pipeline *p, int32_t cache, mr_error *err) {
    mr_op_node *node = &p->ops[cache];
    mr_hasher *hasher = mr_hasher_new();
    if (!hasher) {
        return mr_fail_memory(err, 576);
    }
    hash_source(p, hasher);
    for (int32_t i = 0; i < cache; i++) {
        hash_op(p, i, hasher);
        hash_libraries(p->ops[i].class, p->ops[i].params, hasher);
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        mr_hasher_text(hasher, p->variables[node->inputs[k]].name);
    }
    node->prefix = mr_hasher_value(hasher);
    mr_hasher_free(hasher);
    return MR_OK;
}

mr_status mr_write_prefixes(mr_pipeline *p, mr_error *err) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (mr_op_is_cache(&p->ops[i])) {
            MR_TRY(write_prefix(p, i, err));
        }
    }
    return MR_OK;
}

/* Everything that a sample's bytes depend on besides the dataset, the seed and the position. */
mr_status mr_write_fingerprint(mr_pipeline *p, mr_error *err) {
    mr_hasher *hasher = mr_hasher_new();
    if (!hasher) {
        return mr_fail_memory(err, 576);
    }
    hash_source(p, hasher);
    for (int32_t i = 0; i < p->n_ops; i++) {
        hash_op(p, i, hasher);
    }
    for (int32_t i = 0; i < p->n_fields; i++) {
        mr_hasher_text(hasher, p->fields[i].name);
    }
    mr_status status = mr_hash_order(p, hasher);
    mr_hash_stream(p, hasher);
    mr_hash_hex(mr_hasher_value(hasher), p->fingerprint);
    mr_hasher_free(hasher);
    return status < 0 ? mr_fail_memory(err, 576) : MR_OK;
}

/* ---- Stages, for people ---- */
static mr_status add_stage(mr_pipeline *p, int32_t i, const char *name, const mr_param *rows,
                           const void *params, const char *field, const mr_type *out,
                           mr_error *err) {
    json_t *object = mr_params_json(rows, params);
    p->stage_params[i] = mr_dump_json(object);
    json_decref(object);
    p->stages[i] = (mr_stage){name, p->stage_params[i], field, *out};
    return p->stage_params[i] ? MR_OK : mr_fail_memory(err, 1024);
}

mr_status mr_write_stages(mr_pipeline *p, mr_error *err) {
    size_t n = (size_t)p->n_ops + 1;
    p->stages = mr_zalloc(n, sizeof *p->stages);
    p->stage_params = mr_zalloc(n, sizeof *p->stage_params);
    if (!p->stages || !p->stage_params) {
        return mr_fail_memory(err, n * sizeof *p->stages);
    }
    MR_TRY(add_stage(p, 0, p->source->name, p->source->params, p->source_params,
                     p->variables[0].name, &p->variables[0].type, err));
    for (int32_t i = 0; i < p->n_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        const char *field =
            node->n_outputs > 0 ? p->variables[node->first_output].name : node->field_name;
        MR_TRY(add_stage(p, i + 1, node->class->name, node->class->params, node->params, field,
                         &node->out, err));
    }
    return MR_OK;
}
