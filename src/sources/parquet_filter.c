/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_filter.c - see parquet_filter.h. */
#include "sources/parquet_filter.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/file.h"
#include "sources/parquet_files.h"

#include <millrace/millrace.h>

/* ---- Reading the columns of a condition ---- */
/* One of them, of a row group. */
typedef struct filter_column {
    int32_t column;
    void *indices; /* bytes of the offset index and of the column index */
    mr_pq_pages pages;
    void *bytes; /* of the chunk; pages that are not wanted were not read */
    mr_pq_vector *vector;
} filter_column;

typedef struct filter {
    const mr_pq_set_file *file;
    mr_pq_where *where;
    mr_pq_decoder *decoder;
    filter_column *columns;
    int32_t n_columns;
    mr_pq_range *ranges; /* rows that the page index leaves */
    int32_t n_ranges;
} filter;

static mr_status read_page_index(const filter *f, int32_t group, filter_column *own,
                                 mr_error *err) {
    const mr_pq_chunk *chunk = &f->file->file->groups[group].chunks[own->column];
    int64_t offsets = chunk->offset_index_size, bounds = chunk->column_index_size;
    if (offsets == 0) {
        return MR_OK;
    }
    own->indices = malloc((size_t)(offsets + bounds));
    if (!own->indices) {
        return mr_fail_memory(err, (size_t)(offsets + bounds));
    }
    uint8_t *at = own->indices;
    MR_TRY(mr_pq_read_bytes(f->file->path, chunk->offset_index_at, offsets, at, err));
    if (bounds > 0) {
        MR_TRY(mr_pq_read_bytes(f->file->path, chunk->column_index_at, bounds, at + offsets, err));
    }
    return mr_pq_pages_parse(f->file->file, group, own->column, (mr_pq_bytes){at, (size_t)offsets},
                             (mr_pq_bytes){at + offsets, (size_t)bounds}, &own->pages, err);
}

static mr_status rule_pages_out(filter *f, int32_t group, mr_error *err) {
    mr_pq_pages *pages = mr_zalloc((size_t)f->n_columns + 1, sizeof *pages);
    if (!pages) {
        return mr_fail_memory(err, (size_t)f->n_columns * sizeof *pages);
    }
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < f->n_columns; i++) {
        status = read_page_index(f, group, &f->columns[i], err);
        pages[i] = f->columns[i].pages;
    }
    if (status == MR_OK) {
        status = mr_pq_where_pages(f->where, group, pages, &f->ranges, &f->n_ranges, err);
    }
    mr_free(pages);
    return status;
}

/* Which parts of the chunk are to be read. */
static int32_t list_parts(const filter *f, int32_t group, const filter_column *own,
                          mr_pq_extent whole, mr_pq_extent *out) {
    if (own->pages.n == 0) {
        out[0] = whole;
        return 1;
    }
    return mr_pq_page_extents(f->file->file, group, own->column, &own->pages, f->ranges,
                              f->n_ranges, out);
}

static mr_status read_parts(const filter *f, int32_t group, filter_column *own, mr_pq_extent whole,
                            mr_error *err) {
    mr_pq_extent *parts = mr_zalloc((size_t)own->pages.n + 1, sizeof *parts);
    own->bytes = calloc((size_t)whole.size + 1, 1);
    if (!parts || !own->bytes) {
        mr_free(parts);
        return mr_fail_memory(err, (size_t)whole.size);
    }
    mr_status status = MR_OK;
    int32_t n = list_parts(f, group, own, whole, parts);
    for (int32_t i = 0; status == MR_OK && i < n; i++) {
        status = mr_pq_read_bytes(f->file->path, parts[i].offset, parts[i].size,
                                  (uint8_t *)own->bytes + (parts[i].offset - whole.offset), err);
    }
    mr_free(parts);
    return status;
}

static mr_status decode_column(const filter *f, int32_t group, filter_column *own, mr_error *err) {
    mr_pq_extent whole;
    MR_TRY(mr_pq_chunk_extent(f->file->file, group, own->column, &whole, err));
    MR_TRY(read_parts(f, group, own, whole, err));
    const mr_pq_job job = {.file = f->file->file,
                           .group = group,
                           .column = own->column,
                           .bytes = {own->bytes, (size_t)whole.size},
                           .nulls = {.policy = MR_PQ_NULL_FILL},
                           .pages = own->pages.n > 0 ? &own->pages : NULL,
                           .ranges = f->ranges,
                           .n_ranges = f->n_ranges};
    return mr_pq_decode(f->decoder, &job, &own->vector, err);
}

static void drop_columns(filter *f) {
    for (int32_t i = 0; i < f->n_columns; i++) {
        filter_column *own = &f->columns[i];
        mr_pq_vector_free(own->vector);
        free(own->bytes);
        free(own->pages.pages);
        free(own->indices);
        *own = (filter_column){.column = own->column};
    }
    free(f->ranges);
    f->ranges = NULL;
    f->n_ranges = 0;
}

/* ---- Rows ---- */
static mr_status list_kept(const uint8_t *bitmap, int64_t rows, mr_pq_left *out, mr_error *err) {
    out->kept = mr_zalloc((size_t)out->rows, sizeof *out->kept);
    if (!out->kept) {
        return mr_fail_memory(err, (size_t)out->rows * sizeof *out->kept);
    }
    int64_t n = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (bitmap[row / 8] >> (row % 8) & 1) {
            out->kept[n++] = (uint32_t)row;
        }
    }
    return MR_OK;
}

static mr_status mark_rows(const filter *f, int32_t group, uint8_t *bitmap, int64_t *n_rows,
                           mr_error *err) {
    const mr_pq_vector **vectors = mr_zalloc((size_t)f->n_columns + 1, sizeof *vectors);
    if (!vectors) {
        return mr_fail_memory(err, (size_t)f->n_columns * sizeof *vectors);
    }
    for (int32_t i = 0; i < f->n_columns; i++) {
        vectors[i] = f->columns[i].vector;
    }
    mr_status status = mr_pq_where_rows(f->where, group, vectors, bitmap, n_rows, err);
    mr_free((void *)vectors);
    return status;
}

static mr_status filter_rows(filter *f, int32_t group, mr_pq_left *out, mr_error *err) {
    int64_t rows = f->file->file->groups[group].rows;
    MR_TRY(rule_pages_out(f, group, err));
    if (f->n_ranges == 0) {
        return MR_OK;
    }
    for (int32_t i = 0; i < f->n_columns; i++) {
        MR_TRY(decode_column(f, group, &f->columns[i], err));
    }
    uint8_t *bitmap = mr_zalloc((size_t)(rows + 7) / 8, 1);
    mr_status status = bitmap ? mark_rows(f, group, bitmap, &out->rows, err)
                              : mr_fail_memory(err, (size_t)rows / 8);
    if (status == MR_OK && out->rows > 0 && out->rows < rows) {
        status = list_kept(bitmap, rows, out, err);
    }
    mr_free(bitmap);
    return status;
}

static mr_status filter_open(filter *f, const mr_pq_set_file *file,
                             const mr_pq_condition *condition, mr_error *err) {
    const int32_t *columns = NULL;
    *f = (filter){.file = file};
    MR_TRY(mr_pq_where_new(&f->where, file->file, condition->json, file->folders, err));
    MR_TRY(mr_pq_decoder_new(&f->decoder, condition->cpu, NULL, NULL, err));
    int32_t n = mr_pq_where_columns(f->where, &columns);
    f->columns = mr_zalloc((size_t)n + 1, sizeof *f->columns);
    if (!f->columns) {
        return mr_fail_memory(err, (size_t)n * sizeof *f->columns);
    }
    for (; f->n_columns < n; f->n_columns++) {
        f->columns[f->n_columns].column = columns[f->n_columns];
    }
    return MR_OK;
}

static mr_status filter_group(filter *f, int32_t group, mr_pq_left *out, mr_error *err) {
    mr_pq_verdict verdict = mr_pq_where_group(f->where, group);
    out->rows = verdict == MR_PQ_ALL_ROWS ? f->file->file->groups[group].rows : 0;
    if (verdict != MR_PQ_SOME_ROWS) {
        return MR_OK;
    }
    mr_status status = filter_rows(f, group, out, err);
    drop_columns(f);
    return status;
}

static mr_status filter_groups(const mr_pq_set_file *file, const mr_pq_condition *condition,
                               mr_pq_left *out, mr_error *err) {
    filter f;
    mr_status status = filter_open(&f, file, condition, err);
    for (int32_t g = 0; status == MR_OK && g < file->file->n_groups; g++) {
        status = filter_group(&f, g, &out[g], err);
    }
    mr_pq_where_free(f.where);
    mr_pq_decoder_free(f.decoder);
    mr_free(f.columns);
    return status;
}

/* ---- What is kept: for each row group the number of rows, and where it is neither none nor all,
 * the numbers ---- */
static bool key_of(const mr_pq_set_file *file, const mr_pq_condition *condition, mr_hash128 *key) {
    char *folders = json_dumps(file->folders, JSON_SORT_KEYS);
    uint64_t words[5] = {0x6d72707177310001, file->identity[0], file->identity[1]};
    if (!folders) {
        return false;
    }
    words[3] = mr_hash64(condition->text, strlen(condition->text), 0);
    words[4] = mr_hash64(folders, strlen(folders), words[3]);
    free(folders);
    *key = mr_hash(words, sizeof words);
    return true;
}

static bool has_numbers(const mr_pq_file *file, int32_t group, int64_t rows) {
    return rows > 0 && rows < file->groups[group].rows;
}

/* Takes a value apart; false: it is not one for this file. */
static bool unpack_value(const mr_pq_file *file, const uint8_t *at, size_t left, mr_pq_left *out) {
    for (int32_t g = 0; g < file->n_groups; g++) {
        if (left < sizeof out[g].rows) {
            return false;
        }
        memcpy(&out[g].rows, at, sizeof out[g].rows);
        at += sizeof out[g].rows;
        left -= sizeof out[g].rows;
        if (!has_numbers(file, g, out[g].rows)) {
            continue;
        }
        size_t n = (size_t)out[g].rows, bytes = n * sizeof *out[g].kept;
        out[g].kept = left < bytes ? NULL : mr_zalloc(n, sizeof *out[g].kept);
        if (!out[g].kept) {
            return false;
        }
        memcpy(out[g].kept, at, bytes);
        at += bytes;
        left -= bytes;
    }
    return left == 0;
}

/* Numbers of rows ascend and are below the row group's. */
static bool is_sound(const mr_pq_file *file, const mr_pq_left *out) {
    for (int32_t g = 0; g < file->n_groups; g++) {
        int64_t last = -1;
        if (out[g].rows < 0 || out[g].rows > file->groups[g].rows) {
            return false;
        }
        for (int64_t i = 0; out[g].kept && i < out[g].rows; i++) {
            if ((int64_t)out[g].kept[i] <= last || out[g].kept[i] >= file->groups[g].rows) {
                return false;
            }
            last = out[g].kept[i];
        }
    }
    return true;
}

static void forget(const mr_pq_file *file, mr_pq_left *out) {
    for (int32_t g = 0; g < file->n_groups; g++) {
        mr_free(out[g].kept);
        out[g] = (mr_pq_left){0};
    }
}

static bool find_value(const mr_pq_file *file, const mr_pq_keep *keep, const mr_hash128 *key,
                       mr_pq_left *out) {
    void *value = NULL;
    size_t size = 0;
    bool found = keep->keeper->find(keep->keeper->user, keep->store, &key->low, &value, &size);
    found = found && unpack_value(file, value, size, out) && is_sound(file, out);
    free(value);
    if (!found) {
        forget(file, out);
    }
    return found;
}

static void put_value(const mr_pq_file *file, const mr_pq_keep *keep, const mr_hash128 *key,
                      const mr_pq_left *left) {
    size_t size = 0;
    for (int32_t g = 0; g < file->n_groups; g++) {
        size += sizeof left[g].rows + (left[g].kept ? (size_t)left[g].rows * sizeof(uint32_t) : 0);
    }
    uint8_t *value = malloc(size + 1), *at = value;
    for (int32_t g = 0; value && g < file->n_groups; g++) {
        memcpy(at, &left[g].rows, sizeof left[g].rows);
        at += sizeof left[g].rows;
        if (left[g].kept) {
            memcpy(at, left[g].kept, (size_t)left[g].rows * sizeof(uint32_t));
            at += (size_t)left[g].rows * sizeof(uint32_t);
        }
    }
    if (value) {
        keep->keeper->put(keep->keeper->user, keep->store, &key->low, value, size);
    }
    free(value);
}

/* ---- Public ---- */
mr_status mr_pq_filter(const mr_pq_set_file *file, const mr_pq_condition *condition,
                       mr_pq_left *out, mr_error *err) {
    const mr_pq_keep *keep = condition->keep;
    mr_hash128 key = {0, 0};
    uint64_t after[2];
    if (!condition->json) {
        for (int32_t g = 0; g < file->file->n_groups; g++) {
            out[g].rows = file->file->groups[g].rows;
        }
        return MR_OK;
    }
    bool kept = file->named && key_of(file, condition, &key);
    if (kept && find_value(file->file, keep, &key, out)) {
        return MR_OK;
    }
    MR_TRY(filter_groups(file, condition, out, err));
    if (kept && mr_file_identity(file->path, INT64_MAX, after) &&
        memcmp(after, file->identity, sizeof after) == 0) {
        put_value(file->file, keep, &key, out);
    }
    return MR_OK;
}
