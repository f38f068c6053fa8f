/* SPDX-License-Identifier: Apache-2.0 */
/* recall.c - see recall.h. A worker holds a claim on a later cache while it looks at an earlier
 * one, never the other way round, so two workers never wait for each other. */
#include "run/recall.h"

#include <string.h>
#include <time.h>

#include "core/error.h"
#include "run/chain.h"

mr_status mr_recall_open(mr_recall *recall, mr_caches *caches, mr_error *err) {
    if (!caches || caches->n == 0) {
        return MR_OK;
    }
    recall->parts = mr_zalloc((size_t)caches->n, sizeof *recall->parts);
    if (!recall->parts) {
        return mr_fail_memory(err, (size_t)caches->n * sizeof *recall->parts);
    }
    recall->caches = caches;
    for (int32_t i = 0; i < caches->n; i++) {
        mr_store *store = caches->list[i].store;
        recall->parts[i].reader = store ? mr_store_reader_new(store) : NULL;
    }
    return MR_OK;
}

void mr_recall_close(mr_recall *recall) {
    for (int32_t i = 0; recall->caches && i < recall->caches->n; i++) {
        mr_store_reader_free(recall->parts[i].reader);
    }
    mr_free(recall->parts);
    *recall = (mr_recall){0};
}

/* ---- From a record to fields ---- */
/* The key says which ops made the record, so a record of another form is a damaged one. */
static bool fits(const mr_chain *chain, const mr_op_node *node, const mr_record *record) {
    bool same = record->n_fields == node->n_inputs;
    for (int32_t k = 0; same && k < node->n_inputs; k++) {
        int32_t slot = node->inputs[k];
        int32_t delivered = chain->delivered_as[slot];
        bool final =
            delivered >= 0 && chain->last_op[slot] < (int32_t)(node - chain->pipeline->ops);
        const mr_type *type = &record->fields[k].type;
        const mr_type *planned = final                 ? &chain->pipeline->fields[delivered].type
                                 : slot == node->field ? &node->out
                                                       : type;
        same = type->dtype == planned->dtype && type->n_dims == planned->n_dims &&
               type->layout == planned->layout;
    }
    return same;
}

/* Where an op can take rows from the store itself, the bytes are only checked; otherwise copied,
 * to their place in the batch if no later op changes them. */
static mr_status load_field(mr_chain *chain, const mr_chain_job *job, const mr_cache *cache,
                            int32_t slot, const mr_record *record, int32_t k, mr_view *out,
                            mr_error *err) {
    const mr_record_field *field = &record->fields[k];
    bool streams = cache->node->stream_length > 1 && slot == cache->node->field;
    bool final = chain->last_op[slot] < cache->op;
    *out = (mr_view){.type = field->type, .size = field->size};
    if (streams) {
        chain->recall.in_place = true;
        out->data = (void *)(uintptr_t)field->data;
        return mr_record_copy(field, record->unpacked, NULL);
    }
    MR_TRY(mr_chain_destination(chain, job, slot, final, out, err));
    return mr_record_copy(field, record->unpacked, out->data);
}

static bool is_needed(const mr_chain *chain, const mr_cache *cache, int32_t slot) {
    return chain->delivered_as[slot] >= 0 || chain->last_op[slot] > cache->op;
}

static mr_status load(mr_chain *chain, const mr_chain_job *job, const mr_cache *cache,
                      const mr_record *record, mr_view *fields, mr_error *err) {
    const mr_op_node *node = cache->node;
    if (!fits(chain, node, record)) {
        return MR_E_CORRUPT;
    }
    if (chain->pipeline->source->locate) {
        MR_TRY(mr_chain_fill_rest(chain, job, node, fields, err));
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int32_t slot = node->inputs[k];
        if (is_needed(chain, cache, slot)) {
            MR_TRY(load_field(chain, job, cache, slot, record, k, &fields[slot], err));
        }
    }
    return MR_OK;
}

/* ---- Looking ---- */
static int64_t record_bytes(const mr_record *record) {
    int64_t total = 0;
    for (int32_t k = 0; k < record->n_fields; k++) {
        total += (int64_t)record->fields[k].size;
    }
    return total;
}

/* True: found and loaded, or failed for another reason than the store (*status). */
static bool look(mr_chain *chain, const mr_chain_job *job, int32_t c, mr_view *fields,
                 mr_status *status, mr_error *err) {
    mr_cache *cache = &chain->recall.caches->list[c];
    mr_recall_part *part = &chain->recall.parts[c];
    mr_record record;
    if (!mr_store_find(part->reader, &part->key, &record, &chain->data)) {
        return false;
    }
    *status = load(chain, job, cache, &record, fields, err);
    if (*status != MR_OK || !chain->recall.in_place) {
        mr_store_done(part->reader);
    }
    if (*status == MR_E_CORRUPT) {
        chain->recall.in_place = false;
        mr_batch_clear_sample(job->batch, job->slot);
        mr_store_doubt(cache->store, &part->key);
        *status = MR_OK;
        return false;
    }
    if (*status == MR_OK) {
        atomic_fetch_add_explicit(&cache->hits, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&cache->bytes, record_bytes(&record), memory_order_relaxed);
    }
    return true;
}

static void sleep_ns(int64_t ns) {
    const struct timespec pause = {0, (long)ns};
    nanosleep(&pause, NULL);
}

/* Finds or claims the c-th cache's value. Somebody else who makes it is waited for, but not for
 * ever: they may be stopped. */
static bool find_or_claim(mr_chain *chain, const mr_chain_job *job, int32_t c, mr_view *fields,
                          mr_status *status, mr_error *err) {
    const int64_t patience = 5000000000, longest = 2000000;
    mr_cache *cache = &chain->recall.caches->list[c];
    mr_recall_part *part = &chain->recall.parts[c];
    int64_t waited = 0, pause = 50000;
    while (!look(chain, job, c, fields, status, err)) {
        mr_claim claim = mr_store_claim(cache->store, &part->key);
        part->claimed = claim == MR_CLAIM_OURS;
        if (claim == MR_CLAIM_OURS) {
            return look(chain, job, c, fields, status, err); /* it may just have been put */
        }
        if (claim == MR_CLAIM_VOID || waited >= patience) {
            return false;
        }
        if (job->is_stopped && job->is_stopped(job->user)) {
            *status = MR_E_CANCELLED;
            return true;
        }
        if (waited == 0) {
            atomic_fetch_add_explicit(&cache->waits, 1, memory_order_relaxed);
        }
        sleep_ns(pause);
        waited += pause;
        pause = pause * 2 < longest ? pause * 2 : longest;
    }
    return true;
}

mr_status mr_recall_find(mr_chain *chain, mr_chain_job *job, mr_view *fields, int32_t *start,
                         mr_error *err) {
    mr_caches *caches = chain->recall.caches;
    mr_status status = MR_OK;
    *start = -1;
    if (!job->identity.asked) {
        mr_caches_identify(caches, job->sample, &job->identity);
    }
    for (int32_t c = caches->n - 1; job->identity.known && c >= 0; c--) {
        mr_recall_part *part = &chain->recall.parts[c];
        if (!part->reader) {
            continue;
        }
        part->key = mr_store_key_of(caches->list[c].node->prefix, job->identity.words);
        if (find_or_claim(chain, job, c, fields, &status, err)) {
            *start = status == MR_OK ? caches->list[c].op : -1;
            return status;
        }
        atomic_fetch_add_explicit(&caches->list[c].misses, 1, memory_order_relaxed);
    }
    return MR_OK;
}

/* ---- Keeping ---- */
/* The file may have been changed between the look at it and the reading of it. */
static bool is_still_the_same(const mr_chain *chain, const mr_chain_job *job) {
    mr_identity now;
    mr_caches_identify(chain->recall.caches, job->sample, &now);
    return now.known && memcmp(now.words, job->identity.words, sizeof now.words) == 0;
}

void mr_recall_keep(mr_chain *chain, const mr_chain_job *job, int32_t op, const mr_view *fields) {
    mr_caches *caches = chain->recall.caches;
    int32_t c = 0;
    while (c < caches->n && caches->list[c].op != op) {
        c++;
    }
    mr_recall_part *part = &chain->recall.parts[c];
    const mr_op_node *node = caches->list[c].node;
    mr_view values[MR_MAX_FIELDS];
    void *record = NULL;
    size_t size = 0;
    if (!part->claimed || !is_still_the_same(chain, job)) {
        return;
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        values[k] = fields[node->inputs[k]];
    }
    if (mr_record_make(&part->key, values, node->n_inputs, caches->list[c].packing, &record, &size,
                       NULL) == MR_OK) {
        part->claimed = false;
        mr_store_put(caches->list[c].store, &part->key, record, size);
    }
}

void mr_recall_end(mr_recall *recall) {
    for (int32_t c = 0; c < recall->caches->n; c++) {
        mr_recall_part *part = &recall->parts[c];
        if (part->claimed) {
            mr_store_abandon(recall->caches->list[c].store, &part->key);
            part->claimed = false;
        }
        if (part->reader) {
            mr_store_done(part->reader);
        }
    }
    recall->in_place = false;
}
