/* SPDX-License-Identifier: Apache-2.0 */
/* entry_fields.c - see entry_fields.h. */
#include "sources/entry_fields.h"

#include <string.h>

#include "core/error.h"

enum { VALUE, LABEL, KEY, TIME, INDEX, IS_REPLAY, WEIGHT, EXTRA, N_FIELDS };

mr_status mr_entry_describe(const void *params, mr_field *fields, int32_t capacity,
                            int32_t *n_fields, mr_error *err) {
    const mr_type bytes = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}}, number = {.dtype = MR_I64};
    const mr_type floats = {.dtype = MR_F32, .n_dims = 1, .dims = {-1}};
    const mr_field all[N_FIELDS] = {[VALUE] = {"value", bytes, false},
                                    [LABEL] = {"label", number, false},
                                    [KEY] = {"key", bytes, true},
                                    [TIME] = {"time", number, true},
                                    [INDEX] = {"index", number, true},
                                    [IS_REPLAY] = {"is_replay", {.dtype = MR_U8}, true},
                                    [WEIGHT] = {"weight", {.dtype = MR_F32}, true},
                                    [EXTRA] = {"extra", floats, true}};
    (void)params;
    (void)err;
    return mr_describe_fields(all, N_FIELDS, fields, capacity, n_fields);
}

static void fill_bytes(mr_view *view, const void *data, size_t size) {
    if (mr_is_wanted(view)) {
        view->data = (void *)(uintptr_t)data;
        view->size = size;
        view->type.dims[0] = (int64_t)size;
    }
}

static void fill_extra(mr_view *view, const mr_arrival *arrival) {
    static const float none = 0;
    if (mr_is_wanted(view)) {
        view->data = (void *)(uintptr_t)(arrival->n_extra > 0 ? arrival->extra : &none);
        view->size = (size_t)arrival->n_extra * sizeof(float);
        view->type.dims[0] = arrival->n_extra;
    }
}

static void fill_fixed(mr_view *view, const void *value, size_t size) {
    if (mr_is_wanted(view)) {
        memcpy(view->data, value, size);
    }
}

mr_status mr_entry_fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                        mr_error *err) {
    const mr_arrival *arrival = (const mr_arrival *)block->parts[0] + (sample - block->first);
    const mr_entry *entry = &arrival->entry;
    const uint8_t is_replay = arrival->is_replay;
    (void)state;
    if (!entry->value) {
        mr_fail(err, MR_E_CORRUPT, "the entry is damaged");
        mr_hint(err, "\"on_error\": \"skip\" goes on without what is damaged");
        return MR_E_CORRUPT;
    }
    fill_bytes(&fields[VALUE], entry->value, entry->size);
    fill_fixed(&fields[LABEL], &entry->label, sizeof entry->label);
    fill_bytes(&fields[KEY], entry->key, entry->key_size);
    fill_fixed(&fields[TIME], &entry->time, sizeof entry->time);
    fill_fixed(&fields[INDEX], &sample, sizeof sample);
    fill_fixed(&fields[IS_REPLAY], &is_replay, sizeof is_replay);
    fill_fixed(&fields[WEIGHT], &arrival->weight, sizeof arrival->weight);
    fill_extra(&fields[EXTRA], arrival);
    return MR_OK;
}
