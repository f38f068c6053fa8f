/* SPDX-License-Identifier: Apache-2.0 */
/* peers_ask.c - two origins: own memory, and what others own. The third is in peers_node.c. */
#include "run/read/peers_parts.h"

#include <stdlib.h>
#include <unistd.h>
#include "core/memory.h"
#include "run/read/exchange.h"

static int64_t item_of(const mr_peers *x, const mr_load *load) {
    return mr_locality_item(x->config.locality, load->dataset->number, load->block.number);
}

/* Samples as they are at the cache op have the names of the bytes that they were made of. */
void mr_peers_name_load(mr_peers *x, mr_load *load) {
    mr_travel travel = (mr_travel)x->config.terms.share.travel;
    if (!load->abroad.asked && mr_exchange_cache(x->config.children, load->dataset, travel)) {
        mr_exchange_name(load->extents, load->n_extents, &load->abroad);
    }
}

static mr_answer ask_memory(void *state, mr_load *load) {
    mr_peers *x = state;
    int64_t item = item_of(x, load);
    int32_t copy = mr_locality_copy_of(x->config.locality, item, x->config.rank);
    mr_answer answer = MR_ANSWER_NOT_HERE;
    if (!mr_extents_can_travel(load->extents, load->n_extents)) {
        return MR_ANSWER_NOT_HERE;
    }
    mr_peers_name_load(x, load);
    if (copy < 0 || !mr_locality_keeps(x->config.locality, item, copy)) {
        return MR_ANSWER_NOT_HERE;
    }
    pthread_mutex_lock(&x->lock);
    mr_peer_entry *e = mr_items_find(&x->here, item);
    if (e && e->goods) {
        answer = mr_load_lend_goods(load, e->goods);
    } else if (copy == 0 && !x->stopping && mr_peers_wait_here(x, item, -1, load)) {
        answer = MR_ANSWER_LATER;
    }
    pthread_mutex_unlock(&x->lock);
    return answer;
}

bool mr_peers_note_ask(mr_peers *x, int32_t rank, int64_t item) {
    peer *p = &x->peers[rank];
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
    x->has_asks = true;
    pthread_cond_signal(&x->mail);
    return true;
}

int32_t mr_peers_copy_asked(const mr_peers *x, const mr_peer_entry *e, int32_t rank) {
    int32_t copy = mr_locality_copy_of(x->config.locality, e->item, rank);
    return copy >= 0 && (e->asked_of & 1u << copy) ? copy : -1;
}

/* The owner; another where the owner has left, was asked, or is busy with much else of ours. */
static int32_t choose_copy(const mr_peers *x, int64_t item, uint32_t asked_of) {
    enum { BUSY = 64 };
    int32_t best = -1;
    int64_t least = 0;
    for (int32_t k = 0; k < mr_locality_copies(x->config.locality); k++) {
        int32_t rank = mr_locality_copy(x->config.locality, item, k);
        if (rank < 0 || rank == x->config.rank || x->peers[rank].left || (asked_of & 1u << k)) {
            continue;
        }
        if (best < 0 || x->peers[rank].open + BUSY < least) {
            best = k;
            least = x->peers[rank].open;
        }
    }
    return best;
}

bool mr_peers_ask_another(mr_peers *x, mr_peer_entry *e) {
    int32_t copy = choose_copy(x, e->item, e->asked_of);
    int32_t rank = copy < 0 ? -1 : mr_locality_copy(x->config.locality, e->item, copy);
    if (rank < 0 || !mr_peers_note_ask(x, rank, e->item)) {
        return false;
    }
    x->counts.again += e->asked_of != 0;
    e->asked_of |= 1u << copy;
    e->open |= 1u << copy;
    e->owner = rank;
    x->peers[rank].open++;
    return true;
}

void mr_peers_forget_asked(mr_peers *x, mr_peer_entry *e) {
    for (; e->open; e->open &= e->open - 1) {
        int32_t copy = __builtin_ctz(e->open);
        x->peers[mr_locality_copy(x->config.locality, e->item, copy)].open--;
    }
}

/* With the lock held. */
static bool wait_for_peer(mr_peers *x, int64_t item, mr_load *load) {
    mr_peer_entry *e = mr_items_find(&x->wanted, item);
    if (e) {
        return mr_items_wait(e, -1, load);
    }
    e = mr_items_add(&x->wanted, item);
    if (!e || !mr_items_wait(e, -1, load) || !mr_peers_ask_another(x, e)) {
        if (e) {
            mr_items_take_out(&x->wanted, e);
            mr_free(e->waiters);
            mr_free(e);
        }
        return false;
    }
    e->since = mr_peers_now();
    e->asked = mr_track_now(x->config.track);
    x->counts.asked++;
    return true;
}

/* With the lock held: what was pushed needs no question, and is taken even where it can be seen by
 * now: its owner counts what is not. What can be seen the next origin has. */
static mr_answer take_or_wait(mr_peers *x, int64_t item, int32_t owner, mr_load *load) {
    if (x->stopping || x->failed) {
        return MR_ANSWER_NOT_HERE;
    }
    goods *g = mr_pushes_take(x, item);
    if (g) {
        mr_answer answer = mr_load_lend_goods(load, g);
        mr_goods_release(g);
        return answer;
    }
    if (mr_node_sees(x, item, owner)) {
        return MR_ANSWER_NOT_HERE;
    }
    return wait_for_peer(x, item, load) ? MR_ANSWER_LATER : MR_ANSWER_NOT_HERE;
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
    mr_answer answer = take_or_wait(x, item, owner, load);
    pthread_mutex_unlock(&x->lock);
    return answer;
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
const mr_origin_class mr_peer_origin = {.name = "peers",
                                        .is_peer = true,
                                        .ask = ask_peer,
                                        .release = release,
                                        .stop = stop,
                                        .end = end};
