/* SPDX-License-Identifier: Apache-2.0 */
/* Fused ops give the bytes of the ops run one after the other: every kind of JPEG, every op that
 * can be fused, many boxes. */
#include "fixture.h"
#include "test.h"

enum { WIDTH = 83, HEIGHT = 61, MOST = 2048 };

/* ---- JPEGs of every kind ---- */
typedef struct kind {
    const char *name;
    int components, h, v; /* sampling of the first component against the others' 1 x 1 */
    bool progressive;
    int restart;
} kind;

static const kind kinds[] = {/* in the order of their names, as the files come */
                             {"410.jpg", 3, 4, 2, false, 0},  {"411.jpg", 3, 4, 1, false, 0},
                             {"420.jpg", 3, 2, 2, false, 3},  {"422.jpg", 3, 2, 1, false, 0},
                             {"440.jpg", 3, 1, 2, false, 0},  {"441.jpg", 3, 1, 4, false, 0},
                             {"444.jpg", 3, 1, 1, false, 0},  {"cmyk.jpg", 4, 1, 1, false, 0},
                             {"grey.jpg", 1, 1, 1, false, 0}, {"p420.jpg", 3, 2, 2, true, 0},
                             {"p444.jpg", 3, 1, 1, true, 0}};

enum { KINDS = sizeof kinds / sizeof *kinds };

static void write_rows(struct jpeg_compress_struct *cinfo) {
    unsigned char row[4 * WIDTH];
    while (cinfo->next_scanline < cinfo->image_height) {
        unsigned y = cinfo->next_scanline;
        for (unsigned x = 0; x < sizeof row; x++) {
            unsigned noise = (x * 2654435761u + y * 40503u) >> 13 & 63;
            row[x] = (unsigned char)((x * y / 16 + x * 3) % 190 + noise);
        }
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(cinfo, rows, 1);
    }
}

static void write_kind(const char *folder, const kind *k) {
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, k->name);
    FILE *file = fopen(path, "wb");
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_stdio_dest(&cinfo, file);
    cinfo.image_width = WIDTH;
    cinfo.image_height = HEIGHT;
    cinfo.input_components = k->components;
    cinfo.in_color_space = k->components == 1   ? JCS_GRAYSCALE
                           : k->components == 3 ? JCS_RGB
                                                : JCS_CMYK;
    jpeg_set_defaults(&cinfo);
    cinfo.comp_info[0].h_samp_factor = k->h;
    cinfo.comp_info[0].v_samp_factor = k->v;
    cinfo.restart_interval = (unsigned)k->restart;
    if (k->progressive) {
        jpeg_simple_progression(&cinfo);
    }
    jpeg_start_compress(&cinfo, TRUE);
    write_rows(&cinfo);
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    fclose(file);
}

/* ---- Running ---- */
static char folder[64];

typedef struct result {
    int n;
    uint64_t digests[MOST];
    char error[1100];
} result;

static void run(result *out, const char *ops, bool fuse, int epochs) {
    char json[2048];
    mr_error err = MR_ERROR_INIT;
    mr_batch *batch = NULL;
    mr_options options = MR_OPTIONS_INIT;
    snprintf(
        json, sizeof json,
        "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [%s], \"batch\": %d, \"epochs\": "
        "%d, \"shuffle\": false, \"fuse\": %s}",
        folder, ops, KINDS, epochs, fuse ? "true" : "false");
    mr_pipeline *pipeline = fixture_pipeline(json);
    options.digest = true;
    options.poison = true;
    options.threads = 2;
    mr_loader *loader = fixture_loader(pipeline, &options);
    *out = (result){0};
    while (loader && mr_loader_next(loader, &batch, &err) == MR_OK) {
        for (int64_t i = 0; i < mr_batch_size(batch); i++) {
            out->digests[out->n++] = mr_batch_sample_digest(batch, i);
        }
        mr_batch_unref(batch);
    }
    snprintf(out->error, sizeof out->error, "%s|%s|%s", err.op, err.source, err.text);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

static result fused, whole;

static void check_same(const char *ops, int epochs) {
    run(&fused, ops, true, epochs);
    run(&whole, ops, false, epochs);
    CHECK_INT(fused.n, ==, epochs * KINDS);
    CHECK_INT(whole.n, ==, fused.n);
    CHECK_TEXT(fused.error, whole.error);
    for (int i = 0; i < fused.n; i++) {
        if (fused.digests[i] != whole.digests[i]) {
            fprintf(stderr, "%s: epoch %d: %s\n", kinds[i % KINDS].name, i / KINDS, ops);
        }
        CHECK(fused.digests[i] == whole.digests[i]);
    }
}

#define DECODE "\"decode_image\", "

TEST(random_boxes) {
    check_same(DECODE "{\"random_crop\": {\"size\": [9, 13]}}", 100);
    check_same(DECODE "{\"random_crop\": {\"size\": [31, 2]}}", 60);
    check_same(DECODE "{\"random_crop\": {\"size\": [70, 40], \"pad_if_needed\": true}}", 60);
}

TEST(random_boxes_resized) {
    check_same(DECODE "{\"random_resized_crop\": {\"size\": 24}}, {\"random_flip\": {}}, "
                      "{\"normalize\": {\"mean\": [0.5, 0.4, 0.3], \"std\": [0.2, 0.3, 0.4]}}",
               100);
    check_same(DECODE "{\"random_resized_crop\": {\"size\": [90, 70], \"filter\": \"bicubic\"}}",
               30);
    check_same(DECODE "{\"random_resized_crop\": {\"size\": [20, 33], \"filter\": \"nearest\"}}",
               30);
    check_same(DECODE "{\"random_resized_crop\": {\"size\": [3, 60], \"ratio\": [0.1, 0.2]}}", 30);
}

TEST(parts_of_resized_images) {
    check_same(DECODE "{\"resize\": {\"size\": 30}}, {\"center_crop\": {\"size\": 22}}", 1);
    check_same(DECODE "{\"resize\": {\"size\": 90, \"filter\": \"bicubic\"}}, "
                      "{\"random_crop\": {\"size\": [40, 11]}}",
               40);
    check_same(DECODE
               "{\"resize\": {\"size\": [10, 200]}}, {\"random_crop\": {\"size\": [7, 30]}}, "
               "{\"resize\": {\"size\": [14, 20]}}",
               40);
    check_same(DECODE "{\"resize\": {\"size\": [40, 20], \"filter\": \"nearest\"}}, "
                      "{\"random_crop\": {\"size\": [7, 13]}}",
               40);
}

TEST(windows_larger_than_the_image) {
    check_same(
        DECODE "{\"center_crop\": {\"size\": [100, 100]}}, {\"random_crop\": {\"size\": 30}}", 60);
    check_same(DECODE "{\"center_crop\": {\"size\": [20, 120]}}, {\"crop\": {\"left\": 100, "
                      "\"height\": 9, \"width\": 20}}",
               1);
}

TEST(flips_in_both_directions) {
    check_same(DECODE
               "{\"random_flip\": {\"direction\": \"vertical\"}}, {\"random_crop\": {\"size\": "
               "[20, 30]}}, {\"random_flip\": {}}",
               40);
    check_same(DECODE "{\"random_crop\": {\"size\": 20}}, {\"random_flip\": {\"direction\": "
                      "\"vertical\", \"p\": 1}}, {\"normalize\": {\"layout\": \"hwc\"}}",
               10);
}

TEST(grey_and_every_output_type) {
    check_same("{\"decode_image\": {\"mode\": \"grey\"}}, {\"random_crop\": {\"size\": 20}}", 40);
    check_same(DECODE
               "{\"random_crop\": {\"size\": 20}}, \"grayscale\", {\"normalize\": {\"dtype\": "
               "\"float16\"}}",
               10);
    check_same(DECODE "{\"random_crop\": {\"size\": 20}}, {\"grayscale\": {\"channels\": 3}}, "
                      "{\"normalize\": {\"dtype\": \"uint8\"}}",
               10);
    check_same(DECODE
               "{\"random_crop\": {\"size\": 20}}, {\"normalize\": {\"dtype\": \"bfloat16\"}}, "
               "{\"cast\": {\"dtype\": \"float32\"}}",
               10);
}

/* The smaller images are decoded in parts of their own, and cut elsewhere. Unfused, the whole of
 * what the resizing op gives is made. */
TEST(images_decoded_at_a_smaller_size) {
#define SMALLER "{\"decode_image\": {\"dct_scale\": true}}, "
    for (int size = 30; size > 0; size -= size > 8 ? 7 : 1) {
        char ops[512];
        snprintf(ops, sizeof ops,
                 SMALLER "{\"random_resized_crop\": {\"size\": %d, \"scale\": [0.3, 1.0]}}, "
                         "{\"random_crop\": {\"size\": %d}}",
                 size, (size + 1) / 2);
        check_same(ops, 60);
        snprintf(ops, sizeof ops,
                 SMALLER "{\"resize\": {\"size\": [%d, %d], \"filter\": \"bicubic\"}}, "
                         "{\"random_crop\": {\"size\": [%d, %d]}}, {\"normalize\": {}}",
                 size, size + 3, (size + 2) / 3, (size + 3) / 2);
        check_same(ops, 20);
    }
    check_same("{\"decode_image\": {\"dct_scale\": true, \"mode\": \"grey\"}}, {\"resize\": "
               "{\"size\": 13}}, {\"random_crop\": {\"size\": 6}}",
               20);
}

static int differing(const char *a, const char *b) {
    int n = 0;
    run(&fused, a, true, 1);
    run(&whole, b, true, 1);
    CHECK_INT(fused.n, ==, KINDS);
    CHECK_INT(whole.n, ==, KINDS);
    for (int i = 0; i < fused.n; i++) {
        n += fused.digests[i] != whole.digests[i];
    }
    return n;
}

TEST(only_an_op_that_makes_it_smaller_directly_behind_changes_pixels) {
    const char *half = "{\"resize\": {\"size\": 30}}", *more = "{\"resize\": {\"size\": 31}}";
    const char *nearest = "{\"resize\": {\"size\": 10, \"filter\": \"nearest\"}}";
    const char *flip = "{\"random_flip\": {\"p\": 1}}, {\"resize\": {\"size\": 10}}";
    const struct {
        const char *ops;
        int differ;
    } cases[] = {{half, KINDS}, {more, 0}, {nearest, 0}, {flip, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char a[256], b[256];
        snprintf(a, sizeof a, SMALLER "%s", cases[i].ops);
        snprintf(b, sizeof b, DECODE "%s", cases[i].ops);
        CHECK_INT(differing(a, b), ==, cases[i].differ);
    }
}

TEST(ops_that_cannot_be_fused_end_a_fused_run) {
    check_same(DECODE "{\"random_crop\": {\"size\": 20}}, {\"color_jitter\": {\"contrast\": 0.4}}, "
                      "{\"random_flip\": {}}, \"normalize\"",
               20);
}

TEST(errors_are_the_same) {
    run(&fused, DECODE "{\"crop\": {\"height\": 62, \"width\": 2}}", true, 1);
    run(&whole, DECODE "{\"crop\": {\"height\": 62, \"width\": 2}}", false, 1);
    CHECK_TEXT(fused.error, whole.error);
    CHECK_HAS(fused.error, "crop|");
}

/* ---- Damage ---- */
static void cut_file(const char *name, double share) {
    char path[256];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_INT(stat(path, &info), ==, 0);
    CHECK_INT(truncate(path, (off_t)((double)info.st_size * share)), ==, 0);
}

/* A marker that does not belong there, in the last rows. */
static void spoil_end(const char *name) {
    char path[256];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_INT(stat(path, &info), ==, 0);
    FILE *file = fopen(path, "r+b");
    fseek(file, (long)((double)info.st_size * 0.9), SEEK_SET);
    fwrite("\xFF\xD3", 1, 2, file);
    fclose(file);
}

TEST(damage_below_the_part_is_seen_when_asked_for) {
    const char *top = DECODE "{\"crop\": {\"height\": 8, \"width\": 8}}";
    const char *verified = "{\"decode_image\": {\"verify\": true}}, {\"crop\": {\"height\": 8, "
                           "\"width\": 8}}";
    spoil_end("444.jpg");
    run(&fused, top, true, 1);
    CHECK_TEXT(fused.error, "||");
    run(&whole, top, false, 1);
    CHECK_HAS(whole.error, "444.jpg");
    run(&fused, verified, true, 1);
    run(&whole, verified, false, 1);
    CHECK_TEXT(fused.error, whole.error);
    CHECK_HAS(fused.error, "decode_image|");
}

TEST(a_file_that_was_cut_off_is_always_refused) {
    const char *top = DECODE "{\"crop\": {\"height\": 8, \"width\": 8}}";
    cut_file("420.jpg", 0.9);
    run(&fused, top, true, 1);
    run(&whole, top, false, 1);
    CHECK_TEXT(fused.error, whole.error);
    CHECK_HAS(fused.error, "420.jpg");
}

TEST(clean_up) {
    fixture_remove(folder);
}

__attribute__((constructor)) static void set_up(void) {
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    for (int i = 0; i < KINDS; i++) {
        write_kind(folder, &kinds[i]);
    }
}

TEST_MAIN()
