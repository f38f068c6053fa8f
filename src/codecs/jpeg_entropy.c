/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_entropy.c - the Huffman decoder.
 *
 * Stuffed bytes are removed beforehand, a few kilobytes at a time: bits are then taken from memory
 * eight bytes at once and without a branch. A lookup of ten bits brings up to two coefficients, or
 * one with bits of its value from behind the lookup; and one comparison after it tells everything
 * unusual: the end of the block, its overflow, a code that takes more bits. */
#include "codecs/jpeg_entropy.h"

#include "codecs/jpeg_bits.h"

#include <string.h>

#include "core/cpu.h"

enum {
    CHUNK = 8,   /* MCUs */
    STEP = 8192, /* bytes without stuffing, made at once */
    AHEAD = 16,  /* bytes that may be read ahead of those that are taken */
    LOOKUPS = 3, /* after a refill */
    /* Behind the end: what an MCU takes at most. */
    ZEROS = (MR_JPEG_MCU_BLOCKS + 1) * MR_JPEG_BLOCK_BYTES,
};
_Static_assert(LOOKUPS *MR_JPEG_BITS_MAX <= 56, "a refill is enough for so many");
#define REST ((UINT64_C(1) << MR_JPEG_REST_BITS) - 1)

/* ---- Bits ---- */
INLINE size_t lookup_index(const mr_jpeg_bits *b) {
    return b->buffer >> MR_JPEG_REST_BITS;
}

/* ---- Symbols that a lookup does not hold ---- */

mr_jpeg_dc_entry mr_jpeg_long_dc(const mr_jpeg_code_book *book, uint64_t buffer) {
    uint32_t length = mr_jpeg_code_length(book, buffer);
    if (length == 0) {
        return (mr_jpeg_dc_entry){0};
    }
    uint32_t size = mr_jpeg_symbol_of(book, buffer, length);
    int32_t value = size > 0 ? mr_jpeg_value_of(buffer << length, size) : 0;
    return (mr_jpeg_dc_entry){.bits = (uint8_t)(length + size), .difference = (int16_t)value};
}

/* One symbol of any kind, as an entry of the AC table; MR_JPEG_LONG: there is no such code. */
static __attribute__((noinline)) mr_jpeg_ac_entry single_entry(const mr_jpeg_code_book *book,
                                                               uint64_t buffer) {
    uint32_t length = mr_jpeg_code_length(book, buffer);
    if (length == 0) {
        return mr_jpeg_ac_single(0, MR_JPEG_LONG, MR_JPEG_NOWHERE, 0, 0);
    }
    uint32_t symbol = mr_jpeg_symbol_of(book, buffer, length), size = symbol & 15,
             run = symbol >> 4;
    if (size == 0) {
        uint32_t leads = run == 15 ? 16 : MR_JPEG_END;
        return mr_jpeg_ac_single(length, leads, MR_JPEG_NOWHERE, 0, 0);
    }
    return mr_jpeg_ac_single(length + size, run + 1, run, mr_jpeg_value_of(buffer << length, size),
                             0);
}

/* ---- Blocks ---- */

/* From zigzag order to rows; past the end to the place behind the block. */
static const uint8_t natural[MR_JPEG_BLOCK + 256] = {
    0,  1,  8,  16, 9,
    2,  3,  10, 17, 24,
    32, 25, 18, 11, 4,
    5,  12, 19, 26, 33,
    40, 48, 41, 34, 27,
    20, 13, 6,  7,  14,
    21, 28, 35, 42, 49,
    56, 57, 50, 43, 36,
    29, 22, 15, 23, 30,
    37, 44, 51, 58, 59,
    52, 45, 38, 31, 39,
    46, 53, 60, 61, 54,
    47, 55, 62, 63, [MR_JPEG_BLOCK... MR_JPEG_BLOCK + 255] = MR_JPEG_BLOCK};

/* What an entry holds goes to its places, counted from `at` on. `rest`: bits behind the lookup. */
INLINE void apply(const mr_jpeg_ac_entry *entry, uint64_t rest, int16_t *block, const uint8_t *at) {
    block[at[entry->place[0]]] = (int16_t)(entry->first + (int32_t)(rest >> (entry->shift & 63)));
    block[at[entry->place[1]]] = (int16_t)entry->second;
}

/* How many coefficients a block has that ends there; 0: it does not. */
INLINE int32_t known_at_end(int64_t k) {
    int32_t ends = (k == MR_JPEG_BLOCK) | ((uint64_t)k - MR_JPEG_END < MR_JPEG_BLOCK);
    return (int32_t)k & (MR_JPEG_END - 1) & -ends;
}

/* Where in a block the decoder is. */
typedef struct block_state {
    int16_t *block;
    const uint8_t *at;   /* in `natural` */
    const uint8_t *next; /* where the last lookup leads: past the end if it was not taken */
    uint64_t number;     /* its entry */
} block_state;

/* Up to `n` lookups; false: the last one was not taken. The entry is read twice: what the next
 * lookup needs of it must come by the shortest way, and that is not by the address that all its
 * fields share. */
INLINE bool look_up(mr_jpeg_bits *b, const mr_jpeg_ac_table *table, block_state *s, int n) {
#pragma GCC unroll 5
    for (int i = 0; i < n; i++) {
        size_t index = lookup_index(b), same = index;
        __asm__("" : "+r"(same));
        const mr_jpeg_ac_entry *entry = &table->lookup[same];
        s->number = table->lookup[index].number;
        s->next = s->at + entry->leads;
        apply(entry, b->buffer & REST, s->block, s->at);
        if (__builtin_expect(s->next >= natural + MR_JPEG_BLOCK, 0)) {
            return false;
        }
        s->at = s->next;
        mr_jpeg_consume(b, s->number);
    }
    return true;
}

/* The AC coefficients of a block, after DC, which left bits for all lookups but one. Returns how
 * many coefficients are known then, 0 if something is wrong. An entry may hold a symbol of the next
 * block where the first one fills this block: taken singly then. */
INLINE int32_t ac_coefficients(mr_jpeg_bits *b, const mr_jpeg_ac_table *table, int16_t *block) {
    block_state s = {.block = block, .at = natural + 1};
    bool goes_on = look_up(b, table, &s, LOOKUPS - 1);
    for (;;) {
        while (goes_on) {
            mr_jpeg_refill(b);
            goes_on = look_up(b, table, &s, LOOKUPS);
        }
        int32_t known = known_at_end(s.next - natural);
        if (__builtin_expect(known > 0, 1)) {
            mr_jpeg_consume(b, s.number);
            return known;
        }
        mr_jpeg_refill(b);
        mr_jpeg_ac_entry single = single_entry(&table->book, b->buffer);
        apply(&single, 0, block, s.at);
        mr_jpeg_consume(b, single.number);
        s.at += single.leads;
        if (s.at >= natural + MR_JPEG_BLOCK) {
            return known_at_end(s.at - natural);
        }
        goes_on = true;
    }
}

/* As look_up, of bits alone. */
INLINE bool look_up_skip(mr_jpeg_bits *b, const mr_jpeg_ac_table *table, int64_t *k,
                         uint32_t *entry, int n) {
#pragma GCC unroll 5
    for (int i = 0; i < n; i++) {
        *entry = table->skip[b->buffer >> (64 - MR_JPEG_SKIP_BITS)];
        int64_t next = *k + (*entry >> 8);
        if (__builtin_expect(next >= MR_JPEG_BLOCK, 0)) {
            return false;
        }
        *k = next;
        mr_jpeg_consume(b, *entry);
    }
    return true;
}

/* As ac_coefficients, of bits alone. */
INLINE int32_t skip_coefficients(mr_jpeg_bits *b, const mr_jpeg_ac_table *table) {
    int64_t k = 1;
    uint32_t entry;
    bool goes_on = look_up_skip(b, table, &k, &entry, LOOKUPS - 1);
    for (;;) {
        while (goes_on) {
            mr_jpeg_refill(b);
            goes_on = look_up_skip(b, table, &k, &entry, LOOKUPS);
        }
        int32_t known = known_at_end(k + (entry >> 8));
        if (__builtin_expect(known > 0, 1)) {
            mr_jpeg_consume(b, entry);
            return known;
        }
        mr_jpeg_refill(b);
        mr_jpeg_ac_entry single = single_entry(&table->book, b->buffer);
        mr_jpeg_consume(b, single.number);
        k += single.leads;
        if (k >= MR_JPEG_BLOCK) {
            return known_at_end(k);
        }
        goes_on = true;
    }
}

/* n MCUs whose bytes are all there, or end before. The state of the bits is kept in registers. */
INLINE bool run_mcus(mr_jpeg_scan *scan, int64_t n, int16_t *coefficients, uint8_t *known,
                     const bool keep) {
    const mr_jpeg_mcu *mcu = scan->mcu;
    mr_jpeg_bits bits = scan->bits;
    const uint8_t *limit = scan->data + scan->filled + sizeof bits.buffer;
    for (int64_t i = 0; i < n; i++) {
        int32_t beyond = 0; /* 16 bits */
        for (int32_t k = 0; k < mcu->n_blocks; k++) {
            const mr_jpeg_mcu_block *of = &mcu->blocks[k];
            int32_t difference;
            if (!mr_jpeg_dc_difference(&bits, of->dc, &difference)) {
                return false;
            }
            int32_t dc = scan->predictors[of->component] += difference;
            beyond |= dc ^ (int16_t)dc;
            if (keep) {
                mr_jpeg_clear_block(coefficients);
            }
            int32_t count = keep ? ac_coefficients(&bits, of->ac, coefficients)
                                 : skip_coefficients(&bits, of->ac);
            if (count == 0) {
                return false;
            }
            if (keep) {
                coefficients[0] = (int16_t)dc;
                *known++ = (uint8_t)count;
                coefficients += MR_JPEG_BLOCK;
            }
        }
        if (beyond != 0 || bits.next > limit) {
            return false;
        }
    }
    scan->bits = bits;
    return true;
}

static bool decode_plain(mr_jpeg_scan *scan, int64_t n, int16_t *coefficients, uint8_t *known) {
    return run_mcus(scan, n, coefficients, known, true);
}

static bool skip_plain(mr_jpeg_scan *scan, int64_t n) {
    return run_mcus(scan, n, NULL, NULL, false);
}

#if defined(__x86_64__)
/* Shifts by a variable number are what all this consists of: BMI2 has better ones. */
#define BMI2 __attribute__((target("bmi,bmi2")))
BMI2 static bool decode_bmi2(mr_jpeg_scan *scan, int64_t n, int16_t *coefficients, uint8_t *known) {
    return run_mcus(scan, n, coefficients, known, true);
}

BMI2 static bool skip_bmi2(mr_jpeg_scan *scan, int64_t n) {
    return run_mcus(scan, n, NULL, NULL, false);
}
#else
#define decode_bmi2 decode_plain
#define skip_bmi2 skip_plain
#endif

/* ---- Bytes ---- */
size_t mr_jpeg_scan_memory(size_t size, size_t scan) {
    return size - scan + ZEROS + MR_JPEG_MARGIN + (size_t)2 * AHEAD;
}

static size_t bytes_taken(const mr_jpeg_scan *scan) {
    return (size_t)(scan->bits.next - scan->data) - (scan->bits.count & 63) / 8;
}

void mr_jpeg_scan_fill(mr_jpeg_scan *scan, size_t need) {
    need += bytes_taken(scan) + AHEAD;
    while (scan->filled < need && !scan->ended) {
        size_t left = scan->size - scan->read, n = left < STEP ? left : STEP, written;
        scan->read += scan->kernels->jpeg.unstuff(scan->data + scan->filled,
                                                  scan->bytes + scan->read, n, &written);
        scan->filled += written;
        left = scan->size - scan->read;
        const uint8_t *at = scan->bytes + scan->read;
        scan->ended = left == 0 || (at[0] == 0xFF && (left == 1 || at[1] != 0));
        if (scan->ended) {
            memset(scan->data + scan->filled, 0, ZEROS);
        }
    }
}

bool mr_jpeg_scan_reaches(mr_jpeg_scan *scan, int *marker) {
    mr_jpeg_scan_fill(scan, 0);
    if (!scan->ended || bytes_taken(scan) != scan->filled || scan->size - scan->read < 2) {
        return false;
    }
    *marker = scan->bytes[scan->read + 1];
    return true;
}

static bool piece_ends_with(mr_jpeg_scan *scan, int marker) {
    int found;
    return mr_jpeg_scan_reaches(scan, &found) && found == marker;
}

static void begin_piece(mr_jpeg_scan *scan, size_t byte) {
    scan->segment = byte;
    scan->read = byte;
    scan->filled = 0;
    scan->ended = false;
    scan->counted = 0;
    scan->stuffed = 0;
    scan->bits = (mr_jpeg_bits){.next = scan->data};
}

static void begin_bits(mr_jpeg_scan *scan, const mr_jpeg_place *place) {
    memcpy(scan->predictors, place->predictors, sizeof scan->predictors);
    if (place->bit > 0) {
        mr_jpeg_scan_fill(scan, 1);
        mr_jpeg_refill(&scan->bits);
        mr_jpeg_consume(&scan->bits, place->bit);
    }
}

void mr_jpeg_scan_begin(mr_jpeg_scan *scan, const mr_jpeg_place *place, int64_t mcu) {
    begin_piece(scan, place->byte);
    if (scan->interval > 0) {
        scan->left = scan->interval - (int32_t)(mcu % scan->interval);
        scan->restarts = (int32_t)(mcu / scan->interval % 8);
    }
    begin_bits(scan, place);
}

/* Counts stuffed bytes up to a byte of the file, which was read, and is not before those counted.
 */
static void count_stuffed(mr_jpeg_scan *scan, size_t byte) {
    const uint8_t *from = scan->bytes + scan->segment + scan->counted + scan->stuffed;
    const uint8_t *to = scan->bytes + byte;
    for (; (from = memchr(from, 0xFF, (size_t)(to - from))) != NULL; from++) {
        scan->stuffed++;
    }
    scan->counted = byte - scan->segment - scan->stuffed;
}

void mr_jpeg_scan_jump(mr_jpeg_scan *scan, const mr_jpeg_place *place, int64_t mcu) {
    bool there = scan->interval == 0 && place->byte < scan->read &&
                 place->byte >= scan->segment + scan->counted + scan->stuffed;
    if (!there) {
        mr_jpeg_scan_begin(scan, place, mcu);
        return;
    }
    count_stuffed(scan, place->byte);
    scan->bits = (mr_jpeg_bits){.next = scan->data + scan->counted};
    begin_bits(scan, place);
}

bool mr_jpeg_scan_restart(mr_jpeg_scan *scan) {
    if (scan->interval == 0 || scan->left > 0) {
        return true;
    }
    if (!piece_ends_with(scan, MR_JPEG_RST0 + scan->restarts)) {
        return false;
    }
    begin_piece(scan, scan->read + 2);
    memset(scan->predictors, 0, sizeof scan->predictors);
    scan->restarts = (scan->restarts + 1) % 8;
    scan->left = scan->interval;
    return true;
}

/* Up to n MCUs at once: how many. */
static int64_t next_chunk(const mr_jpeg_scan *scan, int64_t n) {
    n = n < CHUNK ? n : CHUNK;
    return scan->interval > 0 && scan->left < n ? scan->left : n;
}

bool mr_jpeg_scan_within(const mr_jpeg_scan *scan) {
    return !scan->ended ||
           (size_t)(scan->bits.next - scan->data) * 8 - (scan->bits.count & 63) <= scan->filled * 8;
}

static bool run_all(mr_jpeg_scan *scan, int64_t n, int16_t *coefficients, uint8_t *known) {
    bool bmi2 = scan->kernels->cpu & MR_CPU_AVX2;
    size_t blocks = (size_t)scan->mcu->n_blocks;
    while (n > 0) {
        if (!mr_jpeg_scan_restart(scan)) {
            return false;
        }
        int64_t some = next_chunk(scan, n);
        mr_jpeg_scan_fill(scan, (size_t)some * blocks * MR_JPEG_BLOCK_BYTES);
        bool right = !coefficients
                         ? (bmi2 ? skip_bmi2 : skip_plain)(scan, some)
                         : (bmi2 ? decode_bmi2 : decode_plain)(scan, some, coefficients, known);
        if (!right || !mr_jpeg_scan_within(scan)) {
            return false;
        }
        n -= some;
        scan->left -= scan->interval > 0 ? (int32_t)some : 0;
        if (coefficients) {
            coefficients += (size_t)some * blocks * MR_JPEG_BLOCK;
            known += (size_t)some * blocks;
        }
    }
    return true;
}

bool mr_jpeg_scan_decode(mr_jpeg_scan *scan, int64_t n, int16_t *coefficients, uint8_t *known) {
    return run_all(scan, n, coefficients, known);
}

bool mr_jpeg_scan_skip(mr_jpeg_scan *scan, int64_t n) {
    return run_all(scan, n, NULL, NULL);
}

bool mr_jpeg_scan_ends(mr_jpeg_scan *scan) {
    return piece_ends_with(scan, MR_JPEG_EOI);
}

/* ---- Places ---- */
bool mr_jpeg_scan_place(mr_jpeg_scan *scan, mr_jpeg_place *place) {
    if (!mr_jpeg_scan_restart(scan)) {
        return false;
    }
    size_t bits = (size_t)(scan->bits.next - scan->data) * 8 - (scan->bits.count & 63);
    const uint8_t *from = scan->data + scan->counted, *to = scan->data + bits / 8;
    scan->counted = bits / 8;
    for (; (from = memchr(from, 0xFF, (size_t)(to - from))) != NULL; from++) {
        scan->stuffed++;
    }
    place->byte = scan->segment + bits / 8 + scan->stuffed;
    place->bit = (uint32_t)(bits % 8);
    memcpy(place->predictors, scan->predictors, sizeof place->predictors);
    return true;
}
