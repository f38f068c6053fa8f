/* SPDX-License-Identifier: Apache-2.0 */
/* to_float.c - the op to_float: bytes to numbers from 0 to 1, shape and layout as they are. */
#include "ops/flow.h"

#include <millrace/millrace.h>
#include <stddef.h>

#include "core/error.h"
#include "core/memory.h"
#include "kernels/half.h"

static const char *const dtype_names[] = {"float32", "float16", "bfloat16", NULL};
static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_BF16};

typedef struct to_float_params {
    int32_t dtype;
    double max;
} to_float_params;

typedef struct tables {
    uint32_t of_32[256];
    uint16_t of_16[256];
} tables;

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const to_float_params *p = params;
    if (in->dtype != MR_U8) {
        mr_fail(err, MR_E_TYPE, "needs uint8, not %s", mr_dtype_name(in->dtype));
        mr_hint(err, "cast changes between other types");
        return MR_E_TYPE;
    }
    *out = *in;
    out->dtype = dtypes[p->dtype];
    return MR_OK;
}

static mr_status open_tables(const void *params, void **state, mr_error *err) {
    const to_float_params *p = params;
    tables *t = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    for (int i = 0; i < 256; i++) {
        float value = (float)i / (float)p->max;
        t->of_32[i] = mr_float_bits(value);
        t->of_16[i] = dtypes[p->dtype] == MR_BF16 ? mr_bf16(value) : mr_f16(value);
    }
    *state = t;
    return MR_OK;
}

static void close_tables(void *state) {
    mr_free(state);
}

/* Elements `first` .. of the output. */
static void convert(const mr_call *call, mr_view *out, size_t first, const uint8_t *in, size_t n) {
    const tables *t = call->state;
    if (out->type.dtype == MR_F32) {
        call->kernels->lookup_32((uint32_t *)out->data + first, in, n, 1, t->of_32, 0);
    } else {
        call->kernels->lookup_16((uint16_t *)out->data + first, in, n, 1, t->of_16, 0);
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)params;
    (void)err;
    convert(call, out, 0, in->data, in->size);
    return MR_OK;
}

typedef struct converting {
    const mr_call *call;
    mr_view *out;
    size_t row;
} converting;

static mr_status convert_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    const converting *c = user;
    (void)err;
    convert(c->call, c->out, (size_t)y * c->row, pixels, c->row);
    return MR_OK;
}

static mr_status finish(const void *params, mr_call *call, const mr_flow *flow, mr_view *out,
                        mr_rows *own, mr_error *err) {
    converting *c = mr_scratch(call, sizeof *c);
    (void)params;
    if (!c) {
        return mr_fail_memory(err, sizeof *c);
    }
    *c = (converting){call, out, (size_t)(flow->in->dims[1] * flow->in->dims[2])};
    *own = (mr_rows){convert_row, c};
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(to_float_params, dtype),
     .fallback = "\"float32\"",
     .choices = dtype_names,
     .doc = "Element type of the output."},
    {.name = "max",
     .kind = MR_PARAM_FLOAT,
     .offset = offsetof(to_float_params, max),
     .fallback = "255",
     .min = 1e-3,
     .max = 1e6,
     .doc = "The byte that becomes 1; what bytes are divided by."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{}", "image:5x7x3", "d4ca7742f27919a09e58d1f035c16f5f"},
    {"{\"dtype\": \"bfloat16\", \"max\": 128}", "image:5x7x1", "479b2da90fec9da80fe1d925b8b6898d"},
    {"{\"dtype\": \"float16\"}", "image:5x7x3", "a4da6e7abc9342e03dc45c4aaf658cf6"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_to_float = {
    MR_OP_HEADER,
    .name = "to_float",
    .summary = "Turns bytes into numbers from 0 to 1; shape and layout stay.",
    .doc =
        "byte / max in float32, then rounded to nearest, ties to even, where the type is shorter. "
        "Equal to torchvision's ToTensor and to albumentations' ToFloat; torchvision's v2.ToDtype "
        "multiplies by 1 / 255, which may be a unit in the last place off.",
    .flags = MR_OP_COLOR,
    .version = 1,
    .param_size = sizeof(to_float_params),
    .params = rows,
    .plan = plan,
    .open = open_tables,
    .close = close_tables,
    .run = run,
    .want = mr_want_same,
    .finish = finish,
    .examples = examples,
    .also = "to_tensor to_image to_dtype convert_image_dtype",
};
