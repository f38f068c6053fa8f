/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_chunks.c - where the chunks of an HDF5 dataset are. There are six kinds of index: the B-tree
 * of the first version that most files have, and five of newer files. Each gives chunks by their
 * place in the grid; what it gives is checked against the grid and the file, and sorted. */
#include <stdlib.h>
#include <string.h>

#include "codecs/hdf5_inner.h"
#include "core/error.h"

enum { BTREE_1, SINGLE, IMPLICIT, FIXED, EXTENSIBLE, BTREE_2 };

typedef struct finder {
    mr_h5_file *file;
    mr_h5_dataset *dataset;
    int64_t capacity;
    int32_t size_bytes; /* of a chunk's size in the elements of an array; 0: it has none */
} finder;

int64_t mr_h5_grid(const mr_h5_dataset *d, int32_t dim) {
    return d->dims[dim] / d->chunk[dim] + (d->dims[dim] % d->chunk[dim] != 0);
}

int64_t mr_h5_chunk_bytes(const mr_h5_dataset *d) {
    int64_t bytes = (int64_t)d->element;
    for (int32_t i = 0; i < d->n_dims; i++) {
        bytes *= d->chunk[i];
    }
    return bytes;
}

const mr_h5_chunk *mr_h5_chunk_at(const mr_h5_dataset *d, int64_t number) {
    int64_t low = 0, high = d->n_chunks;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (d->chunks[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < d->n_chunks && d->chunks[low].number == number ? &d->chunks[low] : NULL;
}

static mr_status add_chunk(finder *f, const mr_h5_chunk *chunk, const mr_h5_piece *where,
                           mr_error *err) {
    mr_h5_dataset *d = f->dataset;
    const int64_t room = f->file->size - f->file->base;
    bool plain = d->n_filters == 0;
    if (chunk->address > room || chunk->size > room - chunk->address || chunk->size < 0 ||
        (plain && chunk->size != mr_h5_chunk_bytes(d))) {
        return mr_h5_damaged(where, "a chunk does not lie within the file", err);
    }
    if (d->n_chunks == f->capacity) {
        int64_t capacity = f->capacity ? 2 * f->capacity : 64;
        mr_h5_chunk *grown = realloc(d->chunks, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *grown);
        }
        d->chunks = grown;
        f->capacity = capacity;
    }
    d->chunks[d->n_chunks] = *chunk;
    d->chunks[d->n_chunks++].address += f->file->base;
    return MR_OK;
}

/* A chunk by its place in the grid. */
static mr_status add_at(finder *f, const int64_t place[MR_H5_DIMS], mr_h5_chunk chunk,
                        const mr_h5_piece *where, mr_error *err) {
    const mr_h5_dataset *d = f->dataset;
    chunk.number = 0;
    for (int32_t i = 0; i < d->n_dims; i++) {
        if (place[i] < 0 || place[i] >= mr_h5_grid(d, i)) {
            return mr_h5_damaged(where, "a chunk lies outside of its dataset", err);
        }
        chunk.number = chunk.number * mr_h5_grid(d, i) + place[i];
    }
    return chunk.address < 0 ? MR_OK : add_chunk(f, &chunk, where, err);
}

/* ---- The B-tree of the first version ---- */
static mr_status read_key(finder *f, mr_h5_piece *p, bool leaf, int64_t *child, mr_error *err) {
    const mr_h5_dataset *d = f->dataset;
    int64_t place[MR_H5_DIMS];
    mr_h5_chunk chunk = {.size = (int64_t)mr_h5_number(p, 4)};
    chunk.mask = (uint32_t)mr_h5_number(p, 4);
    bool fits = true;
    for (int32_t i = 0; i < d->n_dims; i++) {
        int64_t offset = (int64_t)mr_h5_number(p, 8);
        place[i] = offset / d->chunk[i];
        fits = fits && offset >= 0 && offset % d->chunk[i] == 0;
    }
    mr_h5_skip(p, 8); /* of the element */
    chunk.address = *child = mr_h5_address(f->file, p);
    if (p->over || (leaf && !fits)) {
        return mr_h5_damaged(p, "a chunk lies between the places of chunks", err);
    }
    return leaf ? add_at(f, place, chunk, p, err) : MR_OK;
}

static mr_status read_tree(finder *f, int64_t address, int32_t above, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(f->file, address, -1, &p, err));
    bool is_signed = mr_h5_signed(&p, "TREE");
    uint64_t type = mr_h5_number(&p, 1);
    int32_t level = (int32_t)mr_h5_number(&p, 1);
    int64_t n = (int64_t)mr_h5_number(&p, 2), child;
    mr_h5_skip(&p, 2 * (int64_t)f->file->offset_bytes);
    if (!is_signed || type != 1 || level >= above) {
        return mr_h5_damaged(&p, "a B-tree of chunks is expected", err);
    }
    f->file->budget -= 24 * n;
    for (int64_t i = 0; i < n; i++) {
        MR_TRY(read_key(f, &p, level == 0, &child, err));
        if (level > 0) {
            MR_TRY(read_tree(f, child, level, err));
        }
    }
    return MR_OK;
}

/* ---- The B-tree of the second version ---- */
static mr_status read_record(void *user, mr_h5_piece *p, mr_error *err) {
    finder *f = user;
    const mr_h5_dataset *d = f->dataset;
    int64_t place[MR_H5_DIMS], fixed = f->file->offset_bytes + 8 * (int64_t)d->n_dims;
    int32_t size_bytes = (int32_t)(p->end - p->at - fixed - 4);
    mr_h5_chunk chunk = {.size = mr_h5_chunk_bytes(d)};
    chunk.address = mr_h5_address(f->file, p);
    if (d->n_filters > 0) {
        chunk.size = (int64_t)mr_h5_number(p, size_bytes);
        chunk.mask = (uint32_t)mr_h5_number(p, 4);
    }
    for (int32_t i = 0; i < d->n_dims; i++) {
        place[i] = (int64_t)mr_h5_number(p, 8);
    }
    return p->over ? mr_h5_damaged(p, "a record of a chunk is too short", err)
                   : add_at(f, place, chunk, p, err);
}

static mr_status read_tree_2(finder *f, mr_error *err) {
    const mr_h5_records records = {read_record, f, 10, 11};
    return mr_h5_each_record(f->file, f->dataset->index.address, &records, err);
}

/* ---- Arrays: elements by a chunk's number in the grid of the largest size the dataset may have */
static int64_t widest_grid(const mr_h5_dataset *d, int32_t dim) {
    int64_t most = d->most[dim] < d->dims[dim] ? d->dims[dim] : d->most[dim];
    return most / d->chunk[dim] + (most % d->chunk[dim] != 0);
}

static mr_status add_numbered(finder *f, int64_t number, const mr_h5_chunk *chunk,
                              const mr_h5_piece *where, mr_error *err) {
    const mr_h5_dataset *d = f->dataset;
    int64_t place[MR_H5_DIMS];
    for (int32_t i = d->n_dims - 1; i > 0; i--) {
        int64_t grid = widest_grid(d, i);
        grid = grid > 0 ? grid : 1;
        place[i] = number % grid;
        number /= grid;
    }
    place[0] = number;
    return add_at(f, place, *chunk, where, err);
}

static mr_status read_element(finder *f, int64_t number, mr_h5_piece *p, mr_error *err) {
    mr_h5_chunk chunk = {.address = mr_h5_address(f->file, p)};
    chunk.size = mr_h5_chunk_bytes(f->dataset);
    if (f->size_bytes > 0) {
        chunk.size = (int64_t)mr_h5_number(p, f->size_bytes);
        chunk.mask = (uint32_t)mr_h5_number(p, 4);
    }
    if (p->over) {
        return mr_h5_damaged(p, "an array of chunks is cut off", err);
    }
    return chunk.address < 0 ? MR_OK : add_numbered(f, number, &chunk, p, err);
}

static mr_status read_elements(finder *f, int64_t first, int64_t n, mr_h5_piece *p, mr_error *err) {
    f->file->budget -= 8 * n;
    for (int64_t i = 0; i < n; i++) {
        MR_TRY(read_element(f, first + i, p, err));
    }
    return MR_OK;
}

/* The head that all parts of arrays have in common. */
static bool opens_with(finder *f, mr_h5_piece *p, const char word[5], bool has_header) {
    bool is_signed = mr_h5_signed(p, word);
    bool version = mr_h5_number(p, 1) == 0;
    bool client = (mr_h5_number(p, 1) == 1) == (f->dataset->n_filters > 0);
    if (has_header) {
        mr_h5_address(f->file, p);
    }
    return is_signed && version && client && !p->over;
}

static bool element_size(finder *f, mr_h5_piece *p) {
    int32_t bytes = (int32_t)mr_h5_number(p, 1);
    bool filtered = f->dataset->n_filters > 0;
    f->size_bytes = filtered ? bytes - f->file->offset_bytes - 4 : 0;
    return filtered ? f->size_bytes >= 1 && f->size_bytes <= 8 : bytes == f->file->offset_bytes;
}

/* A part's elements and the checksum behind them. */
static mr_status read_page(finder *f, int64_t address, int64_t first, int64_t n, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(f->file, address, -1, &p, err));
    MR_TRY(read_elements(f, first, n, &p, err));
    return mr_h5_checksum(&p, "an array of chunks", err);
}

static int64_t element_bytes(const finder *f) {
    return f->file->offset_bytes + (f->size_bytes > 0 ? f->size_bytes + 4 : 0);
}

/* Pages of so many elements; those that are not in use (bits, from the highest) hold nothing. */
static mr_status read_pages(finder *f, int64_t address, int64_t first, int64_t n, int64_t a_page,
                            const unsigned char *bits, mr_error *err) {
    for (int64_t page = 0; page * a_page < n; page++) {
        int64_t left = n - page * a_page, here = left < a_page ? left : a_page;
        if (bits[page / 8] >> (7 - page % 8) & 1) {
            MR_TRY(read_page(f, address, first + page * a_page, here, err));
        }
        address += a_page * element_bytes(f) + 4;
    }
    return MR_OK;
}

static mr_status read_fixed(finder *f, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(f->file, f->dataset->index.address, -1, &p, err));
    bool known = opens_with(f, &p, "FAHD", false) && element_size(f, &p);
    uint64_t page_bits = mr_h5_number(&p, 1);
    int64_t n = mr_h5_length(f->file, &p), block = mr_h5_address(f->file, &p);
    if (!known || page_bits > 30) {
        return mr_h5_damaged(&p, "an array of chunks is expected", err);
    }
    MR_TRY(mr_h5_checksum(&p, "an array of chunks", err));
    if (block < 0) {
        return MR_OK;
    }
    MR_TRY(mr_h5_look(f->file, block, -1, &p, err));
    if (!opens_with(f, &p, "FADB", true) || n > (p.end - p.at)) {
        return mr_h5_damaged(&p, "an array's elements are expected", err);
    }
    const int64_t a_page = (int64_t)1 << page_bits;
    if (n <= a_page) {
        MR_TRY(read_elements(f, 0, n, &p, err));
        return mr_h5_checksum(&p, "an array of chunks", err);
    }
    const unsigned char *bits = mr_h5_skip(&p, ((n + a_page - 1) / a_page + 7) / 8);
    MR_TRY(mr_h5_checksum(&p, "an array of chunks", err));
    return read_pages(f, block + (p.at - p.start), 0, n, a_page, bits, err);
}

/* ---- The array that grows ---- */
typedef struct growing {
    int64_t in_index, least, pointers, a_page; /* elements in the index block, and so on */
    int32_t offset_bytes, n_supers;
    int64_t block; /* the index block */
} growing;

static int32_t log_2(int64_t number) {
    int32_t log = 0;
    while (number >> (log + 1)) {
        log++;
    }
    return log;
}

static mr_status open_growing(finder *f, growing *g, mr_error *err) {
    mr_h5_piece p;
    MR_TRY(mr_h5_look(f->file, f->dataset->index.address, -1, &p, err));
    bool known = opens_with(f, &p, "EAHD", false) && element_size(f, &p);
    int32_t bits = (int32_t)mr_h5_number(&p, 1);
    g->in_index = (int64_t)mr_h5_number(&p, 1);
    g->least = (int64_t)mr_h5_number(&p, 1);
    g->pointers = (int64_t)mr_h5_number(&p, 1);
    int32_t page_bits = (int32_t)mr_h5_number(&p, 1);
    mr_h5_skip(&p, 6 * (int64_t)f->file->length_bytes);
    g->block = mr_h5_address(f->file, &p);
    bool powers = g->least > 0 && g->pointers > 0 && !(g->least & (g->least - 1)) &&
                  !(g->pointers & (g->pointers - 1));
    if (!known || !powers || bits > 62 || page_bits > 30 || bits < log_2(g->least)) {
        return mr_h5_damaged(&p, "an array of chunks is expected", err);
    }
    g->offset_bytes = (bits + 7) / 8;
    g->a_page = (int64_t)1 << page_bits;
    g->n_supers = 1 + bits - log_2(g->least);
    return mr_h5_checksum(&p, "an array of chunks", err);
}

static mr_status read_block(finder *f, const growing *g, int64_t address, int64_t first, int64_t n,
                            const unsigned char *bits, mr_error *err) {
    mr_h5_piece p;
    if (address < 0) {
        return MR_OK;
    }
    MR_TRY(mr_h5_look(f->file, address, -1, &p, err));
    bool known = opens_with(f, &p, "EADB", true);
    mr_h5_skip(&p, g->offset_bytes);
    if (!known || p.over) {
        return mr_h5_damaged(&p, "an array's elements are expected", err);
    }
    if (!bits) {
        MR_TRY(read_elements(f, first, n, &p, err));
        return mr_h5_checksum(&p, "an array of chunks", err);
    }
    MR_TRY(mr_h5_checksum(&p, "an array of chunks", err));
    return read_pages(f, address + (p.at - p.start), first, n, g->a_page, bits, err);
}

/* Super block u has 2^(u/2) blocks of 2^((u+1)/2) times the least number of elements. */
static mr_status read_super(finder *f, const growing *g, int64_t address, int32_t u, int64_t first,
                            mr_error *err) {
    mr_h5_piece p;
    const int64_t blocks = (int64_t)1 << u / 2, n = g->least << (u + 1) / 2;
    const int64_t bitmap = n > g->a_page ? (n / g->a_page + 7) / 8 : 0;
    if (address < 0) {
        return MR_OK;
    }
    MR_TRY(mr_h5_look(f->file, address, -1, &p, err));
    bool known = opens_with(f, &p, "EASB", true);
    mr_h5_skip(&p, g->offset_bytes);
    if (!known || blocks * (bitmap + f->file->offset_bytes) > p.end - p.at) {
        return mr_h5_damaged(&p, "an array's super block is expected", err);
    }
    const unsigned char *bits = mr_h5_skip(&p, blocks * bitmap);
    mr_h5_piece all = p;
    mr_h5_skip(&all, blocks * f->file->offset_bytes);
    MR_TRY(mr_h5_checksum(&all, "an array of chunks", err));
    for (int64_t i = 0; i < blocks; i++) {
        MR_TRY(read_block(f, g, mr_h5_address(f->file, &p), first + i * n, n,
                          bitmap ? bits + i * bitmap : NULL, err));
    }
    return MR_OK;
}

/* The first blocks are pointed at by the index block itself, later ones by super blocks. */
static mr_status read_growing(finder *f, mr_error *err) {
    growing g = {0};
    mr_h5_piece p;
    MR_TRY(open_growing(f, &g, err));
    if (g.block < 0) {
        return MR_OK;
    }
    MR_TRY(mr_h5_look(f->file, g.block, -1, &p, err));
    if (!opens_with(f, &p, "EAIB", true)) {
        return mr_h5_damaged(&p, "an array's index is expected", err);
    }
    MR_TRY(read_elements(f, 0, g.in_index, &p, err));
    int64_t first = g.in_index;
    const int32_t direct = 2 * log_2(g.pointers);
    for (int32_t u = 0; u < g.n_supers; u++) {
        const int64_t blocks = (int64_t)1 << u / 2, n = g.least << (u + 1) / 2;
        for (int64_t i = 0; u < direct && i < blocks; i++) {
            MR_TRY(read_block(f, &g, mr_h5_address(f->file, &p), first + i * n, n, NULL, err));
        }
        if (u >= direct) {
            MR_TRY(read_super(f, &g, mr_h5_address(f->file, &p), u, first, err));
        }
        first += blocks * n;
    }
    return mr_h5_checksum(&p, "an array of chunks", err);
}

/* ---- Chunks that need no index ---- */
static mr_status read_single(finder *f, mr_error *err) {
    const mr_h5_index *index = &f->dataset->index;
    const mr_h5_piece where = {.offset = index->address};
    const mr_h5_chunk chunk = {
        .address = index->address,
        .size = index->size ? index->size : mr_h5_chunk_bytes(f->dataset),
        .mask = index->mask,
    };
    return add_numbered(f, 0, &chunk, &where, err);
}

static mr_status read_implicit(finder *f, mr_error *err) {
    const mr_h5_dataset *d = f->dataset;
    const mr_h5_piece where = {.offset = d->index.address};
    const int64_t bytes = mr_h5_chunk_bytes(d);
    int64_t n = 1;
    for (int32_t i = 0; i < d->n_dims; i++) {
        if (widest_grid(d, i) != mr_h5_grid(d, i) ||
            __builtin_mul_overflow(n, mr_h5_grid(d, i), &n)) {
            return mr_h5_damaged(&where, "chunks without index, of a dataset that grows", err);
        }
    }
    if (n > f->file->size / bytes) {
        return mr_h5_damaged(&where, "more chunks than the file has room for", err);
    }
    for (int64_t i = 0; i < n; i++) {
        const mr_h5_chunk chunk = {.address = d->index.address + i * bytes, .size = bytes};
        MR_TRY(add_numbered(f, i, &chunk, &where, err));
    }
    return MR_OK;
}

static mr_status read_index(finder *f, mr_error *err) {
    switch (f->dataset->index.kind) {
    case BTREE_1:
        return read_tree(f, f->dataset->index.address, 64, err);
    case SINGLE:
        return read_single(f, err);
    case IMPLICIT:
        return read_implicit(f, err);
    case FIXED:
        return read_fixed(f, err);
    case EXTENSIBLE:
        return read_growing(f, err);
    default:
        return read_tree_2(f, err);
    }
}

static int compare_chunks(const void *a, const void *b) {
    const mr_h5_chunk *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static mr_status sort_chunks(const mr_h5_dataset *d, mr_error *err) {
    const mr_h5_piece where = {.offset = d->index.address};
    if (d->n_chunks > 0) {
        qsort(d->chunks, (size_t)d->n_chunks, sizeof *d->chunks, compare_chunks);
    }
    for (int64_t i = 1; i < d->n_chunks; i++) {
        if (d->chunks[i].number == d->chunks[i - 1].number) {
            return mr_h5_damaged(&where, "a chunk is there twice", err);
        }
    }
    return MR_OK;
}

mr_status mr_h5_find_chunks(mr_h5_file *file, mr_h5_dataset *d, mr_error *err) {
    finder f = {.file = file, .dataset = d};
    if (d->layout != MR_H5_CHUNKED || d->index.address < 0) {
        return MR_OK;
    }
    if (d->index.kind == EXTENSIBLE && d->most[0] != -1) {
        return mr_fail(err, MR_E_UNSUPPORTED,
                       "a dataset that grows along another dimension than the first");
    }
    MR_TRY(read_index(&f, err));
    return sort_chunks(d, err);
}
