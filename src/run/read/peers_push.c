/* SPDX-License-Identifier: Apache-2.0 */
/* peers_push.c - what is sent before it is asked for, because the plan says that it will be.
 *
 * The owner has a promise for each item that it foresees another rank to ask for:
 *
 *     due ----> pushed ----> over, when the other rank has taken it
 *      '-- asked for before it could be pushed: sent as an answer, and over
 *     early: asked for before it was foreseen here (the other rank is ahead); over when foreseen
 *
 * each as often as the item is needed in the steps that are foreseen. A question for what is pushed
 * is not answered: the item is on its way. So for each item that was pushed to it a rank says once,
 * before it asks for it again, that it has let go of it (~item): it was needed, or had been asked
 * for, or was not wanted. Questions and such words travel in one order; where there was no memory
 * for such a word, questions insist on answers from then on.
 *
 * Bytes that are pushed and not taken are bounded by the window, and the receiver takes no more. A
 * promise that is not kept costs speed alone: what has not come is asked for. */
#include "run/read/peers_parts.h"

#include "core/memory.h"

enum { DUE = 1, PUSHED, EARLY, OVER /* and still in line */ };
enum { MOST_PROMISES = 1 << 16 }; /* for a rank */

static bool fits(int64_t used, size_t size, int64_t window) {
    return used == 0 || used + (int64_t)size <= window;
}

/* Who sees all that is kept here is sent nothing. */
bool mr_peers_pushes_to(const mr_peers *x, int32_t rank) {
    return rank != x->config.rank && x->window > 0 &&
           (!atomic_load(&x->peers[rank].sees) || atomic_load(&x->is_partial));
}

bool mr_peers_pushes(const mr_peers *x) {
    bool any = false;
    for (int32_t r = 0; !any && r < x->config.world; r++) {
        any = mr_peers_pushes_to(x, r);
    }
    return any;
}

/* ---- The owner: with the lock held ---- */
static mr_peer_entry *promise(peer *p, int64_t item, uint32_t state) {
    mr_peer_entry *e = p->promises.n < MOST_PROMISES ? mr_items_add(&p->promises, item) : NULL;
    if (e) {
        e->promise = state;
        e->times = 1;
    }
    return e;
}

static void put_in_line(peer *p, mr_peer_entry *e) {
    p->last_due = p->first_due ? p->last_due : &p->first_due;
    *p->last_due = e;
    p->last_due = &e->next_job;
    e->is_in_line = true;
}

static void leave_line(peer *p) {
    mr_peer_entry *e = p->first_due;
    p->first_due = e->next_job;
    e->next_job = NULL;
    e->is_in_line = false;
    if (e->promise == OVER) {
        mr_free(e);
    }
}

static void make_due(mr_peers *x, peer *p, mr_peer_entry *e) {
    e->promise = DUE;
    x->has_due = true;
    if (!e->is_in_line) {
        put_in_line(p, e);
    }
}

static void end_promise(peer *p, mr_peer_entry *e) {
    mr_items_take_out(&p->promises, e);
    e->promise = OVER;
    if (!e->is_in_line) {
        mr_free(e);
    }
}

/* One of its times is over: it was asked for, or foreseen, or taken. */
static void pass(mr_peers *x, peer *p, mr_peer_entry *e) {
    if (e->promise == PUSHED) {
        p->pushed -= (int64_t)e->size;
        x->has_due = x->has_due || p->first_due;
    }
    if (--e->times > 0) {
        if (e->promise != EARLY) {
            make_due(x, p, e);
        }
        return;
    }
    end_promise(p, e);
}

/* What the other rank can see it neither asks for nor takes: a promise of it would never be over.
 */
static bool is_seen_by(const mr_peers *x, const peer *p, int64_t item) {
    const mr_peer_entry *kept = atomic_load(&p->sees) ? mr_items_find(&x->here, item) : NULL;
    return kept && kept->goods && kept->goods->is_common;
}

static void foresee(mr_peers *x, int32_t rank, int64_t item) {
    peer *p = &x->peers[rank];
    mr_peer_entry *e = mr_items_find(&p->promises, item);
    bool is_seen = is_seen_by(x, p, item);
    if (is_seen && e && e->promise != PUSHED) {
        end_promise(p, e);
    } else if (e && e->promise == EARLY) {
        pass(x, p, e);
    } else if (e) {
        e->times++;
    } else if (!is_seen && (e = promise(p, item, DUE)) != NULL) {
        make_due(x, p, e);
    }
}

/* What it keeps a copy of itself it asks for once. */
static bool is_ours_to_push(const mr_peers *x, int32_t rank, int64_t item) {
    const mr_locality *l = x->config.locality;
    return mr_locality_owner(l, item) == x->config.rank && mr_locality_is_kept(l, item) &&
           mr_locality_copy_of(l, item, rank) < 0;
}

void mr_peers_foresee(mr_peers *x, int32_t rank, const int64_t *items, int64_t n) {
    pthread_mutex_lock(&x->lock);
    for (int64_t i = 0; i < n && !x->stopping && !x->peers[rank].left; i++) {
        if (is_ours_to_push(x, rank, items[i])) {
            foresee(x, rank, items[i]);
        }
    }
    if (x->has_due) {
        pthread_cond_signal(&x->mail);
    }
    pthread_mutex_unlock(&x->lock);
}

/* What is not in memory yet is left to be asked for. */
static bool push_to(mr_peers *x, int32_t rank) {
    peer *p = &x->peers[rank];
    while (p->first_due) {
        mr_peer_entry *e = p->first_due;
        const mr_peer_entry *kept = e->promise == DUE ? mr_items_find(&x->here, e->item) : NULL;
        goods *g = kept ? kept->goods : NULL;
        bool is_seen = is_seen_by(x, p, e->item);
        if (g && !is_seen && !fits(p->pushed, g->size, x->window)) {
            return false;
        }
        bool posted = g && !is_seen && mr_letters_post_goods(x, rank, PUSH, e->item, g);
        if (posted) {
            e->promise = PUSHED;
            e->size = g->size;
            p->pushed += (int64_t)g->size;
        }
        if (is_seen && e->promise == DUE) {
            end_promise(p, e);
        }
        leave_line(p);
        if (posted) {
            return true;
        }
    }
    return false;
}

bool mr_pushes_post_next(mr_peers *x) {
    int32_t world = x->config.world;
    bool posted = false;
    for (int32_t i = 0; x->has_due && !posted && i < world; i++) {
        posted = push_to(x, x->next_push);
        x->next_push = (x->next_push + 1) % world;
    }
    x->has_due = posted;
    return posted;
}

bool mr_pushes_asked(mr_peers *x, int64_t item, int32_t by, bool insists) {
    peer *p = &x->peers[by];
    mr_peer_entry *e = mr_items_find(&p->promises, item);
    bool is_under_way = e && e->promise == PUSHED && !insists;
    if (e && e->promise == EARLY) {
        e->times++;
    } else if (e && !is_under_way) {
        pass(x, p, e);
    } else if (!e && x->config.foresees && mr_peers_pushes_to(x, by) &&
               is_ours_to_push(x, by, item) && !is_seen_by(x, p, item)) {
        (void)promise(p, item, EARLY);
    }
    return is_under_way;
}

void mr_pushes_taken(mr_peers *x, int64_t item, int32_t by) {
    peer *p = &x->peers[by];
    mr_peer_entry *e = mr_items_find(&p->promises, item);
    x->asked_at = mr_peers_now();
    if (e && e->promise == PUSHED) {
        pass(x, p, e);
    }
}

void mr_pushes_free(mr_peers *x) {
    for (int32_t r = 0; x->peers && r < x->config.world; r++) {
        while (x->peers[r].first_due) {
            leave_line(&x->peers[r]);
        }
        mr_items_free(&x->peers[r].promises);
    }
}

/* ---- The other side: with the lock held ---- */
bool mr_pushes_park(mr_peers *x, int64_t item, int32_t from, goods *g) {
    peer *p = &x->peers[from];
    bool welcome =
        !x->stopping && !x->failed && item >= 0 && item < mr_locality_items(x->config.locality) &&
        mr_locality_owner(x->config.locality, item) == from && !mr_items_find(&x->came, item) &&
        fits(p->parked, g->size, x->window) && !mr_node_sees(x, item, from);
    mr_peer_entry *e = welcome ? mr_items_add(&x->came, item) : NULL;
    if (e) {
        e->goods = g;
        e->owner = from;
        atomic_fetch_add(&g->references, 1);
        p->parked += (int64_t)g->size;
    }
    return e != NULL;
}

void mr_pushes_let_go(mr_peers *x, int64_t item, int32_t from) {
    x->peers[from].insists = !mr_peers_note_ask(x, from, ~item) || x->peers[from].insists;
}

goods *mr_pushes_take(mr_peers *x, int64_t item) {
    mr_peer_entry *e = mr_items_find(&x->came, item);
    goods *g = e ? e->goods : NULL;
    if (e) {
        mr_items_take_out(&x->came, e);
        x->peers[e->owner].parked -= (int64_t)g->size;
        x->counts.asked++;
        x->counts.found++;
        x->counts.pushed++;
        x->counts.samples += g->form == RECORD;
        mr_pushes_let_go(x, item, e->owner);
        mr_free(e);
    }
    return g;
}
