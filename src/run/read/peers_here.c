/* SPDX-License-Identifier: Apache-2.0 */
/* peers_here.c - what is owned here: read when somebody needs it for the first time, and kept where
 * the plan says so. */
#include "run/read/peers_parts.h"

#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>
#include "core/error.h"
#include "core/memory.h"
#include "io/file.h"

/* With the lock held. False: no memory. */
bool mr_peers_wait_here(mr_peers *x, int64_t item, int32_t from, mr_load *load) {
    mr_peer_entry *e = mr_items_find(&x->here, item);
    bool is_new = !e;
    e = e ? e : mr_items_add(&x->here, item);
    if (!e || !mr_items_wait(e, from, load)) {
        if (e && is_new) {
            mr_items_take_out(&x->here, e);
            mr_free(e);
        }
        return false;
    }
    if (is_new) {
        *x->last_job = e;
        x->last_job = &e->next_job;
        pthread_cond_signal(&x->jobs);
    }
    return true;
}

void mr_peers_serve(mr_peers *x, int64_t item, int32_t from, bool insists) {
    bool known = item >= 0 && item < mr_locality_items(x->config.locality);
    int32_t copy = known ? mr_locality_copy_of(x->config.locality, item, x->config.rank) : -1;
    pthread_mutex_lock(&x->lock);
    mr_peer_entry *e = copy >= 0 ? mr_items_find(&x->here, item) : NULL;
    x->asked_at = mr_peers_now();
    if (copy == 0 && mr_pushes_asked(x, item, from, insists)) {
        /* the answer is what was pushed */
    } else if (e && e->goods) {
        mr_letters_post_goods(x, from, GIVE, item, e->goods);
    } else if (copy != 0 || x->leaving || !mr_peers_wait_here(x, item, from, NULL)) {
        mr_letters_post_word(x, from, NOT_HERE, item);
    }
    pthread_mutex_unlock(&x->lock);
}

static mr_status measure(const mr_dataset *dataset, const mr_extent *extents, int32_t n,
                         size_t *total, mr_error *err) {
    *total = 0;
    for (int32_t i = 0; i < n; i++) {
        mr_open_extent open;
        MR_TRY(mr_extent_open_within(&extents[i], &dataset->limits, &open, err));
        mr_extent_close(&open);
        *total += open.size;
    }
    return MR_OK;
}

static mr_status read_extents(const mr_dataset *dataset, const mr_extent *extents, int32_t n,
                              goods *g, mr_error *err) {
    char *at = mr_goods_bytes(g), *end = at + g->size;
    for (int32_t i = 0; i < n; i++) {
        mr_open_extent open;
        MR_TRY(mr_extent_open_within(&extents[i], &dataset->limits, &open, err));
        mr_status status = open.size <= (size_t)(end - at)
                               ? mr_extent_read(&open, at, err)
                               : mr_fail(err, MR_E_CORRUPT, "the file has grown");
        mr_extent_close(&open);
        MR_TRY(status);
        at += open.size;
    }
    return at == end ? MR_OK : mr_fail(err, MR_E_CORRUPT, "the file has shrunk");
}

/* For an item that is read: where others see it, if it is to stay. */
static goods *make_room(mr_peers *x, int64_t item, size_t size) {
    goods *common = mr_locality_is_kept(x->config.locality, item) && mr_node_may_show(x, item, RAW)
                        ? mr_node_take(x, size)
                        : NULL;
    goods *g = common ? common : malloc(ROOM + size);
    if (g) {
        *g = (goods){.references = 1, .form = RAW, .is_common = common != NULL, .size = size};
    }
    return g;
}

/* NULL: whoever needs it reads the file, and tells what is wrong with it. */
static goods *read_goods(mr_peers *x, int64_t item, const mr_dataset *dataset, int64_t block) {
    mr_extent own[4], *extents = own;
    mr_error ignored = MR_ERROR_INIT;
    int32_t n = 0;
    size_t size = 0;
    goods *g = NULL;
    if (mr_dataset_locate(dataset, block, own, 4, &extents, &n, &ignored) == MR_OK &&
        mr_extents_can_travel(extents, n) &&
        measure(dataset, extents, n, &size, &ignored) == MR_OK) {
        g = make_room(x, item, size);
    }
    if (g) {
        if (read_extents(dataset, extents, n, g, &ignored) < 0) {
            mr_node_drop(x, g);
            g = NULL;
        } else {
            g->hash = mr_hash(mr_goods_bytes(g), size);
        }
    }
    if (extents != own) {
        mr_free(extents);
    }
    return g;
}

static goods *read_item(mr_peers *x, int64_t item) {
    int32_t child;
    int64_t block;
    mr_locality_split(x->config.locality, item, &child, &block);
    const mr_dataset *dataset = &x->config.children->list[child].dataset;
    return mr_dataset_is_read(dataset) ? read_goods(x, item, dataset, block) : NULL;
}

/* What nobody keeps goes when it was sent. */
static void settle_job(mr_peers *x, mr_peer_entry *e, goods *g) {
    bool kept = g && mr_locality_is_kept(x->config.locality, e->item);
    int64_t item = e->item;
    pthread_mutex_lock(&x->lock);
    waiter *list = e->waiters;
    e->waiters = NULL;
    if (g) {
        x->counts.reads++;
        x->counts.bytes_read += (int64_t)g->size;
    }
    if (kept) {
        e->goods = g;
        atomic_fetch_add(&g->references, 1);
        mr_node_show(x, item, g);
        x->counts.kept++;
        x->counts.bytes_kept += (int64_t)g->size;
    } else {
        mr_items_take_out(&x->here, e);
        mr_free(e);
    }
    mr_peers_begin_answering(x);
    pthread_mutex_unlock(&x->lock);
    mr_peers_answer(x, item, list, g, NULL);
    mr_goods_release(g);
    mr_peers_end_answering(x);
}

static mr_peer_entry *take_job(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    while (!x->first_job && !x->ended) {
        pthread_cond_wait(&x->jobs, &x->lock);
    }
    mr_peer_entry *e = x->first_job;
    if (e) {
        x->first_job = e->next_job;
        e->next_job = NULL;
        x->last_job = x->first_job ? x->last_job : &x->first_job;
    }
    pthread_mutex_unlock(&x->lock);
    return e;
}

void *mr_peers_reader_main(void *context) {
    mr_peers *x = context;
    mr_peer_entry *e;
    while ((e = take_job(x)) != NULL) {
        settle_job(x, e, read_item(x, e->item));
    }
    return NULL;
}

/* ---- Samples as they are at the cache op, and copies ---- */
bool mr_peers_wants_record(const mr_peers *x, int64_t item, size_t size, size_t raw) {
    int32_t travel = x->config.terms.share.travel;
    return item >= 0 && item < mr_locality_items(x->config.locality) &&
           mr_locality_is_kept(x->config.locality, item) && travel != MR_TRAVEL_RAW &&
           (travel == MR_TRAVEL_PREPARED || size < raw);
}

/* With the lock held. False: what is being read is left alone, its reader puts it where it belongs.
 */
static bool put_here(mr_peers *x, int64_t item, goods *g) {
    mr_peer_entry *e = mr_items_find(&x->here, item);
    bool is_new = !e;
    e = e ? e : mr_items_add(&x->here, item);
    if (!e || (!is_new && !e->goods)) {
        return false;
    }
    x->counts.kept += is_new;
    x->counts.bytes_kept += (int64_t)g->size - (e->goods ? (int64_t)e->goods->size : 0);
    mr_goods_release(e->goods);
    e->goods = g;
    atomic_fetch_add(&g->references, 1);
    return true;
}

static size_t size_here(const mr_peers *x, int64_t item) {
    const mr_peer_entry *e = mr_items_find(&x->here, item);
    bool is_raw = e && e->goods && e->goods->form == RAW;
    return is_raw ? e->goods->size : e && e->goods ? 0 : SIZE_MAX;
}

/* Where others see it, if there is room. The caller's. It copies, so no lock is held. */
static goods *show_record(mr_peers *x, int64_t item, goods *g) {
    goods *common = mr_node_may_show(x, item, RECORD) ? mr_node_take(x, g->size) : NULL;
    if (!common) {
        atomic_fetch_add(&g->references, 1);
        return g;
    }
    *common = (goods){
        .references = 1, .form = RECORD, .is_common = true, .size = g->size, .hash = g->hash};
    memcpy(mr_goods_bytes(common), mr_goods_bytes(g), g->size);
    return common;
}

/* With the lock held. */
static bool wants_record_now(mr_peers *x, int64_t item, const goods *g) {
    const mr_peer_entry *e = mr_items_find(&x->here, item);
    size_t raw = e && !e->goods ? 0 : size_here(x, item); /* being read, or there is one: 0 */
    return raw > 0 && mr_peers_wants_record(x, item, g->size, raw) &&
           mr_locality_owner(x->config.locality, item) == x->config.rank;
}

static bool wants_record(mr_peers *x, int64_t item, const goods *g) {
    pthread_mutex_lock(&x->lock);
    bool wanted = wants_record_now(x, item, g);
    pthread_mutex_unlock(&x->lock);
    return wanted;
}

/* Another thread may have kept it in the meantime. */
void mr_peers_keep_record(mr_peers *x, int64_t item, goods *g) {
    if (!wants_record(x, item, g)) {
        return;
    }
    goods *shown = show_record(x, item, g);
    pthread_mutex_lock(&x->lock);
    bool kept = wants_record_now(x, item, g) && put_here(x, item, shown);
    if (kept) {
        mr_node_show(x, item, shown);
    }
    pthread_mutex_unlock(&x->lock);
    if (!kept && shown != g) {
        mr_node_drop(x, shown);
    } else {
        mr_goods_release(shown);
    }
}

void mr_peers_keep_copy(mr_peers *x, int64_t item, goods *g) {
    int32_t copy = mr_locality_copy_of(x->config.locality, item, x->config.rank);
    if (copy > 0 && mr_locality_keeps(x->config.locality, item, copy)) {
        pthread_mutex_lock(&x->lock);
        (void)put_here(x, item, g);
        pthread_mutex_unlock(&x->lock);
    }
}
