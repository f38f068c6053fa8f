/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - where batches come from and go back to: see batch.h. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/ring/batch_parts.h"

static mr_status lay_out(mr_pool *pool, mr_error *err) {
    size_t total = 0;
    for (int32_t i = 0; i < pool->n_fields; i++) { /* other arrays have no place beforehand */
        int64_t bytes = mr_type_bytes(&pool->fields[i].type), all;
        if (bytes == -2 || (bytes >= 0 && __builtin_mul_overflow(bytes, pool->capacity, &all))) {
            return mr_fail(err, MR_E_LIMIT, "a batch of field %s does not fit into memory",
                           pool->fields[i].name);
        }
        pool->fields[i].offset = total;
        pool->fields[i].ragged = bytes < 0;
        pool->any_ragged = pool->any_ragged || bytes < 0;
        pool->fields[i].sample_bytes = bytes >= 0 ? (size_t)bytes : 0;
        size_t field_bytes = pool->fields[i].sample_bytes * (size_t)pool->capacity;
        if (field_bytes > (size_t)1 << 46) {
            return mr_fail(err, MR_E_LIMIT, "a batch of field %s would take %zu bytes",
                           pool->fields[i].name, field_bytes);
        }
        field_bytes = bytes == 0 ? 1 : field_bytes; /* an empty field has a place too */
        total += (field_bytes + MR_ALIGN - 1) & ~(size_t)(MR_ALIGN - 1);
    }
    pool->block_bytes = total;
    return MR_OK;
}

static void note_collation(mr_pool *pool, const mr_collation *how) {
    pool->fields[how->field].collated = true;
    for (int32_t k = 1; k < how->n; k++) {
        mr_pool_field *array = &pool->fields[how->first_array + k - 1];
        array->name = how->names[k];
        array->type.dtype = how->arrays[k].dtype;
        array->collated = true;
    }
}

static mr_status copy_fields(mr_pool *pool, const mr_pipeline *pipeline, mr_error *err) {
    int32_t n = 0;
    const mr_collation *list = mr_pipeline_collations(pipeline, &n);
    pool->n_fields = pool->n_arrays = pipeline->n_fields;
    for (int32_t i = 0; i < n; i++) {
        pool->n_arrays += list[i].n - 1;
    }
    pool->fields = mr_zalloc((size_t)pool->n_arrays, sizeof *pool->fields);
    if (!pool->fields) {
        return mr_fail_memory(err, (size_t)pool->n_arrays * sizeof *pool->fields);
    }
    for (int32_t i = 0; i < pool->n_fields; i++) {
        pool->fields[i].name = pipeline->fields[i].name;
        pool->fields[i].type = pipeline->fields[i].type;
    }
    for (int32_t i = 0; i < n; i++) {
        note_collation(pool, &list[i]);
    }
    return MR_OK;
}

static mr_status copy_names(mr_pool *pool, mr_error *err) {
    size_t size = 0;
    for (int32_t i = 0; i < pool->n_arrays; i++) {
        size += strlen(pool->fields[i].name) + 1;
    }
    char *at = pool->names = mr_zalloc(1, size);
    if (!at) {
        return mr_fail_memory(err, size);
    }
    for (int32_t i = 0; i < pool->n_arrays; i++) {
        size_t length = strlen(pool->fields[i].name) + 1;
        pool->fields[i].name = memcpy(at, pool->fields[i].name, length);
        at += length;
    }
    return MR_OK;
}

mr_status mr_pool_new(mr_pool **out, const mr_pool_config *config, mr_error *err) {
    mr_pool *pool = mr_zalloc(1, sizeof *pool);
    if (!pool) {
        return mr_fail_memory(err, sizeof *pool);
    }
    atomic_init(&pool->references, 1);
    pool->allocator = config->allocator;
    pool->capacity = config->capacity;
    pool->digest = config->digest;
    pool->poison = config->poison;
    pool->late = config->pipeline->n_batch_ops > 0;
    pool->keep = config->keep < MR_POOL_KEEP_MAX ? config->keep : MR_POOL_KEEP_MAX;
    mr_status status = copy_fields(pool, config->pipeline, err);
    if (status == MR_OK) {
        status = copy_names(pool, err);
    }
    if (status == MR_OK) {
        status = lay_out(pool, err);
    }
    if (status < 0) {
        mr_pool_unref(pool);
        return status;
    }
    *out = pool;
    return MR_OK;
}

bool mr_pool_borrows(const mr_pool *pool) {
    return pool->allocator.alloc == mr_default_allocator.alloc && !pool->poison;
}

int64_t mr_pool_batch_bytes(const mr_pool *pool) {
    return (int64_t)pool->block_bytes;
}

static void release(const mr_pool *pool, void *memory, size_t size) {
    if (memory) {
        pool->allocator.release(pool->allocator.user, memory, size);
    }
}

void mr_batch_release(const mr_batch *batch, void *memory, size_t size) {
    release(batch->pool, memory, size);
}

static void batch_destroy(mr_batch *batch) {
    mr_pool *pool = batch->pool;
    release(pool, batch->block, pool->block_bytes);
    for (int32_t i = 0; batch->arrays && batch->parts && i < pool->n_arrays; i++) {
        if (mr_pool_is_ragged(pool, i) || pool->fields[i].collated) {
            release(pool, batch->arrays[i].data, batch->parts[i].values_bytes);
        }
        if (batch->parts[i].pieces) {
            pthread_mutex_destroy(&batch->parts[i].lock);
        }
        if (pool->fields[i].collated) {
            mr_free(batch->parts[i].room);
        }
        mr_free(batch->parts[i].pieces);
        mr_free(batch->parts[i].offsets);
        mr_free(batch->parts[i].shapes);
    }
    mr_free(batch->loans);
    mr_free(batch->arrays);
    mr_free(batch->parts);
    mr_free(batch->samples);
    mr_free(batch->sample_digests);
    mr_free(batch);
}

static void pool_drop_reference(mr_pool *pool) {
    if (atomic_fetch_sub(&pool->references, 1) == 1) {
        mr_free(pool->names);
        mr_free(pool->fields);
        mr_free(pool);
    }
}

static void batch_destroy_counted(mr_batch *batch) {
    mr_pool *pool = batch->pool;
    batch_destroy(batch);
    pool_drop_reference(pool);
}

static mr_batch *take_idle(mr_pool *pool) {
    for (uint32_t i = 0; i < pool->keep; i++) {
        mr_batch *batch = atomic_exchange(&pool->idle[i], NULL);
        if (batch) {
            return batch;
        }
    }
    return NULL;
}

bool mr_pool_has_idle(mr_pool *pool) {
    for (uint32_t i = 0; i < pool->keep; i++) {
        if (atomic_load(&pool->idle[i])) {
            return true;
        }
    }
    return false;
}

static void drain_idle(mr_pool *pool) {
    mr_batch *batch;
    while ((batch = take_idle(pool)) != NULL) {
        batch_destroy_counted(batch);
    }
}

/* The loader lets go: idle batches go too, the others as they come back. */
void mr_pool_unref(mr_pool *pool) {
    if (pool) {
        atomic_store(&pool->closed, true);
        drain_idle(pool);
        pool_drop_reference(pool);
    }
}

/* ---- Making batches ---- */
static bool alloc_ragged(mr_batch *batch, int32_t field) {
    const mr_pool *pool = batch->pool;
    size_t n = (size_t)pool->capacity;
    mr_ragged_part *part = &batch->parts[field];
    part->pieces = mr_zalloc(n, sizeof(mr_batch_value));
    if (part->pieces) {
        pthread_mutex_init(&part->lock, NULL);
    }
    part->offsets = mr_zalloc(n + 1, sizeof(int64_t));
    part->shapes = mr_zalloc(n, sizeof(int64_t) * (size_t)pool->fields[field].type.n_dims);
    return part->pieces && part->offsets && part->shapes;
}

static bool alloc_parts(mr_batch *batch) {
    const mr_pool *pool = batch->pool;
    size_t n = (size_t)pool->capacity;
    batch->arrays = mr_zalloc((size_t)pool->n_arrays, sizeof *batch->arrays);
    batch->parts = mr_zalloc((size_t)pool->n_arrays, sizeof *batch->parts);
    batch->loans = mr_zalloc((size_t)pool->n_fields + 1, sizeof *batch->loans);
    bool ok = batch->arrays && batch->parts && batch->loans;
    batch->samples = mr_zalloc(n, sizeof *batch->samples);
    batch->sample_digests = mr_zalloc(n, sizeof *batch->sample_digests);
    if (ok && pool->block_bytes > 0) {
        batch->block = pool->allocator.alloc(pool->allocator.user, pool->block_bytes, MR_ALIGN);
        ok = batch->block != NULL;
    }
    for (int32_t i = 0; ok && i < pool->n_fields; i++) {
        ok = !mr_pool_is_ragged(pool, i) || alloc_ragged(batch, i);
    }
    return ok && batch->samples && batch->sample_digests;
}

/* Room for as much as earlier batches had, and a little more. Without it, values get memory of
 * their own. */
static void make_room(mr_batch *batch, int32_t field) {
    mr_pool_field *own = &batch->pool->fields[field];
    mr_ragged_part *part = &batch->parts[field];
    size_t most = atomic_load(&own->most), wanted = most + most / 8;
    if (own->collated && part->room_bytes < wanted) {
        mr_free(part->room);
        part->room = malloc(wanted);
        part->room_bytes = part->room ? wanted : 0;
    } else if (!own->collated) {
        if (part->values_bytes < wanted) {
            (void)mr_batch_reserve(batch, field, wanted, NULL);
        }
        part->room = batch->arrays[field].data;
        part->room_bytes = part->values_bytes;
    }
    part->next = 0;
    part->end = 0;
}

static mr_batch *batch_new(mr_pool *pool) {
    mr_batch *batch = mr_zalloc(1, sizeof *batch);
    if (!batch) {
        return NULL;
    }
    batch->pool = pool;
    if (!alloc_parts(batch)) {
        batch_destroy(batch);
        return NULL;
    }
    atomic_fetch_add(&pool->references, 1);
    return batch;
}

static void describe_array(mr_batch *batch, int32_t i) {
    const mr_pool *pool = batch->pool;
    const mr_type *type = &pool->fields[i].type;
    mr_array *array = &batch->arrays[i];
    void *values = array->data; /* a ragged field's memory is kept for reuse */
    *array = (mr_array){.name = pool->fields[i].name,
                        .dtype = type->dtype,
                        .layout = type->layout,
                        .sample_dims = type->n_dims,
                        .data = values};
    if (pool->fields[i].collated) { /* mr_batch_collate tells the rest */
        array->layout = MR_PLAIN;
        return;
    }
    if (mr_pool_is_ragged(pool, i)) {
        array->n_dims = 1;
        array->offsets = batch->parts[i].offsets;
        array->shapes = batch->parts[i].shapes;
        return;
    }
    array->n_dims = type->n_dims + 1;
    array->dims[0] = batch->count;
    memcpy(array->dims + 1, type->dims, (size_t)type->n_dims * sizeof *type->dims);
    array->data = batch->block + pool->fields[i].offset;
    array->size = pool->fields[i].sample_bytes * (size_t)batch->count;
}

mr_status mr_pool_take(mr_pool *pool, int64_t count, mr_batch **out, mr_error *err) {
    mr_batch *batch = take_idle(pool);
    if (!batch) {
        batch = batch_new(pool);
    }
    if (!batch) {
        mr_fail_memory(err, pool->block_bytes);
        mr_hint(err, "a smaller batch takes less; this one is of %lld samples",
                (long long)pool->capacity);
        return MR_E_MEMORY;
    }
    atomic_store(&batch->references, 1);
    batch->count = count;
    batch->digest_hex[0] = '\0';
    batch->digest = (mr_hash128){0, 0};
    if (pool->poison && batch->block) {
        memset(batch->block, 0xA5, pool->block_bytes);
    }
    for (int32_t i = 0; i < pool->n_arrays; i++) {
        describe_array(batch, i);
        if (batch->parts[i].pieces) {
            make_room(batch, i);
        }
    }
    *out = batch;
    return MR_OK;
}

mr_status mr_batch_reserve(mr_batch *batch, int32_t field, size_t bytes, mr_error *err) {
    const mr_pool *pool = batch->pool;
    mr_array *array = &batch->arrays[field];
    if (array->data && batch->parts[field].values_bytes >= bytes) {
        return MR_OK;
    }
    release(pool, array->data, batch->parts[field].values_bytes);
    batch->parts[field].values_bytes = 0;
    array->data = pool->allocator.alloc(pool->allocator.user, bytes ? bytes : 1, MR_ALIGN);
    if (!array->data) {
        return mr_fail_memory(err, bytes);
    }
    batch->parts[field].values_bytes = bytes ? bytes : 1;
    return MR_OK;
}

/* ---- Batches that somebody holds ---- */
void mr_batch_ref(mr_batch *batch) {
    atomic_fetch_add_explicit(&batch->references, 1, memory_order_relaxed);
}

/* The pool may be closed between the look and the exchange: then whoever sees it last drains. */
static void give_back(mr_batch *batch) {
    mr_pool *pool = batch->pool;
    bool kept = false;
    atomic_fetch_add(&pool->references, 1); /* the batch, and its reference, may be gone at once */
    for (uint32_t i = 0; !kept && i < pool->keep && !atomic_load(&pool->closed); i++) {
        mr_batch *empty = NULL;
        kept = atomic_compare_exchange_strong(&pool->idle[i], &empty, batch);
    }
    if (!kept) {
        batch_destroy_counted(batch);
    } else if (atomic_load(&pool->closed)) {
        drain_idle(pool);
    }
    pool_drop_reference(pool);
}

void mr_batch_unref(mr_batch *batch) {
    if (!batch || atomic_fetch_sub(&batch->references, 1) != 1) {
        return;
    }
    for (int32_t f = 0; batch->pool->any_ragged && f < batch->pool->n_fields; f++) {
        if (batch->parts[f].pieces) {
            mr_batch_forget(batch, f); /* a batch given up before it was sealed */
        }
    }
    mr_batch_return(batch);
    give_back(batch);
}
