/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - see exchange.h. */
#include "run/read/exchange.h"

#include <fcntl.h>
#include <millrace/millrace.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/file.h"
#include "run/read/intake.h"
#include "run/threads.h"

enum {
    GROUP = 64,             /* loads that are asked for, or goods that are offered, at once */
    GROUP_BYTES = 32 << 20, /* that are expected to come */
    OFFER_BYTES = 4 << 20,  /* that go at once */
};

/* A load that is asked for, by one name or two. */
typedef struct question {
    struct question *next;
    mr_load *load;
    const mr_op_node *cache;  /* NULL: its bytes alone travel */
    uint64_t begun;           /* ticks: it was asked for */
    mr_store_key raw, sample; /* sample: at the cache */
} question;

typedef struct parked {
    struct parked *next;
    mr_goods goods;
} parked;

struct mr_exchange {
    mr_exchange_config config;
    mr_fabric *asking, *offering; /* each its thread's */
    mr_threads asker, offerer;

    pthread_mutex_t lock; /* of all below that is not atomic */
    pthread_cond_t asked, offered, sent;
    question *first_question, **last_question;
    parked *first_parked, **last_parked;
    size_t parked_bytes; /* also of those that are being sent */
    bool stopping, ended, told;
    mr_fabric_stats asking_stats, offering_stats; /* as they last were */

    double mean; /* bytes of what came; the asker's */
    _Atomic int64_t samples, dropped;
};

/* ---- Names ---- */
static mr_store_key key_of(char kind, const mr_identity *abroad) {
    const uint64_t words[3] = {(uint64_t)kind, abroad->words[0], abroad->words[1]};
    mr_hash128 hash = mr_hash(words, sizeof words);
    mr_store_key key = {{0}};
    memcpy(key.bytes, &hash, sizeof hash);
    return key;
}

/* The bytes of all extents, by their files and places. Neighbours in one file share a look. */
void mr_exchange_name(const mr_extent *extents, int32_t n, mr_identity *abroad) {
    uint64_t words[6] = {0};
    *abroad = (mr_identity){.asked = true, .known = n > 0};
    for (int32_t i = 0; abroad->known && i < n; i++) {
        const mr_extent *before = i > 0 ? &extents[i - 1] : NULL;
        if (!before || extents[i].path != before->path ||
            MR_EXTENT_FOLDER(&extents[i]) != MR_EXTENT_FOLDER(before)) {
            abroad->known = mr_extent_identity_abroad(&extents[i], &words[2]);
        }
        words[4] = (uint64_t)extents[i].offset;
        words[5] = (uint64_t)extents[i].length;
        mr_hash128 hash = mr_hash(words, sizeof words);
        words[0] = hash.low;
        words[1] = hash.high;
    }
    memcpy(abroad->words, words, sizeof abroad->words);
}

/* Files may change while they are read. */
static bool is_still_the_same(const mr_goods *goods) {
    mr_extent own, *extents = &own;
    mr_error ignored;
    mr_identity now = {.known = false};
    int32_t n = 0;
    mr_error_clear(&ignored);
    if (mr_dataset_locate(goods->dataset, goods->block, &own, 1, &extents, &n, &ignored) == MR_OK) {
        mr_exchange_name(extents, n, &now);
    }
    if (extents != &own) {
        mr_free(extents);
    }
    return now.known && memcmp(now.words, goods->abroad.words, sizeof now.words) == 0;
}

const mr_op_node *mr_exchange_cache(const mr_children *children, const mr_dataset *dataset,
                                    mr_travel travel) {
    const mr_caches *caches = &children->list[dataset->number].caches;
    const mr_cache *last = caches->n > 0 && caches->last >= 0 ? &caches->list[caches->last] : NULL;
    bool travels = travel != MR_TRAVEL_RAW && !mr_dataset_has_blocks(dataset);
    return travels && last && last->store ? last->node : NULL;
}

mr_travel mr_exchange_travel(const mr_exchange *x) {
    return x->config.travel;
}

static const mr_op_node *traveling_cache(const mr_exchange *x, const mr_dataset *dataset) {
    return mr_exchange_cache(x->config.children, dataset, x->config.travel);
}

/* ---- Spans ---- */
/* What it is about is named by its first sample, in the numbers that batches have. */
static void note(const mr_exchange *x, mr_track *track, mr_span_kind kind, uint64_t begun,
                 const mr_dataset *dataset, int64_t block, size_t size) {
    const mr_child *child = &x->config.children->list[dataset->number];
    mr_track_since(track, kind, begun, child->first_sample + mr_dataset_first_of(dataset, block),
                   MR_SPAN_NO_BATCH, size);
}

/* ---- Asking ---- */
static mr_answer ask(void *state, mr_load *load) {
    mr_exchange *x = state;
    mr_exchange_name(load->extents, load->n_extents, &load->abroad);
    question *q = load->abroad.known ? mr_zalloc(1, sizeof *q) : NULL;
    if (!q) {
        return MR_ANSWER_NOT_HERE;
    }
    q->load = load;
    q->raw = key_of('r', &load->abroad);
    q->cache = traveling_cache(x, load->dataset);
    if (q->cache) {
        q->sample = mr_exchange_key(load->dataset, q->cache, &load->abroad, load->block.first);
    }
    pthread_mutex_lock(&x->lock);
    bool open = !x->stopping;
    if (open) {
        *x->last_question = q;
        x->last_question = &q->next;
        pthread_cond_signal(&x->asked);
    }
    pthread_mutex_unlock(&x->lock);
    if (!open) {
        mr_free(q);
    }
    return open ? MR_ANSWER_LATER : MR_ANSWER_NOT_HERE;
}

/* Memory that counts. */
static bool take_bytes(mr_load *load, const mr_parcel *parcel) {
    if (!mr_load_reserve(load, parcel->size, true) || !load->buffer) {
        return false;
    }
    memcpy(load->buffer, parcel->value, parcel->size);
    return true;
}

static bool take_sample(mr_exchange *x, mr_load *load, const mr_parcel *parcel) {
    if (!parcel->done || !take_bytes(load, parcel)) {
        return false;
    }
    load->record_size = parcel->size;
    atomic_fetch_add(&x->samples, 1);
    return true;
}

/* As many bytes as the extents say. */
static bool take_raw(mr_load *load, const mr_parcel *parcel) {
    size_t total = 0;
    bool whole = load->n_extents == 1 && load->extents[0].length < 0;
    for (int32_t i = 0; !whole && i < load->n_extents; i++) {
        total += (size_t)load->extents[i].length;
    }
    bool fits = whole ? (int64_t)parcel->size <= load->extents[0].limit : total == parcel->size;
    if (!parcel->done || !fits || !take_bytes(load, parcel)) {
        return false;
    }
    if (whole) {
        load->one = (mr_bytes){load->buffer, parcel->size};
    } else {
        mr_load_lay_out(load);
    }
    return true;
}

static void answer(mr_exchange *x, question *q, mr_parcel *raw, mr_parcel *sample) {
    mr_load *load = q->load;
    size_t size = raw->size + sample->size;
    mr_answer found = take_sample(x, load, sample)     ? MR_ANSWER_KEPT
                      : take_raw(load, raw)            ? MR_ANSWER_HERE
                      : atomic_load(&load->status) < 0 ? MR_ANSWER_FAILED
                                                       : MR_ANSWER_NOT_HERE;
    if (found == MR_ANSWER_KEPT || found == MR_ANSWER_HERE) {
        note(x, x->config.asks, MR_SPAN_RECEIVE, q->begun, load->dataset, load->block.number, size);
    }
    x->mean = size > 0 ? 0.9 * x->mean + 0.1 * (double)size : x->mean;
    mr_free(raw->value);
    mr_free(sample->value);
    mr_free(q);
    mr_load_answer(load, found);
}

static mr_parcel parcel_of(const mr_store_key *key) {
    return (mr_parcel){.key = key->bytes, .key_size = MR_KEY_BYTES};
}

/* One round trip for all of them. Without memory they are not here. */
static void ask_group(mr_exchange *x, question *const *group, int32_t n) {
    mr_parcel parcels[2 * GROUP], nothing = {.done = false};
    mr_error ignored = MR_ERROR_INIT;
    int32_t all = n;
    const uint64_t begun = mr_track_now(x->config.asks);
    for (int32_t i = 0; i < n; i++) {
        group[i]->begun = begun;
        parcels[i] = parcel_of(&group[i]->raw);
        if (group[i]->cache) {
            parcels[all++] = parcel_of(&group[i]->sample);
        }
    }
    mr_fabric_get(x->asking, parcels, all, &ignored);
    pthread_mutex_lock(&x->lock);
    mr_fabric_stats_now(x->asking, &x->asking_stats);
    pthread_mutex_unlock(&x->lock);
    for (int32_t i = 0, sample = n; i < n; i++) {
        answer(x, group[i], &parcels[i], group[i]->cache ? &parcels[sample++] : &nothing);
    }
}

/* As many as are there, but not more than what is likely to come may take. 0: the end. */
static int32_t take_questions(mr_exchange *x, question **group) {
    int32_t n = 0, most = (int32_t)(GROUP_BYTES / (x->mean + 1));
    most = most < 1 ? 1 : most < GROUP ? most : GROUP;
    pthread_mutex_lock(&x->lock);
    while (!x->first_question && !x->stopping) {
        pthread_cond_wait(&x->asked, &x->lock);
    }
    while (n < most && x->first_question) {
        group[n++] = x->first_question;
        x->first_question = x->first_question->next;
    }
    x->last_question = x->first_question ? x->last_question : &x->first_question;
    pthread_mutex_unlock(&x->lock);
    return n;
}

static bool is_stopping(mr_exchange *x) {
    pthread_mutex_lock(&x->lock);
    bool stopping = x->stopping;
    pthread_mutex_unlock(&x->lock);
    return stopping;
}

static void *asker_main(void *context) {
    mr_exchange *x = context;
    question *group[GROUP];
    int32_t n;
    mr_track_attach(x->config.asks);
    while ((n = take_questions(x, group)) > 0) {
        if (!is_stopping(x)) {
            ask_group(x, group, n);
            continue;
        }
        for (int32_t i = 0; i < n; i++) {
            mr_load *load = group[i]->load;
            mr_free(group[i]);
            mr_load_answer(load, MR_ANSWER_NOT_HERE);
        }
    }
    mr_track_detach(x->config.asks);
    return NULL;
}

/* ---- Offering ---- */
bool mr_exchange_has_room(mr_exchange *x, size_t size) {
    pthread_mutex_lock(&x->lock);
    bool room = x->parked_bytes + size <= MR_EXCHANGE_BYTES && !x->stopping;
    pthread_mutex_unlock(&x->lock);
    atomic_fetch_add(&x->dropped, !room);
    return room;
}

void mr_exchange_offer(mr_exchange *x, const mr_goods *goods) {
    parked *p = mr_zalloc(1, sizeof *p);
    if (!p) {
        mr_free(goods->value);
        return;
    }
    p->goods = *goods;
    pthread_mutex_lock(&x->lock);
    *x->last_parked = p;
    x->last_parked = &p->next;
    x->parked_bytes += goods->size;
    pthread_cond_signal(&x->offered);
    pthread_mutex_unlock(&x->lock);
}

void mr_exchange_offer_bytes(mr_exchange *x, const mr_dataset *dataset, const mr_block *block,
                             const mr_identity *abroad) {
    mr_goods goods = {.size = mr_block_bytes(block),
                      .dataset = dataset,
                      .block = block->number,
                      .abroad = *abroad};
    if (!abroad->known || !mr_exchange_has_room(x, goods.size)) {
        return;
    }
    unsigned char *to = malloc(goods.size > 0 ? goods.size : 1);
    goods.value = to;
    if (!to) {
        return;
    }
    for (int32_t i = 0; i < block->n_bytes; i++) {
        memcpy(to, block->bytes[i].data, block->bytes[i].size);
        to += block->bytes[i].size;
    }
    const mr_store_key key = key_of('r', abroad);
    memcpy(goods.key, key.bytes, sizeof goods.key);
    mr_exchange_offer(x, &goods);
}

/* Of samples that travel as they are at a cache, or as bytes, whoever makes them decides. */
static void offer(void *state, const mr_load *load) {
    mr_exchange *x = state;
    if (!traveling_cache(x, load->dataset)) {
        mr_exchange_offer_bytes(x, load->dataset, &load->block, &load->abroad);
    }
}

static parked *take_parked(mr_exchange *x) {
    pthread_mutex_lock(&x->lock);
    while (!x->first_parked && !x->ended) {
        pthread_cond_wait(&x->offered, &x->lock);
    }
    parked *list = x->first_parked, **end = &list;
    size_t size = 0;
    for (int32_t n = 0; *end && n < GROUP && (n == 0 || size < OFFER_BYTES); n++) {
        size += (*end)->goods.size;
        end = &(*end)->next;
    }
    x->first_parked = *end;
    *end = NULL;
    x->last_parked = x->first_parked ? x->last_parked : &x->first_parked;
    pthread_mutex_unlock(&x->lock);
    return list;
}

static mr_parcel parcel_with(const mr_goods *goods) {
    return (mr_parcel){
        .key = goods->key, .key_size = MR_KEY_BYTES, .value = goods->value, .size = goods->size};
}

static void send_all(mr_exchange *x, const parked *list) {
    mr_parcel parcels[GROUP];
    const mr_goods *of[GROUP];
    mr_error ignored = MR_ERROR_INIT;
    int32_t n = 0;
    for (const parked *p = list; p; p = p->next) {
        if (is_still_the_same(&p->goods)) {
            of[n] = &p->goods;
            parcels[n++] = parcel_with(&p->goods);
        }
    }
    const uint64_t begun = mr_track_now(x->config.offers);
    mr_fabric_put(x->offering, parcels, n, &ignored);
    for (int32_t i = 0; i < n; i++) {
        if (parcels[i].done) {
            note(x, x->config.offers, MR_SPAN_SEND, begun, of[i]->dataset, of[i]->block,
                 of[i]->size);
        }
    }
}

static void forget(mr_exchange *x, parked *list) {
    size_t size = 0;
    while (list) {
        parked *next = list->next;
        size += list->goods.size;
        mr_free(list->goods.value);
        mr_free(list);
        list = next;
    }
    pthread_mutex_lock(&x->lock);
    x->parked_bytes -= size;
    if (x->offering) {
        mr_fabric_stats_now(x->offering, &x->offering_stats);
    }
    pthread_cond_broadcast(&x->sent);
    pthread_mutex_unlock(&x->lock);
}

static void *offerer_main(void *context) {
    mr_exchange *x = context;
    parked *list;
    mr_track_attach(x->config.offers);
    while ((list = take_parked(x)) != NULL) {
        send_all(x, list);
        forget(x, list);
    }
    mr_track_detach(x->config.offers);
    return NULL;
}

/* Every exchange ends in bounded time, so this does too; but only while something goes out. */
void mr_exchange_flush(mr_exchange *x) {
    pthread_mutex_lock(&x->lock);
    while (x->first_parked || x->parked_bytes > 0) {
        pthread_cond_wait(&x->sent, &x->lock);
    }
    pthread_mutex_unlock(&x->lock);
}

/* ---- Opening, ending ---- */
static void stop(void *state) {
    mr_exchange *x = state;
    pthread_mutex_lock(&x->lock);
    x->stopping = true;
    pthread_cond_broadcast(&x->asked);
    pthread_mutex_unlock(&x->lock);
}

static void end(void *state) {
    mr_exchange *x = state;
    stop(x);
    mr_threads_join(&x->asker);
}

static mr_status open_parts(mr_exchange *x, mr_error *err) {
    const mr_fabric_config config = {
        .size = (uint32_t)sizeof config, .url = x->config.url, .space = "run"};
    MR_TRY(mr_fabric_open(&x->asking, &config, err));
    MR_TRY(mr_fabric_open(&x->offering, &config, err));
    x->asking_stats.size = (uint32_t)sizeof x->asking_stats;
    x->offering_stats.size = (uint32_t)sizeof x->offering_stats;
    mr_fabric_stats_now(x->asking, &x->asking_stats);
    MR_TRY(mr_threads_start(&x->asker, 1, "mr-ask", asker_main, x, 0, err));
    return mr_threads_start(&x->offerer, 1, "mr-offer", offerer_main, x, 0, err);
}

mr_status mr_exchange_open(mr_exchange **out, const mr_exchange_config *config, mr_error *err) {
    mr_exchange *x = mr_zalloc(1, sizeof *x);
    if (!x) {
        return mr_fail_memory(err, sizeof *x);
    }
    x->config = *config;
    x->mean = 1 << 17;
    x->last_question = &x->first_question;
    x->last_parked = &x->first_parked;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->asked, NULL);
    pthread_cond_init(&x->offered, NULL);
    pthread_cond_init(&x->sent, NULL);
    mr_status status = open_parts(x, err);
    if (status < 0) {
        mr_exchange_close(x);
        return status;
    }
    *out = x;
    return MR_OK;
}

void mr_exchange_end(mr_exchange *x) {
    end(x);
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    pthread_cond_broadcast(&x->offered);
    pthread_mutex_unlock(&x->lock);
    mr_threads_join(&x->offerer);
}

void mr_exchange_close(mr_exchange *x) {
    if (!x) {
        return;
    }
    mr_exchange_end(x);
    forget(x, x->first_parked); /* where the thread was never there */
    mr_fabric_close(x->asking);
    mr_fabric_close(x->offering);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->asked);
    pthread_cond_destroy(&x->offered);
    pthread_cond_destroy(&x->sent);
    mr_free(x);
}

/* ---- Figures ---- */
void mr_exchange_counts_get(mr_exchange *x, mr_exchange_counts *out) {
    pthread_mutex_lock(&x->lock);
    *out = (mr_exchange_counts){.asking = x->asking_stats,
                                .offering = x->offering_stats,
                                .samples = atomic_load(&x->samples),
                                .dropped = atomic_load(&x->dropped)};
    pthread_mutex_unlock(&x->lock);
}

bool mr_exchange_trouble(mr_exchange *x, char *text, size_t size) {
    pthread_mutex_lock(&x->lock);
    const char *trouble =
        x->asking_stats.trouble[0] ? x->asking_stats.trouble : x->offering_stats.trouble;
    bool tell = !x->told && trouble[0];
    if (tell) {
        x->told = true;
        snprintf(text, size, "the fabric: %s; what it lacks is read and made here", trouble);
    }
    pthread_mutex_unlock(&x->lock);
    return tell;
}

const mr_origin_class mr_fabric_origin = {
    .name = "fabric", .is_peer = true, .ask = ask, .offer = offer, .stop = stop, .end = end};
