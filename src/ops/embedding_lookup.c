/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_lookup.c - the op embedding_lookup: numbers to rows of a table in a .npy file.
 *
 * The file is mapped, so all workers share its pages. Its width is known once it is open; a
 * parameter may tell it before, so that batches of fixed length are dense. */
#include "ops/asset.h"
#include "ops/numbers.h"

#include "codecs/npy.h"
#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

typedef struct embedding_params {
    const char *table, *digest;
    int32_t dtype;
    int64_t width;
} embedding_params;

static const char *const dtype_names[] = {"float32", "float16", "float64", NULL};
static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_F64};

typedef struct table {
    mr_asset asset;
    mr_npy npy;
} table;

static mr_status check_table(const embedding_params *p, const mr_npy *npy, mr_error *err) {
    if (npy->n_dims != 2) {
        return mr_fail(err, MR_E_PARAM, "the table has %d axes, not 2", npy->n_dims);
    }
    if (npy->dtype != dtypes[p->dtype]) {
        mr_fail(err, MR_E_PARAM, "the table is of %s, not %s", mr_dtype_name(npy->dtype),
                dtype_names[p->dtype]);
        mr_hint(err, "say so with \"dtype\"");
        return MR_E_PARAM;
    }
    if (p->width > 0 && npy->dims[1] != p->width) {
        return mr_fail(err, MR_E_PARAM, "rows of the table have %lld numbers, not %lld",
                       (long long)npy->dims[1], (long long)p->width);
    }
    return MR_OK;
}

static mr_status open_table(const void *params, void **state, mr_error *err) {
    const embedding_params *p = params;
    table *t = *state = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    MR_TRY(mr_asset_open(&t->asset, p->table, p->digest, err));
    MR_TRY(mr_npy_parse(t->asset.data, t->asset.size, &t->npy, err));
    return check_table(p, &t->npy, err);
}

static void close_table(void *state) {
    table *t = state;
    if (t) {
        mr_asset_close(&t->asset);
        mr_free(t);
    }
}

static mr_status row_type(const embedding_params *p, int64_t width, const mr_type *in, mr_type *out,
                          mr_error *err) {
    if (!mr_is_whole(in->dtype) || in->n_dims == MR_MAX_DIMS || in->layout != MR_PLAIN) {
        char text[96];
        return mr_fail(err, MR_E_TYPE, "needs whole numbers, not %s",
                       mr_type_text(in, text, sizeof text));
    }
    *out = *in;
    out->dtype = dtypes[p->dtype];
    out->dims[out->n_dims++] = width;
    if (mr_type_bytes(out) == -2) {
        return mr_fail(err, MR_E_TYPE, "so many rows fit into no memory");
    }
    return MR_OK;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const embedding_params *p = params;
    return row_type(p, p->width > 0 ? p->width : -1, in, out, err);
}

static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    const table *t = call->state;
    return row_type(params, t->npy.dims[1], &in->type, out, err);
}

/* The place of the first number that is no row, or n. */
static size_t look_up(unsigned char *out, mr_dtype dtype, const void *in, size_t n,
                      const table *t) {
    size_t row = (size_t)t->npy.dims[1] * mr_dtype_size(t->npy.dtype);
    const unsigned char *rows = t->asset.data + t->npy.offset;
    for (size_t i = 0; i < n; i++) {
        int64_t number = mr_load_whole(dtype, in, i);
        if (number < 0 || number >= t->npy.dims[0]) {
            return i;
        }
        memcpy(out + i * row, rows + (size_t)number * row, row);
    }
    return n;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const table *t = call->state;
    size_t n = mr_count(in);
    (void)params;
    size_t bad = look_up(out->data, in->type.dtype, in->data, n, t);
    if (bad < n) {
        return mr_fail(err, MR_E_CORRUPT, "number %zu is %lld, and the table has %lld rows", bad,
                       (long long)mr_load_whole(in->type.dtype, in->data, bad),
                       (long long)t->npy.dims[0]);
    }
    return MR_OK;
}

static uint32_t flags_for(const void *params) {
    const embedding_params *p = params;
    return mr_asset_flags(p->table, p->digest);
}

static const mr_param rows[] = {
    {.name = "table",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(embedding_params, table),
     .doc = "A .npy file of two axes: one row for each number."},
    {.name = "digest",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(embedding_params, digest),
     .fallback = "\"\"",
     .doc = MR_ASSET_DIGEST_DOC},
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(embedding_params, dtype),
     .fallback = "\"float32\"",
     .choices = dtype_names,
     .doc = "The table's element type, and the output's."},
    {.name = "width",
     .kind = MR_PARAM_INT,
     .offset = offsetof(embedding_params, width),
     .fallback = "0",
     .min = 0,
     .max = 1 << 24,
     .doc =
         "How many numbers a row has; 0: as the file says, which is known only once it is open."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"table\": "
     "\"data:;base64,"
     "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDMsIDIpLCB9I"
     "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAPwAAgD"
     "8AAMA/AAAAQAAAIEA=\"}",
     "int64:4:0100000000000000020000000000000000000000000000000100000000000000",
     "502cbbb8b6f7699405af1f3b4f2574d4"},
    {"{\"width\": 2, \"table\": "
     "\"data:;base64,"
     "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDMsIDIpLCB9I"
     "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAPwAAgD"
     "8AAMA/AAAAQAAAIEA=\"}",
     "uint8:2x1:0201", "6649432eece0a111d286eea529f01a20"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_embedding_lookup = {
    MR_OP_HEADER,
    .name = "embedding_lookup",
    .summary = "Turns numbers into rows of a table.",
    .doc = "Equal to numpy's table[numbers]. A number that is no row is an error of the sample.",
    .version = 1,
    .param_size = sizeof(embedding_params),
    .params = rows,
    .plan = plan,
    .peek = peek,
    .open = open_table,
    .close = close_table,
    .run = run,
    .examples = examples,
    .flags_for = flags_for,
};
