/* SPDX-License-Identifier: Apache-2.0 */
/* Redis servers over TLS: real ones, with certificates that openssl makes for the test. A server
 * that cannot show who it is gives nothing and is given nothing. */
#include "redis_rig.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/redis_line.h"
#include "fabric/redis_memory.h"
#include "fabric/redis_server.h"

enum { VALUES = 50, SIZE = 70000 };

static char certificates[64];

/* ---- Certificates ---- */
static bool shell(const char *command) {
    char text[2048];
    snprintf(text, sizeof text, "cd %s && { %s; } >log 2>&1", certificates, command);
    return system(text) == 0;
}

static bool make_authority(const char *name) {
    char text[512];
    snprintf(text, sizeof text,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /CN=%s -keyout %s.key -out %s.crt",
             name, name, name);
    return shell(text);
}

static bool make_certificate(const char *name, const char *hosts) {
    char text[1024];
    snprintf(text, sizeof text,
             "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=%s "
             "-keyout %s.key -out %s.csr && printf 'subjectAltName=%s' >%s.ext && "
             "openssl x509 -req -in %s.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
             "-extfile %s.ext -out %s.crt",
             name, name, name, hosts, name, name, name, name);
    return shell(text);
}

static bool make_certificates(void) {
    snprintf(certificates, sizeof certificates, "/tmp/millrace_tls_XXXXXX");
    return mkdtemp(certificates) && make_authority("ca") && make_authority("other") &&
           make_certificate("server", "IP:127.0.0.1,DNS:localhost") &&
           make_certificate("stranger", "DNS:elsewhere.example") &&
           make_certificate("client", "DNS:client");
}

static void set_file(const char *variable, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", certificates, name);
    setenv(variable, path, 1);
}

static void forget_files(void) {
    unsetenv("MILLRACE_REDIS_CA");
    unsetenv("MILLRACE_REDIS_CERT");
    unsetenv("MILLRACE_REDIS_KEY");
}

/* ---- Servers ---- */
static void copy_certificate(const redis_server *s, const char *name) {
    char text[512];
    snprintf(text, sizeof text,
             "cp %s.crt %s/server.crt && cp %s.key %s/server.key && cp ca.crt %s", name, s->folder,
             name, s->folder, s->folder);
    CHECK(shell(text));
}

/* clients: whether these must show a certificate, "yes" or "no". */
static redis_server begin(const char *certificate, const char *clients, bool password) {
    redis_server s = {.folder = "/tmp/millrace_redis_XXXXXX"};
    snprintf(s.value, sizeof s.value, "%s", clients);
    snprintf(s.option, sizeof s.option, "%s", password ? "--requirepass" : "");
    CHECK(mkdtemp(s.folder) != NULL);
    close(redis_listen(&s.port));
    close(redis_listen(&s.tls_port));
    copy_certificate(&s, certificate);
    redis_start(&s);
    return s;
}

static void end(redis_server *s) {
    char text[128];
    redis_stop(s);
    snprintf(text, sizeof text, "rm -r %s", s->folder);
    CHECK(shell(text));
}

static mr_fabric *join_for(const redis_server *s, const char *login, double timeout) {
    char url[128];
    mr_fabric *fabric = NULL;
    mr_error err = MR_ERROR_INIT;
    snprintf(url, sizeof url, "rediss://%s127.0.0.1:%d", login, s->tls_port);
    mr_fabric_config config = {
        .size = (uint32_t)sizeof config, .url = url, .space = "test", .timeout = timeout};
    mr_fabric_open(&fabric, &config, &err);
    CHECK_TEXT(err.text, "");
    return fabric;
}

static mr_fabric *join(const redis_server *s, const char *login) {
    return join_for(s, login, 20);
}

/* ---- Values ---- */
static char keys[VALUES][8], values[VALUES][SIZE];

static int put_all(mr_fabric *fabric) {
    mr_parcel parcels[VALUES] = {0};
    mr_error err = MR_ERROR_INIT;
    int done = 0;
    for (int i = 0; i < VALUES; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        memset(values[i], i + 1, SIZE);
        parcels[i] = (mr_parcel){
            .key = keys[i], .key_size = sizeof keys[i], .value = values[i], .size = SIZE};
    }
    mr_fabric_put(fabric, parcels, VALUES, &err);
    for (int i = 0; i < VALUES; i++) {
        done += parcels[i].done;
    }
    return done;
}

static int get_all(mr_fabric *fabric) {
    mr_parcel parcels[VALUES] = {0};
    mr_error err = MR_ERROR_INIT;
    int done = 0;
    for (int i = 0; i < VALUES; i++) {
        parcels[i] = (mr_parcel){.key = keys[i], .key_size = sizeof keys[i]};
    }
    mr_fabric_get(fabric, parcels, VALUES, &err);
    for (int i = 0; i < VALUES; i++) {
        CHECK(!parcels[i].done ||
              (parcels[i].size == SIZE && memcmp(parcels[i].value, values[i], SIZE) == 0));
        done += parcels[i].done;
        mr_free(parcels[i].value);
    }
    return done;
}

static mr_fabric_stats stats_of(mr_fabric *fabric) {
    mr_fabric_stats stats = {.size = (uint32_t)sizeof stats};
    mr_fabric_stats_now(fabric, &stats);
    return stats;
}

/* ---- Tests ---- */
TEST(values_go_and_come_over_tls) {
    redis_server s = begin("server", "no", false);
    set_file("MILLRACE_REDIS_CA", "ca.crt");
    mr_fabric *fabric = join(&s, "");
    CHECK_INT(put_all(fabric), ==, VALUES);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(get_all(fabric), ==, VALUES);
    }
    CHECK_INT(stats_of(fabric).failures, ==, 0); /* one connection, which is used again */
    mr_fabric_close(fabric);
    end(&s);
    forget_files();
}

static void check_refused(const char *certificate, const char *clients, const char *authority) {
    redis_server s = begin(certificate, clients, false);
    set_file("MILLRACE_REDIS_CA", authority);
    mr_fabric *fabric = join(&s, "");
    CHECK_INT(put_all(fabric), ==, 0);
    CHECK_INT(get_all(fabric), ==, 0);
    CHECK(stats_of(fabric).failures > 0);
    CHECK(stats_of(fabric).trouble[0] != '\0');
    mr_fabric_close(fabric);
    end(&s);
    forget_files();
}

TEST(a_server_that_nobody_vouches_for_is_not_believed) {
    check_refused("server", "no", "other.crt");
}

TEST(a_server_of_another_name_is_not_believed) {
    check_refused("stranger", "no", "ca.crt");
}

TEST(a_server_that_wants_a_certificate_gets_one) {
    check_refused("server", "yes", "ca.crt");
    redis_server s = begin("server", "yes", false);
    set_file("MILLRACE_REDIS_CA", "ca.crt");
    set_file("MILLRACE_REDIS_CERT", "client.crt");
    set_file("MILLRACE_REDIS_KEY", "client.key");
    mr_fabric *fabric = join(&s, "");
    CHECK_INT(put_all(fabric), ==, VALUES);
    CHECK_INT(get_all(fabric), ==, VALUES);
    mr_fabric_close(fabric);
    end(&s);
    forget_files();
}

TEST(passwords_work_over_tls) {
    redis_server s = begin("server", "no", true);
    set_file("MILLRACE_REDIS_CA", "ca.crt");
    mr_fabric *without = join(&s, ""), *with = join(&s, ":secret@");
    setenv("MILLRACE_REDIS_PASSWORD", "secret", 1);
    mr_fabric *by_environment = join(&s, "");
    unsetenv("MILLRACE_REDIS_PASSWORD");
    CHECK_INT(put_all(without), ==, 0);
    CHECK_INT(put_all(with), ==, VALUES);
    CHECK_INT(get_all(by_environment), ==, VALUES);
    mr_fabric_close(without);
    mr_fabric_close(with);
    mr_fabric_close(by_environment);
    end(&s);
    forget_files();
}

TEST(a_server_that_comes_back_is_used_again) {
    redis_server s = begin("server", "no", false);
    set_file("MILLRACE_REDIS_CA", "ca.crt");
    mr_fabric *fabric = join(&s, "");
    CHECK_INT(put_all(fabric), ==, VALUES);
    redis_stop(&s);
    CHECK_INT(get_all(fabric), ==, 0);
    redis_start(&s);
    while (put_all(fabric) < VALUES) {
        redis_nap();
    }
    CHECK_INT(get_all(fabric), ==, VALUES);
    mr_fabric_close(fabric);
    end(&s);
    forget_files();
}

TEST(one_who_speaks_no_tls_is_not_waited_for_longer_than_others) {
    redis_server s = begin("server", "no", false);
    set_file("MILLRACE_REDIS_CA", "ca.crt");
    redis_server plain = s;
    plain.tls_port = s.port;                       /* where it speaks without */
    mr_fabric *fabric = join_for(&plain, "", 0.5); /* it waits for more, and so do we */
    CHECK_INT(put_all(fabric), ==, 0);
    CHECK_HAS(stats_of(fabric).trouble, ":");
    mr_fabric_close(fabric);
    end(&s);
    forget_files();
}

TEST(an_authority_that_is_no_file_is_an_error) {
    mr_fabric *fabric = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_fabric_config config = {
        .size = (uint32_t)sizeof config, .url = "rediss://127.0.0.1:1", .space = "test"};
    set_file("MILLRACE_REDIS_CA", "missing.crt");
    CHECK_INT(mr_fabric_open(&fabric, &config, &err), ==, MR_E_PARAM);
    CHECK_HAS(err.text, "MILLRACE_REDIS_CA");
    CHECK_HAS(err.text, "missing.crt");
    forget_files();
}

/* One that no buffer of a socket holds: nothing comes back before all of it was sent. */
TEST(a_large_value_goes_through) {
    enum { LARGE = 24 << 20 };
    redis_server s = begin("server", "no", false);
    set_file("MILLRACE_REDIS_CA", "ca.crt");
    mr_fabric *fabric = join(&s, "");
    mr_error err = MR_ERROR_INIT;
    char *value = malloc(LARGE);
    CHECK(value != NULL);
    memset(value, 7, LARGE);
    mr_parcel parcel = {.key = "large", .key_size = 5, .value = value, .size = LARGE};
    mr_fabric_put(fabric, &parcel, 1, &err);
    CHECK(parcel.done);
    mr_parcel back = {.key = "large", .key_size = 5};
    mr_fabric_get(fabric, &back, 1, &err);
    CHECK(back.done && back.size == LARGE && memcmp(back.value, value, LARGE) == 0);
    mr_free(back.value);
    free(value);
    mr_fabric_close(fabric);
    end(&s);
    forget_files();
}

/* What streams are read by. */
TEST(a_line_speaks_tls_too) {
    redis_server s = begin("server", "no", false);
    char url[64];
    mr_redis_line *line = NULL;
    mr_error err = MR_ERROR_INIT;
    redisReply *reply = NULL;
    set_file("MILLRACE_REDIS_CA", "ca.crt");
    snprintf(url, sizeof url, "rediss://localhost:%d", s.tls_port);
    CHECK_INT(mr_redis_line_open(&line, url, 1 << 20, &err), ==, MR_OK);
    mr_redis_line_say(line, (const char *[]){"ECHO", "hello"}, 2);
    CHECK_INT(mr_redis_line_answer(line, 20000, &reply, &err), ==, MR_OK);
    CHECK_TEXT(reply->str, "hello");
    mr_redis_reply_free(reply);
    mr_redis_line_close(line);
    end(&s);
    forget_files();
}

static int run_tests(int argc, char **argv);
#define main run_tests
TEST_MAIN()
#undef main

static bool has_tls(void) {
    mr_secure *secure = NULL;
    mr_error err = MR_ERROR_INIT;
    bool has = mr_secure_open(&secure, "localhost", &err) == MR_OK;
    mr_secure_close(secure);
    return has && system("redis-server --version >/dev/null 2>&1") == 0;
}

int main(int argc, char **argv) {
    char text[128];
    if (!has_tls() || !make_certificates()) {
        printf("no TLS here: nothing was tested\n");
        return 77;
    }
    int code = run_tests(argc, argv);
    snprintf(text, sizeof text, "rm -r %s", certificates);
    return system(text) == 0 ? code : 1;
}
