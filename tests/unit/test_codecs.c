/* SPDX-License-Identifier: Apache-2.0 */
/* test_codecs.c - the image codecs on damaged and hostile files. Whether pixels equal Pillow's is
 * tests/python/test_decode.py's business; here memory is of exactly the right size, so that the
 * sanitizers see every byte too many. */
#include "test.h"
#include "codecs/codec.h"
#include "codecs/exif.h"
#include "codecs/pixels.h"
#include "core/memory.h"
#include "core/registry.h"

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static bytes bytes_copy(const void *data, size_t size) {
    bytes b = {malloc(size ? size : 1), size};
    memcpy(b.data, data, size);
    return b;
}

/* Replaces the `removed` bytes at `at` by others. */
static bytes bytes_splice(bytes b, size_t at, size_t removed, const void *data, size_t size) {
    bytes out = {malloc(b.size - removed + size), b.size - removed + size};
    memcpy(out.data, b.data, at);
    memcpy(out.data + at, data, size);
    memcpy(out.data + at + size, b.data + at + removed, b.size - at - removed);
    return out;
}

static bytes load(const char *name) {
    char path[1024];
    uint8_t buffer[4096];
    snprintf(path, sizeof path, "%s/codecs/%s", MR_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t size = file ? fread(buffer, 1, sizeof buffer, file) : 0;
    CHECK_INT(size, >, 0);
    if (file) {
        fclose(file);
    }
    return bytes_copy(buffer, size);
}

/* ---- Decoding, with all memory exact and poisoned ---- */
typedef struct result {
    mr_status status;
    mr_error err;
    mr_image_header header;
    uint8_t *pixels; /* NULL unless MR_OK */
} result;

static mr_status decode_pixels(const mr_image_file *file, int32_t channels, bool lenient,
                               result *r) {
    mr_arena arena = {0};
    mr_call call = {.arena = &arena};
    size_t size = (size_t)(r->header.width * r->header.height * channels);
    r->pixels = malloc(size);
    memset(r->pixels, 0xA5, size);
    mr_decode_request request = {.width = r->header.width,
                                 .height = r->header.height,
                                 .channels = channels,
                                 .lenient = lenient,
                                 .out = r->pixels,
                                 .call = &call};
    mr_status status = mr_image_file_decode(file, &request, &r->err);
    mr_arena_free(&arena);
    return status;
}

static result decode(bytes b, int32_t channels, bool lenient) {
    result r = {.status = MR_E_UNSUPPORTED, .err = MR_ERROR_INIT};
    bytes exact = bytes_copy(b.data, b.size);
    mr_image_file file = {.bytes = exact.data, .size = exact.size};
    r.status = mr_image_file_open(&file, 89478485, lenient, &r.err);
    r.header = file.header;
    if (r.status == MR_OK) {
        r.status = decode_pixels(&file, channels, lenient, &r);
    }
    if (r.status != MR_OK) {
        free(r.pixels);
        r.pixels = NULL;
        CHECK(!file.codec || (r.err.code == r.status && r.err.text[0]));
        CHECK_INT(r.status, !=, MR_E_INTERNAL);
    }
    free(exact.data);
    return r;
}

static mr_status status_of(bytes b) {
    result r = decode(b, 3, false);
    free(r.pixels);
    return r.status;
}

/* Codecs are optional; what is left out for the lack of one is said. */
static bool have(const char *codec) {
    for (int32_t i = 0; i < mr_n_codecs(); i++) {
        if (strcmp(mr_codec_at(i)->name, codec) == 0) {
            return true;
        }
    }
    printf("left out: this build has no codec %s\n", codec);
    return false;
}

static const char *codec_of_file(const char *file) {
    return strstr(file, ".jpg") ? "jpeg" : strstr(file, ".png") ? "png" : "webp";
}

static const char *const files[] = {
    "flat.jpg",   "colour.jpg",  "progressive.jpg", "colour.png", "interlaced.png",
    "grey16.png", "palette.png", "colour.webp",     "lossy.webp", "alpha.webp",
};
enum { N_FILES = sizeof files / sizeof *files };

/* ---- Pixels ---- */
static int pattern(int64_t y, int64_t x, int64_t c) {
    return (int)((x * 7 + y * 13 + c * 29) % 256);
}

static void check_pattern(const char *file) {
    bytes b = load(file);
    result r = decode(b, 3, false);
    CHECK_INT(r.status, ==, MR_OK);
    CHECK_INT(r.header.width, ==, 9);
    CHECK_INT(r.header.height, ==, 6);
    CHECK_INT(r.header.orientation, ==, 1);
    for (int i = 0; r.pixels && i < 6 * 9 * 3; i++) {
        CHECK_INT(r.pixels[i], ==, pattern(i / 27, i / 3 % 9, i % 3));
    }
    free(r.pixels);
    free(b.data);
}

TEST(lossless_files_give_their_pixels) {
    if (have("png")) {
        check_pattern("colour.png");
        check_pattern("interlaced.png");
    }
    if (have("webp")) {
        check_pattern("colour.webp");
    }
}

TEST(grey_is_made_of_colour) {
    if (!have("png")) {
        return;
    }
    bytes b = load("interlaced.png");
    result r = decode(b, 1, false);
    for (int i = 0; r.pixels && i < 6 * 9; i++) {
        int64_t y = i / 9, x = i % 9;
        CHECK_INT(r.pixels[i], ==,
                  (pattern(y, x, 0) * 19595 + pattern(y, x, 1) * 38470 + pattern(y, x, 2) * 7471 +
                   0x8000) >>
                      16);
    }
    CHECK(r.pixels != NULL);
    free(r.pixels);
    free(b.data);
}

TEST(a_flat_jpeg_is_flat) {
    for (int32_t channels = 1; have("jpeg") && channels <= 3; channels += 2) {
        bytes b = load("flat.jpg");
        result r = decode(b, channels, false);
        CHECK_INT(r.status, ==, MR_OK);
        for (int i = 0; r.pixels && i < 64 * channels; i++) {
            CHECK_INT(r.pixels[i], ==, 128);
        }
        free(r.pixels);
        free(b.data);
    }
}

TEST(cmyk_extremes) {
    const uint8_t ink[] = {255, 255, 255, 255, 0, 255, 255, 255, 9, 9, 9, 0};
    uint8_t rgb[9];
    mr_cmyk_to_rgb(ink, rgb, 3);
    const uint8_t expected[] = {255, 255, 255, 0, 255, 255, 0, 0, 0};
    CHECK(memcmp(rgb, expected, 9) == 0);
}

/* ---- Parts ---- */
typedef struct expected_part {
    const uint8_t *image;
    int64_t width;
    int32_t channels;
    mr_region region;
    int64_t rows;
} expected_part;

static mr_status check_row(void *user, int64_t y, const uint8_t *pixels, mr_error *err) {
    (void)err;
    expected_part *e = user;
    size_t at = (size_t)((y * e->width + e->region.x) * e->channels);
    bool equal = memcmp(pixels, e->image + at, (size_t)(e->region.width * e->channels)) == 0;
    CHECK(equal);
    CHECK_INT(y, ==, e->region.y + e->rows);
    e->rows++;
    return MR_OK;
}

static void check_part(const mr_image_file *file, const result *whole, int32_t channels,
                       mr_region region) {
    mr_arena arena = {0};
    mr_call call = {.arena = &arena};
    mr_error err = MR_ERROR_INIT;
    int64_t width = whole->header.width, height = whole->header.height;
    expected_part expected = {whole->pixels, width, channels, region, 0};
    const mr_rows to = {.row = check_row, .user = &expected};
    mr_decode_request request = {
        .width = width, .height = height, .channels = channels, .verify = true, .call = &call};
    mr_status status = mr_image_file_part(file, &request, &region, &to, &err);
    CHECK(status == MR_OK || (status == MR_DECLINED && !file->codec->part));
    CHECK_INT(expected.rows, ==, status == MR_OK ? region.height : 0);
    mr_arena_free(&arena);
}

/* Every range of columns, with a few ranges of rows. */
static void check_all_parts(const char *file, int32_t channels) {
    bytes b = load(file);
    result whole = decode(b, channels, false);
    mr_image_file opened = {.bytes = b.data, .size = b.size};
    CHECK_INT(mr_image_file_open(&opened, 89478485, false, NULL), ==, MR_OK);
    int64_t width = whole.header.width, height = whole.header.height;
    for (int64_t x = 0; whole.pixels && opened.codec && x < width; x++) {
        for (int64_t w = 1; w <= width - x; w++) {
            int64_t y = (x * 5 + w) % height, h = 1 + (x + w * 3) % (height - y);
            check_part(&opened, &whole, channels, (mr_region){x, y, w, h});
        }
    }
    CHECK(whole.pixels != NULL);
    free(whole.pixels);
    free(b.data);
}

TEST(a_part_is_that_part_of_the_whole) {
    for (int f = 0; f < N_FILES; f++) {
        if (have(codec_of_file(files[f]))) {
            check_all_parts(files[f], 3);
            check_all_parts(files[f], 1);
        }
    }
}

/* ---- Damage ---- */
TEST(every_truncation_is_an_error) {
    for (int f = 0; f < N_FILES; f++) {
        bytes b = load(files[f]);
        for (size_t size = 0; have(codec_of_file(files[f])) && size < b.size; size++) {
            bytes cut = {b.data, size};
            mr_status status = status_of(cut);
            CHECK(status == MR_E_CORRUPT || status == MR_E_UNSUPPORTED);
            result lenient = decode(cut, 1, true); /* must only not crash */
            free(lenient.pixels);
        }
        free(b.data);
    }
}

TEST(flipped_bits_do_not_crash) {
    for (int f = 0; f < N_FILES; f++) {
        bytes b = load(files[f]);
        for (size_t at = 0; at < b.size; at++) {
            uint8_t whole = b.data[at];
            b.data[at] ^= (uint8_t)(1u << (at * 5 % 8));
            mr_status status = status_of(b);
            CHECK(status != MR_OK || !strstr(files[f], ".png"));
            b.data[at] = whole;
        }
        free(b.data);
    }
}

TEST(a_png_error_names_its_chunk_and_byte) {
    if (!have("png")) {
        return;
    }
    bytes b = load("colour.png");
    b.data[b.size - 16] ^= 1; /* the CRC of IDAT: 12 bytes of IEND come after it */
    result r = decode(b, 3, false);
    CHECK_INT(r.status, ==, MR_E_CORRUPT);
    CHECK_HAS(r.err.text, "IDAT");
    CHECK_HAS(r.err.text, "CRC");
    CHECK_INT(r.err.offset, ==, b.size - 12);
    free(b.data);
}

/* ---- Bombs ---- */
static uint8_t *put_32(uint8_t *at, size_t value) {
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
    return at + 4;
}

static uint32_t crc_32(const uint8_t *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
    }
    return ~crc;
}

static bytes png_with_size(uint32_t width, uint32_t height) {
    bytes b = load("colour.png");
    put_32(put_32(b.data + 16, width), height);
    put_32(b.data + 29, crc_32(b.data + 12, 17));
    return b;
}

static size_t find(bytes b, const char *mark, size_t size) {
    const uint8_t *at = memmem(b.data, b.size, mark, size);
    CHECK(at != NULL);
    return at ? (size_t)(at - b.data) : 0;
}

static bytes jpeg_with_size(const char *file, const char *frame, int width, int height) {
    bytes b = load(file);
    uint8_t *at = b.data + find(b, frame, 2) + 5;
    at[0] = (uint8_t)(height >> 8);
    at[1] = (uint8_t)height;
    at[2] = (uint8_t)(width >> 8);
    at[3] = (uint8_t)width;
    return b;
}

static void check_result(bytes b, mr_status expected, const char *text) {
    result r = decode(b, 3, false);
    CHECK_INT(r.status, ==, expected);
    CHECK_HAS(r.err.text, text);
    free(r.pixels);
    free(b.data);
}

TEST(huge_headers_are_refused) {
    if (have("png")) {
        check_result(png_with_size(65535, 65535), MR_E_LIMIT, "max_pixels");
        check_result(png_with_size(0x7FFFFFFF, 0x7FFFFFFF), MR_E_LIMIT, "max_pixels");
        check_result(png_with_size(0xFFFFFFFF, 0xFFFFFFFF), MR_E_LIMIT, "max_pixels");
        check_result(png_with_size(0, 5), MR_E_CORRUPT, "0 x 5");
        check_result(png_with_size(3000, 3000), MR_E_CORRUPT, "do not fit");
    }
    if (have("jpeg")) {
        check_result(jpeg_with_size("colour.jpg", "\xFF\xC0", 65500, 65500), MR_E_LIMIT,
                     "max_pixels");
        check_result(jpeg_with_size("colour.jpg", "\xFF\xC0", 65535, 65535), MR_E_LIMIT, "65500");
        check_result(jpeg_with_size("progressive.jpg", "\xFF\xC2", 3000, 3000), MR_E_CORRUPT,
                     "do not fit");
    }
}

/* The last scan of a progressive file, again and again. */
static bytes scan_bomb(size_t count) {
    bytes b = load("progressive.jpg");
    size_t last = b.size - 2;
    while (last > 0 && memcmp(b.data + last, "\xFF\xDA", 2) != 0) {
        last--;
    }
    size_t scan = b.size - 2 - last;
    uint8_t *scans = malloc(count * scan + 1);
    for (size_t i = 0; i < count; i++) {
        memcpy(scans + i * scan, b.data + last, scan);
    }
    bytes out = bytes_splice(b, last, scan, scans, count * scan);
    free(scans);
    free(b.data);
    return out;
}

TEST(scan_bombs_are_refused) {
    if (have("jpeg")) {
        check_result(scan_bomb(1), MR_OK, "");
        check_result(scan_bomb(2000), MR_E_LIMIT, "scans over 17 x 19 pixels");
    }
}

TEST(metadata_bombs_are_refused) {
    size_t size = (size_t)17 << 20;
    uint8_t *junk = calloc(1, size + 12);
    if (have("png")) {
        bytes b = load("colour.png");
        memcpy(put_32(junk, size), "abCd", 4);
        check_result(bytes_splice(b, 33, 0, junk, size + 12), MR_E_LIMIT, "metadata");
        free(b.data);
    }
    if (have("jpeg")) {
        bytes b = load("colour.jpg");
        for (size_t i = 0; i + 4 <= size; i += 4) { /* the shortest comments there are */
            memcpy(junk + i, "\xFF\xFE\0\2", 4);
        }
        check_result(bytes_splice(b, 2, 0, junk, size), MR_E_LIMIT, "metadata");
        free(b.data);
    }
    free(junk);
}

/* ---- Orientation ---- */
TEST(damaged_exif_is_upright) {
    uint8_t exif[] = "MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\6\0\0\0\0\0\0";
    size_t size = sizeof exif - 1;
    mr_metadata whole = {.exif = exif, .exif_size = size};
    CHECK_INT(mr_orientation(&whole), ==, 6);
    for (size_t cut = 0; cut < size; cut++) {
        bytes b = bytes_copy(exif, cut);
        mr_metadata part = {.exif = b.data, .exif_size = b.size};
        CHECK_INT(mr_orientation(&part), ==, cut < 22 ? 1 : 6);
        free(b.data);
    }
    for (size_t at = 0; at < size; at++) {
        bytes b = bytes_copy(exif, size);
        b.data[at] = 0xFF;
        mr_metadata broken = {.exif = b.data, .exif_size = b.size};
        CHECK_INT(mr_orientation(&broken), >=, 1);
        CHECK_INT(mr_orientation(&broken), <=, 8);
        free(b.data);
    }
}

TEST(xmp_speaks_where_exif_does_not) {
    const char *text = "tiff:Orientation tiff:Orientation=\"8\" tiff:Orientation>3<";
    mr_metadata m = {.xmp = (const uint8_t *)text, .xmp_size = strlen(text)};
    CHECK_INT(mr_orientation(&m), ==, 8);
    m.xmp_size = strlen("tiff:Orientation tiff:Orientation=\"");
    CHECK_INT(mr_orientation(&m), ==, 1);
}

TEST_MAIN()
