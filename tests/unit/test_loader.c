/* SPDX-License-Identifier: Apache-2.0 */
/* A loader's life: ending at any time, keeping batches, cancelling, forking, limits, bad samples.
 */
#include "fixture.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

static const char synthetic[] =
    "{\"source\": {\"synthetic\": {\"samples\": 1000, \"shape\": [32]}}, "
    "\"batch\": 10, \"epochs\": 1000}";

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static mr_options two_threads(void) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    return options;
}

TEST(closing_before_the_first_batch_and_in_the_middle) {
    mr_pipeline *pipeline = fixture_pipeline(synthetic);
    mr_options options = two_threads();
    for (int taken = 0; taken < 30; taken++) {
        mr_loader *loader = fixture_loader(pipeline, &options);
        mr_batch *batch = NULL;
        for (int i = 0; i < taken; i++) {
            CHECK_INT(mr_loader_next(loader, &batch, NULL), ==, MR_OK);
            mr_batch_unref(batch);
        }
        mr_loader_close(loader);
    }
    mr_loader_close(NULL);
    mr_pipeline_free(pipeline);
}

TEST(a_consumer_that_never_takes_a_batch) {
    mr_pipeline *pipeline = fixture_pipeline(synthetic);
    mr_options options = two_threads();
    mr_loader *loader = fixture_loader(pipeline, &options);
    nap(20); /* the workers fill what there is and sleep */
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

TEST(batches_outlive_the_loader_and_the_pipeline) {
    enum { KEPT = 40 };
    mr_batch *kept[KEPT];
    mr_pipeline *pipeline = fixture_pipeline(synthetic);
    mr_options options = two_threads();
    mr_loader *loader = fixture_loader(pipeline, &options);
    for (int i = 0; i < KEPT; i++) {
        CHECK_INT(mr_loader_next(loader, &kept[i], NULL), ==, MR_OK);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    for (int i = 0; i < KEPT; i++) {
        const mr_array *data = mr_batch_find(kept[i], "data");
        const unsigned char *bytes = data->data;
        for (int64_t k = 0; k < mr_batch_size(kept[i]); k++) {
            CHECK_INT(bytes[32 * k + 31], ==, mr_batch_samples(kept[i])[k] & 0xFF);
        }
        CHECK_INT((uintptr_t)data->data % 64, ==, 0);
        mr_batch_ref(kept[i]);
        mr_batch_unref(kept[i]);
        mr_batch_unref(kept[i]);
    }
}

/* ---- Cancelling ---- */
static void *cancel_soon(void *loader) {
    nap(10);
    mr_loader_cancel(loader);
    return NULL;
}

TEST(cancelling_from_another_thread) {
    mr_pipeline *pipeline = fixture_pipeline(synthetic);
    mr_options options = two_threads();
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_error err = MR_ERROR_INIT;
    mr_batch *batch = NULL;
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, loader);
    mr_status status;
    while ((status = mr_loader_next(loader, &batch, &err)) == MR_OK) {
        mr_batch_unref(batch);
    }
    CHECK_INT(status, ==, MR_E_CANCELLED);
    CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_E_CANCELLED);
    pthread_join(thread, NULL);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

/* ---- Fork ---- */
TEST(a_forked_child_gets_an_error) {
    mr_pipeline *pipeline = fixture_pipeline(synthetic);
    mr_options options = two_threads();
    mr_loader *loader = fixture_loader(pipeline, &options);
    pid_t child = fork();
    if (child == 0) {
        mr_batch *batch = NULL;
        mr_status status = mr_loader_next(loader, &batch, NULL);
        mr_loader_cancel(loader);
        mr_loader_close(loader);
        _exit(status == MR_E_FORKED ? 0 : 1);
    }
    int result = -1;
    waitpid(child, &result, 0);
    CHECK_INT(result, ==, 0);
    mr_batch *batch = NULL;
    CHECK_INT(mr_loader_next(loader, &batch, NULL), ==, MR_OK);
    mr_batch_unref(batch);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

/* ---- The caller's allocator ---- */
typedef struct counting {
    atomic_long live, calls;
    long fail_from;
} counting;

static void *counting_alloc(void *user, size_t size, size_t align) {
    counting *c = user;
    void *memory = NULL;
    if (atomic_fetch_add(&c->calls, 1) >= c->fail_from) {
        return NULL;
    }
    if (posix_memalign(&memory, align, size) != 0) {
        return NULL;
    }
    atomic_fetch_add(&c->live, 1);
    return memory;
}

static void counting_release(void *user, void *memory, size_t size) {
    counting *c = user;
    (void)size;
    atomic_fetch_sub(&c->live, 1);
    free(memory);
}

static long run_with_allocator(counting *c, mr_status *last) {
    const mr_allocator allocator = {counting_alloc, counting_release, c};
    mr_pipeline *pipeline = fixture_pipeline(
        "{\"source\": {\"synthetic\": {\"samples\": 100, \"shape\": [32]}}, \"batch\": 10}");
    mr_options options = two_threads();
    options.allocator = &allocator;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    long n = 0;
    *last = mr_loader_open(&loader, pipeline, &options, NULL);
    while (*last == MR_OK && (*last = mr_loader_next(loader, &batch, NULL)) == MR_OK) {
        n += mr_batch_size(batch);
        mr_batch_unref(batch);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return n;
}

TEST(batch_memory_comes_from_the_callers_allocator) {
    counting c = {.fail_from = 1000};
    mr_status last;
    CHECK_INT(run_with_allocator(&c, &last), ==, 100);
    CHECK_INT(last, ==, MR_END);
    CHECK_INT(c.live, ==, 0);
    CHECK_INT(c.calls, <=, 10);
    CHECK_INT(c.calls, >=, 2);
}

TEST(little_memory_slows_down_and_no_memory_is_an_error) {
    for (long most = 0; most < 4; most++) {
        counting c = {.fail_from = most};
        mr_status last;
        long n = run_with_allocator(&c, &last);
        CHECK_INT(last, ==, most ? MR_END : MR_E_MEMORY);
        CHECK_INT(n, ==, most ? 100 : 0);
        CHECK_INT(c.live, ==, 0);
    }
}

/* ---- Ragged fields ---- */
TEST(images_of_different_sizes_are_ragged) {
    char json[512], *photos = fixture_photos(7);
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": {}}], "
             "\"batch\": 7, \"shuffle\": false, \"fields\": [\"image\", \"path\", \"label\"]}",
             photos);
    mr_pipeline *pipeline = fixture_pipeline(json);
    mr_options options = two_threads();
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch = NULL;
    CHECK_INT(mr_loader_next(loader, &batch, NULL), ==, MR_OK);
    const mr_array *image = mr_batch_find(batch, "image"), *path = mr_batch_find(batch, "path");
    for (int64_t i = 0; i < 7; i++) {
        const int64_t *shape = image->shapes + 3 * i;
        CHECK_INT(image->offsets[i + 1] - image->offsets[i], ==, shape[0] * shape[1] * shape[2]);
        CHECK_INT(shape[2], ==, 3);
    }
    CHECK_INT(image->offsets[7], ==, image->size);
    CHECK_INT(path->offsets[1], ==, strlen("class0/000.jpg"));
    CHECK(memcmp(path->data, "class0/000.jpgclass0/003.jpg", 28) == 0);
    CHECK(mr_batch_find(batch, "index") == NULL);
    mr_batch_unref(batch);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(photos);
}

/* An entry of the window that never held a buffer gives a NULL pointer for an empty file. */
TEST(empty_values_do_not_depend_on_what_was_read_before) {
    char *folder = fixture_folder(), json[512], name[32], first[33] = "";
    for (int i = 0; i < 90; i++) {
        snprintf(name, sizeof name, "%02d.bin", i);
        fixture_write(folder, name, "abc", i % 40 == 3 ? 0 : 3);
    }
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\", \"extensions\": []}}, \"batch\": 7, "
             "\"shuffle\": false}",
             folder);
    mr_pipeline *pipeline = fixture_pipeline(json);
    for (uint32_t reads = 1; reads <= 64; reads *= 8) {
        char digest[33];
        mr_options options = two_threads();
        mr_batch *batch = NULL;
        options.reads_in_flight = reads;
        options.digest = true;
        mr_loader *loader = fixture_loader(pipeline, &options);
        while (mr_loader_next(loader, &batch, NULL) == MR_OK) {
            mr_batch_unref(batch);
        }
        mr_loader_digest(loader, digest);
        CHECK_TEXT(digest, first[0] ? first : digest);
        memcpy(first, digest, sizeof first);
        mr_loader_close(loader);
    }
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
}

/* ---- Bad samples ---- */
static mr_status run_photos(const char *photos, const char *more, mr_error *err, int64_t *skipped) {
    char json[1024];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\", \"extensions\": []}}, "
             "\"ops\": [{\"decode_image\": {}}, {\"resize\": {\"size\": [8, 8]}}], \"batch\": 4%s}",
             photos, more);
    mr_pipeline *pipeline = fixture_pipeline(json);
    mr_options options = two_threads();
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch = NULL;
    mr_status status = MR_E_INTERNAL;
    while (loader && (status = mr_loader_next(loader, &batch, err)) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_stats stats = {.size = sizeof stats};
    if (loader) {
        mr_loader_stats(loader, &stats);
        *skipped = stats.skipped;
        CHECK_INT(mr_loader_n_skips(loader), ==, stats.skipped);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return status;
}

TEST(a_bad_sample_is_named) {
    char *photos = fixture_photos(9), path[128];
    int64_t skipped = 0;
    mr_error err = MR_ERROR_INIT;
    snprintf(path, sizeof path, "%s/class1", photos);
    fixture_write(path, "bad.jpg", "<html>", 6);
    CHECK_INT(run_photos(photos, "", &err, &skipped), <, 0);
    CHECK_HAS(err.source, "class1/bad.jpg");
    CHECK_TEXT(err.op, "decode_image");
    CHECK(err.sample >= 0);
    err = (mr_error)MR_ERROR_INIT;
    CHECK_INT(run_photos(photos, ", \"on_error\": \"skip\"", &err, &skipped), ==, MR_END);
    CHECK_INT(skipped, ==, 1);
    fixture_remove(photos);
}

TEST(missing_unreadable_and_special_files_are_named) {
    char *photos = fixture_photos(6), path[128];
    int64_t skipped = 0;
    mr_error err = MR_ERROR_INIT;
    snprintf(path, sizeof path, "%s/class2/pipe", photos);
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    CHECK_INT(run_photos(photos, "", &err, &skipped), ==, MR_E_UNSUPPORTED);
    CHECK_HAS(err.source, "class2/pipe");
    unlink(path);
    CHECK_INT(symlink("nowhere", path), ==, 0);
    err = (mr_error)MR_ERROR_INIT;
    CHECK_INT(run_photos(photos, "", &err, &skipped), ==, MR_E_NOT_FOUND);
    CHECK_HAS(err.source, "class2/pipe");
    fixture_remove(photos);
}

TEST(a_socket_is_a_bad_sample_like_any_other) {
    char *photos = fixture_photos(6);
    int64_t skipped = 0;
    mr_error err = MR_ERROR_INIT;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/class2/x.jpg", photos);
    CHECK_INT(bind(fd, (const struct sockaddr *)&address, sizeof address), ==, 0);
    CHECK_INT(run_photos(photos, "", &err, &skipped), ==, MR_E_UNSUPPORTED);
    CHECK_HAS(err.source, "class2/x.jpg");
    err = (mr_error)MR_ERROR_INIT;
    CHECK_INT(run_photos(photos, ", \"on_error\": \"skip\"", &err, &skipped), ==, MR_END);
    CHECK_INT(skipped, ==, 1);
    close(fd);
    fixture_remove(photos);
}

TEST(nothing_but_bad_samples_ends_in_an_error) {
    char *photos = fixture_folder();
    int64_t skipped = 0;
    mr_error err = MR_ERROR_INIT;
    fixture_write(photos, "a.jpg", "a", 1);
    fixture_write(photos, "b.jpg", "", 0);
    CHECK_INT(run_photos(photos, ", \"on_error\": \"skip\"", &err, &skipped), <, 0);
    CHECK_HAS(err.hint, "1 other sample tried");
    fixture_remove(photos);
}

TEST(wrong_options_are_refused) {
    mr_pipeline *pipeline = fixture_pipeline(synthetic);
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_options options = {0};
    mr_batch *batch = NULL;
    CHECK_INT(mr_loader_open(&loader, NULL, NULL, &err), ==, MR_E_PARAM);
    CHECK_INT(mr_loader_next(NULL, &batch, &err), ==, MR_E_PARAM);
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_PARAM);
    options = two_threads();
    options.world = 3; /* 10 is no multiple of 3 */
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_PARAM);
    options.world = 2;
    options.rank = 2;
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_PARAM);
    options.rank = 0;
    options.disable_cpu = "sse9";
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_PARAM);
    options.disable_cpu = NULL;
    options.state = "{}";
    options.state_size = 2;
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_STATE);
    CHECK(loader == NULL);
    mr_pipeline_free(pipeline);
}

TEST(large_files_wait_for_their_turn) {
    char *photos = fixture_photos(40), json[512];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"batch\": 4, \"epochs\": 5}", photos);
    mr_pipeline *pipeline = fixture_pipeline(json);
    for (int io = MR_IO_AUTO; io <= MR_IO_PREAD; io += MR_IO_PREAD) {
        mr_options options = two_threads();
        options.threads = 3;
        options.io = (mr_io_kind)io;
        options.reads_in_flight = 16;
        options.read_ahead_bytes = 3000; /* two files or so */
        mr_loader *loader = fixture_loader(pipeline, &options);
        mr_batch *batch = NULL;
        int64_t n = 0;
        while (mr_loader_next(loader, &batch, NULL) == MR_OK) {
            n += mr_batch_size(batch);
            mr_batch_unref(batch);
        }
        CHECK_INT(n, ==, 200);
        mr_loader_close(loader);
    }
    mr_pipeline_free(pipeline);
    fixture_remove(photos);
}

TEST_MAIN()
