/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_piece.c - bytes of an HDF5 file, with bounds and checksums; and its B-trees of the second
 * version. */
#include <string.h>

#include "codecs/hdf5_inner.h"
#include "core/error.h"

mr_status mr_h5_damaged(const mr_h5_piece *piece, const char *what, mr_error *err) {
    mr_fail(err, MR_E_CORRUPT, "not a valid HDF5 file: %s", what);
    if (err) {
        err->offset = piece->offset;
    }
    return MR_E_CORRUPT;
}

mr_status mr_h5_look(mr_h5_file *f, int64_t address, int64_t length, mr_h5_piece *out,
                     mr_error *err) {
    *out = (mr_h5_piece){.offset = address};
    if (address < 0 || address > f->size - f->base || length > f->size - f->base - address) {
        return mr_h5_damaged(out, "it refers to bytes behind its end; is it cut off?", err);
    }
    out->offset = f->base + address;
    out->start = out->at = f->data + out->offset;
    out->end = length < 0 ? f->data + f->size : out->at + length;
    f->budget -= 64 + (length < 0 ? 0 : length);
    return f->budget < 0 ? mr_h5_damaged(out, "its structure refers to itself", err) : MR_OK;
}

const unsigned char *mr_h5_skip(mr_h5_piece *p, int64_t n) {
    const unsigned char *at = p->at;
    if (p->over || n < 0 || n > p->end - p->at) {
        p->over = true;
        return NULL;
    }
    p->at += n;
    return at;
}

uint64_t mr_h5_number(mr_h5_piece *p, int32_t bytes) {
    uint64_t number = 0;
    const unsigned char *at = mr_h5_skip(p, bytes);
    for (int32_t i = 0; at && i < bytes && i < 8; i++) {
        number |= (uint64_t)at[i] << 8 * i;
    }
    return number;
}

int64_t mr_h5_address(const mr_h5_file *f, mr_h5_piece *p) {
    uint64_t number = mr_h5_number(p, f->offset_bytes);
    uint64_t none = f->offset_bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * f->offset_bytes) - 1;
    return number == none || number > INT64_MAX ? -1 : (int64_t)number;
}

int64_t mr_h5_length(const mr_h5_file *f, mr_h5_piece *p) {
    uint64_t number = mr_h5_number(p, f->length_bytes);
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

bool mr_h5_signed(mr_h5_piece *p, const char signature[5]) {
    const unsigned char *at = mr_h5_skip(p, 4);
    return at && memcmp(at, signature, 4) == 0;
}

/* ---- Checksums: lookup3 by Bob Jenkins, as the format prescribes ---- */
static uint32_t turn(uint32_t x, int k) {
    return x << k | x >> (32 - k);
}

static void mix(uint32_t v[3]) {
    static const int by[] = {4, 6, 8, 16, 19, 4};
    for (int i = 0; i < 6; i++) {
        uint32_t *a = &v[i % 3], *b = &v[(i + 1) % 3], *c = &v[(i + 2) % 3];
        *a -= *c;
        *a ^= turn(*c, by[i]);
        *c += *b;
    }
}

static void finish(uint32_t v[3]) {
    static const int by[] = {14, 11, 25, 16, 4, 14, 24};
    for (int i = 0; i < 7; i++) {
        uint32_t *to = &v[(i + 2) % 3], from = v[(i + 1) % 3];
        *to ^= from;
        *to -= turn(from, by[i]);
    }
}

static uint32_t lookup3(const unsigned char *data, size_t n) {
    uint32_t start = 0xdeadbeefu + (uint32_t)n, v[3] = {start, start, start};
    for (size_t at = 0; at < n; at += 12) {
        for (size_t i = 0; i < 12 && at + i < n; i++) {
            v[i / 4] += (uint32_t)data[at + i] << 8 * (i % 4);
        }
        if (n - at <= 12) {
            finish(v);
        } else {
            mix(v);
        }
    }
    return v[2];
}

mr_status mr_h5_checksum(mr_h5_piece *p, const char *what, mr_error *err) {
    const size_t n = (size_t)(p->at - p->start);
    uint32_t stored = (uint32_t)mr_h5_number(p, 4);
    if (p->over) {
        return mr_h5_damaged(p, what, err);
    }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* a fuzzer would never get past it */
    if (lookup3(p->start, n) != stored) {
        mr_fail(err, MR_E_CORRUPT, "not a valid HDF5 file: checksum, %s", what);
        if (err) {
            err->offset = p->offset;
        }
        return MR_E_CORRUPT;
    }
#else
    (void)lookup3(p->start, n);
    (void)stored;
#endif
    return MR_OK;
}

/* ---- B-trees of the second version ---- */
enum { DEEPEST = 16, NODE_HEAD = 6, NODE_TAIL = 4 };

typedef struct tree {
    mr_h5_file *file;
    const mr_h5_records *records;
    int64_t node_bytes, record_bytes;
    int32_t type, count_bytes;    /* bytes of a child's number of records */
    int32_t total_bytes[DEEPEST]; /* of those below it, by its level */
} tree;

static int32_t bytes_for(uint64_t number) {
    int32_t n = 1;
    while (n < 8 && number >> 8 * n) {
        n++;
    }
    return n;
}

/* How wide pointers are follows from how many records fit into a node, level by level. */
static void measure(tree *t, int32_t depth) {
    int64_t most = (t->node_bytes - NODE_HEAD - NODE_TAIL) / t->record_bytes;
    double all = (double)most; /* only its width in bytes counts, and it stays below 2^64 */
    t->count_bytes = bytes_for((uint64_t)most);
    t->total_bytes[0] = 0;
    for (int32_t level = 1; level <= depth && level < DEEPEST; level++) {
        int64_t pointer = t->file->offset_bytes + t->count_bytes + t->total_bytes[level - 1];
        int64_t fit =
            (t->node_bytes - NODE_HEAD - NODE_TAIL - pointer) / (t->record_bytes + pointer);
        all = (double)(fit + 1) * all + (double)fit;
        t->total_bytes[level] = all < 1e18 ? bytes_for((uint64_t)all) : 8;
    }
}

static mr_status open_node(const tree *t, int64_t address, int32_t level, mr_h5_piece *node,
                           mr_error *err) {
    MR_TRY(mr_h5_look(t->file, address, t->node_bytes, node, err));
    bool is_signed = mr_h5_signed(node, level > 0 ? "BTIN" : "BTLF");
    if (!is_signed || mr_h5_number(node, 1) != 0 || (int32_t)mr_h5_number(node, 1) != t->type) {
        return mr_h5_damaged(node, "a node of a B-tree is expected", err);
    }
    return MR_OK;
}

static mr_status each_of_node(const tree *t, int64_t address, int64_t n, int32_t level,
                              mr_error *err) {
    mr_h5_piece node, records;
    MR_TRY(open_node(t, address, level, &node, err));
    records = node;
    if (!mr_h5_skip(&node, n * t->record_bytes)) {
        return mr_h5_damaged(&node, "a B-tree's node has more records than fit", err);
    }
    for (int64_t i = 0; level > 0 && i <= n; i++) {
        int64_t child = mr_h5_address(t->file, &node);
        int64_t count = (int64_t)mr_h5_number(&node, t->count_bytes);
        mr_h5_skip(&node, t->total_bytes[level - 1]);
        if (node.over) {
            return mr_h5_damaged(&node, "a B-tree's node has more children than fit", err);
        }
        MR_TRY(each_of_node(t, child, count, level - 1, err));
    }
    MR_TRY(mr_h5_checksum(&node, "a node of a B-tree", err));
    for (int64_t i = 0; i < n; i++) {
        mr_h5_piece record = records;
        record.start = record.at = mr_h5_skip(&records, t->record_bytes);
        record.end = records.at;
        MR_TRY(t->records->each(t->records->user, &record, err));
    }
    return MR_OK;
}

mr_status mr_h5_each_record(mr_h5_file *f, int64_t address, const mr_h5_records *records,
                            mr_error *err) {
    mr_h5_piece p;
    tree t = {.file = f, .records = records};
    MR_TRY(mr_h5_look(f, address, -1, &p, err));
    bool is_signed = mr_h5_signed(&p, "BTHD");
    int32_t version = (int32_t)mr_h5_number(&p, 1);
    t.type = (int32_t)mr_h5_number(&p, 1);
    t.node_bytes = (int64_t)mr_h5_number(&p, 4);
    t.record_bytes = (int64_t)mr_h5_number(&p, 2);
    int32_t depth = (int32_t)mr_h5_number(&p, 2);
    mr_h5_skip(&p, 2);
    int64_t root = mr_h5_address(f, &p);
    int64_t n = (int64_t)mr_h5_number(&p, 2);
    mr_h5_length(f, &p);
    if (!is_signed || version != 0 || (t.type != records->type && t.type != records->other_type) ||
        t.record_bytes == 0 || t.node_bytes < 64 + t.record_bytes || depth >= DEEPEST || p.over) {
        return mr_h5_damaged(&p, "a B-tree of the second version is expected", err);
    }
    MR_TRY(mr_h5_checksum(&p, "a B-tree", err));
    measure(&t, depth);
    return root < 0 || n == 0 ? MR_OK : each_of_node(&t, root, n, depth, err);
}
