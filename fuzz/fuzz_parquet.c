/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the Parquet reader, as a whole file, as an index of one, and as pages: the first
 * byte chooses. Whatever opens is decoded to its last column, with limits; what is refused must say
 * why.
 *
 * As pages, the next bytes choose a column's type, levels and codec, so that encodings are met
 * without a footer that fits. */
#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "parquet/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void look_at(const mr_pq_vector *vector) {
    const mr_pq_column *column = vector->column;
    mr_pq_field field = {.role = MR_PQ_VALUES, .type = {.dtype = column->dtype}};
    size_t sum = 0;
    for (int64_t row = 0; row < vector->n_rows && row < 64; row++) {
        int64_t length = mr_pq_row_length(vector, &field, row);
        want(length >= 0);
        uint8_t *copy = malloc((size_t)length * mr_dtype_size(column->dtype) + 1);
        mr_pq_row_copy(vector, &field, row, copy);
        for (int64_t i = 0; i < length; i++) {
            sum += copy[i];
        }
        free(copy);
    }
    want(sum < SIZE_MAX); /* the bytes were read */
}

/* A number that every byte of a value has a part in. */
typedef struct sum_map {
    mr_pq_map map; /* first */
    const mr_pq_column *column;
} sum_map;

static uint32_t sum_of(const uint8_t *bytes, size_t size) {
    uint32_t sum = (uint32_t)size;
    for (size_t i = 0; i < size; i++) {
        sum = sum * 31 + bytes[i];
    }
    return sum;
}

static mr_status sum_values(const mr_pq_map *map, const void *values, int64_t n, void *out,
                            mr_error *err) {
    const mr_pq_column *column = ((const sum_map *)(const void *)map)->column;
    size_t width = mr_pq_cell_size(column);
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *at = (const uint8_t *)values + (size_t)i * width;
        mr_pq_bytes text = {at, width};
        if (column->items == 0) {
            memcpy(&text, at, sizeof text);
        }
        uint32_t sum = sum_of(text.data, text.size);
        memcpy((uint8_t *)out + (size_t)i * sizeof sum, &sum, sizeof sum);
    }
    return MR_OK;
}

/* What was mapped as it was decoded is what is mapped afterwards. */
static void decode_mapped(uint32_t cpu, mr_pq_job job, const mr_pq_vector *plain) {
    static const mr_pq_limits limits = {.bytes = 128
                                                 << 20}; /* a bool becomes four times as large */
    const mr_pq_column *column = plain->column;
    mr_pq_decoder *decoder;
    const sum_map map = {{sizeof(uint32_t), sum_values}, column};
    mr_pq_vector *mapped = NULL;
    if (column->max_rep > 0 || column->items > 1) {
        return;
    }
    job.map = &map.map;
    want(mr_pq_decoder_new(&decoder, cpu, NULL, &limits, NULL) == MR_OK);
    want(mr_pq_decode(decoder, &job, &mapped, NULL) == MR_OK);
    want(mapped->n_cells == plain->n_cells && mapped->n_rows == plain->n_rows);
    size_t size = (size_t)plain->n_cells * sizeof(uint32_t);
    uint8_t *sums = malloc(size + 1);
    want(sums && sum_values(&map.map, plain->values, plain->n_cells, sums, NULL) == MR_OK);
    want(size == 0 || memcmp(sums, mapped->values, size) == 0);
    free(sums);
    mr_pq_vector_free(mapped);
    mr_pq_decoder_free(decoder);
}

static void decode(const mr_pq_file *file, int32_t group, int32_t column, mr_pq_bytes bytes) {
    static const mr_pq_limits limits = {.bytes = 16 << 20};
    mr_pq_job job = {.file = file,
                     .group = group,
                     .column = column,
                     .bytes = bytes,
                     .nulls = {.policy = MR_PQ_NULL_FILL}};
    mr_error err = MR_ERROR_INIT, other = MR_ERROR_INIT;
    mr_pq_decoder *fast, *scalar;
    mr_pq_vector *a = NULL, *b = NULL;
    uint32_t cpu = 0;
    mr_cpu_features(NULL, &cpu, NULL);
    want(mr_pq_decoder_new(&fast, cpu, NULL, &limits, NULL) == MR_OK);
    want(mr_pq_decoder_new(&scalar, 0, NULL, &limits, NULL) == MR_OK);
    mr_status status = mr_pq_decode(fast, &job, &a, &err);
    want(status == mr_pq_decode(scalar, &job, &b, &other));
    if (status == MR_OK) {
        want(a->n_cells == b->n_cells);
        want(a->column->items == 0 || a->n_cells == 0 ||
             memcmp(a->values, b->values, (size_t)a->n_cells * mr_pq_cell_size(a->column)) == 0);
        look_at(a);
        decode_mapped(cpu, job, a);
    } else {
        want(err.code == status && err.text[0] != '\0');
    }
    mr_pq_vector_free(a);
    mr_pq_vector_free(b);
    mr_pq_decoder_free(fast);
    mr_pq_decoder_free(scalar);
}

static void decode_all(const mr_pq_file *file, const uint8_t *data, size_t size) {
    mr_error err = MR_ERROR_INIT;
    for (int32_t g = 0; g < file->n_groups && g < 4; g++) {
        for (int32_t c = 0; c < file->n_columns && c < 16; c++) {
            mr_pq_extent extent;
            if (file->groups[g].chunks[c].file ||
                mr_pq_chunk_extent(file, g, c, &extent, &err) < 0) {
                continue;
            }
            want(extent.offset >= 0 && extent.size >= 0 &&
                 (uint64_t)extent.offset + (uint64_t)extent.size <= size);
            decode(file, g, c, (mr_pq_bytes){data + extent.offset, (size_t)extent.size});
        }
    }
}

static void describe(const mr_pq_file *file) {
    char *text = NULL;
    void *index = NULL;
    size_t size = 0;
    want(mr_pq_describe(file, false, &text, NULL) == MR_OK);
    free(text);
    want(mr_pq_index(file, &index, &size, NULL) == MR_OK);
    free(index);
}

static void pages_index(const mr_pq_file *file, const uint8_t *data) {
    for (int32_t g = 0; g < file->n_groups && g < 2; g++) {
        for (int32_t c = 0; c < file->n_columns && c < 8; c++) {
            const mr_pq_chunk *chunk = &file->groups[g].chunks[c];
            mr_pq_bytes offsets = {data + chunk->offset_index_at, (size_t)chunk->offset_index_size};
            mr_pq_bytes values = {data + chunk->column_index_at, (size_t)chunk->column_index_size};
            mr_pq_pages pages = {0, NULL};
            mr_error err = MR_ERROR_INIT;
            if (chunk->file || mr_pq_pages_parse(file, g, c, offsets, values, &pages, &err) < 0) {
                continue;
            }
            free(pages.pages);
        }
    }
}

static void whole_file(const uint8_t *data, size_t size) {
    mr_pq_file *file = NULL;
    mr_error err = MR_ERROR_INIT;
    int64_t footer = 0;
    if (size < MR_PQ_TAIL ||
        mr_pq_tail(data + size - MR_PQ_TAIL, (int64_t)size, &footer, &err) < 0) {
        return;
    }
    want((size_t)footer <= size);
    mr_status status =
        mr_pq_open(&file, data + size - (size_t)footer, (size_t)footer, (int64_t)size, &err);
    if (status == MR_OK) {
        describe(file);
        pages_index(file, data);
        decode_all(file, data, size);
        mr_pq_close(file);
    } else {
        want(err.code == status && err.text[0] != '\0');
    }
}

static void only_footer(const uint8_t *data, size_t size) {
    mr_pq_file *file = NULL;
    mr_error err = MR_ERROR_INIT;
    if (mr_pq_open_index(&file, data, size, (int64_t)1 << 40, &err) == MR_OK) {
        describe(file);
        mr_pq_close(file);
    }
}

/* Type, levels, codec, rows and values, then pages. */
static void only_pages(const uint8_t *data, size_t size) {
    if (size < 6) {
        return;
    }
    mr_pq_column column = {.name = "x", .path = "x"};
    column.physical = (mr_pq_physical)(data[0] % 8);
    column.fixed_size = 1 + data[1] % 33;
    column.max_rep = data[2] % 3;
    column.max_def = column.max_rep + data[2] / 3 % 3;
    for (int32_t d = 0; d < column.max_rep; d++) {
        column.list_def[d] = (uint8_t)(d + 1 + (column.max_def > column.max_rep));
    }
    static const mr_dtype dtypes[] = {MR_BOOL, MR_I32, MR_I64, MR_I64,
                                      MR_F32,  MR_F64, MR_U8,  MR_U8};
    column.dtype = dtypes[column.physical];
    column.items = column.physical == MR_PQ_BYTES   ? 0
                   : column.physical == MR_PQ_FIXED ? column.fixed_size
                                                    : 1;
    mr_pq_chunk chunk = {.size = (int64_t)size - 6, .codec = data[3] % 8};
    if (!mr_pq_codec_here(chunk.codec)) {
        return;
    }
    mr_pq_group group = {.rows = data[4], .chunks = &chunk};
    chunk.n_values = column.max_rep ? group.rows + data[5] : group.rows;
    mr_pq_file file = {
        .rows = group.rows, .n_columns = 1, .n_groups = 1, .columns = &column, .groups = &group};
    decode(&file, 0, 0, (mr_pq_bytes){data + 6, size - 6});
}

static void only_petastorm(const uint8_t *data, size_t size) {
    static mr_pq_tensor fields[64];
    mr_error err = MR_ERROR_INIT;
    int32_t n = 0;
    mr_status status = mr_pq_petastorm((mr_pq_bytes){data, size}, fields, 64, &n, &err);
    want(status == MR_OK || (err.code == status && err.text[0] != '\0'));
}

static void only_zip(const uint8_t *data, size_t size) {
    static const mr_pq_limits limits = {.bytes = 1 << 20};
    mr_pq_decoder *decoder;
    mr_pq_bytes out = {NULL, 0};
    want(mr_pq_decoder_new(&decoder, 0, NULL, &limits, NULL) == MR_OK);
    mr_pq_unzip(decoder, (mr_pq_bytes){data, size}, &out, NULL);
    mr_pq_decoder_free(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const ways[])(const uint8_t *, size_t) = {whole_file, only_footer, only_pages,
                                                            only_petastorm, only_zip};
    if (size > 0) {
        ways[data[0] % 5](data + 1, size - 1);
    }
    return 0;
}
