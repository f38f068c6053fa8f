/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c - the op drop: goes on without some fields of a sample. */
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "ops/columns.h"

typedef struct drop_params {
    mr_strings fields;
} drop_params;

static mr_status arrange(const void *params, const mr_field *in, int32_t n_in, mr_field *out,
                         int32_t *from, int32_t *n_out, mr_error *err) {
    const drop_params *p = params;
    const char *unknown = mr_unknown_column(&p->fields, in, n_in);
    int32_t n = 0;
    if (unknown) {
        return mr_no_such_column(unknown, in, n_in, err);
    }
    for (int32_t i = 0; i < n_in; i++) {
        if (!mr_names_column(&p->fields, &in[i])) {
            out[n] = in[i];
            from[n++] = i;
        }
    }
    *n_out = n;
    return n > 0 ? MR_OK : mr_fail(err, MR_E_PARAM, "no field is left");
}

static const mr_param rows[] = {
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(drop_params, fields),
     .min_len = 1,
     .max_len = MR_FIELDS_LIMIT,
     .doc = "Names or patterns (feature_*) of the fields to leave out."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"fields\": [\"a*\"]}", "fields:a1=float32,b=int64,c=uint8x3,a2=float32",
     "999ac620dad068545161256bee59532a"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_drop = {
    MR_OP_HEADER,
    .name = "drop",
    .summary = "Goes on without some fields of a sample.",
    .doc = "They are not read, unless an earlier op takes them. No value is touched.",
    .version = 1,
    .param_size = sizeof(drop_params),
    .params = rows,
    .arrange = arrange,
    .examples = examples,
};
