/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - what the codecs share: limits, the place of an error, names for foreign bytes. */
#include "codecs/codec.h"
#include "core/letters.h"

#include <string.h>

mr_status mr_codec_check_size(int64_t width, int64_t height, int64_t max_pixels, mr_error *err) {
    if (width <= 0 || height <= 0) {
        return mr_fail(err, MR_E_CORRUPT, "the header says %lld x %lld pixels", (long long)width,
                       (long long)height);
    }
    if (width > max_pixels / height) {
        mr_fail(err, MR_E_LIMIT, "%lld x %lld pixels are more than max_pixels (%lld)",
                (long long)width, (long long)height, (long long)max_pixels);
        mr_hint(err, "if the file is meant to be this large, raise decode_image's max_pixels");
        return MR_E_LIMIT;
    }
    return MR_OK;
}

mr_status mr_codec_too_much_metadata(const char *format, mr_error *err) {
    return mr_fail(err, MR_E_LIMIT, "cannot decode %s: more than %zu MiB of metadata", format,
                   MR_METADATA_MAX >> 20);
}

mr_status mr_codec_at_byte(mr_error *err, mr_status status, size_t offset) {
    if (err) {
        err->offset = (int64_t)offset;
    }
    return status;
}

/* ---- Names for foreign bytes ---- */
typedef struct look {
    size_t at; /* where the mark stands */
    size_t size;
    const char *mark;
    const char *name;
} look;

static const look looks[] = {
    {0, 3, "\xFF\xD8\xFF", "a JPEG image"},
    {0, 4, "\x89PNG", "a PNG image"},
    {8, 4, "WEBP", "a WebP image"},
    {0, 4, "GIF8", "a GIF image"},
    {0, 4, "II*\0", "a TIFF image"},
    {0, 4, "MM\0*", "a TIFF image"},
    {4, 8, "ftypavif", "an AVIF image"},
    {4, 7, "ftyphei", "a HEIF image"},
    {4, 8, "ftypmif1", "a HEIF image"},
    {4, 4, "ftyp", "an MP4 film"},
    {4, 4, "jP  ", "a JPEG 2000 image"},
    {4, 4, "JXL ", "a JPEG XL image"},
    {0, 2, "\xFF\x0A", "a JPEG XL image"},
    {0, 4, "8BPS", "a Photoshop image"},
    {0, 4, "\0\0\1\0", "a Windows icon"},
    {0, 4, "%PDF", "a PDF document"},
    {0, 4, "PK\3\4", "a ZIP archive"},
    {0, 2, "\x1F\x8B", "a gzip file"},
    {0, 4, "\x28\xB5\x2F\xFD", "a zstd file"},
    {257, 5, "ustar", "a tar archive"},
    {0, 4, "PAR1", "a Parquet file"},
    {0, 6, "\x93NUMPY", "a NumPy array"},
    {0, 4, "fLaC", "a FLAC recording"},
    {0, 2, "BM", "a BMP image"},
};

static bool starts_with(const uint8_t *bytes, size_t size, const char *word) {
    size_t length = strlen(word);
    return size >= length && mr_same_letters((const char *)bytes, word, length);
}

static const char *looks_like_markup(const uint8_t *bytes, size_t size) {
    while (size > 0 && strchr(" \t\r\n", bytes[0]) && bytes[0]) {
        bytes++;
        size--;
    }
    if (starts_with(bytes, size, "<!doctype html") || starts_with(bytes, size, "<html")) {
        return "an HTML page";
    }
    if (starts_with(bytes, size, "<svg")) {
        return "an SVG drawing";
    }
    if (starts_with(bytes, size, "<?xml")) {
        return "an XML document";
    }
    return size > 0 && bytes[0] == '{' ? "a JSON document" : NULL;
}

static bool all_zero(const uint8_t *bytes, size_t size) {
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

const char *mr_looks_like(const uint8_t *bytes, size_t size) {
    if (size == 0) {
        return "an empty file";
    }
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        const look *l = &looks[i];
        if (size >= l->at + l->size && memcmp(bytes + l->at, l->mark, l->size) == 0) {
            return l->name;
        }
    }
    if (all_zero(bytes, size)) {
        return "a file of zero bytes";
    }
    return looks_like_markup(bytes, size);
}
