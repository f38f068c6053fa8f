/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_picture.c - samples, upsampling and colours of a JPEG. */
#include "codecs/jpeg_picture.h"

#include "codecs/pixels.h"
#include "core/error.h"

#include <string.h>

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- What is needed ---- */

/* Of a row of chroma at half size: those of its samples that pixels from x on are made of. */
static mr_jpeg_range chroma_range(int64_t x, int64_t width, int64_t chroma_width) {
    return (mr_jpeg_range){most(x / 2 - 1, 0),
                           least((x + width - 1) / 2 + 1, chroma_width - 1) + 1};
}

/* libjpeg reads another MCU row as soon as pixels of its first row of chroma may be wanted. It is
 * read here, too, so that the same damage is seen. */
static void find_needed(mr_jpeg_picture *d) {
    const mr_region *p = &d->part;
    int64_t half_width = (d->frame->width + 1) / 2;
    mr_jpeg_range x = {p->x, p->x + p->width}, y = {p->y, p->y + p->height};
    x = d->frame->across == 2 ? chroma_range(p->x, p->width, half_width) : x;
    if (d->frame->down == 2) {
        y = (mr_jpeg_range){most((p->y + 1) / 2 - 1, 0), (p->y + p->height - 1) / 2 + 2};
    }
    d->columns = (mr_jpeg_range){x.from / 8, (x.to - 1) / 8 + 1};
    d->rows = (mr_jpeg_range){y.from / 8, least((y.to - 1) / 8 + 1, d->mcus_down)};
}

/* ---- Memory ---- */
void *mr_jpeg_picture_take(mr_jpeg_picture *d, size_t size) {
    void *memory = mr_scratch(d->request->call, size);
    if (!memory) {
        d->status = mr_fail_memory(d->err, size);
    }
    return memory;
}

/* For rows of samples, which kernels read beyond their ends, in whole vectors: what they make of
 * that is used by nobody, and is the same every time. */
static void *take_zeros(mr_jpeg_picture *d, size_t size) {
    void *memory = mr_jpeg_picture_take(d, size);
    return memory ? memset(memory, 0, size) : NULL;
}

static void make_quantisers(const mr_jpeg_frame *frame, int table, int16_t *out) {
    const uint8_t *from = frame->quantisers[table];
    for (size_t i = 0; i < MR_JPEG_BLOCK; i++) {
        bool wide = frame->wide_quantisers[table];
        unsigned high = wide ? from[2 * i] : 0, low = wide ? from[2 * i + 1] : from[i];
        out[mr_jpeg_natural[i]] = (int16_t)(uint16_t)(high << 8 | low);
    }
}

static bool make_plane(mr_jpeg_picture *d, mr_jpeg_plane *p, const mr_jpeg_component *c) {
    const mr_jpeg_frame *f = d->frame;
    int64_t width = (d->columns.to - d->columns.from) * c->across * 8;
    p->across = c->across;
    p->down = c->down;
    p->width = (f->width * c->across + f->across - 1) / f->across;
    p->height = (f->height * c->down + f->down - 1) / f->down;
    p->column = d->columns.from * c->across * 8;
    p->ring = (int64_t)8 * c->down * f->down;
    p->stride = (size_t)width + (size_t)2 * MR_JPEG_MARGIN;
    p->samples = take_zeros(d, p->stride * (size_t)p->ring);
    make_quantisers(f, c->quantisers, p->quantisers);
    return p->samples != NULL;
}

static bool make_rows(mr_jpeg_picture *d) {
    size_t width = (size_t)d->part.width + 2 + (size_t)2 * MR_JPEG_MARGIN;
    for (int i = 1; i < d->frame->n_components; i++) {
        d->chroma[i] = take_zeros(d, width);
        if (!d->chroma[i]) {
            return false;
        }
    }
    d->pixels = mr_jpeg_picture_take(d, width * 3);
    return d->pixels != NULL;
}

/* ---- Samples ---- */
static uint8_t *sample(const mr_jpeg_plane *p, int64_t y, int64_t x) {
    return p->samples + (size_t)(y & (p->ring - 1)) * p->stride + MR_JPEG_MARGIN + (x - p->column);
}

/* Two at a time, and the last of an odd number with itself. */
void mr_jpeg_picture_put(const mr_jpeg_picture *d, int component, mr_jpeg_coefficients from,
                         int64_t apart, int64_t n, int64_t y, int64_t x) {
    const mr_jpeg_plane *p = &d->planes[component];
    uint8_t *out = sample(p, y, x);
    for (int64_t i = 0; i < n; i += 2) {
        int64_t a = i * apart, b = i + 1 < n ? a + apart : a;
        const int16_t *blocks[2] = {from.values + a * MR_JPEG_BLOCK,
                                    from.values + b * MR_JPEG_BLOCK};
        uint8_t *to[2] = {out + 8 * i, out + (a == b ? 8 * i : 8 * i + 8)};
        int32_t known = from.known[a] > from.known[b] ? from.known[a] : from.known[b];
        d->kernels->jpeg.idct(blocks, p->quantisers, to, p->stride, known);
    }
}

/* Upsampling at the edge of the image takes the sample there for its missing neighbour. */
static void extend_edges(const mr_jpeg_picture *d, const mr_jpeg_plane *p, int64_t mcu_row) {
    for (int64_t y = mcu_row * 8; y < mcu_row * 8 + 8; y++) {
        if (d->columns.from == 0) {
            *sample(p, y, -1) = *sample(p, y, 0);
        }
        if (d->columns.to == d->mcus_across) {
            *sample(p, y, p->width) = *sample(p, y, p->width - 1);
        }
    }
}

/* ---- Pixels ---- */

/* The row of a component that belongs to row y of pixels, from column x on; upsampled where it is
 * smaller. */
static const uint8_t *component_row(const mr_jpeg_picture *d, int component, int64_t y) {
    const mr_jpeg_plane *p = &d->planes[component];
    const mr_jpeg_kernels *k = &d->kernels->jpeg;
    bool wide = p->across == d->frame->across, high = p->down == d->frame->down;
    int64_t x = d->part.x, first = wide ? x : x / 2;
    size_t n = (size_t)(wide ? d->part.width : (x + d->part.width - 1) / 2 - first + 1);
    int64_t near = high ? y : y / 2, far = near + (y % 2 == 0 ? -1 : 1);
    far = least(most(far, 0), p->height - 1);
    uint8_t *out = d->chroma[component];
    if (wide && high) {
        return sample(p, near, x);
    }
    if (wide) {
        k->heighten(out, sample(p, near, x), sample(p, far, x), n, y % 2 == 0);
    } else if (high) {
        k->widen(out, sample(p, near, first), n);
    } else {
        k->enlarge(out, sample(p, near, first), sample(p, far, first), n);
    }
    return wide ? out : out + x % 2;
}

static void grey_to_rgb(uint8_t *out, const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i++, out += 3) {
        out[0] = out[1] = out[2] = in[i];
    }
}

/* Makes the row; returns where it is, which is `out` if that is not NULL. */
static const uint8_t *make_pixels(const mr_jpeg_picture *d, int64_t y, uint8_t *out) {
    size_t n = (size_t)d->part.width;
    bool grey = d->request->channels == 1;
    const uint8_t *luma = component_row(d, 0, y);
    if (d->frame->n_components == 1) {
        if (grey && !out) {
            return luma;
        }
        out = out ? out : d->pixels;
        grey ? (void)memcpy(out, luma, n) : grey_to_rgb(out, luma, n);
        return out;
    }
    uint8_t *rgb = grey || !out ? d->pixels : out;
    d->kernels->jpeg.to_rgb(rgb, luma, component_row(d, 1, y), component_row(d, 2, y), n);
    if (grey) {
        out = out ? out : d->pixels;
        mr_rgb_to_grey(rgb, out, n);
        return out;
    }
    return rgb;
}

bool mr_jpeg_picture_give(mr_jpeg_picture *d, int64_t mcu_row) {
    for (int i = 1; i < d->frame->n_components && d->frame->across == 2; i++) {
        extend_edges(d, &d->planes[i], mcu_row);
    }
    int64_t below = (mcu_row + 1) * 8 * d->frame->down;
    if (d->frame->down == 2 && mcu_row + 1 < d->mcus_down) {
        below--; /* the lowest one needs chroma of the next row */
    }
    below = least(below, d->part.y + d->part.height);
    for (; d->next_row < below && d->status == MR_OK; d->next_row++) {
        size_t stride = (size_t)d->request->width * (size_t)d->request->channels;
        uint8_t *out = d->to ? NULL : d->request->out + (size_t)d->next_row * stride;
        const uint8_t *row = make_pixels(d, d->next_row, out);
        if (d->to) {
            d->status = d->to->row(d->to->user, d->next_row, row, d->err);
        }
    }
    return d->status == MR_OK;
}

/* ---- Beginning ---- */
bool mr_jpeg_picture_open(mr_jpeg_picture *d, const mr_jpeg_frame *frame,
                          const mr_decode_request *request, mr_error *err) {
    d->frame = frame;
    d->request = request;
    d->kernels = request->call->kernels ? request->call->kernels : mr_kernels_for(0);
    d->status = MR_OK;
    d->err = err;
    d->mcus_across = mr_jpeg_mcus_across(frame);
    d->mcus_down = mr_jpeg_mcus_down(frame);
    return frame->width == request->width && frame->height == request->height;
}

/* Smooth upsampling of libjpeg is another one for less than three columns. */
static bool is_wide_enough(const mr_jpeg_frame *frame) {
    return frame->across == 1 || (frame->width + 1) / 2 > 2;
}

bool mr_jpeg_picture_want(mr_jpeg_picture *d, const mr_region *part, const mr_rows *to) {
    d->part = *part;
    d->to = to;
    d->next_row = part->y;
    find_needed(d);
    return is_wide_enough(d->frame);
}

bool mr_jpeg_picture_prepare(mr_jpeg_picture *d) {
    for (int i = 0; i < d->frame->n_components; i++) {
        if (!make_plane(d, &d->planes[i], &d->frame->components[i])) {
            return false;
        }
    }
    return make_rows(d);
}
