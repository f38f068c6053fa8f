/* SPDX-License-Identifier: Apache-2.0 */
/* chain_open.c - a worker's chain made and taken down: which field is delivered as what, which op
 * is the last on it, and whether many samples can go through it at once. */
#include "run/chain/chain.h"

#include "core/error.h"
#include "run/chain/enter.h"

static mr_status make_maps(mr_chain *chain, mr_error *err) {
    size_t n = (size_t)chain->pipeline->n_variables;
    chain->delivered_as = mr_zalloc(n, sizeof *chain->delivered_as);
    chain->last_op = mr_zalloc(n, sizeof *chain->last_op);
    chain->kept_by = mr_zalloc(n, sizeof *chain->kept_by);
    chain->fixed_bytes = mr_zalloc(n, sizeof *chain->fixed_bytes);
    chain->wanted_fields = mr_zalloc(n, sizeof *chain->wanted_fields);
    chain->values = mr_zalloc(n, sizeof *chain->values);
    chain->inputs = mr_zalloc(n, sizeof *chain->inputs);
    chain->to = mr_zalloc(n, sizeof *chain->to);
    bool whole = chain->delivered_as && chain->last_op && chain->kept_by && chain->fixed_bytes &&
                 chain->wanted_fields && chain->values && chain->inputs && chain->to;
    return whole ? MR_OK : mr_fail_memory(err, n * sizeof *chain->values);
}

static void free_maps(mr_chain *chain) {
    mr_free(chain->delivered_as);
    mr_free(chain->last_op);
    mr_free(chain->kept_by);
    mr_free(chain->fixed_bytes);
    mr_free(chain->wanted_fields);
    mr_free(chain->values);
    mr_free(chain->inputs);
    mr_free(chain->to);
}

/* Set once: nobody writes to a view that nobody wants. */
static void list_wanted(mr_chain *chain) {
    const mr_pipeline *p = chain->pipeline;
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        if (p->wanted[f]) {
            chain->wanted_fields[chain->n_wanted++] = f;
        }
        chain->values[f] =
            (mr_view){*mr_chain_variable_type(chain, f), NULL, p->wanted[f] ? 0 : MR_UNWANTED};
    }
}

static void map_fields(mr_chain *chain) {
    const mr_pipeline *p = chain->pipeline;
    list_wanted(chain);
    for (int32_t f = 0; f < p->n_variables; f++) {
        chain->delivered_as[f] = -1;
        chain->last_op[f] = -1;
        chain->kept_by[f] = -1;
        chain->fixed_bytes[f] = mr_type_bytes(mr_chain_variable_type(chain, f));
    }
    for (int32_t d = 0; d < p->n_fields; d++) {
        chain->delivered_as[p->field_variable[d]] = d;
    }
    for (int32_t i = 0; i < chain->n_ops; i++) {
        bool cache = mr_op_is_cache(&p->ops[i]); /* changes nothing */
        int32_t *last = cache ? chain->kept_by : chain->last_op;
        for (int32_t k = 0; k < p->ops[i].n_inputs; k++) {
            last[p->ops[i].inputs[k]] = i;
        }
        if (!cache && !mr_chain_is_done(chain, i)) {
            last[p->ops[i].field] = i;
        }
    }
}

static bool is_fixed(const mr_type *type) {
    return mr_type_bytes(type) >= 0;
}

/* Of fixed size, or a vector of varying length. */
static bool is_row(const mr_type *type) {
    return is_fixed(type) || type->n_dims == 1;
}

/* An op on whole samples is called for one after the other; a cheap one loses nothing by that. */
static bool op_takes_rows(const mr_pipeline *p, const mr_op_node *node) {
    bool cheap_sample = node->class->run_sample && !(node->flags & (MR_OP_HEAVY | MR_OP_RANDOM));
    bool fixed = node->class->run_sample || (is_row(&node->in) && is_fixed(&node->out));
    for (int32_t k = 0; k < node->n_outputs; k++) {
        fixed = fixed && is_fixed(&p->variables[node->first_output + k].type);
    }
    return fixed && !mr_op_is_cache(node) && !node->follows &&
           (cheap_sample || (node->class->run_rows && !(node->flags & MR_OP_RANDOM)));
}

/* Are a variable's last values all of one size? In a mix the field may vary all the same. */
static bool is_made_fixed(const mr_chain *chain, int32_t variable) {
    const mr_pipeline *p = chain->pipeline;
    int32_t last = chain->last_op[variable];
    bool changed = last >= 0 && !p->ops[last].class->run_sample;
    return is_fixed(changed ? &p->ops[last].out : mr_chain_variable_type(chain, variable));
}

static bool may_take_rows(const mr_chain *chain) {
    const mr_pipeline *p = chain->pipeline;
    bool takes = true;
    for (int32_t i = 0; i < chain->n_wanted && takes; i++) {
        takes = is_row(mr_chain_variable_type(chain, chain->wanted_fields[i]));
    }
    for (int32_t i = 0; i < chain->n_ops && takes; i++) {
        takes = mr_chain_is_done(chain, i) ||
                (op_takes_rows(p, &p->ops[i]) && p->ops[i].fused_length <= 1);
    }
    for (int32_t d = 0; d < p->n_fields && takes; d++) {
        takes = is_fixed(&p->fields[d].type) || !is_made_fixed(chain, p->field_variable[d]);
    }
    return takes;
}

static bool may_gather(const mr_chain *chain) {
    bool in_place = !mr_dataset_is_read(chain->dataset) || mr_dataset_has_blocks(chain->dataset);
    return mr_dataset_gathers(chain->dataset) && in_place && chain->takes_rows;
}

bool mr_chain_may_borrow(const mr_pipeline *pipeline, const mr_dataset *dataset) {
    bool as_it_is = mr_dataset_lends(dataset) && !pipeline->settings.shuffle;
    for (int32_t i = 0; as_it_is && i < pipeline->n_ops; i++) {
        as_it_is = dataset->mapping && dataset->mapping->done[i];
    }
    return as_it_is;
}

mr_status mr_chain_open(mr_chain *chain, mr_child *child, const struct mr_kernels *kernels,
                        mr_track *track, mr_error *err) {
    const mr_pipeline *pipeline = chain->pipeline = child->pipeline;
    chain->n_ops = pipeline->n_ops - pipeline->n_batch_ops;
    chain->track = track;
    chain->dataset = &child->dataset;
    chain->kernels = kernels;
    chain->seed = child->seed;
    chain->first_sample = child->first_sample;
    MR_TRY(make_maps(chain, err));
    map_fields(chain);
    chain->enter = mr_enter_op(pipeline);
    chain->takes_rows = may_take_rows(chain);
    chain->gathers = may_gather(chain);
    chain->op_states = mr_zalloc((size_t)pipeline->n_ops, sizeof *chain->op_states);
    chain->calls = mr_zalloc((size_t)pipeline->n_ops, sizeof *chain->calls);
    chain->sizes = mr_zalloc((size_t)pipeline->n_ops, sizeof *chain->sizes);
    chain->alike = mr_zalloc((size_t)pipeline->n_groups, sizeof *chain->alike);
    if (!chain->op_states || !chain->calls || !chain->sizes || !chain->alike) {
        return mr_fail_memory(err, (size_t)pipeline->n_ops * sizeof *chain->op_states);
    }
    for (int32_t i = 0; i < pipeline->n_ops; i++) {
        const mr_op_node *node = &pipeline->ops[i];
        if (node->class->open) {
            mr_error_at_op(err, node->class->name);
            MR_TRY(node->class->open(node->params, &chain->op_states[i], err));
        }
    }
    mr_error_at_op(err, ""); /* whatever fails later is not the last op's fault */
    chain->caches = &child->caches;
    mr_memory_open(&chain->memory, &child->caches);
    return mr_recall_open(&chain->recall, &child->caches, err);
}

void mr_chain_close(mr_chain *chain) {
    for (int32_t i = 0; chain->op_states && i < chain->pipeline->n_ops; i++) {
        const mr_op_class *op = chain->pipeline->ops[i].class;
        if (op->close) {
            op->close(chain->op_states[i]);
        }
    }
    mr_recall_close(&chain->recall);
    mr_memory_close(&chain->memory);
    mr_free(chain->op_states);
    mr_free(chain->calls);
    mr_free(chain->sizes);
    mr_free(chain->alike);
    free_maps(chain);
    mr_arena_free(&chain->data);
    mr_arena_free(&chain->scratch);
}
