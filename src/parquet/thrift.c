/* SPDX-License-Identifier: Apache-2.0 */
/* thrift.c - Thrift's compact protocol, both ways. */
#include "parquet/thrift.h"

#include <stdlib.h>
#include <string.h>

#define NESTING 32 /* structs and lists inside each other, when something unknown is skipped */

static void stop(mr_thrift *in) {
    in->bad = true;
    in->at = in->end;
}

static uint8_t take_byte(mr_thrift *in) {
    if (in->at == in->end) {
        stop(in);
        return 0;
    }
    return *in->at++;
}

static uint64_t take_varint(mr_thrift *in) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        uint8_t byte = take_byte(in);
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            return value;
        }
    }
    stop(in);
    return 0;
}

int64_t mr_thrift_zigzag(mr_thrift *in) {
    uint64_t value = take_varint(in);
    return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}

mr_pq_bytes mr_thrift_text(mr_thrift *in) {
    uint64_t size = take_varint(in);
    if (in->bad || size > (uint64_t)(in->end - in->at)) {
        stop(in);
        return (mr_pq_bytes){NULL, 0};
    }
    mr_pq_bytes text = {in->at, (size_t)size};
    in->at += size;
    return text;
}

bool mr_thrift_bool_item(mr_thrift *in) {
    return take_byte(in) == MR_THRIFT_TRUE;
}

bool mr_thrift_next(mr_thrift *in, mr_thrift_field *field) {
    uint8_t head = take_byte(in);
    if (in->bad || head == 0) {
        return false;
    }
    int64_t id = head >> 4 ? field->id + (head >> 4) : mr_thrift_zigzag(in);
    if (in->bad || id < INT16_MIN || id > INT16_MAX || (head & 15) > MR_THRIFT_STRUCT ||
        (head & 15) == 0) {
        stop(in);
        return false;
    }
    field->id = (int32_t)id;
    field->type = (mr_thrift_type)(head & 15);
    return true;
}

static int32_t list_head(mr_thrift *in, mr_thrift_type *of) {
    uint8_t head = take_byte(in);
    uint64_t n = head >> 4 == 15 ? take_varint(in) : head >> 4;
    *of = (mr_thrift_type)(head & 15);
    if (in->bad || n > (uint64_t)(in->end - in->at) || n > INT32_MAX) {
        stop(in);
        return 0;
    }
    return (int32_t)n;
}

static void skip_value(mr_thrift *in, mr_thrift_type type, int32_t depth, bool item);

static void skip_struct(mr_thrift *in, int32_t depth) {
    mr_thrift_field field = {0};
    while (mr_thrift_next(in, &field)) {
        skip_value(in, field.type, depth, false);
    }
}

static void skip_list(mr_thrift *in, int32_t depth) {
    mr_thrift_type of;
    int32_t n = list_head(in, &of);
    for (int32_t i = 0; i < n && !in->bad; i++) {
        skip_value(in, of, depth, true);
    }
}

static void skip_map(mr_thrift *in, int32_t depth) {
    uint64_t n = take_varint(in);
    uint8_t types = n ? take_byte(in) : 0;
    for (uint64_t i = 0; i < n && !in->bad; i++) {
        skip_value(in, (mr_thrift_type)(types >> 4), depth, true);
        skip_value(in, (mr_thrift_type)(types & 15), depth, true);
    }
}

static void skip_bytes(mr_thrift *in, size_t n) {
    if (n > (size_t)(in->end - in->at)) {
        stop(in);
        return;
    }
    in->at += n;
}

/* item: an element of a list, where booleans have a byte of their own. Everything skipped takes at
 * least a byte, so loops end with the input. */
static void skip_value(mr_thrift *in, mr_thrift_type type, int32_t depth, bool item) {
    if (depth >= NESTING) {
        stop(in);
        return;
    }
    switch (type) {
    case MR_THRIFT_TRUE:
    case MR_THRIFT_FALSE:
        skip_bytes(in, item ? 1 : 0);
        break;
    case MR_THRIFT_BYTE:
        skip_bytes(in, 1);
        break;
    case MR_THRIFT_I16:
    case MR_THRIFT_I32:
    case MR_THRIFT_I64:
        take_varint(in);
        break;
    case MR_THRIFT_DOUBLE:
        skip_bytes(in, 8);
        break;
    case MR_THRIFT_BINARY:
        mr_thrift_text(in);
        break;
    case MR_THRIFT_LIST:
    case MR_THRIFT_SET:
        skip_list(in, depth + 1);
        break;
    case MR_THRIFT_MAP:
        skip_map(in, depth + 1);
        break;
    case MR_THRIFT_STRUCT:
        skip_struct(in, depth + 1);
        break;
    default:
        stop(in);
    }
}

void mr_thrift_skip(mr_thrift *in, mr_thrift_type type) {
    skip_value(in, type, 0, false);
}

int64_t mr_thrift_int(mr_thrift *in, mr_thrift_type type, int64_t fallback) {
    if (type == MR_THRIFT_BYTE) {
        return (int8_t)take_byte(in);
    }
    if (type < MR_THRIFT_I16 || type > MR_THRIFT_I64) {
        mr_thrift_skip(in, type);
        return fallback;
    }
    return mr_thrift_zigzag(in);
}

bool mr_thrift_bool(mr_thrift *in, mr_thrift_type type) {
    if (type > MR_THRIFT_FALSE) {
        mr_thrift_skip(in, type);
    }
    return type == MR_THRIFT_TRUE;
}

mr_pq_bytes mr_thrift_binary(mr_thrift *in, mr_thrift_type type) {
    if (type != MR_THRIFT_BINARY) {
        mr_thrift_skip(in, type);
        return (mr_pq_bytes){NULL, 0};
    }
    return mr_thrift_text(in);
}

bool mr_thrift_list(mr_thrift *in, mr_thrift_type type, mr_thrift_type of, int32_t *n) {
    mr_thrift_type found;
    *n = 0;
    if (type != MR_THRIFT_LIST) {
        mr_thrift_skip(in, type);
        return false;
    }
    int32_t count = list_head(in, &found);
    bool both_bool = of == MR_THRIFT_TRUE && found == MR_THRIFT_FALSE;
    if (found == of || both_bool || count == 0) {
        *n = count;
        return !in->bad;
    }
    for (int32_t i = 0; i < count && !in->bad; i++) {
        skip_value(in, found, 0, true);
    }
    return false;
}

/* ---- Writing ---- */
static void put_bytes(mr_thrift_out *out, const void *data, size_t size) {
    if (!out->bad && size > out->capacity - out->size) {
        size_t capacity = (out->size + size) * 2 + 256;
        uint8_t *larger = realloc(out->data, capacity);
        out->bad = !larger;
        out->data = larger ? larger : out->data;
        out->capacity = larger ? capacity : out->capacity;
    }
    if (!out->bad && size > 0) {
        memcpy(out->data + out->size, data, size);
        out->size += size;
    }
}

static void put_byte(mr_thrift_out *out, uint32_t byte) {
    uint8_t one = (uint8_t)byte;
    put_bytes(out, &one, 1);
}

static void put_varint(mr_thrift_out *out, uint64_t value) {
    while (value >= 0x80) {
        put_byte(out, (uint32_t)(value & 0x7F) | 0x80);
        value >>= 7;
    }
    put_byte(out, (uint32_t)value);
}

void mr_thrift_put_zigzag(mr_thrift_out *out, int64_t value) {
    put_varint(out, ((uint64_t)value << 1) ^ (uint64_t)(value < 0 ? -1 : 0));
}

void mr_thrift_put_text(mr_thrift_out *out, const void *data, size_t size) {
    put_varint(out, size);
    put_bytes(out, data, size);
}

static void put_head(mr_thrift_out *out, int32_t *last, int32_t id, mr_thrift_type type) {
    put_byte(out, (uint32_t)(id - *last) << 4 | (uint32_t)type); /* ids here grow by less than 16 */
    *last = id;
}

void mr_thrift_put_int(mr_thrift_out *out, int32_t *last, int32_t id, mr_thrift_type type,
                       int64_t value) {
    put_head(out, last, id, type);
    if (type == MR_THRIFT_BYTE) {
        put_byte(out, (uint8_t)value);
    } else {
        mr_thrift_put_zigzag(out, value);
    }
}

void mr_thrift_put_binary(mr_thrift_out *out, int32_t *last, int32_t id, const void *data,
                          size_t size) {
    put_head(out, last, id, MR_THRIFT_BINARY);
    mr_thrift_put_text(out, data, size);
}

void mr_thrift_put_list(mr_thrift_out *out, int32_t *last, int32_t id, mr_thrift_type of,
                        size_t n) {
    put_head(out, last, id, MR_THRIFT_LIST);
    put_byte(out, (uint32_t)(n < 15 ? n : 15) << 4 | (uint32_t)of);
    if (n >= 15) {
        put_varint(out, n);
    }
}

void mr_thrift_put_raw_list(mr_thrift_out *out, int32_t *last, int32_t id, mr_pq_bytes list) {
    put_head(out, last, id, MR_THRIFT_LIST);
    put_bytes(out, list.data, list.size);
}

void mr_thrift_put_struct(mr_thrift_out *out, int32_t *last, int32_t id) {
    put_head(out, last, id, MR_THRIFT_STRUCT);
}

void mr_thrift_put_stop(mr_thrift_out *out) {
    put_byte(out, 0);
}
