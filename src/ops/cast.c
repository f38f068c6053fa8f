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

static const char *const dtype_names[] = {"float32", "float16", "bfloat16", "uint8",
                                          "int32",   "int64",   NULL};
static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_BF16, MR_U8, MR_I32, MR_I64};

typedef struct cast_params {
    int32_t dtype;
    bool scale;
} cast_params;

/* Results for the 256 bytes, which are the usual input. */
typedef struct tables {
    uint32_t of_32[256];
    uint16_t of_16[256];
} tables;

static bool is_float(mr_dtype dtype) {
    return dtype == MR_F16 || dtype == MR_BF16 || dtype == MR_F32 || dtype == MR_F64;
}

static bool is_long(mr_dtype dtype) {
    return dtype == MR_I32 || dtype == MR_I64;
}

static mr_status check_scale(const mr_type *in, mr_dtype to, mr_error *err) {
    bool between = in->dtype == MR_U16 || (in->dtype == MR_U8) != (to == MR_U8);
    if (between && !is_long(to) &&
        (is_float(in->dtype) || in->dtype == MR_U8 || in->dtype == MR_U16)) {
        return MR_OK;
    }
    mr_fail(err, MR_E_TYPE, "scale is for casts between uint8 and a float, not %s to %s",
            mr_dtype_name(in->dtype), mr_dtype_name(to));
    mr_hint(err, "leave out \"scale\"");
    return MR_E_TYPE;
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    const cast_params *p = params;
    mr_dtype to = dtypes[p->dtype];
    if (is_long(to) && is_float(in->dtype)) {
        mr_fail(err, MR_E_TYPE, "%s may not be whole numbers", mr_dtype_name(in->dtype));
        mr_hint(err, "bucketize makes whole numbers of floats");
        return MR_E_TYPE;
    }
    if (p->scale) {
        MR_TRY(check_scale(in, to, err));
    }
    *out = *in;
    out->dtype = to;
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

/* ---- Elements, of an input that need not be aligned ---- */
#define LOAD(type, name)                                                                           \
    static type name(const mr_view *in, size_t i) {                                                \
        type value;                                                                                \
        memcpy(&value, (const unsigned char *)in->data + i * sizeof value, sizeof value);          \
        return value;                                                                              \
    }
LOAD(int8_t, load_i8)
LOAD(int16_t, load_i16)
LOAD(uint16_t, load_u16)
LOAD(int32_t, load_i32)
LOAD(uint32_t, load_u32)
LOAD(int64_t, load_i64)
LOAD(float, load_f32)
LOAD(double, load_f64)

/* A whole number; those of uint64 that are beyond int64 come out negative. */
static int64_t load_whole(const mr_view *in, size_t i) {
    switch (in->type.dtype) {
    case MR_I8:
        return load_i8(in, i);
    case MR_I16:
        return load_i16(in, i);
    case MR_U16:
        return load_u16(in, i);
    case MR_I32:
        return load_i32(in, i);
    case MR_U32:
        return load_u32(in, i);
    case MR_I64:
    case MR_U64:
        return load_i64(in, i);
    default: /* uint8, bool */
        return ((const uint8_t *)in->data)[i];
    }
}

static float load(const cast_params *p, const mr_view *in, size_t i) {
    switch (in->type.dtype) {
    case MR_F32:
        return load_f32(in, i);
    case MR_F64:
        return (float)load_f64(in, i);
    case MR_F16:
        return mr_float_of_f16(load_u16(in, i));
    case MR_BF16:
        return mr_float_of_bf16(load_u16(in, i));
    case MR_U64:
        return (float)(uint64_t)load_whole(in, i);
    default:
        return p->scale ? (float)load_whole(in, i) / 65535.0f : (float)load_whole(in, i);
    }
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

static mr_status convert_whole(const mr_view *in, mr_view *out, size_t n, mr_error *err) {
    bool narrow = out->type.dtype == MR_I32, is_unsigned = in->type.dtype == MR_U64;
    for (size_t i = 0; i < n; i++) {
        int64_t value = load_whole(in, i);
        if ((is_unsigned && value < 0) || (narrow && (value < INT32_MIN || value > INT32_MAX))) {
            return mr_fail(err, MR_E_TYPE, "number %zu, %s%lld, does not fit into %s", i,
                           is_unsigned && value < 0 ? "2^64" : "", (long long)value,
                           mr_dtype_name(out->type.dtype));
        }
        if (narrow) {
            ((int32_t *)out->data)[i] = (int32_t)value;
        } else {
            ((int64_t *)out->data)[i] = value;
        }
    }
    return MR_OK;
}

static mr_status convert(const cast_params *p, const mr_call *call, const mr_view *in, mr_view *out,
                         mr_error *err) {
    const tables *t = call->state;
    size_t n = in->size / mr_dtype_size(in->type.dtype);
    if (in->type.dtype == out->type.dtype) {
        memcpy(out->data, in->data, in->size);
    } else if (is_long(out->type.dtype)) {
        return convert_whole(in, out, n, err);
    } else if (in->type.dtype == MR_U8 && out->type.dtype == MR_F32) {
        call->kernels->lookup_32(out->data, in->data, n, 1, t->of_32, 0);
    } else if (in->type.dtype == MR_U8) {
        call->kernels->lookup_16(out->data, in->data, n, 1, t->of_16, 0);
    } else {
        for (size_t i = 0; i < n; i++) {
            store(p, out, i, load(p, in, i));
        }
    }
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    return convert(params, call, in, out, err);
}

/* Values without gaps are one long value. */
static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    bool packed = mr_column_is_packed(in) && mr_column_is_packed(out);
    for (int64_t i = 0; i < (packed && n > 0 ? 1 : n); i++) {
        mr_view from = mr_column_value(in, i), to = mr_column_value(out, i);
        from.size *= packed ? (size_t)n : 1;
        to.size *= packed ? (size_t)n : 1;
        MR_TRY(convert(params, call, &from, &to, err));
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
           "rounded the same way and cut to 0 .. 255; NaN becomes 0. int32 and int64 are made of "
           "whole "
           "numbers; one that does not fit makes the sample a bad one.",
    .version = 1,
    .param_size = sizeof(cast_params),
    .params = rows,
    .plan = plan,
    .open = open_tables,
    .close = close_tables,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
    .also = "astype to_type",
};
