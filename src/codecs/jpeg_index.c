/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_index.c - the row index, packed.
 *
 *     8 bytes   "MRJPGIX1"
 *     8         hash of the file
 *     8         how many rows
 *     ...       for every row but the first: the distance in bits from the row before, and by how
 *               much the DC of each component changed; numbers in groups of 7 bits, lowest first
 *     8         hash of all that */
#include "codecs/jpeg_index.h"

#include <string.h>

#include "core/hash.h"

enum {
    WORD = 8,
    ROWS_AT = 2 * WORD,
    HEADER = 3 * WORD,
    NUMBER_MAX = 10,
    NUMBERS = 1 + MR_JPEG_COMPONENTS
};
static const char mark[WORD + 1] = "MRJPGIX1";

/* ---- Numbers ---- */
static void put_word(uint8_t *at, uint64_t value) {
    for (int i = 0; i < WORD; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get_word(const uint8_t *at) {
    uint64_t value = 0;
    for (int i = 0; i < WORD; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static uint8_t *put_number(uint8_t *at, uint64_t value) {
    for (; value >= 128; value >>= 7) {
        *at++ = (uint8_t)(value | 128);
    }
    *at++ = (uint8_t)value;
    return at;
}

/* NULL if there is none before `end`. */
static const uint8_t *get_number(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; at && at < end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*at & 127) << shift;
        if (*at++ < 128) {
            return at;
        }
    }
    return NULL;
}

static uint64_t fold(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static int64_t unfold(uint64_t value) {
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* ---- Writing ---- */
static uint64_t bit_of(const mr_jpeg_place *place) {
    return (uint64_t)place->byte * 8 + place->bit;
}

size_t mr_jpeg_index_memory(int64_t rows) {
    return HEADER + (size_t)rows * NUMBERS * NUMBER_MAX + WORD;
}

size_t mr_jpeg_index_write(uint8_t *out, const mr_jpeg_file *file, const mr_jpeg_place *places,
                           int64_t rows) {
    uint8_t *at = out + HEADER;
    memcpy(out, mark, WORD);
    put_word(out + WORD, mr_hash64_copy(NULL, file->bytes, file->size));
    put_word(out + ROWS_AT, (uint64_t)rows);
    for (const mr_jpeg_place *p = places + 1; p < places + rows; p++) {
        at = put_number(at, bit_of(p) - bit_of(p - 1));
        for (int i = 0; i < file->frame->n_components; i++) {
            at = put_number(at, fold(p->predictors[i] - p[-1].predictors[i]));
        }
    }
    put_word(at, mr_hash64(out, (size_t)(at - out), 0));
    return (size_t)(at - out) + WORD;
}

/* ---- Reading ---- */
int64_t mr_jpeg_index_rows(const mr_index *index, const mr_jpeg_file *file) {
    if (index->size < HEADER + WORD || memcmp(index->data, mark, WORD) != 0) {
        return 0;
    }
    size_t hashed = index->size - WORD;
    uint64_t rows = get_word(index->data + ROWS_AT);
    bool whole = get_word(index->data + hashed) == mr_hash64(index->data, hashed, 0) &&
                 rows <= (uint64_t)mr_jpeg_mcus_down(file->frame);
    bool fits =
        whole && get_word(index->data + WORD) == mr_hash64_copy(NULL, file->bytes, file->size);
    return fits ? (int64_t)rows : 0;
}

/* Numbers of a good index are never out of range; a forged one must do no harm. */
static const uint8_t *read_place(const uint8_t *at, const uint8_t *end, const mr_jpeg_file *file,
                                 const mr_jpeg_place *before, mr_jpeg_place *out) {
    uint64_t number, bit;
    at = get_number(at, end, &number);
    bit = bit_of(before) + number;
    if (!at || number > (uint64_t)file->size * 8 || bit >= (uint64_t)file->size * 8) {
        return NULL;
    }
    *out = (mr_jpeg_place){.byte = (size_t)(bit / 8), .bit = (uint32_t)(bit % 8)};
    for (int i = 0; i < file->frame->n_components; i++) {
        at = get_number(at, end, &number);
        int64_t value = before->predictors[i] + (unfold(number) % ((int64_t)1 << 17));
        if (!at || value != (int16_t)value) {
            return NULL;
        }
        out->predictors[i] = (int32_t)value;
    }
    return at;
}

bool mr_jpeg_index_read(const mr_index *index, const mr_jpeg_file *file, mr_jpeg_place *places,
                        int64_t rows) {
    const uint8_t *at = index->data + HEADER, *end = index->data + index->size - WORD;
    places[0] = (mr_jpeg_place){.byte = file->frame->scan};
    for (int64_t i = 1; i < rows && at; i++) {
        at = read_place(at, end, file, &places[i - 1], &places[i]);
    }
    return at != NULL;
}
