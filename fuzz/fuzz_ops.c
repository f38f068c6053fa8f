/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ops.c - every op of the registry with parameters and pixels from the fuzzer, once with all
 * CPU features and once without: no crash, and the same bytes. Ops that read their output's size
 * from the data (decoders) have targets of their own.
 *
 * Input: op, height, width, kind of input, length of the parameters' text (0: the op's example),
 * that text, pixels (repeated as needed). */
#include <jansson.h>
#include <millrace/millrace.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/params.h"

#define HEADER 5
#define OUTPUT_MAX (1 << 21) /* bytes: larger ones only cost time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of the output these parameters and this input give; negative if refused. */
static int64_t planned_bytes(const mr_op_class *op, const char *params, const mr_type *in) {
    json_t *object = json_loads(params, JSON_REJECT_DUPLICATES, NULL);
    void *filled = mr_zalloc(1, op->param_size);
    mr_type out;
    mr_status status = object ? MR_OK : MR_E_PARAM;
    int64_t bytes = -1;
    if (status == MR_OK) {
        status = mr_params_fill(op->params, object, "$", op->name, NULL, filled, NULL);
    }
    if (status == MR_OK) {
        status = op->check ? op->check(filled, NULL) : MR_OK;
        status = status == MR_OK ? op->plan(filled, in, &out, NULL) : status;
        bytes = status == MR_OK ? mr_type_bytes(&out) : -1;
        mr_params_free(op->params, filled);
    }
    json_decref(object);
    mr_free(filled);
    return bytes;
}

static mr_type input_type(const uint8_t *header) {
    static const mr_type kinds[] = {
        {MR_U8, MR_HWC, 3, {0, 0, 3}}, {MR_U8, MR_HWC, 3, {0, 0, 1}},
        {MR_U8, MR_PLAIN, 2, {0, 0}},  {MR_F32, MR_HWC, 3, {0, 0, 3}},
        {MR_F16, MR_PLAIN, 2, {0, 0}}, {MR_BF16, MR_CHW, 3, {0, 0, 3}},
        {MR_I64, MR_PLAIN, 2, {0, 0}},
    };
    mr_type type = kinds[header[3] % (sizeof kinds / sizeof *kinds)];
    type.dims[0] = header[1];
    type.dims[1] = header[2];
    return type;
}

/* A tensor filled with the fuzzer's bytes over and over, in memory of exactly its size. */
static mr_view make_input(const mr_type *type, const uint8_t *pixels, size_t n) {
    mr_view in = {.type = *type, .size = (size_t)mr_type_bytes(type)};
    uint8_t *bytes = in.data = malloc(in.size ? in.size : 1);
    for (size_t i = 0; i < in.size; i++) {
        bytes[i] = n ? pixels[i % n] : (uint8_t)(i * 37);
    }
    return in;
}

static void compare(const mr_op_class *op, const char *params, const mr_view *in, uint64_t seed) {
    const mr_key key = {.seed = seed, .epoch = 1, .op = 2, .sample = 3};
    mr_view fast = {0}, plain = {0};
    mr_error err = MR_ERROR_INIT;
    mr_status status = mr_op_apply(op, params, &key, in, NULL, &fast, &err);
    mr_status again = mr_op_apply(op, params, &key, in, "avx2,avx512,neon", &plain, NULL);
    if (status != again || (status < 0 && !err.text[0]) || fast.size != plain.size ||
        (status == MR_OK && memcmp(fast.data, plain.data, fast.size) != 0)) {
        abort();
    }
    mr_free(fast.data);
    mr_free(plain.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEADER || size - HEADER < data[4]) {
        return 0;
    }
    const mr_op_class *op = mr_op_at(data[0] % mr_n_ops());
    if (op->peek || !op->run) {
        return 0;
    }
    char text[256] = "";
    size_t length = data[4];
    memcpy(text, data + HEADER, length);
    const char *params = length ? text : op->examples->params;
    mr_type type = input_type(data);
    if (planned_bytes(op, params, &type) > OUTPUT_MAX) {
        return 0;
    }
    mr_view in = make_input(&type, data + HEADER + length, size - HEADER - length);
    compare(op, params, &in, size);
    free(in.data);
    return 0;
}
