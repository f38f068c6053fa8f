/* SPDX-License-Identifier: Apache-2.0 */
/* table_rig.h - a source of any number of columns that counts what it is asked for. Column c of
 * sample s is the float s * 10000 + c. */
#ifndef MR_TABLE_RIG_H
#define MR_TABLE_RIG_H

#include <millrace/millrace.h>
#include <stdatomic.h>

#include "test.h"

enum { TABLE_COLUMNS = 2000, TABLE_SAMPLES = 50 };

typedef struct table_rig {
    char names[TABLE_COLUMNS][16];
    mr_field fields[TABLE_COLUMNS];
    int32_t n_columns;
    atomic_int filled; /* values that were made */
} table_rig;

typedef struct table_params {
    table_rig *rig; /* the table's user */
} table_params;

static inline mr_status table_describe(const void *p, mr_field *fields, int32_t capacity,
                                       int32_t *n, mr_error *err) {
    const table_rig *rig = ((const table_params *)p)->rig;
    (void)err;
    return mr_describe_fields(rig->fields, rig->n_columns, fields, capacity, n);
}

static inline mr_status table_open(const void *p, const mr_wanted *wanted, void **state,
                                   mr_error *err) {
    (void)wanted;
    (void)err;
    *state = ((const table_params *)p)->rig;
    return MR_OK;
}

static inline void table_close(void *state) {
    (void)state;
}

static inline void table_shape(const void *state, mr_shape *out) {
    (void)state;
    out->samples = TABLE_SAMPLES;
    out->fingerprint[0] = out->fingerprint[1] = 1;
}

static inline void table_sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    (void)state;
    snprintf(buffer, size, "row %d", (int)sample);
}

static inline bool table_identify(const void *state, int64_t sample, uint64_t out[2]) {
    (void)state;
    out[0] = 5;
    out[1] = (uint64_t)sample;
    return true;
}

static inline float table_value(int64_t sample, int32_t column) {
    return (float)(sample * 10000 + column);
}

static inline mr_status table_fill(const void *state, const mr_block *block, int64_t sample,
                                   mr_view *fields, mr_error *err) {
    table_rig *rig = (table_rig *)(uintptr_t)state;
    (void)block;
    (void)err;
    for (int32_t c = 0; c < rig->n_columns; c++) {
        if (mr_is_wanted(&fields[c])) {
            float value = table_value(sample, c);
            memcpy(fields[c].data, &value, sizeof value);
            atomic_fetch_add(&rig->filled, 1);
        }
    }
    return MR_OK;
}

static inline mr_source_class table_source(table_rig *rig) {
    return (mr_source_class){MR_SOURCE_HEADER,
                             .name = "table",
                             .summary = "",
                             .param_size = sizeof(table_params),
                             .describe = table_describe,
                             .open = table_open,
                             .close = table_close,
                             .shape = table_shape,
                             .sample_name = table_sample_name,
                             .fill = table_fill,
                             .identify = table_identify,
                             .user = rig};
}

static inline table_rig *table_new(int32_t n_columns) {
    table_rig *rig = calloc(1, sizeof *rig);
    rig->n_columns = n_columns;
    for (int32_t c = 0; c < n_columns; c++) {
        snprintf(rig->names[c], sizeof rig->names[c], "c%d", c);
        rig->fields[c] = (mr_field){.name = rig->names[c], .type = {.dtype = MR_F32}};
    }
    return rig;
}

static inline mr_status table_parse(mr_pipeline **out, const mr_source_class *source,
                                    const char *json, mr_error *err) {
    const mr_source_class *const sources[] = {source, NULL};
    const mr_tables tables = {.size = sizeof tables, .sources = sources};
    return mr_pipeline_parse_with(out, json, strlen(json), &tables, err);
}

#endif
