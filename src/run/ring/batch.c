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
    return (unsigned char *)batch->arrays[field].data +
           batch->pool->fields[field].sample_bytes * (size_t)i;
}

void mr_batch_borrow(mr_batch *batch, int32_t field, const mr_loan *loan) {
    batch->loans[field] = *loan;
    batch->arrays[field].data = loan->data;
    batch->n_loans++;
}

void mr_batch_return(mr_batch *batch) {
    for (int32_t f = 0; batch->n_loans > 0 && f < batch->pool->n_fields; f++) {
        mr_loan *loan = &batch->loans[f];
        if (loan->owner) {
            batch->arrays[f].data = batch->block + batch->pool->fields[f].offset;
            loan->give_back(loan->owner);
            *loan = (mr_loan){0};
            batch->n_loans--;
        }
    }
}

bool mr_batch_has(mr_batch *batch, int32_t field, int64_t i, const void *data) {
    if (!mr_pool_is_ragged(batch->pool, field)) {
        return mr_batch_slot(batch, field, i) == data;
    }
    const mr_batch_value *own = &batch->parts[field].pieces[i];
    return own->data && own->data == data && !own->lent;
}

/* ---- Pieces ---- */
/* What others were told of its size stands until the batch is done. */
static void forget_piece(mr_batch_value *p) {
    if (!p->lent && !p->inside) {
        mr_free(p->data);
    }
    p->data = NULL;
    p->size = 0;
    p->lent = p->inside = false;
}

/* The places of the samples from `next` on, as far as sizes are known. */
static void give_places(const mr_batch *batch, mr_ragged_part *part) {
    while (part->next < batch->count && part->pieces[part->next].sized) {
        part->end += part->pieces[part->next++].room;
    }
}

/* Where a value goes for good; NULL: that is not known, or it does not fit. */
static void *take_place(const mr_batch *batch, mr_ragged_part *part, int64_t i) {
    mr_batch_value *p = &part->pieces[i];
    void *place = NULL;
    pthread_mutex_lock(&part->lock);
    bool first = !p->sized; /* a sample that is made again may have another size */
    if (first) {
        p->sized = true;
        p->room = p->size;
    }
    if (first && i == part->next) {
        bool fits = part->end <= part->room_bytes && p->size <= part->room_bytes - part->end;
        place = fits && p->size > 0 ? part->room + part->end : NULL;
        give_places(batch, part);
    }
    pthread_mutex_unlock(&part->lock);
    return place;
}

void *mr_batch_piece(mr_batch *batch, int32_t field, int64_t i, const mr_type *type) {
    mr_ragged_part *part = &batch->parts[field];
    mr_batch_value *p = &part->pieces[i];
    int64_t bytes = mr_type_bytes(type);
    if (bytes < 0) {
        return NULL;
    }
    forget_piece(p);
    p->size = (size_t)bytes;
    p->type = *type;
    p->data = take_place(batch, part, i);
    p->inside = p->data != NULL;
    if (!p->data) {
        p->data = malloc(bytes > 0 ? (size_t)bytes : 1); /* all of it is written: no zeros first */
    }
    if (p->data && batch->pool->poison) {
        memset(p->data, 0xA5, p->size);
    }
    return p->data;
}

void mr_batch_lend(mr_batch *batch, int32_t field, int64_t i, const mr_view *value) {
    mr_batch_value *p = &batch->parts[field].pieces[i];
    forget_piece(p);
    p->data = value->data;
    p->size = value->size;
    p->type = value->type;
    p->lent = true;
}

void mr_batch_forget(mr_batch *batch, int32_t field) {
    for (int64_t i = 0; i < batch->count; i++) {
        mr_batch_value *p = &batch->parts[field].pieces[i];
        forget_piece(p);
        p->sized = false;
    }
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
/* The value may lie where it belongs. */
static void join_piece(mr_batch *batch, int32_t field, int64_t i) {
    const mr_type *type = &batch->pool->fields[field].type;
    mr_batch_value *p = &batch->parts[field].pieces[i];
    size_t element = mr_dtype_size(type->dtype);
    int64_t at = batch->parts[field].offsets[i];
    char *place = (char *)batch->arrays[field].data + (size_t)at * element;
    if (p->size > 0 && p->data != place) {
        memcpy(place, p->data, p->size);
    }
    batch->parts[field].offsets[i + 1] = at + (int64_t)(p->size / element);
    memcpy(batch->parts[field].shapes + i * type->n_dims, p->type.dims,
           (size_t)type->n_dims * sizeof(int64_t));
}

/* Whether the pieces that lie in the room lie where they belong: not where a sample was made again
 * with another size. */
static bool places_hold(const mr_batch *batch, const mr_ragged_part *part) {
    size_t at = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        const mr_batch_value *p = &part->pieces[i];
        if (p->inside && (unsigned char *)p->data != part->room + at) {
            return false;
        }
        at += p->size;
    }
    return at <= part->room_bytes;
}

static size_t count_bytes(mr_batch *batch, int32_t field) {
    _Atomic size_t *most = &batch->pool->fields[field].most;
    size_t bytes = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        bytes += batch->parts[field].pieces[i].size;
    }
    size_t before = atomic_load(most);
    while (bytes > before && !atomic_compare_exchange_weak(most, &before, bytes)) {
    }
    return bytes;
}

/* With the room that was kept until now, or, where it does not serve, in new memory. */
static mr_status join_ragged(mr_batch *batch, int32_t field, mr_error *err) {
    mr_ragged_part *part = &batch->parts[field];
    mr_array *array = &batch->arrays[field];
    size_t bytes = count_bytes(batch, field), was = part->values_bytes;
    void *old = NULL;
    if (!array->data || !places_hold(batch, part)) {
        old = array->data;
        array->data = NULL;
        part->values_bytes = 0;
        mr_status status = mr_batch_reserve(batch, field, bytes, err);
        if (status < 0) {
            array->data = old; /* pieces lie in it */
            part->values_bytes = was;
            return status;
        }
    }
    for (int64_t i = 0; i < batch->count; i++) {
        join_piece(batch, field, i);
    }
    mr_batch_forget(batch, field);
    mr_batch_release(batch, old, was);
    array->size = bytes;
    array->dims[0] = (int64_t)(bytes / mr_dtype_size(array->dtype));
    return MR_OK;
}

mr_status mr_batch_seal(mr_batch *batch, mr_error *err) {
    bool late = batch->pool->digest && batch->pool->late;
    for (int64_t i = 0; late && i < batch->count; i++) {
        batch->sample_digests[i] = sample_digest(batch, i);
    }
    for (int32_t f = 0; f < batch->pool->n_fields; f++) {
        if (batch->pool->fields[f].collated) { /* see mr_batch_collate */
            (void)count_bytes(batch, f);
            mr_batch_forget(batch, f);
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
