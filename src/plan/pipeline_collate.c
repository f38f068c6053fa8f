/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_collate.c - ops that say how values of unequal size lie in a batch. They add arrays to
 * batches that no sample has, so these stand beside the fields and not among them. */
#include "plan/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

static mr_status refuse_second(const mr_compiler *c, const mr_op_node *node) {
    const mr_pipeline *p = c->pipeline;
    for (const mr_op_node *other = p->ops; other < node; other++) {
        if (other->class->collate && other->field == node->field) {
            mr_fail(c->err, MR_E_PARAM,
                    "%s stands behind %s, which said already how %s lies in a batch",
                    node->class->name, other->class->name, node->field_name);
            mr_hint(c->err, "leave one of them out");
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

/* A mix may have children whose values are all of one size: only together they vary. */
static mr_status check_varies(const mr_compiler *c, const mr_op_node *node) {
    char text[128];
    if (c->is_child || mr_type_bytes(&node->in) < 0) {
        return MR_OK;
    }
    mr_fail(c->err, MR_E_TYPE, "%s is for values of unequal size, and all of %s are %s",
            node->class->name, node->field_name, mr_type_text(&node->in, text, sizeof text));
    mr_hint(c->err, "leave it out");
    return MR_E_TYPE;
}

/* What people see of it: the sample's part of the first array. */
static void show_type(mr_op_node *node, const mr_collated *first) {
    node->out = (mr_type){first->dtype, MR_PLAIN, first->n_dims - 1, {0}};
    memcpy(node->out.dims, first->dims + 1, (size_t)node->out.n_dims * sizeof *first->dims);
}

mr_status mr_plan_collate(mr_compiler *c, mr_op_node *node) {
    mr_collated arrays[MR_COLLATED_MAX] = {{0}};
    int32_t n = 0;
    node->in = c->types[node->field];
    node->inputs = mr_zalloc(1, sizeof *node->inputs);
    if (!node->inputs) {
        return mr_fail_memory(c->err, sizeof *node->inputs);
    }
    node->inputs[node->n_inputs++] = node->field;
    c->touched[node->field] = true;
    c->pipeline->n_batch_ops++;
    MR_TRY(refuse_second(c, node));
    MR_TRY(check_varies(c, node));
    MR_TRY(node->class->plan_collate(node->params, &node->in, arrays, &n, c->err));
    show_type(node, &arrays[0]);
    return MR_OK;
}

/* ---- When it is known what is delivered ---- */
static int32_t delivered_as(const mr_pipeline *p, int32_t variable) {
    int32_t i = 0;
    while (i < p->n_fields - 1 && p->field_variable[i] != variable) {
        i++;
    }
    return i; /* one of them is: see mr_check_batch_fields */
}

static bool is_taken(const mr_pipeline *p, const char *name) {
    for (int32_t i = 0; i < p->n_fields; i++) {
        if (strcmp(p->fields[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static mr_status name_arrays(const mr_compiler *c, mr_collation *how, const char *op) {
    const char *field = c->pipeline->fields[how->field].name;
    for (int32_t i = 0; i < how->n; i++) {
        size_t size = strlen(field) + strlen(how->arrays[i].suffix) + 1;
        char *name = how->names[i] = mr_zalloc(1, size);
        if (!name) {
            return mr_fail_memory(c->err, size);
        }
        snprintf(name, size, "%s%s", field, how->arrays[i].suffix);
        if (i > 0 && is_taken(c->pipeline, name)) {
            mr_error_at_op(c->err, op);
            mr_fail(c->err, MR_E_PARAM, "%s makes an array %s, and a field is called so too", op,
                    name);
            mr_hint(c->err, "rename that field");
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

static mr_status compile_one(const mr_compiler *c, int32_t op, int32_t *first_array) {
    mr_pipeline *p = c->pipeline;
    const mr_op_node *node = &p->ops[op];
    mr_collation *how = &p->collations[p->n_collations++];
    *how = (mr_collation){
        .op = op, .field = delivered_as(p, node->field), .first_array = *first_array};
    MR_TRY(node->class->plan_collate(node->params, &node->in, how->arrays, &how->n, c->err));
    *first_array += how->n - 1;
    return name_arrays(c, how, node->class->name);
}

mr_status mr_compile_collations(mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    int32_t first_array = p->n_fields;
    p->collations = mr_zalloc((size_t)p->n_batch_ops, sizeof *p->collations);
    if (!p->collations) {
        return mr_fail_memory(c->err, (size_t)p->n_batch_ops * sizeof *p->collations);
    }
    for (int32_t i = p->n_ops - p->n_batch_ops; i < p->n_ops; i++) {
        if (p->ops[i].class->collate) {
            MR_TRY(compile_one(c, i, &first_array));
        }
    }
    return MR_OK;
}

mr_status mr_unite_collations(const mr_compiler *c) {
    const mr_pipeline *p = c->pipeline, *first = p->children[0];
    for (int32_t i = 0; i < first->n_collations; i++) {
        mr_collation *how = &first->collations[i];
        mr_op_node *node = &first->ops[how->op];
        mr_error_at_op(c->err, node->class->name);
        node->in = p->fields[how->field].type;
        MR_TRY(check_varies(c, node));
        MR_TRY(node->class->plan_collate(node->params, &node->in, how->arrays, &how->n, c->err));
    }
    mr_error_at_op(c->err, "");
    return MR_OK;
}

void mr_collations_free(mr_pipeline *p) {
    for (int32_t i = 0; i < p->n_collations; i++) {
        for (int32_t k = 0; k < p->collations[i].n; k++) {
            mr_free(p->collations[i].names[k]);
        }
    }
    mr_free(p->collations);
}

const mr_collation *mr_pipeline_collations(const mr_pipeline *p, int32_t *n) {
    const mr_pipeline *own = p->n_children > 0 ? p->children[0] : p;
    *n = own->n_collations;
    return own->collations;
}
