/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_cache.c - caches: what may stand before one, what it keeps, and where "cache" puts it.
 */
#include "plan/compiler.h"

#include <string.h>

#include "core/error.h"
#include "core/inner_ops.h"
#include "core/memory.h"
#include "core/params.h"

/* Why what this op makes cannot be kept, or NULL. */
static const char *unrepeatable(uint32_t flags) {
    return flags & MR_OP_RANDOM   ? "is random: its result is another one in every epoch"
           : flags & MR_OP_OPAQUE ? "is a function whose changes nobody can see"
                                  : NULL;
}

/* A stream's samples are kept by its rehearsal buffer, in memory, and not by a store. */
static bool enters(const mr_compiler *c) {
    return c->pipeline->is_stream && c->pipeline->rehearse.on &&
           c->pipeline->rehearse.enter == MR_ENTER_CACHED;
}

static mr_status check_prefix(const mr_compiler *c, const mr_op_node *cache) {
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
    if (!c->pipeline->source->identify && !enters(c)) {
        mr_fail(c->err, MR_E_PARAM,
                "samples of source %s cannot be told apart from changed ones, so they cannot be "
                "kept",
                c->pipeline->source->name);
        mr_hint(c->err, c->pipeline->is_stream
                            ? "\"rehearse\": {\"enter\": \"cached\"} keeps samples of a stream"
                            : "an object of a host language can be given a version=\"...\"");
        return MR_E_PARAM;
    }
    return MR_OK;
}

/* Kept is what took work: what ops made, and what was read. The fields beside a file's bytes
 * (labels, names) come from the source again. */
static bool is_kept(const mr_compiler *c, int32_t variable) {
    return variable == 0 || c->touched[variable] || !mr_source_fills_rest(c->pipeline->source);
}

/* What was made of labels and names changes with them, and so must what names it in the store. */
static void note_rest(const mr_compiler *c, const mr_op_node *cache) {
    mr_pipeline *p = c->pipeline;
    for (const mr_op_node *node = p->ops; node < cache; node++) {
        for (int32_t k = 0; k < node->n_inputs && !mr_op_is_cache(node); k++) {
            p->reads_rest = p->reads_rest || node->inputs[k] != 0;
        }
        p->reads_rest = p->reads_rest || node->field != 0;
    }
}

mr_status mr_plan_cache(mr_compiler *c, mr_op_node *node) {
    MR_TRY(check_prefix(c, node));
    node->inputs = mr_zalloc((size_t)c->n_now, sizeof *node->inputs);
    node->input_types = mr_zalloc((size_t)c->n_now, sizeof *node->input_types);
    if (!node->inputs || !node->input_types) {
        return mr_fail_memory(c->err, (size_t)c->n_now * sizeof *node->input_types);
    }
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

/* What is asked about an op before it is compiled. What is wrong with its parameters is said when
 * it is. */
typedef struct outlook {
    const mr_op_class *op; /* NULL: there is none of this name */
    uint32_t flags;
    bool decides; /* together with the next op: nothing can be kept between the two */
} outlook;

static void ask_with(const mr_op_class *op, json_t *params, void *filled, outlook *out) {
    mr_error ignored = MR_ERROR_INIT;
    if (mr_params_fill(op->params, params, "", "", mr_common_op_keys, filled, &ignored) == MR_OK &&
        (!op->check || op->check(filled, &ignored) == MR_OK)) {
        out->flags = mr_op_flags(op, filled);
        out->decides = op->shrink && op->shrink(filled, NULL, INT32_MAX) > 1;
    }
}

static outlook look_at(const mr_compiler *c, json_t *call) {
    const char *name = NULL;
    json_t *params = NULL;
    outlook out = {.op = NULL};
    if (mr_split_call(call, "", "", &name, &params, NULL) == MR_OK) {
        out.op = mr_find_op(c, name);
    }
    if (!out.op) {
        return out;
    }
    out.flags = out.op->flags;
    void *filled = out.op->flags_for || out.op->shrink
                       ? mr_new_params(out.op->param_size, out.op->user)
                       : NULL;
    if (filled) {
        ask_with(out.op, params, filled, &out);
        mr_params_free(out.op->params, filled);
        mr_free(filled);
    }
    return out;
}

/* Where a cache is worth most: before the first op whose result cannot be kept. */
static size_t place_for_cache(const mr_compiler *c, json_t *list) {
    size_t i = 0;
    for (; i < json_array_size(list); i++) {
        outlook op = look_at(c, json_array_get(list, i));
        if (!op.op || unrepeatable(op.flags)) {
            break;
        }
    }
    return i;
}

static bool is_cache_at(const mr_compiler *c, json_t *list, size_t i) {
    return (look_at(c, json_array_get(list, i)).flags & MR_OP_STORES) != 0;
}

/* Two wishes for one place may contradict each other in size and path; none is taken silently. */
static mr_status two_caches(mr_compiler *c) {
    mr_error_at_json(c->err, "$.cache");
    mr_fail(c->err, MR_E_PARAM, "the ops have a cache already where this one would be put");
    mr_hint(c->err, "leave one of the two out");
    return MR_E_PARAM;
}

/* Behind a decoder that comes first, and before ops that draw: images are large, and only parts of
 * them are wanted. Then the files with an index may be what is worth keeping. */
static bool is_behind_decoder(const mr_compiler *c, json_t *list, json_t *cache, size_t place,
                              bool *may_part) {
    if (place != 1 || json_array_size(list) < 2 || json_object_get(cache, "keep")) {
        return false;
    }
    outlook op = look_at(c, json_array_get(list, 0));
    *may_part = !op.decides;
    return (op.flags & MR_OP_REMEMBERS) != 0;
}

/* One of those between which the loader chooses. */
static json_t *choosable_cache(json_t *cache) {
    json_t *params = json_is_object(cache) ? json_copy(cache) : json_object();
    if (params && json_object_set_new(params, "keep", json_string("auto")) != 0) {
        json_decref(params);
        params = NULL;
    }
    return json_pack("{s:o*}", "cache", params);
}

static mr_status insert(mr_compiler *c, json_t *list, size_t place, json_t *call) {
    c->inserted[c->n_inserted++] = (int32_t)place;
    return call && json_array_insert_new(list, place, call) == 0 ? MR_OK
                                                                 : mr_fail_memory(c->err, 64);
}

/* An index is made from files, so it is kept before all that changes them. */
static size_t place_asked_for(const mr_compiler *c, json_t *list, json_t *cache) {
    const char *keep = json_string_value(json_object_get(cache, "keep"));
    return keep && strcmp(keep, "index") == 0 ? 0 : place_for_cache(c, list);
}

/* Where samples enter a rehearsal buffer: at the cache among the ops, or before the first that
 * draws. Two ops that decide together are not parted, and nothing is kept that is not made. */
static mr_status insert_entrance(mr_compiler *c, json_t *list) {
    size_t place = place_for_cache(c, list);
    bool has_cache = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        has_cache = has_cache || is_cache_at(c, list, i);
    }
    if (has_cache || place == 0 || !mr_find_op(c, "cache") ||
        look_at(c, json_array_get(list, place - 1)).decides) {
        return MR_OK;
    }
    return insert(c, list, place, json_string("cache"));
}

/* "cache": "auto", or a cache's parameters: becomes an op like any other, or two. */
mr_status mr_insert_cache(mr_compiler *c, json_t *document, json_t *list) {
    json_t *cache = json_object_get(document, "cache");
    bool is_auto = json_is_string(cache) && strcmp(json_string_value(cache), "auto") == 0;
    if (!cache) {
        return enters(c) ? insert_entrance(c, list) : MR_OK;
    }
    if (!is_auto && !json_is_object(cache)) {
        mr_error_at_json(c->err, "$.cache");
        return mr_fail(c->err, MR_E_PARAM, "cache must be \"auto\" or an object of parameters");
    }
    size_t place = place_asked_for(c, list, cache);
    if (place > 0 && is_cache_at(c, list, place - 1)) {
        return two_caches(c);
    }
    bool may_part = false;
    if (is_behind_decoder(c, list, cache, place, &may_part)) {
        MR_TRY(insert(c, list, 0, choosable_cache(cache)));
        return may_part ? insert(c, list, 2, choosable_cache(cache)) : MR_OK;
    }
    return insert(c, list, place,
                  is_auto ? json_string("cache") : json_pack("{s:O}", "cache", cache));
}
