/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_groups.c - ops on several fields. Such an op is one node for each field, all with the
 * same op word, so the same draws. Nodes of different fields do not see each other; so those of one
 * field are brought together, and rows can flow through them. What looks at several fields, a cache
 * or an op on whole samples, stays where it is. */
#include "plan/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

static bool is_barrier(const mr_op_node *node) {
    return mr_op_is_cache(node) || node->class->run_sample || (node->flags & MR_OP_BATCH);
}

/* What ordering needs: for each node the next of its field before a barrier, and whether it is the
 * first of them; for each variable the node seen last. */
typedef struct ordering {
    mr_op_node *from;
    int32_t *next, *last;
    bool *follows;
} ordering;

static void link_fields(const mr_pipeline *p, ordering *o) {
    for (int32_t i = 0; i < p->n_variables; i++) {
        o->last[i] = -1;
    }
    for (int32_t i = 0, begin = 0; i < p->n_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        o->next[i] = -1;
        begin = is_barrier(node) ? i + 1 : begin;
        int32_t before = o->last[node->field];
        if (!is_barrier(node) && before >= begin) {
            o->next[before] = i;
            o->follows[i] = true;
        }
        o->last[node->field] = i;
    }
}

/* Fields from begin to end, those that follow images or those that do not. */
static int32_t lay_out_fields(mr_op_node *to, const ordering *o, int32_t begin, int32_t end,
                              bool followers) {
    int32_t n = 0;
    for (int32_t i = begin; i < end; i++) {
        bool first = !o->follows[i] && mr_kind_follows(o->from[i].kind) == followers;
        for (int32_t k = first ? i : -1; k >= 0; k = o->next[k]) {
            to[n++] = o->from[k];
        }
    }
    return n;
}

static void lay_out(mr_pipeline *p, const ordering *o) {
    memcpy(o->from, p->ops, (size_t)p->n_ops * sizeof *p->ops);
    for (int32_t begin = 0, end; begin < p->n_ops; begin = end + 1) {
        for (end = begin; end < p->n_ops && !is_barrier(&o->from[end]); end++) {
        }
        int32_t n = lay_out_fields(p->ops + begin, o, begin, end, false);
        lay_out_fields(p->ops + begin + n, o, begin, end, true); /* a barrier stays in its place */
    }
}

/* The document's parameters are those of a node that is not on a mask. */
static void find_nodes_of_calls(mr_pipeline *p) {
    for (int32_t i = p->n_ops - 1; i >= 0; i--) {
        mr_op_call *call = &p->calls[p->ops[i].call];
        if (p->ops[i].kind != MR_KIND_MASK || call->node < 0 ||
            p->ops[call->node].call != p->ops[i].call) {
            call->node = i;
        }
    }
}

mr_status mr_order_ops(mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    size_t n = (size_t)p->n_ops;
    if (p->n_groups == 0) {
        return MR_OK;
    }
    ordering o = {mr_zalloc(n, sizeof *o.from), mr_zalloc(n, sizeof *o.next),
                  mr_zalloc((size_t)p->n_variables, sizeof *o.last),
                  mr_zalloc(n, sizeof *o.follows)};
    bool whole = o.from && o.next && o.last && o.follows;
    if (whole) {
        link_fields(p, &o);
        lay_out(p, &o);
        find_nodes_of_calls(p);
    }
    mr_free(o.from);
    mr_free(o.next);
    mr_free(o.last);
    mr_free(o.follows);
    return whole ? MR_OK : mr_fail_memory(c->err, n * sizeof *o.from);
}

/* ---- Ops that were probably meant to draw alike ---- */
mr_status mr_add_warning(mr_compiler *c, const char *text) {
    mr_pipeline *p = c->pipeline;
    char **list = realloc(p->warnings, ((size_t)p->n_warnings + 1) * sizeof *list);
    char *copy = list ? strdup(text) : NULL;
    p->warnings = list ? list : p->warnings;
    if (!copy) {
        return mr_fail_memory(c->err, strlen(text));
    }
    p->warnings[p->n_warnings++] = copy;
    return MR_OK;
}

static mr_status warn_of(mr_compiler *c, const mr_op_node *a, const mr_op_node *b) {
    char text[512], one[64], other[64];
    mr_text_escape(one, sizeof one, a->field_name);
    mr_text_escape(other, sizeof other, b->field_name);
    snprintf(text, sizeof text,
             "%s is given twice, for %s and for %s, and draws for each anew: the two are not "
             "changed alike. If they should be, give it once: {\"%s\": {\"field\": [\"%s\", "
             "\"%s\"], ...}}",
             a->class->name, one, other, a->class->name, one, other);
    return mr_add_warning(c, text);
}

static bool are_twins(const mr_op_node *a, const mr_op_node *b) {
    return (a->flags & MR_OP_RANDOM) && a->class == b->class && !a->class->run_sample &&
           !(a->flags & MR_OP_BATCH) && a->call != b->call && a->field != b->field;
}

/* One warning for an op, whatever the number of fields. */
static bool is_told(const mr_pipeline *p, int32_t i) {
    for (int32_t k = 0; k < i; k++) {
        if (p->ops[k].call == p->ops[i].call) {
            return true;
        }
    }
    return false;
}

static const mr_op_node *find_twin(const mr_pipeline *p, int32_t i) {
    for (int32_t k = 0; k < i; k++) {
        if (are_twins(&p->ops[k], &p->ops[i])) {
            return &p->ops[k];
        }
    }
    return NULL;
}

mr_status mr_warn_of_twins(mr_compiler *c) {
    const mr_pipeline *p = c->pipeline;
    for (int32_t i = 0; i < p->n_ops; i++) {
        bool random = (p->ops[i].flags & MR_OP_RANDOM) && !is_told(p, i);
        const mr_op_node *twin = random ? find_twin(p, i) : NULL;
        MR_TRY(twin ? warn_of(c, twin, &p->ops[i]) : MR_OK);
    }
    return MR_OK;
}

/* ---- Parameters that are probably a mistake ---- */
static mr_status add_doubt(mr_compiler *c, const mr_op_node *node, const char *doubt) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s", node->class->name, doubt ? doubt : "");
    return doubt ? mr_add_warning(c, text) : MR_OK;
}

static bool is_mask(const mr_op_node *node) {
    return node->kind == MR_KIND_MASK ||
           (node->kind == MR_KIND_ANY && mr_is_called_mask(node->field_name));
}

mr_status mr_warn_of_doubts(mr_compiler *c) {
    const mr_pipeline *p = c->pipeline;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        const mr_op_class *op = node->class;
        if (op->doubt && node->params && !is_told(p, i)) {
            MR_TRY(add_doubt(c, node, op->doubt(node->params)));
        }
        if (op->doubt_of_mask && node->params && is_mask(node)) {
            MR_TRY(add_doubt(c, node, op->doubt_of_mask(node->params)));
        }
    }
    return MR_OK;
}
