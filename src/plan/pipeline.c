/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c - from a JSON document to a checked chain of ops. */
#include "plan/pipeline.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "core/philox.h"
#include "core/registry.h"

/* ---- The document's own keys ---- */
static const char *const remainder_names[] = {"keep", "drop", "pad", NULL};
static const char *const on_error_names[] = {"fail", "skip", NULL};

static const mr_param settings_rows[] = {
    {.name = "batch",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_settings, batch),
     .fallback = "32",
     .min = 1,
     .max = 1 << 24,
     .doc = "Samples per step, over all ranks together."},
    {.name = "seed",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_settings, seed),
     .fallback = "0",
     .min = 0,
     .max = 9007199254740992.0,
     .doc = "Key of all randomness."},
    {.name = "epochs",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_settings, epochs),
     .fallback = "1",
     .min = 1,
     .max = 4294967295.0,
     .doc = "Passes over the dataset."},
    {.name = "shuffle",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(mr_settings, shuffle),
     .fallback = "true",
     .doc = "A new order each epoch, or the source's own order."},
    {.name = "remainder",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_settings, remainder),
     .fallback = "\"keep\"",
     .choices = remainder_names,
     .doc =
         "What becomes of samples that do not fill the last batch: keep (a short batch), drop, or "
         "pad (filled up from the start of the epoch's order; every rank takes the same number "
         "of steps)."},
    {.name = "on_error",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(mr_settings, on_error),
     .fallback = "\"fail\"",
     .choices = on_error_names,
     .doc = "What a bad sample does: fail (end the run with an error that names it) or skip (take "
            "another sample, chosen by seed, epoch and position, and list the bad one)."},
    {.name = "fuse",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(mr_settings, fuse),
     .fallback = "true",
     .doc =
         "Decode only what later ops need, and run ops row by row. The bytes are the same; damage "
         "in a part of a file that nobody needs goes unseen (see decode_image's verify)."},
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(mr_settings, fields),
     .fallback = "[]",
     .max_len = MR_MAX_FIELDS,
     .doc = "Fields to deliver, in this order; empty: all that the source does not call optional."},
    {.name = NULL},
};

static const char *const structure_keys[] = {"source", "ops", "cache", NULL};

const mr_param *mr_settings_params(void) {
    return settings_rows;
}

/* ---- What compiling carries around ---- */
typedef struct compiler {
    mr_pipeline *pipeline;
    mr_tables tables;
    mr_type types[MR_MAX_SLOTS]; /* of each slot after the ops so far */
    int32_t now[MR_MAX_FIELDS];  /* the sample after the ops so far: slots, in order */
    bool touched[MR_MAX_SLOTS];  /* slots that are not as the source filled them */
    int32_t n_now;
    int32_t inserted; /* where "cache" became an op that the document's list does not have; or -1 */
    mr_error *err;
} compiler;

/* {"name": {params}} or "name": the name and the parameters (borrowed, NULL for none). */
static mr_status split_call(json_t *item, const char *kind, const char *where, const char **name,
                            json_t **params, mr_error *err) {
    *params = NULL;
    if (json_is_string(item)) {
        *name = json_string_value(item);
        return MR_OK;
    }
    if (json_is_object(item) && json_object_size(item) == 1) {
        void *first = json_object_iter(item);
        *name = json_object_iter_key(first);
        *params = json_object_iter_value(first);
        return MR_OK;
    }
    mr_error_at_json(err, where);
    mr_fail(err, MR_E_PARAM, "%s must be an object with one key, its name", kind);
    mr_hint(err, "write {\"name\": {\"parameter\": value}}");
    return MR_E_PARAM;
}

typedef struct name_cursor {
    mr_tables extra;
    int32_t i;
    bool sources;
} name_cursor;

static const char *next_name(void *user) {
    name_cursor *cursor = user;
    if (cursor->sources) {
        const mr_source_class *source = mr_source_at(cursor->i++);
        return source ? source->name : NULL;
    }
    const mr_op_class *op = mr_op_at(cursor->i++);
    if (op) {
        return op->name;
    }
    return cursor->extra.ops && *cursor->extra.ops ? (*cursor->extra.ops++)->name : NULL;
}

static const char *missing_library(const char *kind, const char *name) {
    for (int32_t i = 0; i < mr_n_missing(); i++) {
        const mr_missing *row = mr_missing_at(i);
        if (strcmp(row->kind, kind) == 0 && strcmp(row->name, name) == 0) {
            return row->needs;
        }
    }
    return NULL;
}

static mr_status unknown_name(const compiler *c, bool source, const char *name, const char *where) {
    char shown[64];
    const char *kind = source ? "source" : "op";
    const char *library = missing_library(kind, name);
    name_cursor cursor = {c->tables, 0, source};
    const char *nearest = mr_nearest_name(name, next_name, &cursor);
    mr_text_escape(shown, sizeof shown, name);
    mr_error_at_json(c->err, where);
    mr_fail(c->err, MR_E_PARAM, "unknown %s \"%s\"", kind, shown);
    if (library) {
        mr_hint(c->err, "this build was made without %s, which it needs", library);
    } else if (nearest) {
        mr_hint(c->err, "did you mean \"%s\"?", nearest);
    } else {
        mr_hint(c->err, "`millrace ops` lists what there is");
    }
    return MR_E_PARAM;
}

static const mr_op_class *find_op(const compiler *c, const char *name) {
    const mr_op_class *op = mr_op_find(name);
    for (const mr_op_class *const *extra = c->tables.ops; !op && extra && *extra; extra++) {
        op = strcmp((*extra)->name, name) == 0 ? *extra : NULL;
    }
    return op;
}

static const mr_source_class *find_source(const compiler *c, const char *name) {
    const mr_source_class *source = mr_source_find(name);
    for (const mr_source_class *const *extra = c->tables.sources; !source && extra && *extra;
         extra++) {
        source = strcmp((*extra)->name, name) == 0 ? *extra : NULL;
    }
    return source;
}

/* A parameter struct, with what the table wants to find in it. */
static void *new_params(size_t size, const void *user) {
    void *params = mr_zalloc(1, size);
    if (params && user && size >= sizeof user) {
        memcpy(params, &user, sizeof user);
    }
    return params;
}

/* ---- Source ---- */
/* What a table's author may get wrong. A description of more than MR_MAX_FIELDS fields has already
 * written too far; it is refused all the same, before more harm is done. */
static mr_status check_fields(const compiler *c, const mr_field *fields, int32_t n) {
    if (n < 1 || n > MR_MAX_FIELDS) {
        return mr_fail(c->err, MR_E_INTERNAL, "a sample of %d fields: 1 to %d are possible", n,
                       MR_MAX_FIELDS);
    }
    for (int32_t i = 0; i < n; i++) {
        if (!fields[i].name || fields[i].type.n_dims < 0 || fields[i].type.n_dims > MR_MAX_DIMS) {
            return mr_fail(c->err, MR_E_INTERNAL, "field %d has no name or too many dimensions", i);
        }
        for (int32_t k = 0; k < i; k++) {
            if (strcmp(fields[i].name, fields[k].name) == 0) {
                return mr_fail(c->err, MR_E_INTERNAL, "two fields are called \"%s\"",
                               fields[i].name);
            }
        }
    }
    return MR_OK;
}

static mr_status compile_source(compiler *c, json_t *document) {
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
    MR_TRY(split_call(item, "source", "$.source", &name, &params, c->err));
    p->source = find_source(c, name);
    if (!p->source) {
        return unknown_name(c, true, name, "$.source");
    }
    p->source_params = new_params(p->source->param_size, p->source->user);
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
    MR_TRY(p->source->describe(p->source_params, p->slots, &p->n_source_fields, c->err));
    return check_fields(c, p->slots, p->n_source_fields);
}

/* ---- Ops ---- */
static const char *const common_op_keys[] = {"field", NULL};

/* The slot of a field of the sample as it is now, or -1. */
static int32_t find_field(const compiler *c, const char *name) {
    for (int32_t i = 0; i < c->n_now; i++) {
        if (strcmp(c->pipeline->slots[c->now[i]].name, name) == 0) {
            return c->now[i];
        }
    }
    return -1;
}

static const char *source_words(const mr_pipeline *p, char *buffer, size_t size) {
    snprintf(buffer, size, "source %s", p->source->name);
    return buffer;
}

static mr_status unknown_field(const compiler *c, const char *name, const char *where) {
    const mr_pipeline *p = c->pipeline;
    char list[160] = "", shown[64], words[64];
    for (int32_t i = 0; i < c->n_now; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", p->slots[c->now[i]].name);
    }
    mr_text_escape(shown, sizeof shown, name);
    mr_error_at_json(c->err, where);
    mr_fail(c->err, MR_E_PARAM, "there is no field \"%s\"", shown);
    mr_hint(c->err, "%s has: %s",
            p->n_slots > p->n_source_fields ? "the sample" : source_words(p, words, sizeof words),
            list);
    return MR_E_PARAM;
}

static mr_status choose_field(const compiler *c, json_t *params, const char *where, int32_t *out) {
    json_t *name = params ? json_object_get(params, "field") : NULL;
    char path[160];
    *out = c->now[0];
    if (!name) {
        return MR_OK;
    }
    snprintf(path, sizeof path, "%s.field", where);
    if (!json_is_string(name)) {
        mr_error_at_json(c->err, path);
        return mr_fail(c->err, MR_E_PARAM, "field must be a string");
    }
    *out = find_field(c, json_string_value(name));
    return *out >= 0 ? MR_OK : unknown_field(c, json_string_value(name), path);
}

static uint32_t count_earlier(const mr_pipeline *p, const mr_op_class *op) {
    uint32_t n = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        n += p->ops[i].class == op;
    }
    return n;
}

static mr_status fill_op(compiler *c, mr_op_node *node, json_t *params, const char *where) {
    char what[64];
    snprintf(what, sizeof what, "op %s", node->class->name);
    node->params = new_params(node->class->param_size, node->class->user);
    if (!node->params) {
        return mr_fail_memory(c->err, node->class->param_size);
    }
    MR_TRY(mr_params_fill(node->class->params, params, where, what, common_op_keys, node->params,
                          c->err));
    mr_error_at_json(c->err, where);
    if (node->class->check) {
        MR_TRY(node->class->check(node->params, c->err));
    }
    node->flags =
        node->class->flags_for ? node->class->flags_for(node->params) : node->class->flags;
    return MR_OK;
}

/* ---- Ops on whole samples ---- */
static void take_input(const compiler *c, mr_op_node *node, int32_t slot, mr_field *in) {
    in[node->n_inputs] = c->pipeline->slots[slot];
    in[node->n_inputs].type = c->types[slot];
    node->inputs[node->n_inputs++] = slot;
}

static void take_inputs(const compiler *c, mr_op_node *node, mr_field *in) {
    for (int32_t i = 0; i < c->n_now; i++) {
        if (!node->named || c->now[i] == node->field) {
            take_input(c, node, c->now[i], in);
        }
    }
}

static mr_status add_slot(compiler *c, const mr_field *field) {
    mr_pipeline *p = c->pipeline;
    if (p->n_slots == MR_MAX_SLOTS) {
        return mr_fail(c->err, MR_E_LIMIT, "the pipeline makes more than %d fields", MR_MAX_SLOTS);
    }
    p->slots[p->n_slots] = *field;
    c->touched[p->n_slots] = true;
    c->types[p->n_slots++] = field->type;
    return MR_OK;
}

/* Outputs come in the place of the inputs. */
static void replace_inputs(compiler *c, const mr_op_node *node) {
    int32_t kept[MR_MAX_FIELDS], n = 0;
    for (int32_t i = 0; i < c->n_now; i++) {
        bool is_input = !node->named || c->now[i] == node->field;
        for (int32_t k = 0; is_input && c->now[i] == node->inputs[0] && k < node->n_outputs; k++) {
            kept[n++] = node->first_output + k;
        }
        if (!is_input) {
            kept[n++] = c->now[i];
        }
    }
    memcpy(c->now, kept, sizeof kept);
    c->n_now = n;
}

static mr_status plan_sample(compiler *c, mr_op_node *node) {
    mr_field in[MR_MAX_FIELDS], out[MR_MAX_FIELDS];
    take_inputs(c, node, in);
    MR_TRY(
        node->class->plan_sample(node->params, in, node->n_inputs, out, &node->n_outputs, c->err));
    MR_TRY(check_fields(c, out, node->n_outputs));
    if (node->named && node->n_outputs > 1) {
        return mr_fail(c->err, MR_E_INTERNAL, "the op gives %d fields", node->n_outputs);
    }
    node->first_output = c->pipeline->n_slots;
    for (int32_t i = 0; i < node->n_outputs; i++) {
        MR_TRY(add_slot(c, &out[i]));
    }
    replace_inputs(c, node);
    node->out = out[0].type;
    return MR_OK;
}

/* ---- Caches ---- */
/* Why what this op makes cannot be kept, or NULL. */
static const char *unrepeatable(uint32_t flags) {
    return flags & MR_OP_RANDOM   ? "is random: its result is another one in every epoch"
           : flags & MR_OP_OPAQUE ? "is a function whose changes nobody can see"
                                  : NULL;
}

static mr_status check_prefix(const compiler *c, const mr_op_node *cache) {
    for (const mr_op_node *node = c->pipeline->ops; node < cache; node++) {
        const char *why = unrepeatable(node->flags);
        if (why) {
            mr_fail(c->err, MR_E_PARAM, "the cache comes after %s, which %s", node->class->name,
                    why);
            mr_hint(c->err,
                    node->flags & MR_OP_RANDOM
                        ? "put the cache before %s"
                        : "put the cache before %s, or give the function a version=\"...\"",
                    node->class->name);
            return MR_E_PARAM;
        }
    }
    if (!c->pipeline->source->identify) {
        mr_fail(c->err, MR_E_PARAM,
                "samples of source %s cannot be told apart from changed ones, so they cannot be "
                "kept",
                c->pipeline->source->name);
        mr_hint(c->err, "an object of a host language can be given a version=\"...\"");
        return MR_E_PARAM;
    }
    return MR_OK;
}

/* Kept is what took work: what ops made, and the bytes themselves. The other fields of a source
 * that locates its bytes (labels, names) come from the source again. */
static bool is_kept(const compiler *c, int32_t slot) {
    return slot == 0 || c->touched[slot] || !c->pipeline->source->locate;
}

/* What was made of labels and names changes with them, and so must what names it in the store. */
static void note_rest(const compiler *c, const mr_op_node *cache) {
    mr_pipeline *p = c->pipeline;
    for (const mr_op_node *node = p->ops; node < cache; node++) {
        for (int32_t k = 0; k < node->n_inputs && !mr_op_is_cache(node); k++) {
            p->reads_rest = p->reads_rest || node->inputs[k] != 0;
        }
        p->reads_rest = p->reads_rest || node->field != 0;
    }
}

static mr_status plan_cache(compiler *c, mr_op_node *node) {
    MR_TRY(check_prefix(c, node));
    for (int32_t i = 0; i < c->n_now; i++) {
        if (is_kept(c, c->now[i])) {
            node->input_types[node->n_inputs] = c->types[c->now[i]];
            node->inputs[node->n_inputs++] = c->now[i];
        }
    }
    note_rest(c, node);
    node->in = node->out = c->types[node->field];
    return MR_OK;
}

static mr_status plan_op(compiler *c, mr_op_node *node) {
    if (mr_op_is_cache(node)) {
        return plan_cache(c, node);
    }
    if (node->class->run_sample) {
        return plan_sample(c, node);
    }
    node->in = c->types[node->field];
    MR_TRY(node->class->plan(node->params, &node->in, &node->out, c->err));
    c->types[node->field] = node->out;
    c->touched[node->field] = true;
    return MR_OK;
}

/* An op's place in the document, which need not be its place in the chain. */
static void place_text(const compiler *c, int32_t index, char *out, size_t size) {
    if (index == c->inserted) {
        snprintf(out, size, "$");
    } else {
        bool behind = c->inserted >= 0 && index > c->inserted;
        snprintf(out, size, "$.ops[%d]", behind ? index - 1 : index);
    }
}

static mr_status compile_op(compiler *c, json_t *item, int32_t index) {
    mr_pipeline *p = c->pipeline;
    mr_op_node *node = &p->ops[p->n_ops];
    const char *name = NULL;
    json_t *params = NULL;
    char where[128];
    place_text(c, index, where, sizeof where);
    size_t used = strlen(where);
    mr_error_at_op(c->err, ""); /* the op before it is not to blame */
    MR_TRY(split_call(item, "an op", where, &name, &params, c->err));
    node->class = find_op(c, name);
    if (!node->class) {
        return unknown_name(c, false, name, where);
    }
    snprintf(where + used, sizeof where - used, ".%s", node->class->name);
    mr_error_at_op(c->err, node->class->name);
    MR_TRY(choose_field(c, params, where, &node->field));
    node->named = params && json_object_get(params, "field") &&
                  (node->class->run_sample || node->field != c->now[0]);
    node->op_word = mr_op_word(node->class->name, count_earlier(p, node->class));
    p->n_ops++; /* from here on freed with the pipeline */
    MR_TRY(fill_op(c, node, params, where));
    return plan_op(c, node);
}

/* The flags that an op will have. What is wrong with its parameters is said when it is compiled. */
static uint32_t flags_of(const mr_op_class *op, json_t *params) {
    mr_error ignored = MR_ERROR_INIT;
    uint32_t flags = op->flags;
    void *filled = op->flags_for ? new_params(op->param_size, op->user) : NULL;
    if (filled &&
        mr_params_fill(op->params, params, "", "", common_op_keys, filled, &ignored) == MR_OK &&
        (!op->check || op->check(filled, &ignored) == MR_OK)) {
        flags = op->flags_for(filled);
    }
    if (filled) {
        mr_params_free(op->params, filled);
        mr_free(filled);
    }
    return flags;
}

/* Where a cache is worth most: before the first op whose result cannot be kept. */
static size_t place_for_cache(const compiler *c, json_t *list) {
    size_t i = 0;
    for (; i < json_array_size(list); i++) {
        const char *name = NULL;
        json_t *params = NULL;
        mr_status named = split_call(json_array_get(list, i), "", "", &name, &params, NULL);
        const mr_op_class *op = named == MR_OK ? find_op(c, name) : NULL;
        if (!op || unrepeatable(flags_of(op, params))) {
            break;
        }
    }
    return i;
}

static bool is_cache_at(const compiler *c, json_t *list, size_t i) {
    const char *name = NULL;
    json_t *params = NULL;
    mr_status named = split_call(json_array_get(list, i), "", "", &name, &params, NULL);
    const mr_op_class *op = named == MR_OK ? find_op(c, name) : NULL;
    return op && (op->flags & MR_OP_STORES);
}

/* Two wishes for one place may contradict each other in size and path; none is taken silently. */
static mr_status two_caches(compiler *c) {
    mr_error_at_json(c->err, "$.cache");
    mr_fail(c->err, MR_E_PARAM, "the ops have a cache already where this one would be put");
    mr_hint(c->err, "leave one of the two out");
    return MR_E_PARAM;
}

/* "cache": "auto", or a cache's parameters: becomes an op like any other. */
static mr_status insert_cache(compiler *c, json_t *document, json_t *list) {
    json_t *cache = json_object_get(document, "cache");
    bool is_auto = json_is_string(cache) && strcmp(json_string_value(cache), "auto") == 0;
    if (!cache) {
        return MR_OK;
    }
    if (!is_auto && !json_is_object(cache)) {
        mr_error_at_json(c->err, "$.cache");
        return mr_fail(c->err, MR_E_PARAM, "cache must be \"auto\" or an object of parameters");
    }
    size_t place = place_for_cache(c, list);
    if (place > 0 && is_cache_at(c, list, place - 1)) {
        return two_caches(c);
    }
    json_t *call = is_auto ? json_string("cache") : json_pack("{s:O}", "cache", cache);
    c->inserted = (int32_t)place;
    if (json_array_insert_new(list, place, call) != 0) {
        return mr_fail_memory(c->err, 64);
    }
    return MR_OK;
}

static mr_status compile_list(compiler *c, json_t *list) {
    mr_pipeline *p = c->pipeline;
    size_t n = json_array_size(list);
    p->ops = mr_zalloc(n, sizeof *p->ops);
    if (!p->ops || n > 1000) {
        return n > 1000 ? mr_fail(c->err, MR_E_PARAM, "%zu ops are too many", n)
                        : mr_fail_memory(c->err, n * sizeof *p->ops);
    }
    p->n_slots = p->n_source_fields;
    for (int32_t i = 0; i < p->n_slots; i++) {
        c->types[i] = p->slots[i].type;
        c->now[c->n_now++] = i;
    }
    for (size_t i = 0; i < n; i++) {
        MR_TRY(compile_op(c, json_array_get(list, i), (int32_t)i));
    }
    mr_error_at_op(c->err, "");
    return MR_OK;
}

static mr_status compile_ops(compiler *c, json_t *document) {
    json_t *given = json_object_get(document, "ops");
    if (given && !json_is_array(given)) {
        mr_error_at_json(c->err, "$.ops");
        return mr_fail(c->err, MR_E_PARAM, "ops must be a list");
    }
    json_t *list = given ? json_copy(given) : json_array();
    if (!list) {
        return mr_fail_memory(c->err, 64);
    }
    mr_status status = insert_cache(c, document, list);
    if (status == MR_OK) {
        status = compile_list(c, list);
    }
    json_decref(list);
    return status;
}

/* ---- Streams ---- */
/* Rows flow through a cache too, but then it keeps nothing. */
static bool passes(const mr_op_node *node, bool through_caches) {
    return node->class->pass && (through_caches || !mr_op_is_cache(node));
}

/* How many ops from the i-th on can run as one stream: a producer, then ops that pass rows on; one
 * that finishes ends it. */
static int32_t stream_length(const mr_pipeline *p, int32_t i, bool through_caches) {
    const mr_op_node *head = &p->ops[i];
    if (!head->class->produce || head->out.dtype != MR_U8 || head->out.layout != MR_HWC) {
        return 1;
    }
    int32_t n = 1;
    while (i + n < p->n_ops && p->ops[i + n].field == head->field &&
           passes(&p->ops[i + n], through_caches)) {
        n++;
    }
    bool ends =
        i + n < p->n_ops && p->ops[i + n].field == head->field && p->ops[i + n].class->finish;
    return ends ? n + 1 : n;
}

static int32_t next_but_caches(const mr_pipeline *p, int32_t i) {
    do {
        i++;
    } while (i < p->n_ops && mr_op_is_cache(&p->ops[i]));
    return i;
}

/* Two ops that agree on the size to decode at give other bytes one by one, so they stay together
 * even where nothing else does. */
static bool belongs_together(const mr_pipeline *p, int32_t i) {
    const mr_op_node *head = &p->ops[i];
    int32_t next = next_but_caches(p, i);
    return head->class->shrink && head->class->shrink(head->params, NULL, INT32_MAX) > 1 &&
           stream_length(p, i, true) > next - i && p->ops[next].class->tolerate;
}

static mr_status find_streams(compiler *c) {
    mr_pipeline *p = c->pipeline;
    for (int32_t i = 0; i < p->n_ops; i++) {
        bool pair = belongs_together(p, i);
        if (pair && mr_op_is_cache(&p->ops[i + 1])) {
            mr_fail(c->err, MR_E_PARAM,
                    "the cache stands between %s and %s, which decide "
                    "together how large to decode (dct_scale)",
                    p->ops[i].class->name, p->ops[next_but_caches(p, i)].class->name);
            mr_hint(c->err, "put it before the one or after the other");
            return MR_E_PARAM;
        }
        int32_t least = pair ? 2 : 1;
        p->ops[i].stream_length = p->settings.fuse ? stream_length(p, i, false) : least;
        p->ops[i].whole_length = p->settings.fuse ? stream_length(p, i, true) : least;
    }
    return MR_OK;
}

/* ---- Delivered fields ---- */
static void deliver(compiler *c, int32_t slot) {
    mr_pipeline *p = c->pipeline;
    p->fields[p->n_fields] = p->slots[slot];
    p->fields[p->n_fields].type = c->types[slot];
    p->field_slot[p->n_fields] = slot;
    p->n_fields++;
}

static bool is_delivered(const mr_pipeline *p, int32_t slot) {
    for (int32_t i = 0; i < p->n_fields; i++) {
        if (p->field_slot[i] == slot) {
            return true;
        }
    }
    return false;
}

static mr_status deliver_named(compiler *c, int32_t i) {
    mr_pipeline *p = c->pipeline;
    const char *name = p->settings.fields.v[i];
    int32_t field = find_field(c, name);
    char where[64];
    snprintf(where, sizeof where, "$.fields[%d]", i);
    if (field < 0) {
        return unknown_field(c, name, where);
    }
    if (is_delivered(p, field)) {
        mr_error_at_json(c->err, where);
        return mr_fail(c->err, MR_E_PARAM, "field \"%s\" is listed twice", name);
    }
    deliver(c, field);
    return MR_OK;
}

static mr_status compile_fields(compiler *c) {
    mr_pipeline *p = c->pipeline;
    for (int32_t i = 0; i < p->settings.fields.n; i++) {
        MR_TRY(deliver_named(c, i));
    }
    for (int32_t i = 0; p->settings.fields.n == 0 && i < c->n_now; i++) {
        if (!p->slots[c->now[i]].optional) {
            deliver(c, c->now[i]);
        }
    }
    return MR_OK;
}

/* ---- Canonical text and fingerprint ---- */
static json_t *call_json(const char *name, const mr_param *rows, const void *params,
                         const char *field) {
    json_t *inner = mr_params_json(rows, params);
    if (inner && field && json_object_set_new(inner, "field", json_string(field)) != 0) {
        json_decref(inner);
        inner = NULL;
    }
    return inner ? json_pack("{s:o}", name, inner) : NULL;
}

static json_t *ops_json(const mr_pipeline *p) {
    json_t *list = json_array();
    for (int32_t i = 0; i < p->n_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        json_t *call = call_json(node->class->name, node->class->params, node->params,
                                 node->named ? p->slots[node->field].name : NULL);
        if (!call || json_array_append_new(list, call) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Numbers as short as they can be written and still be read back as themselves: 0.08, not
 * 0.080000000000000002. */
static char *dump(json_t *value) {
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

static mr_status write_json(mr_pipeline *p, mr_error *err) {
    json_t *document = json_object();
    json_t *settings = mr_params_json(settings_rows, &p->settings);
    json_t *source = call_json(p->source->name, p->source->params, p->source_params, NULL);
    bool whole = json_object_set_new(document, "source", source) == 0 && /* takes it either way */
                 json_object_set_new(document, "ops", ops_json(p)) == 0 && settings &&
                 json_object_update(document, settings) == 0;
    p->json = whole ? dump(document) : NULL;
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

/* A cache changes no byte, so it is no part of any fingerprint. */
static void hash_op(const mr_pipeline *p, int32_t i, mr_hasher *hasher) {
    if (mr_op_is_cache(&p->ops[i])) {
        return;
    }
    mr_hasher_text(hasher, p->ops[i].class->name);
    mr_hasher_number(hasher, p->ops[i].class->version);
    mr_hasher_text(hasher, p->slots[p->ops[i].field].name);
    mr_hasher_text(hasher, p->stages[i + 1].params);
}

/* What a cache's values depend on besides the sample: the way there, and which fields are kept. */
static mr_status write_prefix(mr_pipeline *p, int32_t cache, mr_error *err) {
    mr_op_node *node = &p->ops[cache];
    mr_hasher *hasher = mr_hasher_new();
    if (!hasher) {
        return mr_fail_memory(err, 576);
    }
    hash_source(p, hasher);
    for (int32_t i = 0; i < cache; i++) {
        hash_op(p, i, hasher);
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        mr_hasher_text(hasher, p->slots[node->inputs[k]].name);
    }
    node->prefix = mr_hasher_value(hasher);
    mr_hasher_free(hasher);
    return MR_OK;
}

static mr_status write_prefixes(mr_pipeline *p, mr_error *err) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (mr_op_is_cache(&p->ops[i])) {
            MR_TRY(write_prefix(p, i, err));
        }
    }
    return MR_OK;
}

/* Everything that a sample's bytes depend on besides the dataset, the seed and the position. */
static mr_status write_fingerprint(mr_pipeline *p, mr_error *err) {
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
    mr_hash_hex(mr_hasher_value(hasher), p->fingerprint);
    mr_hasher_free(hasher);
    return MR_OK;
}

/* ---- Stages, for people ---- */
static mr_status add_stage(mr_pipeline *p, int32_t i, const char *name, const mr_param *rows,
                           const void *params, int32_t field, const mr_type *out, mr_error *err) {
    json_t *object = mr_params_json(rows, params);
    p->stage_params[i] = dump(object);
    json_decref(object);
    p->stages[i] = (mr_stage){name, p->stage_params[i], p->slots[field].name, *out};
    return p->stage_params[i] ? MR_OK : mr_fail_memory(err, 1024);
}

static mr_status write_stages(mr_pipeline *p, mr_error *err) {
    size_t n = (size_t)p->n_ops + 1;
    p->stages = mr_zalloc(n, sizeof *p->stages);
    p->stage_params = mr_zalloc(n, sizeof *p->stage_params);
    if (!p->stages || !p->stage_params) {
        return mr_fail_memory(err, n * sizeof *p->stages);
    }
    MR_TRY(add_stage(p, 0, p->source->name, p->source->params, p->source_params, 0,
                     &p->slots[0].type, err));
    for (int32_t i = 0; i < p->n_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        int32_t field = node->n_outputs > 0 ? node->first_output : node->field;
        MR_TRY(add_stage(p, i + 1, node->class->name, node->class->params, node->params, field,
                         &node->out, err));
    }
    return MR_OK;
}

/* ---- Public ---- */
static mr_status compile(compiler *c, json_t *document) {
    mr_pipeline *p = c->pipeline;
    MR_TRY(mr_params_fill(settings_rows, document, "$", "the pipeline", structure_keys,
                          &p->settings, c->err));
    MR_TRY(compile_source(c, document));
    MR_TRY(compile_ops(c, document));
    MR_TRY(find_streams(c));
    MR_TRY(compile_fields(c));
    MR_TRY(write_stages(p, c->err));
    MR_TRY(write_json(p, c->err));
    MR_TRY(write_prefixes(p, c->err));
    return write_fingerprint(p, c->err);
}

static mr_status syntax_error(const json_error_t *json, mr_error *err) {
    char text[160];
    mr_text_escape(text, sizeof text, json->text);
    return mr_fail(err, MR_E_PARAM, "not valid JSON: line %d, column %d: %s", json->line,
                   json->column, text);
}

static mr_status check_tables(const mr_tables *tables, mr_error *err) {
    for (const mr_op_class *const *op = tables->ops; op && *op; op++) {
        MR_TRY(mr_op_check_abi(*op, err));
    }
    for (const mr_source_class *const *source = tables->sources; source && *source; source++) {
        MR_TRY(mr_source_check_abi(*source, err));
    }
    return MR_OK;
}

mr_status mr_pipeline_parse_with(mr_pipeline **out, const char *json, size_t size,
                                 const mr_tables *tables, mr_error *err) {
    mr_error local = MR_ERROR_INIT; /* places are noted before failures: keep the caller's clean */
    json_error_t json_error;
    json_t *document = NULL;
    MR_TRY(check_tables(tables, err));
    mr_status loaded = mr_json_load(&document, json, size, JSON_REJECT_DUPLICATES, &json_error);
    if (loaded < 0) {
        return loaded == MR_E_MEMORY ? mr_fail_memory(err, size) : syntax_error(&json_error, err);
    }
    compiler c = {.pipeline = mr_zalloc(1, sizeof(mr_pipeline)),
                  .tables = *tables,
                  .inserted = -1,
                  .err = &local};
    mr_status status = MR_OK;
    if (!c.pipeline) {
        status = mr_fail_memory(&local, sizeof(mr_pipeline));
    } else if (!json_is_object(document)) {
        status = mr_fail(&local, MR_E_PARAM, "the pipeline must be a JSON object");
    } else {
        status = compile(&c, document);
    }
    json_decref(document);
    if (status < 0) {
        mr_pipeline_free(c.pipeline);
        if (err) {
            *err = local;
        }
        return status;
    }
    *out = c.pipeline;
    return MR_OK;
}

mr_status mr_pipeline_parse(mr_pipeline **out, const char *json, size_t size,
                            const mr_op_class *const *extra_ops, mr_error *err) {
    const mr_tables tables = {.ops = extra_ops};
    return mr_pipeline_parse_with(out, json, size, &tables, err);
}

void mr_pipeline_free(mr_pipeline *p) {
    if (!p) {
        return;
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].params) {
            mr_params_free(p->ops[i].class->params, p->ops[i].params);
            mr_free(p->ops[i].params);
        }
    }
    for (int32_t i = 0; p->stage_params && i <= p->n_ops; i++) {
        free(p->stage_params[i]);
    }
    if (p->source_params) {
        mr_params_free(p->source->params, p->source_params);
        mr_free(p->source_params);
    }
    mr_params_free(settings_rows, &p->settings);
    mr_free(p->ops);
    mr_free(p->stages);
    mr_free(p->stage_params);
    free(p->json);
    mr_free(p);
}

const char *mr_pipeline_json(const mr_pipeline *p) {
    return p->json;
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
