/* SPDX-License-Identifier: Apache-2.0 */
/* lent.c - see lent.h. */
#include "run/stream/lent.h"

#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "run/stream/relay_record.h"

enum { ASKED_AHEAD = 4 };
#define CHUNK_BYTES ((size_t)64 << 10) /* from which it goes out */

/* Entries [first, end) of a partition, records one after the other. */
typedef struct chunk {
    struct chunk *next;
    int64_t id, first, end;
    int32_t lender; /* -1: it is here */
    bool is_asked;
    int64_t size; /* of its bytes, wherever they are */
    mr_hash128 hash;
    mr_relay_bytes bytes;
    size_t given; /* of them */
} chunk;

typedef struct part {
    chunk *first, *last; /* the last is being filled, if it is here */
    int64_t end;         /* -1: empty */
} part;

struct mr_lent {
    mr_lent_config config;
    part *parts;
    int64_t *at; /* bytes, by rank */
    int64_t next_id;
    _Atomic int64_t entries, bytes, read_again;
};

/* ---- Opening ---- */
mr_status mr_lent_open(mr_lent **out, const mr_lent_config *config, mr_error *err) {
    mr_lent *l = mr_zalloc(1, sizeof *l);
    *out = l;
    if (!l) {
        return mr_fail_memory(err, sizeof *l);
    }
    l->config = *config;
    l->parts = mr_zalloc((size_t)config->partitions, sizeof *l->parts);
    l->at = mr_zalloc((size_t)config->world, sizeof *l->at);
    if (!l->parts || !l->at) {
        return mr_fail_memory(err, (size_t)config->partitions * sizeof *l->parts);
    }
    for (int32_t i = 0; i < config->partitions; i++) {
        l->parts[i].end = -1;
    }
    return MR_OK;
}

static void free_chunk(chunk *c) {
    free(c->bytes.bytes);
    mr_free(c);
}

void mr_lent_close(mr_lent *l) {
    if (l) {
        for (int32_t i = 0; l->parts && i < l->config.partitions; i++) {
            for (chunk *c = l->parts[i].first, *next; c; c = next) {
                next = c->next;
                free_chunk(c);
            }
        }
        mr_free(l->parts);
        mr_free(l->at);
        mr_free(l);
    }
}

/* ---- Putting ---- */
int64_t mr_lent_end(const mr_lent *l, int32_t partition) {
    return l->parts[partition].end;
}

static int64_t quota(const mr_lent *l) {
    return l->config.bytes / (l->config.world > 1 ? l->config.world - 1 : 1);
}

/* The rank with most room; -1: none has so much. */
static int32_t choose_lender(const mr_lent *l, int64_t size) {
    int32_t best = -1;
    for (int32_t r = 0; r < l->config.world; r++) {
        if (r != l->config.rank && l->at[r] + size <= quota(l) &&
            (best < 0 || l->at[r] < l->at[best]) && mr_relay_is_here(l->config.relay, r)) {
            best = r;
        }
    }
    return best;
}

bool mr_lent_has_room(const mr_lent *l, const mr_entry *entry) {
    return choose_lender(l, (int64_t)(CHUNK_BYTES + entry->size + entry->key_size)) >= 0;
}

static chunk *open_chunk(mr_lent *l, part *p, int64_t number) {
    chunk *c = mr_zalloc(1, sizeof *c);
    if (c) {
        *c = (chunk){.id = l->next_id++, .first = number, .end = number, .lender = -1};
        *(p->last ? &p->last->next : &p->first) = c;
        p->last = c;
    }
    return c;
}

/* Where nobody has room any more it stays here, until the next. */
static void send_away(mr_lent *l, chunk *c) {
    int32_t lender = choose_lender(l, (int64_t)c->bytes.size);
    c->size = (int64_t)c->bytes.size;
    c->hash = mr_hash(c->bytes.bytes, c->bytes.size);
    if (lender >= 0 && mr_relay_lend(l->config.relay, lender, c->id, &c->bytes)) {
        c->lender = lender;
        l->at[lender] += c->size;
        atomic_fetch_add(&l->bytes, c->size);
    }
}

mr_status mr_lent_put(mr_lent *l, int32_t partition, const mr_entry *entry, mr_error *err) {
    part *p = &l->parts[partition];
    chunk *c = p->last;
    bool is_open = c && c->lender < 0 && c->given == 0 && c->bytes.size < CHUNK_BYTES;
    c = is_open ? c : open_chunk(l, p, entry->number);
    if (!c || mr_relay_write(&c->bytes, 0, partition, entry, false) == 0) {
        return mr_fail_memory(err, entry->size);
    }
    c->end = p->end = entry->number + 1;
    atomic_fetch_add(&l->entries, 1);
    if (c->bytes.size >= CHUNK_BYTES) {
        send_away(l, c);
    }
    return MR_OK;
}

/* ---- Reading again ---- */
typedef struct rewriting {
    mr_relay_bytes *to;
    int32_t partition;
} rewriting;

static bool write_again(void *user, const mr_entry *entry) {
    rewriting *w = user;
    return mr_relay_write(w->to, 0, w->partition, entry, false) > 0;
}

static mr_status fail_gone(int32_t partition, int64_t number, mr_error *err) {
    mr_fail(err, MR_E_STATE,
            "entry %" PRId64 " of partition %" PRId32
            " was spilled to a rank that has left, and the stream keeps it no more",
            number, partition);
    mr_hint(err, "go on from the saved state, and let the stream keep more");
    return MR_E_STATE;
}

/* One that the stream has not trimmed and cannot give is a bad one, or was left out, as before. */
static mr_status read_entry_again(mr_lent *l, chunk *c, int32_t partition, int64_t number,
                                  mr_error *err) {
    rewriting w = {&c->bytes, partition};
    const mr_entry_sink sink = {write_again, &w};
    mr_error failure = MR_ERROR_INIT;
    size_t before = c->bytes.size;
    mr_status status = mr_dataset_recall(l->config.dataset, partition, number, &sink, &failure);
    if (status == MR_OK) {
        return c->bytes.size > before ? MR_OK : mr_fail_memory(err, CHUNK_BYTES);
    }
    if (status != MR_E_CORRUPT && status != MR_E_NOT_FOUND) {
        if (err) {
            *err = failure;
        }
        return status;
    }
    const mr_entry bad = {.number = number};
    return write_again(&w, &bad) ? MR_OK : mr_fail_memory(err, CHUNK_BYTES);
}

static mr_status check_kept(const mr_lent *l, const chunk *c, int32_t partition, mr_error *err) {
    int64_t oldest = 0;
    MR_TRY(mr_dataset_oldest(l->config.dataset, partition, &oldest, err));
    return c->first < oldest ? fail_gone(partition, c->first, err) : MR_OK;
}

/* What is trimmed in the middle of it is not taken for a bad one. */
static mr_status read_again(mr_lent *l, chunk *c, int32_t partition, mr_error *err) {
    MR_TRY(check_kept(l, c, partition, err));
    for (int64_t number = c->first; number < c->end; number++) {
        MR_TRY(read_entry_again(l, c, partition, number, err));
        atomic_fetch_add(&l->read_again, 1);
    }
    return check_kept(l, c, partition, err);
}

/* ---- Taking back ---- */
static void ask_ahead(mr_lent *l, chunk *c) {
    for (int n = 0; c && n < ASKED_AHEAD; c = c->next, n++) {
        if (c->lender >= 0 && !c->is_asked) {
            mr_relay_ask_back(l->config.relay, c->lender, c->id);
            c->is_asked = true;
        }
    }
}

static bool is_same(const chunk *c) {
    const mr_hash128 hash = mr_hash(c->bytes.bytes, c->bytes.size);
    return (int64_t)c->bytes.size == c->size && hash.low == c->hash.low &&
           hash.high == c->hash.high;
}

/* MR_LATER: it is on its way. Something else than what was lent is as good as nothing. */
static mr_status bring_back(mr_lent *l, chunk *c, int32_t partition, mr_error *err) {
    if (c->lender < 0) {
        return MR_OK;
    }
    mr_status status = mr_relay_back(l->config.relay, c->lender, c->id, &c->bytes);
    if (status == MR_LATER) {
        return MR_LATER;
    }
    l->at[c->lender] -= c->size;
    atomic_fetch_sub(&l->bytes, c->size);
    c->lender = -1;
    if (status == MR_OK && is_same(c)) {
        return MR_OK;
    }
    c->bytes.size = 0;
    return read_again(l, c, partition, err);
}

/* False: the sink takes no more. */
static bool give(chunk *c, const mr_entry_sink *sink) {
    const char *at = c->bytes.bytes + c->given, *end = c->bytes.bytes + c->bytes.size;
    mr_relay_record record;
    mr_entry entry;
    bool taken = true;
    while (taken && mr_relay_read(&at, end, &record, &entry)) {
        taken = sink->take(sink->user, &entry);
        c->given = taken ? (size_t)(at - c->bytes.bytes) : c->given;
    }
    return taken;
}

static void drop_first(part *p) {
    chunk *c = p->first;
    p->first = c->next;
    p->last = p->first ? p->last : NULL;
    p->end = p->first ? p->end : -1;
    free_chunk(c);
}

mr_status mr_lent_take(mr_lent *l, int32_t partition, const mr_entry_sink *sink, mr_error *err) {
    part *p = &l->parts[partition];
    mr_status status = MR_OK;
    while (status == MR_OK && p->first) {
        ask_ahead(l, p->first);
        status = bring_back(l, p->first, partition, err);
        if (status == MR_OK) {
            status = give(p->first, sink) ? MR_OK : MR_LATER;
        }
        if (status == MR_OK) {
            drop_first(p);
        }
    }
    return status == MR_LATER ? MR_OK : status;
}

void mr_lent_counts_of(const mr_lent *l, mr_lent_counts *out) {
    *out = (mr_lent_counts){l->entries, l->bytes, l->read_again};
}
