/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that takes nothing: who waits for a store to be written waits a bounded time. This program
 * has a write of its own, which may block, and a clock of its own, so that the 30 seconds are over
 * in a moment. */
#include "cache_rig.h"
#include "test.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_bool stuck;
static _Thread_local int64_t behind; /* ms by which the thread's clock goes behind the kernel's */

/* What is due in 30 seconds by a clock that goes behind by so much is due soon. */
int clock_gettime(clockid_t clock, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && clock == CLOCK_MONOTONIC && behind) {
        int64_t ns = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec - behind * 1000000;
        *out = (struct timespec){ns / 1000000000, ns % 1000000000};
    }
    return result;
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) {
    while (stuck) {
        rig_nap(1);
    }
    return syscall(SYS_pwritev, fd, parts, n, at, 0);
}

enum { PHOTOS = 12 };

static mr_loader *open_loader(mr_pipeline **pipeline, const char *folder, const char *cache) {
    char json[1024];
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    options.digest = true;
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [\"decode_image\"%s], "
             "\"batch\": 4}",
             folder, cache);
    *pipeline = fixture_pipeline(json);
    return fixture_loader(*pipeline, &options);
}

static void consume(mr_loader *loader, char digest[33]) {
    mr_batch *batch = NULL;
    while (mr_loader_next(loader, &batch, NULL) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_loader_digest(loader, digest);
}

static mr_cache_stats counted(mr_loader *loader) {
    mr_cache_stats stats = {.size = (uint32_t)sizeof stats};
    CHECK_INT(mr_loader_cache(loader, 0, &stats), ==, MR_OK);
    return stats;
}

TEST(a_flush_gives_up_on_a_write_that_does_not_end) {
    char *folder = rig_photos(PHOTOS), store[160], cache[256], plain[33], kept[33];
    mr_pipeline *pipeline = NULL;
    snprintf(store, sizeof store, "%s-store", folder);
    snprintf(cache, sizeof cache, ", {\"cache\": {\"path\": \"%s\", \"size\": \"16MB\"}}", store);
    mr_loader *loader = open_loader(&pipeline, folder, "");
    consume(loader, plain);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);

    loader = open_loader(&pipeline, folder, cache);
    stuck = true;
    consume(loader, kept);
    CHECK_TEXT(kept, plain);
    behind = 29900;
    mr_loader_flush(loader); /* comes back */
    behind = 0;
    CHECK_INT(counted(loader).stored + counted(loader).refused, ==, 0);
    stuck = false; /* what waits is written, or refused, after all */
    mr_loader_flush(loader);
    CHECK_INT(counted(loader).stored + counted(loader).refused, ==, PHOTOS);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(store);
    fixture_remove(folder);
}

TEST_MAIN()
