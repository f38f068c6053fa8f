/* SPDX-License-Identifier: Apache-2.0 */
/* mixing.c - see mixing.h. */
#include "ops/mixing.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "kernels/half.h"

/* ---- Beta(a, a), with exp and log that are the same everywhere ---- */
/* Joehnk, for a <= 1: u^(1/a) and v^(1/a) whose sum is at most 1, as logarithms, because powers of
 * a small a would be 0. */
static bool try_small(const mr_key *key, uint32_t draw, double a, double *out) {
    double x = mr_exact_log(1.0 - mr_draw_unit(key, draw)) / a;
    double y = mr_exact_log(1.0 - mr_draw_unit(key, draw + 1)) / a;
    double most = x > y ? x : y;
    double sum = most + mr_exact_log(mr_exact_exp(fmax(x - most, -600.0)) +
                                     mr_exact_exp(fmax(y - most, -600.0)));
    *out = mr_exact_exp(fmax(x - sum, -600.0));
    return sum <= 0.0;
}

/* Cheng's algorithm BB, for a > 1 and both parameters equal. */
static bool try_large(const mr_key *key, uint32_t draw, double a, double *out) {
    double u = 1.0 - mr_draw_unit(key, draw), other = 1.0 - mr_draw_unit(key, draw + 1);
    double odds = u < 1.0 ? u / (1.0 - u) : 0x1p53;
    double v = mr_exact_log(odds) / sqrt(a), w = a * mr_exact_exp(v);
    double r = (a + sqrt(a)) * v - mr_exact_log(4.0);
    *out = w / (a + w);
    return r + 2.0 * a * mr_exact_log(2.0 * a / (a + w)) >= mr_exact_log(u * u * other);
}

double mr_draw_beta(const mr_key *key, uint32_t draw, double alpha) {
    enum { ATTEMPTS = 1000 }; /* that all are rejected is less likely than 1e-100 */
    double value = 0.5;
    bool found = false;
    for (uint32_t i = 0; i < ATTEMPTS && !found; i++) {
        found = alpha > 1.0 ? try_large(key, draw + 2 * i, alpha, &value)
                            : try_small(key, draw + 2 * i, alpha, &value);
    }
    return value < 1.0 ? value : 1.0;
}

/* ---- A sample and the one before it ---- */
static void *value_at(const mr_column *column, int64_t i) {
    return (unsigned char *)column->data + (size_t)i * column->stride;
}

/* From the last on, so that nothing is overwritten that is still needed but the last itself. */
mr_status mr_with_previous(mr_call *call, int64_t n, const mr_column *column,
                           void (*put)(const void *user, void *to, const void *from),
                           const void *user, mr_error *err) {
    size_t bytes = (size_t)mr_type_bytes(&column->type);
    void *last = mr_scratch(call, bytes);
    if (!last) {
        return mr_fail_memory(err, bytes);
    }
    memcpy(last, value_at(column, n - 1), bytes);
    for (int64_t i = n - 1; i > 0; i--) {
        put(user, value_at(column, i), value_at(column, i - 1));
    }
    put(user, value_at(column, 0), last);
    return MR_OK;
}

/* ---- Blending ---- */
mr_status mr_check_blended(const char *name, const mr_field *field, mr_error *err) {
    mr_dtype dtype = field->type.dtype;
    char text[128];
    if (dtype == MR_F32 || dtype == MR_F16 || dtype == MR_BF16) {
        return MR_OK;
    }
    mr_fail(err, MR_E_TYPE, "%s cannot blend field %s, %s", name, field->name,
            mr_type_text(&field->type, text, sizeof text));
    if (field->type.layout != MR_PLAIN) {
        mr_hint(err, "normalize or to_float makes an image of numbers that can be blended");
    } else {
        mr_hint(err,
                "class numbers become rows that can be blended by one_hot; \"field\" names the "
                "fields that are to be mixed");
    }
    return MR_E_TYPE;
}

typedef struct blend {
    float own, other;
    size_t count;
} blend;

static void blend_f32(const void *user, void *to, const void *from) {
    const blend *b = user;
    const float *before = from;
    float *value = to;
    for (size_t i = 0; i < b->count; i++) {
        value[i] = before[i] * b->other + value[i] * b->own;
    }
}

/* Each product and the sum are rounded, as by torch. */
static void blend_f16(const void *user, void *to, const void *from) {
    const blend *b = user;
    const uint16_t *before = from;
    uint16_t *value = to;
    for (size_t i = 0; i < b->count; i++) {
        uint16_t one = mr_f16(mr_float_of_f16(before[i]) * b->other);
        uint16_t two = mr_f16(mr_float_of_f16(value[i]) * b->own);
        value[i] = mr_f16(mr_float_of_f16(one) + mr_float_of_f16(two));
    }
}

static void blend_bf16(const void *user, void *to, const void *from) {
    const blend *b = user;
    const uint16_t *before = from;
    uint16_t *value = to;
    for (size_t i = 0; i < b->count; i++) {
        uint16_t one = mr_bf16(mr_float_of_bf16(before[i]) * b->other);
        uint16_t two = mr_bf16(mr_float_of_bf16(value[i]) * b->own);
        value[i] = mr_bf16(mr_float_of_bf16(one) + mr_float_of_bf16(two));
    }
}

mr_status mr_blend(mr_call *call, int64_t n, const mr_column *column, double own, mr_error *err) {
    mr_dtype dtype = column->type.dtype;
    const blend b = {(float)own, (float)(1.0 - own),
                     (size_t)mr_type_bytes(&column->type) / mr_dtype_size(dtype)};
    return mr_with_previous(call, n, column,
                            dtype == MR_F32   ? blend_f32
                            : dtype == MR_F16 ? blend_f16
                                              : blend_bf16,
                            &b, err);
}
