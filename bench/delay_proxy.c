/* SPDX-License-Identifier: Apache-2.0 */
/* delay_proxy.c - a line with latency, for bench/far.py: passes HTTP requests on to a server of
 * this machine, each after so many milliseconds, and gives answers back as they come. What it takes
 * of the CPUs must not count as the loader's: one thread, answers not copied, few calls. Of a
 * thousand requests so many get no answer, and so many a connection that breaks.
 *
 *     delay_proxy SERVER MILLISECONDS [HANG FAIL]        prints its own port; ends with its input
 *
 * SERVER is a port, or the path of a socket, which costs both less. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HEAD = 16 << 10, PIPE = 1 << 20, MOST_EVENTS = 64 };

typedef struct end {
    int fd;
    struct line *line; /* NULL: of none, where clients come in */
} end;

typedef struct line {
    end near, far; /* sockets: the client's, the server's */
    int ends[2];   /* a pipe, for answers */
    size_t held;   /* bytes in it */
    bool full;     /* the client does not take them yet */
    bool hangs, ended;
    char head[MOST_HEAD];
    size_t size;
    int64_t due;       /* when the request is passed on */
    bool waits;        /* for that */
    struct line *next; /* among those that wait, or that have ended */
} line;

typedef struct proxy {
    const char *server;
    int64_t delay;
    uint64_t hang, fail, noise;
    int epoll;
    line *first, **last; /* requests that wait; all wait equally long */
    line *ended;
} proxy;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Sockets ---- */
static struct sockaddr_in here(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int dial(const char *server) {
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = here(atoi(server));
    bool is_path = server[0] == '/';
    const void *to = is_path ? (const void *)&path : &port;
    snprintf(path.sun_path, sizeof path.sun_path, "%s", server);
    int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, to, is_path ? sizeof path : sizeof port) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void send_at_once(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* of a path: no, and no matter */
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static bool watch(const proxy *p, int operation, end *e, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = e};
    return epoll_ctl(p->epoll, operation, e->fd, &event) == 0;
}

/* ---- Lines ---- */
static void forget(proxy *p, line *l) {
    line **at = &p->first;
    while (*at && *at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    p->last = *at ? p->last : at;
    l->waits = false;
}

/* Freed when the events that may still name it are through. */
static void end_line(proxy *p, line *l) {
    if (l->ended) {
        return;
    }
    if (l->waits) {
        forget(p, l);
    }
    l->ended = true;
    l->next = p->ended;
    p->ended = l;
}

static void free_ended(proxy *p) {
    while (p->ended) {
        line *l = p->ended;
        const int fds[] = {l->near.fd, l->far.fd, l->ends[0], l->ends[1]};
        p->ended = l->next;
        for (int i = 0; i < 4; i++) {
            if (fds[i] >= 0) {
                close(fds[i]);
            }
        }
        free(l);
    }
}

static void begin_line(proxy *p, int listener) {
    int fd = accept(listener, NULL, NULL);
    line *l = fd >= 0 ? calloc(1, sizeof *l) : NULL;
    if (!l) {
        return;
    }
    l->near = (end){fd, l};
    l->far = (end){dial(p->server), l};
    if (pipe2(l->ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        l->ends[0] = l->ends[1] = -1;
    }
    send_at_once(l->near.fd);
    send_at_once(l->far.fd);
    if (l->far.fd < 0 || fcntl(l->ends[1], F_SETPIPE_SZ, PIPE) < 0 ||
        !watch(p, EPOLL_CTL_ADD, &l->near, EPOLLIN) || !watch(p, EPOLL_CTL_ADD, &l->far, EPOLLIN)) {
        end_line(p, l);
    }
}

/* ---- Requests ---- */
static uint64_t chance(proxy *p) {
    uint64_t x = p->noise += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (x ^ (x >> 31)) % 1000;
}

static void hold(proxy *p, line *l) {
    uint64_t drawn = chance(p);
    if (drawn < p->hang) {
        l->hangs = true;
    } else if (drawn < p->hang + p->fail) {
        end_line(p, l);
    } else {
        l->due = now() + p->delay;
        l->next = NULL;
        l->waits = true;
        *p->last = l;
        p->last = &l->next;
    }
}

static void take_request(proxy *p, line *l) {
    ssize_t got = recv(l->near.fd, l->head + l->size, MOST_HEAD - l->size, 0);
    if (got <= 0 || l->waits) { /* gone, or impatient, which no client of the bench is */
        end_line(p, l);
        return;
    }
    l->size = l->hangs ? 0 : l->size + (size_t)got;
    if (l->size >= 4 && memcmp(l->head + l->size - 4, "\r\n\r\n", 4) == 0) {
        hold(p, l);
    }
}

static void pass_on(proxy *p) {
    int64_t moment = p->first ? now() : 0;
    while (p->first && p->first->due <= moment) {
        line *l = p->first;
        forget(p, l);
        if (send(l->far.fd, l->head, l->size, MSG_NOSIGNAL) != (ssize_t)l->size) {
            end_line(p, l);
        }
        l->size = 0;
    }
}

/* ---- Answers ---- */
/* While the client does not take more, nothing more is taken from the server. */
static void wait_for_client(proxy *p, line *l, bool waits) {
    if (waits != l->full) {
        l->full = waits;
        watch(p, EPOLL_CTL_MOD, &l->far, waits ? 0 : EPOLLIN);
        watch(p, EPOLL_CTL_MOD, &l->near, EPOLLIN | (waits ? EPOLLOUT : 0u));
    }
}

static void give_back(proxy *p, line *l) {
    ssize_t n = 1;
    if (l->held == 0) {
        n = splice(l->far.fd, NULL, l->ends[1], NULL, PIPE, SPLICE_F_NONBLOCK);
        l->held = n > 0 ? (size_t)n : 0;
    }
    while (l->held > 0 && n > 0) {
        n = splice(l->ends[0], NULL, l->near.fd, NULL, l->held, SPLICE_F_NONBLOCK);
        l->held -= n > 0 ? (size_t)n : 0;
    }
    if (n > 0 || (n < 0 && errno == EAGAIN)) {
        wait_for_client(p, l, l->held > 0);
    } else {
        end_line(p, l);
    }
}

/* ---- All of it ---- */
static void look_at(proxy *p, const end *e, uint32_t events) {
    line *l = e->line;
    if (!l) {
        begin_line(p, e->fd);
        return;
    }
    if (!l->ended && (e == &l->far || (events & EPOLLOUT))) {
        give_back(p, l);
    }
    if (!l->ended && e == &l->near && (events & ~(uint32_t)EPOLLOUT)) {
        take_request(p, l);
    }
}

/* In whole milliseconds, so that requests of one are passed on together. */
static int until_due(const proxy *p) {
    int64_t left = p->first ? p->first->due - now() : 0;
    return !p->first ? -1 : left > 0 ? (int)((left + 999999) / 1000000) : 0;
}

static void serve(proxy *p, const end *input) {
    struct epoll_event events[MOST_EVENTS];
    for (;;) {
        int n = epoll_wait(p->epoll, events, MOST_EVENTS, until_due(p));
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == input) {
                return;
            }
            look_at(p, events[i].data.ptr, events[i].events);
        }
        pass_on(p);
        free_ended(p);
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address = here(0);
    socklen_t size = sizeof address;
    end listener = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    end input = {.fd = STDIN_FILENO};
    if (argc < 3) {
        fprintf(stderr, "usage: delay_proxy SERVER MILLISECONDS [HANG FAIL]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    proxy p = {.server = argv[1],
               .delay = (int64_t)(atof(argv[2]) * 1e6),
               .hang = argc > 4 ? strtoull(argv[3], NULL, 10) : 0,
               .fail = argc > 4 ? strtoull(argv[4], NULL, 10) : 0,
               .noise = 5,
               .epoll = epoll_create1(EPOLL_CLOEXEC)};
    p.last = &p.first;
    if (bind(listener.fd, (struct sockaddr *)(void *)&address, size) != 0 ||
        listen(listener.fd, 256) != 0 ||
        getsockname(listener.fd, (struct sockaddr *)(void *)&address, &size) != 0 ||
        !watch(&p, EPOLL_CTL_ADD, &listener, EPOLLIN) ||
        !watch(&p, EPOLL_CTL_ADD, &input, EPOLLIN)) {
        perror("delay_proxy");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    serve(&p, &input);
    return 0;
}
