/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c - the op stack: several fields as one. */
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "ops/columns.h"

typedef struct stack_params {
    const char *name;
} stack_params;

static mr_status plan_sample(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                             int32_t capacity, int32_t *n_out, mr_error *err) {
    const stack_params *p = params;
    const mr_type *first = &in[0].type;
    MR_TRY(mr_check_columns(in, n_in, err));
    for (int32_t i = 1; i < n_in; i++) {
        bool same =
            in[i].type.n_dims == first->n_dims &&
            memcmp(in[i].type.dims, first->dims, (size_t)first->n_dims * sizeof *first->dims) == 0;
        if (!same) {
            mr_fail(err, MR_E_TYPE, "fields %s and %s differ in shape", in[0].name, in[i].name);
            mr_hint(err, "concat takes fields that differ in their first dimension");
            return MR_E_TYPE;
        }
    }
    if (first->n_dims == MR_MAX_DIMS) {
        return mr_fail(err, MR_E_TYPE, "more than %d dimensions", MR_MAX_DIMS);
    }
    mr_type type = {.dtype = first->dtype, .n_dims = first->n_dims + 1, .dims = {n_in}};
    memcpy(type.dims + 1, first->dims, (size_t)first->n_dims * sizeof *first->dims);
    const mr_field own = {.name = p->name, .type = type};
    return mr_describe_fields(&own, 1, out, capacity, n_out);
}

static const mr_param rows[] = {
    {.name = "name",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(stack_params, name),
     .doc = "What to call the new field."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"name\": \"x\"}", "fields:a=float32,b=float32,c=float32",
     "e6d88b10f61b42b55f387580c83ad06c"},
    {"{\"name\": \"x\"}", "fields:a=uint8x2x3,b=uint8x2x3", "f4d5eec77efebfb3a4bd0031c55f018d"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_stack = {
    MR_OP_HEADER,
    .name = "stack",
    .summary = "Puts fields of one shape into one tensor, along a new first axis.",
    .doc = "n fields of shape [a, b] become one of shape [n, a, b], in the order in which they are "
           "named; n numbers become a vector. As numpy.stack. Fields must have one element type "
           "and a fixed size; the new one stands in the place of the first.",
    .version = 1,
    .param_size = sizeof(stack_params),
    .params = rows,
    .plan_sample = plan_sample,
    .run_sample = mr_join_columns,
    .examples = examples,
};
