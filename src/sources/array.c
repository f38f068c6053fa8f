/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - samples are the rows of arrays: of one .npy file, of several as if they were one, or of
 * the members of .npz files.
 *
 * Files are mapped, not read: a row is copied once, from the page cache into the batch, by the
 * thread that makes the sample. The type of a row stands in the file, so checking the parameters
 * reads the headers; what they said is kept beside the parameters, and the files must still say the
 * same when the run opens them. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/npy.h"
#include "codecs/npz.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/name_table.h"
#include "io/far_name.h"
#include "io/file.h"
#include "io/map.h"
#include "io/patterns.h"

enum { MOST_COLUMNS = MR_FIELDS_LIMIT - 2, MOST_HANDLES = 64 };

/* What is known of an array: its name, and its header; of several files, that of the first, with
 * the rows and bytes of all. */
typedef struct described {
    char name[64];
    mr_npy header;
} described;

enum { LAYOUT_AUTO, LAYOUT_PLAIN, LAYOUT_HWC, LAYOUT_CHW };
static const char *const layouts[] = {"auto", "plain", "hwc", "chw", NULL};

typedef struct params {
    const char *path, *labels;
    mr_strings fields;
    int32_t layout;
    described *columns, label; /* not parameters: found by check */
    int32_t n_columns;
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, path),
     .doc =
         "A .npy file; its first dimension counts the samples. Or several, which are taken as "
         "one: a folder, or a pattern with braces (x-{000..015}.npy) or wildcards. Or .npz files "
         "of arrays that have the same first dimension and are not compressed: each is a field. "
         "Their checksums are not looked at: rows are taken out of the mapped file."},
    {.name = "labels",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, labels),
     .fallback = "\"\"",
     .doc = "A .npy file (or several) of whole numbers, one for each sample."},
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, fields),
     .fallback = "[]",
     .max_len = MOST_COLUMNS,
     .doc = "More .npy files, each a field: \"mask=masks-{000..015}.npy\"."},
    {.name = "layout",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(params, layout),
     .fallback = "\"auto\"",
     .choices = layouts,
     .doc = "What rows of three dimensions are: images (hwc, chw) or numbers (plain); auto: uint8 "
            "is hwc, else plain."},
    {.name = NULL},
};

static const char *const endings[] = {".npy", ".npz", NULL};

/* Rows that lie one behind the other. */
typedef struct segment {
    const unsigned char *rows;
    int64_t first;
} segment;

typedef struct column {
    described is;
    segment *segments;
    int32_t n_segments;
    size_t row_bytes;
    bool aligned; /* rows may be used where they lie */
} column;

typedef struct array {
    const params *params;
    mr_map *maps;
    int32_t n_maps, capacity;
    column *columns, label;
    int32_t n_columns, columns_capacity;
    mr_name_table names; /* of columns */
    bool has_handles;    /* all files are open: they can tell whether they changed */
} array;

/* ---- Headers ---- */
static mr_status blame_file(mr_status status, const char *path, mr_error *err) {
    if (status < 0 && err) {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}

static mr_status check_data(const mr_npy *header, mr_error *err) {
    if (header->n_dims == 0) {
        return mr_fail(err, MR_E_TYPE, "the array is a single number: it has no samples");
    }
    if (header->bytes == 0) {
        mr_fail(err, MR_E_PARAM, "the array is empty: it has no samples, or they have no values");
        mr_hint(err, "look at the shape of what was saved: np.load(path).shape");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static mr_status check_labels(const mr_npy *labels, const mr_npy *data, mr_error *err) {
    bool whole = labels->dtype == MR_U8 || labels->dtype == MR_I32 || labels->dtype == MR_I64;
    if (labels->n_dims != 1) {
        mr_fail(err, MR_E_TYPE, "labels must have one dimension, these have %d", labels->n_dims);
        mr_hint(err, "save one number for each sample: labels.reshape(-1), or labels.argmax(1)");
        return MR_E_TYPE;
    }
    if (!whole) {
        mr_fail(err, MR_E_TYPE, "labels must be whole numbers");
        mr_hint(err, "save them as uint8, int32 or int64: labels.astype(...)");
        return MR_E_TYPE;
    }
    if (labels->dims[0] != data->dims[0]) {
        return mr_fail(err, MR_E_TYPE, "%lld labels for %lld samples", (long long)labels->dims[0],
                       (long long)data->dims[0]);
    }
    return MR_OK;
}

/* ---- Columns ---- */
static bool same_rows(const mr_npy *a, const mr_npy *b) {
    return a->dtype == b->dtype && a->n_dims == b->n_dims &&
           memcmp(a->dims + 1, b->dims + 1, sizeof a->dims - sizeof *a->dims) == 0;
}

static bool add_segment(column *c, const unsigned char *data) {
    segment *grown = realloc(c->segments, ((size_t)c->n_segments + 1) * sizeof *grown);
    if (grown) {
        c->segments = grown;
        c->segments[c->n_segments++] = (segment){data, c->is.header.dims[0]};
    }
    return grown != NULL;
}

/* An array in a file's memory: the first of a column, or more rows of it. */
static mr_status add_rows(column *c, const unsigned char *npy, size_t size, mr_error *err) {
    mr_npy header;
    MR_TRY(mr_npy_parse(npy, size, &header, err));
    MR_TRY(check_data(&header, err));
    bool is_first = c->n_segments == 0;
    if (is_first) {
        c->is.header = header;
        c->is.header.dims[0] = c->is.header.bytes = 0;
        c->row_bytes = (size_t)(header.bytes / header.dims[0]);
        c->aligned = true;
    } else if (!same_rows(&header, &c->is.header)) {
        return mr_fail(err, MR_E_TYPE, "rows of another type or shape than in the first file");
    }
    const unsigned char *data = npy + header.offset;
    if (!add_segment(c, data)) {
        return mr_fail_memory(err, sizeof *c->segments);
    }
    c->aligned = c->aligned && (uintptr_t)data % mr_dtype_size(header.dtype) == 0;
    if (__builtin_add_overflow(c->is.header.dims[0], header.dims[0], &c->is.header.dims[0]) ||
        __builtin_add_overflow(c->is.header.bytes, header.bytes, &c->is.header.bytes)) {
        return mr_fail(err, MR_E_LIMIT, "more rows than there are numbers for");
    }
    return MR_OK;
}

static column *find_column(array *a, const char *name) {
    int32_t i = mr_name_table_find(&a->names, name, strlen(name));
    return i >= 0 ? &a->columns[i] : NULL;
}

/* *out may move with the next one. */
static mr_status new_column(array *a, const char *name, column **out, mr_error *err) {
    if (a->n_columns == MOST_COLUMNS) {
        return mr_fail(err, MR_E_LIMIT, "more than %d members", MOST_COLUMNS);
    }
    if (!a->columns || a->n_columns == a->columns_capacity) {
        int32_t capacity = a->columns_capacity ? 2 * a->columns_capacity : 4;
        column *grown = realloc(a->columns, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        a->columns = grown;
        a->columns_capacity = capacity;
    }
    MR_TRY(mr_name_table_put(&a->names, name, strlen(name), a->n_columns, err));
    column *c = &a->columns[a->n_columns++];
    *c = (column){.segments = NULL};
    snprintf(c->is.name, sizeof c->is.name, "%s", name);
    *out = c;
    return MR_OK;
}

/* Every .npz has the members of the first. */
static mr_status add_members(array *a, const mr_map *map, bool is_first, mr_error *err) {
    mr_npz_member member;
    size_t at = 0;
    mr_status status;
    int32_t n = 0;
    for (; (status = mr_npz_next(map->data, map->size, &at, &member, err)) == MR_OK; n++) {
        column *c = find_column(a, member.name);
        if (is_first ? c != NULL : c == NULL) {
            return mr_fail(err, MR_E_TYPE, "member %s is there twice, or not in the first file",
                           member.name);
        }
        if (!c) {
            MR_TRY(new_column(a, member.name, &c, err));
        }
        MR_TRY(add_rows(c, map->data + member.data, member.size, err));
    }
    MR_TRY(status);
    return n == a->n_columns && n > 0
               ? MR_OK
               : mr_fail(err, MR_E_TYPE, "%d members, the first file has %d", n, a->n_columns);
}

static mr_status check_counts(const array *a, mr_error *err) {
    const mr_npy *first = &a->columns[0].is.header;
    for (int32_t i = 1; i < a->n_columns; i++) {
        const described *other = &a->columns[i].is;
        if (other->header.dims[0] != first->dims[0]) {
            return mr_fail(err, MR_E_TYPE, "%lld rows of %s, and %lld of %s",
                           (long long)other->header.dims[0], other->name, (long long)first->dims[0],
                           a->columns[0].is.name);
        }
    }
    return MR_OK;
}

/* ---- Files ---- */
/* The last of the maps. */
static mr_status map_file(array *a, const char *path, mr_error *err) {
    if (a->n_maps == a->capacity) {
        int32_t capacity = a->capacity ? 2 * a->capacity : 4;
        mr_map *grown = realloc(a->maps, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        a->maps = grown;
        a->capacity = capacity;
    }
    MR_TRY(mr_map_open(&a->maps[a->n_maps], path, err));
    if (++a->n_maps > MOST_HANDLES) {
        mr_map_keep_memory(&a->maps[a->n_maps - 1]);
        a->has_handles = false;
    }
    return MR_OK;
}

static bool is_npz(const char *path) {
    size_t n = mr_path_public(path);
    return n > 4 && memcmp(path + n - 4, ".npz", 4) == 0;
}

static mr_status load_file(array *a, const char *path, column *c, bool is_first, mr_error *err) {
    MR_TRY(map_file(a, path, err));
    const mr_map *map = &a->maps[a->n_maps - 1];
    mr_status status =
        c ? add_rows(c, map->data, map->size, err) : add_members(a, map, is_first, err);
    if (status == MR_OK && !c) {
        status = check_counts(a, err);
    }
    return blame_file(status, path, err);
}

static mr_status load_all(array *a, const char *pattern, column *given, mr_error *err) {
    const mr_strings patterns = {1, &pattern};
    mr_names paths;
    mr_status status = mr_patterns_find(&paths, &patterns, endings, err);
    for (int32_t i = 0; status == MR_OK && i < paths.n; i++) {
        column *c = given;
        if (!c && !is_npz(paths.v[i])) {
            c = find_column(a, "data");
            status = c ? MR_OK : new_column(a, "data", &c, err);
        }
        if (status == MR_OK) {
            status = load_file(a, paths.v[i], c, i == 0, err);
        }
    }
    mr_patterns_free(&paths);
    return status;
}

/* "NAME=PATTERN" */
static mr_status load_field(array *a, const char *text, mr_error *err) {
    char name[sizeof a->columns->is.name];
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    if (length == 0 || length >= sizeof name || equals[1] == '\0') {
        mr_fail(err, MR_E_PARAM, "'%.64s' is not NAME=FILE", text);
        mr_hint(err, "write \"mask=masks.npy\"");
        return MR_E_PARAM;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    column *c = find_column(a, name);
    if (c) {
        return mr_fail(err, MR_E_PARAM, "the field %s is there twice", name);
    }
    MR_TRY(new_column(a, name, &c, err));
    return load_all(a, equals + 1, c, err);
}

static mr_status load(array *a, const params *p, mr_error *err) {
    a->params = p;
    a->has_handles = true;
    MR_TRY(load_all(a, p->path, NULL, err));
    for (int32_t i = 0; i < p->fields.n; i++) {
        MR_TRY(load_field(a, p->fields.v[i], err));
    }
    MR_TRY(blame_file(check_counts(a, err), p->path, err));
    if (!p->labels[0]) {
        return MR_OK;
    }
    MR_TRY(load_all(a, p->labels, &a->label, err));
    return blame_file(check_labels(&a->label.is.header, &a->columns[0].is.header, err), p->labels,
                      err);
}

static void unload(array *a) {
    for (int32_t i = 0; i < a->n_maps; i++) {
        mr_map_close(&a->maps[i]);
    }
    for (int32_t i = 0; i < a->n_columns; i++) {
        free(a->columns[i].segments);
    }
    free(a->columns);
    mr_name_table_free(&a->names);
    free(a->label.segments);
    free(a->maps);
}

/* ---- Fields: the first array, the index, the label, the other arrays ---- */
enum { DATA, INDEX, LABEL };

static mr_status check(void *p, mr_error *err) {
    params *own = p;
    array *a = mr_zalloc(1, sizeof *a);
    if (!a) {
        return mr_fail_memory(err, sizeof *a);
    }
    mr_status status = load(a, own, err);
    own->n_columns = 0;
    own->label = a->label.is;
    own->columns = mr_zalloc((size_t)a->n_columns, sizeof *own->columns);
    if (status == MR_OK && !own->columns) {
        status = mr_fail_memory(err, (size_t)a->n_columns * sizeof *own->columns);
    }
    for (int32_t i = 0; own->columns && i < a->n_columns; i++) {
        own->columns[own->n_columns++] = a->columns[i].is;
    }
    unload(a);
    mr_free(a);
    return status;
}

static void forget(void *p) {
    params *own = p;
    mr_free(own->columns);
    own->columns = NULL;
    own->n_columns = 0;
}

static mr_layout layout_of(const mr_npy *header, int32_t choice) {
    bool image = choice == LAYOUT_HWC || (choice == LAYOUT_AUTO && header->dtype == MR_U8);
    if (header->n_dims != 4) {
        return MR_PLAIN;
    }
    return image ? MR_HWC : choice == LAYOUT_CHW ? MR_CHW : MR_PLAIN;
}

static mr_type row_type(const mr_npy *header, int32_t choice) {
    mr_type type = {
        .dtype = header->dtype, .layout = layout_of(header, choice), .n_dims = header->n_dims - 1};
    memcpy(type.dims, header->dims + 1, (size_t)type.n_dims * sizeof *type.dims);
    return type;
}

/* The field of a column. */
static int32_t field_of(const params *p, int32_t i) {
    return i == 0 ? DATA : LABEL + (p->labels[0] != '\0') + i - 1;
}

static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err) {
    const params *own = p;
    const mr_type number = {.dtype = MR_I64};
    (void)err;
    *n_fields = field_of(own, own->n_columns);
    if (capacity < *n_fields) {
        return MR_OK;
    }
    fields[INDEX] = (mr_field){"index", number, true};
    if (own->labels[0]) {
        fields[LABEL] = (mr_field){"label", number, false};
    }
    for (int32_t i = 0; i < own->n_columns; i++) {
        const described *c = &own->columns[i];
        fields[field_of(own, i)] = (mr_field){c->name, row_type(&c->header, own->layout), false};
    }
    return MR_OK;
}

/* ---- Opening ---- */
static bool same_column(const described *a, const described *b) {
    return strcmp(a->name, b->name) == 0 && a->header.dtype == b->header.dtype &&
           a->header.n_dims == b->header.n_dims && a->header.offset == b->header.offset &&
           memcmp(a->header.dims, b->header.dims, sizeof a->header.dims) == 0;
}

static mr_status check_unchanged(const array *a, mr_error *err) {
    const params *p = a->params;
    bool same = a->n_columns == p->n_columns && same_column(&a->label.is, &p->label);
    for (int32_t i = 0; same && i < a->n_columns; i++) {
        same = same_column(&a->columns[i].is, &p->columns[i]);
    }
    if (same) {
        return MR_OK;
    }
    mr_fail(err, MR_E_TYPE, "the array's type or shape changed since the pipeline was read");
    return blame_file(MR_E_TYPE, p->path, err);
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    array *a = mr_zalloc(1, sizeof *a);
    (void)wanted;
    if (!a) {
        return mr_fail_memory(err, sizeof *a);
    }
    *state = a;
    MR_TRY(load(a, p, err));
    return check_unchanged(a, err);
}

static void close_(void *state) {
    if (state) {
        unload(state);
        mr_free(state);
    }
}

/* ---- Samples ---- */
static uint64_t hash_header(const mr_npy *header, uint64_t seed) {
    int64_t words[MR_NPY_DIMS + 2] = {header->dtype, header->n_dims};
    memcpy(words + 2, header->dims, sizeof header->dims);
    return mr_hash64(words, sizeof words, seed);
}

/* Reading all of a large array would take longer than most runs want to wait for their first batch:
 * 64 blocks spread over it, the first and the last among them, tell a file that was made anew or
 * reordered. A change between the blocks goes unseen, as one inside an image file does. */
enum { BLOCK = 4096, BLOCKS = 64 };

static uint64_t hash_spread(const unsigned char *data, size_t size, uint64_t hash) {
    if (size <= (size_t)BLOCK * BLOCKS) {
        return mr_hash64(data, size, hash);
    }
    size_t stride = (size - BLOCK) / (BLOCKS - 1);
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t at = i == BLOCKS - 1 ? size - BLOCK : i * stride;
        hash = mr_hash64(data + at, BLOCK, hash);
    }
    return hash;
}

/* The bytes of a column's segment. */
static size_t segment_bytes(const column *c, int32_t i) {
    int64_t end = i + 1 < c->n_segments ? c->segments[i + 1].first : c->is.header.dims[0];
    return (size_t)(end - c->segments[i].first) * c->row_bytes;
}

static uint64_t hash_array(const array *a, uint64_t hash) {
    for (int32_t i = 0; i < a->n_columns; i++) {
        const column *c = &a->columns[i];
        hash = hash_header(&c->is.header, hash);
        for (int32_t k = 0; k < c->n_segments; k++) {
            hash = hash_spread(c->segments[k].rows, segment_bytes(c, k), hash);
        }
    }
    for (int32_t k = 0; k < a->label.n_segments; k++) {
        hash = k == 0 ? hash_header(&a->label.is.header, hash) : hash;
        hash = mr_hash64(a->label.segments[k].rows, segment_bytes(&a->label, k), hash);
    }
    return hash;
}

static void shape(const void *state, mr_shape *out) {
    const array *a = state;
    out->samples = a->columns[0].is.header.dims[0];
    out->fingerprint[0] = hash_array(a, 1);
    out->fingerprint[1] = hash_array(a, 2);
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const char *path = ((const array *)state)->params->path;
    snprintf(buffer, size, "%.*s[%lld]", (int)mr_path_public(path), path, (long long)sample);
}

static const unsigned char *row_at(const column *c, int64_t sample) {
    int32_t low = 0,
            high = c->n_segments; /* segments[low].first <= sample < segments[high].first */
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (c->segments[middle].first <= sample) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return c->segments[low].rows + (size_t)(sample - c->segments[low].first) * c->row_bytes;
}

static int64_t label_of(const array *a, int64_t sample) {
    const unsigned char *at = row_at(&a->label, sample);
    int32_t narrow = 0;
    int64_t wide = 0;
    switch (a->label.is.header.dtype) {
    case MR_U8:
        return *at;
    case MR_I32:
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    default:
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
}

/* A file may be written to while it is mapped: its times tell. The file that is mapped, that is:
 * under its name there may be another one by now. */
static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    const array *a = state;
    uint64_t words[1 + 2 * MOST_HANDLES] = {(uint64_t)sample};
    for (int32_t i = 0; a->has_handles && i < a->n_maps; i++) {
        if (!mr_open_file_identity(a->maps[i].fd, &words[1 + 2 * i])) {
            return false;
        }
    }
    size_t n = 1 + 2 * (size_t)(a->n_maps > 2 ? a->n_maps : 2);
    mr_hash128 hash = mr_hash(words, (a->has_handles ? n : 1) * sizeof *words);
    out[0] = hash.low;
    out[1] = hash.high;
    return a->has_handles;
}

static void fill_row(const column *c, int64_t sample, mr_view *field) {
    const unsigned char *row = row_at(c, sample);
    if (c->aligned && mr_is_wanted(field)) {
        field->data = (void *)(uintptr_t)row;
    } else if (mr_is_wanted(field)) {
        memcpy(field->data, row, c->row_bytes);
    }
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const array *a = state;
    (void)block;
    (void)err;
    for (int32_t i = 0; i < a->n_columns; i++) {
        fill_row(&a->columns[i], sample, &fields[field_of(a->params, i)]);
    }
    if (mr_is_wanted(&fields[INDEX])) {
        memcpy(fields[INDEX].data, &sample, sizeof sample);
    }
    if (a->params->labels[0] && mr_is_wanted(&fields[LABEL])) {
        int64_t label = label_of(a, sample);
        memcpy(fields[LABEL].data, &label, sizeof label);
    }
    return MR_OK;
}

/* A row lies anywhere in memory, so its first lines would be waited for. Asking for them while the
 * row before is copied saves a quarter of the time of 3 KB rows; the CPU sees by itself that the
 * rest follows, and asking for all of it is slower than for none. */
static void prefetch_row(const column *c, int64_t sample) {
    enum { LINE = 64, HEAD = 1024 };
    const unsigned char *row = row_at(c, sample);
    for (size_t at = 0; at < HEAD && at < c->row_bytes; at += LINE) {
        __builtin_prefetch(row + at);
    }
}

static void prefetch(const void *state, int64_t sample) {
    prefetch_row(&((const array *)state)->columns[0], sample);
}

static void gather_rows(const column *c, const int64_t *samples, int64_t n, const mr_column *to) {
    unsigned char *at = to->data;
    for (int64_t i = 0; i < n; i++, at += to->stride) {
        if (i + 1 < n) {
            prefetch_row(c, samples[i + 1]);
        }
        memcpy(at, row_at(c, samples[i]), c->row_bytes);
    }
}

static void put_number(const mr_column *to, int64_t i, int64_t number) {
    memcpy((char *)to->data + (size_t)i * to->stride, &number, sizeof number);
}

static mr_status gather(const void *state, const mr_block *const *blocks, const int64_t *samples,
                        int64_t n, const mr_column *columns, mr_error *err) {
    const array *a = state;
    (void)blocks;
    (void)err;
    for (int32_t i = 0; i < a->n_columns; i++) {
        const mr_column *to = &columns[field_of(a->params, i)];
        if (to->data) {
            gather_rows(&a->columns[i], samples, n, to);
        }
    }
    for (int64_t i = 0; columns[INDEX].data && i < n; i++) {
        put_number(&columns[INDEX], i, samples[i]);
    }
    bool labels = a->params->labels[0] && columns[LABEL].data;
    for (int64_t i = 0; labels && i < n; i++) {
        put_number(&columns[LABEL], i, label_of(a, samples[i]));
    }
    return MR_OK;
}

extern const mr_source_class mr_source_array;
const mr_source_class mr_source_array = {
    MR_SOURCE_HEADER,
    .name = "array",
    .summary = "The rows of arrays in .npy and .npz files, mapped into memory.",
    .doc =
        "Fields: data (one row, as typed in the file; rows of three dimensions in uint8 are "
        "images: height, width, channels), or of .npz one for each member, named as it is; label "
        "(int64) where labels are given; on request "
        "index (int64). A file must hold whole numbers, bool, float16, float32 or float64, "
        "little-endian and in C order, and nothing behind the array. Its header is read when the "
        "pipeline is, and again when the run opens. The dataset's fingerprint covers type, "
        "shape, all labels, and the data where it has up to 256 KiB, else 64 blocks of 4 KiB "
        "spread over it. The file must not be cut shorter while a run uses it: the system then "
        "ends the process (SIGBUS). Write a new file and rename it instead.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .forget = forget,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .sample_name = sample_name,
    .fill = fill,
    .identify = identify,
    .prefetch = prefetch,
    .gather = gather,
    .also = "npy npz numpy memmap",
};
