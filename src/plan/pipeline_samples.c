/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_samples.c - ops on whole samples, which put new fields in the place of others. */
#include "plan/compiler.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"

/* What the op is planned with. */
typedef struct question {
    const mr_op_node *node;
    mr_field *in;
} question;

static bool is_input(const mr_op_node *node, int32_t variable) {
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == variable) {
            return true;
        }
    }
    return false;
}

static void take_inputs(const mr_compiler *c, mr_op_node *node, const mr_choice *choice,
                        mr_field *in) {
    node->n_inputs = choice ? choice->n : c->n_now;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        int32_t variable = choice ? choice->variables[i] : c->now[i];
        in[i] = c->pipeline->variables[variable];
        in[i].name = c->names[variable];
        in[i].type = c->types[variable];
        node->inputs[i] = variable;
    }
}

static mr_status ask(void *user, mr_field *fields, int32_t capacity, int32_t *n, mr_error *err) {
    const question *q = user;
    return q->node->class->plan_sample(q->node->params, q->in, q->node->n_inputs, fields, capacity,
                                       n, err);
}

/* Outputs come in the place of the first input. */
static mr_status replace_inputs(mr_compiler *c, const mr_op_node *node) {
    int32_t n = 0, *now = mr_zalloc((size_t)c->room, sizeof *now);
    if (!now) {
        return mr_fail_memory(c->err, (size_t)c->room * sizeof *now);
    }
    for (int32_t i = 0; i < c->n_now; i++) {
        for (int32_t k = 0; c->now[i] == node->inputs[0] && k < node->n_outputs; k++) {
            now[n++] = node->first_output + k;
        }
        if (!is_input(node, c->now[i])) {
            now[n++] = c->now[i];
        }
    }
    mr_free(c->now);
    c->now = now;
    c->n_now = n;
    return MR_OK;
}

static mr_status check_name(const mr_compiler *c, const mr_op_node *node, int32_t output) {
    for (int32_t i = 0; i < c->n_now; i++) {
        if (c->now[i] != output && strcmp(c->names[c->now[i]], c->names[output]) == 0) {
            return mr_fail(c->err, MR_E_PARAM, "%s gives a field \"%s\", and there is one already",
                           node->class->name, c->names[output]);
        }
    }
    return MR_OK;
}

static mr_status plan(mr_compiler *c, mr_op_node *node, const mr_choice *choice, mr_field *in) {
    question q = {node, in};
    const mr_field_maker maker = {ask, &q, true};
    take_inputs(c, node, choice, in);
    node->first_output = c->pipeline->n_variables;
    MR_TRY(mr_add_variables(c, &maker, &node->n_outputs));
    if (node->named && node->n_inputs == 1 && node->n_outputs > 1) {
        return mr_fail(c->err, MR_E_INTERNAL, "the op gives %d fields", node->n_outputs);
    }
    node->out = c->types[node->first_output];
    MR_TRY(replace_inputs(c, node));
    for (int32_t i = 0; node->named && i < node->n_outputs; i++) {
        MR_TRY(check_name(c, node, node->first_output + i));
    }
    return MR_OK;
}

mr_status mr_plan_sample(mr_compiler *c, mr_op_node *node, const mr_choice *choice) {
    size_t n = (size_t)c->n_now;
    mr_field *in = mr_zalloc(n, sizeof *in);
    node->inputs = mr_zalloc(n, sizeof *node->inputs);
    mr_status status =
        in && node->inputs ? plan(c, node, choice, in) : mr_fail_memory(c->err, n * sizeof *in);
    mr_free(in);
    return status;
}
