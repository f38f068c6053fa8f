/* SPDX-License-Identifier: Apache-2.0 */
/* relay_speak.c - the thread that speaks with the other ranks, the only one that uses the link. */
#include "run/stream/relay_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/philox.h"

enum { EVENTS = 64, MOST_EARLY = 65536 };
static const double CHECK_SECONDS = 0.2, BEAT_SECONDS = 1, LEAVE_SECONDS = 10, LEAVE_SERVERS = 1;

typedef struct rhythm {
    double checked, beaten;
    int64_t naps;
} rhythm;

/* ---- Spans ---- */
static uint64_t now(const mr_relay *x) {
    return x->config.speaks ? mr_track_now(x->config.speaks) : 0;
}

/* Of letters with records of samples; one span is about all of them, and named by the first. */
static void note(const mr_relay *x, mr_span_kind kind, uint64_t begun, const relay_head *h,
                 size_t bytes) {
    bool is_about = (h->kind == TOLD || h->kind == GIVEN) && h->id >= 0 && h->id < MR_MAX_SAMPLES;
    if (x->config.speaks && is_about) {
        mr_track_since(x->config.speaks, kind, begun, h->id, MR_SPAN_NO_BATCH, bytes);
    }
}

/* ---- What goes out ---- */
/* Ranks take turns: much that goes to one keeps nobody waiting. */
static relay_letter *take_letter(mr_relay *x, relay_head *head) {
    relay_letter *l = NULL;
    pthread_mutex_lock(&x->lock);
    for (int32_t i = 1; !l && i <= x->config.world; i++) {
        int32_t r = (x->served + i) % x->config.world;
        relay_peer *p = &x->peers[r];
        l = p->first;
        if (l) {
            x->served = r;
            p->first = l->next;
            p->last = p->first ? p->last : NULL;
            *head = (relay_head){.magic = RELAY_MAGIC,
                                 .kind = (uint32_t)l->kind,
                                 .number = p->sent++,
                                 .id = l->id,
                                 .taken = p->taken};
            p->told_taken = p->taken;
        }
    }
    pthread_mutex_unlock(&x->lock);
    return l;
}

/* It went out. */
static void forget_letter(mr_relay *x, relay_letter *l) {
    relay_letter **at = &x->under_way;
    while (*at && *at != l) {
        at = &(*at)->next;
    }
    if (*at) {
        const relay_head head = {.kind = (uint32_t)l->kind, .id = l->id};
        note(x, MR_SPAN_SEND, l->sent, &head, l->body.size);
        *at = l->next;
        mr_relay_free_letter(l);
    }
}

static void lose(mr_relay *x, int32_t who, const char *why) {
    pthread_mutex_lock(&x->lock);
    for (int32_t r = 0; r < x->config.world; r++) {
        if (r != x->config.rank && (who < 0 || r == who)) {
            mr_relay_lose(x, r, why);
        }
    }
    pthread_mutex_unlock(&x->lock);
}

static bool send_letters(mr_relay *x) {
    char why[MR_LINK_WHY];
    relay_letter *l;
    relay_head head;
    bool any = false;
    while ((l = take_letter(x, &head)) != NULL) {
        mr_link_message message = {
            .peer = l->peer, .body = l->body.bytes, .size = l->body.size, .token = l};
        const mr_hash128 hash = mr_hash(l->body.bytes, l->body.size);
        head.hash[0] = hash.low;
        head.hash[1] = hash.high;
        memcpy(message.head, &head, sizeof head);
        any = true;
        l->sent = now(x);
        l->next = x->under_way;
        x->under_way = l;
        if (!x->class->send(x->link, &message, why)) {
            lose(x, l->peer, why); /* parts of it may be under way, so it stays */
        }
    }
    return any;
}

/* ---- What comes in ---- */
static void take_lost(mr_relay *x, int32_t from, int32_t who) {
    char why[48];
    snprintf(why, sizeof why, "rank %d says so", (int)from);
    if (who < x->config.world && who != x->config.rank) {
        mr_relay_lose(x, who, why);
    }
}

static void take_records(mr_relay *x, int32_t from, const relay_head *h, const char *body,
                         size_t size) {
    const char *at = body, *end = body + size;
    mr_relay_record record;
    mr_entry entry;
    for (const char *before = at; mr_relay_read(&at, end, &record, &entry); before = at) {
        if (h->kind == TOLD) {
            mr_relay_take_told(x, from, &record, &entry);
        } else if (h->kind == LOST) {
            take_lost(x, from, record.place);
        } else if (h->kind == HEARD) {
            mr_relay_take_heard(x, from, &record);
        } else {
            mr_relay_take_given(x, from, &record, &entry, (size_t)(at - before));
        }
    }
    if (at != end) { /* what was in it would be taken for entries that the source left out */
        mr_relay_lose(x, from, "what it sent cannot be read");
    }
    pthread_cond_broadcast(&x->came);
    if ((h->kind == TOLD || h->kind == HEARD) && x->wake) {
        x->wake(x->wake_user);
    }
}

/* With the lock held. */
static void read_letter(mr_relay *x, int32_t from, const relay_head *h, const void *body,
                        size_t size) {
    relay_peer *p = &x->peers[from];
    const mr_hash128 hash = mr_hash(body, size);
    bool whole = hash.low == h->hash[0] && hash.high == h->hash[1];
    if (h->taken > p->acknowledged && h->taken <= p->given) {
        p->acknowledged = h->taken;
    }
    if (!whole) {
        mr_relay_lose(x, from, "what it sent is damaged");
    } else if (h->kind == TOLD || h->kind == GIVEN || h->kind == LOST || h->kind == HEARD) {
        take_records(x, from, h, body, size);
    } else if (h->kind == KEEP) {
        mr_relay_take_loan(x, from, h->id, body, size);
    } else if (h->kind == ASK) {
        mr_relay_return_loan(x, from, h->id);
    } else if (h->kind == BACK) {
        mr_relay_take_back(x, from, h->id, body, size);
    } else if (h->kind == BYE) {
        mr_relay_free_loans(x, from);
        mr_relay_drop_letters(p);
        mr_relay_post(x, from, BYE_TOO, NULL, NULL);
        p->left = true;
        pthread_cond_broadcast(&x->came);
        if (x->wake) {
            x->wake(x->wake_user);
        }
    } else if (h->kind == BYE_TOO) {
        p->left_too = true;
    }
}

static bool is_early(const relay_peer *p, int64_t number) {
    const relay_early *e = p->early;
    while (e && e->head.number != number) {
        e = e->next;
    }
    return e != NULL;
}

/* Without it nothing behind it could ever be read: its sender is done without. */
static bool keep_early(mr_relay *x, const relay_head *h, const mr_link_message *m) {
    relay_peer *p = &x->peers[m->peer];
    bool fits = h->number - p->got < MOST_EARLY && !is_early(p, h->number);
    relay_early *e = fits ? mr_zalloc(1, sizeof *e) : NULL;
    if (e) {
        *e = (relay_early){
            .next = p->early, .head = *h, .body = m->body, .size = m->size, .came = now(x)};
        p->early = e;
    } else {
        mr_relay_lose(x, m->peer, fits ? "no memory" : "its letters are numbered wrongly");
    }
    return e != NULL;
}

static relay_early *take_early(relay_peer *p) {
    relay_early **at = &p->early;
    while (*at && (*at)->head.number != p->got) {
        at = &(*at)->next;
    }
    relay_early *e = *at;
    if (e) {
        *at = e->next;
    }
    return e;
}

static void read_early(mr_relay *x, int32_t from) {
    relay_peer *p = &x->peers[from];
    for (relay_early *e; (e = take_early(p)) != NULL; mr_free(e)) {
        p->got++;
        read_letter(x, from, &e->head, e->body, e->size);
        note(x, MR_SPAN_RECEIVE, e->came, &e->head, e->size);
        free(e->body);
    }
}

static void take_message(mr_relay *x, const mr_link_message *m) {
    relay_head h;
    memcpy(&h, m->head, sizeof h);
    bool known = h.magic == RELAY_MAGIC && m->peer >= 0 && m->peer < x->config.world &&
                 m->peer != x->config.rank;
    bool kept = false;
    const uint64_t came = now(x);
    pthread_mutex_lock(&x->lock);
    relay_peer *p = known ? &x->peers[m->peer] : NULL;
    if (p) {
        p->heard = mr_relay_now();
    }
    if (p && h.number == p->got) {
        p->got++;
        read_letter(x, m->peer, &h, m->body, m->size);
        note(x, MR_SPAN_RECEIVE, came, &h, m->size);
        read_early(x, m->peer);
    } else if (p && h.number > p->got) {
        kept = keep_early(x, &h, m);
    }
    pthread_mutex_unlock(&x->lock);
    if (!kept) {
        free(m->body);
    }
}

static bool take_events(mr_relay *x) {
    mr_link_event events[EVENTS];
    char why[MR_LINK_WHY] = "";
    int32_t n = x->class->poll(x->link, events, EVENTS, why);
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
/* With the lock held. Who took much says so at once: the other may wait for room. */
static void beat(mr_relay *x, bool is_time) {
    for (int32_t r = 0; r < x->config.world; r++) {
        const relay_peer *p = &x->peers[r];
        bool due = is_time || p->taken - p->told_taken > WINDOW_BYTES / 4;
        if (r != x->config.rank && !p->left && due && !p->first) {
            mr_relay_post(x, r, BEAT, NULL, NULL);
        }
    }
}

static void look_after(mr_relay *x, int32_t who) {
    const relay_peer *p = &x->peers[who];
    char why[80];
    if (p->left || who == x->config.rank) {
        return;
    }
    if (p->is_near && !mr_process_is_alive(&p->process)) {
        while (take_events(x)) { /* what it said before: perhaps whom it had lost itself */
        }
        lose(x, who, "its process has ended");
    } else if (mr_relay_now() - p->heard > x->patience) {
        snprintf(why, sizeof why, "nothing was heard of it for %.0f s", x->patience);
        lose(x, who, why);
    }
}

static void watch(mr_relay *x, rhythm *own) {
    double t = mr_relay_now();
    bool beats = t - own->beaten >= BEAT_SECONDS;
    pthread_mutex_lock(&x->lock);
    beat(x, beats);
    pthread_mutex_unlock(&x->lock);
    own->beaten = beats ? t : own->beaten;
    if (t - own->checked >= CHECK_SECONDS) {
        own->checked = t;
        for (int32_t r = 0; r < x->config.world; r++) {
            look_after(x, r);
        }
    }
}

/* Sleeps a little longer each time that nothing happens: polling without rest would take a CPU from
 * the workers. */
static void nap(mr_relay *x, rhythm *own) {
    enum { SHORTEST = 20000, AWAITED = 100000, LONGEST = 1000000 };
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    pthread_mutex_lock(&x->lock);
    int64_t most = x->waiting > 0 ? AWAITED : LONGEST;
    own->naps = own->naps * 2 < most ? own->naps * 2 : most;
    own->naps = own->naps < SHORTEST ? SHORTEST : own->naps;
    t.tv_nsec += (long)own->naps;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    bool idle = true;
    for (int32_t r = 0; idle && r < x->config.world; r++) {
        idle = !x->peers[r].first;
    }
    if (idle) {
        pthread_cond_timedwait(&x->mail, &x->lock, &t);
    }
    pthread_mutex_unlock(&x->lock);
}

static void speak(mr_relay *x, rhythm *own) {
    bool busy = send_letters(x);
    busy = take_events(x) || busy;
    watch(x, own);
    own->naps = busy ? 0 : own->naps;
    if (!busy) {
        nap(x, own);
    }
}

/* ---- Its end ---- */
static bool all_left(mr_relay *x) {
    pthread_mutex_lock(&x->lock);
    bool all = true;
    for (int32_t r = 0; all && r < x->config.world; r++) {
        const relay_peer *p = &x->peers[r];
        all = r == x->config.rank || ((p->left || p->left_too) && !p->first);
    }
    pthread_mutex_unlock(&x->lock);
    return all && x->class->is_quiet(x->link);
}

static bool has_failed(mr_relay *x) {
    pthread_mutex_lock(&x->lock);
    bool failed = x->failed < 0;
    pthread_mutex_unlock(&x->lock);
    return failed;
}

/* What was told and given goes out before the goodbye: others may be behind. Servers are not waited
 * for long: who leaves them without a word is missed after a while. */
static bool leave(mr_relay *x, rhythm *own) {
    double end = mr_relay_now() + (x->is_vital ? LEAVE_SECONDS : LEAVE_SERVERS);
    pthread_mutex_lock(&x->lock);
    for (int32_t r = 0; r < x->config.world; r++) {
        if (r != x->config.rank && !x->peers[r].left) {
            mr_relay_post(x, r, BYE, NULL, NULL);
        }
    }
    pthread_mutex_unlock(&x->lock);
    while (!all_left(x) && mr_relay_now() < end && !has_failed(x)) {
        speak(x, own);
    }
    return all_left(x) && !has_failed(x);
}

/* The word that somebody was lost shall reach the others. */
static void say_the_last(mr_relay *x) {
    const struct timespec moment = {0, 1000000};
    double end = mr_relay_now() + 0.2;
    send_letters(x);
    while (mr_relay_now() < end && !x->class->is_quiet(x->link)) {
        if (!take_events(x)) {
            nanosleep(&moment, NULL);
        }
    }
}

void *mr_relay_speaker_main(void *context) {
    mr_relay *x = context;
    rhythm own = {0};
    mr_relay_attach(x->config.speaks);
    for (bool closing = false; !closing;) {
        speak(x, &own);
        pthread_mutex_lock(&x->lock);
        closing = x->closing;
        pthread_mutex_unlock(&x->lock);
    }
    bool well = leave(x, &own);
    if (!well) {
        say_the_last(x);
    }
    x->class->close(x->link, !well);
    x->link = NULL;
    if (!well && x->is_vital) {
        x->under_way = NULL; /* MPI may still read them: nobody can free them any more */
    }
    mr_relay_detach(x->config.speaks);
    return NULL;
}
