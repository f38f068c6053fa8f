/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - a file for people: its schema, its row groups, and what a loader makes of each
 * column. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "parquet/parts.h"

/* ---- What is said of a column ---- */
static const char *type_text(const mr_pq_column *column, char *buffer, size_t size) {
    char detail[64] = "";
    bool same = column->logical == MR_PQ_INTEGER && !column->is_unsigned &&
                column->bits == (column->physical == MR_PQ_INT64 ? 64 : 32);
    if (same) {
        detail[0] = '\0'; /* said by the stored type */
    } else if (column->logical == MR_PQ_INTEGER) {
        snprintf(detail, sizeof detail, " %sINT%d", column->is_unsigned ? "U" : "", column->bits);
    } else if (column->logical == MR_PQ_DECIMAL) {
        snprintf(detail, sizeof detail, " DECIMAL(%d, %d)", column->precision, column->scale);
    } else if (column->per_second) {
        snprintf(detail, sizeof detail, " %s(%s%s)", mr_pq_logical_name(column->logical),
                 column->per_second == 1000      ? "ms"
                 : column->per_second == 1000000 ? "us"
                                                 : "ns",
                 column->utc ? ", UTC" : "");
    } else if (column->logical) {
        snprintf(detail, sizeof detail, " %s", mr_pq_logical_name(column->logical));
    }
    if (column->physical == MR_PQ_FIXED) {
        snprintf(buffer, size, "%s(%d)%s", mr_pq_physical_name(MR_PQ_FIXED), column->fixed_size,
                 detail);
    } else {
        snprintf(buffer, size, "%s%s", mr_pq_physical_name(column->physical), detail);
    }
    return buffer;
}

typedef struct column_totals {
    int64_t packed, unpacked, nulls; /* nulls -1: not known */
    uint32_t encodings, codecs;
    const char *refused;
    bool page_index;
} column_totals;

static column_totals totals_of(const mr_pq_file *file, int32_t column) {
    column_totals totals = {.refused = file->columns[column].refused,
                            .page_index = file->n_groups > 0};
    for (int32_t g = 0; g < file->n_groups; g++) {
        const mr_pq_chunk *chunk = &file->groups[g].chunks[column];
        totals.packed += chunk->size > 0 ? chunk->size : 0;
        totals.unpacked += chunk->unpacked_size > 0 ? chunk->unpacked_size : 0;
        totals.encodings |= chunk->encodings;
        totals.codecs |= chunk->codec >= 0 && chunk->codec < 31 ? 1u << chunk->codec : 1u << 31;
        totals.nulls = totals.nulls < 0 || chunk->statistics.nulls < 0
                           ? -1
                           : totals.nulls + chunk->statistics.nulls;
        totals.page_index = totals.page_index && chunk->offset_index_at;
        totals.refused = totals.refused ? totals.refused : chunk->refused;
    }
    return totals;
}

static void join_names(uint32_t bits, const char *(*name)(int32_t), char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < 32 && used + 1 < size; i++) {
        if (bits >> i & 1) {
            int n = snprintf(out + used, size - used, "%s%s", used ? ", " : "", name(i));
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

/* What the loader would do, in words. */
static void plan_text(const mr_pq_file *file, int32_t column, const column_totals *totals,
                      char *out, size_t size) {
    const mr_pq_column *c = &file->columns[column];
    mr_pq_field fields[MR_PQ_FIELDS];
    char type[96];
    int64_t length = mr_pq_list_length(file, column);
    int32_t n = mr_pq_fields(file, column, MR_PQ_NULL_ERROR, length, fields);
    if (totals->refused) {
        snprintf(out, size, "cannot be read: %s", totals->refused);
        return;
    }
    mr_type_text(&fields[0].type, type, sizeof type);
    const char *nulls = c->max_def == c->max_rep ? ""
                        : totals->nulls == 0     ? ""
                        : totals->nulls < 0      ? "; may have nulls"
                        : c->max_rep > 0         ? "; has nulls or empty lists"
                                                 : "; has nulls: fill or mask them";
    const char *how = c->max_rep == 0 && c->items > 0 ? "dense"
                      : c->max_rep == 0               ? "ragged"
                      : length > 0 && c->items > 0    ? "dense if no list differs"
                                                      : "ragged";
    char image[256], as[300] = "";
    mr_pq_image_part part = mr_pq_image_part_of(file, column, image);
    if (part == MR_PQ_IMAGE_BYTES) {
        snprintf(as, sizeof as, ", as \"%s\"", image);
    } else if (part == MR_PQ_IMAGE_PATH) {
        nulls = "; empty where it is null";
    }
    snprintf(out, size, "%s, %s%s%s%s", type, how, n > 1 ? ", with lengths" : "", as, nulls);
}

/* ---- Text ---- */
typedef struct text_out {
    char *data;
    size_t size, capacity;
    bool lost;
} text_out;

MR_PRINTF(2, 3) static void put(text_out *out, const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    if (out->size + size + 1 > out->capacity) {
        size_t capacity = (out->size + size) * 2 + 1024;
        char *larger = realloc(out->data, capacity);
        out->lost = out->lost || !larger;
        out->data = larger ? larger : out->data;
        out->capacity = larger ? capacity : out->capacity;
    }
    if (!out->lost) {
        memcpy(out->data + out->size, line, size + 1);
        out->size += size;
    }
}

static void put_size(text_out *out, int64_t bytes) {
    if (bytes < 10000) {
        put(out, "%" PRId64 " B", bytes);
    } else if (bytes < 10000000) {
        put(out, "%.1f kB", (double)bytes / 1e3);
    } else {
        put(out, "%.1f MB", (double)bytes / 1e6);
    }
}

static void put_columns(text_out *out, const mr_pq_file *file) {
    for (int32_t c = 0; c < file->n_columns; c++) {
        char type[160], encodings[256], codecs[128], plan[512], name[512];
        column_totals totals = totals_of(file, c);
        join_names(totals.encodings, mr_pq_encoding_name, encodings, sizeof encodings);
        join_names(totals.codecs, mr_pq_codec_name, codecs, sizeof codecs);
        plan_text(file, c, &totals, plan, sizeof plan);
        put(out, "%s\n", mr_text_escape(name, sizeof name, file->columns[c].name));
        put(out, "    stored   %s, %s, %s, ", type_text(&file->columns[c], type, sizeof type),
            encodings, codecs);
        put_size(out, totals.packed);
        put(out, " of ");
        put_size(out, totals.unpacked);
        put(out, "%s\n    loaded   %s\n", totals.page_index ? ", page index" : "", plan);
    }
}

static void put_groups(text_out *out, const mr_pq_file *file) {
    int64_t first = 0;
    put(out, "row groups\n");
    for (int32_t g = 0; g < file->n_groups; g++) {
        const mr_pq_group *group = &file->groups[g];
        int64_t packed = 0;
        for (int32_t c = 0; c < file->n_columns; c++) {
            packed += group->chunks[c].size > 0 ? group->chunks[c].size : 0;
        }
        put(out, "    %d  rows %" PRId64 " to %" PRId64 ", ", g, first, first + group->rows);
        put_size(out, packed);
        put(out, "\n");
        first += group->rows;
    }
}

static mr_status describe_text(const mr_pq_file *file, char **text, mr_error *err) {
    text_out out = {0};
    char maker[256];
    put(&out, "%" PRId64 " rows, %d columns, %d row groups; written by %s\n", file->rows,
        file->n_columns, file->n_groups,
        file->created_by[0] ? mr_text_escape(maker, sizeof maker, file->created_by) : "unknown");
    put_columns(&out, file);
    put_groups(&out, file);
    if (out.lost) {
        free(out.data);
        return mr_fail_memory(err, out.capacity);
    }
    *text = out.data;
    return MR_OK;
}

/* ---- JSON ---- */
static json_t *safe_string(const char *text) {
    char safe[1024];
    return json_string(mr_text_escape(safe, sizeof safe, text));
}

static json_t *column_json(const mr_pq_file *file, int32_t c, bool *lost) {
    const mr_pq_column *column = &file->columns[c];
    column_totals totals = totals_of(file, c);
    char type[160], encodings[256], codecs[128], plan[512];
    join_names(totals.encodings, mr_pq_encoding_name, encodings, sizeof encodings);
    join_names(totals.codecs, mr_pq_codec_name, codecs, sizeof codecs);
    plan_text(file, c, &totals, plan, sizeof plan);
    json_t *json = json_object();
    mr_json_set(json, "name", safe_string(column->name), lost);
    mr_json_set(json, "path", safe_string(column->path), lost);
    mr_json_set(json, "stored", json_string(type_text(column, type, sizeof type)), lost);
    mr_json_set(json, "encodings", json_string(encodings), lost);
    mr_json_set(json, "codecs", json_string(codecs), lost);
    mr_json_set(json, "bytes", json_integer(totals.packed), lost);
    mr_json_set(json, "unpacked_bytes", json_integer(totals.unpacked), lost);
    mr_json_set(json, "nulls", totals.nulls < 0 ? json_null() : json_integer(totals.nulls), lost);
    mr_json_set(json, "page_index", json_boolean(totals.page_index), lost);
    mr_json_set(json, "dtype", json_string(mr_dtype_name(column->dtype)), lost);
    mr_json_set(json, "depth", json_integer(column->max_rep), lost);
    mr_json_set(json, "loaded", json_string(plan), lost);
    mr_json_set(json, "readable", json_boolean(!totals.refused), lost);
    return json;
}

/* What Petastorm says of a data set's columns; null: it cannot be read, err says why. */
static json_t *petastorm_json(mr_pq_bytes pickle, bool *lost, mr_error *err) {
    static const char *const codecs[] = {"scalar", "ndarray", "compressed_ndarray",
                                         "compressed_image"};
    enum { MOST = 1024 };
    mr_pq_tensor *tensors = mr_zalloc(MOST, sizeof *tensors);
    int32_t n = 0;
    *lost = *lost || !tensors;
    if (!tensors || mr_pq_petastorm(pickle, tensors, MOST, &n, err) < 0) {
        free(tensors);
        return json_null();
    }
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        const mr_pq_tensor *t = &tensors[i];
        json_t *json = json_object(), *shape = json_array();
        for (int32_t d = 0; d < t->type.n_dims; d++) {
            mr_json_append(shape, json_integer(t->type.dims[d]), lost);
        }
        mr_json_set(json, "name", safe_string(t->name), lost);
        mr_json_set(json, "codec", json_string(codecs[t->codec]), lost);
        mr_json_set(json, "dtype", json_string(t->text ? "text" : mr_dtype_name(t->type.dtype)),
                    lost);
        mr_json_set(json, "shape", shape, lost);
        mr_json_set(json, "nullable", json_boolean(t->nullable), lost);
        mr_json_append(list, json, lost);
    }
    free(tensors);
    return list;
}

static mr_status describe_json(const mr_pq_file *file, char **text, mr_error *err) {
    bool lost = false;
    json_t *json = json_object(), *columns = json_array(), *groups = json_array();
    for (int32_t c = 0; c < file->n_columns; c++) {
        mr_json_append(columns, column_json(file, c, &lost), &lost);
    }
    for (int32_t g = 0; g < file->n_groups; g++) {
        json_t *group = json_object();
        mr_json_set(group, "rows", json_integer(file->groups[g].rows), &lost);
        mr_json_set(group, "unpacked_bytes", json_integer(file->groups[g].bytes), &lost);
        mr_json_append(groups, group, &lost);
    }
    mr_json_set(json, "rows", json_integer(file->rows), &lost);
    mr_json_set(json, "created_by", safe_string(file->created_by), &lost);
    mr_json_set(json, "columns", columns, &lost);
    mr_json_set(json, "row_groups", groups, &lost);
    mr_pq_bytes petastorm = mr_pq_pair_value(file, MR_PQ_PETASTORM);
    if (petastorm.data) {
        mr_error why = MR_ERROR_INIT;
        mr_json_set(json, "petastorm", petastorm_json(petastorm, &lost, &why), &lost);
        if (why.text[0]) {
            mr_json_set(json, "petastorm_refused", safe_string(why.text), &lost);
        }
    }
    json = mr_json_whole(json, lost);
    *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    json_decref(json);
    return *text ? MR_OK : mr_fail_memory(err, 0);
}

mr_status mr_pq_describe(const mr_pq_file *file, bool json, char **out, mr_error *err) {
    *out = NULL;
    return json ? describe_json(file, out, err) : describe_text(file, out, err);
}
