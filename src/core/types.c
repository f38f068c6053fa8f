/* SPDX-License-Identifier: Apache-2.0 */
/* types.c - element types, shapes and the version. */
#include <millrace/millrace.h>
#include <inttypes.h>
#include <stdio.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *mr_version(void) {
    return VERSION_TEXT(MR_VERSION_MAJOR, MR_VERSION_MINOR, MR_VERSION_PATCH);
}

typedef struct dtype_row {
    const char *name;
    size_t size;
} dtype_row;

static const dtype_row dtypes[] = {
#define DTYPE_ROW(name, text, size) {text, size},
    MR_DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *mr_dtype_name(mr_dtype dtype) {
    return dtypes[dtype].name;
}

size_t mr_dtype_size(mr_dtype dtype) {
    return dtypes[dtype].size;
}

int64_t mr_type_bytes(const mr_type *type) {
    int64_t bytes = (int64_t)mr_dtype_size(type->dtype);
    for (int32_t i = 0; i < type->n_dims; i++) {
        if (type->dims[i] < 0) {
            return -1;
        }
        if (__builtin_mul_overflow(bytes, type->dims[i], &bytes)) {
            return -2;
        }
    }
    return bytes;
}

static size_t add_dim(char *buffer, size_t size, int64_t dim, bool first) {
    const char *comma = first ? "" : ", ";
    int n = dim < 0 ? snprintf(buffer, size, "%s?", comma)
                    : snprintf(buffer, size, "%s%" PRId64, comma, dim);
    return (size_t)n < size ? (size_t)n : size - 1;
}

char *mr_type_text(const mr_type *type, char *buffer, size_t size) {
    static const char *const layouts[] = {"", " HWC", " CHW"};
    size_t used = (size_t)snprintf(buffer, size, "%s[", mr_dtype_name(type->dtype));
    used = used < size ? used : size - 1;
    for (int32_t i = 0; i < type->n_dims; i++) {
        used += add_dim(buffer + used, size - used, type->dims[i], i == 0);
    }
    snprintf(buffer + used, size - used, "]%s", layouts[type->layout]);
    return buffer;
}
