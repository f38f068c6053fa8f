/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - samples are the rows of one array in a .npy file.
 *
 * The file is mapped, not read: a row is copied once, from the page cache into the batch, by the
 * thread that makes the sample. The type of a row stands in the file, so checking the parameters
 * reads the header; what it said is kept beside them, and the file must still say the same when
 * the run opens it. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/file.h"
#include "io/map.h"
#include "sources/npy.h"

enum { DATA, INDEX, LABEL, N_FIELDS };

typedef struct params {
    const char *path, *labels;
    mr_npy data_header, labels_header; /* not parameters: found by check */
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, path),
     .doc = "A .npy file; its first dimension counts the samples."},
    {.name = "labels",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(params, labels),
     .fallback = "\"\"",
     .doc = "A .npy file of whole numbers, one for each sample."},
    {.name = NULL},
};

typedef struct array {
    const params *params;
    mr_map data, labels;
    const unsigned char *rows, *label_numbers;
    size_t row_bytes;
    bool aligned; /* rows may be used where they lie */
} array;

/* ---- Headers ---- */
static mr_status blame_file(mr_status status, const char *path, mr_error *err) {
    if (status < 0 && err) {
        mr_text_escape(err->source, sizeof err->source, path);
    }
    return status;
}

static mr_status map_array(const char *path, mr_map *map, mr_npy *header, mr_error *err) {
    MR_TRY(mr_map_open(map, path, err));
    return blame_file(mr_npy_parse(map->data, map->size, header, err), path, err);
}

static mr_status read_header(const char *path, mr_npy *header, mr_error *err) {
    mr_map map;
    mr_status status = map_array(path, &map, header, err);
    mr_map_close(&map);
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

static mr_status check(void *p, mr_error *err) {
    params *own = p;
    MR_TRY(read_header(own->path, &own->data_header, err));
    MR_TRY(blame_file(check_data(&own->data_header, err), own->path, err));
    if (!own->labels[0]) {
        return MR_OK;
    }
    MR_TRY(read_header(own->labels, &own->labels_header, err));
    return blame_file(check_labels(&own->labels_header, &own->data_header, err), own->labels, err);
}

static mr_type row_type(const mr_npy *header) {
    bool image = header->n_dims == 4 && header->dtype == MR_U8;
    mr_type type = {
        .dtype = header->dtype, .layout = image ? MR_HWC : MR_PLAIN, .n_dims = header->n_dims - 1};
    memcpy(type.dims, header->dims + 1, (size_t)type.n_dims * sizeof *type.dims);
    return type;
}

static mr_status describe(const void *p, mr_field *fields, int32_t *n_fields, mr_error *err) {
    const params *own = p;
    const mr_type number = {.dtype = MR_I64};
    (void)err;
    fields[DATA] = (mr_field){"data", row_type(&own->data_header), false};
    fields[INDEX] = (mr_field){"index", number, true};
    fields[LABEL] = (mr_field){"label", number, false};
    *n_fields = own->labels[0] ? N_FIELDS : LABEL;
    return MR_OK;
}

/* ---- Opening ---- */
static bool same_header(const mr_npy *a, const mr_npy *b) {
    return a->dtype == b->dtype && a->n_dims == b->n_dims && a->offset == b->offset &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

static mr_status map_again(const char *path, const mr_npy *expected, mr_map *map,
                           const unsigned char **values, mr_error *err) {
    mr_npy header;
    MR_TRY(map_array(path, map, &header, err));
    if (!same_header(&header, expected)) {
        mr_fail(err, MR_E_TYPE, "the array's type or shape changed since the pipeline was read");
        return blame_file(MR_E_TYPE, path, err);
    }
    *values = map->data + header.offset;
    return MR_OK;
}

static mr_status open_(const void *p, const mr_log *log, void **state, mr_error *err) {
    const params *own = p;
    array *a = mr_zalloc(1, sizeof *a);
    (void)log;
    if (!a) {
        return mr_fail_memory(err, sizeof *a);
    }
    *state = a;
    a->params = own;
    a->data.fd = a->labels.fd = -1;
    MR_TRY(map_again(own->path, &own->data_header, &a->data, &a->rows, err));
    a->row_bytes = (size_t)(own->data_header.bytes / own->data_header.dims[0]);
    a->aligned = own->data_header.offset % (int64_t)mr_dtype_size(own->data_header.dtype) == 0;
    return own->labels[0]
               ? map_again(own->labels, &own->labels_header, &a->labels, &a->label_numbers, err)
               : MR_OK;
}

static void close_(void *state) {
    array *a = state;
    if (a) {
        mr_map_close(&a->data);
        mr_map_close(&a->labels);
        mr_free(a);
    }
}

/* ---- Samples ---- */
static int64_t count(const void *state) {
    return ((const array *)state)->params->data_header.dims[0];
}

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

static uint64_t hash_array(const array *a, uint64_t seed) {
    const params *p = a->params;
    uint64_t hash =
        hash_spread(a->rows, (size_t)p->data_header.bytes, hash_header(&p->data_header, seed));
    if (a->label_numbers) {
        hash = mr_hash64(a->label_numbers, (size_t)p->labels_header.bytes,
                         hash_header(&p->labels_header, hash));
    }
    return hash;
}

static void fingerprint(const void *state, uint64_t out[2]) {
    out[0] = hash_array(state, 1);
    out[1] = hash_array(state, 2);
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    snprintf(buffer, size, "%s[%lld]", ((const array *)state)->params->path, (long long)sample);
}

static int64_t label_of(const array *a, int64_t sample) {
    int32_t narrow = 0;
    int64_t wide = 0;
    switch (a->params->labels_header.dtype) {
    case MR_U8:
        return a->label_numbers[sample];
    case MR_I32:
        memcpy(&narrow, a->label_numbers + sample * 4, sizeof narrow);
        return narrow;
    default:
        memcpy(&wide, a->label_numbers + sample * 8, sizeof wide);
        return wide;
    }
}

/* The file may be written to while it is mapped: its times tell. The file that is mapped, that is:
 * under its name there may be another one by now. */
static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    const array *a = state;
    uint64_t words[5] = {(uint64_t)sample};
    if (!mr_open_file_identity(a->data.fd, &words[1]) ||
        (a->params->labels[0] && !mr_open_file_identity(a->labels.fd, &words[3]))) {
        return false;
    }
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

static mr_status fill(const void *state, int64_t sample, const void *bytes, size_t n_bytes,
                      mr_view *fields, mr_error *err) {
    const array *a = state;
    const unsigned char *row = a->rows + (size_t)sample * a->row_bytes;
    (void)bytes;
    (void)n_bytes;
    (void)err;
    if (a->aligned) {
        fields[DATA].data = (void *)(uintptr_t)row;
    } else {
        memcpy(fields[DATA].data, row, a->row_bytes);
    }
    memcpy(fields[INDEX].data, &sample, sizeof sample);
    if (a->label_numbers) {
        int64_t label = label_of(a, sample);
        memcpy(fields[LABEL].data, &label, sizeof label);
    }
    return MR_OK;
}

/* A row lies anywhere in memory, so its first lines would be waited for. Asking for them while the
 * row before is copied saves a quarter of the time of 3 KB rows; the CPU sees by itself that the
 * rest follows, and asking for all of it is slower than for none. */
static void prefetch(const void *state, int64_t sample) {
    enum { LINE = 64, HEAD = 1024 };
    const array *a = state;
    const unsigned char *row = a->rows + (size_t)sample * a->row_bytes;
    for (size_t at = 0; at < HEAD && at < a->row_bytes; at += LINE) {
        __builtin_prefetch(row + at);
    }
}

static void gather_rows(const array *a, const int64_t *samples, int64_t n, unsigned char *to) {
    for (int64_t i = 0; i < n; i++, to += a->row_bytes) {
        if (i + 1 < n) {
            prefetch(a, samples[i + 1]);
        }
        memcpy(to, a->rows + (size_t)samples[i] * a->row_bytes, a->row_bytes);
    }
}

static mr_status gather(const void *state, const int64_t *samples, int64_t n, void *const *to,
                        mr_error *err) {
    const array *a = state;
    int64_t *labels = to[LABEL];
    (void)err;
    if (to[DATA]) {
        gather_rows(a, samples, n, to[DATA]);
    }
    if (to[INDEX]) {
        memcpy(to[INDEX], samples, (size_t)n * sizeof *samples);
    }
    for (int64_t i = 0; labels && i < n; i++) {
        labels[i] = label_of(a, samples[i]);
    }
    return MR_OK;
}

extern const mr_source_class mr_source_array;
const mr_source_class mr_source_array = {
    MR_SOURCE_HEADER,
    .name = "array",
    .summary = "The rows of one array in a .npy file, mapped into memory.",
    .doc =
        "Fields: data (one row, as typed in the file; rows of three dimensions in uint8 are "
        "images: height, width, channels), label (int64) where labels are given; on request "
        "index (int64). The file must hold uint8, int32, int64, float16 or float32, "
        "little-endian and in C order, and nothing behind the array. Its header is read when the "
        "pipeline is, and again when the run opens. The dataset's fingerprint covers type, "
        "shape, all labels, and the data where it has up to 256 KiB, else 64 blocks of 4 KiB "
        "spread over it. The file must not be cut shorter while a run uses it: the system then "
        "ends the process (SIGBUS). Write a new file and rename it instead.",
    .version = 1,
    .param_size = sizeof(params),
    .params = rows,
    .check = check,
    .describe = describe,
    .open = open_,
    .close = close_,
    .count = count,
    .fingerprint = fingerprint,
    .sample_name = sample_name,
    .fill = fill,
    .identify = identify,
    .prefetch = prefetch,
    .gather = gather,
};
