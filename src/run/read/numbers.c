/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - see numbers.h. */
#include "run/read/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "run/cache/keep.h"
#include "store/place.h"

typedef struct listing {
    const mr_dataset *dataset; /* or one of its own, where blocks are read */
    const mr_pipeline *pipeline;
    int32_t field;
    mr_number_kind kind;
    const mr_log *log;
    mr_view *views;
    unsigned char memory[64];
    double *out;
    bool left_out; /* some sample */
} listing;

/* ---- One sample ---- */
static double number_in(const mr_view *view) {
    switch (view->type.dtype) {
    case MR_I64:
        return (double)*(const int64_t *)view->data;
    case MR_I32:
        return *(const int32_t *)view->data;
    case MR_I16:
        return *(const int16_t *)view->data;
    case MR_I8:
        return *(const int8_t *)view->data;
    case MR_U64:
        return (double)*(const uint64_t *)view->data;
    case MR_U32:
        return *(const uint32_t *)view->data;
    case MR_U16:
        return *(const uint16_t *)view->data;
    case MR_F32:
        return (double)*(const float *)view->data;
    case MR_F64:
        return *(const double *)view->data;
    default:
        return *(const uint8_t *)view->data;
    }
}

/* Samples that cannot be read count 0 where the run skips them, and end it here otherwise. */
static mr_status leave_out(listing *l, int64_t first, int64_t end, mr_status status,
                           mr_error *err) {
    if (l->pipeline->settings.on_error != MR_ON_ERROR_SKIP || !mr_is_samples_fault(err)) {
        char name[512];
        mr_dataset_name(l->dataset, first, name, sizeof name);
        mr_error_at_sample(err, first, name);
        return status;
    }
    for (int64_t i = first; i < end; i++) {
        l->out[i] = 0;
    }
    l->left_out = true;
    mr_error_clear(err);
    return MR_OK;
}

static mr_status look_at(listing *l, const mr_block *block, int64_t sample, mr_error *err) {
    const mr_pipeline *p = l->pipeline;
    for (int32_t f = 0; f < p->n_source_fields; f++) {
        l->views[f] = (mr_view){.type = p->variables[f].type, .size = MR_UNWANTED};
    }
    mr_view *view = &l->views[l->field];
    bool is_number = l->kind == MR_NUMBER_VALUE;
    view->data = is_number ? l->memory : NULL;
    view->size = is_number ? mr_dtype_size(view->type.dtype) : 0;
    mr_status status = mr_dataset_fill(l->dataset, block, sample, l->views, err);
    if (status < 0) {
        return leave_out(l, sample, sample + 1, status, err);
    }
    if (is_number && view->data != l->memory) {
        memcpy(l->memory, view->data, view->size); /* it need not be aligned */
        view->data = l->memory;
    }
    l->out[sample] = is_number ? number_in(view) : (double)view->type.dims[0];
    return MR_OK;
}

/* ---- Without reading ---- */
static mr_status say_all(listing *l, double number) {
    for (int64_t i = 0; i < l->dataset->shape.samples; i++) {
        l->out[i] = number;
    }
    return MR_OK;
}

/* MR_E_UNSUPPORTED: it cannot tell. */
static mr_status ask_source(listing *l, mr_error *err) {
    enum { CHUNK = 1024 };
    int64_t lengths[CHUNK], samples = l->dataset->shape.samples;
    if (l->kind != MR_NUMBER_LENGTH) {
        return MR_E_UNSUPPORTED;
    }
    for (int64_t first = 0; first < samples; first += CHUNK) {
        int64_t n = samples - first < CHUNK ? samples - first : CHUNK;
        MR_TRY(mr_dataset_lengths(l->dataset, l->field, first, n, lengths, err));
        for (int64_t i = 0; i < n; i++) {
            l->out[first + i] = (double)lengths[i];
        }
    }
    return MR_OK;
}

static mr_status look_at_all(listing *l, mr_error *err) {
    for (int64_t i = 0; i < l->dataset->shape.samples; i++) {
        MR_TRY(look_at(l, NULL, i, err));
    }
    return MR_OK;
}

/* ---- Reading ---- */
static mr_status scan_block(listing *l, int64_t block, mr_error *err) {
    mr_own_block own;
    int64_t first = mr_dataset_first_of(l->dataset, block);
    int64_t end = mr_dataset_end_of(l->dataset, block);
    if (first == end) {
        return MR_OK;
    }
    mr_status status = mr_dataset_fetch(l->dataset, block, &own, err);
    if (status < 0) {
        return leave_out(l, first, end, status, err);
    }
    for (int64_t i = first; status == MR_OK && i < end; i++) {
        status = look_at(l, &own.block, i, err);
    }
    mr_dataset_release(l->dataset, &own);
    return status;
}

static void say(const listing *l) {
    char text[320];
    if (l->log->write) {
        snprintf(text, sizeof text,
                 "reading %s of all %lld samples once, to know %s; a cache in the document would "
                 "keep them",
                 l->pipeline->variables[l->field].name, (long long)l->dataset->shape.samples,
                 l->kind == MR_NUMBER_VALUE ? "its values" : "how long they are");
        l->log->write(l->log->user, text);
    }
}

static mr_status scan_all(listing *l, mr_error *err) {
    int64_t n =
        mr_dataset_has_blocks(l->dataset) ? l->dataset->shape.blocks : l->dataset->shape.samples;
    for (int64_t b = 0; b < n; b++) {
        MR_TRY(scan_block(l, b, err));
    }
    return MR_OK;
}

/* The source once more, for this field alone: what nobody asks for is not read. Shards are mapped
 * where they can be, so that of large samples only the heads are looked at; where samples would be
 * read one by one, as on a server, whole blocks are. */
static mr_status open_own(const listing *l, const bool *wanted, mr_dataset *own, mr_error *err) {
    const mr_dataset_terms *terms = &l->dataset->terms;
    MR_TRY(mr_dataset_open_for(own, l->pipeline, wanted, true, terms, l->log, err));
    if (mr_dataset_is_read(own) && !mr_dataset_has_blocks(own) && mr_dataset_may_have_blocks(own)) {
        mr_dataset_close(own);
        MR_TRY(mr_dataset_open_for(own, l->pipeline, wanted, false, terms, l->log, err));
    }
    return own->shape.samples == l->dataset->shape.samples
               ? MR_OK
               : mr_fail(err, MR_E_CORRUPT, "the dataset changed while it was opened");
}

static mr_status scan(listing *l, mr_error *err) {
    const mr_dataset *given = l->dataset;
    mr_dataset own = {.class = NULL};
    bool *wanted = mr_zalloc((size_t)l->pipeline->n_source_fields, sizeof *wanted);
    if (!wanted) {
        return mr_fail_memory(err, (size_t)l->pipeline->n_source_fields);
    }
    wanted[l->field] = true;
    mr_status status = open_own(l, wanted, &own, err);
    if (status == MR_OK) {
        l->dataset = &own;
        status = mr_dataset_is_read(&own) ? scan_all(l, err) : look_at_all(l, err);
        l->dataset = given;
    }
    mr_dataset_close(&own);
    mr_free(wanted);
    return status;
}

/* ---- Kept ---- */
/* The folder of the document's first cache on a disk; NULL: it has none. */
static const char *store_of(const mr_pipeline *p) {
    for (int32_t i = 0; i < p->n_ops; i++) {
        const mr_store_params *params = p->ops[i].params;
        if (mr_op_is_cache(&p->ops[i]) && params->tier == MR_TIER_DISK) {
            return params->path[0] ? params->path : "auto";
        }
    }
    return NULL;
}

/* What the numbers were made of: every file is named by the first sample of one of its blocks. */
static bool key_of(const listing *l, uint64_t key[2]) {
    const mr_dataset *d = l->dataset;
    int64_t n = mr_dataset_has_blocks(d) ? d->shape.blocks : d->shape.samples;
    mr_hasher *hasher = mr_hasher_new();
    bool known = hasher != NULL;
    for (int64_t b = 0; known && b < n; b++) {
        uint64_t words[2] = {0};
        int64_t first = mr_dataset_first_of(d, b);
        known = first == mr_dataset_end_of(d, b) || mr_dataset_identify(d, first, words);
        mr_hasher_bytes(hasher, words, sizeof words);
    }
    if (known) {
        mr_hasher_text(hasher, d->fingerprint);
        mr_hasher_text(hasher, l->pipeline->variables[l->field].name);
        mr_hasher_number(hasher, l->kind);
        mr_hasher_number(hasher, d->class->version);
        mr_hash128 hash = mr_hasher_value(hasher);
        key[0] = hash.low;
        key[1] = hash.high;
    }
    mr_hasher_free(hasher);
    return known;
}

static bool find_kept(const listing *l, const mr_keeper *keeper, const char *store,
                      const uint64_t key[2]) {
    size_t size = 0, wanted = (size_t)l->dataset->shape.samples * sizeof *l->out;
    void *value = NULL;
    bool found = keeper->find(keeper->user, store, key, &value, &size) && size == wanted;
    if (found) {
        memcpy(l->out, value, size);
    }
    free(value);
    return found;
}

static mr_status scan_or_find(listing *l, mr_error *err) {
    uint64_t key[2];
    const char *store = store_of(l->pipeline);
    bool keeps = store && key_of(l, key);
    mr_keep *keep = keeps ? mr_keep_new("numbers", l->log) : NULL;
    const mr_keeper *keeper = mr_keep_keeper(keep);
    mr_status status = MR_OK;
    if (!keeper || !find_kept(l, keeper, store, key)) {
        if (!keeper) {
            say(l);
        }
        status = scan(l, err);
        if (status == MR_OK && keeper && !l->left_out) {
            size_t size = (size_t)l->dataset->shape.samples * sizeof *l->out;
            keeper->put(keeper->user, store, key, l->out, size);
        }
    }
    mr_keep_free(keep);
    return status;
}

/* ---- All ---- */
/* Fields behind the first need no bytes where a sample is a file of its own. */
static bool needs_reading(const listing *l) {
    return mr_dataset_is_read(l->dataset) &&
           (l->field == 0 || !mr_source_fills_rest(l->dataset->class));
}

mr_status mr_numbers_list(const mr_dataset *dataset, const mr_pipeline *pipeline, int32_t field,
                          mr_number_kind kind, const mr_log *log, double *out, mr_error *err) {
    listing l = {.dataset = dataset,
                 .pipeline = pipeline,
                 .field = field,
                 .kind = kind,
                 .log = log,
                 .out = out};
    mr_error own;
    mr_error_clear(&own);
    err = err ? err : &own; /* what may be left out is told by the error */
    const mr_type *type = &pipeline->variables[field].type;
    if (kind == MR_NUMBER_LENGTH && type->dims[0] >= 0) {
        return say_all(&l, (double)type->dims[0]);
    }
    mr_status asked = ask_source(&l, err);
    if (asked != MR_E_UNSUPPORTED) {
        return asked;
    }
    l.views = mr_zalloc((size_t)pipeline->n_source_fields, sizeof *l.views);
    if (!l.views) {
        return mr_fail_memory(err, (size_t)pipeline->n_source_fields * sizeof *l.views);
    }
    mr_status status = needs_reading(&l) ? scan_or_find(&l, err) : look_at_all(&l, err);
    mr_free(l.views);
    return status;
}
