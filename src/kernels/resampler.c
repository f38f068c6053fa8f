/* SPDX-License-Identifier: Apache-2.0 */
/* resampler.c - see resampler.h.
 *
 * Input rows (after their pass along the row, unless columns go first) are kept in a ring that
 * holds every row twice, `height` rows apart: so the rows that one result row is made of always lie
 * one after the other, as the kernels want them, wherever the ring wraps. */
#include "kernels/resampler.h"

#include <string.h>

enum { GATHER = 4, SLACK = 128 }; /* rows at once; bytes behind them that a kernel may read */

struct mr_resampler {
    const mr_kernels *kernels;
    int32_t channels;
    bool across, down, columns_first, nearest;
    mr_taps x, y;         /* cut to what is wanted, counted from what is needed */
    int32_t *pick_x;      /* nearest: the input column of each wanted column ... */
    int32_t *pick_y;      /* ... and the input row of each wanted row */
    int64_t n_rows;       /* of the result, wanted */
    int64_t n_columns;    /* likewise */
    int64_t in_columns;   /* needed */
    int64_t in_rows;      /* needed */
    int64_t taken, given; /* rows so far, of input (past the first pass) and result */
    int64_t gathered;     /* input rows before the first pass */
    uint8_t *gather;
    uint8_t *ring;
    int64_t ring_rows;
    size_t ring_row;  /* bytes */
    uint8_t *between; /* a row between two passes that end along the row */
    uint8_t *out;
};

static size_t aligned(size_t bytes) {
    return (bytes + 63u) & ~(size_t)63u;
}

static void *take(unsigned char **memory, size_t bytes) {
    void *piece = *memory;
    *memory += aligned(bytes);
    return piece;
}

mr_span mr_resampler_needs(const mr_axis *axis, mr_filter filter, mr_span wanted) {
    if (!mr_axis_changes(axis)) {
        return wanted;
    }
    if (filter == MR_NEAREST) {
        return (mr_span){0, axis->n_in}; /* exactly would mean walking there; a rare filter */
    }
    return (mr_span){mr_taps_reach(axis, filter, wanted.from).from,
                     mr_taps_reach(axis, filter, wanted.to - 1).to};
}

/* ---- Memory ---- */
typedef struct layout {
    mr_span rows, columns; /* needed */
    bool columns_first;
    int64_t ring_rows;
    size_t ring_row, out_row;
    size_t taps_x, taps_y;
} layout;

static int64_t most_rows(const mr_resampler_config *c) {
    int64_t most = 1;
    bool filtered = mr_axis_changes(&c->y) && c->filter != MR_NEAREST;
    for (int64_t y = c->rows.from; y < c->rows.to && filtered; y++) {
        mr_span reach = mr_taps_reach(&c->y, c->filter, y);
        most = reach.to - reach.from > most ? reach.to - reach.from : most;
    }
    return (most + GATHER - 1 + GATHER - 1) / GATHER * GATHER; /* a gathered lot never wraps */
}

static size_t axis_memory(const mr_axis *axis, mr_filter filter) {
    return filter == MR_NEAREST ? (size_t)axis->n_out * sizeof(int32_t)
                                : mr_taps_memory(axis, filter);
}

static layout lay_out(const mr_resampler_config *c) {
    layout l = {
        .rows = mr_resampler_needs(&c->y, c->filter, c->rows),
        .columns = mr_resampler_needs(&c->x, c->filter, c->columns),
        .columns_first = c->filter != MR_NEAREST &&
                         mr_resample_columns_first(c->y.n_in, c->x.n_in, c->y.n_out, c->x.n_out),
        .ring_rows = most_rows(c),
    };
    size_t channels = (size_t)c->channels;
    int64_t ring_width =
        l.columns_first ? l.columns.to - l.columns.from : c->columns.to - c->columns.from;
    l.ring_row = (size_t)ring_width * channels;
    l.out_row = (size_t)(c->columns.to - c->columns.from) * channels;
    l.taps_x = axis_memory(&c->x, c->filter);
    l.taps_y = axis_memory(&c->y, c->filter);
    return l;
}

size_t mr_resampler_memory(const mr_resampler_config *c) {
    layout l = lay_out(c);
    size_t between = (size_t)(l.columns.to - l.columns.from) * (size_t)c->channels;
    return aligned(sizeof(mr_resampler)) + aligned(l.taps_x) + aligned(l.taps_y) +
           aligned(2 * (size_t)l.ring_rows * l.ring_row) + aligned(GATHER * between + SLACK) +
           aligned(between + SLACK) + aligned(l.out_row);
}

/* ---- Starting ---- */
static int32_t *start_picks(const mr_axis *axis, mr_span wanted, int64_t origin, void *memory) {
    int32_t *picks = memory;
    mr_nearest_make(picks, axis->n_in, axis->n_out);
    picks += wanted.from;
    for (int64_t i = 0; i < wanted.to - wanted.from; i++) {
        picks[i] -= (int32_t)origin;
    }
    return picks;
}

static void start_axes(mr_resampler *r, const mr_resampler_config *c, const layout *l,
                       unsigned char **at) {
    void *memory_x = take(at, l->taps_x), *memory_y = take(at, l->taps_y);
    if (r->nearest) {
        r->pick_x = start_picks(&c->x, c->columns, l->columns.from, memory_x);
        r->pick_y = start_picks(&c->y, c->rows, l->rows.from, memory_y);
        return;
    }
    if (r->across) {
        mr_taps_make(&r->x, c->kernels, &c->x, c->filter, c->columns, l->columns.from, memory_x);
    }
    if (r->down) {
        mr_taps_make(&r->y, c->kernels, &c->y, c->filter, c->rows, l->rows.from, memory_y);
    }
}

mr_resampler *mr_resampler_start(const mr_resampler_config *c, void *memory) {
    unsigned char *at = memory;
    const layout l = lay_out(c);
    mr_resampler *r = take(&at, sizeof *r);
    *r = (mr_resampler){
        .kernels = c->kernels,
        .channels = c->channels,
        .across = mr_axis_changes(&c->x),
        .down = mr_axis_changes(&c->y),
        .columns_first = l.columns_first,
        .n_rows = c->rows.to - c->rows.from,
        .n_columns = c->columns.to - c->columns.from,
        .in_columns = l.columns.to - l.columns.from,
        .in_rows = l.rows.to - l.rows.from,
        .ring_rows = l.ring_rows,
        .ring_row = l.ring_row,
    };
    r->nearest = c->filter == MR_NEAREST && (r->across || r->down);
    start_axes(r, c, &l, &at);
    r->ring = take(&at, 2 * (size_t)l.ring_rows * l.ring_row);
    size_t in_row = (size_t)r->in_columns * (size_t)c->channels;
    r->gather = take(&at, GATHER * in_row + SLACK);
    r->between = take(&at, in_row + SLACK);
    r->out = take(&at, l.out_row);
    return r;
}

/* ---- Rows in ---- */
/* Rows of the needed columns, without gaps and with SLACK behind them, to rows of the wanted. */
static void along_rows(const mr_resampler *r, uint8_t *out, const uint8_t *in, int64_t rows) {
    size_t bytes = (size_t)r->in_columns * (size_t)r->channels;
    if (r->across && !r->nearest) {
        const uint8_t *end = in + (size_t)rows * bytes + SLACK;
        r->kernels->resample_rows(out, in, bytes, end, (int32_t)rows, r->channels, &r->x);
        return;
    }
    for (int64_t y = 0; y < rows; y++, in += bytes, out += r->ring_row) {
        if (r->nearest) {
            mr_nearest_row(out, in, r->pick_x, r->n_columns, r->channels);
        } else {
            memcpy(out, in, bytes);
        }
    }
}

static void enter_ring(mr_resampler *r) {
    uint8_t *at = r->ring + (size_t)(r->taken % r->ring_rows) * r->ring_row;
    size_t bytes = (size_t)r->gathered * r->ring_row;
    if (r->columns_first) {
        memcpy(at, r->gather, bytes);
    } else {
        along_rows(r, at, r->gather, r->gathered);
    }
    memcpy(at + (size_t)r->ring_rows * r->ring_row, at, bytes);
    r->taken += r->gathered;
    r->gathered = 0;
}

void mr_resampler_put(mr_resampler *r, const uint8_t *row) {
    size_t bytes = (size_t)r->in_columns * (size_t)r->channels;
    memcpy(r->gather + (size_t)r->gathered * bytes, row, bytes);
    r->gathered++;
    if (r->gathered == GATHER || r->taken + r->gathered == r->in_rows) {
        enter_ring(r);
    }
}

/* ---- Rows out ---- */
static const uint8_t *ring_at(const mr_resampler *r, int64_t row) {
    return r->ring + (size_t)(row % r->ring_rows) * r->ring_row;
}

/* One row of the result's pass along columns. */
static void down_columns(const mr_resampler *r, uint8_t *out) {
    int32_t y = (int32_t)r->given;
    r->kernels->resample_columns(out, ring_at(r, r->y.first[y]), r->ring_row, r->ring_row, &r->y,
                                 y);
}

static int64_t last_row_needed(const mr_resampler *r) {
    if (r->nearest) {
        return r->pick_y[r->given];
    }
    return r->down ? r->y.first[r->given] + r->y.count[r->given] - 1 : r->given;
}

const uint8_t *mr_resampler_get(mr_resampler *r) {
    const uint8_t *row = r->out;
    if (r->given == r->n_rows || last_row_needed(r) >= r->taken) {
        return NULL;
    }
    if (r->nearest || !r->down) {
        row = ring_at(r, last_row_needed(r));
    } else if (r->columns_first) {
        down_columns(r, r->between);
        along_rows(r, r->out, r->between, 1);
    } else {
        down_columns(r, r->out);
    }
    r->given++;
    return row;
}
