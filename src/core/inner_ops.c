/* SPDX-License-Identifier: Apache-2.0 */
/* inner_ops.c - see inner_ops.h. */
#include "core/inner_ops.h"

#include <stdio.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/params.h"
#include "core/registry.h"

static const char *next_op_name(void *user) {
    int32_t *i = user;
    const mr_op_class *op = mr_op_at((*i)++);
    return op ? op->name : NULL;
}

static mr_status unknown_op(const char *name, const char *where, mr_error *err) {
    char shown[64];
    int32_t cursor = 0;
    const char *nearest = mr_nearest_name(name, next_op_name, &cursor);
    mr_text_escape(shown, sizeof shown, name);
    mr_error_at_json(err, where);
    mr_fail(err, MR_E_PARAM, "unknown op \"%s\"", shown);
    if (nearest) {
        mr_hint(err, "did you mean \"%s\"?", nearest);
    } else {
        mr_hint(err, "ops of plug-ins and functions cannot stand inside another op");
    }
    return MR_E_PARAM;
}

/* Ops that the engine runs in its own way, or whose results have a size that only their data tell.
 */
static mr_status check_kind(const mr_op_class *op, const char *where, mr_error *err) {
    if ((op->flags & MR_OP_BATCH) && op->run_batch) {
        return MR_OK;
    }
    if (op->plan && op->run && !op->peek && !op->run_sample && !(op->flags & MR_OP_STORES)) {
        return MR_OK;
    }
    mr_error_at_json(err, where);
    mr_fail(err, MR_E_PARAM, "%s cannot stand inside another op", op->name);
    mr_hint(err, "put it before or behind it");
    return MR_E_PARAM;
}

static mr_status fill(mr_inner_op *inner, json_t *params, const char *where, mr_error *err) {
    char what[64];
    snprintf(what, sizeof what, "op %s", inner->op->name);
    inner->params = mr_new_params(inner->op->param_size, inner->op->user);
    if (!inner->params) {
        return mr_fail_memory(err, inner->op->param_size);
    }
    mr_status status =
        mr_params_fill(inner->op->params, params, where, what, NULL, inner->params, err);
    if (status == MR_OK && inner->op->check) {
        mr_error_at_json(err, where);
        status = inner->op->check(inner->params, err);
    }
    return status;
}

static mr_status read_one(mr_inner_op *inner, json_t *item, const char *where, mr_error *err) {
    const char *name = NULL;
    json_t *params = NULL;
    char path[192];
    MR_TRY(mr_split_call(item, "an op", where, &name, &params, err));
    inner->op = mr_op_find(name);
    if (!inner->op) {
        return unknown_op(name, where, err);
    }
    MR_TRY(check_kind(inner->op, where, err));
    snprintf(path, sizeof path, "%s.%s", where, inner->op->name);
    return fill(inner, params, path, err);
}

mr_status mr_inner_ops_read(json_t *value, const char *where, mr_ops *out, mr_error *err) {
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    out->v = mr_zalloc(n, sizeof *out->v);
    if (!out->v) {
        return mr_fail_memory(err, n * sizeof *out->v);
    }
    for (size_t i = 0; i < n; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s[%zu]", where, i);
        out->n++; /* from here on freed with the list */
        MR_TRY(read_one(&out->v[i], json_is_array(value) ? json_array_get(value, i) : value, path,
                        err));
    }
    return MR_OK;
}

void mr_inner_ops_free(mr_ops *ops) {
    for (int32_t i = 0; i < ops->n; i++) {
        if (ops->v[i].params) {
            mr_params_free(ops->v[i].op->params, ops->v[i].params);
        }
        mr_free(ops->v[i].params);
    }
    mr_free(ops->v);
    *ops = (mr_ops){0, NULL};
}

json_t *mr_inner_ops_json(const mr_ops *ops) {
    json_t *list = json_array();
    for (int32_t i = 0; i < ops->n; i++) {
        json_t *inner = mr_params_json(ops->v[i].op->params, ops->v[i].params);
        json_t *call = inner ? json_pack("{s:o}", ops->v[i].op->name, inner) : NULL;
        if (!call || json_array_append_new(list, call) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

uint32_t mr_op_flags(const mr_op_class *op, const void *params) {
    return (op->flags_for ? op->flags_for(params) : op->flags) | (op->flags & MR_OP_COLOR);
}
