/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.h - tokenizers of Hugging Face's tokenizer.json: byte-level BPE with the pre-tokenizers
 * of GPT-2 and of Llama 3.
 *
 * Tokens are kept as the bytes they stand for. What the file asks for and this does not do is
 * refused when it is read, so that ids are either those of the tokenizers package or there are
 * none. */
#ifndef MR_CODECS_TOKENIZER_H
#define MR_CODECS_TOKENIZER_H

#include <millrace/types.h>

#include "codecs/unicode.h"

typedef enum mr_split { MR_SPLIT_NONE, MR_SPLIT_GPT2, MR_SPLIT_LLAMA3 } mr_split;

/* An open hash table from bytes to ids. The bytes lie in one block. */
typedef struct mr_token_entry {
    uint32_t at, size; /* in the block */
    int32_t id;        /* -1: free */
} mr_token_entry;

/* From a pair of neighbours to what they become, and how soon. */
typedef struct mr_merge {
    int32_t left, right; /* left -1: free */
    uint32_t rank;
    int32_t id;
} mr_merge;

/* A token that is looked for in the text before anything else. */
typedef struct mr_added {
    uint8_t *text;
    size_t size;
    int32_t id;
    bool lstrip, rstrip, normalized;
} mr_added;

typedef struct mr_tokenizer {
    mr_split split;
    bool add_prefix_space, ignore_merges;
    int32_t byte_ids[256];
    mr_token_entry *entries;
    size_t entry_mask;
    uint8_t *bytes;
    size_t n_bytes;
    mr_merge *merges;
    size_t merge_mask;
    mr_added *added;
    size_t n_added;
    int32_t before[16], after[16]; /* ids that the template puts around a text */
    int32_t n_before, n_after;
    mr_classes classes;
} mr_tokenizer;

/* mr_tokenizer_free is due even if making failed; NULL allowed. */
mr_status mr_tokenizer_make(mr_tokenizer **out, const void *json, size_t size, mr_error *err);
void mr_tokenizer_free(mr_tokenizer *tokenizer);

/* The id of exactly these bytes, or -1. */
int32_t mr_token_find(const mr_tokenizer *tokenizer, const uint8_t *bytes, size_t size);

static inline const mr_merge *mr_merge_find(const mr_tokenizer *t, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & t->merge_mask;
    for (;; at = (at + 1) & t->merge_mask) {
        const mr_merge *m = &t->merges[at];
        if (m->left == left && m->right == right) {
            return m;
        }
        if (m->left < 0) {
            return NULL;
        }
    }
}

/* The length of the first word of a text that is not empty, UTF-8, cut as the pattern does. */
size_t mr_split_word(const mr_tokenizer *tokenizer, const uint8_t *text, size_t size);

#endif
