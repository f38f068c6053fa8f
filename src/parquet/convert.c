/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - from the form in which values are stored to the type that a field has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parquet/parts.h"

#define DECIMAL_BYTES 64 /* of an unscaled number: 154 digits */
#define JULIAN_1970 2440588
#define NANOSECONDS_A_DAY 86400000000000

size_t mr_pq_physical_size(const mr_pq_column *column) {
    static const size_t sizes[] = {1, 4, 8, 12, 4, 8, sizeof(mr_pq_bytes)};
    return column->physical == MR_PQ_FIXED ? (size_t)column->fixed_size : sizes[column->physical];
}

size_t mr_pq_cell_size(const mr_pq_column *column) {
    return column->items == 0 ? sizeof(mr_pq_bytes)
                              : (size_t)column->items * mr_dtype_size(column->dtype);
}

bool mr_pq_converts(const mr_pq_column *column) {
    return column->logical == MR_PQ_DECIMAL || column->physical == MR_PQ_INT96 ||
           (column->logical == MR_PQ_INTEGER && column->bits < 32);
}

/* ---- Decimals ---- */
/* The digits of a big-endian two's complement number, from the last to the first. */
static int digits_of(const uint8_t *bytes, size_t size, char *out, bool *negative) {
    uint8_t left[DECIMAL_BYTES];
    int n = 0;
    bool more = true;
    *negative = size > 0 && bytes[0] >> 7;
    uint32_t carry = *negative;
    for (size_t i = size; i-- > 0;) {
        uint32_t byte = *negative ? (uint8_t)~bytes[i] + carry : bytes[i];
        left[i] = (uint8_t)byte;
        carry = byte >> 8;
    }
    while (more) {
        uint32_t rest = 0;
        more = false;
        for (size_t i = 0; i < size; i++) {
            rest = rest << 8 | left[i];
            left[i] = (uint8_t)(rest / 10);
            rest %= 10;
            more = more || left[i];
        }
        out[n++] = (char)('0' + rest);
    }
    return n;
}

/* The nearest double, by way of text: strtod rounds rightly, and there is no point that a locale
 * could change. */
static double decimal_by_text(const uint8_t *bytes, size_t size, int32_t scale) {
    char digits[DECIMAL_BYTES * 3], text[DECIMAL_BYTES * 3 + 16];
    bool negative;
    int n = digits_of(bytes, size, digits, &negative), at = 0;
    if (negative) {
        text[at++] = '-';
    }
    while (n > 0) {
        text[at++] = digits[--n];
    }
    snprintf(text + at, sizeof text - (size_t)at, "e-%d", scale);
    return strtod(text, NULL);
}

/* Both numbers are exact, so one division rounds once. */
static bool small_decimal(int64_t unscaled, int32_t scale, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int64_t exact = (int64_t)1 << 53;
    if (unscaled > exact || unscaled < -exact || scale > 22) {
        return false;
    }
    *out = (double)unscaled / powers[scale];
    return true;
}

static double decimal_of(const uint8_t *bytes, size_t size, int32_t scale) {
    double value;
    if (size <= 8) {
        uint64_t unscaled = size > 0 && bytes[0] >> 7 ? UINT64_MAX : 0;
        for (size_t i = 0; i < size; i++) {
            unscaled = unscaled << 8 | bytes[i];
        }
        if (small_decimal((int64_t)unscaled, scale, &value)) {
            return value;
        }
    }
    return decimal_by_text(bytes, size, scale);
}

static double decimal_of_integer(int64_t unscaled, int32_t scale) {
    double value;
    uint8_t bytes[8];
    if (small_decimal(unscaled, scale, &value)) {
        return value;
    }
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((uint64_t)unscaled >> (56 - 8 * i));
    }
    return decimal_by_text(bytes, sizeof bytes, scale);
}

static mr_status decimal_at(const mr_pq_column *column, const uint8_t *in, double *out,
                            mr_error *err) {
    mr_pq_bytes text = {in, (size_t)column->fixed_size};
    int32_t small;
    int64_t large;
    switch (column->physical) {
    case MR_PQ_INT32:
        memcpy(&small, in, sizeof small);
        *out = decimal_of_integer(small, column->scale);
        return MR_OK;
    case MR_PQ_INT64:
        memcpy(&large, in, sizeof large);
        *out = decimal_of_integer(large, column->scale);
        return MR_OK;
    case MR_PQ_BYTES:
        memcpy(&text, in, sizeof text);
        break;
    default:
        break;
    }
    if (text.size > DECIMAL_BYTES) {
        return mr_fail(err, MR_E_LIMIT, "a decimal of %zu bytes; at most %d are read", text.size,
                       DECIMAL_BYTES);
    }
    *out = decimal_of(text.data, text.size, column->scale);
    return MR_OK;
}

/* ---- All ---- */
static void nanoseconds(const uint8_t *in, uint8_t *out) {
    uint64_t day = mr_pq_load_u32(in + 8);
    uint64_t value = mr_pq_load_u64(in) + (day - JULIAN_1970) * (uint64_t)NANOSECONDS_A_DAY;
    memcpy(out, &value, sizeof value);
}

mr_status mr_pq_convert(const mr_pq_column *column, const void *in, void *out, int64_t n,
                        mr_error *err) {
    const uint8_t *from = in;
    uint8_t *to = out;
    size_t width = mr_pq_physical_size(column), narrow = mr_dtype_size(column->dtype);
    for (int64_t i = 0; i < n; i++, from += width) {
        if (column->logical == MR_PQ_DECIMAL) {
            double value = 0;
            MR_TRY(decimal_at(column, from, &value, err));
            memcpy(to + (size_t)i * sizeof value, &value, sizeof value);
        } else if (column->physical == MR_PQ_INT96) {
            nanoseconds(from, to + i * 8);
        } else if (narrow == 1) {
            to[i] = from[0];
        } else {
            memmove(to + i * 2, from, 2);
        }
    }
    return MR_OK;
}
