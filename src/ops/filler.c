/* SPDX-License-Identifier: Apache-2.0 */
/* filler.c - see filler.h. */
#include "ops/filler.h"

#include <math.h>
#include <string.h>

#include "kernels/half.h"

typedef struct range {
    double least, most; /* whole numbers; both 0: the type has fractions */
} range;

static const range ranges[] = {
    [MR_U8] = {0, 255},
    [MR_I8] = {-128, 127},
    [MR_BOOL] = {0, 1},
    [MR_I16] = {-32768, 32767},
    [MR_U16] = {0, 65535},
    [MR_I32] = {-2147483648.0, 2147483647.0},
    [MR_U32] = {0, 4294967295.0},
    [MR_I64] = {-9007199254740992.0, 9007199254740992.0}, /* what JSON's numbers are exact to */
    [MR_U64] = {0, 9007199254740992.0},
    [MR_F64] = {0, 0},
};

static void put_whole(mr_filler *out, double value) {
    int64_t whole = (int64_t)value; /* x86 and arm: the low bytes come first */
    memcpy(out->bytes, &whole, out->size);
}

static void put_float(mr_filler *out, mr_dtype dtype, double value) {
    float single = (float)value;
    uint16_t half = dtype == MR_BF16 ? mr_bf16(single) : mr_f16(single);
    const void *from = dtype == MR_F64   ? (const void *)&value
                       : dtype == MR_F32 ? (const void *)&single
                                         : (const void *)&half;
    memcpy(out->bytes, from, out->size);
}

mr_status mr_filler_make(mr_filler *out, mr_dtype dtype, double value, mr_error *err) {
    const range *r = &ranges[dtype];
    bool whole = r->least < r->most;
    *out = (mr_filler){.size = mr_dtype_size(dtype)};
    if (whole && (value != floor(value) || value < r->least || value > r->most)) {
        return mr_fail(err, MR_E_TYPE, "value is %g, which no %s is", value, mr_dtype_name(dtype));
    }
    if (whole) {
        put_whole(out, value);
    } else {
        put_float(out, dtype, value);
    }
    return MR_OK;
}

void mr_filler_fill(const mr_filler *filler, void *to, size_t elements) {
    static const unsigned char zeros[8] = {0};
    unsigned char *at = to;
    if (filler->size == 1 || memcmp(filler->bytes, zeros, sizeof zeros) == 0) {
        memset(to, filler->bytes[0], elements * filler->size);
        return;
    }
    for (size_t i = 0; i < elements; i++) {
        memcpy(at + i * filler->size, filler->bytes, filler->size);
    }
}
