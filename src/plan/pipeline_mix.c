/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_mix.c - several pipelines in one:
 *
 *     "source": {"mix": {"children": [{"weight": 3, "source": ..., "ops": [...], "view": [...],
 *                                      "shuffle": ...}, ...], "round": 1000, "length": 0}},
 *     "ops": [...]
 *
 * Each child becomes a whole pipeline, with the document's own ops behind the child's and with its
 * settings: so nothing that follows knows of two kinds of ops. */
#include "plan/compiler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"

/* ---- The mix's own parameters ---- */
typedef struct mix_params {
    int64_t round, length;
} mix_params;

static const mr_param rows[] = {
    {.name = "round",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mix_params, round),
     .fallback = "1000",
     .min = 1,
     .max = MR_MAX_ROUND,
     .doc = "So many positions (times lanes) hold each child exactly by its weight."},
    {.name = "length",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mix_params, length),
     .fallback = "0",
     .min = 0,
     .max = (double)((int64_t)1 << 48),
     .doc = "Samples of an epoch; 0: as many as all children together have."},
    {.name = NULL},
};

static const char *const structure_keys[] = {"children", NULL};
static const char *const child_keys[] = {"weight",  "source", "ops",   "view",
                                         "shuffle", "cache",  "kinds", NULL};

bool mr_is_mix(const json_t *document) {
    const json_t *source = json_object_get(document, "source");
    return json_is_object(source) && json_object_get(source, "mix") != NULL;
}

/* ---- A child's document ---- */
static mr_status wrong_child(const mr_compiler *c, int32_t i, const char *key, const char *text) {
    char where[96];
    snprintf(where, sizeof where, "$.source.mix.children[%d]%s%s", i, key[0] ? "." : "", key);
    mr_error_at_json(c->err, where);
    return mr_fail(c->err, MR_E_PARAM, "%s", text);
}

static const char *next_child_key(void *user) {
    const char *const **cursor = user;
    return **cursor ? *(*cursor)++ : NULL;
}

static mr_status check_keys(const mr_compiler *c, int32_t i, json_t *child) {
    const char *key;
    json_t *value;
    json_object_foreach(child, key, value) {
        const char *const *known = child_keys;
        while (*known && strcmp(*known, key) != 0) {
            known++;
        }
        if (!*known) {
            wrong_child(c, i, key, "unknown key of a child");
            const char *const *cursor = child_keys;
            const char *nearest = mr_nearest_name(key, next_child_key, &cursor);
            mr_hint(c->err,
                    "%s%s%sa child has weight, source, ops, view, shuffle, cache and kinds; "
                    "everything else is said once, for all",
                    nearest ? "did you mean \"" : "", nearest ? nearest : "",
                    nearest ? "\"? " : "");
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

static mr_status read_weight(const mr_compiler *c, int32_t i, json_t *child, double *out) {
    json_t *weight = json_object_get(child, "weight");
    *out = weight ? json_number_value(weight) : 1;
    return (!weight || json_is_number(weight)) && isfinite(*out) && *out > 0
               ? MR_OK
               : wrong_child(c, i, "weight", "weight must be a number above 0");
}

/* The child's ops, then those of all. */
static json_t *join_ops(json_t *own, json_t *common) {
    json_t *all = own ? json_copy(own) : json_array();
    bool lists = json_is_array(all) && (!common || json_is_array(common));
    if (all && common && lists && json_array_extend(all, common) != 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

/* A new reference, or NULL: no memory. */
static json_t *compose(json_t *document, json_t *child) {
    json_t *whole = json_copy(document);
    bool fine = whole && json_object_update(whole, child) == 0;
    if (fine) {
        json_object_del(whole, "weight");
        fine = (json_object_get(child, "source") || json_object_del(whole, "source") == 0) &&
               json_object_set_new(
                   whole, "ops",
                   join_ops(json_object_get(child, "ops"), json_object_get(document, "ops"))) == 0;
    }
    if (!fine) {
        json_decref(whole);
    }
    return fine ? whole : NULL;
}

/* ---- Places of errors: those of the composed document are not the user's ---- */
static void name_place(mr_error *err, int32_t child, size_t own_ops) {
    char was[sizeof err->where], *rest = NULL;
    static const char ops[] = "$.ops[";
    snprintf(was, sizeof was, "%s", err->where);
    bool in_ops = strncmp(was, ops, sizeof ops - 1) == 0;
    unsigned long index = in_ops ? strtoul(was + sizeof ops - 1, &rest, 10) : 0;
    if (in_ops && index >= own_ops) {
        snprintf(err->where, sizeof err->where, "$.ops[%lu%.*s", index - (unsigned long)own_ops, 96,
                 rest);
    } else if (in_ops || strncmp(was, "$.source", 8) == 0 || strncmp(was, "$.view", 6) == 0 ||
               strncmp(was, "$.shuffle", 9) == 0) {
        snprintf(err->where, sizeof err->where, "$.source.mix.children[%d]%.*s", child, 96,
                 was + 1);
    }
}

static mr_status compile_child(mr_compiler *c, json_t *document, json_t *child, int32_t i) {
    mr_pipeline *p = c->pipeline;
    if (!json_is_object(child)) {
        return wrong_child(c, i, "", "a child of a mix must be an object");
    }
    MR_TRY(check_keys(c, i, child));
    MR_TRY(read_weight(c, i, child, &p->mix.weights[i]));
    if (mr_is_mix(child)) {
        return wrong_child(c, i, "source", "a mix cannot be a child of a mix");
    }
    json_t *whole = compose(document, child);
    if (!whole) {
        return mr_fail_memory(c->err, 1024);
    }
    mr_status status = mr_compile_document(&p->children[i], whole, &c->tables, true, c->err);
    json_decref(whole);
    if (status < 0) {
        name_place(c->err, i, json_array_size(json_object_get(child, "ops")));
        return status;
    }
    p->n_children++;
    return MR_OK;
}

/* ---- Fields: the same of all children, in the same order ---- */
static mr_status differ(const mr_compiler *c, int32_t child, const mr_field *a, const mr_field *b) {
    char one[128], other[128];
    mr_error_at_json(c->err, "$.source.mix");
    mr_fail(c->err, MR_E_TYPE, "child 0 gives %s: %s, child %d gives %s: %s", a->name,
            mr_type_text(&a->type, one, sizeof one), (int)child, b->name,
            mr_type_text(&b->type, other, sizeof other));
    mr_hint(c->err, "all children of a mix give the same fields: \"fields\" chooses some, rename "
                    "and cast change them");
    return MR_E_TYPE;
}

static bool are_alike(const mr_field *a, const mr_field *b) {
    return strcmp(a->name, b->name) == 0 && a->type.dtype == b->type.dtype &&
           a->type.layout == b->type.layout && a->type.n_dims == b->type.n_dims;
}

/* What differs in size from child to child varies. */
static mr_status unite_field(const mr_compiler *c, int32_t f) {
    mr_pipeline *p = c->pipeline;
    mr_field *field = &p->fields[f];
    *field = p->children[0]->fields[f];
    for (int32_t i = 1; i < p->n_children; i++) {
        const mr_field *other = &p->children[i]->fields[f];
        if (!are_alike(field, other)) {
            return differ(c, i, field, other);
        }
        for (int32_t d = 0; d < field->type.n_dims; d++) {
            bool same = field->type.dims[d] == other->type.dims[d];
            field->type.dims[d] = same ? field->type.dims[d] : -1;
        }
    }
    for (int32_t i = 0; i < p->n_children; i++) {
        p->children[i]->fields[f].type = field->type;
    }
    return MR_OK;
}

static mr_status unite_fields(const mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    int32_t n = p->children[0]->n_fields;
    for (int32_t i = 1; i < p->n_children; i++) {
        if (p->children[i]->n_fields != n) {
            mr_error_at_json(c->err, "$.source.mix");
            mr_fail(c->err, MR_E_TYPE, "child 0 gives %d fields, child %d gives %d", (int)n, (int)i,
                    (int)p->children[i]->n_fields);
            mr_hint(c->err, "\"fields\" chooses those that all have");
            return MR_E_TYPE;
        }
    }
    p->fields = mr_zalloc((size_t)n, sizeof *p->fields);
    if (!p->fields) {
        return mr_fail_memory(c->err, (size_t)n * sizeof *p->fields);
    }
    for (p->n_fields = 0; p->n_fields < n; p->n_fields++) {
        MR_TRY(unite_field(c, p->n_fields));
    }
    return MR_OK;
}

/* ---- Ops on batches: the same for all, so they stand behind all children ---- */
static mr_status check_batch_op(const mr_compiler *c, const mr_pipeline *child, int32_t i,
                                const mr_op_node *node, size_t own_ops) {
    if ((size_t)node->call < own_ops) {
        wrong_child(c, i, "ops", "an op on batches works on samples of all children");
        mr_hint(c->err, "put %s into the document's own ops", node->class->name);
        return MR_E_PARAM;
    }
    for (int32_t f = 0; !node->class->collate && f < child->n_fields; f++) {
        for (int32_t k = 0; k < node->n_inputs; k++) {
            if (child->field_variable[f] == node->inputs[k] &&
                mr_type_bytes(&child->fields[f].type) < 0) {
                mr_error_at_json(c->err, "$.source.mix");
                return mr_fail(
                    c->err, MR_E_TYPE,
                    "%s works on whole batches, and %s has other sizes in other children",
                    node->class->name, child->fields[f].name);
            }
        }
    }
    return MR_OK;
}

static mr_status check_batch_ops(const mr_compiler *c, json_t *children) {
    mr_pipeline *p = c->pipeline;
    p->n_batch_ops = p->children[0]->n_batch_ops;
    for (int32_t i = 0; i < p->n_children; i++) {
        const mr_pipeline *child = p->children[i];
        size_t own = json_array_size(json_object_get(json_array_get(children, (size_t)i), "ops"));
        for (int32_t k = child->n_ops - child->n_batch_ops; k < child->n_ops; k++) {
            MR_TRY(check_batch_op(c, child, i, &child->ops[k], own));
        }
    }
    return mr_unite_collations(c);
}

/* ---- All children's ops in one list, for those who count and name them ---- */
static mr_status list_ops(mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_children; i++) {
        p->children[i]->first_op = n;
        n += p->children[i]->n_ops;
    }
    p->ops = mr_zalloc((size_t)n, sizeof *p->ops);
    if (!p->ops) {
        return mr_fail_memory(c->err, (size_t)n * sizeof *p->ops);
    }
    for (int32_t i = 0; i < p->n_children; i++) {
        for (int32_t k = 0; k < p->children[i]->n_ops; k++) {
            p->ops[p->n_ops++] = p->children[i]->ops[k];
        }
    }
    return MR_OK;
}

static mr_status list_stages(mr_compiler *c, const char *params) {
    mr_pipeline *p = c->pipeline;
    size_t n = (size_t)p->n_ops + 1;
    p->stages = mr_zalloc(n, sizeof *p->stages);
    p->stage_params = mr_zalloc(n, sizeof *p->stage_params);
    if (!p->stages || !p->stage_params || !(p->stage_params[0] = strdup(params))) {
        return mr_fail_memory(c->err, n * sizeof *p->stages);
    }
    p->stages[0] = (mr_stage){"mix", p->stage_params[0], p->fields[0].name, p->fields[0].type};
    for (int32_t i = 0; i < p->n_children; i++) {
        const mr_pipeline *child = p->children[i];
        for (int32_t k = 0; k < child->n_ops; k++) {
            p->stages[1 + child->first_op + k] = child->stages[1 + k];
        }
    }
    return MR_OK;
}

/* ---- Text ---- */
/* A child as it may be written again: with the common ops, which the mix then has none of. */
static json_t *child_json(const mr_pipeline *p, int32_t i) {
    const char *text = p->children[i]->json;
    json_t *child = NULL, *own = json_object();
    json_error_t ignored;
    bool fine = mr_json_load(&child, text, strlen(text), 0, &ignored) == MR_OK && own &&
                json_object_set_new(own, "weight", json_real(p->mix.weights[i])) == 0;
    for (const char *const *key = child_keys + 1; fine && *key; key++) {
        json_t *value = json_object_get(child, *key);
        fine = !value || json_object_set(own, *key, value) == 0;
    }
    json_decref(child);
    if (!fine) {
        json_decref(own);
    }
    return fine ? own : NULL;
}

static json_t *mix_json(const mr_pipeline *p) {
    json_t *children = json_array();
    for (int32_t i = 0; children && i < p->n_children; i++) {
        if (json_array_append_new(children, child_json(p, i)) != 0) {
            json_decref(children);
            children = NULL;
        }
    }
    return children ? json_pack("{s:{s:o, s:I, s:I}}", "mix", "children", children, "round",
                                (json_int_t)p->mix.round, "length", (json_int_t)p->mix.length)
                    : NULL;
}

static mr_status write_json(mr_pipeline *p, mr_error *err) {
    json_t *document = json_object();
    json_t *settings = mr_settings_json(&p->settings);
    bool whole = document && settings &&
                 json_object_set_new(document, "source", mix_json(p)) == 0 &&
                 json_object_set_new(document, "ops", json_array()) == 0 &&
                 json_object_update(document, settings) == 0 &&
                 mr_write_share(p, document) == MR_OK && mr_write_bucket(p, document) == MR_OK;
    p->json = whole ? mr_dump_json(document) : NULL;
    json_decref(settings);
    json_decref(document);
    return p->json ? MR_OK : mr_fail_memory(err, 1024);
}

static mr_status write_fingerprint(mr_pipeline *p, mr_error *err) {
    mr_hasher *hasher = mr_hasher_new();
    if (!hasher) {
        return mr_fail_memory(err, 576);
    }
    mr_hasher_text(hasher, "mix");
    mr_hasher_number(hasher, p->mix.round);
    mr_hasher_number(hasher, p->mix.length);
    for (int32_t i = 0; i < p->n_children; i++) {
        mr_hasher_text(hasher, p->children[i]->fingerprint);
        mr_hasher_number(hasher, p->children[i]->settings.shuffle);
        mr_hasher_bytes(hasher, &p->mix.weights[i], sizeof p->mix.weights[i]);
    }
    mr_hash_hex(mr_hasher_value(hasher), p->fingerprint);
    mr_hasher_free(hasher);
    return MR_OK;
}

static mr_status keep_warnings(mr_compiler *c) {
    const mr_pipeline *p = c->pipeline;
    for (int32_t i = 0; i < p->n_children; i++) {
        for (int32_t k = 0; k < p->children[i]->n_warnings; k++) {
            MR_TRY(mr_add_warning(c, p->children[i]->warnings[k]));
        }
    }
    return MR_OK;
}

/* ---- All of it ---- */
static mr_status read_terms(mr_compiler *c, json_t *mix, size_t *n) {
    mr_pipeline *p = c->pipeline;
    json_t *children = json_object_get(mix, "children");
    mix_params params = {0};
    MR_TRY(mr_params_fill(rows, mix, "$.source.mix", "the mix", structure_keys, &params, c->err));
    *n = json_array_size(children);
    if (*n < 1 || *n > MR_MAX_CHILDREN) {
        mr_error_at_json(c->err, "$.source.mix.children");
        return mr_fail(c->err, MR_E_PARAM, "children must be a list of 1 to %d pipelines",
                       MR_MAX_CHILDREN);
    }
    p->mix = (mr_mix_terms){.n_children = (int32_t)*n,
                            .round = params.round,
                            .length = params.length,
                            .weights = mr_zalloc(*n, sizeof *p->mix.weights)};
    p->children = mr_zalloc(*n, sizeof(mr_pipeline *));
    return p->mix.weights && p->children ? MR_OK : mr_fail_memory(c->err, *n * sizeof(double));
}

static mr_status write_texts(mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    json_t *terms = json_pack("{s:I, s:I, s:I}", "children", (json_int_t)p->n_children, "round",
                              (json_int_t)p->mix.round, "length", (json_int_t)p->mix.length);
    char *text = terms ? json_dumps(terms, JSON_COMPACT) : NULL;
    json_decref(terms);
    mr_status status = text ? list_stages(c, text) : mr_fail_memory(c->err, 64);
    free(text);
    MR_TRY(status);
    MR_TRY(write_json(p, c->err));
    return write_fingerprint(p, c->err);
}

mr_status mr_compile_mix(mr_compiler *c, json_t *document) {
    json_t *mix = json_object_get(json_object_get(document, "source"), "mix");
    json_t *children = json_object_get(mix, "children");
    size_t n = 0;
    if (!json_is_object(mix)) {
        mr_error_at_json(c->err, "$.source.mix");
        return mr_fail(c->err, MR_E_PARAM, "mix must be an object with children");
    }
    MR_TRY(read_terms(c, mix, &n));
    for (size_t i = 0; i < n; i++) {
        MR_TRY(compile_child(c, document, json_array_get(children, i), (int32_t)i));
    }
    MR_TRY(unite_fields(c));
    MR_TRY(check_batch_ops(c, children));
    MR_TRY(list_ops(c));
    MR_TRY(keep_warnings(c));
    return write_texts(c);
}

const mr_param *mr_mix_params(void) {
    return rows;
}
