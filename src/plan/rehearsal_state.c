/* SPDX-License-Identifier: Apache-2.0 */
/* rehearsal_state.c - a rehearsal buffer as bytes: little-endian words of 64 bits, in rows of
 * three, each of which is 32 letters of base64; what is kept is in narrower rows where it fits.
 *
 *     head      magic, policy, size, lag, classes, rate, seed, step, seen, drawn, groups, kept,
 *               pending, form, 0: 5 rows
 *
 *     groups    label, seen, members and (bit 32) was largest; in the order they came
 *
 *     pending   step, id, label; value, 0, 0: 2 rows each
 *
 *     kept      id, label, what the policy needs to know besides (extra_of); by place. How many
 *               bytes each of the three has is the form: a narrow one, as long as all that was ever
 *               kept fitted into it
 *
 *     checksum  a sum of hashes, 0, 0
 *
 * Keys are functions of ids, groups of labels, and where the policy keeps a heap its shape does not
 * matter: none of these is saved. So that saving a large buffer costs little more than copying it,
 * one that is to be saved often has its rows of `kept` as letters at all times
 * (mr_rehearsal_mirror): whoever changes a place writes its row anew. And copying costs the less
 * the narrower they are: a save shall cost less than a step.
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
#define MAGIC 0x34636572686572u /* "rehrec4" */
#define OLDER_MAGIC 0x33636572686572u

/* Bytes of a row's id, label and extra: together whole groups of letters. */
typedef struct form {
    uint32_t id, label, extra;
} form;

static const form FORMS[] = {{8, 8, 8}, {5, 4, 0}, {5, 3, 4}};
enum { WIDE, WITHOUT_EXTRA, WITH_EXTRA };

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

static uint32_t bytes_of(const mr_rehearsal *b) {
    const form *f = &FORMS[b->form];
    return f->id + f->label + f->extra;
}

uint32_t mr_rehearsal_narrow(const mr_rehearsal *b) {
    bool has_extra = !mr_rehearsal_is_ordered(b) || b->options.policy == MR_REHEARSE_RECENT ||
                     b->options.policy == MR_REHEARSE_PRIORITY;
    return has_extra ? WITH_EXTRA : WITHOUT_EXTRA;
}

static bool fits(uint64_t number, uint32_t bytes) {
    return bytes == sizeof number || number >> (8 * bytes) == 0;
}

/* Signed numbers fit if they do once the least of them is 0. */
static bool row_fits(const mr_rehearsal *b, const kept *k) {
    const form *f = &FORMS[b->form];
    uint64_t least = (uint64_t)1 << (8 * f->label - 1);
    return fits(k->id, f->id) && fits((uint64_t)k->label + least, f->label) &&
           fits(extra_of(b, k), f->extra);
}

static unsigned char *put_number(unsigned char *at, uint64_t number, uint32_t bytes) {
    const uint64_t word = htole64(number);
    memcpy(at, &word, bytes);
    return at + bytes;
}

/* bytes_of of them. */
static void make_kept(const mr_rehearsal *b, uint32_t place, unsigned char row[ROW]) {
    const form *f = &FORMS[b->form];
    const kept *k = &b->kept[place];
    row = put_number(row, k->id, f->id);
    row = put_number(row, (uint64_t)k->label, f->label);
    put_number(row, extra_of(b, k), f->extra);
}

/* ---- The mirror ---- */
static void mirror_place(mr_rehearsal *b, uint32_t place) {
    unsigned char row[ROW];
    mirror *m = b->mirror;
    uint32_t bytes = bytes_of(b);
    make_kept(b, place, row);
    mr_base64_encode(row, bytes, m->letters + m->before + (size_t)place * mr_base64_length(bytes));
    m->sum -= m->hashes[place];
    m->hashes[place] = mr_hash64(row, bytes, place);
    m->sum += m->hashes[place];
}

static void mirror_all(mr_rehearsal *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        mirror_place(b, i);
    }
}

/* Once wide, always wide: that happens once in a run, if ever. */
void mr_rehearsal_changed(mr_rehearsal *b, uint32_t place) {
    if (!row_fits(b, &b->kept[place])) {
        b->form = WIDE;
        if (b->mirror) {
            mirror_all(b);
        }
    }
    if (b->mirror) {
        mirror_place(b, place);
    }
}

/* For rows of any form, and the checksum behind them. */
static size_t letters_of(uint32_t room) {
    return ((size_t)room + 1) * LETTERS;
}

bool mr_rehearsal_grow_mirror(mr_rehearsal *b) {
    mirror *m = b->mirror;
    char *letters = realloc(m->letters, m->before + letters_of(b->room));
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
    mirror_all(b);
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
    return (rows_before(b) + 1) * ROW + (size_t)b->n * bytes_of(b);
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
    return put_row(at, (uint64_t)b->n_pending, b->form, 0);
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
    const uint32_t bytes = bytes_of(b);
    for (uint32_t i = 0; i < b->n; i++, at += bytes) {
        make_kept(b, i, at);
        sum += mr_hash64(at, bytes, i);
    }
    put_row(at, sum, 0, 0);
    return MR_OK;
}

/* Rows that come before have room for as many again: their number changes from step to step. */
static mr_status make_room_before(mr_rehearsal *b, mr_error *err) {
    mirror *m = b->mirror;
    size_t wanted = 2 * rows_before(b) * LETTERS, rows = letters_of(m->room);
    if (rows_before(b) * LETTERS <= m->before) {
        return MR_OK;
    }
    char *letters = realloc(m->letters, wanted + rows);
    if (!letters) {
        return mr_fail_memory(err, wanted + rows);
    }
    memmove(letters + wanted, letters + m->before, rows);
    m->letters = letters;
    m->before = wanted;
    return MR_OK;
}

mr_status mr_rehearsal_letters(mr_rehearsal *b, mr_piece *out, mr_error *err) {
    const mirror *m = b->mirror;
    size_t before = rows_before(b), kept_letters = (size_t)b->n * mr_base64_length(bytes_of(b));
    unsigned char last[ROW], *bytes = malloc(before * ROW);
    if (!bytes) {
        return mr_fail_memory(err, before * ROW);
    }
    put_row(last, put_before(bytes, b) + m->sum, 0, 0);
    mr_status status = make_room_before(b, err);
    if (status == MR_OK) {
        out->data = m->letters + m->before - before * LETTERS;
        out->size = mr_base64_length(mr_rehearsal_bytes(b));
        mr_base64_encode(bytes, before * ROW, out->data);
        mr_base64_encode(last, ROW, m->letters + m->before + kept_letters);
    }
    free(bytes);
    return status;
}

mr_status mr_rehearsal_write(mr_rehearsal *b, char *out, mr_error *err) {
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (b->mirror) {
        mr_piece letters;
        MR_TRY(mr_rehearsal_letters(b, &letters, err));
        memcpy(out, letters.data, letters.size);
        return MR_OK;
    }
    MR_TRY(mr_rehearsal_save(b, &bytes, &size, err));
    mr_base64_encode(bytes, size, out);
    free(bytes);
    return MR_OK;
}

/* ---- Restoring ---- */
typedef struct reading {
    const unsigned char *at;
    uint64_t groups, kept, pending, form;
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

static uint64_t get_number(reading *r, uint32_t bytes) {
    uint64_t word = 0;
    memcpy(&word, r->at, bytes);
    r->at += bytes;
    return le64toh(word);
}

static int64_t get_signed(reading *r, uint32_t bytes) {
    uint64_t least = (uint64_t)1 << (8 * bytes - 1);
    return (int64_t)((get_number(r, bytes) ^ least) - least);
}

static size_t bytes_read(const reading *r) {
    const form *f = &FORMS[r->form];
    return f->id + f->label + f->extra;
}

static bool sizes_fit(const reading *r, size_t size) {
    bool known = r->form < sizeof FORMS / sizeof *FORMS && r->groups <= size && r->kept <= size &&
                 r->pending <= size;
    return known &&
           (HEAD + r->groups + r->pending * PENDING + 1) * ROW + r->kept * bytes_read(r) == size;
}

static bool sum_fits(const reading *r, const unsigned char *bytes, size_t size) {
    size_t before = (size_t)(HEAD + r->groups + r->pending * PENDING) * ROW, own = bytes_read(r);
    uint64_t sum = mr_hash64(bytes, before, 0), last[WORDS];
    for (uint64_t i = 0; i < r->kept; i++) {
        sum += mr_hash64(bytes + before + i * own, own, i);
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
    const form *f = &FORMS[b->form];
    kept k = {.id = get_number(r, f->id)};
    k.label = get_signed(r, f->label);
    bool well = take_extra(b, &k, get_number(r, f->extra)) &&
                mr_rehearsal_reserve(b, err) == MR_OK && mr_rehearsal_find(b, k.id) == UINT32_MAX;
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
    bool is_own = b->form == WIDE || b->form == mr_rehearsal_narrow(b);
    if (!is_own || (int64_t)r->kept > b->options.size || !restore_groups(b, r, err) ||
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

static mr_status older_state(mr_error *err) {
    mr_fail(err, MR_E_STATE, "this rehearsal buffer was saved by an earlier version of millrace");
    mr_hint(err, "go on with the version that saved it, or start anew from the stream");
    return MR_E_STATE;
}

mr_status mr_rehearsal_restore(mr_rehearsal **out, const unsigned char *bytes, size_t size,
                               mr_error *err) {
    reading r = {.at = bytes};
    *out = NULL;
    uint64_t magic = size < (size_t)(HEAD + 1) * ROW ? 0 : get(&r);
    if (magic != MAGIC) {
        return magic == OLDER_MAGIC ? older_state(err) : no_state(err);
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
    r.form = get(&r);
    r.at = bytes + (size_t)HEAD * ROW;
    mr_rehearsal *b = NULL;
    if (!sizes_fit(&r, size) || !sum_fits(&r, bytes, size) || step < -1 || seen < (int64_t)r.kept ||
        seen > SEEN_MAX || drawn < 0 || drawn > SEEN_MAX || mr_rehearsal_new(&b, &o, NULL) < 0) {
        return no_state(err);
    }
    b->step = step;
    b->seen = seen;
    b->drawn = drawn;
    b->form = (uint32_t)r.form;
    if (!restore_body(b, &r, err)) {
        mr_rehearsal_free(b);
        return no_state(err);
    }
    *out = b;
    return MR_OK;
}
