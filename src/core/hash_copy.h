/* SPDX-License-Identifier: Apache-2.0 */
/* hash_copy.h - the body of mr_hash64_copy, for the files that compile it for one kind of CPU each.
 * Blocks are small enough that the hash finds in the first-level cache what was just copied. */
#ifndef MR_CORE_HASH_COPY_H
#define MR_CORE_HASH_COPY_H

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

static inline uint64_t hash_copy(void *to, const void *from, size_t size) {
    const size_t block = 8192, ahead = 2048, line = 64;
    if (!to) {
        return XXH3_64bits(from, size);
    }
    if (size <= 2 * block) {
        memcpy(to, from, size);
        return XXH3_64bits(to, size);
    }
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (size_t at = 0; at < size; at += block) {
        size_t n = size - at < block ? size - at : block;
        memcpy((char *)to + at, (const char *)from + at, n);
        for (size_t next = at + n; next < size && next < at + n + ahead; next += line) {
            __builtin_prefetch((const char *)from + next);
        }
        XXH3_64bits_update(&state, (const char *)to + at, n);
    }
    return XXH3_64bits_digest(&state);
}

#endif
