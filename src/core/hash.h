/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - XXH3 for fingerprints and digests. */
#ifndef MR_CORE_HASH_H
#define MR_CORE_HASH_H

#include <millrace/types.h>

typedef struct mr_hash128 {
    uint64_t low, high;
} mr_hash128;

/* A hash fed piece by piece. Numbers are hashed as 8 little-endian bytes, texts with their
 * length, so that no two sequences of pieces share their bytes. */
typedef struct mr_hasher mr_hasher;
mr_hasher *mr_hasher_new(void); /* NULL: out of memory */
void mr_hasher_free(mr_hasher *hasher);
void mr_hasher_bytes(mr_hasher *hasher, const void *data, size_t size);
void mr_hasher_number(mr_hasher *hasher, int64_t number);
void mr_hasher_text(mr_hasher *hasher, const char *text);
mr_hash128 mr_hasher_value(const mr_hasher *hasher);

uint64_t mr_hash64(const void *data, size_t size, uint64_t seed);
void mr_hash64_pieces(const mr_piece *pieces, size_t n, uint64_t seed, uint64_t *out); /* of each */
uint64_t mr_hash64_joined(const mr_piece *pieces, size_t n); /* of one behind the other; seed 0 */

/* memcpy, and mr_hash64 of the copy with seed 0, in one go; to may be NULL: only the hash. The best
 * instructions of this CPU, the same numbers on all. */
uint64_t mr_hash64_copy(void *to, const void *from, size_t size);
uint64_t mr_hash64_copy_blocks(void *to, const void *from, size_t size); /* on any CPU */
#if defined(__x86_64__)
uint64_t mr_hash64_copy_avx2(void *to, const void *from, size_t size);
#endif

mr_hash128 mr_hash(const void *data, size_t size);
void mr_hash_hex(mr_hash128 hash, char out[33]);

#endif
