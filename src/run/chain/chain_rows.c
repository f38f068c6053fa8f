/* SPDX-License-Identifier: Apache-2.0 */
/* chain_rows.c - many samples at once: gathered column by column, through ops that take runs of
 * rows, into the batch. */
#include "run/chain/chain.h"

#include <string.h>

#include "core/error.h"

/* Where the values of a field, of the type that `out` has, go: into the batch if the i-th op is the
 * last to change them. */
static mr_status place_column(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n,
                              int32_t variable, int32_t i, mr_column *out, mr_error *err) {
    int32_t delivered = chain->delivered_as[variable];
    size_t bytes = (size_t)mr_type_bytes(&out->type);
    bool last = delivered >= 0 && chain->last_op[variable] == i;
    out->stride = bytes;
    out->data = last ? mr_batch_slot(batch, delivered, first)
                     : mr_arena_take(&chain->data, bytes * (size_t)n);
    return out->data ? MR_OK : mr_fail_memory(err, bytes * (size_t)n);
}

/* Of one row; where they vary, their mean. */
static size_t bytes_each(const mr_column *column, int64_t n) {
    int64_t fixed = mr_type_bytes(&column->type);
    size_t sum = 0;
    for (int64_t row = 0; fixed < 0 && row < n; row++) {
        sum += mr_column_value(column, row).size;
    }
    return fixed >= 0 ? (size_t)fixed : sum / (size_t)n;
}

static void lap_of_op(mr_chain *chain, int32_t i, int64_t n, const mr_column *in,
                      const mr_column *out) {
    mr_track_lap(chain->track, MR_SPAN_OP, mr_chain_op_number(chain, i), 1, bytes_each(in, n),
                 bytes_each(out, n));
}

static mr_status run_sample_rows(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n,
                                 int32_t i, mr_column *columns, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_view *out = chain->values + node->first_output;
    for (int32_t k = 0; k < node->n_outputs; k++) {
        int32_t variable = node->first_output + k;
        columns[variable] = (mr_column){.type = chain->pipeline->variables[variable].type};
        MR_TRY(place_column(chain, batch, first, n, variable, -1, &columns[variable], err));
    }
    for (int64_t row = 0; row < n; row++) {
        for (int32_t k = 0; k < node->n_inputs; k++) {
            chain->inputs[k] = mr_column_value(&columns[node->inputs[k]], row);
        }
        for (int32_t k = 0; k < node->n_outputs; k++) {
            out[k] = mr_column_value(&columns[node->first_output + k], row);
        }
        MR_TRY(mr_chain_call_sample(chain, i, chain->inputs, out, err));
    }
    lap_of_op(chain, i, n, &columns[node->inputs[0]], &columns[node->first_output]);
    return MR_OK;
}

MR_MARKED static mr_status call_rows(mr_chain *chain, int32_t i, int64_t n, const mr_column *in,
                                     mr_column *out, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, mr_chain_op_number(chain, i));
    mr_status status = node->class->run_rows(node->params, &chain->calls[i], n, in, out, err);
    mr_mark_clear(&mark);
    return status;
}

static mr_status run_op_rows(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n, int32_t i,
                             mr_column *columns, mr_error *err) {
    const mr_op_node *node = &chain->pipeline->ops[i];
    const mr_chain_job nobody = {0}; /* none of these ops draws */
    mr_column out = {.type = node->out};
    mr_error_at_op(err, node->class->name);
    mr_chain_set_call(chain, &nobody, i);
    if (node->class->run_sample) {
        return run_sample_rows(chain, batch, first, n, i, columns, err);
    }
    MR_TRY(place_column(chain, batch, first, n, node->field, i, &out, err));
    MR_TRY(call_rows(chain, i, n, &columns[node->field], &out, err));
    lap_of_op(chain, i, n, &columns[node->field], &out);
    columns[node->field] = out;
    return MR_OK;
}

/* Fields that the source put elsewhere and no op changed. */
static void settle_columns(const mr_chain *chain, mr_batch *batch, int64_t first, int64_t n,
                           const mr_column *columns) {
    const mr_pipeline *p = chain->pipeline;
    for (int32_t d = 0; d < p->n_fields; d++) {
        const mr_column *column = &columns[p->field_variable[d]];
        bool ragged = mr_batch_is_ragged(batch, d);
        if (!ragged && !column->pieces && column->data == mr_batch_slot(batch, d, first)) {
            continue;
        }
        for (int64_t row = 0; row < n; row++) {
            mr_view value = mr_column_value(column, row);
            if (ragged) {
                mr_batch_lend(batch, d, first + row, &value);
            } else {
                memcpy(mr_batch_slot(batch, d, first + row), value.data, value.size);
            }
        }
    }
}

mr_status mr_chain_run_rows(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n,
                            mr_column *columns, mr_error *err) {
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < chain->n_ops; i++) {
        if (mr_chain_is_done(chain, i)) {
            continue;
        }
        status = run_op_rows(chain, batch, first, n, i, columns, err);
        mr_arena_reset(&chain->scratch);
    }
    if (status == MR_OK) {
        settle_columns(chain, batch, first, n, columns);
    }
    if (status == MR_OK) {
        mr_batch_rows_done(batch, first, n);
    }
    mr_arena_reset(&chain->data);
    return status;
}

/* Where the source puts n values of a field: into the batch if no op changes them. */
static mr_status offer_column(mr_chain *chain, mr_batch *batch, int64_t first, int64_t n, int32_t f,
                              mr_error *err) {
    const mr_type *type = mr_chain_variable_type(chain, f);
    mr_column *column = &chain->to[f];
    *column = (mr_column){.type = *type};
    if (chain->fixed_bytes[f] >= 0) {
        return place_column(chain, batch, first, n, f, -1, column, err);
    }
    column->pieces = mr_arena_take(&chain->data, (size_t)n * sizeof *column->pieces);
    return column->pieces ? MR_OK : mr_fail_memory(err, (size_t)n * sizeof *column->pieces);
}

MR_MARKED static mr_status call_gather(const mr_chain *chain, const mr_block *const *blocks,
                                       const int64_t *samples, int64_t n, mr_error *err) {
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_FILL, 0);
    mr_status status = mr_dataset_gather(chain->dataset, blocks, samples, n, chain->to, err);
    mr_mark_clear(&mark);
    return status;
}

/* ---- Memory of the source's ---- */
static bool lie_in_order(const mr_block *const *blocks, const int64_t *samples, int64_t n) {
    int64_t i = 1;
    while (i < n && blocks[i] == blocks[0] && samples[i] == samples[0] + i) {
        i++;
    }
    return i == n;
}

/* Where the rows are a whole batch and lie in a block as they stand in the batch. A field that is
 * lent is not gathered. */
static void borrow_fields(const mr_chain *chain, mr_batch *batch, const mr_block *const *blocks,
                          const int64_t *samples, int64_t n) {
    if (!chain->borrows || n != mr_batch_size(batch) || !lie_in_order(blocks, samples, n)) {
        return;
    }
    for (int32_t i = 0; i < chain->n_wanted; i++) {
        int32_t field = chain->wanted_fields[i], delivered = chain->delivered_as[field];
        mr_loan loan = {0};
        if (delivered >= 0 && !mr_batch_is_ragged(batch, delivered) &&
            chain->fixed_bytes[field] >= 0 &&
            mr_dataset_lend(chain->dataset, blocks[0], field, samples[0], n, &loan)) {
            mr_batch_borrow(batch, delivered, &loan);
            chain->to[field].data = NULL;
        }
    }
}

/* As if they had been gathered. */
static void place_borrowed(const mr_chain *chain, mr_batch *batch, int64_t first) {
    for (int32_t i = 0; chain->borrows && i < chain->n_wanted; i++) {
        mr_column *column = &chain->to[chain->wanted_fields[i]];
        int32_t delivered = chain->delivered_as[chain->wanted_fields[i]];
        if (!column->data && !column->pieces && delivered >= 0) {
            column->data = mr_batch_slot(batch, delivered, first);
        }
    }
}

static mr_status gather_rows(mr_chain *chain, mr_batch *batch, const mr_block *const *blocks,
                             const int64_t *samples, int64_t first, int64_t n, mr_error *err) {
    for (int32_t i = 0; i < chain->n_wanted; i++) { /* the others stay empty */
        MR_TRY(offer_column(chain, batch, first, n, chain->wanted_fields[i], err));
    }
    borrow_fields(chain, batch, blocks, samples, n);
    MR_TRY(call_gather(chain, blocks, samples, n, err));
    place_borrowed(chain, batch, first);
    size_t bytes = chain->n_wanted > 0 ? bytes_each(&chain->to[chain->wanted_fields[0]], n) : 0;
    mr_track_lap(chain->track, MR_SPAN_FILL, 0, 0, 0, bytes);
    return mr_chain_run_rows(chain, batch, first, n, chain->to, err);
}

mr_status mr_chain_gather(mr_chain *chain, mr_batch *batch, int64_t batch_number,
                          const mr_block *const *blocks, const int64_t *samples, int64_t first,
                          int64_t n, mr_error *err) {
    mr_track_begin_rows(chain->track, chain->first_sample + samples[0], (uint32_t)batch_number, n);
    mr_status status = gather_rows(chain, batch, blocks, samples, first, n, err);
    mr_arena_reset(&chain->data);
    if (status == MR_OK) {
        mr_track_end(chain->track);
    } else {
        mr_batch_return(batch); /* what is made one by one goes into its own memory */
        mr_track_give_up(chain->track);
    }
    return status;
}
