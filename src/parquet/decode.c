/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - the pages of a column become a vector.
 *
 * The footer tells how many values a chunk has, so memory is taken once, and pages write to their
 * place in it. Numbers that are stored as they are get decompressed into their place, with the
 * levels before them over bytes that are put back. */
#include <stdlib.h>
#include <string.h>

#include "parquet/parts.h"

#define FRONT 64               /* room before the values for the levels of a page without lists */
#define FRONT_LISTS (32 << 10) /* and with lists */

/* ---- Values between nulls ---- */
/* No branch: whether a value is null is hard to guess. */
#define SPREAD(type, keep)                                                                         \
    static void spread_##type(uint8_t *cells, const uint8_t *valid, int64_t n, int64_t values) {   \
        for (int64_t i = n, k = values; i-- > 0 && k <= i;) {                                      \
            uint64_t mask = 0 - (uint64_t)valid[i];                                                \
            type value;                                                                            \
            memcpy(&value, cells + (size_t)(k - (k > 0)) * sizeof value, sizeof value);            \
            keep;                                                                                  \
            k -= valid[i];                                                                         \
            memcpy(cells + (size_t)i * sizeof value, &value, sizeof value);                        \
        }                                                                                          \
    }

typedef struct two_words {
    uint64_t low, high;
} two_words;

SPREAD(uint8_t, value &= (uint8_t)mask)
SPREAD(uint16_t, value &= (uint16_t)mask)
SPREAD(two_words, value.low &= mask; value.high &= mask)

static void spread_any(uint8_t *cells, const uint8_t *valid, int64_t n, int64_t values,
                       size_t width) {
    for (int64_t i = n, k = values; i-- > 0 && k <= i;) {
        uint8_t *to = cells + (size_t)i * width;
        if (valid[i]) {
            k--;
            memmove(to, cells + (size_t)k * width, width);
        } else {
            memset(to, 0, width);
        }
    }
}

/* Values stand at the beginning of n cells: each goes to its place, from the last on; nulls become
 * zeros. */
static void spread(const mr_column_kernels *kernels, uint8_t *cells, const uint8_t *valid,
                   int64_t n, int64_t values, size_t width) {
    if (width == 4) {
        kernels->spread_4(cells, valid, (size_t)n, (size_t)values);
    } else if (width == 8) {
        kernels->spread_8(cells, valid, (size_t)n, (size_t)values);
    } else if (width == 16) {
        spread_two_words(cells, valid, n, values);
    } else if (width == 1) {
        spread_uint8_t(cells, valid, n, values);
    } else if (width == 2) {
        spread_uint16_t(cells, valid, n, values);
    } else {
        spread_any(cells, valid, n, values, width);
    }
}

/* ---- Pages ---- */
typedef struct page_reader {
    mr_pq_chunk_state *state;
    const mr_pq_chunk *chunk;
    int64_t rows;    /* that the vector may have */
    int64_t entries; /* so far */
} page_reader;

static uint8_t *next_cell(const mr_pq_chunk_state *state) {
    return (uint8_t *)state->vector->values + (size_t)state->vector->n_cells * state->width;
}

static bool is_dictionary(int32_t encoding) {
    return encoding == MR_PQ_PLAIN_DICTIONARY || encoding == MR_PQ_RLE_DICTIONARY;
}

/* Values that are mapped: those of a dictionary are already, others go through scratch memory. */
static mr_status mapped_values(mr_pq_chunk_state *state, int32_t encoding, mr_pq_bytes bytes,
                               void *to, int64_t n) {
    const mr_pq_map *map = state->map;
    if (is_dictionary(encoding)) {
        return mr_pq_values(state, encoding, bytes, to, n);
    }
    size_t width = mr_pq_physical_size(state->column);
    void *values = mr_pq_scratch_take(&state->decoder->unmapped, (size_t)n * width);
    if (!values) {
        return mr_fail_memory(state->err, (size_t)n * width);
    }
    state->width = width;
    mr_status status = mr_pq_values(state, encoding, bytes, values, n);
    state->width = map->size;
    MR_TRY(status);
    return map->run(map, values, n, to, state->err);
}

static mr_status add_values(mr_pq_chunk_state *state, int32_t encoding, mr_pq_bytes bytes,
                            mr_pq_added add) {
    mr_pq_vector *vector = state->vector;
    uint8_t *to = next_cell(state);
    if (add.values < add.cells) {
        MR_TRY(mr_pq_move_dictionary(state));
    }
    MR_TRY(state->map ? mapped_values(state, encoding, bytes, to, add.values)
                      : mr_pq_values(state, encoding, bytes, to, add.values));
    if (add.values < add.cells) {
        spread(state->decoder->kernels, to, vector->valid + vector->n_cells, add.cells, add.values,
               state->width);
    }
    vector->n_cells += add.cells;
    return MR_OK;
}

/* Strings that point into the page need it as long as the vector lives. */
static bool keeps_page(const mr_pq_chunk_state *state, int32_t encoding) {
    return state->column->physical == MR_PQ_BYTES && !state->map &&
           (encoding == MR_PQ_PLAIN || encoding == MR_PQ_DELTA_LENGTH_BYTE_ARRAY);
}

/* The decompressed form of bytes: themselves, scratch memory, or memory of the vector's. */
static mr_status unpacked(page_reader *reader, mr_pq_bytes in, size_t size, bool compressed,
                          bool keep, mr_pq_bytes *out) {
    mr_pq_chunk_state *state = reader->state;
    if (!compressed || reader->chunk->codec == MR_PQ_UNCOMPRESSED) {
        *out = in;
        return in.size == size ? MR_OK
                               : mr_fail(state->err, MR_E_CORRUPT, "the sizes of a page differ");
    }
    if ((int64_t)size > state->decoder->limit) {
        return mr_fail(state->err, MR_E_LIMIT, "a page takes %zu bytes", size);
    }
    uint8_t *memory =
        keep ? mr_pq_own(state, size, 1) : mr_pq_scratch_take(&state->decoder->page, size);
    if (!memory) {
        return keep ? mr_pq_own_failed(state) : mr_fail_memory(state->err, size);
    }
    *out = (mr_pq_bytes){memory, size};
    return mr_pq_unpack(state->decoder->codecs, reader->chunk->codec, in, memory, size, state->err);
}

/* A V1 page of stored numbers without nulls is levels, then exactly the values: it is decompressed
 * so that the values fall into their place. *done is false where the page turns out to be another:
 * it is in *page then, as for all others. */
static bool may_unpack_in_place(const page_reader *reader, const mr_pq_header *header,
                                size_t *front) {
    const mr_pq_chunk_state *state = reader->state;
    const mr_pq_column *column = state->column;
    size_t values = (size_t)header->n_values * state->width;
    size_t size = (size_t)header->unpacked_size;
    size_t room = column->max_rep ? FRONT_LISTS : FRONT;
    if (header->encoding != MR_PQ_PLAIN || state->map || column->physical == MR_PQ_BYTES ||
        column->physical == MR_PQ_BOOLEAN || column->max_rep > 1 ||
        reader->chunk->codec == MR_PQ_UNCOMPRESSED || values > size || size - values > room) {
        return false;
    }
    *front = size - values;
    return true;
}

static mr_status unpack_in_place(page_reader *reader, const mr_pq_header *header, mr_pq_bytes in,
                                 size_t front, bool *done, mr_pq_bytes *page) {
    mr_pq_chunk_state *state = reader->state;
    mr_pq_decoder *decoder = state->decoder;
    uint8_t *to = next_cell(state) - front;
    size_t size = (size_t)header->unpacked_size;
    uint8_t *saved = mr_pq_scratch_take(&decoder->saved, front);
    mr_pq_levels l;
    mr_pq_added add = {0, 0};
    if (!saved) {
        return mr_fail_memory(state->err, front);
    }
    memcpy(saved, to, front);
    mr_status status =
        mr_pq_unpack(decoder->codecs, reader->chunk->codec, in, to, size, state->err);
    *page = (mr_pq_bytes){to, size};
    *done = status == MR_OK && mr_pq_split_page_v1(state->column, header, *page, &l) &&
            l.values.data == to + front && mr_pq_all_defined(state, &l, header->n_values);
    if (*done) {
        status = mr_pq_page_levels(state, &l, header->n_values, reader->rows, &add);
        *done = status == MR_OK && add.cells == header->n_values;
        state->vector->n_cells += *done ? add.cells : 0;
    } else if (status == MR_OK) {
        uint8_t *copy = mr_pq_scratch_take(&decoder->page, size);
        status = copy ? MR_OK : mr_fail_memory(state->err, size);
        *page = (mr_pq_bytes){copy ? memcpy(copy, to, size) : NULL, size};
    }
    memcpy(to, saved, front);
    return status;
}

static mr_status data_page_v1(page_reader *reader, const mr_pq_header *header, mr_pq_bytes in) {
    mr_pq_chunk_state *state = reader->state;
    mr_pq_bytes page = {NULL, 0};
    mr_pq_levels l;
    mr_pq_added add = {0, 0};
    size_t front = 0;
    if (may_unpack_in_place(reader, header, &front)) {
        bool done = false;
        MR_TRY(unpack_in_place(reader, header, in, front, &done, &page));
        if (done) {
            return MR_OK;
        }
    } else {
        MR_TRY(unpacked(reader, in, (size_t)header->unpacked_size, true,
                        keeps_page(state, header->encoding), &page));
    }
    if (!mr_pq_split_page_v1(state->column, header, page, &l)) {
        return mr_fail(state->err, MR_E_CORRUPT, "the levels of a page are damaged");
    }
    MR_TRY(mr_pq_page_levels(state, &l, header->n_values, reader->rows, &add));
    return add_values(state, header->encoding, l.values, add);
}

static mr_status data_page_v2(page_reader *reader, const mr_pq_header *header, mr_pq_bytes in) {
    mr_pq_chunk_state *state = reader->state;
    size_t rep = (size_t)header->rep_size, def = (size_t)header->def_size;
    mr_pq_levels l = {.rep_encoding = MR_PQ_RLE, .def_encoding = MR_PQ_RLE};
    mr_pq_added add = {0, 0};
    if (rep > in.size || def > in.size - rep || rep + def > (size_t)header->unpacked_size) {
        return mr_fail(state->err, MR_E_CORRUPT, "the levels of a page are damaged");
    }
    l.rep = (mr_pq_bytes){in.data, rep};
    l.def = (mr_pq_bytes){in.data + rep, def};
    mr_pq_bytes packed = {in.data + rep + def, in.size - rep - def};
    size_t size = (size_t)header->unpacked_size - rep - def;
    MR_TRY(mr_pq_page_levels(state, &l, header->n_values, reader->rows, &add));
    bool compressed =
        header->compressed && packed.size > 0; /* a page of nulls may have no values */
    bool direct = compressed && !state->map && header->encoding == MR_PQ_PLAIN &&
                  add.values == add.cells && state->column->physical != MR_PQ_BYTES &&
                  state->column->physical != MR_PQ_BOOLEAN &&
                  (size_t)add.values * state->width == size;
    if (direct) {
        MR_TRY(mr_pq_unpack(state->decoder->codecs, reader->chunk->codec, packed, next_cell(state),
                            size, state->err));
        state->vector->n_cells += add.cells;
        return MR_OK;
    }
    if (packed.size == 0) {
        size = 0;
    }
    MR_TRY(
        unpacked(reader, packed, size, compressed, keeps_page(state, header->encoding), &l.values));
    return add_values(state, header->encoding, l.values, add);
}

/* A dictionary is a page of plain values. Strings become pointers, each of at least 4 bytes of the
 * page; numbers stay where they are, and the page's scratch memory is kept from the next page. */
static mr_status use_strings(mr_pq_chunk_state *state, mr_pq_bytes page, int64_t n) {
    if ((size_t)n > page.size / 4) {
        return mr_fail(state->err, MR_E_CORRUPT, "the dictionary is too short");
    }
    void *memory = mr_pq_own(state, (size_t)n, state->width);
    if (!memory) {
        return mr_pq_own_failed(state);
    }
    state->dictionary = memory;
    return mr_pq_values(state, MR_PQ_PLAIN, page, memory, n);
}

static mr_status use_numbers(mr_pq_chunk_state *state, mr_pq_bytes page, int64_t n) {
    mr_pq_decoder *decoder = state->decoder;
    if ((size_t)n > page.size / state->width || state->column->physical == MR_PQ_BOOLEAN) {
        return mr_fail(state->err, MR_E_CORRUPT, "the dictionary is too short");
    }
    if (page.data == decoder->page.data) {
        mr_pq_scratch other = decoder->dictionary;
        decoder->dictionary = decoder->page;
        decoder->page = other;
    }
    state->dictionary = page.data;
    return MR_OK;
}

/* A dictionary whose values are mapped: only what they are mapped to is kept. */
static mr_status use_mapped(mr_pq_chunk_state *state, mr_pq_bytes page, int64_t n) {
    const mr_pq_map *map = state->map;
    size_t least = state->column->physical == MR_PQ_BYTES ? 4 : mr_pq_physical_size(state->column);
    if ((size_t)n > page.size / least || state->column->physical == MR_PQ_BOOLEAN) {
        return mr_fail(state->err, MR_E_CORRUPT, "the dictionary is too short");
    }
    void *memory = mr_pq_scratch_take(&state->decoder->dictionary, (size_t)n * map->size);
    if (!memory) {
        return mr_fail_memory(state->err, (size_t)n * map->size);
    }
    state->dictionary = memory;
    return mapped_values(state, MR_PQ_PLAIN, page, memory, n);
}

/* A dictionary that may be the column itself is decompressed to where its values are to be: see
 * is_there in values.c. */
static bool may_be_column(const page_reader *reader, const mr_pq_header *header) {
    const mr_pq_chunk_state *state = reader->state;
    return reader->chunk->codec != MR_PQ_UNCOMPRESSED && !state->map &&
           state->vector->n_cells == 0 && state->column->physical != MR_PQ_BOOLEAN &&
           header->n_values <= state->capacity && header->n_values >= state->capacity / 2 &&
           (size_t)header->unpacked_size == (size_t)header->n_values * state->width;
}

static mr_status unpack_as_column(page_reader *reader, const mr_pq_header *header, mr_pq_bytes in) {
    mr_pq_chunk_state *state = reader->state;
    state->dictionary = state->vector->values;
    state->n_dictionary = header->n_values;
    state->in_place = true;
    return mr_pq_unpack(state->decoder->codecs, reader->chunk->codec, in, state->vector->values,
                        (size_t)header->unpacked_size, state->err);
}

static mr_status dictionary_page(page_reader *reader, const mr_pq_header *header, mr_pq_bytes in) {
    mr_pq_chunk_state *state = reader->state;
    bool strings = state->column->physical == MR_PQ_BYTES;
    mr_pq_bytes page = {NULL, 0};
    if (state->n_dictionary >= 0) {
        return mr_fail(state->err, MR_E_CORRUPT, "there are two dictionaries");
    }
    if (header->encoding != MR_PQ_PLAIN && header->encoding != MR_PQ_PLAIN_DICTIONARY) {
        return mr_fail(state->err, MR_E_UNSUPPORTED, "the dictionary is in encoding %s (%d)",
                       mr_pq_encoding_name(header->encoding), header->encoding);
    }
    if (!strings && may_be_column(reader, header)) {
        return unpack_as_column(reader, header, in);
    }
    bool keep = strings && !state->map;
    MR_TRY(unpacked(reader, in, (size_t)header->unpacked_size, true, keep, &page));
    MR_TRY(state->map ? use_mapped(state, page, header->n_values)
           : strings  ? use_strings(state, page, header->n_values)
                      : use_numbers(state, page, header->n_values));
    state->n_dictionary = header->n_values;
    return MR_OK;
}

static mr_status data_page(page_reader *reader, const mr_pq_header *header, mr_pq_bytes in) {
    mr_pq_chunk_state *state = reader->state;
    int64_t rows = state->vector->n_rows;
    if (header->n_values > state->capacity - reader->entries) {
        return mr_fail(state->err, MR_E_CORRUPT, "the pages have more values than the footer says");
    }
    if (state->column->max_rep == 0 && header->n_values > reader->rows - rows) {
        return mr_fail(state->err, MR_E_CORRUPT, "the pages have more rows than the footer says");
    }
    if (!is_dictionary(header->encoding)) {
        MR_TRY(mr_pq_move_dictionary(state));
    }
    MR_TRY(header->type == MR_PQ_DATA_PAGE ? data_page_v1(reader, header, in)
                                           : data_page_v2(reader, header, in));
    reader->entries += header->n_values;
    if (header->n_rows >= 0 && state->vector->n_rows - rows != header->n_rows) {
        return mr_fail(state->err, MR_E_CORRUPT, "a page has %lld rows, its header says %lld",
                       (long long)(state->vector->n_rows - rows), (long long)header->n_rows);
    }
    return MR_OK;
}

/* One page from the front of the bytes, which then begin behind it. */
static mr_status read_page(page_reader *reader, mr_pq_bytes *bytes) {
    mr_pq_chunk_state *state = reader->state;
    mr_pq_header header;
    MR_TRY(mr_pq_header_parse(*bytes, &header, state->err));
    mr_pq_bytes in = {bytes->data + header.size, (size_t)header.packed_size};
    if (in.size > bytes->size - header.size) {
        return mr_fail(state->err, MR_E_CORRUPT, "a page ends behind its column");
    }
    bytes->data = in.data + in.size;
    bytes->size -= header.size + in.size;
    if (header.has_crc && mr_pq_crc32(in.data, in.size) != header.crc) {
        return mr_fail(state->err, MR_E_CORRUPT, "the checksum of a page is wrong");
    }
    switch (header.type) {
    case MR_PQ_DICTIONARY_PAGE:
        return dictionary_page(reader, &header, in);
    case MR_PQ_DATA_PAGE:
    case MR_PQ_DATA_PAGE_V2:
        return data_page(reader, &header, in);
    default:
        return MR_OK;
    }
}

/* ---- The whole ---- */
static mr_status take_memory(mr_pq_chunk_state *state, int64_t rows) {
    const mr_pq_column *column = state->column;
    size_t front = column->max_rep ? FRONT_LISTS : FRONT;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)state->capacity, state->width, &bytes)) {
        bytes = SIZE_MAX / 2;
    }
    uint8_t *values = mr_pq_own(state, bytes + front, 1);
    if (!values) {
        return mr_pq_own_failed(state);
    }
    state->vector->values = values + front;
    for (int32_t d = 0; d < column->max_rep; d++) {
        size_t lists = (size_t)mr_pq_list_capacity(state, d, rows) + 1;
        state->vector->offsets[d] = mr_pq_own(state, lists, sizeof(int64_t));
        if (!state->vector->offsets[d]) {
            return mr_pq_own_failed(state);
        }
    }
    return MR_OK;
}

static mr_status read_all_pages(page_reader *reader, mr_pq_bytes bytes) {
    mr_pq_chunk_state *state = reader->state;
    while (reader->entries < state->capacity) {
        if (bytes.size == 0) {
            return mr_fail(state->err, MR_E_CORRUPT,
                           "the pages have %lld values, the footer says %lld",
                           (long long)reader->entries, (long long)state->capacity);
        }
        MR_TRY(read_page(reader, &bytes));
    }
    if (state->vector->n_rows != reader->rows) {
        return mr_fail(state->err, MR_E_CORRUPT, "the pages have %lld rows, the footer says %lld",
                       (long long)state->vector->n_rows, (long long)reader->rows);
    }
    return MR_OK;
}

/* What can be wrong before a byte is looked at. */
static mr_status begin(mr_pq_chunk_state *state, page_reader *reader, mr_pq_bytes bytes) {
    const mr_pq_chunk *chunk = reader->chunk;
    if (bytes.size != (size_t)chunk->size) {
        return mr_fail(state->err, MR_E_PARAM, "%zu bytes were given, the column has %lld",
                       bytes.size, (long long)chunk->size);
    }
    if (state->column->max_rep == 0 && chunk->n_values != reader->rows) {
        return mr_fail(state->err, MR_E_CORRUPT, "the footer says %lld values and %lld rows",
                       (long long)chunk->n_values, (long long)reader->rows);
    }
    if (chunk->n_values < reader->rows) {
        return mr_fail(state->err, MR_E_CORRUPT, "the footer says %lld values of %lld rows",
                       (long long)chunk->n_values, (long long)reader->rows);
    }
    return take_memory(state, reader->rows);
}

static int64_t first_row_of(const mr_pq_file *file, int32_t group) {
    int64_t row = 0;
    for (int32_t g = 0; g < group; g++) {
        row += file->groups[g].rows;
    }
    return row;
}

/* ---- Some pages ---- */
static bool overlaps(const mr_pq_range *ranges, int32_t n, int64_t from, int64_t to) {
    for (int32_t r = 0; r < n; r++) {
        if (ranges[r].from < to && ranges[r].to > from) {
            return true;
        }
    }
    return false;
}

static int64_t page_end(const mr_pq_pages *pages, int32_t page, int64_t rows) {
    return page + 1 < pages->n ? pages->pages[page + 1].first_row : rows;
}

/* The ranges of rows of the wanted pages; joined where they touch. */
static mr_status choose_ranges(mr_pq_chunk_state *state, const mr_pq_pages *pages,
                               const mr_pq_range *ranges, int32_t n_ranges, int64_t rows) {
    mr_pq_vector *vector = state->vector;
    int64_t position = 0;
    vector->ranges = mr_zalloc((size_t)pages->n + 1, sizeof *vector->ranges);
    vector->range_start = mr_zalloc((size_t)pages->n + 1, sizeof *vector->range_start);
    if (!vector->ranges || !vector->range_start) {
        return mr_fail_memory(state->err, (size_t)pages->n * sizeof *vector->ranges);
    }
    for (int32_t p = 0; p < pages->n; p++) {
        int64_t from = pages->pages[p].first_row, to = page_end(pages, p, rows);
        if (!overlaps(ranges, n_ranges, from, to)) {
            continue;
        }
        mr_pq_range *last = vector->n_ranges ? &vector->ranges[vector->n_ranges - 1] : NULL;
        if (last && last->to == from) {
            last->to = to;
        } else {
            vector->range_start[vector->n_ranges] = position;
            vector->ranges[vector->n_ranges++] = (mr_pq_range){from, to};
        }
        position += to - from;
    }
    return MR_OK;
}

static mr_status read_dictionary(page_reader *reader, mr_pq_bytes bytes, size_t size) {
    mr_pq_bytes part = {bytes.data, size};
    while (part.size > 0) {
        int64_t before = reader->entries;
        MR_TRY(read_page(reader, &part));
        if (reader->entries != before) {
            return mr_fail(reader->state->err, MR_E_CORRUPT, "the page index misses a page");
        }
    }
    return MR_OK;
}

static mr_status read_some_pages(page_reader *reader, const mr_pq_job *job) {
    mr_pq_chunk_state *state = reader->state;
    const mr_pq_pages *pages = job->pages;
    const mr_pq_range *ranges = job->ranges;
    const mr_pq_bytes bytes = job->bytes;
    int32_t n_ranges = job->n_ranges;
    int64_t base = reader->chunk->offset, rows = reader->rows;
    MR_TRY(choose_ranges(state, pages, ranges, n_ranges, rows));
    if (pages->n > 0) {
        MR_TRY(read_dictionary(reader, bytes, (size_t)(pages->pages[0].offset - base)));
    }
    for (int32_t p = 0; p < pages->n; p++) {
        const mr_pq_page *page = &pages->pages[p];
        int64_t to = page_end(pages, p, rows), before = state->vector->n_rows;
        if (!overlaps(ranges, n_ranges, page->first_row, to)) {
            continue;
        }
        mr_pq_bytes part = {bytes.data + (page->offset - base), (size_t)page->size};
        MR_TRY(read_page(reader, &part));
        if (state->vector->n_rows - before != to - page->first_row) {
            return mr_fail(
                state->err, MR_E_CORRUPT, "a page has %lld rows, the page index says %lld",
                (long long)(state->vector->n_rows - before), (long long)(to - page->first_row));
        }
    }
    return MR_OK;
}

/* Values whose form changes behind the last page are mapped behind that. */
static mr_status map_vector(mr_pq_chunk_state *state, const mr_pq_map *map) {
    mr_pq_vector *vector = state->vector;
    void *to = mr_pq_own(state, (size_t)vector->n_cells, map->size);
    if (!to) {
        return mr_pq_own_failed(state);
    }
    MR_TRY(map->run(map, vector->values, vector->n_cells, to, state->err));
    vector->values = to;
    return MR_OK;
}

static mr_status decode(mr_pq_chunk_state *state, const mr_pq_job *job, const mr_pq_chunk *chunk) {
    const mr_pq_file *file = job->file;
    page_reader reader = {.state = state, .chunk = chunk, .rows = file->groups[job->group].rows};
    MR_TRY(begin(state, &reader, job->bytes));
    MR_TRY(job->pages ? read_some_pages(&reader, job) : read_all_pages(&reader, job->bytes));
    MR_TRY(mr_pq_finish(state, &job->nulls, first_row_of(file, job->group)));
    return job->map && !state->map ? map_vector(state, job->map) : MR_OK;
}

mr_status mr_pq_decode(mr_pq_decoder *decoder, const mr_pq_job *job, mr_pq_vector **out,
                       mr_error *err) {
    const mr_pq_column *column = &job->file->columns[job->column];
    const mr_pq_chunk *chunk = &job->file->groups[job->group].chunks[job->column];
    mr_pq_extent extent;
    mr_error own = MR_ERROR_INIT; /* inner functions look at what was set */
    *out = NULL;
    MR_TRY(mr_pq_chunk_extent(job->file, job->group, job->column, &extent, err));
    mr_pq_chunk_state state = {.decoder = decoder,
                               .column = column,
                               .vector = mr_pq_vector_new(decoder, column),
                               .err = err ? err : &own,
                               .width = mr_pq_physical_size(column),
                               .capacity = chunk->n_values,
                               .n_dictionary = -1};
    if (!state.vector) {
        return mr_fail_memory(err, sizeof *state.vector);
    }
    if (job->map && !mr_pq_converts(column)) {
        state.map = job->map;
        state.width = job->map->size;
    }
    mr_status status = decode(&state, job, chunk);
    if (status < 0) {
        mr_pq_vector_free(state.vector);
        return mr_pq_placed(err, job->group, column->name, status);
    }
    *out = state.vector;
    return MR_OK;
}
