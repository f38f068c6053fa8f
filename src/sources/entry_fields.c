/* SPDX-License-Identifier: Apache-2.0 */
/* entry_fields.c - see entry_fields.h. */
#include "sources/entry_fields.h"

#include <millrace/millrace.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"

/* Those that come after what the entry itself is. */
enum { LABEL, KEY, TIME, INDEX, IS_REPLAY, WEIGHT, EXTRA, N_COMMON };
_Static_assert((int)N_COMMON == (int)MR_ENTRY_COMMON, "entry_fields.h says how many there are");

/* ---- What entries are ---- */
mr_status mr_entry_format_check(mr_entry_format *format, mr_error *err) {
    return format->schema.n > 0 ? mr_json_schema_read(&format->json, &format->schema, err) : MR_OK;
}

void mr_entry_format_free(mr_entry_format *format) {
    mr_json_schema_free(format->json);
    format->json = NULL;
}

uint64_t mr_entry_format_hash(const mr_entry_format *format) {
    uint64_t hash = 0;
    for (int32_t i = 0; i < format->schema.n; i++) {
        hash = mr_hash64(format->schema.v[i], strlen(format->schema.v[i]) + 1, hash + 1);
    }
    return hash;
}

mr_entry_sink mr_entry_through(const mr_entry_format *format, mr_json_packer *packer,
                               const mr_entry_sink *to) {
    packer->schema = format->json;
    packer->to = to;
    return format->json ? (mr_entry_sink){mr_json_pack, packer} : *to;
}

static int32_t own_fields(const mr_entry_format *format) {
    return format->json ? format->json->n_fields : 1;
}

static void describe_own(const mr_entry_format *format, mr_field *fields) {
    const mr_type bytes = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    int32_t n = 0;
    if (!format->json) {
        fields[0] = (mr_field){"value", bytes, false};
        return;
    }
    for (int32_t i = 0; i < format->json->n; i++) {
        const mr_json_member *m = &format->json->members[i];
        if (!m->is_label) {
            fields[n++] = (mr_field){m->name, m->type, false};
        }
    }
}

mr_status mr_entry_describe(const mr_entry_format *format, mr_field *fields, int32_t capacity,
                            int32_t *n_fields) {
    const mr_type bytes = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}}, number = {.dtype = MR_I64};
    const mr_type floats = {.dtype = MR_F32, .n_dims = 1, .dims = {-1}};
    const mr_field common[N_COMMON] = {[LABEL] = {"label", number, false},
                                       [KEY] = {"key", bytes, true},
                                       [TIME] = {"time", number, true},
                                       [INDEX] = {"index", number, true},
                                       [IS_REPLAY] = {"is_replay", {.dtype = MR_U8}, true},
                                       [WEIGHT] = {"weight", {.dtype = MR_F32}, true},
                                       [EXTRA] = {"extra", floats, true}};
    int32_t own = own_fields(format);
    *n_fields = own + N_COMMON;
    if (*n_fields <= capacity) {
        describe_own(format, fields);
        memcpy(fields + own, common, sizeof common);
    }
    return MR_OK;
}

/* ---- Filling ---- */
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

/* A fixed field arrives with its memory. Values may come from a store: they are checked again. */
static bool fill_member(mr_view *view, const void *data, size_t size) {
    size_t each = mr_dtype_size(view->type.dtype);
    if (!mr_is_wanted(view)) {
        return true;
    }
    if (view->data) {
        memcpy(view->data, data, size < view->size ? size : view->size);
        return size == view->size;
    }
    view->data = (void *)(uintptr_t)data;
    view->size = size;
    view->type.dims[0] = (int64_t)(size / each);
    return size % each == 0;
}

static mr_status fill_own(const mr_entry_format *format, const mr_entry *entry, mr_view *fields,
                          mr_error *err) {
    const void *data;
    size_t size;
    if (!format->json) {
        fill_bytes(&fields[0], entry->value, entry->size);
        return MR_OK;
    }
    for (int32_t i = 0; i < format->json->n_fields; i++) {
        if (!mr_is_wanted(&fields[i])) {
            continue;
        }
        if (!mr_json_packed(entry, i, &data, &size) || !fill_member(&fields[i], data, size)) {
            return mr_fail(err, MR_E_INTERNAL, "the entry was packed by another schema");
        }
    }
    return MR_OK;
}

static mr_status fail_bad(const mr_entry *entry, mr_error *err) {
    if (entry->key_size > 0) {
        mr_fail(err, MR_E_CORRUPT, "%.*s", (int)entry->key_size, (const char *)entry->key);
    } else {
        mr_fail(err, MR_E_CORRUPT, "the entry is damaged");
    }
    mr_hint(err, "\"on_error\": \"skip\" goes on without what is damaged");
    return MR_E_CORRUPT;
}

mr_status mr_entry_fill(const mr_entry_format *format, const mr_block *block, int64_t sample,
                        mr_view *fields, mr_error *err) {
    const mr_arrival *arrival = (const mr_arrival *)block->parts[0] + (sample - block->first);
    const mr_entry *entry = &arrival->entry;
    const uint8_t is_replay = arrival->is_replay;
    if (!entry->value) {
        return fail_bad(entry, err);
    }
    MR_TRY(fill_own(format, entry, fields, err));
    fields += own_fields(format);
    fill_fixed(&fields[LABEL], &entry->label, sizeof entry->label);
    fill_bytes(&fields[KEY], entry->key, entry->key_size);
    fill_fixed(&fields[TIME], &entry->time, sizeof entry->time);
    fill_fixed(&fields[INDEX], &sample, sizeof sample);
    fill_fixed(&fields[IS_REPLAY], &is_replay, sizeof is_replay);
    fill_fixed(&fields[WEIGHT], &arrival->weight, sizeof arrival->weight);
    fill_extra(&fields[EXTRA], arrival);
    return MR_OK;
}
