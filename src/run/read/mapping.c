/* SPDX-License-Identifier: Apache-2.0 */
/* mapping.c - see mapping.h. */
#include "run/read/mapping.h"

#include "core/error.h"
#include "core/memory.h"
#include "run/read/dataset.h"
#include "span/probe.h"

/* ---- Which ops ---- */
/* Views and caches look at a sample's fields as they are before the ops. */
static bool has_caches(const mr_pipeline *p) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (mr_op_is_cache(&p->ops[i])) {
            return true;
        }
    }
    return false;
}

static bool may_map(const mr_pipeline *p) {
    return mr_dataset_may_map(p) && p->view.n == 0 && !p->is_stream && !has_caches(p);
}

static bool is_number(const mr_type *type) {
    return type->n_dims == 0;
}

static bool is_text(const mr_type *type) {
    return type->dtype == MR_U8 && type->n_dims == 1 && type->dims[0] < 0;
}

/* A text or a number to a number, whatever it is. */
static bool maps_values(const mr_op_node *node) {
    const mr_op_class *op = node->class;
    return (node->flags & MR_OP_TOTAL) && !(node->flags & (MR_OP_RANDOM | MR_OP_OPAQUE)) &&
           op->run_rows && !op->open && !op->run_sample && node->fused_length <= 1 &&
           node->whole_length <= 1 && !node->follows &&
           (is_number(&node->in) || is_text(&node->in)) && is_number(&node->out);
}

/* The first ops of each field, up to one that cannot be mapped or that reads the field for others.
 */
static int32_t choose_ops(mr_mapping *mapping, bool *closed) {
    const mr_pipeline *p = mapping->pipeline;
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_ops - p->n_batch_ops; i++) {
        const mr_op_node *node = &p->ops[i];
        for (int32_t k = 0; k < node->n_inputs; k++) {
            closed[node->inputs[k]] = true;
        }
        int32_t f = node->field;
        if (f >= p->n_source_fields || closed[f]) {
            continue;
        }
        closed[f] = !maps_values(node) || (!mapping->is_mapped[f] && !mr_dataset_maps(p, f));
        if (!closed[f]) {
            mapping->done[i] = mapping->is_mapped[f] = true;
            mapping->types[f] = node->out;
            n++;
        }
    }
    return n;
}

/* ---- Running them ---- */
enum { TILE = 2048 }; /* values that go through all ops together: they stay in the cache */

static mr_column tile_of(const mr_column *column, int64_t first) {
    mr_column tile = *column;
    tile.data = tile.data ? (char *)tile.data + (size_t)first * tile.stride : NULL;
    tile.pieces = tile.pieces ? tile.pieces + first : NULL;
    return tile;
}

/* The field's next op from the i-th on, or -1. */
static int32_t next_op(const mr_mapping *mapping, int32_t field, int32_t i) {
    const mr_pipeline *p = mapping->pipeline;
    while (i < p->n_ops && !(mapping->done[i] && p->ops[i].field == field)) {
        i++;
    }
    return i < p->n_ops ? i : -1;
}

MR_MARKED static mr_status run_op(const mr_mapping *mapping, int32_t i, mr_arena *scratch,
                                  int64_t n, const mr_column *in, const mr_column *out,
                                  mr_error *err) {
    const mr_op_node *node = &mapping->pipeline->ops[i];
    mr_call call = {.arena = scratch};
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, mapping->pipeline->first_op + i);
    mr_status status = node->class->run_rows(node->params, &call, n, in, out, err);
    mr_mark_clear(&mark);
    mr_arena_reset(scratch);
    return status;
}

static mr_status map_tile(const mr_mapping *mapping, int32_t field, mr_arena *arenas, int64_t n,
                          mr_column in, const mr_column *out, mr_error *err) {
    for (int32_t i = next_op(mapping, field, 0), next; i >= 0; i = next) {
        next = next_op(mapping, field, i + 1);
        mr_column to = *out;
        if (next >= 0) {
            to = (mr_column){.type = mapping->pipeline->ops[i].out};
            to.stride = (size_t)mr_type_bytes(&to.type);
            to.data = mr_arena_take(&arenas[0], to.stride * (size_t)n);
        }
        if (!to.data) {
            return mr_fail_memory(err, to.stride * (size_t)n);
        }
        MR_TRY(run_op(mapping, i, &arenas[1], n, &in, &to, err));
        in = to;
    }
    return MR_OK;
}

static mr_status map(void *user, int32_t field, int64_t n, const mr_column *in,
                     const mr_column *out, mr_error *err) {
    mr_arena arenas[2] = {{0}, {0}}; /* between ops, and for an op */
    mr_status status = MR_OK;
    for (int64_t first = 0; status == MR_OK && first < n; first += TILE) {
        const mr_column to = tile_of(out, first);
        int64_t count = n - first < TILE ? n - first : TILE;
        status = map_tile(user, field, arenas, count, tile_of(in, first), &to, err);
        mr_arena_reset(&arenas[0]);
    }
    mr_arena_free(&arenas[0]);
    mr_arena_free(&arenas[1]);
    return status;
}

/* ---- Opening ---- */
static mr_status take_memory(mr_mapping *mapping, bool **closed, mr_error *err) {
    size_t ops = (size_t)mapping->pipeline->n_ops, fields = (size_t)mapping->pipeline->n_variables;
    mapping->done = mr_zalloc(ops, sizeof *mapping->done);
    mapping->is_mapped = mr_zalloc(fields, sizeof *mapping->is_mapped);
    mapping->types = mr_zalloc(fields, sizeof *mapping->types);
    *closed = mr_zalloc(fields, sizeof **closed);
    return mapping->done && mapping->is_mapped && mapping->types && *closed
               ? MR_OK
               : mr_fail_memory(err, fields * sizeof *mapping->types);
}

mr_status mr_mapping_new(mr_mapping **out, const mr_pipeline *pipeline, mr_error *err) {
    bool *closed = NULL;
    *out = NULL;
    if (!may_map(pipeline)) {
        return MR_OK;
    }
    mr_mapping *mapping = mr_zalloc(1, sizeof *mapping);
    if (!mapping) {
        return mr_fail_memory(err, sizeof *mapping);
    }
    mapping->pipeline = pipeline;
    mr_status status = take_memory(mapping, &closed, err);
    mapping->mapper = (mr_mapper){mapping->is_mapped, mapping->types, map, mapping};
    if (status < 0 || choose_ops(mapping, closed) == 0) {
        mr_mapping_free(mapping);
    } else {
        *out = mapping;
    }
    mr_free(closed);
    return status;
}

void mr_mapping_free(mr_mapping *mapping) {
    if (mapping) {
        mr_free(mapping->done);
        mr_free(mapping->is_mapped);
        mr_free(mapping->types);
        mr_free(mapping);
    }
}
