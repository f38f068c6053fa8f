/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5.c - see hdf5.h: the superblock, the headers of objects, and what they say of a dataset. */
#include "codecs/hdf5.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/hdf5_inner.h"
#include "core/error.h"

enum { DEEPEST = 32, PATH = 1024, PIECES = 256 };

/* ---- Datasets ---- */
static void MR_PRINTF(2, 3) cannot(mr_h5_dataset *d, const char *format, ...) {
    va_list args;
    if (d->why[0] == '\0') {
        va_start(args, format);
        vsnprintf(d->why, sizeof d->why, format, args);
        va_end(args);
    }
}

static mr_status add_dataset(mr_h5_file *f, const mr_h5_dataset *d, const char *path,
                             mr_error *err) {
    if (f->n_datasets == f->capacity) {
        int32_t capacity = f->capacity ? 2 * f->capacity : 16;
        mr_h5_dataset *grown = realloc(f->datasets, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        f->datasets = grown;
        f->capacity = capacity;
    }
    mr_h5_dataset *own = &f->datasets[f->n_datasets];
    *own = *d;
    own->path = strdup(path);
    if (!own->path) {
        return mr_fail_memory(err, strlen(path));
    }
    f->n_datasets++;
    return MR_OK;
}

/* ---- Dataspace and datatype ---- */
static void read_space(const mr_h5_file *f, mr_h5_piece *p, mr_h5_dataset *d) {
    uint64_t version = mr_h5_number(p, 1), rank = mr_h5_number(p, 1), flags = mr_h5_number(p, 1);
    uint64_t kind = mr_h5_number(p, 1); /* of version 2; else it and what follows is nothing */
    mr_h5_skip(p, version == 1 ? 4 : 0);
    if (version != 1 && version != 2) {
        cannot(d, "a dataspace of version %d", (int)version);
    } else if (rank == 0 || (version == 2 && kind != 1)) {
        cannot(d, "it has no rows: it is a single value or empty");
    } else if (rank > MR_H5_DIMS) {
        cannot(d, "it has more than %d dimensions", MR_H5_DIMS);
    }
    for (uint64_t i = 0; i < rank && rank <= MR_H5_DIMS; i++) {
        d->dims[i] = d->most[i] = mr_h5_length(f, p);
    }
    for (uint64_t i = 0; flags & 1 && i < rank && rank <= MR_H5_DIMS; i++) {
        int64_t most = mr_h5_length(f, p);
        d->most[i] = most == INT64_MAX ? -1 : most;
    }
    d->n_dims = rank <= MR_H5_DIMS ? (int32_t)rank : 0;
}

static bool whole_number(size_t size, bool has_sign, mr_dtype *out) {
    static const mr_dtype types[2][4] = {{MR_U8, MR_U16, MR_U32, MR_U64},
                                         {MR_I8, MR_I16, MR_I32, MR_I64}};
    int which = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
    *out = which < 0 ? MR_U8 : types[has_sign][which];
    return which >= 0;
}

static bool is_plain_float(mr_h5_piece *p, size_t size, mr_dtype *out) {
    static const struct {
        size_t size;
        mr_dtype dtype;
        unsigned char exponent, mantissa;
    } kinds[] = {{2, MR_F16, 10, 10}, {4, MR_F32, 23, 23}, {8, MR_F64, 52, 52}};
    uint64_t offset = mr_h5_number(p, 2), precision = mr_h5_number(p, 2);
    uint64_t exponent = mr_h5_number(p, 1);
    mr_h5_skip(p, 1);
    uint64_t mantissa = mr_h5_number(p, 1), mantissa_bits = mr_h5_number(p, 1);
    for (size_t i = 0; i < 3; i++) {
        if (kinds[i].size == size && offset == 0 && precision == 8 * size && mantissa == 0 &&
            exponent == kinds[i].exponent && mantissa_bits == kinds[i].mantissa) {
            *out = kinds[i].dtype;
            return true;
        }
    }
    return false;
}

static void read_type(mr_h5_piece *p, mr_h5_dataset *d, int depth) {
    enum { WHOLE, FLOAT, TEXT = 3, COMPOUND = 6, ENUM = 8, VARYING, ARRAY };
    uint64_t head = mr_h5_number(p, 1), bits = mr_h5_number(p, 3), size = mr_h5_number(p, 4);
    int class = (int)(head & 15);
    bool swapped = bits & 1;
    d->element = (size_t)size;
    if (class == WHOLE) {
        uint64_t offset = mr_h5_number(p, 2), precision = mr_h5_number(p, 2);
        if (swapped || offset != 0 || precision != 8 * size ||
            !whole_number((size_t)size, bits >> 3 & 1, &d->dtype)) {
            cannot(d, "whole numbers that are big-endian, or of %d bits in %d bytes",
                   (int)precision, (int)size);
        }
    } else if (class == FLOAT) {
        if (swapped || bits >> 6 & 1 || !is_plain_float(p, (size_t)size, &d->dtype)) {
            cannot(d, "floats that are big-endian, or of an unusual format in %d bytes", (int)size);
        }
    } else if (class == TEXT && size > 0) {
        d->dtype = MR_U8;
        d->is_text = true;
    } else if (class == ENUM && depth == 0) {
        read_type(p, d, 1);
        const unsigned char *names = mr_h5_skip(p, 6); /* as h5py writes bool */
        bool is_bool =
            d->element == 1 && (bits & 0xffff) == 2 && names && !memcmp(names, "FALSE", 6);
        d->dtype = is_bool ? MR_BOOL : d->dtype;
    } else {
        const char *what = class == COMPOUND  ? "compound"
                           : class == VARYING ? "of varying length"
                           : class == ARRAY   ? "arrays"
                                              : "of an unusual kind";
        cannot(d, "its elements are %s", what);
    }
}

static void read_fill(mr_h5_piece *p, mr_h5_dataset *d) {
    uint64_t version = mr_h5_number(p, 1);
    bool has;
    if (version == 3) {
        has = mr_h5_number(p, 1) >> 5 & 1;
    } else {
        mr_h5_skip(p, 2);
        has = mr_h5_number(p, 1) != 0;
    }
    uint64_t size = has ? mr_h5_number(p, 4) : 0;
    const unsigned char *value =
        size > 0 && size <= sizeof d->fill ? mr_h5_skip(p, (int64_t)size) : NULL;
    if (value) {
        memcpy(d->fill, value, (size_t)size);
    }
    p->over = false; /* older ones leave out what is not defined */
}

/* ---- Layout and filters ---- */
static void read_chunk_dims(mr_h5_piece *p, mr_h5_dataset *d, uint64_t rank, int32_t bytes) {
    for (uint64_t i = 0; i < rank; i++) { /* the last is the size of an element */
        uint64_t dim = mr_h5_number(p, bytes);
        if (i + 1 < rank && i < MR_H5_DIMS) {
            d->chunk[i] = dim > INT32_MAX ? 0 : (int64_t)dim;
        }
    }
}

static void read_chunked(const mr_h5_file *f, mr_h5_piece *p, mr_h5_dataset *d) {
    uint64_t rank = mr_h5_number(p, 1);
    d->index.address = mr_h5_address(f, p);
    read_chunk_dims(p, d, rank, 4);
}

/* Layouts of version 4 say which index there is. */
static void read_chunked_4(const mr_h5_file *f, mr_h5_piece *p, mr_h5_dataset *d) {
    enum { SINGLE = 1, IMPLICIT, FIXED, EXTENSIBLE, TREE };
    static const unsigned char more[] = {[FIXED] = 1, [EXTENSIBLE] = 5, [TREE] = 6};
    uint64_t flags = mr_h5_number(p, 1), rank = mr_h5_number(p, 1);
    int32_t bytes = (int32_t)mr_h5_number(p, 1);
    read_chunk_dims(p, d, rank, bytes <= 8 ? bytes : 0);
    d->index.kind = (int32_t)mr_h5_number(p, 1);
    if (d->index.kind < SINGLE || d->index.kind > TREE) {
        cannot(d, "an index of chunks of kind %d", d->index.kind);
        return;
    }
    if (d->index.kind == SINGLE && flags & 2) {
        d->index.size = mr_h5_length(f, p);
        d->index.mask = (uint32_t)mr_h5_number(p, 4);
    }
    mr_h5_skip(p, more[d->index.kind]); /* said again where the index lies */
    d->index.address = mr_h5_address(f, p);
}

static void read_layout(const mr_h5_file *f, mr_h5_piece *p, mr_h5_dataset *d) {
    enum { COMPACT, CONTIGUOUS, CHUNKED };
    uint64_t version = mr_h5_number(p, 1), class = mr_h5_number(p, 1);
    if (version < 3 || version > 5) { /* 5 is 4 with wider sizes */
        cannot(d, "a layout of version %d", (int)version);
    } else if (class == COMPACT) {
        d->layout = MR_H5_COMPACT;
        d->bytes = (int64_t)mr_h5_number(p, 2);
        d->address = p->offset - f->base + (p->at - p->start);
        mr_h5_skip(p, d->bytes);
    } else if (class == CONTIGUOUS) {
        d->layout = MR_H5_CONTIGUOUS;
        d->address = mr_h5_address(f, p);
        d->bytes = mr_h5_length(f, p);
    } else if (class == CHUNKED) {
        d->layout = MR_H5_CHUNKED;
        (version == 3 ? read_chunked : read_chunked_4)(f, p, d);
    } else {
        cannot(d, "a virtual dataset, or another unusual layout");
    }
}

static void read_filters(mr_h5_piece *p, mr_h5_dataset *d) {
    uint64_t version = mr_h5_number(p, 1), n = mr_h5_number(p, 1);
    mr_h5_skip(p, version == 1 ? 6 : 0);
    if ((version != 1 && version != 2) || n > MR_H5_FILTERS) {
        cannot(d, "%d filters of version %d", (int)n, (int)version);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = mr_h5_number(p, 2);
        uint64_t name = version == 1 || id >= 256 ? mr_h5_number(p, 2) : 0;
        mr_h5_skip(p, 2);
        uint64_t values = mr_h5_number(p, 2);
        mr_h5_skip(p, (int64_t)(version == 1 ? (name + 7) / 8 * 8 : name));
        mr_h5_skip(p, (int64_t)(4 * (values + (version == 1 ? values % 2 : 0))));
        d->filters[d->n_filters++].id = (int32_t)id;
    }
}

/* ---- Objects ---- */
typedef struct object {
    const struct object *parent;
    mr_h5_file *file;
    int64_t address;
    int32_t depth;
    char *path; /* PATH bytes that all objects share */
    size_t path_length;
    mr_h5_dataset dataset;
    bool has_space, has_type, has_layout;
    int64_t symbol_tree, symbol_heap, link_heap, link_tree; /* -1: none */
    mr_h5_links links;
} object;

static mr_status read_object(object *o, mr_error *err);

static bool lies_in(const object *o, int64_t address) {
    return o->address == address || (o->parent && lies_in(o->parent, address));
}

static mr_status visit_link(void *user, const char *name, size_t length, int64_t address,
                            mr_error *err) {
    object *parent = user;
    if (lies_in(parent, address)) {
        return MR_OK; /* a way around in a circle */
    }
    size_t slash = parent->path_length > 0, start = parent->path_length + slash;
    if (parent->depth == DEEPEST || length + start >= PATH) {
        return mr_fail(err, MR_E_LIMIT, "groups lie more than %d deep, or names are too long",
                       DEEPEST);
    }
    memcpy(parent->path + parent->path_length, "/", slash);
    memcpy(parent->path + start, name, length);
    parent->path[start + length] = '\0';
    object *own = calloc(1, sizeof *own);
    if (!own) {
        return mr_fail_memory(err, sizeof *own);
    }
    own->parent = parent;
    own->file = parent->file;
    own->address = address;
    own->depth = parent->depth + 1;
    own->path = parent->path;
    own->path_length = start + length;
    mr_status status = read_object(own, err);
    parent->path[parent->path_length] = '\0';
    free(own);
    return status;
}

static mr_status read_message(object *o, uint64_t type, uint64_t flags, mr_h5_piece *p,
                              mr_error *err) {
    enum {
        SPACE = 1,
        LINKS = 2,
        TYPE,
        FILL = 5,
        LINK,
        EXTERNAL,
        LAYOUT,
        FILTERS = 11,
        SYMBOLS = 17
    };
    enum { SHARED = 2 };
    if (flags & SHARED && (type == SPACE || type == TYPE || type == FILTERS)) {
        cannot(&o->dataset, "its type is a named one, or shared with others");
        o->has_type = true;
        return MR_OK;
    }
    switch (type) {
    case SPACE:
        read_space(o->file, p, &o->dataset);
        o->has_space = true;
        break;
    case TYPE:
        read_type(p, &o->dataset, 0);
        o->has_type = true;
        break;
    case FILL:
        read_fill(p, &o->dataset);
        break;
    case LAYOUT:
        read_layout(o->file, p, &o->dataset);
        o->has_layout = true;
        break;
    case FILTERS:
        read_filters(p, &o->dataset);
        break;
    case EXTERNAL:
        cannot(&o->dataset, "its bytes lie in other files");
        break;
    case SYMBOLS:
        o->symbol_tree = mr_h5_address(o->file, p);
        o->symbol_heap = mr_h5_address(o->file, p);
        break;
    case LINKS: {
        mr_h5_skip(p, 1);
        uint64_t has_order = mr_h5_number(p, 1) & 1;
        mr_h5_skip(p, has_order ? 8 : 0);
        o->link_heap = mr_h5_address(o->file, p);
        o->link_tree = mr_h5_address(o->file, p);
        break;
    }
    case LINK:
        return mr_h5_link(o->file, p, &o->links, err);
    default:
        break;
    }
    return p->over ? mr_h5_damaged(p, "a message is cut off", err) : MR_OK;
}

/* Messages in a piece of a header; a continuation leads to the next piece. */
typedef struct header {
    bool second; /* version */
    bool has_order;
    int32_t pieces; /* that may still follow: one that continues in itself comes to an end */
} header;

static mr_status read_continuation(object *o, header *h, mr_h5_piece *message, mr_error *err);

static mr_status read_messages(object *o, header *h, mr_h5_piece *p, mr_error *err) {
    enum { CONTINUATION = 16 };
    const int64_t head = h->second ? 4 + 2 * h->has_order : 8;
    while (p->end - p->at >= head) {
        uint64_t type = mr_h5_number(p, h->second ? 1 : 2);
        int64_t size = (int64_t)mr_h5_number(p, 2);
        uint64_t flags = mr_h5_number(p, 1);
        mr_h5_skip(p, h->second ? 2 * h->has_order : 3);
        mr_h5_piece message = *p;
        message.offset += p->at - p->start;
        message.start = message.at = mr_h5_skip(p, size);
        message.end = p->at;
        if (p->over) {
            return mr_h5_damaged(p, "a message is longer than its header", err);
        }
        MR_TRY(type == CONTINUATION ? read_continuation(o, h, &message, err)
                                    : read_message(o, type, flags, &message, err));
    }
    return MR_OK;
}

static mr_status read_continuation(object *o, header *h, mr_h5_piece *message, mr_error *err) {
    mr_h5_piece p;
    int64_t address = mr_h5_address(o->file, message);
    int64_t length = mr_h5_length(o->file, message);
    if (message->over || h->pieces-- == 0) {
        return mr_h5_damaged(message, "a header's continuation", err);
    }
    MR_TRY(mr_h5_look(o->file, address, length, &p, err));
    if (h->second) {
        mr_h5_piece all = p;
        if (!mr_h5_signed(&p, "OCHK") || !mr_h5_skip(&all, length - 4)) {
            return mr_h5_damaged(&p, "a header's continuation is expected", err);
        }
        MR_TRY(mr_h5_checksum(&all, "a header's continuation", err));
        p.end -= 4;
    }
    return read_messages(o, h, &p, err);
}

static mr_status read_header_1(object *o, mr_h5_piece *p, mr_error *err) {
    header h = {.pieces = PIECES};
    mr_h5_skip(p, 2 + 2 + 4);
    int64_t size = (int64_t)mr_h5_number(p, 4);
    mr_h5_skip(p, 4);
    mr_h5_piece messages;
    if (p->over) {
        return mr_h5_damaged(p, "an object's header is cut off", err);
    }
    MR_TRY(mr_h5_look(o->file, o->address + 16, size, &messages, err));
    return read_messages(o, &h, &messages, err);
}

static mr_status read_header_2(object *o, mr_h5_piece *p, mr_error *err) {
    enum { SIZE = 3, ORDER = 4, PHASES = 16, TIMES = 32 };
    mr_h5_skip(p, 4);
    uint64_t version = mr_h5_number(p, 1), flags = mr_h5_number(p, 1);
    mr_h5_skip(p, flags & TIMES ? 16 : 0);
    mr_h5_skip(p, flags & PHASES ? 4 : 0);
    int64_t size = (int64_t)mr_h5_number(p, 1 << (flags & SIZE));
    header h = {.second = true, .has_order = flags & ORDER, .pieces = PIECES};
    mr_h5_piece messages = *p;
    if (version != 2 || p->over || !mr_h5_skip(p, size)) {
        return mr_h5_damaged(p, "an object's header is cut off", err);
    }
    messages.end = p->at;
    o->file->budget -= size;
    MR_TRY(mr_h5_checksum(p, "an object's header", err));
    return read_messages(o, &h, &messages, err);
}

static void check_dataset(mr_h5_dataset *d) {
    int64_t values = 1;
    for (int32_t i = 0; i < d->n_dims; i++) {
        bool bad =
            __builtin_mul_overflow(values, d->dims[i], &values) || values > INT64_MAX / 65536;
        if (bad || d->dims[i] < 0) {
            cannot(d, "its size is beyond what can be");
            return;
        }
    }
    if (d->element == 0 || d->element > 65536) {
        cannot(d, "elements of %zu bytes", d->element);
        return;
    }
    if (d->is_text && d->n_dims == MR_H5_DIMS) {
        cannot(d, "it has more than %d dimensions", MR_H5_DIMS);
    }
    if (d->layout != MR_H5_CHUNKED && d->address >= 0 && d->bytes < values * (int64_t)d->element) {
        cannot(d, "it has fewer bytes than its shape says");
    }
    int64_t chunk = (int64_t)d->element;
    for (int32_t i = 0; d->layout == MR_H5_CHUNKED && i < d->n_dims; i++) {
        if (d->chunk[i] <= 0 || __builtin_mul_overflow(chunk, d->chunk[i], &chunk) ||
            chunk > UINT32_MAX) {
            cannot(d, "its chunks are empty, or larger than 4 GB");
            return;
        }
    }
    char why[MR_H5_WHY];
    if (!mr_h5_filters_known(d, why)) {
        cannot(d, "%s", why);
    }
}

static mr_status finish_object(object *o, mr_error *err) {
    if (o->has_space && o->has_type && o->has_layout) {
        check_dataset(&o->dataset);
        return add_dataset(o->file, &o->dataset, o->path, err);
    }
    if (o->symbol_tree >= 0) {
        MR_TRY(mr_h5_each_symbol(o->file, o->symbol_tree, o->symbol_heap, &o->links, err));
    }
    if (o->link_heap >= 0 && o->link_tree >= 0) {
        MR_TRY(mr_h5_each_dense_link(o->file, o->link_heap, o->link_tree, &o->links, err));
    }
    return MR_OK;
}

static mr_status read_object(object *o, mr_error *err) {
    mr_h5_piece p;
    o->symbol_tree = o->symbol_heap = o->link_heap = o->link_tree = -1;
    o->dataset.address = o->dataset.index.address = -1;
    o->links = (mr_h5_links){visit_link, o};
    MR_TRY(mr_h5_look(o->file, o->address, -1, &p, err));
    if (p.end - p.at >= 4 && memcmp(p.at, "OHDR", 4) == 0) {
        MR_TRY(read_header_2(o, &p, err));
    } else if (p.end - p.at >= 16 && p.at[0] == 1) {
        MR_TRY(read_header_1(o, &p, err));
    } else {
        return mr_h5_damaged(&p, "an object's header is expected", err);
    }
    return finish_object(o, err);
}

/* ---- The superblock ---- */
static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

/* It may lie behind something else, at 512 bytes or any power of two after it. */
static bool find_superblock(mr_h5_file *f) {
    for (int64_t at = 0; f->size - at >= 8; at = at ? 2 * at : 512) {
        if (memcmp(f->data + at, signature, 8) == 0) {
            f->base = at;
            return true;
        }
    }
    return false;
}

static mr_status read_sizes(mr_h5_file *f, mr_h5_piece *p, mr_error *err) {
    f->offset_bytes = (int32_t)mr_h5_number(p, 1);
    f->length_bytes = (int32_t)mr_h5_number(p, 1);
    bool known = (f->offset_bytes == 4 || f->offset_bytes == 8) &&
                 (f->length_bytes == 4 || f->length_bytes == 8);
    return known ? MR_OK : mr_h5_damaged(p, "its addresses are of an unknown size", err);
}

static mr_status read_superblock(mr_h5_file *f, int64_t *root, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(f, 0, -1, &p, err));
    mr_h5_skip(&p, sizeof signature);
    uint64_t version = mr_h5_number(&p, 1);
    if (version > 3) {
        return mr_fail(err, MR_E_UNSUPPORTED, "an HDF5 superblock of version %d", (int)version);
    }
    mr_h5_skip(&p, version < 2 ? 4 : 0);
    MR_TRY(read_sizes(f, &p, err));
    mr_h5_skip(&p, version == 0 ? 9 : version == 1 ? 13 : 1);
    mr_h5_address(f, &p); /* the base: where the superblock was found */
    mr_h5_address(f, &p);
    int64_t end = mr_h5_address(f, &p);
    mr_h5_skip(&p, version < 2 ? 2 * (int64_t)f->offset_bytes : 0);
    *root = mr_h5_address(f, &p);
    if (p.over || end < 0) {
        return mr_h5_damaged(&p, "its superblock is cut off", err);
    }
    if (end > f->size) {
        mr_fail(err, MR_E_CORRUPT, "cut off: it says that it has %lld bytes, and has %lld",
                (long long)end, (long long)f->size);
        if (err) {
            err->offset = f->size;
        }
        return MR_E_CORRUPT;
    }
    return version < 2 ? MR_OK : mr_h5_checksum(&p, "its superblock", err);
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const mr_h5_dataset *)a)->path, ((const mr_h5_dataset *)b)->path);
}

mr_status mr_h5_open(mr_h5_file *f, const void *data, size_t size, mr_error *err) {
    char path[PATH] = "";
    *f = (mr_h5_file){.data = data, .size = (int64_t)size};
    f->budget = 16 * f->size + (1 << 16);
    if (!find_superblock(f)) {
        mr_fail(err, MR_E_CORRUPT, "not an HDF5 file");
        return MR_E_CORRUPT;
    }
    object root = {.file = f, .path = path};
    MR_TRY(read_superblock(f, &root.address, err));
    MR_TRY(read_object(&root, err));
    if (f->n_datasets > 0) {
        qsort(f->datasets, (size_t)f->n_datasets, sizeof *f->datasets, compare_paths);
    }
    return MR_OK;
}

void mr_h5_close(mr_h5_file *f) {
    for (int32_t i = 0; i < f->n_datasets; i++) {
        free(f->datasets[i].path);
        free(f->datasets[i].chunks);
    }
    free(f->datasets);
    *f = (mr_h5_file){.data = NULL};
}
