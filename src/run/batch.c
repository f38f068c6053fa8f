/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - see batch.h. */
#include "run/batch.h"

#include <stdatomic.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

#define MR_POOL_KEEP_MAX 16

/* One sample of a ragged field before the batch is sealed. */
typedef struct piece {
    void *data;
    size_t size;
    mr_type type;
} piece;

struct mr_pool {
    atomic_int references; /* the loader's, and one per batch that exists */
    mr_allocator allocator;
    int64_t capacity;
    bool digest, poison;
    uint32_t keep;

    int32_t n_fields;
    mr_field fields[MR_MAX_FIELDS];
    bool ragged[MR_MAX_FIELDS];
    bool any_ragged;
    size_t sample_bytes[MR_MAX_FIELDS]; /* of a dense field */
    size_t offset[MR_MAX_FIELDS];       /* of a dense field in the block */
    size_t block_bytes;
    char *names; /* own copies: batches may outlive the pipeline */

    /* Idle batches. Exchanging whole slots needs no lock and has no ABA problem. */
    _Atomic(mr_batch *) idle[MR_POOL_KEEP_MAX];
    atomic_bool closed;
};

struct mr_batch {
    atomic_int references;
    mr_pool *pool;
    int64_t count, valid, epoch, step;
    unsigned char *block;
    int64_t *samples;
    uint64_t *sample_digests;
    mr_hash128 digest;
    char digest_hex[33];

    mr_array arrays[MR_MAX_FIELDS];
    piece *pieces[MR_MAX_FIELDS];       /* ragged: one per sample */
    int64_t *offsets[MR_MAX_FIELDS];    /* ragged: capacity + 1 */
    int64_t *shapes[MR_MAX_FIELDS];     /* ragged: capacity x dims */
    size_t values_bytes[MR_MAX_FIELDS]; /* ragged: what arrays[i].data was allocated with */
};

static bool is_ragged(const mr_pool *pool, int32_t field) {
    return pool->ragged[field];
}

/* ---- Pool ---- */
static mr_status lay_out(mr_pool *pool, mr_error *err) {
    size_t total = 0;
    for (int32_t i = 0; i < pool->n_fields; i++) {
        int64_t bytes = mr_type_bytes(&pool->fields[i].type), all;
        if (bytes == -2 || (bytes >= 0 && __builtin_mul_overflow(bytes, pool->capacity, &all))) {
            return mr_fail(err, MR_E_LIMIT, "a batch of field %s does not fit into memory",
                           pool->fields[i].name);
        }
        pool->offset[i] = total;
        pool->ragged[i] = bytes < 0;
        pool->any_ragged = pool->any_ragged || bytes < 0;
        pool->sample_bytes[i] = bytes >= 0 ? (size_t)bytes : 0;
        size_t field_bytes = pool->sample_bytes[i] * (size_t)pool->capacity;
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

static mr_status copy_names(mr_pool *pool, mr_error *err) {
    size_t size = 0;
    for (int32_t i = 0; i < pool->n_fields; i++) {
        size += strlen(pool->fields[i].name) + 1;
    }
    char *at = pool->names = mr_zalloc(1, size);
    if (!at) {
        return mr_fail_memory(err, size);
    }
    for (int32_t i = 0; i < pool->n_fields; i++) {
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
    pool->keep = config->keep < MR_POOL_KEEP_MAX ? config->keep : MR_POOL_KEEP_MAX;
    pool->n_fields = config->pipeline->n_fields;
    memcpy(pool->fields, config->pipeline->fields, sizeof pool->fields);
    mr_status status = copy_names(pool, err);
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

int64_t mr_pool_batch_bytes(const mr_pool *pool) {
    return (int64_t)pool->block_bytes;
}

static void release(const mr_pool *pool, void *memory, size_t size) {
    if (memory) {
        pool->allocator.release(pool->allocator.user, memory, size);
    }
}

static void batch_destroy(mr_batch *batch) {
    mr_pool *pool = batch->pool;
    release(pool, batch->block, pool->block_bytes);
    for (int32_t i = 0; i < pool->n_fields; i++) {
        if (is_ragged(pool, i)) {
            release(pool, batch->arrays[i].data, batch->values_bytes[i]);
        }
        mr_free(batch->pieces[i]);
        mr_free(batch->offsets[i]);
        mr_free(batch->shapes[i]);
    }
    mr_free(batch->samples);
    mr_free(batch->sample_digests);
    mr_free(batch);
}

static void pool_drop_reference(mr_pool *pool) {
    if (atomic_fetch_sub(&pool->references, 1) == 1) {
        mr_free(pool->names);
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
    batch->pieces[field] = mr_zalloc(n, sizeof(piece));
    batch->offsets[field] = mr_zalloc(n + 1, sizeof(int64_t));
    batch->shapes[field] = mr_zalloc(n, sizeof(int64_t) * (size_t)pool->fields[field].type.n_dims);
    return batch->pieces[field] && batch->offsets[field] && batch->shapes[field];
}

static bool alloc_parts(mr_batch *batch) {
    const mr_pool *pool = batch->pool;
    size_t n = (size_t)pool->capacity;
    bool ok = true;
    batch->samples = mr_zalloc(n, sizeof *batch->samples);
    batch->sample_digests = mr_zalloc(n, sizeof *batch->sample_digests);
    if (pool->block_bytes > 0) {
        batch->block = pool->allocator.alloc(pool->allocator.user, pool->block_bytes, MR_ALIGN);
        ok = batch->block != NULL;
    }
    for (int32_t i = 0; ok && i < pool->n_fields; i++) {
        ok = !is_ragged(pool, i) || alloc_ragged(batch, i);
    }
    return ok && batch->samples && batch->sample_digests;
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
    if (is_ragged(pool, i)) {
        array->n_dims = 1;
        array->offsets = batch->offsets[i];
        array->shapes = batch->shapes[i];
        return;
    }
    array->n_dims = type->n_dims + 1;
    array->dims[0] = batch->count;
    memcpy(array->dims + 1, type->dims, (size_t)type->n_dims * sizeof *type->dims);
    array->data = batch->block + pool->offset[i];
    array->size = pool->sample_bytes[i] * (size_t)batch->count;
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
    for (int32_t i = 0; i < pool->n_fields; i++) {
        describe_array(batch, i);
    }
    *out = batch;
    return MR_OK;
}

void mr_batch_place(mr_batch *batch, int64_t epoch, int64_t step, int64_t valid) {
    batch->epoch = epoch;
    batch->step = step;
    batch->valid = valid;
}

int64_t *mr_batch_samples_mutable(mr_batch *batch) {
    return batch->samples;
}

bool mr_batch_is_ragged(const mr_batch *batch, int32_t field) {
    return is_ragged(batch->pool, field);
}

void *mr_batch_slot(mr_batch *batch, int32_t field, int64_t i) {
    const mr_pool *pool = batch->pool;
    return batch->block + pool->offset[field] + pool->sample_bytes[field] * (size_t)i;
}

void *mr_batch_piece(mr_batch *batch, int32_t field, int64_t i, const mr_type *type) {
    piece *p = &batch->pieces[field][i];
    int64_t bytes = mr_type_bytes(type);
    if (bytes < 0) {
        return NULL;
    }
    mr_free(p->data);
    p->data = mr_zalloc(1, (size_t)bytes);
    p->size = (size_t)bytes;
    p->type = *type;
    return p->data;
}

void mr_batch_clear_sample(mr_batch *batch, int64_t i) {
    for (int32_t f = 0; f < batch->pool->n_fields; f++) {
        if (batch->pieces[f]) {
            mr_free(batch->pieces[f][i].data);
            batch->pieces[f][i] = (piece){0};
        }
    }
}

/* ---- Digests ---- */
static uint64_t hash_piece(const piece *p, uint64_t seed) {
    uint64_t hash = mr_hash64(p->type.dims, (size_t)p->type.n_dims * sizeof *p->type.dims, seed);
    return mr_hash64(p->data, p->size, hash);
}

void mr_batch_sample_done(mr_batch *batch, int64_t i) {
    const mr_pool *pool = batch->pool;
    uint64_t hash = 0;
    for (int32_t f = 0; pool->digest && f < pool->n_fields; f++) {
        hash = is_ragged(pool, f)
                   ? hash_piece(&batch->pieces[f][i], hash)
                   : mr_hash64(mr_batch_slot(batch, f, i), pool->sample_bytes[f], hash);
    }
    batch->sample_digests[i] = hash;
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
static mr_status reserve_values(mr_batch *batch, int32_t field, size_t bytes, mr_error *err) {
    const mr_pool *pool = batch->pool;
    mr_array *array = &batch->arrays[field];
    if (array->data && batch->values_bytes[field] >= bytes) {
        return MR_OK;
    }
    release(pool, array->data, batch->values_bytes[field]);
    batch->values_bytes[field] = 0;
    array->data = pool->allocator.alloc(pool->allocator.user, bytes ? bytes : 1, MR_ALIGN);
    if (!array->data) {
        return mr_fail_memory(err, bytes);
    }
    batch->values_bytes[field] = bytes ? bytes : 1;
    return MR_OK;
}

static void join_piece(mr_batch *batch, int32_t field, int64_t i) {
    const mr_type *type = &batch->pool->fields[field].type;
    piece *p = &batch->pieces[field][i];
    size_t element = mr_dtype_size(type->dtype);
    int64_t at = batch->offsets[field][i];
    if (p->size > 0) {
        memcpy((char *)batch->arrays[field].data + (size_t)at * element, p->data, p->size);
    }
    batch->offsets[field][i + 1] = at + (int64_t)(p->size / element);
    memcpy(batch->shapes[field] + i * type->n_dims, p->type.dims,
           (size_t)type->n_dims * sizeof(int64_t));
    mr_free(p->data);
    *p = (piece){0};
}

static mr_status join_ragged(mr_batch *batch, int32_t field, mr_error *err) {
    size_t bytes = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        bytes += batch->pieces[field][i].size;
    }
    MR_TRY(reserve_values(batch, field, bytes, err));
    for (int64_t i = 0; i < batch->count; i++) {
        join_piece(batch, field, i);
    }
    mr_array *array = &batch->arrays[field];
    array->size = bytes;
    array->dims[0] = (int64_t)(bytes / mr_dtype_size(array->dtype));
    return MR_OK;
}

mr_status mr_batch_seal(mr_batch *batch, mr_error *err) {
    for (int32_t f = 0; f < batch->pool->n_fields; f++) {
        if (is_ragged(batch->pool, f)) {
            MR_TRY(join_ragged(batch, f, err));
        }
    }
    return batch->pool->digest ? make_digest(batch, err) : MR_OK;
}

/* ---- Public ---- */
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
    for (int64_t i = 0; batch->pool->any_ragged && i < batch->count; i++) {
        mr_batch_clear_sample(batch, i); /* a batch given up before it was sealed */
    }
    give_back(batch);
}

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
    return batch->pool->n_fields;
}

const mr_array *mr_batch_array(const mr_batch *batch, int32_t i) {
    return i >= 0 && i < batch->pool->n_fields ? &batch->arrays[i] : NULL;
}

const mr_array *mr_batch_find(const mr_batch *batch, const char *name) {
    for (int32_t i = 0; i < batch->pool->n_fields; i++) {
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
