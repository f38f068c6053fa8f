/* SPDX-License-Identifier: Apache-2.0 */
/* rehearsal_state.c - a rehearsal buffer as bytes: little-endian words of 64 bits, in rows of
 * three, each of which is 32 letters of base64.
 *
 *     head      magic, policy, size, lag, classes, rate, seed, step, seen, drawn, groups, kept,
 *               pending, 0, 0: 5 rows
 *
 *     groups    label, seen, members and (bit 32) was largest; in the order they came
 *
 *     pending   step, id, label; value, 0, 0: 2 rows each
 *
 *     kept      id, label, what the policy needs to know besides (extra_of); by place
 *
 *     checksum  a sum of hashes, 0, 0
 *
 * Keys are functions of ids, groups of labels, and where the policy keeps a heap its shape does not
 * matter: none of these is saved. So that saving a large buffer costs little more than copying it,
 * one that is to be saved often has its rows of `kept` as letters at all times
 * (mr_rehearsal_mirror): whoever changes a place writes its row anew.
 *
 * Whatever the words are, a buffer that is restored is one whose lists lead nowhere else. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/base64.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "plan/rehearsal_parts.h"

enum { WORDS = 3, ROW = 24, LETTERS = 32, HEAD = 5, PENDING = 2 };
#define SEEN_MAX (INT64_MAX / 2)
#define WAS_LARGEST ((uint64_t)1 << 32)
#define MAGIC 0x33636572686572u /* "reherc3" */

/* ---- Rows ---- */
static uint64_t bits_of(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static void make_row(unsigned char row[ROW], uint64_t a, uint64_t b, uint64_t c) {
    const uint64_t words[WORDS] = {htole64(a), htole64(b), htole64(c)};
    memcpy(row, words, ROW);
}

static uint64_t extra_of(const mr_rehearsal *b, const kept *k) {
    return b->options.policy == MR_REHEARSE_RECENT     ? k->key
           : b->options.policy == MR_REHEARSE_PRIORITY ? k->weight
           : mr_rehearsal_is_ordered(b)                ? 0
                                                       : k->at;
}

static void make_kept(const mr_rehearsal *b, uint32_t place, unsigned char row[ROW]) {
    const kept *k = &b->kept[place];
    make_row(row, k->id, (uint64_t)k->label, extra_of(b, k));
}

/* ---- The mirror ---- */
void mr_rehearsal_mirror_place(mr_rehearsal *b, uint32_t place) {
    unsigned char row[ROW];
    mirror *m = b->mirror;
    make_kept(b, place, row);
    mr_base64_encode(row, ROW, m->letters + (size_t)place * LETTERS);
    m->sum -= m->hashes[place];
    m->hashes[place] = mr_hash64(row, ROW, place);
    m->sum += m->hashes[place];
}

bool mr_rehearsal_grow_mirror(mr_rehearsal *b) {
    mirror *m = b->mirror;
    char *letters = realloc(m->letters, (size_t)b->room * LETTERS + 1);
    m->letters = letters ? letters : m->letters;
    uint64_t *hashes = realloc(m->hashes, (size_t)b->room * sizeof *hashes + 1);
    m->hashes = hashes ? hashes : m->hashes;
    if (!letters || !hashes) {
        return false;
    }
    memset(hashes + m->room, 0, (size_t)(b->room - m->room) * sizeof *hashes);
    m->room = b->room;
    return true;
}

mr_status mr_rehearsal_mirror(mr_rehearsal *b, mr_error *err) {
    b->mirror = mr_zalloc(1, sizeof *b->mirror);
    if (!b->mirror || !mr_rehearsal_grow_mirror(b)) {
        return mr_fail_memory(err, (size_t)b->room * LETTERS);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        mr_rehearsal_mirror_place(b, i);
    }
    return MR_OK;
}

void mr_rehearsal_free_mirror(mr_rehearsal *b) {
    if (b->mirror) {
        free(b->mirror->letters);
        free(b->mirror->hashes);
        free(b->mirror);
    }
}

/* ---- Saving ---- */
static size_t rows_before(const mr_rehearsal *b) {
    return HEAD + (size_t)b->n_groups + (size_t)b->n_pending * PENDING;
}

size_t mr_rehearsal_bytes(const mr_rehearsal *b) {
    return (rows_before(b) + b->n + 1) * ROW;
}

static unsigned char *put_row(unsigned char *at, uint64_t a, uint64_t b, uint64_t c) {
    make_row(at, a, b, c);
    return at + ROW;
}

static unsigned char *put_head(unsigned char *at, const mr_rehearsal *b) {
    const mr_rehearsal_options *o = &b->options;
    at = put_row(at, MAGIC, (uint64_t)o->policy, (uint64_t)o->size);
    at = put_row(at, (uint64_t)o->lag, (uint64_t)o->classes, bits_of(o->rate));
    at = put_row(at, o->seed, (uint64_t)b->step, (uint64_t)b->seen);
    at = put_row(at, (uint64_t)b->drawn, b->n_groups, b->n);
    return put_row(at, (uint64_t)b->n_pending, 0, 0);
}

/* All rows before those that are kept; how their hashes begin. */
static uint64_t put_before(unsigned char *bytes, const mr_rehearsal *b) {
    unsigned char *at = put_head(bytes, b);
    for (uint32_t i = 0; i < b->n_groups; i++) {
        const group *g = &b->groups[i];
        at = put_row(at, (uint64_t)g->label, (uint64_t)g->seen,
                     g->n | (g->was_largest ? WAS_LARGEST : 0));
    }
    for (int64_t i = 0; i < b->n_pending; i++) {
        const mr_offer *offer = &b->pending[i];
        at = put_row(at, (uint64_t)offer->step, offer->id, (uint64_t)offer->label);
        at = put_row(at, bits_of(offer->value), 0, 0);
    }
    return mr_hash64(bytes, (size_t)(at - bytes), 0);
}

mr_status mr_rehearsal_save(const mr_rehearsal *b, unsigned char **out, size_t *size,
                            mr_error *err) {
    *size = mr_rehearsal_bytes(b);
    *out = malloc(*size);
    if (!*out) {
        return mr_fail_memory(err, *size);
    }
    uint64_t sum = put_before(*out, b);
    unsigned char *at = *out + rows_before(b) * ROW;
    for (uint32_t i = 0; i < b->n; i++, at += ROW) {
        make_kept(b, i, at);
        sum += mr_hash64(at, ROW, i);
    }
    put_row(at, sum, 0, 0);
    return MR_OK;
}

static mr_status write_mirrored(const mr_rehearsal *b, char *out, mr_error *err) {
    const mirror *m = b->mirror;
    size_t before = rows_before(b), kept_letters = (size_t)b->n * LETTERS;
    unsigned char last[ROW], *bytes = malloc(before * ROW);
    if (!bytes) {
        return mr_fail_memory(err, before * ROW);
    }
    put_row(last, put_before(bytes, b) + m->sum, 0, 0);
    mr_base64_encode(bytes, before * ROW, out);
    free(bytes);
    out += before * LETTERS;
    memcpy(out, m->letters, kept_letters);
    mr_base64_encode(last, ROW, out + kept_letters);
    return MR_OK;
}

mr_status mr_rehearsal_write(const mr_rehearsal *b, char *out, mr_error *err) {
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (b->mirror) {
        return write_mirrored(b, out, err);
    }
    MR_TRY(mr_rehearsal_save(b, &bytes, &size, err));
    mr_base64_encode(bytes, size, out);
    free(bytes);
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
    uint64_t n = size / ROW;
    return size % ROW == 0 && r->groups <= n && r->kept <= n && r->pending <= n &&
           HEAD + r->groups + r->pending * PENDING + r->kept + 1 == n;
}

static bool sum_fits(const reading *r, const unsigned char *bytes, size_t size) {
    size_t before = (size_t)(HEAD + r->groups + r->pending * PENDING) * ROW;
    uint64_t sum = mr_hash64(bytes, before, 0), last[WORDS];
    for (uint64_t i = 0; i < r->kept; i++) {
        sum += mr_hash64(bytes + before + i * ROW, ROW, i);
    }
    memcpy(last, bytes + size - ROW, ROW);
    return le64toh(last[0]) == sum && last[1] == 0 && last[2] == 0;
}

/* Where the policy numbers members, they are put where they were; until all are in, `room` is what
 * may be listed. */
static bool restore_groups(mr_rehearsal *b, reading *r, mr_error *err) {
    uint64_t left = r->kept; /* that are in no group yet */
    for (uint64_t i = 0; i < r->groups; i++) {
        if (mr_rehearsal_reserve(b, err) < 0) {
            return false;
        }
        int64_t label = (int64_t)get(r);
        bool is_new = mr_rehearsal_find_group(b, label) == UINT32_MAX;
        group *g = &b->groups[mr_rehearsal_group(b, label)];
        g->seen = (int64_t)get(r);
        uint64_t members = get(r);
        g->was_largest = (members & WAS_LARGEST) != 0;
        members &= ~WAS_LARGEST;
        if (!is_new || members > left || g->seen < (int64_t)members || g->seen > SEEN_MAX ||
            !mr_rehearsal_grow(g, (uint32_t)members)) {
            return false;
        }
        left -= members;
        if (members > 0) {
            memset(g->members, 0xff, members * sizeof *g->members); /* not there yet */
        }
        g->n = 0;
        g->room = (uint32_t)members;
    }
    return true;
}

static bool take_extra(const mr_rehearsal *b, kept *k, uint64_t extra) {
    k->key = b->options.policy == MR_REHEARSE_RECENT     ? extra
             : b->options.policy == MR_REHEARSE_PRIORITY ? (uint32_t)extra
                                                         : mr_rehearsal_key(b, k->id);
    k->weight = b->options.policy == MR_REHEARSE_PRIORITY ? (uint32_t)extra : 1 << 16;
    k->at = mr_rehearsal_is_ordered(b) ? 0 : (uint32_t)extra;
    return k->weight > 0 && (b->options.policy == MR_REHEARSE_RECENT || extra <= UINT32_MAX);
}

static bool restore_one(mr_rehearsal *b, reading *r, mr_error *err) {
    kept k = {.id = get(r)};
    k.label = (int64_t)get(r);
    bool well = take_extra(b, &k, get(r)) && mr_rehearsal_reserve(b, err) == MR_OK &&
                mr_rehearsal_find(b, k.id) == UINT32_MAX;
    k.group =
        well ? mr_rehearsal_find_group(b, mr_rehearsal_by_label(b) ? k.label : 0) : UINT32_MAX;
    if (k.group == UINT32_MAX) {
        return false;
    }
    group *g = &b->groups[k.group];
    if (g->n >= g->room) {
        return false;
    }
    if (mr_rehearsal_is_ordered(b)) {
        mr_rehearsal_put(b, b->n, &k);
        return true;
    }
    if (k.at >= g->room || g->members[k.at].place != UINT32_MAX) {
        return false;
    }
    mr_rehearsal_put_back(b, &k);
    return true;
}

static bool restore_pending(mr_rehearsal *b, reading *r, mr_error *err) {
    for (uint64_t i = 0; i < r->pending; i++) {
        mr_offer offer = {.step = (int64_t)get(r)};
        offer.id = get(r);
        offer.label = (int64_t)get(r);
        offer.value = get_double(r);
        bool is_padded = get(r) == 0;
        is_padded = get(r) == 0 && is_padded;
        if (!is_padded || mr_rehearsal_offer(b, &offer, err) < 0) {
            return false;
        }
    }
    return true;
}

static bool restore_body(mr_rehearsal *b, reading *r, mr_error *err) {
    if ((int64_t)r->kept > b->options.size || !restore_groups(b, r, err) ||
        !restore_pending(b, r, err)) {
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
    return true;
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
    if (size < (size_t)(HEAD + 1) * ROW || get(&r) != MAGIC) {
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
    r.at = bytes + (size_t)HEAD * ROW;
    mr_rehearsal *b = NULL;
    if (!sizes_fit(&r, size) || !sum_fits(&r, bytes, size) || step < -1 || seen < (int64_t)r.kept ||
        seen > SEEN_MAX || drawn < 0 || drawn > SEEN_MAX || mr_rehearsal_new(&b, &o, NULL) < 0) {
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
