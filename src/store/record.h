/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - a stored sample: its fields with their types, in one piece of bytes with checksums.
 *
 *     head     magic, format, number of fields, packing, sizes, checksum of the head and the key
 *     fields   one row each: type, bytes, checksum of the bytes
 *     payload  the fields' bytes one after the other, or all of them packed
 *
 * Numbers are little-endian. The head's checksum covers head, field rows and the key under which
 * the record is filed, so a record found under another key is a damaged one. Nothing in it is
 * trusted before its checksum was right, and no size before it was compared with what is there. */
#ifndef MR_STORE_RECORD_H
#define MR_STORE_RECORD_H

#include <millrace/types.h>

#include "core/memory.h"

#define MR_RECORD_FORMAT 1u
#define MR_KEY_BYTES 24u

/* What a value is filed under: whose (the pipeline's prefix, so that one prefix's entries lie
 * together), then which. */
typedef struct mr_store_key {
    unsigned char bytes[MR_KEY_BYTES];
} mr_store_key;

typedef struct mr_record_field {
    mr_type type;
    size_t size;
    uint64_t checksum;         /* of the bytes; meaningless where the payload was packed */
    const unsigned char *data; /* in the mapped file, or unpacked */
} mr_record_field;

typedef struct mr_record {
    int32_t n_fields;
    bool unpacked;           /* the bytes are our own and were checked */
    mr_record_field *fields; /* in the arena */
} mr_record;

extern const char *const mr_record_packings[]; /* names, ended by NULL */
bool mr_record_can_pack(int32_t packing);
const char *mr_record_packing_name(int32_t packing);

/* Writes a record of these values into `out`, which has room for mr_record_room bytes; *size says
 * how many it took. */
size_t mr_record_room(const mr_view *values, int32_t n, int32_t packing);
mr_status mr_record_write(const mr_store_key *key, const mr_view *values, int32_t n,
                          int32_t packing, void *out, size_t *size, mr_error *err);

/* The checksum of a record's head, which covers its key, its rows and with them the fields' own. */
uint64_t mr_record_sum(const void *record, size_t size);

/* Reads head and rows, guarded, into the arena; where the payload is packed, checks it and unpacks
 * it there too. MR_E_CORRUPT: not a whole record of this key; MR_E_UNSUPPORTED: a newer format, or
 * a packing this build has not. */
mr_status mr_record_open(mr_record *record, const mr_store_key *key, const void *data, size_t size,
                         mr_arena *arena);

/* Copies a field's bytes and checks them. to may be NULL: only the check. */
mr_status mr_record_copy(const mr_record_field *field, bool checked, void *to);

/* Opens and checks everything. */
mr_status mr_record_verify(const mr_store_key *key, const void *data, size_t size, mr_arena *arena);

#endif
