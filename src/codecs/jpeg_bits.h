/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_bits.h - taking bits and symbols from image data without stuffed bytes: the inner part of
 * our Huffman decoders, to be compiled into each of them. */
#ifndef MR_CODECS_JPEG_BITS_H
#define MR_CODECS_JPEG_BITS_H

#include "codecs/jpeg_entropy.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- Bits ---- */

/* At least 56 bits. Bytes from `next` on that are in the buffer already are put there once more. */
INLINE void mr_jpeg_refill(mr_jpeg_bits *b) {
    uint64_t word;
    memcpy(&word, b->next, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    b->buffer |= word >> (b->count & 63);
    b->next += ~b->count >> 3 & 7;
    b->count |= 56;
}

/* As many as the lowest 6 bits say. */
INLINE void mr_jpeg_consume(mr_jpeg_bits *b, uint64_t bits) {
    b->buffer <<= bits & 63;
    b->count -= (uint32_t)bits;
}

/* ---- Symbols that a lookup does not hold ----
 * These take bits by value and say how many are to be consumed: the state of the bits must not have
 * an address, or it would not stay in registers. */

/* The length of the code that comes, 0 if there is none. Most that are asked for are long. */
static inline uint32_t mr_jpeg_code_length(const mr_jpeg_code_book *book, uint64_t buffer) {
    uint32_t code = (uint32_t)(buffer >> 48);
    uint32_t length = code < book->limit[MR_JPEG_DC_BITS] ? 1 : MR_JPEG_DC_BITS + 1;
    while (code >= book->limit[length]) {
        length++;
    }
    return length > 16 ? 0 : length;
}

static inline uint32_t mr_jpeg_symbol_of(const mr_jpeg_code_book *book, uint64_t buffer,
                                         uint32_t length) {
    return book->symbols[(int32_t)(buffer >> (64 - length)) + book->distance[length]];
}

/* The value of the uppermost 1 to 15 bits. Those that begin with 0 are negative. */
static inline int32_t mr_jpeg_value_of(uint64_t buffer, uint32_t size) {
    int32_t value = (int32_t)(buffer >> (64 - size));
    int32_t negative = (int32_t)(buffer >> 63) - 1;
    return value + (negative & (1 - (1 << size)));
}

/* As an entry of the DC table; 0 bits: there is no such code. */
mr_jpeg_dc_entry mr_jpeg_long_dc(const mr_jpeg_code_book *book, uint64_t buffer);

/* ---- Blocks ---- */

/* In pieces of a register's size: for all at once compilers choose an instruction that is slow to
 * begin. */
INLINE void mr_jpeg_clear_block(int16_t *block) {
    enum { PIECE = 16 };
#pragma GCC unroll 4
    for (int i = 0; i < MR_JPEG_BLOCK; i += PIECE) {
        memset(block + i, 0, PIECE * sizeof *block);
    }
}

/* Leaves bits for all lookups but one. False: there is no such code. */
INLINE bool mr_jpeg_dc_difference(mr_jpeg_bits *b, const mr_jpeg_dc_table *table,
                                  int32_t *difference) {
    mr_jpeg_refill(b);
    mr_jpeg_dc_entry entry = table->lookup[b->buffer >> (64 - MR_JPEG_DC_BITS)];
    if (__builtin_expect(entry.bits == 0, 0)) {
        entry = mr_jpeg_long_dc(&table->book, b->buffer);
        *difference = entry.difference;
        mr_jpeg_consume(b, entry.number);
        mr_jpeg_refill(b);
        return entry.bits > 0;
    }
    uint64_t rest = b->buffer & (UINT64_MAX >> MR_JPEG_DC_BITS);
    *difference = entry.difference + (int32_t)(rest >> (entry.shift & 63));
    mr_jpeg_consume(b, entry.number);
    return true;
}

#endif
