/* SPDX-License-Identifier: Apache-2.0 */
/* rehearsal_state.c - a rehearsal buffer as bytes: little-endian words of 64 bits.
 *
 *     head      magic, policy, size, lag, classes, rate, seed, step, seen, drawn, groups, kept,
 * pending groups    label, seen, was largest, members                        in the order they came
 *     kept      id, key, label, group, its number among the members, weight   by place
 *     pending   step, id, label, value
 *     checksum  of all words before
 *
 * Whatever the words are, a buffer that is restored is one whose lists lead nowhere else. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "plan/rehearsal_parts.h"

enum { HEAD = 13, GROUP = 4, KEPT = 6, PENDING = 4 };
#define SEEN_MAX (INT64_MAX / 2)
#define MAGIC 0x32636572686572u /* "reherc2" */

/* ---- Saving ---- */
typedef struct words {
    unsigned char *at;
} words;

static void put(words *w, uint64_t word) {
    word = htole64(word);
    memcpy(w->at, &word, sizeof word);
    w->at += sizeof word;
}

static uint64_t bits_of(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static void put_head(words *w, const mr_rehearsal *b) {
    const mr_rehearsal_options *o = &b->options;
    const uint64_t head[HEAD] = {MAGIC,
                                 (uint64_t)o->policy,
                                 (uint64_t)o->size,
                                 (uint64_t)o->lag,
                                 (uint64_t)o->classes,
                                 bits_of(o->rate),
                                 o->seed,
                                 (uint64_t)b->step,
                                 (uint64_t)b->seen,
                                 (uint64_t)b->drawn,
                                 b->n_groups,
                                 b->n,
                                 (uint64_t)b->n_pending};
    for (int i = 0; i < HEAD; i++) {
        put(w, head[i]);
    }
}

static void put_body(words *w, const mr_rehearsal *b, const uint32_t *at) {
    for (uint32_t i = 0; i < b->n_groups; i++) {
        const group *g = &b->groups[i];
        put(w, (uint64_t)g->label);
        put(w, (uint64_t)g->seen);
        put(w, g->was_largest);
        put(w, g->n);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        const kept *k = &b->kept[i];
        put(w, k->id);
        put(w, k->key);
        put(w, (uint64_t)k->label);
        put(w, k->group);
        put(w, at[i]);
        put(w, k->weight);
    }
    for (int64_t i = 0; i < b->n_pending; i++) {
        const mr_offer *offer = &b->pending[i];
        put(w, (uint64_t)offer->step);
        put(w, offer->id);
        put(w, (uint64_t)offer->label);
        put(w, bits_of(offer->value));
    }
}

/* Of each place: its number among the members of its group. */
static uint32_t *list_members(const mr_rehearsal *b) {
    uint32_t *at = mr_zalloc((size_t)b->n + 1, sizeof *at);
    for (uint32_t i = 0; at && i < b->n_groups; i++) {
        for (uint32_t k = 0; k < b->groups[i].n; k++) {
            at[b->groups[i].members[k].place] = k;
        }
    }
    return at;
}

size_t mr_rehearsal_bytes(const mr_rehearsal *b) {
    size_t n =
        HEAD + (size_t)b->n_groups * GROUP + (size_t)b->n * KEPT + (size_t)b->n_pending * PENDING;
    return (n + 1) * sizeof(uint64_t);
}

mr_status mr_rehearsal_save(const mr_rehearsal *b, unsigned char **out, size_t *size,
                            mr_error *err) {
    *size = mr_rehearsal_bytes(b);
    *out = malloc(*size);
    uint32_t *at = list_members(b);
    if (!*out || !at) {
        free(*out);
        free(at);
        *out = NULL;
        return mr_fail_memory(err, *size);
    }
    words w = {*out};
    put_head(&w, b);
    put_body(&w, b, at);
    free(at);
    put(&w, mr_hash64(*out, *size - sizeof(uint64_t), 0));
    return MR_OK;
}

/* ---- Restoring ---- */
typedef struct reading {
    const unsigned char *at;
    uint64_t groups, kept, pending;
} reading;

static uint64_t get(reading *r) {
    uint64_t word;
    memcpy(&word, r->at, sizeof word);
    r->at += sizeof word;
    return le64toh(word);
}

static double get_double(reading *r) {
    uint64_t bits = get(r);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static bool sizes_fit(const reading *r, size_t size) {
    uint64_t n = size / sizeof(uint64_t);
    return size % sizeof(uint64_t) == 0 && r->groups <= n && r->kept <= n && r->pending <= n &&
           HEAD + r->groups * GROUP + r->kept * KEPT + r->pending * PENDING + 1 == n;
}

static bool sum_fits(const unsigned char *bytes, size_t size) {
    uint64_t sum;
    if (size < (HEAD + 1) * sizeof sum) {
        return false;
    }
    memcpy(&sum, bytes + size - sizeof sum, sizeof sum);
    return le64toh(sum) == mr_hash64(bytes, size - sizeof sum, 0);
}

static bool restore_groups(mr_rehearsal *b, reading *r, mr_error *err) {
    for (uint64_t i = 0; i < r->groups; i++) {
        if (mr_rehearsal_reserve(b, err) < 0) {
            return false;
        }
        int64_t label = (int64_t)get(r);
        bool is_new = mr_rehearsal_find_group(b, label) == UINT32_MAX;
        group *g = &b->groups[mr_rehearsal_group(b, label)];
        g->seen = (int64_t)get(r);
        g->was_largest = get(r) != 0;
        uint64_t members = get(r);
        if (!is_new || members > r->kept || g->seen < (int64_t)members || g->seen > SEEN_MAX ||
            !mr_rehearsal_grow(g, (uint32_t)members)) {
            return false;
        }
        if (members > 0) {
            memset(g->members, 0xff, members * sizeof *g->members); /* not there yet */
        }
        g->n = 0;
        g->room = (uint32_t)members; /* until all are in: what may be listed */
    }
    return true;
}

static bool restore_one(mr_rehearsal *b, reading *r, mr_error *err) {
    kept k = {.id = get(r), .key = get(r), .label = (int64_t)get(r)};
    uint64_t which = get(r), at = get(r), weight = get(r);
    if (which >= b->n_groups || weight == 0 || weight > UINT32_MAX ||
        mr_rehearsal_reserve(b, err) < 0 || mr_rehearsal_find(b, k.id) != UINT32_MAX) {
        return false;
    }
    group *g = &b->groups[which];
    if (at >= g->room || g->members[at].place != UINT32_MAX) {
        return false;
    }
    k.group = (uint32_t)which;
    k.at = (uint32_t)at;
    k.weight = (uint32_t)weight;
    mr_rehearsal_put_back(b, &k);
    return true;
}

static bool restore_pending(mr_rehearsal *b, reading *r, mr_error *err) {
    for (uint64_t i = 0; i < r->pending; i++) {
        mr_offer offer = {.step = (int64_t)get(r), .id = get(r), .label = (int64_t)get(r)};
        offer.value = get_double(r);
        if (mr_rehearsal_offer(b, &offer, err) < 0) {
            return false;
        }
    }
    return true;
}

static bool restore_body(mr_rehearsal *b, reading *r, mr_error *err) {
    if ((int64_t)r->kept > b->options.size || !restore_groups(b, r, err)) {
        return false;
    }
    for (uint64_t i = 0; i < r->kept; i++) {
        if (!restore_one(b, r, err)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < b->n_groups; i++) {
        if (b->groups[i].n != b->groups[i].room) {
            return false;
        }
    }
    mr_rehearsal_rank_all(b);
    return restore_pending(b, r, err);
}

static mr_status no_state(mr_error *err) {
    mr_fail(err, MR_E_STATE, "these bytes are no saved rehearsal buffer, or are damaged");
    mr_hint(err, "restore from another saved state");
    return MR_E_STATE;
}

mr_status mr_rehearsal_restore(mr_rehearsal **out, const unsigned char *bytes, size_t size,
                               mr_error *err) {
    reading r = {.at = bytes};
    *out = NULL;
    if (!sum_fits(bytes, size) || get(&r) != MAGIC) {
        return no_state(err);
    }
    mr_rehearsal_options o = {.policy = (mr_rehearsal_policy)get(&r)};
    o.size = (int64_t)get(&r);
    o.lag = (int64_t)get(&r);
    o.classes = (int64_t)get(&r);
    o.rate = get_double(&r);
    o.seed = get(&r);
    int64_t step = (int64_t)get(&r), seen = (int64_t)get(&r), drawn = (int64_t)get(&r);
    r.groups = get(&r);
    r.kept = get(&r);
    r.pending = get(&r);
    mr_rehearsal *b = NULL;
    if (!sizes_fit(&r, size) || step < -1 || seen < (int64_t)r.kept || seen > SEEN_MAX ||
        drawn < 0 || drawn > SEEN_MAX || mr_rehearsal_new(&b, &o, NULL) < 0) {
        return no_state(err);
    }
    b->step = step;
    b->seen = seen;
    b->drawn = drawn;
    if (!restore_body(b, &r, err)) {
        mr_rehearsal_free(b);
        return no_state(err);
    }
    *out = b;
    return MR_OK;
}
