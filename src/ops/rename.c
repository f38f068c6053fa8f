/* SPDX-License-Identifier: Apache-2.0 */
/* rename.c - the op rename: gives fields of a sample other names. */
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "ops/columns.h"

typedef struct rename_params {
    mr_strings fields, names;
} rename_params;

static mr_status check(void *params, mr_error *err) {
    const rename_params *p = params;
    if (p->fields.n != p->names.n) {
        return mr_fail(err, MR_E_PARAM, "there are %d fields and %d names for them", p->fields.n,
                       p->names.n);
    }
    return MR_OK;
}

static mr_status arrange(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                         int32_t *from, int32_t *n_out, mr_error *err) {
    const rename_params *p = params;
    memcpy(out, in, (size_t)n_in * sizeof *in);
    for (int32_t i = 0; i < n_in; i++) {
        from[i] = i;
    }
    for (int32_t k = 0; k < p->fields.n; k++) {
        int32_t i = 0;
        while (i < n_in && strcmp(in[i].name, p->fields.v[k]) != 0) {
            i++;
        }
        if (i == n_in) {
            return mr_no_such_column(p->fields.v[k], in, n_in, err);
        }
        out[i].name = p->names.v[k];
    }
    *n_out = n_in;
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(rename_params, fields),
     .min_len = 1,
     .max_len = MR_FIELDS_LIMIT,
     .doc = "Fields as they are called."},
    {.name = "names",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(rename_params, names),
     .min_len = 1,
     .max_len = MR_FIELDS_LIMIT,
     .doc = "What to call them, in the same order."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"fields\": [\"a\", \"b\"], \"names\": [\"b\", \"a\"]}", "fields:a=float32,b=int64",
     "740f4a0065e9f9bf64e8806e1864a37b"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_rename = {
    MR_OP_HEADER,
    .name = "rename",
    .summary = "Gives fields of a sample other names.",
    .doc = "Names may change places. No value is touched.",
    .version = 1,
    .param_size = sizeof(rename_params),
    .params = rows,
    .check = check,
    .arrange = arrange,
    .examples = examples,
};
