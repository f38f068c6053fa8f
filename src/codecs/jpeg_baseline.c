/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_baseline.c - a decoder of our own for the files that nearly all photos are: baseline JPEG,
 * grey or YCbCr, chroma at full or half size. The pixels are those of libjpeg-turbo, bit for bit.
 *
 * Three quarters of a training pipeline's time went into libjpeg-turbo, most of it into Huffman
 * codes. This one takes about half as long, reads parts of an image without a pixel too many,
 * and can begin at a row that an index knows.
 *
 * Whatever is out of the ordinary is left to the next codec (MR_DECLINED): other kinds of JPEG, and
 * data with any fault in them. So there are no messages here, and no guesses about damage.
 *
 * A row of MCUs at a time is made into planes of samples, one for each component. Where chroma has
 * half of the rows, a row of pixels is made of two of them, and those may be of two MCU rows:
 * planes hold two then, in turns. */
#include "codecs/codec.h"
#include "codecs/jpeg_entropy.h"
#include "codecs/jpeg_index.h"
#include "codecs/jpeg_markers.h"
#include "codecs/pixels.h"
#include "core/error.h"
#include "kernels/kernels.h"

#include <string.h>

enum { CHUNK = 8 }; /* MCUs whose coefficients are kept at once */

typedef struct plane {
    uint8_t *samples; /* rows of them, with a margin on both sides */
    size_t stride;
    int64_t ring;   /* rows: a power of two */
    int64_t column; /* of the first sample */
    int64_t width, height;
    int32_t across, down;
    _Alignas(32) int16_t quantisers[MR_JPEG_BLOCK];
} plane;

typedef struct range {
    int64_t from, to;
} range;

typedef struct decoder {
    mr_jpeg_file file;
    mr_jpeg_frame frame;
    const mr_decode_request *request;
    const mr_kernels *kernels;
    mr_region part;      /* of pixels */
    range columns, rows; /* of MCUs that hold them, and what upsampling needs beside them */
    int64_t mcus_across, mcus_down;
    bool to_end;       /* whether the rows below are read too */
    bool skips;        /* whether there are MCUs that are not decoded */
    const mr_rows *to; /* part() */
    mr_status status;  /* of whoever took a row */
    mr_error *err;

    mr_jpeg_dc_table *dc[MR_JPEG_TABLES]; /* NULL: not in use */
    mr_jpeg_ac_table *ac[MR_JPEG_TABLES];
    mr_jpeg_mcu mcu;
    mr_jpeg_scan scan;
    plane planes[MR_JPEG_COMPONENTS];
    int64_t next_row;                    /* of pixels */
    uint8_t *chroma[MR_JPEG_COMPONENTS]; /* a row of it at full size; [0] is not used */
    uint8_t *pixels;                     /* a row of them */
    mr_jpeg_place *places;               /* of MCU rows, or NULL */
    int64_t n_places;                    /* rows that are known */
    int64_t n_indexed;                   /* of these, from the request's index */
    uint8_t known[CHUNK * MR_JPEG_MCU_BLOCKS];
    _Alignas(32) int16_t coefficients[CHUNK * MR_JPEG_MCU_BLOCKS * MR_JPEG_BLOCK + 1];
} decoder;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- What is needed ---- */

/* Of a row of chroma at half size: those of its samples that pixels from x on are made of. */
static range chroma_range(int64_t x, int64_t width, int64_t chroma_width) {
    return (range){most(x / 2 - 1, 0), least((x + width - 1) / 2 + 1, chroma_width - 1) + 1};
}

/* libjpeg reads another MCU row as soon as pixels of its first row of chroma may be wanted. It is
 * read here, too, so that the same damage is seen. */
static void find_needed(decoder *d) {
    const mr_region *p = &d->part;
    int64_t half_width = (d->frame.width + 1) / 2;
    range x = {p->x, p->x + p->width}, y = {p->y, p->y + p->height};
    x = d->frame.across == 2 ? chroma_range(p->x, p->width, half_width) : x;
    if (d->frame.down == 2) {
        y = (range){most((p->y + 1) / 2 - 1, 0), (p->y + p->height - 1) / 2 + 2};
    }
    d->columns = (range){x.from / 8, (x.to - 1) / 8 + 1};
    d->rows = (range){y.from / 8, least((y.to - 1) / 8 + 1, d->mcus_down)};
}

/* ---- Memory and tables ---- */
static void *take(decoder *d, size_t size) {
    void *memory = mr_scratch(d->request->call, size);
    if (!memory) {
        d->status = mr_fail_memory(d->err, size);
    }
    return memory;
}

/* For rows of samples, which kernels read beyond their ends, in whole vectors: what they make of
 * that is used by nobody, and is the same every time. */
static void *take_zeros(decoder *d, size_t size) {
    void *memory = take(d, size);
    return memory ? memset(memory, 0, size) : NULL;
}

static bool make_tables(decoder *d, const mr_jpeg_component *c) {
    if (!d->dc[c->dc]) {
        d->dc[c->dc] = take(d, sizeof *d->dc[0]);
        if (!d->dc[c->dc] || !mr_jpeg_make_dc(d->dc[c->dc], d->frame.dc[c->dc])) {
            return false;
        }
    }
    if (!d->ac[c->ac]) {
        d->ac[c->ac] = take(d, sizeof *d->ac[0]);
        if (!d->ac[c->ac] || !mr_jpeg_make_ac(d->ac[c->ac], d->frame.ac[c->ac])) {
            return false;
        }
        if (d->skips) {
            mr_jpeg_make_skip(d->ac[c->ac], d->frame.ac[c->ac]);
        }
    }
    return true;
}

static void make_quantisers(const mr_jpeg_frame *frame, int table, int16_t *out) {
    static const uint8_t order[MR_JPEG_BLOCK] = {
        0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
        41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
        30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
    const uint8_t *from = frame->quantisers[table];
    for (size_t i = 0; i < MR_JPEG_BLOCK; i++) {
        bool wide = frame->wide_quantisers[table];
        unsigned high = wide ? from[2 * i] : 0, low = wide ? from[2 * i + 1] : from[i];
        out[order[i]] = (int16_t)(uint16_t)(high << 8 | low);
    }
}

static bool make_plane(decoder *d, plane *p, const mr_jpeg_component *c) {
    const mr_jpeg_frame *f = &d->frame;
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

static void add_blocks(decoder *d, const mr_jpeg_component *c, int32_t component) {
    for (int i = 0; i < c->across * c->down; i++) {
        d->mcu.blocks[d->mcu.n_blocks++] =
            (mr_jpeg_mcu_block){d->dc[c->dc], d->ac[c->ac], component};
    }
}

static bool make_rows(decoder *d) {
    size_t width = (size_t)d->part.width + 2 + (size_t)2 * MR_JPEG_MARGIN;
    for (int i = 1; i < d->frame.n_components; i++) {
        d->chroma[i] = take_zeros(d, width);
        if (!d->chroma[i]) {
            return false;
        }
    }
    d->pixels = take(d, width * 3);
    return d->pixels != NULL;
}

static bool make_scan(decoder *d) {
    d->scan = (mr_jpeg_scan){.kernels = d->kernels,
                             .bytes = d->file.bytes,
                             .size = d->file.size,
                             .mcu = &d->mcu,
                             .interval = d->frame.restart_interval};
    d->scan.data = take(d, mr_jpeg_scan_memory(d->file.size, d->frame.scan));
    return d->scan.data != NULL;
}

static bool prepare(decoder *d) {
    for (int i = 0; i < d->frame.n_components; i++) {
        const mr_jpeg_component *c = &d->frame.components[i];
        if (!make_tables(d, c) || !make_plane(d, &d->planes[i], c)) {
            return false;
        }
        add_blocks(d, c, i);
    }
    return make_rows(d) && make_scan(d);
}

/* ---- Samples ---- */
static uint8_t *sample(const plane *p, int64_t y, int64_t x) {
    return p->samples + (size_t)(y & (p->ring - 1)) * p->stride + MR_JPEG_MARGIN + (x - p->column);
}

/* Samples of `n` blocks side by side, whose coefficients lie `apart` blocks from each other; two
 * at a time, and the last of an odd number with itself. */
static void transform_blocks(const decoder *d, const plane *p, int64_t first, int64_t apart,
                             int64_t n, uint8_t *out) {
    for (int64_t i = 0; i < n; i += 2) {
        int64_t a = first + i * apart, b = i + 1 < n ? a + apart : a;
        const int16_t *blocks[2] = {d->coefficients + a * MR_JPEG_BLOCK,
                                    d->coefficients + b * MR_JPEG_BLOCK};
        uint8_t *to[2] = {out + 8 * i, out + (a == b ? 8 * i : 8 * i + 8)};
        int32_t known = d->known[a] > d->known[b] ? d->known[a] : d->known[b];
        d->kernels->jpeg.idct(blocks, p->quantisers, to, p->stride, known);
    }
}

/* Samples of the blocks of one component in n MCUs from column mcu on; `first` is the first of its
 * blocks in an MCU. */
static void transform_component(const decoder *d, const plane *p, int32_t first, int64_t mcu_row,
                                int64_t mcu, int64_t n) {
    int64_t blocks = d->mcu.n_blocks;
    for (int32_t v = 0; v < p->down; v++) {
        uint8_t *out = sample(p, (mcu_row * p->down + v) * 8, mcu * p->across * 8);
        int64_t from = first + v * p->across;
        if (p->across == 1) {
            transform_blocks(d, p, from, blocks, n, out);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            transform_blocks(d, p, from + i * blocks, 1, 2, out + 16 * i);
        }
    }
}

/* Upsampling at the edge of the image takes the sample there for its missing neighbour. */
static void extend_edges(const decoder *d, const plane *p, int64_t mcu_row) {
    for (int64_t y = mcu_row * 8; y < mcu_row * 8 + 8; y++) {
        if (d->columns.from == 0) {
            *sample(p, y, -1) = *sample(p, y, 0);
        }
        if (d->columns.to == d->mcus_across) {
            *sample(p, y, p->width) = *sample(p, y, p->width - 1);
        }
    }
}

static bool decode_mcus(decoder *d, int64_t mcu_row) {
    for (int64_t mcu = d->columns.from; mcu < d->columns.to; mcu += CHUNK) {
        int64_t n = least(CHUNK, d->columns.to - mcu);
        if (!mr_jpeg_scan_decode(&d->scan, n, d->coefficients, d->known)) {
            return false;
        }
        int32_t first = 0;
        for (int i = 0; i < d->frame.n_components; i++) {
            transform_component(d, &d->planes[i], first, mcu_row, mcu, n);
            first += d->planes[i].across * d->planes[i].down;
        }
    }
    for (int i = 1; i < d->frame.n_components && d->frame.across == 2; i++) {
        extend_edges(d, &d->planes[i], mcu_row);
    }
    return true;
}

/* ---- Pixels ---- */

/* The row of a component that belongs to row y of pixels, from column x on; upsampled where it is
 * smaller. */
static const uint8_t *component_row(const decoder *d, int component, int64_t y) {
    const plane *p = &d->planes[component];
    const mr_jpeg_kernels *k = &d->kernels->jpeg;
    bool wide = p->across == d->frame.across, high = p->down == d->frame.down;
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
static const uint8_t *make_pixels(const decoder *d, int64_t y, uint8_t *out) {
    size_t n = (size_t)d->part.width;
    bool grey = d->request->channels == 1;
    const uint8_t *luma = component_row(d, 0, y);
    if (d->frame.n_components == 1) {
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

/* All rows of pixels whose samples are there once this MCU row is. */
static bool give_rows(decoder *d, int64_t mcu_row) {
    int64_t below = (mcu_row + 1) * 8 * d->frame.down;
    if (d->frame.down == 2 && mcu_row + 1 < d->mcus_down) {
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

/* ---- The index ---- */

/* What is right of the wanted columns need not be read where an index knows the next row: whoever
 * made it has read all before that, and found nothing wrong. */
static bool jumps(const decoder *d) {
    return d->columns.to < d->mcus_across && !d->to_end;
}

/* The last known place at or before MCU row `row`; others are noted on the way where they are
 * wanted. */
static bool open_index(decoder *d, int64_t row) {
    const mr_index *index = &d->request->index;
    bool useful = index->size > 0 && (row > 0 || d->request->better || jumps(d));
    int64_t known = useful ? mr_jpeg_index_rows(index, &d->file) : 0;
    known = d->request->better ? known : least(known, d->rows.to + 1);
    int64_t room = d->request->better ? d->mcus_down : most(known, 1);
    d->places = take(d, (size_t)room * sizeof *d->places);
    if (!d->places) {
        return false;
    }
    if (known == 0 || !mr_jpeg_index_read(index, &d->file, d->places, known)) {
        known = 1;
        d->places[0] = (mr_jpeg_place){.byte = d->frame.scan};
    }
    d->n_places = known;
    d->n_indexed = known;
    return true;
}

static bool note_place(decoder *d, int64_t row) {
    if (!d->request->better || row < d->n_places) {
        return true;
    }
    d->n_places = row + 1;
    return mr_jpeg_scan_place(&d->scan, &d->places[row]);
}

static bool give_index(decoder *d) {
    if (d->request->better && d->n_places > d->n_indexed) {
        uint8_t *out = take(d, mr_jpeg_index_memory(d->n_places));
        if (!out) {
            return false;
        }
        d->request->better->size = mr_jpeg_index_write(out, &d->file, d->places, d->n_places);
        d->request->better->data = out;
    }
    return true;
}

/* ---- The codec ---- */
static bool skip_rows(decoder *d, int64_t from, int64_t to) {
    for (int64_t row = from; row < to; row++) {
        if (!note_place(d, row) || !mr_jpeg_scan_skip(&d->scan, d->mcus_across)) {
            return false;
        }
    }
    return true;
}

static bool end_row(decoder *d, int64_t row) {
    if (row + 1 < d->n_indexed && jumps(d)) {
        mr_jpeg_scan_jump(&d->scan, &d->places[row + 1], (row + 1) * d->mcus_across);
        return true;
    }
    return mr_jpeg_scan_skip(&d->scan, d->mcus_across - d->columns.to);
}

static bool decode_row(decoder *d, int64_t row) {
    return note_place(d, row) && mr_jpeg_scan_skip(&d->scan, d->columns.from) &&
           decode_mcus(d, row) && end_row(d, row) && give_rows(d, row);
}

static bool decode_rows(decoder *d) {
    int64_t start = least(d->n_places - 1, d->rows.from);
    mr_jpeg_scan_begin(&d->scan, &d->places[start], start * d->mcus_across);
    if (!skip_rows(d, start, d->rows.from)) {
        return false;
    }
    for (int64_t row = d->rows.from; row < d->rows.to; row++) {
        if (!decode_row(d, row)) {
            return false;
        }
    }
    return !d->to_end || (skip_rows(d, d->rows.to, d->mcus_down) && mr_jpeg_scan_ends(&d->scan));
}

static bool open_decoder(decoder *d, const uint8_t *bytes, size_t size,
                         const mr_decode_request *request, mr_error *err) {
    d->file = (mr_jpeg_file){bytes, size, &d->frame};
    d->request = request;
    d->err = err;
    d->kernels = request->call->kernels ? request->call->kernels : mr_kernels_for(0);
    d->status = MR_OK;
    if (!mr_jpeg_read_frame(bytes, size, &d->frame)) {
        return false;
    }
    d->mcus_across = mr_jpeg_mcus_across(&d->frame);
    d->mcus_down = mr_jpeg_mcus_down(&d->frame);
    return d->frame.width == request->width && d->frame.height == request->height;
}

/* Smooth upsampling of libjpeg is another one for less than three columns. */
static bool is_wide_enough(const mr_jpeg_frame *frame) {
    return frame->across == 1 || (frame->width + 1) / 2 > 2;
}

static mr_status run(decoder *d, const mr_region *part) {
    d->part = *part;
    d->next_row = part->y;
    find_needed(d);
    d->skips = d->columns.from > 0 || d->columns.to < d->mcus_across || d->rows.from > 0 ||
               d->rows.to < d->mcus_down;
    bool done = is_wide_enough(&d->frame) && prepare(d) && open_index(d, d->rows.from) &&
                decode_rows(d) && give_index(d);
    return done ? MR_OK : d->status != MR_OK ? d->status : MR_DECLINED;
}

static mr_status with_decoder(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                              const mr_region *part, const mr_rows *to, mr_error *err) {
    decoder *d = mr_scratch(request->call, sizeof *d);
    if (!d) {
        return mr_fail_memory(err, sizeof *d);
    }
    memset(d, 0, offsetof(decoder, known));
    if (request->better) {
        *request->better = (mr_index){0};
    }
    if (!open_decoder(d, bytes, size, request, err)) {
        return MR_DECLINED;
    }
    d->to = to;
    d->to_end = !to || request->verify || !mr_jpeg_ends_as_it_should(bytes, size);
    return run(d, part);
}

static mr_status decode(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                        mr_error *err) {
    const mr_region all = {.width = request->width, .height = request->height};
    return with_decoder(bytes, size, request, &all, NULL, err);
}

static mr_status part(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                      const mr_region *wanted, const mr_rows *to, mr_error *err) {
    if (request->shrink > 1) {
        return MR_DECLINED;
    }
    return with_decoder(bytes, size, request, wanted, to, err);
}

static mr_status header(const uint8_t *bytes, size_t size, int64_t max_pixels, bool lenient,
                        mr_image_header *out, mr_error *err) {
    (void)err;
    mr_jpeg_frame frame;
    if (!mr_jpeg_read_frame(bytes, size, &frame) ||
        mr_codec_check_size(frame.width, frame.height, max_pixels, NULL) != MR_OK ||
        (!lenient && mr_jpeg_blocks(&frame) / 8 > size)) {
        return MR_DECLINED;
    }
    out->width = frame.width;
    out->height = frame.height;
    out->orientation = mr_orientation(&frame.metadata);
    return MR_OK;
}

/* Reads the scan to its end, decoding nothing. */
static mr_status index_of(const uint8_t *bytes, size_t size, mr_call *call, mr_index *out,
                          mr_error *err) {
    mr_image_header head;
    if (header(bytes, size, INT64_MAX, false, &head, err) != MR_OK) {
        return MR_DECLINED;
    }
    mr_decode_request request = {
        .width = head.width, .height = head.height, .channels = 1, .call = call, .better = out};
    decoder *d = mr_scratch(call, sizeof *d);
    if (!d) {
        return mr_fail_memory(err, sizeof *d);
    }
    memset(d, 0, offsetof(decoder, known));
    d->skips = true;
    bool done = open_decoder(d, bytes, size, &request, err) && prepare(d) && open_index(d, 0);
    if (done) {
        mr_jpeg_scan_begin(&d->scan, &d->places[0], 0);
        done = skip_rows(d, 0, d->mcus_down) && mr_jpeg_scan_ends(&d->scan) && give_index(d);
    }
    return done ? MR_OK : d->status != MR_OK ? d->status : MR_DECLINED;
}

extern const mr_codec mr_codec_jpeg_baseline;
const mr_codec mr_codec_jpeg_baseline = {
    .name = "jpeg_baseline",
    .format = "JPEG",
    .preference = 1,
    .sniff = mr_jpeg_sniff,
    .header = header,
    .decode = decode,
    .part = part,
    .index = index_of,
};
