/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_batches.c - ops on batches. They change fields of a batch in place when its samples are
 * made, so they come behind all ops on samples, and what they change is delivered and dense. */
#include "plan/compiler.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/pattern.h"

/* Whether the document delivers the field, and not because it was asked for as an extra. */
static bool goes_without_saying(const mr_compiler *c, int32_t variable) {
    const mr_strings *listed = &c->pipeline->settings.fields;
    bool found = listed->n == 0;
    for (int32_t i = 0; i < listed->n && !found; i++) {
        found = mr_pattern_fits(listed->v[i], c->names[variable]);
    }
    return found && !c->pipeline->variables[variable].optional;
}

/* Those that are named, or all that are delivered. */
static void take_inputs(const mr_compiler *c, mr_op_node *node, const mr_choice *choice,
                        mr_field *fields) {
    int32_t n = choice->given ? choice->n : c->n_now;
    for (int32_t i = 0; i < n; i++) {
        int32_t variable = choice->given ? choice->variables[i] : c->now[i];
        if (choice->given || goes_without_saying(c, variable)) {
            fields[node->n_inputs] =
                (mr_field){.name = c->names[variable], .type = c->types[variable]};
            node->inputs[node->n_inputs++] = variable;
        }
    }
}

static mr_status check_dense(const mr_compiler *c, const mr_op_node *node, const mr_field *field) {
    char text[128];
    if (mr_type_bytes(&field->type) >= 0) {
        return MR_OK;
    }
    mr_fail(c->err, MR_E_TYPE, "%s works on whole batches, and field %s varies in size: %s",
            node->class->name, field->name, mr_type_text(&field->type, text, sizeof text));
    mr_hint(c->err, "make it one size before, with resize or crop for instance");
    return MR_E_TYPE;
}

static mr_status plan(mr_compiler *c, mr_op_node *node, const mr_choice *choice, mr_field *fields) {
    take_inputs(c, node, choice, fields);
    if (node->n_inputs == 0) {
        return mr_fail(c->err, MR_E_PARAM, "there is no field that it could work on");
    }
    for (int32_t i = 0; i < node->n_inputs; i++) {
        MR_TRY(check_dense(c, node, &fields[i]));
        c->touched[node->inputs[i]] = true;
    }
    node->field = node->inputs[0];
    node->field_name = c->names[node->field];
    node->in = node->out = c->types[node->field];
    c->pipeline->n_batch_ops++;
    return node->class->check_batch(node->params, fields, node->n_inputs, c->err);
}

mr_status mr_plan_batch(mr_compiler *c, mr_op_node *node, const mr_choice *choice) {
    size_t n = (size_t)c->n_now;
    mr_field *fields = mr_zalloc(n, sizeof *fields);
    node->inputs = mr_zalloc(n, sizeof *node->inputs);
    mr_status status = fields && node->inputs ? plan(c, node, choice, fields)
                                              : mr_fail_memory(c->err, n * sizeof *fields);
    mr_free(fields);
    return status;
}

mr_status mr_check_after_batch(const mr_compiler *c, const mr_op_class *op) {
    const mr_pipeline *p = c->pipeline;
    if (p->n_batch_ops == 0) {
        return MR_OK;
    }
    const char *last = p->ops[p->n_ops - 1].class->name;
    mr_fail(c->err, MR_E_PARAM, "%s works on samples and stands behind %s, which works on batches",
            op->name, last);
    mr_hint(c->err, "put it before %s", last);
    return MR_E_PARAM;
}

mr_status mr_check_batch_fields(const mr_compiler *c) {
    const mr_pipeline *p = c->pipeline;
    for (int32_t i = p->n_ops - p->n_batch_ops; i < p->n_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        for (int32_t k = 0; k < node->n_inputs; k++) {
            if (!mr_is_delivered(p, node->inputs[k])) {
                mr_error_at_op(c->err, node->class->name);
                mr_fail(c->err, MR_E_PARAM, "%s works on field %s, which is not delivered",
                        node->class->name, c->names[node->inputs[k]]);
                mr_hint(c->err, "name it in \"fields\", or others in the op's \"field\"");
                return MR_E_PARAM;
            }
        }
    }
    return MR_OK;
}
