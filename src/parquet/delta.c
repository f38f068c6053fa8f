/* SPDX-License-Identifier: Apache-2.0 */
/* delta.c - DELTA_BINARY_PACKED: blocks of differences, bit-packed in miniblocks, above a least
 * one.
 *
 *     block size, miniblocks in a block, number of values, first value; then for each block:
 *     least difference, a width for each miniblock, miniblocks
 *
 * Miniblocks behind the last value may be left out, and the last one may be cut off. */
#include <string.h>

#include "parquet/parts.h"

typedef struct delta {
    const uint8_t *at, *end;
    const mr_column_kernels *kernels;
    bool bad;
    int64_t per_miniblock, miniblocks, n_values;
} delta;

static uint64_t take_varint(delta *d) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 70 && d->at < d->end; shift += 7) {
        uint8_t byte = *d->at++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7F) << shift : 0;
        if (!(byte & 0x80)) {
            return value;
        }
    }
    d->bad = true;
    return 0;
}

static uint64_t take_zigzag(delta *d) {
    uint64_t value = take_varint(d);
    return (value >> 1) ^ (0 - (value & 1));
}

static void take_head(delta *d) {
    uint64_t block = take_varint(d), miniblocks = take_varint(d), n = take_varint(d);
    if (d->bad || block == 0 || block % 128 != 0 || block > 1 << 24 || miniblocks == 0 ||
        miniblocks > block || block % miniblocks != 0 || block / miniblocks % 8 != 0 ||
        n > INT32_MAX) {
        d->bad = true;
        return;
    }
    d->per_miniblock = (int64_t)(block / miniblocks);
    d->miniblocks = (int64_t)miniblocks;
    d->n_values = (int64_t)n;
}

/* Differences of one miniblock to values; the least difference and the value before are given. */
static uint64_t take_miniblock(delta *d, int32_t width, int32_t bits, void *out, int64_t n,
                               uint64_t least, uint64_t before) {
    int64_t whole = d->per_miniblock / 8 * bits, needed = (n * bits + 7) / 8;
    int64_t there = d->end - d->at;
    if (bits > width * 8 || needed > there) {
        d->bad = true;
        return before;
    }
    if (width == 4) {
        d->kernels->unpack_32(out, d->at, d->end, (size_t)n, bits);
        before = d->kernels->sum_32(out, (size_t)n, (uint32_t)least, (uint32_t)before);
    } else {
        d->kernels->unpack_64(out, d->at, d->end, (size_t)n, bits);
        before = d->kernels->sum_64(out, (size_t)n, least, before);
    }
    d->at += whole < there ? whole : there;
    return before;
}

/* One block, n values of it wanted. */
static uint64_t take_block(delta *d, int32_t width, uint8_t *out, int64_t n, uint64_t before) {
    uint64_t least = take_zigzag(d);
    const uint8_t *widths = d->at;
    if (d->bad || d->miniblocks > d->end - d->at) {
        d->bad = true;
        return 0;
    }
    d->at += d->miniblocks;
    for (int64_t m = 0; n > 0 && !d->bad; m++) {
        int64_t here = n < d->per_miniblock ? n : d->per_miniblock;
        before = take_miniblock(d, width, widths[m], out, here, least, before);
        out += here * width;
        n -= here;
    }
    return before;
}

bool mr_pq_delta(const mr_column_kernels *kernels, const uint8_t **at, const uint8_t *end,
                 int32_t width, void *out, int64_t n) {
    delta d = {.at = *at, .end = end, .kernels = kernels};
    take_head(&d);
    uint64_t value = take_zigzag(&d);
    if (d.bad || d.n_values != n) {
        return false;
    }
    uint8_t *to = out;
    if (n > 0) {
        memcpy(to, &value, (size_t)width); /* little-endian: the low bytes */
        to += width;
        n--;
    }
    while (n > 0 && !d.bad) {
        int64_t block = d.per_miniblock * d.miniblocks, here = n < block ? n : block;
        value = take_block(&d, width, to, here, value);
        to += here * width;
        n -= here;
    }
    *at = d.at;
    return !d.bad;
}
