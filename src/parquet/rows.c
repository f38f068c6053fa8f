/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - rows of vectors, to where they are wanted. */
#include <string.h>

#include "parquet/parts.h"

/* Where a row of the row group is in the vector; it must be there. */
static int64_t position_of(const mr_pq_vector *vector, int64_t row) {
    if (!vector->ranges) {
        return row;
    }
    int32_t low = 0, high = vector->n_ranges;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        *(vector->ranges[middle].from <= row ? &low : &high) = middle;
    }
    return vector->range_start[low] + row - vector->ranges[low].from;
}

static bool has_row(const mr_pq_vector *vector, int64_t row) {
    if (!vector->ranges) {
        return row >= 0 && row < vector->n_rows;
    }
    for (int32_t r = 0; r < vector->n_ranges; r++) {
        if (row >= vector->ranges[r].from && row < vector->ranges[r].to) {
            return true;
        }
    }
    return false;
}

static int64_t list_begin(const mr_pq_vector *vector, int32_t depth, int64_t list) {
    return vector->offsets[depth] ? vector->offsets[depth][list] : vector->length[depth] * list;
}

/* The items of depth `depth` that a row has: [from, to). Depth 0 is the row itself. */
static mr_pq_range items_of(const mr_pq_vector *vector, int32_t depth, int64_t row) {
    int64_t at = position_of(vector, row);
    mr_pq_range range = {at, at + 1};
    for (int32_t d = 0; d < depth; d++) {
        range = (mr_pq_range){list_begin(vector, d, range.from), list_begin(vector, d, range.to)};
    }
    return range;
}

static int64_t dense_cells(const mr_pq_vector *vector) {
    int64_t cells = 1;
    for (int32_t d = 0; d < vector->column->max_rep; d++) {
        if (vector->offsets[d]) {
            return -1;
        }
        cells *= vector->length[d];
    }
    return cells;
}

int64_t mr_pq_row_size(const mr_pq_vector *vector, const mr_pq_field *field) {
    int64_t cells = dense_cells(vector);
    if (cells < 0 || field->role == MR_PQ_LENGTHS ||
        (field->role == MR_PQ_VALUES && vector->column->items == 0)) {
        return -1;
    }
    return field->role == MR_PQ_MASK ? cells : cells * (int64_t)mr_pq_cell_size(vector->column);
}

#define COPY_ROWS(type)                                                                            \
    static void copy_##type(const mr_pq_vector *vector, const uint8_t *from, const int64_t *rows,  \
                            int64_t n, uint8_t *to, size_t stride) {                               \
        for (int64_t i = 0; i < n; i++, to += stride) {                                            \
            int64_t at = vector->ranges ? position_of(vector, rows[i]) : rows[i];                  \
            memcpy(to, from + (size_t)at * sizeof(type), sizeof(type));                            \
        }                                                                                          \
    }
COPY_ROWS(uint8_t)
COPY_ROWS(uint16_t)
COPY_ROWS(uint32_t)
COPY_ROWS(uint64_t)

static bool consecutive(const mr_pq_vector *vector, const int64_t *rows, int64_t n) {
    if (vector->ranges || rows[n - 1] - rows[0] != n - 1) {
        return false;
    }
    for (int64_t i = 1; i < n; i++) {
        if (rows[i] != rows[i - 1] + 1) {
            return false;
        }
    }
    return true;
}

static void copy_sized(const mr_pq_vector *vector, const uint8_t *from, size_t size,
                       const int64_t *rows, int64_t n, uint8_t *to, size_t stride) {
    if (stride == size && consecutive(vector, rows, n)) {
        memcpy(to, from + (size_t)rows[0] * size, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1:
        copy_uint8_t(vector, from, rows, n, to, stride);
        return;
    case 2:
        copy_uint16_t(vector, from, rows, n, to, stride);
        return;
    case 4:
        copy_uint32_t(vector, from, rows, n, to, stride);
        return;
    case 8:
        copy_uint64_t(vector, from, rows, n, to, stride);
        return;
    default:
        for (int64_t i = 0; i < n; i++) {
            memcpy(to + (size_t)i * stride, from + (size_t)position_of(vector, rows[i]) * size,
                   size);
        }
    }
}

mr_status mr_pq_copy(const mr_pq_vector *vector, const mr_pq_field *field, const int64_t *rows,
                     int64_t n, void *base, size_t stride, mr_error *err) {
    int64_t size = mr_pq_row_size(vector, field);
    if (size < 0) {
        mr_fail(err, MR_E_TYPE, "column \"%s\": the lists of a row group differ in length",
                vector->column->name);
        mr_hint(err, "take the column as ragged: give it no length");
        return MR_E_TYPE;
    }
    for (int64_t i = 0; i < n; i++) {
        if (!has_row(vector, rows[i])) {
            return mr_fail(err, MR_E_PARAM, "column \"%s\": row %lld of the row group is not here",
                           vector->column->name, (long long)rows[i]);
        }
    }
    if (n == 0 || size == 0) {
        return MR_OK;
    }
    if (field->role == MR_PQ_MASK && !vector->valid) {
        for (int64_t i = 0; i < n; i++) {
            memset((uint8_t *)base + (size_t)i * stride, 1, (size_t)size);
        }
        return MR_OK;
    }
    copy_sized(vector, field->role == MR_PQ_MASK ? vector->valid : vector->values, (size_t)size,
               rows, n, base, stride);
    return MR_OK;
}

/* ---- Ragged rows ---- */
static int64_t text_bytes(const mr_pq_vector *vector, mr_pq_range cells) {
    const mr_pq_bytes *texts = vector->values;
    int64_t bytes = 0;
    for (int64_t i = cells.from; i < cells.to; i++) {
        bytes += (int64_t)texts[i].size;
    }
    return bytes;
}

int64_t mr_pq_row_length(const mr_pq_vector *vector, const mr_pq_field *field, int64_t row) {
    const mr_pq_column *column = vector->column;
    int32_t depth = field->role == MR_PQ_LENGTHS ? field->depth : column->max_rep;
    mr_pq_range items = items_of(vector, depth, row);
    if (field->role == MR_PQ_VALUES) {
        return column->items == 0 ? text_bytes(vector, items)
                                  : (items.to - items.from) * column->items;
    }
    return items.to - items.from;
}

static void copy_texts(const mr_pq_vector *vector, mr_pq_range cells, uint8_t *to) {
    const mr_pq_bytes *texts = vector->values;
    for (int64_t i = cells.from; i < cells.to; i++) {
        if (texts[i].size > 0) {
            memcpy(to, texts[i].data, texts[i].size);
            to += texts[i].size;
        }
    }
}

/* Lengths of lists, or of the strings that are the last depth. */
static void copy_lengths(const mr_pq_vector *vector, int32_t depth, mr_pq_range items, void *to) {
    const mr_pq_bytes *texts = vector->values;
    for (int64_t i = items.from; i < items.to; i++) {
        int64_t length = depth == vector->column->max_rep
                             ? (int64_t)texts[i].size
                             : list_begin(vector, depth, i + 1) - list_begin(vector, depth, i);
        memcpy((uint8_t *)to + (size_t)(i - items.from) * sizeof length, &length, sizeof length);
    }
}

void mr_pq_row_copy(const mr_pq_vector *vector, const mr_pq_field *field, int64_t row, void *to) {
    const mr_pq_column *column = vector->column;
    int32_t depth = field->role == MR_PQ_LENGTHS ? field->depth : column->max_rep;
    mr_pq_range items = items_of(vector, depth, row);
    size_t n = (size_t)(items.to - items.from), size = mr_pq_cell_size(column);
    if (field->role == MR_PQ_LENGTHS) {
        copy_lengths(vector, depth, items, to);
    } else if (n == 0) {
        return;
    } else if (field->role == MR_PQ_MASK) {
        if (vector->valid) {
            memcpy(to, vector->valid + items.from, n);
        } else {
            memset(to, 1, n);
        }
    } else if (column->items == 0) {
        copy_texts(vector, items, to);
    } else {
        memcpy(to, (const uint8_t *)vector->values + (size_t)items.from * size, n * size);
    }
}

mr_pq_bytes mr_pq_row_bytes(const mr_pq_vector *vector, int64_t row) {
    return ((const mr_pq_bytes *)vector->values)[position_of(vector, row)];
}
