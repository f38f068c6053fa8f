/* SPDX-License-Identifier: Apache-2.0 */
/* webp.c - WebP through libwebp. MR_REQUIRES(libwebp libwebpdemux)
 *
 * Pixels are those of Pillow: alpha is dropped, and of an animation the first frame is shown on a
 * black canvas. The container is checked as a whole, so a file that is cut off anywhere is
 * refused. */
#include "codecs/codec.h"
#include "codecs/exif.h"
#include "codecs/pixels.h"
#include "core/error.h"

#include <stdio.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

enum { RIFF_HEADER = 12, CHUNK_HEADER = 8, CHUNK_COST = 64 };

static const char *status_text(VP8StatusCode status) {
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return "unsupported feature";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return "the data ends early";
    default:
        return "bitstream error";
    }
}

static mr_status fail_status(VP8StatusCode status, mr_error *err) {
    mr_status code = status == VP8_STATUS_OUT_OF_MEMORY         ? MR_E_MEMORY
                     : status == VP8_STATUS_UNSUPPORTED_FEATURE ? MR_E_UNSUPPORTED
                                                                : MR_E_CORRUPT;
    return mr_fail(err, code, "cannot decode WebP: %s", status_text(status));
}

/* ---- Metadata ---- */
static uint32_t read_32(const uint8_t *p) {
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static bool is_image_chunk(const uint8_t *type) {
    return memcmp(type, "VP8", 3) == 0 || memcmp(type, "ALPH", 4) == 0 ||
           memcmp(type, "ANMF", 4) == 0;
}

/* Counts what is not image: libwebp keeps a record of every chunk. */
static mr_status check_metadata(const uint8_t *bytes, size_t size, mr_error *err) {
    size_t at = RIFF_HEADER, metadata_bytes = 0;
    while (size - at >= CHUNK_HEADER) {
        const uint8_t *type = bytes + at;
        size_t length = read_32(type + 4), left = size - at - CHUNK_HEADER;
        metadata_bytes += is_image_chunk(type) ? 0 : length + CHUNK_COST;
        if (length <= left && metadata_bytes > MR_METADATA_MAX) {
            return mr_codec_at_byte(err, mr_codec_too_much_metadata("WebP", err), at);
        }
        length += length & 1; /* chunks are padded to even sizes */
        at += CHUNK_HEADER + (length < left ? length : left);
    }
    return MR_OK;
}

static void find_chunk(const WebPDemuxer *demux, const char *type, const uint8_t **data,
                       size_t *size) {
    WebPChunkIterator found;
    if (WebPDemuxGetChunk(demux, type, 1, &found)) {
        *data = found.chunk.bytes; /* within the file's bytes */
        *size = found.chunk.size;
        WebPDemuxReleaseChunkIterator(&found);
    }
}

static int32_t find_orientation(const WebPDemuxer *demux) {
    mr_metadata metadata = {0};
    find_chunk(demux, "EXIF", &metadata.exif, &metadata.exif_size);
    find_chunk(demux, "XMP ", &metadata.xmp, &metadata.xmp_size);
    return mr_orientation(&metadata);
}

/* ---- Header ---- */
static mr_status fail_container(const uint8_t *bytes, size_t size, mr_error *err) {
    uint64_t promised = (uint64_t)read_32(bytes + 4) + 8;
    if (promised > size) {
        mr_status status = mr_fail(
            err, MR_E_CORRUPT, "cannot decode WebP: the file ends early, after %zu of %llu bytes",
            size, (unsigned long long)promised);
        return mr_codec_at_byte(err, status, size);
    }
    return mr_fail(err, MR_E_CORRUPT, "cannot decode WebP: the container is damaged");
}

static mr_status header(const uint8_t *bytes, size_t size, int64_t max_pixels, bool lenient,
                        mr_image_header *out, mr_error *err) {
    (void)lenient; /* libwebp does not warn */
    WebPData data = {bytes, size};
    MR_TRY(check_metadata(bytes, size, err));
    WebPDemuxer *demux = WebPDemux(&data);
    if (!demux) {
        return fail_container(bytes, size, err);
    }
    out->width = WebPDemuxGetI(demux, WEBP_FF_CANVAS_WIDTH);
    out->height = WebPDemuxGetI(demux, WEBP_FF_CANVAS_HEIGHT);
    out->orientation = find_orientation(demux);
    WebPDemuxDelete(demux);
    return mr_codec_check_size(out->width, out->height, max_pixels, err);
}

/* ---- Pixels ---- */

/* Decodes a frame to RGB. libwebp decodes its alpha too although nobody asks for it, so that damage
 * there is noticed. */
static mr_status decode_frame(const WebPIterator *frame, uint8_t *out, size_t stride,
                              mr_error *err) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) {
        return mr_fail(err, MR_E_INTERNAL, "libwebp has another version than its headers");
    }
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = stride * (size_t)(frame->height - 1) + (size_t)frame->width * 3;
    VP8StatusCode status = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    return status == VP8_STATUS_OK ? MR_OK : fail_status(status, err);
}

static mr_status decode_grey_frame(const WebPIterator *frame, mr_call *call, uint8_t *out,
                                   size_t stride, mr_error *err) {
    size_t width = (size_t)frame->width, height = (size_t)frame->height;
    uint8_t *pixels = mr_scratch(call, width * height * 3);
    if (!pixels) {
        return mr_fail_memory(err, width * height * 3);
    }
    MR_TRY(decode_frame(frame, pixels, width * 3, err));
    for (size_t y = 0; y < height; y++) {
        mr_rgb_to_grey(pixels + y * width * 3, out + y * stride, width);
    }
    return MR_OK;
}

static mr_status place_frame(const WebPIterator *frame, const mr_decode_request *request,
                             mr_error *err) {
    size_t channels = (size_t)request->channels;
    size_t stride = (size_t)request->width * channels;
    uint8_t *out =
        request->out + (size_t)frame->y_offset * stride + (size_t)frame->x_offset * channels;
    return channels == 1 ? decode_grey_frame(frame, request->call, out, stride, err)
                         : decode_frame(frame, out, stride, err);
}

static bool fits(const WebPIterator *frame, const mr_decode_request *request) {
    return frame->width > 0 && frame->height > 0 && frame->x_offset >= 0 && frame->y_offset >= 0 &&
           frame->x_offset + frame->width <= request->width &&
           frame->y_offset + frame->height <= request->height;
}

static mr_status decode_first(const WebPDemuxer *demux, const mr_decode_request *request,
                              mr_error *err) {
    WebPIterator frame;
    if (WebPDemuxGetI(demux, WEBP_FF_CANVAS_WIDTH) != request->width ||
        WebPDemuxGetI(demux, WEBP_FF_CANVAS_HEIGHT) != request->height) {
        return mr_fail(err, MR_E_INTERNAL, "WebP header changed between two readings");
    }
    if (!WebPDemuxGetFrame(demux, 1, &frame)) {
        return mr_fail(err, MR_E_CORRUPT, "cannot decode WebP: no frame");
    }
    mr_status status;
    if (!fits(&frame, request)) {
        status = mr_fail(err, MR_E_CORRUPT, "cannot decode WebP: frame outside the canvas");
    } else {
        if (frame.width < request->width || frame.height < request->height) {
            memset(request->out, 0,
                   (size_t)request->width * (size_t)request->height * (size_t)request->channels);
        }
        status = place_frame(&frame, request, err);
    }
    WebPDemuxReleaseIterator(&frame);
    return status;
}

static mr_status decode(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                        mr_error *err) {
    WebPData data = {bytes, size};
    WebPDemuxer *demux = WebPDemux(&data);
    if (!demux) {
        return fail_container(bytes, size, err);
    }
    mr_status status = decode_first(demux, request, err);
    WebPDemuxDelete(demux);
    return status;
}

static bool sniff(const uint8_t *bytes, size_t size) {
    return size >= RIFF_HEADER && memcmp(bytes, "RIFF", 4) == 0 &&
           memcmp(bytes + 8, "WEBP", 4) == 0;
}

static void libraries(char *text, size_t size) {
    int version = WebPGetDecoderVersion(); /* 0xMMmmrr */
    snprintf(text, size, "libwebp %d.%d.%d", version >> 16, version >> 8 & 255, version & 255);
}

extern const mr_codec mr_codec_webp;
const mr_codec mr_codec_webp = {
    .name = "webp",
    .format = "WebP",
    .sniff = sniff,
    .header = header,
    .decode = decode,
    .libraries = libraries,
};
