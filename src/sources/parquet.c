/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.c - rows of Parquet files. A row group is a block, a column of it is a part: read
 * together, unpacked by whichever workers are free, and rows are gathered into the batch column by
 * column.
 *
 * The fields stand in the first file's footer, so checking the parameters reads it. */
#include <errno.h>
#include <math.h>
#include <millrace/source.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/recycler.h"
#include "io/far_name.h"
#include "io/file.h"
#include "sources/parquet_set.h"
#include "sources/parquet_strips.h"

typedef struct params {
    mr_strings path, columns;
    const char *where;
    int32_t nulls; /* mr_pq_null_policy */
    const char *fill;
    bool ragged;
    const char *store;
    double filling;      /* not a parameter: `fill` as a number, found by check */
    mr_pq_set described; /* likewise */
} params;

static const char *const null_names[] = {"error", "fill", "mask", NULL};

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, path),
     .min_len = 1,
     .max_len = 1 << 20,
     .doc = "Files, folders (their files that end in .parquet; nothing that begins with \"_\" or "
            "\".\") or patterns such as \"data/*.parquet\" and \"data/**/*.parquet\"; in this "
            "order, those of a folder or pattern by name."},
    {.name = "columns",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, columns),
     .fallback = "[]",
     .max_len = 1 << 20,
     .doc = "Columns to read, by name or pattern (\"feature_*\"); a struct's name takes all of it. "
            "Empty: all. Nothing else is read."},
    {.name = "where",
     .kind = MR_PARAM_JSON,
     .offset = offsetof(params, where),
     .fallback = "null",
     .doc = "Only rows for which a condition holds: [\"and\", [\">\", \"age\", 30], [\"in\", "
            "\"country\", [\"DE\", \"FR\"]]]; also ==, !=, <, <=, >=, not_in, is_null, not_null, "
            "or, not."},
    {.name = "nulls",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(params, nulls),
     .fallback = "\"error\"",
     .choices = null_names,
     .doc = "What a null becomes: error (ends the run, naming row and column), fill (the value of "
            "`fill`; strings and lists are empty), or mask (as fill, with a field NAME.mask)."},
    {.name = "fill",
     .kind = MR_PARAM_JSON,
     .offset = offsetof(params, fill),
     .fallback = "0",
     .doc = "What stands for a null number: a number, or \"nan\" for columns of floats."},
    {.name = "ragged",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(params, ragged),
     .fallback = "false",
     .doc = "Lists are always fields of varying length; else a list that has one length in all "
            "rows of the first file is dense."},
    {.name = "store",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, store),
     .fallback = "\"\"",
     .doc =
         "The folder of a store, as of a cache, in which footers and the rows that `where` leaves "
         "are kept, so that the next start reads neither; \"auto\" is the user's own. Empty: "
         "nothing is kept."},
    {.name = NULL},
};

/* A column of a row group that batches may have as it lies in memory: kept by its part, and by
 * every batch that has rows of it. */
typedef struct shared_vector {
    atomic_int users;
    mr_pq_vector *vector;
    mr_recycler *memory; /* that it is of; may outlive the source */
} shared_vector;

/* Columns of a row group in memory. */
typedef struct part {
    mr_pq_vector **vectors; /* of the columns; NULL: its numbers are all in the strip */
    shared_vector *shared;  /* its only column, where that may be lent: then the vector's owner */
    struct joined *joined;  /* of the fields: rows that are not one piece in the vector */
    uint8_t *strip;
    size_t strip_bytes;
} part;

typedef struct joined {
    uint8_t *values;
    int64_t *start; /* in bytes; rows + 1 */
} joined;

/* A column that somebody wants, and which of the set's fields it gives. */
typedef struct wanted_column {
    int32_t column; /* in set.columns */
    int32_t first_field, n_fields;
    bool all_numbers; /* of every field each row is one number */
    bool may_lack;    /* the path beside an image's bytes: where there is none it is empty */
} wanted_column;

/* Columns that are unpacked together. */
typedef struct part_plan {
    int32_t first, n; /* of the wanted columns */
    int32_t first_field, n_fields;
    int32_t row_bytes; /* of the strip; 0: there is none */
    bool lent;         /* batches may have rows of it without a copy */
} part_plan;

/* Where a field is. */
typedef struct field_place {
    int32_t part;   /* -1: nobody wants its column */
    int32_t column; /* of the part */
    int32_t offset; /* in a row of the strip */
} field_place;

enum { MOST_IDLE = 64 };

/* Ops that are run on a column's values as they are unpacked. */
typedef struct column_map {
    mr_pq_map map; /* first: a pointer to it is one to this */
    const mr_mapper *mapper;
    int32_t field;
    mr_type in, out;
} column_map;

typedef struct table {
    const params *params;
    mr_pq_set set;
    wanted_column *wanted;
    int32_t n_wanted;
    part_plan *parts;
    int32_t n_parts;
    field_place *places;
    column_map *maps; /* of the fields; without a mapper where there is nothing to map */
    bool any_text;
    uint32_t cpu; /* features that may be used */
    const mr_row_kernels *row_kernels;
    mr_recycler *memory; /* of vectors and strips: as large from one row group to the next */
    _Atomic(mr_pq_decoder *) idle[MOST_IDLE]; /* decoders; whole places are exchanged, so no lock */
} table;

/* ---- Fields ---- */
static mr_pq_set_config config_of(const params *p, const mr_log *log, const mr_keeper *keeper,
                                  uint32_t cpu) {
    return (mr_pq_set_config){
        .paths = &p->path,
        .columns = &p->columns,
        .where = strcmp(p->where, "null") == 0 ? "" : p->where,
        .nulls = {.policy = (mr_pq_null_policy)p->nulls, .fill = p->filling},
        .ragged = p->ragged,
        .log = log,
        .keep = {p->store[0] ? keeper : NULL, p->store},
        .cpu = cpu,
    };
}

static mr_status read_fill(params *p, mr_error *err) {
    char *end;
    if (strcmp(p->fill, "\"nan\"") == 0) {
        p->filling = (double)NAN;
        return MR_OK;
    }
    p->filling = mr_number_parse(p->fill, &end);
    if (*end) {
        mr_fail(err, MR_E_PARAM, "fill wants a number or \"nan\", not %.40s", p->fill);
        mr_error_at_json(err, "$.source.parquet.fill");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static mr_status check(void *p, mr_error *err) {
    static const mr_log silent = {NULL, NULL};
    params *own = p;
    MR_TRY(read_fill(own, err));
    const mr_pq_set_config config = config_of(own, &silent, NULL, 0);
    return mr_pq_set_describe(&own->described, &config, err);
}

static void forget(void *p) {
    mr_pq_set_close(&((params *)p)->described);
}

static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err) {
    const mr_pq_set *set = &((const params *)p)->described;
    const mr_type number = {.dtype = MR_I64};
    const mr_type text = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    (void)err;
    *n_fields = set->n_fields + set->n_partitions + set->has_index;
    for (int32_t i = 0; *n_fields <= capacity && i < set->n_fields; i++) {
        fields[i] =
            (mr_field){.name = set->fields[i].field.name, .type = set->fields[i].field.type};
    }
    for (int32_t i = 0; *n_fields <= capacity && i < set->n_partitions; i++) {
        const mr_pq_partition *own = &set->partitions[i];
        fields[set->n_fields + i] =
            (mr_field){.name = own->name, .type = own->is_number ? number : text};
    }
    if (set->has_index && *n_fields <= capacity) {
        fields[*n_fields - 1] = (mr_field){"index", number, true};
    }
    return MR_OK;
}

/* ---- Ops on values ---- */
/* Where a condition leaves few rows, ops on all of them would be for nothing. */
static bool maps(const void *p, int32_t field) {
    const params *own = p;
    const mr_pq_set *set = &own->described;
    if (strcmp(own->where, "null") != 0 || field >= set->n_fields) {
        return false;
    }
    const mr_pq_set_field *kind = &set->fields[field];
    bool number = !kind->ragged && kind->field.type.n_dims == 0;
    return kind->field.role == MR_PQ_VALUES && (kind->text || number);
}

/* ---- Opening ---- */
static bool is_wanted_field(const mr_wanted *wanted, int32_t field) {
    return !wanted->fields || wanted->fields[field];
}

static bool is_number(const mr_pq_set_field *field) {
    return field->field.role != MR_PQ_LENGTHS && !field->ragged && field->field.type.n_dims == 0;
}

static mr_status take_tables(table *t, mr_error *err) {
    size_t columns = (size_t)t->set.n_columns + 1, fields = (size_t)t->set.n_fields + 1;
    t->wanted = mr_zalloc(columns, sizeof *t->wanted);
    t->parts = mr_zalloc(columns, sizeof *t->parts);
    t->places = mr_zalloc(fields, sizeof *t->places);
    t->maps = mr_zalloc(fields, sizeof *t->maps);
    return t->wanted && t->parts && t->places && t->maps
               ? MR_OK
               : mr_fail_memory(err, fields * sizeof *t->places);
}

/* Texts are handed on as pieces, some at a time. */
static mr_status map_texts(const column_map *own, const mr_pq_bytes *texts, int64_t n, uint8_t *out,
                           mr_error *err) {
    enum { SOME = 1024 };
    static const char nothing[1];
    mr_piece pieces[SOME];
    const mr_column in = {.type = own->in, .pieces = pieces};
    for (int64_t first = 0; first < n; first += SOME) {
        int64_t count = n - first < SOME ? n - first : SOME;
        const mr_column to = {own->out, out + (size_t)first * own->map.size, own->map.size, NULL};
        for (int64_t i = 0; i < count; i++) {
            const mr_pq_bytes *text = &texts[first + i];
            pieces[i] = (mr_piece){
                (void *)(uintptr_t)(text->data ? (const void *)text->data : nothing), text->size};
        }
        MR_TRY(own->mapper->map(own->mapper->user, own->field, count, &in, &to, err));
    }
    return MR_OK;
}

static mr_status map_values(const mr_pq_map *map, const void *values, int64_t n, void *out,
                            mr_error *err) {
    const column_map *own = (const column_map *)(const void *)map;
    if (own->in.n_dims == 1) {
        return map_texts(own, values, n, out, err);
    }
    const mr_column in = {own->in, (void *)(uintptr_t)values, mr_dtype_size(own->in.dtype), NULL},
                    to = {own->out, out, map->size, NULL};
    return own->mapper->map(own->mapper->user, own->field, n, &in, &to, err);
}

/* From here on a mapped field is a number, whatever it was. */
static void map_fields(table *t, const mr_mapper *mapper) {
    for (int32_t f = 0; mapper && f < t->set.n_fields; f++) {
        mr_pq_set_field *field = &t->set.fields[f];
        if (!mapper->is_mapped[f]) {
            continue;
        }
        t->maps[f] = (column_map){.map = {mr_dtype_size(mapper->types[f].dtype), map_values},
                                  .mapper = mapper,
                                  .field = f,
                                  .in = field->field.type,
                                  .out = mapper->types[f]};
        field->field.type = mapper->types[f];
        field->ragged = field->text = false;
    }
}

/* Fields of one column stand side by side. */
static void list_wanted(table *t, const mr_wanted *wanted) {
    const mr_pq_set *set = &t->set;
    char image[256];
    for (int32_t c = 0, f = 0; c < set->n_columns; c++) {
        wanted_column own = {.column = c, .first_field = f, .all_numbers = true};
        bool any = false;
        for (; f < set->n_fields && set->fields[f].field.column == set->columns[c]; f++) {
            bool is_wanted = is_wanted_field(wanted, f);
            any = any || is_wanted;
            own.all_numbers = own.all_numbers && is_number(&set->fields[f]);
            t->any_text = t->any_text || (set->fields[f].text && is_wanted);
            t->places[f].part = -1;
        }
        own.n_fields = f - own.first_field;
        own.may_lack =
            mr_pq_image_part_of(set->files[0].file, set->columns[c], image) == MR_PQ_IMAGE_PATH;
        if (any) {
            t->wanted[t->n_wanted++] = own;
        }
    }
}

static int32_t row_bytes_of(const table *t, const wanted_column *column) {
    int32_t bytes = 0;
    for (int32_t k = 0; k < column->n_fields; k++) {
        const mr_pq_set_field *field = &t->set.fields[column->first_field + k];
        bytes += (int32_t)mr_dtype_size(field->field.type.dtype);
    }
    return bytes;
}

static void place_column(table *t, const part_plan *plan, int32_t column) {
    const wanted_column *own = &t->wanted[plan->first + column];
    for (int32_t k = 0; k < own->n_fields; k++) {
        t->places[own->first_field + k] = (field_place){t->n_parts, column, 0};
    }
}

/* In a row the larger numbers come first, so that none crosses a word. */
static void place_numbers(table *t, const part_plan *plan) {
    int32_t offset = 0;
    for (size_t size = 8; size >= 1; size /= 2) {
        for (int32_t f = plan->first_field; f < plan->first_field + plan->n_fields; f++) {
            bool is_own = t->places[f].part == t->n_parts;
            if (is_own && mr_dtype_size(t->set.fields[f].field.type.dtype) == size) {
                t->places[f].offset = offset;
                offset += (int32_t)size;
            }
        }
    }
}

/* Values that lie one after the other, as many in every row. */
static bool may_lend(const table *t, const wanted_column *column) {
    const mr_pq_set_field *values = &t->set.fields[column->first_field];
    return !values->ragged && !values->text && values->field.role == MR_PQ_VALUES;
}

static void add_part(table *t, part_plan plan, int32_t bytes, bool in_order) {
    const wanted_column *last = &t->wanted[plan.first + plan.n - 1];
    plan.first_field = t->wanted[plan.first].first_field;
    plan.n_fields = last->first_field + last->n_fields - plan.first_field;
    plan.row_bytes = plan.n == 1 ? 0 : mr_pq_strip_row_bytes(bytes);
    plan.lent = in_order && plan.n == 1 && may_lend(t, &t->wanted[plan.first]);
    for (int32_t c = 0; c < plan.n; c++) {
        place_column(t, &plan, c);
    }
    if (plan.row_bytes) {
        place_numbers(t, &plan);
    }
    t->parts[t->n_parts++] = plan;
}

/* Neighbouring columns of numbers become one part while their rows fit; where rows are taken in
 * order, every column is one, and copied whole. */
static void plan_parts(table *t, bool in_order) {
    for (int32_t i = 0, end; i < t->n_wanted; i = end) {
        part_plan plan = {.first = i, .n = 1};
        int32_t bytes = row_bytes_of(t, &t->wanted[i]);
        for (end = i + 1; end < t->n_wanted; end++) {
            int32_t more = row_bytes_of(t, &t->wanted[end]);
            if (in_order || !t->wanted[i].all_numbers || !t->wanted[end].all_numbers ||
                bytes + more > MR_PQ_STRIP) {
                break;
            }
            plan.n++;
            bytes += more;
        }
        add_part(t, plan, bytes, in_order);
    }
}

static mr_status fail_without_rows(const table *t, mr_error *err) {
    int64_t all = 0;
    for (int64_t i = 0; i < t->set.n_files; i++) {
        const mr_pq_file *file = t->set.files[i].file;
        for (int32_t g = 0; g < file->n_groups; g++) {
            all += file->groups[g].rows;
        }
    }
    if (all == 0) {
        return mr_fail(err, MR_E_PARAM, "%s no rows",
                       t->set.n_files == 1 ? "the file has" : "the files have");
    }
    return mr_fail(err, MR_E_PARAM, "none of %lld rows fits the condition (where)", (long long)all);
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    const params *own = p;
    const mr_pq_set_config config = config_of(own, wanted->log, wanted->keeper, wanted->cpu);
    table *t = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    *state = t;
    t->params = own;
    t->memory = mr_recycler_new();
    if (!t->memory) {
        return mr_fail_memory(err, sizeof *t);
    }
    t->cpu = wanted->cpu;
    t->row_kernels = mr_row_kernels_for(t->cpu);
    MR_TRY(mr_pq_set_open(&t->set, &config, &own->described, err));
    if (t->set.samples == 0) {
        return fail_without_rows(t, err);
    }
    MR_TRY(take_tables(t, err));
    map_fields(t, wanted->mapper);
    list_wanted(t, wanted);
    plan_parts(t, wanted->in_order);
    return MR_OK;
}

static void close_(void *state) {
    table *t = state;
    if (t) {
        for (int32_t i = 0; i < MOST_IDLE; i++) {
            mr_pq_decoder_free(t->idle[i]);
        }
        mr_pq_set_close(&t->set);
        mr_free(t->wanted);
        mr_free(t->parts);
        mr_free(t->places);
        mr_free(t->maps);
        mr_recycler_close(t->memory);
        mr_free(t);
    }
}

/* ---- Blocks ---- */
static uint64_t hash_params(const params *p, uint64_t seed) {
    const double words[3] = {(double)p->nulls, p->filling, p->ragged};
    return mr_hash64(words, sizeof words, seed);
}

static void shape(const void *state, mr_shape *out) {
    const table *t = state;
    out->samples = t->set.samples;
    out->blocks = t->set.n_groups;
    out->parts = t->n_parts;
    out->keeps_bytes = t->any_text; /* strings are pointed at where they lie */
    out->fingerprint[0] =
        mr_hash64(t->params->where, strlen(t->params->where), t->set.fingerprint[0]);
    out->fingerprint[1] = hash_params(t->params, t->set.fingerprint[1]);
}

static int64_t first_sample(const void *state, int64_t block) {
    return ((const table *)state)->set.groups[block].first;
}

static const mr_pq_chunk *chunk_of(const table *t, const mr_pq_set_group *group, int32_t wanted) {
    const mr_pq_set_file *file = &t->set.files[group->file];
    return &file->file->groups[group->group].chunks[file->columns[t->wanted[wanted].column]];
}

/* Of a value of a wanted column in memory, as it is or as ops make it. */
static int64_t value_bytes(const table *t, const wanted_column *wanted) {
    const mr_pq_set_file *first = &t->set.files[0];
    const mr_pq_column *column = &first->file->columns[first->columns[wanted->column]];
    size_t own = column->items == 0 ? sizeof(mr_pq_bytes)
                                    : (size_t)column->items * mr_dtype_size(column->dtype);
    int64_t most = (int64_t)own;
    for (int32_t f = wanted->first_field; t->maps && f < wanted->first_field + wanted->n_fields;
         f++) {
        int64_t mapped = t->maps[f].mapper ? mr_type_bytes(&t->maps[f].out) : 0;
        most = mapped > most ? mapped : most;
    }
    return most;
}

/* Pages say little about it where values come from a dictionary: a value then takes some bits of a
 * page, and all of its own in memory. Strings besides point into the pages. */
static int64_t block_bytes(const void *state, int64_t block) {
    const table *t = state;
    const mr_pq_set_group *group = &t->set.groups[block];
    int64_t bytes = 0, strips = 0;
    for (int32_t i = 0; i < t->n_wanted; i++) {
        const mr_pq_chunk *chunk = chunk_of(t, group, i);
        int64_t values = chunk->n_values * value_bytes(t, &t->wanted[i]);
        bytes += values > chunk->unpacked_size ? values : chunk->unpacked_size;
    }
    for (int32_t i = 0; i < t->n_parts; i++) {
        strips += t->set.files[group->file].file->groups[group->group].rows * t->parts[i].row_bytes;
    }
    return bytes > strips ? bytes : strips;
}

static int64_t row_of(const mr_pq_set_group *group, int64_t sample) {
    int64_t i = sample - group->first;
    return group->kept ? (int64_t)group->kept[i] : i;
}

static const mr_pq_set_group *group_of(const table *t, int64_t sample) {
    int64_t low = 0, high = t->set.n_groups;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(t->set.groups[middle].first <= sample ? &low : &high) = middle;
    }
    return &t->set.groups[low];
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const table *t = state;
    const mr_pq_set_group *group = group_of(t, sample);
    const char *path = t->set.files[group->file].path;
    snprintf(buffer, size, "%.*s (row group %d, row %lld)", (int)mr_path_public(path), path,
             group->group, (long long)row_of(group, sample));
}

static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    const table *t = state;
    const mr_pq_set_group *group = group_of(t, sample);
    uint64_t words[5] = {(uint64_t)group->group, (uint64_t)row_of(group, sample),
                         hash_params(t->params, 1)};
    if (!mr_file_identity(t->set.files[group->file].path, INT64_MAX, &words[3])) {
        return false;
    }
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

static mr_status locate(const void *state, int64_t block, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err) {
    const table *t = state;
    const mr_pq_set_group *group = &t->set.groups[block];
    const mr_pq_set_file *file = &t->set.files[group->file];
    *n = t->n_wanted;
    for (int32_t i = 0; *n <= capacity && i < *n; i++) {
        mr_pq_extent at;
        MR_TRY(mr_pq_chunk_extent(file->file, group->group, file->columns[t->wanted[i].column], &at,
                                  err));
        extents[i] = (mr_extent){.path = file->path,
                                 .offset = at.offset,
                                 .length = at.size,
                                 .limit = INT64_MAX,
                                 .object = group->file + 1};
    }
    return MR_OK;
}

/* ---- Unpacking ---- */
static mr_status take_decoder(table *t, mr_pq_decoder **out, mr_error *err) {
    for (int32_t i = 0; i < MOST_IDLE; i++) {
        *out = atomic_exchange(&t->idle[i], NULL);
        if (*out) {
            return MR_OK;
        }
    }
    return mr_pq_decoder_new(out, t->cpu, mr_recycler_allocator(t->memory), NULL, err);
}

static void give_decoder(table *t, mr_pq_decoder *decoder) {
    for (int32_t i = 0; i < MOST_IDLE; i++) {
        mr_pq_decoder *nobody = NULL;
        if (atomic_compare_exchange_strong(&t->idle[i], &nobody, decoder)) {
            return;
        }
    }
    mr_pq_decoder_free(decoder);
}

/* Rows that are scattered in the vector, or made of several strings, one after the other. */
static mr_status join_rows(const mr_pq_vector *vector, const mr_pq_field *field, joined *out,
                           mr_error *err) {
    size_t element = mr_dtype_size(field->type.dtype);
    out->start = mr_zalloc((size_t)vector->n_rows + 1, sizeof *out->start);
    if (!out->start) {
        return mr_fail_memory(err, (size_t)vector->n_rows * sizeof *out->start);
    }
    for (int64_t row = 0; row < vector->n_rows; row++) {
        int64_t length = mr_pq_row_length(vector, field, row);
        out->start[row + 1] = out->start[row] + length * (int64_t)element;
    }
    out->values = malloc((size_t)out->start[vector->n_rows] + 1);
    if (!out->values) {
        return mr_fail_memory(err, (size_t)out->start[vector->n_rows]);
    }
    for (int64_t row = 0; row < vector->n_rows; row++) {
        mr_pq_row_copy(vector, field, row, out->values + out->start[row]);
    }
    return MR_OK;
}

static mr_status check_dense(const mr_pq_vector *vector, const mr_pq_field *field, mr_error *err) {
    if (vector->n_rows == 0 || mr_pq_row_size(vector, field) == mr_type_bytes(&field->type)) {
        return MR_OK;
    }
    mr_fail(err, MR_E_TYPE, "column %s: its lists have not the length that they seemed to have",
            field->name);
    mr_hint(err, "\"ragged\": true makes it a field of varying length");
    return MR_E_TYPE;
}

/* A field's values in its vector, one after the other. */
static uint8_t *numbers_of(const mr_pq_vector *vector, const mr_pq_field *field) {
    return field->role == MR_PQ_MASK ? vector->valid : vector->values;
}

static void fill_strip(const table *t, const part_plan *plan, const part *own) {
    mr_pq_strip strip = {.kernels = t->row_kernels, .row_bytes = plan->row_bytes};
    for (int32_t f = plan->first_field; f < plan->first_field + plan->n_fields; f++) {
        if (t->places[f].part < 0) {
            continue; /* of a column between them that nobody wants */
        }
        const mr_pq_field *field = &t->set.fields[f].field;
        size_t size = mr_dtype_size(field->type.dtype);
        strip.numbers[strip.n++] =
            (mr_pq_number){t->places[f].offset, (int32_t)size,
                           numbers_of(own->vectors[t->places[f].column], field), size};
    }
    mr_pq_strip_find_words(&strip);
    mr_pq_strip_fill(&strip, own->strip, own->vectors[0]->n_rows);
}

/* ---- Vectors that batches share ---- */
static mr_status share_vector(const table *t, part *own, mr_error *err) {
    own->shared = mr_zalloc(1, sizeof *own->shared);
    if (!own->shared) {
        return mr_fail_memory(err, sizeof *own->shared);
    }
    atomic_init(&own->shared->users, 1);
    own->shared->vector = own->vectors[0];
    own->shared->memory = mr_recycler_ref(t->memory);
    return MR_OK;
}

static void leave_vector(void *owner) {
    shared_vector *shared = owner;
    if (atomic_fetch_sub(&shared->users, 1) == 1) {
        mr_pq_vector_free(shared->vector);
        mr_recycler_unref(shared->memory);
        mr_free(shared);
    }
}

static void drop_vectors(const part_plan *plan, part *own) {
    if (own->shared) {
        leave_vector(own->shared);
        return;
    }
    for (int32_t c = 0; own->vectors && c < plan->n; c++) {
        mr_pq_vector_free(own->vectors[c]);
        own->vectors[c] = NULL;
    }
}

static mr_status make_strip(const table *t, const part_plan *plan, part *own, mr_error *err) {
    const mr_allocator *memory = mr_recycler_allocator(t->memory);
    own->strip_bytes = (size_t)own->vectors[0]->n_rows * (size_t)plan->row_bytes + 1;
    own->strip = memory->alloc(memory->user, own->strip_bytes, MR_PQ_STRIP);
    if (!own->strip) {
        return mr_fail_memory(err, own->strip_bytes);
    }
    fill_strip(t, plan, own);
    drop_vectors(plan, own);
    return MR_OK;
}

/* A part of one column, whose fields may be of any kind. */
static mr_status finish_column(const table *t, const part_plan *plan, part *own, mr_error *err) {
    own->joined = mr_zalloc((size_t)plan->n_fields, sizeof *own->joined);
    if (!own->joined) {
        return mr_fail_memory(err, (size_t)plan->n_fields * sizeof *own->joined);
    }
    for (int32_t k = 0; k < plan->n_fields; k++) {
        const mr_pq_set_field *field = &t->set.fields[plan->first_field + k];
        if (t->maps[plan->first_field + k].mapper) {
            continue; /* one number a row */
        }
        if (!field->ragged) {
            MR_TRY(check_dense(own->vectors[0], &field->field, err));
        } else if (!field->text) {
            MR_TRY(join_rows(own->vectors[0], &field->field, &own->joined[k], err));
        }
    }
    return MR_OK;
}

/* The footer tells nothing of the pages of a file that was written to since. */
static mr_status check_unchanged(const table *t, const mr_pq_set_group *group, mr_error *err) {
    const mr_pq_set_file *file = &t->set.files[group->file];
    const wanted_column *first = &t->wanted[t->parts[0].first];
    uint64_t now[2];
    if (!file->stamped || !mr_file_stamp(file->path, now) ||
        memcmp(now, file->stamp, sizeof now) == 0) {
        return MR_OK;
    }
    mr_fail(err, MR_E_CORRUPT,
            "row group %d, column \"%s\": the file was written anew while it was read",
            group->group, file->file->columns[file->columns[first->column]].name);
    mr_hint(err, "start again; write new files beside old ones, and leave those that are read");
    if (err) {
        err->sys = ESTALE; /* not one sample's fault: no other may take its place */
    }
    return MR_E_CORRUPT;
}

/* A mask is a field, and fields are those of the first file: where it has none, a null is an
 * error rather than a number that nothing tells from others. */
static mr_pq_null_policy null_policy(const table *t, const wanted_column *wanted) {
    bool mask = false;
    for (int32_t f = wanted->first_field; f < wanted->first_field + wanted->n_fields; f++) {
        mask = mask || t->set.fields[f].field.role == MR_PQ_MASK;
    }
    if (t->params->nulls == MR_PQ_NULL_MASK && !mask) {
        return MR_PQ_NULL_ERROR;
    }
    return t->params->nulls == MR_PQ_NULL_ERROR && wanted->may_lack
               ? MR_PQ_NULL_FILL
               : (mr_pq_null_policy)t->params->nulls;
}

static mr_status decode_columns(const table *t, mr_pq_decoder *decoder, const part_plan *plan,
                                const mr_block *block, part *own, mr_error *err) {
    const mr_pq_set_group *group = &t->set.groups[block->number];
    const mr_pq_set_file *file = &t->set.files[group->file];
    for (int32_t c = 0; c < plan->n; c++) {
        const mr_bytes bytes = block->bytes[plan->first + c];
        const wanted_column *wanted = &t->wanted[plan->first + c];
        const column_map *map = &t->maps[wanted->first_field]; /* its values */
        const mr_pq_job job = {
            .file = file->file,
            .group = group->group,
            .column = file->columns[wanted->column],
            .bytes = {bytes.data, bytes.size},
            .nulls = {.policy = null_policy(t, wanted),
                      .fill = wanted->may_lack ? 0 : t->params->filling,
                      .rows = group->kept,
                      .n_rows = group->rows},
            .map = map->mapper ? &map->map : NULL,
        };
        mr_status status = mr_pq_decode(decoder, &job, &own->vectors[c], err);
        if (status == MR_E_TYPE && t->params->nulls == MR_PQ_NULL_MASK) {
            mr_hint(err, "the first file's column cannot be null, so there is no mask: name a file "
                         "first whose can be, or \"nulls\": \"fill\"");
        }
        MR_TRY(status);
    }
    return MR_OK;
}

static mr_status unpack(const void *state, const mr_block *block, int32_t which, void **out,
                        mr_error *err) {
    table *t = (table *)(uintptr_t)state; /* for its idle decoders */
    if (which >= t->n_parts) {
        return MR_OK; /* nothing of the files is wanted */
    }
    const part_plan *plan = &t->parts[which];
    mr_pq_decoder *decoder = NULL;
    if (which == 0) {
        MR_TRY(check_unchanged(t, &t->set.groups[block->number], err));
    }
    part *own = mr_zalloc(1, sizeof *own);
    if (!own) {
        return mr_fail_memory(err, sizeof *own);
    }
    *out = own;
    own->vectors = mr_zalloc((size_t)plan->n, sizeof *own->vectors);
    if (!own->vectors) {
        return mr_fail_memory(err, (size_t)plan->n * sizeof *own->vectors);
    }
    MR_TRY(take_decoder(t, &decoder, err));
    mr_status status = decode_columns(t, decoder, plan, block, own, err);
    give_decoder(t, decoder);
    MR_TRY(status);
    if (plan->lent) {
        MR_TRY(share_vector(t, own, err));
    }
    return plan->row_bytes ? make_strip(t, plan, own, err) : finish_column(t, plan, own, err);
}

static void drop(const void *state, int32_t which, void *unpacked) {
    const table *t = state;
    const part_plan *plan = &t->parts[which];
    const mr_allocator *memory = mr_recycler_allocator(t->memory);
    part *own = unpacked;
    if (!own) {
        return;
    }
    for (int32_t k = 0; own->joined && k < plan->n_fields; k++) {
        free(own->joined[k].values);
        mr_free(own->joined[k].start);
    }
    mr_free(own->joined);
    drop_vectors(plan, own);
    mr_free(own->vectors);
    memory->release(memory->user, own->strip, own->strip_bytes);
    mr_free(own);
}

/* ---- Rows ---- */
static const part *part_at(const table *t, const mr_block *block, int32_t field) {
    return block->parts[t->places[field].part];
}

static mr_bytes ragged_row(const table *t, const mr_block *block, int32_t field, int64_t row) {
    const part *own = part_at(t, block, field);
    if (t->set.fields[field].text) {
        mr_pq_bytes bytes = mr_pq_row_bytes(own->vectors[0], row);
        return (mr_bytes){bytes.data, bytes.size};
    }
    const joined *rows_of = &own->joined[field - t->parts[t->places[field].part].first_field];
    return (mr_bytes){rows_of->values + rows_of->start[row],
                      (size_t)(rows_of->start[row + 1] - rows_of->start[row])};
}

/* Of lists of fixed bytes an item is a row of several elements. */
static size_t item_bytes(const mr_type *type) {
    size_t bytes = mr_dtype_size(type->dtype);
    for (int32_t d = 1; d < type->n_dims; d++) {
        bytes *= (size_t)type->dims[d];
    }
    return bytes;
}

static void point_at(mr_view *view, mr_bytes bytes) {
    static const char nothing[1];
    view->data = (void *)(uintptr_t)(bytes.data ? bytes.data : nothing);
    view->size = bytes.size;
    view->type.dims[0] = (int64_t)(bytes.size / item_bytes(&view->type));
}

static mr_status fill_field(const table *t, const mr_block *block, int32_t field, int64_t row,
                            mr_view *view, mr_error *err) {
    const mr_pq_set_field *kind = &t->set.fields[field];
    if (kind->ragged) {
        point_at(view, ragged_row(t, block, field, row));
        return MR_OK;
    }
    const part *own = part_at(t, block, field);
    if (own->strip) {
        const part_plan *plan = &t->parts[t->places[field].part];
        memcpy(view->data,
               own->strip + (size_t)row * (size_t)plan->row_bytes + t->places[field].offset,
               view->size);
        return MR_OK;
    }
    if (t->maps[field].mapper) {
        memcpy(view->data, (const uint8_t *)own->vectors[0]->values + (size_t)row * view->size,
               view->size);
        return MR_OK;
    }
    return mr_pq_copy(own->vectors[0], &kind->field, &row, 1, view->data, view->size, err);
}

/* Columns of the files' folders: one value for a whole row group. */
static const mr_pq_partition_value *partition_of(const table *t, const mr_pq_set_group *group,
                                                 int32_t partition) {
    return &t->set.files[group->file].values[partition];
}

static void fill_partitions(const table *t, int64_t sample, mr_view *fields) {
    for (int32_t p = 0; p < t->set.n_partitions; p++) {
        mr_view *view = &fields[t->set.n_fields + p];
        if (!mr_is_wanted(view)) {
            continue;
        }
        const mr_pq_partition_value *value = partition_of(t, group_of(t, sample), p);
        if (t->set.partitions[p].is_number) {
            memcpy(view->data, &value->number, sizeof value->number);
        } else {
            point_at(view, (mr_bytes){value->text, strlen(value->text)});
        }
    }
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const table *t = state;
    int32_t index = t->set.n_fields + t->set.n_partitions;
    if (t->set.has_index && mr_is_wanted(&fields[index])) {
        memcpy(fields[index].data, &sample, sizeof sample);
    }
    fill_partitions(t, sample, fields);
    if (!block) {
        return MR_OK;
    }
    int64_t row = row_of(&t->set.groups[block->number], sample);
    for (int32_t f = 0; f < t->set.n_fields; f++) {
        if (mr_is_wanted(&fields[f])) {
            MR_TRY(fill_field(t, block, f, row, &fields[f], err));
        }
    }
    return MR_OK;
}

/* Rows that are gathered together: few enough that a line of the cache for each stays there. Of a
 * strip some at a time are taken, and as many asked for that come this much later. */
enum { RUN = 256, SOME_ROWS = 8, AHEAD = 32 };

typedef struct row_run {
    const mr_block *const *blocks;
    int64_t numbers[RUN];   /* in the row group */
    const uint8_t *at[RUN]; /* in the part that is gathered from */
    int64_t n;
    bool consecutive; /* rows of one block, one after the other */
    bool copied;      /* numbers are there already: see copy_numbers */
} row_run;

#define GATHER(type)                                                                               \
    static void gather_##type(const row_run *run, const mr_column *to) {                           \
        char *at = to->data;                                                                       \
        for (int64_t i = 0; i < run->n; i++, at += to->stride) {                                   \
            memcpy(at, run->at[i], sizeof(type));                                                  \
        }                                                                                          \
    }
GATHER(uint8_t)
GATHER(uint16_t)
GATHER(uint32_t)
GATHER(uint64_t)

static void gather_numbers(const row_run *run, size_t size, const mr_column *to) {
    switch (size) {
    case 1:
        gather_uint8_t(run, to);
        return;
    case 2:
        gather_uint16_t(run, to);
        return;
    case 4:
        gather_uint32_t(run, to);
        return;
    default:
        gather_uint64_t(run, to);
    }
}

static void find_in_strips(row_run *run, int32_t which, size_t row_bytes) {
    for (int64_t i = 0; i < run->n; i++) {
        const part *own = run->blocks[i]->parts[which];
        run->at[i] = own->strip + (size_t)run->numbers[i] * row_bytes;
    }
}

/* The misses of the cache overlap, also with the work on rows before. */
static void ask_for_rows(const row_run *run, int64_t from, size_t row_bytes) {
    int64_t end = from + SOME_ROWS < run->n ? from + SOME_ROWS : run->n;
    for (int64_t i = from; i < end; i++) {
        for (size_t line = 0; line < row_bytes; line += 64) {
            __builtin_prefetch(run->at[i] + line);
        }
        __builtin_prefetch(run->at[i] + row_bytes - 1);
    }
}

static void find_in_vectors(row_run *run, int32_t which, size_t size) {
    for (int64_t i = 0; i < run->n; i++) {
        const part *own = run->blocks[i]->parts[which];
        run->at[i] = (const uint8_t *)own->vectors[0]->values + (size_t)run->numbers[i] * size;
    }
}

/* Rows of a field of fixed size other than a plain number, block by block. */
static mr_status gather_rows(const table *t, int32_t field, const row_run *run, const mr_column *to,
                             mr_error *err) {
    for (int64_t i = 0, end; i < run->n; i = end) {
        for (end = i + 1; end < run->n && run->blocks[end] == run->blocks[i]; end++) {
        }
        MR_TRY(mr_pq_copy(part_at(t, run->blocks[i], field)->vectors[0],
                          &t->set.fields[field].field, run->numbers + i, end - i,
                          (char *)to->data + (size_t)i * to->stride, to->stride, err));
    }
    return MR_OK;
}

static void point_at_texts(const row_run *run, int32_t which, mr_piece *pieces) {
    for (int64_t i = 0, end; i < run->n; i = end) {
        const part *own = run->blocks[i]->parts[which];
        const mr_pq_bytes *texts = own->vectors[0]->values;
        for (end = i; end < run->n && run->blocks[end] == run->blocks[i]; end++) {
            const mr_pq_bytes *text = &texts[run->numbers[end]];
            pieces[end] = (mr_piece){(void *)(uintptr_t)text->data, text->size};
        }
    }
}

static void point_at_rows(const table *t, int32_t field, const row_run *run, mr_piece *pieces) {
    if (t->set.fields[field].text) {
        point_at_texts(run, t->places[field].part, pieces);
        return;
    }
    for (int64_t i = 0; i < run->n; i++) {
        mr_bytes row = ragged_row(t, run->blocks[i], field, run->numbers[i]);
        pieces[i] = (mr_piece){(void *)(uintptr_t)row.data, row.size};
    }
}

/* A field of a part without a strip. */
static mr_status gather_field(const table *t, int32_t field, row_run *run, const mr_column *to,
                              mr_error *err) {
    const mr_pq_set_field *kind = &t->set.fields[field];
    if (to->pieces) {
        point_at_rows(t, field, run, to->pieces);
        return MR_OK;
    }
    if (!is_number(kind) || kind->field.role != MR_PQ_VALUES) {
        return gather_rows(t, field, run, to, err);
    }
    size_t size = mr_dtype_size(kind->field.type.dtype);
    if (run->consecutive && to->stride == size) {
        const uint8_t *values = part_at(t, run->blocks[0], field)->vectors[0]->values;
        memcpy(to->data, values + (size_t)run->numbers[0] * size, (size_t)run->n * size);
        return MR_OK;
    }
    find_in_vectors(run, t->places[field].part, size);
    gather_numbers(run, size, to);
    return MR_OK;
}

static mr_column column_from(const mr_column *column, int64_t first) {
    mr_column from = *column;
    from.data = from.data ? (char *)from.data + (size_t)first * from.stride : NULL;
    from.pieces = from.pieces ? from.pieces + first : NULL;
    return from;
}

/* A number that is taken from a vector as it is. */
static bool is_copied(const table *t, int32_t field, const mr_column *to) {
    const mr_pq_set_field *kind = &t->set.fields[field];
    int32_t which = t->places[field].part;
    return which >= 0 && t->parts[which].row_bytes == 0 && to->data && is_number(kind) &&
           kind->field.role == MR_PQ_VALUES && to->stride == mr_dtype_size(kind->field.type.dtype);
}

/* n rows that lie one after the other: numbers are copied all at once. False: there is nothing else
 * to gather. */
static bool copy_numbers(const table *t, const mr_block *block, int64_t row, int64_t n,
                         const mr_column *columns, int64_t first) {
    int32_t n_fields = t->set.n_fields + t->set.n_partitions + t->set.has_index;
    bool others = false;
    for (int32_t f = 0; f < n_fields; f++) {
        const mr_column to = column_from(&columns[f], first);
        if (f < t->set.n_fields && is_copied(t, f, &to)) {
            const uint8_t *values = part_at(t, block, f)->vectors[0]->values;
            memcpy(to.data, values + (size_t)row * to.stride, (size_t)n * to.stride);
        } else {
            others = others || to.data || to.pieces;
        }
    }
    return others;
}

static void list_numbers(const table *t, int32_t which, const mr_column *columns, int64_t first,
                         mr_pq_strip *strip) {
    const part_plan *plan = &t->parts[which];
    strip->kernels = t->row_kernels;
    strip->row_bytes = plan->row_bytes;
    strip->n = 0;
    for (int32_t f = plan->first_field; f < plan->first_field + plan->n_fields; f++) {
        const mr_column to = column_from(&columns[f], first);
        if (t->places[f].part == which && to.data) {
            size_t size = mr_dtype_size(t->set.fields[f].field.type.dtype);
            strip->numbers[strip->n++] =
                (mr_pq_number){t->places[f].offset, (int32_t)size, to.data, to.stride};
        }
    }
    mr_pq_strip_find_words(strip);
}

static void gather_strip(const table *t, int32_t which, row_run *run, const mr_column *columns,
                         int64_t first) {
    size_t row_bytes = (size_t)t->parts[which].row_bytes;
    mr_pq_strip strip;
    find_in_strips(run, which, row_bytes);
    for (int64_t i = 0; i < AHEAD; i += SOME_ROWS) {
        ask_for_rows(run, i, row_bytes);
    }
    list_numbers(t, which, columns, first, &strip);
    for (int64_t i = 0; i < run->n; i += SOME_ROWS) {
        ask_for_rows(run, i + AHEAD, row_bytes);
        mr_pq_strip_take(&strip, run->at + i, i, run->n - i < SOME_ROWS ? run->n - i : SOME_ROWS);
    }
}

static mr_status gather_part(const table *t, int32_t which, row_run *run, const mr_column *columns,
                             int64_t first, mr_error *err) {
    const part_plan *plan = &t->parts[which];
    if (plan->row_bytes) {
        gather_strip(t, which, run, columns, first);
        return MR_OK;
    }
    for (int32_t f = plan->first_field; f < plan->first_field + plan->n_fields; f++) {
        const mr_column to = column_from(&columns[f], first);
        if (t->places[f].part == which && (to.data || to.pieces) &&
            !(run->copied && is_copied(t, f, &to))) {
            MR_TRY(gather_field(t, f, run, &to, err));
        }
    }
    return MR_OK;
}

static void find_rows(const table *t, row_run *run, const int64_t *samples,
                      const mr_column *index) {
    run->consecutive = true;
    for (int64_t i = 0; i < run->n; i++) {
        run->numbers[i] = row_of(&t->set.groups[run->blocks[i]->number], samples[i]);
        run->consecutive = run->consecutive && run->blocks[i] == run->blocks[0] &&
                           run->numbers[i] == run->numbers[0] + i;
    }
    for (int64_t i = 0; index->data && i < run->n; i++) {
        memcpy((char *)index->data + (size_t)i * index->stride, &samples[i], sizeof *samples);
    }
}

static void gather_partition(const table *t, int32_t partition, const row_run *run,
                             const mr_column *to) {
    for (int64_t i = 0; i < run->n; i++) {
        const mr_pq_set_group *group = &t->set.groups[run->blocks[i]->number];
        const mr_pq_partition_value *value = partition_of(t, group, partition);
        if (to->pieces) {
            to->pieces[i] = (mr_piece){(void *)(uintptr_t)value->text, strlen(value->text)};
        } else {
            memcpy((char *)to->data + (size_t)i * to->stride, &value->number, sizeof value->number);
        }
    }
}

static void gather_partitions(const table *t, const row_run *run, const mr_column *columns,
                              int64_t first) {
    for (int32_t p = 0; p < t->set.n_partitions; p++) {
        const mr_column to = column_from(&columns[t->set.n_fields + p], first);
        if (to.data || to.pieces) {
            gather_partition(t, p, run, &to);
        }
    }
}

/* How many rows from the first on lie one after the other in a block. */
static int64_t count_in_order(const table *t, const mr_block *const *blocks, const int64_t *samples,
                              int64_t n) {
    int64_t i = 1;
    if (t->set.groups[blocks[0]->number].kept) {
        return 1; /* some are left out */
    }
    while (i < n && blocks[i] == blocks[0] && samples[i] == samples[0] + i) {
        i++;
    }
    return i;
}

static mr_status gather_run(const table *t, row_run *run, const int64_t *samples,
                            const mr_column *columns, int64_t first, mr_error *err) {
    const mr_column nobodys = {.data = NULL},
                    *last = &columns[t->set.n_fields + t->set.n_partitions];
    const mr_column index = t->set.has_index ? column_from(last, first) : nobodys;
    find_rows(t, run, samples + first, &index);
    gather_partitions(t, run, columns, first);
    for (int32_t which = 0; which < t->n_parts; which++) {
        MR_TRY(gather_part(t, which, run, columns, first, err));
    }
    return MR_OK;
}

static mr_status gather(const void *state, const mr_block *const *blocks, const int64_t *samples,
                        int64_t n, const mr_column *columns, mr_error *err) {
    const table *t = state;
    row_run run;
    for (int64_t first = 0, end; first < n; first = end) {
        int64_t in_order = count_in_order(t, blocks + first, samples + first, n - first);
        run.copied = in_order >= RUN || (in_order > 1 && in_order == n - first);
        end = run.copied ? first + in_order : first + RUN < n ? first + RUN : n;
        if (run.copied) {
            int64_t row = samples[first] - t->set.groups[blocks[first]->number].first;
            if (!copy_numbers(t, blocks[first], row, in_order, columns, first)) {
                continue;
            }
        }
        for (int64_t at = first; at < end; at += RUN) {
            run.n = end - at < RUN ? end - at : RUN;
            run.blocks = blocks + at;
            MR_TRY(gather_run(t, &run, samples, columns, at, err));
        }
    }
    return MR_OK;
}

/* ---- Lending ---- */
static size_t row_size(const table *t, int32_t field) {
    return (size_t)mr_type_bytes(&t->set.fields[field].field.type);
}

static bool lend(const void *state, const mr_block *block, int32_t field, int64_t sample, int64_t n,
                 mr_loan *out) {
    const table *t = state;
    const mr_pq_set_group *group = &t->set.groups[block->number];
    int32_t which = field < t->set.n_fields ? t->places[field].part : -1;
    if (which < 0 || !t->parts[which].lent || t->parts[which].first_field != field || group->kept) {
        return false;
    }
    shared_vector *shared = part_at(t, block, field)->shared;
    int64_t row = sample - group->first;
    uint8_t *at = (uint8_t *)shared->vector->values + (size_t)row * row_size(t, field);
    if (shared->vector->ranges || row + n > shared->vector->n_rows ||
        (uintptr_t)at % MR_ALIGN != 0) {
        return false;
    }
    atomic_fetch_add_explicit(&shared->users, 1, memory_order_relaxed);
    *out = (mr_loan){at, shared, leave_vector};
    return true;
}

extern const mr_source_class mr_source_parquet;
const mr_source_class mr_source_parquet = {
    MR_SOURCE_HEADER,
    .name = "parquet",
    .summary = "The rows of Parquet files.",
    .doc =
        "Fields: the columns, in the order of the first file; members of structs are called a.b, "
        "strings, bytes and lists are of varying length, lists of one length are dense; then the "
        "columns of folders such as year=2024 (int64 where all are whole numbers, else a string); "
        "on request index (int64). An image or sound that Hugging Face keeps as {bytes, path} is "
        "the "
        "field of its bytes. A row group is a block, so \"shuffle\": true is a shuffle in windows "
        "(docs/shuffle.md). Only wanted columns are read. The footer of the first file is read "
        "when the pipeline is, and all when the run opens; with `where`, also the columns of the "
        "condition, where statistics do not settle it.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .forget = forget,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .first_sample = first_sample,
    .block_bytes = block_bytes,
    .sample_name = sample_name,
    .locate = locate,
    .unpack = unpack,
    .drop = drop,
    .fill = fill,
    .gather = gather,
    .identify = identify,
    .maps = maps,
    .lend = lend,
};
