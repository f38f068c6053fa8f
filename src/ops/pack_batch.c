/* SPDX-License-Identifier: Apache-2.0 */
/* pack_batch.c - the op pack_batch: sequences of a batch laid one behind the other into rows of one
 * length, so that little is filler. Longest first, each into the first row with room for it: with
 * the lengths that texts have, rows come out nearly full. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "ops/filler.h"

enum { SPLIT, CUT };

typedef struct pack_params {
    int64_t length, rows;
    double value;
    int32_t longer;
} pack_params;

/* A sequence, or a part of one that is longer than a row, and its place. */
typedef struct part {
    int64_t number; /* in the order of the batch */
    const unsigned char *data;
    int64_t length;
    int64_t row, at;
} part;

typedef struct packing {
    part *parts;
    int64_t n, rows;
} packing;

static mr_status plan_collate(const void *params, const mr_type *in, mr_collated *out,
                              int32_t *n_out, mr_error *err) {
    const pack_params *p = params;
    mr_filler filler;
    char text[128];
    if (in->n_dims != 1) {
        return mr_fail(err, MR_E_TYPE, "pack_batch takes sequences of numbers, not %s",
                       mr_type_text(in, text, sizeof text));
    }
    MR_TRY(mr_filler_make(&filler, in->dtype, p->value, err));
    int64_t rows = p->rows > 0 ? p->rows : -1;
    out[0] = (mr_collated){"", in->dtype, 2, {rows, p->length}, NULL};
    out[1] = (mr_collated){"_positions", MR_I32, 2, {rows, p->length}, NULL};
    out[2] = (mr_collated){"_segments", MR_I32, 2, {rows, p->length}, NULL};
    *n_out = 3;
    return MR_OK;
}

/* ---- Which parts there are ---- */
static int64_t parts_of(const pack_params *p, int64_t length) {
    int64_t n = (length + p->length - 1) / p->length;
    return p->longer == CUT && n > 1 ? 1 : n;
}

static void list_parts(const pack_params *p, const mr_view *value, packing *to) {
    size_t element = mr_dtype_size(value->type.dtype);
    int64_t length = value->type.dims[0];
    for (int64_t k = 0; k < parts_of(p, length); k++) {
        int64_t begin = k * p->length, left = length - begin;
        to->parts[to->n] =
            (part){.number = to->n,
                   .data = (const unsigned char *)value->data + (size_t)begin * element,
                   .length = left < p->length ? left : p->length};
        to->n++;
    }
}

static int longest_first(const void *a, const void *b) {
    const part *one = a, *other = b;
    int by_length = (one->length < other->length) - (one->length > other->length);
    return by_length ? by_length : (one->number > other->number) - (one->number < other->number);
}

/* ---- Which row each comes to ---- */
/* A tree over rows: each node has the most room of any row below it. Leaves begin at `leaves`. */
static int64_t first_with_room(const int64_t *tree, int64_t leaves, int64_t length) {
    int64_t node = 1;
    while (node < leaves) {
        node = tree[2 * node] >= length ? 2 * node : 2 * node + 1;
    }
    return node;
}

static void take_room(int64_t *tree, int64_t node, int64_t length) {
    tree[node] -= length;
    for (node /= 2; node > 0; node /= 2) {
        int64_t left = tree[2 * node], right = tree[2 * node + 1];
        tree[node] = left > right ? left : right;
    }
}

static mr_status place_parts(const pack_params *p, mr_call *call, packing *all, mr_error *err) {
    int64_t leaves = 1;
    while (leaves < all->n) {
        leaves *= 2;
    }
    int64_t *tree = mr_scratch(call, 2 * (size_t)leaves * sizeof *tree);
    if (!tree) {
        return mr_fail_memory(err, 2 * (size_t)leaves * sizeof *tree);
    }
    for (int64_t i = 0; i < 2 * leaves; i++) {
        tree[i] = p->length;
    }
    qsort(all->parts, (size_t)all->n, sizeof *all->parts, longest_first);
    for (int64_t i = 0; i < all->n; i++) {
        part *one = &all->parts[i];
        int64_t node = first_with_room(tree, leaves, one->length);
        one->row = node - leaves;
        one->at = p->length - tree[node];
        take_room(tree, node, one->length);
        all->rows = one->row >= all->rows ? one->row + 1 : all->rows;
    }
    return MR_OK;
}

static mr_status check_rows(const pack_params *p, const packing *all, mr_error *err) {
    if (p->rows == 0 || all->rows <= p->rows) {
        return MR_OK;
    }
    mr_fail(err, MR_E_LIMIT, "the batch takes %lld rows of %lld, more than rows (%lld)",
            (long long)all->rows, (long long)p->length, (long long)p->rows);
    mr_hint(err, "more rows, longer ones, or fewer samples in a batch");
    return MR_E_LIMIT;
}

static mr_status measure(const void *params, mr_call *call, int64_t n, const mr_view *values,
                         mr_collated *out, void **memo, mr_error *err) {
    const pack_params *p = params;
    packing *all = *memo = mr_scratch(call, sizeof *all);
    int64_t n_parts = 0;
    for (int64_t i = 0; i < n; i++) {
        if (values[i].type.n_dims != 1) {
            return mr_fail(err, MR_E_TYPE, "sample %lld of the batch is no sequence", (long long)i);
        }
        n_parts += parts_of(p, values[i].type.dims[0]);
    }
    part *parts = mr_scratch(call, (size_t)(n_parts + 1) * sizeof *parts);
    if (!all || !parts) {
        return mr_fail_memory(err, (size_t)(n_parts + 1) * sizeof *parts);
    }
    *all = (packing){.parts = parts, .rows = 1};
    for (int64_t i = 0; i < n; i++) {
        list_parts(p, &values[i], all);
    }
    MR_TRY(place_parts(p, call, all, err));
    MR_TRY(check_rows(p, all, err));
    for (int32_t k = 0; k < 3; k++) {
        out[k].dims[0] = p->rows > 0 ? p->rows : all->rows;
    }
    return MR_OK;
}

/* ---- Writing ---- */
static void write_part(const pack_params *p, const part *one, int32_t segment,
                       const mr_collated *out) {
    size_t element = mr_dtype_size(out[0].dtype), at = (size_t)(one->row * p->length + one->at);
    int32_t *positions = (int32_t *)out[1].data + at, *segments = (int32_t *)out[2].data + at;
    memcpy((unsigned char *)out[0].data + at * element, one->data, (size_t)one->length * element);
    for (int64_t i = 0; i < one->length; i++) {
        positions[i] = (int32_t)i;
        segments[i] = segment;
    }
}

static mr_status collate(const void *params, mr_call *call, int64_t n, const mr_view *values,
                         const mr_collated *out, void *memo, mr_error *err) {
    const pack_params *p = params;
    const packing *all = memo;
    mr_filler filler;
    size_t rows = (size_t)out[0].dims[0], elements = rows * (size_t)p->length;
    int32_t *in_row = mr_scratch(call, rows * sizeof *in_row);
    (void)n;
    (void)values;
    MR_TRY(mr_filler_make(&filler, out[0].dtype, p->value, err));
    if (!in_row) {
        return mr_fail_memory(err, rows * sizeof *in_row);
    }
    memset(in_row, 0, rows * sizeof *in_row);
    mr_filler_fill(&filler, out[0].data, elements);
    memset(out[1].data, 0, elements * sizeof(int32_t));
    memset(out[2].data, 0, elements * sizeof(int32_t));
    for (int64_t i = 0; i < all->n; i++) {
        write_part(p, &all->parts[i], ++in_row[all->parts[i].row], out);
    }
    return MR_OK;
}

static const char *const longer[] = {"split", "cut", NULL};

static const mr_param rows[] = {
    {.name = "length",
     .kind = MR_PARAM_INT,
     .offset = offsetof(pack_params, length),
     .min = 1,
     .max = 1 << 30,
     .doc = "How long a row is."},
    {.name = "rows",
     .kind = MR_PARAM_INT,
     .offset = offsetof(pack_params, rows),
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .doc = "Rows of every batch; one that needs more is an error. 0: as many as it needs."},
    {.name = "value",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(pack_params, value),
     .fallback = "0",
     .doc = "What stands behind the last sequence of a row."},
    {.name = "longer",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(pack_params, longer),
     .fallback = "\"split\"",
     .choices = longer,
     .doc = "Sequences longer than a row become several, or their end is left out."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"length\": 8}", "fields:a=int32x3,b=int32x5,c=int32x0,d=int32x19,e=int32x2",
     "ff44b6d3158f736f2360c4c43a1a3540"},
    {"{\"length\": 4, \"longer\": \"cut\", \"rows\": 3, \"value\": -1}",
     "fields:a=int64x3,b=int64x5", "14d6ff5a136d4bafc716ad7036877a3c"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_pack_batch = {
    MR_OP_HEADER,
    .name = "pack_batch",
    .summary = "Lays the sequences of a batch into rows of one length, several to a row.",
    .doc =
        "Batches have FIELD of shape [rows, length], FIELD_positions (of each number in its "
        "sequence) and FIELD_segments (1 for the first sequence of a row, 2 for the next, 0 where "
        "there is none), both int32: what attention needs to keep sequences apart. Longest first, "
        "each into the first row that has room. It works on batches, so it stands behind all ops "
        "on samples; other fields stay one for each sample. Digests of samples are those of the "
        "sequences.",
    .flags = MR_OP_BATCH,
    .version = 1,
    .param_size = sizeof(pack_params),
    .params = rows,
    .plan_collate = plan_collate,
    .measure = measure,
    .collate = collate,
    .examples = examples,
};
