/* SPDX-License-Identifier: Apache-2.0 */
/* collate.c - arrays of values of unequal size: the op says how large they are, memory is taken,
 * the op writes them. The values go straight from where they were made, or lent, into the arrays.
 */
#include "core/error.h"
#include "run/ring/batch_parts.h"

static mr_view *list_values(const mr_batch *batch, int32_t field, mr_call *call) {
    const mr_batch_value *pieces = batch->parts[field].pieces;
    mr_view *values = mr_scratch(call, (size_t)batch->count * sizeof *values);
    for (int64_t i = 0; values && i < batch->count; i++) {
        values[i] = (mr_view){pieces[i].type, pieces[i].data, pieces[i].size};
    }
    return values;
}

static mr_status size_of(const mr_collated *made, size_t *bytes, mr_error *err) {
    *bytes = mr_dtype_size(made->dtype);
    for (int32_t i = 0; i < made->n_dims; i++) {
        if (made->dims[i] < 0 || __builtin_mul_overflow(*bytes, (size_t)made->dims[i], bytes)) {
            return mr_fail(err, MR_E_LIMIT, "the batch does not fit into memory");
        }
    }
    return *bytes < (size_t)1 << 46
               ? MR_OK
               : mr_fail(err, MR_E_LIMIT, "the batch would take %zu bytes", *bytes);
}

static mr_status take_memory(mr_batch *batch, int32_t i, mr_collated *made, mr_error *err) {
    mr_array *array = &batch->arrays[i];
    size_t bytes = 0;
    MR_TRY(size_of(made, &bytes, err));
    MR_TRY(mr_batch_reserve(batch, i, bytes, err));
    array->dtype = made->dtype;
    array->n_dims = made->n_dims;
    array->sample_dims = made->n_dims - 1;
    for (int32_t d = 0; d < made->n_dims; d++) {
        array->dims[d] = made->dims[d];
    }
    array->size = bytes;
    made->data = array->data;
    return MR_OK;
}

mr_status mr_batch_collate(mr_batch *batch, const mr_collation *how, const mr_op_node *node,
                           mr_call *call, mr_error *err) {
    mr_collated made[MR_COLLATED_MAX];
    void *memo = NULL;
    const mr_view *values = list_values(batch, how->field, call);
    if (!values) {
        return mr_fail_memory(err, (size_t)batch->count * sizeof *values);
    }
    for (int32_t k = 0; k < how->n; k++) {
        made[k] = how->arrays[k];
    }
    MR_TRY(node->class->measure(node->params, call, batch->count, values, made, &memo, err));
    for (int32_t k = 0; k < how->n; k++) {
        int32_t array = k == 0 ? how->field : how->first_array + k - 1;
        MR_TRY(take_memory(batch, array, &made[k], err));
    }
    return node->class->collate(node->params, call, batch->count, values, made, memo, err);
}
