/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c - the op vocabulary: words to their line numbers in a file.
 *
 * Each worker has an open hash table over the mapped file: places of lines, no copies. */
#include "ops/asset.h"
#include "ops/numbers.h"
#include "ops/words.h"

#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

#include <millrace/millrace.h>

typedef struct vocabulary_params {
    const char *file, *digest;
    int64_t unknown;
} vocabulary_params;

typedef struct line {
    const uint8_t *bytes; /* NULL: a free place */
    size_t size;
    int64_t number;
} line;

typedef struct table {
    mr_asset asset;
    line *lines;
    size_t mask; /* places less one; at most half of them are taken */
} table;

/* The next line of the text from `at` on, without its end. False: there is none. */
static bool next_line(const mr_asset *text, size_t *at, line *out) {
    if (*at >= text->size) {
        return false;
    }
    const uint8_t *from = text->data + *at;
    const uint8_t *end = memchr(from, '\n', text->size - *at);
    size_t size = end ? (size_t)(end - from) : text->size - *at;
    *at += size + 1;
    size -= size > 0 && from[size - 1] == '\r';
    *out = (line){from, size, out->number + 1};
    return true;
}

/* Where a word lies, or the free place where it would. */
static line *find(const table *t, const uint8_t *bytes, size_t size) {
    size_t place = (size_t)mr_hash64(bytes, size, 0) & t->mask;
    for (;; place = (place + 1) & t->mask) {
        line *l = &t->lines[place];
        if (!l->bytes || (l->size == size && memcmp(l->bytes, bytes, size) == 0)) {
            return l;
        }
    }
}

static mr_status fill(table *t, mr_error *err) {
    size_t at = 0, places = 2;
    line l = {.number = -1};
    while (next_line(&t->asset, &at, &l)) {
    }
    while (places < 2 * (size_t)(l.number + 2)) {
        places *= 2;
    }
    t->lines = mr_zalloc(places, sizeof *t->lines);
    if (!t->lines) {
        return mr_fail_memory(err, places * sizeof *t->lines);
    }
    t->mask = places - 1;
    at = 0;
    l = (line){.number = -1};
    while (next_line(&t->asset, &at, &l)) {
        line *place = find(t, l.bytes, l.size);
        if (place->bytes) {
            return mr_fail(err, MR_E_PARAM, "lines %lld and %lld of the vocabulary are the same",
                           (long long)place->number + 1, (long long)l.number + 1);
        }
        *place = l;
    }
    return MR_OK;
}

static mr_status open_table(const void *params, void **state, mr_error *err) {
    const vocabulary_params *p = params;
    table *t = *state = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    MR_TRY(mr_asset_open(&t->asset, p->file, p->digest, err));
    return fill(t, err);
}

static void close_table(void *state) {
    table *t = state;
    if (t) {
        mr_asset_close(&t->asset);
        mr_free(t->lines);
        mr_free(t);
    }
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    return mr_words_plan(in, out, err);
}

static void look_up(int64_t *out, const mr_view *in, size_t n, const table *t, int64_t unknown) {
    for (size_t i = 0; i < n; i++) {
        mr_word word = mr_word_at(in, i);
        const line *l = find(t, word.bytes, word.size);
        out[i] = l->bytes ? l->number : unknown;
    }
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    const vocabulary_params *p = params;
    (void)err;
    look_up(out->data, in, mr_words_count(in), call->state, p->unknown);
    return MR_OK;
}

static mr_status run_rows(const void *params, mr_call *call, int64_t n, const mr_column *in,
                          const mr_column *out, mr_error *err) {
    return mr_run_each(run, false, params, call, n, in, out, err);
}

static uint32_t flags_for(const void *params) {
    const vocabulary_params *p = params;
    return mr_asset_flags(p->file, p->digest);
}

static const mr_param rows[] = {
    {.name = "file",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(vocabulary_params, file),
     .doc = "A text file with one word in each line; the first is number 0."},
    {.name = "digest",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(vocabulary_params, digest),
     .fallback = "\"\"",
     .doc = MR_ASSET_DIGEST_DOC},
    {.name = "unknown",
     .kind = MR_PARAM_INT,
     .offset = offsetof(vocabulary_params, unknown),
     .fallback = "-1",
     .doc = "The number of words that are not in the file."},
    {.name = NULL},
};

static const mr_example examples[] = {
    {"{\"file\": \"data:;base64,bWlsbApyYWNlCndoZWVsCg==\"}",
     "uint8:3x5:7261636500776865656c62726f6f6b", "67a02eb1a0e5aed65cbddf1e9619ad88"},
    {NULL, NULL, NULL},
};

const mr_op_class mr_op_vocabulary = {
    MR_OP_HEADER,
    .name = "vocabulary",
    .summary = "Turns words into their line numbers in a file.",
    .doc =
        "uint8[n] is one word; uint8[..., w] are words filled up with zeros, which are left out. "
        "Words are compared byte by byte. A word that stands twice in the file is refused.",
    .version = 1,
    .param_size = sizeof(vocabulary_params),
    .params = rows,
    .plan = plan,
    .open = open_table,
    .close = close_table,
    .run = run,
    .run_rows = run_rows,
    .examples = examples,
    .flags_for = flags_for,
};
