/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c - one op by itself, outside a pipeline: for tests, tools and examples. */
#include <jansson.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base64.h"
#include "core/cpu.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "kernels/half.h"
#include "kernels/kernels.h"
#include "run/chain/chain.h"

typedef struct application {
    const mr_op_class *op;
    void *params;
    mr_arena arena;
    mr_call call;
} application;

static mr_status fill_params(application *app, const char *params, mr_error *err) {
    char what[64];
    json_t *object = NULL;
    json_error_t error;
    mr_status loaded =
        params ? mr_json_load(&object, params, strlen(params), JSON_REJECT_DUPLICATES, &error)
               : MR_OK;
    if (loaded < 0) {
        return loaded == MR_E_MEMORY
                   ? mr_fail_memory(err, strlen(params))
                   : mr_fail(err, MR_E_PARAM, "the parameters are not valid JSON");
    }
    snprintf(what, sizeof what, "op %s", app->op->name);
    app->params = mr_zalloc(1, app->op->param_size);
    mr_status status =
        app->params ? mr_params_fill(app->op->params, object, "$", what, NULL, app->params, err)
                    : mr_fail_memory(err, app->op->param_size);
    json_decref(object);
    if (status == MR_OK && app->op->check) {
        status = app->op->check(app->params, err);
    }
    return status;
}

/* plan first sees the type with every size unknown, as in a pipeline over varying images. */
static mr_status check_plan(const application *app, const mr_type *in, mr_error *err) {
    mr_type general = *in, out;
    for (int32_t i = 0; i < general.n_dims; i++) {
        bool channels = general.layout == MR_HWC && i == 2;
        general.dims[i] = channels ? general.dims[i] : -1;
    }
    return app->op->plan(app->params, &general, &out, err);
}

static mr_status run_op(application *app, const mr_view *in, mr_view *out, mr_error *err) {
    MR_TRY(check_plan(app, &in->type, err));
    if (app->op->open) {
        MR_TRY(app->op->open(app->params, &app->call.state, err));
    }
    MR_TRY(mr_op_output_type(app->op, app->params, &app->call, in, &out->type, err));
    int64_t bytes = mr_type_bytes(&out->type);
    if (bytes < 0) {
        return mr_fail(err, MR_E_INTERNAL, "the output has no definite size");
    }
    out->size = (size_t)bytes;
    out->data = mr_zalloc(1, out->size);
    if (!out->data) {
        return mr_fail_memory(err, out->size);
    }
    memset(out->data, 0xA5, out->size); /* what is not written shows */
    return app->op->run(app->params, &app->call, in, out, err);
}

static void application_end(application *app) {
    if (app->params) {
        mr_params_free(app->op->params, app->params);
    }
    mr_free(app->params);
    if (app->op->close) {
        app->op->close(app->call.state);
    }
    mr_arena_free(&app->arena);
}

mr_status mr_op_apply(const mr_op_class *op, const char *params, const mr_key *key,
                      const mr_view *in, const char *disable_cpu, mr_view *out, mr_error *err) {
    application app = {.op = op};
    mr_view result = {0};
    uint32_t cpu = 0;
    if (!op->plan || !op->run) {
        return mr_fail(err, MR_E_UNSUPPORTED,
                       "op %s works on whole samples or batches, not on one field", op->name);
    }
    MR_TRY(mr_cpu_features(disable_cpu, &cpu, err));
    app.call = (mr_call){.key = *key, .kernels = mr_kernels_for(cpu), .arena = &app.arena};
    mr_status status = fill_params(&app, params, err);
    if (status == MR_OK) {
        status = run_op(&app, in, &result, err);
    }
    application_end(&app);
    if (status < 0) {
        mr_error_at_op(err, op->name);
        mr_free(result.data);
        return status;
    }
    *out = result;
    return MR_OK;
}

/* ---- Examples ---- */
static mr_status fill_hex(const char *hex, mr_view *out, mr_error *err) {
    unsigned char *bytes = out->data;
    if (strlen(hex) != 2 * out->size) {
        return mr_fail(err, MR_E_PARAM, "the example's input does not have %zu bytes", out->size);
    }
    for (size_t i = 0; i < out->size; i++) {
        int high = mr_hex_digit(hex[2 * i]), low = mr_hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return mr_fail(err, MR_E_PARAM, "the example's input is not hexadecimal");
        }
        bytes[i] = (unsigned char)(high * 16 + low);
    }
    return MR_OK;
}

/* One element of the fixed pattern: the byte of an image's pattern, as a number that every type can
 * tell exactly. */
static void put_element(mr_dtype dtype, void *at, unsigned byte) {
    int centred = (int)byte - 128;
    float real = (float)centred / 16.0f;
    double wide = real;
    uint16_t half = dtype == MR_BF16 ? mr_bf16(real) : mr_f16(real);
    int64_t whole = dtype == MR_I8 || dtype == MR_I16 || dtype == MR_I32 || dtype == MR_I64
                        ? centred
                        : (int64_t)(dtype == MR_BOOL ? byte & 1u : byte);
    bool is_half = dtype == MR_F16 || dtype == MR_BF16;
    const void *from = dtype == MR_F32   ? (const void *)&real
                       : dtype == MR_F64 ? (const void *)&wide
                       : is_half         ? (const void *)&half
                                         : (const void *)&whole; /* little-endian */
    memcpy(at, from, mr_dtype_size(dtype));
}

static void fill_pattern(mr_view *out) {
    size_t width = mr_dtype_size(out->type.dtype);
    for (size_t i = 0; i < out->size / width; i++) {
        put_element(out->type.dtype, (unsigned char *)out->data + i * width,
                    (unsigned)(i * 37 + i / 251) & 255u);
    }
}

/* "6x7", then ":" or the end. */
static const char *read_dims(const char *text, mr_type *type) {
    char *end = NULL;
    do {
        long long side = strtoll(text, &end, 10);
        if (end == text || side < 0 || side > 1 << 20 || type->n_dims == MR_MAX_DIMS) {
            return NULL;
        }
        type->dims[type->n_dims++] = side;
        text = end + 1;
    } while (*end == 'x');
    return end;
}

static bool find_dtype(const char *name, size_t length, mr_dtype *out) {
    for (mr_dtype d = MR_U8; d <= MR_BOOL; d++) {
        if (strlen(mr_dtype_name(d)) == length && strncmp(mr_dtype_name(d), name, length) == 0) {
            *out = d;
            return true;
        }
    }
    return false;
}

static mr_status example_type(const char *input, mr_type *type, const char **hex, mr_error *err) {
    const char *colon = strchr(input, ':');
    size_t length = colon ? (size_t)(colon - input) : 0;
    const char *end = NULL;
    *type = (mr_type){.dtype = MR_U8};
    *hex = NULL;
    if (length == 5 && strncmp(input, "bytes", length) == 0) {
        *hex = colon + 1;
        type->n_dims = 1;
        type->dims[0] = (int64_t)(strlen(*hex) / 2);
        return MR_OK;
    }
    bool is_image = length == 5 && strncmp(input, "image", length) == 0;
    if (is_image || (length > 0 && find_dtype(input, length, &type->dtype))) {
        type->layout = is_image ? MR_HWC : MR_PLAIN;
        end = read_dims(colon + 1, type);
    }
    *hex = end && *end == ':' ? end + 1 : NULL;
    if (!end || (*end && *end != ':') || (is_image && type->n_dims != 3) ||
        mr_type_bytes(type) > 1 << 28 || mr_type_bytes(type) < 0) {
        return mr_fail(err, MR_E_PARAM,
                       "an example's input is bytes:HEX, image:HxWxC or DTYPE:DIMS[:HEX]");
    }
    return MR_OK;
}

mr_status mr_example_input(const char *input, mr_view *out, mr_error *err) {
    const char *hex = NULL;
    MR_TRY(example_type(input, &out->type, &hex, err));
    out->size = (size_t)mr_type_bytes(&out->type);
    out->data = malloc(out->size ? out->size : 1); /* exactly: reading past it is seen */
    if (!out->data) {
        return mr_fail_memory(err, out->size);
    }
    if (hex) {
        return fill_hex(hex, out, err);
    }
    fill_pattern(out);
    return MR_OK;
}

/* ---- Examples of ops on fields ---- */
enum { EXAMPLE_FIELDS = 8, EXAMPLE_NAME = 16 };

typedef struct example_sample {
    char names[EXAMPLE_FIELDS][EXAMPLE_NAME];
    mr_field fields[EXAMPLE_FIELDS];
    mr_view values[EXAMPLE_FIELDS];
    int32_t n;
} example_sample;

static void free_example(example_sample *sample) {
    for (int32_t i = 0; i < sample->n; i++) {
        mr_free(sample->values[i].data);
    }
}

static mr_status wrong_fields(mr_error *err) {
    return mr_fail(err, MR_E_PARAM, "the example's fields are not like a=float32,b=uint8x2x3");
}

static mr_status example_value(example_sample *sample, const mr_type *type, mr_error *err) {
    mr_view *value = &sample->values[sample->n];
    int64_t bytes = mr_type_bytes(type);
    unsigned char *data = bytes >= 0 && bytes < 1 << 20 ? mr_zalloc((size_t)bytes + 1, 1) : NULL;
    if (!data) {
        return wrong_fields(err);
    }
    for (int64_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)(i * 37 + i / 251);
    }
    *value = (mr_view){*type, data, (size_t)bytes};
    sample->fields[sample->n] = (mr_field){.name = sample->names[sample->n], .type = *type};
    sample->n++;
    return MR_OK;
}

/* "float32", "uint8x2x3" */
static mr_status field_type(const char *text, mr_type *type, mr_error *err) {
    const char *shape = strchr(text, 'x');
    size_t length = shape ? (size_t)(shape - text) : strlen(text);
    *type = (mr_type){.dtype = MR_U8};
    bool known = find_dtype(text, length, &type->dtype);
    const char *end = shape ? read_dims(shape + 1, type) : "";
    return known && end && !*end ? MR_OK : wrong_fields(err);
}

static mr_status example_fields(const char *input, example_sample *out, mr_error *err) {
    for (const char *at = input; *at;) {
        size_t length = strcspn(at, ","), name = strcspn(at, "=");
        char type_text[32];
        mr_type type;
        if (out->n == EXAMPLE_FIELDS || name >= length || name >= EXAMPLE_NAME ||
            length - name > sizeof type_text) {
            return wrong_fields(err);
        }
        memcpy(out->names[out->n], at, name);
        snprintf(type_text, sizeof type_text, "%.*s", (int)(length - name - 1), at + name + 1);
        MR_TRY(field_type(type_text, &type, err));
        MR_TRY(example_value(out, &type, err));
        at += at[length] ? length + 1 : length;
    }
    return out->n > 0 ? MR_OK : wrong_fields(err);
}

static void hash_field(mr_hasher *hasher, const mr_field *field, const mr_view *value) {
    char text[128];
    mr_hasher_text(hasher, field->name);
    mr_hasher_text(hasher, mr_type_text(&value->type, text, sizeof text));
    mr_hasher_bytes(hasher, value->data, value->size);
}

static mr_status arrange_example(const application *app, const example_sample *in,
                                 mr_hasher *hasher, mr_error *err) {
    mr_field out[EXAMPLE_FIELDS];
    int32_t from[EXAMPLE_FIELDS], n = 0;
    MR_TRY(app->op->arrange(app->params, in->fields, in->n, out, from, &n, err));
    for (int32_t i = 0; i < n; i++) {
        hash_field(hasher, &out[i], &in->values[from[i]]);
    }
    return MR_OK;
}

static mr_status run_example(application *app, const example_sample *in, mr_hasher *hasher,
                             mr_error *err) {
    example_sample out = {.n = 0};
    int32_t n = 0;
    MR_TRY(
        app->op->plan_sample(app->params, in->fields, in->n, out.fields, EXAMPLE_FIELDS, &n, err));
    const mr_field *fields = memcpy((mr_field[EXAMPLE_FIELDS]){{0}}, out.fields, sizeof out.fields);
    mr_status status = app->op->open ? app->op->open(app->params, &app->call.state, err) : MR_OK;
    for (int32_t i = 0; status == MR_OK && i < n; i++) {
        status = example_value(&out, &fields[i].type, err);
    }
    if (status == MR_OK) {
        status =
            app->op->run_sample(app->params, &app->call, in->values, in->n, out.values, n, err);
    }
    for (int32_t i = 0; status == MR_OK && i < n; i++) {
        hash_field(hasher, &fields[i], &out.values[i]);
    }
    free_example(&out);
    return status;
}

/* The first axis of each field counts samples. */
static mr_status batch_example(application *app, const example_sample *in, mr_hasher *hasher,
                               mr_error *err) {
    mr_field fields[EXAMPLE_FIELDS];
    mr_column columns[EXAMPLE_FIELDS];
    int64_t n = in->n > 0 && in->fields[0].type.n_dims > 0 ? in->fields[0].type.dims[0] : 0;
    for (int32_t i = 0; i < in->n; i++) {
        mr_type type = in->fields[i].type;
        if (type.n_dims == 0 || type.dims[0] != n || n == 0) {
            return wrong_fields(err);
        }
        type.n_dims--;
        memmove(type.dims, type.dims + 1, (size_t)type.n_dims * sizeof *type.dims);
        fields[i] = (mr_field){.name = in->fields[i].name, .type = type};
        columns[i] = (mr_column){type, in->values[i].data, (size_t)mr_type_bytes(&type), NULL};
    }
    MR_TRY(app->op->check_batch(app->params, fields, in->n, err));
    MR_TRY(app->op->open ? app->op->open(app->params, &app->call.state, err) : MR_OK);
    MR_TRY(app->op->run_batch(app->params, &app->call, n, columns, in->n, err));
    for (int32_t i = 0; i < in->n; i++) {
        hash_field(hasher, &in->fields[i], &in->values[i]);
    }
    return MR_OK;
}

/* What is known of a field that has all these values. */
static mr_status type_of_values(const example_sample *in, mr_type *out, mr_error *err) {
    *out = in->values[0].type;
    for (int32_t i = 1; i < in->n; i++) {
        const mr_type *type = &in->values[i].type;
        if (type->dtype != out->dtype || type->n_dims != out->n_dims) {
            return wrong_fields(err);
        }
        for (int32_t k = 0; k < out->n_dims; k++) {
            out->dims[k] = out->dims[k] == type->dims[k] ? out->dims[k] : -1;
        }
    }
    return MR_OK;
}

static mr_status hash_shape(mr_hasher *hasher, application *app, mr_collated *array,
                            mr_error *err) {
    char text[128];
    mr_type type = {array->dtype, MR_PLAIN, array->n_dims, {0}};
    if (array->n_dims > MR_MAX_DIMS) {
        return wrong_fields(err);
    }
    memcpy(type.dims, array->dims, (size_t)array->n_dims * sizeof *array->dims);
    int64_t bytes = mr_type_bytes(&type);
    array->data = bytes < 0 ? NULL : mr_arena_take(&app->arena, (size_t)bytes);
    if (!array->data) {
        return mr_fail_memory(err, bytes < 0 ? 0 : (size_t)bytes);
    }
    memset(array->data, 0xA5, (size_t)bytes); /* what is not written shows */
    mr_hasher_text(hasher, array->suffix);
    mr_hasher_text(hasher, mr_type_text(&type, text, sizeof text));
    return MR_OK;
}

/* Shapes first, then bytes: memory for all arrays is there before one is written. */
static mr_status collate_example(application *app, const example_sample *in, mr_hasher *hasher,
                                 mr_error *err) {
    mr_collated out[MR_COLLATED_MAX] = {{0}};
    mr_type type;
    int32_t n_out = 0;
    void *memo = NULL;
    MR_TRY(type_of_values(in, &type, err));
    MR_TRY(app->op->plan_collate(app->params, &type, out, &n_out, err));
    MR_TRY(app->op->measure(app->params, &app->call, in->n, in->values, out, &memo, err));
    for (int32_t i = 0; i < n_out; i++) {
        MR_TRY(hash_shape(hasher, app, &out[i], err));
    }
    MR_TRY(app->op->collate(app->params, &app->call, in->n, in->values, out, memo, err));
    for (int32_t i = 0; i < n_out; i++) {
        size_t size = mr_dtype_size(out[i].dtype);
        for (int32_t k = 0; k < out[i].n_dims; k++) {
            size *= (size_t)out[i].dims[k];
        }
        mr_hasher_bytes(hasher, out[i].data, size);
    }
    return MR_OK;
}

static mr_status fields_digest(const mr_op_class *op, const mr_example *example, char out[33],
                               mr_error *err) {
    application app = {.op = op};
    example_sample in = {.n = 0};
    app.call = (mr_call){.kernels = mr_kernels_for(0), .arena = &app.arena};
    mr_hasher *hasher = mr_hasher_new();
    mr_status status = hasher ? example_fields(strchr(example->input, ':') + 1, &in, err)
                              : mr_fail_memory(err, 576);
    status = status == MR_OK ? fill_params(&app, example->params, err) : status;
    if (status == MR_OK) {
        status = op->arrange     ? arrange_example(&app, &in, hasher, err)
                 : op->collate   ? collate_example(&app, &in, hasher, err)
                 : op->run_batch ? batch_example(&app, &in, hasher, err)
                                 : run_example(&app, &in, hasher, err);
    }
    if (status == MR_OK) {
        mr_hash_hex(mr_hasher_value(hasher), out);
    }
    application_end(&app);
    free_example(&in);
    mr_hasher_free(hasher);
    return status;
}

static mr_status digest_of(const mr_view *view, char out[33], mr_error *err) {
    char text[128];
    mr_hasher *hasher = mr_hasher_new();
    if (!hasher) {
        return mr_fail_memory(err, 576);
    }
    mr_hasher_text(hasher, mr_type_text(&view->type, text, sizeof text));
    mr_hasher_bytes(hasher, view->data, view->size);
    mr_hash_hex(mr_hasher_value(hasher), out);
    mr_hasher_free(hasher);
    return MR_OK;
}

mr_status mr_op_example_digest(const mr_op_class *op, const mr_example *example, char out[33],
                               mr_error *err) {
    const mr_key key = {0};
    mr_view in = {0}, result = {0};
    if (strncmp(example->input, "fields:", 7) == 0) {
        return fields_digest(op, example, out, err);
    }
    mr_status status = mr_example_input(example->input, &in, err);
    if (status == MR_OK) {
        status = mr_op_apply(op, example->params, &key, &in, NULL, &result, err);
    }
    if (status == MR_OK) {
        status = digest_of(&result, out, err);
    }
    mr_free(in.data);
    mr_free(result.data);
    return status;
}
