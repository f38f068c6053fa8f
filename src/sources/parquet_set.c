/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_set.c - see parquet_set.h. */
#include "sources/parquet_set.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "io/far_name.h"
#include "sources/parquet_files.h"
#include "sources/parquet_filter.h"
#include "sources/parquet_partitions.h"

#include <millrace/millrace.h>

/* ---- Files ---- */
static mr_status blame(mr_status status, const char *path, mr_error *err) {
    if (status < 0 && err && !err->source[0]) {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}

static mr_status open_file(mr_pq_set *set, int64_t i, const mr_pq_keep *keep, mr_error *err) {
    mr_pq_set_file *file = &set->files[i];
    uint64_t hash[2] = {0, 0};
    file->path = set->paths.v[i];
    if (file->file) {
        return MR_OK; /* from _metadata */
    }
    MR_TRY(blame(mr_pq_read_footer(file->path, keep, file, hash, err), file->path, err));
    set->fingerprint[0] = mr_hash64(hash, sizeof hash, set->fingerprint[0]);
    set->fingerprint[1] = mr_hash64(hash, sizeof hash, ~set->fingerprint[1]);
    return MR_OK;
}

static bool lies_in(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 &&
           (path[length] == '/' || (length > 0 && folder[length - 1] == '/'));
}

/* The given folder that a file lies in, or NULL. */
static const char *root_of(const char *path, const mr_strings *given) {
    for (int32_t i = 0; i < given->n; i++) {
        if (lies_in(path, given->v[i])) {
            return given->v[i];
        }
    }
    return NULL;
}

static bool is_given(const char *path, const mr_strings *given) {
    bool found = false;
    for (int32_t i = 0; i < given->n; i++) {
        found = found || strcmp(path, given->v[i]) == 0;
    }
    return found;
}

/* As others who write such folders have it, what begins with "_" is no part of a table: what a
 * writer left unfinished, for one. Columns' folders are. */
static bool is_aside(const char *path) {
    bool aside = false;
    for (const char *name = path, *end; *name; name = end + (*end == '/')) {
        end = name + strcspn(name, "/");
        aside = aside || (*name == '_' && !memchr(name, '=', (size_t)(end - name)));
    }
    return aside;
}

/* How much of a pattern is a folder without wildcards. False: it has none, or asks for names that
 * begin with "_". */
static bool plain_folder(const char *pattern, size_t *plain) {
    *plain = strcspn(pattern, "*?[");
    bool wild = pattern[*plain] != '\0';
    while (*plain > 0 && pattern[*plain - 1] != '/') {
        --*plain;
    }
    return wild && pattern[*plain] != '_' && !strstr(pattern + *plain, "/_");
}

/* What of a path was found, not asked for. */
static const char *found_part(const char *path, const mr_strings *given) {
    const char *root = root_of(path, given);
    if (is_given(path, given)) {
        return "";
    }
    for (int32_t i = 0; !root && i < given->n; i++) {
        size_t plain;
        if (plain_folder(given->v[i], &plain) && strncmp(path, given->v[i], plain) == 0) {
            return path + plain;
        }
    }
    return root ? path + strlen(root) : "";
}

static mr_status leave_aside(mr_pq_set *set, const mr_strings *given, mr_error *err) {
    int32_t n = 0;
    for (int32_t i = 0; i < set->paths.n; i++) {
        char *path = set->paths.v[i];
        if (is_aside(found_part(path, given))) {
            free(path);
        } else {
            set->paths.v[n++] = path;
        }
    }
    set->paths.n = n;
    return n > 0 ? MR_OK : mr_fail(err, MR_E_NOT_FOUND, "all files in the folder begin with \"_\"");
}

static mr_status list_files(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err) {
    static const char *const endings[] = {".parquet", NULL};
    MR_TRY(mr_patterns_find(&set->paths, config->paths, endings, err));
    MR_TRY(blame(leave_aside(set, config->paths, err), config->paths->v[0], err));
    if (set->paths.n == 1 && mr_pq_is_metadata(set->paths.v[0])) {
        return blame(mr_pq_set_from_metadata(set, err), config->paths->v[0], err);
    }
    set->n_files = set->paths.n;
    set->files = mr_zalloc((size_t)set->n_files, sizeof *set->files);
    if (!set->files) {
        return mr_fail_memory(err, (size_t)set->n_files * sizeof *set->files);
    }
    for (int64_t i = 0; i < set->n_files; i++) {
        set->files[i].root = root_of(set->paths.v[i], config->paths);
    }
    return MR_OK;
}

/* ---- Columns and fields ---- */
static bool names_column(const mr_pq_file *file, const char *pattern, int32_t *room) {
    int32_t n = 0;
    return mr_pq_select(file, &pattern, 1, room, &n, NULL) == MR_OK;
}

/* A pattern that fits only a folder's column is none of the file's. */
static mr_status select_in_file(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err) {
    const mr_pq_file *first = set->files[0].file;
    int32_t n = 0, given = config->columns->n;
    const char **patterns = mr_zalloc((size_t)given + 1, sizeof *patterns);
    if (!patterns) {
        return mr_fail_memory(err, (size_t)given * sizeof *patterns);
    }
    for (int32_t i = 0; i < given; i++) {
        const char *pattern = config->columns->v[i];
        if (!mr_pq_set_names_partition(set, pattern) ||
            names_column(first, pattern, set->columns)) {
            patterns[n++] = pattern;
        }
    }
    mr_status status = MR_OK;
    if (n > 0 || given == 0) {
        status = mr_pq_select(first, patterns, n, set->columns, &set->n_columns, err);
    }
    mr_free((void *)patterns);
    return status;
}

static mr_status select_columns(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err) {
    const mr_pq_file *first = set->files[0].file;
    set->columns = mr_zalloc((size_t)first->n_columns, sizeof *set->columns);
    if (!set->columns) {
        return mr_fail_memory(err, (size_t)first->n_columns * sizeof *set->columns);
    }
    MR_TRY(select_in_file(set, config, err));
    for (int32_t c = 0; c < set->n_columns; c++) {
        const mr_pq_column *column = &first->columns[set->columns[c]];
        if (column->refused) {
            mr_fail(err, MR_E_UNSUPPORTED, "column %s: %s", column->name, column->refused);
            mr_hint(err, "name the columns that you want: \"columns\": [...]");
            return MR_E_UNSUPPORTED;
        }
    }
    return MR_OK;
}

/* Hugging Face keeps an image or a sound as {bytes, path}: the bytes are the field. */
static void shorten_name(const mr_pq_file *file, mr_pq_field *field) {
    char name[sizeof field->name];
    if (field->role == MR_PQ_VALUES &&
        mr_pq_image_part_of(file, field->column, name) == MR_PQ_IMAGE_BYTES) {
        memcpy(field->name, name, sizeof name);
    }
}

static bool is_ragged(const mr_type *type) {
    return mr_type_bytes(type) < 0;
}

/* The length of all lists of a row group; 0: they differ, -1: it cannot be told. */
static int64_t length_in_group(const mr_pq_set_file *file, int32_t group, int32_t column) {
    static const mr_pq_limits limits = {.bytes = 64 << 20};
    const mr_pq_chunk *chunk = &file->file->groups[group].chunks[column];
    mr_pq_decoder *decoder = NULL;
    mr_pq_vector *vector = NULL;
    int64_t length = -1;
    void *bytes = malloc((size_t)chunk->size + 1);
    const mr_pq_job job = {.file = file->file,
                           .group = group,
                           .column = column,
                           .bytes = {bytes, (size_t)chunk->size},
                           .nulls = {.policy = MR_PQ_NULL_FILL}};
    if (bytes && mr_pq_decoder_new(&decoder, 0, NULL, &limits, NULL) == MR_OK &&
        mr_pq_read_bytes(file->path, chunk->offset, chunk->size, bytes, NULL) == MR_OK &&
        mr_pq_decode(decoder, &job, &vector, NULL) == MR_OK) {
        length = vector->offsets[0] ? 0 : vector->length[0];
    }
    mr_pq_vector_free(vector);
    mr_pq_decoder_free(decoder);
    free(bytes);
    return length;
}

/* The footer's counts tell the lists' mean length. Where there are few lists it may be whole by
 * chance, so small row groups are looked at, the first ones; among many it hardly is. */
static int64_t list_length(const mr_pq_set *set, int32_t column) {
    enum { SMALL = 64 << 10 };
    const mr_pq_set_file *file = &set->files[0];
    int64_t length = mr_pq_list_length(file->file, column), bytes = 0;
    for (int32_t g = 0; length > 0 && !mr_is_far(file->path) && g < file->file->n_groups; g++) {
        const mr_pq_chunk *chunk = &file->file->groups[g].chunks[column];
        bytes += chunk->size;
        if (bytes > SMALL || chunk->refused) {
            break;
        }
        length = length_in_group(file, g, column) == 0 ? 0 : length;
    }
    return length;
}

static int32_t add_fields(mr_pq_set *set, const mr_pq_set_config *config, int32_t column,
                          mr_pq_set_field *out) {
    const mr_pq_file *first = set->files[0].file;
    mr_pq_field found[MR_PQ_FIELDS];
    bool list = out && first->columns[column].max_rep == 1 && !config->ragged;
    int64_t length = list ? list_length(set, column) : 0;
    int32_t n = mr_pq_fields(first, column, config->nulls.policy, length, found);
    for (int32_t i = 0; out && i < n; i++) {
        shorten_name(first, &found[i]);
        out[i] = (mr_pq_set_field){.field = found[i], .ragged = is_ragged(&found[i].type)};
        out[i].text =
            out[i].ragged && found[i].role == MR_PQ_VALUES && first->columns[column].max_rep == 0;
    }
    return n;
}

static bool has_field(const mr_pq_set *set, const char *name) {
    bool found = false;
    for (int32_t i = 0; i < set->n_fields; i++) {
        found = found || strcmp(set->fields[i].field.name, name) == 0;
    }
    for (int32_t i = 0; i < set->n_partitions; i++) {
        found = found || strcmp(set->partitions[i].name, name) == 0;
    }
    return found;
}

static mr_status list_fields(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err) {
    int32_t n = 0;
    for (int32_t c = 0; c < set->n_columns; c++) {
        n += add_fields(set, config, set->columns[c], NULL);
    }
    set->fields = mr_zalloc((size_t)n, sizeof *set->fields);
    if (!set->fields) {
        return mr_fail_memory(err, (size_t)n * sizeof *set->fields);
    }
    for (int32_t c = 0; c < set->n_columns; c++) {
        set->n_fields += add_fields(set, config, set->columns[c], set->fields + set->n_fields);
    }
    set->has_index = !has_field(set, "index");
    return MR_OK;
}

mr_status mr_pq_set_describe(mr_pq_set *set, const mr_pq_set_config *config, mr_error *err) {
    MR_TRY(list_files(set, config, err));
    MR_TRY(open_file(set, 0, &config->keep, err));
    MR_TRY(mr_pq_set_partitions(set, config, err));
    MR_TRY(blame(select_columns(set, config, err), set->files[0].path, err));
    return list_fields(set, config, err);
}

/* ---- The other files must have the same columns ---- */
/* Numbers that mean a time or a fraction are not just numbers. */
static mr_pq_logical meaning_of(const mr_pq_column *column) {
    switch (column->logical) {
    case MR_PQ_DATE:
    case MR_PQ_TIME:
    case MR_PQ_TIMESTAMP:
    case MR_PQ_DECIMAL:
        return column->logical;
    default:
        return MR_PQ_NO_LOGICAL;
    }
}

static bool same_column(const mr_pq_column *a, const mr_pq_column *b) {
    return a->dtype == b->dtype && a->items == b->items && a->max_rep == b->max_rep &&
           a->per_second == b->per_second && a->scale == b->scale &&
           meaning_of(a) == meaning_of(b) && !b->refused;
}

/* Most files have all columns where the first has them. */
static int32_t find_alike(const mr_pq_file *file, int32_t place, const char *name) {
    return place < file->n_columns && strcmp(file->columns[place].name, name) == 0
               ? place
               : mr_pq_find(file, name);
}

static mr_status map_columns(mr_pq_set *set, int64_t i, mr_error *err) {
    const mr_pq_file *first = set->files[0].file;
    mr_pq_set_file *own = &set->files[i];
    own->columns = mr_zalloc((size_t)set->n_columns + 1, sizeof *own->columns);
    if (!own->columns) {
        return mr_fail_memory(err, (size_t)set->n_columns * sizeof *own->columns);
    }
    for (int32_t c = 0; c < set->n_columns; c++) {
        const mr_pq_column *wanted = &first->columns[set->columns[c]];
        int32_t found = find_alike(own->file, set->columns[c], wanted->name);
        if (found < 0 || !same_column(wanted, &own->file->columns[found])) {
            mr_fail(err, MR_E_TYPE, "column %s is %s than in %s", wanted->name,
                    found < 0 ? "missing, other" : "of another type", set->files[0].path);
            return MR_E_TYPE;
        }
        own->columns[c] = found;
    }
    return MR_OK;
}

/* ---- Rows ---- */
static mr_status add_group(mr_pq_set *set, int64_t file, int32_t group, const mr_pq_left *left,
                           mr_error *err) {
    mr_pq_set_group own = {.file = (int32_t)file,
                           .group = group,
                           .first = set->samples,
                           .rows = left->rows,
                           .kept = left->kept};
    int64_t rows = set->files[file].file->groups[group].rows;
    if (rows > UINT32_MAX) {
        return mr_fail(err, MR_E_LIMIT, "row group %d has %lld rows", group, (long long)rows);
    }
    if (own.rows > 0) {
        set->groups[set->n_groups++] = own;
        set->samples += own.rows;
    }
    return MR_OK;
}

static mr_status add_groups(mr_pq_set *set, int64_t file, const mr_pq_condition *condition,
                            mr_error *err) {
    const mr_pq_file *own = set->files[file].file;
    mr_pq_left *left = mr_zalloc((size_t)own->n_groups + 1, sizeof *left);
    if (!left) {
        return mr_fail_memory(err, (size_t)own->n_groups * sizeof *left);
    }
    mr_status status = mr_pq_filter(&set->files[file], condition, left, err);
    for (int32_t g = 0; g < own->n_groups; g++) {
        if (status == MR_OK) {
            status = add_group(set, file, g, &left[g], err);
        }
        if (status < 0 || left[g].rows == 0) {
            mr_free(left[g].kept);
        }
    }
    mr_free(left);
    return blame(status, set->files[file].path, err);
}

static mr_status list_groups(mr_pq_set *set, const mr_pq_condition *condition, mr_error *err) {
    int64_t n = 0;
    for (int64_t i = 0; i < set->n_files; i++) {
        n += set->files[i].file->n_groups;
    }
    set->groups = mr_zalloc((size_t)n + 1, sizeof *set->groups);
    if (!set->groups) {
        return mr_fail_memory(err, (size_t)n * sizeof *set->groups);
    }
    for (int64_t i = 0; i < set->n_files; i++) {
        MR_TRY(add_groups(set, i, condition, err));
    }
    return MR_OK;
}

static mr_status read_condition(const char *text, json_t **out, mr_error *err) {
    json_error_t error;
    *out = NULL;
    if (!text[0]) {
        return MR_OK;
    }
    mr_status status = mr_json_load(out, text, strlen(text), JSON_REJECT_DUPLICATES, &error);
    if (status < 0) {
        mr_fail(err, MR_E_PARAM, "where is not valid JSON: %s", error.text);
        mr_hint(err, "write a list, operator first: [\"and\", [\">\", \"age\", 30], ...]");
    }
    return status < 0 ? MR_E_PARAM : MR_OK;
}

/* ---- Public ---- */
static mr_status check_described(const mr_pq_set *set, const mr_pq_set *described, mr_error *err) {
    bool same = !described || (described->n_fields == set->n_fields &&
                               described->n_partitions == set->n_partitions);
    for (int32_t i = 0; same && described && i < set->n_partitions; i++) {
        const mr_pq_partition *a = &set->partitions[i], *b = &described->partitions[i];
        same = strcmp(a->name, b->name) == 0 && a->is_number == b->is_number;
    }
    for (int32_t i = 0; same && described && set->fields && i < set->n_fields; i++) {
        const mr_pq_field *a = &set->fields[i].field, *b = &described->fields[i].field;
        same = strcmp(a->name, b->name) == 0 && a->type.dtype == b->type.dtype &&
               a->type.n_dims == b->type.n_dims &&
               memcmp(a->type.dims, b->type.dims, sizeof a->type.dims) == 0;
    }
    return same ? MR_OK
                : mr_fail(err, MR_E_TYPE, "the columns changed since the pipeline was read");
}

mr_status mr_pq_set_open(mr_pq_set *set, const mr_pq_set_config *config, const mr_pq_set *described,
                         mr_error *err) {
    mr_pq_condition condition = {.text = config->where, .keep = &config->keep, .cpu = config->cpu};
    MR_TRY(mr_pq_set_describe(set, config, err));
    MR_TRY(check_described(set, described, err));
    for (int64_t i = 1; i < set->n_files; i++) {
        MR_TRY(open_file(set, i, &config->keep, err));
    }
    for (int64_t i = 0; i < set->n_files; i++) {
        MR_TRY(blame(map_columns(set, i, err), set->files[i].path, err));
    }
    MR_TRY(read_condition(config->where, &condition.json, err));
    mr_status status = list_groups(set, &condition, err);
    json_decref(condition.json);
    MR_TRY(status);
    return mr_pq_set_check_partitions(set, &config->nulls, err);
}

void mr_pq_set_close(mr_pq_set *set) {
    for (int64_t i = 0; set->files && i < set->n_files; i++) {
        mr_pq_close(set->files[i].file);
        mr_free(set->files[i].columns);
    }
    for (int64_t i = 0; set->groups && i < set->n_groups; i++) {
        mr_free(set->groups[i].kept);
    }
    mr_pq_close(set->metadata);
    free(set->folder);
    mr_pq_set_partitions_free(set);
    mr_patterns_free(&set->paths);
    mr_free(set->files);
    mr_free(set->columns);
    mr_free(set->fields);
    mr_free(set->groups);
    *set = (mr_pq_set){.files = NULL};
}
