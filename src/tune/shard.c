/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - one shard. Nothing in it tells who made it when: times and owners of tar entries are
 * zero, so that the same samples give the same bytes. */
#include "tune/shard.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/npy.h"
#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"

enum { BLOCK = 512 };
#define TAR_LARGEST (INT64_C(1) << 33) /* eleven octal digits */

void mr_shard_base(char *out, size_t size, int64_t number) {
    snprintf(out, size, "shard-%06lld", (long long)number);
}

const char *mr_shard_ending(const mr_pack_shape *shape) {
    return shape->packing == MR_ZSTD ? "tar.zst" : shape->packing == MR_LZ4 ? "tar.lz4" : "tar";
}

/* ---- A sample's field ---- */
static mr_view value_of(const mr_array *array, int64_t i) {
    mr_view view = {.type = {.dtype = array->dtype, .layout = array->layout}};
    size_t width = mr_dtype_size(array->dtype);
    if (array->offsets) {
        view.type.n_dims = array->sample_dims;
        memcpy(view.type.dims, array->shapes + i * array->sample_dims,
               (size_t)array->sample_dims * sizeof *view.type.dims);
        view.data = (char *)array->data + (size_t)array->offsets[i] * width;
        view.size = (size_t)(array->offsets[i + 1] - array->offsets[i]) * width;
        return view;
    }
    view.type.n_dims = array->n_dims - 1;
    memcpy(view.type.dims, array->dims + 1, (size_t)view.type.n_dims * sizeof *view.type.dims);
    view.size = (size_t)mr_type_bytes(&view.type);
    view.data = (char *)array->data + (size_t)i * view.size;
    return view;
}

/* ---- How fields are written ---- */
static bool is_text(const unsigned char *data, size_t size) {
    char text[256];
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1, at = 0;
    memcpy(text, data, n);
    text[n] = '\0';
    while (at < n) {
        size_t step = strchr("\t\r\n", text[at]) && text[at] ? 1 : mr_text_visible(text + at);
        if (step == 0) {
            return n - at < 4 && n < size; /* a character that was cut here */
        }
        at += step;
    }
    return n > 0;
}

typedef struct mark {
    size_t at;
    const char *bytes;
    size_t n;
    const char *extension;
} mark;

static const char *extension_of(const mr_view *value) {
    static const mark marks[] = {{0, "\xFF\xD8\xFF", 3, "jpg"}, {0, "\x89PNG", 4, "png"},
                                 {8, "WEBP", 4, "webp"},        {8, "WAVE", 4, "wav"},
                                 {0, "fLaC", 4, "flac"},        {0, "OggS", 4, "ogg"},
                                 {0, "ID3", 3, "mp3"},          {0, "\xFF\xFB", 2, "mp3"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const mark *m = &marks[i];
        if (value->size >= m->at + m->n &&
            memcmp((const char *)value->data + m->at, m->bytes, m->n) == 0) {
            return m->extension;
        }
    }
    return is_text(value->data, value->size) ? "txt" : "bin";
}

static bool is_plain_name(const char *name) {
    size_t n = strlen(name);
    return n > 0 && n < 40 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == n;
}

/* The first field of a kind has the bare extension, as WebDataset's readers expect; others have
 * their name before it. */
static void name_field(mr_pack_field *fields, int32_t i, const char *extension) {
    mr_pack_field *field = &fields[i];
    snprintf(field->extension, sizeof field->extension, "%s", extension);
    for (int32_t k = 0; k < i; k++) {
        if (strcmp(fields[k].extension, extension) == 0 && is_plain_name(field->name)) {
            snprintf(field->extension, sizeof field->extension, "%s.%s", field->name, extension);
        } else if (strcmp(fields[k].extension, extension) == 0) {
            snprintf(field->extension, sizeof field->extension, "field%d.%s", i, extension);
        }
    }
}

static mr_status check_field(const mr_pack_field *field, mr_pack_format format, mr_error *err) {
    char header[MR_NPY_WRITTEN_MAX], text[96];
    mr_type_text(&field->type, text, sizeof text);
    if (field->kind == MR_PACK_ARRAY && mr_npy_header(field->type.dtype, NULL, 0, header) == 0) {
        mr_fail(err, MR_E_TYPE, "field %.64s is %s, which .npy files do not have", field->name,
                text);
        mr_hint(err, "cast it behind the cut: --upto the op before, or to float16 or float32");
        return MR_E_TYPE;
    }
    if (format == MR_PACK_NPY && mr_type_bytes(&field->type) < 0) {
        mr_fail(err, MR_E_TYPE, "field %.64s is %s: its size varies, .npy shards have one",
                field->name, text);
        mr_hint(err, "write tar shards, or cut behind an op that makes all of one size");
        return MR_E_TYPE;
    }
    return MR_OK;
}

mr_status mr_pack_field_choose(mr_pack_field *fields, int32_t n, const mr_batch *batch,
                               mr_pack_format format, mr_error *err) {
    for (int32_t i = 0; i < n; i++) {
        mr_pack_field *field = &fields[i];
        mr_view value = value_of(mr_batch_array(batch, i), 0);
        const mr_type *type = &field->type;
        bool bytes = type->dtype == MR_U8 && type->n_dims == 1 && type->dims[0] < 0;
        bool number = type->dtype == MR_I64 && type->n_dims == 0;
        bool npy = format == MR_PACK_NPY;
        field->kind = npy      ? MR_PACK_ARRAY
                      : bytes  ? MR_PACK_BYTES
                      : number ? MR_PACK_NUMBER
                               : MR_PACK_ARRAY;
        if (npy && is_plain_name(field->name)) {
            snprintf(field->extension, sizeof field->extension, "%s.npy", field->name);
        } else if (npy) {
            snprintf(field->extension, sizeof field->extension, "field%d.npy", i);
        } else {
            name_field(fields, i, bytes ? extension_of(&value) : number ? "cls" : "npy");
        }
        MR_TRY(check_field(field, format, err));
    }
    return MR_OK;
}

/* ---- Tar ---- */
static void put_octal(char *at, int digits, int64_t value) {
    for (int i = digits; i-- > 0; value >>= 3) {
        at[i] = (char)('0' + (value & 7));
    }
}

static void tar_header(char out[BLOCK], const char *name, int64_t size) {
    memset(out, 0, BLOCK);
    memcpy(out, name, strlen(name));
    put_octal(out + 100, 7, 0644);
    put_octal(out + 108, 7, 0);
    put_octal(out + 116, 7, 0);
    put_octal(out + 124, 11, size);
    put_octal(out + 136, 11, 0);
    memset(out + 148, ' ', 8);
    out[156] = '0';
    memcpy(out + 257, "ustar\00000", 8);
    put_octal(out + 329, 7, 0);
    put_octal(out + 337, 7, 0);
    int64_t sum = 0;
    for (int i = 0; i < BLOCK; i++) {
        sum += (unsigned char)out[i];
    }
    put_octal(out + 148, 6, sum);
    out[155] = ' ';
}

/* A file of the sample: what precedes its bytes (the header of an array), and the bytes. */
static mr_status tar_put(mr_shard_writer *w, const mr_pack_field *field, int64_t sample,
                         const char *head, size_t head_size, const mr_view *value, mr_error *err) {
    static const char zeros[BLOCK] = {0};
    char header[BLOCK], name[100];
    mr_shard_file *file = &w->files[0];
    size_t size = head_size + value->size;
    snprintf(name, sizeof name, "%09lld.%s", (long long)sample, field->extension);
    if ((int64_t)size >= TAR_LARGEST) {
        return mr_fail(err, MR_E_LIMIT, "%s has %zu bytes: a tar file holds less than 8 GiB", name,
                       size);
    }
    tar_header(header, name, (int64_t)size);
    MR_TRY(mr_shard_file_write(file, header, BLOCK, err));
    if (w->index_stream) {
        fprintf(w->index_stream, "%s%s %lld %zu %s", field == w->shape->fields ? "" : " ",
                field->extension, (long long)file->bytes, size, name);
    }
    MR_TRY(mr_shard_file_write(file, head, head_size, err));
    MR_TRY(mr_shard_file_write(file, value->data, value->size, err));
    return mr_shard_file_write(file, zeros, (BLOCK - size % BLOCK) % BLOCK, err);
}

static mr_status tar_field(mr_shard_writer *w, const mr_pack_field *field, int64_t sample,
                           const mr_view *value, mr_error *err) {
    char text[MR_NPY_WRITTEN_MAX];
    int64_t number;
    size_t n = 0;
    mr_view bytes = *value;
    if (field->kind == MR_PACK_NUMBER) {
        memcpy(&number, value->data, sizeof number);
        n = (size_t)snprintf(text, sizeof text, "%lld", (long long)number);
        bytes.size = 0;
    } else if (field->kind == MR_PACK_ARRAY) {
        n = mr_npy_header(value->type.dtype, value->type.dims, value->type.n_dims, text);
    }
    return tar_put(w, field, sample, text, n, &bytes, err);
}

static mr_status tar_finish(mr_shard_writer *w, mr_error *err) {
    static const char zeros[2 * BLOCK] = {0};
    char head[64];
    MR_TRY(mr_shard_file_write(&w->files[0], zeros, sizeof zeros, err));
    if (!w->index_stream) {
        return MR_OK;
    }
    bool lost = fclose(w->index_stream) != 0;
    w->index_stream = NULL;
    if (lost) {
        return mr_fail_memory(err, 0);
    }
    int n = snprintf(head, sizeof head, "v1.2 %lld\n", (long long)w->samples);
    MR_TRY(mr_shard_file_write(&w->files[1], head, (size_t)n, err));
    return mr_shard_file_write(&w->files[1], w->index, w->index_size, err);
}

/* ---- The shard ---- */
static mr_status open_file(mr_shard_writer *w, const char *extension, mr_error *err) {
    char base[32], name[MR_SHARD_NAME];
    mr_shard_base(base, sizeof base, w->number);
    snprintf(name, sizeof name, "%s.%s", base, extension);
    bool tar = w->shape->format == MR_PACK_TAR && w->n_files == 0;
    return mr_shard_file_open_packed(&w->files[w->n_files++], w->folder, name,
                                     tar ? w->shape->packing : MR_NOT_PACKED, err);
}

/* Nobody can jump to a place in what is compressed: such a shard has no index. */
static mr_status begin_tar(mr_shard_writer *w, mr_error *err) {
    MR_TRY(open_file(w, mr_shard_ending(w->shape), err));
    if (w->shape->packing != MR_NOT_PACKED) {
        return MR_OK;
    }
    w->index_stream = open_memstream(&w->index, &w->index_size);
    if (!w->index_stream) {
        return mr_fail_memory(err, 0);
    }
    return open_file(w, "idx", err);
}

static mr_status begin_arrays(mr_shard_writer *w, mr_error *err) {
    for (int32_t i = 0; i < w->shape->n_fields; i++) {
        const mr_pack_field *field = &w->shape->fields[i];
        char header[MR_NPY_WRITTEN_MAX];
        int64_t dims[MR_NPY_DIMS] = {w->samples};
        memcpy(dims + 1, field->type.dims, (size_t)field->type.n_dims * sizeof *dims);
        size_t n = mr_npy_header(field->type.dtype, dims, field->type.n_dims + 1, header);
        MR_TRY(open_file(w, field->extension, err));
        MR_TRY(mr_shard_file_write(&w->files[i], header, n, err));
    }
    return MR_OK;
}

mr_status mr_shard_begin(mr_shard_writer *w, const mr_pack_shape *shape, int folder, int64_t number,
                         int64_t samples, mr_error *err) {
    *w = (mr_shard_writer){.shape = shape, .folder = folder, .number = number, .samples = samples};
    w->files = mr_zalloc(MR_PACK_FIELDS + 2, sizeof *w->files);
    w->digests = mr_hasher_new();
    if (!w->files || !w->digests) {
        return mr_fail_memory(err, 0);
    }
    return shape->format == MR_PACK_TAR ? begin_tar(w, err) : begin_arrays(w, err);
}

mr_status mr_shard_add(mr_shard_writer *w, const mr_batch *batch, int64_t i, mr_error *err) {
    int64_t sample = mr_batch_samples(batch)[i];
    for (int32_t f = 0; f < w->shape->n_fields; f++) {
        mr_view value = value_of(mr_batch_array(batch, f), i);
        if (w->shape->format == MR_PACK_TAR) {
            MR_TRY(tar_field(w, &w->shape->fields[f], sample, &value, err));
        } else {
            MR_TRY(mr_shard_file_write(&w->files[f], value.data, value.size, err));
        }
    }
    if (w->index_stream) {
        fputc('\n', w->index_stream);
    }
    mr_hasher_number(w->digests, (int64_t)mr_batch_sample_digest(batch, i));
    return MR_OK;
}

void mr_shard_digest(const mr_shard_writer *w, char out[33]) {
    mr_hash_hex(mr_hasher_value(w->digests), out);
}

static json_t *note(const mr_shard_writer *w) {
    bool lost = false;
    char digest[33];
    json_t *object = json_object(), *files = json_array();
    mr_shard_digest(w, digest);
    mr_json_set(object, "samples", json_integer(w->samples), &lost);
    mr_json_set(object, "digest", json_string(digest), &lost);
    for (int32_t i = 0; i < w->n_files; i++) {
        json_t *file = json_object();
        mr_json_set(file, "name", json_string(w->files[i].name), &lost);
        mr_json_set(file, "bytes", json_integer(w->files[i].bytes), &lost);
        if (w->files[i].unpacked_bytes > 0) {
            mr_json_set(file, "unpacked_bytes", json_integer(w->files[i].unpacked_bytes), &lost);
        }
        mr_json_set(file, "xxh3", json_string(w->files[i].hash), &lost);
        mr_json_append(files, file, &lost);
    }
    mr_json_set(object, "files", files, &lost);
    return mr_json_whole(object, lost);
}

mr_status mr_shard_end(mr_shard_writer *w, json_t **out, mr_error *err) {
    if (w->shape->format == MR_PACK_TAR) {
        MR_TRY(tar_finish(w, err));
    }
    for (int32_t i = 0; i < w->n_files; i++) {
        MR_TRY(mr_shard_file_finish(&w->files[i], err));
    }
    for (int32_t i = 0; i < w->n_files; i++) {
        MR_TRY(mr_shard_file_name(&w->files[i], w->folder, err));
    }
    *out = note(w);
    return *out ? MR_OK : mr_fail_memory(err, 0);
}

void mr_shard_drop(mr_shard_writer *w) {
    for (int32_t i = 0; i < w->n_files; i++) {
        mr_shard_file_drop(&w->files[i], w->folder);
    }
    if (w->index_stream) {
        fclose(w->index_stream);
    }
    free(w->index);
    mr_free(w->files);
    mr_hasher_free(w->digests);
    *w = (mr_shard_writer){.folder = -1};
}
