/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - the op slice: a part of one axis. */
#include "ops/numbers.h"

#include "core/error.h"

typedef struct slice_params {
    int64_t start, length, step, axis;
} slice_params;

/* How many of `side` places are taken; -1: more are asked for than there are. */
static int64_t taken(const slice_params *p, int64_t side) {
    int64_t start = p->start < 0 ? p->start + side : p->start;
    if (start < 0 || start > side) {
        return -1;
    }
    int64_t room = (side - start + p->step - 1) / p->step;
    return p->length == 0 ? room : p->length <= room ? p->length : -1;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const slice_params *p = params;
    int32_t axis = mr_axis_of(in, p->axis, err);
    if (axis < 0) {
        return MR_E_TYPE;
    }
    *out = *in;
    out->layout = MR_PLAIN;
    int64_t side = in->dims[axis];
    out->dims[axis] = side < 0 ? (p->length ? p->length : -1) : taken(p, side);
    if (side >= 0 && out->dims[axis] < 0) {
        mr_fail(err, MR_E_TYPE, "axis %d has %lld places: too few for start %lld, length %lld",
                axis, (long long)side, (long long)p->start, (long long)p->length);
        mr_hint(err, "without \"length\" the slice goes to the end");
        return MR_E_TYPE;
    }
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const slice_params *p = params;
    (void)call;
    int32_t axis = mr_axis_of(&in->type, p->axis, err);
    mr_axis_view from = mr_axis_around(&in->type, axis);
    size_t n = (size_t)out->type.dims[axis], piece = from.inner * mr_dtype_size(in->type.dtype);
    size_t start = (size_t)(p->start < 0 ? p->start + in->type.dims[axis] : p->start);
    unsigned char *to = out->data;
    for (size_t o = 0; o < from.outer; o++) {
        const unsigned char *row = (const unsigned char *)in->data + o * from.length * piece;
        if (p->step == 1) {
            memcpy(to, row + start * piece, n * piece);
            to += n * piece;
            continue;
        }
        for (size_t i = 0; i < n; i++, to += piece) {
            memcpy(to, row + (start + i * (size_t)p->step) * piece, piece);
        }
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "start",
     .kind = MR_PARAM_INT,
     .offset = offsetof(slice_params, start),
     .fallback = "0",
     .min = -9007199254740992.0,
     .max = 9007199254740992.0,
     .doc = "The first place that is taken; negative: from the end."},
    {.name = "length",
     .kind = MR_PARAM_INT,
     .offset = offsetof(slice_params, length),
     .fallback = "0",
     .min = 0,
     .max = 9007199254740992.0,
     .doc = "How many places are taken; 0: as many as there are."},
    {.name = "step",
     .kind = MR_PARAM_INT,
     .offset = offsetof(slice_params, step),
     .fallback = "1",
     .min = 1,
     .max = 2147483647,
     .doc = "From one taken place to the next."},
    {.name = "axis",
     .kind = MR_PARAM_INT,
     .offset = offsetof(slice_params, axis),
     .fallback = "0",
     .min = -MR_MAX_DIMS,
     .max = MR_MAX_DIMS - 1,
     .doc = "Which axis is cut; negative: from the last."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"start\": 2, \"length\": 3}", "float32:6x7", "d32d2be0b3b5e702548e55c3958b4c41"},
    {"{\"start\": -5, \"step\": 2, \"axis\": -1}", "int16:4x9", "d11d9d9d806cd470eeaef1d78409635b"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_slice = {
    MR_OP_HEADER,
    .name = "slice",
    .summary = "Takes a part of one axis.",
    .doc = "Equal to numpy's x[start : start + length * step : step] on that axis, except that a "
           "slice that does not fit is refused.",
    .version = 1,
    .param_size = sizeof(slice_params),
    .params = rows,
    .plan = plan,
    .run = run,
    .examples = examples,
};
