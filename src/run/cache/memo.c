/* SPDX-License-Identifier: Apache-2.0 */
/* memo.c - see memo.h. */
#include "run/cache/memo.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "run/chain/chain.h"

/* ---- Opening ---- */
int32_t mr_memos_op(const mr_pipeline *p) {
    int32_t i = 0;
    while (i < p->n_ops &&
           (mr_op_is_cache(&p->ops[i]) || p->ops[i].class->run_sample || p->ops[i].field != 0)) {
        i++;
    }
    return i < p->n_ops && (p->ops[i].flags & MR_OP_REMEMBERS) ? i : -1;
}

static mr_hash128 prefix_of(const mr_op_class *op) {
    char text[128];
    int n = snprintf(text, sizeof text, "memo of %s %u", op->name, (unsigned)op->version);
    return mr_hash(text, (size_t)n);
}

/* Of caches that stand before the op, the last; none where another one keeps what the op makes. */
static mr_cache *cache_before(const mr_caches *caches, int32_t op) {
    mr_cache *last = NULL;
    if (caches->last >= 0 && caches->list[caches->last].op > op) {
        return NULL;
    }
    for (int32_t i = 0; i < caches->n && caches->list[i].op < op; i++) {
        last = caches->list[i].store ? &caches->list[i] : last;
    }
    return last;
}

void mr_memos_open(mr_caches *caches, uint32_t world) {
    mr_memos *memos = &caches->memos;
    char text[128];
    memos->op = mr_memos_op(caches->pipeline);
    memos->cache = memos->op >= 0 ? cache_before(caches, memos->op) : NULL;
    if (memos->cache) {
        const mr_op_class *op = caches->pipeline->ops[memos->op].class;
        snprintf(text, sizeof text, "index of %s", op->name);
        memos->prefix = prefix_of(op);
        const mr_store_plan plan = {memos->prefix, text, world == 1};
        memos->plan = mr_store_join(memos->cache->store, &plan);
    }
}

void mr_memos_close(mr_caches *caches) {
    mr_memos *memos = &caches->memos;
    if (memos->cache) {
        mr_store_leave(memos->cache->store, memos->plan, memos->hits, memos->misses);
    }
    memos->cache = NULL;
}

void mr_memory_open(mr_memory *memory, const mr_caches *caches) {
    const mr_cache *cache = caches ? caches->memos.cache : NULL;
    memory->reader = cache ? mr_store_reader_new(cache->store) : NULL;
}

void mr_memory_close(mr_memory *memory) {
    mr_store_reader_free(memory->reader);
    *memory = (mr_memory){0};
}

/* ---- Finding ---- */
static mr_status copy_memo(const mr_record *record, mr_arena *arena, mr_memo *memo) {
    const mr_record_field *field = record->fields;
    if (record->n_fields != 1 || field->type.dtype != MR_U8 || field->type.n_dims != 1) {
        return MR_E_CORRUPT;
    }
    void *bytes = mr_arena_take(arena, field->size);
    MR_TRY(bytes ? mr_record_copy(field, record->unpacked, bytes) : MR_E_MEMORY);
    memo->known = bytes;
    memo->known_size = field->size;
    return MR_OK;
}

static bool look(mr_memory *memory, mr_store *store, mr_arena *arena) {
    mr_record record;
    if (!mr_store_find(memory->reader, &memory->key, &record, arena)) {
        return false;
    }
    mr_status status = copy_memo(&record, arena, &memory->memo);
    mr_store_done(memory->reader);
    if (status == MR_E_CORRUPT) {
        mr_store_doubt(store, &memory->key);
    }
    return status == MR_OK;
}

static void tally(mr_memos *memos, bool found) {
    bool alone = !memos->cache->keeps; /* then the cache's own figures are those of the index */
    mr_store_tally(memos->cache->store, memos->plan, found);
    atomic_fetch_add_explicit(found ? &memos->hits : &memos->misses, 1, memory_order_relaxed);
    if (alone) {
        atomic_fetch_add_explicit(found ? &memos->cache->hits : &memos->cache->misses, 1,
                                  memory_order_relaxed);
    }
}

mr_memo *mr_memory_find(mr_chain *chain, mr_chain_job *job, int32_t i) {
    mr_memory *memory = &chain->memory;
    if (!memory->reader || i != chain->caches->memos.op) {
        return NULL;
    }
    if (!job->identity.asked) {
        mr_caches_identify(chain->caches, job->sample, &job->identity);
    }
    memory->memo = (mr_memo){0};
    memory->is_named = job->identity.known;
    if (memory->is_named) {
        mr_memos *memos = &chain->caches->memos;
        memory->key = mr_store_key_of(memos->prefix, job->identity.words);
        tally(memos, look(memory, memos->cache->store, &chain->data));
    }
    return memory->is_named ? &memory->memo : NULL;
}

/* ---- Keeping ---- */
/* Parts that end lower teach a little more each time: that is not worth a write. */
static bool is_worth_keeping(const mr_memo *memo) {
    return memo->found_size > memo->known_size + memo->known_size / 8;
}

static mr_store_buffer *new_record(mr_store *store, const mr_memory *memory) {
    const mr_memo *memo = &memory->memo;
    const mr_view value = {
        .type = {.dtype = MR_U8, .n_dims = 1, .dims = {(int64_t)memo->found_size}},
        .data = (void *)(uintptr_t)memo->found,
        .size = memo->found_size};
    mr_store_buffer *record = mr_store_take_buffer(store, mr_record_room(&value, 1, 0));
    if (record &&
        mr_record_write(&memory->key, &value, 1, 0, record->bytes, &record->used, NULL) < 0) {
        mr_store_give_buffer(store, record);
        record = NULL;
    }
    return record;
}

void mr_memory_keep(mr_chain *chain, int32_t i) {
    mr_memory *memory = &chain->memory;
    if (!memory->reader || i != chain->caches->memos.op || !memory->is_named ||
        !is_worth_keeping(&memory->memo)) {
        return;
    }
    mr_store *store = chain->caches->memos.cache->store;
    if (mr_store_claim(store, &memory->key) != MR_CLAIM_OURS) {
        return; /* somebody else has just decoded it, too */
    }
    mr_store_buffer *record = new_record(store, memory);
    if (record) {
        mr_store_put(store, &memory->key, record);
    } else {
        mr_store_abandon(store, &memory->key);
    }
}
