/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_follow.c - boxes and points beside an image in an op's "field": they follow it. */
#include "plan/compiler.h"

#include "core/error.h"
#include "core/inner_ops.h"

bool mr_has_image(const mr_compiler *c, const mr_choice *choice) {
    for (int32_t i = 0; i < choice->n; i++) {
        if (!mr_kind_follows(c->kinds[choice->variables[i]])) {
            return true;
        }
    }
    return false;
}

static const mr_op_class *first_unmoved(const mr_op_class *op, const void *params, bool inner);

static const mr_op_class *first_unmoved_inside(const mr_ops *ops) {
    const mr_op_class *found = NULL;
    for (int32_t i = 0; i < ops->n && !found; i++) {
        found = first_unmoved(ops->v[i].op, ops->v[i].params, true);
    }
    return found;
}

/* The first op, among this one and those inside of it, that moves pixels and does not say where to;
 * NULL: there is none. An op inside may also leave all pixels where they are. */
static const mr_op_class *first_unmoved(const mr_op_class *op, const void *params, bool inner) {
    uint32_t flags = mr_op_flags(op, params);
    bool stays = inner && (!(flags & MR_OP_SIZED) || (flags & MR_OP_COLOR));
    if (!op->follow && !stays) {
        return op;
    }
    const mr_op_class *found = NULL;
    for (const mr_param *row = op->params; row && row->name && !found; row++) {
        if (row->kind == MR_PARAM_OPS) {
            found = first_unmoved_inside((const mr_ops *)((const char *)params + row->offset));
        }
    }
    return found;
}

static mr_status check_type(const mr_op_node *node, const mr_type *type, mr_error *err) {
    int64_t least = node->kind == MR_KIND_BOXES ? 4 : 2;
    bool is_float = type->dtype == MR_F32 || type->dtype == MR_F64;
    bool shaped = (type->n_dims == 1 || type->n_dims == 2) && type->dims[type->n_dims - 1] >= least;
    if (is_float && shaped) {
        return MR_OK;
    }
    char text[128];
    mr_fail(
        err, MR_E_TYPE,
        "%s must be float32 or float64 of shape [?, %lld], or [%lld] where there is one, not %s",
        node->field_name, (long long)least, (long long)least,
        mr_type_text(type, text, sizeof text));
    if (shaped) {
        mr_hint(err, "put {\"cast\": {\"dtype\": \"float32\", \"field\": \"%s\"}} before it",
                node->field_name);
    }
    return MR_E_TYPE;
}

mr_status mr_plan_follow(mr_compiler *c, mr_op_node *node, const mr_choice *choice) {
    const mr_op_class *unmoved = first_unmoved(node->class, node->params, false);
    if (unmoved) {
        mr_fail(c->err, MR_E_TYPE, "%s cannot move %s", unmoved->name,
                node->kind == MR_KIND_BOXES ? "boxes" : "points");
        mr_hint(c->err, "leave field %s out of it", node->field_name);
        return MR_E_TYPE;
    }
    if (!mr_has_image(c, choice)) {
        mr_fail(c->err, MR_E_PARAM, "%s follows an image, and none is named", node->field_name);
        mr_hint(c->err, "name both: \"field\": [\"image\", \"%s\"]", node->field_name);
        return MR_E_PARAM;
    }
    MR_TRY(check_type(node, &c->types[node->field], c->err));
    node->in = node->out = c->types[node->field];
    bool may_drop = node->kind == MR_KIND_BOXES && node->in.n_dims == 2;
    node->out.dims[0] = may_drop ? -1 : node->in.dims[0];
    node->min_visible = mr_min_visible(c, c->pipeline->variables[node->field].name);
    node->format = mr_format_of_boxes(c, c->pipeline->variables[node->field].name);
    c->types[node->field] = node->out;
    c->touched[node->field] = true;
    return MR_OK;
}
