/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_progressive.c - a decoder of our own for progressive JPEG, grey or YCbCr, chroma at full or
 * half size; many photos on the web are such. The pixels are those of libjpeg-turbo, bit for bit.
 *
 * All scans are read before there is a first pixel, also for a part of the image: so does libjpeg,
 * and so it sees the same damage. Whatever is out of the ordinary is left to the next codec, as in
 * jpeg_baseline.c. That includes scans that tell a coefficient twice, and files whose scans do not
 * tell all of it: libjpeg smooths those. */
#include "codecs/codec.h"
#include "codecs/jpeg_markers.h"
#include "codecs/jpeg_picture.h"
#include "codecs/jpeg_scans.h"
#include "core/error.h"

#include <string.h>

enum { UNTOLD = -1, LOW_MAX = 13, SMOOTHED = 10 };

typedef struct decoder {
    const uint8_t *bytes;
    size_t size;
    mr_jpeg_frame frame;
    mr_jpeg_picture picture;
    mr_jpeg_scans scans;
    uint8_t *known;                                    /* of a row of blocks */
    int8_t missing[MR_JPEG_COMPONENTS][MR_JPEG_BLOCK]; /* bits of a coefficient, or UNTOLD */
} decoder;

/* ---- Memory ---- */
static bool make_store(decoder *d, mr_jpeg_store *s, const mr_jpeg_component *c) {
    const mr_jpeg_frame *f = &d->frame;
    int64_t across = (int64_t)8 * f->across, down = (int64_t)8 * f->down;
    s->across = c->across;
    s->down = c->down;
    s->width = (f->width * (int64_t)c->across + across - 1) / across;
    s->height = (f->height * (int64_t)c->down + down - 1) / down;
    s->stride = d->picture.mcus_across * c->across;
    size_t blocks = (size_t)(s->stride * d->picture.mcus_down * c->down);
    s->coefficients =
        mr_jpeg_picture_take(&d->picture, blocks * MR_JPEG_BLOCK * sizeof *s->coefficients);
    s->nonzero = mr_jpeg_picture_take(&d->picture, blocks * sizeof *s->nonzero);
    return s->coefficients && s->nonzero;
}

static bool prepare(decoder *d) {
    for (int i = 0; i < d->frame.n_components; i++) {
        if (!make_store(d, &d->scans.stores[i], &d->frame.components[i])) {
            return false;
        }
    }
    mr_jpeg_scan *scan = &d->scans.scan;
    d->scans.frame = &d->frame;
    *scan = (mr_jpeg_scan){.kernels = d->picture.kernels, .bytes = d->bytes, .size = d->size};
    scan->data = mr_jpeg_picture_take(&d->picture, mr_jpeg_scan_memory(d->size, d->frame.scan));
    d->known = mr_jpeg_picture_take(&d->picture, (size_t)d->scans.stores[0].stride);
    return scan->data && d->known && mr_jpeg_picture_prepare(&d->picture);
}

/* ---- Scans ---- */
static bool is_regular(const mr_jpeg_progression *g) {
    bool band = g->from == 0 ? g->to == 0
                             : g->to >= g->from && g->to < MR_JPEG_BLOCK && g->n_components == 1;
    return band && g->low <= LOW_MAX && (g->high == 0 || g->low == g->high - 1);
}

/* Whether a scan goes on where those before it ended; notes what it tells. */
static bool follows(decoder *d, const mr_jpeg_progression *g) {
    for (int32_t i = 0; i < g->n_components; i++) {
        int8_t *missing = d->missing[g->components[i]];
        if (g->from > 0 && missing[0] == UNTOLD) {
            return false;
        }
        for (int32_t k = g->from; k <= g->to; k++) {
            if (missing[k] != (g->high == 0 ? UNTOLD : g->high)) {
                return false;
            }
            missing[k] = (int8_t)g->low;
        }
    }
    return true;
}

/* As is_complete() of jpeg.c. */
static bool all_told(const decoder *d) {
    for (int32_t i = 0; i < d->frame.n_components; i++) {
        for (int k = 0; k < MR_JPEG_BLOCK; k++) {
            if (d->missing[i][k] > 0 || (k < SMOOTHED && d->missing[i][k] == UNTOLD)) {
                return false;
            }
        }
    }
    return true;
}

static bool read_scans(decoder *d) {
    size_t at = d->frame.scan;
    int marker = 0;
    memset(d->missing, UNTOLD, sizeof d->missing);
    while (marker != MR_JPEG_EOI) {
        mr_jpeg_progression g;
        if (!mr_jpeg_read_progression(d->bytes, d->size, &at, &d->frame, &g) || !is_regular(&g) ||
            !follows(d, &g) || !mr_jpeg_scans_read(&d->scans, &g, at, &marker)) {
            return false;
        }
        at = d->scans.scan.read;
    }
    return all_told(d);
}

/* ---- Pixels ---- */

/* The first of a row of blocks, and how many of them hold pixels that are wanted. */
static mr_jpeg_range wanted_blocks(const decoder *d, const mr_jpeg_store *s) {
    int64_t from = d->picture.columns.from * s->across, to = d->picture.columns.to * s->across;
    return (mr_jpeg_range){from, to < s->width ? to : s->width};
}

static void put_blocks(decoder *d, int component, int64_t row) {
    const mr_jpeg_store *s = &d->scans.stores[component];
    mr_jpeg_range columns = wanted_blocks(d, s);
    const uint64_t *nonzero = s->nonzero + row * s->stride + columns.from;
    int64_t n = columns.to - columns.from, first = row * s->stride + columns.from;
    for (int64_t i = 0; i < n; i++) {
        uint64_t with_dc = nonzero[i] | UINT64_C(1) << 63;
        d->known[i] = (uint8_t)(MR_JPEG_BLOCK - __builtin_ctzll(with_dc));
    }
    const mr_jpeg_coefficients of = {s->coefficients + first * MR_JPEG_BLOCK, d->known};
    mr_jpeg_picture_put(&d->picture, component, of, 1, n, row * 8, columns.from * 8);
}

static bool put_rows(decoder *d) {
    for (int64_t row = d->picture.rows.from; row < d->picture.rows.to; row++) {
        for (int i = 0; i < d->frame.n_components; i++) {
            const mr_jpeg_store *s = &d->scans.stores[i];
            for (int64_t y = row * s->down; y < (row + 1) * s->down && y < s->height; y++) {
                put_blocks(d, i, y);
            }
        }
        if (!mr_jpeg_picture_give(&d->picture, row)) {
            return false;
        }
    }
    return true;
}

/* ---- The codec ---- */

/* Every block takes a bit at least. */
static bool is_long_enough(const mr_jpeg_frame *frame, size_t size) {
    return mr_jpeg_blocks(frame) / 8 <= size;
}

static mr_status with_decoder(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                              const mr_region *part, const mr_rows *to, mr_error *err) {
    decoder *d = mr_scratch(request->call, sizeof *d);
    if (!d) {
        return mr_fail_memory(err, sizeof *d);
    }
    d->bytes = bytes;
    d->size = size;
    if (!mr_jpeg_read_progressive(bytes, size, &d->frame) || !is_long_enough(&d->frame, size) ||
        !mr_jpeg_picture_open(&d->picture, &d->frame, request, err) ||
        !mr_jpeg_picture_want(&d->picture, part, to)) {
        return MR_DECLINED;
    }
    bool done = prepare(d) && read_scans(d) && put_rows(d);
    return done ? MR_OK : d->picture.status != MR_OK ? d->picture.status : MR_DECLINED;
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

/* Refuses what libjpeg's codec refuses, by leaving it to that one. */
static mr_status header(const uint8_t *bytes, size_t size, int64_t max_pixels, bool lenient,
                        mr_image_header *out, mr_error *err) {
    (void)lenient, (void)err;
    mr_jpeg_frame frame;
    mr_jpeg_survey seen;
    if (!mr_jpeg_read_progressive(bytes, size, &frame) || !is_long_enough(&frame, size) ||
        mr_codec_check_size(frame.width, frame.height, max_pixels, NULL) != MR_OK ||
        mr_jpeg_look_through(bytes, size, true, &seen, NULL) != MR_OK ||
        !mr_jpeg_scans_allowed(frame.width, frame.height, seen.scans)) {
        return MR_DECLINED;
    }
    out->width = frame.width;
    out->height = frame.height;
    out->orientation = mr_orientation(&frame.metadata);
    return MR_OK;
}

extern const mr_codec mr_codec_jpeg_progressive;
const mr_codec mr_codec_jpeg_progressive = {
    .name = "jpeg_progressive",
    .format = "JPEG",
    .preference = 1, /* asked after jpeg_baseline, whose files are more common */
    .sniff = mr_jpeg_sniff,
    .header = header,
    .decode = decode,
    .part = part,
};
