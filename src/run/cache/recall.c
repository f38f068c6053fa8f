/* SPDX-License-Identifier: Apache-2.0 */
/* recall.c - see recall.h. A worker holds a claim on a later cache while it looks at an earlier
 * one, never the other way round, so two workers never wait for each other. */
#include "run/cache/recall.h"

#include <string.h>
#include <time.h>

#include "core/error.h"
#include "run/chain/chain.h"
#include "run/read/exchange.h"
#include "run/read/peers.h"

mr_status mr_recall_open(mr_recall *recall, mr_caches *caches, mr_error *err) {
    if (!caches || caches->n == 0) {
        return MR_OK;
    }
    recall->parts = mr_zalloc((size_t)caches->n, sizeof *recall->parts);
    if (!recall->parts) {
        return mr_fail_memory(err, (size_t)caches->n * sizeof *recall->parts);
    }
    for (int32_t i = 0; i < caches->n; i++) {
        mr_store *store = caches->list[i].keeps ? caches->list[i].store : NULL;
        recall->parts[i].reader = store ? mr_store_reader_new(store) : NULL;
        recall->caches = recall->parts[i].reader ? caches : recall->caches;
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
static bool is_of(const mr_type *type, const mr_type *planned) {
    bool same = type->dtype == planned->dtype && type->n_dims == planned->n_dims &&
                type->layout == planned->layout;
    for (int32_t d = 0; same && d < planned->n_dims; d++) {
        same = planned->dims[d] < 0 || type->dims[d] == planned->dims[d];
    }
    return same;
}

/* The key says which ops made the record, so a record of another form is a damaged one. */
static bool fits(const mr_op_node *node, const mr_record *record) {
    bool same = record->n_fields == node->n_inputs;
    for (int32_t k = 0; same && k < node->n_inputs; k++) {
        same = is_of(&record->fields[k].type, &node->input_types[k]);
    }
    return same;
}

/* Where an op can take rows from the store itself, the bytes are only checked; otherwise copied,
 * to their place in the batch if no later op changes them. */
static mr_status load_field(mr_chain *chain, const mr_chain_job *job, const mr_cache *cache,
                            int32_t variable, const mr_record *record, int32_t k, mr_view *out,
                            mr_error *err) {
    const mr_record_field *field = &record->fields[k];
    bool fused = cache->node->fused_length > 1 && variable == cache->node->field;
    bool final = chain->last_op[variable] < cache->op;
    *out = (mr_view){.type = field->type, .size = field->size};
    if (fused) {
        chain->recall.in_place = true;
        out->data = (void *)(uintptr_t)field->data;
        return mr_record_copy(field, record->unpacked, NULL);
    }
    MR_TRY(mr_chain_destination(chain, job, variable, final, out, err));
    return mr_record_copy(field, record->unpacked, out->data);
}

static bool is_needed(const mr_chain *chain, const mr_cache *cache, int32_t variable) {
    return chain->delivered_as[variable] >= 0 || chain->last_op[variable] > cache->op ||
           chain->kept_by[variable] > cache->op;
}

static mr_status load(mr_chain *chain, const mr_chain_job *job, const mr_cache *cache,
                      const mr_record *record, mr_view *fields, mr_error *err) {
    const mr_op_node *node = cache->node;
    if (!fits(node, record)) {
        return MR_E_CORRUPT;
    }
    if (mr_source_fills_rest(chain->pipeline->source)) {
        MR_TRY(mr_chain_fill_rest(chain, job, node, fields, err));
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int32_t variable = node->inputs[k];
        if (is_needed(chain, cache, variable)) {
            MR_TRY(load_field(chain, job, cache, variable, record, k, &fields[variable], err));
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

/* The value as it was read ahead, or as the store has it in memory. */
static bool find_value(mr_chain *chain, const mr_chain_job *job, int32_t c, mr_record *record) {
    const mr_recall_part *part = &chain->recall.parts[c];
    bool is_read = job->record && job->is_own_record && c == chain->recall.caches->last &&
                   mr_store_use(part->reader, &part->key);
    if (is_read &&
        mr_record_open(record, &part->key, job->record, job->record_size, &chain->data) == MR_OK) {
        return true;
    }
    return mr_store_find(part->reader, &part->key, record, &chain->data);
}

/* True: found and loaded, or failed for another reason than the store (*status). */
static bool look(mr_chain *chain, const mr_chain_job *job, int32_t c, mr_view *fields,
                 mr_status *status, mr_error *err) {
    mr_cache *cache = &chain->recall.caches->list[c];
    mr_recall_part *part = &chain->recall.parts[c];
    mr_record record;
    if (!find_value(chain, job, c, &record)) {
        return false;
    }
    bool was_there = mr_store_was_there(part->reader, cache->plan);
    *status = load(chain, job, cache, &record, fields, err);
    if (*status != MR_OK || !chain->recall.in_place) {
        mr_store_done(part->reader);
    }
    if (*status == MR_E_CORRUPT) {
        chain->recall.in_place = false;
        if (job->batch) {
            mr_batch_clear_sample(job->batch, job->slot);
        }
        mr_store_doubt(cache->store, &part->key);
        *status = MR_OK;
        return false;
    }
    if (*status == MR_OK && was_there) {
        mr_store_tally(cache->store, cache->plan, true);
    }
    if (*status == MR_OK) {
        atomic_fetch_add_explicit(&cache->hits, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&cache->bytes, record_bytes(&record), memory_order_relaxed);
    }
    return true;
}

/* Waits a little for whoever makes the value, or better, does something useful meanwhile: makes a
 * sample that will be needed next. With a claim in hand it only waits; a second claim could be what
 * another waits for. */
static void wait_or_help(mr_chain *chain, const mr_chain_job *job, bool may_help, int64_t *waited,
                         int64_t *pause) {
    const int64_t longest = 2000000;
    if (may_help && job->help && job->help(job->user, job)) {
        return;
    }
    const struct timespec nap = {0, (long)*pause};
    uint64_t begun = mr_track_now(chain->track);
    nanosleep(&nap, NULL);
    mr_track_since(chain->track, MR_SPAN_STORE_WAIT, begun, chain->first_sample + job->sample,
                   job->batch_number, 0);
    *waited += *pause;
    *pause = *pause * 2 < longest ? *pause * 2 : longest;
}

static void set_keys(mr_recall *recall, const mr_identity *identity) {
    for (int32_t c = 0; c < recall->caches->n; c++) {
        mr_hash128 prefix = recall->caches->list[c].node->prefix;
        recall->parts[c].key = mr_store_key_of(prefix, identity->words);
        recall->parts[c].missed = false;
    }
}

/* Between the first look and the claim it may just have been put. */
static bool look_again(mr_chain *chain, const mr_chain_job *job, int32_t c, mr_view *fields,
                       mr_status *status, mr_error *err) {
    mr_recall_part *part = &chain->recall.parts[c];
    if (!look(chain, job, c, fields, status, err)) {
        return false;
    }
    mr_store_abandon(chain->recall.caches->list[c].store, &part->key);
    part->claimed = false;
    return true;
}

/* Whoever was waited for in vain is stopped, and may hold thousands of claims: for a while nobody
 * is waited for. */
static bool is_tired(mr_cache *cache, int64_t waited) {
    const int64_t patience = 5000000000, rest = 30000000000;
    if (waited >= patience) {
        atomic_store(&cache->tired_until, mr_store_clock() + rest);
    }
    int64_t until = atomic_load_explicit(&cache->tired_until, memory_order_relaxed);
    return until > 0 && mr_store_clock() < until;
}

/* Finds or claims the c-th cache's value. Somebody else who makes it is waited for, but not for
 * ever: they may be stopped. */
static bool find_or_claim(mr_chain *chain, const mr_chain_job *job, int32_t c, mr_view *fields,
                          mr_status *status, mr_error *err) {
    mr_cache *cache = &chain->recall.caches->list[c];
    mr_recall_part *part = &chain->recall.parts[c];
    int64_t waited = 0, pause = 50000;
    bool counted = false;
    while (!look(chain, job, c, fields, status, err)) {
        mr_claim claim = mr_store_claim(cache->store, &part->key);
        part->claimed = claim == MR_CLAIM_OURS;
        if (claim == MR_CLAIM_OURS) {
            return look_again(chain, job, c, fields, status, err);
        }
        if (claim == MR_CLAIM_VOID) {
            mr_store_refuse(cache->store);
            return false;
        }
        if (!job->batch || is_tired(cache, waited)) {
            return false;
        }
        if (job->is_stopped && job->is_stopped(job->user)) {
            *status = MR_E_CANCELLED;
            return true;
        }
        atomic_fetch_add_explicit(&cache->waits, counted ? 0 : 1, memory_order_relaxed);
        counted = true;
        wait_or_help(chain, job, c == chain->recall.caches->last, &waited, &pause);
    }
    return true;
}

/* ---- Putting into the store ---- */
/* NULL: there is no memory for it, so it is not kept. */
static mr_store_buffer *new_record(const mr_cache *cache, const mr_store_key *key,
                                   const mr_view *values) {
    int32_t n = cache->node->n_inputs;
    mr_store_buffer *record =
        mr_store_take_buffer(cache->store, mr_record_room(values, n, cache->packing));
    if (record &&
        mr_record_write(key, values, n, cache->packing, record->bytes, &record->used, NULL) < 0) {
        mr_store_give_buffer(cache->store, record);
        record = NULL;
    }
    return record;
}

/* Puts what was claimed into the store. */
static void put(mr_chain *chain, int32_t c, const mr_view *values) {
    mr_cache *cache = &chain->recall.caches->list[c];
    mr_recall_part *part = &chain->recall.parts[c];
    mr_store_buffer *record = new_record(cache, &part->key, values);
    if (!record) {
        mr_store_refuse(cache->store);
        return;
    }
    part->claimed = false;
    size_t size = record->used;
    mr_store_put(cache->store, &part->key, record);
    mr_track_lap(chain->track, MR_SPAN_STORE_WRITE, 0, 0, size, size);
}

/* Its bytes were checked by now, or are as they came where ops take them in place. */
static void put_record(mr_chain *chain, int32_t c, const mr_record *record) {
    mr_view *values = chain->inputs;
    for (int32_t k = 0; k < record->n_fields; k++) {
        const mr_record_field *field = &record->fields[k];
        values[k] = (mr_view){
            .type = field->type, .data = (void *)(uintptr_t)field->data, .size = field->size};
    }
    put(chain, c, values);
}

static bool is_whole(const mr_record *record) {
    bool whole = true;
    for (int32_t k = 0; whole && k < record->n_fields; k++) {
        whole = mr_record_copy(&record->fields[k], record->unpacked, NULL) == MR_OK;
    }
    return whole;
}

/* A sample that came from a fabric is used, and kept here too. False: there is none, or it is
 * damaged: then it is made. */
static bool take_up(mr_chain *chain, const mr_chain_job *job, int32_t c, mr_view *fields,
                    mr_status *status, mr_error *err) {
    const mr_cache *cache = &chain->recall.caches->list[c];
    mr_record record;
    if (!job->record || job->is_own_record || c != chain->recall.caches->last) {
        return false;
    }
    const mr_store_key key =
        mr_exchange_key(chain->dataset, cache->node, &job->abroad, job->sample);
    if (mr_record_open(&record, &key, job->record, job->record_size, &chain->data) != MR_OK ||
        !fits(cache->node, &record) || !is_whole(&record)) {
        return false;
    }
    *status = load(chain, job, cache, &record, fields, err);
    if (*status == MR_OK && chain->recall.parts[c].claimed) {
        put_record(chain, c, &record);
    }
    return true;
}

/* A sample made ahead of its time is worth making only if the last cache lacks it and nobody else
 * is at it. */
static bool is_worth_helping(mr_recall *recall) {
    int32_t last = recall->caches->last;
    mr_recall_part *part = &recall->parts[last];
    mr_store *store = recall->caches->list[last].store;
    if (!part->reader || mr_store_has(part->reader, &part->key)) {
        return false;
    }
    part->claimed = mr_store_claim(store, &part->key) == MR_CLAIM_OURS;
    return part->claimed && !mr_store_has(part->reader, &part->key);
}

mr_status mr_recall_find(mr_chain *chain, mr_chain_job *job, mr_view *fields, int32_t *start,
                         mr_error *err) {
    mr_caches *caches = chain->recall.caches;
    mr_status status = MR_OK;
    int32_t c = caches->last;
    *start = -1;
    if (!job->identity.asked) {
        mr_caches_identify(caches, job->sample, &job->identity);
    }
    if (!job->identity.known) {
        return job->batch ? MR_OK : MR_LATER;
    }
    set_keys(&chain->recall, &job->identity);
    if (!job->batch && !is_worth_helping(&chain->recall)) {
        return MR_LATER;
    }
    for (c = job->batch ? c : c - 1; c >= 0; c--) {
        if (!chain->recall.parts[c].reader) {
            continue;
        }
        if (find_or_claim(chain, job, c, fields, &status, err)) {
            *start = status == MR_OK ? caches->list[c].op : -1;
            return status;
        }
        mr_store_tally(caches->list[c].store, caches->list[c].plan, false);
        atomic_fetch_add_explicit(&caches->list[c].misses, 1, memory_order_relaxed);
        if (take_up(chain, job, c, fields, &status, err)) {
            *start = status == MR_OK ? caches->list[c].op : -1;
            return status;
        }
        chain->recall.parts[c].missed = true;
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

/* What was made of bytes that were read here is for others too, whether there is room in our own
 * store or not. Rows of a block travel in the block. */
static bool is_offered(const mr_chain *chain, const mr_chain_job *job, int32_t c) {
    const mr_caches *caches = chain->recall.caches;
    return (caches->exchange || caches->peers) && job->offers && job->block &&
           chain->recall.parts[c].missed && c == caches->last &&
           !mr_dataset_has_blocks(chain->dataset);
}

static void offer(const mr_chain *chain, const mr_chain_job *job, int32_t c,
                  const mr_view *values) {
    const mr_made_sample made = {.dataset = chain->dataset,
                                 .cache = &chain->recall.caches->list[c],
                                 .abroad = &job->abroad,
                                 .sample = job->sample,
                                 .block = job->block,
                                 .values = values};
    if (chain->recall.caches->exchange) {
        mr_exchange_offer_sample(chain->recall.caches->exchange, &made);
    } else {
        mr_peers_offer_sample(chain->recall.caches->peers, &made);
    }
}

void mr_recall_keep(mr_chain *chain, const mr_chain_job *job, int32_t op, const mr_view *fields) {
    mr_caches *caches = chain->recall.caches;
    int32_t c = 0;
    while (c < caches->n && caches->list[c].op != op) {
        c++;
    }
    const mr_op_node *node = caches->list[c].node;
    mr_view *values = chain->inputs;
    bool offered = is_offered(chain, job, c), claimed = chain->recall.parts[c].claimed;
    if ((!offered && !claimed) || !is_still_the_same(chain, job)) {
        return;
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        values[k] = fields[node->inputs[k]];
    }
    if (offered) {
        offer(chain, job, c, values);
    }
    if (claimed) {
        put(chain, c, values);
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
