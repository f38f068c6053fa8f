/* SPDX-License-Identifier: Apache-2.0 */
/* mail.c - see mail.h. */
#include "fabric/mail.h"

#include <millrace/fabric.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/memory.h"

enum { PLACES = 32, NAP_NS = 2000000 };

typedef enum kind { HELLO = 1, ANSWER, COUNTS, MESSAGE } kind;

/* The name of a value. All of it is written, so that there is no padding. */
typedef struct name {
    uint64_t run[2];
    uint64_t nonce; /* of the sender; 0 while it is not known */
    int32_t kind, from, to, place;
} name;

typedef struct greeting {
    uint64_t nonce, size; /* its bytes follow */
} greeting;

typedef struct answer {
    uint64_t own, other; /* nonces */
} answer;

typedef struct counts {
    int64_t sent, got;
} counts;

/* A message at a server: this, and the body. */
typedef struct envelope {
    int64_t number;
    uint64_t size;
    unsigned char head[MR_LINK_HEAD];
} envelope;

/* A message that waits to be put. */
typedef struct outgoing {
    struct outgoing *next;
    mr_link_message message;
    int64_t number;
    bool is_put;
} outgoing;

typedef struct partner {
    uint64_t nonce;
    int64_t sent, got;   /* messages to it; of it */
    int64_t taken;       /* messages that it has read */
    int64_t there;       /* messages that it has sent, as far as is known */
    counts told;         /* the last that was put */
    double missing_from; /* since when a message is not there; 0: none is missed */
    bool is_lost;
} partner;

typedef struct mail {
    mr_link_config config;
    uint64_t run[2], nonce;
    mr_fabric *fabric;
    partner *partners;
    outgoing *first, **last;
    mr_parcel *parcels; /* one for each partner, and for PLACES messages */
    name *names;
    counts *values;
} mail;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a run that has ended leaves behind goes by itself. */
static double seconds_kept(const mail *m) {
    return 10 * m->config.timeout + 60;
}

static name name_of(const mail *m, kind what, int32_t from, int32_t to) {
    return (name){.run = {m->run[0], m->run[1]}, .kind = (int32_t)what, .from = from, .to = to};
}

/* ---- Opening ---- */
static void close_mail(void *link, bool broken) {
    mail *m = link;
    (void)broken;
    for (outgoing *o = m->first, *next; o; o = next) {
        next = o->next;
        mr_free(o);
    }
    mr_fabric_close(m->fabric);
    mr_free(m->partners);
    mr_free(m->parcels);
    mr_free(m->names);
    mr_free(m->values);
    mr_free(m);
}

static bool open_servers(mail *m, char *why) {
    mr_error err = MR_ERROR_INIT;
    const mr_fabric_config config = {
        .size = (uint32_t)sizeof config, .url = m->config.url, .space = "mail"};
    if (mr_fabric_open(&m->fabric, &config, &err) < 0) {
        snprintf(why, MR_LINK_WHY, "%.380s", err.text);
        return false;
    }
    return true;
}

static bool open_mail(void **link, const mr_link_config *config, char why[MR_LINK_WHY]) {
    size_t world = (size_t)config->world, most = 2 * world + PLACES;
    mail *m = mr_zalloc(1, sizeof *m);
    *link = m;
    snprintf(why, MR_LINK_WHY, "no memory");
    if (!m) {
        return false;
    }
    m->config = *config;
    m->last = &m->first;
    m->partners = mr_zalloc(world, sizeof *m->partners);
    m->parcels = mr_zalloc(most, sizeof *m->parcels);
    m->names = mr_zalloc(most, sizeof *m->names);
    m->values = mr_zalloc(world, sizeof *m->values);
    const mr_hash128 run = mr_hash(config->name, strlen(config->name));
    m->run[0] = run.low;
    m->run[1] = run.high;
    bool well = m->partners && m->parcels && m->names && m->values &&
                getrandom(&m->nonce, sizeof m->nonce, 0) == (ssize_t)sizeof m->nonce &&
                open_servers(m, why);
    if (!well) {
        close_mail(m, true);
        *link = NULL;
    }
    return well;
}

/* ---- Finding each other ---- */
static bool put_one(mail *m, const name *key, void *value, size_t size) {
    mr_parcel parcel = {.key = key,
                        .key_size = sizeof *key,
                        .value = value,
                        .size = size,
                        .seconds = seconds_kept(m)};
    return mr_fabric_put(m->fabric, &parcel, 1, NULL) == MR_OK && parcel.done;
}

/* Whether the value is there, with exactly so many bytes; then it is the caller's to free. */
static void *get_one(mail *m, const name *key, size_t size) {
    mr_parcel parcel = {.key = key, .key_size = sizeof *key};
    bool here = mr_fabric_get(m->fabric, &parcel, 1, NULL) == MR_OK && parcel.done;
    if (here && parcel.size == size) {
        return parcel.value;
    }
    if (parcel.value) {
        mr_free(parcel.value);
    }
    return NULL;
}

static bool greet(mail *m, const void *own, size_t size) {
    const name key = name_of(m, HELLO, m->config.rank, -1);
    const greeting head = {m->nonce, size};
    char *value = malloc(sizeof head + size);
    if (!value) {
        return false;
    }
    memcpy(value, &head, sizeof head);
    memcpy(value + sizeof head, own, size);
    bool put = put_one(m, &key, value, sizeof head + size);
    mr_free(value);
    return put;
}

/* A rank is found once it has answered this rank's number: then its own is of now. */
static bool is_answered(mail *m, int32_t rank, uint64_t nonce) {
    const name key = name_of(m, ANSWER, rank, m->config.rank);
    answer *value = get_one(m, &key, sizeof *value);
    bool fresh = value && value->own == nonce && value->other == m->nonce;
    mr_free(value);
    return fresh;
}

static bool find(mail *m, int32_t rank, size_t size, void *out) {
    const name key = name_of(m, HELLO, rank, -1), reply = name_of(m, ANSWER, m->config.rank, rank);
    partner *p = &m->partners[rank];
    greeting head;
    char *value = get_one(m, &key, sizeof head + size);
    if (!value) {
        return false;
    }
    memcpy(&head, value, sizeof head);
    answer own = {m->nonce, head.nonce};
    bool found = head.size == size && put_one(m, &reply, &own, sizeof own) &&
                 is_answered(m, rank, head.nonce);
    if (found) {
        p->nonce = head.nonce;
        memcpy(out, value + sizeof head, size);
    }
    mr_free(value);
    return found;
}

static int32_t find_others(mail *m, size_t size, void *all) {
    int32_t found = 0;
    for (int32_t r = 0; r < m->config.world; r++) {
        char *out = (char *)all + (size_t)r * size;
        found += r == m->config.rank || m->partners[r].nonce || find(m, r, size, out);
    }
    return found;
}

static bool collect(void *link, const void *own, size_t size, void *all, char why[MR_LINK_WHY]) {
    mail *m = link;
    double end = now() + m->config.timeout;
    int32_t found = 0;
    memcpy((char *)all + (size_t)m->config.rank * size, own, size);
    while (found < m->config.world && now() < end) {
        const struct timespec moment = {0, NAP_NS};
        found = greet(m, own, size) ? find_others(m, size, all) : 0;
        if (found < m->config.world) {
            nanosleep(&moment, NULL);
        }
    }
    if (found < m->config.world) {
        mr_fabric_stats stats = {.size = (uint32_t)sizeof stats};
        mr_fabric_stats_now(m->fabric, &stats);
        snprintf(why, MR_LINK_WHY, "%d of %d ranks were found within %g s%s%s", (int)found,
                 (int)m->config.world, m->config.timeout, stats.trouble[0] ? "; " : "",
                 stats.trouble);
    }
    return found == m->config.world;
}

/* ---- Sending ---- */
static bool send_mail(void *link, const mr_link_message *message, char why[MR_LINK_WHY]) {
    mail *m = link;
    outgoing *o = mr_zalloc(1, sizeof *o);
    if (!o) {
        snprintf(why, MR_LINK_WHY, "no memory");
        return false;
    }
    o->message = *message;
    o->number = m->partners[message->peer].sent++;
    *m->last = o;
    m->last = &o->next;
    return true;
}

static void *seal_letter(const outgoing *o) {
    envelope head = {.number = o->number, .size = o->message.size};
    memcpy(head.head, o->message.head, sizeof head.head);
    char *value = malloc(sizeof head + o->message.size);
    if (value) {
        memcpy(value, &head, sizeof head);
        memcpy(value + sizeof head, o->message.size ? o->message.body : "", o->message.size);
    }
    return value;
}

static name place_of(const mail *m, uint64_t nonce, int32_t from, int32_t to, int64_t number) {
    name key = name_of(m, MESSAGE, from, to);
    key.nonce = nonce;
    key.place = (int32_t)(number % PLACES);
    return key;
}

/* A place is free once the other has read what was there. */
static bool may_put(const mail *m, const outgoing *o) {
    const partner *p = &m->partners[o->message.peer];
    return o->number < p->taken + PLACES;
}

/* As many letters as there are parcels for; those behind the first of a partner that has no place
 * have none either. */
static int32_t seal_letters(mail *m, outgoing **of) {
    int32_t n = 0;
    for (outgoing *o = m->first; o && n < PLACES; o = o->next) {
        void *value = !o->is_put && may_put(m, o) ? seal_letter(o) : NULL;
        if (!value) {
            continue;
        }
        m->names[n] = place_of(m, m->nonce, m->config.rank, o->message.peer, o->number);
        m->parcels[n] = (mr_parcel){.key = &m->names[n],
                                    .key_size = sizeof m->names[n],
                                    .value = value,
                                    .size = sizeof(envelope) + o->message.size,
                                    .seconds = seconds_kept(m)};
        of[n++] = o;
    }
    return n;
}

/* The number of messages to a partner that it can read: all before the first that is not put. */
static int64_t put_before(const mail *m, int32_t rank) {
    for (const outgoing *o = m->first; o; o = o->next) {
        if (o->message.peer == rank && !o->is_put) {
            return o->number;
        }
    }
    return m->partners[rank].sent;
}

/* What is not put stays, and is tried again. */
static void put_letters(mail *m) {
    outgoing *of[PLACES];
    int32_t n = seal_letters(m, of);
    if (n == 0) {
        return;
    }
    mr_status status = mr_fabric_put(m->fabric, m->parcels, n, NULL);
    for (int32_t i = 0; i < n; i++) {
        of[i]->is_put = status == MR_OK && m->parcels[i].done;
        mr_free(m->parcels[i].value);
    }
}

static int32_t report_gone(mail *m, mr_link_event *events, int32_t most) {
    int32_t n = 0;
    for (outgoing **at = &m->first; *at && n < most;) {
        outgoing *o = *at;
        if (!o->is_put) {
            at = &o->next;
            continue;
        }
        events[n++] = (mr_link_event){.kind = MR_LINK_GONE, .message = o->message};
        *at = o->next;
        mr_free(o);
    }
    m->last = &m->first;
    while (*m->last) {
        m->last = &(*m->last)->next;
    }
    return n;
}

static void put_counts(mail *m) {
    int32_t n = 0;
    for (int32_t r = 0; r < m->config.world; r++) {
        const partner *p = &m->partners[r];
        counts value = {put_before(m, r), p->got};
        if (r == m->config.rank || (value.sent == p->told.sent && value.got == p->told.got)) {
            continue;
        }
        m->names[n] = name_of(m, COUNTS, m->config.rank, r);
        m->names[n].nonce = m->nonce;
        m->values[r] = value;
        m->parcels[n] = (mr_parcel){.key = &m->names[n],
                                    .key_size = sizeof m->names[n],
                                    .value = &m->values[r],
                                    .size = sizeof value,
                                    .seconds = seconds_kept(m)};
        n++;
    }
    if (n > 0 && mr_fabric_put(m->fabric, m->parcels, n, NULL) == MR_OK) {
        for (int32_t i = 0; i < n; i++) {
            int32_t r = m->names[i].to;
            m->partners[r].told = m->parcels[i].done ? m->values[r] : (counts){-1, -1};
        }
    }
}

/* ---- Receiving ---- */
static void get_counts(mail *m) {
    int32_t n = 0;
    for (int32_t r = 0; r < m->config.world; r++) {
        m->names[r] = name_of(m, COUNTS, r, m->config.rank);
        m->names[r].nonce = m->partners[r].nonce;
        if (r != m->config.rank) {
            m->parcels[n++] = (mr_parcel){.key = &m->names[r], .key_size = sizeof m->names[r]};
        }
    }
    if (n == 0 || mr_fabric_get(m->fabric, m->parcels, n, NULL) != MR_OK) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const name *key = m->parcels[i].key;
        partner *p = &m->partners[key->from];
        counts value;
        if (m->parcels[i].done && m->parcels[i].size == sizeof value) {
            memcpy(&value, m->parcels[i].value, sizeof value);
            p->there = value.sent > p->there ? value.sent : p->there;
            p->taken = value.got > p->taken && value.got <= p->sent ? value.got : p->taken;
        }
        mr_free(m->parcels[i].value);
    }
}

/* False: it is an older one, or none. */
static bool open_letter(mail *m, int32_t from, const mr_parcel *parcel, mr_link_event *out) {
    envelope head;
    if (!parcel->done || parcel->size < sizeof head) {
        return false;
    }
    memcpy(&head, parcel->value, sizeof head);
    if (head.number != m->partners[from].got || head.size != parcel->size - sizeof head ||
        head.size > m->config.max_body) {
        return false;
    }
    char *memory = head.size > 0 ? malloc(m->config.room + head.size) : NULL;
    if (head.size > 0 && !memory) {
        return false;
    }
    *out = (mr_link_event){.kind = MR_LINK_CAME, .message = {.peer = from, .size = head.size}};
    memcpy(out->message.head, head.head, sizeof head.head);
    if (memory) {
        memcpy(memory + m->config.room, (char *)parcel->value + sizeof head, head.size);
        out->message.body = memory + m->config.room;
    }
    m->partners[from].got++;
    return true;
}

/* Where one is not there, those behind it wait; not without end. */
static bool is_missed(mail *m, int32_t from, mr_link_event *out, char *why) {
    partner *p = &m->partners[from];
    p->missing_from = p->missing_from > 0 ? p->missing_from : now();
    if (now() - p->missing_from < m->config.timeout) {
        return false;
    }
    p->is_lost = true;
    *out = (mr_link_event){.kind = MR_LINK_LOST, .message = {.peer = from}};
    snprintf(why, MR_LINK_WHY, "a message of rank %d is not at the servers any more", (int)from);
    return true;
}

static int32_t get_letters(mail *m, int32_t from, mr_link_event *events, int32_t most, char *why) {
    partner *p = &m->partners[from];
    int64_t wanted = p->there - p->got;
    int32_t n = 0, came = 0;
    for (; n < wanted && n < PLACES && n < most; n++) {
        m->names[n] = place_of(m, p->nonce, from, m->config.rank, p->got + n);
        m->parcels[n] = (mr_parcel){.key = &m->names[n], .key_size = sizeof m->names[n]};
    }
    if (n == 0 || p->is_lost || mr_fabric_get(m->fabric, m->parcels, n, NULL) != MR_OK) {
        return 0;
    }
    for (int32_t i = 0; i < n; i++) {
        came += came == i && open_letter(m, from, &m->parcels[i], &events[came]);
        mr_free(m->parcels[i].value);
    }
    p->missing_from = came > 0 ? 0 : p->missing_from;
    return came > 0 ? came : is_missed(m, from, events, why);
}

static int32_t poll_mail(void *link, mr_link_event *events, int32_t most, char why[MR_LINK_WHY]) {
    mail *m = link;
    put_letters(m);
    put_counts(m);
    int32_t n = report_gone(m, events, most);
    get_counts(m);
    for (int32_t r = 0; r < m->config.world && n < most; r++) {
        n += r != m->config.rank ? get_letters(m, r, events + n, most - n, why) : 0;
    }
    return n;
}

/* All was put, and who reads is told of it. */
static bool is_quiet(void *link) {
    const mail *m = link;
    bool told = !m->first;
    for (int32_t r = 0; told && r < m->config.world; r++) {
        told = r == m->config.rank || m->partners[r].told.sent == m->partners[r].sent;
    }
    return told;
}

const mr_link_class mr_mail_link = {.abi = MR_LINK_ABI,
                                    .name = "mail",
                                    .open = open_mail,
                                    .collect = collect,
                                    .send = send_mail,
                                    .poll = poll_mail,
                                    .is_quiet = is_quiet,
                                    .close = close_mail};
