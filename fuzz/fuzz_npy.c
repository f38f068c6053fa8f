/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of .npy headers. What it accepts must add up to the file's size; what
 * it refuses must say why. */
#include <stdlib.h>

#include "codecs/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_accepted(const mr_npy *npy, size_t size) {
    int64_t bytes = (int64_t)mr_dtype_size(npy->dtype);
    want(npy->n_dims >= 0 && npy->n_dims <= MR_NPY_DIMS);
    for (int32_t i = 0; i < npy->n_dims; i++) {
        want(npy->dims[i] >= 0 && !__builtin_mul_overflow(bytes, npy->dims[i], &bytes));
    }
    want(bytes == npy->bytes && npy->offset + npy->bytes == (int64_t)size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_npy npy;
    mr_error err = MR_ERROR_INIT;
    mr_status status = mr_npy_parse(data, size, &npy, &err);
    if (status == MR_OK) {
        check_accepted(&npy, size);
    } else {
        want(err.code == status && err.text[0] != '\0');
    }
    return 0;
}
