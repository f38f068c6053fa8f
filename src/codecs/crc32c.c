/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.c - see crc32c.h. */
#include "codecs/crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */

/* Four bits at a time: a table that the compiler can make. */
#define STEP(x) ((x) >> 1 ^ (POLYNOMIAL & (0u - ((x)&1u))))
#define ROW(i) STEP(STEP(STEP(STEP((uint32_t)(i)))))
static const uint32_t nibbles[16] = {ROW(0),  ROW(1),  ROW(2),  ROW(3), ROW(4),  ROW(5),
                                     ROW(6),  ROW(7),  ROW(8),  ROW(9), ROW(10), ROW(11),
                                     ROW(12), ROW(13), ROW(14), ROW(15)};

uint32_t mr_crc32c_scalar(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t crc = 0xffffffffu, word;
    for (; size >= sizeof word; size -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        crc = _mm_crc32_u64(crc, word);
    }
    uint32_t last = (uint32_t)crc;
    for (; size > 0; size--) {
        last = _mm_crc32_u8(last, *bytes++);
    }
    return ~last;
}

uint32_t mr_crc32c(const void *data, size_t size) {
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(data, size)
                                            : mr_crc32c_scalar(data, size);
}
#else
uint32_t mr_crc32c(const void *data, size_t size) {
    return mr_crc32c_scalar(data, size);
}
#endif
