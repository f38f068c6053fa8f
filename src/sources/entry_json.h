/* SPDX-License-Identifier: Apache-2.0 */
/* entry_json.h - entries of a stream that are JSON objects, checked against a schema.
 *
 * A schema is a list of members, each "NAME: TYPE": "price: float32", "pixels: uint8[28,28]",
 * "tokens: int32[]" (any number of them), "title: string". The member "label" is the entry's label.
 * An entry is packed as it arrives: its value becomes the members' numbers, one after the other,
 * which fill points at. One that is not as it should be loses its value, as a damaged one has none,
 * and its key says why. */
#ifndef MR_SOURCES_ENTRY_JSON_H
#define MR_SOURCES_ENTRY_JSON_H

#include <millrace/source.h>

typedef struct mr_json_member {
    char *name;
    mr_type type;
    bool is_text, is_label;
} mr_json_member;

typedef struct mr_json_schema {
    mr_json_member *members;
    int32_t n;
    int32_t n_fields; /* members that are fields: all but the label */
} mr_json_schema;

/* mr_json_schema_free is due also where it fails. */
mr_status mr_json_schema_read(mr_json_schema **out, const mr_strings *lines, mr_error *err);
void mr_json_schema_free(mr_json_schema *schema); /* NULL allowed */

/* A sink that packs what it gets and gives it to another. Memory is its own until it is freed. */
typedef struct mr_json_packer {
    const mr_json_schema *schema;
    const mr_entry_sink *to;
    unsigned char *packed;
    size_t size, room;
    char why[160];
} mr_json_packer;
bool mr_json_pack(void *packer, const mr_entry *entry); /* as mr_entry_sink's take */
void mr_json_packer_free(mr_json_packer *packer);

/* Field i of a packed value; false: it is none. */
bool mr_json_packed(const mr_entry *entry, int32_t i, const void **data, size_t *size);

#endif
