/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_fuse.c - which ops can run fused, row by row, without the images between them. */
#include "plan/compiler.h"

#include "core/error.h"

/* Rows flow through a cache too, but then it keeps nothing. */
static bool passes(const mr_op_node *node, bool through_caches) {
    return node->class->pass && (through_caches || !mr_op_is_cache(node));
}

/* How many ops from the i-th on can run fused: a producer, then ops that pass rows on; one
 * that finishes ends it. */
static int32_t fused_length(const mr_pipeline *p, int32_t i, bool through_caches) {
    const mr_op_node *head = &p->ops[i];
    if (!head->class->produce || head->out.dtype != MR_U8 || head->out.layout != MR_HWC) {
        return 1;
    }
    int32_t n = 1;
    while (i + n < p->n_ops && p->ops[i + n].field == head->field &&
           passes(&p->ops[i + n], through_caches)) {
        n++;
    }
    bool ends =
        i + n < p->n_ops && p->ops[i + n].field == head->field && p->ops[i + n].class->finish;
    return ends ? n + 1 : n;
}

static int32_t next_but_caches(const mr_pipeline *p, int32_t i) {
    do {
        i++;
    } while (i < p->n_ops && mr_op_is_cache(&p->ops[i]));
    return i;
}

/* Two ops that agree on the size to decode at give other bytes one by one, so they stay together
 * even where nothing else does. */
static bool belongs_together(const mr_pipeline *p, int32_t i) {
    const mr_op_node *head = &p->ops[i];
    int32_t next = next_but_caches(p, i);
    return head->class->shrink && head->class->shrink(head->params, NULL, INT32_MAX) > 1 &&
           fused_length(p, i, true) > next - i && p->ops[next].class->tolerate;
}

mr_status mr_find_fused(mr_compiler *c) {
    mr_pipeline *p = c->pipeline;
    for (int32_t i = 0; i < p->n_ops; i++) {
        bool pair = belongs_together(p, i);
        if (pair && mr_op_is_cache(&p->ops[i + 1])) {
            mr_fail(c->err, MR_E_PARAM,
                    "the cache stands between %s and %s, which decide "
                    "together how large to decode (dct_scale)",
                    p->ops[i].class->name, p->ops[next_but_caches(p, i)].class->name);
            mr_hint(c->err, "put it before the one or after the other");
            return MR_E_PARAM;
        }
        int32_t least = pair ? 2 : 1;
        p->ops[i].fused_length = p->settings.fuse ? fused_length(p, i, false) : least;
        p->ops[i].whole_length = p->settings.fuse ? fused_length(p, i, true) : least;
    }
    return MR_OK;
}
