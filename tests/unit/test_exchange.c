/* SPDX-License-Identifier: Apache-2.0 */
/* Runs with a fabric: the stream is the one without it, whatever the fabric has and whatever
 * happens to it; and what one run has read or made, the next one does neither read nor make. */
#include "cache_rig.h"
#include "redis_rig.h"

#include <jansson.h>

#include "trace/summary.h"

enum { PHOTOS = 40 };

static char *photos;
static char store[128], folder[64];

/* ---- Pipelines ---- */
/* with_cache: samples are kept at a small size, smaller than their files. */
static const char *document(bool with_cache) {
    static char text[1024];
    char cache[256] = "";
    if (with_cache) {
        snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s\", \"size\": \"20MB\"}},",
                 store);
    }
    snprintf(text, sizeof text,
             "{\"source\": {\"files\": {\"path\": \"%s\"}},"
             " \"ops\": [\"decode_image\", {\"resize\": {\"size\": [12, 10]}},"
             " {\"tally\": {\"field\": \"image\"}}, %s \"random_flip\"],"
             " \"batch\": 7, \"epochs\": 2, \"seed\": 3}",
             photos, cache);
    return text;
}

static void forget_store(void) {
    fixture_remove(store);
}

/* What a run without a fabric gives, and what it costs. */
static rig_result plain(bool with_cache) {
    rig_fabric = NULL;
    forget_store();
    rig_result result = rig_run(document(with_cache));
    CHECK_INT(result.status, ==, MR_END);
    forget_store();
    return result;
}

static rig_result run_at(int port, bool with_cache, const rig_hook *hook) {
    static char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    rig_fabric = url;
    rig_result result = rig_run_with(document(with_cache), rig_ops, 2, hook);
    CHECK_INT(result.status, ==, MR_END);
    rig_fabric = NULL;
    return result;
}

/* ---- Warm and cold ---- */
TEST(what_one_run_read_the_next_one_takes_from_the_fabric) {
    rig_result without = plain(false);
    redis_server server = redis_begin("--maxmemory", "100mb");
    rig_result first = run_at(server.port, false, NULL), second = run_at(server.port, false, NULL);
    CHECK_TEXT(first.digest, without.digest);
    CHECK_TEXT(second.digest, without.digest);
    CHECK_INT(first.traffic.kept, >=, PHOTOS);
    CHECK_INT(second.bytes_read, ==, 0);
    CHECK_INT(second.traffic.found, ==, 2 * PHOTOS);
    CHECK_INT(second.traffic.bytes_in, ==, without.bytes_read);
    CHECK_INT(second.traffic.damaged, ==, 0);
    CHECK_INT(second.log.lines, ==, 0);
    redis_end(&server);
}

/* ---- Traces ---- */
static mr_summary summary_of_trace(mr_trace **trace) {
    mr_summary s = {.seconds = 0};
    CHECK_INT(mr_trace_open(trace, rig_trace, NULL), ==, MR_OK);
    CHECK_INT(mr_summary_make(&s, *trace, NULL), ==, MR_OK);
    return s;
}

static bool all_name_samples(const mr_trace *trace) {
    bool all = true;
    for (int64_t i = 0; i < trace->n_pieces; i++) {
        const mr_trace_piece *piece = &trace->pieces[i];
        for (int64_t k = 0; k < piece->n; k++) {
            int64_t item = mr_span_item(&piece->spans[k]);
            all = all && item >= 0 && item < PHOTOS;
        }
    }
    return all;
}

static void check_spans(const mr_traffic *traffic) {
    mr_trace *trace = NULL;
    mr_summary s = summary_of_trace(&trace);
    CHECK_INT(s.kinds[MR_SPAN_SEND].count, ==, traffic->kept);
    CHECK_INT(s.kinds[MR_SPAN_SEND].bytes_in, ==, traffic->bytes_out);
    CHECK_INT(s.kinds[MR_SPAN_RECEIVE].count, ==, traffic->found);
    CHECK_INT(s.kinds[MR_SPAN_RECEIVE].bytes_in, ==, traffic->bytes_in);
    CHECK(all_name_samples(trace));
    mr_summary_free(&s);
    mr_trace_close(trace);
}

static void check_origin(const char *name, int64_t bytes) {
    mr_trace *trace = NULL;
    CHECK_INT(mr_trace_open(&trace, rig_trace, NULL), ==, MR_OK);
    const json_t *origin, *origins = json_object_get(trace->end, "origins");
    size_t i;
    bool is_there = false;
    json_array_foreach(origins, i, origin) {
        if (strcmp(json_string_value(json_object_get(origin, "name")), name) == 0) {
            CHECK_INT(json_integer_value(json_object_get(origin, "bytes")), ==, bytes);
            is_there = true;
        }
    }
    CHECK(is_there);
    mr_trace_close(trace);
}

TEST(a_trace_has_what_goes_to_servers_and_comes_from_them) {
    static char path[128];
    redis_server server = redis_begin("--maxmemory", "100mb");
    snprintf(path, sizeof path, "%s/trace", folder);
    rig_trace = path;
    rig_result first = run_at(server.port, false, NULL);
    CHECK_INT(first.traffic.kept, >=, PHOTOS);
    check_spans(&first.traffic);
    rig_result second = run_at(server.port, false, NULL);
    CHECK_INT(second.traffic.found, ==, 2 * PHOTOS);
    check_spans(&second.traffic);
    check_origin("fabric", second.traffic.bytes_in);
    check_origin("files", 0);
    rig_trace = NULL;
    redis_end(&server);
}

/* Two nodes are two stores. */
TEST(what_one_node_made_the_other_takes_as_it_is_at_the_cache) {
    rig_result without = plain(true);
    redis_server server = redis_begin("--maxmemory", "100mb");
    rig_result first = run_at(server.port, true, NULL);
    CHECK_TEXT(first.digest, without.digest);
    CHECK_INT(first.made, ==, PHOTOS);
    CHECK_INT(first.traffic.kept, ==, PHOTOS);
    CHECK(first.traffic.bytes_out < without.bytes_read);
    forget_store();
    rig_result second = run_at(server.port, true, NULL);
    CHECK_TEXT(second.digest, without.digest);
    CHECK_INT(second.made, ==, 0);
    CHECK_INT(second.bytes_read, ==, 0);
    CHECK_INT(second.traffic.samples, >=, PHOTOS);  /* some again before they are stored */
    CHECK_INT(second.caches[0].stored, ==, PHOTOS); /* and the store keeps them */
    rig_result third = run_at(server.port, true, NULL);
    CHECK_TEXT(third.digest, without.digest);
    CHECK_INT(third.traffic.asked, ==, 0);
    redis_end(&server);
    forget_store();
}

/* At the cache these are larger than their files. */
static rig_result run_large(int port, const char *travel) {
    static char text[1024], url[64];
    snprintf(text, sizeof text,
             "{\"source\": {\"files\": {\"path\": \"%s\"}},"
             " \"ops\": [\"decode_image\", {\"resize\": {\"size\": [300, 250]}},"
             " {\"tally\": {\"field\": \"image\"}},"
             " {\"cache\": {\"path\": \"%s\", \"size\": \"50MB\"}}, \"random_flip\"],"
             " \"batch\": 7, \"epochs\": 2, \"seed\": 3, \"share\": {\"travel\": \"%s\"}}",
             photos, store, travel);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    forget_store(); /* another node */
    rig_fabric = port > 0 ? url : NULL;
    rig_result result = rig_run(text);
    CHECK_TEXT(result.error, "");
    rig_fabric = NULL;
    return result;
}

TEST(prepared_samples_travel_whatever_their_size) {
    rig_result without = run_large(0, "smaller");
    redis_server server = redis_begin("--maxmemory", "100mb");
    rig_result first = run_large(server.port, "smaller");
    rig_result second = run_large(server.port, "smaller");
    CHECK_TEXT(first.digest, without.digest);
    CHECK_TEXT(second.digest, without.digest);
    CHECK_INT(second.made, ==, PHOTOS); /* of files that came */
    CHECK_INT(second.traffic.samples, ==, 0);
    CHECK_INT(second.bytes_read, ==, 0);
    redis_end(&server);
    server = redis_begin("--maxmemory", "100mb");
    first = run_large(server.port, "prepared");
    second = run_large(server.port, "prepared");
    CHECK_TEXT(first.digest, without.digest);
    CHECK_TEXT(second.digest, without.digest);
    CHECK_INT(first.made, ==, PHOTOS);
    CHECK_INT(second.made, ==, 0);
    CHECK_INT(second.traffic.samples, >=, PHOTOS);
    CHECK_INT(second.bytes_read, ==, 0);
    redis_end(&server);
    forget_store();
}

static void rewrite_one(void) {
    char path[256];
    snprintf(path, sizeof path, "%s/class0/000.jpg", photos);
    struct stat info;
    if (stat(path, &info) != 0) {
        CHECK_TEXT(path, "a photo");
    }
    fixture_jpeg(path, 77);
    rig_nap(80);
}

TEST(a_file_that_changed_is_read_again) {
    redis_server server = redis_begin("--maxmemory", "100mb");
    rig_result before = run_at(server.port, false, NULL);
    rewrite_one();
    rig_result without = plain(false), after = run_at(server.port, false, NULL);
    CHECK(strcmp(before.digest, without.digest) != 0);
    CHECK_TEXT(after.digest, without.digest);
    CHECK(after.bytes_read > 0);
    redis_end(&server);
}

/* ---- Bad days: each for bytes and for samples ---- */
typedef struct day {
    redis_server *server;
    int64_t at[2];
    void (*first)(redis_server *), (*second)(redis_server *);
} day;

static void live(void *user, int64_t n) {
    const day *d = user;
    if (n == d->at[0]) {
        d->first(d->server);
    }
    if (n == d->at[1]) {
        d->second(d->server);
    }
}

static void freeze(redis_server *s) {
    kill(s->pid, SIGSTOP);
}

static void thaw(redis_server *s) {
    kill(s->pid, SIGCONT);
}

/* Cold, then warm, while the server goes through it. */
static void check_day(void (*first)(redis_server *), void (*second)(redis_server *)) {
    for (int with_cache = 0; with_cache < 2; with_cache++) {
        rig_result without = plain(with_cache);
        redis_server server = redis_begin("--maxmemory", "100mb");
        day d = {&server, {2, 7}, first, second};
        const rig_hook hook = {live, &d};
        for (int run = 0; run < 2; run++) {
            rig_result result = run_at(server.port, with_cache, &hook);
            CHECK_TEXT(result.digest, without.digest);
            CHECK_INT(result.log.lines, <=, 1);
            forget_store();
        }
        redis_end(&server);
    }
}

TEST(a_server_that_is_killed_and_comes_back_changes_nothing) {
    check_day(redis_stop, redis_start);
}

TEST(a_server_that_stands_still_changes_nothing) {
    check_day(freeze, thaw);
}

static void die(void *user, int64_t n) {
    (void)user;
    if (n == 3) {
        kill(getpid(), SIGKILL);
    }
}

/* Another process of the same job, in the middle of its run. */
static void run_until_killed(int port, bool with_cache) {
    const rig_hook hook = {die, NULL};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        run_at(port, with_cache, &hook);
        _exit(0);
    }
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_rank_that_is_killed_changes_nothing_for_others) {
    for (int with_cache = 0; with_cache < 2; with_cache++) {
        rig_result without = plain(with_cache);
        redis_server server = redis_begin("--maxmemory", "100mb");
        run_until_killed(server.port, with_cache);
        forget_store(); /* the others are other nodes */
        rig_result result = run_at(server.port, with_cache, NULL);
        CHECK_TEXT(result.digest, without.digest);
        CHECK_INT(result.traffic.damaged, ==, 0);
        redis_end(&server);
    }
    forget_store();
}

static void fill(redis_server *s) {
    redis_tell(s, "CONFIG SET maxmemory 1");
}

static void spoil(redis_server *s) {
    redis_tell(s, "EVAL \"for _, k in ipairs(redis.call('keys', '*')) do "
                  "redis.call('setrange', k, redis.call('strlen', k) - 9, 'xx') end\" 0");
}

static void empty(redis_server *s) {
    redis_tell(s, "FLUSHALL");
}

TEST(a_full_server_changes_nothing) {
    check_day(fill, fill);
}

TEST(spoilt_values_change_nothing) {
    check_day(spoil, spoil);
    rig_result without = plain(false);
    redis_server server = redis_begin("--maxmemory", "100mb");
    run_at(server.port, false, NULL);
    spoil(&server);
    rig_result after = run_at(server.port, false, NULL);
    CHECK_TEXT(after.digest, without.digest);
    CHECK_INT(after.traffic.damaged, >=, PHOTOS);
    redis_end(&server);
}

TEST(values_that_go_away_change_nothing) {
    check_day(empty, empty);
}

TEST(no_server_at_all_changes_nothing) {
    int port;
    close(redis_listen(&port));
    rig_result without = plain(false), result = run_at(port, false, NULL);
    CHECK_TEXT(result.digest, without.digest);
    CHECK_INT(result.log.lines, ==, 1);
    CHECK_HAS(result.log.text, "the fabric: 127.0.0.1");
    CHECK_INT(result.traffic.found + result.traffic.kept, ==, 0);
}

/* ---- A bad network ---- */
static void check_network(redis_proxy proxy) {
    for (int with_cache = 0; with_cache < 2; with_cache++) {
        rig_result without = plain(with_cache);
        redis_server server = redis_begin("--maxmemory", "100mb");
        run_at(server.port, with_cache, NULL);
        forget_store();
        proxy.to = server.port;
        redis_proxy_begin(&proxy);
        rig_result result = run_at(proxy.port, with_cache, NULL);
        CHECK_TEXT(result.digest, without.digest);
        redis_proxy_end(&proxy);
        redis_end(&server);
        forget_store();
    }
}

TEST(connections_that_are_reset_in_the_middle_change_nothing) {
    check_network((redis_proxy){.reset = 20000});
}

TEST(a_latency_of_200_ms_changes_nothing) {
    check_network((redis_proxy){.delay = 200});
}

TEST(a_network_that_changes_bytes_changes_nothing) {
    check_network((redis_proxy){.turn_every = 5000});
}

/* ---- Others ---- */
TEST(many_samples_in_a_block_travel_together) {
    char text[512], *lines = fixture_folder();
    char *body = calloc(1, 200000);
    for (int i = 0; i < 5000; i++) {
        sprintf(body + strlen(body), "{\"n\": %d, \"t\": \"line %d\"}\n", i, i * i);
    }
    fixture_write(lines, "a.jsonl", body, strlen(body));
    free(body);
    rig_nap(80);
    snprintf(text, sizeof text,
             "{\"source\": {\"lines\": {\"path\": \"%s/a.jsonl\", \"fields\": [\"n:int64\"]}},"
             " \"batch\": 100, \"epochs\": 2, \"shuffle\": false}",
             lines);
    rig_fabric = NULL;
    rig_result without = rig_run(text);
    CHECK_TEXT(without.error, "");
    redis_server server = redis_begin("--maxmemory", "100mb");
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    rig_fabric = url;
    rig_result first = rig_run(text), second = rig_run(text);
    rig_fabric = NULL;
    CHECK_TEXT(first.digest, without.digest);
    CHECK_TEXT(second.digest, without.digest);
    CHECK_INT(second.bytes_read, ==, 0);
    CHECK(second.traffic.bytes_in > 0);
    redis_end(&server);
    fixture_remove(lines);
}

/* ---- Mixes ---- */
/* Samples of the first child travel as they are at its cache, those of the second as bytes, and the
 * third reads nothing. */
#define PHOTO_OPS                                                                                  \
    "\"decode_image\", {\"resize\": {\"size\": [12, 10]}}, {\"select\": {\"fields\": "             \
    "[\"image\"]}}"

static const char *mix_of(const char *others) {
    static char text[2048];
    snprintf(
        text, sizeof text,
        "{\"source\": {\"mix\": {\"children\": ["
        "{\"weight\": 1, \"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [" PHOTO_OPS
        ", {\"tally\": {\"field\": \"image\"}},"
        " {\"cache\": {\"path\": \"%s\", \"size\": \"20MB\"}}]},"
        "{\"weight\": 1, \"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [" PHOTO_OPS "]},"
        "{\"weight\": 1, \"source\": {\"synthetic\": {\"samples\": 20, \"shape\": [12, 10, 3]}},"
        " \"ops\": [{\"rename\": {\"fields\": [\"data\"], \"names\": [\"image\"]}},"
        " {\"select\": {\"fields\": [\"image\"]}}]}"
        "]}}, \"ops\": [\"random_flip\"], \"batch\": 7, \"epochs\": 3, \"seed\": 3}",
        photos, store, others);
    return text;
}

TEST(children_of_a_mix_share_a_fabric) {
    char *others = strdup(rig_photos(PHOTOS / 2)), url[64];
    const char *text = mix_of(others);
    forget_store();
    rig_result without = rig_run(text);
    CHECK_TEXT(without.error, "");
    forget_store();
    redis_server server = redis_begin("--maxmemory", "100mb");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    rig_fabric = url;
    rig_result first = rig_run(text);
    forget_store();
    rig_result second = rig_run(text);
    rig_fabric = NULL;
    CHECK_TEXT(first.digest, without.digest);
    CHECK_TEXT(second.digest, without.digest);
    CHECK_INT(first.made, ==, PHOTOS);
    CHECK_INT(first.traffic.kept, >=, PHOTOS + PHOTOS / 2);
    CHECK_INT(second.made, ==, 0);
    CHECK_INT(second.bytes_read, ==, 0);
    CHECK_INT(second.traffic.samples, >=, PHOTOS);
    CHECK_INT(second.traffic.found - second.traffic.samples, >=, PHOTOS / 2);
    CHECK_INT(second.caches[0].stored, ==, PHOTOS);
    CHECK_INT(second.log.lines, ==, 0);
    redis_end(&server);
    forget_store();
    fixture_remove(others);
    free(others);
}

TEST(a_run_that_is_cancelled_while_the_server_stands_still_ends) {
    redis_server server = redis_begin("--maxmemory", "100mb");
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    freeze(&server);
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_options options = MR_OPTIONS_INIT;
    options.fabric = url;
    const char *text = document(false);
    CHECK_INT(mr_pipeline_parse(&pipeline, text, strlen(text), rig_ops, &err), ==, MR_OK);
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_OK);
    mr_loader_cancel(loader);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    thaw(&server);
    redis_end(&server);
}

TEST(sources_without_files_are_told) {
    rig_fabric = "redis://127.0.0.1:1";
    rig_result result = rig_run("{\"source\": {\"synthetic\": {\"samples\": 10}}, \"batch\": 2}");
    CHECK_INT(result.status, ==, MR_E_PARAM);
    CHECK_HAS(result.error, "a fabric has nothing to do");
    rig_fabric = NULL;
}

__attribute__((constructor)) static void make_photos(void) {
    redis_skip_without("test_exchange");
    photos = strdup(rig_photos(PHOTOS));
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    snprintf(store, sizeof store, "%s/store", folder);
}

__attribute__((destructor)) static void remove_photos(void) {
    fixture_remove(photos);
    fixture_remove(folder);
    free(photos);
}

TEST_MAIN()
