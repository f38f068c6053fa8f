/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h. */
#include "store/record.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "store/guard.h"
#include "store/pack.h"

#define MAGIC 0x5372724du /* "MrrS" */

typedef struct head {
    uint32_t magic;
    uint8_t format;
    uint8_t
        n_fields_high; /* was the format's upper byte: whoever knows 255 fields at most refuses */
    uint8_t n_fields_low;
    uint8_t packing;
    uint64_t raw_size;    /* of the payload, unpacked */
    uint64_t stored_size; /* of the payload as it lies here */
    uint64_t packed_sum;  /* of a packed payload; else 0 */
    uint64_t head_sum;    /* of what comes before it, the rows and the key */
} head;

typedef struct row {
    uint8_t dtype, layout, n_dims, zero[5];
    uint64_t dims[MR_MAX_DIMS];
    uint64_t size, checksum;
} row;

_Static_assert(sizeof(head) == 40 && sizeof(row) == 8 + 8 * (MR_MAX_DIMS + 2), "no padding");

typedef struct front {
    head head;
    row *rows;
} front;

static int32_t n_fields_of(const head *h) {
    return h->n_fields_high << 8 | h->n_fields_low;
}

static size_t front_size(int32_t n_fields) {
    return sizeof(head) + (size_t)n_fields * sizeof(row);
}

static uint64_t front_sum(const front *f, int32_t n_fields, const mr_store_key *key) {
    uint64_t sum = mr_hash64(key->bytes, sizeof key->bytes, 0);
    sum = mr_hash64(&f->head, offsetof(head, head_sum), sum);
    return mr_hash64(f->rows, (size_t)n_fields * sizeof(row), sum);
}

/* ---- Making ---- */
static row make_row(const mr_view *value, uint64_t checksum) {
    row r = {.dtype = (uint8_t)value->type.dtype,
             .layout = (uint8_t)value->type.layout,
             .n_dims = (uint8_t)value->type.n_dims,
             .size = htole64(value->size),
             .checksum = htole64(checksum)};
    for (int32_t i = 0; i < value->type.n_dims; i++) {
        r.dims[i] = htole64((uint64_t)value->type.dims[i]);
    }
    return r;
}

/* The values one after the other, and their rows. */
static void join(const mr_view *values, int32_t n, row *rows, unsigned char *to) {
    for (int32_t i = 0; i < n; i++) {
        rows[i] = make_row(&values[i], mr_hash64_copy(to, values[i].data, values[i].size));
        to += values[i].size;
    }
}

/* The payload behind the front; *stored says how long it became. */
static mr_status add_payload(const mr_view *values, int32_t n, int32_t packing, size_t raw,
                             row *rows, unsigned char *to, size_t room, size_t *stored) {
    if (packing == MR_PACK_NONE) {
        join(values, n, rows, to);
        *stored = raw;
        return MR_OK;
    }
    unsigned char *joined = malloc(raw ? raw : 1);
    if (!joined) {
        return MR_E_MEMORY;
    }
    join(values, n, rows, joined);
    *stored = mr_pack(packing, joined, raw, to, room);
    free(joined);
    return *stored > 0 ? MR_OK : MR_E_INTERNAL;
}

static size_t total_size(const mr_view *values, int32_t n) {
    size_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        total += values[i].size;
    }
    return total;
}

static void seal_front(front *f, int32_t n, int32_t packing, size_t raw, size_t stored,
                       const unsigned char *payload, const mr_store_key *key) {
    f->head = (head){
        .magic = htole32(MAGIC),
        .format = MR_RECORD_FORMAT,
        .n_fields_high = (uint8_t)(n >> 8),
        .n_fields_low = (uint8_t)(n & 0xFF),
        .packing = (uint8_t)packing,
        .raw_size = htole64(raw),
        .stored_size = htole64(stored),
        .packed_sum = packing == MR_PACK_NONE ? 0 : htole64(mr_hash64(payload, stored, 0)),
    };
    f->head.head_sum = htole64(front_sum(f, n, key));
}

static size_t payload_room(size_t raw, int32_t packing) {
    return packing == MR_PACK_NONE ? raw : mr_pack_room(packing, raw);
}

size_t mr_record_room(const mr_view *values, int32_t n, int32_t packing) {
    return front_size(n) + payload_room(total_size(values, n), packing);
}

mr_status mr_record_write(const mr_store_key *key, const mr_view *values, int32_t n,
                          int32_t packing, void *out, size_t *size, mr_error *err) {
    /* Rows are made in their place; both parts of the front are of whole 8 bytes, as `out` is. */
    front f = {.rows = (row *)(void *)((unsigned char *)out + sizeof(head))};
    size_t raw = total_size(values, n), stored = 0;
    unsigned char *payload = (unsigned char *)out + front_size(n);
    mr_status status =
        add_payload(values, n, packing, raw, f.rows, payload, payload_room(raw, packing), &stored);
    if (status < 0) {
        return mr_fail(err, status, "cannot pack %zu bytes", raw);
    }
    seal_front(&f, n, packing, raw, stored, payload, key);
    memcpy(out, &f.head, sizeof f.head);
    *size = front_size(n) + stored;
    return MR_OK;
}

uint64_t mr_record_sum(const void *record, size_t size) {
    head h = {0};
    memcpy(&h, record, size < sizeof h ? size : sizeof h);
    return le64toh(h.head_sum);
}

/* ---- Reading ---- */
/* Of a mapped file that was not touched lately: the beginning of the payload comes while the head
 * is looked at. */
static void expect(const void *data, size_t size) {
    const size_t most = 1024, line = 64;
    for (size_t at = 0; at < most && at < size; at += line) {
        __builtin_prefetch((const char *)data + at);
    }
}

static mr_status read_head(head *h, const void *data, size_t size) {
    if (size < sizeof *h || !mr_guard_copy(h, data, sizeof *h)) {
        return MR_E_CORRUPT;
    }
    if (le32toh(h->magic) != MAGIC) {
        return MR_E_CORRUPT;
    }
    if (h->format != MR_RECORD_FORMAT || !mr_record_can_pack(h->packing)) {
        return MR_E_UNSUPPORTED;
    }
    int32_t n = n_fields_of(h);
    bool fits = n >= 1 && size >= front_size(n) && le64toh(h->stored_size) == size - front_size(n);
    return fits ? MR_OK : MR_E_CORRUPT;
}

static mr_status read_front(front *f, const mr_store_key *key, const void *data, size_t size,
                            mr_arena *arena) {
    MR_TRY(read_head(&f->head, data, size));
    int32_t n = n_fields_of(&f->head);
    f->rows = mr_arena_take(arena, (size_t)n * sizeof(row));
    if (!f->rows) {
        return MR_E_MEMORY;
    }
    if (!mr_guard_copy(f->rows, (const char *)data + sizeof(head), (size_t)n * sizeof(row))) {
        return MR_E_CORRUPT;
    }
    return le64toh(f->head.head_sum) == front_sum(f, n, key) ? MR_OK : MR_E_CORRUPT;
}

/* The checksum was right, so a wrong row is a wrong writer; it is refused all the same. */
static mr_status read_row(const row *r, mr_record_field *field) {
    if (r->n_dims > MR_MAX_DIMS || r->dtype > MR_BOOL || r->layout > MR_CHW) {
        return MR_E_CORRUPT;
    }
    field->type =
        (mr_type){.dtype = (mr_dtype)r->dtype, .layout = (mr_layout)r->layout, .n_dims = r->n_dims};
    for (int32_t i = 0; i < r->n_dims; i++) {
        field->type.dims[i] = (int64_t)le64toh(r->dims[i]);
    }
    field->size = le64toh(r->size);
    field->checksum = le64toh(r->checksum);
    return mr_type_bytes(&field->type) == (int64_t)field->size ? MR_OK : MR_E_CORRUPT;
}

static mr_status unpack(const front *f, const unsigned char *payload, mr_arena *arena,
                        const unsigned char **out) {
    size_t stored = le64toh(f->head.stored_size), raw = le64toh(f->head.raw_size);
    unsigned char *packed = mr_arena_take(arena, stored), *bytes = mr_arena_take(arena, raw);
    uint64_t sum = 0;
    if (!packed || !bytes) {
        return MR_E_MEMORY;
    }
    if (!mr_guard_copy_hashed(packed, payload, stored, &sum) ||
        sum != le64toh(f->head.packed_sum) ||
        !mr_unpack(f->head.packing, packed, stored, bytes, raw)) {
        return MR_E_CORRUPT;
    }
    *out = bytes;
    return MR_OK;
}

mr_status mr_record_open(mr_record *record, const mr_store_key *key, const void *data, size_t size,
                         mr_arena *arena) {
    front f;
    expect(data, size);
    MR_TRY(read_front(&f, key, data, size, arena));
    record->n_fields = n_fields_of(&f.head);
    record->fields = mr_arena_take(arena, (size_t)record->n_fields * sizeof *record->fields);
    if (!record->fields) {
        return MR_E_MEMORY;
    }
    record->unpacked = f.head.packing != MR_PACK_NONE;
    size_t raw = le64toh(f.head.raw_size), used = 0;
    for (int32_t i = 0; i < record->n_fields; i++) {
        MR_TRY(read_row(&f.rows[i], &record->fields[i]));
        if (record->fields[i].size > raw - used) {
            return MR_E_CORRUPT;
        }
        used += record->fields[i].size;
    }
    const unsigned char *bytes = (const unsigned char *)data + front_size(record->n_fields);
    if (used != raw || (!record->unpacked && raw != le64toh(f.head.stored_size))) {
        return MR_E_CORRUPT;
    }
    if (record->unpacked) {
        MR_TRY(unpack(&f, bytes, arena, &bytes));
    }
    for (int32_t i = 0; i < record->n_fields; i++) {
        record->fields[i].data = bytes;
        bytes += record->fields[i].size;
    }
    return MR_OK;
}

mr_status mr_record_copy(const mr_record_field *field, bool checked, void *to) {
    uint64_t sum = 0;
    if (checked) {
        if (to && field->size > 0) {
            memcpy(to, field->data, field->size);
        }
        return MR_OK;
    }
    bool whole = mr_guard_copy_hashed(to, field->data, field->size, &sum);
    return whole && sum == field->checksum ? MR_OK : MR_E_CORRUPT;
}

mr_status mr_record_verify(const mr_store_key *key, const void *data, size_t size,
                           mr_arena *arena) {
    mr_record record;
    MR_TRY(mr_record_open(&record, key, data, size, arena));
    for (int32_t i = 0; i < record.n_fields; i++) {
        MR_TRY(mr_record_copy(&record.fields[i], record.unpacked, NULL));
    }
    return MR_OK;
}

const char *const mr_record_packings[] = {"none", "lz4", "zstd", NULL};

bool mr_record_can_pack(int32_t packing) {
    return mr_can_pack(packing);
}

const char *mr_record_packing_name(int32_t packing) {
    return mr_record_packings[packing];
}
