/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_arrange.c - ops that say which fields a sample has and what they are called. They are
 * done with when the pipeline is compiled: variables stay where they are, only the list of those
 * that make up the sample changes, and the names that later ops know them by. */
#include "plan/compiler.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"

/* What the op is asked with, and what it answers. */
typedef struct arrangement {
    mr_field *in, *out;
    int32_t *from;
    int32_t n;
} arrangement;

static void take_fields(const mr_compiler *c, mr_field *in) {
    for (int32_t i = 0; i < c->n_now; i++) {
        in[i] = c->pipeline->variables[c->now[i]];
        in[i].name = c->names[c->now[i]];
        in[i].type = c->types[c->now[i]];
    }
}

static mr_status check_answer(const mr_compiler *c, const arrangement *a) {
    bool right = a->n >= 1 && a->n <= c->n_now;
    for (int32_t i = 0; right && i < a->n; i++) {
        right = a->from[i] >= 0 && a->from[i] < c->n_now;
    }
    if (!right) {
        return mr_fail(c->err, MR_E_INTERNAL, "the op gives %d of %d fields", a->n, c->n_now);
    }
    const char *twice = NULL;
    MR_TRY(mr_find_twice(a->out, a->n, &twice, c->err));
    return twice ? mr_fail(c->err, MR_E_PARAM, "two fields would be called \"%s\"", twice) : MR_OK;
}

/* from is made the variables that it means. */
static void apply(mr_compiler *c, const arrangement *a) {
    int32_t *variables = a->from;
    for (int32_t i = 0; i < a->n; i++) {
        variables[i] = c->now[a->from[i]];
    }
    for (int32_t i = 0; i < a->n; i++) {
        c->now[i] = variables[i];
        c->names[variables[i]] = a->out[i].name;
        c->pipeline->variables[variables[i]].optional = a->out[i].optional;
    }
    c->n_now = a->n;
}

mr_status mr_plan_arrange(mr_compiler *c, const mr_op_class *op, const void *params) {
    size_t n = (size_t)c->n_now;
    arrangement a = {mr_zalloc(n, sizeof *a.in), mr_zalloc(n, sizeof *a.out),
                     mr_zalloc(n, sizeof *a.from), 0};
    mr_status status = MR_E_MEMORY;
    if (a.in && a.out && a.from) {
        take_fields(c, a.in);
        status = op->arrange(params, a.in, c->n_now, a.out, a.from, &a.n, c->err);
        status = status == MR_OK ? check_answer(c, &a) : status;
    } else {
        mr_fail_memory(c->err, n * sizeof *a.in);
    }
    if (status == MR_OK) {
        apply(c, &a);
    }
    mr_free(a.in);
    mr_free(a.out);
    mr_free(a.from);
    return status;
}
