/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_huffman.h - Huffman codes of a baseline JPEG as tables to decode by.
 *
 * Nearly every file has codes of its own, so the tables are made for every image: they are small
 * (they must stay in the fastest cache, too) and quick to make. */
#ifndef MR_CODECS_JPEG_HUFFMAN_H
#define MR_CODECS_JPEG_HUFFMAN_H

#include "codecs/jpeg_markers.h"

enum {
    MR_JPEG_LOOKUP_BITS = 10,
    MR_JPEG_LOOKUPS = 1 << MR_JPEG_LOOKUP_BITS,
    MR_JPEG_SKIP_BITS = 11,
    MR_JPEG_SKIP_LOOKUPS = 1 << MR_JPEG_SKIP_BITS,
    MR_JPEG_DC_BITS = 8,
    MR_JPEG_DC_LOOKUPS = 1 << MR_JPEG_DC_BITS,
    MR_JPEG_BITS_MAX = 18,                        /* that a lookup may stand for */
    MR_JPEG_REST_BITS = 64 - MR_JPEG_LOOKUP_BITS, /* of a 64-bit number behind a lookup's */
};

/* The codes themselves, for those longer than a lookup. Codes of a length are consecutive numbers,
 * and so are their symbols. */
typedef struct mr_jpeg_code_book {
    uint32_t limit[18]; /* of a length: 1 past its last code, as the first of 16 bits; [17]: none */
    int32_t distance[17]; /* from a code of that length to the place of its symbol */
    const uint8_t *symbols;
} mr_jpeg_code_book;

/* What MR_JPEG_DC_BITS bits hold of DC. A table is smaller than those of AC, whose place in the
 * cache it takes. */
typedef union mr_jpeg_dc_entry {
    uint32_t number; /* may stand for `bits`, as below */
    struct {
        uint8_t bits;  /* of code and value, up to MR_JPEG_BITS_MAX; 0: more, or there is none */
        uint8_t shift; /* bits after the lookup, shifted right, are added to the difference */
        int16_t difference;
    };
} mr_jpeg_dc_entry;

typedef struct mr_jpeg_dc_table {
    mr_jpeg_dc_entry lookup[MR_JPEG_DC_LOOKUPS];
    mr_jpeg_code_book book;
} mr_jpeg_dc_table;

/* What MR_JPEG_LOOKUP_BITS bits hold of AC: up to two coefficients, or one and the end of the
 * block, or the beginning of one whose last bits come after. Made as one number, whose fields are
 * added. The number itself may stand for `bits` where no more than 6 bits of that are looked at. */
enum { MR_JPEG_END = 128, MR_JPEG_NOWHERE = 64, MR_JPEG_LONG = 255 };

typedef union mr_jpeg_ac_entry {
    uint64_t number;
    struct {
        uint8_t bits;     /* how many that takes, up to MR_JPEG_BITS_MAX */
        uint8_t leads;    /* how far: coefficients passed, and MR_JPEG_END for the end.
                             MR_JPEG_LONG: a symbol and its value take more bits, or another code; bits
                             is 0 */
        uint8_t place[2]; /* how far ahead a coefficient lies; MR_JPEG_NOWHERE or more: none */
        int16_t first;    /* the coefficients; to the first is added what bits after the lookup */
        int8_t second;    /* hold, shifted right: */
        uint8_t shift;    /* MR_JPEG_REST_BITS where none are missing */
    };
} mr_jpeg_ac_entry;
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are laid out for this order");

/* One of one symbol. */
static inline mr_jpeg_ac_entry mr_jpeg_ac_single(uint32_t bits, uint32_t leads, uint32_t place,
                                                 int32_t value, uint32_t missing) {
    return (mr_jpeg_ac_entry){.number = (uint64_t)bits | (uint64_t)leads << 8 |
                                        (uint64_t)place << 16 | (uint64_t)MR_JPEG_NOWHERE << 24 |
                                        (uint64_t)(uint16_t)value << 32 |
                                        (uint64_t)(MR_JPEG_REST_BITS - missing) << 56};
}

/* The same for one who only wants to get past: values need not be seen, so that most lookups hold
 * two or three symbols. `bits` and, 8 bits up, `leads`, as above. */
typedef uint16_t mr_jpeg_skip_entry;

typedef struct mr_jpeg_ac_table {
    mr_jpeg_ac_entry lookup[MR_JPEG_LOOKUPS];
    mr_jpeg_skip_entry skip[MR_JPEG_SKIP_LOOKUPS]; /* made by mr_jpeg_make_skip */
    mr_jpeg_code_book book;
} mr_jpeg_ac_table;

/* ---- Progressive files ---- */

/* AC of a first scan: as above, but the end of several blocks is not in the lookup, nor are values
 * that do not fit in a coefficient when they are shifted left by `low` bits. */
enum { MR_JPEG_VALUE_BITS = 15 };

typedef struct mr_jpeg_first_table {
    mr_jpeg_ac_entry lookup[MR_JPEG_LOOKUPS];
    mr_jpeg_code_book book;
} mr_jpeg_first_table;

/* AC of a scan that refines: one symbol. */
enum {
    MR_JPEG_UNKNOWN, /* not in the lookup, or there is no such symbol */
    MR_JPEG_NEW,     /* a coefficient that is not 0 any more, behind `run` that stay so */
    MR_JPEG_ZEROS,   /* 16 that stay 0 */
    MR_JPEG_LAST,    /* of the blocks to come, 2^run and as many as `run` bits say have no more */
};

typedef union mr_jpeg_refine_entry {
    uint32_t number; /* may stand for `bits`, as above */
    struct {
        uint8_t bits, run, kind;
        uint8_t negative; /* MR_JPEG_NEW */
    };
} mr_jpeg_refine_entry;

typedef struct mr_jpeg_refine_table {
    mr_jpeg_refine_entry lookup[MR_JPEG_LOOKUPS];
    mr_jpeg_code_book book;
} mr_jpeg_refine_table;

/* Of a code of that length, without the sign. */
mr_jpeg_refine_entry mr_jpeg_refine_symbol(uint32_t length, uint8_t symbol);

bool mr_jpeg_make_first(mr_jpeg_first_table *table, mr_jpeg_codes codes, int low);
bool mr_jpeg_make_refine(mr_jpeg_refine_table *table, mr_jpeg_codes codes);

/* ---- All files ---- */

/* False for codes that libjpeg refuses. */
bool mr_jpeg_make_dc(mr_jpeg_dc_table *table, mr_jpeg_codes codes);
bool mr_jpeg_make_ac(mr_jpeg_ac_table *table, mr_jpeg_codes codes);

/* For codes that mr_jpeg_make_ac took. */
void mr_jpeg_make_skip(mr_jpeg_ac_table *table, mr_jpeg_codes codes);

#endif
