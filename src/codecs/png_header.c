/* SPDX-License-Identifier: Apache-2.0 */
/* png_header.c - what a PNG file says about itself, without libpng. MR_REQUIRES(libpng zlib)
 *
 * Walks over the chunks: size and orientation are read, compressed metadata is expanded to see that
 * it is no bomb. CRCs are left to libpng, which sees every byte when the pixels are decoded. */
#include "codecs/png_header.h"
#include "codecs/exif.h"
#include "core/base64.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- Chunks ---- */
enum { CHUNK_OVERHEAD = 12, IHDR_SIZE = 13, TEXT_MAX = 1 << 20 };

typedef struct chunk {
    const uint8_t *type; /* four letters */
    const uint8_t *data;
    size_t size;
    size_t end; /* where the next one starts */
} chunk;

typedef struct survey {
    size_t cost;        /* of metadata, in bytes */
    size_t image_bytes; /* compressed */
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
 * *produced is how many bytes came out; damage ends it early, and is ignored as Pillow does. */
static mr_status expand(const chunk *text, size_t limit, uint8_t *out, size_t room,
                        size_t *produced, mr_error *err) {
    uint8_t window[4096] = {0};
    z_stream z = {.next_in = (z_const Bytef *)text->data, .avail_in = (uInt)text->size};
    size_t total = 0, got = 1;
    int status = inflateInit(&z);
    while (status == Z_OK && got > 0 && total <= limit) {
        z.next_out = window;
        z.avail_out = sizeof window;
        status = inflate(&z, Z_NO_FLUSH);
        got = sizeof window - z.avail_out;
        if (out && total < room) {
            memcpy(out + total, window, got < room - total ? got : room - total);
        }
        total += got;
    }
    inflateEnd(&z);
    *produced = total;
    return status == Z_MEM_ERROR ? mr_fail_memory(err, sizeof window) : MR_OK;
}

/* Expands into `out`, which holds TEXT_MAX bytes; what is longer is cut. */
static mr_status expand_text(const chunk *text, uint8_t *out, size_t *size, mr_error *err) {
    MR_TRY(expand(text, TEXT_MAX, out, TEXT_MAX, size, err));
    *size = *size < TEXT_MAX ? *size : TEXT_MAX;
    return MR_OK;
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

/* The compressed text of a zTXt or iCCP chunk, past one byte for the method. */
static chunk compressed_text(const chunk *c) {
    chunk rest = after_keyword(c);
    size_t method = rest.size > 0;
    return (chunk){c->type, rest.data + method, rest.size - method, c->end};
}

/* What a chunk of metadata counts for: its size, and what it expands to. That counts fourfold, and
 * setting up zlib counts too, for the time they take. */
static mr_status cost_of(const chunk *c, size_t limit, size_t *cost, mr_error *err) {
    enum { FACTOR = 4, SET_UP = 1024 };
    bool compressed = is_type(c, "zTXt") || is_type(c, "iCCP");
    chunk text = compressed_text(c);
    size_t produced = 0;
    if (is_type(c, "iTXt")) {
        text = international_text(c, &compressed);
    }
    *cost = CHUNK_OVERHEAD + c->size;
    if (compressed && *cost <= limit) {
        MR_TRY(expand(&text, limit / FACTOR, NULL, 0, &produced, err));
        *cost += SET_UP + FACTOR * produced;
    }
    return MR_OK;
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

static mr_status look_through(const uint8_t *bytes, size_t size, survey *out, mr_error *err) {
    chunk c;
    *out = (survey){0};
    for (size_t at = MR_PNG_SIGNATURE_SIZE; next_chunk(bytes, size, at, &c); at = c.end) {
        if (is_type(&c, "IEND")) {
            break;
        }
        if (is_image_chunk(&c)) {
            out->image_bytes += c.size;
            continue;
        }
        size_t cost, left = MR_METADATA_MAX - out->cost;
        MR_TRY(cost_of(&c, left, &cost, err));
        if (cost > left) {
            return mr_codec_at_byte(err, mr_codec_too_much_metadata("PNG", err), at);
        }
        out->cost += cost;
        note_metadata(&c, out);
    }
    return MR_OK;
}

/* ---- EXIF in a text chunk: a name, a length, then hexadecimal digits over many lines ---- */
/* Turns the text into bytes in place; returns how many. */
static size_t unhex_profile(uint8_t *text, size_t size) {
    size_t at = 0, n = 0;
    int high = -1;
    for (int lines = 0; lines < 3 && at < size; at++) {
        lines += text[at] == '\n';
    }
    for (; at < size; at++) {
        int digit = mr_hex_digit((char)text[at]);
        if (digit >= 0 && high >= 0) {
            text[n++] = (uint8_t)(high << 4 | digit);
            high = -1;
        } else if (digit >= 0) {
            high = digit;
        }
    }
    return n;
}

static mr_status raw_profile(const chunk *c, uint8_t *out, size_t *size, mr_error *err) {
    chunk text = is_type(c, "tEXt") ? after_keyword(c) : compressed_text(c);
    if (is_type(c, "tEXt")) {
        *size = text.size < TEXT_MAX ? text.size : TEXT_MAX;
        memcpy(out, text.data, *size);
    } else {
        MR_TRY(expand_text(&text, out, size, err));
    }
    *size = unhex_profile(out, *size);
    return MR_OK;
}

/* Orientation where metadata must be expanded first; `texts` is memory for both kinds. */
static mr_status expand_orientation(const survey *seen, uint8_t *texts, int32_t *out,
                                    mr_error *err) {
    mr_metadata metadata = seen->metadata;
    if (metadata.exif_size == 0 && seen->raw_profile.size > 0) {
        metadata.exif = texts;
        MR_TRY(raw_profile(&seen->raw_profile, texts, &metadata.exif_size, err));
    }
    if (metadata.xmp_size == 0 && seen->xmp.size > 0) {
        metadata.xmp = texts + TEXT_MAX;
        MR_TRY(expand_text(&seen->xmp, texts + TEXT_MAX, &metadata.xmp_size, err));
    }
    *out = mr_orientation(&metadata);
    return MR_OK;
}

static mr_status find_orientation(const survey *seen, int32_t *out, mr_error *err) {
    if (seen->raw_profile.size == 0 && seen->xmp.size == 0) { /* nearly always */
        *out = mr_orientation(&seen->metadata);
        return MR_OK;
    }
    uint8_t *texts = malloc((size_t)2 * TEXT_MAX);
    if (!texts) {
        return mr_fail_memory(err, (size_t)2 * TEXT_MAX);
    }
    mr_status status = expand_orientation(seen, texts, out, err);
    free(texts);
    return status;
}

/* ---- Header ---- */
static mr_status find_ihdr(const uint8_t *bytes, size_t size, chunk *out, mr_error *err) {
    if (!next_chunk(bytes, size, MR_PNG_SIGNATURE_SIZE, out) || !is_type(out, "IHDR") ||
        out->size != IHDR_SIZE) {
        mr_fail(err, MR_E_CORRUPT, "cannot decode PNG: no whole IHDR chunk");
        mr_codec_at_byte(err, MR_E_CORRUPT, MR_PNG_SIGNATURE_SIZE);
        return MR_E_CORRUPT;
    }
    return MR_OK;
}

/* Deflate makes at most 1032 bytes of one, so a short file cannot hold a large image. */
static mr_status check_enough_data(const chunk *ihdr, const survey *seen, size_t size,
                                   mr_error *err) {
    static const uint8_t samples[7] = {1, 0, 3, 1, 2, 0, 4}; /* by colour type */
    uint64_t width = read_32(ihdr->data), height = read_32(ihdr->data + 4);
    uint64_t depth = ihdr->data[8], colour = ihdr->data[9];
    uint64_t pixel_bits = colour < 7 ? depth * samples[colour] : 0;
    if (width * pixel_bits / 8 * height / 1032 <= seen->image_bytes) {
        return MR_OK;
    }
    mr_status status =
        mr_fail(err, MR_E_CORRUPT, "cannot decode PNG: %llu x %llu pixels do not fit in %zu bytes",
                (unsigned long long)width, (unsigned long long)height, size);
    mr_hint(err, "the file is probably cut off");
    return mr_codec_at_byte(err, status, size);
}

mr_status mr_png_header(const uint8_t *bytes, size_t size, int64_t max_pixels, bool lenient,
                        mr_image_header *out, mr_error *err) {
    (void)lenient; /* libpng never makes up pixels */
    chunk ihdr = {0};
    survey seen;
    MR_TRY(find_ihdr(bytes, size, &ihdr, err));
    out->width = read_32(ihdr.data);
    out->height = read_32(ihdr.data + 4);
    MR_TRY(mr_codec_check_size(out->width, out->height, max_pixels, err));
    MR_TRY(look_through(bytes, size, &seen, err));
    MR_TRY(check_enough_data(&ihdr, &seen, size, err));
    return find_orientation(&seen, &out->orientation, err);
}
