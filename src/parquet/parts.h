/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - what the files of this folder share and nobody else needs. */
#ifndef MR_PARQUET_PARTS_H
#define MR_PARQUET_PARTS_H

#include "core/error.h"
#include "core/memory.h"
#include "kernels/columns.h"
#include "parquet/parquet.h"
#include "parquet/thrift.h"

/* ---- A file's memory (footer.c) ---- */
typedef struct mr_pq_memory {
    mr_arena arena;
    uint8_t *piece; /* what is left of the arena's newest piece */
    size_t left;
    mr_pq_bytes footer;     /* our copy: statistics point into it */
    mr_pq_bytes raw_schema; /* the schema's list, as it is in the footer */
} mr_pq_memory;

void *mr_pq_take(mr_pq_memory *memory, size_t count, size_t size); /* zeroed; NULL: out of memory */
const char *mr_pq_take_text(mr_pq_memory *memory, mr_pq_bytes text); /* terminated */

/* Names the place of an error that is set, and passes the status on. column NULL: the whole group.
 */
mr_status mr_pq_placed(mr_error *err, int32_t group, const char *column, mr_status status);

/* ---- Schema (schema.c) ----
 * A row of the schema as the footer has it: the tree in depth-first order. */
typedef struct mr_pq_element {
    mr_pq_bytes name;
    int32_t physical; /* -1: a group */
    int32_t fixed_size, repetition, n_children, converted;
    int32_t scale, precision; /* beside the older word for the type */
    int32_t logical;          /* number in the union, 0: none; of its members: */
    int32_t logical_scale, logical_precision;
    int32_t bits, per_second;
    bool is_signed, utc;
} mr_pq_element;

/* Columns from elements; both in file->memory. */
mr_status mr_pq_schema(mr_pq_file *file, const mr_pq_element *elements, int32_t n, mr_error *err);

/* ---- Page headers (page.c) ---- */
enum {
    MR_PQ_DATA_PAGE = 0,
    MR_PQ_INDEX_PAGE = 1,
    MR_PQ_DICTIONARY_PAGE = 2,
    MR_PQ_DATA_PAGE_V2 = 3
};

typedef struct mr_pq_header {
    int32_t type, encoding, def_encoding, rep_encoding;
    int64_t unpacked_size, packed_size, n_values, n_rows,
        n_nulls;                /* n_rows: -1 where it is not told */
    int64_t def_size, rep_size; /* of MR_PQ_DATA_PAGE_V2 */
    bool compressed, has_crc, seen;
    uint32_t crc;
    size_t size; /* of the header itself */
} mr_pq_header;

mr_status mr_pq_header_parse(mr_pq_bytes bytes, mr_pq_header *out, mr_error *err);

/* ---- Decompression (codec.c) ---- */
typedef struct mr_pq_codecs mr_pq_codecs; /* decompressors of one thread */
mr_pq_codecs *mr_pq_codecs_new(void);
void mr_pq_codecs_free(mr_pq_codecs *codecs);

/* Exactly out_size bytes, or MR_E_CORRUPT. */
mr_status mr_pq_unpack(mr_pq_codecs *codecs, int32_t codec, mr_pq_bytes in, uint8_t *out,
                       size_t out_size, mr_error *err);
uint32_t mr_pq_crc32(const uint8_t *data, size_t size);

/* ---- Runs and bit-packed groups: levels, indices of dictionaries, booleans (rle.c) ---- */
typedef struct mr_pq_runs {
    const uint8_t *at, *end;
    const mr_column_kernels *kernels;
    int32_t width;
    bool bad;
    /* The current run: `left` values, all `value`, or packed from `packed` on. */
    int64_t left;
    uint32_t value;
    const uint8_t *packed; /* NULL: a run */
    const uint8_t *packed_end;
    uint32_t phase; /* values of the packed group already taken, when not a multiple of 8 */
} mr_pq_runs;

mr_pq_runs mr_pq_runs_of(mr_pq_bytes bytes, int32_t width, const mr_column_kernels *kernels);
bool mr_pq_runs_next(mr_pq_runs *runs); /* loads the next run where none is left; false: no more */
bool mr_pq_runs_u32(mr_pq_runs *runs, uint32_t *out, int64_t n);
bool mr_pq_runs_u8(mr_pq_runs *runs, uint8_t *out, int64_t n); /* width at most 8 */
/* Takes the first n values where they are one run of `value`; otherwise takes nothing. */
bool mr_pq_runs_all(mr_pq_runs *runs, int64_t n, uint32_t value);
/* Positions of the zeros among n values of width 1, in order; false: damaged. */
bool mr_pq_runs_zeros(mr_pq_runs *runs, int64_t n, int64_t first, int64_t *out, int64_t room,
                      int64_t *found);

/* ---- Encodings (delta.c) ---- */
/* DELTA_BINARY_PACKED: n integers of 4 or 8 bytes. *at goes behind what was read. */
bool mr_pq_delta(const mr_column_kernels *kernels, const uint8_t **at, const uint8_t *end,
                 int32_t width, void *out, int64_t n);

/* ---- A chunk on its way (decode.c) ---- */
typedef struct mr_pq_scratch {
    uint8_t *data;
    size_t capacity;
} mr_pq_scratch;

struct mr_pq_decoder {
    const mr_column_kernels *kernels;
    mr_pq_codecs *codecs;
    const mr_allocator *allocator;
    int64_t limit;
    mr_pq_scratch page, dictionary, def, rep, lengths, prefixes, saved, unmapped;
};

typedef struct mr_pq_chunk_state {
    mr_pq_decoder *decoder;
    const mr_pq_column *column;
    mr_pq_vector *vector;
    mr_error *err;
    size_t width;     /* bytes of a cell in its physical form, or of what it is mapped to */
    int64_t capacity; /* cells */
    const void *dictionary;
    int64_t n_dictionary; /* -1: none was met */
    const mr_pq_map *map; /* NULL: values go into the vector as they are */
    bool in_place;        /* the dictionary lies where the vector's values are to be */
} mr_pq_chunk_state;

/* At least so many bytes, of which 32 more may be read; contents are lost. NULL: out of memory. */
uint8_t *mr_pq_scratch_take(mr_pq_scratch *scratch, size_t size);

/* Memory that lives as long as the vector; NULL, with the error set: none, or over the limit. */
void *mr_pq_own(mr_pq_chunk_state *state, size_t count, size_t size);

mr_pq_vector *mr_pq_vector_new(const mr_pq_decoder *decoder, const mr_pq_column *column);
mr_status mr_pq_own_failed(const mr_pq_chunk_state *state); /* how mr_pq_own did */

/* Behind the last page. first_row: the row group's, in the file. */
mr_status mr_pq_finish(mr_pq_chunk_state *state, const mr_pq_nulls *nulls, int64_t first_row);

/* ---- Levels (levels.c) ---- */
typedef struct mr_pq_levels {
    mr_pq_bytes rep, def, values; /* levels without their length */
    int32_t rep_encoding, def_encoding;
} mr_pq_levels;

bool mr_pq_split_page_v1(const mr_pq_column *column, const mr_pq_header *header, mr_pq_bytes page,
                         mr_pq_levels *out);

/* Whether all definition levels are the highest: nothing is missing. */
bool mr_pq_all_defined(const mr_pq_chunk_state *state, const mr_pq_levels *l, int64_t n);

/* What a page adds: cells, and values among them. */
typedef struct mr_pq_added {
    int64_t cells, values;
} mr_pq_added;

/* Takes the n levels of a page into the vector: rows, lists, validity; not yet its cells' count. */
mr_status mr_pq_page_levels(mr_pq_chunk_state *state, const mr_pq_levels *l, int64_t n,
                            int64_t rows, mr_pq_added *out);
int64_t mr_pq_list_capacity(const mr_pq_chunk_state *state, int32_t depth, int64_t rows);

/* ---- Values of a page (values.c) ----
 * n values, in the encoding, to `out` in the physical form. Strings point into `bytes`. */
mr_status mr_pq_values(mr_pq_chunk_state *state, int32_t encoding, mr_pq_bytes bytes, void *out,
                       int64_t n);
mr_status mr_pq_damaged(mr_pq_chunk_state *state, int32_t encoding);

/* Before something other than its own entries is written where the dictionary lies: it moves away.
 */
mr_status mr_pq_move_dictionary(mr_pq_chunk_state *state);

/* ---- Forms of values (convert.c) ---- */
/* Bytes of a cell while pages are decoded, and of one in the vector. */
size_t mr_pq_physical_size(const mr_pq_column *column);
size_t mr_pq_cell_size(const mr_pq_column *column);
bool mr_pq_converts(const mr_pq_column *column);
/* From the physical form to the field's type; out may be in where cells do not grow. */
mr_status mr_pq_convert(const mr_pq_column *column, const void *in, void *out, int64_t n,
                        mr_error *err);

static inline uint32_t mr_pq_load_u32(const uint8_t *at) {
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t mr_pq_load_u64(const uint8_t *at) {
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

/* ---- Literals: literal.c ---- */
/* A whole number, or a little more than it (`beyond`), or past all (`side` -1 below, 1 above). */
typedef struct mr_pq_whole {
    int64_t value; /* of uint64 its bits */
    int32_t side;
    bool beyond;
} mr_pq_whole;

/* What a text means for a column of whole numbers, dates or times. False: it means nothing. */
bool mr_pq_whole_of_text(const mr_pq_column *column, const char *text, mr_pq_whole *out);

#endif
