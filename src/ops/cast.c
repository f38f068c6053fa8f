/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c - the op cast: the same numbers in another element type. */
#include <millrace/millrace.h>

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

static const char *const dtype_names[] = {"float32", "float16", "bfloat16", "uint8", NULL};
static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_BF16, MR_U8};

typedef struct cast_params {
    int32_t dtype;
    bool scale;
} cast_params;

/* Results for the 256 bytes, which are the usual input. */
typedef struct tables {
    uint32_t of_32[256];
    uint16_t of_16[256];
} tables;

static bool is_number(mr_dtype dtype) {
    return dtype == MR_U8 || dtype == MR_U16 || dtype == MR_F16 || dtype == MR_BF16 ||
           dtype == MR_F32;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const cast_params *p = params;
    if (!is_number(in->dtype)) {
        return mr_fail(err, MR_E_TYPE, "needs uint8, uint16, float16, bfloat16 or float32, not %s",
                       mr_dtype_name(in->dtype));
    }
    if (p->scale && in->dtype != MR_U16 && (in->dtype == MR_U8) == (dtypes[p->dtype] == MR_U8)) {
        mr_fail(err, MR_E_TYPE, "scale is for casts between uint8 and a float, not %s to %s",
                mr_dtype_name(in->dtype), dtype_names[p->dtype]);
        mr_hint(err, "leave out \"scale\"");
        return MR_E_TYPE;
    }
    *out = *in;
    out->dtype = dtypes[p->dtype];
    return MR_OK;
}

static mr_status open_tables(const void *params, void **state, mr_error *err) {
    const cast_params *p = params;
    tables *t = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    for (int i = 0; i < 256; i++) {
        float value = p->scale ? (float)i / 255.0f : (float)i;
        t->of_32[i] = mr_float_bits(value);
        t->of_16[i] = dtypes[p->dtype] == MR_BF16 ? mr_bf16(value) : mr_f16(value);
    }
    *state = t;
    return MR_OK;
}

static void close_tables(void *state) {
    mr_free(state);
}

/* Element i of an input that need not be aligned. */
static float load(const cast_params *p, const mr_view *in, size_t i) {
    const unsigned char *bytes = in->data;
    uint16_t half;
    float value;
    if (in->type.dtype == MR_F32) {
        memcpy(&value, bytes + 4 * i, sizeof value);
        return value;
    }
    memcpy(&half, bytes + 2 * i, sizeof half);
    if (in->type.dtype == MR_U16) {
        return p->scale ? (float)half / 65535.0f : (float)half;
    }
    return in->type.dtype == MR_F16 ? mr_float_of_f16(half) : mr_float_of_bf16(half);
}

static uint8_t to_byte(float value, bool scale) {
    value = scale ? value * 255.0f : value;
    if (!(value > 0.0f)) { /* NaN too */
        return 0;
    }
    return value >= 255.0f ? 255 : (uint8_t)rintf(value);
}

static void store(const cast_params *p, mr_view *out, size_t i, float value) {
    if (out->type.dtype == MR_F32) {
        ((float *)out->data)[i] = value;
    } else if (out->type.dtype == MR_U8) {
        ((uint8_t *)out->data)[i] = to_byte(value, p->scale);
    } else {
        ((uint16_t *)out->data)[i] = out->type.dtype == MR_BF16 ? mr_bf16(value) : mr_f16(value);
    }
}

static void convert(const cast_params *p, const mr_call *call, const mr_view *in, mr_view *out) {
    const tables *t = call->state;
    size_t n = in->size / mr_dtype_size(in->type.dtype);
    if (in->type.dtype == out->type.dtype) {
        memcpy(out->data, in->data, in->size);
    } else if (in->type.dtype == MR_U8 && out->type.dtype == MR_F32) {
        call->kernels->lookup_32(out->data, in->data, n, 1, t->of_32, 0);
    } else if (in->type.dtype == MR_U8) {
        call->kernels->lookup_16(out->data, in->data, n, 1, t->of_16, 0);
    } else {
        for (size_t i = 0; i < n; i++) {
            store(p, out, i, load(p, in, i));
        }
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    (void)err;
    convert(params, call, in, out);
    return MR_OK;
}

/* Values without gaps are one long value. */
static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    bool packed = mr_column_is_packed(in) && mr_column_is_packed(out);
    (void)err;
    for (int64_t i = 0; i < (packed && n > 0 ? 1 : n); i++) {
        mr_view from = mr_column_value(in, i), to = mr_column_value(out, i);
        from.size *= packed ? (size_t)n : 1;
        to.size *= packed ? (size_t)n : 1;
        convert(params, call, &from, &to);
    }
    return MR_OK;
}

static const mr_param rows[] = {
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(cast_params, dtype),
     .choices = dtype_names,
     .doc = "Element type of the output."},
    {.name = "scale",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(cast_params, scale),
     .fallback = "false",
     .doc = "uint8 to float: divide by 255; uint16: by 65535; float or uint16 to uint8: multiply "
            "by 255."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"dtype\": \"float32\", \"scale\": true}", "image:5x7x3",
     "d4ca7742f27919a09e58d1f035c16f5f"},
    {"{\"dtype\": \"bfloat16\"}", "image:5x7x1", "c625e40368196f94a93aa82fb2c3d8e0"},
    {"{\"dtype\": \"float16\", \"scale\": true}", "image:5x7x3",
     "a4da6e7abc9342e03dc45c4aaf658cf6"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_cast = {
    MR_OP_HEADER,
    .name = "cast",
    .summary = "Changes the element type; layout and shape stay.",
    .doc = "Arithmetic is float32, then rounded to nearest, ties to even. Floats to uint8 are "
           "rounded the same way and cut to 0 .. 255; NaN becomes 0.",
    .version = 1,
    .param_size = sizeof(cast_params),
    .params = rows,
    .plan = plan,
    .open = open_tables,
    .close = close_tables,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
};
