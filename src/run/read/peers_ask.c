/* SPDX-License-Identifier: Apache-2.0 */
/* peers_ask.c - the two origins: own memory, and what others own. */
#include "run/read/peers_parts.h"

#include <stdlib.h>
#include <unistd.h>
#include "core/memory.h"

static int64_t item_of(const mr_peers *x, const mr_load *load) {
    return mr_locality_item(x->config.locality, load->dataset->number, load->block.number);
}

static mr_answer ask_memory(void *state, mr_load *load) {
    mr_peers *x = state;
    int64_t item = item_of(x, load);
    mr_answer answer = MR_ANSWER_NOT_HERE;
    if (mr_locality_owner(x->config.locality, item) != x->config.rank ||
        !mr_locality_is_kept(x->config.locality, item) ||
        !mr_extents_can_travel(load->extents, load->n_extents)) {
        return MR_ANSWER_NOT_HERE;
    }
    pthread_mutex_lock(&x->lock);
    entry *e = mr_items_find(&x->here, item);
    if (e && e->goods && mr_load_fits_goods(load, e->goods->size)) {
        mr_load_lend_goods(load, e->goods);
        answer = MR_ANSWER_HERE;
    } else if (!(e && e->goods) && !x->stopping && mr_peers_wait_here(x, item, -1, load)) {
        answer = MR_ANSWER_LATER;
    }
    pthread_mutex_unlock(&x->lock);
    return answer;
}

static bool note_ask(peer *p, int64_t item) {
    if (p->n_asks == p->room) {
        int32_t room = p->room ? 2 * p->room : 64;
        int64_t *asks = realloc(p->asks, (size_t)room * sizeof *asks);
        if (!asks) {
            return false;
        }
        p->asks = asks;
        p->room = room;
    }
    p->asks[p->n_asks++] = item;
    return true;
}

/* With the lock held. */
static bool wait_for_peer(mr_peers *x, int64_t item, int32_t owner, mr_load *load) {
    entry *e = mr_items_find(&x->wanted, item);
    if (e) {
        return mr_items_wait(e, -1, load);
    }
    e = mr_items_add(&x->wanted, item);
    if (!e || !mr_items_wait(e, -1, load) || !note_ask(&x->peers[owner], item)) {
        if (e) {
            mr_items_take_out(&x->wanted, e);
            mr_free(e->waiters);
            mr_free(e);
        }
        return false;
    }
    e->owner = owner;
    e->since = mr_peers_now();
    e->asked = mr_track_now(x->config.track);
    x->counts.asked++;
    x->has_asks = true;
    pthread_cond_signal(&x->mail);
    return true;
}

static mr_answer ask_peer(void *state, mr_load *load) {
    mr_peers *x = state;
    int64_t item = item_of(x, load);
    int32_t owner = mr_locality_owner(x->config.locality, item);
    mr_error failure = MR_ERROR_INIT;
    if (owner == x->config.rank || !mr_extents_can_travel(load->extents, load->n_extents)) {
        return MR_ANSWER_NOT_HERE;
    }
    if (mr_peers_failure(x, &failure) < 0) {
        mr_load_fail(load, failure.code, &failure);
        return MR_ANSWER_FAILED;
    }
    pthread_mutex_lock(&x->lock);
    bool later =
        !x->stopping && !x->failed && !x->peers[owner].left && wait_for_peer(x, item, owner, load);
    pthread_mutex_unlock(&x->lock);
    return later ? MR_ANSWER_LATER : MR_ANSWER_NOT_HERE;
}

/* ---- Both ---- */
static void release(void *state, mr_load *load) {
    (void)state;
    mr_goods_release(mr_goods_at(load->bytes[0].data));
}

static void stop(void *state) {
    mr_peers *x = state;
    pthread_mutex_lock(&x->lock);
    x->stopping = true;
    pthread_cond_signal(&x->mail);
    pthread_mutex_unlock(&x->lock);
}

static void end(void *state) {
    mr_peers *x = state;
    stop(x);
    pthread_mutex_lock(&x->lock);
    while (x->speaker.n > 0 && (!x->drained || x->answering > 0)) {
        pthread_mutex_unlock(&x->lock);
        usleep(200);
        pthread_mutex_lock(&x->lock);
    }
    pthread_mutex_unlock(&x->lock);
}

const mr_origin_class mr_memory_origin = {
    .name = "memory", .ask = ask_memory, .release = release, .stop = stop, .end = end};
const mr_origin_class mr_peer_origin = {
    .name = "peers", .ask = ask_peer, .release = release, .stop = stop, .end = end};
