/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_unnamed.c - warns of a field that is called as masks are and that "kinds" does not name,
 * where an op would treat a mask otherwise: its values would be mixed, or changed as colours. */
#include "plan/compiler.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/inner_ops.h"
#include "core/json.h"
#include "core/letters.h"
#include "core/params.h"

bool mr_is_called_mask(const char *name) {
    static const char *const whole[] = {"seg",    "semantic",   "annotation", "annotations",
                                        "trimap", "label_map",  "labelmap",   "ground_truth",
                                        "gt",     "target_map", NULL};
    bool found = mr_find_letters(name, "mask") || mr_find_letters(name, "segm");
    for (const char *const *word = whole; *word && !found; word++) {
        found = mr_same_word(*word, name);
    }
    return found;
}

/* Whether a parameter is another one on a mask. */
static bool has_other_value(const mr_param *row, json_t *values) {
    json_t *want = NULL;
    json_error_t error;
    mr_json_load(&want, row->for_mask, strlen(row->for_mask), JSON_DECODE_ANY, &error);
    bool other = want && !json_equal(want, json_object_get(values, row->name));
    json_decref(want);
    return other;
}

static bool treats_otherwise(const mr_op_class *op, const void *params, bool beside);

static bool has_such_inside(const mr_ops *ops, bool beside) {
    for (int32_t i = 0; i < ops->n; i++) {
        if (treats_otherwise(ops->v[i].op, ops->v[i].params, beside)) {
            return true;
        }
    }
    return false;
}

/* Beside an image, colours are changed too. */
static bool treats_otherwise(const mr_op_class *op, const void *params, bool beside) {
    json_t *values = mr_params_json(op->params, params);
    bool other = beside && (mr_op_flags(op, params) & MR_OP_COLOR), inner = false;
    for (const mr_param *row = op->params; row && row->name && !other; row++) {
        inner = inner || row->kind == MR_PARAM_OPS;
        other =
            row->for_mask
                ? has_other_value(row, values)
                : row->kind == MR_PARAM_OPS &&
                      has_such_inside((const void *)((const char *)params + row->offset), beside);
    }
    json_decref(values);
    return other || (beside && op->spare_mask && !inner);
}

static bool is_suspect(const mr_op_node *node) {
    return node->kind == MR_KIND_ANY && node->params && node->class->plan &&
           node->in.layout != MR_PLAIN && mr_is_called_mask(node->field_name) &&
           treats_otherwise(node->class, node->params, node->group >= 0);
}

static bool is_told(const mr_pipeline *p, int32_t i) {
    for (int32_t k = 0; k < i; k++) {
        if (strcmp(p->ops[k].field_name, p->ops[i].field_name) == 0 && is_suspect(&p->ops[k])) {
            return true;
        }
    }
    return false;
}

static mr_status warn(mr_compiler *c, const mr_op_node *node) {
    char text[512], name[64];
    mr_text_escape(name, sizeof name, node->field_name);
    snprintf(text, sizeof text,
             "%s treats %s as a picture, whose values are mixed and changed as colours are. If it "
             "is a mask, add \"kinds\": {\"%s\": \"mask\"}",
             node->class->name, name, name);
    return mr_add_warning(c, text);
}

mr_status mr_warn_of_unnamed_masks(mr_compiler *c) {
    const mr_pipeline *p = c->pipeline;
    for (int32_t i = 0; i < p->n_ops; i++) {
        bool one = is_suspect(&p->ops[i]) && !is_told(p, i);
        MR_TRY(one ? warn(c, &p->ops[i]) : MR_OK);
    }
    return MR_OK;
}
