/* SPDX-License-Identifier: Apache-2.0 */
/* png.c - PNG through libpng. MR_REQUIRES(libpng zlib)
 *
 * Pixels are those of Pillow: no gamma, transparency dropped, the high byte of 16-bit colour, and
 * 16-bit grey clipped to 255 (as Pillow turns its mode I;16 into L and RGB). Metadata is never
 * given to libpng: it checks its CRC and skips it; png_header.c finds what is needed of it.
 *
 * libpng reports failure through a callback that must not return: it jumps back into guarded().
 * Everything that is alive across the jump lives in the reader. */
#include "codecs/codec.h"
#include "codecs/pixels.h"
#include "codecs/png_header.h"
#include "core/error.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <png.h>

/* ---- libpng with a way back ---- */
typedef struct reader {
    png_structp png;
    png_infop info;
    jmp_buf trap;
    mr_status status; /* what the jump brings back */
    mr_error *err;
    const uint8_t *bytes;
    size_t size, position;
    size_t payload, payload_max; /* chunk data read for the present row: see read_row() */
    bool no_memory;              /* libpng's message alone does not tell reliably */
    const mr_decode_request *request;

    /* What libpng is asked for, and how it becomes what is wanted. */
    enum { DIRECT, GREY_16, PALETTE, COLOUR, WIDE_COLOUR } kind;
    size_t stored_row; /* bytes in the file, once expanded */
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
    if (r->no_memory) {
        on_error(png, text); /* libpng only warns where it can go on with less */
    }
    bool harmless = strstr(text, "ignored in grayscale") != NULL; /* a palette that nobody needs */
    if (r->request->lenient || harmless) {
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
    if ((png_get_io_state(png) & PNG_IO_MASK_LOC) == PNG_IO_CHUNK_DATA) {
        if (r->payload > r->payload_max) {
            give_up(r, mr_fail(r->err, MR_E_CORRUPT, "cannot decode PNG: too much image data"));
        }
        r->payload += count;
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
    /* Little at a time, so that little is expanded before too much of it is noticed. */
    png_set_compression_buffer_size(png, 4096);
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

static void read_palette(reader *r) {
    png_colorp colours = NULL;
    int count = 0;
    png_get_PLTE(r->png, r->info, &colours, &count);
    r->palette_size = count;
    for (int i = 0; i < count; i++) { /* the rest stays black, as in Pillow */
        png_color c = colours[i];
        uint8_t grey = mr_luma(c.red, c.green, c.blue);
        bool to_grey = r->request->channels == 1;
        grey = r->request->indices ? (uint8_t)i : grey;
        r->palette[i][0] = to_grey ? grey : c.red;
        r->palette[i][1] = to_grey ? grey : c.green;
        r->palette[i][2] = to_grey ? grey : c.blue;
    }
}

/* 16 bits a channel, in the machine's order of bytes; what has fewer is spread over them (8 bits:
 * times 257). */
static void choose_wide(reader *r, int colour) {
    static const uint16_t one = 1;
    png_structp png = r->png;
    bool to_grey = r->request->channels == 1;
    r->kind = DIRECT;
    r->pixel_bytes = 2 * (size_t)r->request->channels;
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_palette_to_rgb(png); /* of what has one */
    png_set_expand_16(png);
    png_set_strip_alpha(png);
    if (*(const uint8_t *)&one == 1) {
        png_set_swap(png);
    }
    if (!(colour & PNG_COLOR_MASK_COLOR) && !to_grey) {
        png_set_gray_to_rgb(png);
    } else if ((colour & PNG_COLOR_MASK_COLOR) && to_grey) {
        r->kind = WIDE_COLOUR;
        r->pixel_bytes = 6;
    }
}

/* Chooses libpng's transformations by colour type and depth. */
static void choose_output(reader *r) {
    png_structp png = r->png;
    int colour = png_get_color_type(png, r->info), depth = png_get_bit_depth(png, r->info);
    bool to_grey = r->request->channels == 1;
    r->stored_row = png_get_rowbytes(png, r->info);
    r->pixel_bytes = (size_t)r->request->channels;
    r->kind = DIRECT;
    if (r->request->wide) {
        choose_wide(r, colour);
    } else if (colour == PNG_COLOR_TYPE_PALETTE) {
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

/* Pillow's weights of red, green and blue, on 16 bits. */
static void grey_wide_row(const uint8_t *in, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++, in += 6, out += 2) {
        uint16_t colour[3];
        memcpy(colour, in, sizeof colour);
        uint64_t sum = colour[0] * UINT64_C(19595) + colour[1] * UINT64_C(38470) +
                       colour[2] * UINT64_C(7471) + 0x8000;
        uint16_t grey = (uint16_t)(sum >> 16);
        memcpy(out, &grey, sizeof grey);
    }
}

static void convert_row(reader *r, const uint8_t *in, uint8_t *out) {
    size_t n = (size_t)r->request->width, channels = (size_t)r->request->channels;
    if (r->kind == COLOUR) {
        mr_rgb_to_grey(in, out, n);
    } else if (r->kind == WIDE_COLOUR) {
        grey_wide_row(in, out, n);
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

/* When the image is full libpng expands whatever else the stream holds, just to see it end: a few
 * kilobytes can stand for gigabytes. A row needs little more than its own size to be read, the last
 * one too. */
static void read_row(reader *r, uint8_t *out) {
    enum { SLACK = 1024 };
    r->payload = 0;
    r->payload_max = 2 * r->stored_row + SLACK;
    png_read_row(r->png, out, NULL);
    r->payload_max = SIZE_MAX;
}

static void read_rows(reader *r) {
    size_t height = (size_t)r->request->height, width = (size_t)r->request->width;
    size_t stride = width * (size_t)r->request->channels * (r->request->wide ? 2 : 1);
    size_t row = width * r->pixel_bytes;
    for (int pass = r->interlaced ? 7 : 1; pass > 0; pass--) {
        for (size_t y = 0; y < height; y++) {
            uint8_t *out = r->request->out + y * stride;
            uint8_t *in = r->rows ? r->rows + (r->interlaced ? y * row : 0) : out;
            read_row(r, in);
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
    r.payload_max = SIZE_MAX;
    return guarded(&r, read_pixels);
}

static bool sniff(const uint8_t *bytes, size_t size) {
    return size >= MR_PNG_SIGNATURE_SIZE &&
           memcmp(bytes, "\x89PNG\r\n\x1A\n", MR_PNG_SIGNATURE_SIZE) == 0;
}

static void libraries(char *text, size_t size) {
    snprintf(text, size, "libpng %s", png_get_libpng_ver(NULL));
}

extern const mr_codec mr_codec_png;
const mr_codec mr_codec_png = {
    .name = "png",
    .format = "PNG",
    .sniff = sniff,
    .header = mr_png_header,
    .decode = decode,
    .wide = true,
    .libraries = libraries,
};
