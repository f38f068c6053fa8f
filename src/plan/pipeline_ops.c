/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_ops.c - the list of ops, each planned from what the ones before it give. */
#include "plan/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/inner_ops.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "core/philox.h"

const char *const mr_common_op_keys[] = {"field", NULL};

static uint32_t count_earlier(const mr_pipeline *p, const mr_op_class *op) {
    uint32_t n = 0;
    for (int32_t i = 0; i < p->n_calls; i++) {
        n += p->calls[i].class == op;
    }
    return n;
}

static mr_status fill_params(mr_compiler *c, const mr_op_class *op, json_t *given,
                             const char *where, void **out) {
    char what[64];
    snprintf(what, sizeof what, "op %s", op->name);
    *out = mr_new_params(op->param_size, op->user);
    if (!*out) {
        return mr_fail_memory(c->err, op->param_size);
    }
    MR_TRY(mr_params_fill(op->params, given, where, what, mr_common_op_keys, *out, c->err));
    mr_error_at_json(c->err, where);
    return op->check ? op->check(*out, c->err) : MR_OK;
}

static mr_status fill_op(mr_compiler *c, mr_op_node *node, json_t *given, const char *where) {
    const mr_op_class *op = node->class;
    bool on_mask = node->kind == MR_KIND_MASK;
    json_t *params = on_mask ? mr_params_on_mask(op->params, given) : json_incref(given);
    mr_status status = on_mask && !params ? mr_fail_memory(c->err, 64)
                                          : fill_params(c, op, params, where, &node->params);
    json_decref(params);
    MR_TRY(status);
    node->flags = mr_op_flags(op, node->params);
    return MR_OK;
}

static mr_status plan_op(mr_compiler *c, mr_op_node *node) {
    if (mr_op_is_cache(node)) {
        return mr_plan_cache(c, node);
    }
    node->in = c->types[node->field];
    MR_TRY(node->class->plan(node->params, &node->in, &node->out, c->err));
    c->types[node->field] = node->out;
    c->touched[node->field] = true;
    return MR_OK;
}

/* An op's place in the document, which need not be its place in the chain. */
static void place_text(const mr_compiler *c, int32_t index, char *out, size_t size) {
    int32_t before = 0;
    bool is_inserted = false;
    for (int32_t i = 0; i < c->n_inserted; i++) {
        is_inserted = is_inserted || index == c->inserted[i];
        before += index > c->inserted[i];
    }
    if (is_inserted) {
        snprintf(out, size, "$");
    } else {
        snprintf(out, size, "$.ops[%d]", index - before);
    }
}

static mr_status make_ops_room(mr_compiler *c, int32_t n) {
    mr_pipeline *p = c->pipeline;
    if (n <= c->ops_room) {
        return MR_OK;
    }
    if (n > MR_FIELDS_LIMIT) {
        return mr_fail(c->err, MR_E_LIMIT, "%d ops, each on one field, are too many", n);
    }
    int32_t room = n > 2 * c->ops_room ? n : 2 * c->ops_room;
    mr_op_node *ops = realloc(p->ops, (size_t)room * sizeof *ops);
    if (!ops) {
        return mr_fail_memory(c->err, (size_t)room * sizeof *ops);
    }
    p->ops = ops;
    c->ops_room = room;
    return MR_OK;
}

static mr_op_node *add_node(mr_compiler *c, const mr_op_node *like, int32_t variable) {
    mr_op_node *node = &c->pipeline->ops[c->pipeline->n_ops++]; /* freed with the pipeline */
    *node = *like;
    node->field = variable;
    node->field_name = c->names[variable];
    node->kind = c->kinds[variable];
    return node;
}

static void drop_node(mr_compiler *c, const mr_op_node *node) {
    mr_params_free(node->class->params, node->params);
    mr_free(node->params);
    c->pipeline->n_ops--;
}

/* Colours are an image's. A mask beside one keeps its numbers and goes where the image goes; boxes
 * and points likewise. What is named without an image is meant. */
static bool is_beside_image(const mr_compiler *c, const mr_op_node *node, const mr_choice *choice) {
    bool image = false;
    for (int32_t i = 0; i < choice->n; i++) {
        image = image || c->kinds[choice->variables[i]] == MR_KIND_ANY;
    }
    return image && node->kind != MR_KIND_ANY;
}

static mr_status compile_on_field(mr_compiler *c, mr_op_node *node, json_t *params,
                                  const char *where, const mr_choice *choice) {
    const mr_op_class *op = node->class;
    MR_TRY(fill_op(c, node, params, where));
    if (is_beside_image(c, node, choice)) {
        if (node->flags & MR_OP_COLOR) {
            drop_node(c, node);
            return MR_OK;
        }
        if (node->kind == MR_KIND_MASK && op->spare_mask) {
            op->spare_mask(node->params);
            node->spares_mask = true;
        }
    }
    /* Without an image, an op that moves none changes boxes as any other numbers. */
    node->follows = mr_kind_follows(node->kind) && (op->follow || mr_has_image(c, choice));
    return node->follows ? mr_plan_follow(c, node, choice) : plan_op(c, node);
}

/* What an op of the document becomes: a node for each field ... */
static mr_status compile_on_fields(mr_compiler *c, mr_op_node *like, json_t *params,
                                   const char *where, const mr_choice *choice) {
    MR_TRY(make_ops_room(c, c->pipeline->n_ops + choice->n));
    like->group = choice->n > 1 ? c->pipeline->n_groups++ : -1;
    for (int32_t i = 0; i < choice->n; i++) {
        mr_op_node *node = add_node(c, like, choice->variables[i]);
        MR_TRY(compile_on_field(c, node, params, where, choice));
    }
    return MR_OK;
}

/* ... one for all fields ... */
static mr_status compile_on_samples(mr_compiler *c, const mr_op_node *like, json_t *params,
                                    const char *where, const mr_choice *choice) {
    MR_TRY(make_ops_room(c, c->pipeline->n_ops + 1));
    mr_op_node *node = add_node(c, like, choice->variables[0]);
    MR_TRY(fill_op(c, node, params, where));
    return mr_plan_sample(c, node, node->named ? choice : NULL);
}

/* ... one for batches; *is_one says whether the op with these parameters works on those ... */
static mr_status compile_on_batches(mr_compiler *c, const mr_op_node *like, json_t *params,
                                    const char *where, const mr_choice *choice, bool *is_one) {
    mr_pipeline *p = c->pipeline;
    MR_TRY(make_ops_room(c, p->n_ops + 1));
    mr_op_node *node = add_node(c, like, choice->variables[0]);
    MR_TRY(fill_op(c, node, params, where));
    *is_one = (node->flags & MR_OP_BATCH) != 0;
    if (*is_one) {
        return mr_plan_batch(c, node, choice);
    }
    drop_node(c, node);
    return MR_OK;
}

/* ... one for the values that each field has in a batch ... */
static mr_status compile_collating(mr_compiler *c, const mr_op_node *like, json_t *params,
                                   const char *where, const mr_choice *choice) {
    MR_TRY(make_ops_room(c, c->pipeline->n_ops + choice->n));
    for (int32_t i = 0; i < choice->n; i++) {
        mr_op_node *node = add_node(c, like, choice->variables[i]);
        MR_TRY(fill_op(c, node, params, where));
        MR_TRY(mr_plan_collate(c, node));
    }
    return MR_OK;
}

/* ... or none. */
static mr_status compile_arranging(mr_compiler *c, mr_op_call *call, json_t *params,
                                   const char *where, const mr_choice *choice) {
    call->node = -1;
    if (choice->given) {
        return mr_fail(c->err, MR_E_PARAM, "%s has no \"field\": it works on the whole sample",
                       call->class->name);
    }
    MR_TRY(fill_params(c, call->class, params, where, &call->params));
    return mr_plan_arrange(c, call->class, call->params);
}

static mr_status compile_call(mr_compiler *c, const mr_op_class *op, json_t *params,
                              const char *where, const mr_choice *choice) {
    mr_pipeline *p = c->pipeline;
    mr_op_node like = {.class = op,
                       .named =
                           choice->given && (op->run_sample || op->run_batch || !choice->is_first),
                       .op_word = mr_op_word(op->name, count_earlier(p, op)),
                       .call = p->n_calls,
                       .group = -1};
    mr_op_call *call = &p->calls[p->n_calls++];
    *call = (mr_op_call){.class = op, .node = p->n_ops};
    mr_error_at_json(c->err, where);
    if (op->arrange) {
        return compile_arranging(c, call, params, where, choice);
    }
    call->field = like.named ? json_incref(choice->given) : NULL;
    if (op->collate) {
        return compile_collating(c, &like, params, where, choice);
    }
    bool on_batches = false;
    if (op->run_batch) {
        MR_TRY(compile_on_batches(c, &like, params, where, choice, &on_batches));
    }
    if (on_batches) {
        return MR_OK;
    }
    MR_TRY(mr_check_after_batch(c, op));
    if (op->run_sample) {
        return compile_on_samples(c, &like, params, where, choice);
    }
    if ((op->flags & MR_OP_STORES) && choice->n > 1) {
        return mr_fail(c->err, MR_E_PARAM, "%s takes one field at most", op->name);
    }
    return compile_on_fields(c, &like, params, where, choice);
}

static mr_status compile_op(mr_compiler *c, json_t *item, int32_t index) {
    const char *name = NULL;
    json_t *params = NULL;
    char where[128];
    place_text(c, index, where, sizeof where);
    size_t used = strlen(where);
    mr_error_at_op(c->err, ""); /* what is wrong is not the op before it */
    MR_TRY(mr_split_call(item, "an op", where, &name, &params, c->err));
    const mr_op_class *op = mr_find_op(c, name);
    if (!op) {
        return mr_unknown_name(c, false, name, where);
    }
    snprintf(where + used, sizeof where - used, ".%s", op->name);
    mr_error_at_op(c->err, op->name);
    mr_choice choice = {0};
    mr_status status = mr_choose_fields(c, params, where, &choice);
    if (status == MR_OK) {
        status = compile_call(c, op, params, where, &choice);
    }
    mr_free(choice.variables);
    return status;
}

static mr_status compile_list(mr_compiler *c, json_t *list) {
    mr_pipeline *p = c->pipeline;
    size_t n = json_array_size(list);
    enum { MOST_OPS = 1000 };
    if (n > MOST_OPS) {
        mr_error_at_json(c->err, "$.ops");
        return mr_fail(c->err, MR_E_PARAM, "%zu ops are too many: a pipeline has at most %d", n,
                       MOST_OPS);
    }
    p->calls = mr_zalloc(n, sizeof *p->calls);
    if (!p->calls) {
        return mr_fail_memory(c->err, n * sizeof *p->calls);
    }
    MR_TRY(make_ops_room(c, (int32_t)n + 1)); /* there is a list even where it is empty */
    for (size_t i = 0; i < n; i++) {
        MR_TRY(compile_op(c, json_array_get(list, i), (int32_t)i));
    }
    mr_error_at_op(c->err, "");
    return mr_order_ops(c);
}

mr_status mr_compile_ops(mr_compiler *c, json_t *document) {
    json_t *given = json_object_get(document, "ops");
    if (given && !json_is_array(given)) {
        mr_error_at_json(c->err, "$.ops");
        return mr_fail(c->err, MR_E_PARAM, "ops must be a list");
    }
    json_t *list = given ? json_copy(given) : json_array();
    if (!list) {
        return mr_fail_memory(c->err, 64);
    }
    mr_status status = mr_insert_cache(c, document, list);
    if (status == MR_OK) {
        status = compile_list(c, list);
    }
    json_decref(list);
    return status;
}
