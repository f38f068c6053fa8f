/* SPDX-License-Identifier: Apache-2.0 */
/* The array source: .npy headers as numpy writes them, headers as nobody should, and rows. */
#include "fixture.h"
#include "test.h"

#include "codecs/npy.h"

/* ---- Making .npy files ---- */
typedef struct image { /* of a file, in memory */
    unsigned char bytes[70000];
    size_t size;
} image;

static image npy_v(int version, const char *header, size_t n_data) {
    image file = {{0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0}, 0};
    size_t start = version == 1 ? 10 : 12, length = strlen(header);
    for (size_t i = 8; i < start; i++) {
        file.bytes[i] = (unsigned char)(length >> 8 * (i - 8));
    }
    memcpy(file.bytes + start, header, length);
    file.size = start + length + n_data;
    for (size_t i = start + length; i < file.size; i++) {
        file.bytes[i] = (unsigned char)(i - start - length);
    }
    return file;
}

static image npy(const char *header, size_t n_data) {
    return npy_v(1, header, n_data);
}

static mr_npy parsed;
static mr_error err;

/* From memory of exactly that size, so that a sanitizer sees a byte too many. */
static mr_status parse_prefix(const image *file, size_t size) {
    unsigned char *copy = malloc(size ? size : 1);
    memcpy(copy, file->bytes, size);
    err = (mr_error)MR_ERROR_INIT;
    mr_status status = mr_npy_parse(copy, size, &parsed, &err);
    free(copy);
    return status;
}

static mr_status parse(image file) {
    return parse_prefix(&file, file.size);
}

static const char plain[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }    \n";

/* ---- Headers ---- */
TEST(header_as_numpy_writes_it) {
    for (int version = 1; version <= 3; version++) {
        CHECK_INT(parse(npy_v(version, plain, 24)), ==, MR_OK);
        CHECK_INT(parsed.dtype, ==, MR_I32);
        CHECK_INT(parsed.n_dims, ==, 2);
        CHECK_INT(parsed.dims[0], ==, 3);
        CHECK_INT(parsed.dims[1], ==, 2);
        CHECK_INT(parsed.bytes, ==, 24);
        CHECK_INT(parsed.offset, ==, (version == 1 ? 10 : 12) + (int)strlen(plain));
    }
}

TEST(other_ways_to_write_the_same) {
    CHECK_INT(parse(npy("{\"shape\":(6,),\"descr\":\"|u1\",\"fortran_order\":False}", 6)), ==,
              MR_OK);
    CHECK_INT(parsed.n_dims, ==, 1);
    CHECK_INT(parse(npy("{'descr':'<f4','fortran_order':False,'shape':()}", 4)), ==, MR_OK);
    CHECK_INT(parsed.n_dims, ==, 0);
    CHECK_INT(parse(npy("{'descr':'<f2','fortran_order':False,'shape':(2,0,3)}", 0)), ==, MR_OK);
    CHECK_INT(parsed.bytes, ==, 0);
    CHECK_INT(parse(npy("{'descr':'|u1','fortran_order':False,'shape':(1,1,1,1,1,1,1)}", 1)), ==,
              MR_OK);
}

TEST(cut_at_every_byte) {
    image file = npy(plain, 24);
    for (size_t size = 0; size < file.size; size++) {
        CHECK_INT(parse_prefix(&file, size), ==, MR_E_CORRUPT);
        CHECK(err.text[0] != '\0');
    }
    CHECK_INT(parse_prefix(&file, file.size + 1), ==, MR_E_CORRUPT);
    CHECK_HAS(err.text, "promises");
}

TEST(every_byte_changed) {
    image file = npy_v(2, plain, 24);
    for (size_t i = 0; i < file.size - 24; i++) {
        for (int change = 1; change < 256; change++) {
            file.bytes[i] ^= (unsigned char)change;
            mr_status status = parse_prefix(&file, file.size);
            CHECK(status == MR_OK ? parsed.bytes + parsed.offset == (int64_t)file.size
                                  : err.text[0] != '\0');
            file.bytes[i] ^= (unsigned char)change;
        }
    }
}

typedef struct bad {
    const char *header;
    mr_status status;
    const char *says;
} bad;

#define DICT(descr, order, shape)                                                                  \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

static const bad bad_headers[] = {
    {DICT("'|O'", "False", "(3,)"), MR_E_UNSUPPORTED, "objects"},
    {DICT("'>i4'", "False", "(3,)"), MR_E_UNSUPPORTED, "big-endian"},
    {DICT("'<c8'", "False", "(3,)"), MR_E_UNSUPPORTED, "<c8"},
    {DICT("'<U5'", "False", "(3,)"), MR_E_UNSUPPORTED, "<U5"},
    {DICT("[('a', '<i4')]", "False", "(3,)"), MR_E_UNSUPPORTED, "named fields"},
    {DICT("'|u1'", "True", "(3, 4)"), MR_E_UNSUPPORTED, "Fortran"},
    {DICT("'|u1'", "0", "(3, 4)"), MR_E_CORRUPT, "neither"},
    {DICT("'|u1'", "False", "(1,1,1,1,1,1,1,1)"), MR_E_UNSUPPORTED, "dimensions"},
    {DICT("'|u1'", "False", "(3)"), MR_E_CORRUPT, "tuple"},
    {DICT("'|u1'", "False", "[3]"), MR_E_CORRUPT, "tuple"},
    {DICT("'|u1'", "False", "(3 4)"), MR_E_CORRUPT, "comma"},
    {DICT("'|u1'", "False", "(,)"), MR_E_CORRUPT, "number"},
    {DICT("'|u1'", "False", "(3,,4)"), MR_E_CORRUPT, "number"},
    {DICT("'|u1'", "False", "(-3,)"), MR_E_CORRUPT, "number"},
    {DICT("'|u1'", "False", "(3L,)"), MR_E_CORRUPT, "comma"},
    {DICT("'|u1'", "False", "(99999999999999999999,)"), MR_E_CORRUPT, "too large"},
    {DICT("'<i8'", "False", "(4294967296, 4294967296)"), MR_E_CORRUPT, "larger than any file"},
    {DICT("'|u1'", "False", "(9223372036854775807,)"), MR_E_CORRUPT, "promises"},
    {DICT("'|u\\x31'", "False", "(3,)"), MR_E_CORRUPT, "string"},
    {DICT("u'|u1'", "False", "(3,)"), MR_E_CORRUPT, "quoted"},
    {"{'descr': '|u1', 'shape': (3,)}", MR_E_CORRUPT, "missing"},
    {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", MR_E_CORRUPT,
     "twice"},
    {"{'descr': '|u1' 'fortran_order': False, 'shape': (3,)}", MR_E_CORRUPT, "comma"},
    {"{'descr' '|u1', 'fortran_order': False, 'shape': (3,)}", MR_E_CORRUPT, "colon"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), 'x': 1}", MR_E_CORRUPT, "key"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,)} {}", MR_E_CORRUPT, "behind"},
    {"{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}", MR_E_CORRUPT, "quoted"},
    {"", MR_E_CORRUPT, "dictionary"},
};

TEST(bad_headers_are_refused) {
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++) {
        CHECK_INT(parse(npy(bad_headers[i].header, 3)), ==, bad_headers[i].status);
        CHECK_HAS(err.text, bad_headers[i].says);
    }
}

TEST(bad_frames_are_refused) {
    image file = npy(plain, 24);
    file.bytes[0] = 'P';
    CHECK_INT(parse(file), ==, MR_E_UNSUPPORTED);
    CHECK_HAS(err.text, "not a .npy");
    file = npy_v(4, plain, 24);
    CHECK_INT(parse(file), ==, MR_E_UNSUPPORTED);
    CHECK_HAS(err.text, "version 4.0");
    file = npy_v(2, plain, 24);
    file.bytes[10] = 1; /* a header of 65536 bytes and some more */
    CHECK_INT(parse(file), ==, MR_E_LIMIT);
    file.bytes[10] = 0;
    file.bytes[11] = 0xFF;
    CHECK_INT(parse(file), ==, MR_E_LIMIT);
}

/* ---- Rows ---- */
static char json[1024];

static const char *document(const char *folder, const char *rest) {
    snprintf(json, sizeof json,
             "{\"source\": {\"array\": {\"path\": \"%s/data.npy\"%s, \"shuffle\": false}", folder,
             rest);
    return json;
}

static void write_npy(const char *folder, const char *name, image file) {
    fixture_write(folder, name, file.bytes, file.size);
}

static mr_status parse_document(const char *text, mr_pipeline **pipeline) {
    err = (mr_error)MR_ERROR_INIT;
    return mr_pipeline_parse(pipeline, text, strlen(text), NULL, &err);
}

static mr_batch *first_batch(mr_loader *loader) {
    mr_batch *batch = NULL;
    CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_OK);
    return batch;
}

TEST(rows_labels_and_index) {
    char *folder = fixture_folder();
    write_npy(folder, "data.npy", npy("{'descr':'<i4','fortran_order':False,'shape':(5,3)} ", 60));
    write_npy(folder, "label.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(5,)}", 5));
    char rest[256];
    snprintf(rest, sizeof rest,
             ", \"labels\": \"%s/label.npy\"}}, \"batch\": 5, \"fields\": [\"data\", \"label\", "
             "\"index\"]",
             folder);
    mr_pipeline *pipeline = fixture_pipeline(document(folder, rest));
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch = first_batch(loader);
    const int32_t *data = mr_batch_find(batch, "data")->data;
    const int64_t *label = mr_batch_find(batch, "label")->data;
    const int64_t *index = mr_batch_find(batch, "index")->data;
    for (int i = 0; i < 15; i++) {
        CHECK_INT(data[i], ==, 0x03020100 + i * 4 * 0x01010101);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_INT(label[i], ==, i);
        CHECK_INT(index[i], ==, i);
    }
    mr_batch_unref(batch);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
}

/* Labels of every width; i8 files start at an offset that is not a multiple of 8. */
TEST(label_types) {
    static const char *const headers[] = {"{'descr':'<i4','fortran_order':False,'shape':(2,)}",
                                          "{'descr':'<i8','fortran_order':False,'shape':(2,)}"};
    static const int64_t second[] = {0x07060504, 0x0F0E0D0C0B0A0908};
    for (int i = 0; i < 2; i++) {
        char *folder = fixture_folder(), rest[256];
        write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(2,)}", 2));
        write_npy(folder, "label.npy", npy(headers[i], i == 0 ? 8 : 16));
        snprintf(rest, sizeof rest, ", \"labels\": \"%s/label.npy\"}}", folder);
        mr_pipeline *pipeline = fixture_pipeline(document(folder, rest));
        mr_options options = MR_OPTIONS_INIT;
        mr_loader *loader = fixture_loader(pipeline, &options);
        mr_batch *batch = first_batch(loader);
        CHECK_INT(((const int64_t *)mr_batch_find(batch, "label")->data)[1], ==, second[i]);
        CHECK_INT(mr_batch_find(batch, "data")->n_dims, ==, 1);
        mr_batch_unref(batch);
        mr_loader_close(loader);
        mr_pipeline_free(pipeline);
        fixture_remove(folder);
    }
}

/* Rows of three dimensions are images, and ops work on them where they lie. */
TEST(rows_are_images) {
    char *folder = fixture_folder();
    write_npy(folder, "data.npy",
              npy("{'descr':'|u1','fortran_order':False,'shape':(2,4,4,3)}", 96));
    mr_pipeline *pipeline =
        fixture_pipeline(document(folder, "}}, \"ops\": [{\"center_crop\": {\"size\": [2, 2]}}]"));
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch = first_batch(loader);
    const unsigned char *data = mr_batch_find(batch, "data")->data;
    CHECK_INT(data[0], ==, 12 + 3);
    CHECK_INT(data[6], ==, 24 + 3);
    CHECK_INT(data[12], ==, 48 + 12 + 3);
    mr_batch_unref(batch);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
}

/* Data at an odd offset reaches an op in memory that its type may be read from. */
TEST(unaligned_rows) {
    char *folder = fixture_folder();
    image file = npy("{'descr':'<f4','fortran_order':False,'shape':(2,2)}", 16);
    CHECK_INT((file.size - 16) % 4, !=, 0);
    write_npy(folder, "data.npy", file);
    mr_pipeline *pipeline =
        fixture_pipeline(document(folder, "}}, \"ops\": [{\"cast\": {\"dtype\": \"float32\"}}]"));
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch = first_batch(loader);
    CHECK_INT(memcmp(mr_batch_find(batch, "data")->data, file.bytes + file.size - 16, 16), ==, 0);
    mr_batch_unref(batch);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
}

/* ---- What is refused ---- */
static void check_refused(const char *folder, const char *rest, mr_status status,
                          const char *says) {
    mr_pipeline *pipeline = NULL;
    CHECK_INT(parse_document(document(folder, rest), &pipeline), ==, status);
    CHECK_HAS(err.text, says);
    CHECK_HAS(err.source, ".npy");
    CHECK_TEXT(err.where, "$.source.array");
    CHECK(pipeline == NULL);
}

TEST(wrong_files) {
    char *folder = fixture_folder(), rest[256];
    check_refused(folder, "}}", MR_E_NOT_FOUND, "cannot open");
    mkdir(strcat(strcpy(rest, folder), "/data.npy"), 0755);
    check_refused(folder, "}}", MR_E_NOT_FOUND, "folder");
    rmdir(rest);
    fixture_write(folder, "data.npy", "", 0);
    check_refused(folder, "}}", MR_E_CORRUPT, "empty");
    write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':()}", 1));
    check_refused(folder, "}}", MR_E_TYPE, "single number");
    write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(0,3)}", 0));
    check_refused(folder, "}}", MR_E_PARAM, "empty");
    write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(2,0)}", 0));
    check_refused(folder, "}}", MR_E_PARAM, "empty");
    write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(2,3)}", 6));
    snprintf(rest, sizeof rest, ", \"labels\": \"%s/label.npy\"}}", folder);
    check_refused(folder, rest, MR_E_NOT_FOUND, "cannot open");
    write_npy(folder, "label.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(3,)}", 3));
    check_refused(folder, rest, MR_E_TYPE, "3 labels for 2 samples");
    write_npy(folder, "label.npy", npy("{'descr':'<f4','fortran_order':False,'shape':(2,)}", 8));
    check_refused(folder, rest, MR_E_TYPE, "whole numbers");
    write_npy(folder, "label.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(2,1)}", 2));
    check_refused(folder, rest, MR_E_TYPE, "one dimension");
    fixture_remove(folder);
}

/* A file that changed its shape between the two readings would be read beyond its end. */
TEST(changed_before_it_was_opened) {
    char *folder = fixture_folder();
    write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(2,9)}", 18));
    mr_pipeline *pipeline = fixture_pipeline(document(folder, "}}"));
    write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(2,3)}", 6));
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    err = (mr_error)MR_ERROR_INIT;
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_TYPE);
    CHECK_HAS(err.text, "changed");
    CHECK_HAS(err.source, "data.npy");
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
}

/* ---- Fingerprint ---- */
static void fingerprint_of(const char *folder, char out[64]) {
    mr_pipeline *pipeline = fixture_pipeline(document(folder, "}}"));
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = fixture_loader(pipeline, &options);
    snprintf(out, 64, "%s", loader ? mr_loader_fingerprint(loader) : "none");
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

TEST(fingerprint_follows_type_shape_and_bytes) {
    char *folder = fixture_folder(), first[64], other[64];
    image file = npy("{'descr':'|u1','fortran_order':False,'shape':(6,4)}", 24);
    write_npy(folder, "data.npy", file);
    fingerprint_of(folder, first);
    fingerprint_of(folder, other);
    CHECK_TEXT(first, other);
    file.bytes[file.size - 7] ^= 1;
    write_npy(folder, "data.npy", file);
    fingerprint_of(folder, other);
    CHECK(strcmp(first, other) != 0);
    write_npy(folder, "data.npy", npy("{'descr':'|u1','fortran_order':False,'shape':(4,6)}", 24));
    fingerprint_of(folder, other);
    CHECK(strcmp(first, other) != 0);
    write_npy(folder, "data.npy", npy("{'descr':'<i4','fortran_order':False,'shape':(6,1)}", 24));
    fingerprint_of(folder, other);
    CHECK(strcmp(first, other) != 0);
    fixture_remove(folder);
}

/* Of a large array, blocks spread over it count: the last byte always does. */
TEST(fingerprint_of_a_large_array) {
    char *folder = fixture_folder(), path[128], first[64], other[64];
    image file = npy("{'descr':'|u1','fortran_order':False,'shape':(100,10000)}", 0);
    write_npy(folder, "data.npy", file);
    snprintf(path, sizeof path, "%s/data.npy", folder);
    CHECK_INT(truncate(path, (off_t)file.size + 1000000), ==, 0);
    fingerprint_of(folder, first);
    FILE *data = fopen(path, "r+b");
    fseek(data, -1, SEEK_END);
    fputc(1, data);
    fclose(data);
    fingerprint_of(folder, other);
    CHECK(strcmp(first, other) != 0);
    fixture_remove(folder);
}

TEST_MAIN()
