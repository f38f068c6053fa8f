/* SPDX-License-Identifier: Apache-2.0 */
/* levels.c - what of a column is there: its levels become cells with or without a value, and lists.
 *
 * What most pages are gets a way of its own: no null at all, known from one run of levels, and
 * lists without nulls, whose offsets are the zeros of the repetition levels. */
#include <string.h>

#include "parquet/parts.h"

static int32_t bits_for(int32_t most) {
    return most == 0 ? 0 : 32 - __builtin_clz((uint32_t)most);
}

/* Cuts levels from the front of a V1 page. */
static bool cut_levels(mr_pq_bytes *page, int32_t most, int32_t encoding, int64_t n,
                       mr_pq_bytes *out) {
    size_t size, skip = 0;
    *out = (mr_pq_bytes){page->data, 0};
    if (most == 0) {
        return true;
    }
    if (encoding == MR_PQ_BIT_PACKED) {
        size = ((size_t)n * (size_t)bits_for(most) + 7) / 8;
    } else if (encoding == MR_PQ_RLE && page->size >= 4) {
        size = mr_pq_load_u32(page->data);
        skip = 4;
    } else {
        return false;
    }
    if (size > page->size - skip) {
        return false;
    }
    *out = (mr_pq_bytes){page->data + skip, size};
    page->data += skip + size;
    page->size -= skip + size;
    return true;
}

bool mr_pq_split_page_v1(const mr_pq_column *column, const mr_pq_header *header, mr_pq_bytes page,
                         mr_pq_levels *out) {
    out->rep_encoding = header->rep_encoding;
    out->def_encoding = header->def_encoding;
    bool whole =
        cut_levels(&page, column->max_rep, out->rep_encoding, header->n_values, &out->rep) &&
        cut_levels(&page, column->max_def, out->def_encoding, header->n_values, &out->def);
    out->values = page;
    return whole;
}

/* The oldest form: packed from the highest bit of each byte on. */
static void unpack_high_first(mr_pq_bytes bytes, int32_t width, uint8_t *out, int64_t n) {
    for (int64_t i = 0, bit = 0; i < n; i++) {
        uint32_t value = 0;
        for (int32_t k = 0; k < width; k++, bit++) {
            value = value << 1 | (bytes.data[bit / 8] >> (7 - bit % 8) & 1);
        }
        out[i] = (uint8_t)value;
    }
}

static mr_status read_levels(mr_pq_chunk_state *state, mr_pq_bytes bytes, int32_t encoding,
                             int32_t most, uint8_t *out, int64_t n) {
    uint8_t largest = 0;
    if (encoding == MR_PQ_BIT_PACKED) {
        unpack_high_first(bytes, bits_for(most), out, n);
    } else {
        mr_pq_runs runs = mr_pq_runs_of(bytes, bits_for(most), state->decoder->kernels);
        if (!mr_pq_runs_u8(&runs, out, n)) {
            return mr_fail(state->err, MR_E_CORRUPT, "the levels of a page are too short");
        }
    }
    for (int64_t i = 0; i < n; i++) {
        largest = out[i] > largest ? out[i] : largest;
    }
    if (largest > most) {
        return mr_fail(state->err, MR_E_CORRUPT, "a level of a page is %d, the schema has %d",
                       largest, most);
    }
    return MR_OK;
}

/* Whether all definition levels are the highest: nothing is missing. */
bool mr_pq_all_defined(const mr_pq_chunk_state *state, const mr_pq_levels *l, int64_t n) {
    int32_t most = state->column->max_def;
    mr_pq_runs runs = mr_pq_runs_of(l->def, bits_for(most), state->decoder->kernels);
    return most == 0 || (l->def_encoding == MR_PQ_RLE && mr_pq_runs_all(&runs, n, (uint32_t)most));
}

/* ---- Cells and lists ---- */
static uint8_t *validity(mr_pq_chunk_state *state) {
    mr_pq_vector *vector = state->vector;
    if (!vector->valid) {
        vector->valid = mr_pq_own(state, (size_t)state->capacity, 1);
        if (vector->valid) {
            memset(vector->valid, 1, (size_t)vector->n_cells);
        }
    }
    return vector->valid;
}

int64_t mr_pq_list_capacity(const mr_pq_chunk_state *state, int32_t depth, int64_t rows) {
    return depth == 0 ? rows : state->capacity;
}

static uint8_t *list_validity(mr_pq_chunk_state *state, int32_t depth, int64_t rows) {
    mr_pq_vector *vector = state->vector;
    if (!vector->list_valid[depth]) {
        size_t capacity = (size_t)mr_pq_list_capacity(state, depth, rows);
        vector->list_valid[depth] = mr_pq_own(state, capacity, 1);
        if (vector->list_valid[depth]) {
            memset(vector->list_valid[depth], 1, capacity);
        }
    }
    return vector->list_valid[depth];
}

/* How many of them are 1. Sums of bytes are kept apart while none can overflow. */
static int64_t count_ones(const uint8_t *flags, int64_t n) {
    enum { WIDTH = 64, ROUND = 255 * WIDTH };
    int64_t ones = 0, i = 0;
    while (n - i >= WIDTH) {
        uint8_t sums[WIDTH] = {0};
        int64_t end = n - i < ROUND ? n - WIDTH : i + ROUND - WIDTH;
        for (; i <= end; i += WIDTH) {
            for (int k = 0; k < WIDTH; k++) {
                sums[k] = (uint8_t)(sums[k] + flags[i + k]);
            }
        }
        for (int k = 0; k < WIDTH; k++) {
            ones += sums[k];
        }
    }
    for (; i < n; i++) {
        ones += flags[i];
    }
    return ones;
}

/* Levels become flags: whether a cell has a value. With one level they are that already. */
static void levels_to_flags(uint8_t *levels, int64_t n, int32_t most) {
    for (int64_t i = 0; most > 1 && i < n; i++) {
        levels[i] = levels[i] == most;
    }
}

static mr_status flat_levels(mr_pq_chunk_state *state, const mr_pq_levels *l, int64_t n,
                             mr_pq_added *out) {
    int32_t most = state->column->max_def;
    mr_pq_vector *vector = state->vector;
    *out = (mr_pq_added){n, n};
    vector->n_rows += n;
    if (mr_pq_all_defined(state, l, n)) {
        if (vector->valid) {
            memset(vector->valid + vector->n_cells, 1, (size_t)n);
        }
        return MR_OK;
    }
    uint8_t *valid = validity(state);
    if (!valid) {
        return mr_pq_own_failed(state);
    }
    valid += vector->n_cells;
    MR_TRY(read_levels(state, l->def, l->def_encoding, most, valid, n));
    levels_to_flags(valid, n, most);
    out->values = count_ones(valid, n);
    vector->n_nulls += n - out->values;
    return MR_OK;
}

/* Lists of depth 1 without anything missing: offsets are where the repetition level is 0. */
static bool whole_lists(mr_pq_chunk_state *state, const mr_pq_levels *l, int64_t n, int64_t rows,
                        mr_pq_added *out) {
    mr_pq_vector *vector = state->vector;
    int64_t found = 0;
    if (state->column->max_rep != 1 || l->rep_encoding != MR_PQ_RLE ||
        !mr_pq_all_defined(state, l, n)) {
        return false;
    }
    mr_pq_runs runs = mr_pq_runs_of(l->rep, 1, state->decoder->kernels);
    int64_t *offsets = vector->offsets[0] + vector->n_rows;
    if (!mr_pq_runs_zeros(&runs, n, vector->n_cells, offsets, rows - vector->n_rows, &found) ||
        (vector->n_rows == 0 && (found == 0 || offsets[0] != vector->n_cells))) {
        return false; /* the general way says what is wrong */
    }
    vector->n_rows += found;
    vector->n_lists[0] += found;
    if (vector->valid) {
        memset(vector->valid + vector->n_cells, 1, (size_t)n);
    }
    *out = (mr_pq_added){n, n};
    return true;
}

typedef struct nesting {
    int64_t items[MR_PQ_DEPTH]; /* so far, of each depth */
    int64_t cells, values, rows;
    uint8_t *valid; /* of the cells, where the column can have nulls */
} nesting;

/* Opens the lists that begin with this entry, from depth `from` on. False: no memory. */
static bool open_lists(mr_pq_chunk_state *state, nesting *now, int32_t from, int32_t def,
                       int64_t rows) {
    const mr_pq_column *column = state->column;
    mr_pq_vector *vector = state->vector;
    for (int32_t d = from; d < column->max_rep; d++) {
        int64_t list = vector->n_lists[d]++;
        vector->offsets[d][list] = now->items[d];
        if (def < column->list_def[d] - 1) {
            uint8_t *valid = list_validity(state, d, rows);
            if (!valid) {
                return false;
            }
            valid[list] = 0;
            vector->n_nulls++;
            return true;
        }
        if (def < column->list_def[d]) {
            return true; /* an empty one */
        }
        now->items[d]++;
    }
    if (now->valid) {
        now->valid[now->cells] = def == column->max_def;
    }
    now->values += def == column->max_def;
    now->cells++;
    return true;
}

static mr_status wrong_start(mr_pq_chunk_state *state) {
    return mr_fail(state->err, MR_E_CORRUPT, "the repetition levels begin or go on wrongly");
}

static mr_status walk_entries(mr_pq_chunk_state *state, nesting *now, const uint8_t *rep,
                              const uint8_t *def, int64_t n, int64_t rows) {
    const mr_pq_column *column = state->column;
    for (int64_t i = 0; i < n; i++) {
        int32_t r = rep[i], d = def ? def[i] : column->max_def;
        if (r == 0 ? now->rows == rows : now->rows == 0 || d < column->list_def[r - 1]) {
            return wrong_start(state);
        }
        /* What goes on must have begun: an item of the list around it. */
        if (r == 0) {
            now->rows++;
        } else {
            now->items[r - 1]++;
        }
        if (r == column->max_rep) {
            if (now->valid) {
                now->valid[now->cells] = d == column->max_def;
            }
            now->values += d == column->max_def;
            now->cells++;
        } else if (!open_lists(state, now, r, d, rows)) {
            return mr_pq_own_failed(state);
        }
    }
    return MR_OK;
}

/* Items of each depth that there are before this page. */
static void count_items(const mr_pq_chunk_state *state, nesting *now) {
    const mr_pq_vector *vector = state->vector;
    int32_t depth = state->column->max_rep;
    for (int32_t d = 0; d < depth; d++) {
        now->items[d] = d + 1 < depth ? vector->n_lists[d + 1] : vector->n_cells;
    }
    now->cells = vector->n_cells;
    now->rows = vector->n_rows;
    now->valid = vector->valid;
}

static mr_status nested_levels(mr_pq_chunk_state *state, const mr_pq_levels *l, int64_t n,
                               int64_t rows, mr_pq_added *out) {
    mr_pq_decoder *decoder = state->decoder;
    mr_pq_vector *vector = state->vector;
    const mr_pq_column *column = state->column;
    nesting now = {.values = 0};
    uint8_t *rep = mr_pq_scratch_take(&decoder->rep, (size_t)n), *def = NULL;
    if (!rep) {
        return mr_fail_memory(state->err, (size_t)n);
    }
    MR_TRY(read_levels(state, l->rep, l->rep_encoding, column->max_rep, rep, n));
    if (!mr_pq_all_defined(state, l, n)) {
        def = mr_pq_scratch_take(&decoder->def, (size_t)n);
        if (!def || !validity(state)) {
            return def ? mr_pq_own_failed(state) : mr_fail_memory(state->err, (size_t)n);
        }
        MR_TRY(read_levels(state, l->def, l->def_encoding, column->max_def, def, n));
    }
    count_items(state, &now);
    MR_TRY(walk_entries(state, &now, rep, def, n, rows));
    *out = (mr_pq_added){now.cells - vector->n_cells, now.values};
    vector->n_nulls += out->cells - out->values;
    vector->n_rows = now.rows;
    return MR_OK;
}

mr_status mr_pq_page_levels(mr_pq_chunk_state *state, const mr_pq_levels *l, int64_t n,
                            int64_t rows, mr_pq_added *out) {
    if (state->column->max_rep == 0) {
        return flat_levels(state, l, n, out);
    }
    return whole_lists(state, l, n, rows, out) ? MR_OK : nested_levels(state, l, n, rows, out);
}
