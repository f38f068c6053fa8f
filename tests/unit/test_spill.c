/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that bring more than steps take, written to a folder meanwhile: nothing that is delivered
 * depends on it, it stays within its size, and what a run left there serves the next one. */
#include <dirent.h>
#include <fcntl.h>
#include <millrace/stream.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fixture.h"
#include "test.h"

enum { PARTITIONS = 2, EACH = 4000, VALUE = 1000, BATCH = 40, BATCHES = PARTITIONS * EACH / BATCH };

static char root[64], stream[96], spill[96];

static void append(int64_t from, int64_t end, uint64_t id) {
    char value[VALUE];
    for (uint32_t k = 0; k < PARTITIONS; k++) {
        mr_stream_options options = MR_STREAM_OPTIONS_INIT;
        mr_stream_writer *writer = NULL;
        options.partition = k;
        options.segment_bytes = 200000;
        options.id = id;
        CHECK_INT(mr_stream_writer_open(&writer, stream, &options, NULL), ==, MR_OK);
        for (int64_t i = from; i < end; i++) {
            memset(value, (int)(i * 7 + k), sizeof value);
            const mr_entry entry = {.label = i, .value = value, .size = (size_t)(i % VALUE)};
            CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
        }
        CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
    }
}

static void begin(void) {
    snprintf(root, sizeof root, "%s", fixture_folder());
    snprintf(stream, sizeof stream, "%s/stream", root);
    snprintf(spill, sizeof spill, "%s/spill", root);
    append(0, EACH, 5);
}

typedef struct run {
    mr_pipeline *pipeline;
    mr_loader *loader;
} run;

static mr_status open_run(run *r, const char *pace, const char *state, mr_error *err) {
    char json[600];
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    options.batches_ahead = 2;
    options.read_ahead_bytes = 20000;
    options.digest = true;
    options.state = state;
    options.state_size = state ? strlen(state) : 0;
    snprintf(json, sizeof json,
             "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"until\": %d}}, "
             "\"batch\": %d%s}",
             stream, EACH, BATCH, pace);
    *r = (run){.pipeline = fixture_pipeline(json)};
    return mr_loader_open(&r->loader, r->pipeline, &options, err);
}

static const char *spilling(int64_t bytes) {
    static char text[256];
    snprintf(text, sizeof text,
             ", \"pace\": {\"early\": \"spill\", \"spill\": \"%s\", \"spill_bytes\": %lld}", spill,
             (long long)bytes);
    return text;
}

static void close_run(run *r) {
    mr_loader_close(r->loader);
    mr_pipeline_free(r->pipeline);
}

static mr_stream_stats stats_of(const run *r) {
    mr_stream_stats stats = {.size = sizeof stats};
    CHECK_INT(mr_loader_stream(r->loader, &stats), ==, MR_OK);
    return stats;
}

static void wait_for_spilled(const run *r, int64_t entries) {
    while (stats_of(r).spilled < entries) {
        usleep(1000);
    }
}

static char digests[BATCHES][33];

/* Digests of steps from `first` on, as they were without a spill. How many steps came. */
static int check_steps(run *r, int first, int most, mr_status *status, mr_error *err) {
    mr_batch *batch = NULL;
    int n = 0;
    while (n < most && (*status = mr_loader_next(r->loader, &batch, err)) == MR_OK) {
        CHECK_TEXT(mr_batch_digest(batch), digests[first + n]);
        n++;
        mr_batch_unref(batch);
    }
    return n;
}

static char *save(run *r) {
    size_t room = mr_loader_state_bytes(r->loader);
    char *state = malloc(room);
    CHECK_INT(mr_loader_save(r->loader, state, room, NULL), ==, MR_OK);
    return state;
}

static int64_t bytes_in(const char *folder) {
    int64_t bytes = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat info;
        if (strstr(e->d_name, ".seg") && fstatat(dirfd(dir), e->d_name, &info, 0) == 0) {
            bytes += info.st_size;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return bytes;
}

TEST(begin) {
    run r;
    mr_batch *batch = NULL;
    begin();
    CHECK_INT(open_run(&r, "", NULL, NULL), ==, MR_OK);
    for (int n = 0; mr_loader_next(r.loader, &batch, NULL) == MR_OK; n++) {
        snprintf(digests[n], 33, "%s", mr_batch_digest(batch));
        mr_batch_unref(batch);
    }
    close_run(&r);
    CHECK(digests[BATCHES - 1][0] != 0);
}

TEST(what_was_spilled_comes_back_in_order) {
    run r;
    mr_status status = MR_OK;
    CHECK_INT(open_run(&r, spilling(100 << 20), NULL, NULL), ==, MR_OK);
    wait_for_spilled(&r, 7000);
    CHECK_INT(stats_of(&r).waiting, <, 200);
    CHECK_INT(check_steps(&r, 0, BATCHES + 1, &status, NULL), ==, BATCHES);
    CHECK_INT(status, ==, MR_END);
    CHECK_INT(stats_of(&r).entries, ==, PARTITIONS * EACH);
    close_run(&r);
}

/* Without states nothing that was delivered is kept: the folder is used again and again. */
TEST(a_spill_stays_within_its_size) {
    enum { SIZE = 1 << 20 };
    run r;
    mr_status status = MR_OK;
    CHECK_INT(open_run(&r, spilling(SIZE), NULL, NULL), ==, MR_OK);
    wait_for_spilled(&r, 1000);
    for (int n = 0; n < BATCHES; n += 10) {
        CHECK_INT(check_steps(&r, n, 10, &status, NULL), ==, 10);
        CHECK_INT(bytes_in(spill), <=, SIZE);
        CHECK_INT(stats_of(&r).spill_bytes, <=, SIZE);
    }
    CHECK_INT(stats_of(&r).spilled, >, 2500); /* more than fits at a time */
    close_run(&r);
}

/* States are saved, and never so that all that is spilled may go: it becomes full, and the rest
 * stays in the stream. */
TEST(a_full_spill_does_not_stop_a_run) {
    run r;
    mr_status status = MR_OK;
    CHECK_INT(open_run(&r, spilling(1 << 20), NULL, NULL), ==, MR_OK);
    CHECK_INT(check_steps(&r, 0, 1, &status, NULL), ==, 1);
    free(save(&r));
    CHECK_INT(check_steps(&r, 1, BATCHES, &status, NULL), ==, BATCHES - 1);
    CHECK_INT(status, ==, MR_END);
    close_run(&r);
}

static void trim(int64_t before) {
    for (uint32_t k = 0; k < PARTITIONS; k++) {
        int64_t dropped = 0;
        CHECK_INT(mr_stream_trim(stream, k, before, &dropped, NULL), ==, MR_OK);
        CHECK_INT(dropped, >, 0);
    }
}

/* The end of the newest file of a partition is cut off, as by a kill in the middle of a write. */
static void cut_off(const char *partition, int64_t bytes) {
    char newest[300] = "", path[400];
    struct stat info;
    DIR *dir = opendir(spill);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, partition, 5) == 0 && strstr(e->d_name, ".seg") &&
            strcmp(e->d_name, newest) > 0) {
            snprintf(newest, sizeof newest, "%s", e->d_name);
        }
    }
    closedir(dir);
    snprintf(path, sizeof path, "%s/%s", spill, newest);
    CHECK(stat(path, &info) == 0 && info.st_size > bytes);
    CHECK_INT(truncate(path, info.st_size - bytes), ==, 0);
}

/* The stream forgets what a state needs, and the spill has it; so also where its end was torn off.
 */
static char *leave_a_spill(void) {
    run r;
    mr_status status = MR_OK;
    CHECK_INT(open_run(&r, spilling(100 << 20), NULL, NULL), ==, MR_OK);
    wait_for_spilled(&r, 3000); /* before the first step: all but a few are in the spill */
    CHECK_INT(check_steps(&r, 0, 20, &status, NULL), ==, 20);
    char *state = save(&r);
    wait_for_spilled(&r, 7000);
    CHECK_INT(check_steps(&r, 20, 30, &status, NULL), ==, 30);
    close_run(&r);
    return state;
}

TEST(a_run_goes_on_from_what_was_spilled) {
    run r;
    mr_status status = MR_OK;
    mr_error err = MR_ERROR_INIT;
    char *state = leave_a_spill();
    cut_off("00001", 5);
    trim(3000);
    CHECK_INT(open_run(&r, "", state, &err), ==, MR_OK);
    CHECK_INT(check_steps(&r, 20, 1, &status, &err), ==, 0);
    CHECK_INT(status, ==, MR_E_STATE); /* without the spill */
    close_run(&r);
    CHECK_INT(open_run(&r, spilling(100 << 20), state, &err), ==, MR_OK);
    CHECK_INT(check_steps(&r, 20, BATCHES, &status, &err), ==, BATCHES - 20);
    CHECK_INT(status, ==, MR_END);
    close_run(&r);
    free(state);
}

TEST(what_does_not_fit_is_forgotten) {
    run r;
    mr_status status = MR_OK;
    fixture_remove(root);
    begin();
    CHECK_INT(open_run(&r, spilling(100 << 20), NULL, NULL), ==, MR_OK);
    wait_for_spilled(&r, 7000);
    CHECK_INT(check_steps(&r, 0, 5, &status, NULL), ==, 5);
    close_run(&r);
    CHECK_INT(open_run(&r, spilling(100 << 20), NULL, NULL), ==, MR_OK); /* from the beginning */
    CHECK_INT(check_steps(&r, 0, BATCHES, &status, NULL), ==, BATCHES);
    close_run(&r);
}

/* As a limit on the size of files. Steps that were delivered are right, and the run goes on from a
 * state once there is room. */
TEST(a_full_disk_ends_the_run_with_an_error) {
    run r;
    struct rlimit old;
    mr_error err = MR_ERROR_INIT;
    mr_status status = MR_OK;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){300000, old.rlim_max});
    CHECK_INT(open_run(&r, spilling(100 << 20), NULL, &err), ==, MR_OK);
    int n = check_steps(&r, 0, BATCHES, &status, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_INT(status, ==, MR_E_IO);
    CHECK_HAS(err.text, "cannot append");
    CHECK_HAS(err.source, "spill");
    char *state = save(&r);
    close_run(&r);
    CHECK_INT(open_run(&r, spilling(100 << 20), state, NULL), ==, MR_OK);
    CHECK_INT(check_steps(&r, n, BATCHES, &status, NULL), ==, BATCHES - n);
    close_run(&r);
    free(state);
}

TEST(a_folder_is_one_runs_and_one_streams) {
    run one, two;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(open_run(&one, spilling(100 << 20), NULL, NULL), ==, MR_OK);
    CHECK_INT(open_run(&two, spilling(100 << 20), NULL, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "another run spills");
    close_run(&two);
    close_run(&one);
    snprintf(stream, sizeof stream, "%s/other", root);
    append(0, 10, 6);
    CHECK_INT(open_run(&one, spilling(100 << 20), NULL, &err), ==, MR_E_STATE);
    CHECK_HAS(err.text, "another stream");
    close_run(&one);
}

TEST(a_folder_and_spill_need_each_other) {
    static const char *const wrong[] = {"{\"early\": \"spill\"}", "{\"spill\": \"/tmp/x\"}"};
    for (int i = 0; i < 2; i++) {
        char json[300];
        mr_error err = MR_ERROR_INIT;
        mr_pipeline *pipeline = NULL;
        snprintf(json, sizeof json,
                 "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true}}, \"pace\": %s}",
                 stream, wrong[i]);
        CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), NULL, &err), ==, MR_E_PARAM);
        CHECK_HAS(err.text, "need each other");
    }
}

TEST(end) {
    fixture_remove(root);
}

TEST_MAIN()
