/* SPDX-License-Identifier: Apache-2.0 */
/* redis_server.c - see redis_server.h. MR_REQUIRES(hiredis) */
#include "fabric/redis_server.h"

#include <errno.h>
#include <millrace/millrace.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "fabric/seal.h"

static const double FIRST_PAUSE = 0.05, LAST_PAUSE = 5, FULL_PAUSE = 1;

/* ---- Replies, as hiredis finds them ---- */

static mr_parcel *expected_now(const mr_redis_server *s) {
    return s->first_expected < s->n_expected ? s->expected[s->first_expected] : NULL;
}

static void take_value(mr_redis_server *s, mr_parcel *parcel, const char *bytes, size_t size) {
    bool memory = false;
    parcel->value =
        mr_seal_open(bytes, size, parcel->key, parcel->key_size, &parcel->size, &memory);
    parcel->done = parcel->value;
    if (parcel->done) {
        s->stats->found++;
        s->stats->bytes_in += (int64_t)parcel->size;
    } else {
        s->memory |= memory;
        s->stats->damaged += !memory;
    }
}

static void take_error(mr_redis_server *s, const mr_parcel *parcel, const char *text, size_t size) {
    bool full = size >= 3 && memcmp(text, "OOM", 3) == 0;
    s->rejected |= !parcel;
    s->stats->full += full;
    s->full |= full;
    snprintf(s->stats->trouble, sizeof s->stats->trouble, "%.64s: %.*s", s->url.name,
             (int)(size < 100 ? size : 100), text);
}

/* Replies are not kept: any pointer but NULL says that one came. */
static void *on_text(const redisReadTask *task, char *text, size_t size) {
    mr_redis_server *s = task->privdata;
    mr_parcel *parcel = expected_now(s);
    if (task->type == REDIS_REPLY_ERROR) {
        take_error(s, parcel, text, size);
    } else if (parcel && s->getting && task->type == REDIS_REPLY_STRING) {
        take_value(s, parcel, text, size);
    } else if (parcel && !s->getting && task->type == REDIS_REPLY_STATUS) {
        parcel->done = true;
        s->stats->kept++;
        s->stats->bytes_out += (int64_t)parcel->size;
    } else if (parcel) {
        s->rejected = true;
    }
    return s;
}

/* No command that is sent here is answered with an array or a number. */
static void *on_array(const redisReadTask *task, int elements) {
    (void)task;
    (void)elements;
    return NULL;
}

static void *on_number(const redisReadTask *task, long long number) {
    (void)task;
    (void)number;
    return NULL;
}

/* A get: not here. A put: the key has a value, which was to be left alone. */
static void *on_nil(const redisReadTask *task) {
    const mr_redis_server *s = task->privdata;
    mr_parcel *parcel = expected_now(s);
    if (parcel && !s->getting) {
        parcel->taken = true;
    }
    return task->privdata;
}

static void on_free(void *reply) {
    (void)reply;
}

static redisReplyObjectFunctions reply_functions = {.createString = on_text,
                                                    .createArray = on_array,
                                                    .createInteger = on_number,
                                                    .createNil = on_nil,
                                                    .freeObject = on_free};

/* ---- Commands ---- */

static bool reserve(mr_redis_server *s, size_t more) {
    size_t wanted = s->out_size + more, capacity = s->out_capacity ? s->out_capacity : 4096;
    while (capacity < wanted) {
        capacity *= 2;
    }
    if (capacity > s->out_capacity) {
        char *out = realloc(s->out, capacity);
        if (!out) {
            return false;
        }
        s->out = out;
        s->out_capacity = capacity;
    }
    return true;
}

static bool expect(mr_redis_server *s, mr_parcel *parcel) {
    if (s->n_expected == s->expected_capacity) {
        size_t capacity = s->expected_capacity ? 2 * s->expected_capacity : 64;
        mr_parcel **expected = realloc(s->expected, capacity * sizeof(mr_parcel *));
        if (!expected) {
            return false;
        }
        s->expected = expected;
        s->expected_capacity = capacity;
    }
    s->expected[s->n_expected++] = parcel;
    return true;
}

static void append(mr_redis_server *s, const void *bytes, size_t size) {
    if (size > 0) {
        memcpy(s->out + s->out_size, bytes, size);
        s->out_size += size;
    }
}

static void append_count(mr_redis_server *s, char mark, size_t count) {
    char text[32];
    append(s, text, (size_t)snprintf(text, sizeof text, "%c%zu\r\n", mark, count));
}

bool mr_redis_server_send(mr_redis_server *server, mr_parcel *parcel, const void *const *words,
                          const size_t *sizes, int n) {
    size_t size = 32;
    for (int i = 0; i < n; i++) {
        size += sizes[i] + 32;
    }
    if (!reserve(server, size) || !expect(server, parcel)) {
        return false;
    }
    append_count(server, '*', (size_t)n);
    for (int i = 0; i < n; i++) {
        append_count(server, '$', sizes[i]);
        append(server, words[i], sizes[i]);
        append(server, "\r\n", 2);
    }
    return true;
}

static bool send_texts(mr_redis_server *s, const char *a, const char *b, const char *c) {
    const void *words[] = {a, b, c};
    size_t sizes[] = {strlen(a), b ? strlen(b) : 0, c ? strlen(c) : 0};
    return mr_redis_server_send(s, NULL, words, sizes, 1 + (b != NULL) + (c != NULL));
}

static bool greet(mr_redis_server *s) {
    char db[16];
    bool ok = true;
    if (s->url.password[0]) {
        ok = s->url.user[0] ? send_texts(s, "AUTH", s->url.user, s->url.password)
                            : send_texts(s, "AUTH", s->url.password, NULL);
    }
    if (s->url.db > 0) {
        snprintf(db, sizeof db, "%d", (int)s->url.db);
        ok = ok && send_texts(s, "SELECT", db, NULL);
    }
    return ok && send_texts(s, "PING", NULL, NULL);
}

/* ---- Connections ---- */

static void drop_connection(mr_redis_server *s) {
    mr_secure_end(s->tls);
    s->tls = NULL;
    if (s->fd >= 0) {
        close(s->fd);
    }
    if (s->reader) {
        redisReaderFree(s->reader);
    }
    s->fd = -1;
    s->reader = NULL;
    s->connecting = s->on_trial = s->rejected = false;
    s->out_size = s->out_sent = s->n_expected = s->first_expected = s->unread = 0;
}

void mr_redis_server_fail(mr_redis_server *server, double now, const char *why) {
    if (!server->rejected) { /* else the server's own words are better */
        snprintf(server->stats->trouble, sizeof server->stats->trouble, "%.64s: %.100s",
                 server->url.name, why);
    }
    drop_connection(server);
    server->stats->failures++;
    server->failed = true;
    server->not_before = now + server->pause;
    server->pause = 2 * server->pause < LAST_PAUSE ? 2 * server->pause : LAST_PAUSE;
}

static bool open_socket(mr_redis_server *s) {
    int one = 1;
    s->fd = socket(s->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->reader = redisReaderCreateWithFunctions(&reply_functions);
    if (s->fd < 0 || !s->reader) {
        return false;
    }
    s->reader->privdata = s;
    s->tls = s->secure ? mr_secure_start(s->secure, s->fd) : NULL;
    if (s->secure && !s->tls) {
        errno = ENOMEM;
        return false;
    }
    if (s->address.ss_family != AF_UNIX) {
        setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return connect(s->fd, (const struct sockaddr *)&s->address, s->address_size) == 0 ||
           errno == EINPROGRESS;
}

static bool start_connection(mr_redis_server *s, double now, double timeout) {
    if (!open_socket(s) || !greet(s)) {
        mr_redis_server_fail(s, now, strerror(errno));
        return false;
    }
    s->connecting = true;
    s->on_trial = s->failed;
    s->trial_end = now + timeout;
    return true;
}

/* Something to read where nothing is expected: the server closed the connection meanwhile. */
static bool is_stale(const mr_redis_server *s) {
    struct pollfd look = {.fd = s->fd, .events = POLLIN};
    char byte;
    if (s->n_expected > 0 || poll(&look, 1, 0) == 0) {
        return false;
    }
    return !s->tls || mr_secure_recv(s->tls, &byte, 1) >= 0 || errno != EAGAIN; /* TLS's own */
}

static bool pass_trial(mr_redis_server *s, double now) {
    mr_redis_server_pump(s, now);
    if (s->fd >= 0 && now > s->trial_end && mr_redis_server_busy(s)) {
        mr_redis_server_fail(s, now, "no answer yet");
    }
    if (s->fd < 0 || mr_redis_server_busy(s)) {
        return false;
    }
    s->on_trial = false;
    return true;
}

bool mr_redis_server_ready(mr_redis_server *server, double now, double timeout) {
    if (server->fd >= 0 && !server->on_trial && is_stale(server)) {
        drop_connection(server);
    }
    if (server->fd < 0 && (now < server->not_before || !start_connection(server, now, timeout))) {
        return false;
    }
    return !server->on_trial || pass_trial(server, now);
}

/* ---- Sending and receiving ---- */

static bool finish_connecting(mr_redis_server *s, double now) {
    struct pollfd look = {.fd = s->fd, .events = POLLOUT};
    int sys = 0;
    socklen_t size = sizeof sys;
    if (poll(&look, 1, 0) <= 0) {
        return false;
    }
    getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &sys, &size);
    if (sys != 0) {
        mr_redis_server_fail(s, now, strerror(sys));
        return false;
    }
    s->connecting = false;
    return true;
}

static bool would_wait(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* In memory of its own: failing ends the connection, and what it had to say. */
static const char *why_not(mr_redis_server *s) {
    const char *why = s->tls && errno == EPROTO ? mr_secure_why(s->tls) : strerror(errno);
    snprintf(s->why, sizeof s->why, "%s", why);
    return s->why;
}

static bool send_some(mr_redis_server *s, double now) {
    while (s->out_sent < s->out_size) {
        const char *at = s->out + s->out_sent;
        size_t left = s->out_size - s->out_sent;
        ssize_t n = s->tls ? mr_secure_send(s->tls, at, left) : send(s->fd, at, left, MSG_NOSIGNAL);
        if (n < 0 && would_wait()) {
            return true;
        }
        if (n <= 0) {
            mr_redis_server_fail(s, now, n < 0 ? why_not(s) : "it closed the connection");
            return false;
        }
        s->out_sent += (size_t)n;
    }
    s->out_size = s->out_sent = 0;
    return true;
}

/* All whole replies that are there. False: they make no sense. */
static bool take_replies(mr_redis_server *s, double now) {
    void *reply = NULL;
    while (s->first_expected < s->n_expected && !s->rejected) {
        if (redisReaderGetReply(s->reader, &reply) != REDIS_OK) {
            return false;
        }
        if (!reply) {
            break;
        }
        s->first_expected++;
        s->unread = s->reader->len - s->reader->pos;
    }
    s->full_until = s->full ? now + FULL_PAUSE : s->full_until;
    s->full = false;
    if (s->first_expected == s->n_expected) {
        s->first_expected = s->n_expected = 0;
        s->failed = false;
        s->pause = FIRST_PAUSE;
    }
    return !s->rejected && s->unread <= (size_t)s->max_reply;
}

static void receive_some(mr_redis_server *s, double now) {
    char bytes[65536];
    while (s->n_expected > 0) {
        ssize_t n = s->tls ? mr_secure_recv(s->tls, bytes, sizeof bytes)
                           : recv(s->fd, bytes, sizeof bytes, 0);
        if (n < 0 && would_wait()) {
            return;
        }
        if (n <= 0) {
            mr_redis_server_fail(s, now, n < 0 ? why_not(s) : "it closed the connection");
            return;
        }
        s->unread += (size_t)n;
        if (redisReaderFeed(s->reader, bytes, (size_t)n) != REDIS_OK || !take_replies(s, now)) {
            mr_redis_server_fail(s, now, "its reply makes no sense");
            return;
        }
    }
}

bool mr_redis_server_busy(const mr_redis_server *server) {
    return server->fd >= 0 && server->n_expected > 0;
}

void mr_redis_server_pump(mr_redis_server *server, double now) {
    if (server->connecting && !finish_connecting(server, now)) {
        return;
    }
    if (send_some(server, now)) {
        receive_some(server, now);
    }
}

/* ---- Addresses ---- */

static mr_status find_unix(mr_redis_server *s, mr_error *err) {
    struct sockaddr_un *address = (struct sockaddr_un *)&s->address;
    if (strlen(s->url.host) >= sizeof address->sun_path) {
        return mr_fail(err, MR_E_PARAM, "the path of a UNIX socket has at most %zu bytes: %s",
                       sizeof address->sun_path - 1, s->url.host);
    }
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, s->url.host, strlen(s->url.host) + 1);
    s->address_size = sizeof *address;
    return MR_OK;
}

static mr_status find_host(mr_redis_server *s, mr_error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int code = getaddrinfo(s->url.host, s->url.port, &hints, &found);
    if (code != 0) {
        mr_status status = mr_fail(err, MR_E_NOT_FOUND, "no address for the Redis server %s: %s",
                                   s->url.host, gai_strerror(code));
        mr_hint(err, "check the name, or use the address itself");
        if (err) {
            err->sys = EHOSTUNREACH; /* no sample's fault */
        }
        return status;
    }
    memcpy(&s->address, found->ai_addr, found->ai_addrlen);
    s->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    return MR_OK;
}

mr_status mr_redis_server_open(mr_redis_server *server, const mr_redis_url *url, int64_t max_reply,
                               mr_fabric_stats *stats, mr_error *err) {
    *server = (mr_redis_server){.url = *url,
                                .id = mr_hash64(url->name, strlen(url->name), 0),
                                .max_reply = max_reply,
                                .fd = -1,
                                .pause = FIRST_PAUSE,
                                .stats = stats};
    if (url->secure) {
        MR_TRY(mr_secure_open(&server->secure, url->host, err));
    }
    return url->port[0] ? find_host(server, err) : find_unix(server, err);
}

void mr_redis_server_close(mr_redis_server *server) {
    drop_connection(server);
    mr_secure_close(server->secure);
    mr_free(server->out);
    mr_free(server->expected);
}
