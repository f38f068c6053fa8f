/* SPDX-License-Identifier: Apache-2.0 */
/* png.c - PNG through libpng. MR_REQUIRES(libpng zlib)
 *
 * Pixels are those of Pillow: no gamma, transparency dropped, the high byte of 16-bit colour, and
 * 16-bit grey clipped to 255 (as Pillow turns its mode I;16 into L and RGB). Metadata is never
 * given to libpng: it checks its CRC and skips it. What orientation needs is found here, and
 * compressed text is expanded only to see that it is no bomb.
 *
 * libpng reports failure through a callback that must not return: it jumps back into guarded().
 * Everything that is alive across the jump lives in the reader. */
#include "codecs/codec.h"
#include "codecs/exif.h"
#include "codecs/pixels.h"
#include "core/error.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <png.h>
#include <zlib.h>

/* ---- The file's chunks, without libpng ---- */
enum {
    SIGNATURE_SIZE = 8,
    CHUNK_OVERHEAD = 12,
    IHDR_SIZE = 13,
    EXPAND_COST = 1024,
    TEXT_MAX = 1 << 20
};

typedef struct chunk {
    const uint8_t *type; /* four letters */
    const uint8_t *data;
    size_t size;
    size_t end; /* where the next one starts */
} chunk;

typedef struct survey {
    size_t metadata_bytes; /* expanded where compressed */
    size_t image_bytes;    /* compressed */
    mr_metadata metadata;
    chunk xmp;         /* compressed; size 0: none */
    chunk raw_profile; /* EXIF as hexadecimal text, as ImageMagick writes it; size 0: none */
} survey;

static uint32_t read_32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_type(const chunk *c, const char *type) {
    return memcmp(c->type, type, 4) == 0;
}

/* A chunk that is whole but for its CRC, which libpng checks; false at the end of the file. */
static bool next_chunk(const uint8_t *bytes, size_t size, size_t at, chunk *out) {
    if (at > size || size - at < CHUNK_OVERHEAD) {
        return false;
    }
    size_t length = read_32(bytes + at);
    if (length > size - at - CHUNK_OVERHEAD) {
        return false;
    }
    *out = (chunk){bytes + at + 4, bytes + at + 8, length, at + CHUNK_OVERHEAD + length};
    return true;
}

/* ---- Compressed text ---- */

/* Expands to the end, or until more than `limit` came out; keeps the first `room` bytes in `out`.
 * Returns how many bytes came out; damage ends it early (Pillow ignores it too). */
static size_t expand(const uint8_t *data, size_t size, size_t limit, uint8_t *out, size_t room) {
    uint8_t window[4096];
    z_stream z = {0};
    size_t total = 0;
    if (inflateInit(&z) != Z_OK) {
        return 0;
    }
    z.next_in = (z_const Bytef *)data;
    z.avail_in = (uInt)size;
    int status = Z_OK;
    while (status == Z_OK && total <= limit) {
        z.next_out = window;
        z.avail_out = sizeof window;
        status = inflate(&z, Z_NO_FLUSH);
        size_t got = sizeof window - z.avail_out;
        if (total < room) {
            memcpy(out + total, window, got < room - total ? got : room - total);
        }
        total += got;
        if (got == 0) {
            break;
        }
    }
    inflateEnd(&z);
    return total;
}

/* Expands into `out`, which holds TEXT_MAX bytes; what is longer is cut. */
static size_t expand_text(const uint8_t *data, size_t size, uint8_t *out) {
    size_t expanded = expand(data, size, TEXT_MAX, out, TEXT_MAX);
    return expanded < TEXT_MAX ? expanded : TEXT_MAX;
}

/* The part of a text or profile chunk after its keyword and the zero byte that ends it. */
static chunk after_keyword(const chunk *c) {
    const uint8_t *zero = memchr(c->data, 0, c->size);
    const uint8_t *rest = zero ? zero + 1 : c->data + c->size;
    return (chunk){c->type, rest, (size_t)(c->data + c->size - rest), c->end};
}

static bool has_keyword(const chunk *c, const char *keyword) {
    size_t length = strlen(keyword) + 1;
    return c->size >= length && memcmp(c->data, keyword, length) == 0;
}

/* The text of an iTXt chunk, past two flags, language and translated keyword. */
static chunk international_text(const chunk *c, bool *compressed) {
    chunk rest = after_keyword(c);
    if (rest.size < 2) {
        return (chunk){c->type, rest.data, 0, c->end};
    }
    *compressed = rest.data[0] != 0;
    chunk flags = {c->type, rest.data + 2, rest.size - 2, c->end};
    chunk language = after_keyword(&flags);
    return after_keyword(&language);
}

/* What a chunk of metadata counts for: its size, and once expanded if it is compressed. Setting up
 * zlib counts too, so that a million empty texts are over the limit. */
static size_t cost_of(const chunk *c, bool expanding, size_t limit) {
    bool compressed = is_type(c, "zTXt") || is_type(c, "iCCP");
    chunk text = after_keyword(c);
    if (compressed && text.size > 0) { /* the compression method */
        text.data++;
        text.size--;
    } else if (is_type(c, "iTXt")) {
        text = international_text(c, &compressed);
    }
    size_t cost = CHUNK_OVERHEAD + c->size;
    if (compressed && expanding && cost <= limit) {
        cost += EXPAND_COST + expand(text.data, text.size, limit, NULL, 0);
    }
    return cost;
}

static void note_metadata(const chunk *c, survey *out) {
    bool compressed = false;
    if (is_type(c, "eXIf")) {
        out->metadata.exif = c->data;
        out->metadata.exif_size = c->size;
    } else if (is_type(c, "iTXt") && has_keyword(c, "XML:com.adobe.xmp")) {
        chunk text = international_text(c, &compressed);
        out->metadata.xmp = text.data;
        out->metadata.xmp_size = compressed ? 0 : text.size;
        out->xmp = (chunk){text.type, text.data, compressed ? text.size : 0, text.end};
    } else if ((is_type(c, "tEXt") || is_type(c, "zTXt")) &&
               has_keyword(c, "Raw profile type exif")) {
        out->raw_profile = *c;
    }
}

static bool is_image_chunk(const chunk *c) {
    return is_type(c, "IHDR") || is_type(c, "PLTE") || is_type(c, "IDAT");
}

/* `expanding`: find bombs in compressed metadata too. */
static mr_status look_through(const uint8_t *bytes, size_t size, bool expanding, survey *out,
                              mr_error *err) {
    chunk c;
    *out = (survey){0};
    for (size_t at = SIGNATURE_SIZE; next_chunk(bytes, size, at, &c); at = c.end) {
        if (is_type(&c, "IEND")) {
            break;
        }
        if (is_image_chunk(&c)) {
            out->image_bytes += c.size;
            continue;
        }
        size_t left = MR_METADATA_MAX - out->metadata_bytes;
        size_t cost = cost_of(&c, expanding, left);
        if (cost > left) {
            return mr_codec_at_byte(err, mr_codec_too_much_metadata("PNG", err), at);
        }
        out->metadata_bytes += cost;
        note_metadata(&c, out);
    }
    return MR_OK;
}

/* ---- EXIF in a text chunk: a name, a length, then hexadecimal digits over many lines ---- */
static int hex_digit(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Turns the text into bytes in place; returns how many. */
static size_t unhex_profile(uint8_t *text, size_t size) {
    size_t at = 0, n = 0;
    for (int lines = 0; lines < 3 && at < size; at++) {
        lines += text[at] == '\n';
    }
    int high = -1;
    for (; at < size; at++) {
        int digit = hex_digit(text[at]);
        if (digit >= 0 && high >= 0) {
            text[n++] = (uint8_t)(high << 4 | digit);
        }
        high = digit < 0 || high >= 0 ? (digit < 0 ? high : -1) : digit;
    }
    return n;
}

static size_t raw_profile_bytes(const chunk *c, uint8_t *out) {
    chunk text = after_keyword(c);
    if (is_type(c, "tEXt")) {
        size_t size = text.size < TEXT_MAX ? text.size : TEXT_MAX;
        memcpy(out, text.data, size);
        return unhex_profile(out, size);
    }
    return text.size > 1 ? unhex_profile(out, expand_text(text.data + 1, text.size - 1, out)) : 0;
}

/* Most files have nothing that must be expanded. */
static mr_status find_orientation(const survey *seen, int32_t *out, mr_error *err) {
    mr_metadata metadata = seen->metadata;
    bool profile = metadata.exif_size == 0 && seen->raw_profile.size > 0;
    bool xmp = metadata.xmp_size == 0 && seen->xmp.size > 0;
    uint8_t *texts = profile || xmp ? malloc(2 * TEXT_MAX) : NULL;
    if ((profile || xmp) && !texts) {
        return mr_fail_memory(err, 2 * TEXT_MAX);
    }
    if (profile) {
        metadata.exif = texts;
        metadata.exif_size = raw_profile_bytes(&seen->raw_profile, texts);
    }
    if (xmp) {
        metadata.xmp = texts + TEXT_MAX;
        metadata.xmp_size = expand_text(seen->xmp.data, seen->xmp.size, texts + TEXT_MAX);
    }
    *out = mr_orientation(&metadata);
    free(texts);
    return MR_OK;
}

/* ---- Header ---- */
static mr_status find_ihdr(const uint8_t *bytes, size_t size, chunk *out, mr_error *err) {
    if (!next_chunk(bytes, size, SIGNATURE_SIZE, out) || !is_type(out, "IHDR") ||
        out->size != IHDR_SIZE) {
        mr_status status = mr_fail(err, MR_E_CORRUPT, "cannot decode PNG: no whole IHDR chunk");
        return mr_codec_at_byte(err, status, SIGNATURE_SIZE);
    }
    return MR_OK;
}

static mr_status header(const uint8_t *bytes, size_t size, int64_t max_pixels, mr_image_header *out,
                        mr_error *err) {
    chunk ihdr;
    survey seen;
    MR_TRY(find_ihdr(bytes, size, &ihdr, err));
    out->width = read_32(ihdr.data);
    out->height = read_32(ihdr.data + 4);
    MR_TRY(mr_codec_check_size(out->width, out->height, max_pixels, err));
    MR_TRY(look_through(bytes, size, false, &seen, err));
    return find_orientation(&seen, &out->orientation, err);
}

/* ---- libpng with a way back ---- */
typedef struct reader {
    png_structp png;
    png_infop info;
    jmp_buf trap;
    mr_status status; /* what the jump brings back */
    mr_error *err;
    const uint8_t *bytes;
    size_t size, position;
    bool no_memory; /* libpng's message alone does not tell reliably */
    const mr_decode_request *request;

    /* What libpng is asked for, and how it becomes what is wanted. */
    enum { DIRECT, GREY_16, PALETTE, COLOUR } kind;
    size_t pixel_bytes;
    bool interlaced;
    int palette_size;
    uint8_t palette[256][3]; /* what an index becomes; grey where that is wanted */
    uint8_t *rows;           /* one row, or all of an interlaced image; NULL: straight to out */
} reader;

static _Noreturn void give_up(reader *r, mr_status status) {
    r->status = mr_codec_at_byte(r->err, status, r->position);
    longjmp(r->trap, 1);
}

static _Noreturn void on_error(png_structp png, png_const_charp text) {
    reader *r = png_get_error_ptr(png);
    mr_status status = r->no_memory ? MR_E_MEMORY : MR_E_CORRUPT;
    give_up(r, mr_fail(r->err, status, "cannot decode PNG: %s", text));
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t size) {
    reader *r = png_get_mem_ptr(png);
    void *memory = malloc(size);
    r->no_memory = r->no_memory || !memory;
    return memory;
}

static void on_free(png_structp png, png_voidp memory) {
    (void)png;
    free(memory);
}

/* Metadata never reaches libpng, so that a warning is always about the image itself. */
static void on_warning(png_structp png, png_const_charp text) {
    reader *r = png_get_error_ptr(png);
    if (r->request->lenient) {
        return;
    }
    mr_status status = mr_fail(r->err, MR_E_CORRUPT, "cannot decode PNG: %s", text);
    mr_hint(r->err, "libpng would go on after this; \"lenient\": true allows it");
    give_up(r, status);
}

static void on_read(png_structp png, png_bytep out, size_t count) {
    reader *r = png_get_io_ptr(png);
    if (count > r->size - r->position) {
        r->position = r->size;
        give_up(r, mr_fail(r->err, MR_E_CORRUPT, "cannot decode PNG: the file ends early"));
    }
    memcpy(out, r->bytes + r->position, count);
    r->position += count;
}

static void set_up(reader *r) {
    png_structp png = r->png;
    png_set_read_fn(png, r, on_read);
    if (!r->request->lenient) {
        png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    }
    /* Negative: unknown chunks and all known ones that are not needed for the pixels. */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "tRNS", 1);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* max_pixels is the limit */
    png_set_chunk_malloc_max(png, MR_METADATA_MAX);
    /* Some encoders name a smaller zlib window than they use. */
    png_set_option(png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
}

static mr_status guarded(reader *r, mr_status (*work)(reader *r)) {
    mr_status status;
    if (setjmp(r->trap) == 0) {
        status = work(r);
    } else {
        status = r->status;
    }
    png_destroy_read_struct(&r->png, &r->info, NULL);
    return status;
}

/* ---- Pixels ---- */

/* Deflate makes at most 1032 bytes of one, so a short file cannot hold a large image: known
 * before memory is filled. */
static mr_status check_enough_data(const uint8_t *bytes, size_t size, mr_error *err) {
    chunk ihdr;
    survey seen;
    static const uint8_t samples[7] = {1, 0, 3, 1, 2, 0, 4}; /* by colour type */
    MR_TRY(find_ihdr(bytes, size, &ihdr, err));
    MR_TRY(look_through(bytes, size, true, &seen, err));
    uint64_t width = read_32(ihdr.data), height = read_32(ihdr.data + 4);
    uint64_t pixel_bits = ihdr.data[9] < 7 ? (uint64_t)ihdr.data[8] * samples[ihdr.data[9]] : 0;
    if (width * pixel_bits / 8 * height / 1032 <= seen.image_bytes) {
        return MR_OK;
    }
    mr_status status =
        mr_fail(err, MR_E_CORRUPT, "cannot decode PNG: %llu x %llu pixels do not fit in %zu bytes",
                (unsigned long long)width, (unsigned long long)height, size);
    mr_hint(err, "the file is probably cut off");
    return mr_codec_at_byte(err, status, size);
}

static void read_palette(reader *r) {
    png_colorp colours = NULL;
    int count = 0;
    png_get_PLTE(r->png, r->info, &colours, &count);
    r->palette_size = count;
    for (int i = 0; i < count; i++) { /* the rest stays black, as in Pillow */
        png_color c = colours[i];
        uint8_t grey = mr_luma(c.red, c.green, c.blue);
        bool to_grey = r->request->channels == 1;
        r->palette[i][0] = to_grey ? grey : c.red;
        r->palette[i][1] = to_grey ? grey : c.green;
        r->palette[i][2] = to_grey ? grey : c.blue;
    }
}

/* Chooses libpng's transformations by colour type and depth. */
static void choose_output(reader *r) {
    png_structp png = r->png;
    int colour = png_get_color_type(png, r->info), depth = png_get_bit_depth(png, r->info);
    bool to_grey = r->request->channels == 1;
    r->pixel_bytes = (size_t)r->request->channels;
    r->kind = DIRECT;
    if (colour == PNG_COLOR_TYPE_PALETTE) {
        png_set_packing(png);
        read_palette(r);
        r->kind = PALETTE;
        r->pixel_bytes = 1;
    } else if (colour == PNG_COLOR_TYPE_GRAY && depth == 16) {
        r->kind = GREY_16;
        r->pixel_bytes = 2;
    } else {
        png_set_expand_gray_1_2_4_to_8(png);
        png_set_strip_16(png);
        png_set_strip_alpha(png);
        if (!(colour & PNG_COLOR_MASK_COLOR) && !to_grey) {
            png_set_gray_to_rgb(png);
        } else if ((colour & PNG_COLOR_MASK_COLOR) && to_grey) {
            r->kind = COLOUR;
            r->pixel_bytes = 3;
        }
    }
    r->interlaced = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, r->info);
}

static void clip_row(const uint8_t *in, uint8_t *out, size_t n, size_t channels) {
    for (size_t i = 0; i < n; i++, in += 2, out += channels) {
        memset(out, in[0] > 0 ? 255 : in[1], channels);
    }
}

static void look_up_row(reader *r, const uint8_t *in, uint8_t *out, size_t n, size_t channels) {
    int highest = 0;
    for (size_t i = 0; i < n; i++, out += channels) {
        const uint8_t *colour = r->palette[in[i]];
        highest = in[i] > highest ? in[i] : highest;
        for (size_t c = 0; c < channels; c++) {
            out[c] = colour[c];
        }
    }
    if (highest >= r->palette_size && !r->request->lenient) { /* libpng looks only at some depths */
        give_up(r, mr_fail(r->err, MR_E_CORRUPT, "cannot decode PNG: colour %d of a palette of %d",
                           highest, r->palette_size));
    }
}

static void convert_row(reader *r, const uint8_t *in, uint8_t *out) {
    size_t n = (size_t)r->request->width, channels = (size_t)r->request->channels;
    if (r->kind == COLOUR) {
        mr_rgb_to_grey(in, 3, out, n);
    } else if (r->kind == GREY_16) {
        clip_row(in, out, n, channels);
    } else {
        look_up_row(r, in, out, n, channels);
    }
}

/* Takes memory for rows that libpng's own transformations do not finish. */
static mr_status take_rows(reader *r) {
    size_t row = (size_t)r->request->width * r->pixel_bytes;
    if (png_get_rowbytes(r->png, r->info) != row) {
        return mr_fail(r->err, MR_E_INTERNAL, "PNG row of %zu bytes where %zu were planned",
                       png_get_rowbytes(r->png, r->info), row);
    }
    if (r->kind == DIRECT) {
        return MR_OK;
    }
    size_t size = r->interlaced ? row * (size_t)r->request->height : row;
    r->rows = mr_scratch(r->request->call, size);
    return r->rows ? MR_OK : mr_fail_memory(r->err, size);
}

static void read_rows(reader *r) {
    size_t height = (size_t)r->request->height, width = (size_t)r->request->width;
    size_t stride = width * (size_t)r->request->channels;
    size_t row = width * r->pixel_bytes;
    for (int pass = r->interlaced ? 7 : 1; pass > 0; pass--) {
        for (size_t y = 0; y < height; y++) {
            uint8_t *out = r->request->out + y * stride;
            uint8_t *in = r->rows ? r->rows + (r->interlaced ? y * row : 0) : out;
            png_read_row(r->png, in, NULL);
            if (r->rows && pass == 1) {
                convert_row(r, in, out);
            }
        }
    }
}

static mr_status read_pixels(reader *r) {
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, on_error, on_warning, r, on_alloc,
                                      on_free);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info) {
        return mr_fail(r->err, MR_E_MEMORY, "cannot allocate a PNG decoder");
    }
    set_up(r);
    png_read_info(r->png, r->info);
    if (png_get_image_width(r->png, r->info) != r->request->width ||
        png_get_image_height(r->png, r->info) != r->request->height) {
        return mr_fail(r->err, MR_E_INTERNAL, "PNG header changed between two readings");
    }
    choose_output(r);
    MR_TRY(take_rows(r));
    read_rows(r);
    png_read_end(r->png, NULL);
    return MR_OK;
}

static mr_status decode(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                        mr_error *err) {
    reader r = {.bytes = bytes, .size = size, .err = err, .request = request};
    MR_TRY(check_enough_data(bytes, size, err));
    return guarded(&r, read_pixels);
}

static bool sniff(const uint8_t *bytes, size_t size) {
    return size >= SIGNATURE_SIZE && memcmp(bytes, "\x89PNG\r\n\x1A\n", SIGNATURE_SIZE) == 0;
}

extern const mr_codec mr_codec_png;
const mr_codec mr_codec_png = {
    .name = "png",
    .sniff = sniff,
    .header = header,
    .decode = decode,
};
