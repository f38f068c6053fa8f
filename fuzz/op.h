/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - what the fuzz targets of single ops share: one op with fixed parameters on arbitrary
 * bytes. What it refuses must say why; what it accepts must fill exactly what it promised. */
#ifndef MR_FUZZ_OP_H
#define MR_FUZZ_OP_H

#include <millrace/millrace.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_op(const char *name, const char *params, const uint8_t *data, size_t size) {
    const mr_op_class *op = mr_op_find(name);
    uint8_t *bytes = malloc(size ? size : 1); /* exactly: reading past it is seen */
    mr_view in = {{MR_U8, MR_PLAIN, 1, {(int64_t)size}}, bytes, size}, out = {0};
    mr_error err = MR_ERROR_INIT;
    if (!op || !bytes) {
        abort(); /* a target without its op would find nothing, in silence */
    }
    memcpy(bytes, data, size);
    mr_status status = mr_op_apply(op, params, &(mr_key){0}, &in, NULL, &out, &err);
    if (status != MR_OK && (status != err.code || !err.text[0] || status == MR_E_INTERNAL)) {
        abort();
    }
    mr_free(out.data);
    free(bytes);
}

#endif
