/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_baseline.c - a decoder of our own for the files that nearly all photos are: baseline JPEG,
 * grey or YCbCr, chroma at full or half size. The pixels are those of libjpeg-turbo, bit for bit.
 *
 * Three quarters of a training pipeline's time went into libjpeg-turbo, most of it into Huffman
 * codes. This one takes about half as long, reads parts of an image without a pixel too many,
 * and can begin at a row that an index knows.
 *
 * Whatever is out of the ordinary is left to the next codec (MR_DECLINED): other kinds of JPEG, and
 * data with any fault in them. So there are no messages here, and no guesses about damage. */
#include "codecs/codec.h"
#include "codecs/jpeg_entropy.h"
#include "codecs/jpeg_index.h"
#include "codecs/jpeg_markers.h"
#include "codecs/jpeg_picture.h"
#include "core/error.h"

#include <string.h>

enum { CHUNK = 8 }; /* MCUs whose coefficients are kept at once */

typedef struct decoder {
    mr_jpeg_file file;
    mr_jpeg_frame frame;
    const mr_decode_request *request;
    mr_jpeg_picture picture;
    bool to_end; /* whether the rows below are read too */
    bool skips;  /* whether there are MCUs that are not decoded */

    mr_jpeg_dc_table *dc[MR_JPEG_TABLES]; /* NULL: not in use */
    mr_jpeg_ac_table *ac[MR_JPEG_TABLES];
    mr_jpeg_mcu mcu;
    mr_jpeg_scan scan;
    mr_jpeg_place *places; /* of MCU rows, or NULL */
    int64_t n_places;      /* rows that are known */
    int64_t n_indexed;     /* of these, from the request's index */
    uint8_t known[CHUNK * MR_JPEG_MCU_BLOCKS];
    _Alignas(32) int16_t coefficients[CHUNK * MR_JPEG_MCU_BLOCKS * MR_JPEG_BLOCK + 1];
} decoder;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Memory and tables ---- */
static void *take(decoder *d, size_t size) {
    return mr_jpeg_picture_take(&d->picture, size);
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

static void add_blocks(decoder *d, const mr_jpeg_component *c, int32_t component) {
    for (int i = 0; i < c->across * c->down; i++) {
        d->mcu.blocks[d->mcu.n_blocks++] =
            (mr_jpeg_mcu_block){d->dc[c->dc], d->ac[c->ac], component};
    }
}

static bool make_scan(decoder *d) {
    d->scan = (mr_jpeg_scan){.kernels = d->picture.kernels,
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
        if (!make_tables(d, c)) {
            return false;
        }
        add_blocks(d, c, i);
    }
    return mr_jpeg_picture_prepare(&d->picture) && make_scan(d);
}

/* ---- Samples ---- */

/* Those of the blocks of one component in n MCUs from column mcu on; `first` is the first of its
 * blocks in an MCU. */
static void put_component(const decoder *d, int component, int32_t first, int64_t mcu_row,
                          int64_t mcu, int64_t n) {
    const mr_jpeg_component *c = &d->frame.components[component];
    int64_t blocks = d->mcu.n_blocks, side_by_side = c->across == 1 ? n : 2;
    for (int32_t v = 0; v < c->down; v++) {
        int64_t y = (mcu_row * c->down + v) * 8;
        for (int64_t i = 0; i < n; i += c->across == 1 ? n : 1) {
            int64_t from = first + v * c->across + i * blocks;
            const mr_jpeg_coefficients of = {d->coefficients + from * MR_JPEG_BLOCK,
                                             d->known + from};
            mr_jpeg_picture_put(&d->picture, component, of, c->across == 1 ? blocks : 1,
                                side_by_side, y, (mcu + i) * c->across * 8);
        }
    }
}

static bool decode_mcus(decoder *d, int64_t mcu_row) {
    mr_jpeg_range columns = d->picture.columns;
    for (int64_t mcu = columns.from; mcu < columns.to; mcu += CHUNK) {
        int64_t n = least(CHUNK, columns.to - mcu);
        if (!mr_jpeg_scan_decode(&d->scan, n, d->coefficients, d->known)) {
            return false;
        }
        int32_t first = 0;
        for (int i = 0; i < d->frame.n_components; i++) {
            put_component(d, i, first, mcu_row, mcu, n);
            first += d->frame.components[i].across * d->frame.components[i].down;
        }
    }
    return true;
}

/* ---- The index ---- */

/* What is right of the wanted columns need not be read where an index knows the next row: whoever
 * made it has read all before that, and found nothing wrong. */
static bool jumps(const decoder *d) {
    return d->picture.columns.to < d->picture.mcus_across && !d->to_end;
}

/* The last known place at or before MCU row `row`; others are noted on the way where they are
 * wanted. */
static bool open_index(decoder *d, int64_t row) {
    const mr_index *index = &d->request->index;
    bool useful = index->size > 0 && (row > 0 || d->request->better || jumps(d));
    int64_t known = useful ? mr_jpeg_index_rows(index, &d->file) : 0;
    known = d->request->better ? known : least(known, d->picture.rows.to + 1);
    int64_t room = d->request->better ? d->picture.mcus_down : most(known, 1);
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
        if (!note_place(d, row) || !mr_jpeg_scan_skip(&d->scan, d->picture.mcus_across)) {
            return false;
        }
    }
    return true;
}

static bool end_row(decoder *d, int64_t row) {
    if (row + 1 < d->n_indexed && jumps(d)) {
        mr_jpeg_scan_jump(&d->scan, &d->places[row + 1], (row + 1) * d->picture.mcus_across);
        return true;
    }
    return mr_jpeg_scan_skip(&d->scan, d->picture.mcus_across - d->picture.columns.to);
}

static bool decode_row(decoder *d, int64_t row) {
    return note_place(d, row) && mr_jpeg_scan_skip(&d->scan, d->picture.columns.from) &&
           decode_mcus(d, row) && end_row(d, row) && mr_jpeg_picture_give(&d->picture, row);
}

static bool decode_rows(decoder *d) {
    int64_t start = least(d->n_places - 1, d->picture.rows.from);
    mr_jpeg_scan_begin(&d->scan, &d->places[start], start * d->picture.mcus_across);
    if (!skip_rows(d, start, d->picture.rows.from)) {
        return false;
    }
    for (int64_t row = d->picture.rows.from; row < d->picture.rows.to; row++) {
        if (!decode_row(d, row)) {
            return false;
        }
    }
    return !d->to_end ||
           (skip_rows(d, d->picture.rows.to, d->picture.mcus_down) && mr_jpeg_scan_ends(&d->scan));
}

static bool open_decoder(decoder *d, const uint8_t *bytes, size_t size,
                         const mr_decode_request *request, mr_error *err) {
    d->file = (mr_jpeg_file){bytes, size, &d->frame};
    d->request = request;
    return mr_jpeg_read_frame(bytes, size, &d->frame) &&
           mr_jpeg_picture_open(&d->picture, &d->frame, request, err);
}

static mr_status run(decoder *d, const mr_region *part, const mr_rows *to) {
    mr_jpeg_picture *p = &d->picture;
    bool done = mr_jpeg_picture_want(p, part, to);
    d->skips = p->columns.from > 0 || p->columns.to < p->mcus_across || p->rows.from > 0 ||
               p->rows.to < p->mcus_down;
    done = done && prepare(d) && open_index(d, p->rows.from) && decode_rows(d) && give_index(d);
    return done ? MR_OK : p->status != MR_OK ? p->status : MR_DECLINED;
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
    d->to_end = !to || request->verify || !mr_jpeg_ends_as_it_should(bytes, size);
    return run(d, part, to);
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
        done =
            skip_rows(d, 0, d->picture.mcus_down) && mr_jpeg_scan_ends(&d->scan) && give_index(d);
    }
    return done ? MR_OK : d->picture.status != MR_OK ? d->picture.status : MR_DECLINED;
}

extern const mr_codec mr_codec_jpeg_baseline;
const mr_codec mr_codec_jpeg_baseline = {
    .name = "jpeg_baseline",
    .format = "JPEG",
    .preference = 2,
    .sniff = mr_jpeg_sniff,
    .header = header,
    .decode = decode,
    .part = part,
    .index = index_of,
};
