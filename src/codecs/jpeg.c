/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg.c - JPEG through libjpeg-turbo. MR_REQUIRES(libjpeg)
 *
 * Pixels are those of Pillow: accurate integer DCT, smooth upsampling, CMYK taken as Adobe stores
 * it. A warning of the library means that it guessed (grey filler for missing data, for instance),
 * so it counts as damage unless the request is lenient.
 *
 * libjpeg reports failure through a callback that must not return: it jumps back into guarded().
 * Everything that is alive across the jump lives in the reader, and the only memory that libjpeg
 * allocates meanwhile is its own, freed there too. */
#include "codecs/codec.h"
#include "codecs/exif.h"
#include "codecs/jpeg_markers.h"
#include "codecs/pixels.h"
#include "core/error.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>

/* ---- libjpeg with a way back ---- */
typedef struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf trap;
    mr_status status; /* what the jump brings back */
    mr_error *err;
    const uint8_t *bytes;
    size_t size;
    bool lenient;
    int64_t max_pixels;               /* header() */
    mr_image_header *header;          /* header() */
    const mr_decode_request *request; /* decode() */
    uint8_t *row;                     /* one row before it is converted, or NULL */
    const mr_region *part;            /* part() */
    const mr_rows *to;                /* part() */
} reader;

static reader *reader_of(j_common_ptr jpeg) {
    return jpeg->client_data;
}

/* Bytes consumed. After the end libjpeg reads from a made-up EOI outside the file. */
static size_t position(const reader *r) {
    const struct jpeg_source_mgr *source = r->jpeg.src;
    if (!source || source->next_input_byte < r->bytes ||
        source->next_input_byte > r->bytes + r->size) {
        return r->size;
    }
    return (size_t)(source->next_input_byte - r->bytes);
}

static _Noreturn void give_up(reader *r, mr_status status) {
    r->status = mr_codec_at_byte(r->err, status, position(r));
    longjmp(r->trap, 1);
}

static mr_status status_of(int message) {
    switch (message) {
    case JERR_OUT_OF_MEMORY:
        return MR_E_MEMORY;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
        return MR_E_UNSUPPORTED;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        return MR_E_LIMIT;
    default:
        return MR_E_CORRUPT;
    }
}

static void on_error(j_common_ptr jpeg) {
    reader *r = reader_of(jpeg);
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    give_up(r, mr_fail(r->err, status_of(jpeg->err->msg_code), "cannot decode JPEG: %s", text));
}

/* Warnings that guess no pixel: a version number, and bytes between the segments before the first
 * scan, which are passed over. Behind a scan such bytes may be what is left of a damaged one. */
static bool is_harmless(const reader *r) {
    int code = r->errors.msg_code;
    return code == JWRN_JFIF_MAJOR ||
           (code == JWRN_EXTRANEOUS_DATA && r->jpeg.input_scan_number == 0);
}

static void on_message(j_common_ptr jpeg, int level) {
    reader *r = reader_of(jpeg);
    if (level >= 0 || r->lenient || is_harmless(r)) {
        return;
    }
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    mr_status status = mr_fail(r->err, MR_E_CORRUPT, "cannot decode JPEG: %s", text);
    mr_hint(r->err, "libjpeg would go on with guessed pixels; \"lenient\": true allows it");
    give_up(r, status);
}

static void on_output(j_common_ptr jpeg) {
    (void)jpeg; /* the library would print to stderr */
}

static mr_status too_many_scans(reader *r, int64_t scans) {
    return mr_fail(r->err, MR_E_LIMIT, "cannot decode JPEG: %lld scans over %u x %u pixels",
                   (long long)scans, r->jpeg.image_width, r->jpeg.image_height);
}

static bool scans_allowed(const reader *r, int64_t scans) {
    return mr_jpeg_scans_allowed(r->jpeg.image_width, r->jpeg.image_height, scans);
}

/* header() counted the scans; this holds even if libjpeg counts otherwise. */
static void on_progress(j_common_ptr jpeg) {
    reader *r = reader_of(jpeg);
    if (!scans_allowed(r, r->jpeg.input_scan_number)) {
        give_up(r, too_many_scans(r, r->jpeg.input_scan_number));
    }
}

static void open_file(reader *r) {
    jpeg_create_decompress(&r->jpeg);
    r->progress.progress_monitor = on_progress;
    r->jpeg.progress = &r->progress;
    jpeg_mem_src(&r->jpeg, r->bytes, (unsigned long)r->size);
    jpeg_read_header(&r->jpeg, TRUE);
}

/* Runs work() so that libjpeg's errors come back here. */
static mr_status guarded(reader *r, mr_status (*work)(reader *r)) {
    mr_status status;
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->jpeg.client_data = r;
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    r->errors.output_message = on_output;
    if (setjmp(r->trap) == 0) {
        status = work(r);
    } else {
        status = r->status;
    }
    jpeg_destroy_decompress(&r->jpeg);
    return status;
}

/* ---- Header ---- */
/* Huffman codes take at least a bit for the DC value of every block, so a short file cannot hold a
 * large image: known before libjpeg allocates and fills it. */
static mr_status check_enough_data(reader *r) {
    uint64_t blocks = 0;
    for (int i = 0; i < r->jpeg.num_components; i++) {
        const jpeg_component_info *c = &r->jpeg.comp_info[i];
        blocks += (uint64_t)c->width_in_blocks * c->height_in_blocks;
    }
    if (r->jpeg.arith_code || r->lenient || blocks / 8 <= r->size) {
        return MR_OK;
    }
    mr_status status =
        mr_fail(r->err, MR_E_CORRUPT, "cannot decode JPEG: %u x %u pixels do not fit in %zu bytes",
                r->jpeg.image_width, r->jpeg.image_height, r->size);
    mr_hint(r->err, "the file is probably cut off");
    return mr_codec_at_byte(r->err, status, r->size);
}

static mr_status check_scans(reader *r) {
    mr_jpeg_survey seen;
    if (!jpeg_has_multiple_scans(&r->jpeg)) {
        return MR_OK;
    }
    MR_TRY(mr_jpeg_look_through(r->bytes, r->size, true, &seen, r->err));
    return scans_allowed(r, seen.scans) ? MR_OK : too_many_scans(r, seen.scans);
}

static mr_status read_header(reader *r) {
    open_file(r);
    r->header->width = r->jpeg.image_width;
    r->header->height = r->jpeg.image_height;
    MR_TRY(mr_codec_check_size(r->header->width, r->header->height, r->max_pixels, r->err));
    MR_TRY(check_enough_data(r));
    return check_scans(r);
}

static mr_status header(const uint8_t *bytes, size_t size, int64_t max_pixels, bool lenient,
                        mr_image_header *out, mr_error *err) {
    mr_jpeg_survey seen;
    reader r = {.bytes = bytes, .size = size, .err = err, .lenient = lenient};
    r.max_pixels = max_pixels;
    r.header = out;
    MR_TRY(mr_jpeg_look_through(bytes, size, false, &seen, err));
    MR_TRY(guarded(&r, read_header));
    out->orientation = mr_orientation(&seen.metadata);
    return MR_OK;
}

/* ---- Pixels ---- */

/* Whether every coefficient that a progressive file began to tell was told to its last bit, and the
 * lowest ten at all. If not, libjpeg says nothing and smooths, differently from version to
 * version. */
static bool is_complete(const reader *r) {
    enum { SMOOTHED = 10 };
    for (int i = 0; r->jpeg.coef_bits && i < r->jpeg.num_components; i++) {
        const int *missing_bits = r->jpeg.coef_bits[i]; /* -1: never told */
        for (int k = 0; k < DCTSIZE2; k++) {
            if (missing_bits[k] > 0 || (k < SMOOTHED && missing_bits[k] < 0)) {
                return false;
            }
        }
    }
    return true;
}

static mr_status check_complete(reader *r) {
    if (r->lenient || is_complete(r)) {
        return MR_OK;
    }
    mr_status status = mr_fail(r->err, MR_E_CORRUPT,
                               "cannot decode JPEG: scans of a progressive image are missing");
    mr_hint(r->err, "the file was probably cut off; \"lenient\": true decodes what is there");
    return mr_codec_at_byte(r->err, status, position(r));
}

/* Chooses what libjpeg gives; rows that are not yet what is wanted go through r->row. */
static mr_status choose_output(reader *r) {
    bool grey = r->request->channels == 1;
    size_t row = 0;
    switch (r->jpeg.num_components) {
    case 1:
        r->jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
        break;
    case 3: /* Pillow makes grey from RGB, not from the luma that is stored */
        r->jpeg.out_color_space = JCS_RGB;
        row = grey ? 3 : 0;
        break;
    case 4:
        r->jpeg.out_color_space = JCS_CMYK;
        row = 4;
        break;
    default:
        return mr_fail(r->err, MR_E_UNSUPPORTED, "cannot decode JPEG: %d components",
                       r->jpeg.num_components);
    }
    row *= r->jpeg.image_width;
    r->row = row > 0 ? mr_scratch(r->request->call, row) : NULL;
    return row > 0 && !r->row ? mr_fail_memory(r->err, row) : MR_OK;
}

static void convert_row(const reader *r, uint8_t *out) {
    size_t n = r->jpeg.output_width;
    bool grey = r->request->channels == 1;
    if (r->jpeg.num_components == 4) {
        mr_cmyk_to_rgb(r->row, grey ? r->row : out, n);
    }
    if (grey) {
        mr_rgb_to_grey(r->row, out, n);
    }
}

static mr_status start(reader *r) {
    open_file(r);
    if (r->jpeg.image_width != r->request->width || r->jpeg.image_height != r->request->height) {
        return mr_fail(r->err, MR_E_INTERNAL, "JPEG header changed between two readings");
    }
    MR_TRY(choose_output(r));
    r->jpeg.dct_method = JDCT_ISLOW;
    r->jpeg.scale_num = 1;
    r->jpeg.scale_denom = r->request->shrink > 1 ? (unsigned)r->request->shrink : 1;
    jpeg_start_decompress(&r->jpeg);
    return check_complete(r);
}

static mr_status read_pixels(reader *r) {
    MR_TRY(start(r));
    size_t stride = (size_t)r->request->width * (size_t)r->request->channels;
    while (r->jpeg.output_scanline < r->jpeg.output_height) {
        uint8_t *out = r->request->out + r->jpeg.output_scanline * stride;
        JSAMPROW target = r->row ? r->row : out;
        jpeg_read_scanlines(&r->jpeg, &target, 1);
        if (r->row) {
            convert_row(r, out);
        }
    }
    jpeg_finish_decompress(&r->jpeg);
    return MR_OK;
}

static mr_status decode(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                        mr_error *err) {
    reader r = {.bytes = bytes, .size = size, .err = err, .lenient = request->lenient};
    r.request = request;
    return guarded(&r, read_pixels);
}

/* ---- A part of the image ---- */
/* libjpeg-turbo writes rows past the cache where they are aligned, and the next op would fetch them
 * from memory again: 6 % of the time of a training pipeline. */
enum { UNALIGNED = 16 };

/* libjpeg-turbo miscounts the columns of chroma that is shrunk less than the rest and still has to
 * be upsampled. That takes a sampling of 4 x 2, which next to nobody uses. */
static bool can_cut_columns(const reader *r) {
    return r->request->shrink <= 1 || r->jpeg.max_h_samp_factor <= 2;
}

/* Cuts rows to the blocks that hold the columns. Smooth upsampling at the cut lacks the neighbour
 * beyond it, and is not done at all to less than three columns of chroma; so more columns are asked
 * for and thrown away. Returns the first column that libjpeg will give. */
static int64_t cut_columns(reader *r) {
    enum { NARROWEST = 8 };
    int64_t from = r->part->x - 1, to = r->part->x + r->part->width + 1;
    to = to < NARROWEST ? NARROWEST : to;
    to = to > r->jpeg.output_width ? r->jpeg.output_width : to;
    from = from > to - NARROWEST ? to - NARROWEST : from;
    from = from < 0 ? 0 : from;
    JDIMENSION start_column = (JDIMENSION)from, columns = (JDIMENSION)(to - from);
    if (columns == r->jpeg.output_width || !can_cut_columns(r)) {
        return 0;
    }
    jpeg_crop_scanline(&r->jpeg, &start_column, &columns);
    return start_column;
}

/* libjpeg-turbo 2.1.5 never comes back from skipping rows of some images whose chroma is four times
 * as small, or twice where luma is four; next to nobody has them, so they are read instead. */
static void skip_rows(reader *r, JDIMENSION n, uint8_t *pixels) {
    JSAMPROW target = r->row ? r->row : pixels;
    if (r->jpeg.max_v_samp_factor <= 2) {
        jpeg_skip_scanlines(&r->jpeg, n);
        return;
    }
    for (; n > 0; n--) {
        jpeg_read_scanlines(&r->jpeg, &target, 1);
    }
}

static mr_status give_rows(reader *r, uint8_t *pixels, size_t skip) {
    for (int64_t k = 0; k < r->part->height; k++) {
        JSAMPROW target = r->row ? r->row : pixels;
        jpeg_read_scanlines(&r->jpeg, &target, 1);
        if (r->row) {
            convert_row(r, pixels);
        }
        MR_TRY(r->to->row(r->to->user, r->part->y + k, pixels + skip, r->err));
    }
    return MR_OK;
}

/* libjpeg does not look at rows that are skipped up to the end, so the last one is read. */
static void read_to_end(reader *r, uint8_t *pixels) {
    JDIMENSION left = r->jpeg.output_height - r->jpeg.output_scanline;
    JSAMPROW target = r->row ? r->row : pixels;
    if (left > 1) {
        skip_rows(r, left - 1, pixels);
    }
    if (left > 0) {
        jpeg_read_scanlines(&r->jpeg, &target, 1);
    }
    jpeg_finish_decompress(&r->jpeg);
}

/* A file that was cut off lacks the marker at its end: known without reading what lies between. One
 * with something behind the marker is read to be sure. */
static mr_status read_part(reader *r) {
    MR_TRY(start(r));
    size_t channels = (size_t)r->request->channels, bytes = r->jpeg.output_width * channels;
    uint8_t *memory = mr_scratch(r->request->call, bytes + UNALIGNED);
    if (!memory) {
        return mr_fail_memory(r->err, bytes);
    }
    uint8_t *pixels = memory + UNALIGNED;
    size_t skip = (size_t)(r->part->x - cut_columns(r)) * channels;
    if (r->part->y > 0) {
        skip_rows(r, (JDIMENSION)r->part->y, pixels);
    }
    MR_TRY(give_rows(r, pixels, skip));
    if (r->request->verify || !mr_jpeg_ends_as_it_should(r->bytes, r->size)) {
        read_to_end(r, pixels);
    }
    return MR_OK;
}

static mr_status part(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                      const mr_region *wanted, const mr_rows *to, mr_error *err) {
    reader r = {.bytes = bytes, .size = size, .err = err, .lenient = request->lenient};
    r.request = request;
    r.part = wanted;
    r.to = to;
    return guarded(&r, read_part);
}

/* The library does not tell its version when it runs, only the years of its copyright; the version
 * is that of the headers. */
static void libraries(char *text, size_t size) {
    const int version = LIBJPEG_TURBO_VERSION_NUMBER; /* MMMmmmrrr, in decimal digits */
    struct jpeg_error_mgr errors;
    jpeg_std_error(&errors);
    snprintf(text, size, "libjpeg-turbo %d.%d.%d (%s)", version / 1000000, version / 1000 % 1000,
             version % 1000, errors.jpeg_message_table[JMSG_COPYRIGHT]);
}

extern const mr_codec mr_codec_jpeg;
const mr_codec mr_codec_jpeg = {
    .name = "jpeg",
    .format = "JPEG",
    .sniff = mr_jpeg_sniff,
    .header = header,
    .decode = decode,
    .part = part,
    .most_shrink = 8,
    .libraries = libraries,
};
