/* SPDX-License-Identifier: Apache-2.0 */
/* hash_avx2.c - mr_hash64_copy for CPUs with AVX2; compiled with -mavx2 where there are such.
 *
 * What was loaded is stored and hashed at once: memory is what takes the time, and the sums are
 * made while the CPU waits for it. The library's functions can hash or copy, one after the other
 * only, so the hash of long inputs (XXH3, 64 bits, seed 0) is written out here:
 *
 *     8 sums of 64 bits; each 64 bytes of input are mixed with 64 bytes of the secret, which move
 * on by 8 each time; after 16 times the sums are scrambled; the last 64 bytes come once more. */
#include "core/hash.h"

#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    STRIPE = 64,
    STRIPES = 16,      /* in a block */
    AHEAD = 2048,      /* bytes that are asked for before they are needed */
    LONG = 241,        /* shorter inputs are hashed otherwise */
    LAST = 192 - 64,   /* where the secret's last 64 bytes begin */
    CLOSING = LAST - 7 /* where those for the last stripe begin */
};

typedef struct sums {
    __m256i low, high;
} sums;

static inline __m256i load(const unsigned char *from) {
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

static inline void store(unsigned char *to, __m256i value) {
    _mm256_storeu_si256((__m256i *)(void *)to, value);
}

static inline sums first_sums(void) {
    const uint64_t first[8] = {0xC2B2AE3D,         0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F,
                               0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x85EBCA77,
                               0x27D4EB2F165667C5, 0x9E3779B1};
    const unsigned char *bytes = (const unsigned char *)first;
    return (sums){load(bytes), load(bytes + STRIPE / 2)};
}

/* Each sum gets the product of the halves of (input ^ secret), and its neighbour the input. */
static inline __m256i mix(__m256i sum, __m256i input, const unsigned char *secret) {
    __m256i key = _mm256_xor_si256(input, load(secret));
    __m256i product = _mm256_mul_epu32(key, _mm256_srli_epi64(key, 32));
    __m256i swapped = _mm256_shuffle_epi32(input, _MM_SHUFFLE(1, 0, 3, 2));
    return _mm256_add_epi64(sum, _mm256_add_epi64(product, swapped));
}

static inline __m256i scramble(__m256i sum, const unsigned char *secret) {
    const __m256i prime = _mm256_set1_epi64x(0x9E3779B1);
    sum = _mm256_xor_si256(sum, _mm256_srli_epi64(sum, 47));
    sum = _mm256_xor_si256(sum, load(secret));
    __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(sum, 32), prime);
    return _mm256_add_epi64(_mm256_mul_epu32(sum, prime), _mm256_slli_epi64(high, 32));
}

static inline sums add_stripe(sums s, unsigned char *to, const unsigned char *from,
                              const unsigned char *secret) {
    __m256i low = load(from), high = load(from + STRIPE / 2);
    if (to) {
        store(to, low);
        store(to + STRIPE / 2, high);
    }
    return (sums){mix(s.low, low, secret), mix(s.high, high, secret + STRIPE / 2)};
}

static uint64_t fold(uint64_t a, uint64_t b) {
    __extension__ const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t finish(sums s, size_t size) {
    unsigned char bytes[STRIPE];
    uint64_t sum[8], key[8], hash = (uint64_t)size * 0x9E3779B185EBCA87;
    store(bytes, s.low);
    store(bytes + STRIPE / 2, s.high);
    memcpy(sum, bytes, sizeof sum);
    memcpy(key, XXH3_kSecret + 11, sizeof key);
    for (int i = 0; i < 8; i += 2) {
        hash += fold(sum[i] ^ key[i], sum[i + 1] ^ key[i + 1]);
    }
    hash = (hash ^ hash >> 37) * 0x165667919E3779F9;
    return hash ^ hash >> 32;
}

/* All stripes but the last, which may overlap the one before it. Asking for memory beyond the end
 * would be asking for what nobody needs. */
static inline sums add_all(sums s, unsigned char *to, const unsigned char *from, size_t n) {
    const unsigned char *const end = from + n * STRIPE - 1;
    for (size_t i = 0; i < n; i++, from += STRIPE) {
        const unsigned char *next = end - from > AHEAD ? from + AHEAD : end;
        _mm_prefetch((const char *)next, _MM_HINT_T0);
        s = add_stripe(s, to, from, XXH3_kSecret + 8 * (i % STRIPES));
        to = to ? to + STRIPE : NULL;
        if (i % STRIPES == STRIPES - 1) {
            s.low = scramble(s.low, XXH3_kSecret + LAST);
            s.high = scramble(s.high, XXH3_kSecret + LAST + STRIPE / 2);
        }
    }
    return s;
}

static inline uint64_t hash_long(unsigned char *to, const unsigned char *from, size_t size) {
    size_t n = (size - 1) / STRIPE, done = n * STRIPE;
    sums s = add_all(first_sums(), to, from, n);
    if (to) {
        memcpy(to + done, from + done, size - done);
        from = to;
    }
    s = add_stripe(s, NULL, from + size - STRIPE, XXH3_kSecret + CLOSING);
    return finish(s, size);
}

uint64_t mr_hash64_copy_avx2(void *to, const void *from, size_t size) {
    if (size >= LONG) {
        return to ? hash_long(to, from, size) : hash_long(NULL, from, size);
    }
    if (to && size > 0) {
        memcpy(to, from, size);
    }
    return XXH3_64bits(to ? to : from, size);
}
#endif
