/* SPDX-License-Identifier: Apache-2.0 */
/* decode_image.c - encoded bytes to pixels. Finds the codec whose mark the bytes carry, whatever
 * the file is called; the codecs themselves are in src/codecs. */
#include "codecs/codec.h"
#include "codecs/index_tail.h"
#include "core/error.h"
#include "core/registry.h"

#include <stdio.h>
#include <string.h>

typedef struct decode_params {
    int32_t mode; /* position in mode_names */
    bool orient;
    bool lenient;
    bool verify;
    bool dct_scale;
    int64_t max_pixels;
} decode_params;

enum { MODE_RGB, MODE_GREY, MODE_RGB_16, MODE_GREY_16, MODE_INDEX };
static const char *const mode_names[] = {"rgb", "grey", "rgb16", "grey16", "index", NULL};

static const mr_param rows[] = {
    {.name = "mode",
     .kind = MR_PARAM_CHOICE,
     .offset = offsetof(decode_params, mode),
     .fallback = "\"rgb\"",
     .choices = mode_names,
     .doc = "Colour with three channels, or grey with one; as uint8, or as uint16 (rgb16, grey16) "
            "for PNGs of 16 bits a channel. index: the numbers of a PNG with a palette as they are "
            "stored, as masks of classes have them; of other images as grey."},
    {.name = "orient",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(decode_params, orient),
     .fallback = "false",
     .doc = "Turn the image upright as its EXIF or XMP orientation says."},
    {.name = "max_pixels",
     .kind = MR_PARAM_INT,
     .offset = offsetof(decode_params, max_pixels),
     .fallback = "89478485",
     .min = 1,
     .max = 4294967296.0,
     .doc = "Refuse images of more pixels, before memory is taken for them."},
    {.name = "lenient",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(decode_params, lenient),
     .fallback = "false",
     .doc = "Accept files that the decoding library warns about, with the pixels it guesses."},
    {.name = "verify",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(decode_params, verify),
     .fallback = "false",
     .doc = "Read every file to its end. Otherwise damage below the part of a JPEG that later ops "
            "need goes unseen."},
    {.name = "dct_scale",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(decode_params, dct_scale),
     .fallback = "false",
     .doc = "Decode JPEGs at 1/2, 1/4 or 1/8 where the next op is resize or random_resized_crop "
            "and makes the image smaller by at least as much. Other pixels, not Pillow's."},
    {.name = NULL},
};

/* ---- Types ---- */
static int32_t channels_of(const decode_params *params) {
    return params->mode == MODE_RGB || params->mode == MODE_RGB_16 ? 3 : 1;
}

static bool is_wide(const decode_params *params) {
    return params->mode == MODE_RGB_16 || params->mode == MODE_GREY_16;
}

static mr_type image_type(const decode_params *params, int64_t height, int64_t width) {
    return (mr_type){.dtype = is_wide(params) ? MR_U16 : MR_U8,
                     .layout = MR_HWC,
                     .n_dims = 3,
                     .dims = {height, width, channels_of(params)}};
}

static mr_status plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    if (in->dtype != MR_U8 || in->layout != MR_PLAIN || in->n_dims != 1) {
        char text[96];
        mr_fail(err, MR_E_TYPE, "decode_image takes encoded bytes, uint8[?], not %s",
                mr_type_text(in, text, sizeof text));
        mr_hint(err, "an image is decoded once; put decode_image first");
        return MR_E_TYPE;
    }
    *out = image_type(params, -1, -1);
    return MR_OK;
}

/* A mask's values are numbers of classes: PNGs of them often have a palette, so that they can be
 * looked at, and its colours are not what anybody wants. */
static const char *doubt_of_mask(const void *params) {
    const decode_params *p = params;
    return p->mode == MODE_GREY
               ? "on a mask, grey is the brightness of the colours where a PNG has a palette. "
                 "\"mode\": \"index\" gives the numbers that are stored, and the same as grey "
                 "elsewhere"
           : p->mode == MODE_RGB ? "on a mask, rgb makes three channels of colours. \"mode\": "
                                   "\"index\" gives the numbers that are stored, also those of a "
                                   "PNG with a palette"
                                 : NULL;
}

/* ---- Codecs ---- */
/* Of several codecs for one format, the one of preference 0 has the format's name. */
static void list_codecs(char *out, size_t size) {
    snprintf(out, size, "none");
    for (int32_t i = 0, used = 0; i < mr_n_codecs() && used >= 0 && (size_t)used < size; i++) {
        if (mr_codec_at(i)->preference == 0) {
            used += snprintf(out + used, size - (size_t)used, "%s%s", used > 0 ? ", " : "",
                             mr_codec_at(i)->name);
        }
    }
}

static mr_status fail_unknown(const mr_view *in, mr_error *err) {
    char codecs[128], first[64] = "";
    const uint8_t *bytes = in->data;
    const char *name = mr_looks_like(bytes, in->size);
    for (size_t i = 0, used = 0; !name && i < in->size && i < 8; i++) {
        used += (size_t)snprintf(first + used, sizeof first - used, " %02X", bytes[i]);
    }
    list_codecs(codecs, sizeof codecs);
    mr_fail(err, MR_E_UNSUPPORTED, "this is %s%s; this build decodes: %s",
            name ? name : "no image that is known, it begins with", first, codecs);
    return MR_E_UNSUPPORTED;
}

static mr_status open_file(const decode_params *params, const char *without, const mr_view *in,
                           mr_image_file *file, mr_error *err) {
    *file = (mr_image_file){.bytes = in->data, .size = in->size, .without = without};
    file->index = mr_index_tail_split(file->bytes, &file->size);
    mr_status status = mr_image_file_open(file, params->max_pixels, params->lenient, err);
    if (!file->codec) {
        return fail_unknown(in, err);
    }
    if (!params->orient) {
        file->header.orientation = 1;
    }
    return status;
}

/* ---- Orientation: 5 to 8 swap the axes ---- */
static bool swaps_axes(int32_t orientation) {
    return orientation >= 5;
}

/* Where pixel (y, x) of the upright image lies in the stored one: at + y * down + x * right. */
typedef struct walk {
    int64_t at, down, right;
} walk;

static walk walk_of(const mr_image_header *h) {
    int64_t w = h->width, last_row = (h->height - 1) * w, last_column = w - 1;
    switch (h->orientation) {
    case 2:
        return (walk){last_column, w, -1};
    case 3:
        return (walk){last_row + last_column, -w, -1};
    case 4:
        return (walk){last_row, -w, 1};
    case 5:
        return (walk){0, 1, w};
    case 6:
        return (walk){last_row, 1, -w};
    case 7:
        return (walk){last_row + last_column, -1, -w};
    case 8:
        return (walk){last_column, -1, w};
    default:
        return (walk){0, w, 1};
    }
}

static void turn(const uint8_t *stored, const mr_image_header *h, int32_t pixel, uint8_t *out) {
    walk from = walk_of(h);
    bool swap = swaps_axes(h->orientation);
    int64_t height = swap ? h->width : h->height, width = swap ? h->height : h->width;
    for (int64_t y = 0; y < height; y++) {
        for (int64_t x = 0; x < width; x++, out += pixel) {
            const uint8_t *in = stored + (from.at + y * from.down + x * from.right) * pixel;
            for (int32_t c = 0; c < pixel; c++) {
                out[c] = in[c];
            }
        }
    }
}

/* ---- The op ---- */
static mr_status peek(const void *params, mr_call *call, const mr_view *in, mr_type *out,
                      mr_error *err) {
    mr_image_file file;
    MR_TRY(open_file(params, call->without, in, &file, err));
    const mr_image_header *header = &file.header;
    bool swap = swaps_axes(header->orientation);
    *out = image_type(params, swap ? header->width : header->height,
                      swap ? header->height : header->width);
    return MR_OK;
}

static mr_decode_request request_for(const decode_params *p, mr_call *call,
                                     const mr_image_header *header) {
    return (mr_decode_request){.width = header->width,
                               .height = header->height,
                               .channels = channels_of(p),
                               .indices = p->mode == MODE_INDEX,
                               .lenient = p->lenient,
                               .verify = p->verify,
                               .call = call};
}

/* What a codec found out about the file goes into the memo. Turned images are decoded whole, for
 * which nothing need be known. */
static void ask_for_index(mr_decode_request *request, const mr_image_file *file, mr_index *better) {
    const mr_memo *memo = request->call->memo;
    if (file->header.orientation != 1) {
        return;
    }
    if (memo) {
        request->index = (mr_index){memo->known, memo->known_size};
        request->better = better;
    }
    if (file->index.size > 0) { /* of the whole file */
        request->index = file->index;
    }
}

static void keep_index(mr_call *call, const mr_index *better) {
    if (call->memo) {
        call->memo->found = better->data;
        call->memo->found_size = better->size;
    }
}

/* 8 bits become 16 as in PNG: 255 is 65535. From the end, since both begin at the same place. */
static void widen(uint8_t *bytes, size_t n) {
    for (size_t i = n; i-- > 0;) {
        bytes[2 * i] = bytes[2 * i + 1] = bytes[i];
    }
}

/* As stored, into request->out. A codec that has no more gives 8 bits. */
static mr_status decode_stored(const mr_image_file *file, mr_decode_request *request, bool wide,
                               mr_error *err) {
    request->wide = wide && file->codec->wide;
    MR_TRY(mr_image_file_decode(file, request, err));
    if (wide && !request->wide) {
        widen(request->out, (size_t)(request->width * request->height * request->channels));
    }
    return MR_OK;
}

static mr_status decode_whole(const decode_params *p, mr_call *call, const mr_image_file *file,
                              mr_view *out, mr_error *err) {
    const mr_image_header *header = &file->header;
    bool upright = header->orientation == 1;
    mr_decode_request request = request_for(p, call, header);
    request.out = upright ? out->data : mr_scratch(call, out->size);
    if (!request.out) {
        return mr_fail_memory(err, out->size);
    }
    int32_t pixel = request.channels * (is_wide(p) ? 2 : 1);
    if ((size_t)(header->width * header->height * pixel) != out->size) {
        return mr_fail(err, MR_E_INTERNAL, "header changed between two readings");
    }
    mr_index better = {0};
    ask_for_index(&request, file, &better);
    MR_TRY(decode_stored(file, &request, is_wide(p), err));
    keep_index(call, &better);
    if (!upright) {
        turn(request.out, header, pixel, out->data);
    }
    return MR_OK;
}

static mr_status run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                     mr_error *err) {
    mr_image_file file;
    MR_TRY(open_file(params, call->without, in, &file, err));
    return decode_whole(params, call, &file, out, err);
}

static mr_status give_rows(const mr_view *image, const mr_region *wanted, const mr_rows *to,
                           mr_error *err) {
    const int64_t *dims = image->type.dims;
    for (int64_t y = wanted->y; y < wanted->y + wanted->height; y++) {
        size_t at =
            (size_t)((y * dims[1] + wanted->x) * dims[2]) * mr_dtype_size(image->type.dtype);
        MR_TRY(to->row(to->user, y, (const uint8_t *)image->data + at, err));
    }
    return MR_OK;
}

static mr_status produce(const void *params, mr_call *call, const mr_view *in, const mr_type *out,
                         const mr_region *wanted, const mr_rows *to, mr_error *err) {
    mr_image_file file;
    MR_TRY(open_file(params, call->without, in, &file, err));
    if (file.header.orientation == 1 && !is_wide(params)) {
        mr_decode_request request = request_for(params, call, &file.header);
        mr_index better = {0};
        request.shrink = call->shrink;
        ask_for_index(&request, &file, &better);
        mr_status status = mr_image_file_part(&file, &request, wanted, to, err);
        if (status != MR_DECLINED) {
            keep_index(call, &better);
            return status;
        }
    }
    mr_view image = {.type = *out, .size = (size_t)mr_type_bytes(out)};
    image.data = mr_scratch(call, image.size);
    if (!image.data) {
        return mr_fail_memory(err, image.size);
    }
    MR_TRY(decode_whole(params, call, &file, &image, err));
    return give_rows(&image, wanted, to, err);
}

/* ---- Decoding at a smaller size ---- */
static int32_t most_shrink(const decode_params *p, const mr_view *in) {
    mr_image_file file;
    if (!in) {
        return mr_image_file_most_shrink(NULL);
    }
    bool readable = open_file(p, NULL, in, &file, NULL) == MR_OK;
    return readable && file.header.orientation == 1 ? mr_image_file_most_shrink(&file) : 1;
}

static int32_t shrink(const void *params, const mr_view *in, int32_t tolerated) {
    const decode_params *p = params;
    int32_t most = p->dct_scale && !is_wide(p) && tolerated > 1 ? most_shrink(p, in) : 1, by = 1;
    while (by < most && by <= tolerated / 2) {
        by *= 2;
    }
    return by;
}

static const mr_example examples[] = {
    {"{}",
     "bytes:89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d0000001d49444154"
     "789c636090b5724b6ee859798cc1c83fa762eaa67db77f0000434608b9af6fdc820000000049454e44ae4260"
     "82",
     "0bbb54adc08c6a8e9ce09ab41f5db82a"},
    {"{\"mode\": \"grey\"}",
     "bytes:524946463c000000574542505650384c2f0000002f024000002f20164c4312bd494c2090e22126492c"
     "98862422d9d9fcc71d3ad00128641b010eddeb710a17d1ff585e00",
     "19f562c6960171ef5f32ae26d7b37b92"},
    {"{\"orient\": true}",
     "bytes:ffd8ffe100224578696600004d4d002a00000008000101120003000000010006000000000000ffdb00"
     "43000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e292d2c333a4a3e33364637"
     "2c2d405741464c4e525352323e5a615a50604a51524fffc0000b080002000301011100ffc400140001000000"
     "00000000000000000000000005ffc4001c1000010305000000000000000000000000030001040515233352ff"
     "da0008010100003f004a8000d8e2621ebe597fffd9",
     "242e2311a0284ad326b16b1a47a3538a"},
    {NULL, NULL, NULL},
};

extern const mr_op_class mr_op_decode_image;
const mr_op_class mr_op_decode_image = {
    MR_OP_HEADER,
    .name = "decode_image",
    .summary = "Decodes a JPEG, PNG or WebP image.",
    .doc =
        "The pixels equal Pillow's Image.open(f).convert(\"RGB\") (mode rgb) or convert(\"L\") "
        "(mode grey), and with orient those after ImageOps.exif_transpose, bit for bit. Alpha is "
        "dropped; of an animation the first frame is taken. Files that are damaged are refused, "
        "also where Pillow goes on with guessed pixels. rgb16 and grey16 give a PNG's 16 bits as "
        "they are stored, and 8 bits times 257. dct_scale leaves out the high frequencies "
        "of "
        "a JPEG that the next op would average away, and is no part of this promise: the page on "
        "pipelines says how much pixels differ. The two ops then run fused even where fuse "
        "is false.",
    .flags = MR_OP_HEAVY | MR_OP_REMEMBERS,
    .version = 1,
    .param_size = sizeof(decode_params),
    .params = rows,
    .plan = plan,
    .peek = peek,
    .run = run,
    .produce = produce,
    .shrink = shrink,
    .libraries = mr_image_file_libraries,
    .examples = examples,
    .also = "imread read_image decode_jpeg decode_png",
    .doubt_of_mask = doubt_of_mask,
};
