/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c - one op by itself, outside a pipeline: for tests, tools and examples. */
#include <jansson.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "core/params.h"
#include "kernels/kernels.h"
#include "run/chain.h"

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
        return mr_fail(err, MR_E_UNSUPPORTED, "op %s works on whole samples, not on one field",
                       op->name);
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
static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static mr_status bytes_input(const char *hex, mr_view *out, mr_error *err) {
    size_t n = strlen(hex) / 2;
    unsigned char *bytes = malloc(n + 1);
    if (!bytes) {
        return mr_fail_memory(err, n);
    }
    out->data = bytes;
    out->size = n;
    out->type = (mr_type){MR_U8, MR_PLAIN, 1, {(int64_t)n}};
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return mr_fail(err, MR_E_PARAM, "the example's input is not hexadecimal");
        }
        bytes[i] = (unsigned char)(high * 16 + low);
    }
    return MR_OK;
}

static mr_status image_input(const char *size, mr_view *out, mr_error *err) {
    unsigned h = 0, w = 0, c = 0;
    if (sscanf(size, "%ux%ux%u", &h, &w, &c) != 3 || (uint64_t)h * w * c > 1u << 28) {
        return mr_fail(err, MR_E_PARAM, "the example's input is not an image size");
    }
    size_t n = (size_t)h * w * c;
    unsigned char *pixels = malloc(n + 1);
    if (!pixels) {
        return mr_fail_memory(err, n);
    }
    for (size_t i = 0; i < n; i++) {
        pixels[i] = (unsigned char)(i * 37 + i / 251);
    }
    out->data = pixels;
    out->size = n;
    out->type = (mr_type){MR_U8, MR_HWC, 3, {h, w, c}};
    return MR_OK;
}

static mr_status example_input(const char *input, mr_view *out, mr_error *err) {
    if (strncmp(input, "bytes:", 6) == 0) {
        return bytes_input(input + 6, out, err);
    }
    if (strncmp(input, "image:", 6) == 0) {
        return image_input(input + 6, out, err);
    }
    return mr_fail(err, MR_E_PARAM, "an example's input starts with bytes: or image:");
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
    mr_status status = example_input(example->input, &in, err);
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
