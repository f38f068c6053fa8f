/* SPDX-License-Identifier: Apache-2.0 */
/* A loader that changes its numbers of threads, reads, batches and bytes while it runs delivers
 * what one with fixed numbers does, however often and wherever they change. */
#include <millrace/tune.h>

#include "fixture.h"
#include "run/loader.h"
#include "test.h"

enum { PHOTOS = 40 };

static char *photos;

static void make_json(char *json, size_t size, const char *settings) {
    snprintf(json, size,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": {}}, "
             "{\"random_resized_crop\": {\"size\": 16}}, {\"random_flip\": {}}], \"batch\": 4, "
             "\"epochs\": 6%s}",
             photos, settings);
}

/* Anything within the limits, another after every batch. */
static mr_setting any(const mr_loader *loader, uint64_t *state) {
    const mr_setting *most = &loader->adapter.most;
    uint64_t draws[4];
    for (int i = 0; i < 4; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        draws[i] = *state >> 33;
    }
    return (mr_setting){.threads = 1 + (uint32_t)(draws[0] % most->threads),
                        .reads = 1 + (uint32_t)(draws[1] % most->reads),
                        .ahead = 1 + (int64_t)(draws[2] % (uint64_t)most->ahead),
                        .bytes = 1 + (int64_t)(draws[3] % 100000)};
}

typedef struct outcome {
    char digest[33];
    int64_t batches;
    mr_stats stats;
} outcome;

static outcome run_all(const mr_pipeline *pipeline, mr_options options, uint64_t restless) {
    outcome out = {.digest = "", .stats.size = sizeof out.stats};
    mr_error err = MR_ERROR_INIT;
    mr_batch *batch = NULL;
    options.digest = true;
    mr_loader *loader = fixture_loader(pipeline, &options);
    CHECK(loader != NULL);
    while (loader && mr_loader_next(loader, &batch, &err) == MR_OK) {
        mr_batch_unref(batch);
        out.batches++;
        if (restless) {
            mr_setting setting = any(loader, &restless);
            mr_adapter_set(loader, &setting);
        }
    }
    CHECK_TEXT(err.text, "");
    if (loader) {
        mr_loader_digest(loader, out.digest);
        mr_loader_stats(loader, &out.stats);
    }
    mr_loader_close(loader);
    return out;
}

static mr_options with(uint32_t threads, mr_io_kind io) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = threads;
    options.io = io;
    return options;
}

static void check_restless(const mr_pipeline *pipeline, mr_io_kind io) {
    outcome fixed = run_all(pipeline, with(3, io), 0);
    CHECK_INT(fixed.batches, >, 50);
    CHECK(!fixed.stats.adapts);
    CHECK_INT(fixed.stats.threads_working, ==, 3);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        outcome restless = run_all(pipeline, with(MR_THREADS_AUTO, io), seed);
        CHECK_TEXT(restless.digest, fixed.digest);
        CHECK_INT(restless.batches, ==, fixed.batches);
        CHECK_INT(restless.stats.changes, >, fixed.batches / 2);
    }
}

TEST(files_come_out_the_same) {
    char json[1024];
    photos = fixture_photos(PHOTOS);
    make_json(json, sizeof json, "");
    mr_pipeline *pipeline = fixture_pipeline(json);
    check_restless(pipeline, MR_IO_PREAD);
    check_restless(pipeline, MR_IO_AUTO);
    mr_pipeline_free(pipeline);
    fixture_remove(photos);
}

/* Shards: what lies in blocks that many samples share. */
TEST(blocks_come_out_the_same) {
    char json[1024], path[512], *folder = fixture_folder();
    mr_error err = MR_ERROR_INIT;
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_pack_result made = {.size = (uint32_t)sizeof made};
    snprintf(path, sizeof path, "%s/pack", folder);
    photos = fixture_photos(PHOTOS);
    make_json(json, sizeof json, "");
    mr_pipeline *pipeline = fixture_pipeline(json);
    options.folder = path;
    options.upto = "source";
    options.shard = 7;
    CHECK_INT(mr_pipeline_pack(pipeline, &options, &made, &err), ==, MR_OK);
    CHECK(made.document != NULL);
    mr_pipeline *packed = made.document ? fixture_pipeline(made.document) : NULL;
    if (packed) {
        check_restless(packed, MR_IO_PREAD);
        check_restless(packed, MR_IO_AUTO);
    }
    mr_pipeline_free(packed);
    mr_pipeline_free(pipeline);
    mr_free(made.document);
    fixture_remove(photos);
    fixture_remove(folder);
}

TEST(a_document_may_ask_for_it) {
    char json[1024];
    photos = fixture_photos(PHOTOS);
    make_json(json, sizeof json, ", \"threads\": \"auto\"");
    mr_pipeline *automatic = fixture_pipeline(json);
    make_json(json, sizeof json, "");
    mr_pipeline *plain = fixture_pipeline(json);
    CHECK(strstr(mr_pipeline_json(automatic), "\"threads\"") != NULL);
    CHECK(strstr(mr_pipeline_json(plain), "\"threads\"") == NULL);
    CHECK_TEXT(mr_pipeline_fingerprint(automatic), mr_pipeline_fingerprint(plain));
    outcome a = run_all(automatic, with(0, MR_IO_AUTO), 0);
    outcome b = run_all(plain, with(0, MR_IO_AUTO), 0);
    CHECK(a.stats.adapts && !b.stats.adapts);
    CHECK_TEXT(a.digest, b.digest);
    CHECK(!run_all(automatic, with(2, MR_IO_AUTO), 0).stats.adapts);
    mr_pipeline_free(automatic);
    mr_pipeline_free(plain);
    fixture_remove(photos);
}

TEST(stated_numbers_are_limits) {
    char json[1024];
    photos = fixture_photos(PHOTOS);
    make_json(json, sizeof json, "");
    mr_pipeline *pipeline = fixture_pipeline(json);
    mr_options options = with(MR_THREADS_AUTO, MR_IO_AUTO);
    options.reads_in_flight = 5;
    options.batches_ahead = 3;
    options.read_ahead_bytes = 1000000;
    mr_loader *loader = fixture_loader(pipeline, &options);
    CHECK(loader != NULL);
    if (loader) {
        const mr_adapter *own = &loader->adapter;
        CHECK_INT(own->most.reads, ==, 5);
        CHECK_INT(own->most.ahead, ==, 3);
        CHECK_INT(own->most.bytes, ==, 1000000);
        CHECK_INT(own->rules.least.threads, ==, 1);
    }
    mr_loader_close(loader); /* with workers that wait at the gate, or not */
    mr_pipeline_free(pipeline);
    fixture_remove(photos);
}

TEST_MAIN()
