/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a store that are on disk and not in memory: read ahead, whole or damaged, and given up
 * in the middle. Where a file system keeps everything in memory there is nothing to read, and the
 * runs must be right all the same. */
#include "cache_rig.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

enum { PHOTOS = 60 };

static char data_folder[128], store[160];

static const char *pipeline(bool cached, const char *packing) {
    static char json[2048], cache[512];
    snprintf(cache, sizeof cache,
             "{\"cache\": {\"path\": \"%s\", \"size\": \"64MB\", \"compression\": \"%s\"}},", store,
             packing);
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [\"decode_image\", "
             "\"tally\", %s {\"random_crop\": {\"size\": 16}}, \"random_flip\"], \"batch\": 8, "
             "\"epochs\": 2, \"seed\": 5}",
             data_folder, cached ? cache : "");
    return json;
}

static bool is_in_memory(int fd, size_t size) {
    unsigned char page = 0;
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    bool known = map != MAP_FAILED && mincore((char *)map + size / 2 / 4096 * 4096, 1, &page) == 0;
    if (map != MAP_FAILED) {
        munmap(map, size);
    }
    return !known || (page & 1);
}

/* False: it stayed in memory. */
static bool leave_memory(const char *path) {
    struct stat info;
    int fd = open(path, O_RDONLY);
    bool gone = fd >= 0 && fstat(fd, &info) == 0 && fsync(fd) == 0 &&
                posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
                !is_in_memory(fd, (size_t)info.st_size);
    if (fd >= 0) {
        close(fd);
    }
    return gone;
}

typedef void visit(const char *path, void *user);

static void each_segment(visit *call, void *user) {
    char path[512];
    DIR *listing = opendir(store);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".seg") == 0) {
            snprintf(path, sizeof path, "%s/%s", store, entry->d_name);
            call(path, user);
        }
    }
    if (listing) {
        closedir(listing);
    }
}

static void drop_pages(const char *path, void *user) {
    bool *gone = user;
    *gone = leave_memory(path) && *gone;
}

static void damage(const char *path, void *user) {
    *(int64_t *)user += rig_damage(path, 4096, INT64_MAX, 40000);
}

static bool all_left_memory(void) {
    bool gone = true;
    each_segment(drop_pages, &gone);
    return gone;
}

static rig_result begin(const char *packing) {
    snprintf(data_folder, sizeof data_folder, "%s", rig_photos(PHOTOS));
    snprintf(store, sizeof store, "%s-store", data_folder);
    rig_result off = rig_run(pipeline(false, packing));
    CHECK_INT(off.status, ==, MR_END);
    rig_result cold = rig_run(pipeline(true, packing));
    CHECK_TEXT(cold.digest, off.digest);
    CHECK_INT(cold.made, ==, PHOTOS);
    return off;
}

static void end(void) {
    fixture_remove(store);
    fixture_remove(data_folder);
}

TEST(values_on_disk_are_read_ahead) {
    static const char *const packings[] = {"none", "lz4"};
    for (int i = 0; i < 2; i++) {
        rig_result off = begin(packings[i]);
        bool on_disk = all_left_memory();
        rig_result warm = rig_run(pipeline(true, packings[i]));
        CHECK_TEXT(warm.digest, off.digest);
        CHECK_INT(warm.made, ==, 0);
        CHECK_INT(warm.caches[0].hits, ==, 2 * PHOTOS);
        CHECK_INT(warm.log.lines, ==, 0);
        CHECK(!on_disk || warm.bytes_ahead > 0);
        end();
    }
}

TEST(damage_on_disk_is_noticed) {
    rig_result off = begin("none");
    int64_t places = 0;
    each_segment(damage, &places);
    CHECK_INT(places, >, 0);
    (void)all_left_memory();
    rig_result again = rig_run(pipeline(true, "none"));
    CHECK_TEXT(again.digest, off.digest);
    CHECK_INT(again.made, >, 0);
    CHECK_INT(again.caches[0].damaged, ==, again.made);
    (void)all_left_memory();
    rig_result whole = rig_run(pipeline(true, "none"));
    CHECK_TEXT(whole.digest, off.digest);
    CHECK_INT(whole.made, ==, 0);
    end();
}

/* A loader that is closed while values are on their way. */
TEST(reading_ahead_can_be_given_up) {
    begin("none");
    for (int taken = 0; taken < 4; taken++) {
        mr_pipeline *parsed = NULL;
        mr_loader *loader = NULL;
        mr_batch *batch = NULL;
        mr_error err = MR_ERROR_INIT;
        mr_options options = MR_OPTIONS_INIT;
        const char *json = pipeline(true, "none");
        (void)all_left_memory();
        options.threads = 2;
        CHECK_INT(mr_pipeline_parse(&parsed, json, strlen(json), rig_ops, &err), ==, MR_OK);
        CHECK_INT(mr_loader_open(&loader, parsed, &options, &err), ==, MR_OK);
        for (int i = 0; i < taken; i++) {
            CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_OK);
            mr_batch_unref(batch);
        }
        mr_loader_close(loader);
        mr_pipeline_free(parsed);
    }
    end();
}

/* What takes a bad sample's place is read out of turn, and counts as read. */
TEST(what_is_read_out_of_turn_counts) {
    enum { CUT = 100 };
    char path[200], json[1024];
    struct stat info;
    snprintf(data_folder, sizeof data_folder, "%s", rig_photos(PHOTOS));
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [\"decode_image\", "
             "{\"center_crop\": {\"size\": 8}}], \"on_error\": \"skip\"}",
             data_folder);
    rig_result before = rig_run(json);
    snprintf(path, sizeof path, "%s/class0/000.jpg", data_folder);
    CHECK_INT(stat(path, &info), ==, 0);
    CHECK_INT(truncate(path, CUT), ==, 0);
    rig_result after = rig_run(json);
    CHECK_INT(after.status, ==, MR_END);
    CHECK_INT(after.bytes_read, >, before.bytes_read - (int64_t)info.st_size + CUT);
    fixture_remove(data_folder);
}

TEST_MAIN()
