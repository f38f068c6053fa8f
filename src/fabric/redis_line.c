/* SPDX-License-Identifier: Apache-2.0 */
/* redis_line.c - see redis_line.h. MR_REQUIRES(hiredis) */
#include "fabric/redis_line.h"

#include <errno.h>
#include <millrace/millrace.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "fabric/redis_memory.h"
#include "fabric/redis_server.h"

struct mr_redis_line {
    mr_redis_server server; /* for its address alone */
    mr_fabric_stats unused;
    mr_redis_memory memory;
    int fd; /* -1: none */
    mr_secure_line *tls;
    bool connecting, no_memory;
    char *out;
    size_t out_size, out_sent, out_capacity;
    int greeting; /* answers to come before those of the question */
    int expected; /* answers to come in all */
    redisReply *answers[MR_REDIS_ANSWERS];
    int n_answers;
    redisReader *reader;
    int64_t max_reply;
    size_t unread;
};

/* ---- Parsing ---- */
static redisReader *make_reader(mr_redis_memory *memory) {
    redisReader *reader = redisReaderCreate();
    if (reader) {
        reader->fn = (redisReplyObjectFunctions *)(uintptr_t)&mr_redis_memory_functions;
        reader->privdata = memory;
        reader->maxbuf = 0;
    }
    return reader;
}

redisReply *mr_redis_parse(const void *bytes, size_t size) {
    mr_redis_memory memory = {.reuses = false};
    redisReader *reader = make_reader(&memory);
    void *reply = NULL;
    if (reader && redisReaderFeed(reader, bytes, size) == REDIS_OK &&
        redisReaderGetReply(reader, &reply) != REDIS_OK) {
        reply = NULL;
    }
    if (reader) {
        redisReaderFree(reader);
    }
    return reply;
}

/* ---- Connecting ---- */
void mr_redis_line_hang_up(mr_redis_line *line) {
    mr_secure_end(line->tls);
    line->tls = NULL;
    if (line->fd >= 0) {
        close(line->fd);
    }
    if (line->reader) {
        redisReaderFree(line->reader);
    }
    while (line->n_answers > 0) {
        mr_redis_reply_free(line->answers[--line->n_answers]);
    }
    line->fd = -1;
    line->reader = NULL;
    line->connecting = line->no_memory = false;
    line->out_size = line->out_sent = line->unread = 0;
    line->greeting = line->expected = 0;
}

static void append(mr_redis_line *line, const void *bytes, size_t size) {
    if (line->out_size + size > line->out_capacity) {
        size_t capacity = 2 * (line->out_size + size) + 256;
        char *grown = realloc(line->out, capacity);
        line->no_memory |= !grown;
        if (!grown) {
            return;
        }
        line->out = grown;
        line->out_capacity = capacity;
    }
    memcpy(line->out + line->out_size, bytes, size);
    line->out_size += size;
}

static void append_count(mr_redis_line *line, char mark, size_t count) {
    char text[32];
    append(line, text, (size_t)snprintf(text, sizeof text, "%c%zu\r\n", mark, count));
}

static void say(mr_redis_line *line, const char *const *words, int n) {
    append_count(line, '*', (size_t)n);
    for (int i = 0; i < n; i++) {
        append_count(line, '$', strlen(words[i]));
        append(line, words[i], strlen(words[i]));
        append(line, "\r\n", 2);
    }
    line->expected++;
}

static void greet(mr_redis_line *line) {
    const mr_redis_url *url = &line->server.url;
    char db[16];
    snprintf(db, sizeof db, "%d", (int)url->db);
    if (url->password[0]) {
        bool named = url->user[0];
        const char *words[] = {"AUTH", named ? url->user : url->password, url->password};
        say(line, words, named ? 3 : 2);
    }
    if (url->db > 0) {
        say(line, (const char *[]){"SELECT", db}, 2);
    }
    line->greeting = line->expected;
}

/* What fails here shows when the answer is waited for: there is no connection. */
static void dial(mr_redis_line *line) {
    const mr_redis_server *s = &line->server;
    int one = 1;
    line->fd = socket(s->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    line->reader = make_reader(&line->memory);
    if (line->fd >= 0 && s->secure) {
        line->tls = mr_secure_start(s->secure, line->fd);
    }
    if (line->fd < 0 || !line->reader || (s->secure && !line->tls)) {
        mr_redis_line_hang_up(line);
        return;
    }
    if (s->address.ss_family != AF_UNIX) {
        setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    line->connecting = true;
    if (connect(line->fd, (const struct sockaddr *)&s->address, s->address_size) != 0 &&
        errno != EINPROGRESS) {
        mr_redis_line_hang_up(line);
        return;
    }
    greet(line);
}

void mr_redis_line_say(mr_redis_line *line, const char *const *words, int n) {
    if (line->fd < 0) {
        dial(line);
    }
    say(line, words, n);
}

void mr_redis_line_reuse(mr_redis_line *line) {
    line->memory.reuses = true;
}

bool mr_redis_line_is_asked(const mr_redis_line *line) {
    return line->expected > 0;
}

/* ---- Answers ---- */
static mr_status fail_line(mr_redis_line *line, int sys, const char *why, mr_error *err) {
    mr_redis_line_hang_up(line);
    return sys ? mr_fail_errno(err, MR_E_IO, sys, "the Redis server %s: %s", line->server.url.name,
                               why)
               : mr_fail(err, MR_E_IO, "the Redis server %s: %s", line->server.url.name, why);
}

/* What send or recv returned is a failure, or the end. */
static mr_status fail_bytes(mr_redis_line *line, ssize_t n, const char *what, mr_error *err) {
    char why[160];
    bool is_tls = n < 0 && line->tls && errno == EPROTO;
    snprintf(why, sizeof why, "%s",
             is_tls  ? mr_secure_why(line->tls)
             : n < 0 ? what
                     : "it closed the connection");
    return fail_line(line, n < 0 && !is_tls ? errno : 0, why, err);
}

static bool would_wait(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static mr_status finish_connecting(mr_redis_line *line, mr_error *err) {
    int sys = 0;
    socklen_t size = sizeof sys;
    struct pollfd look = {.fd = line->fd, .events = POLLOUT};
    if (!line->connecting || poll(&look, 1, 0) <= 0) {
        return MR_OK;
    }
    getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &sys, &size);
    line->connecting = false;
    return sys == 0 ? MR_OK : fail_line(line, sys, "it cannot be reached", err);
}

static mr_status send_some(mr_redis_line *line, mr_error *err) {
    while (!line->connecting && line->out_sent < line->out_size) {
        const char *at = line->out + line->out_sent;
        size_t left = line->out_size - line->out_sent;
        ssize_t n = line->tls ? mr_secure_send(line->tls, at, left)
                              : send(line->fd, at, left, MSG_NOSIGNAL);
        if (n <= 0) {
            return n < 0 && would_wait() ? MR_OK : fail_bytes(line, n, "sending failed", err);
        }
        line->out_sent += (size_t)n;
    }
    if (line->out_sent == line->out_size) {
        line->out_sent = line->out_size = 0;
    }
    return MR_OK;
}

bool mr_redis_is_for_now(const char *error) {
    static const char *const words[] = {"LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "UNKILLABLE"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(error, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* An error of the greeting: nothing else will work. */
static mr_status refuse(mr_redis_line *line, redisReply *reply, mr_error *err) {
    mr_status status = mr_redis_is_for_now(reply->str) ? MR_E_IO : MR_E_PARAM;
    mr_fail(err, status, "the Redis server %s refuses: %.200s", line->server.url.name, reply->str);
    mr_redis_reply_free(reply);
    mr_redis_line_hang_up(line);
    return status;
}

/* A greeting is answered and forgotten. */
static mr_status take_answer(mr_redis_line *line, redisReply *reply, mr_error *err) {
    line->expected--;
    if (line->greeting > 0 && reply->type == REDIS_REPLY_ERROR) {
        return refuse(line, reply, err);
    }
    if (line->greeting > 0 || line->n_answers == MR_REDIS_ANSWERS) {
        line->greeting -= line->greeting > 0;
        mr_redis_reply_free(reply);
    } else {
        line->answers[line->n_answers++] = reply;
    }
    return MR_OK;
}

/* All that are whole. MR_LATER: some are missing. */
static mr_status take_answers(mr_redis_line *line, mr_error *err) {
    void *found = NULL;
    while (line->expected > 0) {
        if (redisReaderGetReply(line->reader, &found) != REDIS_OK) {
            return fail_line(line, 0, "its reply makes no sense", err);
        }
        if (!found) {
            return MR_LATER;
        }
        line->unread = line->reader->len - line->reader->pos;
        MR_TRY(take_answer(line, found, err));
    }
    return MR_OK;
}

static mr_status receive_some(mr_redis_line *line, mr_error *err) {
    char bytes[65536];
    mr_status status = MR_LATER;
    while (status == MR_LATER && !line->connecting) {
        ssize_t n = line->tls ? mr_secure_recv(line->tls, bytes, sizeof bytes)
                              : recv(line->fd, bytes, sizeof bytes, 0);
        if (n < 0 && would_wait()) {
            return MR_LATER;
        }
        if (n <= 0) {
            return fail_bytes(line, n, "receiving failed", err);
        }
        line->unread += (size_t)n;
        if (line->unread > (size_t)line->max_reply) {
            return fail_line(line, 0, "its reply is too long", err);
        }
        if (redisReaderFeed(line->reader, bytes, (size_t)n) != REDIS_OK) {
            return fail_line(line, 0, "no memory for its reply", err);
        }
        status = take_answers(line, err);
    }
    return status;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_for_line(const mr_redis_line *line, int64_t milliseconds) {
    bool hears = line->tls && mr_secure_waits_to_hear(line->tls);
    bool sends = line->connecting || (!hears && line->out_size > line->out_sent);
    struct pollfd look = {.fd = line->fd, .events = (short)(sends ? POLLOUT | POLLIN : POLLIN)};
    if (line->connecting) {
        look.events = POLLOUT;
    }
    poll(&look, 1, (int)milliseconds);
}

static void give_answers(mr_redis_line *line, redisReply **replies) {
    memcpy(replies, line->answers, (size_t)line->n_answers * sizeof(redisReply *));
    line->n_answers = 0;
}

mr_status mr_redis_line_answer(mr_redis_line *line, int milliseconds, redisReply **replies,
                               mr_error *err) {
    int64_t end = now_ms() + milliseconds;
    mr_status status = MR_LATER;
    if (line->fd < 0 || line->no_memory) {
        return fail_line(line, 0, line->no_memory ? "no memory" : "it cannot be reached", err);
    }
    for (;;) {
        MR_TRY(finish_connecting(line, err));
        MR_TRY(send_some(line, err));
        status = receive_some(line, err);
        int64_t left = end - now_ms();
        if (status == MR_OK) {
            give_answers(line, replies);
        }
        if (status != MR_LATER || left <= 0) {
            return status;
        }
        wait_for_line(line, left);
    }
}

/* ---- Opening, closing ---- */
mr_status mr_redis_line_open(mr_redis_line **out, const char *url, int64_t max_reply,
                             mr_error *err) {
    mr_redis_line *line = mr_zalloc(1, sizeof *line);
    mr_redis_url parsed;
    *out = line;
    if (!line) {
        return mr_fail_memory(err, sizeof *line);
    }
    line->fd = line->server.fd = -1;
    line->max_reply = max_reply;
    MR_TRY(mr_redis_url_read(&url, &parsed, err));
    if (*url) {
        return mr_fail(err, MR_E_PARAM, "one Redis server is wanted, not a list");
    }
    if (parsed.ttl > 0) {
        return mr_fail(err, MR_E_PARAM,
                       "a stream keeps entries as long as its writers say: leave "
                       "ttl out");
    }
    return mr_redis_server_open(&line->server, &parsed, max_reply, &line->unused, err);
}

void mr_redis_line_close(mr_redis_line *line) {
    if (line) {
        mr_redis_line_hang_up(line);
        mr_redis_server_close(&line->server);
        mr_redis_memory_free(&line->memory);
        free(line->out);
        mr_free(line);
    }
}

const char *mr_redis_line_name(const mr_redis_line *line) {
    return line->server.url.name;
}
