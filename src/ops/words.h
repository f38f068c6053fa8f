/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - tensors that hold words: what hash_bucket and vocabulary take.
 *
 * uint8[n] is one word of n bytes; uint8[..., w] is a table of words of up to w bytes, filled up
 * with zeros, as numpy's S type has them. */
#ifndef MR_OPS_WORDS_H
#define MR_OPS_WORDS_H

#include <millrace/op.h>

typedef struct mr_word {
    const uint8_t *bytes;
    size_t size;
} mr_word;

/* *out: int64 of the shape that is left when a word is one element. */
mr_status mr_words_plan(const mr_type *in, mr_type *out, mr_error *err);

/* How many words a tensor holds, and the word at i. */
size_t mr_words_count(const mr_view *in);
mr_word mr_word_at(const mr_view *in, size_t i);

#endif
