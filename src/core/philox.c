/* SPDX-License-Identifier: Apache-2.0 */
/* philox.c - the counter-based generator, and the draws made of it. */
#include "core/philox.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/hash.h"

static void philox_round(uint32_t c[4], uint32_t key0, uint32_t key1) {
    uint64_t product0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t product1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next0 = (uint32_t)(product1 >> 32) ^ c[1] ^ key0;
    uint32_t next2 = (uint32_t)(product0 >> 32) ^ c[3] ^ key1;
    c[1] = (uint32_t)product1;
    c[3] = (uint32_t)product0;
    c[0] = next0;
    c[2] = next2;
}

void mr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t key0 = key[0], key1 = key[1];
    memcpy(out, counter, 4 * sizeof *out);
    for (int round = 0; round < 10; round++) {
        philox_round(out, key0, key1);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

uint32_t mr_op_word(const char *name, uint32_t occurrence) {
    return (uint32_t)mr_hash64(name, strlen(name), occurrence);
}

uint64_t mr_draw_u64(const mr_key *key, uint32_t draw) {
    const uint32_t counter[4] = {key->epoch, (uint32_t)key->sample, key->op,
                                 (uint32_t)(key->sample >> 32) << 16 | (draw & 0xFFFFu)};
    const uint32_t seed[2] = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)};
    uint32_t out[4];
    mr_philox(counter, seed, out);
    return (uint64_t)out[1] << 32 | out[0];
}

/* Counters side by side, word by word. */
enum { LANES = 4 };

static void philox_round_lanes(uint32_t c[4][LANES], uint32_t key0, uint32_t key1) {
    for (int k = 0; k < LANES; k++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c[0][k];
        uint64_t product1 = (uint64_t)0xCD9E8D57u * c[2][k];
        c[0][k] = (uint32_t)(product1 >> 32) ^ c[1][k] ^ key0;
        c[2][k] = (uint32_t)(product0 >> 32) ^ c[3][k] ^ key1;
        c[1][k] = (uint32_t)product1;
        c[3][k] = (uint32_t)product0;
    }
}

static void draw_lanes(const mr_key *key, uint32_t draw, uint64_t first, uint64_t out[LANES]) {
    uint32_t key0 = (uint32_t)key->seed, key1 = (uint32_t)(key->seed >> 32), c[4][LANES];
    for (uint32_t k = 0; k < LANES; k++) {
        c[0][k] = key->epoch;
        c[1][k] = (uint32_t)(first + k);
        c[2][k] = key->op;
        c[3][k] = (uint32_t)((first + k) >> 32) << 16 | (draw & 0xFFFFu);
    }
    for (int round = 0; round < 10; round++) {
        philox_round_lanes(c, key0, key1);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int k = 0; k < LANES; k++) {
        out[k] = (uint64_t)c[1][k] << 32 | c[0][k];
    }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

/* Four counters, a word of each in the lower half of 64 bits; what is in the upper halves does not
 * matter, since multiplication takes the lower ones. */
typedef struct counters {
    __m256i c[4];
} counters;

AVX2 static inline counters counters_at(const mr_key *key, uint32_t draw, uint64_t first) {
    const __m256i sample =
        _mm256_add_epi64(_mm256_set1_epi64x((long long)first), _mm256_setr_epi64x(0, 1, 2, 3));
    const __m256i high = _mm256_slli_epi64(_mm256_srli_epi64(sample, 32), 16);
    return (counters){{_mm256_set1_epi64x(key->epoch), sample, _mm256_set1_epi64x(key->op),
                       _mm256_or_si256(high, _mm256_set1_epi64x(draw & 0xFFFFu))}};
}

AVX2 static inline void round_avx2(counters *own, __m256i key0, __m256i key1) {
    const __m256i product0 = _mm256_mul_epu32(own->c[0], _mm256_set1_epi64x(0xD2511F53));
    const __m256i product1 = _mm256_mul_epu32(own->c[2], _mm256_set1_epi64x(0xCD9E8D57));
    own->c[0] =
        _mm256_xor_si256(_mm256_srli_epi64(product1, 32), _mm256_xor_si256(own->c[1], key0));
    own->c[2] =
        _mm256_xor_si256(_mm256_srli_epi64(product0, 32), _mm256_xor_si256(own->c[3], key1));
    own->c[1] = product1;
    own->c[3] = product0;
}

AVX2 static inline void store_draws(const counters *own, uint64_t *out) {
    const __m256i low = _mm256_blend_epi32(_mm256_setzero_si256(), own->c[0], 0x55);
    _mm256_storeu_si256((__m256i *)(void *)out,
                        _mm256_or_si256(_mm256_slli_epi64(own->c[1], 32), low));
}

/* As many as go in eights; says how many. Two vectors, so that neither waits for the other. */
AVX2 static int64_t draw_eights(const mr_key *key, uint32_t draw, int64_t count, uint64_t *out) {
    int64_t i = 0;
    for (; count - i >= 8; i += 8) {
        counters a = counters_at(key, draw, key->sample + (uint64_t)i);
        counters b = counters_at(key, draw, key->sample + (uint64_t)i + 4);
        uint32_t key0 = (uint32_t)key->seed, key1 = (uint32_t)(key->seed >> 32);
        for (int round = 0; round < 10; round++) {
            const __m256i keys0 = _mm256_set1_epi64x(key0), keys1 = _mm256_set1_epi64x(key1);
            round_avx2(&a, keys0, keys1);
            round_avx2(&b, keys0, keys1);
            key0 += 0x9E3779B9u;
            key1 += 0xBB67AE85u;
        }
        store_draws(&a, out + i);
        store_draws(&b, out + i + 4);
    }
    return i;
}
#endif

void mr_draw_u64_run(const mr_key *key, uint32_t draw, int64_t count, uint64_t *out) {
    int64_t i = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        i = draw_eights(key, draw, count, out);
    }
#endif
    for (; count - i >= LANES; i += LANES) {
        draw_lanes(key, draw, key->sample + (uint64_t)i, out + i);
    }
    for (; i < count; i++) {
        mr_key at = *key;
        at.sample += (uint64_t)i;
        out[i] = mr_draw_u64(&at, draw);
    }
}

double mr_draw_unit(const mr_key *key, uint32_t draw) {
    return (double)(mr_draw_u64(key, draw) >> 11) * 0x1p-53;
}

double mr_draw_range(const mr_key *key, uint32_t draw, double low, double high) {
    return low + (high - low) * mr_draw_unit(key, draw);
}

/* Fixed-point multiplication: for n below 2^32 its bias is under 2^-32, and it needs no loop. */
int64_t mr_draw_below(const mr_key *key, uint32_t draw, int64_t n) {
    unsigned __int128 product = (unsigned __int128)mr_draw_u64(key, draw) * (uint64_t)n;
    return (int64_t)(product >> 64);
}

/* ---- exp and log in fixed IEEE order ---- */
static const double LN2_HIGH = 0x1.62e42fee00000p-1; /* the leading 32 bits of ln 2 */
static const double LN2_LOW = 0x1.a39ef35793c76p-33;

double mr_exact_exp(double x) {
    double k = nearbyint(x * 0x1.71547652b82fep+0);
    double r = (x - k * LN2_HIGH) - k * LN2_LOW; /* |r| <= ln(2) / 2 */
    double sum = 1.0;
    for (int i = 18; i >= 1; i--) { /* Taylor by Horner: r^19 / 19! is below 2^-80 */
        sum = 1.0 + sum * r / i;
    }
    return ldexp(sum, (int)k);
}

/* The logarithm of m * 2^exponent, m in [sqrt(1/2), sqrt(2)). */
static inline double log_of_parts(double m, double exponent) {
    double s = (m - 1.0) / (m + 1.0), s2 = s * s; /* log m = 2 atanh s, |s| <= 0.172 */
    double sum = 0.0;
    for (int i = 25; i >= 1; i -= 2) {
        sum = sum * s2 + 1.0 / i;
    }
    return exponent * LN2_HIGH + (2.0 * s * sum + exponent * LN2_LOW);
}

double mr_exact_log(double x) {
    int exponent = 0;
    double m = frexp(x, &exponent);        /* [0.5, 1) */
    bool small = m < 0x1.6a09e667f3bcdp-1; /* the root of 1/2 */
    return log_of_parts(small ? m * 2.0 : m, small ? exponent - 1 : exponent);
}

/* The same without a branch or a call, so that compilers make vectors of it: an exponent of e is
 * e + 1022 in the upper bits, and becomes a float64 as the low bits of 2^52. Positive numbers
 * compare as their bits do. */
static inline __attribute__((always_inline)) void logs(double *values, size_t n) {
    const uint64_t sqrt_half = 0x3FE6A09E667F3BCDu, one = (uint64_t)1 << 52;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits, m_bits, e_bits, small;
        double m, e;
        memcpy(&bits, &values[i], sizeof bits);
        m_bits = (bits & (one - 1)) | 0x3FE0000000000000u;
        small = (m_bits - sqrt_half) >> 63;
        m_bits += small << 52;
        e_bits = ((bits >> 52) - small) | 0x4330000000000000u;
        memcpy(&m, &m_bits, sizeof m);
        memcpy(&e, &e_bits, sizeof e);
        values[i] = log_of_parts(m, e - (0x1p52 + 1022.0));
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void logs_avx2(double *values, size_t n) {
    logs(values, n);
}
#endif

void mr_exact_logs(double *values, size_t n) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        logs_avx2(values, n);
        return;
    }
#endif
    logs(values, n);
}
