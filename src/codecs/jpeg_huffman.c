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

/* The value of `size` bits: those that begin with 0 are negative. */
static int32_t extend(uint32_t bits, int size) {
    return size == 0 ? 0 : bits >> (size - 1) & 1 ? (int32_t)bits : (int32_t)bits - (1 << size) + 1;
}

/* ---- DC ---- */
static int32_t *put_dc_code(int32_t *at, int length, int size) {
    int rest = BITS - length;
    if (size > rest) {
        memset(at, 0, sizeof *at << rest);
        return at + ((size_t)1 << rest);
    }
    for (uint32_t bits = 0; bits < 1u << size; bits++) {
        int32_t entry = (int32_t)((uint32_t)extend(bits, size) << 16 | (uint32_t)(length + size));
        for (int i = 0; i < 1 << (rest - size); i++) {
            *at++ = entry;
        }
    }
    return at;
}

bool mr_jpeg_make_dc(mr_jpeg_dc_table *table, mr_jpeg_codes codes) {
    int32_t *at = table->lookup, *end = at + MR_JPEG_LOOKUPS;
    const uint8_t *symbol = codes + CODE_BITS;
    if (!make_book(&table->book, codes)) {
        return false;
    }
    for (int length = 1; length <= CODE_BITS; length++) {
        for (int i = 0; i < codes[length - 1]; i++, symbol++) {
            if (*symbol > MAX_DC_SIZE) {
                return false;
            }
            at = length <= BITS ? put_dc_code(at, length, *symbol) : at;
        }
    }
    memset(at, 0, (size_t)(end - at) * sizeof *at);
    return true;
}

/* ---- AC ---- */
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
        return put(at, mr_jpeg_ac_single(bits, leads, MR_JPEG_NOWHERE, 0), 1 << rest);
    }
    if (size > rest) {
        return put(at, mr_jpeg_ac_single(bits, MR_JPEG_LONG, MR_JPEG_NOWHERE, symbol), 1 << rest);
    }
    bits += (uint32_t)size;
    for (int32_t half = 1 << (size - 1), v = -2 * half + 1; v <= -half; v++) {
        at = put(at, mr_jpeg_ac_single(bits, run + 1, run, v), 1 << (rest - size));
    }
    for (int32_t half = 1 << (size - 1), v = half; v < 2 * half; v++) {
        at = put(at, mr_jpeg_ac_single(bits, run + 1, run, v), 1 << (rest - size));
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
        uint64_t value = (uint16_t)second.value[0];
        uint64_t added = (second.number & 0xFFFF) + (place << 24) + (value << 48);
        lookup[i].number = first.number + (joins ? added : 0);
    }
}

bool mr_jpeg_make_ac(mr_jpeg_ac_table *table, mr_jpeg_codes codes) {
    mr_jpeg_ac_entry single[MR_JPEG_LOOKUPS], *at = single;
    const uint8_t *symbol = codes + CODE_BITS;
    if (!make_book(&table->book, codes)) {
        return false;
    }
    for (int length = 1; length <= BITS; length++) {
        for (int i = 0; i < codes[length - 1]; i++) {
            at = put_ac_code(at, length, *symbol++);
        }
    }
    put(at, mr_jpeg_ac_single(0, MR_JPEG_LONG, MR_JPEG_NOWHERE, 0),
        (int)(single + MR_JPEG_LOOKUPS - at));
    join_pairs(table->lookup, single);
    return true;
}

/* ---- AC, to get past ---- */
typedef struct skip_code {
    uint8_t length; /* of the code; 0: longer than a lookup */
    mr_jpeg_skip_entry entry;
} skip_code;

static void list_codes(skip_code *at, mr_jpeg_codes codes) {
    const skip_code *end = at + MR_JPEG_LOOKUPS;
    const uint8_t *symbol = codes + CODE_BITS;
    for (int length = 1; length <= BITS; length++) {
        for (int i = 0; i < codes[length - 1]; i++, symbol++) {
            int size = *symbol & 15, run = *symbol >> 4;
            int leads = size > 0 || run == 15 ? run + 1 : MR_JPEG_END;
            skip_code code = {(uint8_t)length, {(uint8_t)(length + size), (uint8_t)leads}};
            for (int k = 0; k < 1 << (BITS - length); k++) {
                *at++ = code;
            }
        }
    }
    while (at < end) {
        *at++ = (skip_code){0, {0, MR_JPEG_LONG}};
    }
}

/* Adds the code behind an entry if the lookup's bits hold all of it. */
static mr_jpeg_skip_entry join_code(mr_jpeg_skip_entry e, uint32_t i, const skip_code *codes) {
    skip_code next = codes[i << (e.bits & 31) & (MR_JPEG_LOOKUPS - 1)];
    bool joins = e.leads < MR_JPEG_END && next.length > 0 && e.bits + next.length <= BITS &&
                 e.bits + next.entry.bits <= MR_JPEG_SKIP_BITS_MAX;
    return joins ? (mr_jpeg_skip_entry){(uint8_t)(e.bits + next.entry.bits),
                                        (uint8_t)(e.leads + next.entry.leads)}
                 : e;
}

void mr_jpeg_make_skip(mr_jpeg_ac_table *table, mr_jpeg_codes codes) {
    skip_code list[MR_JPEG_LOOKUPS];
    list_codes(list, codes);
    for (uint32_t i = 0; i < MR_JPEG_LOOKUPS; i++) {
        mr_jpeg_skip_entry e = list[i].entry;
        if (e.bits > MR_JPEG_SKIP_BITS_MAX) {
            e = (mr_jpeg_skip_entry){0, MR_JPEG_LONG};
        }
        e = join_code(e, i, list);
        table->skip[i] = join_code(e, i, list);
    }
}
