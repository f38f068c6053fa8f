/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that the caller owns: a program that was built with an older, smaller one gets what it
 * knows of, and not a byte beyond; what its struct lacks counts as zero. */
#include "test.h"

#include "fixture.h"

#include <millrace/fabric.h>
#include <millrace/stream.h>
#include <millrace/trace.h>
#include <millrace/tune.h>

enum { UNTOUCHED = 0xA5 };

#define UPTO(type, member) (uint32_t)(offsetof(type, member))

/* A struct as an older header had it: of the given size, with garbage behind. */
static void make_old(void *given, size_t whole, uint32_t size) {
    memset(given, UNTOUCHED, whole);
    memcpy(given, &size, sizeof size);
}

static bool is_untouched(const void *given, size_t whole, uint32_t size) {
    const unsigned char *bytes = given;
    uint32_t still;
    memcpy(&still, given, sizeof still);
    bool well = still == size;
    for (size_t i = size; i < whole; i++) {
        well = well && bytes[i] == UNTOUCHED;
    }
    return well;
}

TEST(counts_of_a_stream) {
    char *folder = fixture_folder();
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    mr_stream_reader *reader = NULL;
    mr_entry entry = {.value = "abc", .size = 3};
    uint32_t old = UPTO(mr_stream_counts, lost);
    mr_stream_counts counts;
    CHECK_INT(mr_stream_writer_open(&writer, folder, &options, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_reader_open(&reader, folder, 0, MR_STREAM_OLDEST, NULL), ==, MR_OK);
    CHECK_INT(mr_stream_next(reader, &entry, NULL), ==, MR_OK);
    make_old(&counts, sizeof counts, old);
    mr_stream_reader_counts(reader, &counts);
    CHECK_INT(counts.entries, ==, 1);
    CHECK(is_untouched(&counts, sizeof counts, old));
    mr_stream_reader_close(reader);
    fixture_remove(folder);
}

TEST(what_started_the_process) {
    uint32_t old = UPTO(mr_launch, launcher);
    mr_launch launch;
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "5", 1);
    make_old(&launch, sizeof launch, old);
    CHECK(mr_launch_detect(&launch));
    CHECK_INT(launch.rank, ==, 2);
    CHECK_INT(launch.world, ==, 5);
    CHECK(is_untouched(&launch, sizeof launch, old));
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
}

TEST(a_fabric_without_a_size_is_refused) {
    mr_fabric_config config = {.url = "redis://127.0.0.1:1"};
    mr_fabric *fabric = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_fabric_open(&fabric, &config, &err), ==, MR_E_PARAM);
    CHECK_HAS(err.hint, "sizeof(mr_fabric_config)");
    CHECK(fabric == NULL);
}

/* Nobody listens there: the failure is told in words, which an older caller has no room for. */
TEST(figures_of_a_fabric) {
    mr_fabric_config config;
    uint32_t old = UPTO(mr_fabric_stats, trouble);
    mr_fabric *fabric = NULL;
    mr_fabric_stats stats;
    mr_error err = MR_ERROR_INIT;
    make_old(&config, sizeof config, UPTO(mr_fabric_config, space));
    config.url = "redis://127.0.0.1:1";
    mr_status status = mr_fabric_open(&fabric, &config, &err);
    if (status == MR_E_UNSUPPORTED) {
        return; /* built without fabrics */
    }
    CHECK_INT(status, ==, MR_OK);
    make_old(&stats, sizeof stats, old);
    mr_fabric_stats_now(fabric, &stats);
    CHECK_INT(stats.servers, ==, 1);
    CHECK(is_untouched(&stats, sizeof stats, old));
    mr_fabric_close(fabric);
}

static mr_pipeline *small_pipeline(char *photos) {
    char json[512];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": {}},"
             " {\"resize\": {\"size\": 8}}, {\"random_flip\": {}}], \"batch\": 2}",
             photos);
    return fixture_pipeline(json);
}

TEST(how_a_trace_is_doing) {
    char *photos = fixture_photos(4);
    mr_pipeline *pipeline = small_pipeline(photos);
    mr_loader *loader = fixture_loader(pipeline, NULL);
    uint32_t old = UPTO(mr_trace_status, failed);
    mr_trace_status status;
    make_old(&status, sizeof status, old);
    mr_loader_trace_status(loader, &status);
    CHECK_INT(status.spans, ==, 0);
    CHECK(is_untouched(&status, sizeof status, old));
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(photos);
}

TEST(results_of_a_pack) {
    char path[512], *photos = fixture_photos(4);
    mr_pipeline *pipeline = small_pipeline(photos);
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    uint32_t old = UPTO(mr_pack_result, document);
    mr_pack_result result;
    snprintf(path, sizeof path, "%s-pack", photos);
    options.folder = path;
    options.upto = "source";
    make_old(&result, sizeof result, old);
    CHECK_INT(mr_pipeline_pack(pipeline, &options, &result, NULL), ==, MR_OK);
    CHECK_INT(result.samples, ==, 4);
    CHECK_INT(strlen(result.digest), ==, 32);
    CHECK(is_untouched(&result, sizeof result, old));
    mr_pipeline_free(pipeline);
    fixture_remove(path);
    fixture_remove(photos);
}

/* As many rewrites as there is room for. */
TEST(rewrites) {
    char *photos = fixture_photos(1);
    char json[512];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": {}},"
             " {\"invert\": {}}, {\"center_crop\": {\"size\": 8}}],"
             " \"batch\": 2}",
             photos);
    mr_pipeline *pipeline = fixture_pipeline(json);
    uint32_t old = UPTO(mr_rewrites, list);
    static mr_rewrites all = {.size = (uint32_t)sizeof all}, none;
    CHECK_INT(mr_rewrites_find(pipeline, &all, NULL), ==, MR_OK);
    CHECK_INT(all.n, >, 0);
    make_old(&none, sizeof none, old);
    CHECK_INT(mr_rewrites_find(pipeline, &none, NULL), ==, MR_OK);
    CHECK_INT(none.n, ==, 0);
    CHECK(is_untouched(&none, sizeof none, old));
    mr_rewrites_free(&all);
    mr_pipeline_free(pipeline);
    fixture_remove(photos);
}

/* Strategies stand in a list, each as large as the caller knows it. */
enum { STRATEGIES = 3, OLD_STRATEGY = offsetof(mr_strategy, score) };

static void make_strategies(unsigned char *list, size_t size) {
    memset(list, UNTOUCHED, size);
    for (size_t i = 0; i < STRATEGIES; i++) {
        mr_strategy s = {.size = OLD_STRATEGY, .measured = true, .rate = i == 1 ? 500 : 100};
        memcpy(list + i * OLD_STRATEGY, &s, OLD_STRATEGY);
    }
}

static void check_strategies(const unsigned char *list) {
    for (size_t i = 0; i < STRATEGIES; i++) {
        mr_strategy s;
        memcpy(&s, list + i * OLD_STRATEGY, OLD_STRATEGY);
        CHECK_INT(s.size, ==, OLD_STRATEGY);
        CHECK(s.total_seconds == (i == 1 ? 20 : 100));
    }
}

TEST(strategies) {
    _Alignas(mr_strategy) unsigned char list[(STRATEGIES + 1) * sizeof(mr_strategy)];
    mr_tune_goal goal;
    make_old(&goal, sizeof goal, UPTO(mr_tune_goal, consumer));
    goal.samples = 1000;
    goal.epochs = 10;
    make_strategies(list, sizeof list);
    CHECK_INT(mr_tune_choose((mr_strategy *)(void *)list, STRATEGIES, &goal), ==, 1);
    check_strategies(list);
    for (size_t i = (size_t)STRATEGIES * OLD_STRATEGY; i < sizeof list; i++) {
        CHECK_INT(list[i], ==, UNTOUCHED);
    }
    CHECK(mr_tune_least_seconds(&goal, 100) == 10);
}

TEST_MAIN()
