/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_strips.c - see parquet_strips.h. Numbers of eight bytes, and pairs of four, are moved by
 * kernels that transpose squares of them; what is left goes one by one. */
#include "sources/parquet_strips.h"

#include <string.h>

enum {
    TILE = 64,        /* rows that are made in the cache, where every column writes its numbers */
    SQUARE_BYTES = 32 /* of a row, that a kernel moves at once */
};

/* Rows of a multiple of 32 bytes touch no more lines of the cache than they must. */
int32_t mr_pq_strip_row_bytes(int32_t bytes) {
    return bytes <= 16 ? 16 : (bytes + 31) / 32 * 32;
}

/* ---- Words ---- */
static bool may_be_of_word(const mr_pq_strip *strip, const mr_pq_number *number) {
    return strip->row_bytes >= SQUARE_BYTES && number->size >= 4 && number->column &&
           number->stride == (size_t)number->size && number->offset % number->size == 0;
}

static void add_to_word(mr_word *word, const mr_pq_number *number) {
    *(number->offset % 8 == 0 ? &word->low : &word->high) = number->column;
}

/* Half of a word is none. */
static bool is_in_word(const mr_pq_strip *strip, const mr_pq_number *number) {
    const mr_word *word = &strip->words[number->offset / 8];
    return may_be_of_word(strip, number) && (number->size == 8 || (word->low && word->high));
}

void mr_pq_strip_find_words(mr_pq_strip *strip) {
    memset(strip->words, 0, sizeof strip->words);
    strip->n_others = 0;
    for (int32_t i = 0; i < strip->n; i++) {
        if (may_be_of_word(strip, &strip->numbers[i])) {
            add_to_word(&strip->words[strip->numbers[i].offset / 8], &strip->numbers[i]);
        }
    }
    for (int32_t i = 0; i < strip->n; i++) {
        if (!is_in_word(strip, &strip->numbers[i])) {
            strip->others[strip->n_others++] = (uint8_t)i;
        }
    }
    for (int32_t i = 0; i < strip->n_others; i++) {
        const mr_pq_number *other = &strip->numbers[strip->others[i]];
        if (other->size >= 4) {
            strip->words[other->offset / 8] = (mr_word){NULL, NULL};
        }
    }
}

/* ---- Numbers one by one ---- */
static void copy_number(uint8_t *to, const uint8_t *from, int32_t size) {
    switch (size) {
    case 8:
        memcpy(to, from, 8);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    default:
        *to = *from;
    }
}

static void fill_number(const mr_pq_number *number, uint8_t *rows, size_t row_bytes, int64_t first,
                        int64_t n) {
    static const uint8_t one = 1;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *from =
            number->column ? number->column + (size_t)(first + i) * number->stride : &one;
        copy_number(rows + (size_t)i * row_bytes + number->offset, from, number->size);
    }
}

static void take_number(const mr_pq_number *number, const uint8_t *const *rows, int64_t first,
                        int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        copy_number(number->column + (size_t)(first + i) * number->stride, rows[i] + number->offset,
                    number->size);
    }
}

/* ---- Rows ---- */
static void fill_tile(const mr_pq_strip *strip, uint8_t *rows, int64_t first, int64_t n) {
    size_t stride = (size_t)strip->row_bytes;
    for (int32_t at = 0; at + SQUARE_BYTES <= strip->row_bytes; at += SQUARE_BYTES) {
        strip->kernels->fill(rows + at, stride, strip->words + at / 8, (size_t)first, (size_t)n);
    }
    for (int32_t i = 0; i < strip->n_others; i++) {
        fill_number(&strip->numbers[strip->others[i]], rows, stride, first, n);
    }
}

void mr_pq_strip_fill(const mr_pq_strip *strip, uint8_t *rows, int64_t n_rows) {
    _Alignas(32) uint8_t tile[TILE * MR_PQ_STRIP];
    size_t row_bytes = (size_t)strip->row_bytes;
    bool whole = strip->row_bytes % SQUARE_BYTES == 0;
    for (int64_t first = 0; first < n_rows; first += TILE) {
        int64_t n = n_rows - first < TILE ? n_rows - first : TILE;
        uint8_t *to = rows + (size_t)first * row_bytes;
        fill_tile(strip, whole ? tile : to, first, n);
        if (whole) {
            strip->kernels->put(to, tile, (size_t)n * row_bytes);
        }
    }
}

void mr_pq_strip_take(const mr_pq_strip *strip, const uint8_t *const *rows, int64_t first,
                      int64_t n) {
    for (int32_t at = 0; at + SQUARE_BYTES <= strip->row_bytes; at += SQUARE_BYTES) {
        strip->kernels->take(rows, (size_t)at, strip->words + at / 8, (size_t)first, (size_t)n);
    }
    for (int32_t i = 0; i < strip->n_others; i++) {
        take_number(&strip->numbers[strip->others[i]], rows, first, n);
    }
}
