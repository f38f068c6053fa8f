/* SPDX-License-Identifier: Apache-2.0 */
/* footer.c - the footer of a file, and the smaller form of it that is kept.
 *
 * A footer is a Thrift struct. Arrays are allocated by counts that were compared with the bytes
 * that are there, and every offset is compared with the file's size here, once. */
#include <stdlib.h>
#include <string.h>

#include "parquet/parts.h"

#define PIECE ((size_t)16 << 10)

/* ---- Memory ---- */
void *mr_pq_take(mr_pq_memory *memory, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = (bytes + 8) & ~(size_t)7; /* never none */
    if (bytes > memory->left) {
        size_t piece = bytes > PIECE ? bytes : PIECE;
        uint8_t *fresh = mr_arena_take(&memory->arena, piece);
        if (!fresh) {
            return NULL;
        }
        memory->piece = fresh;
        memory->left = piece;
    }
    void *taken = memory->piece;
    memory->piece += bytes;
    memory->left -= bytes;
    return memset(taken, 0, bytes);
}

const char *mr_pq_take_text(mr_pq_memory *memory, mr_pq_bytes text) {
    char *copy = mr_pq_take(memory, text.size + 1, 1);
    if (copy && text.size) {
        memcpy(copy, text.data, text.size);
    }
    return copy;
}

mr_status mr_pq_placed(mr_error *err, int32_t group, const char *column, mr_status status) {
    if (status < 0 && err) {
        mr_error inner = *err;
        if (column) {
            mr_fail(err, status, "row group %d, column \"%.200s\": %s", group, column, inner.text);
        } else {
            mr_fail(err, status, "row group %d, %s", group, inner.text);
        }
        mr_hint(err, "%s", inner.hint);
    }
    return status;
}

static mr_status damaged(mr_error *err) {
    mr_fail(err, MR_E_CORRUPT, "the Parquet footer is damaged");
    mr_hint(err, "the file was cut off or overwritten; copy it again");
    return MR_E_CORRUPT;
}

/* ---- Schema ---- */
static void parse_unit(mr_thrift *in, mr_thrift_type type, mr_pq_element *out) {
    static const int32_t per_second[] = {0, 1000, 1000000, 1000000000};
    mr_thrift_field field = {0};
    if (type != MR_THRIFT_STRUCT) {
        mr_thrift_skip(in, type);
        return;
    }
    while (mr_thrift_next(in, &field)) {
        out->per_second = field.id >= 1 && field.id <= 3 ? per_second[field.id] : 0;
        mr_thrift_skip(in, field.type);
    }
}

/* The struct inside the union: DECIMAL, TIME, TIMESTAMP and INTEGER have members. */
static void parse_logical_members(mr_thrift *in, mr_pq_element *out) {
    mr_thrift_field field = {0};
    while (mr_thrift_next(in, &field)) {
        if (out->logical == 5 && field.id <= 2) {
            int64_t value = mr_thrift_int(in, field.type, 0);
            *(field.id == 1 ? &out->logical_scale : &out->logical_precision) = (int32_t)value;
        } else if ((out->logical == 7 || out->logical == 8) && field.id == 1) {
            out->utc = mr_thrift_bool(in, field.type);
        } else if ((out->logical == 7 || out->logical == 8) && field.id == 2) {
            parse_unit(in, field.type, out);
        } else if (out->logical == 10 && field.id == 1) {
            out->bits = (int32_t)mr_thrift_int(in, field.type, 0);
        } else if (out->logical == 10 && field.id == 2) {
            out->is_signed = mr_thrift_bool(in, field.type);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
}

static void parse_logical(mr_thrift *in, mr_thrift_type type, mr_pq_element *out) {
    mr_thrift_field field = {0};
    if (type != MR_THRIFT_STRUCT) {
        mr_thrift_skip(in, type);
        return;
    }
    while (mr_thrift_next(in, &field)) {
        out->logical = field.id;
        if (field.type == MR_THRIFT_STRUCT) {
            parse_logical_members(in, out);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
}

static void parse_element(mr_thrift *in, mr_pq_element *out) {
    mr_thrift_field field = {0};
    *out = (mr_pq_element){.physical = -1, .repetition = -1, .converted = -1};
    while (mr_thrift_next(in, &field)) {
        int32_t *numbers[] = {NULL,           &out->physical,   &out->fixed_size, &out->repetition,
                              NULL,           &out->n_children, &out->converted,  &out->scale,
                              &out->precision};
        if (field.id == 4) {
            out->name = mr_thrift_binary(in, field.type);
        } else if (field.id == 10) {
            parse_logical(in, field.type, out);
        } else if (field.id >= 1 && field.id <= 8) {
            int64_t value = mr_thrift_int(in, field.type, -1);
            *numbers[field.id] = value < INT32_MIN || value > INT32_MAX ? -1 : (int32_t)value;
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
}

static mr_status parse_schema(mr_pq_file *file, mr_thrift *in, mr_thrift_type type, mr_error *err) {
    int32_t n;
    const uint8_t *begin = in->at;
    if (!mr_thrift_list(in, type, MR_THRIFT_STRUCT, &n) || n < 1) {
        return damaged(err);
    }
    mr_pq_element *elements = mr_pq_take(file->memory, (size_t)n, sizeof *elements);
    if (!elements) {
        return mr_fail_memory(err, (size_t)n * sizeof *elements);
    }
    for (int32_t i = 0; i < n && !in->bad; i++) {
        parse_element(in, &elements[i]);
        in->bad = in->bad || !elements[i].name.data;
    }
    file->memory->raw_schema = (mr_pq_bytes){begin, (size_t)(in->at - begin)};
    return in->bad ? damaged(err) : mr_pq_schema(file, elements, n, err);
}

/* ---- Row groups ---- */
typedef struct old_bounds { /* min and max as files had them before it was said what they mean */
    mr_pq_bytes min, max;
} old_bounds;

/* Bounds of the old kind are of signed numbers, where they can be trusted at all. */
static bool old_bounds_hold(const mr_pq_column *column) {
    return column->physical != MR_PQ_BYTES && column->physical != MR_PQ_FIXED &&
           column->physical != MR_PQ_INT96 && !column->is_unsigned;
}

static void parse_statistics(const mr_pq_column *column, mr_thrift *in, mr_thrift_type type,
                             mr_pq_statistics *out) {
    mr_thrift_field field = {0};
    old_bounds old = {{0}, {0}};
    if (type != MR_THRIFT_STRUCT) {
        mr_thrift_skip(in, type);
        return;
    }
    while (mr_thrift_next(in, &field)) {
        mr_pq_bytes *texts[] = {NULL, &old.max, &old.min, NULL, NULL, &out->max, &out->min};
        if (field.id == 3) {
            out->nulls = mr_thrift_int(in, field.type, -1);
        } else if (field.id >= 1 && field.id <= 6 && texts[field.id]) {
            *texts[field.id] = mr_thrift_binary(in, field.type);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
    if (!out->min.data && !out->max.data && old_bounds_hold(column)) {
        out->min = old.min;
        out->max = old.max;
    }
}

static uint32_t parse_encodings(mr_thrift *in, mr_thrift_type type) {
    int32_t n;
    uint32_t found = 0;
    if (mr_thrift_list(in, type, MR_THRIFT_I32, &n)) {
        for (int32_t i = 0; i < n && !in->bad; i++) {
            int64_t encoding = mr_thrift_zigzag(in);
            found |= encoding >= 0 && encoding < 31 ? 1u << encoding : 1u << 31;
        }
    }
    return found;
}

typedef struct chunk_numbers {
    int64_t physical, codec, n_values, unpacked, packed, data_at, dictionary_at;
} chunk_numbers;

static void parse_chunk_data(const mr_pq_column *column, mr_thrift *in, mr_pq_chunk *out,
                             chunk_numbers *got) {
    mr_thrift_field field = {0};
    while (mr_thrift_next(in, &field)) {
        int64_t *numbers[] = {NULL,        &got->physical, NULL,           NULL,
                              &got->codec, &got->n_values, &got->unpacked, &got->packed,
                              NULL,        &got->data_at,  NULL,           &got->dictionary_at};
        if (field.id == 2) {
            out->encodings = parse_encodings(in, field.type);
        } else if (field.id == 12) {
            parse_statistics(column, in, field.type, &out->statistics);
        } else if (field.id >= 1 && field.id <= 11 && numbers[field.id]) {
            *numbers[field.id] = mr_thrift_int(in, field.type, -1);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
}

/* Where the footer and the file contradict each other nothing of the chunk can be trusted. */
static bool chunk_is_sound(const mr_pq_column *column, const chunk_numbers *got,
                           const mr_pq_chunk *chunk, int64_t file_size) {
    return got->physical == (int64_t)column->physical && got->n_values >= 0 && got->unpacked >= 0 &&
           got->packed >= 0 && got->data_at >= 0 &&
           (chunk->file ||
            (chunk->offset <= file_size && chunk->size <= file_size - chunk->offset));
}

static const char *why_not(const mr_pq_chunk *chunk) {
    if (chunk->codec < 0 || chunk->codec > MR_PQ_LZ4_RAW) {
        return "its compression is one this reader does not know";
    }
    if (!mr_pq_codec_here(chunk->codec)) {
        return "its compression is not part of this build";
    }
    return NULL;
}

static void settle_chunk(mr_pq_chunk *chunk, const chunk_numbers *got) {
    bool dictionary_first = got->dictionary_at > 0 && got->dictionary_at < got->data_at;
    chunk->offset = dictionary_first ? got->dictionary_at : got->data_at;
    chunk->dictionary_at = dictionary_first ? got->dictionary_at : 0;
    chunk->data_at = got->data_at;
    chunk->size = got->packed;
    chunk->unpacked_size = got->unpacked;
    chunk->n_values = got->n_values;
    chunk->codec = got->codec < INT8_MIN || got->codec > INT8_MAX ? -1 : (int32_t)got->codec;
    chunk->refused = chunk->refused ? chunk->refused : why_not(chunk);
}

static bool small_index(int64_t at, int64_t size, int64_t file_size) {
    return at > 0 && size > 0 && size <= INT32_MAX && at <= file_size && size <= file_size - at;
}

static mr_status parse_chunk(mr_pq_file *file, int32_t column, mr_thrift *in, mr_pq_chunk *out,
                             int64_t file_size, mr_error *err) {
    mr_thrift_field field = {0};
    chunk_numbers got = {-1, -1, -1, -1, -1, -1, -1};
    int64_t index[4] = {0}; /* offset index: at, size; column index: at, size */
    out->statistics.nulls = -1;
    while (mr_thrift_next(in, &field)) {
        if (field.id == 1 && field.type == MR_THRIFT_BINARY) {
            out->file = mr_pq_take_text(file->memory, mr_thrift_binary(in, field.type));
        } else if (field.id == 3 && field.type == MR_THRIFT_STRUCT) {
            parse_chunk_data(&file->columns[column], in, out, &got);
        } else if (field.id >= 4 && field.id <= 7) {
            index[field.id - 4] = mr_thrift_int(in, field.type, 0);
        } else {
            out->refused = field.id == 8 || field.id == 9 ? "it is encrypted" : out->refused;
            mr_thrift_skip(in, field.type);
        }
    }
    bool sealed = out->refused && got.physical < 0; /* encrypted with its metadata */
    settle_chunk(out, &got);
    if (in->bad || (!sealed && !chunk_is_sound(&file->columns[column], &got, out, file_size))) {
        return mr_fail(err, MR_E_CORRUPT, "column \"%s\": the footer's entry is damaged",
                       file->columns[column].name);
    }
    if (small_index(index[0], index[1], file_size)) {
        out->offset_index_at = index[0];
        out->offset_index_size = (int32_t)index[1];
    }
    if (small_index(index[2], index[3], file_size)) {
        out->column_index_at = index[2];
        out->column_index_size = (int32_t)index[3];
    }
    return MR_OK;
}

static mr_status parse_chunks(mr_pq_file *file, mr_thrift *in, mr_thrift_type type,
                              mr_pq_group *out, int64_t file_size, mr_error *err) {
    int32_t n;
    if (!mr_thrift_list(in, type, MR_THRIFT_STRUCT, &n) || n != file->n_columns) {
        return mr_fail(err, MR_E_CORRUPT, "the footer has %d columns here and %d in the schema", n,
                       file->n_columns);
    }
    out->chunks = mr_pq_take(file->memory, (size_t)n, sizeof *out->chunks);
    if (!out->chunks) {
        return mr_fail_memory(err, (size_t)n * sizeof *out->chunks);
    }
    for (int32_t i = 0; i < n; i++) {
        MR_TRY(parse_chunk(file, i, in, &out->chunks[i], file_size, err));
    }
    return MR_OK;
}

static mr_status parse_group(mr_pq_file *file, mr_thrift *in, mr_pq_group *out, int64_t file_size,
                             mr_error *err) {
    mr_thrift_field field = {0};
    out->rows = -1;
    while (mr_thrift_next(in, &field)) {
        if (field.id == 1) {
            MR_TRY(parse_chunks(file, in, field.type, out, file_size, err));
        } else if (field.id == 2 || field.id == 3) {
            *(field.id == 2 ? &out->bytes : &out->rows) = mr_thrift_int(in, field.type, -1);
        } else {
            mr_thrift_skip(in, field.type);
        }
    }
    return in->bad || out->rows < 0 || (!out->chunks && file->n_columns > 0) ? damaged(err) : MR_OK;
}

static mr_status parse_groups(mr_pq_file *file, mr_thrift *in, mr_thrift_type type,
                              int64_t file_size, mr_error *err) {
    int32_t n;
    if (!mr_thrift_list(in, type, MR_THRIFT_STRUCT, &n) || (n > 0 && !file->columns)) {
        return damaged(err);
    }
    mr_pq_group *groups = mr_pq_take(file->memory, (size_t)n, sizeof *groups);
    if (!groups) {
        return mr_fail_memory(err, (size_t)n * sizeof *groups);
    }
    file->groups = groups;
    file->n_groups = n;
    for (int32_t i = 0; i < n; i++) {
        MR_TRY(mr_pq_placed(err, i, NULL, parse_group(file, in, &groups[i], file_size, err)));
    }
    return MR_OK;
}

static mr_status parse_pairs(mr_pq_file *file, mr_thrift *in, mr_thrift_type type, mr_error *err) {
    int32_t n;
    if (!mr_thrift_list(in, type, MR_THRIFT_STRUCT, &n)) {
        return MR_OK;
    }
    mr_pq_pair *pairs = mr_pq_take(file->memory, (size_t)n, sizeof *pairs);
    if (!pairs) {
        return mr_fail_memory(err, (size_t)n * sizeof *pairs);
    }
    for (int32_t i = 0; i < n && !in->bad; i++) {
        mr_thrift_field field = {0};
        mr_pq_bytes key = {NULL, 0};
        while (mr_thrift_next(in, &field)) {
            mr_pq_bytes text = mr_thrift_binary(in, field.type);
            *(field.id == 1 ? &key : &pairs[i].value) = text;
        }
        pairs[i].key = mr_pq_take_text(file->memory, key);
        if (!pairs[i].key) {
            return mr_fail_memory(err, key.size + 1);
        }
    }
    file->pairs = pairs;
    file->n_pairs = n;
    return MR_OK;
}

/* Bounds mean something only in the order that the type defines. */
static void parse_orders(mr_pq_file *file, mr_thrift *in, mr_thrift_type type) {
    int32_t n;
    if (!mr_thrift_list(in, type, MR_THRIFT_STRUCT, &n)) {
        return;
    }
    for (int32_t i = 0; i < n && !in->bad; i++) {
        mr_thrift_field field = {0};
        int32_t order = 0;
        while (mr_thrift_next(in, &field)) {
            order = field.id;
            mr_thrift_skip(in, field.type);
        }
        for (int32_t g = 0; order != 1 && i < file->n_columns && g < file->n_groups; g++) {
            mr_pq_statistics *statistics = &file->groups[g].chunks[i].statistics;
            statistics->min.data = statistics->max.data = NULL;
        }
    }
}

static mr_status refuse_encryption(mr_error *err) {
    mr_fail(err, MR_E_UNSUPPORTED, "the Parquet file is encrypted");
    mr_hint(err, "write it again without encryption, or let pyarrow read it: mr.arrow() in Python");
    return MR_E_UNSUPPORTED;
}

static mr_status parse_footer(mr_pq_file *file, mr_thrift *in, int64_t file_size, mr_error *err) {
    mr_thrift_field field = {0};
    file->rows = -1;
    file->created_by = "";
    while (mr_thrift_next(in, &field)) {
        switch (field.id) {
        case 2:
            MR_TRY(parse_schema(file, in, field.type, err));
            break;
        case 3:
            file->rows = mr_thrift_int(in, field.type, -1);
            break;
        case 4:
            MR_TRY(parse_groups(file, in, field.type, file_size, err));
            break;
        case 5:
            MR_TRY(parse_pairs(file, in, field.type, err));
            break;
        case 6:
            file->created_by = mr_pq_take_text(file->memory, mr_thrift_binary(in, field.type));
            break;
        case 7:
            parse_orders(file, in, field.type);
            break;
        case 8:
            return refuse_encryption(err);
        default:
            mr_thrift_skip(in, field.type);
        }
    }
    if (!file->created_by) {
        return mr_fail_memory(err, 1);
    }
    return in->bad || file->rows < 0 || !file->columns ? damaged(err) : MR_OK;
}

static mr_status check_rows(const mr_pq_file *file, mr_error *err) {
    int64_t sum = 0;
    for (int32_t g = 0; g < file->n_groups; g++) {
        if (__builtin_add_overflow(sum, file->groups[g].rows, &sum)) {
            return damaged(err);
        }
    }
    if (sum != file->rows) {
        return mr_fail(err, MR_E_CORRUPT, "the row groups have %lld rows, the footer says %lld",
                       (long long)sum, (long long)file->rows);
    }
    return MR_OK;
}

static mr_pq_file *new_file(const void *thrift, size_t size) {
    mr_pq_file *file = mr_zalloc(1, sizeof *file);
    mr_pq_memory *memory = mr_zalloc(1, sizeof *memory);
    uint8_t *copy = memory ? mr_arena_take(&memory->arena, size + 1) : NULL;
    if (!file || !copy) {
        free(file);
        if (memory) {
            mr_arena_free(&memory->arena);
        }
        free(memory);
        return NULL;
    }
    memcpy(copy, thrift, size);
    memory->footer = (mr_pq_bytes){copy, size};
    file->memory = memory;
    return file;
}

mr_status mr_pq_open_index(mr_pq_file **out, const void *index, size_t size, int64_t file_size,
                           mr_error *err) {
    *out = NULL;
    mr_pq_file *file = new_file(index, size);
    if (!file) {
        return mr_fail_memory(err, size);
    }
    mr_thrift in = {file->memory->footer.data, file->memory->footer.data + size, false};
    mr_status status = parse_footer(file, &in, file_size, err);
    if (status == MR_OK) {
        status = check_rows(file, err);
    }
    if (status < 0) {
        mr_pq_close(file);
        return status;
    }
    *out = file;
    return MR_OK;
}

mr_status mr_pq_tail(const void *tail, int64_t file_size, int64_t *footer_size, mr_error *err) {
    const uint8_t *bytes = tail;
    if (file_size < 12 ||
        (memcmp(bytes + 4, "PAR1", 4) != 0 && memcmp(bytes + 4, "PARE", 4) != 0)) {
        mr_fail(err, MR_E_CORRUPT, "not a Parquet file: it does not end in PAR1");
        mr_hint(err, "a file that was cut off lacks its footer; copy it again");
        return MR_E_CORRUPT;
    }
    if (bytes[7] == 'E') {
        return refuse_encryption(err);
    }
    int64_t size = mr_pq_load_u32(bytes);
    if (size > file_size - 12) {
        return mr_fail(err, MR_E_CORRUPT, "the footer's length, %lld bytes, exceeds the file's",
                       (long long)size);
    }
    *footer_size = size + MR_PQ_TAIL;
    return MR_OK;
}

mr_status mr_pq_open(mr_pq_file **out, const void *footer, size_t size, int64_t file_size,
                     mr_error *err) {
    int64_t wanted = 0;
    *out = NULL;
    if (size < MR_PQ_TAIL) {
        return damaged(err);
    }
    MR_TRY(mr_pq_tail((const uint8_t *)footer + size - MR_PQ_TAIL, file_size, &wanted, err));
    if ((int64_t)size < wanted) {
        return damaged(err);
    }
    const uint8_t *begin = (const uint8_t *)footer + size - wanted;
    return mr_pq_open_index(out, begin, (size_t)wanted - MR_PQ_TAIL, file_size, err);
}

void mr_pq_close(mr_pq_file *file) {
    if (file) {
        mr_arena_free(&file->memory->arena);
        free(file->memory);
        free(file);
    }
}

static mr_status copy_group(mr_pq_file *to, const mr_pq_group *from, int64_t file_size,
                            mr_pq_group *out, mr_error *err) {
    *out = *from;
    out->chunks = mr_pq_take(to->memory, (size_t)to->n_columns, sizeof *out->chunks);
    if (!out->chunks) {
        return mr_fail_memory(err, (size_t)to->n_columns * sizeof *out->chunks);
    }
    for (int32_t c = 0; c < to->n_columns; c++) {
        mr_pq_chunk *chunk = &out->chunks[c];
        *chunk = from->chunks[c];
        chunk->file = NULL;
        if (chunk->offset < 0 || chunk->offset > file_size ||
            chunk->size > file_size - chunk->offset) {
            return mr_fail(err, MR_E_CORRUPT, "column \"%s\" lies beyond the file's end",
                           to->columns[c].name);
        }
    }
    return MR_OK;
}

mr_status mr_pq_part(mr_pq_file **out, const mr_pq_file *whole, int32_t first, int32_t n,
                     int64_t file_size, mr_error *err) {
    mr_pq_file *part = *out = new_file("", 0);
    mr_pq_group *groups = part ? mr_pq_take(part->memory, (size_t)n, sizeof *groups) : NULL;
    if (!groups) {
        return mr_fail_memory(err, (size_t)n * sizeof *groups);
    }
    part->columns = whole->columns;
    part->n_columns = whole->n_columns;
    part->created_by = whole->created_by;
    part->groups = groups;
    for (; part->n_groups < n; part->n_groups++) {
        const mr_pq_group *group = &whole->groups[first + part->n_groups];
        MR_TRY(mr_pq_placed(err, first + part->n_groups, NULL,
                            copy_group(part, group, file_size, &groups[part->n_groups], err)));
        part->rows += group->rows;
    }
    return MR_OK;
}

mr_pq_bytes mr_pq_pair_value(const mr_pq_file *file, const char *key) {
    for (int32_t i = 0; i < file->n_pairs; i++) {
        if (strcmp(file->pairs[i].key, key) == 0) {
            return file->pairs[i].value;
        }
    }
    return (mr_pq_bytes){NULL, 0};
}

/* ---- The index: a footer again, with what this reader uses ---- */
static void put_statistics(mr_thrift_out *out, int32_t *last, const mr_pq_statistics *statistics) {
    int32_t inner = 0;
    mr_thrift_put_struct(out, last, 12);
    if (statistics->nulls >= 0) {
        mr_thrift_put_int(out, &inner, 3, MR_THRIFT_I64, statistics->nulls);
    }
    if (statistics->max.data) {
        mr_thrift_put_binary(out, &inner, 5, statistics->max.data, statistics->max.size);
    }
    if (statistics->min.data) {
        mr_thrift_put_binary(out, &inner, 6, statistics->min.data, statistics->min.size);
    }
    mr_thrift_put_stop(out);
}

static void put_chunk_data(mr_thrift_out *out, const mr_pq_column *column,
                           const mr_pq_chunk *chunk) {
    int32_t last = 0;
    mr_thrift_put_int(out, &last, 1, MR_THRIFT_I32, (int64_t)column->physical);
    mr_thrift_put_list(out, &last, 2, MR_THRIFT_I32, (size_t)__builtin_popcount(chunk->encodings));
    for (int32_t i = 0; i < 32; i++) {
        if (chunk->encodings >> i & 1) {
            mr_thrift_put_zigzag(out, i);
        }
    }
    mr_thrift_put_int(out, &last, 4, MR_THRIFT_I32, chunk->codec);
    mr_thrift_put_int(out, &last, 5, MR_THRIFT_I64, chunk->n_values);
    mr_thrift_put_int(out, &last, 6, MR_THRIFT_I64, chunk->unpacked_size);
    mr_thrift_put_int(out, &last, 7, MR_THRIFT_I64, chunk->size);
    mr_thrift_put_int(out, &last, 9, MR_THRIFT_I64, chunk->data_at);
    if (chunk->dictionary_at) {
        mr_thrift_put_int(out, &last, 11, MR_THRIFT_I64, chunk->dictionary_at);
    }
    put_statistics(out, &last, &chunk->statistics);
    mr_thrift_put_stop(out);
}

static void put_chunk(mr_thrift_out *out, const mr_pq_column *column, const mr_pq_chunk *chunk) {
    int32_t last = 0;
    bool sealed = chunk->refused && chunk->n_values < 0;
    if (chunk->file) {
        mr_thrift_put_binary(out, &last, 1, chunk->file, strlen(chunk->file));
    }
    if (!sealed) {
        mr_thrift_put_struct(out, &last, 3);
        put_chunk_data(out, column, chunk);
    }
    if (chunk->offset_index_at) {
        mr_thrift_put_int(out, &last, 4, MR_THRIFT_I64, chunk->offset_index_at);
        mr_thrift_put_int(out, &last, 5, MR_THRIFT_I32, chunk->offset_index_size);
    }
    if (chunk->column_index_at) {
        mr_thrift_put_int(out, &last, 6, MR_THRIFT_I64, chunk->column_index_at);
        mr_thrift_put_int(out, &last, 7, MR_THRIFT_I32, chunk->column_index_size);
    }
    if (chunk->refused && strcmp(chunk->refused, "it is encrypted") == 0) {
        mr_thrift_put_struct(out, &last, 8);
        mr_thrift_put_stop(out);
    }
    mr_thrift_put_stop(out);
}

static void put_group(mr_thrift_out *out, const mr_pq_file *file, const mr_pq_group *group) {
    int32_t last = 0;
    mr_thrift_put_list(out, &last, 1, MR_THRIFT_STRUCT, (size_t)file->n_columns);
    for (int32_t i = 0; i < file->n_columns; i++) {
        put_chunk(out, &file->columns[i], &group->chunks[i]);
    }
    mr_thrift_put_int(out, &last, 2, MR_THRIFT_I64, group->bytes);
    mr_thrift_put_int(out, &last, 3, MR_THRIFT_I64, group->rows);
    mr_thrift_put_stop(out);
}

/* Arrow's copy of the schema is as large as all the rest, and says nothing new. */
static bool pair_is_kept(const mr_pq_pair *pair) {
    return strcmp(pair->key, "ARROW:schema") != 0;
}

static void put_pairs(mr_thrift_out *out, int32_t *last, const mr_pq_file *file) {
    size_t kept = 0;
    for (int32_t i = 0; i < file->n_pairs; i++) {
        kept += pair_is_kept(&file->pairs[i]);
    }
    mr_thrift_put_list(out, last, 5, MR_THRIFT_STRUCT, kept);
    for (int32_t i = 0; i < file->n_pairs; i++) {
        const mr_pq_pair *pair = &file->pairs[i];
        if (pair_is_kept(pair)) {
            int32_t inner = 0;
            mr_thrift_put_binary(out, &inner, 1, pair->key, strlen(pair->key));
            mr_thrift_put_binary(out, &inner, 2, pair->value.data, pair->value.size);
            mr_thrift_put_stop(out);
        }
    }
}

mr_status mr_pq_index(const mr_pq_file *file, void **out, size_t *size, mr_error *err) {
    mr_thrift_out index = {0};
    int32_t last = 0;
    mr_thrift_put_raw_list(&index, &last, 2, file->memory->raw_schema);
    mr_thrift_put_int(&index, &last, 3, MR_THRIFT_I64, file->rows);
    mr_thrift_put_list(&index, &last, 4, MR_THRIFT_STRUCT, (size_t)file->n_groups);
    for (int32_t g = 0; g < file->n_groups; g++) {
        put_group(&index, file, &file->groups[g]);
    }
    put_pairs(&index, &last, file);
    mr_thrift_put_binary(&index, &last, 6, file->created_by, strlen(file->created_by));
    mr_thrift_put_stop(&index);
    if (index.bad) {
        free(index.data);
        return mr_fail_memory(err, index.size);
    }
    *out = index.data;
    *size = index.size;
    return MR_OK;
}
