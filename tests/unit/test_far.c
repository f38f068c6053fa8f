/* SPDX-License-Identifier: Apache-2.0 */
/* Objects on servers: names, answers, a server that misbehaves in every way we know, and nginx in
 * place of a folder. */
#include "far_rig.h"
#include "fixture.h"
#include "test.h"

#include "core/error.h"
#include "io/far.h"
#include "io/far_account.h"
#include "io/far_line.h"
#include "io/far_pace.h"
#include "io/far_parts.h"
#include "io/far_reply.h"
#include "io/file.h"

static mr_error err;

static void forget_error(void) {
    err = (mr_error)MR_ERROR_INIT;
}

/* ---- Names ---- */
TEST(a_version_goes_with_the_name) {
    mr_far_pin pin = {.size = 1234, .tag = "W/\"a b#&?\""}, found;
    char *name = mr_far_pinned("https://host/a.tar", 18, &pin);
    CHECK_TEXT(name, "https://host/a.tar#size=1234&tag=W%2F%22a%20b%23%26%3F%22");
    CHECK_INT(mr_far_bare(name), ==, 18);
    mr_far_pin_of(name, &found);
    CHECK(mr_far_same_version(&pin, &found));
    free(name);
    mr_far_pin_of("https://host/a.tar", &found);
    CHECK_INT(found.size, ==, -1);
    static const char *const none[] = {"s3://b/a#size=&tag=",
                                       "s3://b/a#size=1",
                                       "s3://b/a#b",
                                       "s3://b/a#size=1&tag=\"x\"",
                                       "/a#size=1&tag=x",
                                       "s3://b/a#size=1234567890123456789&tag=x",
                                       NULL};
    for (const char *const *one = none; *one; one++) {
        CHECK_INT(mr_far_bare(*one), ==, strlen(*one));
    }
}

/* The longest tag there is room for, of letters that take three each in a name; and one more. */
TEST(a_long_tag_goes_with_the_name) {
    mr_far_pin pin = {.size = 5}, found;
    char longer[600] = "s3://b/a#size=5&tag=";
    memset(pin.tag, '"', sizeof pin.tag - 1);
    char *name = mr_far_pinned("s3://b/a", 8, &pin);
    mr_far_pin_of(name, &found);
    CHECK(mr_far_same_version(&pin, &found));
    free(name);
    for (size_t i = 0; i < sizeof pin.tag; i++) {
        strcat(longer, "%22");
    }
    mr_far_pin_of(longer, &found);
    CHECK_INT(found.size, ==, -1);
}

/* What an identity names is kept and given to others for ever: only a tag that is another for other
 * bytes will do. */
TEST(only_a_strong_tag_names_bytes) {
    static const struct {
        const char *tag;
        bool names;
    } cases[] = {
        {"\"abc\"", true}, {"W/\"abc\"", false}, {"@Tue, 01 Jan 2030", false}, {"", false}};
    uint64_t id[2], other[2] = {0, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_far_pin pin = {.size = 7};
        snprintf(pin.tag, sizeof pin.tag, "%s", cases[i].tag);
        char *name = mr_far_pinned("https://h/a", 11, &pin);
        CHECK_INT(mr_far_identity(name, id), ==, cases[i].names);
        free(name);
    }
    CHECK(!mr_far_identity("https://h/a", id));
    CHECK(mr_far_identity("https://h/a#size=7&tag=%22abc%22", id));
    CHECK(mr_far_identity("https://h/a#size=8&tag=%22abc%22", other));
    CHECK(id[0] != other[0] || id[1] != other[1]);
}

TEST(bucket_and_key) {
    char bucket[64];
    const char *key;
    size_t n;
    CHECK(mr_s3_parts("s3://b-1.x/a/b c#size=3&tag=x", bucket, &key, &n));
    CHECK_TEXT(bucket, "b-1.x");
    CHECK(n == 5 && memcmp(key, "a/b c", 5) == 0);
    CHECK(mr_s3_parts("s3://b", bucket, &key, &n) && n == 0);
    CHECK(mr_s3_parts("s3://b/", bucket, &key, &n) && n == 0);
    CHECK(!mr_s3_parts("s3://", bucket, &key, &n));
    CHECK(!mr_s3_parts("s3://a@b/c", bucket, &key, &n));
    CHECK(!mr_s3_parts("https://b/c", bucket, &key, &n));
}

TEST(what_may_be_a_secret_is_not_shown) {
    char shown[64];
    CHECK_TEXT(mr_text_escape(shown, sizeof shown, "https://h/a?X-Amz-Signature=1"), "https://h/a");
    CHECK_TEXT(mr_text_escape(shown, sizeof shown, "s3://b/a?c#size=1&tag=x"), "s3://b/a?c");
    CHECK_TEXT(mr_text_escape(shown, sizeof shown, "/a?b#size=1"), "/a?b#size=1");
}

TEST(where_an_object_is) {
    char out[256];
    mr_far_account a = {.region = "eu-west-1"};
    CHECK(mr_far_account_address(&a, "s3://b/a b/ü", NULL, out, sizeof out));
    CHECK_TEXT(out, "https://b.s3.eu-west-1.amazonaws.com/a%20b/%C3%BC");
    CHECK(mr_far_account_address(&a, "s3://b.c/k", "x=1", out, sizeof out));
    CHECK_TEXT(out, "https://s3.eu-west-1.amazonaws.com/b.c/k?x=1");
    snprintf(a.endpoint, sizeof a.endpoint, "http://localhost:9000");
    CHECK(mr_far_account_address(&a, "s3://b/k#size=1&tag=", NULL, out, sizeof out));
    CHECK_TEXT(out, "http://localhost:9000/b/k");
    CHECK(!mr_far_account_address(&a, "s3://b/k", NULL, out, 20));
}

TEST(profiles_in_files) {
    static const char text[] =
        "[default]\nkey = 1\n# key = 2\n[profile  two]\r\nkey=22\r\n[x]\nkey=";
    char out[8];
    CHECK(mr_far_ini(text, strlen(text), "default", "key", out, sizeof out));
    CHECK_TEXT(out, "1");
    CHECK(mr_far_ini(text, strlen(text), "two", "key", out, sizeof out));
    CHECK_TEXT(out, "22");
    CHECK(!mr_far_ini(text, strlen(text), "x", "key", out, sizeof out));
    CHECK(!mr_far_ini(text, strlen(text), "three", "key", out, sizeof out));
}

/* A server on this machine that gives credentials, or does not answer. */
typedef struct giver {
    int asked;
    bool answers;
    const char *key;
} giver;

static bool give(void *user, const char *url, const char *header, bool put, char *out,
                 size_t size) {
    giver *g = user;
    (void)url;
    (void)header;
    (void)put;
    g->asked++;
    snprintf(out, size,
             "{\"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", "
             "\"Expiration\": \"2100-01-01T00:00:00Z\"}",
             g->key);
    return g->answers;
}

static void only_from_container(void) {
    static const char *const others[] = {"AWS_ACCESS_KEY_ID",
                                         "AWS_SECRET_ACCESS_KEY",
                                         "AWS_SESSION_TOKEN",
                                         "AWS_NO_SIGN_REQUEST",
                                         "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                         NULL};
    for (const char *const *one = others; *one; one++) {
        unsetenv(*one);
    }
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/c", 1);
}

TEST(credentials_serve_while_nobody_gives_new_ones) {
    mr_far_account a = {0};
    giver g = {.answers = true, .key = "one"};
    int64_t now = (int64_t)time(NULL);
    only_from_container();
    mr_far_account_find(&a, give, &g);
    CHECK(strcmp(a.key, "one") == 0 && strcmp(a.token, "t") == 0 && g.asked == 1);
    mr_far_account_find(&a, give, &g);
    CHECK_INT(g.asked, ==, 1); /* they last */
    a.expires = now + 200;     /* soon no more; asked long ago */
    a.asked_at = now - 1000;
    g.answers = false;
    mr_far_account_find(&a, give, &g);
    CHECK(strcmp(a.key, "one") == 0 && strcmp(a.secret, "s") == 0 && strcmp(a.token, "t") == 0);
    CHECK(g.asked == 2 && a.expires == now + 200);
    mr_far_account_find(&a, give, &g);
    CHECK_INT(g.asked, ==, 2); /* not at once again */
    a.asked_at = now - 1000;
    g.answers = true;
    g.key = "two";
    mr_far_account_find(&a, give, &g);
    CHECK(strcmp(a.key, "two") == 0 && g.asked == 3);
    a.expires = now - 1; /* run out: then there are none */
    g.answers = false;
    mr_far_account_find(&a, give, &g);
    CHECK(a.key[0] == '\0' && g.asked == 4);
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

/* As an instance's server: a token for who asks by PUT, then a role, then what it may. */
static bool tell_role(void *user, const char *url, const char *header, bool put, char *out,
                      size_t size) {
    const char *base = "http://169.254.169.254/latest/", *name = url + strlen(base);
    int *steps = user;
    const char *answer = NULL;
    if (strncmp(url, base, strlen(base)) != 0 || !header) {
        return false;
    }
    bool has_token = strcmp(header, "X-aws-ec2-metadata-token: T") == 0;
    if (put && strcmp(name, "api/token") == 0) {
        answer = "T";
    } else if (has_token && strcmp(name, "meta-data/iam/security-credentials/") == 0) {
        answer = "reader\n";
    } else if (has_token && strcmp(name, "meta-data/iam/security-credentials/reader") == 0) {
        answer = "{\"AccessKeyId\": \"k\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", "
                 "\"Expiration\": \"2100-01-01T00:00:00Z\"}";
    }
    *steps += answer != NULL;
    snprintf(out, size, "%s", answer ? answer : "");
    return answer != NULL;
}

TEST(an_instance_gives_credentials_unless_it_may_not_be_asked) {
    mr_far_account a = {0};
    int steps = 0;
    only_from_container();
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    mr_far_account_find(&a, tell_role, &steps);
    CHECK(steps == 0 && !a.key[0]); /* AWS_EC2_METADATA_DISABLED */
    unsetenv("AWS_EC2_METADATA_DISABLED");
    a = (mr_far_account){0};
    mr_far_account_find(&a, tell_role, &steps);
    CHECK_INT(steps, ==, 3);
    CHECK_TEXT(a.key, "k");
    CHECK_TEXT(a.secret, "s");
    CHECK_TEXT(a.token, "t");
    CHECK(a.expires > 4000000000);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

/* Whoever comes first in the order of Amazon's tools gives them, though the others would. */
typedef struct everybody {
    giver container;
    int steps; /* of the instance */
} everybody;

static bool ask_everybody(void *user, const char *url, const char *header, bool put, char *out,
                          size_t size) {
    everybody *e = user;
    return strcmp(url, "http://127.0.0.1/c") == 0
               ? give(&e->container, url, header, put, out, size)
               : tell_role(&e->steps, url, header, put, out, size);
}

static void check_key(const char *key) {
    mr_far_account a = {0};
    everybody e = {.container = {.answers = true, .key = "container"}};
    mr_far_account_find(&a, ask_everybody, &e);
    CHECK_TEXT(a.key, key);
    CHECK_INT(e.container.asked, ==, strcmp(key, "container") == 0);
    CHECK_INT(e.steps, ==, strcmp(key, "k") == 0 ? 3 : 0);
}

TEST(credentials_are_found_in_order) {
    const char keys[] = "[default]\naws_access_key_id = file\naws_secret_access_key = s\n"
                        "[other]\naws_access_key_id = profile\naws_secret_access_key = s\n";
    char folder[80], path[128];
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    fixture_write(folder, "keys", keys, strlen(keys));
    snprintf(path, sizeof path, "%s/keys", folder);
    only_from_container();
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    setenv("AWS_ACCESS_KEY_ID", "environment", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
    check_key("environment");
    unsetenv("AWS_SECRET_ACCESS_KEY"); /* half of them is none */
    check_key("file");
    setenv("AWS_PROFILE", "other", 1);
    check_key("profile");
    unsetenv("AWS_PROFILE");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    setenv("AWS_CONFIG_FILE", path, 1);
    check_key("file");
    setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    check_key("container");
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    check_key("k");
    setenv("AWS_NO_SIGN_REQUEST", "yes", 1);
    check_key("");
    unsetenv("AWS_NO_SIGN_REQUEST");
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    fixture_remove(folder);
}

/* ---- Answers ---- */
static mr_far_verdict judge(const char *lines, const mr_far_range *range) {
    mr_far_reply reply;
    mr_far_pin version;
    int64_t skip;
    const char *why;
    mr_far_reply_begin(&reply);
    while (*lines) {
        size_t n = strcspn(lines, "\n") + 1;
        mr_far_reply_line(&reply, lines, n);
        lines += n;
    }
    return mr_far_reply_judge(&reply, range, &skip, &version, &why);
}

TEST(an_answer_is_what_was_asked_for_or_not_taken) {
    const mr_far_range part = {10, 5, {.size = 100, .tag = "\"t\""}};
    const mr_far_range whole = {0, -1, {.size = -1}};
    static const struct {
        const char *lines;
        mr_far_verdict part, whole;
    } cases[] = {
        {"HTTP/1.1 206 P\nContent-Range: bytes 10-14/100\nETag: \"t\"\n", MR_FAR_TAKE,
         MR_FAR_WRONG},
        {"HTTP/2 206\ncontent-range: bytes 10-14/100\ncontent-length: 5\n", MR_FAR_TAKE,
         MR_FAR_WRONG},
        {"HTTP/1.1 206 P\nContent-Range: bytes 10-14/*\n", MR_FAR_TAKE, MR_FAR_WRONG},
        {"HTTP/1.1 206 P\nContent-Range: bytes 10-14/100\nContent-Length: 6\n", MR_FAR_WRONG,
         MR_FAR_WRONG},
        {"HTTP/1.1 206 P\nContent-Range: bytes 10-15/100\n", MR_FAR_WRONG, MR_FAR_WRONG},
        {"HTTP/1.1 206 P\nContent-Range: bytes 10-14/101\n", MR_FAR_CHANGED, MR_FAR_WRONG},
        {"HTTP/1.1 206 P\nContent-Range: bytes 10-14/100\nETag: \"u\"\n", MR_FAR_CHANGED,
         MR_FAR_WRONG},
        {"HTTP/1.1 206 P\n", MR_FAR_WRONG, MR_FAR_WRONG},
        {"HTTP/1.1 206 P\nContent-Range: bytes 14-10/100\n", MR_FAR_WRONG, MR_FAR_WRONG},
        {"HTTP/1.1 206 P\nContent-Range: bytes 10-14/99999999999999999999\n", MR_FAR_WRONG,
         MR_FAR_WRONG},
        {"HTTP/1.1 200 OK\nContent-Length: 100\nETag: \"t\"\n", MR_FAR_TAKE, MR_FAR_TAKE},
        {"HTTP/1.1 200 OK\nContent-Length: 14\n", MR_FAR_CHANGED, MR_FAR_TAKE},
        {"HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n", MR_FAR_WRONG, MR_FAR_WRONG},
        {"HTTP/1.1 200 OK\nContent-Length: 100\nContent-Encoding: gzip\n", MR_FAR_WRONG,
         MR_FAR_WRONG},
        {"HTTP/1.1 100 Go on\n\nHTTP/1.1 503 Busy\n", MR_FAR_AGAIN, MR_FAR_AGAIN},
        {"HTTP/1.1 404 No\n", MR_FAR_REFUSED, MR_FAR_REFUSED},
        {"HTTP/1.1 412 No\n", MR_FAR_CHANGED, MR_FAR_CHANGED},
        {"HTTP/1.1 416 No\nContent-Range: bytes */50\n", MR_FAR_CHANGED, MR_FAR_REFUSED},
        {"HTTP/1.1 416 No\nContent-Range: bytes */0\n", MR_FAR_CHANGED, MR_FAR_EMPTY},
        {"HTTP/1.1 xyz\n", MR_FAR_WRONG, MR_FAR_WRONG},
        {"", MR_FAR_WRONG, MR_FAR_WRONG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT(judge(cases[i].lines, &part), ==, cases[i].part);
        CHECK_INT(judge(cases[i].lines, &whole), ==, cases[i].whole);
    }
}

/* ---- Listings ---- */
typedef struct taken {
    char text[256];
} taken;

static bool take(void *user, const char *key, size_t n, const mr_far_pin *pin) {
    taken *t = user;
    size_t at = strlen(t->text);
    snprintf(t->text + at, sizeof t->text - at, "%.*s %d %s|", (int)n, key, (int)pin->size,
             pin->tag);
    return true;
}

TEST(pages_of_a_listing) {
    char page[] =
        "<?xml?><ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated>"
        "<Contents><Key>a%2Fb+c%25</Key><ETag>&quot;e1&quot;</ETag><Size>5</Size></Contents>"
        "<Contents><Size>0</Size><Key>z&amp;</Key></Contents>"
        "<NextContinuationToken>t&amp;1</NextContinuationToken></ListBucketResult>";
    taken t = {""};
    mr_far_page out;
    CHECK(mr_far_parse_page(page, strlen(page), &out, take, &t));
    CHECK_TEXT(t.text, "a/b c% 5 \"e1\"|z& 0 |");
    CHECK_TEXT(out.token, "t&1");
    free(out.token);
    char cut[] = "<ListBucketResult><Contents><Key>a</Key>";
    CHECK(!mr_far_parse_page(cut, strlen(cut), &out, take, &t));
    char html[] = "<html>log in</html>";
    CHECK(!mr_far_parse_page(html, strlen(html), &out, take, &t));
}

/* ---- A server that misbehaves ---- */
static far_bad bad;

static char *address(char *out, size_t size, const char *mode, int number, bool pinned) {
    snprintf(out, size, "http://127.0.0.1:%d/%s/%d/x%s", bad.port, mode, number,
             pinned ? "#size=300&tag=%22one%22" : "");
    return out;
}

static bool is_right(const unsigned char *bytes, int from, int n) {
    for (int i = 0; i < n; i++) {
        if (bytes[i] != far_byte(from + i)) {
            return false;
        }
    }
    return true;
}

/* Bytes 20 to 119 of a pinned object. */
static mr_status read_range(const char *mode, int number, unsigned char *to) {
    char url[128];
    forget_error();
    memset(to, 0, 100);
    return mr_far_read(address(url, sizeof url, mode, number, true), 20, 100, to, NULL, &err);
}

typedef struct whole_object {
    unsigned char bytes[FAR_BYTES + 64];
    mr_status status;
    size_t size;
} whole_object;

static bool place(mr_far_task *task, size_t size) {
    whole_object *o = task->user;
    task->to = size <= sizeof o->bytes ? o->bytes : NULL;
    return true;
}

static void done(mr_far_task *task) {
    whole_object *o = task->user;
    o->status = task->status;
    o->size = task->size;
    err = task->err;
}

/* All of an object of which nothing is known. */
static void read_whole(const char *mode, int number, whole_object *o) {
    char url[128];
    mr_far_line *line = NULL;
    CHECK_INT(mr_far_line_open(&line, NULL, &err), ==, MR_OK);
    mr_far_task task = {.path = address(url, sizeof url, mode, number, false),
                        .length = -1,
                        .limit = FAR_BYTES,
                        .place = place,
                        .done = done,
                        .user = o};
    mr_far_line_start(line, &task);
    while (mr_far_line_run(line, 1000) > 0) {
    }
    mr_far_line_close(line);
}

/* ---- Pace ---- */
/* A window at a server that gives so many bytes a second for each of `useful` requests at once. */
static int64_t pace_window(mr_far_pace *pace, int64_t now, double useful) {
    int32_t n = 2 * (int32_t)pace->width;
    double width = pace->width < useful ? pace->width : useful;
    int64_t each = (int64_t)(1e9 * 1000 / (1e6 * width));
    for (int32_t i = 0; i < n; i++) {
        now += each;
        mr_far_pace_done(pace, 1000, 0.02, true, now);
    }
    return now;
}

TEST(more_requests_where_they_bring_more) {
    mr_far_pace pace;
    int64_t now = 0;
    mr_far_pace_begin(&pace, now);
    for (int i = 0; i < 5; i++) {
        now = pace_window(&pace, now, 1000);
    }
    CHECK_INT(pace.width, ==, MR_FAR_MOST_REQUESTS);
    mr_far_pace_busy(&pace, now);
    CHECK_INT(pace.width, ==, MR_FAR_MOST_REQUESTS / 2);
    for (int i = 0; i < 20; i++) {
        mr_far_pace_busy(&pace, now);
    }
    CHECK_INT(pace.width, ==, 2);
    for (int i = 0; i < 30; i++) {
        now = pace_window(&pace, now, 1000);
    }
    CHECK_INT(pace.width, ==, MR_FAR_MOST_REQUESTS);
    int narrower = 0;
    for (int i = 0; i < 100; i++) { /* fewer are tried, seldom, and given up at once */
        now = pace_window(&pace, now, 1000);
        narrower += pace.width < MR_FAR_MOST_REQUESTS;
    }
    CHECK(narrower > 0 && narrower < 10);
}

/* A server whose rate falls by half for every 16 requests too many. */
TEST(fewer_requests_where_they_bring_more) {
    mr_far_pace pace;
    int64_t now = 0;
    mr_far_pace_begin(&pace, now);
    for (int i = 0; i < 100; i++) {
        now = pace_window(&pace, now, pace.width > 16 ? 256 / pace.width : 16);
    }
    CHECK(pace.width >= 14 && pace.width <= 22);
}

TEST(no_more_requests_where_they_bring_nothing) {
    mr_far_pace pace;
    int64_t now = 0;
    mr_far_pace_begin(&pace, now);
    for (int i = 0; i < 100; i++) {
        now = pace_window(&pace, now, 8);
    }
    CHECK(pace.width >= 20 && pace.width <= 48 && pace.narrowed > 0); /* 32, or another on trial */
    double before = pace.width;
    for (int i = 0; i < 100; i++) { /* nobody waits: the rate says nothing about the width */
        mr_far_pace_done(&pace, 1, 0.02, false, now += 1000000);
    }
    CHECK(pace.width == before);
}

TEST(slow_is_what_one_of_a_hundred_is) {
    mr_far_pace pace;
    mr_far_pace_begin(&pace, 0);
    for (int i = 0; i < 31; i++) {
        mr_far_pace_done(&pace, 1, 0.1, false, i);
    }
    CHECK(mr_far_pace_slow(&pace) == 5); /* too few to tell */
    for (int i = 31; i < 300; i++) {
        mr_far_pace_done(&pace, 1, i % 50 == 0 ? 0.7 : 0.1, false, i);
    }
    CHECK(mr_far_pace_slow(&pace) == 0.7);
    for (int i = 0; i < 300; i++) {
        mr_far_pace_done(&pace, 1, 0.1, false, i);
    }
    CHECK(mr_far_pace_slow(&pace) == 0.2); /* twice what is usual */
    for (int i = 0; i < 300; i++) {
        mr_far_pace_done(&pace, 1, 0.0001, false, i);
    }
    CHECK(mr_far_pace_slow(&pace) == 0.02);
}

TEST(what_passes_is_waited_for) {
    static const char *const modes[] = {"ok",    "busy",    "broken", "short",
                                        "whole", "chunked", "moved",  NULL};
    unsigned char bytes[100];
    whole_object o;
    for (const char *const *mode = modes; *mode; mode++) {
        far_forget(&bad);
        CHECK_INT(read_range(*mode, 3, bytes), ==, MR_OK);
        CHECK(is_right(bytes, 20, 100));
        far_forget(&bad);
        read_whole(*mode, 3, &o);
        CHECK_INT(o.status, ==, MR_OK);
        CHECK(o.size == FAR_BYTES && is_right(o.bytes, 0, FAR_BYTES));
        if (test_failures) {
            fprintf(stderr, "mode %s: %s\n", *mode, err.text);
        }
    }
}

TEST(a_connection_may_break_at_every_byte) {
    unsigned char bytes[100];
    for (int at = 0; at < 280; at += at < 150 ? 1 : 7) {
        far_forget(&bad);
        CHECK_INT(read_range("reset", at, bytes), ==, MR_OK);
        CHECK(is_right(bytes, 20, 100));
    }
}

TEST(what_does_not_pass_is_an_error_that_says_all) {
    static const struct {
        const char *mode;
        mr_status range, whole;
        const char *words;
    } cases[] = {
        {"always500", MR_E_IO, MR_E_IO, "the server says 500, request R17, after 4 attempts"},
        {"denied", MR_E_IO, MR_E_IO, "the server says 403, request R17"},
        {"range", MR_E_CORRUPT, MR_E_CORRUPT, "another range"},
        {"long", MR_E_IO, MR_E_IO, "more bytes than it said"},
        {"gzip", MR_E_CORRUPT, MR_E_CORRUPT, "compressed"},
        {"login", MR_E_CORRUPT, MR_OK, ""},
        {"headers", MR_E_IO, MR_E_IO, "headers"},
        {"noise", MR_E_IO, MR_E_IO, ""},
        {"loop", MR_E_IO, MR_E_IO, "more than 5 times"},
        {"tofile", MR_E_PARAM, MR_E_PARAM, "only http and https"},
        {"tometa", MR_E_PARAM, MR_E_PARAM, "link-local"},
        {"changed", MR_E_CORRUPT, MR_E_CORRUPT, "another version"},
        {"other", MR_E_CORRUPT, MR_OK, ""},
    };
    unsigned char bytes[100];
    whole_object o;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = test_failures;
        far_forget(&bad);
        CHECK_INT(read_range(cases[i].mode, 1, bytes), ==, cases[i].range);
        CHECK(strstr(err.text, cases[i].words) != NULL);
        CHECK(strncmp(err.source, "http://127.0.0.1:", 17) == 0 && !strchr(err.source, '#'));
        CHECK(strncmp(err.text, "bytes 20 to 119: ", 17) == 0);
        CHECK_INT(err.offset, ==, 20);
        far_forget(&bad);
        read_whole(cases[i].mode, 1, &o);
        CHECK_INT(o.status, ==, cases[i].whole);
        if (test_failures > before) {
            fprintf(stderr, "mode %s: %s\n", cases[i].mode, err.text);
        }
    }
}

TEST(bytes_that_do_not_come_are_asked_for_again_and_given_up) {
    unsigned char bytes[100];
    setenv("MILLRACE_FAR_STALL", "1", 1);
    far_forget(&bad);
    CHECK_INT(read_range("drip", 1, bytes), ==, MR_OK);
    CHECK(is_right(bytes, 20, 100));
    CHECK_INT(read_range("hang", 2, bytes), ==, MR_OK);
    CHECK(is_right(bytes, 20, 100));
    CHECK_INT(read_range("silent", 3, bytes), ==, MR_E_IO);
    CHECK(strstr(err.text, "after 4 attempts") != NULL);
    setenv("MILLRACE_FAR_STALL", "2", 1);
}

TEST(only_hosts_that_may_be_reached_are) {
    unsigned char bytes[100];
    setenv("MILLRACE_HOSTS", "example.org,*.example.com", 1);
    CHECK_INT(read_range("ok", 1, bytes), ==, MR_E_PARAM);
    CHECK(strstr(err.text, "MILLRACE_HOSTS") != NULL);
    CHECK(mr_far_host_allowed("a.example.com") && mr_far_host_allowed("EXAMPLE.org"));
    CHECK(!mr_far_host_allowed("example.com") && !mr_far_host_allowed("badexample.com"));
    setenv("MILLRACE_HOSTS", "", 1);
    CHECK_INT(read_range("ok", 1, bytes), ==, MR_E_PARAM);
    setenv("MILLRACE_HOSTS", "127.0.0.1", 1);
    CHECK_INT(read_range("ok", 1, bytes), ==, MR_OK);
    unsetenv("MILLRACE_HOSTS");
}

/* One range after the other, so that each is sent as the one before was. */
static mr_status read_by(mr_far_line *line, const char *path, int64_t length, whole_object *o) {
    mr_far_task task = {.path = path,
                        .length = length,
                        .limit = FAR_BYTES,
                        .place = place,
                        .to = length >= 0 ? o->bytes : NULL,
                        .done = done,
                        .user = o};
    memset(o, 0, sizeof *o);
    mr_far_line_start(line, &task);
    while (mr_far_line_run(line, 1000) > 0) {
    }
    return o->status;
}

/* Bytes may take an hour here, and there is one attempt and no more: only a third request beside
 * two that hang brings them. */
TEST(a_second_request_may_hang_as_the_first) {
    char url[128];
    whole_object o;
    mr_far_line *line = NULL;
    setenv("MILLRACE_FAR_ATTEMPTS", "1", 1);
    setenv("MILLRACE_FAR_STALL", "3600", 1);
    far_forget(&bad);
    CHECK_INT(mr_far_line_open(&line, NULL, &err), ==, MR_OK);
    for (int i = 0; i < 40; i++) {
        read_by(line, address(url, sizeof url, "ok", 1, true), 50, &o);
    }
    CHECK_INT(read_by(line, address(url, sizeof url, "hang", 2, true), 50, &o), ==, MR_OK);
    CHECK(is_right(o.bytes, 0, 50));
    mr_far_figures figures;
    mr_far_line_figures(line, &figures);
    CHECK_INT(figures.hedges, >=, 2);
    mr_far_line_close(line);
    setenv("MILLRACE_FAR_STALL", "2", 1);
    setenv("MILLRACE_FAR_ATTEMPTS", "4", 1);
}

/* The first four requests hang, which are one attempt; of nine that would, no more than four are
 * sent in one. */
TEST(requests_beside_one_that_hangs_are_no_further_attempts) {
    char url[128];
    whole_object o;
    mr_far_line *line = NULL;
    setenv("MILLRACE_FAR_STALL", "1", 1);
    for (int attempts = 1; attempts <= 2; attempts++) {
        setenv("MILLRACE_FAR_ATTEMPTS", attempts == 1 ? "1" : "2", 1);
        far_forget(&bad);
        CHECK_INT(mr_far_line_open(&line, NULL, &err), ==, MR_OK);
        for (int i = 0; i < 100; i++) {
            read_by(line, address(url, sizeof url, "ok", 1, true), 50, &o);
        }
        int number = attempts == 1 ? 9 : 4;
        mr_status status = read_by(line, address(url, sizeof url, "hang", number, true), 50, &o);
        CHECK_INT(status, ==, attempts == 1 ? MR_E_IO : MR_OK);
        CHECK_INT(bad.asked[number], ==, attempts == 1 ? 4 : 5);
        mr_far_line_close(line);
    }
    setenv("MILLRACE_FAR_STALL", "2", 1);
    setenv("MILLRACE_FAR_ATTEMPTS", "4", 1);
}

static int64_t retries_of(const mr_far_line *line) {
    mr_far_figures figures;
    mr_far_line_figures(line, &figures);
    return figures.retries;
}

/* Here 64 requests hang, 32 at a time: the second 32 while the first are due again. */
TEST(what_is_due_again_waits_without_looking_all_the_time) {
    enum { WIDTH = 32, TASKS = 2 * WIDTH };
    static whole_object o[TASKS];
    static mr_far_task tasks[TASKS];
    char url[128];
    mr_far_line *line = NULL;
    setenv("MILLRACE_FAR_STALL", "1", 1);
    CHECK_INT(mr_far_line_open(&line, NULL, &err), ==, MR_OK);
    address(url, sizeof url, "silent", 1, true);
    for (int i = 0; i < TASKS; i++) {
        o[i] = (whole_object){0};
        tasks[i] =
            (mr_far_task){.path = url, .length = 50, .to = o[i].bytes, .done = done, .user = &o[i]};
        mr_far_line_start(line, &tasks[i]);
    }
    while (retries_of(line) < WIDTH) {
        mr_far_line_run(line, 1000);
    }
    int64_t begun = mr_far_now(), runs = 0;
    for (; retries_of(line) == WIDTH; runs++) {
        mr_far_line_run(line, 1000);
    }
    CHECK_INT(runs, <, 4 * TASKS + (mr_far_now() - begun) / 2000000);
    mr_far_line_close(line);
    setenv("MILLRACE_FAR_STALL", "2", 1);
}

/* What one reader of addresses takes for a path another takes for a name, or for a host. */
static void check_second_readings(mr_far_line *line) {
    char text[128];
    whole_object o;
    const char *const forms[] = {"http://127.0.0.1:%d\\@localhost:%d/ok/1/x",
                                 "http:///127.0.0.1:%d/ok/1/x", "http:///localhost:%d/ok/1/x",
                                 "http://127.0.0.1:%d/..\\@localhost:%d/ok/1/x"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        snprintf(text, sizeof text, forms[i], bad.port, bad.port);
        mr_status status = read_by(line, text, 50, &o);
        CHECK(status < 0 || i == 1);
    }
}

TEST(a_request_has_nothing_of_the_one_before) {
    char nobody[128], endpoint[128], other[128], user[128];
    whole_object o;
    mr_far_line *line = NULL;
    address(nobody, sizeof nobody, "nobody", 1, false);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d/signed/1", bad.port);
    snprintf(other, sizeof other, "http://localhost:%d/ok/1/x", bad.port);
    snprintf(user, sizeof user, "http://127.0.0.1:%d@127.0.0.1:%d/ok/1/x", bad.port, bad.port);
    setenv("AWS_ENDPOINT_URL", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "key", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("MILLRACE_HOSTS", "127.0.0.1", 1);
    CHECK_INT(mr_far_line_open(&line, NULL, &err), ==, MR_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(read_by(line, nobody, 100, &o), ==, MR_OK);
        CHECK(o.size == 100 && is_right(o.bytes, 0, 100));
        CHECK_INT(read_by(line, nobody, -1, &o), ==, MR_OK); /* without the range of before */
        CHECK(o.size == FAR_BYTES && is_right(o.bytes, 0, FAR_BYTES));
        CHECK_INT(read_by(line, "s3://bucket/key", 50, &o), ==, MR_OK);
        CHECK(o.size == 50 && is_right(o.bytes, 0, 50));
        CHECK_INT(read_by(line, other, 50, &o), ==, MR_E_PARAM); /* a host that may not be asked */
        CHECK_INT(read_by(line, user, 50, &o), ==, MR_E_PARAM);
        check_second_readings(line);
    }
    mr_far_line_close(line);
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    unsetenv("MILLRACE_HOSTS");
}

TEST(addresses_have_no_passwords) {
    unsigned char byte;
    forget_error();
    CHECK_INT(mr_far_read("http://me:secret@127.0.0.1/x", 0, 1, &byte, NULL, &err), ==, MR_E_PARAM);
    CHECK(strstr(err.text, "password") != NULL);
}

TEST(a_proxy_of_the_environment_is_asked) {
    unsigned char bytes[100];
    char proxy[64];
    const char *there = "http://127.0.0.2:9/ok/1/x"; /* where nobody is */
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", bad.port);
    setenv("http_proxy", proxy, 1);
    forget_error();
    CHECK_INT(mr_far_read(there, 20, 100, bytes, NULL, &err), ==, MR_OK);
    CHECK(is_right(bytes, 20, 100));
    setenv("no_proxy", "127.0.0.2", 1);
    CHECK_INT(mr_far_read(there, 20, 100, bytes, NULL, &err), ==, MR_E_IO);
    unsetenv("no_proxy");
    unsetenv("http_proxy");
}

TEST(nobody_listens) {
    unsigned char byte;
    int port;
    char url[64];
    close(far_listen(&port));
    snprintf(url, sizeof url, "http://127.0.0.1:%d/x", port);
    forget_error();
    CHECK_INT(mr_far_read(url, 0, 1, &byte, NULL, &err), ==, MR_E_IO);
    CHECK(strstr(err.text, "after 4 attempts") != NULL);
}

/* ---- nginx in place of a folder ---- */
static far_nginx server;

/* Photos below www, and a list of them. */
static void make_photos(int n) {
    char path[160];
    far_path(path, sizeof path, &server, "www/list.txt");
    FILE *list = fopen(path, "w");
    for (int i = 0; list && i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "www/p %d.jpg", i);
        far_path(path, sizeof path, &server, name);
        fixture_jpeg(path, i);
        fprintf(list, "p %d.jpg\t%d\n", i, i % 5);
    }
    if (list) {
        fclose(list);
    }
}

static void list_document(char *out, size_t size, const char *root) {
    snprintf(
        out, size,
        "{\"source\": {\"files\": {\"list\": \"%s/list.txt\"}}, \"ops\": [{\"decode_image\": "
        "{}}, {\"resize\": {\"size\": [16, 16]}}], \"batch\": 7, \"shuffle\": true, \"seed\": 3}",
        root);
}

/* The digest of two epochs, or how it failed. */
static mr_status run(const char *document, char digest[33]) {
    mr_options options = MR_OPTIONS_INIT;
    options.epochs = 2;
    options.digest = true;
    options.threads = 2;
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    forget_error();
    snprintf(digest, 33, "none");
    mr_status status = mr_pipeline_parse(&pipeline, document, strlen(document), NULL, &err);
    if (status == MR_OK) {
        status = mr_loader_open(&loader, pipeline, &options, &err);
    }
    mr_batch *batch;
    while (status == MR_OK && (status = mr_loader_next(loader, &batch, &err)) == MR_OK) {
        mr_batch_unref(batch);
    }
    if (status == MR_END) {
        mr_loader_digest(loader, digest);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return status;
}

TEST(a_list_of_photos_on_a_server_gives_what_files_give) {
    char near[512], far[512], root[160], here[33], there[33];
    make_photos(40);
    far_path(root, sizeof root, &server, "www");
    list_document(near, sizeof near, root);
    snprintf(root, sizeof root, "http://127.0.0.1:%d", server.port);
    list_document(far, sizeof far, root);
    CHECK_INT(run(near, here), ==, MR_END);
    CHECK_INT(run(far, there), ==, MR_END);
    CHECK_TEXT(there, here);
}

#define STORE "/tmp/millrace-test-objects"

/* Bytes that a kind of origin gave in a run of one epoch. */
typedef struct gave {
    char digest[33];
    int64_t kept, fetched;
} gave;

static gave run_with_store(const char *document) {
    gave out = {"none", 0, 0};
    mr_pipeline *pipeline = fixture_pipeline(document);
    mr_options options = MR_OPTIONS_INIT;
    options.digest = true;
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch;
    while (mr_loader_next(loader, &batch, &err) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_loader_digest(loader, out.digest);
    for (int32_t i = 0; i < mr_loader_n_origins(loader); i++) {
        mr_origin_stats stats = {.size = sizeof stats};
        mr_loader_origin(loader, i, &stats);
        out.kept += strcmp(stats.name, "objects") == 0 ? stats.found : 0;
        out.fetched += strcmp(stats.name, "object") == 0 ? stats.found : 0;
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return out;
}

static void damage_file(const char *path, int64_t size) {
    int fd = open(path, O_RDWR);
    unsigned char byte = 0;
    for (int64_t at = 4096; at < size; at += 512) {
        if (pread(fd, &byte, 1, at) == 1) {
            byte ^= 0x55;
            CHECK_INT(pwrite(fd, &byte, 1, at), ==, 1);
        }
    }
    close(fd);
}

static int damage_segment(const char *path, const struct stat *info, int kind, struct FTW *where) {
    size_t n = strlen(path);
    (void)kind;
    (void)where;
    if (n > 4 && strcmp(path + n - 4, ".seg") == 0) {
        damage_file(path, info->st_size);
    }
    return 0;
}

static void open_store(char *document, size_t size) {
    char root[160];
    make_photos(40);
    fixture_remove(STORE);
    snprintf(root, sizeof root, "http://127.0.0.1:%d", server.port);
    list_document(document, size, root);
    setenv("MILLRACE_OBJECTS_SIZE", "50000000", 1);
}

static void close_store(void) {
    unsetenv("MILLRACE_OBJECTS");
    unsetenv("MILLRACE_OBJECTS_SIZE");
    fixture_remove(STORE);
}

TEST(what_was_fetched_once_is_kept) {
    char far[512];
    open_store(far, sizeof far);
    gave without = run_with_store(far);
    CHECK(without.fetched == 40 && without.kept == 0);
    setenv("MILLRACE_OBJECTS", STORE, 1);
    gave first = run_with_store(far), second = run_with_store(far);
    CHECK(first.fetched == 40 && first.kept == 0);
    CHECK(second.fetched == 0 && second.kept == 40);
    CHECK_TEXT(first.digest, without.digest);
    CHECK_TEXT(second.digest, without.digest);
    close_store();
}

TEST(what_is_damaged_is_fetched_again) {
    char far[512];
    open_store(far, sizeof far);
    setenv("MILLRACE_OBJECTS", STORE, 1);
    gave first = run_with_store(far);
    nftw(STORE, damage_segment, 16, FTW_PHYS);
    gave second = run_with_store(far);
    CHECK_INT(second.fetched + second.kept, ==, 40);
    CHECK(second.fetched > 0);
    CHECK_TEXT(second.digest, first.digest);
    close_store();
}

TEST(an_object_that_is_replaced_is_an_error_that_names_it) {
    char far[512], root[160], path[160], beside[160];
    make_photos(40);
    snprintf(root, sizeof root, "http://127.0.0.1:%d", server.port);
    list_document(far, sizeof far, root);
    mr_pipeline *pipeline = fixture_pipeline(far);
    mr_options options = MR_OPTIONS_INIT;
    options.epochs = 100;
    mr_loader *loader = fixture_loader(pipeline, &options);
    far_path(path, sizeof path, &server, "www/p 17.jpg");
    mr_batch *batch;
    forget_error();
    mr_status status = mr_loader_next(loader, &batch, &err);
    CHECK_INT(status, ==, MR_OK);
    far_path(beside, sizeof beside, &server, "new");
    fixture_jpeg(beside, 99);
    CHECK_INT(rename(beside, path), ==, 0);
    while (status == MR_OK) {
        mr_batch_unref(batch);
        status = mr_loader_next(loader, &batch, &err);
    }
    CHECK_INT(status, ==, MR_E_CORRUPT);
    CHECK(strstr(err.text, "another version") != NULL);
    CHECK(strstr(err.source, "p 17.jpg") || strstr(err.source, "p%2017.jpg"));
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

/* Bytes of one list of objects under "on_error": "skip"; how many were skipped. */
static mr_status run_skipping(const char *list, int64_t *skipped) {
    char document[512], folder[80];
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    fixture_write(folder, "list", list, strlen(list));
    snprintf(document, sizeof document,
             "{\"source\": {\"files\": {\"list\": \"%s/list\"}}, \"ops\": [], \"batch\": 1, "
             "\"shuffle\": false, \"on_error\": \"skip\"}",
             folder);
    mr_pipeline *pipeline = fixture_pipeline(document);
    mr_loader *loader = fixture_loader(pipeline, NULL);
    mr_stats stats = {.size = sizeof stats};
    mr_batch *batch;
    mr_status status;
    forget_error();
    while ((status = mr_loader_next(loader, &batch, &err)) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_loader_stats(loader, &stats);
    *skipped = stats.skipped;
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
    return status;
}

/* A server that fails for a while would change which samples a run sees; an object that is gone is
 * the sample's own trouble. */
TEST(what_fails_on_the_servers_side_is_not_skipped) {
    static const char *const modes[] = {"always500", "denied", "noise", NULL};
    char good[128], other[128], list[512];
    int64_t skipped;
    address(good, sizeof good, "ok", 1, true);
    for (const char *const *mode = modes; *mode; mode++) {
        far_forget(&bad);
        snprintf(list, sizeof list, "%s\t1\n%s\t2\n", good,
                 address(other, sizeof other, *mode, 2, true));
        CHECK_INT(run_skipping(list, &skipped), ==, MR_E_IO);
        CHECK_INT(skipped, ==, 0);
        CHECK(strstr(err.source, *mode) != NULL);
    }
    snprintf(list, sizeof list, "%s\t1\nhttp://127.0.0.1:%d/none.jpg#size=3&tag=%%22x%%22\t2\n",
             good, server.port);
    CHECK_INT(run_skipping(list, &skipped), ==, MR_END);
    CHECK_INT(skipped, ==, 1);
}

/* The environment has the last word, and says nothing here. */
TEST(what_a_document_says_of_servers_holds_while_it_is_compiled) {
    char url[128], document[320];
    mr_pipeline *pipeline = NULL;
    unsetenv("MILLRACE_FAR_ATTEMPTS");
    far_forget(&bad);
    snprintf(document, sizeof document,
             "{\"source\": {\"parquet\": {\"path\": \"%s\"}}, \"ops\": [], \"batch\": 1, "
             "\"servers\": {\"attempts\": 1}}",
             address(url, sizeof url, "always500", 41, false));
    forget_error();
    CHECK_INT(mr_pipeline_parse(&pipeline, document, strlen(document), NULL, &err), ==, MR_E_IO);
    CHECK_INT(bad.asked[41], ==, 1);
    setenv("MILLRACE_FAR_ATTEMPTS", "4", 1);
}

/* By whatever thread: what a run reads has the limits of its dataset with it. */
TEST(an_extent_is_opened_and_read_within_limits) {
    char url[128], bytes[100];
    const mr_far_limits limits = {.attempts = 1};
    mr_open_extent open;
    unsetenv("MILLRACE_FAR_ATTEMPTS");
    far_forget(&bad);
    forget_error();
    mr_extent extent = {.path = address(url, sizeof url, "always500", 42, false),
                        .length = sizeof bytes,
                        .limit = INT64_MAX};
    CHECK_INT(mr_extent_open_within(&extent, &limits, &open, &err), ==, MR_E_IO);
    CHECK_INT(bad.asked[42], ==, 1);
    extent.path = address(url, sizeof url, "always500", 43, true);
    CHECK_INT(mr_extent_open_within(&extent, &limits, &open, &err), ==, MR_OK);
    CHECK_INT(mr_extent_read(&open, bytes, &err), ==, MR_E_IO);
    CHECK_INT(bad.asked[43], ==, 1);
    mr_extent_close(&open);
    setenv("MILLRACE_FAR_ATTEMPTS", "4", 1);
}

/* Every thread that reads has a track: of files, where each read is one, and of objects. */
TEST(files_and_objects_in_one_mix_are_read_and_traced) {
    char root[2][160], trace[160], document[16 * 512] = "{\"source\": {\"mix\": {\"children\": [";
    make_photos(10);
    far_path(root[0], sizeof root[0], &server, "www");
    snprintf(root[1], sizeof root[1], "http://127.0.0.1:%d", server.port);
    far_path(trace, sizeof trace, &server, "trace");
    for (int i = 0; i < 8; i++) {
        size_t at = strlen(document);
        snprintf(document + at, sizeof document - at,
                 "%s{\"source\": {\"files\": {\"list\": \"%s/list.txt\"}}, \"ops\": "
                 "[{\"decode_image\": {}}, {\"resize\": {\"size\": [16, 16]}}]}",
                 i ? ", " : "", root[i % 2]);
    }
    strcat(document, "]}}, \"batch\": 8}");
    mr_pipeline *pipeline = fixture_pipeline(document);
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 3;
    options.reads_in_flight = 5;
    options.io = MR_IO_PREAD;
    options.trace = trace;
    mr_loader *loader = fixture_loader(pipeline, &options);
    mr_batch *batch;
    mr_status status;
    forget_error();
    while ((status = mr_loader_next(loader, &batch, &err)) == MR_OK) {
        mr_batch_unref(batch);
    }
    CHECK_INT(status, ==, MR_END);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

/* The limit for bytes that do not come is an hour here: who would wait for it waits too long. */
TEST(requests_in_flight_do_not_hold_up_the_end) {
    char document[1024], url[128], folder[80];
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    setenv("MILLRACE_FAR_STALL", "3600", 1);
    address(url, sizeof url, "silent", 1, true);
    char list[256];
    int n = snprintf(list, sizeof list, "%s\t1\n%s\t2\n", url, url);
    fixture_write(folder, "list", list, (size_t)n);
    snprintf(document, sizeof document,
             "{\"source\": {\"files\": {\"list\": \"%s/list\"}}, \"ops\": [], \"batch\": 2}",
             folder);
    mr_pipeline *pipeline = fixture_pipeline(document);
    mr_loader *loader = fixture_loader(pipeline, NULL);
    while (atomic_load(&bad.asked[1]) == 0) {
        far_nap();
    }
    mr_loader_cancel(loader);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    setenv("MILLRACE_FAR_STALL", "2", 1);
    fixture_remove(folder);
}

__attribute__((constructor)) static void begin(void) {
    setenv("MILLRACE_FAR_STALL", "2", 1);
    setenv("MILLRACE_FAR_ATTEMPTS", "4", 1);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    far_bad_begin(&bad);
    far_nginx_begin(&server);
}

__attribute__((destructor)) static void end(void) {
    far_bad_end(&bad);
    far_nginx_end(&server);
    fixture_remove(server.folder);
}

TEST_MAIN()
