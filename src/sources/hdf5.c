/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5.c - samples are the rows of datasets in HDF5 files.
 *
 * The structure of each file is read once, when the run opens (codecs/hdf5.h says why not by
 * libhdf5). A block is a run of rows that the chunks of the heaviest dataset end with; the bytes of
 * its chunks are read by their addresses, and the workers undo the filters. Datasets that are not
 * chunked are mapped where samples are taken one by one, and read in runs of rows elsewhere. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/hdf5.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/pattern.h"
#include "core/recycler.h"
#include "io/far_name.h"
#include "io/file.h"
#include "io/map.h"
#include "io/patterns.h"

/* A field and the dataset it comes from. */
typedef struct described {
    char *name, *dataset;
    mr_type type;
} described;

typedef struct params {
    mr_strings path, fields;
    int64_t block_bytes, max_unpacked_bytes;
    described *described; /* not a parameter: found by check */
    int32_t n_described;
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, path),
     .min_len = 1,
     .max_len = 1000000,
     .doc = "HDF5 files: names, patterns with braces (part-{000..015}.h5) or wildcards, folders "
            "(their .h5, .hdf5 and .he5 files). The rows of several follow each other."},
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, fields),
     .fallback = "[]",
     .max_len = MR_FIELDS_LIMIT,
     .doc = "Datasets to take, each a field: \"train/images\", under another name "
            "\"image=train/images\", or a pattern for several, \"train/*\". Empty: the dataset of "
            "the first file that has the most bytes, and all that have as many rows."},
    {.name = "block_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, block_bytes),
     .fallback = "\"4MB\"",
     .min = 1,
     .max = 1e12,
     .doc = "Read rows of about as many bytes, unpacked, at once; at least those of a chunk."},
    {.name = "max_unpacked_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, max_unpacked_bytes),
     .fallback = "\"256MB\"",
     .min = 1,
     .max = 1e15,
     .doc = "Refuse files whose rows, or whose chunks side by side, have more."},
    {.name = NULL},
};

static const char *const endings[] = {".h5", ".hdf5", ".he5", NULL};

/* A wanted field in one file. */
typedef struct column {
    mr_h5_dataset *dataset;      /* of the file's list */
    const unsigned char *mapped; /* its rows, where the file is mapped */
    unsigned char *compact;      /* a copy of rows that lie in the header */
    int64_t band;                /* chunks that lie side by side in a run of rows */
} column;

typedef struct file {
    const char *path;
    mr_map map;
    mr_h5_file h5;
    column *columns;
    int64_t n_rows, first_sample, first_block, block_rows;
} file;

typedef struct hdf5 {
    const params *params;
    mr_names paths;
    file *files; /* one more than there are, which has the ends */
    int32_t n_files;
    int32_t *wanted; /* fields */
    int32_t n_wanted;
    size_t *row_bytes; /* of the wanted fields */
    mr_recycler *memory;
    bool mapped;
    uint64_t fingerprint[2];
} hdf5;

/* Rows of a column that were unpacked. */
typedef struct band {
    unsigned char *rows;
    size_t bytes;
    int64_t first; /* row of the file */
} band;

/* ---- Fields ---- */
static mr_status blame(mr_status status, const char *path, mr_error *err) {
    if (status < 0 && err) {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}

static mr_type row_type(const mr_h5_dataset *d) {
    mr_type type = {.dtype = d->dtype, .n_dims = d->n_dims - 1};
    memcpy(type.dims, d->dims + 1, (size_t)type.n_dims * sizeof *type.dims);
    if (d->is_text) {
        type.dims[type.n_dims++] = (int64_t)d->element;
    } else if (type.n_dims == 3 && type.dtype == MR_U8) {
        type.layout = MR_HWC;
    }
    return type;
}

static int64_t row_size(const mr_h5_dataset *d) {
    int64_t bytes = (int64_t)d->element;
    for (int32_t i = 1; i < d->n_dims; i++) {
        bytes *= d->dims[i];
    }
    return bytes;
}

/* "train/images" is called train.images. */
static char *name_of(const char *dataset) {
    char *name = strdup(dataset);
    for (char *c = name; c && *c; c++) {
        if (*c == '/') {
            *c = '.';
        }
    }
    return name;
}

static mr_status add_field(params *p, char *name, const mr_h5_dataset *d, mr_error *err) {
    described *grown = realloc(p->described, ((size_t)p->n_described + 1) * sizeof *p->described);
    char *dataset = strdup(d->path);
    p->described = grown ? grown : p->described;
    if (!grown || !dataset || !name) {
        free(name);
        free(dataset);
        return mr_fail_memory(err, sizeof *grown);
    }
    p->described[p->n_described++] = (described){name, dataset, row_type(d)};
    return MR_OK;
}

static mr_status cannot_read(const mr_h5_dataset *d, mr_error *err) {
    char path[256];
    mr_text_escape(path, sizeof path, d->path);
    mr_fail(err, MR_E_UNSUPPORTED, "dataset %s: %s", path, d->why);
    mr_hint(err, "numbers and strings of fixed length can be read, plain or chunked, with gzip, "
                 "lzf, zstd, shuffle and fletcher32; h5repack makes others so");
    return MR_E_UNSUPPORTED;
}

static mr_status no_dataset(const mr_h5_file *h5, const char *name, mr_error *err) {
    char shown[128], first[128];
    mr_text_escape(shown, sizeof shown, name);
    mr_text_escape(first, sizeof first, h5->n_datasets > 0 ? h5->datasets[0].path : "none");
    mr_fail(err, MR_E_NOT_FOUND, "the file has no dataset '%s'", shown);
    mr_hint(err, "it has %d; the first is %s", h5->n_datasets, first);
    return MR_E_NOT_FOUND;
}

/* "name=dataset", "dataset" or a pattern. */
static mr_status add_declared(params *p, const mr_h5_file *h5, const char *text, mr_error *err) {
    const char *equals = strchr(text, '='), *wanted = equals ? equals + 1 : text;
    int32_t before = p->n_described;
    wanted += wanted[0] == '/';
    for (int32_t i = 0; i < h5->n_datasets; i++) {
        const mr_h5_dataset *d = &h5->datasets[i];
        if (!mr_pattern_fits(wanted, d->path)) {
            continue;
        }
        if (d->why[0]) {
            return cannot_read(d, err);
        }
        char *name = equals ? strndup(text, (size_t)(equals - text)) : name_of(d->path);
        MR_TRY(add_field(p, name, d, err));
    }
    if (equals && p->n_described > before + 1) {
        return mr_fail(err, MR_E_PARAM, "'%.64s' is one name for %d datasets", text,
                       p->n_described - before);
    }
    return p->n_described > before ? MR_OK : no_dataset(h5, wanted, err);
}

static const mr_h5_dataset *largest(const mr_h5_file *h5) {
    const mr_h5_dataset *most = NULL;
    for (int32_t i = 0; i < h5->n_datasets; i++) {
        const mr_h5_dataset *d = &h5->datasets[i];
        if (!d->why[0] && (!most || (double)d->dims[0] * (double)row_size(d) >
                                        (double)most->dims[0] * (double)row_size(most))) {
            most = d;
        }
    }
    return most;
}

static mr_status add_all(params *p, const mr_h5_file *h5, mr_error *err) {
    const mr_h5_dataset *most = largest(h5);
    if (!most) {
        return h5->n_datasets > 0 ? cannot_read(&h5->datasets[0], err)
                                  : mr_fail(err, MR_E_NOT_FOUND, "the file has no datasets");
    }
    for (int32_t i = 0; i < h5->n_datasets; i++) {
        const mr_h5_dataset *d = &h5->datasets[i];
        if (!d->why[0] && d->dims[0] == most->dims[0]) {
            MR_TRY(add_field(p, name_of(d->path), d, err));
        }
    }
    return MR_OK;
}

static mr_status check_names(const params *p, mr_error *err) {
    for (int32_t i = 0; i < p->n_described; i++) {
        const described *own = &p->described[i];
        if (mr_type_bytes(&own->type) == 0 || own->name[0] == '\0') {
            return mr_fail(err, MR_E_TYPE, "dataset %.64s: its rows have no values, or no name",
                           own->dataset);
        }
        if (mr_type_bytes(&own->type) > p->max_unpacked_bytes) {
            return mr_fail(err, MR_E_LIMIT,
                           "dataset %.64s: a row has %lld bytes, more than max_unpacked_bytes",
                           own->dataset, (long long)mr_type_bytes(&own->type));
        }
        for (int32_t k = 0; k < i; k++) {
            if (strcmp(own->name, p->described[k].name) == 0) {
                return mr_fail(err, MR_E_PARAM, "two fields are called %.64s", own->name);
            }
        }
    }
    return MR_OK;
}

static mr_status look(params *p, const char *path, mr_error *err) {
    mr_map map;
    mr_h5_file h5;
    MR_TRY(mr_map_open(&map, path, err));
    mr_status status = mr_h5_open(&h5, map.data, map.size, err);
    for (int32_t i = 0; status == MR_OK && i < p->fields.n; i++) {
        status = add_declared(p, &h5, p->fields.v[i], err);
    }
    if (status == MR_OK && p->fields.n == 0) {
        status = add_all(p, &h5, err);
    }
    mr_h5_close(&h5);
    mr_map_close(&map);
    return status;
}

static mr_status check(void *params_, mr_error *err) {
    params *p = params_;
    mr_names paths;
    p->described = NULL;
    p->n_described = 0;
    mr_status status = mr_patterns_find(&paths, &p->path, endings, err);
    if (status == MR_OK) {
        status = blame(look(p, paths.v[0], err), paths.v[0], err);
    }
    if (status == MR_OK) {
        status = blame(check_names(p, err), paths.v[0], err);
    }
    mr_patterns_free(&paths);
    return status;
}

static void forget(void *params_) {
    params *p = params_;
    for (int32_t i = 0; i < p->n_described; i++) {
        free(p->described[i].name);
        free(p->described[i].dataset);
    }
    free(p->described);
    p->described = NULL;
    p->n_described = 0;
}

static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n_fields,
                          mr_error *err) {
    const params *own = p;
    const mr_type number = {.dtype = MR_I64};
    (void)err;
    *n_fields = own->n_described + 1;
    for (int32_t i = 0; *n_fields <= capacity && i < own->n_described; i++) {
        fields[i] = (mr_field){own->described[i].name, own->described[i].type, false};
    }
    if (*n_fields <= capacity) {
        fields[own->n_described] = (mr_field){"index", number, true};
    }
    return MR_OK;
}

/* ---- Opening ---- */
static mr_h5_dataset *find_dataset(const mr_h5_file *h5, const char *path) {
    for (int32_t i = 0; i < h5->n_datasets; i++) {
        if (strcmp(h5->datasets[i].path, path) == 0) {
            return &h5->datasets[i];
        }
    }
    return NULL;
}

static bool same_type(const mr_type *a, const mr_type *b) {
    return a->dtype == b->dtype && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims) == 0;
}

/* A field's dataset in this file, which all files have, with rows of the same type. */
static mr_status check_dataset(const described *field, const file *f, const mr_h5_dataset *d,
                               mr_error *err) {
    if (d->why[0]) {
        return cannot_read(d, err);
    }
    const mr_type type = row_type(d);
    if (!same_type(&type, &field->type)) {
        return mr_fail(err, MR_E_TYPE,
                       "dataset %.128s has rows of another type or shape than when "
                       "the pipeline was read, or than in the first file",
                       field->dataset);
    }
    if (d->dims[0] != f->n_rows) {
        return mr_fail(err, MR_E_TYPE, "dataset %.128s has %lld rows, and another one %lld",
                       field->dataset, (long long)d->dims[0], (long long)f->n_rows);
    }
    return MR_OK;
}

static mr_status check_bytes(const file *f, const mr_h5_dataset *d, mr_error *err) {
    int64_t room = (int64_t)f->map.size - f->h5.base, bytes = f->n_rows * row_size(d);
    if (d->address >= 0 && (d->address > room || bytes > room - d->address)) {
        mr_fail(err, MR_E_CORRUPT, "dataset %.128s lies behind the end of the file", d->path);
        return MR_E_CORRUPT;
    }
    return MR_OK;
}

static mr_status open_column(hdf5 *h, file *f, int32_t which, mr_error *err) {
    const described *field = &h->params->described[h->wanted[which]];
    column *c = &f->columns[which];
    c->dataset = find_dataset(&f->h5, field->dataset);
    if (!c->dataset) {
        return no_dataset(&f->h5, field->dataset, err);
    }
    mr_h5_dataset *d = c->dataset;
    MR_TRY(check_dataset(field, f, d, err));
    h->row_bytes[which] = (size_t)row_size(d);
    if (d->layout == MR_H5_CHUNKED) {
        h->mapped = false;
        c->band = 1;
        for (int32_t i = 1; i < d->n_dims; i++) {
            c->band *= mr_h5_grid(d, i);
        }
        return mr_h5_find_chunks(&f->h5, d, err);
    }
    MR_TRY(check_bytes(f, d, err));
    h->mapped = h->mapped && d->address >= 0;
    c->mapped = d->address >= 0 ? f->map.data + f->h5.base + d->address : NULL;
    d->address += d->address >= 0 ? f->h5.base : 0;
    return MR_OK;
}

/* The number of rows is that of the first field that was described, wanted or not: a sample is a
 * sample whatever is taken of it. */
static mr_status count_rows(const hdf5 *h, file *f, mr_error *err) {
    const mr_h5_dataset *d = find_dataset(&f->h5, h->params->described[0].dataset);
    if (!d) {
        return no_dataset(&f->h5, h->params->described[0].dataset, err);
    }
    f->n_rows = d->dims[0];
    for (int32_t i = 0; i < h->params->n_described; i++) {
        const described *field = &h->params->described[i];
        d = find_dataset(&f->h5, field->dataset);
        MR_TRY(d ? check_dataset(field, f, d, err) : no_dataset(&f->h5, field->dataset, err));
    }
    return MR_OK;
}

/* Rows lie in headers, which are not read again. */
static mr_status copy_compact(const hdf5 *h, file *f, mr_error *err) {
    for (int32_t i = 0; !h->mapped && i < h->n_wanted; i++) {
        column *c = &f->columns[i];
        size_t bytes = (size_t)f->n_rows * h->row_bytes[i];
        if (c->dataset->layout != MR_H5_COMPACT || !c->mapped || bytes == 0) {
            continue;
        }
        c->compact = malloc(bytes);
        if (!c->compact) {
            return mr_fail_memory(err, bytes);
        }
        memcpy(c->compact, c->mapped, bytes);
    }
    return MR_OK;
}

static mr_status read_structure(hdf5 *h, file *f, mr_error *err) {
    MR_TRY(mr_map_open(&f->map, f->path, err));
    mr_map_keep_memory(&f->map);
    MR_TRY(mr_h5_open(&f->h5, f->map.data, f->map.size, err));
    f->columns = mr_zalloc((size_t)h->n_wanted + 1, sizeof *f->columns);
    if (!f->columns) {
        return mr_fail_memory(err, (size_t)h->n_wanted * sizeof *f->columns);
    }
    MR_TRY(count_rows(h, f, err));
    for (int32_t i = 0; i < h->n_wanted; i++) {
        MR_TRY(open_column(h, f, i, err));
    }
    return copy_compact(h, f, err);
}

/* Rows of a column in a block, from where its first chunk begins to where the last ends. */
static void band_rows(const column *c, int64_t from, int64_t to, int64_t *first, int64_t *n) {
    int64_t chunk = c->dataset->layout == MR_H5_CHUNKED ? c->dataset->chunk[0] : 1;
    *first = from / chunk * chunk;
    *n = ((to + chunk - 1) / chunk) * chunk - *first;
}

static int64_t unpacked_bytes(const hdf5 *h, const file *f, int64_t from, int64_t to) {
    int64_t bytes = 0, first, n;
    for (int32_t i = 0; i < h->n_wanted; i++) {
        band_rows(&f->columns[i], from, to, &first, &n);
        bytes += n * (int64_t)h->row_bytes[i];
    }
    return bytes;
}

/* A block ends where chunks of the heaviest column do. */
static mr_status cut_into_blocks(const hdf5 *h, file *f, mr_error *err) {
    int64_t step = 1, most = 0, all = 1;
    for (int32_t i = 0; i < h->n_wanted; i++) {
        int64_t bytes = (int64_t)h->row_bytes[i];
        all += bytes;
        if (f->columns[i].dataset->layout == MR_H5_CHUNKED && bytes > most) {
            most = bytes;
            step = f->columns[i].dataset->chunk[0];
        }
    }
    step = step < f->n_rows ? step : f->n_rows > 0 ? f->n_rows : 1;
    int64_t times = h->params->block_bytes / all / step;
    f->block_rows = step * (times > 1 ? times : 1);
    if (f->n_rows / f->block_rows > (int64_t)f->map.size) {
        return mr_fail(err, MR_E_CORRUPT, "its datasets have more rows than it could ever hold");
    }
    int64_t to = f->block_rows < f->n_rows ? f->block_rows : f->n_rows;
    if (to > 0 && unpacked_bytes(h, f, 0, to) > h->params->max_unpacked_bytes) {
        mr_fail(err, MR_E_LIMIT, "chunks make a block of %lld bytes, unpacked",
                (long long)unpacked_bytes(h, f, 0, to));
        mr_hint(err, "allow more with max_unpacked_bytes, if the file is not made to harm");
        return MR_E_LIMIT;
    }
    return MR_OK;
}

static mr_status open_files(hdf5 *h, mr_error *err) {
    int64_t sample = 0, block = 0;
    for (; h->n_files < h->paths.n; h->n_files++) {
        file *f = &h->files[h->n_files];
        *f = (file){.path = h->paths.v[h->n_files], .map.fd = -1, .first_sample = sample};
        f->first_block = block;
        mr_status status = read_structure(h, f, err);
        status = status == MR_OK ? cut_into_blocks(h, f, err) : status;
        if (status < 0) {
            h->n_files++; /* closed with the rest */
            return blame(status, f->path, err);
        }
        sample += f->n_rows;
        block += (f->n_rows + f->block_rows - 1) / f->block_rows;
    }
    h->files[h->n_files] = (file){.map.fd = -1, .first_sample = sample, .first_block = block};
    return MR_OK;
}

static void unmap(hdf5 *h) {
    for (int32_t i = 0; !h->mapped && i < h->n_files; i++) {
        mr_map_close(&h->files[i].map);
    }
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void hash_column(const column *c, uint64_t hash[2]) {
    const mr_h5_dataset *d = c->dataset;
    const int64_t numbers[] = {d->dims[0], d->dtype, d->layout, d->bytes, d->n_chunks};
    for (int k = 0; k < 2; k++) {
        hash[k] = mr_hash64(d->path, strlen(d->path), hash[k]);
        hash[k] = mr_hash64(numbers, sizeof numbers, hash[k]);
        for (int64_t i = 0; i < d->n_chunks; i++) {
            const int64_t chunk[] = {d->chunks[i].number, d->chunks[i].size};
            hash[k] = mr_hash64(chunk, sizeof chunk, hash[k]);
        }
    }
}

static void make_fingerprint(hdf5 *h) {
    uint64_t hash[2] = {5, 6};
    for (int32_t i = 0; i < h->n_files; i++) {
        const char *name = base_name(h->files[i].path);
        hash[0] = mr_hash64(name, strlen(name), hash[0]);
        hash[1] = mr_hash64(name, strlen(name), hash[1]);
        for (int32_t c = 0; c < h->n_wanted; c++) {
            hash_column(&h->files[i].columns[c], hash);
        }
    }
    memcpy(h->fingerprint, hash, sizeof hash);
}

static mr_status make_room(hdf5 *h, const mr_wanted *wanted, mr_error *err) {
    const int32_t n = h->params->n_described;
    h->files = mr_zalloc((size_t)h->paths.n + 1, sizeof *h->files);
    h->wanted = mr_zalloc((size_t)n, sizeof *h->wanted);
    h->row_bytes = mr_zalloc((size_t)n, sizeof *h->row_bytes);
    h->memory = mr_recycler_new();
    if (!h->files || !h->wanted || !h->row_bytes || !h->memory) {
        return mr_fail_memory(err, (size_t)h->paths.n * sizeof *h->files);
    }
    for (int32_t i = 0; i < n; i++) {
        if (!wanted->fields || wanted->fields[i]) {
            h->wanted[h->n_wanted++] = i;
        }
    }
    return MR_OK;
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    hdf5 *h = mr_zalloc(1, sizeof *h);
    if (!h) {
        return mr_fail_memory(err, sizeof *h);
    }
    *state = h;
    h->params = p;
    h->mapped = wanted->single;
    MR_TRY(mr_patterns_find(&h->paths, &h->params->path, endings, err));
    MR_TRY(make_room(h, wanted, err));
    MR_TRY(open_files(h, err));
    unmap(h);
    if (h->files[h->n_files].first_sample == 0) {
        mr_fail(err, MR_E_PARAM, "the datasets have no rows");
        return blame(MR_E_PARAM, h->files[0].path, err);
    }
    make_fingerprint(h);
    return MR_OK;
}

static void close_(void *state) {
    hdf5 *h = state;
    if (!h) {
        return;
    }
    for (int32_t i = 0; h->files && i < h->n_files; i++) {
        file *f = &h->files[i];
        for (int32_t c = 0; f->columns && c < h->n_wanted; c++) {
            free(f->columns[c].compact);
        }
        mr_free(f->columns);
        mr_h5_close(&f->h5);
        mr_map_close(&f->map);
    }
    mr_free(h->files);
    mr_free(h->wanted);
    mr_free(h->row_bytes);
    mr_recycler_close(h->memory);
    mr_patterns_free(&h->paths);
    mr_free(h);
}

/* ---- Blocks ---- */
static void shape(const void *state, mr_shape *out) {
    const hdf5 *h = state;
    out->samples = h->files[h->n_files].first_sample;
    out->blocks = h->mapped ? 0 : h->files[h->n_files].first_block;
    out->parts = h->n_wanted;
    out->mapped = h->mapped;
    out->fingerprint[0] = h->fingerprint[0];
    out->fingerprint[1] = h->fingerprint[1];
}

/* The file of a sample or of a block. */
static const file *file_of(const hdf5 *h, int64_t sample, int64_t block) {
    int32_t low = 0, high = h->n_files;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        bool before = sample >= 0 ? h->files[middle].first_sample <= sample
                                  : h->files[middle].first_block <= block;
        *(before ? &low : &high) = middle;
    }
    return &h->files[low];
}

static int64_t first_sample(const void *state, int64_t block) {
    const hdf5 *h = state;
    if (block >= h->files[h->n_files].first_block) {
        return h->files[h->n_files].first_sample;
    }
    const file *f = file_of(h, -1, block);
    return f->first_sample + (block - f->first_block) * f->block_rows;
}

/* The rows of a block in its file. */
static void rows_of(const file *f, int64_t block, int64_t *from, int64_t *to) {
    *from = (block - f->first_block) * f->block_rows;
    *to = *from + f->block_rows < f->n_rows ? *from + f->block_rows : f->n_rows;
}

static int64_t block_bytes(const void *state, int64_t block) {
    const hdf5 *h = state;
    const file *f = file_of(h, -1, block);
    int64_t from, to;
    rows_of(f, block, &from, &to);
    return unpacked_bytes(h, f, from, to);
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const file *f = file_of(state, sample, -1);
    snprintf(buffer, size, "%.*s (row %lld)", (int)mr_path_public(f->path), f->path,
             (long long)(sample - f->first_sample));
}

static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    const hdf5 *h = state;
    const file *f = file_of(h, sample, -1);
    uint64_t words[4] = {(uint64_t)(sample - f->first_sample), h->fingerprint[0]};
    if (!mr_file_identity(f->path, INT64_MAX, &words[2])) {
        return false;
    }
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

/* Chunks of a column that a block needs: [*i, *end) of the dataset's list. */
static void chunks_of(const column *c, int64_t from, int64_t to, int64_t *i, int64_t *end) {
    const mr_h5_dataset *d = c->dataset;
    const int64_t first = from / d->chunk[0] * c->band;
    const int64_t last = ((to - 1) / d->chunk[0] + 1) * c->band;
    int64_t low = 0, high = d->n_chunks;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        *(d->chunks[middle].number < first ? &low : &high) =
            d->chunks[middle].number < first ? middle + 1 : middle;
    }
    *i = *end = low;
    while (*end < d->n_chunks && d->chunks[*end].number < last) {
        (*end)++;
    }
}

/* Chunks that lie one behind the other in the file are read at once; the end of such a run. */
static int64_t run_end(const mr_h5_dataset *d, int64_t i, int64_t end) {
    for (i++; i < end && d->chunks[i].address == d->chunks[i - 1].address + d->chunks[i - 1].size;
         i++) {
    }
    return i;
}

/* Writes the extents of a column, as far as there is room; returns how many there are. */
static int32_t column_extents(const file *f, const column *c, size_t row_bytes, int64_t from,
                              int64_t to, int32_t object, mr_extent *out, int32_t capacity) {
    const mr_h5_dataset *d = c->dataset;
    int32_t n = 0;
    int64_t i, end;
    if (d->layout != MR_H5_CHUNKED) {
        bool read = d->layout == MR_H5_CONTIGUOUS && d->address >= 0;
        if (read && capacity > 0) {
            out[0] = (mr_extent){f->path,
                                 d->address + from * (int64_t)row_bytes,
                                 (to - from) * (int64_t)row_bytes,
                                 INT64_MAX,
                                 object,
                                 0};
        }
        return read;
    }
    for (chunks_of(c, from, to, &i, &end); i < end; n++) {
        int64_t next = run_end(d, i, end);
        int64_t length = d->chunks[next - 1].address + d->chunks[next - 1].size;
        if (n < capacity) {
            out[n] = (mr_extent){
                f->path, d->chunks[i].address, length - d->chunks[i].address, INT64_MAX, object, 0};
        }
        i = next;
    }
    return n;
}

static mr_status locate(const void *state, int64_t block, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err) {
    const hdf5 *h = state;
    const file *f = file_of(h, -1, block);
    int64_t from, to;
    (void)err;
    rows_of(f, block, &from, &to);
    *n = 0;
    for (int32_t i = 0; i < h->n_wanted; i++) {
        int32_t room = capacity > *n ? capacity - *n : 0;
        *n += column_extents(f, &f->columns[i], h->row_bytes[i], from, to,
                             (int32_t)(f - h->files) + 1, extents + (room ? *n : 0), room);
    }
    return MR_OK;
}

/* ---- Unpacking ---- */
/* Where a chunk begins in the dataset. */
static void begin_of(const mr_h5_dataset *d, int64_t number, int64_t place[MR_H5_DIMS]) {
    for (int32_t i = d->n_dims - 1; i >= 0; i--) {
        place[i] = number % mr_h5_grid(d, i) * d->chunk[i];
        number /= mr_h5_grid(d, i);
    }
}

/* The next run of the last dimension; false: that was the last. */
static bool next_run(const mr_h5_dataset *d, int64_t at[MR_H5_DIMS]) {
    int32_t k = d->n_dims - 2;
    while (k >= 0 && ++at[k] == d->chunk[k]) {
        at[k--] = 0;
    }
    return k >= 0;
}

/* A chunk's values to their places in the band, run by run of the last dimension; what a chunk has
 * behind the dataset's edges is left out. */
static void place_chunk(const mr_h5_dataset *d, int64_t number, const unsigned char *from,
                        const band *to) {
    int64_t place[MR_H5_DIMS] = {0}, at[MR_H5_DIMS] = {0};
    const int32_t last = d->n_dims - 1;
    begin_of(d, number, place);
    int64_t run = d->dims[last] - place[last];
    run = run < d->chunk[last] ? run : d->chunk[last];
    do {
        int64_t target = place[0] + at[0] - to->first, source = at[0];
        bool inside = true;
        for (int32_t i = 1; i <= last; i++) {
            inside = inside && place[i] + at[i] < d->dims[i];
            target = target * d->dims[i] + place[i] + at[i];
            source = source * d->chunk[i] + at[i];
        }
        if (inside) {
            memcpy(to->rows + (size_t)target * d->element, from + (size_t)source * d->element,
                   (size_t)run * d->element);
        }
    } while (next_run(d, at));
}

static mr_status unpack_chunk(const column *c, const mr_h5_chunk *chunk, const unsigned char *data,
                              const band *to, size_t row_bytes, unsigned char *scratch,
                              mr_error *err) {
    const mr_h5_dataset *d = c->dataset;
    if (!scratch) { /* whole rows */
        int64_t row = chunk->number * d->chunk[0];
        return mr_h5_unpack(d, chunk, data, (size_t)chunk->size,
                            to->rows + (size_t)(row - to->first) * row_bytes, err);
    }
    MR_TRY(mr_h5_unpack(d, chunk, data, (size_t)chunk->size, scratch, err));
    place_chunk(d, chunk->number, scratch, to);
    return MR_OK;
}

static bool has_whole_rows(const mr_h5_dataset *d) {
    for (int32_t i = 1; i < d->n_dims; i++) {
        if (d->chunk[i] != d->dims[i]) {
            return false;
        }
    }
    return true;
}

static mr_status unpack_chunks(const column *c, const mr_bytes *bytes, int64_t from, int64_t to,
                               const band *own, size_t row_bytes, mr_error *err) {
    const mr_h5_dataset *d = c->dataset;
    int64_t i = 0, end = 0, bands = (int64_t)(own->bytes / row_bytes) / d->chunk[0];
    bool whole = has_whole_rows(d);
    unsigned char *scratch = whole ? NULL : malloc((size_t)mr_h5_chunk_bytes(d));
    if (!whole && !scratch) {
        return mr_fail_memory(err, (size_t)mr_h5_chunk_bytes(d));
    }
    chunks_of(c, from, to, &i, &end);
    if (end - i < bands * c->band) {
        mr_h5_fill(d, own->rows, own->bytes);
    }
    mr_status status = MR_OK;
    while (status == MR_OK && i < end) {
        const unsigned char *data = (bytes++)->data;
        const int64_t start = d->chunks[i].address;
        for (int64_t next = run_end(d, i, end); status == MR_OK && i < next; i++) {
            status = unpack_chunk(c, &d->chunks[i], data + (d->chunks[i].address - start), own,
                                  row_bytes, scratch, err);
        }
    }
    free(scratch);
    return status;
}

static mr_status fill_band(const column *c, const mr_bytes *bytes, int64_t from, int64_t to,
                           const band *own, size_t row_bytes, mr_error *err) {
    if (c->dataset->layout == MR_H5_CHUNKED) {
        return unpack_chunks(c, bytes, from, to, own, row_bytes, err);
    }
    if (c->compact) {
        memcpy(own->rows, c->compact + (size_t)from * row_bytes, own->bytes);
    } else if (c->dataset->address >= 0) {
        memcpy(own->rows, bytes->data, own->bytes);
    } else {
        mr_h5_fill(c->dataset, own->rows, own->bytes);
    }
    return MR_OK;
}

static mr_status blame_dataset(const mr_h5_dataset *d, const file *f, mr_error *err) {
    char text[sizeof err->text];
    snprintf(text, sizeof text, "%s", err->text);
    snprintf(err->text, sizeof err->text, "dataset %.128s: %.300s", d->path, text);
    mr_text_escape(err->source, sizeof err->source, f->path);
    return err->code;
}

static mr_status unpack(const void *state, const mr_block *block, int32_t part, void **out,
                        mr_error *err) {
    const hdf5 *h = state;
    const file *f = file_of(h, -1, block->number);
    const mr_allocator *memory = mr_recycler_allocator(h->memory);
    int64_t from, to, n;
    if (part >= h->n_wanted) {
        return MR_OK; /* nothing of the file is wanted */
    }
    band *own = mr_zalloc(1, sizeof *own);
    if (!own) {
        return mr_fail_memory(err, sizeof *own);
    }
    *out = own;
    rows_of(f, block->number, &from, &to);
    band_rows(&f->columns[part], from, to, &own->first, &n);
    size_t bytes = (size_t)n * h->row_bytes[part];
    own->rows = memory->alloc(memory->user, bytes, MR_ALIGN);
    if (!own->rows) {
        return mr_fail_memory(err, bytes);
    }
    own->bytes = bytes;
    int32_t before = 0;
    for (int32_t i = 0; i < part; i++) {
        before += column_extents(f, &f->columns[i], h->row_bytes[i], from, to, 0, NULL, 0);
    }
    mr_status status =
        fill_band(&f->columns[part], block->bytes + before, from, to, own, h->row_bytes[part], err);
    return status < 0 && err ? blame_dataset(f->columns[part].dataset, f, err) : status;
}

static void drop(const void *state, int32_t part, void *unpacked) {
    const hdf5 *h = state;
    const mr_allocator *memory = mr_recycler_allocator(h->memory);
    band *own = unpacked;
    (void)part;
    if (own && own->rows) {
        memory->release(memory->user, own->rows, own->bytes);
    }
    mr_free(own);
}

/* ---- Rows ---- */
static const unsigned char *row_at(const hdf5 *h, const mr_block *block, int32_t which,
                                   int64_t sample, const file *f) {
    int64_t row = sample - f->first_sample;
    if (!block) {
        return f->columns[which].mapped + (size_t)row * h->row_bytes[which];
    }
    const band *own = block->parts[which];
    return own->rows + (size_t)(row - own->first) * h->row_bytes[which];
}

static const file *file_at(const hdf5 *h, const mr_block *block, int64_t sample) {
    return block ? file_of(h, -1, block->number) : file_of(h, sample, -1);
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const hdf5 *h = state;
    const mr_view *index = &fields[h->params->n_described];
    const file *f = file_at(h, block, sample);
    (void)err;
    if (mr_is_wanted(index)) {
        memcpy(index->data, &sample, sizeof sample);
    }
    for (int32_t i = 0; (block || h->mapped) && i < h->n_wanted; i++) {
        mr_view *field = &fields[h->wanted[i]];
        if (mr_is_wanted(field)) {
            memcpy(field->data, row_at(h, block, i, sample, f), h->row_bytes[i]);
        }
    }
    return MR_OK;
}

static void gather_column(const hdf5 *h, const mr_block *const *blocks, const int64_t *samples,
                          int64_t n, int32_t which, const mr_column *to) {
    enum { LINE = 64, HEAD = 512 };
    const size_t bytes = h->row_bytes[which];
    unsigned char *at = to->data;
    const mr_block *block = NULL;
    const file *f = NULL;
    for (int64_t i = 0; i < n; i++, at += to->stride) {
        if (!blocks || !f || blocks[i] != block) {
            block = blocks ? blocks[i] : NULL;
            f = file_at(h, block, samples[i]);
        }
        const unsigned char *row = row_at(h, block, which, samples[i], f);
        if (i + 1 < n && blocks && blocks[i + 1] == block) {
            const unsigned char *next = row_at(h, block, which, samples[i + 1], f);
            for (size_t k = 0; k < HEAD && k < bytes; k += LINE) {
                __builtin_prefetch(next + k);
            }
        }
        memcpy(at, row, bytes);
    }
}

static mr_status gather(const void *state, const mr_block *const *blocks, const int64_t *samples,
                        int64_t n, const mr_column *columns, mr_error *err) {
    const hdf5 *h = state;
    const mr_column *index = &columns[h->params->n_described];
    (void)err;
    for (int32_t i = 0; i < h->n_wanted; i++) {
        if (columns[h->wanted[i]].data) {
            gather_column(h, blocks, samples, n, i, &columns[h->wanted[i]]);
        }
    }
    for (int64_t i = 0; index->data && i < n; i++) {
        memcpy((char *)index->data + (size_t)i * index->stride, &samples[i], sizeof *samples);
    }
    return MR_OK;
}

extern const mr_source_class mr_source_hdf5;
const mr_source_class mr_source_hdf5 = {
    MR_SOURCE_HEADER,
    .name = "hdf5",
    .summary = "The rows of datasets in HDF5 files.",
    .doc =
        "Fields: the datasets, named as they are with dots for slashes (one row of the first "
        "dimension, as typed in the file; strings of fixed length are uint8; rows of three "
        "dimensions in uint8 are images: height, width, channels); on request index (int64). "
        "Chunked datasets are read in blocks of whole chunks, so \"shuffle\": true is a shuffle in "
        "windows (docs/shuffle.md); where all wanted datasets are contiguous the file is mapped "
        "and rows are taken one by one. gzip, lzf, zstd, shuffle and fletcher32 are undone, by all "
        "threads; where nothing was written, rows have the fill value. Compound types, strings of "
        "varying length, virtual datasets and datasets in other files are refused. All that a "
        "writer may choose for groups and for the index of chunks is understood. Soft and "
        "external links are not followed. Files must not be written to while a run uses them.",
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
    .also = "h5",
};
