/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_probe.c - the Parquet reader for tests in Python: what the library keeps to itself,
 * exported with arguments that ctypes can pass. Built only for tests. */
#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "core/json.h"
#include "parquet/parquet.h"

MR_API void *probe_open(const void *data, size_t size, mr_error *err);
MR_API void *probe_reopen(const mr_pq_file *file, int64_t file_size, int64_t *size, mr_error *err);
MR_API void probe_close(mr_pq_file *file);
MR_API void *probe_decoder(bool scalar);
MR_API void probe_decoder_free(mr_pq_decoder *decoder);
MR_API void *probe_decode(mr_pq_decoder *decoder, const mr_pq_file *file, int32_t group,
                          int32_t column, const void *data, int32_t policy, double fill,
                          mr_error *err);
MR_API void *probe_decode_ranges(mr_pq_decoder *decoder, const mr_pq_file *file, int32_t group,
                                 int32_t column, const uint8_t *data, const mr_pq_range *ranges,
                                 int32_t n_ranges, int64_t *bytes, mr_error *err);
MR_API void probe_free(mr_pq_vector *vector);
MR_API int32_t probe_select(const mr_pq_file *file, const char *pattern, int32_t *out,
                            mr_error *err);
MR_API char *probe_describe(const mr_pq_file *file, bool json);
MR_API int32_t probe_fields(const mr_pq_file *file, int32_t column, int32_t policy, int64_t length,
                            mr_pq_field *out);
MR_API int32_t probe_copy(const mr_pq_vector *vector, const mr_pq_field *field, const int64_t *rows,
                          int64_t n, void *base, size_t stride, mr_error *err);
MR_API int64_t probe_row(const mr_pq_vector *vector, const mr_pq_field *field, int64_t row,
                         void *to);
MR_API int32_t probe_where(mr_pq_decoder *decoder, const mr_pq_file *file, int32_t group,
                           const uint8_t *data, const char *condition, const char *partitions,
                           bool use_pages, uint8_t *bitmap, int64_t *n_rows, mr_error *err);
MR_API int32_t probe_petastorm(const void *data, size_t size, mr_pq_tensor *out, int32_t capacity,
                               mr_error *err);
MR_API int64_t probe_unzip(mr_pq_decoder *decoder, const void *data, size_t size, void *to,
                           int64_t room, mr_error *err);
MR_API char *probe_partitions(const char *root, const char *path);

void *probe_open(const void *data, size_t size, mr_error *err) {
    mr_pq_file *file = NULL;
    int64_t footer = 0;
    if (size < MR_PQ_TAIL) {
        mr_fail(err, MR_E_CORRUPT, "shorter than a Parquet file");
        return NULL;
    }
    const uint8_t *end = (const uint8_t *)data + size;
    if (mr_pq_tail(end - MR_PQ_TAIL, (int64_t)size, &footer, err) == MR_OK) {
        mr_pq_open(&file, end - footer, (size_t)footer, (int64_t)size, err);
    }
    return file;
}

void *probe_reopen(const mr_pq_file *file, int64_t file_size, int64_t *size, mr_error *err) {
    void *index = NULL;
    size_t bytes = 0;
    mr_pq_file *again = NULL;
    if (mr_pq_index(file, &index, &bytes, err) == MR_OK) {
        mr_pq_open_index(&again, index, bytes, file_size, err);
    }
    free(index);
    *size = (int64_t)bytes;
    return again;
}

void probe_close(mr_pq_file *file) {
    mr_pq_close(file);
}

void *probe_decoder(bool scalar) {
    mr_pq_decoder *decoder = NULL;
    uint32_t cpu = 0;
    mr_cpu_features(NULL, &cpu, NULL);
    mr_pq_decoder_new(&decoder, scalar ? 0 : cpu, NULL, NULL, NULL);
    return decoder;
}

void probe_decoder_free(mr_pq_decoder *decoder) {
    mr_pq_decoder_free(decoder);
}

/* data: the whole file */
void *probe_decode(mr_pq_decoder *decoder, const mr_pq_file *file, int32_t group, int32_t column,
                   const void *data, int32_t policy, double fill, mr_error *err) {
    mr_pq_vector *vector = NULL;
    mr_pq_extent extent;
    mr_pq_nulls nulls = {.policy = (mr_pq_null_policy)policy, .fill = fill};
    if (mr_pq_chunk_extent(file, group, column, &extent, err) == MR_OK) {
        mr_pq_bytes bytes = {(const uint8_t *)data + extent.offset, (size_t)extent.size};
        mr_pq_job job = {
            .file = file, .group = group, .column = column, .bytes = bytes, .nulls = nulls};
        mr_pq_decode(decoder, &job, &vector, err);
    }
    return vector;
}

static mr_status pages_of(const mr_pq_file *file, int32_t group, int32_t column,
                          const uint8_t *data, mr_pq_pages *pages, mr_error *err) {
    const mr_pq_chunk *chunk = &file->groups[group].chunks[column];
    mr_pq_bytes offsets = {data + chunk->offset_index_at, (size_t)chunk->offset_index_size};
    mr_pq_bytes values = {data + chunk->column_index_at, (size_t)chunk->column_index_size};
    *pages = (mr_pq_pages){0, NULL};
    return offsets.size ? mr_pq_pages_parse(file, group, column, offsets, values, pages, err)
                        : MR_OK;
}

/* Only the bytes that the ranges need are there; *bytes is how many that are. */
static uint8_t *sparse_chunk(const mr_pq_file *file, int32_t group, int32_t column,
                             const uint8_t *data, const mr_pq_pages *pages,
                             const mr_pq_range *ranges, int32_t n_ranges, int64_t *bytes) {
    const mr_pq_chunk *chunk = &file->groups[group].chunks[column];
    mr_pq_extent *extents = calloc((size_t)pages->n + 1, sizeof *extents);
    uint8_t *sparse = calloc(1, (size_t)chunk->size + 1);
    int32_t n = mr_pq_page_extents(file, group, column, pages, ranges, n_ranges, extents);
    *bytes = 0;
    for (int32_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < extents[i].size; k++) {
            sparse[extents[i].offset - chunk->offset + k] = data[extents[i].offset + k];
        }
        *bytes += extents[i].size;
    }
    free(extents);
    return sparse;
}

void *probe_decode_ranges(mr_pq_decoder *decoder, const mr_pq_file *file, int32_t group,
                          int32_t column, const uint8_t *data, const mr_pq_range *ranges,
                          int32_t n_ranges, int64_t *bytes, mr_error *err) {
    mr_pq_vector *vector = NULL;
    mr_pq_pages pages;
    mr_pq_nulls nulls = {.policy = MR_PQ_NULL_FILL};
    if (pages_of(file, group, column, data, &pages, err) < 0) {
        return NULL;
    }
    uint8_t *sparse =
        sparse_chunk(file, group, column, data, &pages, ranges, n_ranges, bytes); /* leaks: tests */
    mr_pq_bytes chunk = {sparse, (size_t)file->groups[group].chunks[column].size};
    mr_pq_job job = {.file = file,
                     .group = group,
                     .column = column,
                     .bytes = chunk,
                     .nulls = nulls,
                     .pages = &pages,
                     .ranges = ranges,
                     .n_ranges = n_ranges};
    mr_pq_decode(decoder, &job, &vector, err);
    free(pages.pages);
    return vector;
}

void probe_free(mr_pq_vector *vector) {
    mr_pq_vector_free(vector);
}

int32_t probe_select(const mr_pq_file *file, const char *pattern, int32_t *out, mr_error *err) {
    int32_t n = 0;
    return mr_pq_select(file, &pattern, 1, out, &n, err) < 0 ? -1 : n;
}

char *probe_describe(const mr_pq_file *file, bool json) {
    char *text = NULL;
    mr_pq_describe(file, json, &text, NULL);
    return text;
}

int32_t probe_fields(const mr_pq_file *file, int32_t column, int32_t policy, int64_t length,
                     mr_pq_field *out) {
    return mr_pq_fields(file, column, (mr_pq_null_policy)policy, length, out);
}

int32_t probe_copy(const mr_pq_vector *vector, const mr_pq_field *field, const int64_t *rows,
                   int64_t n, void *base, size_t stride, mr_error *err) {
    return mr_pq_copy(vector, field, rows, n, base, stride, err);
}

/* to NULL: the length; otherwise the row */
int64_t probe_row(const mr_pq_vector *vector, const mr_pq_field *field, int64_t row, void *to) {
    if (to) {
        mr_pq_row_copy(vector, field, row, to);
        return 0;
    }
    return mr_pq_row_length(vector, field, row);
}

static json_t *load(const char *text) {
    json_t *json = NULL;
    json_error_t why;
    if (text) {
        mr_json_load(&json, text, __builtin_strlen(text), JSON_DECODE_ANY, &why);
    }
    return json;
}

/* Evaluates a condition over a row group, by pages where asked. Returns the verdict of the
 * statistics, or a negative status. */
int32_t probe_where(mr_pq_decoder *decoder, const mr_pq_file *file, int32_t group,
                    const uint8_t *data, const char *condition, const char *partitions,
                    bool use_pages, uint8_t *bitmap, int64_t *n_rows, mr_error *err) {
    json_t *json = load(condition), *parts = load(partitions);
    mr_pq_where *where = NULL;
    mr_status status = mr_pq_where_new(&where, file, json, parts, err);
    json_decref(json);
    json_decref(parts);
    if (status < 0) {
        return status;
    }
    const int32_t *columns;
    int32_t n = mr_pq_where_columns(where, &columns), n_ranges = 0;
    mr_pq_verdict verdict = mr_pq_where_group(where, group);
    mr_pq_pages *pages = calloc((size_t)n + 1, sizeof *pages);
    mr_pq_vector **vectors = calloc((size_t)n + 1, sizeof *vectors);
    mr_pq_range *ranges = NULL;
    for (int32_t i = 0; use_pages && i < n; i++) {
        pages_of(file, group, columns[i], data, &pages[i], err);
    }
    if (use_pages) {
        status = mr_pq_where_pages(where, group, pages, &ranges, &n_ranges, err);
    }
    for (int32_t i = 0; i < n && status >= 0; i++) {
        int64_t bytes;
        vectors[i] =
            use_pages && pages[i].n
                ? probe_decode_ranges(decoder, file, group, columns[i], data, ranges, n_ranges,
                                      &bytes, err)
                : probe_decode(decoder, file, group, columns[i], data, MR_PQ_NULL_FILL, 0, err);
        status = vectors[i] ? MR_OK : err->code;
    }
    if (status >= 0) {
        status = mr_pq_where_rows(where, group, (const mr_pq_vector *const *)vectors, bitmap,
                                  n_rows, err);
    }
    for (int32_t i = 0; i < n; i++) {
        mr_pq_vector_free(vectors[i]);
        free(pages[i].pages);
    }
    free(ranges);
    free(pages);
    free(vectors);
    mr_pq_where_free(where);
    return status < 0 ? (int32_t)status : (int32_t)verdict;
}

char *probe_partitions(const char *root, const char *path) {
    json_t *json = mr_pq_partitions(root, path);
    char *text = json_dumps(json, JSON_SORT_KEYS);
    json_decref(json);
    return text;
}

int32_t probe_petastorm(const void *data, size_t size, mr_pq_tensor *out, int32_t capacity,
                        mr_error *err) {
    int32_t n = 0;
    return mr_pq_petastorm((mr_pq_bytes){data, size}, out, capacity, &n, err) < 0 ? -1 : n;
}

int64_t probe_unzip(mr_pq_decoder *decoder, const void *data, size_t size, void *to, int64_t room,
                    mr_error *err) {
    mr_pq_bytes out = {NULL, 0};
    if (mr_pq_unzip(decoder, (mr_pq_bytes){data, size}, &out, err) < 0) {
        return -1;
    }
    if ((int64_t)out.size <= room) {
        memcpy(to, out.data, out.size);
    }
    return (int64_t)out.size;
}
