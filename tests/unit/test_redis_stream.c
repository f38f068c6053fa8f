/* SPDX-License-Identifier: Apache-2.0 */
/* Redis streams as a source: real servers, which are restarted, frozen, trimmed and cut off. */
#include <pthread.h>

#include "fixture.h"
#include "redis_rig.h"

enum { KEYS = 3, EACH = 400, BATCH = 24, MOST = 4000 };

static redis_server server;
static int port; /* that runs ask; a proxy's, or the server's */

/* ---- Writing, by plain sockets ---- */
static size_t value_of(int key, int64_t number, char *out) {
    size_t size = 20 + (size_t)((uint64_t)number * 2654435761u % 500);
    for (size_t i = 0; i < size; i++) {
        out[i] = (char)(number + (int64_t)i * 7 + 31 * key);
    }
    return size;
}

/* A word of a command; text of its own length where size is 0. */
static int add_word(char *out, const char *word, size_t size) {
    size = size ? size : strlen(word);
    int n = sprintf(out, "$%zu\r\n", size);
    memcpy(out + n, word, size);
    memcpy(out + n + (int)size, "\r\n", 2);
    return n + (int)size + 2;
}

static void send_all(int fd, const char *bytes, int size) {
    for (int sent = 0; sent < size;) {
        ssize_t n = write(fd, bytes + sent, (size_t)(size - sent));
        CHECK(n > 0);
        sent += n > 0 ? (int)n : size;
    }
}

/* One entry with its reply; false: the server refused. */
static bool add_entry(int fd, int key, int64_t number) {
    char command[2048], value[600], name[16], label[24], reply[256];
    size_t size = value_of(key, number, value);
    int n = sprintf(command, "*7\r\n");
    snprintf(name, sizeof name, "s%d", key);
    snprintf(label, sizeof label, "%d", (int)(number / 50));
    n += add_word(command + n, "XADD", 0);
    n += add_word(command + n, name, 0);
    n += add_word(command + n, "*", 0);
    n += add_word(command + n, "label", 0);
    n += add_word(command + n, label, 0);
    n += add_word(command + n, "value", 0);
    n += add_word(command + n, value, size);
    send_all(fd, command, n);
    ssize_t got = read(fd, reply, sizeof reply - 1);
    return got > 0 && (reply[0] == '$' || reply[0] == '+');
}

static void add(int key, int64_t from, int64_t end) {
    int fd = redis_dial(server.port);
    for (int64_t i = from; i < end; i++) {
        CHECK(add_entry(fd, key, i));
    }
    close(fd);
}

static void add_all(int64_t from, int64_t end) {
    for (int key = 0; key < KEYS; key++) {
        add(key, from, end);
    }
}

/* A server that was restarted reads its data first. */
static void wait_until_loaded(void) {
    char reply[64] = "";
    for (int i = 0; i < 1000 && reply[0] != '+'; i++) {
        int fd = redis_dial(server.port);
        send_all(fd, "PING\r\n", 6);
        CHECK(read(fd, reply, sizeof reply) > 0);
        close(fd);
        redis_nap();
    }
}

static void forget_all(void) {
    redis_tell(&server, "FLUSHALL");
}

/* ---- Runs ---- */
typedef struct course {
    int n, n_batches, wrong;
    int64_t samples[MOST];
    bool is_replay[MOST];
    char digests[MOST / 8][33];
    int64_t skipped;
    char *state;
    mr_status status;
    mr_error err;
    mr_error skip; /* the first */
    char log[1500];
} course;

typedef struct request {
    const char *source, *rest; /* of the document */
    uint32_t world, rank;
    const char *state;
    int steps;     /* 0: to the end */
    int64_t ahead; /* bytes; 0: usual */
    void (*after)(int step);
} request;

static pthread_t main_thread;

/* A host's log is told by its own thread alone. */
static void write_log(void *user, const char *text) {
    CHECK(pthread_equal(pthread_self(), main_thread));
    snprintf((char *)user + strlen(user), sizeof((course *)0)->log - strlen(user), "%s\n", text);
}

static mr_loader *open_run(const request *r, mr_pipeline **pipeline, char *log, mr_error *err) {
    char json[700];
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    options.threads = 2;
    options.world = r->world ? r->world : 1;
    options.rank = r->rank;
    options.digest = true;
    options.read_ahead_bytes = r->ahead ? r->ahead : options.read_ahead_bytes;
    main_thread = pthread_self();
    options.log = (mr_log){log ? write_log : NULL, log};
    options.state = r->state;
    options.state_size = r->state ? strlen(r->state) : 0;
    snprintf(json, sizeof json,
             "{\"source\": {\"redis_stream\": {\"url\": \"redis://127.0.0.1:%d\", \"keys\": "
             "[\"s0\", \"s1\", \"s2\"], \"until\": %d%s}}, \"batch\": %d, \"seed\": 3%s}",
             port, EACH, r->source ? r->source : "", BATCH, r->rest ? r->rest : "");
    *pipeline = fixture_pipeline(json);
    mr_loader_open(&loader, *pipeline, &options, err);
    return loader;
}

static bool is_right(const mr_batch *batch, int64_t i) {
    char expected[600];
    const mr_array *v = mr_batch_array(batch, 0), *l = mr_batch_array(batch, 1);
    int64_t sample = mr_batch_samples(batch)[i];
    size_t size = value_of((int)(sample % KEYS), sample / KEYS, expected);
    return (size_t)(v->offsets[i + 1] - v->offsets[i]) == size &&
           memcmp((const char *)v->data + v->offsets[i], expected, size) == 0 &&
           ((const int64_t *)l->data)[i] == sample / KEYS / 50;
}

static void note(course *out, const mr_batch *batch, bool rehearses) {
    for (int64_t i = 0; i < mr_batch_size(batch) && out->n < MOST; i++) {
        out->wrong += !is_right(batch, i);
        out->is_replay[out->n] =
            rehearses && ((const uint8_t *)mr_batch_array(batch, 2)->data)[i] != 0;
        out->samples[out->n++] = mr_batch_samples(batch)[i];
    }
    snprintf(out->digests[out->n_batches++], 33, "%s", mr_batch_digest(batch));
}

static void finish(course *out, mr_loader *loader) {
    mr_stats stats = {.size = sizeof stats};
    mr_loader_stats(loader, &stats);
    out->skipped = stats.skipped;
    if (mr_loader_n_skips(loader) > 0) {
        mr_skip skip = {.size = (uint32_t)sizeof skip};
        CHECK_INT(mr_loader_skip(loader, 0, &skip), ==, MR_OK);
        out->skip = *skip.error;
    }
    size_t room = mr_loader_state_bytes(loader);
    out->state = malloc(room);
    CHECK_INT(mr_loader_save(loader, out->state, room, NULL), ==, MR_OK);
}

static void run(course *out, const request *r) {
    mr_batch *batch = NULL;
    mr_pipeline *pipeline = NULL;
    free(out->state);
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    mr_loader *loader = open_run(r, &pipeline, out->log, &out->err);
    out->status = out->err.code;
    while (loader && (r->steps == 0 || out->n_batches < r->steps) &&
           (out->status = mr_loader_next(loader, &batch, &out->err)) == MR_OK) {
        note(out, batch, r->rest && strstr(r->rest, "rehearse"));
        mr_batch_unref(batch);
        if (r->after) {
            r->after(out->n_batches);
        }
    }
    if (loader) {
        finish(out, loader);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

static course whole, part, other;

static void check_whole(const course *c) {
    CHECK_INT(c->status, ==, MR_END);
    CHECK_TEXT(c->err.text, "");
    CHECK_INT(c->wrong, ==, 0);
    CHECK_INT(c->n, ==, KEYS * EACH);
    for (int i = 0; i < c->n; i++) {
        CHECK_INT(c->samples[i], ==, i);
    }
}

static void check_same_from(const course *a, int first, const course *b) {
    CHECK_INT(a->n_batches - first, ==, b->n_batches);
    for (int i = 0; i < b->n_batches && first + i < a->n_batches; i++) {
        CHECK_TEXT(b->digests[i], a->digests[first + i]);
    }
}

static int times_said(const char *log, const char *what) {
    int n = 0;
    for (const char *at = log; (at = strstr(at, what)); at++) {
        n++;
    }
    return n;
}

/* ---- Tests ---- */
TEST(begin) {
    redis_skip_without("test_redis_stream");
    server = redis_begin("--maxmemory", "0");
    port = server.port;
}

static void *write_slowly(void *key) {
    int fd = redis_dial(server.port);
    for (int64_t i = 0; i < EACH; i++) {
        CHECK(add_entry(fd, (int)(uintptr_t)key, i));
        if (i % 16 == 0) {
            usleep(300 * (1 + (useconds_t)(uintptr_t)key));
        }
    }
    close(fd);
    return NULL;
}

/* Keys are not there when the run begins. */
TEST(every_entry_once_in_the_merged_order_while_it_arrives) {
    pthread_t writers[KEYS];
    for (uintptr_t i = 0; i < KEYS; i++) {
        pthread_create(&writers[i], NULL, write_slowly, (void *)i);
    }
    run(&whole, &(request){0});
    for (int i = 0; i < KEYS; i++) {
        pthread_join(writers[i], NULL);
    }
    check_whole(&whole);
}

TEST(a_run_goes_on_from_its_state) {
    for (int steps = 1; steps < 50; steps += 16) {
        run(&part, &(request){.steps = steps});
        run(&other, &(request){.state = part.state});
        check_same_from(&whole, steps, &other);
    }
}

/* Bytes that the server sent so far. */
static int64_t bytes_sent(void) {
    char text[8192] = "";
    int fd = redis_dial(server.port);
    send_all(fd, "INFO stats\r\n", 12);
    CHECK(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    const char *found = strstr(text, "total_net_output_bytes:");
    CHECK(found != NULL);
    return found ? atoll(found + 23) : 0;
}

/* A run that goes on near the end reads what is left, and not all that came before. */
TEST(a_place_near_the_end_is_counted_back_from_there) {
    int64_t start = bytes_sent();
    run(&part, &(request){.steps = 48});
    int64_t middle = bytes_sent();
    run(&other, &(request){.state = part.state});
    int64_t end = bytes_sent();
    check_same_from(&whole, 48, &other);
    CHECK_INT(end - middle, <, (middle - start) / 4);
}

TEST(ranks_read_their_own_keys_and_make_the_same_batches) {
    for (uint32_t rank = 0; rank < KEYS; rank++) {
        run(&part, &(request){.world = KEYS, .rank = rank});
        CHECK_INT(part.wrong, ==, 0);
        CHECK_INT(part.n, ==, EACH);
        for (int i = 0; i < part.n; i++) {
            CHECK_INT(part.samples[i] % KEYS, ==, rank);
        }
    }
}

static const char rehearse[] = ", \"rehearse\": {\"size\": 150, \"share\": 0.5}";

TEST(what_is_shown_again_comes_from_memory_or_from_the_server) {
    run(&whole, &(request){.rest = rehearse});
    CHECK_INT(whole.status, ==, MR_END);
    CHECK_INT(whole.wrong, ==, 0);
    CHECK_INT(whole.n, >, KEYS * EACH * 3 / 2);
    run(&part, &(request){.rest = rehearse, .steps = 40});
    run(&other, &(request){.rest = rehearse, .state = part.state});
    check_same_from(&whole, 40, &other);
    CHECK_INT(other.wrong, ==, 0);
}

TEST(a_connection_that_is_cut_in_the_middle_of_a_reply_loses_and_doubles_nothing) {
    redis_proxy proxy = {.to = server.port, .reset = 60000};
    redis_proxy_begin(&proxy);
    port = proxy.port;
    run(&part, &(request){0});
    check_whole(&part);
    redis_proxy_end(&proxy);
    port = server.port;
}

static void freeze(int step) {
    if (step == 5) {
        kill(server.pid, SIGSTOP);
    }
}

static void *thaw(void *unused) {
    usleep(400000);
    kill(server.pid, SIGCONT);
    return unused;
}

static void freeze_for_a_while(int step) {
    pthread_t thread;
    freeze(step);
    if (step == 5) {
        pthread_create(&thread, NULL, thaw, NULL);
        pthread_detach(thread);
    }
}

TEST(a_frozen_server_is_waited_for) {
    run(&part, &(request){.after = freeze_for_a_while, .ahead = 4096});
    check_whole(&part);
}

TEST(a_server_that_stays_silent_ends_the_run) {
    run(&part, &(request){.after = freeze, .source = ", \"patience\": 0.3", .ahead = 4096});
    kill(server.pid, SIGCONT);
    CHECK_INT(part.status, ==, MR_E_IO);
    CHECK_HAS(part.err.text, "does not answer");
    CHECK_INT(part.wrong, ==, 0);
}

TEST(no_server_at_all_ends_the_run_and_nothing_is_read) {
    int nobody, fd = redis_listen(&nobody);
    close(fd);
    port = nobody;
    run(&part, &(request){.source = ", \"patience\": 0.2"});
    port = server.port;
    CHECK_INT(part.status, ==, MR_E_IO);
    CHECK_HAS(part.err.text, "cannot be reached");
    CHECK_HAS(part.log, "it cannot be reached: Connection refused; it is tried again for 0.2 s");
    CHECK_INT(times_said(part.log, "tried again"), ==, 1);
}

static void *write_late(void *unused) {
    usleep(600000);
    add_all(0, EACH);
    return unused;
}

TEST(keys_without_entries_are_told_of_once) {
    pthread_t writer;
    forget_all();
    pthread_create(&writer, NULL, write_late, NULL);
    run(&part, &(request){.source = ", \"patience\": 0.2"});
    pthread_join(writer, NULL);
    check_whole(&part);
    CHECK_INT(times_said(part.log, "the key s1 has no entries yet"), ==, 1);
    CHECK_INT(times_said(part.log, "\n"), ==, KEYS);
}

TEST(a_consumer_that_waits_for_a_frozen_server_can_be_told_to_stop) {
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_batch *batch = NULL;
    kill(server.pid, SIGSTOP);
    mr_loader *loader = open_run(&(request){0}, &pipeline, NULL, &err);
    CHECK_INT(mr_loader_next_within(loader, 30000000, &batch, &err), ==, MR_LATER);
    mr_loader_cancel(loader);
    CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_E_CANCELLED);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    kill(server.pid, SIGCONT);
}

/* The server is asked what it has, not how fast it writes. */
TEST(a_server_without_memory_still_gives_what_it_has) {
    redis_tell(&server, "CONFIG SET maxmemory 1000");
    int fd = redis_dial(server.port);
    CHECK(!add_entry(fd, 0, EACH));
    close(fd);
    run(&part, &(request){0});
    check_whole(&part);
    redis_tell(&server, "CONFIG SET maxmemory 0");
}

TEST(an_entry_that_is_not_as_it_should_be_is_bad_and_named_by_its_id) {
    forget_all();
    add(0, 0, 7);
    redis_tell(&server, "XADD s0 99999999999999-7 label 3 other 1");
    redis_tell(&server, "XADD s0 99999999999999-8 label three value abc");
    add_all(0, 9);
    run(&part, &(request){.source = ", \"from\": 0", .steps = 1});
    CHECK_INT(part.status, ==, MR_E_CORRUPT);
    CHECK_HAS(part.err.source, "partition 0, entry 7, id 99999999999999-7");
    CHECK_HAS(part.err.source, "no field for the value");
}

TEST(bad_entries_are_skipped_where_that_is_wanted) {
    run(&part, &(request){.rest = ", \"on_error\": \"skip\"", .steps = 1});
    CHECK_INT(part.status, ==, MR_OK);
    CHECK_INT(part.skipped, ==, 1);
    CHECK_HAS(part.skip.source, "id 99999999999999-7");
}

TEST(what_was_trimmed_is_an_error_when_a_state_needs_it) {
    forget_all();
    add_all(0, EACH);
    run(&whole, &(request){0});
    run(&part, &(request){.steps = 10}); /* 80 of each */
    redis_tell(&server, "XTRIM s1 MAXLEN 320");
    run(&other, &(request){.state = part.state});
    check_same_from(&whole, 10, &other);
    redis_tell(&server, "XTRIM s1 MAXLEN 319");
    run(&other, &(request){.state = part.state});
    CHECK_INT(other.status, ==, MR_E_STATE);
    CHECK_HAS(other.err.text, "keeps no entry before 81");
    CHECK_INT(other.n, ==, 0);
}

static void say(int fd, const char *line) {
    char reply[256];
    send_all(fd, line, (int)strlen(line));
    CHECK(read(fd, reply, sizeof reply) > 0);
}

/* Nobody can see what is added before it is trimmed. */
static void add_and_trim(int step) {
    int fd = step == 2 ? redis_dial(server.port) : -1;
    if (fd >= 0) {
        say(fd, "MULTI\r\n");
        for (int64_t i = 16; i < EACH; i++) {
            CHECK(add_entry(fd, 0, i));
        }
        say(fd, "XTRIM s0 MAXLEN 380\r\n");
        say(fd, "EXEC\r\n");
        close(fd);
    }
}

/* Entries 16 to 19 of the first key are missing, and no other takes the number of one. */
TEST(a_run_that_is_overtaken_by_trimming_counts_what_it_missed) {
    forget_all();
    add(0, 0, 16);
    add(1, 0, EACH);
    add(2, 0, EACH);
    run(&part, &(request){.rest = ", \"on_error\": \"skip\"", .after = add_and_trim});
    CHECK_INT(part.status, ==, MR_END);
    CHECK_INT(part.skipped, ==, 4);
    CHECK_HAS(part.skip.source, "s0 (partition 0, entry 16)");
    CHECK_INT(part.n, ==, KEYS * EACH);
    CHECK_INT(part.wrong, ==, 0);
}

TEST(deleting_in_the_middle_is_an_error) {
    forget_all();
    add_all(0, EACH);
    redis_tell(&server, "XADD s2 99999999999999-1 value x");
    redis_tell(&server, "XADD s2 99999999999999-2 value x");
    redis_tell(&server, "XDEL s2 99999999999999-1");
    run(&part, &(request){0});
    CHECK_INT(part.status, ==, MR_E_STATE);
    CHECK_HAS(part.err.text, "XDEL");
}

static void lose_everything(int step) {
    if (step == 2) {
        redis_stop(&server);
        redis_start(&server);
        wait_until_loaded();
        add_all(0, 30);
    }
}

TEST(a_server_that_comes_back_without_its_data_is_noticed) {
    forget_all();
    add_all(0, EACH / 2);
    run(&part, &(request){.after = lose_everything, .ahead = 4096});
    CHECK_INT(part.status, ==, MR_E_STATE);
    CHECK_HAS(part.err.text, "is not the one that was read");
    CHECK_INT(part.wrong, ==, 0);
}

TEST(another_kind_of_key_is_an_error) {
    forget_all();
    redis_tell(&server, "SET s1 hello");
    run(&part, &(request){0});
    CHECK_INT(part.status, ==, MR_E_PARAM);
    CHECK_HAS(part.err.text, "WRONGTYPE");
}

static void restart(int step) {
    if (step == 3) {
        redis_stop(&server);
        redis_start(&server);
        wait_until_loaded();
        add_all(EACH / 2, EACH);
    }
}

TEST(a_server_that_is_restarted_with_its_data_goes_on) {
    redis_end(&server);
    server = redis_begin("--appendonly", "yes");
    port = server.port;
    redis_tell(&server, "CONFIG SET appendfsync always"); /* else a busy disk delays the writing */
    add_all(0, EACH / 2);
    run(&part, &(request){.after = restart});
    check_whole(&part);
    redis_stop(&server);
    fixture_remove(server.folder);
}

TEST_MAIN()
