/* SPDX-License-Identifier: Apache-2.0 */
/* concat.c - the op concat: several fields as one. */
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "ops/columns.h"

typedef struct concat_params {
    const char *name;
} concat_params;

/* A number is a vector of one. */
static mr_type as_tensor(mr_type type) {
    if (type.n_dims == 0) {
        type.n_dims = 1;
        type.dims[0] = 1;
    }
    return type;
}

static bool fit_together(const mr_type *a, const mr_type *b) {
    return a->n_dims == b->n_dims &&
           memcmp(a->dims + 1, b->dims + 1, (size_t)(a->n_dims - 1) * sizeof *a->dims) == 0;
}

static mr_status plan_sample(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                             int32_t capacity, int32_t *n_out, mr_error *err) {
    const concat_params *p = params;
    mr_type type = as_tensor(in[0].type);
    type.layout = MR_PLAIN;
    MR_TRY(mr_check_columns(in, n_in, err));
    for (int32_t i = 1; i < n_in; i++) {
        mr_type next = as_tensor(in[i].type);
        if (!fit_together(&type, &next)) {
            return mr_fail(err, MR_E_TYPE,
                           "fields %s and %s differ in more than the first dimension", in[0].name,
                           in[i].name);
        }
        type.dims[0] += next.dims[0];
    }
    const mr_field own = {.name = p->name, .type = type};
    return mr_describe_fields(&own, 1, out, capacity, n_out);
}

static const mr_param rows[] = {
    {.name = "name",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(concat_params, name),
     .doc = "What to call the new field."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"name\": \"x\"}", "fields:a=float32,b=float32x3", "5fdaa1d0160291d7d5c04daaac3f8aaa"},
    {"{\"name\": \"x\"}", "fields:a=uint8x2x3,b=uint8x1x3", "26fdec95fc20690652a3872bd308f2c6"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_concat = {
    MR_OP_HEADER,
    .name = "concat",
    .summary = "Puts fields one behind the other into one tensor, along the first axis.",
    .doc = "Numbers count as vectors of one, so numbers and vectors become one vector; otherwise "
           "fields may differ in their first dimension alone. As numpy.concatenate. Fields must "
           "have one element type and a fixed size; the new one stands in the place of the first.",
    .version = 1,
    .param_size = sizeof(concat_params),
    .params = rows,
    .plan_sample = plan_sample,
    .run_sample = mr_join_columns,
    .examples = examples,
};
