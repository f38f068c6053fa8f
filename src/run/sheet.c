/* SPDX-License-Identifier: Apache-2.0 */
/* sheet.c - a batch as a picture for people: a contact sheet in a PNG file. */
#include <millrace/millrace.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "kernels/half.h"

#ifdef MR_HAVE_PNG
#include <png.h>
#endif

enum { STRIP = 16, GAP = 4, GLYPH_W = 3, GLYPH_H = 5, MOST_CELL = 256 };
static const int64_t dot_side = 2; /* pixels */

/* ---- Letters: three columns of five dots, the top row in the highest bits ---- */
static uint16_t glyph(char c) {
    static const uint16_t digits[] = {075557, 026227, 071747, 071717, 055711,
                                      074717, 074757, 071111, 075757, 075717};
    static const uint16_t letters[] = {025755, 065656, 034443, 065556, 074647, 074644, 034553,
                                       055755, 072227, 011153, 055655, 044447, 057755, 065555,
                                       025552, 065644, 025563, 065655, 034216, 072222, 055553,
                                       055552, 055775, 055255, 055222, 071247};
    if (c >= '0' && c <= '9') {
        return digits[c - '0'];
    }
    if (c >= 'a' && c <= 'z') {
        return letters[c - 'a'];
    }
    if (c >= 'A' && c <= 'Z') {
        return letters[c - 'A'];
    }
    return c == '#' ? 057575 : c == '-' ? 000700 : c == '.' ? 000002 : 0;
}

/* ---- The sheet in memory ---- */
typedef struct canvas {
    uint8_t *pixels; /* grey or RGB: always three bytes */
    int64_t width, height;
} canvas;

static void draw_dot(canvas *c, int64_t x, int64_t y) {
    for (int64_t k = 0; k < dot_side * dot_side; k++) {
        int64_t at_x = x + k % dot_side, at_y = y + k / dot_side;
        if (at_x < c->width && at_y < c->height) {
            memset(c->pixels + 3 * (at_y * c->width + at_x), 0, 3);
        }
    }
}

static void draw_text(canvas *c, int64_t x, int64_t y, const char *text) {
    for (; *text; text++, x += (GLYPH_W + 1) * dot_side) {
        uint16_t dots = glyph(*text);
        for (int k = 0; k < GLYPH_W * GLYPH_H; k++) {
            if (dots >> ((int64_t)GLYPH_W * GLYPH_H - 1 - k) & 1) {
                draw_dot(c, x + k % GLYPH_W * dot_side, y + k / GLYPH_W * dot_side);
            }
        }
    }
}

/* ---- Samples as images ---- */
typedef struct picture {
    const char *data;
    mr_dtype dtype;
    int64_t height, width, channels;
    bool planar;
} picture;

static const mr_array *image_field(const mr_batch *batch) {
    for (int32_t i = 0; i < mr_batch_n_arrays(batch); i++) {
        const mr_array *array = mr_batch_array(batch, i);
        if (array->layout != MR_PLAIN && array->sample_dims == 3) {
            return array;
        }
    }
    return NULL;
}

static picture picture_of(const mr_array *array, int64_t i) {
    const int64_t *dims = array->shapes ? array->shapes + 3 * i : array->dims + 1;
    int64_t elements = dims[0] * dims[1] * dims[2];
    int64_t first = array->offsets ? array->offsets[i] : i * elements;
    bool planar = array->layout == MR_CHW;
    return (picture){.data =
                         (const char *)array->data + first * (int64_t)mr_dtype_size(array->dtype),
                     .dtype = array->dtype,
                     .height = dims[planar ? 1 : 0],
                     .width = dims[planar ? 2 : 1],
                     .channels = dims[planar ? 0 : 2],
                     .planar = planar};
}

static float element(const picture *p, int64_t i) {
    uint16_t half;
    float number = 0;
    if (p->dtype == MR_U8) {
        return (float)((const uint8_t *)p->data)[i];
    }
    if (p->dtype == MR_F32) {
        memcpy(&number, p->data + 4 * i, sizeof number);
    } else if (p->dtype == MR_F16 || p->dtype == MR_BF16) {
        memcpy(&half, p->data + 2 * i, sizeof half);
        number = p->dtype == MR_F16 ? mr_float_of_f16(half) : mr_float_of_bf16(half);
    }
    return isfinite(number) ? number : 0.0f;
}

static float value_at(const picture *p, int64_t y, int64_t x, int64_t channel) {
    channel = channel < p->channels ? channel : 0;
    return element(p, p->planar ? (channel * p->height + y) * p->width + x
                                : (y * p->width + x) * p->channels + channel);
}

/* What is drawn black and what white: bytes as they are, other numbers from least to most. */
typedef struct range {
    float low, high;
} range;

static range range_of(const mr_array *array, int64_t n) {
    range r = {0, 255};
    if (array->dtype == MR_U8) {
        return r;
    }
    r = (range){INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        picture p = picture_of(array, i);
        for (int64_t k = 0; k < p.height * p.width * p.channels; k++) {
            float v = element(&p, k);
            r.low = v < r.low ? v : r.low;
            r.high = v > r.high ? v : r.high;
        }
    }
    return r.high > r.low ? r : (range){r.low, r.low + 1};
}

/* ---- Cells ---- */
typedef struct grid {
    int64_t n, columns, rows, cell_w, cell_h;
} grid;

static int64_t at_most(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The scaled size of a picture: its longer side at most `cell`. */
static void fit(const picture *p, int64_t cell, int64_t *width, int64_t *height) {
    int64_t longer = p->width > p->height ? p->width : p->height;
    *width = longer > cell ? p->width * cell / longer : p->width;
    *height = longer > cell ? p->height * cell / longer : p->height;
    *width = *width > 0 ? *width : 1;
    *height = *height > 0 ? *height : 1;
}

static grid lay_out(const mr_array *array, int64_t n, const mr_sheet *sheet, int64_t cell) {
    grid g = {.n = n, .cell_w = 1, .cell_h = 1};
    for (int64_t i = 0; i < n; i++) {
        int64_t width, height;
        picture p = picture_of(array, i);
        fit(&p, cell, &width, &height);
        g.cell_w = width > g.cell_w ? width : g.cell_w;
        g.cell_h = height > g.cell_h ? height : g.cell_h;
    }
    g.cell_w = g.cell_w > 48 ? g.cell_w : 48; /* room for the label */
    g.columns = sheet->columns > 0 ? sheet->columns : (int64_t)ceil(sqrt((double)n));
    g.columns = at_most(g.columns, n);
    g.rows = (n + g.columns - 1) / g.columns;
    return g;
}

static void draw_picture(canvas *c, const picture *p, range r, int64_t cell, int64_t left,
                         int64_t top) {
    int64_t width, height;
    fit(p, cell, &width, &height);
    for (int64_t y = 0; y < height; y++) {
        for (int64_t x = 0; x < 3 * width; x++) {
            float v = value_at(p, y * p->height / height, x / 3 * p->width / width, x % 3);
            float byte = (v - r.low) / (r.high - r.low) * 255.0f + 0.5f;
            c->pixels[3 * ((top + y) * c->width + left) + x] = (uint8_t)fminf(byte, 255.0f);
        }
    }
}

static void describe(const mr_batch *batch, const mr_sheet *sheet, int64_t i, char *text,
                     size_t size) {
    const mr_array *label = mr_batch_find(batch, "label");
    int64_t value = 0;
    size_t used = 0;
    if (label && label->dtype == MR_I64 && label->n_dims == 1 && !label->offsets) {
        memcpy(&value, (const char *)label->data + i * (int64_t)sizeof value, sizeof value);
        bool named = sheet->classes && value >= 0 && value < sheet->n_classes;
        used = named ? (size_t)snprintf(text, size, "%.40s ", sheet->classes[value])
                     : (size_t)snprintf(text, size, "%lld ", (long long)value);
    }
    snprintf(text + used, size - used, "#%lld", (long long)mr_batch_samples(batch)[i]);
}

static void draw_cell(canvas *c, const mr_batch *batch, const mr_sheet *sheet,
                      const mr_array *array, const grid *g, range r, int64_t cell, int64_t i) {
    char text[64];
    int64_t left = GAP + i % g->columns * (g->cell_w + GAP);
    int64_t top = GAP + i / g->columns * (g->cell_h + STRIP + GAP);
    picture p = picture_of(array, i);
    draw_picture(c, &p, r, cell, left, top + STRIP);
    describe(batch, sheet, i, text, sizeof text);
    text[at_most(g->cell_w / ((GLYPH_W + 1) * dot_side), (int64_t)sizeof text - 1)] = '\0';
    draw_text(c, left, top + 3, text);
}

/* ---- The file ---- */
#ifdef MR_HAVE_PNG
static mr_status write_png(const canvas *c, const char *path, mr_error *err) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)c->width,
                       .height = (png_uint_32)c->height,
                       .format = PNG_FORMAT_RGB};
    if (!png_image_write_to_file(&image, path, 0, c->pixels, 0, NULL)) {
        char shown[256];
        return mr_fail(err, MR_E_IO, "cannot write %s: %s",
                       mr_text_escape(shown, sizeof shown, path), image.message);
    }
    return MR_OK;
}
#else
static mr_status write_png(const canvas *c, const char *path, mr_error *err) {
    (void)c;
    (void)path;
    return mr_fail(err, MR_E_UNSUPPORTED, "this build was made without libpng");
}
#endif

mr_status mr_batch_sheet(const mr_batch *batch, const mr_sheet *given, const char *path,
                         mr_error *err) {
    mr_sheet own;
    const mr_sheet *sheet = &own;
    mr_take_sized(&own, sizeof own, given);
    const mr_array *array = image_field(batch);
    int64_t n = mr_batch_size(batch), cell = sheet->cell > 0 ? sheet->cell : MOST_CELL;
    if (!array || n < 1) {
        mr_fail(err, MR_E_TYPE, "the batch has no images to show");
        mr_hint(err, "decode_image makes images");
        return MR_E_TYPE;
    }
    grid g = lay_out(array, n, sheet, cell);
    canvas c = {.width = GAP + g.columns * (g.cell_w + GAP),
                .height = GAP + g.rows * (g.cell_h + STRIP + GAP)};
    if (c.width > 65535 || c.height > 65535) {
        mr_fail(err, MR_E_LIMIT, "the sheet would have %lld x %lld pixels", (long long)c.width,
                (long long)c.height);
        mr_hint(err, "show fewer samples, or smaller cells");
        return MR_E_LIMIT;
    }
    size_t bytes = (size_t)(3 * c.width * c.height);
    c.pixels = mr_zalloc(1, bytes);
    if (!c.pixels) {
        return mr_fail_memory(err, bytes);
    }
    memset(c.pixels, 0xF0, bytes);
    range r = range_of(array, n);
    for (int64_t i = 0; i < n; i++) {
        draw_cell(&c, batch, sheet, array, &g, r, cell, i);
    }
    mr_status status = write_png(&c, path, err);
    mr_free(c.pixels);
    return status;
}
