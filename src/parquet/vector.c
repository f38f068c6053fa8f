/* SPDX-License-Identifier: Apache-2.0 */
/* vector.c - the memory of vectors and decoders, and what is done to a vector when its last page is
 * in: lists end, nulls are refused or filled, values take the type of their field. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "parquet/parts.h"

#define DEFAULT_LIMIT ((int64_t)4 << 30)

/* ---- Memory ---- */
typedef struct owned_piece {
    void *memory;
    size_t size;
} owned_piece;

typedef struct mr_pq_owned {
    const mr_allocator *allocator;
    owned_piece *pieces;
    size_t n, capacity;
} mr_pq_owned;

uint8_t *mr_pq_scratch_take(mr_pq_scratch *scratch, size_t size) {
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    if (size + 32 > scratch->capacity) {
        free(scratch->data);
        scratch->capacity = size + size / 4 + 32;
        scratch->data = malloc(scratch->capacity);
        scratch->capacity = scratch->data ? scratch->capacity : 0;
    }
    return scratch->data;
}

static bool room_for_piece(mr_pq_owned *owned) {
    if (owned->n < owned->capacity) {
        return true;
    }
    size_t capacity = owned->capacity * 2 + 8;
    owned_piece *larger = realloc(owned->pieces, capacity * sizeof *larger);
    if (!larger) {
        return false;
    }
    owned->pieces = larger;
    owned->capacity = capacity;
    return true;
}

void *mr_pq_own(mr_pq_chunk_state *state, size_t count, size_t size) {
    mr_pq_vector *vector = state->vector;
    mr_pq_owned *owned = vector->owned;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        bytes > (size_t)(state->decoder->limit - vector->bytes)) {
        mr_fail(state->err, MR_E_LIMIT, "a column of a row group takes more than %lld bytes",
                (long long)state->decoder->limit);
        mr_hint(state->err, "write smaller row groups, or raise the limit");
        return NULL;
    }
    bytes = bytes ? bytes : 1;
    void *memory = room_for_piece(owned)
                       ? owned->allocator->alloc(owned->allocator->user, bytes, MR_ALIGN)
                       : NULL;
    if (!memory) {
        mr_fail_memory(state->err, bytes);
        return NULL;
    }
    owned->pieces[owned->n++] = (owned_piece){memory, bytes};
    vector->bytes += (int64_t)bytes;
    return memory;
}

void mr_pq_vector_free(mr_pq_vector *vector) {
    if (vector) {
        mr_pq_owned *owned = vector->owned;
        for (size_t i = 0; i < owned->n; i++) {
            owned->allocator->release(owned->allocator->user, owned->pieces[i].memory,
                                      owned->pieces[i].size);
        }
        free(owned->pieces);
        free(owned);
        free(vector->ranges);
        free(vector->range_start);
        free(vector);
    }
}

mr_pq_vector *mr_pq_vector_new(const mr_pq_decoder *decoder, const mr_pq_column *column) {
    mr_pq_vector *vector = mr_zalloc(1, sizeof *vector);
    mr_pq_owned *owned = mr_zalloc(1, sizeof *owned);
    if (!vector || !owned) {
        free(vector);
        free(owned);
        return NULL;
    }
    owned->allocator = decoder->allocator;
    vector->owned = owned;
    vector->column = column;
    return vector;
}

/* What failed: over the limit or no memory, as mr_pq_own said. */
mr_status mr_pq_own_failed(const mr_pq_chunk_state *state) {
    return state->err && state->err->code < 0 ? state->err->code : MR_E_MEMORY;
}

/* ---- The end ---- */
/* Ends the lists, and forgets the offsets of those that are all of one length. */
static void close_lists(mr_pq_vector *vector) {
    int32_t depth = vector->column->max_rep;
    for (int32_t d = 0; d < depth; d++) {
        int64_t n = vector->n_lists[d], *offsets = vector->offsets[d];
        offsets[n] = d + 1 < depth ? vector->n_lists[d + 1] : vector->n_cells;
        int64_t length = n > 0 ? offsets[1] : 0, i = 0;
        while (i < n && offsets[i + 1] - offsets[i] == length) {
            i++;
        }
        if (i == n && !vector->list_valid[d]) {
            vector->length[d] = length;
            vector->offsets[d] = NULL;
        }
    }
}

/* The row of a cell (depth: that of the cells) or of a list of some depth. */
static int64_t row_of(const mr_pq_vector *vector, int32_t depth, int64_t at) {
    while (depth-- > 0) {
        const int64_t *offsets = vector->offsets[depth];
        if (!offsets) {
            at /= vector->length[depth] ? vector->length[depth] : 1;
            continue;
        }
        int64_t low = 0, high = vector->n_lists[depth];
        while (high - low > 1) { /* the last list that begins at or before `at` */
            int64_t middle = low + (high - low) / 2;
            *(offsets[middle] <= at ? &low : &high) = middle;
        }
        at = low;
    }
    return at;
}

/* Of the row group, from its position in the vector. */
static int64_t row_at(const mr_pq_vector *vector, int64_t at) {
    for (int32_t r = vector->n_ranges; r-- > 0;) {
        if (at >= vector->range_start[r]) {
            return vector->ranges[r].from + at - vector->range_start[r];
        }
    }
    return at;
}

static bool counts(const mr_pq_nulls *nulls, int64_t row) {
    int64_t low = 0, high = nulls->rows ? nulls->n_rows : 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (nulls->rows[middle] < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return !nulls->rows || (low < nulls->n_rows && nulls->rows[low] == row);
}

/* The first null of some depth that counts, by its row; INT64_MAX: none does. */
static int64_t first_null_of(const mr_pq_vector *vector, const mr_pq_nulls *nulls, int32_t depth,
                             const uint8_t *valid, int64_t n) {
    const uint8_t *null = valid && n > 0 ? memchr(valid, 0, (size_t)n) : NULL;
    while (null) {
        int64_t at = null - valid, row = row_at(vector, row_of(vector, depth, at));
        if (counts(nulls, row)) {
            return row;
        }
        null = at + 1 < n ? memchr(null + 1, 0, (size_t)(n - at - 1)) : NULL;
    }
    return INT64_MAX;
}

/* And at what depth: 0 is the row itself, behind that it is inside of its list. */
static int64_t first_null_row(const mr_pq_vector *vector, const mr_pq_nulls *nulls, int32_t *at) {
    int32_t depth = vector->column->max_rep;
    int64_t first = INT64_MAX;
    for (int32_t d = 0; d <= depth; d++) {
        const uint8_t *valid = d < depth ? vector->list_valid[d] : vector->valid;
        int64_t n = d < depth ? vector->n_lists[d] : vector->n_cells;
        int64_t row = first_null_of(vector, nulls, d, valid, n);
        *at = row < first ? d : *at;
        first = row < first ? row : first;
    }
    return first;
}

static mr_status refuse_nulls(const mr_pq_chunk_state *state, const mr_pq_nulls *nulls,
                              int64_t first_row) {
    const mr_pq_vector *vector = state->vector;
    int32_t depth = 0;
    int64_t at = first_null_row(vector, nulls, &depth);
    if (at == INT64_MAX) {
        return MR_OK; /* all are in rows that nobody wants */
    }
    long long row = first_row + at, more = vector->n_nulls - 1;
    char others[64] = "";
    if (more > 0) {
        snprintf(others, sizeof others, " (and %lld more in the row group)", more);
    }
    mr_fail(state->err, MR_E_TYPE,
            depth > 0 ? "a value inside the list of row %lld of the file is null%s"
                      : "row %lld of the file is null%s",
            row, others);
    mr_hint(state->err, "say what nulls become: \"nulls\": \"fill\" or \"mask\"");
    return MR_E_TYPE;
}

/* A number in a column's type, or false where it does not fit. */
static bool fill_bytes(const mr_pq_column *column, double fill, uint8_t out[8]) {
    int64_t whole = fill >= -9.2e18 && fill <= 9.2e18 ? (int64_t)fill : 0;
    float single = (float)fill;
    uint16_t half;
    switch (column->dtype) {
    case MR_F64:
        memcpy(out, &fill, 8);
        return true;
    case MR_F32:
        memcpy(out, &single, 4);
        return true;
    case MR_F16:
        half = mr_f16(single);
        memcpy(out, &half, 2);
        return true;
    default: {
        size_t size = mr_dtype_size(column->dtype);
        int32_t bits = (int32_t)size * 8;
        bool plain = column->dtype == MR_I8 || column->dtype == MR_I16 || column->dtype == MR_I32 ||
                     column->dtype == MR_I64;
        memcpy(out, &whole, size);
        int64_t low = plain ? -(int64_t)(((uint64_t)1 << (bits - 1)) - 1) - 1 : 0;
        uint64_t high = plain        ? ((uint64_t)1 << (bits - 1)) - 1
                        : bits == 64 ? UINT64_MAX
                                     : ((uint64_t)1 << bits) - 1;
        high = column->dtype == MR_BOOL ? 1 : high;
        return (double)whole == fill && whole >= low && (whole < 0 || (uint64_t)whole <= high);
    }
    }
}

/* No branch: whether a value is null is hard to guess. */
#define PUT_FILL(type)                                                                             \
    static void put_##type(uint8_t *cells, const uint8_t *valid, int64_t n, const uint8_t *fill) { \
        type value, kept;                                                                          \
        memcpy(&value, fill, sizeof value);                                                        \
        for (int64_t i = 0; i < n; i++) {                                                          \
            memcpy(&kept, cells + (size_t)i * sizeof kept, sizeof kept);                           \
            kept = valid[i] ? kept : value;                                                        \
            memcpy(cells + (size_t)i * sizeof kept, &kept, sizeof kept);                           \
        }                                                                                          \
    }
PUT_FILL(uint8_t)
PUT_FILL(uint16_t)
PUT_FILL(uint32_t)
PUT_FILL(uint64_t)

/* A number of `width` bytes in the place of nulls. */
static void put_fill(const mr_pq_vector *vector, const uint8_t fill[8], size_t width) {
    uint8_t *cells = vector->values;
    switch (width) {
    case 1:
        put_uint8_t(cells, vector->valid, vector->n_cells, fill);
        return;
    case 2:
        put_uint16_t(cells, vector->valid, vector->n_cells, fill);
        return;
    case 4:
        put_uint32_t(cells, vector->valid, vector->n_cells, fill);
        return;
    default:
        put_uint64_t(cells, vector->valid, vector->n_cells, fill);
    }
}

/* Values of several numbers, and texts. */
static void put_items(const mr_pq_vector *vector, const void *fill, size_t width, size_t items) {
    uint8_t *cells = vector->values;
    for (int64_t i = 0; i < vector->n_cells; i++) {
        for (size_t k = 0; !vector->valid[i] && k < items; k++) {
            memcpy(cells + ((size_t)i * items + k) * width, fill, width);
        }
    }
}

/* A fill that does not fit the column matters where a row that is wanted has a null; other nulls
 * become 0. */
static mr_status refuse_fill(const mr_pq_chunk_state *state, const mr_pq_nulls *nulls,
                             int64_t first_row, uint8_t value[8]) {
    const mr_pq_vector *vector = state->vector;
    int32_t depth = state->column->max_rep;
    int64_t row = first_null_of(vector, nulls, depth, vector->valid, vector->n_cells);
    memset(value, 0, 8);
    if (row == INT64_MAX) {
        return MR_OK;
    }
    long long number = first_row + row;
    mr_fail(state->err, MR_E_PARAM, "row %lld is null, which cannot be filled with %g: it is %s",
            number, nulls->fill, mr_dtype_name(state->column->dtype));
    mr_hint(state->err, "choose a `fill` that all columns with nulls can hold, or leave this "
                        "column out (`columns`)");
    return MR_E_PARAM;
}

static mr_status fill_nulls(const mr_pq_chunk_state *state, const mr_pq_nulls *nulls,
                            int64_t first_row) {
    const mr_pq_vector *vector = state->vector;
    const mr_pq_column *column = state->column;
    const mr_pq_map *map = state->map;
    bool text = column->items == 0;
    uint8_t value[8] = {0}, mapped[8] = {0};
    if (!vector->valid) {
        return MR_OK;
    }
    if (!text && !fill_bytes(column, nulls->fill, value)) {
        MR_TRY(refuse_fill(state, nulls, first_row, value));
    }
    if (map) {
        const void *fill = text ? (const void *)&nulls->fill_text : value;
        MR_TRY(map->run(map, fill, 1, mapped, state->err));
        put_fill(vector, mapped, map->size);
    } else if (text && nulls->fill_text.size > 0) {
        put_items(vector, &nulls->fill_text, sizeof nulls->fill_text, 1);
    } else if (column->items == 1 && nulls->fill != 0) {
        put_fill(vector, value, mr_dtype_size(column->dtype));
    } else if (!text && nulls->fill != 0) {
        put_items(vector, value, mr_dtype_size(column->dtype), (size_t)column->items);
    }
    return MR_OK;
}

static mr_status convert_values(mr_pq_chunk_state *state) {
    mr_pq_vector *vector = state->vector;
    const mr_pq_column *column = state->column;
    void *to = vector->values;
    if (!mr_pq_converts(column) || state->map) {
        return MR_OK;
    }
    if (mr_pq_cell_size(column) > state->width) {
        to = mr_pq_own(state, (size_t)vector->n_cells, mr_pq_cell_size(column));
        if (!to) {
            return mr_pq_own_failed(state);
        }
    }
    MR_TRY(mr_pq_convert(column, vector->values, to, vector->n_cells, state->err));
    vector->values = to;
    return MR_OK;
}

mr_status mr_pq_finish(mr_pq_chunk_state *state, const mr_pq_nulls *nulls, int64_t first_row) {
    mr_pq_vector *vector = state->vector;
    if (state->column->max_rep > 0) {
        close_lists(vector);
    }
    if (vector->n_nulls > 0 && nulls->policy == MR_PQ_NULL_ERROR) {
        MR_TRY(refuse_nulls(state, nulls, first_row));
    }
    MR_TRY(convert_values(state));
    return nulls->policy == MR_PQ_NULL_ERROR ? MR_OK : fill_nulls(state, nulls, first_row);
}

/* ---- Decoders ---- */
mr_status mr_pq_decoder_new(mr_pq_decoder **out, uint32_t cpu_features,
                            const mr_allocator *allocator, const mr_pq_limits *limits,
                            mr_error *err) {
    mr_pq_decoder *decoder = mr_zalloc(1, sizeof *decoder);
    *out = NULL;
    if (!decoder || !(decoder->codecs = mr_pq_codecs_new())) {
        free(decoder);
        return mr_fail_memory(err, sizeof *decoder);
    }
    decoder->kernels = mr_column_kernels_for(cpu_features);
    decoder->allocator = allocator ? allocator : &mr_default_allocator;
    decoder->limit = limits && limits->bytes > 0 ? limits->bytes : DEFAULT_LIMIT;
    *out = decoder;
    return MR_OK;
}

void mr_pq_decoder_free(mr_pq_decoder *decoder) {
    if (decoder) {
        mr_pq_scratch *all[] = {&decoder->page,  &decoder->dictionary, &decoder->def,
                                &decoder->rep,   &decoder->lengths,    &decoder->prefixes,
                                &decoder->saved, &decoder->unmapped};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            free(all[i]->data);
        }
        mr_pq_codecs_free(decoder->codecs);
        free(decoder);
    }
}
