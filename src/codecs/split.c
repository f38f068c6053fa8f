/* SPDX-License-Identifier: Apache-2.0 */
/* split.c - the pre-tokenizers' patterns by hand: where the next word ends.
 *
 * GPT-2:    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * Llama 3:  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *           ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * Each alternative needs to look one character ahead at most, or through the present run of spaces,
 * which a general engine for patterns cannot know: on web pages PCRE2 with its JIT compiler takes
 * 2.4 times as long, and its Unicode is an older one. */
#include "codecs/tokenizer.h"

typedef struct text {
    const mr_tokenizer *tokenizer;
    const uint8_t *bytes;
    size_t size;
} text;

/* One character of the text, or class -1 at its end. */
typedef struct letter {
    uint32_t value, length;
    int class;
} letter;

static inline letter letter_at(const text *t, size_t at) {
    letter l = {0, 0, -1};
    if (at < t->size) {
        l.value = mr_utf8_get(t->bytes + at, &l.length);
        l.class = (int)mr_class_of(&t->tokenizer->classes, l.value);
    }
    return l;
}

/* Where a run of characters of a class ends that begins at `at`. */
static inline size_t run_end(const text *t, size_t at, int class) {
    const uint8_t *table = t->tokenizer->classes.table;
    for (;;) {
        while (at < t->size && t->bytes[at] < 0x80 && table[t->bytes[at]] == class) {
            at++;
        }
        if (at >= t->size || t->bytes[at] < 0x80) {
            return at;
        }
        letter l = letter_at(t, at);
        if (l.class != class) {
            return at;
        }
        at += l.length;
    }
}

static uint8_t lower(uint8_t c, bool fold) {
    return fold && c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

/* The length of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of a text that begins with ', or
 * 0. Without regard to case the long s is an s. */
static size_t contraction(const text *t, bool fold) {
    uint8_t a = t->size > 1 ? lower(t->bytes[1], fold) : 0;
    uint8_t b = t->size > 2 ? lower(t->bytes[2], fold) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return 2;
    }
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) {
        return 3;
    }
    return fold && a == 0xC5 && b == 0xBF ? 3 : 0;
}

/* \s+(?!\S)|\s+ : all of the run at the end of the text, else all but its last character, unless
 * that is its only one. */
static size_t spaces(const text *t) {
    size_t end = run_end(t, 0, MR_SPACE), last = end;
    if (end == t->size) {
        return end;
    }
    do { /* back to the beginning of the last character */
        last--;
    } while ((t->bytes[last] & 0xC0) == 0x80);
    return last > 0 ? last : end;
}

static size_t split_gpt2(const text *t) {
    letter first = letter_at(t, 0);
    if (first.value == '\'') {
        size_t length = contraction(t, false);
        if (length > 0) {
            return length;
        }
    }
    size_t begin = first.value == ' ';
    letter next = begin ? letter_at(t, 1) : first;
    return next.class < 0 || next.class == MR_SPACE ? spaces(t) : run_end(t, begin, next.class);
}

static bool is_newline(uint32_t value) {
    return value == '\r' || value == '\n';
}

/* \s*[\r\n]+ : up to behind the last line end of the run of spaces; 0: there is none. */
static size_t lines(const text *t) {
    size_t end = run_end(t, 0, MR_SPACE);
    while (end > 0 && !is_newline(t->bytes[end - 1])) {
        end--;
    }
    return end;
}

static size_t numbers(const text *t) {
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        letter l = letter_at(t, at);
        at += l.class == MR_NUMBER ? l.length : 0;
    }
    return at;
}

static size_t others(const text *t, size_t begin) {
    size_t at = run_end(t, begin, MR_OTHER);
    while (at < t->size && is_newline(t->bytes[at])) {
        at++;
    }
    return at;
}

static size_t split_llama3(const text *t) {
    letter first = letter_at(t, 0);
    size_t length = first.value == '\'' ? contraction(t, true) : 0;
    if (length > 0) {
        return length;
    }
    if (first.class == MR_LETTER) {
        return run_end(t, 0, MR_LETTER);
    }
    if (first.class == MR_NUMBER) {
        return numbers(t);
    }
    letter next = letter_at(t, first.length);
    if (next.class == MR_LETTER && !is_newline(first.value)) {
        return run_end(t, first.length, MR_LETTER);
    }
    if (first.class == MR_OTHER || (first.value == ' ' && next.class == MR_OTHER)) {
        return others(t, first.value == ' ');
    }
    length = lines(t);
    return length > 0 ? length : spaces(t);
}

size_t mr_split_word(const mr_tokenizer *tokenizer, const uint8_t *bytes, size_t size) {
    const text t = {tokenizer, bytes, size};
    switch (tokenizer->split) {
    case MR_SPLIT_GPT2:
        return split_gpt2(&t);
    case MR_SPLIT_LLAMA3:
        return split_llama3(&t);
    default:
        return size;
    }
}
