/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c - samples are windows of a long row of tokens, in flat files of whole numbers or in
 * Megatron's .bin and .idx.
 *
 * Files are mapped: a window is one copy from the page cache into the batch. Windows are counted in
 * runs: a file is one, or each document is. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/megatron.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/far_name.h"
#include "io/file.h"
#include "io/map.h"
#include "io/patterns.h"

enum { TOKENS, LABELS }; /* then the index */

typedef struct params {
    mr_strings path;
    int64_t length, stride, end;
    int32_t dtype, documents;
    bool labels;
    mr_dtype type; /* not a parameter: found by check */
} params;

static const char *const dtype_names[] = {"uint16", "uint32", "int32", "int64", NULL};
static const mr_dtype dtypes[] = {MR_U16, MR_U32, MR_I32, MR_I64};

enum { ACROSS, WITHIN };
static const char *const documents_names[] = {"across", "within", NULL};

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, path),
     .min_len = 1,
     .max_len = 1000000,
     .doc = "Files of tokens: names, patterns with braces or wildcards, folders (their .bin "
            "files). Where Megatron's .idx lies beside a .bin, it is read."},
    {.name = "length",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, length),
     .min = 1,
     .max = 1e9,
     .doc = "Tokens in a sample."},
    {.name = "stride",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, stride),
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .doc = "Tokens from the beginning of a sample to that of the next; 0: as many as it has."},
    {.name = "labels",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(params, labels),
     .fallback = "false",
     .doc = "Also give the tokens that follow each token, as field labels."},
    {.name = "dtype",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(params, dtype),
     .fallback = "\"uint16\"",
     .choices = dtype_names,
     .doc = "Type of a flat file's tokens, little-endian; an .idx says it itself."},
    {.name = "documents",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(params, documents),
     .fallback = "\"across\"",
     .choices = documents_names,
     .doc = "Whether samples run across the ends of documents, or lie within one; what is left of "
            "a document then, and documents that are too short, are left out."},
    {.name = "end",
     .kind = MR_PARAM_INT,
     .offset = offsetof(params, end),
     .fallback = "-1",
     .min = -1,
     .max = 4294967295.0,
     .doc = "The token that ends a document of a flat file, where samples lie within; the whole "
            "file is looked through for it when the run opens."},
    {.name = NULL},
};

static const char *const endings[] = {".bin", NULL};

/* Windows that follow each other. */
typedef struct run {
    const unsigned char *data;
    int64_t first; /* sample */
} run;

typedef struct tokens {
    const params *params;
    mr_names paths;
    mr_map *maps;
    int32_t n_files;
    run *runs;
    int64_t n_runs, capacity;
    int64_t n_samples;
    size_t stride, window; /* in bytes */
    uint64_t fingerprint[2];
    uint64_t *identities; /* of files, two words each; 0: none */
} tokens;

/* ---- Files ---- */
static mr_status blame(mr_status status, const char *path, mr_error *err) {
    if (status < 0 && err) {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}

/* Megatron's index, where the file has one. */
static mr_status map_index(const char *path, mr_map *map, mr_megatron *index, bool *has,
                           mr_error *err) {
    char *name = NULL;
    size_t n = mr_path_public(path);
    *has = false;
    *map = (mr_map){NULL, 0, -1};
    if (n < 5 || memcmp(path + n - 4, ".bin", 4) != 0) {
        return MR_OK;
    }
    if (asprintf(&name, "%.*s.idx", (int)(n - 4), path) < 0) {
        return mr_fail_memory(err, n);
    }
    mr_status status = mr_map_open(map, name, err);
    if (status == MR_OK) {
        *has = true;
        status = blame(mr_megatron_parse(map->data, map->size, index, err), name, err);
    } else if (status == MR_E_NOT_FOUND) {
        status = MR_OK;
    }
    free(name);
    return status;
}

static mr_status check(void *params_, mr_error *err) {
    params *p = params_;
    mr_names paths;
    mr_map map = {NULL, 0, -1};
    mr_megatron index = {.n_tokens = 0};
    bool has = false;
    p->type = dtypes[p->dtype];
    mr_status status = mr_patterns_find(&paths, &p->path, endings, err);
    if (status == MR_OK) {
        status = map_index(paths.v[0], &map, &index, &has, err);
    }
    p->type = has ? index.dtype : p->type;
    if (status == MR_OK && !has && p->documents == WITHIN && p->end < 0) {
        mr_fail(err, MR_E_PARAM, "nothing says where documents end");
        mr_hint(err, "give `end`, the token that ends a document, or Megatron's .idx");
        status = MR_E_PARAM;
    }
    mr_map_close(&map);
    mr_patterns_free(&paths);
    return status;
}

static mr_status describe(const void *params_, mr_field *fields, int32_t capacity,
                          int32_t *n_fields, mr_error *err) {
    const params *p = params_;
    const mr_type window = {.dtype = p->type, .n_dims = 1, .dims = {p->length}};
    const mr_field index = {"index", {.dtype = MR_I64}, true};
    const mr_field all[] = {
        {"tokens", window, false}, p->labels ? (mr_field){"labels", window, false} : index, index};
    (void)err;
    return mr_describe_fields(all, p->labels ? 3 : 2, fields, capacity, n_fields);
}

/* ---- Runs of windows ---- */
static mr_status add_run(tokens *t, const unsigned char *data, int64_t n_tokens, mr_error *err) {
    const params *p = t->params;
    int64_t needed = p->length + p->labels, stride = p->stride ? p->stride : p->length;
    if (n_tokens < needed) {
        return MR_OK;
    }
    if (t->n_runs == t->capacity) {
        int64_t capacity = t->capacity ? 2 * t->capacity : 64;
        run *grown = realloc(t->runs, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        t->runs = grown;
        t->capacity = capacity;
    }
    t->runs[t->n_runs++] = (run){data, t->n_samples};
    t->n_samples += (n_tokens - needed) / stride + 1;
    return MR_OK;
}

static uint64_t token_at(const unsigned char *data, size_t each) {
    uint64_t value = 0;
    memcpy(&value, data, each);
    return value;
}

/* Documents of a flat file; the token that ends one belongs to it. */
static mr_status add_flat_documents(tokens *t, const mr_map *map, size_t each, mr_error *err) {
    uint64_t end = (uint64_t)t->params->end;
    int64_t n = (int64_t)(map->size / each), first = 0;
    for (int64_t i = 0; i < n; i++) {
        if (token_at(map->data + (size_t)i * each, each) == end) {
            MR_TRY(add_run(t, map->data + (size_t)first * each, i + 1 - first, err));
            first = i + 1;
        }
    }
    return n > first ? add_run(t, map->data + (size_t)first * each, n - first, err) : MR_OK;
}

static mr_status add_documents(tokens *t, const mr_map *map, const mr_megatron *index,
                               mr_error *err) {
    size_t each = mr_dtype_size(index->dtype);
    int64_t sequence = 0, at = 0;
    for (int64_t i = 0; i < index->n_documents; i++) {
        int64_t n = mr_megatron_next(index, i, &sequence);
        MR_TRY(add_run(t, map->data + (size_t)at * each, n, err));
        at += n;
    }
    return MR_OK;
}

/* Beginnings so long that no row of tokens has them by chance. */
static mr_status check_flat(const mr_map *map, mr_error *err) {
    static const struct {
        const char *bytes, *is;
    } known[] = {{"\x93NUMPY", "a .npy file"}, {"\x89HDF\r\n\x1a\n", "an HDF5 file"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].bytes);
        if (map->size >= n && memcmp(map->data, known[i].bytes, n) == 0) {
            mr_fail(err, MR_E_TYPE, "this is %s, and no flat file of tokens", known[i].is);
            mr_hint(err,
                    "write them flat, as numpy's tofile() does; or read rows by the source "
                    "\"%s\"",
                    i == 0 ? "array" : "hdf5");
            return MR_E_TYPE;
        }
    }
    return MR_OK;
}

static mr_status add_file(tokens *t, const mr_map *map, const mr_megatron *index, mr_error *err) {
    const params *p = t->params;
    size_t each = mr_dtype_size(p->type);
    MR_TRY(check_flat(map, err));
    if (index && index->dtype != p->type) {
        return mr_fail(err, MR_E_TYPE, "tokens of another type than those of the first file");
    }
    if (map->size % each != 0 || (index && index->n_tokens != (int64_t)(map->size / each))) {
        mr_fail(err, MR_E_CORRUPT, "%zu bytes are not %s %s", map->size,
                index ? "the tokens that its .idx promises, of" : "a whole number of tokens of",
                mr_dtype_name(p->type));
        if (err) {
            err->offset = (int64_t)(map->size - map->size % each);
        }
        return MR_E_CORRUPT;
    }
    if (map->size == 0) {
        return MR_OK;
    }
    if (p->documents == ACROSS) {
        return add_run(t, map->data, (int64_t)(map->size / each), err);
    }
    if (!index && p->end < 0) {
        return mr_fail(err, MR_E_PARAM, "nothing says where the file's documents end");
    }
    return index ? add_documents(t, map, index, err) : add_flat_documents(t, map, each, err);
}

/* 64 pieces of 4 KiB spread over a file tell one that was made anew. */
static void add_to_fingerprint(tokens *t, const mr_map *map) {
    enum { PIECE = 4096, PIECES = 64 };
    const params *p = t->params;
    const int64_t numbers[] = {(int64_t)map->size, p->length, p->stride,    p->end,
                               p->documents,       p->type,   t->n_samples, p->labels};
    for (int k = 0; k < 2; k++) {
        uint64_t hash = mr_hash64(numbers, sizeof numbers, t->fingerprint[k] + (uint64_t)k);
        for (size_t i = 0; map->size > 0 && i < PIECES; i++) {
            size_t size = map->size < PIECE ? map->size : PIECE;
            size_t at = (size_t)((double)(map->size - size) * (double)i / (PIECES - 1));
            hash = mr_hash64(map->data + at, size, hash);
        }
        t->fingerprint[k] = hash;
    }
}

static mr_status open_file(tokens *t, const char *path, mr_error *err) {
    mr_map *map = &t->maps[t->n_files++], index_map;
    mr_megatron index;
    bool has = false;
    MR_TRY(mr_map_open(map, path, err));
    (void)mr_open_file_identity(map->fd, t->identities + 2 * (size_t)(t->n_files - 1));
    mr_map_keep_memory(map);
    mr_status status = map_index(path, &index_map, &index, &has, err);
    if (status == MR_OK) {
        status = blame(add_file(t, map, has ? &index : NULL, err), path, err);
        add_to_fingerprint(t, map);
    }
    mr_map_close(&index_map);
    return status;
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    tokens *t = mr_zalloc(1, sizeof *t);
    (void)wanted;
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    *state = t;
    t->params = p;
    MR_TRY(mr_patterns_find(&t->paths, &t->params->path, endings, err));
    t->maps = mr_zalloc((size_t)t->paths.n, sizeof *t->maps);
    t->identities = mr_zalloc((size_t)t->paths.n, 2 * sizeof *t->identities);
    if (!t->maps || !t->identities) {
        return mr_fail_memory(err, (size_t)t->paths.n * sizeof *t->maps);
    }
    for (int32_t i = 0; i < t->paths.n; i++) {
        MR_TRY(open_file(t, t->paths.v[i], err));
    }
    size_t each = mr_dtype_size(t->params->type);
    t->window = (size_t)t->params->length * each;
    t->stride = t->params->stride ? (size_t)t->params->stride * each : t->window;
    if (t->n_samples == 0) {
        mr_fail(err, MR_E_PARAM, "there are fewer than %lld tokens in a row",
                (long long)t->params->length + t->params->labels);
        return blame(MR_E_PARAM, t->paths.v[0], err);
    }
    return MR_OK;
}

static void close_(void *state) {
    tokens *t = state;
    if (t) {
        for (int32_t i = 0; i < t->n_files; i++) {
            mr_map_close(&t->maps[i]);
        }
        mr_free(t->maps);
        mr_free(t->identities);
        free(t->runs);
        mr_patterns_free(&t->paths);
        mr_free(t);
    }
}

/* ---- Samples ---- */
static void shape(const void *state, mr_shape *out) {
    const tokens *t = state;
    out->samples = t->n_samples;
    memcpy(out->fingerprint, t->fingerprint, sizeof t->fingerprint);
}

static const unsigned char *window_of(const tokens *t, int64_t sample) {
    int64_t low = 0, high = t->n_runs; /* runs[low].first <= sample < runs[high].first */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (t->runs[middle].first <= sample) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return t->runs[low].data + (size_t)(sample - t->runs[low].first) * t->stride;
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const tokens *t = state;
    const unsigned char *at = window_of(t, sample);
    for (int32_t i = 0; i < t->n_files; i++) {
        const mr_map *map = &t->maps[i];
        if (at >= map->data && at < map->data + map->size) {
            snprintf(buffer, size, "%.*s at byte %lld", (int)mr_path_public(t->paths.v[i]),
                     t->paths.v[i], (long long)(at - map->data));
        }
    }
}

/* The fingerprint has the parameters. False: the path leads to another file than the one that is
 * mapped. */
static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    const tokens *t = state;
    const unsigned char *at = window_of(t, sample);
    int32_t i = 0;
    while (i < t->n_files - 1 &&
           (at < t->maps[i].data || at >= t->maps[i].data + t->maps[i].size)) {
        i++;
    }
    uint64_t words[] = {0, 0, (uint64_t)(at - t->maps[i].data), (uint64_t)sample,
                        t->fingerprint[0]};
    if (!mr_file_identity(t->paths.v[i], INT64_MAX, words) ||
        memcmp(words, t->identities + 2 * (size_t)i, 2 * sizeof *words) != 0) {
        return false;
    }
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const tokens *t = state;
    const unsigned char *at = window_of(t, sample);
    int32_t index = 1 + t->params->labels;
    (void)block;
    (void)err;
    if (mr_is_wanted(&fields[TOKENS])) {
        fields[TOKENS].data = (void *)(uintptr_t)at;
    }
    if (t->params->labels && mr_is_wanted(&fields[LABELS])) {
        fields[LABELS].data = (void *)(uintptr_t)(at + mr_dtype_size(t->params->type));
    }
    if (mr_is_wanted(&fields[index])) {
        memcpy(fields[index].data, &sample, sizeof sample);
    }
    return MR_OK;
}

/* As in array.c: the first lines of a window are asked for while the one before is copied. */
static void prefetch(const void *state, int64_t sample) {
    enum { LINE = 64, HEAD = 1024 };
    const tokens *t = state;
    const unsigned char *at = window_of(t, sample);
    for (size_t i = 0; i < HEAD && i < t->window; i += LINE) {
        __builtin_prefetch(at + i);
    }
}

static void gather_windows(const tokens *t, const int64_t *samples, int64_t n, size_t shift,
                           const mr_column *to) {
    unsigned char *at = to->data;
    for (int64_t i = 0; i < n; i++, at += to->stride) {
        if (i + 1 < n) {
            prefetch(t, samples[i + 1]);
        }
        memcpy(at, window_of(t, samples[i]) + shift, t->window);
    }
}

static mr_status gather(const void *state, const mr_block *const *blocks, const int64_t *samples,
                        int64_t n, const mr_column *columns, mr_error *err) {
    const tokens *t = state;
    const mr_column *index = &columns[1 + t->params->labels];
    (void)blocks;
    (void)err;
    if (columns[TOKENS].data) {
        gather_windows(t, samples, n, 0, &columns[TOKENS]);
    }
    if (t->params->labels && columns[LABELS].data) {
        gather_windows(t, samples, n, mr_dtype_size(t->params->type), &columns[LABELS]);
    }
    for (int64_t i = 0; index->data && i < n; i++) {
        memcpy((char *)index->data + (size_t)i * index->stride, &samples[i], sizeof *samples);
    }
    return MR_OK;
}

extern const mr_source_class mr_source_tokens;
const mr_source_class mr_source_tokens = {
    MR_SOURCE_HEADER,
    .name = "tokens",
    .summary = "Windows of a long row of tokens, in flat files or Megatron's .bin and .idx.",
    .doc =
        "Fields: tokens (as many as `length` says, in the file's own type), labels (the tokens one "
        "further) where they are asked for, on request index (int64). Files are mapped; no sample "
        "runs from one file into the next, and what is left at the end of a file is left out. The "
        "dataset's fingerprint covers sizes, parameters and 64 pieces of 4 KiB spread over each "
        "file. Files must not be cut shorter while a run uses them: the system then ends the "
        "process (SIGBUS).",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .describe = describe,
    .open = open_,
    .close = close_,
    .shape = shape,
    .sample_name = sample_name,
    .fill = fill,
    .prefetch = prefetch,
    .gather = gather,
    .identify = identify,
    .also = "megatron token_bin",
};
