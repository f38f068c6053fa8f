/* SPDX-License-Identifier: Apache-2.0 */
/* bitmap.c - rank and select over bits, with counts for each cache line of them. */
#include "plan/bitmap.h"

#include "core/error.h"
#include "core/memory.h"

#include <millrace/millrace.h>

enum { LINE_BITS = 512, LINE_WORDS = LINE_BITS / 64, NEARBY = 4096 };

static int64_t lines_of(const mr_bitmap *bitmap) {
    return (bitmap->size + LINE_BITS - 1) / LINE_BITS;
}

/* Members of each byte and of those below it, byte by byte: arithmetic, since an instruction that
 * counts bits is not there on every CPU. */
static inline uint64_t members_by_byte(uint64_t word) {
    uint64_t twos = word - (word >> 1 & 0x5555555555555555u);
    uint64_t fours = (twos & 0x3333333333333333u) + (twos >> 2 & 0x3333333333333333u);
    return ((fours + (fours >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u;
}

static inline int64_t members_of(uint64_t word) {
    return (int64_t)(members_by_byte(word) >> 56);
}

/* Members of a line before one of its words. */
static inline int64_t members_within(const mr_bitmap *bitmap, int64_t line, int64_t word) {
    return word == 0 ? 0 : (int64_t)(bitmap->within[line] >> (9 * (word - 1)) & 511);
}

mr_status mr_bitmap_init(mr_bitmap *bitmap, int64_t size, mr_error *err) {
    mr_bitmap made = {.size = size};
    size_t lines = (size_t)lines_of(&made);
    made.words = mr_zalloc(lines * LINE_WORDS + 1, sizeof *made.words);
    made.below = mr_zalloc(lines + 1, sizeof *made.below);
    made.within = mr_zalloc(lines + 1, sizeof *made.within);
    if (!made.words || !made.below || !made.within) {
        mr_bitmap_free(&made);
        return mr_fail_memory(err, lines * LINE_BITS / 8);
    }
    *bitmap = made;
    return MR_OK;
}

void mr_bitmap_free(mr_bitmap *bitmap) {
    mr_free(bitmap->words);
    mr_free(bitmap->below);
    mr_free(bitmap->within);
    mr_free(bitmap->nearby);
    *bitmap = (mr_bitmap){0};
}

/* The members of a line; fills its `within`. */
static int64_t count_line(mr_bitmap *bitmap, int64_t line) {
    int64_t members = 0;
    uint64_t within = 0;
    for (int64_t w = 0; w < LINE_WORDS; w++) {
        within |= w == 0 ? 0 : (uint64_t)members << (9 * (w - 1));
        members += members_of(bitmap->words[line * LINE_WORDS + w]);
    }
    bitmap->within[line] = within;
    return members;
}

static void count_lines(mr_bitmap *bitmap) {
    int64_t lines = lines_of(bitmap), members = 0;
    for (int64_t line = 0; line < lines; line++) {
        bitmap->below[line] = members;
        members += count_line(bitmap, line);
    }
    bitmap->below[lines] = bitmap->members = members;
}

mr_status mr_bitmap_count(mr_bitmap *bitmap, mr_error *err) {
    count_lines(bitmap);
    int64_t n_nearby = bitmap->members / NEARBY + 2, line = 0;
    mr_free(bitmap->nearby);
    bitmap->nearby = mr_zalloc((size_t)n_nearby, sizeof *bitmap->nearby);
    if (!bitmap->nearby) {
        return mr_fail_memory(err, (size_t)n_nearby * sizeof *bitmap->nearby);
    }
    for (int64_t k = 0; k < n_nearby; k++) {
        while (line + 1 < lines_of(bitmap) && bitmap->below[line + 1] <= k * NEARBY) {
            line++;
        }
        bitmap->nearby[k] = line;
    }
    return MR_OK;
}

int64_t mr_bitmap_rank(const mr_bitmap *bitmap, int64_t i) {
    int64_t line = i / LINE_BITS, word = i / 64;
    int64_t rank = bitmap->below[line] + members_within(bitmap, line, word % LINE_WORDS);
    return i % 64 ? rank + members_of(bitmap->words[word] << (64 - i % 64)) : rank;
}

/* The k-th set bit of a word that has it: bytes whose members, with those below, are at most k are
 * passed over at once, then bits one by one. */
static int64_t select_in_word(uint64_t word, int64_t k) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t members = members_by_byte(word);
    uint64_t passed = ((((uint64_t)k * ones | tops) - members) & tops) >> 7;
    int64_t byte = (int64_t)(passed * ones >> 56);
    k -= byte == 0 ? 0 : (int64_t)(members >> (8 * (byte - 1)) & 255);
    word >>= 8 * byte;
    for (; k > 0; k--) {
        word &= word - 1;
    }
    return 8 * byte + __builtin_ctzll(word);
}

/* The last line with at most k members below it. */
static int64_t line_of_member(const mr_bitmap *bitmap, int64_t k) {
    int64_t low = bitmap->nearby[k / NEARBY], high = bitmap->nearby[k / NEARBY + 1] + 1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (bitmap->below[middle] <= k) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t mr_bitmap_select(const mr_bitmap *bitmap, int64_t k) {
    int64_t line = line_of_member(bitmap, k), word = 0;
    k -= bitmap->below[line];
    for (int64_t w = 1; w < LINE_WORDS; w++) {
        word += members_within(bitmap, line, w) <= k;
    }
    k -= members_within(bitmap, line, word);
    word += line * LINE_WORDS;
    return word * 64 + select_in_word(bitmap->words[word], k);
}
