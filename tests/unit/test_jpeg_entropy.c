/* SPDX-License-Identifier: Apache-2.0 */
/* test_jpeg_entropy.c - the Huffman decoder against one that takes bit after bit, on random bits
 * and random codes: few and many, of one bit and of sixteen, with values of any size, runs past the
 * end of a block. Encoders make no such codes, but files may have them. */
#include "test.h"
#include "jpeg_rig.h"
#include "codecs/jpeg_entropy.h"

enum { SYMBOLS = 256, CODE_BITS = 16, DATA = 600, FILE_SIZE = DATA + 2, TRIALS = 4000 };

/* ---- Random codes ---- */
typedef struct codes {
    uint8_t bytes[CODE_BITS + SYMBOLS]; /* as a file has them */
} codes;

/* Most runs are short, and the end of a block is common, so that many blocks are right. */
static uint8_t some_symbol(uint64_t *s, bool dc) {
    int64_t size = rig_below(s, 4) ? rig_below(s, 6) : rig_below(s, 16);
    int64_t run = rig_below(s, 6) ? rig_below(s, 3) : rig_below(s, 16);
    return (uint8_t)(dc ? size : rig_below(s, 8) == 0 ? 0 : run << 4 | size);
}

/* At every length a code is left over, for longer ones. */
static codes some_codes(uint64_t *s, bool dc) {
    codes c = {0};
    int64_t free_codes = 1, n = 0, shape = 1 + rig_below(s, 8);
    for (int length = 1; length <= CODE_BITS; length++) {
        free_codes *= 2;
        int64_t most = free_codes - 1 < SYMBOLS - n ? free_codes - 1 : SYMBOLS - n;
        int64_t some = rig_below(s, shape) == 0 ? rig_below(s, most + 1) : most > 0 && length < 9;
        some = some > 20 && length < CODE_BITS ? 20 : some;
        c.bytes[length - 1] = (uint8_t)(some > 255 ? 255 : some);
        free_codes -= c.bytes[length - 1];
        for (int64_t i = 0; i < c.bytes[length - 1]; i++) {
            c.bytes[CODE_BITS + n++] = some_symbol(s, dc);
        }
    }
    return c;
}

/* ---- Bit after bit ---- */
typedef struct reference {
    const uint8_t *data;
    size_t bit; /* DATA * 8: none are left, and one more was wanted if it is more */
    int32_t dc;
} reference;

static int32_t next_bit(reference *r) {
    int32_t bit = r->bit < (size_t)DATA * 8 ? r->data[r->bit / 8] >> (7 - r->bit % 8) & 1 : 0;
    r->bit++;
    return bit;
}

static int32_t next_symbol(reference *r, const codes *c) {
    int32_t code = 0, first = 0, place = 0;
    for (int length = 1; length <= CODE_BITS; length++) {
        code = code * 2 + next_bit(r);
        first *= 2;
        if (code - first < c->bytes[length - 1]) {
            return c->bytes[CODE_BITS + place + code - first];
        }
        first += c->bytes[length - 1];
        place += c->bytes[length - 1];
    }
    return -1;
}

static int32_t next_value(reference *r, int32_t size) {
    int32_t value = 0;
    for (int i = 0; i < size; i++) {
        value = value * 2 + next_bit(r);
    }
    return size > 0 && value < 1 << (size - 1) ? value - (1 << size) + 1 : value;
}

/* In zigzag order. */
static bool next_block(reference *r, const codes *dc, const codes *ac, int32_t *out) {
    memset(out, 0, MR_JPEG_BLOCK * sizeof *out);
    int32_t size = next_symbol(r, dc);
    if (size < 0) {
        return false;
    }
    r->dc += next_value(r, size);
    out[0] = r->dc;
    for (int32_t k = 1; k < MR_JPEG_BLOCK; k++) {
        int32_t symbol = next_symbol(r, ac);
        if (symbol < 0) {
            return false;
        }
        if ((symbol & 15) == 0 && symbol >> 4 < 15) {
            break;
        }
        k += symbol >> 4;
        int32_t value = next_value(r, symbol & 15);
        if (k >= MR_JPEG_BLOCK) {
            return false;
        }
        out[k] = value;
    }
    return r->dc == (int16_t)r->dc && r->bit <= (size_t)DATA * 8;
}

/* ---- Both ---- */
typedef struct trial {
    codes dc, ac;
    mr_jpeg_dc_table dc_table;
    mr_jpeg_ac_table ac_table;
    mr_jpeg_mcu mcu;
    uint8_t bytes[FILE_SIZE]; /* no 0xFF but that of the last marker */
    uint8_t room[FILE_SIZE + 4096];
} trial;

static void make_trial(trial *t, uint64_t *s) {
    t->dc = some_codes(s, true);
    t->ac = some_codes(s, false);
    CHECK(mr_jpeg_make_dc(&t->dc_table, t->dc.bytes));
    CHECK(mr_jpeg_make_ac(&t->ac_table, t->ac.bytes));
    mr_jpeg_make_skip(&t->ac_table, t->ac.bytes);
    t->mcu = (mr_jpeg_mcu){.n_blocks = 1, .blocks = {{&t->dc_table, &t->ac_table, 0}}};
    for (int i = 0; i < DATA; i++) {
        t->bytes[i] = (uint8_t)rig_below(s, 255);
    }
    t->bytes[DATA] = 0xFF;
    t->bytes[DATA + 1] = MR_JPEG_EOI;
    CHECK(mr_jpeg_scan_memory(FILE_SIZE, 0) <= sizeof t->room);
}

static bool same_block(const int16_t *actual, const int32_t *expected, int32_t known) {
    static const uint8_t row_of[] = {0, 0, 1, 2, 1, 0, 0, 1, 2, 3, 4, 3, 2, 1, 0, 0,
                                     1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 0, 1, 2, 3,
                                     4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6,
                                     7, 7, 6, 5, 4, 3, 4, 5, 6, 7, 7, 6, 5, 6, 7, 7};
    static const uint8_t column_of[] = {0, 1, 0, 0, 1, 2, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5,
                                        4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 6, 5, 4,
                                        3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3,
                                        2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 5, 6, 7, 7, 6, 7};
    for (int k = 0; k < MR_JPEG_BLOCK; k++) {
        if (actual[row_of[k] * 8 + column_of[k]] != expected[k] ||
            (k >= known && expected[k] != 0)) {
            return false;
        }
    }
    return true;
}

/* Blocks up to the first that is wrong; returns how many were right. */
static int64_t check_trial(trial *t, uint32_t cpu, bool keep) {
    mr_jpeg_scan scan = {.kernels = mr_kernels_for(cpu),
                         .bytes = t->bytes,
                         .size = FILE_SIZE,
                         .mcu = &t->mcu,
                         .data = t->room};
    reference r = {.data = t->bytes};
    const mr_jpeg_place start = {0};
    mr_jpeg_scan_begin(&scan, &start, 0);
    for (int64_t n = 0;; n++) {
        _Alignas(32) int16_t actual[MR_JPEG_BLOCK + 1];
        int32_t expected[MR_JPEG_BLOCK];
        uint8_t known = 0;
        mr_jpeg_place place;
        bool right = next_block(&r, &t->dc, &t->ac, expected);
        bool taken =
            keep ? mr_jpeg_scan_decode(&scan, 1, actual, &known) : mr_jpeg_scan_skip(&scan, 1);
        CHECK_INT(taken, ==, right);
        if (!right || !taken || test_failures > 0) {
            return n;
        }
        CHECK(mr_jpeg_scan_place(&scan, &place));
        CHECK_INT(place.byte * 8 + place.bit, ==, r.bit);
        CHECK_INT(place.predictors[0], ==, r.dc);
        CHECK(!keep || same_block(actual, expected, known));
    }
}

TEST(random_codes_are_read_as_bit_by_bit) {
    static trial t;
    uint64_t s = 18;
    int64_t right = 0;
    for (int i = 0; i < TRIALS && test_failures == 0; i++) {
        make_trial(&t, &s);
        right += check_trial(&t, i % 2 ? rig_cpu() : 0, true);
        right += check_trial(&t, i % 2 ? rig_cpu() : 0, false);
    }
    CHECK(right > TRIALS * 10); /* it does not end at the first block always */
}

TEST_MAIN()
