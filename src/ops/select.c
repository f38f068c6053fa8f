/* SPDX-License-Identifier: Apache-2.0 */
/* select.c - the op select: goes on with some fields of a sample, in a given order. */
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "ops/columns.h"

typedef struct select_params {
    mr_strings fields;
} select_params;

static bool is_taken(const int32_t *from, int32_t n, int32_t field) {
    for (int32_t i = 0; i < n; i++) {
        if (from[i] == field) {
            return true;
        }
    }
    return false;
}

static mr_status arrange(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                         int32_t *from, int32_t *n_out, mr_error *err) {
    const select_params *p = params;
    const char *unknown = mr_unknown_column(&p->fields, in, n_in);
    int32_t n = 0;
    if (unknown) {
        return mr_no_such_column(unknown, in, n_in, err);
    }
    for (int32_t k = 0; k < p->fields.n; k++) {
        const mr_strings one = {1, &p->fields.v[k]};
        for (int32_t i = 0; i < n_in; i++) {
            if (mr_names_column(&one, &in[i]) && !is_taken(from, n, i)) {
                out[n] = in[i];
                out[n].optional = false;
                from[n++] = i;
            }
        }
    }
    *n_out = n;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(select_params, fields),
     .min_len = 1,
     .max_len = MR_FIELDS_LIMIT,
     .doc = "Names or patterns (feature_*) of the fields to go on with."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"fields\": [\"c\", \"a*\"]}", "fields:a1=float32,b=int64,c=uint8x3,a2=float32",
     "ad95583978c9e6b8f2d42d116f34bb39"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_select = {
    MR_OP_HEADER,
    .name = "select",
    .summary = "Goes on with some fields of a sample, in a given order.",
    .doc = "The first one named is the one that later ops work on unless they say otherwise. The "
           "others are not read, unless an earlier op takes them. No value is touched.",
    .version = 1,
    .param_size = sizeof(select_params),
    .params = rows,
    .arrange = arrange,
    .examples = examples,
};
