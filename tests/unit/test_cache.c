/* SPDX-License-Identifier: Apache-2.0 */
/* The op cache through a loader: whatever state the store is in, the bytes are those of a run
 * without it, no run fails because of it, and a sample is made once. */
#include "cache_rig.h"
#include "test.h"

#include "run/cache/stores.h"
#include "trace/reader.h"

#include <errno.h>
#include <pthread.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PHOTOS = 60, SAMPLES = 200 };

static char data_folder[128], store[160];

static void begin(int photos) {
    snprintf(data_folder, sizeof data_folder, "%s", rig_photos(photos));
    snprintf(store, sizeof store, "%s-store", data_folder);
}

static void end(void) {
    fixture_remove(store);
    fixture_remove(data_folder);
}

/* ---- Pipelines ---- */
/* Decoded images of varying size, kept, then cropped where they lie: the in-place way. */
static const char *photos_pipeline(const char *cache) {
    static char json[2048];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [\"decode_image\", "
             "\"tally\", %s%s {\"random_crop\": {\"size\": 16}}, \"random_flip\", "
             "{\"normalize\": {\"mean\": [0.5], \"std\": [0.25]}}], \"batch\": 8, \"epochs\": 3, "
             "\"seed\": 5}",
             data_folder, cache, cache[0] ? "," : "");
    return json;
}

/* Samples of one size, kept and delivered as they are: the copying way. */
static const char *plain_pipeline(int samples, int bytes, const char *cache) {
    static char json[2048];
    snprintf(json, sizeof json,
             "{\"source\": {\"synthetic\": {\"samples\": %d, \"shape\": [%d]}}, "
             "\"ops\": [\"tally\"%s%s], \"batch\": 16, \"epochs\": 2, \"seed\": 3}",
             samples, bytes, cache[0] ? ", " : "", cache);
    return json;
}

static const char *cache_with(const char *more) {
    static char text[512];
    snprintf(text, sizeof text, "{\"cache\": {\"path\": \"%s\", \"size\": \"64MB\"%s%s}}", store,
             more[0] ? ", " : "", more);
    return text;
}

static const char *cache_sized(const char *size) {
    static char text[512];
    snprintf(text, sizeof text, "{\"cache\": {\"path\": \"%s\", \"size\": \"%s\"}}", store, size);
    return text;
}

static rig_result check_run(const char *json, const char *digest) {
    rig_result result = rig_run(json);
    CHECK_INT(result.status, ==, MR_END);
    CHECK_TEXT(result.digest, digest);
    if (result.status != MR_END) {
        fprintf(stderr, "%s\n", result.error);
    }
    return result;
}

static void store_file(char *path, size_t size, const char *name) {
    snprintf(path, size, "%s/%s", store, name);
}

static void check_verify(int64_t entries, int64_t damage) {
    char params[256];
    int64_t checked = -1, damaged = -1;
    mr_error err = MR_ERROR_INIT;
    snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
    CHECK_INT(mr_store_verify(params, NULL, &checked, &damaged, &err), ==, MR_OK);
    CHECK_INT(checked, ==, entries);
    CHECK_INT(damaged, ==, damage);
}

/* ---- Cold, warm, half warm, off ---- */
TEST(cold_warm_and_off_give_the_same_bytes) {
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    CHECK_INT(off.status, ==, MR_END);
    CHECK_INT(off.made, ==, 3 * PHOTOS);
    rig_result cold = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(cold.made, ==, PHOTOS);
    CHECK_INT(cold.log.lines, ==, 0);
    CHECK_INT(cold.caches[0].hits, ==, 2 * PHOTOS);
    CHECK_INT(cold.caches[0].misses, ==, PHOTOS);
    CHECK_INT(cold.caches[0].refused, ==, 0);
    rig_result warm = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(warm.made, ==, 0);
    CHECK_INT(warm.caches[0].hits, ==, 3 * PHOTOS);
    CHECK_INT(warm.caches[0].stored, ==, 0);
    check_verify(PHOTOS, 0);
    end();
}

TEST(a_half_warm_store_makes_the_other_half) {
    begin(PHOTOS);
    char half[2048];
    rig_result off = rig_run(photos_pipeline(""));
    snprintf(half, sizeof half,
             "{\"source\": {\"files\": {\"path\": \"%s/class1\"}}, \"ops\": [\"decode_image\", "
             "\"tally\", %s], \"batch\": 4}",
             data_folder, cache_with(""));
    rig_result first = rig_run(half);
    CHECK_INT(first.made, ==, PHOTOS / 3);
    rig_result rest = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(rest.made, ==, PHOTOS - PHOTOS / 3);
    end();
}

TEST(packed_values_give_the_same_bytes) {
    static const char *const packings[] = {"none", "lz4", "zstd"};
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    char plain[33];
    snprintf(plain, sizeof plain, "%s", rig_run(plain_pipeline(SAMPLES, 5000, "")).digest);
    for (int i = 0; i < 3; i++) {
        char more[64];
        snprintf(more, sizeof more, "\"compression\": \"%s\"", packings[i]);
        CHECK_INT(check_run(photos_pipeline(cache_with(more)), off.digest).made, ==, PHOTOS);
        CHECK_INT(check_run(photos_pipeline(cache_with(more)), off.digest).made, ==, 0);
        CHECK_INT(check_run(plain_pipeline(SAMPLES, 5000, cache_with(more)), plain).made, ==,
                  SAMPLES);
        CHECK_INT(check_run(plain_pipeline(SAMPLES, 5000, cache_with(more)), plain).made, ==, 0);
        fixture_remove(store);
    }
    end();
}

TEST(the_memory_tier_goes_with_its_last_user) {
    char folder[128], cache[256];
    snprintf(folder, sizeof folder, "/dev/shm/millrace-test-%d", (int)getpid());
    snprintf(cache, sizeof cache,
             "{\"cache\": {\"path\": \"%s\", \"tier\": \"memory\", \"size\": \"8MB\"}}", folder);
    begin(3);
    rig_result off = rig_run(plain_pipeline(SAMPLES, 5000, ""));
    for (int i = 0; i < 2; i++) {
        rig_result result = check_run(plain_pipeline(SAMPLES, 5000, cache), off.digest);
        CHECK_INT(result.made, ==, SAMPLES);
        CHECK_INT(result.caches[0].hits, >=, SAMPLES); /* one made ahead is found, not missed */
        CHECK(access(folder, F_OK) != 0);
    }
    end();
}

/* The last to leave takes the folder away, while others come. */
TEST(processes_come_and_go_in_the_memory_tier) {
    enum { JOBS = 4 };
    char cache[256], json[2048];
    pid_t children[JOBS];
    begin(3);
    snprintf(store, sizeof store, "/dev/shm/millrace-test-%d", (int)getpid());
    snprintf(cache, sizeof cache,
             "{\"cache\": {\"path\": \"%s\", \"tier\": \"memory\", \"size\": \"8MB\"}}", store);
    rig_result off = rig_run(plain_pipeline(8, 500, ""));
    snprintf(json, sizeof json, "%s", plain_pipeline(8, 500, cache));
    fflush(NULL);
    for (int i = 0; i < JOBS; i++) {
        children[i] = fork();
        for (int round = 0; children[i] == 0 && round < 30; round++) {
            rig_result result = rig_run_with(json, rig_ops, 1, NULL);
            if (strcmp(result.digest, off.digest) != 0 || result.log.lines > 0) {
                fprintf(stderr, "%s %s%s", result.digest, result.error, result.log.text);
                _exit(1);
            }
        }
        if (children[i] == 0) {
            _exit(0);
        }
    }
    for (int i = 0; i < JOBS; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        CHECK_INT(status, ==, 0);
    }
    CHECK(access(store, F_OK) != 0);
    end();
}

TEST(two_caches_in_one_pipeline) {
    begin(PHOTOS);
    char json[2048];
    rig_result off = rig_run(photos_pipeline(""));
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [%s, \"decode_image\", "
             "\"tally\", %s, {\"random_crop\": {\"size\": 16}}, \"random_flip\", "
             "{\"normalize\": {\"mean\": [0.5], \"std\": [0.25]}}], \"batch\": 8, \"epochs\": 3, "
             "\"seed\": 5}",
             data_folder, cache_sized("64MB"), cache_with(""));
    rig_result cold = check_run(json, off.digest);
    CHECK_INT(cold.n_caches, ==, 2);
    CHECK_INT(cold.made, ==, PHOTOS);
    CHECK_INT(cold.caches[0].misses, ==, PHOTOS);
    CHECK_INT(cold.caches[1].hits, ==, 2 * PHOTOS);
    check_verify(2 * PHOTOS, 0);
    rig_result warm = check_run(json, off.digest);
    CHECK_INT(warm.caches[1].hits, ==, 3 * PHOTOS);
    CHECK_INT(warm.caches[0].hits + warm.caches[0].misses, ==, 0);
    /* The bytes alone serve another pipeline. */
    char other[2048];
    snprintf(other, sizeof other,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [%s, \"decode_image\", "
             "{\"resize\": {\"size\": [9, 9]}}], \"batch\": 8}",
             data_folder, cache_with(""));
    rig_result shared = rig_run(other);
    CHECK_INT(shared.caches[0].hits, ==, PHOTOS);
    end();
}

TEST(two_versions_of_an_op_side_by_side) {
    begin(3);
    char off[2][33];
    for (int i = 0; i < 2; i++) {
        snprintf(
            off[i], sizeof off[i], "%s",
            rig_run_with(plain_pipeline(SAMPLES, 3000, ""), i ? rig_second_ops : rig_ops, 2, NULL)
                .digest);
    }
    CHECK(strcmp(off[0], off[1]) != 0);
    for (int i = 0; i < 4; i++) {
        rig_result result = rig_run_with(plain_pipeline(SAMPLES, 3000, cache_with("")),
                                         i % 2 ? rig_second_ops : rig_ops, 2, NULL);
        CHECK_TEXT(result.digest, off[i % 2]);
        CHECK_INT(result.made, ==, i < 2 ? SAMPLES : 0);
    }
    check_verify(2 * SAMPLES, 0);
    end();
}

/* ---- What the libraries of an op are called is part of its values' names ---- */
static void older_libraries(char *text, size_t size) {
    snprintf(text, size, "libtally 1.0");
}

static void newer_libraries(char *text, size_t size) {
    snprintf(text, size, "libtally 1.1");
}

static void name_way(const mr_op_class *op, char key[17], char fingerprint[33]) {
    const mr_op_class *const ops[] = {op, NULL};
    mr_pipeline *pipeline = NULL;
    const char *json = plain_pipeline(SAMPLES, 3000, cache_with(""));
    CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), ops, NULL), ==, MR_OK);
    CHECK_INT(mr_pipeline_cache_prefix(pipeline, 2, key), ==, MR_OK);
    snprintf(fingerprint, 33, "%s", mr_pipeline_fingerprint(pipeline));
    mr_pipeline_free(pipeline);
}

TEST(another_version_of_a_library_makes_values_anew) {
    begin(3);
    mr_op_class older = rig_tally, newer = rig_tally;
    older.libraries = older_libraries;
    newer.libraries = newer_libraries;
    const mr_op_class *const lists[2][2] = {{&older, NULL}, {&newer, NULL}};
    rig_result off = rig_run(plain_pipeline(SAMPLES, 3000, ""));
    for (int i = 0; i < 4; i++) {
        rig_result result =
            rig_run_with(plain_pipeline(SAMPLES, 3000, cache_with("")), lists[i % 2], 2, NULL);
        CHECK_TEXT(result.digest, off.digest);
        CHECK_INT(result.made, ==, i < 2 ? SAMPLES : 0);
    }
    check_verify(2 * SAMPLES, 0);
    end();
}

TEST(the_fingerprint_knows_no_libraries) {
    begin(3);
    char keys[3][17], fingerprints[3][33];
    mr_op_class older = rig_tally, newer = rig_tally;
    older.libraries = older_libraries;
    newer.libraries = newer_libraries;
    name_way(&rig_tally, keys[0], fingerprints[0]);
    name_way(&older, keys[1], fingerprints[1]);
    name_way(&newer, keys[2], fingerprints[2]);
    CHECK(strcmp(keys[0], keys[1]) != 0 && strcmp(keys[1], keys[2]) != 0);
    CHECK_TEXT(fingerprints[1], fingerprints[0]);
    CHECK_TEXT(fingerprints[2], fingerprints[0]);
    end();
}

/* ---- Making once ---- */
TEST(a_sample_asked_for_by_many_threads_is_made_once) {
    begin(3);
    char json[2048], list[256];
    /* One file under many names: the same sample for the store. */
    snprintf(list, sizeof list, "%s/list.txt", data_folder);
    FILE *file = fopen(list, "w");
    for (int i = 0; file && i < 64; i++) {
        fprintf(file, "class0/000.jpg %d\n", i % 4);
    }
    fclose(file);
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"list\": \"%s\"}}, \"ops\": [\"decode_image\", "
             "\"tally\", %s], \"batch\": 16}",
             list, cache_with(""));
    rig_result result = rig_run_with(json, rig_ops, 8, NULL);
    CHECK_INT(result.status, ==, MR_END);
    CHECK_INT(result.made, ==, 1);
    CHECK_INT(result.caches[0].hits, ==, 63);
    end();
}

typedef struct job {
    const char *json;
    rig_result result;
    int pipe[2];
} job;

static void *run_job(void *user) {
    job *j = user;
    j->result = rig_run_with(j->json, rig_ops, 2, NULL);
    return NULL;
}

TEST(loaders_of_one_process_share_the_work) {
    enum { JOBS = 4 };
    begin(3);
    char json[2048];
    rig_result off = rig_run(plain_pipeline(SAMPLES, 4000, ""));
    snprintf(json, sizeof json, "%s", plain_pipeline(SAMPLES, 4000, cache_with("")));
    int64_t before = *rig_makings;
    job jobs[JOBS];
    pthread_t threads[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (job){.json = json};
        pthread_create(&threads[i], NULL, run_job, &jobs[i]);
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_TEXT(jobs[i].result.digest, off.digest);
    }
    CHECK_INT(*rig_makings - before, ==, SAMPLES);
    end();
}

/* ---- Who waits helps ---- */
enum { HELPED = 8 };

static struct {
    _Atomic int64_t calls;
    atomic_bool reached, open;
} gate;

/* The first call ends when all other samples were begun. */
static mr_status run_gate(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                          mr_error *err) {
    int64_t n = atomic_fetch_add(&gate.calls, 1);
    (void)params;
    (void)call;
    (void)err;
    if (n == HELPED - 1) {
        gate.open = true;
    }
    gate.reached = true;
    while (n == 0 && !gate.open) {
        rig_nap(1);
    }
    return rig_turn(in, out, 0xFF);
}

static const mr_op_class gate_op = {
    MR_OP_HEADER, .name = "gate",   .summary = "Waits for the others.",
    .version = 1, .plan = rig_plan, .run = run_gate};
static const mr_op_class *const gate_ops[] = {&gate_op, NULL};

static mr_loader *open_gated(mr_pipeline **pipeline, const char *trace) {
    char json[1024];
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    options.threads = 1;
    options.trace = trace;
    snprintf(json, sizeof json,
             "{\"source\": {\"synthetic\": {\"samples\": %d, \"shape\": [100]}}, \"ops\": "
             "[\"gate\", %s], \"batch\": %d, \"shuffle\": false}",
             HELPED, cache_with(""), HELPED);
    CHECK_INT(mr_pipeline_parse(pipeline, json, strlen(json), gate_ops, NULL), ==, MR_OK);
    CHECK_INT(mr_loader_open(&loader, *pipeline, &options, NULL), ==, MR_OK);
    return loader;
}

static void close_gated(mr_loader *loader, mr_pipeline *pipeline) {
    mr_batch *batch = NULL;
    CHECK_INT(mr_loader_next(loader, &batch, NULL), ==, MR_OK);
    mr_batch_unref(batch);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

/* A loader holds the first sample; the one thread of another waits for it, and makes the others
 * meanwhile. */
TEST(a_sample_that_is_made_while_waiting_has_its_own_number_in_the_trace) {
    begin(3);
    char path[256];
    mr_pipeline *pipelines[2] = {NULL};
    mr_trace *trace = NULL;
    int64_t made = 0;
    snprintf(path, sizeof path, "%s/t.trace", data_folder);
    mr_loader *first = open_gated(&pipelines[0], NULL);
    while (!gate.reached) {
        rig_nap(1);
    }
    mr_loader *second = open_gated(&pipelines[1], path);
    close_gated(second, pipelines[1]);
    close_gated(first, pipelines[0]);
    CHECK_INT(gate.calls, ==, HELPED); /* or it did not help */
    CHECK_INT(mr_trace_open(&trace, path, NULL), ==, MR_OK);
    for (int64_t p = 0; trace && p < trace->n_pieces; p++) {
        const mr_trace_piece *piece = &trace->pieces[p];
        for (int64_t i = 0; i < piece->n; i++) {
            if (piece->spans[i].kind == MR_SPAN_OP) {
                CHECK_INT(mr_span_item(&piece->spans[i]), ==, ++made);
            }
        }
    }
    CHECK_INT(made, ==, HELPED - 1);
    mr_trace_close(trace);
    end();
}

/* ---- Processes ---- */
/* Runs the pipeline in a child, once `go` can be read from; the digest comes back through a pipe.
 */
static pid_t start_child(job *j, int go) {
    fflush(NULL);
    if (pipe(j->pipe) != 0) {
        return -1;
    }
    pid_t child = fork();
    if (child == 0) {
        char byte;
        (void)!read(go, &byte, 1);
        rig_result result = rig_run_with(j->json, rig_ops, 2, NULL);
        if (result.log.lines) {
            fprintf(stderr, "child: %s", result.log.text);
        }
        (void)!write(j->pipe[1], &result, sizeof result);
        _exit(0);
    }
    close(j->pipe[1]);
    return child;
}

static void end_child(job *j, pid_t child) {
    j->result = (rig_result){.status = MR_E_INTERNAL};
    (void)!read(j->pipe[0], &j->result, sizeof j->result);
    close(j->pipe[0]);
    waitpid(child, NULL, 0);
}

static void run_together(const char *json, const char *digest, int64_t samples) {
    enum { JOBS = 4 };
    job jobs[JOBS];
    pid_t children[JOBS];
    int go[2];
    int64_t before = *rig_makings;
    CHECK_INT(pipe(go), ==, 0);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (job){.json = json};
        children[i] = start_child(&jobs[i], go[0]);
    }
    (void)!write(go[1], "1234", JOBS); /* all at once */
    for (int i = 0; i < JOBS; i++) {
        end_child(&jobs[i], children[i]);
        CHECK_INT(jobs[i].result.status, ==, MR_END);
        CHECK_TEXT(jobs[i].result.digest, digest);
        CHECK_INT(jobs[i].result.log.lines, ==, 0);
    }
    close(go[0]);
    close(go[1]);
    CHECK_INT(*rig_makings - before, ==, samples);
}

TEST(processes_share_the_work) {
    begin(3);
    char json[2048];
    rig_result off = rig_run(plain_pipeline(SAMPLES, 4000, ""));
    for (int round = 0; round < 5; round++) {
        snprintf(json, sizeof json, "%s", plain_pipeline(SAMPLES, 4000, cache_with("")));
        run_together(json, off.digest, SAMPLES);
        check_verify(SAMPLES, 0);
        fixture_remove(store);
    }
    end();
}

TEST(processes_that_read_files_share_the_work) {
    begin(PHOTOS);
    char json[2048];
    rig_result off = rig_run(photos_pipeline(""));
    snprintf(json, sizeof json, "%s", photos_pipeline(cache_with("\"compression\": \"lz4\"")));
    run_together(json, off.digest, PHOTOS);
    end();
}

static void *count_batches(void *user) {
    mr_loader *loader = user;
    mr_batch *batch = NULL;
    mr_status status;
    while ((status = mr_loader_next(loader, &batch, NULL)) == MR_OK) {
        mr_batch_unref(batch);
    }
    return NULL;
}

/* ThreadSanitizer cannot, and AddressSanitizer's malloc may wait for ever in a child of a process
 * whose threads were allocating. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define NO_THREADS_AFTER_FORK true
#endif
#endif
#ifndef NO_THREADS_AFTER_FORK
#define NO_THREADS_AFTER_FORK false
#endif

TEST(a_forked_child_leaves_the_parents_store_alone) {
    begin(3);
    rig_result off = rig_run(plain_pipeline(SAMPLES, 4000, ""));
    mr_pipeline *pipeline = NULL;
    const char *json = plain_pipeline(SAMPLES, 4000, cache_with(""));
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), rig_ops, NULL), ==, MR_OK);
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch = NULL;
    CHECK_INT(mr_loader_next(loader, &batch, NULL), ==, MR_OK);
    mr_batch_unref(batch);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        mr_loader_close(loader); /* not its own */
        if (NO_THREADS_AFTER_FORK) {
            _exit(0);
        }
        rig_result result = rig_run_with(json, rig_ops, 2, NULL);
        bool right = result.status == MR_END && strcmp(result.digest, off.digest) == 0;
        _exit(right && result.log.lines == 0 ? 0 : 1);
    }
    count_batches(loader);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_INT(status, ==, 0);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    check_verify(SAMPLES, 0);
    end();
}

/* ---- Damage ---- */
static void fill_store(const char *digest) {
    fixture_remove(store);
    check_run(photos_pipeline(cache_with("")), digest);
}

/* The i-th file with this ending; false: there are not so many. */
static bool find_file(char *path, size_t size, const char *ending, int i) {
    bool found = false;
    DIR *listing = opendir(store);
    for (struct dirent *entry; listing && !found && (entry = readdir(listing)) != NULL;) {
        size_t length = strlen(entry->d_name), end = strlen(ending);
        if (length > end && strcmp(entry->d_name + length - end, ending) == 0 && i-- == 0) {
            store_file(path, size, entry->d_name);
            found = true;
        }
    }
    if (listing) {
        closedir(listing);
    }
    return found;
}

/* One damaged value costs one value, and what is made takes its place. */
TEST(damaged_values_are_made_again) {
    begin(PHOTOS);
    char path[256];
    struct stat info;
    rig_result off = rig_run(photos_pipeline(""));
    for (int many = 0; many < 2; many++) {
        fill_store(off.digest);
        CHECK(find_file(path, sizeof path, ".seg", 0));
        CHECK_INT(stat(path, &info), ==, 0);
        int64_t half = (int64_t)info.st_size / 2;
        CHECK_INT(rig_damage(path, many ? 4096 : half, many ? INT64_MAX : half + 1, 4096), >, 0);
        rig_result again = check_run(photos_pipeline(cache_with("")), off.digest);
        CHECK_INT(again.log.lines, ==, 1);
        CHECK_INT(again.made, >=, 1);
        CHECK_INT(again.made, <=, many ? PHOTOS : 1);
        CHECK_INT(again.caches[0].damaged, ==, again.made);
        rig_result whole = check_run(photos_pipeline(cache_with("")), off.digest);
        CHECK_INT(whole.made, ==, 0);
        CHECK_INT(whole.log.lines, ==, 0);
    }
    end();
}

/* The index is made again from the values: whatever becomes of it, nothing else is lost. */
TEST(a_damaged_or_missing_index_is_made_again) {
    enum { CUT, EMPTY, GONE, OVERWRITTEN, WAYS };
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    for (int way = 0; way < WAYS; way++) {
        char path[256], params[256];
        int64_t checked = 0, damaged = 0;
        fill_store(off.digest);
        store_file(path, sizeof path, MR_INDEX_FILE);
        if (way == GONE) {
            unlink(path);
        } else if (way == OVERWRITTEN) {
            rig_damage(path, 8192, 12288, 1);
        } else {
            CHECK_INT(truncate(path, way == CUT ? 8192 : 0), ==, 0);
        }
        snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
        CHECK_INT(mr_store_verify(params, NULL, &checked, &damaged, NULL), ==, MR_OK);
        CHECK_INT(checked, ==, PHOTOS);
        CHECK_INT(damaged, ==, 1); /* told once */
        check_verify(PHOTOS, 0);
        CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    }
    end();
}

/* What the index says is enough to read a value without the store: a file, a place, a checksum. */
TEST(a_location_is_enough_to_read_a_value) {
    begin(3);
    const mr_store_params params = {.size = 8000000, .path = store};
    const mr_store_key key = {{1, 2, 3}};
    const mr_view value = {.type = {MR_U8, MR_PLAIN, 1, {5}}, .data = "value", .size = 5};
    mr_store *open_store = NULL;
    mr_store_location where = {0};
    mr_record record;
    mr_arena arena = {0};
    unsigned char bytes[512], again[512];
    CHECK_INT(mr_store_open(&open_store, &params, &(mr_log){0}, NULL), ==, MR_OK);
    mr_store_reader *reader = mr_store_reader_new(open_store);
    CHECK(!mr_store_locate(reader, &key, &where));
    CHECK_INT(mr_store_claim(open_store, &key), ==, MR_CLAIM_OURS);
    mr_store_buffer *buffer = mr_store_take_buffer(open_store, mr_record_room(&value, 1, 0));
    CHECK_INT(mr_record_write(&key, &value, 1, 0, buffer->bytes, &buffer->used, NULL), ==, MR_OK);
    mr_store_put(open_store, &key, buffer);
    mr_store_flush(open_store);
    CHECK(mr_store_locate(reader, &key, &where));
    CHECK(where.size <= sizeof bytes);
    CHECK_INT(pread(where.file, bytes, where.size, (off_t)where.offset), ==, where.size);
    CHECK_INT(mr_store_read(&where, again, NULL), ==, MR_OK);
    CHECK(memcmp(bytes, again, where.size) == 0);
    CHECK(mr_record_sum(bytes, where.size) == where.sum);
    CHECK_INT(mr_record_open(&record, &key, bytes, where.size, &arena), ==, MR_OK);
    CHECK_INT(record.fields[0].size, ==, 5);
    CHECK(memcmp(record.fields[0].data, "value", 5) == 0);
    mr_store_let_go(open_store, &where);
    mr_store_reader_free(reader);
    mr_store_close(open_store);
    mr_arena_free(&arena);
    end();
}

/* Segments that were taken away: what was in them is told, and made again. */
TEST(a_missing_segment_costs_what_was_in_it) {
    begin(PHOTOS);
    char path[256], params[256];
    int64_t checked = 0, damaged = 0;
    rig_result off = rig_run(photos_pipeline(""));
    fill_store(off.digest);
    CHECK(find_file(path, sizeof path, ".seg", 0));
    unlink(path);
    snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
    CHECK_INT(mr_store_verify(params, NULL, &checked, &damaged, NULL), ==, MR_OK);
    CHECK_INT(checked, ==, PHOTOS);
    CHECK_INT(damaged, >, 0);
    check_verify(PHOTOS - damaged, 0);
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, damaged);
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    end();
}

/* Any page may be hit: values, the tree, the list of free pages, the first two pages. Each in a
 * child: the run must end well in every case. */
enum { PAGE = 4096, BRANCH = 1, LEAF = 2, FIRST = 8 };

/* A page that says of itself that it is one of the tree's, else any page. */
static int64_t choose_page(const char *path, int64_t n, uint64_t *state) {
    int fd = open(path, O_RDONLY);
    int64_t page = (int64_t)(rig_random(state) % (uint64_t)n);
    bool of_the_tree = rig_random(state) % 4 > 0;
    for (int64_t i = 0; of_the_tree && i < n; i++) {
        unsigned char head[16];
        int64_t at = (page + i) % n;
        if (pread(fd, head, sizeof head, at * PAGE) == sizeof head &&
            (head[10] == BRANCH || head[10] == LEAF || head[10] == FIRST) && head[11] == 0 &&
            head[0] == (at & 0xFF)) {
            page = at;
            break;
        }
    }
    close(fd);
    return page;
}

static void damage_and_run(const char *digest, uint64_t seed) {
    char path[256];
    uint64_t state = seed;
    struct stat info = {0};
    bool segment = rig_random(&state) % 2;
    if (!find_file(path, sizeof path, segment ? ".seg" : ".mdb", 0) || stat(path, &info) != 0) {
        return;
    }
    if (rig_random(&state) % 2) { /* as after a kill: nothing vouches for the index */
        char sum[256];
        store_file(sum, sizeof sum, "index.sum");
        unlink(sum);
    }
    int64_t page = choose_page(path, info.st_size / PAGE, &state) * PAGE;
    int64_t from = (int64_t)(rig_random(&state) % PAGE), n = 1 << (rig_random(&state) % 8);
    rig_damage(path, page + from, page + from + n, 1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        rig_result result = rig_run(photos_pipeline(cache_with("")));
        bool right = result.status == MR_END && strcmp(result.digest, digest) == 0;
        if (!right) {
            fprintf(stderr, "%s %s\n", result.digest, result.error);
        }
        _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) {
        fprintf(stderr,
                "seed %" PRIu64 ": page %" PRId64 ", byte %" PRId64 ", %" PRId64 " bytes: %s %d\n",
                seed, page / 4096, from, n, WIFSIGNALED(status) ? "signal" : "exit",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    CHECK_INT(status, ==, 0);
}

TEST(damage_anywhere_in_the_files) {
    enum { TRIES = 60 };
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    const char *given = getenv("MR_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + TRIES; seed++) {
        fill_store(off.digest);
        damage_and_run(off.digest, seed);
    }
    end();
}

TEST(the_small_files_may_be_damaged) {
    static const char *const names[] = {"store.json",     "use",      "users", "claims",
                                        "index.mdb-lock", "index.sum"};
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int cut = 0; cut < 3; cut++) {
            char path[256];
            fill_store(off.digest);
            store_file(path, sizeof path, names[i]);
            if (cut == 2) {
                unlink(path);
            } else if (cut == 1) {
                CHECK_INT(truncate(path, 0), ==, 0);
            } else {
                rig_damage(path, 0, 4096, 3);
            }
            check_run(photos_pipeline(cache_with("")), off.digest);
            check_run(photos_pipeline(cache_with("")), off.digest);
        }
    }
    end();
}

TEST(a_file_cut_short_before_opening) {
    static const int64_t lengths[] = {0, 100, 4096, 8192, 12288, 40000};
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    for (size_t i = 0; i < 2 * (sizeof lengths / sizeof *lengths); i++) {
        char path[256];
        fill_store(off.digest);
        CHECK(find_file(path, sizeof path, i % 2 ? ".seg" : ".mdb", 0));
        CHECK_INT(truncate(path, lengths[i / 2]), ==, 0);
        check_run(photos_pipeline(cache_with("")), off.digest);
        check_run(photos_pipeline(cache_with("")), off.digest);
        rig_result mended = check_run(photos_pipeline(cache_with("")), off.digest);
        CHECK_INT(mended.made, ==, 0);
    }
    end();
}

typedef struct cut {
    int64_t length, batch;
} cut;

static void cut_files(void *user, int64_t n) {
    const cut *c = user;
    if (n != c->batch) {
        return;
    }
    char path[256];
    for (int i = 0; find_file(path, sizeof path, ".seg", i); i++) {
        (void)!truncate(path, c->length);
    }
    store_file(path, sizeof path, MR_INDEX_FILE);
    (void)!truncate(path, c->length);
}

static void check_cut(const char *json, const char *digest) {
    static const int64_t lengths[] = {0, 4096, 8192, 12288, 65536};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int64_t batch = 1; batch < 6; batch += 2) {
            cut c = {lengths[i], batch};
            rig_hook hook = {cut_files, &c};
            rig_result result = rig_run_with(json, rig_ops, 2, &hook);
            CHECK_INT(result.status, ==, MR_END);
            CHECK_TEXT(result.digest, digest);
            rig_result after = rig_run_with(json, rig_ops, 2, NULL);
            CHECK_TEXT(after.digest, digest);
        }
    }
}

TEST(a_file_cut_short_while_it_is_read_in_place) {
    begin(PHOTOS);
    char json[2048];
    rig_result off = rig_run(photos_pipeline(""));
    snprintf(json, sizeof json, "%s", photos_pipeline(cache_with("")));
    fill_store(off.digest);
    check_cut(json, off.digest);
    end();
}

TEST(a_file_cut_short_while_it_is_copied) {
    begin(3);
    char json[2048];
    rig_result off = rig_run(plain_pipeline(SAMPLES, 9000, ""));
    snprintf(json, sizeof json, "%s", plain_pipeline(SAMPLES, 9000, cache_with("")));
    rig_run(json);
    check_cut(json, off.digest);
    end();
}

/* Bytes are overwritten all the time: what is delivered was right when it was copied. */
static void overwrite_values(void *user, int64_t n) {
    uint64_t *state = user;
    char path[256];
    (void)n;
    for (int i = 0; find_file(path, sizeof path, ".seg", i); i++) {
        struct stat info;
        if (stat(path, &info) == 0 && info.st_size > 0) {
            int64_t at = (int64_t)(rig_random(state) % (uint64_t)info.st_size);
            rig_damage(path, at, at + 64, 1);
        }
    }
}

TEST(attacked_while_it_runs) {
    begin(3);
    uint64_t state = 7;
    int64_t damaged = 0;
    rig_hook hook = {overwrite_values, &state};
    rig_result off = rig_run(plain_pipeline(SAMPLES, 9000, ""));
    char json[2048];
    snprintf(json, sizeof json, "%s", plain_pipeline(SAMPLES, 9000, cache_with("")));
    for (int i = 0; i < 6; i++) {
        rig_result result = rig_run_with(json, rig_ops, 2, &hook);
        CHECK_INT(result.status, ==, MR_END);
        CHECK_TEXT(result.digest, off.digest);
        damaged += result.caches[0].damaged;
    }
    CHECK_INT(damaged, >, 0);
    end();
}

/* ---- Size ---- */
typedef struct watch {
    const char *folder;
    atomic_bool stop;
    _Atomic int64_t most;
} watch;

static void *watch_folder(void *user) {
    watch *w = user;
    while (!atomic_load(&w->stop)) {
        int64_t bytes = rig_folder_bytes(w->folder);
        if (bytes > atomic_load(&w->most)) {
            atomic_store(&w->most, bytes);
        }
        rig_nap(1);
    }
    return NULL;
}

TEST(an_evicting_store_keeps_its_size) {
    begin(3);
    char off[2][33], json[2][2048];
    watch w = {.folder = store};
    pthread_t watcher;
    for (int i = 0; i < 2; i++) {
        snprintf(off[i], sizeof off[i], "%s",
                 rig_run(plain_pipeline(SAMPLES, 24000 + i, "")).digest);
        snprintf(json[i], sizeof json[i], "%s",
                 plain_pipeline(SAMPLES, 24000 + i, cache_sized("2MB")));
    }
    pthread_create(&watcher, NULL, watch_folder, &w);
    int64_t evicted = 0, hits = 0;
    /* How much of the other's a run evicts depends on when its values are written. */
    for (int i = 0; i < 8 || (i < 80 && (evicted <= 100 || hits <= 100)); i++) {
        rig_result result = check_run(json[i % 2], off[i % 2]);
        evicted += result.caches[0].evicted;
        hits += result.caches[0].hits;
        CHECK_INT(result.caches[0].damaged, ==, 0);
    }
    atomic_store(&w.stop, true);
    pthread_join(watcher, NULL);
    CHECK_INT(evicted, >, 100);
    CHECK_INT(hits, >, 100);
    CHECK_INT(w.most, >, 1000000);
    CHECK_INT(w.most, <=, 2000000);
    end();
}

/* One thread: nothing is made ahead of its time, so what was missed is what was made. */
TEST(what_a_full_store_does_not_take_is_counted) {
    begin(3);
    rig_result off = rig_run(plain_pipeline(SAMPLES, 12000, ""));
    const char *json = plain_pipeline(SAMPLES, 12000, cache_sized("1MB"));
    rig_result result = rig_run_with(json, rig_ops, 1, NULL);
    CHECK_TEXT(result.digest, off.digest);
    CHECK_INT(result.caches[0].misses, ==, result.made);
    CHECK_INT(result.caches[0].refused, >, 0);
    CHECK_INT(result.caches[0].stored + result.caches[0].refused, ==, result.made);
    end();
}

TEST(a_pipelines_entries_are_deleted_from_a_full_store) {
    begin(3);
    char params[256], prefix[17], json[2048];
    int64_t deleted = -1;
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    snprintf(json, sizeof json, "%s", plain_pipeline(4000, 8000, cache_sized("30MB")));
    rig_result full = rig_run_with(json, rig_second_ops, 2, NULL);
    CHECK_INT(full.caches[0].refused, >, 0);
    CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), rig_second_ops, &err), ==, MR_OK);
    CHECK_INT(mr_pipeline_cache_prefix(pipeline, 2, prefix), ==, MR_OK);
    snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
    CHECK_INT(mr_store_clear(params, prefix, &deleted, &err), ==, MR_OK);
    CHECK_INT(deleted, ==, full.caches[0].stored);
    check_verify(0, 0);
    mr_pipeline_free(pipeline);
    end();
}

TEST(a_value_larger_than_the_store_is_only_made) {
    begin(3);
    rig_result off = rig_run(plain_pipeline(20, 3000000, ""));
    rig_result result = check_run(plain_pipeline(20, 3000000, cache_sized("1MB")), off.digest);
    CHECK_INT(result.caches[0].stored, ==, 0);
    end();
}

TEST(a_store_changes_its_size_when_nobody_uses_it) {
    begin(3);
    rig_result off = rig_run(plain_pipeline(SAMPLES, 12000, ""));
    check_run(plain_pipeline(SAMPLES, 12000, cache_sized("16MB")), off.digest);
    rig_result larger = check_run(plain_pipeline(SAMPLES, 12000, cache_sized("32MB")), off.digest);
    CHECK_INT(larger.made, ==, 0);
    rig_result fits = check_run(plain_pipeline(SAMPLES, 12000, cache_sized("8MB")), off.digest);
    CHECK_INT(fits.made, ==, 0);
    rig_result smaller = check_run(plain_pipeline(SAMPLES, 12000, cache_sized("2MB")), off.digest);
    CHECK_INT(smaller.made, >=, SAMPLES);
    CHECK_HAS(smaller.log.text, "smaller");
    CHECK_INT(rig_folder_bytes(store), <=, 2000000);
    end();
}

/* ---- Other stores ---- */
static void write_config(const char *text) {
    fixture_write(store, "store.json", text, strlen(text));
}

TEST(another_format_or_page_size_is_refused_with_advice) {
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    fill_store(off.digest);
    write_config("{\"millrace_store\": 3, \"shape\": \"unheard of\"}\n");
    rig_result newer = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(newer.log.lines, ==, 1);
    CHECK_HAS(newer.log.text, "format 3");
    CHECK_HAS(newer.log.text, "millrace cache clear");
    write_config("{\"millrace_store\": 2, \"page_size\": 65536, \"size\": 64000000}\n");
    rig_result pages = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(pages.log.lines, ==, 1);
    CHECK_HAS(pages.log.text, "65536");
    CHECK_HAS(pages.log.text, "millrace cache clear");
    CHECK_INT(pages.made, ==, 3 * PHOTOS);
    /* The advice works. */
    char params[256];
    int64_t deleted;
    snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
    CHECK_INT(mr_store_clear(params, NULL, &deleted, NULL), ==, MR_OK);
    CHECK(access(store, F_OK) != 0);
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, PHOTOS);
    end();
}

TEST(a_store_of_an_older_release_starts_anew) {
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    fill_store(off.digest);
    write_config("{\"millrace_store\": 1, \"page_size\": 4096, \"environments\": 2, "
                 "\"size\": 64000000}\n");
    fixture_write(store, "00.mdb", "old", 3);
    fixture_write(store, "01.mdb-lock", "old", 3);
    rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(result.made, ==, PHOTOS);
    CHECK_HAS(result.log.text, "older release");
    char path[256];
    store_file(path, sizeof path, "00.mdb");
    CHECK(access(path, F_OK) != 0);
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    end();
}

TEST(a_config_that_makes_no_sense_starts_anew) {
    static const char *const numbers[] = {"\"size\": 1000", "\"size\": -1",
                                          "\"size\": 9000000000000000"};
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[256];
        fill_store(off.digest);
        snprintf(text, sizeof text, "{\"millrace_store\": 2, \"page_size\": %ld, %s}\n",
                 sysconf(_SC_PAGESIZE), numbers[i]);
        write_config(text);
        rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
        CHECK_INT(result.made, ==, PHOTOS);
        CHECK_HAS(result.log.text, "starts anew");
    }
    end();
}

/* What a disk may have when the power goes: of each file any blocks of 512 bytes, the others as
 * zeros or not at all, and whatever the index was. */
static void lose_blocks(const char *path, uint64_t *state) {
    static const char zeros[512];
    struct stat info;
    int fd = open(path, O_RDWR);
    if (fd < 0 || fstat(fd, &info) != 0) {
        return;
    }
    if (rig_random(state) % 4 == 0) {
        (void)!ftruncate(fd, (off_t)(rig_random(state) % (uint64_t)(info.st_size + 1)));
    }
    for (off_t at = 0; at < info.st_size; at += 512) {
        if (rig_random(state) % 64 == 0) {
            (void)!pwrite(fd, zeros, sizeof zeros, at);
        }
    }
    close(fd);
}

TEST(a_machine_that_went_down_leaves_values_or_nothing) {
    enum { STATES = 40 };
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    static const char *const marks[] = {"0f0f0f0f-0000-0000-0000-000000000000\n", "x", "unknown\n"};
    const char *given = getenv("MR_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    int64_t kept = 0;
    for (uint64_t seed = first; seed < first + STATES; seed++) {
        uint64_t state = seed;
        char path[256];
        fill_store(off.digest);
        for (int i = 0; find_file(path, sizeof path, ".seg", i); i++) {
            lose_blocks(path, &state);
        }
        store_file(path, sizeof path, MR_INDEX_FILE);
        lose_blocks(path, &state);
        fixture_write(store, "unsynced", marks[seed % 3], strlen(marks[seed % 3]));
        rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
        CHECK_HAS(result.log.text, "the machine went down");
        kept += PHOTOS - result.made;
        CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    }
    CHECK_INT(kept, >, 0);
    CHECK_INT(kept, <, STATES * PHOTOS);
    /* All of it had reached the disk. */
    fill_store(off.digest);
    fixture_write(store, "unsynced", marks[0], strlen(marks[0]));
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    /* Somebody was killed before they wrote anything. */
    fixture_write(store, "unsynced", "", 0);
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    /* A store left in order carries no mark. */
    char mark[256];
    store_file(mark, sizeof mark, "unsynced");
    CHECK(access(mark, F_OK) != 0);
    end();
}

typedef struct mark_watch {
    bool seen;
} mark_watch;

static void look_for_mark(void *user, int64_t n) {
    mark_watch *w = user;
    char mark[256];
    (void)n;
    rig_nap(10); /* the writer waits a moment for company */
    store_file(mark, sizeof mark, "unsynced");
    w->seen = w->seen || access(mark, F_OK) == 0;
}

TEST(a_store_that_is_written_to_is_marked) {
    begin(PHOTOS);
    mark_watch w = {false};
    rig_hook hook = {look_for_mark, &w};
    rig_run_with(photos_pipeline(cache_with("")), rig_ops, 2, &hook);
    CHECK(w.seen);
    end();
}

TEST(modes_are_private) {
    begin(PHOTOS);
    umask(0);
    rig_run(photos_pipeline(cache_with("")));
    struct stat info;
    CHECK(stat(store, &info) == 0);
    CHECK_INT(info.st_mode & 07777, ==, 0700);
    DIR *listing = opendir(store);
    int n = 0;
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        if (entry->d_name[0] != '.' &&
            fstatat(dirfd(listing), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            n++;
            if ((info.st_mode & 07777) != 0600) {
                fprintf(stderr, "%s: %o\n", entry->d_name, info.st_mode & 07777);
            }
            CHECK_INT(info.st_mode & 07777, ==, 0600);
        }
    }
    closedir(listing);
    CHECK_INT(n, >, 4);
    /* A folder that is open to others is closed. */
    chmod(store, 0755);
    rig_run(photos_pipeline(cache_with("")));
    CHECK(stat(store, &info) == 0);
    CHECK_INT(info.st_mode & 07777, ==, 0700);
    umask(022);
    end();
}

TEST(the_folder_of_a_group_outlives_its_store) {
    char params[256];
    int64_t deleted = 0;
    struct stat info = {0};
    begin(PHOTOS);
    rig_run(photos_pipeline(cache_with("\"group\": true")));
    snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
    CHECK_INT(mr_store_clear(params, NULL, &deleted, NULL), ==, MR_OK);
    CHECK_INT(deleted, ==, PHOTOS);
    CHECK(stat(store, &info) == 0);
    CHECK_INT(info.st_mode & 07777, ==, 02770);
    CHECK_INT(mr_store_clear(params, NULL, &deleted, NULL), ==, MR_E_NOT_FOUND);
    end();
}

TEST(a_folder_with_other_files_is_refused) {
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    mkdir(store, 0755);
    fixture_write(store, "thesis.txt", "four years", 10);
    rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(result.log.lines, ==, 1);
    CHECK_HAS(result.log.text, "other files");
    struct stat info;
    CHECK(stat(store, &info) == 0);
    CHECK_INT(info.st_mode & 0777, ==, 0755);
    end();
}

/* Removes all of the store but its segments; how many there are. */
static int leave_segments(void) {
    char path[320];
    int left = 0;
    DIR *listing = opendir(store);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        snprintf(path, sizeof path, "%s/%.150s", store, entry->d_name);
        if (strstr(entry->d_name, ".seg")) {
            left++;
        } else {
            unlink(path); /* "." and ".." stay */
        }
    }
    closedir(listing);
    return left;
}

/* Whoever removed the folder did so while a process wrote into it. */
TEST(segments_that_are_left_alone_are_no_files_of_others) {
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(leave_segments(), >, 0);
    rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(result.log.lines, ==, 0);
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    CHECK_INT(leave_segments(), >, 0);
    fixture_write(store, "thesis.txt", "four years", 10);
    CHECK_HAS(check_run(photos_pipeline(cache_with("")), off.digest).log.text, "other files");
    CHECK_INT(leave_segments(), >, 0); /* and the thesis goes */
    fixture_write(store, "0123456789abcdef.seg", "a stranger's", 12);
    CHECK_HAS(check_run(photos_pipeline(cache_with("")), off.digest).log.text, "other files");
    CHECK_INT(leave_segments(), >, 1);
    end();
}

/* Runs the pipeline as another user in a child. */
static int run_as_another(const char *json, const char *digest, const char *said) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(77);
        }
        rig_result result = rig_run(json);
        bool right = result.status == MR_END && strcmp(result.digest, digest) == 0 &&
                     result.log.lines == 1 && strstr(result.log.text, said);
        if (!right) {
            fprintf(stderr, "%s %s %s\n", result.digest, result.error, result.log.text);
        }
        _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(the_folder_of_someone_else_is_refused) {
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    if (geteuid() != 0) {
        printf("skipped: the folder of someone else (only root can become another user)\n");
        end();
        return;
    }
    chmod(data_folder, 0755);
    mkdir(store, 0777);
    chmod(store, 0777);
    CHECK_INT(run_as_another(photos_pipeline(cache_with("")), off.digest, "someone else"), ==, 0);
    fill_store(off.digest);
    CHECK_INT(run_as_another(photos_pipeline(cache_with("")), off.digest, "Permission denied"), ==,
              0);
    end();
}

TEST(a_folder_that_may_not_be_written_is_reported_once) {
    begin(PHOTOS);
    rig_result off = rig_run(photos_pipeline(""));
    if (geteuid() != 0) {
        mkdir(store, 0700);
        chmod(store, 0500);
        rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
        CHECK_INT(result.log.lines, ==, 1);
        chmod(store, 0700);
        end();
        return;
    }
    snprintf(store, sizeof store, "/proc/millrace-store");
    rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(result.log.lines, ==, 1);
    CHECK_INT(result.made, ==, 3 * PHOTOS);
    end();
}

static void take_folder_away(void *user, int64_t n) {
    (void)user;
    if (n == 3) {
        fixture_remove(store);
    }
}

TEST(a_folder_that_vanishes_does_not_matter) {
    begin(PHOTOS);
    rig_hook hook = {take_folder_away, NULL};
    rig_result off = rig_run(photos_pipeline(""));
    for (int i = 0; i < 3; i++) {
        rig_result result = rig_run_with(photos_pipeline(cache_with("")), rig_ops, 2, &hook);
        CHECK_INT(result.status, ==, MR_END);
        CHECK_TEXT(result.digest, off.digest);
    }
    check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(check_run(photos_pipeline(cache_with("")), off.digest).made, ==, 0);
    end();
}

/* ---- Files that change ---- */
TEST(a_modified_file_is_made_again) {
    begin(PHOTOS);
    char path[256];
    rig_run(photos_pipeline(cache_with("")));
    snprintf(path, sizeof path, "%s/class1/001.jpg", data_folder);
    struct stat before;
    CHECK(stat(path, &before) == 0);
    fixture_jpeg(path, 41); /* another picture */
    /* The old time of change does not hide it. */
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    CHECK_INT(utimensat(AT_FDCWD, path, times, 0), ==, 0);
    rig_nap(80);
    rig_result off = rig_run(photos_pipeline(""));
    rig_result result = check_run(photos_pipeline(cache_with("")), off.digest);
    CHECK_INT(result.made, ==, 1);
    end();
}

TEST(a_file_of_just_now_is_not_kept) {
    begin(PHOTOS);
    char path[256];
    rig_run(photos_pipeline(cache_with("")));
    for (int i = 0; i < 20; i++) { /* each within the file system's tick, as fast as can be */
        snprintf(path, sizeof path, "%s/class1/001.jpg", data_folder);
        fixture_jpeg(path, 1 + 120 * i);
        char digest[33];
        snprintf(digest, sizeof digest, "%s", rig_run(photos_pipeline("")).digest);
        check_run(photos_pipeline(cache_with("")), digest);
    }
    end();
}

TEST_MAIN()
