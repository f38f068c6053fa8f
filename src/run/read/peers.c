/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h. One lock guards all that threads share; the link is the speaker's alone.
 */
#include "run/read/peers.h"

#include <errno.h>
#include <millrace/millrace.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "fabric/link.h"
#include "io/file.h"
#include "io/process.h"
#include "run/read/intake.h"
#include "run/threads.h"

enum {
    READERS = 8,
    EVENTS = 64,
    MOST_ASKED = 4096, /* items of a message */
    MAGIC = 0x314b4c4d,
};
static const double CHECK_SECONDS = 0.2, BEAT_SECONDS = 1, WARN_SECONDS = 5, LEAVE_SECONDS = 10,
                    LINGER_SECONDS = 5;

/* ---- Types ---- */
typedef enum kind { ASK = 1, GIVE, NOT_HERE, BEAT, DONE, BYE, BYE_TOO, LOST } kind;

typedef struct head {
    uint32_t magic, kind;
    int64_t item;
    uint64_t hash[2]; /* of the body */
} head;
_Static_assert(sizeof(head) <= MR_LINK_HEAD, "a head must fit");

/* Bytes that are kept, sent or lent; they begin ROOM behind it. */
typedef struct goods {
    atomic_int references;
    size_t size;
    mr_hash128 hash;
} goods;
enum { ROOM = 64 };
_Static_assert(sizeof(goods) <= ROOM, "what stands before bytes must fit");

/* Somebody who waits for an item. */
typedef struct waiter {
    struct waiter *next;
    int32_t peer;  /* -1: */
    mr_load *load; /* this rank's own */
} waiter;

/* An item that is read or kept here, or that was asked for. */
typedef struct entry {
    struct entry *next; /* in its cell */
    struct entry *next_job;
    int64_t item;
    int32_t owner;
    double since;
    uint64_t asked; /* in ticks */
    goods *goods;   /* NULL: being read, or on its way */
    waiter *waiters;
} entry;

typedef struct table {
    entry **cells;
    size_t n, mask;
} table;

/* A message that waits to be sent. */
typedef struct letter {
    struct letter *next;
    mr_link_message message;
    uint64_t sent; /* in ticks */
    goods *goods;  /* whose bytes they are; NULL: the body is its own */
} letter;

typedef struct peer {
    bool done;           /* it needs nothing more */
    bool left, left_too; /* it has said goodbye; it knows that we have */
    double heard;
    int64_t *asks; /* items to ask it for */
    int32_t n_asks, room;
    mr_process process;
    char host[64];
    bool is_here; /* on this machine */
} peer;

/* What ranks tell each other first. */
typedef struct hello {
    uint32_t magic, size;
    mr_peers_terms terms;
    mr_process process;
    char host[64];
} hello;

struct mr_peers {
    mr_peers_config config;
    mr_link_module module;
    void *link;
    mr_threads speaker, readers;
    int64_t max_in_flight;
    double rate, patience, patience_at_end, paid_until;

    pthread_mutex_t lock; /* of all below that is not atomic */
    pthread_cond_t mail, jobs, calm;
    table here, wanted;
    peer *peers;
    entry *first_job, **last_job;
    letter *first_letter, **last_letter;
    int64_t in_flight; /* bytes */
    int64_t answering; /* threads that answer loads */
    bool has_asks, stopping, drained, closing, leaving, ended, failed;
    bool lingers;    /* all was delivered here */
    double asked_at; /* by a peer, last */
    mr_error failure;
    double warned;
    mr_peers_counts counts;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Goods ---- */
static char *bytes_of(goods *g) {
    return (char *)g + ROOM;
}

static goods *goods_at(const void *bytes) {
    return (goods *)(uintptr_t)((const char *)bytes - ROOM);
}

static void release_goods(goods *g) {
    if (g && atomic_fetch_sub(&g->references, 1) == 1) {
        mr_free(g);
    }
}

/* ---- Tables of items ---- */
static size_t cell_of(const table *t, int64_t item) {
    return (size_t)(((uint64_t)item * 0x9E3779B97F4A7C15u) >> 20) & t->mask;
}

static entry *find(const table *t, int64_t item) {
    entry *e = t->cells ? t->cells[cell_of(t, item)] : NULL;
    while (e && e->item != item) {
        e = e->next;
    }
    return e;
}

static bool grow(table *t) {
    size_t size = t->cells ? 2 * (t->mask + 1) : 1024;
    table larger = {mr_zalloc(size, sizeof *larger.cells), t->n, size - 1};
    if (!larger.cells) {
        return t->cells != NULL;
    }
    for (size_t i = 0; t->cells && i <= t->mask; i++) {
        for (entry *e = t->cells[i], *next; e; e = next) {
            next = e->next;
            entry **cell = &larger.cells[cell_of(&larger, e->item)];
            e->next = *cell;
            *cell = e;
        }
    }
    mr_free(t->cells);
    *t = larger;
    return true;
}

static entry *add(table *t, int64_t item) {
    if ((!t->cells || t->n > t->mask) && !grow(t)) {
        return NULL;
    }
    entry *e = mr_zalloc(1, sizeof *e);
    if (e) {
        entry **cell = &t->cells[cell_of(t, item)];
        e->item = item;
        e->next = *cell;
        *cell = e;
        t->n++;
    }
    return e;
}

static void take_out(table *t, const entry *e) {
    entry **at = &t->cells[cell_of(t, e->item)];
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    t->n--;
}

static bool add_waiter(entry *e, int32_t from, mr_load *load) {
    waiter *w = mr_zalloc(1, sizeof *w);
    if (w) {
        *w = (waiter){.next = e->waiters, .peer = from, .load = load};
        e->waiters = w;
    }
    return w != NULL;
}

/* ---- Letters; with the lock held ---- */
static void post(mr_peers *x, int32_t to, const head *what, void *body, size_t size, goods *g) {
    bool is_due = !x->peers[to].left || what->kind == BYE_TOO;
    letter *l = is_due ? mr_zalloc(1, sizeof *l) : NULL;
    if (!l) { /* without memory: who asked is told when this rank leaves */
        release_goods(g);
        free(g ? NULL : body);
        return;
    }
    l->message = (mr_link_message){.peer = to, .body = body, .size = size, .token = l};
    memcpy(l->message.head, what, sizeof *what);
    l->goods = g;
    *x->last_letter = l;
    x->last_letter = &l->next;
    pthread_cond_signal(&x->mail);
}

static void post_word(mr_peers *x, int32_t to, kind what, int64_t item) {
    const head h = {.magic = MAGIC, .kind = what, .item = item};
    post(x, to, &h, NULL, 0, NULL);
}

static void post_goods(mr_peers *x, int32_t to, int64_t item, goods *g) {
    const head h = {
        .magic = MAGIC, .kind = GIVE, .item = item, .hash = {g->hash.low, g->hash.high}};
    atomic_fetch_add(&g->references, 1);
    x->counts.sent++;
    x->counts.bytes_out += (int64_t)g->size;
    post(x, to, &h, bytes_of(g), g->size, g);
}

/* ---- Loads ---- */
/* One extent that is a whole file, or extents of known lengths. */
static bool fits(const mr_load *load, size_t size) {
    size_t total = 0;
    if (load->n_extents == 1 && load->extents[0].length < 0) {
        return (int64_t)size <= load->extents[0].limit;
    }
    for (int32_t i = 0; i < load->n_extents; i++) {
        total += (size_t)load->extents[i].length;
    }
    return total == size;
}

/* Both sides come to the same answer. */
static bool can_travel(const mr_extent *extents, int32_t n) {
    for (int32_t i = 0; n > 1 && i < n; i++) {
        if (extents[i].length < 0) {
            return false;
        }
    }
    return n > 0;
}

static void lend(mr_load *load, goods *g) {
    char *at = bytes_of(g);
    atomic_fetch_add(&g->references, 1);
    load->lent = true;
    if (load->n_extents == 1) {
        load->bytes[0] = (mr_bytes){at, g->size};
        return;
    }
    for (int32_t i = 0; i < load->n_extents; i++) {
        load->bytes[i] = (mr_bytes){at, (size_t)load->extents[i].length};
        at += load->extents[i].length;
    }
}

static void release(void *state, mr_load *load) {
    (void)state;
    release_goods(goods_at(load->bytes[0].data));
}

/* Tells those who wait; no lock held. NULL: it is not here, or (failure) there is no hope. */
static void answer_all(mr_peers *x, int64_t item, waiter *list, goods *g, const mr_error *failure) {
    while (list) {
        waiter *next = list->next;
        mr_load *load = list->load;
        if (list->peer >= 0) {
            pthread_mutex_lock(&x->lock);
            if (g) {
                post_goods(x, list->peer, item, g);
            } else {
                post_word(x, list->peer, NOT_HERE, item);
            }
            pthread_mutex_unlock(&x->lock);
        } else if (failure) {
            mr_load_fail(load, failure->code, failure);
            mr_load_answer(load, MR_ANSWER_FAILED);
        } else if (g && fits(load, g->size)) {
            lend(load, g);
            mr_load_answer(load, MR_ANSWER_HERE);
        } else {
            mr_load_answer(load, MR_ANSWER_NOT_HERE);
        }
        mr_free(list);
        list = next;
    }
}

static void begin_answering(mr_peers *x) { /* with the lock held */
    x->answering++;
}

static void end_answering(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    x->answering--;
    pthread_cond_broadcast(&x->calm);
    pthread_mutex_unlock(&x->lock);
}

/* ---- What is owned here ---- */
/* With the lock held. False: no memory. */
static bool wait_here(mr_peers *x, int64_t item, int32_t from, mr_load *load) {
    entry *e = find(&x->here, item);
    bool is_new = !e;
    e = e ? e : add(&x->here, item);
    if (!e || !add_waiter(e, from, load)) {
        if (e && is_new) {
            take_out(&x->here, e);
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

static void serve(mr_peers *x, int64_t item, int32_t from) {
    bool ours = item >= 0 && item < mr_locality_items(x->config.locality) &&
                mr_locality_owner(x->config.locality, item) == x->config.rank;
    pthread_mutex_lock(&x->lock);
    entry *e = ours ? find(&x->here, item) : NULL;
    x->asked_at = now();
    if (e && e->goods) {
        post_goods(x, from, item, e->goods);
    } else if (!ours || x->leaving || !wait_here(x, item, from, NULL)) {
        post_word(x, from, NOT_HERE, item);
    }
    pthread_mutex_unlock(&x->lock);
}

static mr_status measure(const mr_extent *extents, int32_t n, size_t *total, mr_error *err) {
    *total = 0;
    for (int32_t i = 0; i < n; i++) {
        mr_open_extent open;
        MR_TRY(mr_extent_open(&extents[i], &open, err));
        mr_extent_close(&open);
        *total += open.size;
    }
    return MR_OK;
}

static mr_status read_extents(const mr_extent *extents, int32_t n, goods *g, mr_error *err) {
    char *at = bytes_of(g), *end = at + g->size;
    for (int32_t i = 0; i < n; i++) {
        mr_open_extent open;
        MR_TRY(mr_extent_open(&extents[i], &open, err));
        mr_status status = open.size <= (size_t)(end - at)
                               ? mr_extent_read(&open, at, err)
                               : mr_fail(err, MR_E_CORRUPT, "the file has grown");
        mr_extent_close(&open);
        MR_TRY(status);
        at += open.size;
    }
    return at == end ? MR_OK : mr_fail(err, MR_E_CORRUPT, "the file has shrunk");
}

/* NULL: whoever needs it reads the file, and tells what is wrong with it. */
static goods *read_goods(const mr_dataset *dataset, int64_t block) {
    mr_extent own[4], *extents = own;
    mr_error ignored = MR_ERROR_INIT;
    int32_t n = 0;
    size_t size = 0;
    goods *g = NULL;
    if (mr_dataset_locate(dataset, block, own, 4, &extents, &n, &ignored) == MR_OK &&
        can_travel(extents, n) && measure(extents, n, &size, &ignored) == MR_OK) {
        g = malloc(ROOM + size);
    }
    if (g) {
        atomic_init(&g->references, 1);
        g->size = size;
        if (read_extents(extents, n, g, &ignored) < 0) {
            release_goods(g);
            g = NULL;
        } else {
            g->hash = mr_hash(bytes_of(g), size);
        }
    }
    if (extents != own) {
        mr_free(extents);
    }
    return g;
}

static goods *read_item(const mr_peers *x, int64_t item) {
    int32_t child;
    int64_t block;
    mr_locality_split(x->config.locality, item, &child, &block);
    const mr_dataset *dataset = &x->config.children->list[child].dataset;
    return mr_dataset_is_read(dataset) ? read_goods(dataset, block) : NULL;
}

/* What nobody keeps goes when it was sent. */
static void settle_job(mr_peers *x, entry *e, goods *g) {
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
        x->counts.kept++;
        x->counts.bytes_kept += (int64_t)g->size;
    } else {
        take_out(&x->here, e);
        mr_free(e);
    }
    begin_answering(x);
    pthread_mutex_unlock(&x->lock);
    answer_all(x, item, list, g, NULL);
    release_goods(g);
    end_answering(x);
}

static entry *take_job(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    while (!x->first_job && !x->ended) {
        pthread_cond_wait(&x->jobs, &x->lock);
    }
    entry *e = x->first_job;
    if (e) {
        x->first_job = e->next_job;
        e->next_job = NULL;
        x->last_job = x->first_job ? x->last_job : &x->first_job;
    }
    pthread_mutex_unlock(&x->lock);
    return e;
}

static void *reader_main(void *context) {
    mr_peers *x = context;
    entry *e;
    while ((e = take_job(x)) != NULL) {
        settle_job(x, e, read_item(x, e->item));
    }
    return NULL;
}

/* ---- Asking ---- */
static int64_t item_of(const mr_peers *x, const mr_load *load) {
    return mr_locality_item(x->config.locality, load->dataset->number, load->block.number);
}

static mr_answer ask_memory(void *state, mr_load *load) {
    mr_peers *x = state;
    int64_t item = item_of(x, load);
    mr_answer answer = MR_ANSWER_NOT_HERE;
    if (mr_locality_owner(x->config.locality, item) != x->config.rank ||
        !mr_locality_is_kept(x->config.locality, item) ||
        !can_travel(load->extents, load->n_extents)) {
        return MR_ANSWER_NOT_HERE;
    }
    pthread_mutex_lock(&x->lock);
    entry *e = find(&x->here, item);
    if (e && e->goods && fits(load, e->goods->size)) {
        lend(load, e->goods);
        answer = MR_ANSWER_HERE;
    } else if (!(e && e->goods) && !x->stopping && wait_here(x, item, -1, load)) {
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
    entry *e = find(&x->wanted, item);
    if (e) {
        return add_waiter(e, -1, load);
    }
    e = add(&x->wanted, item);
    if (!e || !add_waiter(e, -1, load) || !note_ask(&x->peers[owner], item)) {
        if (e) {
            take_out(&x->wanted, e);
            mr_free(e->waiters);
            mr_free(e);
        }
        return false;
    }
    e->owner = owner;
    e->since = now();
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
    if (owner == x->config.rank || !can_travel(load->extents, load->n_extents)) {
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

/* ---- The speaker: what goes out ---- */
/* With the lock held: one letter for all that is asked of a peer. */
static void post_asks(mr_peers *x) {
    for (int32_t r = 0; x->has_asks && r < x->config.world; r++) {
        peer *p = &x->peers[r];
        for (int32_t first = 0, n; first < p->n_asks; first += n) {
            n = p->n_asks - first < MOST_ASKED ? p->n_asks - first : MOST_ASKED;
            size_t size = (size_t)n * sizeof *p->asks;
            void *body = malloc(size);
            if (!body) {
                memmove(p->asks, p->asks + first, (size_t)(p->n_asks - first) * sizeof *p->asks);
                p->n_asks -= first;
                return; /* asked again with what follows */
            }
            memcpy(body, p->asks + first, size);
            const mr_hash128 hash = mr_hash(body, size);
            const head h = {.magic = MAGIC, .kind = ASK, .hash = {hash.low, hash.high}};
            post(x, r, &h, body, size, NULL);
        }
        p->n_asks = 0;
    }
    x->has_asks = false;
}

static bool may_send(const mr_peers *x, const letter *l) {
    bool fits_in = !l->goods || x->in_flight == 0 ||
                   x->in_flight + (int64_t)l->message.size <= x->max_in_flight;
    return fits_in && (x->rate <= 0 || !l->goods || now() >= x->paid_until);
}

static letter *take_letter(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    post_asks(x);
    letter *l = x->first_letter;
    if (l && may_send(x, l)) {
        x->first_letter = l->next;
        x->last_letter = x->first_letter ? x->last_letter : &x->first_letter;
        x->in_flight += (int64_t)l->message.size;
    } else {
        l = NULL;
    }
    pthread_mutex_unlock(&x->lock);
    return l;
}

static void pay(mr_peers *x, const letter *l) {
    if (x->rate > 0 && l->goods) {
        double from = x->paid_until > now() ? x->paid_until : now();
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
    if (h.kind == GIVE) {
        mr_track_since(x->config.track, MR_SPAN_SEND, l->sent, sample_of(x, h.item),
                       MR_SPAN_NO_BATCH, l->message.size);
    }
    pthread_mutex_lock(&x->lock);
    x->in_flight -= (int64_t)l->message.size;
    pthread_mutex_unlock(&x->lock);
    if (l->goods) {
        release_goods(l->goods);
    } else {
        free(l->message.body);
    }
    mr_free(l);
}

/* ---- The speaker: what comes in ---- */
/* Everybody who waits for a peer (-1: for any). With `failure` there is no hope. */
static void give_up(mr_peers *x, int32_t who, const mr_error *failure) {
    entry *list = NULL;
    pthread_mutex_lock(&x->lock);
    for (size_t i = 0; x->wanted.cells && i <= x->wanted.mask; i++) {
        for (entry *e = x->wanted.cells[i], *next; e; e = next) {
            next = e->next;
            if (who < 0 || e->owner == who) {
                take_out(&x->wanted, e);
                e->next_job = list;
                list = e;
            }
        }
    }
    begin_answering(x);
    pthread_mutex_unlock(&x->lock);
    while (list) {
        entry *next = list->next_job;
        answer_all(x, list->item, list->waiters, NULL, failure);
        mr_free(list);
        list = next;
    }
    end_answering(x);
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
            post_word(x, r, LOST, who); /* or they would take us for the one that was lost */
        }
    }
    pthread_mutex_unlock(&x->lock);
    if (first) {
        give_up(x, -1, &failure);
    }
}

static entry *take_wanted(mr_peers *x, int64_t item, int32_t from) {
    pthread_mutex_lock(&x->lock);
    entry *e = find(&x->wanted, item);
    if (e && e->owner == from) {
        take_out(&x->wanted, e);
        begin_answering(x);
    } else {
        e = NULL;
    }
    pthread_mutex_unlock(&x->lock);
    return e;
}

/* The message's memory becomes the goods. */
static goods *accept(mr_peers *x, const mr_link_message *m, const head *h) {
    goods *g = m->body ? goods_at(m->body) : malloc(ROOM);
    if (!g) {
        return NULL;
    }
    const mr_hash128 hash = mr_hash(bytes_of(g), m->size);
    bool whole = hash.low == h->hash[0] && hash.high == h->hash[1];
    *g = (goods){.references = 1, .size = m->size, .hash = hash};
    pthread_mutex_lock(&x->lock);
    x->counts.found += whole;
    x->counts.damaged += !whole;
    x->counts.bytes_in += whole ? (int64_t)m->size : 0;
    pthread_mutex_unlock(&x->lock);
    if (!whole) {
        free(g);
    }
    return whole ? g : NULL;
}

static void take_goods(mr_peers *x, const mr_link_message *m, const head *h) {
    entry *e = take_wanted(x, h->item, m->peer);
    if (!e) {
        free(m->body ? goods_at(m->body) : NULL); /* nobody asked, or not any more */
        return;
    }
    goods *g = h->kind == GIVE ? accept(x, m, h) : NULL;
    if (g) {
        mr_track_since(x->config.track, MR_SPAN_RECEIVE, e->asked, sample_of(x, e->item),
                       MR_SPAN_NO_BATCH, g->size);
    }
    answer_all(x, e->item, e->waiters, g, NULL);
    release_goods(g);
    mr_free(e);
    end_answering(x);
}

static void take_asks(mr_peers *x, const mr_link_message *m, const head *h) {
    size_t n = m->size / sizeof(int64_t);
    const mr_hash128 hash = mr_hash(m->body, m->size);
    bool whole = hash.low == h->hash[0] && hash.high == h->hash[1] && n <= MOST_ASKED;
    for (size_t i = 0; whole && i < n; i++) {
        int64_t item;
        memcpy(&item, (const char *)m->body + i * sizeof item, sizeof item);
        serve(x, item, m->peer);
    }
    free(m->body ? goods_at(m->body) : NULL);
}

static void take_leave(mr_peers *x, int32_t who) {
    pthread_mutex_lock(&x->lock);
    x->peers[who].left = true;
    post_word(x, who, BYE_TOO, 0);
    pthread_mutex_unlock(&x->lock);
    give_up(x, who, NULL);
}

static void take_message(mr_peers *x, const mr_link_message *m) {
    head h;
    memcpy(&h, m->head, sizeof h);
    bool known = h.magic == MAGIC && m->peer >= 0 && m->peer < x->config.world;
    if (known) {
        pthread_mutex_lock(&x->lock);
        x->peers[m->peer].heard = now();
        pthread_mutex_unlock(&x->lock);
    }
    if (known && h.kind == ASK) {
        take_asks(x, m, &h);
        return;
    }
    if (known && (h.kind == GIVE || h.kind == NOT_HERE)) {
        take_goods(x, m, &h);
        return;
    }
    if (known && h.kind == BYE) {
        take_leave(x, m->peer);
    }
    if (known && h.kind == DONE) {
        x->peers[m->peer].done = true;
    }
    if (known && h.kind == LOST && h.item >= 0 && h.item < x->config.world &&
        h.item != x->config.rank) {
        char why[48];
        snprintf(why, sizeof why, "rank %d says so", (int)m->peer);
        lose(x, (int32_t)h.item, why);
    }
    if (known && h.kind == BYE_TOO) {
        x->peers[m->peer].left_too = true;
    }
    free(m->body ? goods_at(m->body) : NULL);
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

/* ---- The speaker: watching ---- */
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
    } else if (waits && now() - p->heard > x->patience) {
        char why[80];
        snprintf(why, sizeof why, "nothing was heard of it for %.0f s", x->patience);
        lose(x, who, why);
    }
}

static void watch(mr_peers *x, double *checked, double *beaten) {
    double t = now();
    if (t - *checked < CHECK_SECONDS || x->failed) {
        return;
    }
    *checked = t;
    pthread_mutex_lock(&x->lock);
    bool waits = x->wanted.n > 0;
    for (int32_t r = 0; t - *beaten >= BEAT_SECONDS && r < x->config.world; r++) {
        if (r != x->config.rank && !x->peers[r].left) {
            post_word(x, r, BEAT, 0);
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
    bool idle = !x->has_asks && (!x->first_letter || !may_send(x, x->first_letter));
    if (idle) {
        pthread_cond_timedwait(&x->mail, &x->lock, &t);
    }
    x->counts.wait_ns += x->wanted.n > 0 ? *nanoseconds : 0;
    pthread_mutex_unlock(&x->lock);
}

/* ---- The speaker: its end ---- */
/* Own loads do not wait any longer, whoever they wait for. */
static void drain(mr_peers *x) {
    give_up(x, -1, NULL);
    waiter *own = NULL;
    pthread_mutex_lock(&x->lock);
    for (size_t i = 0; x->here.cells && i <= x->here.mask; i++) {
        for (entry *e = x->here.cells[i]; e; e = e->next) {
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
    begin_answering(x);
    pthread_mutex_unlock(&x->lock);
    answer_all(x, -1, own, NULL, NULL);
    pthread_mutex_lock(&x->lock);
    x->drained = true;
    pthread_mutex_unlock(&x->lock);
    end_answering(x);
}

static bool all_left(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    bool all = !x->first_letter && x->answering == 0;
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
    for (int32_t r = 0; r < x->config.world; r++) {
        if (r != x->config.rank) {
            post_word(x, r, what, 0);
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
    x->asked_at = now();
    while (!x->failed && !all_done(x) && now() - x->asked_at < x->patience_at_end) {
        speak(x, own);
    }
}

/* Says goodbye; goes when all have answered and nothing is under way. True: in good order. */
static bool leave(mr_peers *x, rhythm *own) {
    double end = now() + LEAVE_SECONDS;
    tell_all(x, BYE);
    while (!x->failed && !all_left(x) && now() < end) {
        speak(x, own);
    }
    return !x->failed && all_left(x);
}

/* The word that somebody was lost shall reach the others. */
static void say_the_last(mr_peers *x) {
    double end = now() + 0.2;
    send_letters(x);
    while (now() < end && !x->module.class->is_quiet(x->link)) {
        if (!take_events(x)) {
            usleep(1000);
        }
    }
}

static void *speaker_main(void *context) {
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
    bool well = leave(x, &own);
    if (!well) {
        say_the_last(x);
    }
    x->module.class->close(x->link, !well);
    mr_track_detach(x->config.track);
    return NULL;
}

/* ---- Opening ---- */
static bool same_share(const mr_share_terms *a, const mr_share_terms *b) {
    return a->mode == b->mode && a->given == b->given && a->memory == b->memory &&
           a->sample_bytes == b->sample_bytes && a->ranks_per_node == b->ranks_per_node &&
           a->replicas == b->replicas;
}

static const char *difference_of(const mr_peers_terms *a, const mr_peers_terms *b) {
    return memcmp(a->pipeline, b->pipeline, sizeof a->pipeline) != 0 ? "pipeline"
           : memcmp(a->dataset, b->dataset, sizeof a->dataset) != 0  ? "dataset"
           : a->seed != b->seed                                      ? "seed"
           : a->batch != b->batch                                    ? "batch"
           : a->epochs != b->epochs                                  ? "number of epochs"
           : a->first_epoch != b->first_epoch || a->first_position != b->first_position
               ? "state to go on from"
           : a->remainder != b->remainder      ? "remainder"
           : !same_share(&a->share, &b->share) ? "share"
                                               : NULL;
}

/* All ranks compare all, and so all refuse. */
static mr_status compare(const hello *all, int32_t world, mr_error *err) {
    for (int32_t r = 0; r < world; r++) {
        bool alien = all[r].magic != MAGIC || all[r].size != sizeof *all;
        const char *what =
            alien ? "version of millrace" : difference_of(&all[0].terms, &all[r].terms);
        if (what) {
            mr_fail(err, MR_E_PARAM, "rank %d has another %s than rank 0", (int)r, what);
            mr_hint(err, "start all ranks with the same document, seed and data");
            return MR_E_PARAM;
        }
    }
    return MR_OK;
}

static mr_status meet(mr_peers *x, mr_error *err) {
    char why[MR_LINK_WHY] = "no memory";
    hello own;
    memset(&own, 0, sizeof own); /* padding goes out too */
    own.magic = MAGIC;
    own.size = (uint32_t)sizeof own;
    memcpy(&own.terms, &x->config.terms, sizeof own.terms);
    mr_process_self(&own.process);
    gethostname(own.host, sizeof own.host - 1);
    hello *all = mr_zalloc((size_t)x->config.world, sizeof *all);
    bool met = all && x->module.class->gather(x->link, &own, sizeof own, all, why);
    mr_status status = met ? compare(all, x->config.world, err)
                           : mr_fail(err, MR_E_IO, "the ranks have not found each other: %s", why);
    for (int32_t r = 0; status == MR_OK && r < x->config.world; r++) {
        peer *p = &x->peers[r];
        p->process = all[r].process;
        memcpy(p->host, all[r].host, sizeof p->host - 1);
        p->is_here =
            mr_process_is_near(&p->process, &own.process) && strcmp(p->host, own.host) == 0;
        p->heard = now();
    }
    mr_free(all);
    return status;
}

static mr_status open_link(mr_peers *x, mr_error *err) {
    char why[MR_LINK_WHY] = "";
    const mr_link_config config = {.rank = x->config.rank,
                                   .world = x->config.world,
                                   .room = ROOM,
                                   .max_body = (size_t)1 << 40,
                                   .timeout = x->patience};
    MR_TRY(mr_link_load(&x->module, x->config.url, err));
    return x->module.class->open(&x->link, &config, why) ? MR_OK
                                                         : mr_fail(err, MR_E_PARAM, "%s", why);
}

bool mr_peers_is_url(const char *url) {
    return strncmp(url, "mpi", 3) == 0 && (url[3] == '\0' || url[3] == '?');
}

static double *option_of(mr_peers *x, const char *name, size_t length, double *in_flight) {
    return length == 9 && strncmp(name, "in_flight", 9) == 0 ? in_flight
           : length == 4 && strncmp(name, "rate", 4) == 0    ? &x->rate
           : length == 6 && strncmp(name, "linger", 6) == 0  ? &x->patience_at_end
           : length == 7 && strncmp(name, "timeout", 7) == 0 ? &x->patience
                                                             : NULL;
}

/* mpi?in_flight=BYTES&rate=BYTES&timeout=SECONDS&linger=SECONDS */
static mr_status read_url(mr_peers *x, mr_error *err) {
    double in_flight = 64e6;
    const char *at = strchr(x->config.url, '?');
    x->patience = 60;
    x->patience_at_end = LINGER_SECONDS;
    while (at && at[1]) {
        const char *name = at + 1, *is = strchr(name, '=');
        double *option = is ? option_of(x, name, (size_t)(is - name), &in_flight) : NULL;
        char *end = NULL;
        double value = option ? strtod(is + 1, &end) : -1;
        if (!option || end == is + 1 || (*end && *end != '&') || !(value >= 0)) {
            mr_fail(err, MR_E_PARAM, "the fabric \"%s\" cannot be understood", x->config.url);
            mr_hint(err,
                    "mpi?in_flight=64e6&rate=500e6&timeout=60&linger=5: bytes, bytes a second, "
                    "seconds, seconds");
            return MR_E_PARAM;
        }
        *option = value;
        at = *end ? end : NULL;
    }
    x->max_in_flight = (int64_t)in_flight;
    return MR_OK;
}

static mr_status open_parts(mr_peers *x, mr_error *err) {
    MR_TRY(read_url(x, err));
    x->peers = mr_zalloc((size_t)x->config.world, sizeof *x->peers);
    if (!x->peers) {
        return mr_fail_memory(err, (size_t)x->config.world * sizeof *x->peers);
    }
    MR_TRY(open_link(x, err));
    mr_status status = meet(x, err);
    if (status == MR_OK) {
        status = mr_threads_start(&x->readers, READERS, "mr-share", reader_main, x, 0, err);
    }
    if (status == MR_OK) {
        status = mr_threads_start(&x->speaker, 1, "mr-peers", speaker_main, x, 0, err);
    }
    if (status < 0) {
        x->module.class->close(x->link, status == MR_E_IO);
        x->link = NULL;
    }
    return status;
}

static void init_locks(mr_peers *x) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->mail, &monotonic);
    pthread_cond_init(&x->jobs, NULL);
    pthread_cond_init(&x->calm, NULL);
    pthread_condattr_destroy(&monotonic);
}

mr_status mr_peers_open(mr_peers **out, const mr_peers_config *config, mr_error *err) {
    mr_peers *x = mr_zalloc(1, sizeof *x);
    if (!x) {
        return mr_fail_memory(err, sizeof *x);
    }
    x->config = *config;
    x->last_job = &x->first_job;
    x->last_letter = &x->first_letter;
    x->warned = WARN_SECONDS;
    init_locks(x);
    mr_status status = open_parts(x, err);
    if (status < 0) {
        mr_peers_close(x, false);
        return status;
    }
    *out = x;
    return MR_OK;
}

/* ---- Ending ---- */
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

static void free_table(table *t) {
    for (size_t i = 0; t->cells && i <= t->mask; i++) {
        for (entry *e = t->cells[i], *next; e; e = next) {
            next = e->next;
            release_goods(e->goods);
            while (e->waiters) {
                waiter *w = e->waiters;
                e->waiters = w->next;
                mr_free(w);
            }
            mr_free(e);
        }
    }
    mr_free(t->cells);
}

static void free_letters(mr_peers *x) {
    while (x->first_letter) {
        letter *l = x->first_letter;
        x->first_letter = l->next;
        if (l->goods) {
            release_goods(l->goods);
        } else {
            free(l->message.body);
        }
        mr_free(l);
    }
}

void mr_peers_close(mr_peers *x, bool delivered) {
    if (!x) {
        return;
    }
    pthread_mutex_lock(&x->lock);
    x->lingers = delivered;
    x->stopping = x->closing = true;
    pthread_cond_signal(&x->mail);
    pthread_mutex_unlock(&x->lock);
    mr_threads_join(&x->speaker);
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    pthread_cond_broadcast(&x->jobs);
    pthread_mutex_unlock(&x->lock);
    mr_threads_join(&x->readers);
    free_letters(x);
    free_table(&x->here);
    free_table(&x->wanted);
    for (int32_t r = 0; x->peers && r < x->config.world; r++) {
        free(x->peers[r].asks);
    }
    mr_free(x->peers);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->mail);
    pthread_cond_destroy(&x->jobs);
    pthread_cond_destroy(&x->calm);
    mr_free(x);
}

/* ---- Figures ---- */
mr_status mr_peers_failure(mr_peers *x, mr_error *err) {
    pthread_mutex_lock(&x->lock);
    mr_status status = x->failed ? x->failure.code : MR_OK;
    if (x->failed && err) {
        *err = x->failure;
    }
    pthread_mutex_unlock(&x->lock);
    return status;
}

void mr_peers_counts_get(mr_peers *x, mr_peers_counts *out) {
    pthread_mutex_lock(&x->lock);
    *out = x->counts;
    out->world = x->config.world;
    out->here = 1;
    for (int32_t r = 0; r < x->config.world; r++) {
        out->here += r != x->config.rank && !x->peers[r].left;
    }
    pthread_mutex_unlock(&x->lock);
}

/* The rank that was waited for longest, and how much is wanted of it. With the lock held. */
static const entry *oldest_wanted(const mr_peers *x) {
    const entry *oldest = NULL;
    for (size_t i = 0; x->wanted.cells && i <= x->wanted.mask; i++) {
        for (const entry *e = x->wanted.cells[i]; e; e = e->next) {
            oldest = !oldest || e->since < oldest->since ? e : oldest;
        }
    }
    return oldest;
}

static int64_t count_wanted(const mr_peers *x, int32_t owner) {
    int64_t n = 0;
    for (size_t i = 0; x->wanted.cells && i <= x->wanted.mask; i++) {
        for (const entry *e = x->wanted.cells[i]; e; e = e->next) {
            n += e->owner == owner;
        }
    }
    return n;
}

bool mr_peers_trouble(mr_peers *x, char *text, size_t size) {
    pthread_mutex_lock(&x->lock);
    const entry *e = oldest_wanted(x);
    double waits = e ? now() - e->since : 0;
    bool tell = e && waits > x->warned;
    if (tell) {
        x->warned *= 2;
        snprintf(text, size,
                 "rank %d has waited %.0f s for %lld items of rank %d (process %lld on %s), which "
                 "was last heard of %.1f s ago",
                 (int)x->config.rank, waits, (long long)count_wanted(x, e->owner), (int)e->owner,
                 (long long)x->peers[e->owner].process.pid, x->peers[e->owner].host,
                 now() - x->peers[e->owner].heard);
    } else if (!e) {
        x->warned = WARN_SECONDS;
    }
    pthread_mutex_unlock(&x->lock);
    return tell;
}

const mr_origin_class mr_memory_origin = {
    .name = "memory", .ask = ask_memory, .release = release, .stop = stop, .end = end};
const mr_origin_class mr_peer_origin = {
    .name = "peers", .ask = ask_peer, .release = release, .stop = stop, .end = end};
