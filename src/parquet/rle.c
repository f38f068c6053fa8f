/* SPDX-License-Identifier: Apache-2.0 */
/* rle.c - the format's mix of runs and bit-packed groups: levels, indices, booleans.
 *
 * A run is a header (length * 2) and a value of whole bytes; packed groups are a header (groups * 2
 * + 1) and 8 values each. The last group may be longer than the values that are wanted, and writers
 * leave out its last bytes; what is wanted must be there. */
#include <string.h>

#include "parquet/parts.h"

mr_pq_runs mr_pq_runs_of(mr_pq_bytes bytes, int32_t width, const mr_column_kernels *kernels) {
    return (mr_pq_runs){.at = bytes.data,
                        .end = bytes.data + bytes.size,
                        .width = width,
                        .kernels = kernels,
                        .bad = width < 0 || width > 32};
}

static bool fail(mr_pq_runs *runs) {
    runs->bad = true;
    runs->left = 0;
    return false;
}

static uint64_t take_varint(mr_pq_runs *runs) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 35 && runs->at < runs->end; shift += 7) {
        uint8_t byte = *runs->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            return value;
        }
    }
    fail(runs);
    return 0;
}

static bool load_packed(mr_pq_runs *runs, uint64_t groups) {
    uint64_t bytes = groups * (uint64_t)runs->width, there = (uint64_t)(runs->end - runs->at);
    runs->left = (int64_t)(groups * 8);
    if (bytes > there) {
        bytes = there;
        int64_t whole = (int64_t)(there * 8 / (uint64_t)runs->width);
        runs->left = whole < runs->left ? whole : runs->left;
    }
    runs->packed = runs->at;
    runs->at += bytes;
    runs->packed_end = runs->at;
    runs->phase = 0;
    return true;
}

static bool load_run(mr_pq_runs *runs, uint64_t length) {
    size_t bytes = ((size_t)runs->width + 7) / 8;
    if (bytes > (size_t)(runs->end - runs->at)) {
        return fail(runs);
    }
    runs->value = 0;
    memcpy(&runs->value, runs->at, bytes);
    runs->at += bytes;
    runs->packed = NULL;
    runs->left = (int64_t)length;
    return true;
}

bool mr_pq_runs_next(mr_pq_runs *runs) {
    while (runs->left == 0) {
        uint64_t head = runs->bad ? 0 : take_varint(runs);
        if (runs->bad || !(head & 1 ? load_packed(runs, head >> 1) : load_run(runs, head >> 1))) {
            return false;
        }
    }
    return true;
}

/* Groups are taken whole where that is possible; phase counts what was taken of the first. */
static void take_packed(mr_pq_runs *runs, uint32_t *out, int64_t n) {
    while (runs->phase && n > 0) {
        uint32_t eight[8];
        size_t here = 8 - runs->phase < (uint64_t)n ? 8 - runs->phase : (size_t)n;
        runs->kernels->unpack_32(eight, runs->packed, runs->packed_end, runs->phase + here,
                                 runs->width);
        memcpy(out, eight + runs->phase, here * sizeof *out);
        out += here;
        n -= (int64_t)here;
        runs->phase = (runs->phase + (uint32_t)here) % 8;
        runs->packed += runs->phase ? 0 : runs->width;
    }
    if (n > 0) {
        runs->kernels->unpack_32(out, runs->packed, runs->packed_end, (size_t)n, runs->width);
        runs->packed += n / 8 * runs->width;
        runs->phase = (uint32_t)(n % 8);
    }
}

bool mr_pq_runs_u32(mr_pq_runs *runs, uint32_t *out, int64_t n) {
    while (n > 0) {
        if (!mr_pq_runs_next(runs)) {
            return false;
        }
        int64_t here = n < runs->left ? n : runs->left;
        if (runs->packed) {
            take_packed(runs, out, here);
        } else {
            for (int64_t i = 0; i < here; i++) {
                out[i] = runs->value;
            }
        }
        runs->left -= here;
        out += here;
        n -= here;
    }
    return true;
}

static void take_packed_u8(mr_pq_runs *runs, uint8_t *out, int64_t n) {
    uint32_t some[256];
    if (runs->width == 1 && runs->phase == 0) {
        runs->kernels->unpack_bits(out, runs->packed, (size_t)n);
        runs->packed += n / 8;
        runs->phase = (uint32_t)(n % 8);
        return;
    }
    while (n > 0) {
        int64_t here = n < 256 ? n : 256;
        take_packed(runs, some, here);
        for (int64_t i = 0; i < here; i++) {
            out[i] = (uint8_t)some[i];
        }
        out += here;
        n -= here;
    }
}

bool mr_pq_runs_u8(mr_pq_runs *runs, uint8_t *out, int64_t n) {
    while (n > 0) {
        if (!mr_pq_runs_next(runs)) {
            return false;
        }
        int64_t here = n < runs->left ? n : runs->left;
        if (runs->packed) {
            take_packed_u8(runs, out, here);
        } else {
            memset(out, (int)runs->value, (size_t)here);
        }
        runs->left -= here;
        out += here;
        n -= here;
    }
    return true;
}

bool mr_pq_runs_all(mr_pq_runs *runs, int64_t n, uint32_t value) {
    mr_pq_runs before = *runs;
    for (int64_t left = n; left > 0;) {
        if (!mr_pq_runs_next(runs) || runs->packed || runs->value != value) {
            *runs = before;
            return false;
        }
        int64_t here = left < runs->left ? left : runs->left;
        runs->left -= here;
        left -= here;
    }
    return true;
}

/* Zeros among `n` packed bits, from the bit `phase` of the first byte on. */
static bool packed_zeros(const mr_pq_runs *runs, int64_t n, int64_t first, int64_t *out,
                         int64_t room, int64_t *found) {
    for (int64_t i = 0; i < n;) {
        int64_t bit = i + runs->phase, here = 64 - bit % 8;
        const uint8_t *byte = runs->packed + bit / 8;
        size_t there = (size_t)(runs->packed_end - byte);
        uint64_t word = 0;
        memcpy(&word, byte, there < 8 ? there : 8);
        here = here < n - i ? here : n - i;
        uint64_t zeros = ~word >> (bit % 8);
        zeros &= here == 64 ? UINT64_MAX : ((uint64_t)1 << here) - 1;
        for (; zeros; zeros &= zeros - 1) {
            if (*found == room) {
                return false;
            }
            out[(*found)++] = first + i + __builtin_ctzll(zeros);
        }
        i += here;
    }
    return true;
}

static bool run_zeros(int64_t n, int64_t first, int64_t *out, int64_t room, int64_t *found) {
    if (n > room - *found) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        out[(*found)++] = first + i;
    }
    return true;
}

bool mr_pq_runs_zeros(mr_pq_runs *runs, int64_t n, int64_t first, int64_t *out, int64_t room,
                      int64_t *found) {
    *found = 0;
    for (int64_t i = 0; i < n;) {
        if (!mr_pq_runs_next(runs)) {
            return false;
        }
        int64_t here = n - i < runs->left ? n - i : runs->left;
        bool fits = runs->packed       ? packed_zeros(runs, here, first + i, out, room, found)
                    : runs->value == 0 ? run_zeros(here, first + i, out, room, found)
                                       : true;
        if (!fits) {
            return false;
        }
        if (runs->packed) {
            uint32_t bits = runs->phase + (uint32_t)(here % 8);
            runs->packed += here / 8 + bits / 8;
            runs->phase = bits % 8;
        }
        runs->left -= here;
        i += here;
    }
    return true;
}
