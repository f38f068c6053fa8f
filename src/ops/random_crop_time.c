/* SPDX-License-Identifier: Apache-2.0 */
/* random_crop_time.c - the op random_crop_time: a stretch of fixed length at a drawn place of a
 * recording, a spectrogram, a signal or a text. */
#include "ops/numbers.h"

#include "core/error.h"

enum { DRAW_START };

typedef struct crop_params {
    int64_t length, axis;
    bool pad_if_needed;
} crop_params;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const crop_params *p = params;
    int32_t axis = mr_axis_of(in, p->axis, err);
    if (axis < 0) {
        return MR_E_TYPE;
    }
    if (!p->pad_if_needed && in->dims[axis] >= 0 && in->dims[axis] < p->length) {
        mr_fail(err, MR_E_TYPE, "axis %d has %lld places, fewer than %lld", axis,
                (long long)in->dims[axis], (long long)p->length);
        mr_hint(err, "\"pad_if_needed\": true puts zeros behind what is too short");
        return MR_E_TYPE;
    }
    *out = *in;
    out->layout = MR_PLAIN;
    out->dims[axis] = p->length;
    if (mr_type_bytes(out) == -2) {
        return mr_fail(err, MR_E_TYPE, "so long a stretch fits into no memory");
    }
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const crop_params *p = params;
    int32_t axis = mr_axis_of(&in->type, p->axis, err);
    mr_axis_view from = mr_axis_around(&in->type, axis);
    size_t piece = from.inner * mr_dtype_size(in->type.dtype), length = (size_t)p->length;
    size_t room = from.length > length ? from.length - length : 0;
    size_t start = (size_t)mr_draw_below(&call->key, DRAW_START, (int64_t)room + 1);
    size_t n = from.length < length ? from.length : length;
    unsigned char *to = out->data;
    for (size_t o = 0; o < from.outer; o++, to += length * piece) {
        memcpy(to, (const unsigned char *)in->data + (o * from.length + start) * piece, n * piece);
        memset(to + n * piece, 0, (length - n) * piece);
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "length",
     .kind = MR_PARAM_INT,
     .offset = offsetof(crop_params, length),
     .min = 1,
     .max = 9007199254740992.0,
     .doc = "How many places of the axis are kept."},
    {.name = "axis",
     .kind = MR_PARAM_INT,
     .offset = offsetof(crop_params, axis),
     .fallback = "0",
     .min = -MR_MAX_DIMS,
     .max = MR_MAX_DIMS - 1,
     .doc = "Which axis is time: 0 for recordings and for spectrograms of layout time_freq, -1 for "
            "those of layout freq_time."},
    {.name = "pad_if_needed",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(crop_params, pad_if_needed),
     .fallback = "false",
     .doc = "Put zeros behind what is too short, instead of refusing it."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"length\": 20}", "int16:90", "8c5985913dc19d762c274a4b03042d99"},
    {"{\"length\": 5, \"axis\": -1}", "float32:4x30", "9260ce06db7d0e2fdb2a3de892d97486"},
    {"{\"length\": 9, \"pad_if_needed\": true}", "float32:4x3", "c303b2c5dfac3719ae6fbe59f19ff5a7"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_random_crop_time = {
    MR_OP_HEADER,
    .name = "random_crop_time",
    .summary = "Cuts a stretch of fixed length out of one axis, at a random place.",
    .doc = "All places are equally likely: draw 0 is the first, below(places - length + 1).",
    .flags = MR_OP_RANDOM,
    .version = 1,
    .param_size = sizeof(crop_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .examples = examples,
};
