/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_links.c - what an HDF5 group contains. Groups of old style have a B-tree of symbol tables
 * and a heap of names; those of new style have link messages, in the group's header or, where there
 * are many, in a fractal heap that a B-tree of the second version points into. */
#include <string.h>

#include "codecs/hdf5_inner.h"
#include "core/error.h"

/* ---- Old style ---- */
typedef struct symbols {
    mr_h5_file *file;
    mr_h5_piece names;
    const mr_h5_links *links;
} symbols;

static mr_status open_names(mr_h5_file *f, int64_t heap, mr_h5_piece *names, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(f, heap, -1, &p, err));
    bool is_signed = mr_h5_signed(&p, "HEAP");
    bool version = mr_h5_number(&p, 1) == 0;
    mr_h5_skip(&p, 3);
    int64_t size = mr_h5_length(f, &p);
    mr_h5_length(f, &p);
    int64_t address = mr_h5_address(f, &p);
    if (!is_signed || !version || p.over) {
        return mr_h5_damaged(&p, "a heap of names is expected", err);
    }
    return mr_h5_look(f, address, size, names, err);
}

static mr_status each_symbol(const symbols *s, int64_t address, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(s->file, address, -1, &p, err));
    bool is_signed = mr_h5_signed(&p, "SNOD");
    mr_h5_skip(&p, 2);
    int64_t n = (int64_t)mr_h5_number(&p, 2);
    if (!is_signed) {
        return mr_h5_damaged(&p, "a table of symbols is expected", err);
    }
    for (int64_t i = 0; i < n; i++) {
        mr_h5_piece name = s->names;
        int64_t offset = (int64_t)mr_h5_number(&p, s->file->offset_bytes);
        int64_t object = mr_h5_address(s->file, &p);
        uint64_t kind = mr_h5_number(&p, 4);
        mr_h5_skip(&p, 4 + 16);
        const unsigned char *text = mr_h5_skip(&name, offset) ? name.at : NULL;
        const unsigned char *end =
            text && !p.over ? memchr(text, 0, (size_t)(name.end - text)) : NULL;
        if (!end) {
            return mr_h5_damaged(&p, "a symbol has no name", err);
        }
        if (kind != 2 && object >= 0) { /* 2: a soft link */
            MR_TRY(s->links->each(s->links->user, (const char *)text, (size_t)(end - text), object,
                                  err));
        }
    }
    return MR_OK;
}

static mr_status each_of_tree(const symbols *s, int64_t address, int32_t above, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(s->file, address, -1, &p, err));
    bool is_signed = mr_h5_signed(&p, "TREE");
    uint64_t type = mr_h5_number(&p, 1);
    int32_t level = (int32_t)mr_h5_number(&p, 1);
    int64_t n = (int64_t)mr_h5_number(&p, 2);
    mr_h5_skip(&p, 2 * (int64_t)s->file->offset_bytes);
    if (!is_signed || type != 0 || level >= above) {
        return mr_h5_damaged(&p, "a B-tree of a group is expected", err);
    }
    for (int64_t i = 0; i < n; i++) {
        mr_h5_length(s->file, &p); /* the key */
        int64_t child = mr_h5_address(s->file, &p);
        if (p.over) {
            return mr_h5_damaged(&p, "a B-tree of a group is cut off", err);
        }
        MR_TRY(level == 0 ? each_symbol(s, child, err) : each_of_tree(s, child, level, err));
    }
    return MR_OK;
}

mr_status mr_h5_each_symbol(mr_h5_file *f, int64_t tree, int64_t heap, const mr_h5_links *links,
                            mr_error *err) {
    symbols s = {.file = f, .links = links};
    MR_TRY(open_names(f, heap, &s.names, err));
    return each_of_tree(&s, tree, 64, err);
}

/* ---- New style ---- */
mr_status mr_h5_link(const mr_h5_file *f, mr_h5_piece *p, const mr_h5_links *links, mr_error *err) {
    enum { SIZE_OF_LENGTH = 3, HAS_ORDER = 4, HAS_TYPE = 8, HAS_CHARACTERS = 16 };
    uint64_t version = mr_h5_number(p, 1), flags = mr_h5_number(p, 1);
    uint64_t type = flags & HAS_TYPE ? mr_h5_number(p, 1) : 0;
    mr_h5_skip(p, flags & HAS_ORDER ? 8 : 0);
    mr_h5_skip(p, flags & HAS_CHARACTERS ? 1 : 0);
    uint64_t length = mr_h5_number(p, 1 << (flags & SIZE_OF_LENGTH));
    const unsigned char *name = mr_h5_skip(p, length < 65536 ? (int64_t)length : -1);
    int64_t address = type == 0 ? mr_h5_address(f, p) : -1;
    if (version != 1 || p->over) {
        return mr_h5_damaged(p, "a link is expected", err);
    }
    return address < 0 ? MR_OK
                       : links->each(links->user, (const char *)name, (size_t)length, address, err);
}

/* A fractal heap: rows of `width` blocks; blocks of the first two rows have `first` bytes, and
 * those of each further row twice as many as those of the one before. */
typedef struct heap {
    mr_h5_file *file;
    const mr_h5_links *links;
    int64_t width, first, most_direct;
    int32_t id_bytes, offset_bytes, size_bytes, rows;
    int64_t root;
} heap;

static int64_t row_bytes(const heap *h, int64_t row) {
    return row < 2 ? h->first : row < 40 ? h->first << (row - 1) : INT64_MAX;
}

static mr_status open_heap(heap *h, int64_t address, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(h->file, address, -1, &p, err));
    bool is_signed = mr_h5_signed(&p, "FRHP"), version = mr_h5_number(&p, 1) == 0;
    h->id_bytes = (int32_t)mr_h5_number(&p, 2);
    uint64_t filters = mr_h5_number(&p, 2);
    mr_h5_skip(&p, 1);
    uint64_t largest = mr_h5_number(&p, 4);
    mr_h5_skip(&p, 10 * (int64_t)h->file->length_bytes + 2 * (int64_t)h->file->offset_bytes);
    h->width = (int64_t)mr_h5_number(&p, 2);
    h->first = mr_h5_length(h->file, &p);
    h->most_direct = mr_h5_length(h->file, &p);
    h->offset_bytes = ((int32_t)mr_h5_number(&p, 2) + 7) / 8;
    mr_h5_skip(&p, 2);
    h->root = mr_h5_address(h->file, &p);
    h->rows = (int32_t)mr_h5_number(&p, 2);
    if (!is_signed || !version || filters != 0 || h->width == 0 || h->first <= 0 ||
        h->first > 1 << 24 || h->most_direct < h->first || h->most_direct > 1 << 30 ||
        h->offset_bytes > 8 || h->rows > 64 || largest == 0) {
        return mr_h5_damaged(&p, "a heap of links is expected", err);
    }
    h->size_bytes = 1;
    while (h->size_bytes < 4 && largest >> 8 * h->size_bytes) {
        h->size_bytes++;
    }
    return mr_h5_checksum(&p, "a heap of links", err);
}

/* The entry of an indirect block that `*offset` lies in; *offset becomes the one inside it. */
static mr_status enter_block(const heap *h, int64_t *block, int32_t rows, int64_t *offset,
                             int64_t *bytes, mr_error *err) {
    mr_h5_piece p;
    int64_t row = 0, start = 0;
    while (row < rows && *offset - start >= h->width * row_bytes(h, row)) {
        start += h->width * row_bytes(h, row);
        row++;
    }
    MR_TRY(mr_h5_look(h->file, *block, -1, &p, err));
    bool is_signed = mr_h5_signed(&p, "FHIB");
    if (!is_signed || row >= rows) {
        return mr_h5_damaged(&p, "a link lies outside of its heap", err);
    }
    *bytes = row_bytes(h, row);
    int64_t entry = row * h->width + (*offset - start) / *bytes;
    mr_h5_skip(&p, 1 + h->file->offset_bytes + h->offset_bytes);
    mr_h5_skip(&p, entry * h->file->offset_bytes);
    *block = mr_h5_address(h->file, &p);
    *offset = (*offset - start) % *bytes;
    return p.over ? mr_h5_damaged(&p, "a heap of links is cut off", err) : MR_OK;
}

/* Rows of an indirect block that stands for so many bytes. */
static int32_t rows_of(const heap *h, int64_t bytes) {
    int32_t rows = 1;
    while (rows < 40 && h->width * row_bytes(h, rows) < bytes) {
        rows++;
    }
    return rows;
}

static mr_status find_object(const heap *h, int64_t offset, int64_t size, mr_h5_piece *out,
                             mr_error *err) {
    int64_t block = h->root, bytes = h->first;
    int32_t rows = h->rows;
    for (int depth = 0; rows > 0 && depth < 16; depth++) {
        MR_TRY(enter_block(h, &block, rows, &offset, &bytes, err));
        rows = bytes > h->most_direct ? rows_of(h, bytes) : 0;
    }
    mr_h5_piece direct;
    MR_TRY(mr_h5_look(h->file, block, -1, &direct, err));
    if (!mr_h5_signed(&direct, "FHDB") || offset > bytes || size > bytes - offset) {
        return mr_h5_damaged(&direct, "a block of links is expected", err);
    }
    return mr_h5_look(h->file, block + offset, size, out, err);
}

/* A record of the index: the name's hash, and where the link is. */
static mr_status each_dense(void *user, mr_h5_piece *record, mr_error *err) {
    const heap *h = user;
    mr_h5_piece message;
    mr_h5_skip(record, 4);
    uint64_t kind = mr_h5_number(record, 1) >> 4 & 3;
    uint64_t offset = mr_h5_number(record, h->offset_bytes);
    uint64_t size = mr_h5_number(record, h->size_bytes);
    if (record->over || kind != 0 || offset > INT64_MAX || size > INT32_MAX) {
        return mr_h5_damaged(record, "a link lies where links do not lie", err);
    }
    MR_TRY(find_object(h, (int64_t)offset, (int64_t)size, &message, err));
    return mr_h5_link(h->file, &message, h->links, err);
}

mr_status mr_h5_each_dense_link(mr_h5_file *f, int64_t address, int64_t tree,
                                const mr_h5_links *links, mr_error *err) {
    heap h = {.file = f, .links = links};
    const mr_h5_records records = {each_dense, &h, 5, 5};
    MR_TRY(open_heap(&h, address, err));
    return mr_h5_each_record(f, tree, &records, err);
}
