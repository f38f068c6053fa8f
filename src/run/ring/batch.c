/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - putting samples into a batch and sealing it: see batch.h. */
#include "run/ring/batch.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "run/ring/batch_parts.h"

void mr_batch_place(mr_batch *batch, int64_t epoch, int64_t step, int64_t valid) {
    batch->epoch = epoch;
    batch->step = step;
    batch->valid = valid;
}

int64_t *mr_batch_samples_mutable(mr_batch *batch) {
    return batch->samples;
}

bool mr_batch_is_ragged(const mr_batch *batch, int32_t field) {
    return mr_pool_is_ragged(batch->pool, field);
}

void *mr_batch_slot(mr_batch *batch, int32_t field, int64_t i) {
    const mr_pool *pool = batch->pool;
    return batch->block + pool->fields[field].offset + pool->fields[field].sample_bytes * (size_t)i;
}

bool mr_batch_has(mr_batch *batch, int32_t field, int64_t i, const void *data) {
    if (!mr_pool_is_ragged(batch->pool, field)) {
        return mr_batch_slot(batch, field, i) == data;
    }
    const mr_batch_value *own = &batch->parts[field].pieces[i];
    return own->data && own->data == data && !own->lent;
}

static void forget_piece(mr_batch_value *p) {
    if (!p->lent) {
        mr_free(p->data);
    }
    *p = (mr_batch_value){0};
}

void *mr_batch_piece(mr_batch *batch, int32_t field, int64_t i, const mr_type *type) {
    mr_batch_value *p = &batch->parts[field].pieces[i];
    int64_t bytes = mr_type_bytes(type);
    if (bytes < 0) {
        return NULL;
    }
    forget_piece(p);
    p->data = malloc(bytes > 0 ? (size_t)bytes : 1); /* all of it is written: no zeros first */
    p->size = (size_t)bytes;
    p->type = *type;
    if (p->data && batch->pool->poison) {
        memset(p->data, 0xA5, p->size);
    }
    return p->data;
}

void mr_batch_lend(mr_batch *batch, int32_t field, int64_t i, const mr_view *value) {
    mr_batch_value *p = &batch->parts[field].pieces[i];
    forget_piece(p);
    *p = (mr_batch_value){value->data, value->size, value->type, true};
}

void mr_batch_clear_sample(mr_batch *batch, int64_t i) {
    for (int32_t f = 0; f < batch->pool->n_fields; f++) {
        if (batch->parts[f].pieces) {
            forget_piece(&batch->parts[f].pieces[i]);
        }
    }
}

/* ---- Digests ---- */
static uint64_t hash_piece(const mr_batch_value *p, uint64_t seed) {
    uint64_t hash = mr_hash64(p->type.dims, (size_t)p->type.n_dims * sizeof *p->type.dims, seed);
    return mr_hash64(p->data, p->size, hash);
}

static uint64_t sample_digest(mr_batch *batch, int64_t i) {
    const mr_pool *pool = batch->pool;
    uint64_t hash = 0;
    for (int32_t f = 0; f < pool->n_fields; f++) {
        hash = mr_pool_is_ragged(pool, f)
                   ? hash_piece(&batch->parts[f].pieces[i], hash)
                   : mr_hash64(mr_batch_slot(batch, f, i), pool->fields[f].sample_bytes, hash);
    }
    return hash;
}

void mr_batch_sample_done(mr_batch *batch, int64_t i) {
    bool now = batch->pool->digest && !batch->pool->late;
    batch->sample_digests[i] = now ? sample_digest(batch, i) : 0;
}

void mr_batch_rows_done(mr_batch *batch, int64_t first, int64_t n) {
    if (!batch->pool->digest || batch->pool->late) {
        memset(batch->sample_digests + first, 0, (size_t)n * sizeof *batch->sample_digests);
        return;
    }
    for (int64_t i = first; i < first + n; i++) {
        mr_batch_sample_done(batch, i);
    }
}

/* Over the fields' types and the samples' digests, which cover shapes and bytes. */
static mr_status make_digest(mr_batch *batch, mr_error *err) {
    const mr_pool *pool = batch->pool;
    mr_hasher *hasher = mr_hasher_new();
    if (!hasher) {
        return mr_fail_memory(err, 576);
    }
    for (int32_t f = 0; f < pool->n_fields; f++) {
        char type[128];
        mr_hasher_text(hasher, pool->fields[f].name);
        mr_hasher_text(hasher, mr_type_text(&pool->fields[f].type, type, sizeof type));
    }
    mr_hasher_number(hasher, batch->count);
    for (int64_t i = 0; i < batch->count; i++) {
        mr_hasher_number(hasher, (int64_t)batch->sample_digests[i]);
    }
    batch->digest = mr_hasher_value(hasher);
    mr_hash_hex(batch->digest, batch->digest_hex);
    mr_hasher_free(hasher);
    return MR_OK;
}

/* ---- Sealing ---- */
static void join_piece(mr_batch *batch, int32_t field, int64_t i) {
    const mr_type *type = &batch->pool->fields[field].type;
    mr_batch_value *p = &batch->parts[field].pieces[i];
    size_t element = mr_dtype_size(type->dtype);
    int64_t at = batch->parts[field].offsets[i];
    if (p->size > 0) {
        memcpy((char *)batch->arrays[field].data + (size_t)at * element, p->data, p->size);
    }
    batch->parts[field].offsets[i + 1] = at + (int64_t)(p->size / element);
    memcpy(batch->parts[field].shapes + i * type->n_dims, p->type.dims,
           (size_t)type->n_dims * sizeof(int64_t));
    forget_piece(p);
}

static mr_status join_ragged(mr_batch *batch, int32_t field, mr_error *err) {
    size_t bytes = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        bytes += batch->parts[field].pieces[i].size;
    }
    MR_TRY(mr_batch_reserve(batch, field, bytes, err));
    for (int64_t i = 0; i < batch->count; i++) {
        join_piece(batch, field, i);
    }
    mr_array *array = &batch->arrays[field];
    array->size = bytes;
    array->dims[0] = (int64_t)(bytes / mr_dtype_size(array->dtype));
    return MR_OK;
}

/* Their arrays are made: see mr_batch_collate. */
static void forget_values(mr_batch *batch, int32_t field) {
    for (int64_t i = 0; i < batch->count; i++) {
        forget_piece(&batch->parts[field].pieces[i]);
    }
}

mr_status mr_batch_seal(mr_batch *batch, mr_error *err) {
    bool late = batch->pool->digest && batch->pool->late;
    for (int64_t i = 0; late && i < batch->count; i++) {
        batch->sample_digests[i] = sample_digest(batch, i);
    }
    for (int32_t f = 0; f < batch->pool->n_fields; f++) {
        if (batch->pool->fields[f].collated) {
            forget_values(batch, f);
        } else if (mr_pool_is_ragged(batch->pool, f)) {
            MR_TRY(join_ragged(batch, f, err));
        }
    }
    return batch->pool->digest ? make_digest(batch, err) : MR_OK;
}

/* ---- Public ---- */

int64_t mr_batch_size(const mr_batch *batch) {
    return batch->count;
}

int64_t mr_batch_valid(const mr_batch *batch) {
    return batch->valid;
}

int64_t mr_batch_epoch(const mr_batch *batch) {
    return batch->epoch;
}

int64_t mr_batch_step(const mr_batch *batch) {
    return batch->step;
}

const int64_t *mr_batch_samples(const mr_batch *batch) {
    return batch->samples;
}

int32_t mr_batch_n_arrays(const mr_batch *batch) {
    return batch->pool->n_arrays;
}

const mr_array *mr_batch_array(const mr_batch *batch, int32_t i) {
    return i >= 0 && i < batch->pool->n_arrays ? &batch->arrays[i] : NULL;
}

const mr_array *mr_batch_find(const mr_batch *batch, const char *name) {
    for (int32_t i = 0; i < batch->pool->n_arrays; i++) {
        if (strcmp(batch->arrays[i].name, name) == 0) {
            return &batch->arrays[i];
        }
    }
    return NULL;
}

const char *mr_batch_digest(const mr_batch *batch) {
    return batch->digest_hex;
}

uint64_t mr_batch_sample_digest(const mr_batch *batch, int64_t i) {
    return i >= 0 && i < batch->count ? batch->sample_digests[i] : 0;
}

void mr_batch_digest_words(const mr_batch *batch, uint64_t out[2]) {
    out[0] = batch->digest.low;
    out[1] = batch->digest.high;
}
