/* SPDX-License-Identifier: Apache-2.0 */
/* entry_fields.h - what all sources of stream entries have in common: the fields of a sample. */
#ifndef MR_SOURCES_ENTRY_FIELDS_H
#define MR_SOURCES_ENTRY_FIELDS_H

#include <millrace/source.h>

#define MR_ENTRY_FIELDS_DOC                                                                        \
    "Fields: value (bytes), label (int64); on request key (bytes), time (int64) and index "        \
    "(int64); with \"rehearse\" also is_replay (uint8) and weight (float32), "                     \
    "and on request extra (float32, of varying length: what the trainer gave back). "

/* describe and fill of a source's table. */
mr_status mr_entry_describe(const void *params, mr_field *fields, int32_t capacity,
                            int32_t *n_fields, mr_error *err);
mr_status mr_entry_fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                        mr_error *err);

#endif
