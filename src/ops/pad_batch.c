/* SPDX-License-Identifier: Apache-2.0 */
/* pad_batch.c - the op pad_batch: values of unequal size side by side in one array, and a mask that
 * tells them from what fills the rest. */
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "ops/filler.h"

enum { RIGHT, LEFT };

typedef struct pad_params {
    int64_t length, multiple;
    double value;
    int32_t side;
    bool mask, cut;
} pad_params;

/* The axes along which values differ. */
typedef struct axes {
    int32_t n;
    int32_t at[MR_MAX_DIMS];
} axes;

static axes varying(const int64_t *dims, int32_t n_dims) {
    axes found = {0};
    for (int32_t i = 0; i < n_dims; i++) {
        if (dims[i] < 0) {
            found.at[found.n++] = i;
        }
    }
    return found;
}

static mr_status check_type(const pad_params *p, const mr_type *in, mr_error *err) {
    mr_filler filler;
    char text[128];
    if (p->length > 0 && varying(in->dims, in->n_dims).n > 1) {
        mr_fail(err, MR_E_TYPE, "length is for values that differ along one axis, not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "without length they are padded to the largest of the batch, along each axis");
        return MR_E_TYPE;
    }
    return mr_filler_make(&filler, in->dtype, p->value, err);
}

static mr_status plan_collate(const void *params, const mr_type *in, mr_collated *out,
                              int32_t *n_out, mr_error *err) {
    const pad_params *p = params;
    axes free = varying(in->dims, in->n_dims);
    MR_TRY(check_type(p, in, err));
    out[0] = (mr_collated){.suffix = "", .dtype = in->dtype, .n_dims = in->n_dims + 1};
    out[0].dims[0] = -1;
    memcpy(out[0].dims + 1, in->dims, (size_t)in->n_dims * sizeof *in->dims);
    *n_out = 1;
    if (p->mask) {
        out[1] = (mr_collated){.suffix = "_mask", .dtype = MR_BOOL, .n_dims = free.n + 1};
        memset(out[1].dims, 0xFF, sizeof out[1].dims);
        *n_out = 2;
    }
    return MR_OK;
}

/* ---- How large ---- */
static mr_status check_value(const mr_view *value, int64_t i, const mr_collated *out,
                             mr_error *err) {
    bool fits = value->type.n_dims == out->n_dims - 1 && value->type.dtype == out->dtype;
    for (int32_t d = 0; fits && d < value->type.n_dims; d++) {
        fits = out->dims[d + 1] < 0 || out->dims[d + 1] == value->type.dims[d];
    }
    return fits ? MR_OK
                : mr_fail(err, MR_E_TYPE, "sample %lld of the batch is of another type",
                          (long long)i);
}

static mr_status check_length(const pad_params *p, int64_t length, int64_t i, mr_error *err) {
    if (p->length == 0 || length <= p->length || p->cut) {
        return MR_OK;
    }
    mr_fail(err, MR_E_LIMIT, "sample %lld of the batch is %lld long, more than length (%lld)",
            (long long)i, (long long)length, (long long)p->length);
    mr_hint(err, "a larger length, or \"cut\": true, which leaves out the end of such samples");
    return MR_E_LIMIT;
}

static mr_status measure_axis(const pad_params *p, int64_t n, const mr_view *values, int32_t axis,
                              int64_t *size, mr_error *err) {
    int64_t longest = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t length = values[i].type.dims[axis];
        MR_TRY(check_length(p, length, i, err));
        longest = length > longest ? length : longest;
    }
    longest = p->length > 0 ? p->length : longest;
    *size = (longest + p->multiple - 1) / p->multiple * p->multiple;
    return MR_OK;
}

static mr_status measure(const void *params, mr_call *call, int64_t n, const mr_view *values,
                         mr_collated *out, void **memo, mr_error *err) {
    const pad_params *p = params;
    axes *free = mr_scratch(call, sizeof *free);
    if (!free) {
        return mr_fail_memory(err, sizeof *free);
    }
    *free = varying(out[0].dims + 1, out[0].n_dims - 1);
    for (int64_t i = 0; i < n; i++) {
        MR_TRY(check_value(&values[i], i, &out[0], err));
    }
    out[0].dims[0] = out[1].dims[0] = n;
    for (int32_t k = 0; k < free->n; k++) {
        int64_t *size = &out[0].dims[free->at[k] + 1];
        MR_TRY(measure_axis(p, n, values, free->at[k], size, err));
        out[1].dims[k + 1] = *size;
    }
    *memo = free;
    return MR_OK;
}

/* ---- Copying ---- */
/* A value inside a larger one: along each axis up to the last that varies, how much of it, how long
 * both are and where it begins. */
typedef struct nest {
    int32_t n;
    int64_t taken[MR_MAX_DIMS], from[MR_MAX_DIMS], to[MR_MAX_DIMS], begin[MR_MAX_DIMS];
    size_t unit; /* bytes that always lie together */
} nest;

static size_t rows_of(const nest *t) {
    size_t rows = t->n > 0 ? 1 : 0;
    for (int32_t i = 0; i + 1 < t->n; i++) {
        rows *= (size_t)t->taken[i];
    }
    return rows;
}

/* Whether nothing of the larger one is left over. */
static bool fills(const nest *t) {
    bool whole = true;
    for (int32_t i = 0; i < t->n; i++) {
        whole = whole && t->taken[i] == t->to[i];
    }
    return whole;
}

/* Copies row by row; without a source the rows become ones. */
static void copy_into(const nest *t, const unsigned char *from, unsigned char *to) {
    int32_t last = t->n - 1;
    size_t bytes = last >= 0 ? (size_t)t->taken[last] * t->unit : 0;
    for (size_t row = 0, rows = bytes > 0 ? rows_of(t) : 0; row < rows; row++) {
        size_t left = row, at = (size_t)t->begin[last], source = 0;
        size_t stride_to = (size_t)t->to[last], stride_from = (size_t)t->from[last];
        for (int32_t axis = last - 1; axis >= 0; axis--) {
            size_t i = left % (size_t)t->taken[axis];
            left /= (size_t)t->taken[axis];
            at += (i + (size_t)t->begin[axis]) * stride_to;
            source += i * stride_from;
            stride_to *= (size_t)t->to[axis];
            stride_from *= (size_t)t->from[axis];
        }
        if (from) {
            memcpy(to + at * t->unit, from + source * t->unit, bytes);
        } else {
            memset(to + at * t->unit, 1, bytes);
        }
    }
}

static void add_axis(nest *t, const pad_params *p, int64_t from, int64_t to, int64_t most) {
    int64_t taken = from < most ? from : most;
    t->from[t->n] = from;
    t->to[t->n] = to;
    t->taken[t->n] = taken;
    t->begin[t->n++] = p->side == LEFT ? to - taken : 0;
}

/* An axis that varies has its padding behind the length, where multiple asks for more. */
static void add_varying(nest *t, const pad_params *p, int64_t from, int64_t to) {
    add_axis(t, p, from, to, p->length > 0 && p->length < to ? p->length : to);
}

static bool varies(const axes *free, int32_t axis) {
    bool found = false;
    for (int32_t k = 0; k < free->n; k++) {
        found = found || free->at[k] == axis;
    }
    return found;
}

static size_t elements(const mr_collated *array) {
    size_t n = 1;
    for (int32_t i = 1; i < array->n_dims; i++) {
        n *= (size_t)array->dims[i];
    }
    return n;
}

static void pad_value(const pad_params *p, const mr_filler *filler, const axes *free,
                      const mr_view *value, const mr_collated *out, unsigned char *to) {
    nest t = {.unit = filler->size};
    int32_t last = free->n > 0 ? free->at[free->n - 1] : out->n_dims - 2;
    for (int32_t d = 0; d < out->n_dims - 1; d++) {
        if (varies(free, d)) {
            add_varying(&t, p, value->type.dims[d], out->dims[d + 1]);
        } else if (d <= last) {
            add_axis(&t, p, value->type.dims[d], out->dims[d + 1], out->dims[d + 1]);
        } else {
            t.unit *= (size_t)out->dims[d + 1];
        }
    }
    if (!fills(&t)) {
        mr_filler_fill(filler, to, elements(out));
    }
    copy_into(&t, value->data, to);
}

static void mark_value(const pad_params *p, const axes *free, const mr_view *value,
                       const mr_collated *mask, unsigned char *to) {
    nest t = {.unit = 1};
    for (int32_t k = 0; k < free->n; k++) {
        add_varying(&t, p, value->type.dims[free->at[k]], mask->dims[k + 1]);
    }
    memset(to, free->n == 0, elements(mask));
    copy_into(&t, NULL, to);
}

static mr_status collate(const void *params, mr_call *call, int64_t n, const mr_view *values,
                         const mr_collated *out, void *memo, mr_error *err) {
    const pad_params *p = params;
    mr_filler filler;
    (void)call;
    MR_TRY(mr_filler_make(&filler, out[0].dtype, p->value, err));
    size_t each = elements(&out[0]) * filler.size;
    for (int64_t i = 0; i < n; i++) {
        pad_value(p, &filler, memo, &values[i], &out[0],
                  (unsigned char *)out[0].data + (size_t)i * each);
        if (p->mask) {
            mark_value(p, memo, &values[i], &out[1],
                       (unsigned char *)out[1].data + (size_t)i * elements(&out[1]));
        }
    }
    return MR_OK;
}

static const char *const sides[] = {"right", "left", NULL};

static const mr_param rows[] = {
    {.name = "length",
     .kind = MR_PARAM_INT,
     .offset = offsetof(pad_params, length),
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .doc = "How long all become; 0: as long as the longest of the batch."},
    {.name = "multiple",
     .kind = MR_PARAM_INT,
     .offset = offsetof(pad_params, multiple),
     .fallback = "1",
     .min = 1,
     .max = 1 << 20,
     .doc = "The length is rounded up to a multiple of this."},
    {.name = "value",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(pad_params, value),
     .fallback = "0",
     .doc = "What stands where a value has nothing."},
    {.name = "side",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(pad_params, side),
     .fallback = "\"right\"",
     .choices = sides,
     .doc = "Where it is filled up: behind the values, or before them."},
    {.name = "mask",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(pad_params, mask),
     .fallback = "true",
     .doc = "Batches also have FIELD_mask, true where a value is."},
    {.name = "cut",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(pad_params, cut),
     .fallback = "false",
     .doc = "The end of values longer than length is left out; else these are an error."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "fields:a=int32x3,b=int32x5,c=int32x0", "e8d55434f3c6096e083076bedc43b16f"},
    {"{\"length\": 4, \"cut\": true, \"side\": \"left\", \"value\": -1}",
     "fields:a=int64x3,b=int64x5", "c8d41bba29b5595440f0093792006e10"},
    {"{\"multiple\": 4, \"mask\": false, \"value\": 0.5}", "fields:a=float32x2x3,b=float32x5x3",
     "4ff3c92ab8b9d886b059906f3b711ebe"},
    {"{}", "fields:a=uint8x2x7x3,b=uint8x5x4x3", "143a1ed3fb67132eb396c2bad58868a5"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_pad_batch = {
    MR_OP_HEADER,
    .name = "pad_batch",
    .summary = "Puts values of unequal size into one array, filled up to the longest, with a mask.",
    .doc =
        "Equal to torch.nn.utils.rnn.pad_sequence with batch_first, along every axis that varies. "
        "It works on batches, so it stands behind all ops on samples. The length is that of the "
        "rank's own part of a batch; digests of samples are those of the values without what "
        "fills them up.",
    .flags = MR_OP_BATCH,
    .version = 1,
    .param_size = sizeof(pad_params),
    .params = rows,
    .plan_collate = plan_collate,
    .measure = measure,
    .collate = collate,
    .examples = examples,
    .also = "padded_batch pad_sequence",
};
