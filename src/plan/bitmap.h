/* SPDX-License-Identifier: Apache-2.0 */
/* bitmap.h - a set of numbers below n that counts and finds its members quickly. Pure.
 *
 * Beside the bits there are 16 bytes for each 512 of them and 8 for each 4,096 members, so a set of
 * 10 million samples takes 1.6 MB. */
#ifndef MR_PLAN_BITMAP_H
#define MR_PLAN_BITMAP_H

#include <millrace/types.h>

typedef struct mr_bitmap {
    int64_t size, members;
    uint64_t *words;  /* bit i % 64 of word i / 64; bits from size on are 0 */
    int64_t *below;   /* members before each 512 bits, and of all */
    uint64_t *within; /* of each 512 bits: members before its words 1 to 7, 9 bits each */
    int64_t *nearby;  /* the 512 bits that member 4096 * k lies in */
} mr_bitmap;

/* An empty set of numbers in [0, size), to be filled by mr_bitmap_add or in its words. */
mr_status mr_bitmap_init(mr_bitmap *bitmap, int64_t size, mr_error *err);
void mr_bitmap_free(mr_bitmap *bitmap); /* a zeroed one is allowed */

static inline void mr_bitmap_add(mr_bitmap *bitmap, int64_t i) {
    bitmap->words[i >> 6] |= (uint64_t)1 << (i & 63);
}

static inline bool mr_bitmap_has(const mr_bitmap *bitmap, int64_t i) {
    return bitmap->words[i >> 6] >> (i & 63) & 1;
}

/* To be called once the set is filled, before what follows. */
mr_status mr_bitmap_count(mr_bitmap *bitmap, mr_error *err);

int64_t mr_bitmap_rank(const mr_bitmap *bitmap, int64_t i);   /* members below i <= size */
int64_t mr_bitmap_select(const mr_bitmap *bitmap, int64_t k); /* the k-th of them, k < members */

#endif
