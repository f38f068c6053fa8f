/* SPDX-License-Identifier: Apache-2.0 */
/* warp.c - see warp.h. Scalar references; there are no variants. */
#include "kernels/warp.h"

#include <math.h>
#include <string.h>

typedef enum warp_way {
    BY_TABLES, /* axes apart, nearest: sums of steps, as Pillow adds them up */
    BY_FIXED,  /* affine, nearest: 16.16 fixed point */
    BY_STEPS,  /* affine, nearest, beyond what fixed point holds: sums of steps */
    BY_PLACES  /* each pixel's place by itself */
} warp_way;

struct mr_warp {
    mr_map map;
    warp_way way;
    bool bilinear;
    uint8_t fill[4];
    int64_t fixed[6];
    double *columns;     /* BY_TABLES: x' of each column */
    double *rows;        /* BY_TABLES: y' of each row; BY_STEPS: y' at the start of each row */
    double *row_columns; /* BY_STEPS: x' at the start of each row */
};

static size_t aligned(size_t bytes) {
    return (bytes + 63u) & ~(size_t)63u;
}

size_t mr_warp_memory(int64_t height, int64_t width) {
    return aligned(sizeof(mr_warp)) + aligned((size_t)width * sizeof(double)) +
           2 * aligned((size_t)height * sizeof(double));
}

/* ---- Which arithmetic ---- */
static bool corner_is_small(const double *m, double x, double y) {
    return fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 && fabs(x * m[3] + y * m[4] + m[5]) < 32768.0;
}

static bool fits_fixed_point(const double *m, int64_t height, int64_t width) {
    double w = (double)width, h = (double)height;
    return corner_is_small(m, 0, 0) && corner_is_small(m, w, h) && corner_is_small(m, 0, h) &&
           corner_is_small(m, w, 0);
}

static warp_way way_of(const mr_map *map, bool bilinear, int64_t height, int64_t width) {
    if (bilinear || map->perspective) {
        return BY_PLACES;
    }
    if (map->m[1] == 0.0 && map->m[3] == 0.0) {
        return BY_TABLES;
    }
    return fits_fixed_point(map->m, height, width) ? BY_FIXED : BY_STEPS;
}

static int64_t fix(double value) {
    return (int64_t)floor(value * 65536.0 + 0.5);
}

static void start_fixed(mr_warp *w) {
    const double *m = w->map.m;
    w->fixed[0] = fix(m[0]);
    w->fixed[1] = fix(m[1]);
    w->fixed[2] = fix(m[2] + m[0] * 0.5 + m[1] * 0.5);
    w->fixed[3] = fix(m[3]);
    w->fixed[4] = fix(m[4]);
    w->fixed[5] = fix(m[5] + m[3] * 0.5 + m[4] * 0.5);
}

static void add_up(double *sums, int64_t n, double start, double step) {
    for (int64_t i = 0; i < n; i++) {
        sums[i] = start;
        start += step;
    }
}

mr_warp *mr_warp_start(const mr_map *map, bool bilinear, const uint8_t *fill, int64_t height,
                       int64_t width, void *memory) {
    mr_warp *w = memory;
    unsigned char *at = (unsigned char *)memory + aligned(sizeof *w);
    const double *m = map->m;
    *w = (mr_warp){.map = *map, .way = way_of(map, bilinear, height, width), .bilinear = bilinear};
    memcpy(w->fill, fill, 3);
    w->columns = (double *)at;
    w->rows = (double *)(at + aligned((size_t)width * sizeof(double)));
    w->row_columns = w->rows + aligned((size_t)height * sizeof(double)) / sizeof(double);
    if (w->way == BY_FIXED) {
        start_fixed(w);
    } else if (w->way == BY_TABLES) {
        add_up(w->columns, width, m[2] + m[0] * 0.5, m[0]);
        add_up(w->rows, height, m[5] + m[4] * 0.5, m[4]);
    } else if (w->way == BY_STEPS) {
        add_up(w->row_columns, height, m[2] + m[1] * 0.5 + m[0] * 0.5, m[1]);
        add_up(w->rows, height, m[5] + m[4] * 0.5 + m[3] * 0.5, m[4]);
    }
    return w;
}

/* ---- Looking up ---- */
static const uint8_t *pixel_at(const mr_scene *s, int64_t x, int64_t y) {
    return s->part.data + (size_t)(y - s->top) * s->part.stride +
           (size_t)(x - s->left) * (size_t)s->part.channels;
}

static void copy_pixel(uint8_t *out, const uint8_t *in, int32_t channels) {
    out[0] = in[0];
    if (channels == 3) {
        out[1] = in[1];
        out[2] = in[2];
    }
}

static bool is_inside(const mr_scene *s, double x, double y) {
    return x >= 0.0 && x < (double)s->width && y >= 0.0 && y < (double)s->height;
}

bool mr_sample_nearest(const mr_scene *s, double x, double y, uint8_t *out) {
    if (!is_inside(s, x, y)) {
        return false;
    }
    copy_pixel(out, pixel_at(s, (int64_t)x, (int64_t)y), s->part.channels);
    return true;
}

static inline double between(double a, double b, double share) {
    return a + (b - a) * share;
}

/* Of numbers not below -1; floor() is a call on old CPUs. */
static inline int64_t rounded_down(double value) {
    return value < 0.0 ? -1 : (int64_t)value;
}

/* Outside of the image's middle points its border is repeated. Rounded down, as Pillow does.
 * `channels` is a constant where this is inlined. */
static inline bool bilinear(const mr_scene *s, double x, double y, int32_t channels, uint8_t *out) {
    if (!is_inside(s, x, y)) {
        return false;
    }
    x -= 0.5;
    y -= 0.5;
    int64_t column = rounded_down(x), row = rounded_down(y);
    double across = x - (double)column, down = y - (double)row;
    int64_t left = column < 0 ? 0 : column;
    int64_t right = column + 1 < s->width ? column + 1 : s->width - 1;
    int64_t top = row < 0 ? 0 : row, bottom = row + 1 < s->height ? row + 1 : top;
    const uint8_t *top_left = pixel_at(s, left, top), *top_right = pixel_at(s, right, top);
    const uint8_t *low_left = pixel_at(s, left, bottom), *low_right = pixel_at(s, right, bottom);
    for (int32_t c = 0; c < channels; c++) {
        double high = between(top_left[c], top_right[c], across);
        double low = between(low_left[c], low_right[c], across);
        out[c] = (uint8_t)(int32_t)between(high, low, down);
    }
    return true;
}

bool mr_sample_bilinear(const mr_scene *s, double x, double y, uint8_t *out) {
    return s->part.channels == 3 ? bilinear(s, x, y, 3, out) : bilinear(s, x, y, 1, out);
}

/* ---- Rows ---- */
static void row_by_tables(const mr_warp *w, const mr_scene *s, int64_t y, int64_t x, int64_t n,
                          uint8_t *out) {
    for (int64_t end = x + n; x < end; x++, out += s->part.channels) {
        if (!mr_sample_nearest(s, w->columns[x], w->rows[y], out)) {
            copy_pixel(out, w->fill, s->part.channels);
        }
    }
}

/* Where a line that begins at (across, down) in 16.16 fixed point is inside the image. */
static bool is_fixed_inside(const mr_scene *s, int64_t across, int64_t down) {
    return across >= 0 && across >> 16 < s->width && down >= 0 && down >> 16 < s->height;
}

static void fill_pixels(const mr_warp *w, const mr_scene *s, int64_t from, int64_t to,
                        uint8_t *out) {
    for (int64_t i = from; i < to; i++) {
        copy_pixel(out + i * s->part.channels, w->fill, s->part.channels);
    }
}

/* `channels` is a constant where this is inlined. */
static inline void copy_line(const mr_scene *s, int64_t across, int64_t down, const int64_t *a,
                             int64_t n, int32_t channels, uint8_t *out) {
    across -= s->left * 65536;
    down -= s->top * 65536;
    for (int64_t i = 0; i < n; i++, across += a[0], down += a[3], out += channels) {
        const uint8_t *in =
            s->part.data + (down >> 16) * (int64_t)s->part.stride + (across >> 16) * channels;
        for (int32_t c = 0; c < channels; c++) {
            out[c] = in[c];
        }
    }
}

/* A line meets the image in one piece: only its ends need looking for. */
static void row_by_fixed(const mr_warp *w, const mr_scene *s, int64_t y, int64_t x, int64_t n,
                         uint8_t *out) {
    const int64_t *a = w->fixed;
    int64_t across = a[2] + a[1] * y + a[0] * x, down = a[5] + a[4] * y + a[3] * x;
    int64_t from = 0, to = n, channels = s->part.channels;
    while (from < n && !is_fixed_inside(s, across + a[0] * from, down + a[3] * from)) {
        from++;
    }
    while (to > from && !is_fixed_inside(s, across + a[0] * (to - 1), down + a[3] * (to - 1))) {
        to--;
    }
    fill_pixels(w, s, 0, from, out);
    across += a[0] * from;
    down += a[3] * from;
    if (channels == 3) {
        copy_line(s, across, down, a, to - from, 3, out + from * channels);
    } else {
        copy_line(s, across, down, a, to - from, 1, out + from * channels);
    }
    fill_pixels(w, s, to, n, out);
}

static void row_by_steps(const mr_warp *w, const mr_scene *s, int64_t y, int64_t x, int64_t n,
                         uint8_t *out) {
    double across = w->row_columns[y], down = w->rows[y];
    for (int64_t i = 0; i < x + n; i++) {
        if (i >= x) {
            if (!mr_sample_nearest(s, across, down, out)) {
                copy_pixel(out, w->fill, s->part.channels);
            }
            out += s->part.channels;
        }
        across += w->map.m[0];
        down += w->map.m[3];
    }
}

static inline void place_of(const mr_map *map, int64_t x, int64_t y, double *column, double *row) {
    const double *m = map->m;
    double across = (double)x + 0.5, down = (double)y + 0.5;
    *column = m[0] * across + m[1] * down + m[2];
    *row = m[3] * across + m[4] * down + m[5];
    if (map->perspective) {
        double depth = m[6] * across + m[7] * down + 1.0;
        *column /= depth;
        *row /= depth;
    }
}

/* `channels` is a constant where this is inlined. */
static inline void row_bilinear(const mr_warp *w, const mr_scene *s, int64_t y, int64_t x,
                                int64_t n, int32_t channels, uint8_t *out) {
    for (int64_t end = x + n; x < end; x++, out += channels) {
        double column, row;
        place_of(&w->map, x, y, &column, &row);
        if (!bilinear(s, column, row, channels, out)) {
            copy_pixel(out, w->fill, channels);
        }
    }
}

static void row_nearest(const mr_warp *w, const mr_scene *s, int64_t y, int64_t x, int64_t n,
                        uint8_t *out) {
    for (int64_t end = x + n; x < end; x++, out += s->part.channels) {
        double column, row;
        place_of(&w->map, x, y, &column, &row);
        if (!mr_sample_nearest(s, column, row, out)) {
            copy_pixel(out, w->fill, s->part.channels);
        }
    }
}

static void row_by_places(const mr_warp *w, const mr_scene *s, int64_t y, int64_t x, int64_t n,
                          uint8_t *out) {
    if (!w->bilinear) {
        row_nearest(w, s, y, x, n, out);
    } else if (s->part.channels == 3) {
        row_bilinear(w, s, y, x, n, 3, out);
    } else {
        row_bilinear(w, s, y, x, n, 1, out);
    }
}

void mr_warp_row(const mr_warp *warp, const mr_scene *scene, int64_t y, int64_t x, int64_t n,
                 uint8_t *out) {
    static void (*const ways[])(const mr_warp *, const mr_scene *, int64_t, int64_t, int64_t,
                                uint8_t *) = {
        [BY_TABLES] = row_by_tables,
        [BY_FIXED] = row_by_fixed,
        [BY_STEPS] = row_by_steps,
        [BY_PLACES] = row_by_places,
    };
    ways[warp->way](warp, scene, y, x, n, out);
}

/* ---- Demand ---- */
/* Fixed point and sums of steps are off by less than a pixel on each axis over the largest image.
 */
#define SLACK 4.0

static double clamped(double value, double low, double high) {
    return value > low ? value < high ? value : high : low;
}

/* Places from `low` to `high` as pixels inside [0, side), or the nearest one. */
static void cut(double low, double high, int64_t side, int64_t *from, int64_t *length) {
    int64_t first = (int64_t)clamped(floor(low - SLACK), 0.0, (double)(side - 1));
    int64_t last = (int64_t)clamped(ceil(high + SLACK), 0.0, (double)(side - 1));
    *from = first;
    *length = last - first + 1;
}

mr_region mr_map_needs(const mr_map *map, int64_t height, int64_t width, mr_region wanted) {
    double low_x = INFINITY, low_y = INFINITY, high_x = -INFINITY, high_y = -INFINITY;
    mr_region needed = {0, 0, width, height};
    if (map->perspective) { /* the image of a rectangle need not be bounded by its corners' */
        return needed;
    }
    for (int corner = 0; corner < 4; corner++) {
        double x, y;
        place_of(map, wanted.x + (corner & 1 ? wanted.width : 0),
                 wanted.y + (corner & 2 ? wanted.height : 0), &x, &y);
        low_x = fmin(low_x, x);
        low_y = fmin(low_y, y);
        high_x = fmax(high_x, x);
        high_y = fmax(high_y, y);
    }
    cut(low_x, high_x, width, &needed.x, &needed.width);
    cut(low_y, high_y, height, &needed.y, &needed.height);
    return needed;
}
