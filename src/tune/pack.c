/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - writes samples as they are at a cut into shards.
 *
 * Shard k has samples k * S to (k + 1) * S - 1 of the source's order, whoever makes it. A shard is
 * there when made/shard-NNNNNN.json says so, which is written behind its files; a process that is
 * killed in between makes them again, with the same bytes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "plan/state.h"
#include "run/loader.h"
#include "tune/cut.h"
#include "tune/shard.h"

enum { PACK_VERSION = 1, NOTE_MAX = 1 << 20, PLAN_MAX = 64 << 20 };
#define WAIT_NS 200000000

typedef struct pack {
    const mr_pack_options *options;
    const mr_pipeline *pipeline;
    mr_pipeline *head;
    int32_t cut;
    int folder, made; /* open directories; -1: not yet */
    char path[PATH_MAX];
    mr_pack_field fields[MR_PACK_FIELDS];
    mr_pack_shape shape;
    char dataset[33];
    char state[MR_STATE_MAX]; /* at the beginning */
    json_t *classes;
    int64_t samples, shard, shards;
    int64_t first, end;   /* shards of this part */
    int64_t wanted, done; /* samples of this call */
    mr_loader *loader;
    mr_shard_writer writer;
    mr_pack_result *result;
} pack;

/* ---- A first look at the data ---- */
static mr_options loader_options(const pack *p) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = p->options->threads;
    options.log = p->options->log;
    options.digest = true;
    return options;
}

static mr_status note_classes(pack *p, mr_error *err) {
    bool lost = false;
    p->classes = json_object();
    for (int32_t f = 0; f < p->shape.n_fields; f++) {
        json_t *names = json_array();
        const char *name;
        for (int64_t i = 0; (name = mr_loader_class(p->loader, p->fields[f].name, i)); i++) {
            char safe[512];
            mr_json_append(names, json_string(mr_text_escape(safe, sizeof safe, name)), &lost);
        }
        if (json_array_size(names) > 0) {
            mr_json_set(p->classes, p->fields[f].name, names, &lost);
        } else {
            json_decref(names);
        }
    }
    return lost || !p->classes ? mr_fail_memory(err, 0) : MR_OK;
}

static mr_status look_at_first(pack *p, mr_error *err) {
    mr_batch *batch = NULL;
    mr_status status = mr_loader_next(p->loader, &batch, err);
    if (status != MR_OK) {
        return status < 0 ? status : mr_fail(err, MR_E_NOT_FOUND, "the dataset has no samples");
    }
    status = mr_pack_field_choose(p->fields, p->shape.n_fields, batch, p->shape.format, err);
    mr_batch_unref(batch);
    return status;
}

static mr_status describe_fields(pack *p, mr_error *err) {
    int32_t n = mr_pipeline_n_fields(p->head);
    if (n > MR_PACK_FIELDS) {
        return mr_fail(err, MR_E_LIMIT, "samples have %d fields, a pack has at most %d", n,
                       MR_PACK_FIELDS);
    }
    for (int32_t i = 0; i < n; i++) {
        const mr_field *field = mr_pipeline_field(p->head, i);
        p->fields[i] = (mr_pack_field){.name = field->name, .type = field->type};
    }
    static const mr_packing packings[] = {MR_NOT_PACKED, MR_ZSTD, MR_LZ4};
    p->shape = (mr_pack_shape){p->options->format, p->fields, n, packings[p->options->compression]};
    return MR_OK;
}

static mr_status look(pack *p, mr_error *err) {
    mr_options options = loader_options(p);
    options.batch = 1;
    options.batches_ahead = 1;
    MR_TRY(describe_fields(p, err));
    MR_TRY(mr_loader_open(&p->loader, p->head, &options, err));
    p->samples = mr_loader_n_samples(p->loader);
    bool part = p->options->take > 0 && p->options->take < p->samples;
    p->samples = part ? p->options->take : p->samples;
    snprintf(p->dataset, sizeof p->dataset, "%s", mr_loader_fingerprint(p->loader));
    MR_TRY(mr_loader_save(p->loader, p->state, sizeof p->state, err));
    MR_TRY(note_classes(p, err));
    return look_at_first(p, err);
}

/* ---- What the pack is: pack.json ---- */
static json_t *field_json(const mr_pack_field *field) {
    char type[96];
    bool lost = false;
    json_t *object = json_object();
    mr_json_set(object, "name", json_string(field->name), &lost);
    mr_json_set(object, "type", json_string(mr_type_text(&field->type, type, sizeof type)), &lost);
    mr_json_set(object, "extension", json_string(field->extension), &lost);
    return mr_json_whole(object, lost);
}

/* Where the data lies is left out: the same dataset elsewhere gives the same pack. */
static json_t *plan_json(const pack *p) {
    static const char *const formats[] = {"tar", "npy"};
    static const char *const compressions[] = {"none", "zstd", "lz4"};
    bool lost = false;
    json_t *object = json_object(), *fields = json_array();
    for (int32_t i = 0; i < p->shape.n_fields; i++) {
        mr_json_append(fields, field_json(&p->fields[i]), &lost);
    }
    mr_json_set(object, "millrace_pack", json_integer(PACK_VERSION), &lost);
    mr_json_set(object, "dataset", json_string(p->dataset), &lost);
    mr_json_set(object, "pipeline", json_string(mr_pipeline_fingerprint(p->head)), &lost);
    mr_json_set(object, "samples", json_integer(p->samples), &lost);
    mr_json_set(object, "format", json_string(formats[p->shape.format]), &lost);
    mr_json_set(object, "compression", json_string(compressions[p->options->compression]), &lost);
    mr_json_set(object, "shard_samples", json_integer(p->shard), &lost);
    mr_json_set(object, "shards", json_integer(p->shards), &lost);
    mr_json_set(object, "fields", fields, &lost);
    mr_json_set(object, "ops", mr_cut_ops(p->pipeline, p->cut), &lost);
    mr_json_set(object, "classes", json_incref(p->classes), &lost);
    return mr_json_whole(object, lost);
}

static mr_status write_json(int folder, const char *name, json_t *object, mr_error *err) {
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    if (!text) {
        return mr_fail_memory(err, 0);
    }
    mr_status status = mr_shard_file_text(folder, name, text, err);
    free(text);
    return status;
}

/* MR_E_NOT_FOUND: there is none. */
static mr_status read_json(const pack *p, const char *name, size_t limit, json_t **out,
                           mr_error *err) {
    char path[PATH_MAX + 64], *text = NULL;
    size_t size = 0;
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", p->path, name);
    MR_TRY(mr_file_load(path, limit, &text, &size, err));
    mr_status status = mr_json_load(out, text, size, 0, &error);
    mr_free(text);
    if (status == MR_E_PARAM) {
        mr_fail(err, MR_E_CORRUPT, "%s is not what pack wrote: %.200s", path, error.text);
        mr_hint(err, "delete it, and the shard it names is made again");
        return MR_E_CORRUPT;
    }
    return status;
}

static mr_status differs(const char *key, mr_error *err) {
    static const struct {
        const char *key, *text;
    } rows[] = {{"dataset", "the source has changed since: names, labels or their order differ"},
                {"samples", "the source has changed since: it has another number of samples"},
                {"contents", "the source has changed since: a shard that was made has other "
                             "samples now"},
                {"pipeline", "the ops before the cut are other ones"},
                {"shard_samples", "the shards have another number of samples"},
                {"format", "the shards have another format"},
                {"compression", "the shards are compressed in another way"}};
    const char *text = "it differs in an entry of pack.json";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text = strcmp(rows[i].key, key) == 0 ? rows[i].text : text;
    }
    mr_fail(err, MR_E_STATE, "the folder has a pack that does not fit: %s (%s)", text, key);
    mr_hint(err, "write to another folder with -o, or delete this one");
    return MR_E_STATE;
}

static mr_status compare_plan(json_t *found, json_t *wanted, mr_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(wanted, key, value) {
        if (!json_equal(value, json_object_get(found, key))) {
            return differs(key, err);
        }
    }
    return MR_OK;
}

/* ---- The folder ---- */
static bool is_empty(const char *path) {
    DIR *folder = opendir(path);
    bool empty = true;
    const struct dirent *entry;
    while (folder && empty && (entry = readdir(folder))) {
        const char *name = entry->d_name;
        bool own = strcmp(name, "made") == 0 || strcmp(name, ".pack.json.part") == 0;
        empty = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || own;
    }
    if (folder) {
        closedir(folder);
    }
    return empty;
}

static mr_status folder_failed(const char *path, mr_error *err) {
    return mr_fail_errno(err, MR_E_IO, errno, "cannot make the folder %.300s", path);
}

static mr_status open_folder(pack *p, mr_error *err) {
    const char *path = p->options->folder;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return folder_failed(path, err);
    }
    p->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->folder < 0 || !realpath(path, p->path)) {
        return folder_failed(path, err);
    }
    return MR_OK;
}

static mr_status open_made(pack *p, mr_error *err) {
    if (mkdirat(p->folder, "made", 0777) != 0 && errno != EEXIST) {
        return folder_failed("made", err);
    }
    p->made = openat(p->folder, "made", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return p->made >= 0 ? MR_OK : folder_failed("made", err);
}

/* MR_E_NOT_FOUND: the folder has no pack. */
static mr_status compare_with_folder(const pack *p, json_t *plan, mr_error *err) {
    json_t *found = NULL;
    MR_TRY(read_json(p, "pack.json", PLAN_MAX, &found, err));
    mr_status status = compare_plan(found, plan, err);
    json_decref(found);
    return status;
}

/* A folder that has files may have got its pack since it was looked for: parts begin together. */
static mr_status settle_plan(pack *p, json_t *plan, mr_error *err) {
    mr_error first = MR_ERROR_INIT;
    mr_status status = compare_with_folder(p, plan, &first);
    if (status == MR_E_NOT_FOUND && is_empty(p->path)) {
        return write_json(p->folder, "pack.json", plan, err);
    }
    if (status == MR_E_NOT_FOUND) {
        first = (mr_error)MR_ERROR_INIT;
        status = compare_with_folder(p, plan, &first);
    }
    if (status == MR_E_NOT_FOUND) {
        mr_fail(err, MR_E_PARAM, "the folder %.300s has other files in it", p->options->folder);
        mr_hint(err, "-o names a folder that is empty, does not exist yet, or has this pack");
        return MR_E_PARAM;
    }
    if (status != MR_OK) {
        *err = first;
    }
    return status;
}

/* ---- Shards that are there ---- */
static bool has_files(const pack *p, json_t *note) {
    size_t i;
    json_t *file;
    bool all = json_array_size(json_object_get(note, "files")) > 0;
    json_array_foreach(json_object_get(note, "files"), i, file) {
        struct stat info;
        const char *name = json_string_value(json_object_get(file, "name"));
        all = all && name && !strchr(name, '/') && fstatat(p->folder, name, &info, 0) == 0 &&
              info.st_size == json_integer_value(json_object_get(file, "bytes"));
    }
    return all;
}

/* NULL: the shard is to be made. */
static json_t *note_of(const pack *p, int64_t shard) {
    char base[32], name[64];
    json_t *note = NULL;
    mr_shard_base(base, sizeof base, shard);
    snprintf(name, sizeof name, "made/%s.json", base);
    if (read_json(p, name, NOTE_MAX, &note, NULL) == MR_OK && !has_files(p, note)) {
        json_decref(note);
        note = NULL;
    }
    return note;
}

static int64_t samples_of(const pack *p, int64_t shard) {
    int64_t left = p->samples - shard * p->shard;
    return left < p->shard ? left : p->shard;
}

/* ---- What a shard was made of ----
 * made/shard-NNNNNN.source says it, by the identities of its files. They differ also where a
 * dataset was copied: so a shard whose files are other ones is made again, and only where its
 * samples are other ones too the pack is refused. */
static void source_name(int64_t shard, char out[64]) {
    char base[32];
    mr_shard_base(base, sizeof base, shard);
    snprintf(out, 64, "%s.source", base);
}

/* False: it cannot be told. */
static bool identify(const pack *p, int64_t shard, char out[33]) {
    mr_hasher *hasher = mr_hasher_new();
    int64_t first = shard * p->shard, end = first + samples_of(p, shard);
    bool known = hasher != NULL;
    for (int64_t i = first; known && i < end; i++) {
        uint64_t words[2];
        known = mr_dataset_identify(&p->loader->children.list[0].dataset, i, words);
        mr_hasher_bytes(hasher, words, sizeof words);
    }
    if (known) {
        mr_hash_hex(mr_hasher_value(hasher), out);
    }
    mr_hasher_free(hasher);
    return known;
}

static bool has_changed(const pack *p, int64_t shard) {
    char name[64], path[PATH_MAX + 80], now[33], *noted = NULL;
    size_t size = 0;
    source_name(shard, name);
    snprintf(path, sizeof path, "%s/made/%s", p->path, name);
    if (mr_file_load(path, NOTE_MAX, &noted, &size, NULL) != MR_OK) {
        return false;
    }
    bool changed = identify(p, shard, now) && strcmp(now, noted) != 0;
    mr_free(noted);
    return changed;
}

static mr_status note_source(const pack *p, int64_t shard, mr_error *err) {
    char name[64], now[33];
    source_name(shard, name);
    return identify(p, shard, now) ? mr_shard_file_text(p->made, name, now, err) : MR_OK;
}

static bool is_made(const pack *p, int64_t shard) {
    json_t *note = note_of(p, shard);
    json_decref(note);
    return note != NULL && !has_changed(p, shard);
}

/* The shard at hand may be one that was there, of files that are other ones now. */
static mr_status compare_samples(const pack *p, mr_error *err) {
    char digest[33];
    json_t *old = note_of(p, p->writer.number);
    mr_shard_digest(&p->writer, digest);
    const char *noted = json_string_value(json_object_get(old, "digest"));
    bool same = !noted || strcmp(noted, digest) == 0;
    json_decref(old);
    return same ? MR_OK : differs("contents", err);
}

static void count_wanted(pack *p) {
    for (int64_t k = p->first; k < p->end; k++) {
        bool there = is_made(p, k);
        p->result->found += there;
        p->result->part_left += !there;
        p->wanted += there ? 0 : samples_of(p, k);
    }
}

/* ---- Making shards ---- */
static bool goes_on(const pack *p) {
    return !p->options->progress || p->options->progress(p->options->user, p->done, p->wanted);
}

static mr_status begin_at(pack *p, int64_t shard, mr_error *err) {
    mr_options options = loader_options(p);
    mr_state state;
    char text[MR_STATE_MAX];
    MR_TRY(mr_state_read(&state, p->state, strlen(p->state), err));
    state.position = shard * p->shard;
    MR_TRY(mr_state_write(&state, text, sizeof text, err));
    options.state = text;
    options.state_size = strlen(text);
    mr_loader_close(p->loader);
    p->loader = NULL;
    MR_TRY(mr_loader_open(&p->loader, p->head, &options, err));
    if (strcmp(mr_loader_fingerprint(p->loader), p->dataset) != 0) {
        return differs("dataset", err);
    }
    return MR_OK;
}

static mr_status finish_shard(pack *p, mr_error *err) {
    char name[64], base[32];
    json_t *note = NULL;
    mr_shard_base(base, sizeof base, p->writer.number);
    snprintf(name, sizeof name, "%s.json", base);
    mr_status status = compare_samples(p, err);
    if (status == MR_OK) {
        status = mr_shard_end(&p->writer, &note, err);
    }
    if (status == MR_OK) {
        status = note_source(p, p->writer.number, err);
    }
    if (status == MR_OK) {
        status = write_json(p->made, name, note, err);
    }
    json_decref(note);
    mr_shard_drop(&p->writer);
    p->result->made += status == MR_OK;
    p->result->part_left -= status == MR_OK;
    return status;
}

static mr_status add_sample(pack *p, const mr_batch *batch, int64_t i, mr_error *err) {
    int64_t sample = mr_batch_samples(batch)[i], shard = sample / p->shard;
    if (sample % p->shard == 0) {
        MR_TRY(mr_shard_begin(&p->writer, &p->shape, p->folder, shard, samples_of(p, shard), err));
    }
    MR_TRY(mr_shard_add(&p->writer, batch, i, err));
    p->done++;
    bool last = sample + 1 == shard * p->shard + samples_of(p, shard);
    return last ? finish_shard(p, err) : MR_OK;
}

static mr_status next_batch(pack *p, mr_batch **out, mr_error *err) {
    mr_status status;
    do {
        if (!goes_on(p)) {
            return mr_fail(err, MR_E_CANCELLED, "stopped");
        }
        status = mr_loader_next_within(p->loader, WAIT_NS, out, err);
    } while (status == MR_LATER);
    return status;
}

/* Shards [first, end), none of which is there. */
static mr_status make_shards(pack *p, int64_t first, int64_t end, mr_error *err) {
    int64_t at = first * p->shard, stop = end * p->shard;
    stop = stop < p->samples ? stop : p->samples;
    MR_TRY(begin_at(p, first, err));
    while (at < stop) {
        mr_batch *batch = NULL;
        mr_status status = next_batch(p, &batch, err);
        if (status != MR_OK) {
            return status < 0 ? status : mr_fail(err, MR_E_INTERNAL, "the samples ended early");
        }
        int64_t n = mr_batch_valid(batch);
        for (int64_t i = 0; status == MR_OK && i < n && at < stop; i++, at++) {
            status = mr_batch_samples(batch)[i] == at
                         ? add_sample(p, batch, i, err)
                         : mr_fail(err, MR_E_INTERNAL, "samples came in another order");
        }
        mr_batch_unref(batch);
        MR_TRY(status);
    }
    return MR_OK;
}

static mr_status make_missing(pack *p, mr_error *err) {
    for (int64_t k = p->first; k < p->end; k++) {
        int64_t end = k;
        while (end < p->end && !is_made(p, end)) {
            end++;
        }
        if (end > k) {
            MR_TRY(make_shards(p, k, end, err));
            k = end;
        }
    }
    return MR_OK;
}

/* ---- The end ---- */
/* All shards, as sources take them: FOLDER/shard-{000000..000007}.ENDING. */
static json_t *all_shards(const pack *p, const char *ending) {
    char base[32], last[32], path[PATH_MAX + MR_SHARD_NAME];
    mr_shard_base(base, sizeof base, 0);
    mr_shard_base(last, sizeof last, p->shards - 1);
    if (p->shards == 1) {
        snprintf(path, sizeof path, "%s/%s.%s", p->path, base, ending);
    } else {
        snprintf(path, sizeof path, "%s/shard-{%s..%s}.%s", p->path, base + 6, last + 6, ending);
    }
    return json_string(path);
}

static json_t *source_json(const pack *p) {
    bool lost = false;
    json_t *object = json_object(), *params = json_object(), *fields = json_array(),
           *numbers = json_array();
    for (int32_t i = 0; i < p->shape.n_fields; i++) {
        const mr_pack_field *field = &p->fields[i];
        char text[2 * MR_PACK_EXTENSION + 512];
        snprintf(text, sizeof text, "%s=%s", field->name, field->extension);
        mr_json_append(fields, json_string(text), &lost);
        if (field->kind == MR_PACK_NUMBER) {
            mr_json_append(numbers, json_string(field->name), &lost);
        }
    }
    mr_json_set(params, "path", all_shards(p, mr_shard_ending(&p->shape)), &lost);
    if (p->shape.packing != MR_NOT_PACKED) {
        mr_json_set(params, "in_memory", json_true(), &lost);
    }
    mr_json_set(params, "fields", fields, &lost);
    mr_json_set(params, "numbers", numbers, &lost);
    mr_json_set(object, "tar", params, &lost);
    return mr_json_whole(object, lost);
}

static const char *const layout_names[] = {
    [MR_PLAIN] = "plain", [MR_HWC] = "hwc", [MR_CHW] = "chw"};

static json_t *decode_json(const mr_pack_field *field) {
    bool lost = false;
    json_t *op = json_object(), *params = json_object(), *shape = json_array();
    for (int32_t i = 0; i < field->type.n_dims; i++) {
        mr_json_append(shape, json_integer(field->type.dims[i]), &lost);
    }
    mr_json_set(params, "dtype", json_string(mr_dtype_name(field->type.dtype)), &lost);
    mr_json_set(params, "shape", shape, &lost);
    mr_json_set(params, "layout", json_string(layout_names[field->type.layout]), &lost);
    mr_json_set(params, "field", json_string(field->name), &lost);
    mr_json_set(op, "decode_npy", params, &lost);
    return mr_json_whole(op, lost);
}

static json_t *tar_document(const pack *p) {
    bool lost = false;
    json_t *ops = json_array();
    for (int32_t i = 0; i < p->shape.n_fields; i++) {
        if (p->fields[i].kind == MR_PACK_ARRAY) {
            mr_json_append(ops, decode_json(&p->fields[i]), &lost);
        }
    }
    return mr_cut_tail(p->pipeline, p->cut, source_json(p), mr_json_whole(ops, lost));
}

/* ---- Arrays ---- */
static bool is_number_called(const mr_pack_field *field, const char *name) {
    return strcmp(field->name, name) == 0 && field->type.dtype == MR_I64 && field->type.n_dims == 0;
}

static bool is_label(const mr_pack_field *field) {
    return is_number_called(field, "label");
}

/* A pack has all samples in their order: what the source counts is the same. */
static bool is_index(const mr_pack_field *field) {
    return is_number_called(field, "index");
}

static bool is_pixels(const mr_pack_field *field) {
    return field->type.n_dims == 3;
}

/* The layout that all fields with three dimensions have, and others have none: the source `array`
 * takes one for all. -1: there is none. */
static int32_t layout_of(const pack *p) {
    int32_t layout = MR_PLAIN;
    bool seen = false;
    for (int32_t i = 0; i < p->shape.n_fields; i++) {
        const mr_pack_field *field = &p->fields[i];
        if (!is_pixels(field) && field->type.layout != MR_PLAIN) {
            return -1;
        }
        if (is_pixels(field) && seen && layout != (int32_t)field->type.layout) {
            return -1;
        }
        layout = is_pixels(field) ? (int32_t)field->type.layout : layout;
        seen = seen || is_pixels(field);
    }
    return layout;
}

/* Names that the source `array` gives to its own fields stand for those. */
static bool is_for_array(const pack *p) {
    bool free_names = !is_label(&p->fields[0]) && !is_index(&p->fields[0]);
    for (int32_t i = 1; i < p->shape.n_fields; i++) {
        const mr_pack_field *field = &p->fields[i];
        free_names = free_names && strcmp(field->name, "data") != 0 &&
                     (is_label(field) || strcmp(field->name, "label") != 0) &&
                     (is_index(field) || strcmp(field->name, "index") != 0);
    }
    return p->shape.n_fields > 0 && free_names && layout_of(p) >= 0;
}

static json_t *array_params(const pack *p) {
    bool lost = false;
    int32_t layout = layout_of(p); /* not -1: is_for_array */
    json_t *params = json_object(), *more = json_array();
    mr_json_set(params, "path", all_shards(p, p->fields[0].extension), &lost);
    for (int32_t i = 1; i < p->shape.n_fields; i++) {
        const mr_pack_field *field = &p->fields[i];
        json_t *path = all_shards(p, field->extension);
        if (is_label(field)) {
            mr_json_set(params, "labels", path, &lost);
        } else if (is_index(field)) {
            json_decref(path);
        } else {
            mr_json_append(more, json_sprintf("%s=%s", field->name, json_string_value(path)),
                           &lost);
            json_decref(path);
        }
    }
    mr_json_set(params, "fields", more, &lost);
    mr_json_set(params, "layout", json_string(layout_names[layout < 0 ? MR_PLAIN : layout]), &lost);
    return mr_json_whole(params, lost);
}

static json_t *array_document(const pack *p) {
    bool lost = false;
    json_t *source = json_object(), *ops = json_array();
    mr_json_set(source, "array", array_params(p), &lost);
    if (strcmp(p->fields[0].name, "data") != 0) {
        mr_json_append(
            ops,
            json_pack("{s:{s:[s], s:[s]}}", "rename", "fields", "data", "names", p->fields[0].name),
            &lost);
    }
    return mr_cut_tail(p->pipeline, p->cut, mr_json_whole(source, lost), ops);
}

static mr_status write_document(pack *p, mr_error *err) {
    bool tar = p->shape.format == MR_PACK_TAR;
    if (!tar && !is_for_array(p)) {
        return MR_OK;
    }
    json_t *document = tar ? tar_document(p) : array_document(p);
    char *text = document ? json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(document);
    if (!text) {
        return mr_fail_memory(err, 0);
    }
    p->result->document = text;
    return mr_shard_file_text(p->folder, "pipeline.json", text, err);
}

static void add_note(pack *p, json_t *shards, json_t *note, mr_hasher *digests) {
    size_t i;
    json_t *file;
    mr_hasher_text(digests, json_string_value(json_object_get(note, "digest")));
    json_array_foreach(json_object_get(note, "files"), i, file) {
        p->result->bytes += json_integer_value(json_object_get(file, "bytes"));
        p->result->unpacked_bytes += json_integer_value(json_object_get(file, "unpacked_bytes"));
    }
    json_array_append_new(shards, note);
}

/* Whoever finds all shards there writes what all would write. */
static mr_status conclude(pack *p, json_t *plan, mr_error *err) {
    json_t *shards = json_array();
    mr_hasher *digests = mr_hasher_new();
    mr_status status = digests && shards ? MR_OK : mr_fail_memory(err, 0);
    for (int64_t k = 0; status == MR_OK && k < p->shards; k++) {
        json_t *note = note_of(p, k);
        if (note) {
            add_note(p, shards, note, digests);
        }
        p->result->left += !note;
    }
    if (status == MR_OK && p->result->left == 0) {
        mr_hash_hex(mr_hasher_value(digests), p->result->digest);
        json_object_set_new(plan, "digest", json_string(p->result->digest));
        json_object_set(plan, "made", shards);
        status = write_json(p->folder, "manifest.json", plan, err);
    }
    mr_hasher_free(digests);
    json_decref(shards);
    return status == MR_OK && p->result->left == 0 ? write_document(p, err) : status;
}

/* ---- All together ---- */
static mr_status check_options(const mr_pack_options *o, mr_error *err) {
    if (o->size != sizeof *o || !o->folder || o->shard < 0 || o->take < 0 || o->parts < 0 ||
        o->part < 0 || (o->parts > 0 && o->part >= o->parts)) {
        return mr_fail(err, MR_E_PARAM, "options of a pack that cannot be");
    }
    if (o->compression != MR_PACK_PLAIN && o->format != MR_PACK_TAR) {
        mr_fail(err, MR_E_PARAM, "only tar shards are compressed");
        mr_hint(err, "arrays are mapped into memory as they are: leave one of the two out");
        return MR_E_PARAM;
    }
    return MR_OK;
}

static mr_status prepare(pack *p, mr_error *err) {
    const mr_pack_options *o = p->options;
    int64_t parts = o->parts > 0 ? o->parts : 1;
    MR_TRY(mr_cut_find(p->pipeline, o->upto, &p->cut, err));
    MR_TRY(mr_cut_head(p->pipeline, p->cut, o->extra_ops, &p->head, err));
    MR_TRY(look(p, err));
    p->shard = o->shard > 0 ? o->shard : MR_PACK_SHARD;
    p->shards = (p->samples + p->shard - 1) / p->shard;
    p->first = p->shards * o->part / parts;
    p->end = p->shards * (o->part + 1) / parts;
    p->result->samples = p->samples;
    p->result->shards = p->shards;
    return MR_OK;
}

/* A disk that is full, or a bad sample, leaves whole shards. */
static void say_what_is_left(const pack *p, mr_error *err) {
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, "; %lld of %lld shards of this part are whole",
             (long long)(p->end - p->first - p->result->part_left), (long long)(p->end - p->first));
    if (err->sys == ENOSPC || err->sys == EDQUOT) {
        mr_hint(err, "make room and run the same command again: it goes on with what is missing");
    }
}

static mr_status make(pack *p, json_t *plan, mr_error *err) {
    MR_TRY(settle_plan(p, plan, err));
    MR_TRY(open_made(p, err));
    count_wanted(p);
    mr_status status = make_missing(p, err);
    if (status < 0 && status != MR_E_CANCELLED) {
        say_what_is_left(p, err);
    }
    return status;
}

static mr_status run(pack *p, mr_error *err) {
    MR_TRY(prepare(p, err));
    MR_TRY(open_folder(p, err));
    json_t *plan = plan_json(p);
    mr_status status = plan ? make(p, plan, err) : mr_fail_memory(err, 0);
    if (p->made >= 0) {
        mr_error later = MR_ERROR_INIT;
        mr_status end = conclude(p, plan, status == MR_OK ? err : &later);
        status = status == MR_OK ? end : status;
    }
    json_decref(plan);
    return status;
}

static void give_result(mr_pack_result *out, mr_pack_result *own) {
    bool has_document = out->size >= offsetof(mr_pack_result, document) + sizeof own->document;
    mr_give_sized(out, own, sizeof *own);
    if (!has_document) {
        mr_free(own->document);
    }
}

mr_status mr_pipeline_pack(const mr_pipeline *pipeline, const mr_pack_options *options,
                           mr_pack_result *out, mr_error *err) {
    mr_error own = MR_ERROR_INIT;
    mr_pack_result result = {.samples = 0};
    mr_give_sized(out, &result, sizeof result);
    MR_TRY(check_options(options, err));
    pack *p = mr_zalloc(1, sizeof *p);
    if (!p) {
        return mr_fail_memory(err, sizeof *p);
    }
    p->options = options;
    p->pipeline = pipeline;
    p->result = &result;
    p->folder = p->made = -1;
    mr_status status = run(p, &own);
    give_result(out, &result);
    if (status < 0 && err) {
        *err = own;
    }
    mr_loader_close(p->loader);
    mr_shard_drop(&p->writer);
    mr_pipeline_free(p->head);
    json_decref(p->classes);
    if (p->made >= 0) {
        close(p->made);
    }
    if (p->folder >= 0) {
        close(p->folder);
    }
    mr_free(p);
    return status;
}
