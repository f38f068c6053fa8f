/* SPDX-License-Identifier: Apache-2.0 */
/* tar.c - samples in tar shards, by WebDataset's rules: files that follow each other and have the
 * same key are the parts of one sample, and their extensions name its fields.
 *
 * What is kept of a sample is where it begins: its parts are found again, by their headers, when it
 * is filled. So an index that does not fit its shard is found out, and 8 bytes a sample are enough.
 */
#include <errno.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/tar.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/name_table.h"
#include "io/far_name.h"
#include "sources/shard_index.h"
#include "sources/shards.h"

enum { MOST_FIELDS = MR_FIELDS_LIMIT - 2, FIELD_NAME = 256, LOOK_AT = 16, FEW = 64 };

/* A field: its name, and the extensions it comes from, each with a terminating zero. */
typedef struct part {
    char name[FIELD_NAME];
    char extensions[FIELD_NAME];
    bool is_number;
} part;

typedef struct params {
    mr_strings path, fields, numbers;
    int32_t index;
    int64_t block_bytes, max_unpacked_bytes;
    bool in_memory;
    part *parts; /* not parameters: found by check */
    int32_t n_parts, capacity;
    mr_name_table extensions; /* in small letters, of the parts */
    bool has_key, has_index;
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, path),
     .min_len = 1,
     .max_len = 1000000,
     .doc = "Shards: names of files, patterns with braces (train-{0000..0123}.tar) or wildcards, "
            "folders. Endings .gz, .tgz, .zst and .lz4 are unpacked."},
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, fields),
     .fallback = "[]",
     .max_len = MOST_FIELDS,
     .doc = "Extensions to take, each a field, \"jpg\"; several that stand for one, "
            "\"jpg;jpeg;png\"; under another name, \"image=jpg;png\". Empty: those of the first 16 "
            "samples, pictures first."},
    {.name = "numbers",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, numbers),
     .fallback = "[]",
     .max_len = MOST_FIELDS,
     .doc = "Fields that are whole numbers written as text (cls): int64 instead of bytes."},
    {.name = "index",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(params, index),
     .fallback = "\"read\"",
     .choices = mr_shard_index_choices,
     .doc = "An index as DALI's wds2idx writes it, SHARD.idx or with .idx in place of the shard's "
            "ending: read it where there is one that fits, also write it where there is none, or "
            "leave it alone. Samples are the same with and without; a compressed shard that has "
            "one is not unpacked when the run opens."},
    {.name = "block_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, block_bytes),
     .fallback = "\"16MB\"",
     .min = 1,
     .max = 1e12,
     .doc = "Read about as much at once, where samples are not taken one by one."},
    {.name = "max_unpacked_bytes",
     .kind = MR_PARAM_BYTES,
     .offset = offsetof(params, max_unpacked_bytes),
     .fallback = "\"4GB\"",
     .min = 1,
     .max = 1e15,
     .doc = "Refuse compressed shards that have more."},
    {.name = "in_memory",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(params, in_memory),
     .fallback = "false",
     .doc = "Where samples are taken one by one (\"shuffle\": true), unpack compressed shards once "
            "and keep them all in memory: the order is that of shards that are not compressed."},
    {.name = NULL},
};

static const char *const endings[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.lz4", NULL};

typedef struct tar {
    const params *params;
    const mr_log *log; /* while it is opened */
    bool said;         /* why there are no indices */
    mr_shards shards;
} tar;

/* ---- Fields ---- */
/* False: it is too long to be one of a field. */
static bool lower(char *out, size_t size, const char *text) {
    size_t i = 0;
    for (; text[i] && i + 1 < size; i++) {
        out[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    }
    out[i] = '\0';
    return text[i] == '\0';
}

/* Upper and lower case are the same. */
static int32_t find_part(const params *p, const char *extension) {
    char small[FIELD_NAME];
    return lower(small, sizeof small, extension)
               ? mr_name_table_find(&p->extensions, small, strlen(small))
               : -1;
}

static mr_status make_room(params *p, mr_error *err) {
    if (p->n_parts == MOST_FIELDS) {
        mr_fail(err, MR_E_LIMIT, "more than %d fields", MOST_FIELDS);
        return MR_E_LIMIT;
    }
    if (!p->parts || p->n_parts == p->capacity) {
        int32_t capacity = p->capacity ? 2 * p->capacity : 8;
        part *grown = realloc(p->parts, (size_t)capacity * sizeof *grown);
        if (!grown) {
            mr_fail_memory(err, (size_t)capacity * sizeof *grown);
            return MR_E_MEMORY;
        }
        p->parts = grown;
        p->capacity = capacity;
    }
    return MR_OK;
}

/* The first field that has an extension gets its files. */
static mr_status note_extensions(params *p, mr_error *err) {
    mr_name_table_free(&p->extensions);
    for (int32_t i = 0; i < p->n_parts; i++) {
        for (const char *e = p->parts[i].extensions; *e; e += strlen(e) + 1) {
            char small[FIELD_NAME];
            lower(small, sizeof small, e);
            MR_TRY(mr_name_table_put(&p->extensions, small, strlen(small), i, err));
        }
    }
    return MR_OK;
}

static mr_status add_part(params *p, const char *text, mr_error *err) {
    const char *equals = strchr(text, '='), *list = equals ? equals + 1 : text;
    size_t name = equals ? (size_t)(equals - text) : strcspn(text, ";");
    if (name == 0 || name >= FIELD_NAME || list[0] == '\0' || strlen(list) + 2 > FIELD_NAME ||
        strstr(list, ";;") || list[0] == ';') {
        mr_fail(err, MR_E_PARAM, "'%.64s' is no extension, or too long", text);
        mr_hint(err, "write \"jpg\", \"jpg;png\" or \"image=jpg;png\"");
        return MR_E_PARAM;
    }
    MR_TRY(make_room(p, err));
    part *own = &p->parts[p->n_parts];
    *own = (part){.is_number = false};
    memcpy(own->name, text, name);
    memcpy(own->extensions, list, strlen(list));
    for (char *at = own->extensions; (at = strchr(at, ';')) != NULL;) {
        *at++ = '\0';
    }
    p->n_parts++;
    return MR_OK;
}

/* One that was come across. */
static mr_status add_extension(params *p, const char *extension, mr_error *err) {
    char small[FIELD_NAME];
    if (find_part(p, extension) >= 0 || strpbrk(extension, "=;")) {
        return MR_OK;
    }
    if (!lower(small, sizeof small, extension)) {
        mr_fail(err, MR_E_LIMIT, "an extension of more than %d bytes", FIELD_NAME - 1);
        mr_hint(err, "give the source's fields: the extensions to take");
        return MR_E_LIMIT;
    }
    MR_TRY(add_part(p, small, err));
    return mr_name_table_put(&p->extensions, small, strlen(small), p->n_parts - 1, err);
}

/* Adds the extensions of the first samples, in the order in which they come. A shard that begins
 * with damage is found out by open. */
static mr_status look(params *p, const mr_shard_head *head, mr_error *err) {
    char key[MR_TAR_NAME] = "";
    int n_samples = 0;
    mr_tar_part found;
    mr_error ignored = MR_ERROR_INIT;
    mr_tar_entry *entry = mr_zalloc(1, sizeof *entry);
    if (!entry) {
        return mr_fail_memory(err, sizeof *entry);
    }
    mr_status status = MR_OK;
    while (status == MR_OK &&
           mr_tar_next(head->data, head->size, entry->next, entry, &ignored) == MR_OK) {
        if (!mr_tar_part_of(entry, &found)) {
            continue;
        }
        if (strlen(key) != found.key_length || memcmp(key, entry->name, found.key_length) != 0) {
            n_samples++;
            memcpy(key, entry->name, found.key_length);
            key[found.key_length] = '\0';
        }
        if (n_samples > LOOK_AT) {
            break;
        }
        status = add_extension(p, found.extension, err);
    }
    mr_free(entry);
    return status;
}

static bool is_picture(const part *own) {
    static const char *const pictures[] = {"jpg", "jpeg", "png", "webp", NULL};
    for (const char *const *p = pictures; *p; p++) {
        if (strcmp(*p, own->name) == 0) {
            return true;
        }
    }
    return false;
}

static void put_pictures_first(params *p) {
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_parts; i++) {
        if (is_picture(&p->parts[i])) {
            part picture = p->parts[i];
            memmove(&p->parts[n + 1], &p->parts[n], (size_t)(i - n) * sizeof picture);
            p->parts[n++] = picture;
        }
    }
}

static mr_status look_for_fields(params *p, mr_error *err) {
    enum { HEAD = 64 << 20 };
    mr_shard_head head;
    mr_status status = mr_shards_head(&head, &p->path, endings, HEAD, err);
    if (status == MR_OK) {
        status = look(p, &head, err);
    }
    if (status == MR_OK && p->n_parts == 0) {
        mr_tar_entry entry;
        status = mr_tar_next(head.data, head.size, 0, &entry, err);
        if (status >= 0) {
            mr_fail(err, MR_E_NOT_FOUND, "no files whose names have a key and an extension");
            mr_hint(err, "files are named KEY.EXTENSION, such as 000017.jpg and 000017.cls");
            status = MR_E_NOT_FOUND;
        }
        mr_shard_blame(status, head.path, -1, err);
    }
    put_pictures_first(p);
    free(head.data);
    return status;
}

static bool has_name(const params *p, const char *name) {
    bool has = false;
    for (int32_t i = 0; i < p->n_parts; i++) {
        has = has || strcmp(p->parts[i].name, name) == 0;
    }
    return has;
}

static mr_status mark_numbers(params *p, mr_error *err) {
    mr_name_table numbers = {.n = 0};
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < p->numbers.n; i++) {
        const char *name = p->numbers.v[i];
        status = has_name(p, name)
                     ? mr_name_table_put(&numbers, name, strlen(name), i, err)
                     : mr_fail(err, MR_E_PARAM, "there is no field '%.64s' to be a number", name);
    }
    for (int32_t k = 0; k < p->n_parts; k++) {
        const char *name = p->parts[k].name;
        p->parts[k].is_number = mr_name_table_find(&numbers, name, strlen(name)) >= 0;
    }
    mr_name_table_free(&numbers);
    return status;
}

static mr_status check(void *params_, mr_error *err) {
    params *p = params_;
    p->parts = NULL;
    p->n_parts = p->capacity = 0;
    p->extensions = (mr_name_table){.n = 0};
    for (int32_t i = 0; i < p->fields.n; i++) {
        MR_TRY(add_part(p, p->fields.v[i], err));
    }
    if (p->n_parts == 0) {
        MR_TRY(look_for_fields(p, err));
    }
    MR_TRY(note_extensions(p, err)); /* anew: parts were put in order */
    p->has_key = !has_name(p, "key");
    p->has_index = !has_name(p, "index");
    return mark_numbers(p, err);
}

static void forget(void *params_) {
    params *p = params_;
    free(p->parts);
    mr_name_table_free(&p->extensions);
    p->parts = NULL;
    p->n_parts = p->capacity = 0;
}

static mr_status describe(const void *params_, mr_field *fields, int32_t capacity,
                          int32_t *n_fields, mr_error *err) {
    const params *p = params_;
    const mr_type bytes = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    const mr_type number = {.dtype = MR_I64};
    int32_t n = 0;
    (void)err;
    *n_fields = p->n_parts + p->has_key + p->has_index;
    if (capacity < *n_fields) {
        return MR_OK;
    }
    for (; n < p->n_parts; n++) {
        fields[n] = (mr_field){p->parts[n].name, p->parts[n].is_number ? number : bytes, false};
    }
    if (p->has_key) {
        fields[n++] = (mr_field){"key", bytes, true};
    }
    if (p->has_index) {
        fields[n++] = (mr_field){"index", number, true};
    }
    return MR_OK;
}

/* ---- Finding the samples ---- */
/* A sample begins where the parts of the one before end: whatever is between them, such as a folder
 * or a header with a long name, is its own. */
typedef struct walker {
    mr_shards *shards;
    mr_shard_index index;
    int64_t end; /* of the last part */
    char key[MR_TAR_NAME];
    size_t key_length;
    mr_tar_entry entry;
    mr_tar_stream stream;
    bool is_wrong; /* what came is no tar file, as far as it was seen */
} walker;

static mr_status take_entry(void *user, const mr_tar_entry *entry, mr_error *err) {
    walker *w = user;
    mr_tar_part found;
    if (!mr_tar_part_of(entry, &found)) {
        return MR_OK;
    }
    if (found.key_length != w->key_length || memcmp(w->key, entry->name, w->key_length) != 0) {
        MR_TRY(mr_shards_mark(w->shards, w->end, 1, err));
        mr_shard_index_sample(&w->index);
        w->key_length = found.key_length;
        memcpy(w->key, entry->name, w->key_length);
    }
    mr_shard_index_part(&w->index, found.extension, entry->data, entry->size, entry->name);
    w->end = entry->next;
    return MR_OK;
}

static mr_status walk_entries(walker *w, const unsigned char *data, size_t size, mr_error *err) {
    mr_status status;
    while ((status = mr_tar_next(data, size, w->entry.next, &w->entry, err)) == MR_OK) {
        MR_TRY(take_entry(w, &w->entry, err));
    }
    return status < 0 ? status : MR_OK;
}

static mr_status take_bytes(void *user, const unsigned char *bytes, size_t n, mr_error *err) {
    walker *w = user;
    mr_status status = mr_tar_stream_feed(&w->stream, bytes, n, take_entry, w, err);
    w->is_wrong = status < 0;
    return status;
}

static mr_status begin_walk(walker **out, const tar *t, mr_shards *shards, const mr_shard *shard,
                            mr_error *err) {
    *out = mr_zalloc(1, sizeof **out);
    if (!*out) {
        return mr_fail_memory(err, sizeof **out);
    }
    (*out)->shards = shards;
    mr_shard_index_begin(&(*out)->index, shard, t->params->index);
    return MR_OK;
}

static void end_walk(tar *t, walker *w, bool well) {
    mr_shards_end(w->shards, w->end);
    mr_shard_index_write_tar(&w->index, well, &t->said, t->log);
    mr_tar_stream_free(&w->stream);
    mr_free(w);
}

static bool find(void *user, mr_shards *shards, const mr_shard *shard, const mr_shard_data *data) {
    const tar *t = user;
    return mr_shard_index_read_tar(shards, shard, data, t->params->index, t->log);
}

static mr_status walk(void *user, mr_shards *shards, const mr_shard *shard,
                      const unsigned char *data, size_t size, mr_error *err) {
    walker *w;
    MR_TRY(begin_walk(&w, user, shards, shard, err));
    mr_status status = walk_entries(w, data, size, err);
    end_walk(user, w, status == MR_OK);
    return status;
}

static mr_status stream(void *user, mr_shards *shards, const mr_shard *shard, bool *again,
                        mr_error *err) {
    const tar *t = user;
    walker *w;
    mr_error own = MR_ERROR_INIT;
    MR_TRY(begin_walk(&w, t, shards, shard, err));
    mr_status status = mr_unpack_stream(shard->packing, shard->map.data, shard->map.size,
                                        (size_t)t->params->max_unpacked_bytes, take_bytes, w, &own);
    *again = w->is_wrong || (status == MR_OK && !mr_tar_stream_is_whole(&w->stream));
    end_walk(user, w, status == MR_OK && !*again);
    if (status < 0 && !*again && err) {
        *err = own;
    }
    return status;
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    tar *t = mr_zalloc(1, sizeof *t);
    if (!t) {
        return mr_fail_memory(err, sizeof *t);
    }
    *state = t;
    t->params = p;
    t->log = wanted->log;
    const mr_shards_config config = {
        .patterns = &t->params->path,
        .endings = endings,
        .block_bytes = t->params->block_bytes,
        .max_unpacked = t->params->max_unpacked_bytes,
        .may_map = wanted->single,
        .keeper = wanted->keeper,
        .objects = wanted->objects,
        .kind = "tar",
        .may_locate = wanted->single && !t->params->in_memory,
        .in_memory = t->params->in_memory,
        .find = find,
        .walk = walk,
        .stream = stream,
        .user = t,
    };
    MR_TRY(mr_shards_open(&t->shards, &config, err));
    return mr_shards_meaning(&t->shards, describe, p, &t->params->fields, 0, err);
}

static void close_(void *state) {
    tar *t = state;
    if (t) {
        mr_shards_close(&t->shards);
        mr_free(t);
    }
}

/* ---- Blocks ---- */
static void shape(const void *state, mr_shape *out) {
    mr_shards_shape(&((const tar *)state)->shards, out);
}

static int64_t first_sample(const void *state, int64_t block) {
    return mr_shards_first_sample(&((const tar *)state)->shards, block);
}

static int64_t block_bytes(const void *state, int64_t block) {
    return mr_shards_block_bytes(&((const tar *)state)->shards, block);
}

static mr_status locate(const void *state, int64_t block, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err) {
    return mr_shards_locate(&((const tar *)state)->shards, block, extents, capacity, n, err);
}

static mr_status unpack(const void *state, const mr_block *block, int32_t part_, void **out,
                        mr_error *err) {
    mr_bytes bytes;
    unsigned char *owned = NULL;
    (void)part_;
    mr_status status = mr_shards_unpack(&((const tar *)state)->shards, block, &bytes, &owned, err);
    *out = owned;
    return status;
}

static void drop(const void *state, int32_t part_, void *unpacked) {
    (void)state;
    (void)part_;
    free(unpacked);
}

/* ---- Samples ---- */
static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const tar *t = state;
    const mr_shard *shard = mr_shards_of_piece(&t->shards, sample);
    snprintf(buffer, size, "%.*s, sample %lld at byte %lld", (int)mr_path_public(shard->path),
             shard->path, (long long)(sample - shard->first_sample),
             (long long)t->shards.starts[sample]);
}

static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    return mr_shards_identify(&((const tar *)state)->shards, sample, out);
}

static mr_status not_whole(const mr_tar_entry *entry, const char *why, mr_error *err) {
    char name[256];
    mr_text_escape(name, sizeof name, entry->name);
    return mr_fail(err, MR_E_CORRUPT, "%s: %s", name, why);
}

static mr_status put_number(const mr_view *field, const unsigned char *text,
                            const mr_tar_entry *entry, mr_error *err) {
    char copy[32], *end;
    size_t n = (size_t)entry->size;
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) && text[n - 1] != '\0') {
        n--;
    }
    if (n == 0 || n >= sizeof copy) {
        return not_whole(entry, "not a whole number", err);
    }
    memcpy(copy, text, n);
    copy[n] = '\0';
    errno = 0;
    const int64_t number = strtoll(copy, &end, 10);
    if (end != copy + n || errno == ERANGE) {
        return not_whole(
            entry, errno == ERANGE ? "a number that does not fit int64" : "not a whole number",
            err);
    }
    memcpy(field->data, &number, sizeof number);
    return MR_OK;
}

static void point_at(mr_view *field, const void *bytes, size_t size) {
    field->data = (void *)(uintptr_t)bytes;
    field->size = size;
    field->type.dims[0] = (int64_t)size;
}

static mr_status fill_part(const params *p, int32_t i, const mr_shard_piece *piece,
                           const mr_tar_entry *entry, mr_view *field, bool *seen, mr_error *err) {
    if (*seen) {
        return mr_fail(err, MR_E_CORRUPT, "the sample has two files for field %s",
                       p->parts[i].name);
    }
    *seen = true;
    if (!mr_is_wanted(field)) {
        return MR_OK;
    }
    if (p->parts[i].is_number) {
        return put_number(field, piece->data + entry->data, entry, err);
    }
    point_at(field, piece->data + entry->data, (size_t)entry->size);
    return MR_OK;
}

static mr_status check_all_there(const params *p, const mr_view *fields, const bool *seen,
                                 mr_error *err) {
    for (int32_t i = 0; i < p->n_parts; i++) {
        if (!seen[i] && mr_is_wanted(&fields[i])) {
            mr_fail(err, MR_E_NOT_FOUND, "the sample has no file for field %s", p->parts[i].name);
            mr_hint(err, "give the source's fields: those that all samples have, or several "
                         "extensions for one field, \"image=jpg;png\"");
            return MR_E_NOT_FOUND;
        }
    }
    return MR_OK;
}

/* seen: a flag for each field, all false. */
static mr_status walk_parts(const params *p, const mr_shard_piece *piece, mr_view *fields,
                            bool *seen, char *key, size_t *key_length, mr_error *err) {
    mr_tar_entry entry;
    mr_tar_part found;
    mr_status status;
    *key_length = 0;
    entry.next = 0;
    while ((status = mr_tar_next(piece->data, piece->size, entry.next, &entry, err)) == MR_OK) {
        if (!mr_tar_part_of(&entry, &found)) {
            continue;
        }
        if (*key_length == 0) {
            *key_length = found.key_length;
            memcpy(key, entry.name, found.key_length);
        } else if (*key_length != found.key_length ||
                   memcmp(key, entry.name, found.key_length) != 0) {
            mr_fail(err, MR_E_CORRUPT, "the index does not fit the shard");
            mr_hint(err, "remove the .idx file beside it");
            return MR_E_CORRUPT;
        }
        int32_t i = find_part(p, found.extension);
        if (i >= 0) {
            MR_TRY(fill_part(p, i, piece, &entry, &fields[i], &seen[i], err));
        }
    }
    return status < 0 ? status : check_all_there(p, fields, seen, err);
}

static mr_status walk_sample(const params *p, const mr_shard_piece *piece, mr_view *fields,
                             char *key, size_t *key_length, mr_error *err) {
    bool few[FEW] = {false};
    bool *many = p->n_parts > FEW ? mr_zalloc((size_t)p->n_parts, sizeof *many) : NULL;
    if (p->n_parts > FEW && !many) {
        return mr_fail_memory(err, (size_t)p->n_parts);
    }
    mr_status status = walk_parts(p, piece, fields, many ? many : few, key, key_length, err);
    mr_free(many);
    return status;
}

/* The key lies in a header of the sample, if it is not one that was put together. */
static const unsigned char *find_key(const mr_shard_piece *piece, const char *key, size_t length) {
    return memmem(piece->data, piece->size, key, length);
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const tar *t = state;
    const params *p = t->params;
    const mr_shard_piece piece =
        mr_shards_piece(&t->shards, block, block ? block->parts[0] : NULL, sample);
    char key[MR_TAR_NAME];
    size_t length = 0;
    if (!piece.data) {
        return mr_fail(err, MR_E_INTERNAL, "a sample without its block");
    }
    mr_status status = walk_sample(p, &piece, fields, key, &length, err);
    if (status < 0 && err) {
        err->offset = piece.offset + (err->offset > 0 ? err->offset : 0);
        return status;
    }
    if (p->has_key && mr_is_wanted(&fields[p->n_parts])) {
        const unsigned char *at = find_key(&piece, key, length);
        if (!at) {
            return mr_fail(err, MR_E_UNSUPPORTED, "a key that the header has in two parts");
        }
        point_at(&fields[p->n_parts], at, length);
    }
    if (p->has_index && mr_is_wanted(&fields[p->n_parts + p->has_key])) {
        memcpy(fields[p->n_parts + p->has_key].data, &sample, sizeof sample);
    }
    return status;
}

extern const mr_source_class mr_source_tar;
const mr_source_class mr_source_tar = {
    MR_SOURCE_HEADER,
    .name = "tar",
    .summary = "Samples in tar shards, by WebDataset's rules.",
    .doc =
        "Files that follow each other and have the same key are one sample: the key is the name up "
        "to the first dot after the last slash, the rest is the extension, which names the field. "
        "Fields: one for each extension (bytes, or int64 as `numbers` says), on request key "
        "(bytes) and index (int64). A sample that lacks a field somebody wants is a bad sample; "
        "files with other extensions are left out. With \"shuffle\": true shards are mapped and "
        "samples taken one by one; else, and where shards are compressed, they are read in blocks "
        "(a compressed shard is one block). ustar, GNU long names and pax are understood; links, "
        "folders and what lies under a name such as __meta__ are left out; a sparse file, a wrong "
        "checksum, a name with .. and a shard "
        "that is cut off are errors that name the byte. Shards must not be cut shorter while a run "
        "uses them.",
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
    .first_sample = first_sample,
    .block_bytes = block_bytes,
    .locate = locate,
    .unpack = unpack,
    .drop = drop,
    .fill = fill,
    .identify = identify,
    .also = "webdataset wds",
};
