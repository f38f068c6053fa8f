/* SPDX-License-Identifier: Apache-2.0 */
/* tfrecord.c - samples are the records of TFRecord files; the features of a tf.train.Example are
 * their fields.
 *
 * Bytes are used where they lie. Lists of numbers whose length varies are decoded when a block is
 * unpacked, since there must be memory for them as long as the block lives: where one is wanted,
 * files are read in blocks and not mapped. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/tfexample.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/name_table.h"
#include "io/far_name.h"
#include "sources/shard_index.h"
#include "sources/shards.h"

enum { MOST_FIELDS = MR_FIELDS_LIMIT - 2, FIELD_NAME = 256, FEW = 64 };

/* A field and the feature it comes from. length: -1 varies, 0 a single number. */
typedef struct part {
    char name[FIELD_NAME], feature[FIELD_NAME];
    mr_tf_kind kind;
    int64_t length;
    int32_t list; /* among those whose numbers vary; -1 else */
    int32_t next; /* part that comes from the same feature; -1: none */
    bool is_picture;
} part;

typedef struct params {
    mr_strings path, fields;
    int32_t index;
    int64_t block_bytes, max_unpacked_bytes;
    part *parts; /* not parameters: found by check */
    int32_t n_parts, capacity, n_lists;
    mr_name_table features; /* the first part of each */
} params;

static const mr_param rows[] = {
    {.name = "path",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, path),
     .min_len = 1,
     .max_len = 1000000,
     .doc = "Files: names, patterns with braces (train-{00000..01023}-of-01024) or wildcards, "
            "folders. Endings .gz and .zst are unpacked."},
    {.name = "fields",
     .kind = MR_PARAM_STRINGS,
     .offset = offsetof(params, fields),
     .fallback = "[]",
     .max_len = MOST_FIELDS,
     .doc = "Features to take, each a field: \"NAME:TYPE\" with a type of bytes, int64 or float32, "
            "one number, or [8] for eight or [] for any number of them: \"box:float32[4]\"; under "
            "another name: \"image=image/encoded:bytes\". Empty: those of the first record, "
            "pictures first, then by name."},
    {.name = "index",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(params, index),
     .fallback = "\"read\"",
     .choices = mr_shard_index_choices,
     .doc = "An index as tfrecord2idx writes it, FILE.idx or with .idx in place of the file's "
            "ending: read it where there is one that fits, also write it where there is none, or "
            "leave it alone."},
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
     .doc = "Refuse compressed files that have more."},
    {.name = NULL},
};

static const char *const endings[] = {".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrecord.zst",
                                      NULL};

typedef struct tfrecord {
    const params *params;
    const mr_log *log; /* while it is opened */
    mr_shards shards;
} tfrecord;

/* ---- Fields that are declared ---- */
static mr_status wrong_field(const char *text, mr_error *err) {
    mr_fail(err, MR_E_PARAM, "'%.64s' does not declare a field", text);
    mr_hint(err, "write \"label:int64\", \"box:float32[4]\", \"ids:int64[]\" or "
                 "\"image=image/encoded:bytes\"");
    return MR_E_PARAM;
}

static bool copy(char *out, const char *from, size_t n) {
    if (n == 0 || n >= FIELD_NAME) {
        return false;
    }
    memcpy(out, from, n);
    out[n] = '\0';
    return true;
}

static bool parse_type(const char *text, part *out) {
    static const char *const names[] = {"", "bytes", "float32", "int64"};
    size_t n = strcspn(text, "[");
    char *end;
    for (int kind = MR_TF_BYTES; kind <= MR_TF_INT64; kind++) {
        if (strlen(names[kind]) == n && memcmp(names[kind], text, n) == 0) {
            out->kind = (mr_tf_kind)kind;
        }
    }
    if (out->kind == MR_TF_EMPTY || (out->kind == MR_TF_BYTES && text[n])) {
        return false;
    }
    if (text[n] == '\0' || strcmp(text + n, "[]") == 0) {
        out->length = out->kind == MR_TF_BYTES || text[n] ? -1 : 0;
        return true;
    }
    out->length = strtoll(text + n + 1, &end, 10);
    return out->length > 0 && out->length <= INT32_MAX && strcmp(end, "]") == 0;
}

static mr_status add_part(params *p, const part *own, mr_error *err) {
    if (p->n_parts == MOST_FIELDS) {
        return mr_fail(err, MR_E_LIMIT, "more than %d fields", MOST_FIELDS);
    }
    if (!p->parts || p->n_parts == p->capacity) {
        int32_t capacity = p->capacity ? 2 * p->capacity : 8;
        part *grown = realloc(p->parts, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        p->parts = grown;
        p->capacity = capacity;
    }
    p->parts[p->n_parts++] = *own;
    return MR_OK;
}

static mr_status declare(params *p, const char *text, mr_error *err) {
    const char *equals = strchr(text, '='), *feature = equals ? equals + 1 : text;
    const char *colon = strrchr(feature, ':');
    part own = {.list = -1};
    if (!colon || !parse_type(colon + 1, &own) ||
        !copy(own.feature, feature, (size_t)(colon - feature)) ||
        !copy(own.name, text, (size_t)((equals ? equals : colon) - text))) {
        return wrong_field(text, err);
    }
    return add_part(p, &own, err);
}

/* ---- Fields that are looked for ---- */
static bool looks_like_picture(const mr_tf_bytes *bytes) {
    const unsigned char *d = bytes->data;
    return bytes->size > 12 && (memcmp(d, "\xff\xd8\xff", 3) == 0 || memcmp(d, "\x89PNG", 4) == 0 ||
                                memcmp(d, "RIFF", 4) == 0);
}

static mr_status name_too_long(const mr_tf_feature *feature, mr_error *err) {
    mr_fail(err, MR_E_LIMIT, "a feature without a name, or with one of %zu bytes, at most %d",
            feature->name_length, FIELD_NAME - 1);
    mr_hint(err, "declare those to take with `fields`");
    return MR_E_LIMIT;
}

/* A feature that cannot be a field (several pieces of bytes, none) is left out. */
static mr_status look_at(void *user, const mr_tf_feature *feature, mr_error *err) {
    params *p = user;
    part own = {.kind = feature->kind, .list = -1, .length = -1};
    mr_tf_bytes bytes = {NULL, 0};
    int64_t n = 0;
    bool is_bytes = feature->kind == MR_TF_BYTES;
    MR_TRY(mr_tf_values(feature, is_bytes ? &bytes : NULL, is_bytes, &n, err));
    bool fits = feature->kind != MR_TF_EMPTY && (!is_bytes || n == 1);
    if (!fits) {
        return MR_OK;
    }
    if (!copy(own.name, feature->name, feature->name_length)) {
        return name_too_long(feature, err);
    }
    memcpy(own.feature, own.name, sizeof own.name);
    own.length = !is_bytes && n == 1 ? 0 : -1;
    own.is_picture = is_bytes && looks_like_picture(&bytes);
    return add_part(p, &own, err);
}

/* Features whose values can be counted: bytes that are something else seldom look like that. */
static mr_status count_values(void *user, const mr_tf_feature *feature, mr_error *err) {
    int64_t n = 0;
    (void)user;
    return mr_tf_values(feature, NULL, 0, &n, err);
}

static int by_kind_and_name(const void *a, const void *b) {
    const part *x = a, *y = b;
    return x->is_picture != y->is_picture ? y->is_picture - x->is_picture
                                          : strcmp(x->name, y->name);
}

static mr_status look(params *p, const mr_shard_head *head, mr_error *err) {
    int64_t bytes = 0;
    mr_error ignored = MR_ERROR_INIT;
    mr_status status = mr_tfrecord_next(head->data, head->size, 0, &bytes, err);
    if (status == MR_END) {
        return mr_fail(err, MR_E_PARAM, "the file has no records");
    }
    MR_TRY(status);
    MR_TRY(mr_tfrecord_verify(head->data + MR_TFRECORD_HEAD, (size_t)bytes, err));
    const unsigned char *record = head->data + MR_TFRECORD_HEAD;
    if (mr_tf_each(record, (size_t)bytes, count_values, NULL, &ignored) < 0) {
        return MR_OK; /* records of another kind: given as they are */
    }
    MR_TRY(mr_tf_each(record, (size_t)bytes, look_at, p, err));
    if (p->n_parts > 0) {
        qsort(p->parts, (size_t)p->n_parts, sizeof *p->parts, by_kind_and_name);
    }
    return MR_OK;
}

static mr_status look_for_fields(params *p, mr_error *err) {
    enum { HEAD = 64 << 20 };
    mr_shard_head head;
    mr_status status = mr_shards_head(&head, &p->path, endings, HEAD, err);
    if (status == MR_OK) {
        status = mr_shard_blame(look(p, &head, err), head.path, -1, err);
    }
    free(head.data);
    return status;
}

static mr_status note_features(params *p, mr_error *err) {
    for (int32_t i = 0; i < p->n_parts; i++) {
        part *own = &p->parts[i];
        size_t length = strlen(own->feature);
        own->next = -1;
        int32_t first = mr_name_table_find(&p->features, own->feature, length);
        if (first >= 0) {
            own->next = p->parts[first].next;
            p->parts[first].next = i;
        }
        MR_TRY(mr_name_table_put(&p->features, own->feature, length, i, err));
    }
    return MR_OK;
}

static mr_status check(void *params_, mr_error *err) {
    params *p = params_;
    p->parts = NULL;
    p->n_parts = p->n_lists = p->capacity = 0;
    p->features = (mr_name_table){.n = 0};
    for (int32_t i = 0; i < p->fields.n; i++) {
        MR_TRY(declare(p, p->fields.v[i], err));
    }
    if (p->n_parts == 0) {
        MR_TRY(look_for_fields(p, err));
    }
    for (int32_t i = 0; i < p->n_parts; i++) {
        bool varies = p->parts[i].length < 0 && p->parts[i].kind != MR_TF_BYTES;
        p->parts[i].list = varies ? p->n_lists++ : -1;
    }
    return note_features(p, err);
}

static void forget(void *params_) {
    params *p = params_;
    free(p->parts);
    mr_name_table_free(&p->features);
    p->parts = NULL;
    p->n_parts = p->n_lists = p->capacity = 0;
}

static mr_type type_of(const part *own) {
    mr_type type = {.dtype = MR_U8, .n_dims = own->length != 0, .dims = {own->length}};
    type.dtype = own->kind == MR_TF_BYTES ? MR_U8 : own->kind == MR_TF_FLOAT ? MR_F32 : MR_I64;
    return type;
}

static mr_status describe(const void *params_, mr_field *fields, int32_t capacity,
                          int32_t *n_fields, mr_error *err) {
    const params *p = params_;
    const mr_type bytes = {.dtype = MR_U8, .n_dims = 1, .dims = {-1}};
    int32_t n = 0;
    (void)err;
    *n_fields = p->n_parts + 2;
    if (capacity < *n_fields) {
        return MR_OK;
    }
    for (; n < p->n_parts; n++) {
        fields[n] = (mr_field){p->parts[n].name, type_of(&p->parts[n]), false};
    }
    fields[n++] = (mr_field){"record", bytes, p->n_parts > 0};
    fields[n++] = (mr_field){"index", {.dtype = MR_I64}, true};
    return MR_OK;
}

/* ---- Finding the samples ---- */
static mr_status walk_records(mr_shards *shards, mr_shard_index *index, const unsigned char *data,
                              size_t size, mr_error *err) {
    int64_t at = 0, bytes = 0;
    mr_status status;
    while ((status = mr_tfrecord_next(data, size, at, &bytes, err)) == MR_OK) {
        int64_t whole = bytes + MR_TFRECORD_HEAD + MR_TFRECORD_TAIL;
        MR_TRY(mr_shards_mark(shards, at, 1, err));
        mr_shard_index_record(index, at, whole);
        at += whole;
    }
    mr_shards_end(shards, at);
    return status < 0 ? status : MR_OK;
}

static bool find(void *user, mr_shards *shards, const mr_shard *shard, const mr_shard_data *data) {
    const tfrecord *t = user;
    return mr_shard_index_read_tfrecord(shards, shard, data, t->params->index, t->log);
}

static mr_status walk(void *user, mr_shards *shards, const mr_shard *shard,
                      const unsigned char *data, size_t size, mr_error *err) {
    const tfrecord *t = user;
    mr_shard_index index;
    mr_shard_index_begin(&index, shard, t->params->index);
    mr_status status = walk_records(shards, &index, data, size, err);
    mr_shard_index_write_tfrecord(&index, status == MR_OK, t->log);
    return status;
}

static bool wants_list(const params *p, const mr_wanted *wanted) {
    bool wants = false;
    for (int32_t i = 0; i < p->n_parts; i++) {
        wants = wants || (p->parts[i].list >= 0 && (!wanted->fields || wanted->fields[i]));
    }
    return wants;
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    tfrecord *t = mr_zalloc(1, sizeof *t);
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
        .keeper = wanted->keeper,
        .objects = wanted->objects,
        .kind = "tfrecord",
        .may_map = wanted->single && !wants_list(t->params, wanted),
        .find = find,
        .walk = walk,
        .user = t,
    };
    MR_TRY(mr_shards_open(&t->shards, &config, err));
    return mr_shards_meaning(&t->shards, describe, p, &t->params->fields, 0, err);
}

static void close_(void *state) {
    tfrecord *t = state;
    if (t) {
        mr_shards_close(&t->shards);
        mr_free(t);
    }
}

/* ---- Records and their features ---- */
/* What was found for each part. */
typedef struct features {
    const params *params;
    mr_tf_feature *found, few[FEW];
} features;

static mr_status make_features(features *all, const params *p, mr_error *err) {
    all->params = p;
    all->found = all->few;
    if (p->n_parts > FEW) {
        all->found = mr_zalloc((size_t)p->n_parts, sizeof *all->found);
    }
    return all->found ? MR_OK : mr_fail_memory(err, (size_t)p->n_parts * sizeof *all->found);
}

static void free_features(features *all) {
    if (all->found != all->few) {
        mr_free(all->found);
    }
}

static mr_status note_feature(void *user, const mr_tf_feature *feature, mr_error *err) {
    features *all = user;
    (void)err;
    int32_t i = mr_name_table_find(&all->params->features, feature->name, feature->name_length);
    for (; i >= 0; i = all->params->parts[i].next) {
        all->found[i] = *feature;
    }
    return MR_OK;
}

/* The record's data. An index may say what it wants: the lengths must agree. */
static mr_status open_record(const mr_shard_piece *piece, mr_bytes *record, mr_error *err) {
    int64_t bytes = 0;
    mr_status status = mr_tfrecord_next(piece->data, piece->size, 0, &bytes, err);
    if (status != MR_OK || bytes + MR_TFRECORD_HEAD + MR_TFRECORD_TAIL != (int64_t)piece->size) {
        return status < 0 ? status : mr_fail(err, MR_E_CORRUPT, "the index does not fit the file");
    }
    *record = (mr_bytes){piece->data + MR_TFRECORD_HEAD, (size_t)bytes};
    return mr_tfrecord_verify(record->data, record->size, err);
}

static mr_status find_features(const params *p, const mr_bytes *record, features *out,
                               mr_error *err) {
    for (int32_t i = 0; i < p->n_parts; i++) {
        out->found[i].kind = MR_TF_EMPTY;
    }
    mr_status status = mr_tf_each(record->data, record->size, note_feature, out, err);
    if (status < 0 && err) {
        err->offset += MR_TFRECORD_HEAD;
    }
    return status;
}

/* ---- Unpacking: lists of numbers ---- */
/* The list of record r and list k has count[r * n_lists + k] numbers (-1: fill says what is wrong)
 * from values[start[...]] on; eight bytes are set aside for each. */
typedef struct unpacked {
    unsigned char *bytes; /* of a compressed file; else NULL */
    int64_t *start, *count;
    int64_t *values;
    int64_t n, capacity;
} unpacked;

static bool make_room(unpacked *u, int64_t more) {
    if (u->n + more > u->capacity) {
        int64_t capacity = 2 * u->capacity + more;
        int64_t *grown = realloc(u->values, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return false;
        }
        u->values = grown;
        u->capacity = capacity;
    }
    return true;
}

static mr_status decode_list(unpacked *u, const part *own, const mr_tf_feature *feature, int64_t at,
                             mr_error *err) {
    mr_error ignored = MR_ERROR_INIT;
    int64_t n = 0;
    bool fits = (feature->kind == own->kind || feature->kind == MR_TF_EMPTY) &&
                mr_tf_values(feature, NULL, 0, &n, &ignored) == MR_OK;
    u->start[at] = u->n;
    u->count[at] = fits ? n : -1;
    if (!fits || n == 0) {
        return MR_OK;
    }
    if (!make_room(u, n)) {
        return mr_fail_memory(err, (size_t)n * sizeof *u->values);
    }
    MR_TRY(mr_tf_values(feature, u->values + u->n, n, &n, err));
    u->n += own->kind == MR_TF_FLOAT ? (n + 1) / 2 : n;
    return MR_OK;
}

static mr_status decode_record(const tfrecord *t, const mr_block *block, unpacked *u, int64_t row,
                               features *all, mr_error *err) {
    const params *p = t->params;
    const mr_shard_piece piece = mr_shards_piece(&t->shards, block, u->bytes, block->first + row);
    mr_error ignored = MR_ERROR_INIT;
    mr_bytes record = {NULL, 0};
    bool well = open_record(&piece, &record, &ignored) == MR_OK &&
                find_features(p, &record, all, &ignored) == MR_OK;
    for (int32_t i = 0; i < p->n_parts; i++) {
        int64_t at = row * p->n_lists + p->parts[i].list;
        if (p->parts[i].list >= 0 && well) {
            MR_TRY(decode_list(u, &p->parts[i], &all->found[i], at, err));
        } else if (p->parts[i].list >= 0) {
            u->count[at] = -1;
        }
    }
    return MR_OK;
}

static int64_t rows_of(const tfrecord *t, int64_t block) {
    int64_t end = block + 1 < t->shards.n_blocks ? mr_shards_first_sample(&t->shards, block + 1)
                                                 : t->shards.n_samples;
    return end - mr_shards_first_sample(&t->shards, block);
}

static mr_status decode_lists(const tfrecord *t, const mr_block *block, unpacked *u,
                              mr_error *err) {
    int64_t n_rows = rows_of(t, block->number), n = n_rows * t->params->n_lists;
    u->start = mr_zalloc((size_t)n + 1, sizeof *u->start);
    u->count = mr_zalloc((size_t)n + 1, sizeof *u->count);
    if (!u->start || !u->count) {
        return mr_fail_memory(err, (size_t)n * sizeof *u->start);
    }
    features all;
    mr_status status = make_features(&all, t->params, err);
    for (int64_t row = 0; status == MR_OK && row < n_rows; row++) {
        status = decode_record(t, block, u, row, &all, err);
    }
    free_features(&all);
    return status;
}

static void drop(const void *state, int32_t part_, void *unpacked_) {
    unpacked *u = unpacked_;
    (void)state;
    (void)part_;
    free(u->bytes);
    mr_free(u->start);
    mr_free(u->count);
    free(u->values);
    mr_free(u);
}

static mr_status unpack(const void *state, const mr_block *block, int32_t part_, void **out,
                        mr_error *err) {
    const tfrecord *t = state;
    mr_bytes bytes;
    unpacked *u = mr_zalloc(1, sizeof *u);
    (void)part_;
    if (!u) {
        return mr_fail_memory(err, sizeof *u);
    }
    *out = u;
    MR_TRY(mr_shards_unpack(&t->shards, block, &bytes, &u->bytes, err));
    return t->params->n_lists > 0 ? decode_lists(t, block, u, err) : MR_OK;
}

/* ---- Blocks ---- */
static void shape(const void *state, mr_shape *out) {
    mr_shards_shape(&((const tfrecord *)state)->shards, out);
}

static int64_t first_sample(const void *state, int64_t block) {
    return mr_shards_first_sample(&((const tfrecord *)state)->shards, block);
}

static int64_t block_bytes(const void *state, int64_t block) {
    return mr_shards_block_bytes(&((const tfrecord *)state)->shards, block);
}

static mr_status locate(const void *state, int64_t block, mr_extent *extents, int32_t capacity,
                        int32_t *n, mr_error *err) {
    return mr_shards_locate(&((const tfrecord *)state)->shards, block, extents, capacity, n, err);
}

/* ---- Samples ---- */
static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    const tfrecord *t = state;
    const mr_shard *shard = mr_shards_of_piece(&t->shards, sample);
    snprintf(buffer, size, "%.*s, record %lld at byte %lld", (int)mr_path_public(shard->path),
             shard->path, (long long)(sample - shard->first_sample),
             (long long)t->shards.starts[sample]);
}

static bool identify(const void *state, int64_t sample, uint64_t out[2]) {
    return mr_shards_identify(&((const tfrecord *)state)->shards, sample, out);
}

static void point_at(mr_view *field, const void *data, int64_t n, size_t each) {
    field->data = (void *)(uintptr_t)data;
    field->size = (size_t)n * each;
    field->type.dims[0] = n;
}

static mr_status wrong_number(const part *own, int64_t n, mr_error *err) {
    mr_fail(err, MR_E_CORRUPT, "feature %s has %lld values", own->feature, (long long)n);
    mr_hint(err, "say how many it has: \"%s:TYPE[]\" for any number", own->name);
    return MR_E_CORRUPT;
}

static mr_status fill_fixed(const part *own, const mr_tf_feature *feature, const mr_view *field,
                            mr_error *err) {
    int64_t wanted = own->length > 0 ? own->length : 1, n = 0;
    MR_TRY(mr_tf_values(feature, field->data, wanted, &n, err));
    return n == wanted ? MR_OK : wrong_number(own, n, err);
}

static mr_status fill_bytes(const part *own, const mr_tf_feature *feature, mr_view *field,
                            mr_error *err) {
    mr_tf_bytes bytes = {NULL, 0};
    int64_t n = 0;
    MR_TRY(mr_tf_values(feature, &bytes, 1, &n, err));
    if (n != 1) {
        return wrong_number(own, n, err);
    }
    point_at(field, bytes.data, (int64_t)bytes.size, 1);
    return MR_OK;
}

static mr_status fill_part(const params *p, const part *own, const mr_tf_feature *feature,
                           const unpacked *u, int64_t row, mr_view *field, mr_error *err) {
    if (feature->kind != own->kind && (feature->kind != MR_TF_EMPTY || own->list < 0)) {
        return mr_fail(err, MR_E_CORRUPT, "the record has no feature %s of its type", own->feature);
    }
    if (own->kind == MR_TF_BYTES) {
        return fill_bytes(own, feature, field, err);
    }
    if (own->list < 0) {
        return fill_fixed(own, feature, field, err);
    }
    int64_t at = row * p->n_lists + own->list;
    if (!u || u->count[at] < 0) {
        return mr_fail(err, MR_E_CORRUPT, "feature %s is damaged", own->feature);
    }
    const int64_t *values = u->values ? u->values + u->start[at] : NULL; /* all may be empty */
    point_at(field, values, u->count[at], own->kind == MR_TF_FLOAT ? 4 : 8);
    return MR_OK;
}

static mr_status fill_parts(const params *p, const mr_bytes *record, const unpacked *u, int64_t row,
                            mr_view *fields, mr_error *err) {
    features all;
    mr_status status = make_features(&all, p, err);
    if (status == MR_OK) {
        status = find_features(p, record, &all, err);
    }
    for (int32_t i = 0; status == MR_OK && i < p->n_parts; i++) {
        if (mr_is_wanted(&fields[i])) {
            status = fill_part(p, &p->parts[i], &all.found[i], u, row, &fields[i], err);
        }
    }
    free_features(&all);
    return status;
}

static mr_status fill_record(const params *p, const mr_shard_piece *piece, const unpacked *u,
                             int64_t row, mr_view *fields, mr_error *err) {
    mr_bytes record = {NULL, 0};
    MR_TRY(open_record(piece, &record, err));
    if (p->n_parts > 0) {
        MR_TRY(fill_parts(p, &record, u, row, fields, err));
    }
    if (mr_is_wanted(&fields[p->n_parts])) {
        point_at(&fields[p->n_parts], record.data, (int64_t)record.size, 1);
    }
    return MR_OK;
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    const tfrecord *t = state;
    const unpacked *u = block ? block->parts[0] : NULL;
    const mr_shard_piece piece = mr_shards_piece(&t->shards, block, u ? u->bytes : NULL, sample);
    const mr_view *index = &fields[t->params->n_parts + 1];
    if (!piece.data) {
        return mr_fail(err, MR_E_INTERNAL, "a sample without its block");
    }
    if (mr_is_wanted(index)) {
        memcpy(index->data, &sample, sizeof sample);
    }
    mr_status status =
        fill_record(t->params, &piece, u, block ? sample - block->first : 0, fields, err);
    if (status < 0 && err) {
        err->offset = piece.offset + (err->offset > 0 ? err->offset : 0);
    }
    return status;
}

extern const mr_source_class mr_source_tfrecord;
const mr_source_class mr_source_tfrecord = {
    MR_SOURCE_HEADER,
    .name = "tfrecord",
    .summary = "The records of TFRecord files; features of a tf.train.Example become fields.",
    .doc =
        "Fields: one for each feature (bytes, int64, float32; one number, a fixed number of them "
        "or any), on request record (the record's bytes) and index (int64). Where the first record "
        "is not a tf.train.Example, record is the only field. Looking at the first record, a "
        "feature with one number is a number, one with more is a list of any length, and one with "
        "several pieces of bytes is left out. A feature that is missing is a bad sample; a list "
        "that is missing is empty. Both checksums of every record are verified: the length's when "
        "the files are opened (unless an index says where records begin), both when a record is "
        "used. With \"shuffle\": true files are mapped and records taken one by one, unless they "
        "are compressed or a list of any length is wanted; else they are read in blocks.",
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
    .also = "tf_records tfrecord_dataset",
};
