/* SPDX-License-Identifier: Apache-2.0 */
/* peers_speak.c - the thread that speaks with the other ranks, the only one that uses the link. */
#include "run/read/peers_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <millrace/millrace.h>
#include "core/error.h"
#include "core/memory.h"

enum { EVENTS = 64 };
static const double CHECK_SECONDS = 0.2, BEAT_SECONDS = 1, LEAVE_SECONDS = 10;

/* ---- What goes out ---- */
/* With the lock held: one letter for all that is asked of a peer. */
static void post_asks(mr_peers *x) {
    for (int32_t r = 0; x->has_asks && r < x->config.world; r++) {
        peer *p = &x->peers[r];
        for (int32_t first = 0, n; first < p->n_asks; first += n) {
            n = p->n_asks - first < MOST_ASKED ? p->n_asks - first : MOST_ASKED;
            size_t size = (size_t)n * sizeof *p->asks;
            void *body = p->left ? NULL : malloc(size);
            head h = {.magic = MAGIC, .kind = ASK, .insists = p->insists};
            if (body) {
                memcpy(body, p->asks + first, size);
                const mr_hash128 hash = mr_hash(body, size);
                h.hash[0] = hash.low;
                h.hash[1] = hash.high;
            }
            if (!p->left && (!body || !mr_letters_post(x, r, &h, body, size, NULL))) {
                free(body);
                memmove(p->asks, p->asks + first, (size_t)(p->n_asks - first) * sizeof *p->asks);
                p->n_asks -= first;
                x->is_short = true;
                return; /* asked again with what follows */
            }
        }
        p->n_asks = 0;
    }
    x->has_asks = x->is_short = false;
}

/* Of goods. */
static bool may_send(const mr_peers *x, const letter *l) {
    bool fits_in = x->in_flight == 0 || x->in_flight + (int64_t)l->message.size <= x->max_in_flight;
    return fits_in && (x->rate <= 0 || mr_peers_now() >= x->paid_until);
}

/* With the lock held. Words first, then what is asked for, then what will be. */
static letter *choose_letter(mr_peers *x) {
    if (x->words.first) {
        return mr_letters_take(&x->words);
    }
    if (!x->parcels.first) {
        (void)mr_pushes_post_next(x);
    }
    return x->parcels.first && may_send(x, x->parcels.first) ? mr_letters_take(&x->parcels) : NULL;
}

static letter *take_letter(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    mr_letters_post_unsaid(x);
    post_asks(x);
    letter *l = choose_letter(x);
    x->in_flight += l ? (int64_t)l->message.size : 0;
    pthread_mutex_unlock(&x->lock);
    return l;
}

static void pay(mr_peers *x, const letter *l) {
    if (x->rate > 0 && l->goods) {
        double from = x->paid_until > mr_peers_now() ? x->paid_until : mr_peers_now();
        x->paid_until = from + (double)l->message.size / x->rate;
    }
}

static void lose(mr_peers *x, int32_t who, const char *why);

static bool send_letters(mr_peers *x) {
    char why[MR_LINK_WHY];
    letter *l;
    bool any = false;
    while ((l = take_letter(x)) != NULL) {
        any = true;
        pay(x, l);
        l->sent = mr_track_now(x->config.track);
        if (!x->module.class->send(x->link, &l->message, why)) {
            lose(x, l->message.peer, why);
            return true;
        }
    }
    return any;
}

/* The first sample of an item, in the numbers that batches have. */
static int64_t sample_of(const mr_peers *x, int64_t item) {
    int32_t child;
    int64_t number;
    mr_locality_split(x->config.locality, item, &child, &number);
    const mr_child *own = &x->config.children->list[child];
    return own->first_sample + mr_dataset_first_of(&own->dataset, number);
}

static void forget_letter(mr_peers *x, letter *l) {
    head h;
    memcpy(&h, l->message.head, sizeof h);
    if (h.kind == GIVE || h.kind == PUSH) {
        mr_track_since(x->config.track, MR_SPAN_SEND, l->sent, sample_of(x, h.item),
                       MR_SPAN_NO_BATCH, l->message.size);
    }
    pthread_mutex_lock(&x->lock);
    x->in_flight -= (int64_t)l->message.size;
    x->offered -= h.kind == KEEP ? (int64_t)l->message.size : 0;
    mr_letters_end(x, l);
    pthread_mutex_unlock(&x->lock);
}

/* ---- What comes in ---- */
/* With the lock held: a rank that was asked does not have it. False: another has been asked, or
 * will still answer. */
static bool is_hopeless_without(mr_peers *x, mr_peer_entry *e, int32_t rank) {
    int32_t copy = mr_peers_copy_asked(x, e, rank);
    if (copy < 0 || !(e->open & 1u << copy)) {
        return false;
    }
    e->open &= ~(1u << copy);
    x->peers[rank].open--;
    return !mr_peers_ask_another(x, e) && e->open == 0;
}

/* Everybody who waits for a peer (-1: for any). With `failure` the bytes never come. */
static void give_up(mr_peers *x, int32_t who, const mr_error *failure) {
    mr_peer_entry *list = NULL;
    pthread_mutex_lock(&x->lock);
    for (size_t i = 0; x->wanted.cells && i <= x->wanted.mask; i++) {
        for (mr_peer_entry *e = x->wanted.cells[i], *next; e; e = next) {
            next = e->next;
            if (who < 0 || is_hopeless_without(x, e, who)) {
                mr_peers_forget_asked(x, e);
                mr_items_take_out(&x->wanted, e);
                e->next_job = list;
                list = e;
            }
        }
    }
    mr_peers_begin_answering(x);
    pthread_mutex_unlock(&x->lock);
    while (list) {
        mr_peer_entry *next = list->next_job;
        mr_peers_answer(x, list->item, list->waiters, NULL, failure);
        mr_free(list);
        list = next;
    }
    mr_peers_end_answering(x);
}

static void lose(mr_peers *x, int32_t who, const char *why) {
    mr_error failure = MR_ERROR_INIT;
    if (who >= 0) {
        const peer *p = &x->peers[who];
        mr_fail(&failure, MR_E_IO, "rank %d (process %lld on %s) is gone: %s", (int)who,
                (long long)p->process.pid, p->host, why);
    } else {
        mr_fail(&failure, MR_E_IO, "the other ranks cannot be reached: %s", why);
    }
    failure.sys = ECONNRESET; /* no sample's fault: nothing is skipped for it */
    mr_hint(&failure, "go on from the saved state, with as many ranks as there are");
    pthread_mutex_lock(&x->lock);
    bool first = !x->failed;
    if (first) {
        x->failure = failure;
        x->failed = true;
    }
    for (int32_t r = 0; first && who >= 0 && r < x->config.world; r++) {
        if (r != x->config.rank && r != who) {
            mr_letters_post_word(x, r, LOST,
                                 who); /* or they would take us for the one that was lost */
        }
    }
    pthread_mutex_unlock(&x->lock);
    if (first) {
        give_up(x, -1, &failure);
    }
}

/* NULL: nobody asked this rank, or not any more; or (not here) another may have it. */
static mr_peer_entry *take_wanted(mr_peers *x, int64_t item, int32_t from, bool is_here) {
    pthread_mutex_lock(&x->lock);
    mr_peer_entry *e = mr_items_find(&x->wanted, item);
    bool asked = e && mr_peers_copy_asked(x, e, from) >= 0;
    if (asked && (is_here || is_hopeless_without(x, e, from))) {
        mr_peers_forget_asked(x, e);
        mr_items_take_out(&x->wanted, e);
        mr_peers_begin_answering(x);
    } else {
        e = NULL;
    }
    pthread_mutex_unlock(&x->lock);
    return e;
}

/* The message's memory becomes the goods. NULL: it is damaged. */
static goods *accept(const mr_link_message *m, const head *h) {
    goods *g = m->body ? mr_goods_at(m->body) : malloc(ROOM);
    if (!g) {
        return NULL;
    }
    const mr_hash128 hash = mr_hash(mr_goods_bytes(g), m->size);
    bool whole = hash.low == h->hash[0] && hash.high == h->hash[1] && h->form < FORMS;
    *g = (goods){.references = 1, .form = (form)h->form, .size = m->size, .hash = hash};
    if (!whole) {
        free(g);
    }
    return whole ? g : NULL;
}

static void count_came(mr_peers *x, const goods *g) {
    pthread_mutex_lock(&x->lock);
    x->counts.found += g != NULL;
    x->counts.damaged += g == NULL;
    x->counts.samples += g && g->form == RECORD;
    x->counts.bytes_in += g ? (int64_t)g->size : 0;
    pthread_mutex_unlock(&x->lock);
}

static void take_answer(mr_peers *x, int64_t item, int32_t from, goods *g) {
    mr_peer_entry *e = take_wanted(x, item, from, g != NULL);
    if (e && g) {
        mr_track_since(x->config.track, MR_SPAN_RECEIVE, e->asked, sample_of(x, e->item),
                       MR_SPAN_NO_BATCH, g->size);
        mr_peers_keep_copy(x, e->item, g);
    }
    if (e) {
        mr_peers_answer(x, e->item, e->waiters, g, NULL);
        mr_free(e);
        mr_peers_end_answering(x);
    }
}

static bool is_wanted(mr_peers *x, int64_t item, int32_t from) {
    pthread_mutex_lock(&x->lock);
    const mr_peer_entry *e = mr_items_find(&x->wanted, item);
    bool wanted = e && mr_peers_copy_asked(x, e, from) >= 0;
    pthread_mutex_unlock(&x->lock);
    return wanted;
}

static void take_goods(mr_peers *x, const mr_link_message *m, const head *h) {
    if (!is_wanted(x, h->item, m->peer)) {
        free(m->body ? mr_goods_at(m->body) : NULL); /* nobody asked, or not any more */
        return;
    }
    goods *g = accept(m, h);
    count_came(x, g);
    take_answer(x, h->item, m->peer, g);
    mr_goods_release(g);
}

/* Nobody asked for it yet, or the question is on its way. Between the look and the keeping nobody
 * may ask: the owner does not answer a question for what it has pushed. */
static void take_push(mr_peers *x, const mr_link_message *m, const head *h) {
    const uint64_t now = mr_track_now(x->config.track);
    goods *g = accept(m, h);
    pthread_mutex_lock(&x->lock);
    const mr_peer_entry *e = mr_items_find(&x->wanted, h->item);
    bool wanted = e && mr_peers_copy_asked(x, e, m->peer) >= 0;
    bool parked = !wanted && g && mr_pushes_park(x, h->item, m->peer, g);
    if (!parked) {
        mr_pushes_let_go(x, h->item, m->peer);
    }
    x->counts.bytes_in += parked ? (int64_t)g->size : 0; /* found when it is taken */
    pthread_mutex_unlock(&x->lock);
    if (wanted || !g) {
        count_came(x, g);
    }
    if (wanted) {
        take_answer(x, h->item, m->peer, g);
    } else if (parked) {
        mr_track_since(x->config.track, MR_SPAN_RECEIVE, now, sample_of(x, h->item),
                       MR_SPAN_NO_BATCH, g->size);
    }
    mr_goods_release(g);
}

/* It can be seen, so the next origin has it. */
static void take_there(mr_peers *x, const mr_link_message *m, const head *h) {
    mr_peer_entry *e = take_wanted(x, h->item, m->peer, true);
    if (e) {
        mr_track_since(x->config.track, MR_SPAN_RECEIVE, e->asked, sample_of(x, e->item),
                       MR_SPAN_NO_BATCH, 0);
        pthread_mutex_lock(&x->lock);
        x->counts.found++;
        pthread_mutex_unlock(&x->lock);
        mr_peers_answer(x, e->item, e->waiters, NULL, NULL);
        mr_free(e);
        mr_peers_end_answering(x);
    }
}

static void take_refusal(mr_peers *x, const mr_link_message *m, const head *h) {
    if (h->item < 0) {
        give_up(x, m->peer, NULL);
    } else {
        take_answer(x, h->item, m->peer, NULL);
    }
}

/* A sample for the owner's memory. */
static void take_record(mr_peers *x, const mr_link_message *m, const head *h) {
    goods *g = accept(m, h);
    if (g && g->form == RECORD && g->size > 0) {
        mr_peers_keep_record(x, h->item, g);
    }
    mr_goods_release(g);
}

static void take_asks(mr_peers *x, const mr_link_message *m, const head *h) {
    size_t n = m->size / sizeof(int64_t);
    const mr_hash128 hash = mr_hash(m->body, m->size);
    bool whole = hash.low == h->hash[0] && hash.high == h->hash[1] && n <= MOST_ASKED;
    for (size_t i = 0; whole && i < n; i++) {
        int64_t item;
        memcpy(&item, (const char *)m->body + i * sizeof item, sizeof item);
        if (item >= 0) {
            mr_peers_serve(x, item, m->peer, h->insists != 0);
            continue;
        }
        pthread_mutex_lock(&x->lock);
        mr_pushes_taken(x, ~item, m->peer);
        pthread_mutex_unlock(&x->lock);
    }
    free(m->body ? mr_goods_at(m->body) : NULL);
}

static void take_leave(mr_peers *x, const mr_link_message *m, const head *h) {
    (void)h;
    pthread_mutex_lock(&x->lock);
    x->peers[m->peer].left = true;
    mr_letters_post_word(x, m->peer, BYE_TOO, 0);
    pthread_mutex_unlock(&x->lock);
    give_up(x, m->peer, NULL);
}

static void take_blindness(mr_peers *x, const mr_link_message *m, const head *h) {
    (void)h;
    atomic_store(&x->peers[m->peer].sees, false);
}

static void take_done(mr_peers *x, const mr_link_message *m, const head *h) {
    (void)h;
    x->peers[m->peer].done = true;
}

static void take_goodbye(mr_peers *x, const mr_link_message *m, const head *h) {
    (void)h;
    x->peers[m->peer].left_too = true;
}

static void take_loss(mr_peers *x, const mr_link_message *m, const head *h) {
    char why[48];
    if (h->item >= 0 && h->item < x->config.world && h->item != x->config.rank) {
        snprintf(why, sizeof why, "rank %d says so", (int)m->peer);
        lose(x, (int32_t)h->item, why);
    }
}

/* keeps_body: it is the function's to free. A beat needs none: that it was heard is all it says. */
static const struct {
    void (*take)(mr_peers *x, const mr_link_message *m, const head *h);
    bool keeps_body;
} kinds[] = {
    [ASK] = {take_asks, true},          [GIVE] = {take_goods, true},
    [PUSH] = {take_push, true},         [KEEP] = {take_record, true},
    [NOT_HERE] = {take_refusal, false}, [THERE] = {take_there, false},
    [BLIND] = {take_blindness, false},  [DONE] = {take_done, false},
    [BYE] = {take_leave, false},        [BYE_TOO] = {take_goodbye, false},
    [LOST] = {take_loss, false},
};

static void take_message(mr_peers *x, const mr_link_message *m) {
    head h;
    memcpy(&h, m->head, sizeof h);
    bool known = h.magic == MAGIC && m->peer >= 0 && m->peer < x->config.world;
    uint32_t what = known && h.kind < sizeof kinds / sizeof *kinds ? h.kind : 0;
    if (known) {
        pthread_mutex_lock(&x->lock);
        x->peers[m->peer].heard = mr_peers_now();
        pthread_mutex_unlock(&x->lock);
    }
    if (kinds[what].take) {
        kinds[what].take(x, m, &h);
    }
    if (!kinds[what].keeps_body) {
        free(m->body ? mr_goods_at(m->body) : NULL);
    }
}

static bool take_events(mr_peers *x) {
    mr_link_event events[EVENTS];
    char why[MR_LINK_WHY];
    int32_t n = x->module.class->poll(x->link, events, EVENTS, why);
    for (int32_t i = 0; i < n; i++) {
        const mr_link_message *m = &events[i].message;
        if (events[i].kind == MR_LINK_CAME) {
            take_message(x, m);
        } else if (events[i].kind == MR_LINK_GONE && m->token) {
            forget_letter(x, m->token);
        } else if (events[i].kind == MR_LINK_LOST) {
            lose(x, m->peer, why);
        }
    }
    return n > 0;
}

/* ---- Watching ---- */
static void look_after(mr_peers *x, int32_t who, bool waits) {
    const peer *p = &x->peers[who];
    if (p->left || who == x->config.rank) {
        return;
    }
    if (p->is_here && !mr_process_is_alive(&p->process)) {
        while (take_events(x)) { /* what it said before: perhaps whom it had lost itself */
        }
        if (!p->left && !x->failed) {
            lose(x, who, "its process has ended");
        }
    } else if (waits && mr_peers_now() - p->heard > x->patience) {
        char why[80];
        snprintf(why, sizeof why, "nothing was heard of it for %.0f s", x->patience);
        lose(x, who, why);
    }
}

/* With the lock held: who has not answered for a while is left to those who wait for it; what has
 * copies is asked for elsewhere, too. */
static void ask_elsewhere(mr_peers *x, double t) {
    const double silent = 1;
    if (mr_locality_copies(x->config.locality) < 2) {
        return;
    }
    for (size_t i = 0; x->wanted.cells && i <= x->wanted.mask; i++) {
        for (mr_peer_entry *e = x->wanted.cells[i]; e; e = e->next) {
            if (t - e->since > silent * __builtin_popcount(e->asked_of)) {
                (void)mr_peers_ask_another(x, e);
            }
        }
    }
}

static void watch(mr_peers *x, double *checked, double *beaten) {
    double t = mr_peers_now();
    if (t - *checked < CHECK_SECONDS || x->failed) {
        return;
    }
    *checked = t;
    pthread_mutex_lock(&x->lock);
    bool waits = x->wanted.n > 0;
    ask_elsewhere(x, t);
    for (int32_t r = 0; t - *beaten >= BEAT_SECONDS && r < x->config.world; r++) {
        if (r != x->config.rank && !x->peers[r].left) {
            mr_letters_post_word(x, r, BEAT, 0);
        }
    }
    pthread_mutex_unlock(&x->lock);
    *beaten = t - *beaten >= BEAT_SECONDS ? t : *beaten;
    for (int32_t r = 0; r < x->config.world && !x->failed; r++) {
        look_after(x, r, waits);
    }
}

/* Sleeps a little longer each time that nothing happens, but not long while something is on its
 * way: polling without rest would take a CPU from the workers. */
static void nap(mr_peers *x, int64_t *nanoseconds) {
    struct timespec t;
    pthread_mutex_lock(&x->lock);
    int64_t most = x->wanted.n > 0 || x->in_flight > 0 ? 50000 : 1000000;
    *nanoseconds = *nanoseconds * 2 < most ? *nanoseconds * 2 : most;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)*nanoseconds;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    bool idle = (!x->has_asks || x->is_short) && !x->words.first &&
                (x->parcels.first ? !may_send(x, x->parcels.first) : !x->has_due);
    if (idle) {
        pthread_cond_timedwait(&x->mail, &x->lock, &t);
    }
    x->counts.wait_ns += x->wanted.n > 0 ? *nanoseconds : 0;
    pthread_mutex_unlock(&x->lock);
}

/* ---- Its end ---- */
/* Own loads do not wait any longer, whoever they wait for. */
static void drain(mr_peers *x) {
    give_up(x, -1, NULL);
    waiter *own = NULL;
    pthread_mutex_lock(&x->lock);
    for (size_t i = 0; x->here.cells && i <= x->here.mask; i++) {
        for (mr_peer_entry *e = x->here.cells[i]; e; e = e->next) {
            for (waiter **at = &e->waiters; *at;) {
                waiter *w = *at;
                if (w->peer >= 0) {
                    at = &w->next;
                    continue;
                }
                *at = w->next;
                w->next = own;
                own = w;
            }
        }
    }
    mr_peers_begin_answering(x);
    pthread_mutex_unlock(&x->lock);
    mr_peers_answer(x, -1, own, NULL, NULL);
    pthread_mutex_lock(&x->lock);
    x->drained = true;
    pthread_mutex_unlock(&x->lock);
    mr_peers_end_answering(x);
}

static bool all_left(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    bool all = !x->words.first && !x->parcels.first && x->answering == 0;
    for (int32_t r = 0; all && r < x->config.world; r++) {
        const peer *p = &x->peers[r];
        all = r == x->config.rank || p->left || p->left_too;
    }
    pthread_mutex_unlock(&x->lock);
    return all && x->module.class->is_quiet(x->link);
}

typedef struct rhythm {
    double checked, beaten;
    int64_t naps;
} rhythm;

static void speak(mr_peers *x, rhythm *own) {
    bool busy = send_letters(x);
    busy = take_events(x) || busy;
    watch(x, &own->checked, &own->beaten);
    own->naps = busy || own->naps == 0 ? 10000 : own->naps;
    if (!busy) {
        nap(x, &own->naps);
    }
}

static void tell_all(mr_peers *x, kind what) {
    pthread_mutex_lock(&x->lock);
    x->leaving = what == BYE;
    if (x->leaving) {
        mr_letters_drop_goods(x);
    }
    for (int32_t r = 0; r < x->config.world; r++) {
        if (r != x->config.rank) {
            mr_letters_post_word(x, r, what, 0);
        }
    }
    pthread_mutex_unlock(&x->lock);
}

static bool all_done(const mr_peers *x) {
    bool all = true;
    for (int32_t r = 0; all && r < x->config.world; r++) {
        all = r == x->config.rank || x->peers[r].done || x->peers[r].left;
    }
    return all;
}

/* Others may be a little behind, and would read again what is kept here: they are served as long as
 * they ask. */
static void linger(mr_peers *x, rhythm *own) {
    tell_all(x, DONE);
    x->asked_at = mr_peers_now();
    while (!x->failed && !all_done(x) && mr_peers_now() - x->asked_at < x->patience_at_end) {
        speak(x, own);
    }
}

/* Says goodbye; goes when all have answered and nothing is under way. True: in good order. */
static bool leave(mr_peers *x, rhythm *own) {
    double end = mr_peers_now() + LEAVE_SECONDS;
    tell_all(x, BYE);
    while (!x->failed && !all_left(x) && mr_peers_now() < end) {
        speak(x, own);
    }
    return !x->failed && all_left(x);
}

/* The word that somebody was lost shall reach the others. */
static void say_the_last(mr_peers *x) {
    double end = mr_peers_now() + 0.2;
    send_letters(x);
    while (mr_peers_now() < end && !x->module.class->is_quiet(x->link)) {
        if (!take_events(x)) {
            usleep(1000);
        }
    }
}

void *mr_peers_speaker_main(void *context) {
    mr_peers *x = context;
    rhythm own = {0};
    mr_track_attach(x->config.track);
    for (bool closing = false; !closing;) {
        speak(x, &own);
        pthread_mutex_lock(&x->lock);
        bool drains = x->stopping && !x->drained;
        closing = x->closing && !drains;
        pthread_mutex_unlock(&x->lock);
        if (drains) {
            drain(x);
        }
    }
    if (x->lingers) {
        linger(x, &own);
    }
    x->is_broken = !leave(x, &own);
    if (x->is_broken) {
        say_the_last(x);
    }
    x->module.class->close(x->link, x->is_broken);
    mr_track_detach(x->config.track);
    return NULL;
}
