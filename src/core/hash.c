/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - XXH3 behind our own names. Inlined: a call per label would cost more than the hash. */
#include "core/hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

mr_hasher *mr_hasher_new(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state) {
        XXH3_128bits_reset(state);
    }
    return (mr_hasher *)state;
}

void mr_hasher_free(mr_hasher *hasher) {
    XXH3_freeState((XXH3_state_t *)hasher);
}

void mr_hasher_bytes(mr_hasher *hasher, const void *data, size_t size) {
    if (size > 0) {
        XXH3_128bits_update((XXH3_state_t *)hasher, data, size);
    }
}

void mr_hasher_number(mr_hasher *hasher, int64_t number) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
    }
    mr_hasher_bytes(hasher, bytes, sizeof bytes);
}

void mr_hasher_text(mr_hasher *hasher, const char *text) {
    size_t length = strlen(text);
    mr_hasher_number(hasher, (int64_t)length);
    mr_hasher_bytes(hasher, text, length);
}

mr_hash128 mr_hasher_value(const mr_hasher *hasher) {
    XXH128_hash_t hash = XXH3_128bits_digest((const XXH3_state_t *)hasher);
    return (mr_hash128){hash.low64, hash.high64};
}

uint64_t mr_hash64(const void *data, size_t size, uint64_t seed) {
    return XXH3_64bits_withSeed(data, size, seed);
}

void mr_hash64_pieces(const mr_piece *pieces, size_t n, uint64_t seed, uint64_t *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = XXH3_64bits_withSeed(pieces[i].data, pieces[i].size, seed);
    }
}

uint64_t mr_hash64_joined(const mr_piece *pieces, size_t n) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (size_t i = 0; i < n; i++) {
        XXH3_64bits_update(&state, pieces[i].data, pieces[i].size);
    }
    return XXH3_64bits_digest(&state);
}

/* Blocks are small enough that the hash finds in the first-level cache what was just copied. */
uint64_t mr_hash64_copy_blocks(void *to_, const void *from_, size_t size) {
    const size_t block = 8192;
    const char *from = from_;
    char *to = to_;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (size_t at = 0; at < size; at += block) {
        size_t n = size - at < block ? size - at : block;
        memcpy(to + at, from + at, n);
        XXH3_64bits_update(&state, to + at, n);
    }
    return XXH3_64bits_digest(&state);
}

uint64_t mr_hash64_copy(void *to, const void *from, size_t size) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        return mr_hash64_copy_avx2(to, from, size);
    }
#endif
    return to ? mr_hash64_copy_blocks(to, from, size) : XXH3_64bits(from, size);
}

mr_hash128 mr_hash(const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (mr_hash128){hash.low64, hash.high64};
}

void mr_hash_hex(mr_hash128 hash, char out[33]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        uint64_t half = i < 16 ? hash.high : hash.low;
        out[i] = digits[half >> (60 - 4 * (i % 16)) & 15];
    }
    out[32] = '\0';
}
