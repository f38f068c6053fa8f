/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric of Redis servers: what is put comes back, and whatever happens to a server (killed,
 * restarted, stopped, full, its values changed) is "not here" and never a wrong value. The servers
 * are real ones, started on free ports of this machine; strangers are played by children. */
#include "redis_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <millrace/fabric.h>
#include <millrace/millrace.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VALUES = 200 };

/* ---- Fabrics ---- */

static mr_fabric *join_url(const char *url, double timeout) {
    mr_fabric *fabric = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_fabric_config config = {
        .size = (uint32_t)sizeof config, .url = url, .space = "test", .timeout = timeout};
    mr_fabric_open(&fabric, &config, &err);
    CHECK_TEXT(err.text, "");
    return fabric;
}

static mr_fabric *join_server(const redis_server *s, double timeout) {
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", s->port);
    return join_url(url, timeout);
}

/* VALUES of different sizes; the first is empty. */
typedef struct goods {
    char keys[VALUES][16];
    unsigned char *bytes;
    mr_parcel parcels[VALUES];
} goods;

static size_t size_of(int i) {
    return (size_t)i * 977;
}

static goods *make_goods(void) {
    goods *g = calloc(1, sizeof *g);
    g->bytes = malloc(size_of(VALUES));
    for (size_t k = 0; k < size_of(VALUES); k++) {
        g->bytes[k] = (unsigned char)(k * k >> 3);
    }
    for (int i = 0; i < VALUES; i++) {
        snprintf(g->keys[i], sizeof g->keys[i], "k%d", i);
        g->keys[i][10] = '\r'; /* keys are bytes */
        g->keys[i][11] = '\n';
    }
    return g;
}

static void free_goods(goods *g) {
    free(g->bytes);
    free(g);
}

static int32_t count_done(const goods *g) {
    int32_t n = 0;
    for (int i = 0; i < VALUES; i++) {
        n += g->parcels[i].done;
    }
    return n;
}

static int32_t put_all(mr_fabric *fabric, goods *g) {
    for (int i = 0; i < VALUES; i++) {
        g->parcels[i] = (mr_parcel){
            .key = g->keys[i], .key_size = 12, .value = g->bytes + i, .size = size_of(i)};
    }
    CHECK_INT(mr_fabric_put(fabric, g->parcels, VALUES, NULL), ==, MR_OK);
    return count_done(g);
}

/* How many are here; each as it was put. */
static int32_t get_all(mr_fabric *fabric, goods *g) {
    for (int i = 0; i < VALUES; i++) {
        g->parcels[i] = (mr_parcel){.key = g->keys[i], .key_size = 12};
    }
    CHECK_INT(mr_fabric_get(fabric, g->parcels, VALUES, NULL), ==, MR_OK);
    for (int i = 0; i < VALUES; i++) {
        mr_parcel *p = &g->parcels[i];
        CHECK_INT(p->done, ==, p->value != NULL);
        if (p->done) {
            CHECK_INT(p->size, ==, size_of(i));
            CHECK(memcmp(p->value, g->bytes + i, p->size) == 0);
            mr_free(p->value);
        }
    }
    return count_done(g);
}

/* Offers and asks until all are kept and found, for ten seconds at most. */
static bool comes_back(mr_fabric *fabric, goods *g) {
    for (int i = 0; i < 500; i++) {
        if (put_all(fabric, g) == VALUES && get_all(fabric, g) == VALUES) {
            return true;
        }
        redis_nap();
    }
    return false;
}

static mr_fabric_stats stats_of(const mr_fabric *fabric) {
    mr_fabric_stats stats = {.size = (uint32_t)sizeof stats};
    mr_fabric_stats_now(fabric, &stats);
    return stats;
}

/* ---- Good days ---- */

TEST(what_is_put_comes_back) {
    redis_server s = redis_begin("--maxmemory", "0");
    mr_fabric *fabric = join_server(&s, 20);
    goods *g = make_goods();
    CHECK_INT(get_all(fabric, g), ==, 0);
    CHECK_INT(put_all(fabric, g), ==, VALUES);
    CHECK_INT(get_all(fabric, g), ==, VALUES);
    mr_fabric_stats stats = stats_of(fabric);
    CHECK_INT(stats.asked, ==, 2 * VALUES);
    CHECK_INT(stats.found, ==, VALUES);
    CHECK_INT(stats.kept, ==, VALUES);
    CHECK_INT(stats.bytes_in, ==, stats.bytes_out);
    CHECK_INT(stats.up, ==, 1);
    CHECK_INT(stats.failures, ==, 0);
    mr_fabric_close(fabric);
    free_goods(g);
    redis_end(&s);
}

static void take_figures(void *context, const mr_fabric_figures *figures) {
    *(mr_fabric_figures *)context = *figures;
}

TEST(a_check_tells_how_fast_a_server_is_or_what_is_wrong) {
    redis_server s = redis_begin("--maxmemory", "0");
    char url[64];
    mr_fabric_figures told = {0};
    mr_error err = MR_ERROR_INIT;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", s.port);
    CHECK_INT(mr_fabric_check(url, 0, 1, 100000, take_figures, &told, &err), ==, MR_OK);
    CHECK_INT(told.from, ==, -1);
    CHECK(told.latency > 0 && told.bandwidth > 0);
    redis_end(&s);
    told.from = 0;
    CHECK_INT(mr_fabric_check(url, 0, 1, 100000, take_figures, &told, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "does not give back");
    CHECK_INT(told.from, ==, 0); /* nothing was told */
}

TEST(a_unix_socket_and_another_job_share_what_is_there) {
    redis_server s = redis_begin("--maxmemory", "0");
    char url[128];
    snprintf(url, sizeof url, "redis+unix://%s/socket", s.folder);
    mr_fabric *one = join_server(&s, 20), *two = join_url(url, 20);
    goods *g = make_goods();
    CHECK_INT(put_all(one, g), ==, VALUES);
    CHECK_INT(get_all(two, g), ==, VALUES);
    mr_fabric_close(one);
    mr_fabric_close(two);
    free_goods(g);
    redis_end(&s);
}

TEST(namespaces_and_databases_are_apart_and_values_end) {
    redis_server s = redis_begin("--maxmemory", "0");
    char url[64], other_db[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", s.port);
    snprintf(other_db, sizeof other_db, "redis://127.0.0.1:%d/3", s.port);
    mr_fabric *one = join_url(url, 20), *other_space = NULL, *brief = NULL;
    mr_fabric *database = join_url(other_db, 20);
    mr_fabric_config c = {.size = (uint32_t)sizeof c, .url = url, .space = "other", .timeout = 20};
    CHECK_INT(mr_fabric_open(&other_space, &c, NULL), ==, MR_OK);
    c.space = "brief";
    c.ttl = 0.001;
    CHECK_INT(mr_fabric_open(&brief, &c, NULL), ==, MR_OK);
    goods *g = make_goods();
    CHECK_INT(put_all(one, g), ==, VALUES);
    CHECK_INT(get_all(other_space, g), ==, 0);
    CHECK_INT(get_all(database, g), ==, 0);
    CHECK_INT(put_all(brief, g), ==, VALUES);
    redis_nap();
    CHECK_INT(get_all(brief, g), ==, 0);
    CHECK_INT(get_all(one, g), ==, VALUES);
    mr_fabric_close(one);
    mr_fabric_close(other_space);
    mr_fabric_close(brief);
    mr_fabric_close(database);
    free_goods(g);
    redis_end(&s);
}

/* Milliseconds that the server will keep its one value; -1: without end. */
static int64_t time_left(int port) {
    static const char question[] =
        "EVAL \"return redis.call('PTTL', redis.call('RANDOMKEY'))\" 0\r\n";
    char reply[64] = "";
    int fd = redis_dial(port);
    CHECK(fd >= 0 && write(fd, question, strlen(question)) > 0 &&
          read(fd, reply, sizeof reply - 1) > 1 && reply[0] == ':');
    close(fd);
    return strtoll(reply + 1, NULL, 10);
}

static int64_t time_left_of_one(const char *setting, double ttl, double seconds) {
    redis_server s = redis_begin("--maxmemory", "0");
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", s.port, setting);
    mr_fabric_config c = {.size = (uint32_t)sizeof c, .url = url, .timeout = 20, .ttl = ttl};
    mr_parcel one = {.key = "k", .key_size = 1, .value = "v", .size = 1, .seconds = seconds};
    mr_fabric *fabric = NULL;
    CHECK_INT(mr_fabric_open(&fabric, &c, NULL), ==, MR_OK);
    CHECK_INT(mr_fabric_put(fabric, &one, 1, NULL), ==, MR_OK);
    CHECK(one.done);
    int64_t left = time_left(s.port);
    mr_fabric_close(fabric);
    redis_end(&s);
    return left;
}

TEST(values_end_as_they_say_or_whoever_opens_or_the_url) {
    const int64_t second = 1000, day = 86400 * second;
    CHECK_INT(time_left_of_one("", 0, 0), ==, -1);
    int64_t left = time_left_of_one("?ttl=864000", 0, 0);
    CHECK(left > 9 * day && left <= 10 * day);
    left = time_left_of_one("?ttl=864000", 3 * 86400, 0);
    CHECK(left > 2 * day && left <= 3 * day);
    left = time_left_of_one("?ttl=864000", 3 * 86400, 86400);
    CHECK(left > 0 && left <= day);
}

TEST(passwords_by_url_and_by_environment) {
    redis_server s = redis_begin("--requirepass", "se,cr@t");
    char url[64], with[96], wrong[96];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", s.port);
    snprintf(with, sizeof with, "redis://:se%%2Ccr%%40t@127.0.0.1:%d", s.port);
    snprintf(wrong, sizeof wrong, "redis://default:other@127.0.0.1:%d", s.port);
    goods *g = make_goods();
    mr_fabric *none = join_url(url, 20), *right = join_url(with, 20), *bad = join_url(wrong, 20);
    setenv("MILLRACE_REDIS_PASSWORD", "se,cr@t", 1);
    mr_fabric *by_environment = join_url(url, 20);
    unsetenv("MILLRACE_REDIS_PASSWORD");
    CHECK_INT(put_all(right, g), ==, VALUES);
    CHECK_INT(get_all(by_environment, g), ==, VALUES);
    CHECK_INT(get_all(none, g), ==, 0);
    CHECK_HAS(stats_of(none).trouble, "NOAUTH");
    CHECK_INT(get_all(bad, g), ==, 0);
    CHECK_HAS(stats_of(bad).trouble, "WRONGPASS");
    mr_fabric_close(none);
    mr_fabric_close(right);
    mr_fabric_close(bad);
    mr_fabric_close(by_environment);
    free_goods(g);
    redis_end(&s);
}

/* ---- Bad days ---- */

TEST(a_killed_server_is_not_here_until_it_is_back) {
    redis_server s = redis_begin("--maxmemory", "0");
    mr_fabric *fabric = join_server(&s, 20);
    goods *g = make_goods();
    CHECK_INT(put_all(fabric, g), ==, VALUES);
    redis_stop(&s);
    CHECK_INT(get_all(fabric, g), ==, 0);
    CHECK_INT(put_all(fabric, g), ==, 0);
    CHECK_INT(stats_of(fabric).up, ==, 0);
    CHECK_INT(stats_of(fabric).failures, >=, 1);
    redis_start(&s);
    CHECK(comes_back(fabric, g));
    /* Between two calls: the old connection is found dead, and a new one made at once. */
    redis_stop(&s);
    redis_start(&s);
    CHECK_INT(put_all(fabric, g), ==, VALUES);
    mr_fabric_close(fabric);
    free_goods(g);
    redis_end(&s);
}

TEST(a_stopped_server_costs_one_wait) {
    redis_server s = redis_begin("--maxmemory", "0");
    mr_fabric *fabric = join_server(&s, 0.2);
    goods *g = make_goods();
    CHECK(comes_back(fabric, g));
    int64_t before = stats_of(fabric).failures;
    kill(s.pid, SIGSTOP);
    CHECK_INT(get_all(fabric, g), ==, 0);
    CHECK_HAS(stats_of(fabric).trouble, "no answer");
    for (int i = 0; i < 50; i++) { /* it connects, but must not be asked */
        CHECK_INT(get_all(fabric, g), ==, 0);
        redis_nap();
    }
    CHECK_INT(stats_of(fabric).failures - before, <=, 5);
    CHECK_HAS(stats_of(fabric).trouble, "no answer yet"); /* found beside the work */
    kill(s.pid, SIGCONT);
    CHECK(comes_back(fabric, g));
    mr_fabric_close(fabric);
    free_goods(g);
    redis_end(&s);
}

TEST(of_several_servers_only_the_dead_ones_keys_are_missing) {
    redis_server s[3];
    char url[128] = "";
    for (int i = 0; i < 3; i++) {
        s[i] = redis_begin("--maxmemory", "0");
        size_t n = strlen(url);
        snprintf(url + n, sizeof url - n, "%sredis://127.0.0.1:%d", i ? "," : "", s[i].port);
    }
    mr_fabric *fabric = join_url(url, 20);
    goods *g = make_goods();
    CHECK_INT(put_all(fabric, g), ==, VALUES);
    redis_stop(&s[1]);
    int32_t left = get_all(fabric, g);
    CHECK(left > VALUES / 3 && left < VALUES);
    CHECK_INT(stats_of(fabric).up, ==, 2);
    redis_start(&s[1]);
    CHECK(comes_back(fabric, g));
    mr_fabric_close(fabric);
    free_goods(g);
    for (int i = 0; i < 3; i++) {
        redis_end(&s[i]);
    }
}

TEST(a_full_server_keeps_what_it_has) {
    redis_server s = redis_begin("--maxmemory", "8mb");
    mr_fabric *fabric = join_server(&s, 20);
    goods *g = make_goods();
    int32_t kept = put_all(fabric, g);
    CHECK(kept > 0 && kept < VALUES);
    CHECK_INT(stats_of(fabric).full, >, 0);
    CHECK_HAS(stats_of(fabric).trouble, "OOM");
    CHECK_INT(get_all(fabric, g), ==, kept);
    mr_fabric_close(fabric);
    free_goods(g);
    redis_end(&s);
}

/* ---- Values that are not what was put ---- */

static mr_parcel get_one(mr_fabric *fabric, const char *key) {
    mr_parcel parcel = {.key = key, .key_size = strlen(key)};
    CHECK_INT(mr_fabric_get(fabric, &parcel, 1, NULL), ==, MR_OK);
    return parcel;
}

static void put_one(mr_fabric *fabric, const char *key, const char *text) {
    char value[64];
    snprintf(value, sizeof value, "%s", text);
    mr_parcel parcel = {.key = key, .key_size = strlen(key), .value = value, .size = strlen(text)};
    CHECK_INT(mr_fabric_put(fabric, &parcel, 1, NULL), ==, MR_OK);
    CHECK(parcel.done);
}

TEST(changed_values_are_not_here) {
    static const char *const changes[] = {
        "SETRANGE mr:test:a 30 X", "SETRANGE mr:test:a 0 X",     "SETRANGE mr:test:a 9 X",
        "SETRANGE mr:test:a 20 X", "APPEND mr:test:a more",      "SET mr:test:a short",
        "SET mr:test:a \"\"",      "RENAME mr:test:b mr:test:a", "DEL mr:test:a",
    };
    int32_t n = sizeof changes / sizeof *changes;
    redis_server s = redis_begin("--maxmemory", "0");
    mr_fabric *fabric = join_server(&s, 20);
    for (int32_t i = 0; i < n; i++) {
        put_one(fabric, "a", "what was put");
        put_one(fabric, "b", "something else");
        mr_parcel whole = get_one(fabric, "a");
        CHECK(whole.done && whole.size == 12 && memcmp(whole.value, "what was put", 12) == 0);
        mr_free(whole.value);
        redis_tell(&s, changes[i]);
        CHECK(!get_one(fabric, "a").done);
    }
    CHECK_INT(stats_of(fabric).damaged, ==, n - 1);
    redis_tell(&s, "DEL mr:test:a");
    redis_tell(&s,
               "LPUSH mr:test:a x"); /* another type: an error reply, and the connection goes on */
    CHECK(!get_one(fabric, "a").done);
    put_one(fabric, "a", "again");
    CHECK_INT(stats_of(fabric).failures, ==, 0);
    mr_fabric_close(fabric);
    redis_end(&s);
}

/* ---- Strangers ---- */

/* A child that answers each connection with the same bytes, and then perhaps closes it. */
static pid_t play(int fd, const char *bytes, bool closes) {
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            char asked[4096];
            int peer = accept(fd, NULL, NULL);
            ssize_t n = read(peer, asked, sizeof asked);
            n = n > 0 ? write(peer, bytes, strlen(bytes)) : n;
            if (closes || n < 0) {
                close(peer);
            }
        }
    }
    close(fd);
    return pid;
}

TEST(strangers_are_not_here) {
    static const char *const replies[] = {
        "",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "+PONG\r\n*1000000000\r\n",
        "+PONG\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        "+PONG\r\n:17\r\n",
        "+PONG\r\n+OK\r\n",
        "+PONG\r\n$999999999999\r\nabc",
        "+PONG\r\n$-7\r\n",
        "+PONG\r\n$5\r\nab",
        "+PONG\r\n$1000000000000000000000000000\r\n",
        "-LOADING data is not there yet\r\n",
        "\r\n\r\n\r\n",
    };
    for (size_t i = 0; i < 2 * (sizeof replies / sizeof *replies); i++) {
        char url[64];
        int port = 0, fd = redis_listen(&port);
        pid_t child = play(fd, replies[i / 2], i % 2);
        snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
        mr_fabric *fabric = join_url(url, 0.1);
        CHECK(!get_one(fabric, "a").done);
        CHECK_INT(stats_of(fabric).failures, ==, 1);
        mr_fabric_close(fabric);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

/* Writing to who is gone raises SIGPIPE, most easily on a UNIX socket. */
TEST(a_server_that_leaves_while_it_is_written_to_ends_nobody) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char folder[] = "/tmp/millrace_redis_XXXXXX", url[128];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    snprintf(url, sizeof url, "redis+unix://%s", address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0);
    pid_t child = play(fd, "+PONG\r\n", true);
    mr_fabric *fabric = join_url(url, 20);
    goods *g = make_goods();
    CHECK_INT(put_all(fabric, g), ==, 0);
    CHECK_INT(stats_of(fabric).failures, ==, 1);
    mr_fabric_close(fabric);
    free_goods(g);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    unlink(address.sun_path);
    rmdir(folder);
}

/* A reply without end is cut off by its size, not by the time. */
TEST(a_reply_without_end_is_cut_off) {
    char url[64], *much = malloc(1 << 20);
    int port = 0, fd = redis_listen(&port);
    memset(much, 'x', (1 << 20) - 1);
    memcpy(much, "+PONG\r\n$500000000\r\n", 19);
    much[(1 << 20) - 1] = '\0';
    pid_t child = play(fd, much, false);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    mr_fabric *fabric = NULL;
    mr_fabric_config config = {
        .size = (uint32_t)sizeof config, .url = url, .timeout = 100, .max_bytes = 100000};
    CHECK_INT(mr_fabric_open(&fabric, &config, NULL), ==, MR_OK);
    CHECK(!get_one(fabric, "a").done);
    CHECK_HAS(stats_of(fabric).trouble, "makes no sense");
    mr_fabric_close(fabric);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    free(much);
}

/* ---- URLs ---- */

TEST(wrong_urls_are_refused_without_showing_them) {
    static const char *const urls[] = {"http://host",
                                       "redis://",
                                       "redis://host:0",
                                       "redis://host:x",
                                       "redis://host:70000",
                                       "redis://host/x",
                                       "redis://pw@host",
                                       "redis://:a%zz@host",
                                       "redis+unix://",
                                       "redis+unix://x",
                                       "redis://[::1",
                                       "redis://[::1]x",
                                       "redis://127.0.0.1:1,redis://127.0.0.1:1",
                                       "redis://127.0.0.1,",
                                       "rediss://secret@host",
                                       "redis+unix:///x?y=1",
                                       "redis+unix:///x?",
                                       "redis+unix:///x?db=1&",
                                       "redis://host?db=1",
                                       "redis://host/1?ttl=0",
                                       "redis://host?ttl=secret",
                                       "redis://host?ttl=10000000",
                                       "redis://host:secret"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        mr_fabric *fabric = NULL;
        mr_error err = MR_ERROR_INIT;
        mr_fabric_config config = {.size = (uint32_t)sizeof config, .url = urls[i]};
        CHECK(mr_fabric_open(&fabric, &config, &err) < 0);
        CHECK(fabric == NULL && err.text[0] && !strstr(err.text, "secret"));
    }
    mr_fabric_close(join_url("redis://u:p%40@[::1]:7/1?ttl=9999999#a,"
                             "redis+unix://:p@/x?db=2&ttl=1#b,redis+unix:///x?ttl=3#c",
                             1));
}

__attribute__((constructor)) static void skip_where_it_cannot_run(void) {
    redis_skip_without("test_redis");
}

TEST_MAIN()
