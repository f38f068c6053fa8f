/* SPDX-License-Identifier: Apache-2.0 */
/* entry_fields.h - what all sources of stream entries have in common: the fields of a sample, and
 * the parameter that says what entries are. */
#ifndef MR_SOURCES_ENTRY_FIELDS_H
#define MR_SOURCES_ENTRY_FIELDS_H

#include <millrace/source.h>

#include "sources/entry_json.h"

#define MR_ENTRY_FIELDS_DOC                                                                        \
    "Fields: value (bytes), or the members of `schema`; label (int64); on request key (bytes), "   \
    "time (int64) and index (int64); with \"rehearse\" also is_replay (uint8) and weight "         \
    "(float32), and on request extra (float32, of varying length: what the trainer gave back). "

/* The fields that every entry has, behind those of its value. */
enum { MR_ENTRY_COMMON = 7 };

/* What entries are. Filled by a row of the source's table and by its check. */
typedef struct mr_entry_format {
    mr_strings schema;
    mr_json_schema *json; /* NULL: entries are bytes */
} mr_entry_format;

#define MR_ENTRY_FORMAT_ROW(params)                                                                \
    {                                                                                              \
        .name = "schema", .kind = MR_PARAM_STRINGS, .offset = offsetof(params, format.schema),     \
        .fallback = "[]",                                                                          \
        .doc =                                                                                     \
            "Entries are JSON objects with these members, each \"NAME: TYPE\": \"price: "          \
            "float32\", \"pixels: uint8[28,28]\", \"tokens: int32[]\" (any number), \"title: "     \
            "string\"; \"label: int64\" is the entry's label. An entry that is not so is a bad "   \
            "sample. Empty: entries are bytes."                                                    \
    }

/* For check and forget of a source. */
mr_status mr_entry_format_check(mr_entry_format *format, mr_error *err);
void mr_entry_format_free(mr_entry_format *format);

/* What a fingerprint of the stream must have besides: 0 for bytes. */
uint64_t mr_entry_format_hash(const mr_entry_format *format);

/* describe and fill, given what entries are. */
mr_status mr_entry_describe(const mr_entry_format *format, mr_field *fields, int32_t capacity,
                            int32_t *n_fields);
mr_status mr_entry_fill(const mr_entry_format *format, const mr_block *block, int64_t sample,
                        mr_view *fields, mr_error *err);

/* A sink that entries go through as they arrive, for advance and recall: `to` itself where entries
 * are bytes. The packer, zeroed before, is freed when all is given. */
mr_entry_sink mr_entry_through(const mr_entry_format *format, mr_json_packer *packer,
                               const mr_entry_sink *to);

#endif
