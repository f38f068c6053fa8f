/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_markers.c - the segments of a JPEG file. One reader takes any file and finds markers as
 * libjpeg does; the other takes nothing but regular baseline files, and knows all about them. */
#include "codecs/jpeg_markers.h"

#include <string.h>

#include "core/error.h"

enum { SEGMENT_COST = 16 }; /* so that a million empty ones are too many */

const uint8_t mr_jpeg_natural[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

typedef struct segment {
    int marker;
    const uint8_t *data;
    size_t size;
} segment;

static size_t read_16(const uint8_t *p) {
    return (size_t)(p[0] << 8 | p[1]);
}

static bool has_payload(int marker) {
    return marker != MR_JPEG_SOI && marker != MR_JPEG_TEM &&
           !(marker >= MR_JPEG_RST0 && marker <= MR_JPEG_RST7);
}

bool mr_jpeg_sniff(const uint8_t *bytes, size_t size) {
    return size >= 3 && memcmp(bytes, "\xFF\xD8\xFF", 3) == 0;
}

bool mr_jpeg_ends_as_it_should(const uint8_t *bytes, size_t size) {
    return size >= 2 && bytes[size - 2] == 0xFF && bytes[size - 1] == MR_JPEG_EOI;
}

/* ---- Any file ---- */

/* The next segment from *at on, past image data and garbage; false at EOI or the end of the file.
 * Finds markers as libjpeg does. */
static bool next_segment(const uint8_t *bytes, size_t size, size_t *at, segment *out) {
    const uint8_t *end = bytes + size, *p = bytes + *at;
    while (p < end && (p = memchr(p, 0xFF, (size_t)(end - p))) != NULL) {
        while (p < end && *p == 0xFF) {
            p++;
        }
        int marker = p < end ? *p++ : MR_JPEG_EOI;
        if (marker == MR_JPEG_EOI) {
            return false;
        }
        if (marker == 0 || !has_payload(marker)) {
            continue;
        }
        size_t left = (size_t)(end - p), length = left >= 2 ? read_16(p) : 0;
        if (length < 2 || length > left) {
            return false;
        }
        *out = (segment){marker, p + 2, length - 2};
        *at = (size_t)(p - bytes) + length;
        return true;
    }
    return false;
}

static void note_metadata(const segment *s, mr_metadata *metadata) {
    static const char xmp[] = "http://ns.adobe.com/xap/1.0/";
    if (s->marker != MR_JPEG_APP1) {
        return;
    }
    if (s->size > 6 && memcmp(s->data, "Exif\0", 6) == 0 && metadata->exif_size == 0) {
        metadata->exif = s->data;
        metadata->exif_size = s->size;
    } else if (s->size > sizeof xmp && memcmp(s->data, xmp, sizeof xmp) == 0) {
        metadata->xmp = s->data + sizeof xmp;
        metadata->xmp_size = s->size - sizeof xmp;
    }
}

mr_status mr_jpeg_look_through(const uint8_t *bytes, size_t size, bool whole, mr_jpeg_survey *out,
                               mr_error *err) {
    segment s;
    size_t at = 2;
    *out = (mr_jpeg_survey){0};
    while ((whole || out->scans == 0) && next_segment(bytes, size, &at, &s)) {
        if (s.marker == MR_JPEG_SOS) {
            out->scans++;
        }
        out->cost += s.size + SEGMENT_COST;
        if (out->cost > MR_METADATA_MAX) {
            return mr_codec_at_byte(err, mr_codec_too_much_metadata("JPEG", err), at);
        }
        note_metadata(&s, &out->metadata);
    }
    return MR_OK;
}

/* A progressive file costs pixels x scans, whatever its size: a few hundred kilobytes can keep a
 * core busy for a minute. Encoders write about 10 scans. */
bool mr_jpeg_scans_allowed(int64_t width, int64_t height, int64_t scans) {
    enum { SCANS_ALWAYS = 32, SCANS_NEVER = 500, SCANNED_PIXELS_MAX = 1 << 28 };
    return scans <= SCANS_ALWAYS ||
           (scans <= SCANS_NEVER && width * height <= SCANNED_PIXELS_MAX / scans);
}

/* ---- Files for our own decoders ---- */
typedef struct header_reader {
    mr_jpeg_frame *frame;
    bool progressive; /* the kind of files that is read */
    bool has_frame, jfif, adobe;
} header_reader;

/* The segment that begins exactly at *at. */
static bool strict_segment(const uint8_t *bytes, size_t size, size_t *at, segment *out) {
    if (size - *at < 4 || bytes[*at] != 0xFF) {
        return false;
    }
    size_t length = read_16(bytes + *at + 2);
    if (length < 2 || length > size - *at - 2) {
        return false;
    }
    *out = (segment){bytes[*at + 1], bytes + *at + 4, length - 2};
    *at += 2 + length;
    return true;
}

static bool read_quantisers(const segment *s, mr_jpeg_frame *frame) {
    const uint8_t *p = s->data, *end = s->data + s->size;
    while (p < end) {
        int wide = *p >> 4, table = *p & 15;
        size_t bytes = wide ? 128 : 64;
        p++;
        if (wide > 1 || table >= MR_JPEG_TABLES || (size_t)(end - p) < bytes) {
            return false;
        }
        frame->quantisers[table] = p;
        frame->wide_quantisers[table] = wide == 1;
        p += bytes;
    }
    return true;
}

static bool read_codes(const segment *s, mr_jpeg_frame *frame) {
    const uint8_t *p = s->data, *end = s->data + s->size;
    while (p < end) {
        int class = *p >> 4, table = *p & 15;
        size_t symbols = 0;
        p++;
        if (class > 1 || table >= MR_JPEG_TABLES || end - p < 16) {
            return false;
        }
        for (int i = 0; i < 16; i++) {
            symbols += p[i];
        }
        if (symbols > 256 || (size_t)(end - p) < 16 + symbols) {
            return false;
        }
        (class ? frame->ac : frame->dc)[table] = p;
        p += 16 + symbols;
    }
    return true;
}

static bool read_restart_interval(const segment *s, mr_jpeg_frame *frame) {
    frame->restart_interval = s->size == 2 ? (int32_t)read_16(s->data) : 0;
    return s->size == 2;
}

static bool read_frame_header(const segment *s, header_reader *r) {
    const uint8_t *p = s->data;
    mr_jpeg_frame *frame = r->frame;
    if (r->has_frame || s->size < 6 || p[0] != 8 || (p[5] != 1 && p[5] != 3) ||
        s->size != 6 + 3 * (size_t)p[5]) {
        return false;
    }
    r->has_frame = true;
    frame->height = (int32_t)read_16(p + 1);
    frame->width = (int32_t)read_16(p + 3);
    frame->n_components = p[5];
    for (int i = 0; i < frame->n_components; i++) {
        const uint8_t *c = p + 6 + 3 * (size_t)i;
        frame->components[i] = (mr_jpeg_component){
            .id = c[0], .across = c[1] >> 4, .down = c[1] & 15, .quantisers = c[2]};
    }
    return frame->height > 0 && frame->width > 0 && frame->height <= 65500 && frame->width <= 65500;
}

/* Chroma of one block, luma of 1 or 2 in each direction. */
static bool sampling_is_known(mr_jpeg_frame *frame) {
    const mr_jpeg_component *c = frame->components;
    int most = frame->n_components == 1 ? 1 : 2;
    for (int i = 1; i < frame->n_components; i++) {
        if (c[i].across != 1 || c[i].down != 1) {
            return false;
        }
    }
    frame->across = c[0].across;
    frame->down = c[0].down;
    return c[0].across >= 1 && c[0].across <= most && c[0].down >= 1 && c[0].down <= most;
}

/* libjpeg takes three components for YCbCr if a JFIF or Adobe segment says so, or their numbers. */
static bool is_ycbcr(const header_reader *r) {
    const mr_jpeg_component *c = r->frame->components;
    return r->frame->n_components == 1 || r->jfif || r->adobe ||
           (c[0].id == 1 && c[1].id == 2 && c[2].id == 3);
}

static bool components_are_regular(const header_reader *r) {
    const mr_jpeg_component *c = r->frame->components;
    for (int i = 0; i < r->frame->n_components; i++) {
        if (c[i].quantisers >= MR_JPEG_TABLES || !r->frame->quantisers[c[i].quantisers]) {
            return false;
        }
        for (int k = 0; k < i; k++) {
            if (c[k].id == c[i].id) {
                return false;
            }
        }
    }
    return sampling_is_known(r->frame) && is_ycbcr(r);
}

static bool read_scan_header(const segment *s, header_reader *r) {
    mr_jpeg_frame *frame = r->frame;
    const uint8_t *p = s->data;
    size_t n = (size_t)frame->n_components;
    if (!r->has_frame || s->size != 4 + 2 * n || p[0] != n ||
        memcmp(p + 1 + 2 * n, "\0\77\0", 3) != 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        mr_jpeg_component *c = &frame->components[i];
        c->dc = p[2 + 2 * i] >> 4;
        c->ac = p[2 + 2 * i] & 15;
        if (p[1 + 2 * i] != c->id || c->dc >= MR_JPEG_TABLES || c->ac >= MR_JPEG_TABLES ||
            !frame->dc[c->dc] || !frame->ac[c->ac]) {
            return false;
        }
    }
    return components_are_regular(r);
}

/* The component with this number, from component `from` on; that of the frame's end if there is
 * none. */
static int32_t find_component(const mr_jpeg_frame *frame, uint8_t id, int32_t from) {
    while (from < frame->n_components && frame->components[from].id != id) {
        from++;
    }
    return from;
}

static bool read_progression(const segment *s, mr_jpeg_frame *frame, mr_jpeg_progression *out) {
    const uint8_t *p = s->data, *end = s->data + s->size;
    size_t n = s->size > 0 ? p[0] : 0;
    int32_t next = 0;
    if (n == 0 || n > (size_t)frame->n_components || s->size != 4 + 2 * n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        next = find_component(frame, p[1 + 2 * i], next);
        if (next == frame->n_components) {
            return false;
        }
        frame->components[next].dc = p[2 + 2 * i] >> 4;
        frame->components[next].ac = p[2 + 2 * i] & 15;
        out->components[i] = next++;
    }
    out->n_components = (int32_t)n;
    out->from = end[-3];
    out->to = end[-2];
    out->high = end[-1] >> 4;
    out->low = end[-1] & 15;
    return true;
}

/* libjpeg looks at the first scan's segment before it tells the size. */
static bool begins_regularly(const segment *s, const header_reader *r) {
    mr_jpeg_progression first;
    return r->has_frame && components_are_regular(r) && read_progression(s, r->frame, &first);
}

static bool read_application(const segment *s, header_reader *r) {
    if (s->marker == MR_JPEG_APP0 && s->size >= 5 && memcmp(s->data, "JFIF", 5) == 0) {
        r->jfif |= s->size >= 14;
        return s->size < 14 || s->data[5] == 1;
    }
    if (s->marker == MR_JPEG_APP14 && s->size >= 5 && memcmp(s->data, "Adobe", 5) == 0) {
        r->adobe = true;
        return s->size >= 12 && s->data[11] == 1;
    }
    note_metadata(s, &r->frame->metadata);
    return true;
}

static bool read_segment(const segment *s, header_reader *r) {
    switch (s->marker) {
    case MR_JPEG_SOF0:
    case MR_JPEG_SOF1:
        return !r->progressive && read_frame_header(s, r);
    case MR_JPEG_SOF2:
        return r->progressive && read_frame_header(s, r);
    case MR_JPEG_DQT:
        return read_quantisers(s, r->frame);
    case MR_JPEG_DHT:
        return read_codes(s, r->frame);
    case MR_JPEG_SOS:
        return r->progressive ? begins_regularly(s, r) : read_scan_header(s, r);
    case MR_JPEG_DRI:
        return read_restart_interval(s, r->frame);
    default:
        return (s->marker >= MR_JPEG_APP0 && s->marker <= MR_JPEG_APP15) || s->marker == MR_JPEG_COM
                   ? read_application(s, r)
                   : false;
    }
}

/* Up to the first scan: *scan is where its segment begins, *at where it ends. */
static bool read_headers(header_reader *r, const uint8_t *bytes, size_t size, size_t *scan,
                         size_t *at) {
    segment s = {0};
    size_t cost = 0;
    *r->frame = (mr_jpeg_frame){0};
    if (!mr_jpeg_sniff(bytes, size)) {
        return false;
    }
    for (*at = 2; s.marker != MR_JPEG_SOS;) {
        *scan = *at;
        if (!strict_segment(bytes, size, at, &s) || !read_segment(&s, r)) {
            return false;
        }
        cost += s.size + SEGMENT_COST;
        if (cost > MR_METADATA_MAX) {
            return false;
        }
    }
    return true;
}

bool mr_jpeg_read_frame(const uint8_t *bytes, size_t size, mr_jpeg_frame *out) {
    header_reader r = {.frame = out};
    size_t scan, at = 0;
    bool regular = read_headers(&r, bytes, size, &scan, &at);
    out->scan = at;
    return regular;
}

/* ---- Progressive files ---- */
bool mr_jpeg_read_progressive(const uint8_t *bytes, size_t size, mr_jpeg_frame *out) {
    header_reader r = {.frame = out, .progressive = true};
    size_t scan = 0, at;
    bool regular = read_headers(&r, bytes, size, &scan, &at);
    out->scan = scan;
    return regular;
}

bool mr_jpeg_read_progression(const uint8_t *bytes, size_t size, size_t *at, mr_jpeg_frame *frame,
                              mr_jpeg_progression *out) {
    segment s;
    while (strict_segment(bytes, size, at, &s)) {
        bool regular = s.marker == MR_JPEG_DHT   ? read_codes(&s, frame)
                       : s.marker == MR_JPEG_DRI ? read_restart_interval(&s, frame)
                                                 : false;
        if (s.marker == MR_JPEG_SOS) {
            return read_progression(&s, frame, out);
        }
        if (!regular) {
            return false;
        }
    }
    return false;
}

/* ---- Sizes ---- */
static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

int64_t mr_jpeg_mcus_across(const mr_jpeg_frame *frame) {
    return divide_up(frame->width, (int64_t)8 * frame->across);
}

int64_t mr_jpeg_mcus_down(const mr_jpeg_frame *frame) {
    return divide_up(frame->height, (int64_t)8 * frame->down);
}

uint64_t mr_jpeg_blocks(const mr_jpeg_frame *frame) {
    int64_t blocks = 0;
    for (int i = 0; i < frame->n_components; i++) {
        const mr_jpeg_component *c = &frame->components[i];
        blocks += divide_up((int64_t)frame->width * c->across, (int64_t)8 * frame->across) *
                  divide_up((int64_t)frame->height * c->down, (int64_t)8 * frame->down);
    }
    return (uint64_t)blocks;
}
