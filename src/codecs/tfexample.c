/* SPDX-License-Identifier: Apache-2.0 */
/* tfexample.c - see tfexample.h. The messages are nested to a fixed depth, so nothing recurses; a
 * field that nobody knows is stepped over. */
#include "codecs/tfexample.h"

#include <string.h>

#include "codecs/crc32c.h"
#include "core/error.h"

/* ---- Records ---- */
static mr_status damaged(mr_error *err, int64_t offset, const char *what) {
    mr_fail(err, MR_E_CORRUPT, "%s", what);
    if (err) {
        err->offset = offset;
    }
    return MR_E_CORRUPT;
}

static uint32_t word_at(const unsigned char *data) {
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
           (uint32_t)data[3] << 24;
}

mr_status mr_tfrecord_next(const unsigned char *file, size_t size, int64_t at, int64_t *bytes,
                           mr_error *err) {
    int64_t left = (int64_t)size - at;
    if (left == 0) {
        return MR_END;
    }
    if (left < MR_TFRECORD_HEAD + MR_TFRECORD_TAIL) {
        return damaged(err, at, "the file is cut off inside a record's header");
    }
    const unsigned char *head = file + at;
    if (word_at(head + 8) != mr_crc32c_masked(head, 8)) {
        return damaged(err, at, "the checksum of a record's length is wrong");
    }
    uint64_t length = (uint64_t)word_at(head + 4) << 32 | word_at(head);
    if (length > (uint64_t)(left - MR_TFRECORD_HEAD - MR_TFRECORD_TAIL)) {
        return damaged(err, at, "a record is longer than what is left of the file");
    }
    *bytes = (int64_t)length;
    return MR_OK;
}

mr_status mr_tfrecord_verify(const unsigned char *data, size_t bytes, mr_error *err) {
    return word_at(data + bytes) == mr_crc32c_masked(data, bytes)
               ? MR_OK
               : damaged(err, MR_TFRECORD_HEAD, "the checksum of a record's data is wrong");
}

/* ---- Messages ---- */
typedef struct message {
    const unsigned char *data, *at, *end;
    int64_t offset; /* of data, in the record */
} message;

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* A field: of BYTES, value and size; of VARINT, number; of the fixed ones, value. */
typedef struct field {
    uint64_t tag, number;
    int wire;
    const unsigned char *value;
    size_t size;
} field;

static mr_status not_a_message(const message *m, mr_error *err) {
    return damaged(err, m->offset + (m->at - m->data), "not a valid tf.train.Example");
}

static bool take_varint(message *m, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && m->at < m->end; shift += 7) {
        unsigned char byte = *m->at++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool take_bytes(message *m, uint64_t size, field *out) {
    if (size > (uint64_t)(m->end - m->at)) {
        return false;
    }
    out->value = m->at;
    out->size = (size_t)size;
    m->at += size;
    return true;
}

static bool take_field(message *m, field *out) {
    uint64_t key, size = 0;
    if (!take_varint(m, &key)) {
        return false;
    }
    out->tag = key >> 3;
    out->wire = (int)(key & 7);
    switch (out->wire) {
    case VARINT:
        return take_varint(m, &out->number);
    case FIXED64:
        return take_bytes(m, 8, out);
    case BYTES:
        return take_varint(m, &size) && take_bytes(m, size, out);
    case FIXED32:
        return take_bytes(m, 4, out);
    default:
        return false;
    }
}

static message inner(const message *m, const field *f) {
    return (message){f->value, f->value, f->value + f->size, m->offset + (f->value - m->data)};
}

/* The next field that has bytes and this tag (0: any). MR_END: the message ends. */
static mr_status find(message *m, uint64_t tag, field *out, mr_error *err) {
    while (m->at < m->end) {
        if (!take_field(m, out)) {
            return not_a_message(m, err);
        }
        if (out->wire == BYTES && (tag == 0 || out->tag == tag)) {
            return MR_OK;
        }
    }
    return MR_END;
}

/* ---- Features ---- */
static mr_status read_feature(message *m, mr_tf_feature *out, mr_error *err) {
    field f;
    mr_status status;
    while ((status = find(m, 0, &f, err)) == MR_OK) {
        if (f.tag >= 1 && f.tag <= 3) {
            out->kind = (mr_tf_kind)f.tag;
            out->list = f.value;
            out->size = f.size;
        }
    }
    return status < 0 ? status : MR_OK;
}

/* An entry of the map: 1 is the name, 2 the feature. */
static mr_status read_entry(message *m, mr_tf_feature *out, mr_error *err) {
    field f;
    mr_status status;
    *out = (mr_tf_feature){.name = "", .kind = MR_TF_EMPTY};
    while ((status = find(m, 0, &f, err)) == MR_OK) {
        if (f.tag == 1) {
            out->name = (const char *)f.value;
            out->name_length = f.size;
        } else if (f.tag == 2) {
            message feature = inner(m, &f);
            MR_TRY(read_feature(&feature, out, err));
        }
    }
    return status < 0 ? status : MR_OK;
}

static mr_status each_entry(message *features, mr_tf_visit visit, void *user, mr_error *err) {
    field f;
    mr_status status;
    while ((status = find(features, 1, &f, err)) == MR_OK) {
        mr_tf_feature feature;
        message entry = inner(features, &f);
        MR_TRY(read_entry(&entry, &feature, err));
        MR_TRY(visit(user, &feature, err));
    }
    return status < 0 ? status : MR_OK;
}

mr_status mr_tf_each(const unsigned char *data, size_t size, mr_tf_visit visit, void *user,
                     mr_error *err) {
    message example = {data, data, data + size, 0};
    field f;
    mr_status status;
    while ((status = find(&example, 1, &f, err)) == MR_OK) {
        message features = inner(&example, &f);
        MR_TRY(each_entry(&features, visit, user, err));
    }
    return status < 0 ? status : MR_OK;
}

/* ---- Values ---- */
typedef struct values {
    void *out;
    int64_t capacity, n;
} values;

static void put_number(values *v, uint64_t number) {
    if (v->n++ < v->capacity && v->out) {
        ((int64_t *)v->out)[v->n - 1] = (int64_t)number;
    }
}

static void put_floats(values *v, const unsigned char *data, size_t size) {
    int64_t n = (int64_t)(size / 4), room = v->capacity - v->n;
    int64_t taken = !v->out || room < 0 ? 0 : n < room ? n : room;
    if (taken > 0) {
        memcpy((float *)v->out + v->n, data, (size_t)taken * 4);
    }
    v->n += n;
}

static void put_bytes(values *v, const field *f) {
    if (v->n++ < v->capacity && v->out) {
        ((mr_tf_bytes *)v->out)[v->n - 1] = (mr_tf_bytes){f->value, f->size};
    }
}

static bool put_packed_numbers(values *v, const field *f) {
    message m = {f->value, f->value, f->value + f->size, 0};
    uint64_t number;
    while (m.at < m.end) {
        if (!take_varint(&m, &number)) {
            return false;
        }
        put_number(v, number);
    }
    return true;
}

static bool put_field(mr_tf_kind kind, values *v, const field *f) {
    if (kind == MR_TF_BYTES && f->wire == BYTES) {
        put_bytes(v, f);
    } else if (kind == MR_TF_FLOAT && (f->wire == FIXED32 || f->wire == BYTES)) {
        put_floats(v, f->value, f->size);
        return f->size % 4 == 0;
    } else if (kind == MR_TF_INT64 && f->wire == VARINT) {
        put_number(v, f->number);
    } else if (kind == MR_TF_INT64 && f->wire == BYTES) {
        return put_packed_numbers(v, f);
    } else {
        return false;
    }
    return true;
}

mr_status mr_tf_values(const mr_tf_feature *feature, void *out, int64_t capacity, int64_t *n,
                       mr_error *err) {
    *n = 0;
    if (feature->kind == MR_TF_EMPTY) {
        return MR_OK;
    }
    message m = {feature->list, feature->list, feature->list + feature->size, 0};
    values v = {out, capacity, 0};
    field f;
    while (m.at < m.end) {
        if (!take_field(&m, &f) || (f.tag == 1 && !put_field(feature->kind, &v, &f))) {
            return mr_fail(err, MR_E_CORRUPT, "a feature of a tf.train.Example is damaged");
        }
    }
    *n = v.n;
    return MR_OK;
}
