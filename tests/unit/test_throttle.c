/* SPDX-License-Identifier: Apache-2.0 */
/* Slow storage: the moments that it gives follow from its two figures, and the bytes are the same.
 */
#include "fixture.h"
#include "io/throttle.h"
#include "test.h"

TEST(requests_come_one_after_the_other) {
    mr_throttle throttle;
    mr_throttle_init(&throttle, 1000000, 5000000);
    CHECK(mr_throttle_is_on(&throttle));
    CHECK_INT(mr_throttle_due(&throttle, 1000, true, 1000), ==, 1000 + 5000000 + 1000000);
    CHECK_INT(mr_throttle_due(&throttle, 2000, false, 500), ==, 1000 + 6000000 + 500000);
    CHECK_INT(mr_throttle_due(&throttle, 90000000, true, 0), ==, 95000000); /* it was idle */
    mr_throttle_init(&throttle, 0, 0);
    CHECK(!mr_throttle_is_on(&throttle));
    CHECK_INT(mr_throttle_due(&throttle, 7, true, 1 << 20), ==, 7);
}

static void digest_of(const mr_pipeline *pipeline, mr_options options, char out[33]) {
    mr_batch *batch = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_stats stats = {.size = sizeof stats};
    options.digest = true;
    mr_loader *loader = fixture_loader(pipeline, &options);
    out[0] = '\0';
    while (loader && mr_loader_next(loader, &batch, &err) == MR_OK) {
        mr_batch_unref(batch);
    }
    CHECK_TEXT(err.text, "");
    if (loader) {
        mr_loader_digest(loader, out);
        mr_loader_stats(loader, &stats);
        CHECK(options.storage_open_ns == 0 || strcmp(stats.io, "pread") == 0);
    }
    mr_loader_close(loader);
}

TEST(the_bytes_are_the_same) {
    char json[512], fast[33], slow[33], *photos = fixture_photos(12);
    mr_options options = MR_OPTIONS_INIT;
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": {}}, "
             "{\"resize\": {\"size\": [8, 8]}}], \"batch\": 4}",
             photos);
    mr_pipeline *pipeline = fixture_pipeline(json);
    digest_of(pipeline, options, fast);
    options.storage_bytes_per_second = 100000000;
    options.storage_open_ns = 200000;
    digest_of(pipeline, options, slow);
    CHECK_TEXT(slow, fast);
    options.storage_open_ns = -1;
    mr_error err = MR_ERROR_INIT;
    mr_loader *loader = NULL;
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_PARAM);
    mr_pipeline_free(pipeline);
    fixture_remove(photos);
}

TEST_MAIN()
