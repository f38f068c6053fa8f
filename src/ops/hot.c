/* SPDX-License-Identifier: Apache-2.0 */
/* hot.c - see hot.h. */
#include "ops/hot.h"

#include <string.h>

#include "core/error.h"

const char *const mr_hot_dtype_names[] = {"float32", "uint8", "int64", NULL};
const mr_dtype mr_hot_dtypes[] = {MR_F32, MR_U8, MR_I64};

static void put_one(mr_dtype dtype, void *out, size_t i) {
    if (dtype == MR_F32) {
        ((float *)out)[i] = 1.0f;
    } else if (dtype == MR_I64) {
        ((int64_t *)out)[i] = 1;
    } else {
        ((uint8_t *)out)[i] = 1;
    }
}

mr_status mr_hot_fill(const mr_hot_params *params, const mr_view *in, size_t together, mr_view *out,
                      mr_error *err) {
    size_t n = mr_count(in), classes = (size_t)params->classes;
    memset(out->data, 0, out->size);
    for (size_t i = 0; i < n; i++) {
        int64_t value = mr_load_whole(in->type.dtype, in->data, i);
        if (value < 0 || value >= params->classes) {
            return mr_fail(err, MR_E_CORRUPT, "number %zu is %lld, which is none of %lld classes",
                           i, (long long)value, (long long)params->classes);
        }
        put_one(out->type.dtype, out->data, i / together * classes + (size_t)value);
    }
    return MR_OK;
}
