/* SPDX-License-Identifier: Apache-2.0 */
/* chain_batch.c - ops on batches, when all samples of one are made. */
#include "run/chain/chain.h"

#include "core/error.h"

static size_t take_columns(mr_chain *chain, const mr_op_node *node, mr_batch *batch) {
    size_t bytes = 0;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int32_t field = chain->delivered_as[node->inputs[k]];
        const mr_type *type = &chain->pipeline->fields[field].type;
        size_t each = (size_t)mr_type_bytes(type);
        chain->to[k] =
            (mr_column){.type = *type, .data = mr_batch_slot(batch, field, 0), .stride = each};
        bytes += each * (size_t)mr_batch_size(batch);
    }
    return bytes;
}

MR_MARKED static mr_status call_batch_op(mr_chain *chain, int32_t i, const mr_batch *batch,
                                         mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, mr_chain_op_number(chain, i));
    mr_status status = node->class->run_batch(node->params, &chain->calls[i], mr_batch_size(batch),
                                              chain->to, node->n_inputs, err);
    mr_mark_clear(&mark);
    return status;
}

static const mr_collation *collation_of(const mr_chain *chain, int32_t op) {
    int32_t i = 0;
    while (chain->pipeline->collations[i].op != op) {
        i++; /* there is one: see mr_compile_collations */
    }
    return &chain->pipeline->collations[i];
}

MR_MARKED static mr_status collate(mr_chain *chain, int32_t i, mr_batch *batch, size_t *bytes,
                                   mr_error *err) {
    const mr_collation *how = collation_of(chain, i);
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, mr_chain_op_number(chain, i));
    mr_status status =
        mr_batch_collate(batch, how, &chain->pipeline->ops[i], &chain->calls[i], err);
    mr_mark_clear(&mark);
    *bytes = status == MR_OK ? mr_batch_array(batch, how->field)->size : 0;
    return status;
}

mr_status mr_chain_run_batch(mr_chain *chain, mr_batch *batch, int64_t batch_number,
                             mr_error *err) {
    const mr_chain_job first = {.sample = mr_batch_samples(batch)[0],
                                .epoch = (uint32_t)mr_batch_epoch(batch)};
    for (int32_t i = chain->n_ops; i < chain->pipeline->n_ops; i++) {
        const mr_op_node *node = &chain->pipeline->ops[i];
        uint64_t begun = mr_track_now(chain->track);
        size_t bytes = 0;
        mr_chain_set_call(chain, &first, i);
        mr_error_at_op(err, node->class->name);
        if (node->class->collate) {
            MR_TRY(collate(chain, i, batch, &bytes, err));
        } else {
            bytes = take_columns(chain, node, batch);
            MR_TRY(call_batch_op(chain, i, batch, err));
        }
        mr_arena_reset(&chain->scratch);
        mr_track_op(chain->track, mr_chain_op_number(chain, i), begun, batch_number, bytes);
    }
    mr_error_at_op(err, "");
    return MR_OK;
}
