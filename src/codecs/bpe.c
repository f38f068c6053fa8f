/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.c - byte-pair encoding: of all neighbours that may merge, those of the lowest rank, the first
 * of them first, until none are left.
 *
 * Most words have been seen before, so results of words up to 31 bytes are kept in a table with one
 * place for each hash: an entry is one cache line, and a later word simply takes the place. Short
 * words are merged by looking through all pairs each time, long ones with a heap, so that no text
 * takes more than n log n. */
#include "codecs/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

#define KEY_BYTES 31
#define KEPT_IDS 7
#define CACHE_BITS 15
#define SHORT_WORD 64 /* bytes that are merged without a heap */
#define PADDING 32    /* behind the text, so that keys may be read whole */

/* A word and its ids. The key's last byte is the word's length; 0: a free place. */
typedef struct entry {
    uint64_t key[4];
    int32_t n, ids[KEPT_IDS];
} entry;

/* One symbol of a long word, linked to its neighbours; id -1: merged into the one before. */
typedef struct symbol {
    int32_t id, before, after;
} symbol;

typedef struct candidate {
    uint32_t rank;
    int32_t at, left, right; /* valid while these ids are still there */
} candidate;

struct mr_bpe {
    const mr_tokenizer *tokenizer;
    entry *cache;
    bool begins[256]; /* bytes that added tokens begin with */
    uint8_t *text;
    size_t text_room;
    int32_t *ids;
    size_t n, room;
    symbol *symbols;
    size_t symbols_room;
    candidate *heap;
    size_t n_heap, heap_room;
};

mr_bpe *mr_bpe_new(const mr_tokenizer *tokenizer) {
    mr_bpe *bpe = mr_zalloc(1, sizeof *bpe);
    size_t size = sizeof(entry) << CACHE_BITS;
    if (!bpe) {
        return NULL;
    }
    bpe->tokenizer = tokenizer;
    bpe->cache = mr_default_allocator.alloc(NULL, size, MR_ALIGN);
    if (!bpe->cache) {
        mr_bpe_free(bpe);
        return NULL;
    }
    memset(bpe->cache, 0, size);
    for (size_t i = 0; i < tokenizer->n_added; i++) {
        bpe->begins[tokenizer->added[i].text[0]] = tokenizer->added[i].size > 0;
    }
    return bpe;
}

void mr_bpe_free(mr_bpe *bpe) {
    if (!bpe) {
        return;
    }
    if (bpe->cache) {
        mr_default_allocator.release(NULL, bpe->cache, sizeof(entry) << CACHE_BITS);
    }
    free(bpe->text);
    free(bpe->ids);
    free(bpe->symbols);
    free(bpe->heap);
    mr_free(bpe);
}

/* Room for n elements; what is there stays. */
static bool grow(void **memory, size_t *room, size_t n, size_t size) {
    if (n <= *room) {
        return true;
    }
    size_t wanted = n > 2 * *room ? n : 2 * *room;
    void *larger = realloc(*memory, wanted * size);
    if (larger) {
        *memory = larger;
        *room = wanted;
    }
    return larger != NULL;
}

static bool id_room(mr_bpe *bpe, size_t more) {
    return grow((void **)&bpe->ids, &bpe->room, bpe->n + more, sizeof *bpe->ids);
}

/* ---- Short words ---- */
static uint32_t rank_of(const mr_tokenizer *t, int32_t left, int32_t right) {
    const mr_merge *merge = mr_merge_find(t, left, right);
    return merge ? merge->rank : UINT32_MAX;
}

/* ids: n of them, which become fewer; how many are left. */
static size_t merge_short(const mr_tokenizer *t, int32_t *ids, size_t n) {
    uint32_t ranks[SHORT_WORD]; /* of the pair that begins here */
    for (size_t i = 0; i + 1 < n; i++) {
        ranks[i] = rank_of(t, ids[i], ids[i + 1]);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            best = ranks[i] < ranks[best] ? i : best;
        }
        if (ranks[best] == UINT32_MAX) {
            break;
        }
        ids[best] = mr_merge_find(t, ids[best], ids[best + 1])->id;
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (n - best - 2) * sizeof *ranks);
        n--;
        if (best > 0) {
            ranks[best - 1] = rank_of(t, ids[best - 1], ids[best]);
        }
        if (best + 1 < n) {
            ranks[best] = rank_of(t, ids[best], ids[best + 1]);
        }
    }
    return n;
}

/* ---- Long words ---- */
static bool comes_before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static bool heap_put(mr_bpe *bpe, candidate c) {
    if (!grow((void **)&bpe->heap, &bpe->heap_room, bpe->n_heap + 1, sizeof c)) {
        return false;
    }
    size_t at = bpe->n_heap++;
    while (at > 0 && comes_before(&c, &bpe->heap[(at - 1) / 2])) {
        bpe->heap[at] = bpe->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    bpe->heap[at] = c;
    return true;
}

static candidate heap_take(mr_bpe *bpe) {
    candidate first = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= bpe->n_heap) {
            break;
        }
        child += child + 1 < bpe->n_heap && comes_before(&bpe->heap[child + 1], &bpe->heap[child]);
        if (!comes_before(&bpe->heap[child], &last)) {
            break;
        }
        bpe->heap[at] = bpe->heap[child];
        at = child;
    }
    bpe->heap[at] = last;
    return first;
}

/* The pair that begins with symbol `at`, if it may merge. */
static bool propose(mr_bpe *bpe, int32_t at) {
    int32_t after = at < 0 ? -1 : bpe->symbols[at].after;
    if (after < 0) {
        return true;
    }
    int32_t left = bpe->symbols[at].id, right = bpe->symbols[after].id;
    uint32_t rank = rank_of(bpe->tokenizer, left, right);
    return rank == UINT32_MAX || heap_put(bpe, (candidate){rank, at, left, right});
}

static void merge_symbols(mr_bpe *bpe, int32_t at, int32_t id) {
    symbol *left = &bpe->symbols[at], *right = &bpe->symbols[left->after];
    left->id = id;
    left->after = right->after;
    right->id = -1;
    if (left->after >= 0) {
        bpe->symbols[left->after].before = at;
    }
}

static bool merge_heap(mr_bpe *bpe) {
    bool enough = true;
    while (enough && bpe->n_heap > 0) {
        candidate c = heap_take(bpe);
        const symbol *left = &bpe->symbols[c.at];
        if (left->id != c.left || left->after < 0 || bpe->symbols[left->after].id != c.right) {
            continue; /* one of the two has merged meanwhile */
        }
        merge_symbols(bpe, c.at, mr_merge_find(bpe->tokenizer, c.left, c.right)->id);
        enough = propose(bpe, left->before) && propose(bpe, c.at);
    }
    return enough;
}

static mr_status merge_long(mr_bpe *bpe, const uint8_t *word, size_t size, mr_error *err) {
    bool enough = grow((void **)&bpe->symbols, &bpe->symbols_room, size, sizeof *bpe->symbols) &&
                  id_room(bpe, size);
    bpe->n_heap = 0;
    for (size_t i = 0; enough && i < size; i++) {
        int32_t at = (int32_t)i, last = (int32_t)size - 1;
        bpe->symbols[i] =
            (symbol){bpe->tokenizer->byte_ids[word[i]], at - 1, at < last ? at + 1 : -1};
    }
    for (size_t i = 0; enough && i < size; i++) {
        enough = propose(bpe, (int32_t)i);
    }
    if (!enough || !merge_heap(bpe)) {
        return mr_fail_memory(err, size * sizeof(candidate));
    }
    for (int32_t at = 0; at >= 0; at = bpe->symbols[at].after) {
        bpe->ids[bpe->n++] = bpe->symbols[at].id;
    }
    return MR_OK;
}

/* ---- Words ---- */
static mr_status merge_word(mr_bpe *bpe, const uint8_t *word, size_t size, mr_error *err) {
    int32_t whole = bpe->tokenizer->ignore_merges ? mr_token_find(bpe->tokenizer, word, size) : -1;
    if (whole < 0 && size > SHORT_WORD) {
        return merge_long(bpe, word, size, err);
    }
    if (!id_room(bpe, size)) {
        return mr_fail_memory(err, size * sizeof *bpe->ids);
    }
    int32_t *ids = bpe->ids + bpe->n;
    if (whole >= 0) {
        ids[0] = whole;
        bpe->n++;
        return MR_OK;
    }
    for (size_t i = 0; i < size; i++) {
        ids[i] = bpe->tokenizer->byte_ids[word[i]];
    }
    bpe->n += merge_short(bpe->tokenizer, ids, size);
    return MR_OK;
}

static inline uint64_t load(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* The first `n` of 8 bytes. */
static inline uint64_t load_part(const uint8_t *at, size_t n) {
    return n >= 8 ? load(at) : n == 0 ? 0 : load(at) & (UINT64_MAX >> (64 - 8 * n));
}

static inline void make_key(const uint8_t *word, size_t size, uint64_t key[4]) {
    key[0] = load_part(word, size);
    key[1] = size > 8 ? load_part(word + 8, size - 8) : 0;
    key[2] = size > 16 ? load_part(word + 16, size - 16) : 0;
    key[3] = (size > 24 ? load_part(word + 24, size - 24) : 0) | (uint64_t)size << 56;
}

static inline size_t place_of(const uint64_t key[4]) {
    uint64_t mixed = key[0] * 0x9E3779B97F4A7C15u ^ key[1] * 0xC2B2AE3D27D4EB4Fu;
    mixed ^= key[2] * 0x165667B19E3779F9u ^ key[3] * 0xD6E8FEB86659FD93u;
    mixed ^= mixed >> 32;
    return (size_t)((mixed * 0x9E3779B97F4A7C15u) >> (64 - CACHE_BITS));
}

static inline mr_status encode_word(mr_bpe *bpe, const uint8_t *word, size_t size, mr_error *err) {
    uint64_t key[4];
    if (size > KEY_BYTES) {
        return merge_word(bpe, word, size, err);
    }
    make_key(word, size, key);
    entry *e = &bpe->cache[place_of(key)];
    if (e->key[0] == key[0] && e->key[1] == key[1] && e->key[2] == key[2] && e->key[3] == key[3]) {
        if (!id_room(bpe, KEPT_IDS)) {
            return mr_fail_memory(err, KEPT_IDS * sizeof *bpe->ids);
        }
        memcpy(bpe->ids + bpe->n, e->ids, sizeof e->ids);
        bpe->n += (size_t)e->n;
        return MR_OK;
    }
    size_t first = bpe->n;
    MR_TRY(merge_word(bpe, word, size, err));
    if (bpe->n - first <= KEPT_IDS) {
        memcpy(e->key, key, sizeof key);
        e->n = (int32_t)(bpe->n - first);
        memcpy(e->ids, bpe->ids + first, (bpe->n - first) * sizeof *e->ids);
    }
    return MR_OK;
}

/* ---- Sections: text between added tokens ---- */
static mr_status encode_section(mr_bpe *bpe, const uint8_t *text, size_t size, mr_error *err) {
    while (size > 0) {
        size_t length = mr_split_word(bpe->tokenizer, text, size);
        MR_TRY(encode_word(bpe, text, length, err));
        text += length;
        size -= length;
    }
    return MR_OK;
}

/* With a space before it, where the tokenizer wants one. `text` has a byte to spare before it. */
static mr_status encode_prefixed(mr_bpe *bpe, uint8_t *text, size_t size, mr_error *err) {
    if (!bpe->tokenizer->add_prefix_space || text[0] == ' ') {
        return encode_section(bpe, text, size, err);
    }
    uint8_t before = text[-1];
    text[-1] = ' ';
    mr_status status = encode_section(bpe, text - 1, size + 1, err);
    text[-1] = before;
    return status;
}

/* The longest added token of one kind that the text begins with. */
static const mr_added *added_at(const mr_bpe *bpe, const uint8_t *text, size_t size,
                                bool normalized) {
    const mr_added *found = NULL;
    for (size_t i = 0; bpe->begins[text[0]] && i < bpe->tokenizer->n_added; i++) {
        const mr_added *a = &bpe->tokenizer->added[i];
        bool fits = a->normalized == normalized && a->size > 0 && a->size <= size &&
                    memcmp(a->text, text, a->size) == 0;
        if (fits && (!found || a->size > found->size)) {
            found = a;
        }
    }
    return found;
}

static size_t spaces_before(const mr_bpe *bpe, const uint8_t *text, size_t at) {
    while (at > 0) {
        size_t last = at - 1;
        uint32_t length = 0;
        while (last > 0 && (text[last] & 0xC0) == 0x80) {
            last--;
        }
        if (mr_class_of(&bpe->tokenizer->classes, mr_utf8_get(text + last, &length)) != MR_SPACE) {
            break;
        }
        at = last;
    }
    return at;
}

static size_t spaces_after(const mr_bpe *bpe, const uint8_t *text, size_t size, size_t at) {
    uint32_t length = 0;
    while (at < size &&
           mr_class_of(&bpe->tokenizer->classes, mr_utf8_get(text + at, &length)) == MR_SPACE) {
        at += length;
    }
    return at;
}

static mr_status encode_text(mr_bpe *bpe, uint8_t *text, size_t size, bool normalized,
                             mr_error *err);

/* What lies between the added tokens of one kind: looked through for the other kind, then split. */
static mr_status encode_between(mr_bpe *bpe, uint8_t *text, size_t size, bool normalized,
                                mr_error *err) {
    if (size == 0) {
        return MR_OK;
    }
    return normalized ? encode_prefixed(bpe, text, size, err)
                      : encode_text(bpe, text, size, true, err);
}

/* Twice deep at most: first without, then with `normalized`. */
static mr_status encode_text(mr_bpe *bpe, uint8_t *text, size_t size, // NOLINT(misc-no-recursion)
                             bool normalized, mr_error *err) {
    size_t done = 0, at = 0;
    while (at < size) {
        const mr_added *a =
            bpe->begins[text[at]] ? added_at(bpe, text + at, size - at, normalized) : NULL;
        if (!a) {
            at++;
            continue;
        }
        size_t start = a->lstrip ? spaces_before(bpe, text, at) : at;
        start = start < done ? done : start;
        MR_TRY(encode_between(bpe, text + done, start - done, normalized, err));
        if (!id_room(bpe, 1)) {
            return mr_fail_memory(err, sizeof *bpe->ids);
        }
        bpe->ids[bpe->n++] = a->id;
        at += a->size;
        done = a->rstrip ? spaces_after(bpe, text, size, at) : at;
        at = done;
    }
    return encode_between(bpe, text + done, size - done, normalized, err);
}

static mr_status put_ids(mr_bpe *bpe, const int32_t *ids, int32_t n, mr_error *err) {
    if (!id_room(bpe, (size_t)n + 1)) {
        return mr_fail_memory(err, (size_t)n * sizeof *ids);
    }
    memcpy(bpe->ids + bpe->n, ids, (size_t)n * sizeof *ids);
    bpe->n += (size_t)n;
    return MR_OK;
}

mr_status mr_bpe_encode(mr_bpe *bpe, const uint8_t *text, size_t size, bool add_special_tokens,
                        const int32_t **ids, size_t *n, mr_error *err) {
    const mr_tokenizer *t = bpe->tokenizer;
    size_t bad = mr_utf8_check(text, size);
    if (bad < size || size > INT32_MAX - 2) {
        mr_fail(err, bad < size ? MR_E_CORRUPT : MR_E_LIMIT,
                bad < size ? "the text is not UTF-8" : "the text is larger than 2 GB");
        if (err && bad < size) {
            err->offset = (int64_t)bad;
        }
        return bad < size ? MR_E_CORRUPT : MR_E_LIMIT;
    }
    if (!grow((void **)&bpe->text, &bpe->text_room, size + 1 + PADDING, 1)) {
        return mr_fail_memory(err, size);
    }
    memcpy(bpe->text + 1, text, size);
    memset(bpe->text + 1 + size, 0, PADDING);
    bpe->n = 0;
    MR_TRY(put_ids(bpe, t->before, add_special_tokens ? t->n_before : 0, err));
    MR_TRY(encode_text(bpe, bpe->text + 1, size, false, err));
    MR_TRY(put_ids(bpe, t->after, add_special_tokens ? t->n_after : 0, err));
    *ids = bpe->ids;
    *n = bpe->n;
    return MR_OK;
}
