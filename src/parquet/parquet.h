/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.h - Parquet files to columns in memory, and rows of these to wherever they are wanted.
 *
 * The library is given bytes and does no input or output of its own, so that whoever reads (files,
 * objects, peers) plans the reads. In the order of use:
 *
 *     mr_pq_tail, mr_pq_open      the footer's bytes become a read-only mr_pq_file
 *     mr_pq_select                names and patterns choose columns
 *     mr_pq_fields                what the chosen columns are as fields of a sample
 *     mr_pq_chunk_extent          where a column of a row group lies in the file
 *     mr_pq_decode                its bytes become a mr_pq_vector; one thread for each decoder
 *     mr_pq_copy, mr_pq_row_*     rows of a vector go into a batch
 *     mr_pq_where_*               a condition: which row groups can have rows, and which rows
 *
 * Everything that comes from a file is checked before it is used; what is refused is named, with
 * row group and column. The caller adds the file's name.
 *
 * Words. A column is a leaf of the schema. A value is one entry of it; a cell is the place of a
 * value or of a null. depth is the number of lists around a value: 0 for plain columns. */
#ifndef MR_PARQUET_PARQUET_H
#define MR_PARQUET_PARQUET_H

#include <jansson.h>
#include <millrace/types.h>

/* ---- What the format has -------------------------------------------------------------------- */
typedef enum mr_pq_physical {
    MR_PQ_BOOLEAN,
    MR_PQ_INT32,
    MR_PQ_INT64,
    MR_PQ_INT96,
    MR_PQ_FLOAT,
    MR_PQ_DOUBLE,
    MR_PQ_BYTES,
    MR_PQ_FIXED /* FIXED_LEN_BYTE_ARRAY */
} mr_pq_physical;

typedef enum mr_pq_logical {
    MR_PQ_NO_LOGICAL,
    MR_PQ_STRING,
    MR_PQ_ENUM,
    MR_PQ_JSON,
    MR_PQ_BSON,
    MR_PQ_INTEGER,
    MR_PQ_DECIMAL,
    MR_PQ_DATE,
    MR_PQ_TIME,
    MR_PQ_TIMESTAMP,
    MR_PQ_INTERVAL,
    MR_PQ_UUID,
    MR_PQ_FLOAT16,
    MR_PQ_NULLS,          /* of a column that has only nulls */
    MR_PQ_UNKNOWN_LOGICAL /* one this reader does not know: the column is its physical type */
} mr_pq_logical;

typedef enum mr_pq_codec {
    MR_PQ_UNCOMPRESSED,
    MR_PQ_SNAPPY,
    MR_PQ_GZIP,
    MR_PQ_LZO,
    MR_PQ_BROTLI,
    MR_PQ_LZ4,
    MR_PQ_ZSTD,
    MR_PQ_LZ4_RAW
} mr_pq_codec;

typedef enum mr_pq_encoding {
    MR_PQ_PLAIN = 0,
    MR_PQ_PLAIN_DICTIONARY = 2,
    MR_PQ_RLE = 3,
    MR_PQ_BIT_PACKED = 4,
    MR_PQ_DELTA_BINARY_PACKED = 5,
    MR_PQ_DELTA_LENGTH_BYTE_ARRAY = 6,
    MR_PQ_DELTA_BYTE_ARRAY = 7,
    MR_PQ_RLE_DICTIONARY = 8,
    MR_PQ_BYTE_STREAM_SPLIT = 9
} mr_pq_encoding;

const char *mr_pq_physical_name(mr_pq_physical physical);
const char *mr_pq_logical_name(mr_pq_logical logical);
const char *mr_pq_codec_name(int32_t codec);
const char *mr_pq_encoding_name(int32_t encoding);
bool mr_pq_codec_here(int32_t codec); /* whether this build has it */

/* ---- Footer --------------------------------------------------------------------------------- */
#define MR_PQ_DEPTH 16 /* lists around a value */

/* A leaf of the schema.
 *
 * What a value becomes: integers and floats of their own width (float16 too), booleans bool;
 * DECIMAL float64, the nearest; DATE int32 days, TIME and TIMESTAMP int32 or int64 in the file's
 * unit; INT96 int64 nanoseconds since 1970; strings and bytes uint8 of varying length; UUID,
 * INTERVAL and fixed-length bytes uint8 of that length. */
typedef struct mr_pq_column {
    const char *name; /* the field's: members of structs as "a.b", without the wrappers of lists */
    const char *path; /* all names of the schema: "a.list.element" */
    mr_pq_physical physical;
    mr_pq_logical logical;
    int32_t fixed_size; /* of MR_PQ_FIXED: bytes */
    int32_t bits;       /* of MR_PQ_INTEGER */
    bool is_unsigned;
    int32_t scale, precision; /* of MR_PQ_DECIMAL */
    int32_t per_second;       /* of times: 1000, 1000000, 1000000000 */
    bool utc;
    int32_t max_def, max_rep; /* max_rep is the depth */
    uint8_t
        list_def[MR_PQ_DEPTH]; /* from this definition level on, a list of this depth has an item */
    mr_dtype dtype;
    int32_t items;       /* elements of one value: 1, or the length of fixed bytes; 0: it varies */
    const char *refused; /* why it cannot be read, or NULL */
} mr_pq_column;

/* Bytes with a length; data is NULL where there are none. */
typedef struct mr_pq_bytes {
    const uint8_t *data;
    size_t size;
} mr_pq_bytes;

/* What is known of the values of a chunk or page. */
typedef struct mr_pq_statistics {
    mr_pq_bytes min, max; /* in the physical type's plain form; data NULL: not known */
    int64_t nulls;        /* -1: not known */
} mr_pq_statistics;

/* A column of a row group. */
typedef struct mr_pq_chunk {
    int64_t offset, size;                     /* all its pages, in the file */
    int64_t unpacked_size;                    /* bytes of the pages when decompressed */
    int64_t n_values;                         /* values and nulls */
    int64_t dictionary_at;                    /* in the file; 0: none is named */
    int64_t data_at;                          /* first data page, in the file */
    int64_t offset_index_at, column_index_at; /* in the file; 0: none */
    int32_t offset_index_size, column_index_size;
    mr_pq_statistics statistics;
    uint32_t encodings; /* bits 1 << mr_pq_encoding */
    int32_t codec;
    const char *file;    /* of another file (in _metadata), or NULL */
    const char *refused; /* why it cannot be read, or NULL */
} mr_pq_chunk;

typedef struct mr_pq_group {
    int64_t rows;
    int64_t bytes;       /* unpacked */
    mr_pq_chunk *chunks; /* one for each column */
} mr_pq_group;

typedef struct mr_pq_pair {
    const char *key;
    mr_pq_bytes value;
} mr_pq_pair;

typedef struct mr_pq_file {
    int64_t rows;
    int32_t n_columns, n_groups, n_pairs;
    const mr_pq_column *columns;
    const mr_pq_group *groups;
    const mr_pq_pair *pairs; /* the writer's own */
    const char *created_by;  /* "" where it does not say */
    struct mr_pq_memory *memory;
} mr_pq_file;

/* The last 8 bytes of a file say how many bytes at its end are the footer, these 8 included. */
#define MR_PQ_TAIL 8
mr_status mr_pq_tail(const void *tail, int64_t file_size, int64_t *footer_size, mr_error *err);

/* Parses a footer: the last `size` bytes of a file of file_size bytes. Keeps a copy of what it
 * needs. */
mr_status mr_pq_open(mr_pq_file **out, const void *footer, size_t size, int64_t file_size,
                     mr_error *err);
void mr_pq_close(mr_pq_file *file);

/* The footer without what this reader has no use for, so that the parsed form of many files can be
 * kept: bytes that mr_pq_open_index takes. *out is to be freed with free. */
mr_status mr_pq_index(const mr_pq_file *file, void **out, size_t *size, mr_error *err);
mr_status mr_pq_open_index(mr_pq_file **out, const void *index, size_t size, int64_t file_size,
                           mr_error *err);

/* Row groups of a file _metadata that lie in one other file, of file_size bytes, as that file;
 * whole must outlive it. *out is to be closed even on failure. */
mr_status mr_pq_part(mr_pq_file **out, const mr_pq_file *whole, int32_t first, int32_t n,
                     int64_t file_size, mr_error *err);

/* The value of a pair, or data NULL. */
mr_pq_bytes mr_pq_pair_value(const mr_pq_file *file, const char *key);

/* ---- Columns and fields --------------------------------------------------------------------- */
/* Whether a text fits a pattern with * ? and [a-z]. */
bool mr_pq_matches(const char *pattern, const char *text);

/* Columns that the patterns name: a column's name, a struct's ("a" takes all of a.b and a.c), or a
 * glob pattern. In the file's order, each once. A pattern that fits nothing is refused with the
 * nearest name. n_patterns 0: all. `out` has room for file->n_columns. */
mr_status mr_pq_select(const mr_pq_file *file, const char *const *patterns, int32_t n_patterns,
                       int32_t *out, int32_t *n_out, mr_error *err);
int32_t mr_pq_find(const mr_pq_file *file, const char *name); /* -1: none */

/* What becomes of nulls. */
typedef enum mr_pq_null_policy {
    MR_PQ_NULL_ERROR, /* an error that names row and column */
    MR_PQ_NULL_FILL,  /* a value in its place; null lists and strings become empty ones */
    MR_PQ_NULL_MASK   /* as fill, and a field NAME.mask is true where there was a value */
} mr_pq_null_policy;

typedef struct mr_pq_nulls {
    mr_pq_null_policy policy;
    double fill;           /* for numbers; must be exact in the column's type */
    mr_pq_bytes fill_text; /* for strings and bytes; at least as long as the vector lives */
    /* Of MR_PQ_NULL_ERROR: rows of the row group, ascending, whose nulls count. NULL: all. */
    const uint32_t *rows;
    int64_t n_rows;
} mr_pq_nulls;

/* What a field shows of a column. */
typedef enum mr_pq_role {
    MR_PQ_VALUES,  /* the values; those of nested lists one after the other */
    MR_PQ_MASK,    /* bool: for each cell, whether it holds a value */
    MR_PQ_LENGTHS, /* int64: lengths of the lists (last of the strings) at a depth below the first
                    */
} mr_pq_role;

/* A field of a sample. Dimensions of -1 vary; a list that is given a length in mr_pq_fields is
 * dense. */
typedef struct mr_pq_field {
    char name[256];
    int32_t column;
    mr_pq_role role;
    int32_t depth; /* of MR_PQ_LENGTHS */
    mr_type type;
} mr_pq_field;

/* The fields of a column: values, then mask and lengths where there are any. `length` > 0: lists of
 * the first depth have this length. Gives at most MR_PQ_FIELDS. */
#define MR_PQ_FIELDS (MR_PQ_DEPTH + 2)
int32_t mr_pq_fields(const mr_pq_file *file, int32_t column, mr_pq_null_policy policy,
                     int64_t length, mr_pq_field out[MR_PQ_FIELDS]);

/* The one length that all lists of a column of depth 1 may have, as far as the counts of the footer
 * can tell, or 0. The vector's `length` proves it. */
int64_t mr_pq_list_length(const mr_pq_file *file, int32_t column);

/* ---- Bytes ---------------------------------------------------------------------------------- */
typedef struct mr_pq_extent {
    int64_t offset, size;
} mr_pq_extent;

/* Where the pages of a column of a row group lie. */
mr_status mr_pq_chunk_extent(const mr_pq_file *file, int32_t group, int32_t column,
                             mr_pq_extent *out, mr_error *err);

/* The pages of a chunk, from its offset index. */
typedef struct mr_pq_page {
    int64_t offset, size; /* in the file, header included */
    int64_t first_row;    /* in the row group */
    mr_pq_statistics statistics;
    bool all_null;
} mr_pq_page;

typedef struct mr_pq_pages {
    int32_t n;
    mr_pq_page *pages; /* one allocation, freed with free */
} mr_pq_pages;

/* Parses an offset index and (size 0: none) a column index. The bytes must outlive the result,
 * whose statistics point into them. */
mr_status mr_pq_pages_parse(const mr_pq_file *file, int32_t group, int32_t column,
                            mr_pq_bytes offset_index, mr_pq_bytes column_index, mr_pq_pages *out,
                            mr_error *err);

/* Rows [from, to) of a row group. */
typedef struct mr_pq_range {
    int64_t from, to;
} mr_pq_range;

/* The parts of a chunk that hold some rows: its dictionary, and the pages that have rows of the
 * ranges (ascending, apart). Touching parts are joined. `out` has room for pages->n + 1. */
int32_t mr_pq_page_extents(const mr_pq_file *file, int32_t group, int32_t column,
                           const mr_pq_pages *pages, const mr_pq_range *ranges, int32_t n_ranges,
                           mr_pq_extent *out);

/* ---- Decoding ------------------------------------------------------------------------------- */
/* A column of a row group in memory. */
typedef struct mr_pq_vector {
    const mr_pq_column *column;
    int64_t n_rows;
    int64_t n_cells; /* of values, null ones included; absent or empty lists have none */
    int64_t n_nulls; /* cells without a value, and lists that are null */
    void *values;    /* n_cells x items of column->dtype; of strings n_cells mr_pq_bytes */
    uint8_t *valid;  /* n_cells: 0 where null. NULL: no cell is null */
    /* Lists by depth. offsets[d][i] is the first item of list i, and there is one more at the end;
     * NULL where all have `length[d]` items. Items of depth d are lists of d + 1, or at last cells.
     */
    int64_t n_lists[MR_PQ_DEPTH];
    int64_t *offsets[MR_PQ_DEPTH];
    int64_t length[MR_PQ_DEPTH];
    uint8_t *list_valid[MR_PQ_DEPTH]; /* NULL: no list is null */
    /* Rows that are here, where not all of the row group are: ascending ranges. NULL: all. */
    mr_pq_range *ranges;
    int64_t *range_start; /* position in the vector of each range's first row */
    int32_t n_ranges;
    int64_t bytes; /* of memory */
    struct mr_pq_owned *owned;
} mr_pq_vector;

/* Scratch memory and decompressors of one thread. */
typedef struct mr_pq_decoder mr_pq_decoder;
typedef struct mr_pq_limits {
    int64_t bytes; /* that a vector and its pages may take; 0: 4 GB */
} mr_pq_limits;

/* allocator: for vectors (NULL: the default one); must outlive them. */
mr_status mr_pq_decoder_new(mr_pq_decoder **out, uint32_t cpu_features,
                            const mr_allocator *allocator, const mr_pq_limits *limits,
                            mr_error *err);
void mr_pq_decoder_free(mr_pq_decoder *decoder);

/* What becomes of a column's values: each is made into a number by itself. Values of a dictionary
 * are made into numbers once. */
typedef struct mr_pq_map {
    size_t size; /* of such a number: 1, 2, 4 or 8 bytes */
    /* n values as a vector has them (of strings mr_pq_bytes) to n numbers. */
    mr_status (*run)(const struct mr_pq_map *map, const void *values, int64_t n, void *out,
                     mr_error *err);
} mr_pq_map;

/* What is to be decoded: a column of a row group.
 *
 * bytes are those of the chunk's extent; strings of the vector may point into them, so they must
 * outlive it. With `pages`, only pages that have rows of the ranges (ascending, apart) are decoded,
 * and only what mr_pq_page_extents gave need be there: the vector has these pages' rows, and its
 * ranges say which. */
typedef struct mr_pq_job {
    const mr_pq_file *file;
    int32_t group, column;
    mr_pq_bytes bytes;
    mr_pq_nulls nulls;
    const mr_pq_pages *pages; /* NULL: all rows */
    const mr_pq_range *ranges;
    int32_t n_ranges;
    const mr_pq_map *map; /* (optional) of a column without lists, one value a cell: the vector's
                             values are what it makes of them, and of what nulls are filled with */
} mr_pq_job;

mr_status mr_pq_decode(mr_pq_decoder *decoder, const mr_pq_job *job, mr_pq_vector **out,
                       mr_error *err);
void mr_pq_vector_free(mr_pq_vector *vector);

/* ---- Rows ----------------------------------------------------------------------------------- */
/* Bytes of one row of a field where all rows have as many, or -1. */
int64_t mr_pq_row_size(const mr_pq_vector *vector, const mr_pq_field *field);

/* Copies rows (numbers in the row group) of a field whose rows have all one size: the i-th to base
 * + i * stride. */
mr_status mr_pq_copy(const mr_pq_vector *vector, const mr_pq_field *field, const int64_t *rows,
                     int64_t n, void *base, size_t stride, mr_error *err);

/* Of a ragged field: elements of a row, and the row itself. */
int64_t mr_pq_row_length(const mr_pq_vector *vector, const mr_pq_field *field, int64_t row);
void mr_pq_row_copy(const mr_pq_vector *vector, const mr_pq_field *field, int64_t row, void *to);

/* The bytes of a row of a string column (depth 0), in place. */
mr_pq_bytes mr_pq_row_bytes(const mr_pq_vector *vector, int64_t row);

/* ---- Conditions -----------------------------------------------------------------------------
 * A condition is a JSON array, operator first:
 *
 *     ["and", [">", "age", 30], ["in", "country", ["DE", "FR"]], ["not", ["is_null", "income"]]]
 *
 * == != < <= > >= compare a column with a number, text or boolean; in, not_in take an array;
 * is_null and not_null a column; and, or, not conditions. A comparison with null is neither true
 * nor false, as in SQL; rows where the whole is true are taken. Texts compare by bytes. NaN equals
 * nothing. Columns have depth 0. */
typedef struct mr_pq_where mr_pq_where;

/* `partitions` (NULL: none) are columns that stand in the file's path: see mr_pq_partitions. */
mr_status mr_pq_where_new(mr_pq_where **out, const mr_pq_file *file, json_t *condition,
                          json_t *partitions, mr_error *err);
void mr_pq_where_free(mr_pq_where *where);

/* The file's columns that the condition needs, ascending. */
int32_t mr_pq_where_columns(const mr_pq_where *where, const int32_t **columns);

typedef enum mr_pq_verdict { MR_PQ_NO_ROW, MR_PQ_SOME_ROWS, MR_PQ_ALL_ROWS } mr_pq_verdict;

/* What the statistics tell about a row group. */
mr_pq_verdict mr_pq_where_group(const mr_pq_where *where, int32_t group);

/* The ranges of rows that the page index leaves over. pages: one for each of mr_pq_where_columns;
 * n 0 where there is no index. *ranges is to be freed with free. */
mr_status mr_pq_where_pages(const mr_pq_where *where, int32_t group, const mr_pq_pages *pages,
                            mr_pq_range **ranges, int32_t *n_ranges, mr_error *err);

/* Rows of the row group for which the condition is true: bit r of `bitmap` (of (rows + 7) / 8
 * bytes, written whole) for row r. vectors: one for each of mr_pq_where_columns, decoded with
 * MR_PQ_NULL_FILL; rows that a vector does not have count as not true. */
mr_status mr_pq_where_rows(const mr_pq_where *where, int32_t group,
                           const mr_pq_vector *const *vectors, uint8_t *bitmap, int64_t *n_rows,
                           mr_error *err);

/* ---- Folders and other people's conventions ------------------------------------------------- */
/* The columns that a path's folders name, as "year=2024/month=5": an object of texts, with %XX
 * undone; __HIVE_DEFAULT_PARTITION__ gives null. `root` of the path is left out. NULL: out of
 * memory. */
json_t *mr_pq_partitions(const char *root, const char *path);

/* The columns `name`.bytes and `name`.path of an image or audio column as Hugging Face writes them.
 */
bool mr_pq_is_bytes_and_path(const mr_pq_file *file, const char *name, int32_t *bytes,
                             int32_t *path);

/* What a column is to such a struct, whose name is put into `name`. */
typedef enum mr_pq_image_part {
    MR_PQ_NO_IMAGE,
    MR_PQ_IMAGE_BYTES, /* as a field it has the struct's name */
    MR_PQ_IMAGE_PATH   /* there may be none */
} mr_pq_image_part;

mr_pq_image_part mr_pq_image_part_of(const mr_pq_file *file, int32_t column, char name[256]);

/* What Petastorm says of a column, in the value of MR_PQ_PETASTORM among a data set's pairs (in
 * _common_metadata): a Python pickle, of which nothing is run. */
#define MR_PQ_PETASTORM "dataset-toolkit.unischema.v1"

typedef enum mr_pq_petastorm_codec {
    MR_PQ_SCALAR_CODEC,
    MR_PQ_NDARRAY_CODEC,            /* the bytes are an .npy file */
    MR_PQ_COMPRESSED_NDARRAY_CODEC, /* an .npz file whose one array is "arr": mr_pq_unzip */
    MR_PQ_COMPRESSED_IMAGE_CODEC    /* a PNG or JPEG file */
} mr_pq_petastorm_codec;

typedef struct mr_pq_tensor {
    char name[256];
    mr_pq_petastorm_codec codec;
    mr_type type; /* of the decoded value; -1 where a dimension varies */
    bool text;    /* a string or a decimal rather than type.dtype */
    bool nullable;
} mr_pq_tensor;

mr_status mr_pq_petastorm(mr_pq_bytes pickle, mr_pq_tensor *out, int32_t capacity, int32_t *n,
                          mr_error *err);

/* The first file of a zip archive, in the decoder's scratch memory: good until its next use. */
mr_status mr_pq_unzip(mr_pq_decoder *decoder, mr_pq_bytes zip, mr_pq_bytes *out, mr_error *err);

/* ---- For people ----------------------------------------------------------------------------- */
/* The schema, the row groups and what a loader would make of each column, as text or JSON. A
 * column's `encodings` are those the footer names. Freed with mr_free. */
mr_status mr_pq_describe(const mr_pq_file *file, bool json, char **out, mr_error *err);

#endif
