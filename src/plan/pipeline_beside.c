/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_beside.c - warns of an image that is moved while its masks, boxes or points stay where
 * they are: fields that "kinds" names, or that are called so and have such a shape. */
#include "plan/compiler.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"

static const char *const kind_words[] = {
    [MR_KIND_MASK] = "mask", [MR_KIND_BOXES] = "boxes", [MR_KIND_POINTS] = "points"};

static bool has_shape(mr_kind kind, const mr_type *type) {
    const int64_t least = kind == MR_KIND_BOXES ? 4 : 2;
    const bool rows = type->layout == MR_PLAIN && type->dtype != MR_U8 && type->dtype != MR_BOOL &&
                      ((type->n_dims == 2 && type->dims[1] >= least) ||
                       (type->n_dims == 1 && type->dims[0] == least));
    return kind == MR_KIND_MASK ? type->layout != MR_PLAIN : rows;
}

/* What a delivered field is: as the document says, else as its name does where the type allows. */
static mr_kind kind_of(const mr_compiler *c, const mr_field *field) {
    static const struct {
        const char *name;
        mr_kind kind;
    } known[] = {
        {"mask", MR_KIND_MASK},     {"masks", MR_KIND_MASK},       {"boxes", MR_KIND_BOXES},
        {"bboxes", MR_KIND_BOXES},  {"bbox", MR_KIND_BOXES},       {"box", MR_KIND_BOXES},
        {"points", MR_KIND_POINTS}, {"keypoints", MR_KIND_POINTS}, {"landmarks", MR_KIND_POINTS}};
    mr_kind kind = mr_kind_of_name(c, field->name);
    for (size_t i = 0; kind == MR_KIND_ANY && i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, field->name) == 0 && has_shape(known[i].kind, &field->type)) {
            return known[i].kind;
        }
    }
    return kind;
}

/* Ops that hold others move what these move. */
static bool moves(const mr_op_class *op, const void *params) {
    bool any = op->follow != NULL;
    for (const mr_param *row = op->params; row && row->name; row++) {
        if (row->kind == MR_PARAM_OPS && any) {
            const mr_ops *inner = (const mr_ops *)((const char *)params + row->offset);
            any = false;
            for (int32_t i = 0; i < inner->n; i++) {
                any = any || moves(inner->v[i].op, inner->v[i].params);
            }
        }
    }
    return any;
}

/* Whether the op, or another of its kind, works on the variable: then it is taken care of. */
static bool is_moved(const mr_pipeline *p, const mr_op_class *class, int32_t variable) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].class == class && p->ops[i].field == variable) {
            return true;
        }
    }
    return false;
}

static mr_status warn(mr_compiler *c, const mr_op_node *node, const char *name, mr_kind kind) {
    char text[640], image[64], other[64], kinds[128] = "";
    mr_text_escape(image, sizeof image, node->field_name);
    mr_text_escape(other, sizeof other, name);
    if (mr_kind_of_name(c, name) == MR_KIND_ANY) {
        snprintf(kinds, sizeof kinds, " and \"kinds\": {\"%s\": \"%s\"}", other, kind_words[kind]);
    }
    snprintf(text, sizeof text,
             "%s changes %s alone, and %s stays where it is. If it should follow, name both: "
             "{\"%s\": {\"field\": [\"%s\", \"%s\"], ...}}%s",
             node->class->name, image, other, node->class->name, image, other, kinds);
    return mr_add_warning(c, text);
}

/* Only ops behind the last that made the field anew could have moved it; which these are is not
 * looked at: an op on whole samples may move what it likes, so it ends the search. */
static bool is_after_samples(const mr_pipeline *p, int32_t i) {
    for (int32_t k = i; k < p->n_ops; k++) {
        if (p->ops[k].class->run_sample) {
            return false;
        }
    }
    return true;
}

static bool moves_image_alone(const mr_pipeline *p, int32_t i) {
    const mr_op_node *node = &p->ops[i];
    return node->kind == MR_KIND_ANY && node->params && !node->class->run_sample &&
           !(node->flags & MR_OP_BATCH) && moves(node->class, node->params) &&
           is_after_samples(p, i);
}

/* The first op that leaves a field behind, or NULL. */
static const mr_op_node *who_leaves(const mr_pipeline *p, int32_t variable) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].field != variable && moves_image_alone(p, i) &&
            !is_moved(p, p->ops[i].class, variable)) {
            return &p->ops[i];
        }
    }
    return NULL;
}

mr_status mr_warn_of_left_behind(mr_compiler *c) {
    const mr_pipeline *p = c->pipeline;
    for (int32_t f = 0; f < p->n_fields; f++) {
        const mr_kind kind = kind_of(c, &p->fields[f]);
        const mr_op_node *node = kind == MR_KIND_ANY ? NULL : who_leaves(p, p->field_variable[f]);
        MR_TRY(node ? warn(c, node, p->fields[f].name, kind) : MR_OK);
    }
    return MR_OK;
}
