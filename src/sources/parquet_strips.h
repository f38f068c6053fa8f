/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_strips.h - numbers of several columns row by row: rows that are taken in any order then
 * cost as many misses of the cache as a row has lines, and one of the table of pages, where each
 * column by itself would cost one of both. Part of the source parquet. */
#ifndef MR_SOURCES_PARQUET_STRIPS_H
#define MR_SOURCES_PARQUET_STRIPS_H

#include <stdbool.h>

#include "kernels/rows.h"

enum { MR_PQ_STRIP = 256 }; /* bytes of a row, at most */

/* A number of each row, and the column that it comes from or goes to. */
typedef struct mr_pq_number {
    int32_t offset, size; /* in the row; 1, 2, 4 or 8 bytes */
    uint8_t *column;      /* to fill from NULL: ones, the mask of a column without nulls */
    size_t stride;        /* of the column */
} mr_pq_number;

/* The numbers of a row, whole words and others. */
typedef struct mr_pq_strip {
    const mr_row_kernels *kernels;
    int32_t row_bytes; /* 16, or a multiple of 32 */
    int32_t n, n_others;
    mr_pq_number numbers[MR_PQ_STRIP];
    mr_word words[MR_PQ_STRIP / 8];
    uint8_t others[MR_PQ_STRIP]; /* numbers that no word has */
} mr_pq_strip;

int32_t mr_pq_strip_row_bytes(int32_t bytes);

/* After the numbers have been set: finds which of them are whole words. */
void mr_pq_strip_find_words(mr_pq_strip *strip);

void mr_pq_strip_fill(const mr_pq_strip *strip, uint8_t *rows, int64_t n_rows);

/* n rows, of which the first becomes number `first` of the columns. */
void mr_pq_strip_take(const mr_pq_strip *strip, const uint8_t *const *rows, int64_t first,
                      int64_t n);

#endif
