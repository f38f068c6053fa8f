/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_huffman.c - tables of Huffman codes. */
#include "codecs/jpeg_huffman.h"

#include <string.h>

enum { BITS = MR_JPEG_LOOKUP_BITS, CODE_BITS = 16, MAX_DC_SIZE = 15 };

/* Codes in their order: every code of a length is 1 more than the one before, and a longer length
 * begins with twice that. Refused as by libjpeg: codes that do not fit their length, and those of
 * ones only. */
static bool make_book(mr_jpeg_code_book *book, mr_jpeg_codes codes) {
    uint32_t code = 0;
    int32_t place = 0;
    book->symbols = codes + CODE_BITS;
    for (int length = 1; length <= CODE_BITS; length++) {
        book->distance[length] = place - (int32_t)code;
        code += codes[length - 1];
        place += codes[length - 1];
        if (code >= 1u << length && codes[length - 1] > 0) {
            return false;
        }
        book->limit[length] = code << (CODE_BITS - length);
        code <<= 1;
    }
    book->limit[CODE_BITS + 1] = UINT32_MAX;
    return true;
}

/* ---- Values behind a code ----
 * Of a value that has more bits than a lookup, the lookup knows the first: at least one, the sign,
 * from which the others count upwards. */
typedef struct value_range {
    int32_t first, last, step; /* the lower half of the values is negative */
    int32_t missing;           /* bits */
    int32_t same;              /* lookups of the same value */
} value_range;

static value_range values_of(int size, int rest, bool upper) {
    int32_t half = 1 << (size - 1), missing = size > rest ? size - rest : 0;
    return (value_range){.first = upper ? half : -2 * half + 1,
                         .last = upper ? 2 * half - 1 : -half,
                         .step = 1 << missing,
                         .missing = missing,
                         .same = 1 << (rest - size + missing)};
}

/* ---- DC ---- */
static mr_jpeg_dc_entry *put_dc(mr_jpeg_dc_entry *at, mr_jpeg_dc_entry entry, int n) {
    for (int i = 0; i < n; i++) {
        *at++ = entry;
    }
    return at;
}

static mr_jpeg_dc_entry *put_dc_code(mr_jpeg_dc_entry *at, int length, int size) {
    int rest = MR_JPEG_DC_BITS - length;
    if (size > 0 && (rest == 0 || length + size > MR_JPEG_BITS_MAX)) {
        return put_dc(at, (mr_jpeg_dc_entry){0}, 1 << rest);
    }
    mr_jpeg_dc_entry entry = {.bits = (uint8_t)(length + size), .shift = 64 - MR_JPEG_DC_BITS};
    if (size == 0) {
        return put_dc(at, entry, 1 << rest);
    }
    for (int upper = 0; upper < 2; upper++) {
        value_range values = values_of(size, rest, upper);
        entry.shift = (uint8_t)(64 - MR_JPEG_DC_BITS - values.missing);
        for (int32_t v = values.first; v <= values.last; v += values.step) {
            entry.difference = (int16_t)v;
            at = put_dc(at, entry, values.same);
        }
    }
    return at;
}

bool mr_jpeg_make_dc(mr_jpeg_dc_table *table, mr_jpeg_codes codes) {
    mr_jpeg_dc_entry *at = table->lookup, *end = at + MR_JPEG_DC_LOOKUPS;
    const uint8_t *symbol = codes + CODE_BITS;
    if (!make_book(&table->book, codes)) {
        return false;
    }
    for (int length = 1; length <= CODE_BITS; length++) {
        for (int i = 0; i < codes[length - 1]; i++, symbol++) {
            if (*symbol > MAX_DC_SIZE) {
                return false;
            }
            at = length <= MR_JPEG_DC_BITS ? put_dc_code(at, length, *symbol) : at;
        }
    }
    memset(at, 0, (size_t)(end - at) * sizeof *at);
    return true;
}

/* ---- AC ---- */
static mr_jpeg_ac_entry long_entry(void) {
    return mr_jpeg_ac_single(0, MR_JPEG_LONG, MR_JPEG_NOWHERE, 0, 0);
}

static mr_jpeg_ac_entry *put(mr_jpeg_ac_entry *at, mr_jpeg_ac_entry entry, int n) {
    for (int i = 0; i < n; i++) {
        *at++ = entry;
    }
    return at;
}

/* One code with all values that may follow it. */
static mr_jpeg_ac_entry *put_ac_code(mr_jpeg_ac_entry *at, int length, uint8_t symbol) {
    uint32_t run = symbol >> 4, bits = (uint32_t)length;
    int size = symbol & 15, rest = BITS - length;
    if (size == 0) { /* 16 zeros, or the end; libjpeg takes all runs without a value for it */
        uint32_t leads = run == 15 ? 16 : MR_JPEG_END;
        return put(at, mr_jpeg_ac_single(bits, leads, MR_JPEG_NOWHERE, 0, 0), 1 << rest);
    }
    bits += (uint32_t)size;
    if (rest == 0 || bits > MR_JPEG_BITS_MAX) {
        return put(at, long_entry(), 1 << rest);
    }
    for (int upper = 0; upper < 2; upper++) {
        value_range values = values_of(size, rest, upper);
        for (int32_t v = values.first; v <= values.last; v += values.step) {
            uint32_t missing = (uint32_t)values.missing;
            at = put(at, mr_jpeg_ac_single(bits, run + 1, run, v, missing), values.same);
        }
    }
    return at;
}

/* Joins to each entry the next symbol, where the bits that are left hold it: the entry of those
 * bits, which are followed by zeros here, so it must not take more than are left. Fields are added,
 * none overflows. */
static void join_pairs(mr_jpeg_ac_entry *lookup, const mr_jpeg_ac_entry *single) {
    for (uint32_t i = 0; i < MR_JPEG_LOOKUPS; i++) {
        mr_jpeg_ac_entry first = single[i];
        mr_jpeg_ac_entry second = single[i << first.bits & (MR_JPEG_LOOKUPS - 1)];
        bool joins = first.leads < MR_JPEG_END && second.leads != MR_JPEG_LONG &&
                     first.bits + second.bits <= BITS;
        uint64_t place = (uint64_t)second.place[0] + first.leads - MR_JPEG_NOWHERE;
        uint64_t value = (uint8_t)second.first;
        uint64_t added = (second.number & 0xFFFF) + (place << 24) + (value << 48);
        lookup[i].number = first.number + (joins ? added : 0);
    }
}

/* `special`: symbols that are not to be held. */
static bool make_ac(mr_jpeg_ac_entry *lookup, mr_jpeg_code_book *book, mr_jpeg_codes codes,
                    bool (*special)(uint8_t symbol, int detail), int detail) {
    mr_jpeg_ac_entry single[MR_JPEG_LOOKUPS], *at = single;
    const uint8_t *symbol = codes + CODE_BITS;
    if (!make_book(book, codes)) {
        return false;
    }
    for (int length = 1; length <= BITS; length++) {
        for (int i = 0; i < codes[length - 1]; i++, symbol++) {
            bool held = !special || !special(*symbol, detail);
            at = held ? put_ac_code(at, length, *symbol)
                      : put(at, long_entry(), 1 << (BITS - length));
        }
    }
    put(at, long_entry(), (int)(single + MR_JPEG_LOOKUPS - at));
    join_pairs(lookup, single);
    return true;
}

bool mr_jpeg_make_ac(mr_jpeg_ac_table *table, mr_jpeg_codes codes) {
    return make_ac(table->lookup, &table->book, codes, NULL, 0);
}

/* ---- AC, to get past ----
 * What fits into the bits that a code leaves is the same for every code that leaves as many. So
 * there is a table for each number of bits, from the fewest on, and the last one is the wanted: an
 * entry is a code's, and added to it that of the bits behind it. */
enum {
    SKIP_BITS = MR_JPEG_SKIP_BITS,
    BEYOND = MR_JPEG_BITS_MAX - SKIP_BITS, /* bits of the last value that are not looked at */
    LEADS_MAX = 8, /* of a code behind another. No more than five have room, so that no sum of
                      this and a place in a block passes for MR_JPEG_END */
};

/* Tables one after the other; that of n bits has 2^n entries and begins at 2^n. */
static mr_jpeg_skip_entry *skip_table(mr_jpeg_skip_entry *tables, int bits) {
    return tables + ((size_t)1 << bits);
}

static mr_jpeg_skip_entry *put_skip(mr_jpeg_skip_entry *at, int entry, size_t n) {
    for (size_t i = 0; i < n; i++) {
        at[i] = (mr_jpeg_skip_entry)entry;
    }
    return at + n;
}

/* One code, where `seen` bits are; `none`: what stands for one that does not fit. */
static mr_jpeg_skip_entry *put_skip_code(mr_jpeg_skip_entry *at, mr_jpeg_skip_entry *tables,
                                         int seen, int length, uint8_t symbol, int none) {
    int size = symbol & 15, run = symbol >> 4, bits = length + size, rest = seen - bits;
    bool ends = size == 0 && run < 15;
    bool fits = bits <= seen + BEYOND && (seen == SKIP_BITS || ends || run < LEADS_MAX);
    int entry = fits ? (ends ? MR_JPEG_END : run + 1) << 8 | bits : none;
    if (!fits || ends || rest <= 0) {
        return put_skip(at, entry, (size_t)1 << (seen - length));
    }
    const mr_jpeg_skip_entry *behind = skip_table(tables, rest);
    for (int value = 0; value < 1 << size; value++) {
        for (int i = 0; i < 1 << rest; i++) {
            *at++ = (mr_jpeg_skip_entry)(entry + behind[i]);
        }
    }
    return at;
}

static void make_skip_table(mr_jpeg_skip_entry *tables, int seen, mr_jpeg_codes codes, int none) {
    mr_jpeg_skip_entry *at = skip_table(tables, seen), *end = skip_table(tables, seen + 1);
    const uint8_t *symbol = codes + CODE_BITS;
    for (int length = 1; length <= seen; length++) {
        for (int i = 0; i < codes[length - 1]; i++) {
            at = put_skip_code(at, tables, seen, length, *symbol++, none);
        }
    }
    put_skip(at, none, (size_t)(end - at));
}

void mr_jpeg_make_skip(mr_jpeg_ac_table *table, mr_jpeg_codes codes) {
    mr_jpeg_skip_entry tables[2 * MR_JPEG_SKIP_LOOKUPS];
    for (int seen = 1; seen < SKIP_BITS; seen++) {
        make_skip_table(tables, seen, codes, 0);
    }
    make_skip_table(tables, SKIP_BITS, codes, MR_JPEG_LONG << 8);
    memcpy(table->skip, skip_table(tables, SKIP_BITS), sizeof table->skip);
}

/* ---- AC of progressive files ---- */

/* The end of several blocks, and values that are too large. */
static bool is_special(uint8_t symbol, int low) {
    int size = symbol & 15, run = symbol >> 4;
    return (size == 0 && run > 0 && run < 15) || size > MR_JPEG_VALUE_BITS - low;
}

bool mr_jpeg_make_first(mr_jpeg_first_table *table, mr_jpeg_codes codes, int low) {
    return make_ac(table->lookup, &table->book, codes, is_special, low);
}

mr_jpeg_refine_entry mr_jpeg_refine_symbol(uint32_t length, uint8_t symbol) {
    uint8_t size = symbol & 15, run = symbol >> 4;
    mr_jpeg_refine_entry entry = {.bits = (uint8_t)length, .run = run};
    entry.kind = size == 1   ? MR_JPEG_NEW
                 : size > 1  ? MR_JPEG_UNKNOWN
                 : run == 15 ? MR_JPEG_ZEROS
                             : MR_JPEG_LAST;
    return entry;
}

/* The bit behind a code that says so is the sign. */
static mr_jpeg_refine_entry *put_refine_code(mr_jpeg_refine_entry *at, int length, uint8_t symbol) {
    mr_jpeg_refine_entry entry = mr_jpeg_refine_symbol((uint32_t)length, symbol);
    int same = 1 << (BITS - length);
    if (entry.kind == MR_JPEG_NEW && same == 1) {
        entry = (mr_jpeg_refine_entry){0};
    }
    for (int i = 0; i < same; i++) {
        *at = entry;
        if (entry.kind == MR_JPEG_NEW) {
            at->bits++;
            at->negative = i < same / 2;
        }
        at++;
    }
    return at;
}

bool mr_jpeg_make_refine(mr_jpeg_refine_table *table, mr_jpeg_codes codes) {
    mr_jpeg_refine_entry *at = table->lookup;
    const uint8_t *symbol = codes + CODE_BITS;
    if (!make_book(&table->book, codes)) {
        return false;
    }
    for (int length = 1; length <= BITS; length++) {
        for (int i = 0; i < codes[length - 1]; i++) {
            at = put_refine_code(at, length, *symbol++);
        }
    }
    memset(at, 0, (size_t)(table->lookup + MR_JPEG_LOOKUPS - at) * sizeof *at);
    return true;
}
