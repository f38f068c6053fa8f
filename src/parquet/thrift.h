/* SPDX-License-Identifier: Apache-2.0 */
/* thrift.h - Thrift's compact protocol, as far as Parquet uses it, over bytes that may be anything.
 *
 * A reader never goes past its end. What is wrong sets `bad`, after which every call gives zero and
 * no field follows, so that callers check once. */
#ifndef MR_PARQUET_THRIFT_H
#define MR_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parquet/parquet.h"

typedef enum mr_thrift_type {
    MR_THRIFT_TRUE = 1,
    MR_THRIFT_FALSE = 2,
    MR_THRIFT_BYTE = 3,
    MR_THRIFT_I16 = 4,
    MR_THRIFT_I32 = 5,
    MR_THRIFT_I64 = 6,
    MR_THRIFT_DOUBLE = 7,
    MR_THRIFT_BINARY = 8,
    MR_THRIFT_LIST = 9,
    MR_THRIFT_SET = 10,
    MR_THRIFT_MAP = 11,
    MR_THRIFT_STRUCT = 12
} mr_thrift_type;

typedef struct mr_thrift {
    const uint8_t *at, *end;
    bool bad;
} mr_thrift;

typedef struct mr_thrift_field {
    int32_t id;
    mr_thrift_type type;
} mr_thrift_field;

/* The next field of a struct; begin with a zeroed one. False at the end of the struct. */
bool mr_thrift_next(mr_thrift *in, mr_thrift_field *field);

/* The value of the field just met. A value of another type is skipped, and the fallback given. */
int64_t mr_thrift_int(mr_thrift *in, mr_thrift_type type, int64_t fallback);
bool mr_thrift_bool(mr_thrift *in, mr_thrift_type type);
mr_pq_bytes mr_thrift_binary(mr_thrift *in, mr_thrift_type type);

/* Begins a list: its length, at most the bytes left (no element is smaller than one). False, with
 * everything skipped, where elements are not of the wanted type. */
bool mr_thrift_list(mr_thrift *in, mr_thrift_type type, mr_thrift_type of, int32_t *n);

int64_t mr_thrift_zigzag(mr_thrift *in);   /* an element of a list of integers */
mr_pq_bytes mr_thrift_text(mr_thrift *in); /* an element of a list of binaries */
bool mr_thrift_bool_item(mr_thrift *in);   /* an element of a list of booleans */
void mr_thrift_skip(mr_thrift *in, mr_thrift_type type);

/* Writing; a buffer that could not grow is `bad`. */
typedef struct mr_thrift_out {
    uint8_t *data;
    size_t size, capacity;
    bool bad;
} mr_thrift_out;

/* Each takes the id of the field before it in this struct, and updates it. */
void mr_thrift_put_int(mr_thrift_out *out, int32_t *last, int32_t id, mr_thrift_type type,
                       int64_t value);
void mr_thrift_put_binary(mr_thrift_out *out, int32_t *last, int32_t id, const void *data,
                          size_t size);
void mr_thrift_put_list(mr_thrift_out *out, int32_t *last, int32_t id, mr_thrift_type of, size_t n);
/* A list that is already written, its own head included. */
void mr_thrift_put_raw_list(mr_thrift_out *out, int32_t *last, int32_t id, mr_pq_bytes list);
void mr_thrift_put_struct(mr_thrift_out *out, int32_t *last,
                          int32_t id); /* then its fields, then: */
void mr_thrift_put_stop(mr_thrift_out *out);
void mr_thrift_put_zigzag(mr_thrift_out *out, int64_t value); /* an element */
void mr_thrift_put_text(mr_thrift_out *out, const void *data, size_t size);

#endif
