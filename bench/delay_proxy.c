/* SPDX-License-Identifier: Apache-2.0 */
/* delay_proxy.c - a line with latency, for bench/far.py: passes HTTP requests on to a port of this
 * machine, each after so many milliseconds, and gives answers back as they come, without copying
 * them: what it takes of the CPUs must not count as the loader's. Of a thousand requests so many
 * get no answer, and so many a connection that breaks.
 *
 *     delay_proxy PORT MILLISECONDS [HANG FAIL]        prints its own port; ends with its input */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HEAD = 16 << 10, PIPE = 1 << 20, STACK = 128 << 10 };

typedef struct line {
    int near, far; /* sockets: the client's, the server's */
} line;

static uint16_t to_port;
static int64_t delay_ns;
static int hang, fail;
static _Atomic uint64_t noise = 5;

static int bound(uint16_t port, bool listening) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    const struct sockaddr *at = (const struct sockaddr *)(const void *)&address;
    int bad = listening ? bind(fd, at, sizeof address) || listen(fd, 256)
                        : connect(fd, at, sizeof address);
    if (bad) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Ends both ways, so that the other thread of the line ends, too. */
static void cut(const line *l) {
    shutdown(l->near, SHUT_RDWR);
    shutdown(l->far, SHUT_RDWR);
}

static void *give_back(void *context) {
    const line *l = context;
    int ends[2];
    ssize_t n = 0;
    if (pipe2(ends, O_CLOEXEC) == 0) {
        fcntl(ends[1], F_SETPIPE_SZ, PIPE);
        while ((n = splice(l->far, NULL, ends[1], NULL, PIPE, SPLICE_F_MOVE)) > 0) {
            while (n > 0) {
                ssize_t some = splice(ends[0], NULL, l->near, NULL, (size_t)n, SPLICE_F_MOVE);
                n = some > 0 ? n - some : -1;
            }
            if (n < 0) {
                break;
            }
        }
        close(ends[0]);
        close(ends[1]);
    }
    cut(l);
    return NULL;
}

/* One request's head; 0: the client has gone. */
static size_t take_request(int fd, char *head) {
    size_t n = 0;
    while (n < MOST_HEAD) {
        ssize_t got = recv(fd, head + n, MOST_HEAD - n, 0);
        if (got <= 0) {
            return 0;
        }
        n += (size_t)got;
        if (n >= 4 && memcmp(head + n - 4, "\r\n\r\n", 4) == 0) {
            return n;
        }
    }
    return 0;
}

static int chance(void) {
    uint64_t x = atomic_fetch_add(&noise, 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (int)((x ^ (x >> 31)) % 1000);
}

static void *serve(void *context) {
    line *l = context;
    char head[MOST_HEAD];
    pthread_t back;
    size_t n;
    bool started = l->far >= 0 && pthread_create(&back, NULL, give_back, l) == 0;
    while (started && (n = take_request(l->near, head)) > 0) {
        int drawn = chance();
        if (drawn < hang) {
            while (recv(l->near, head, sizeof head, 0) > 0) {
            }
            break;
        }
        if (drawn < hang + fail) {
            break;
        }
        nanosleep(
            &(struct timespec){.tv_sec = delay_ns / 1000000000, .tv_nsec = delay_ns % 1000000000},
            NULL);
        if (send(l->far, head, n, MSG_NOSIGNAL) != (ssize_t)n) {
            break;
        }
    }
    cut(l);
    if (started) {
        pthread_join(back, NULL);
    }
    close(l->near);
    close(l->far);
    free(l);
    return NULL;
}

static void *accept_all(void *context) {
    int listener = *(const int *)context, on = 1;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        pthread_t thread;
        line *l = malloc(sizeof *l);
        if (!l || (l->near = accept(listener, NULL, NULL)) < 0) {
            return NULL;
        }
        setsockopt(l->near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        l->far = bound(to_port, false);
        if (pthread_create(&thread, &small, serve, l) != 0) {
            close(l->near);
            close(l->far);
            free(l);
        }
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    pthread_t thread;
    if (argc < 3) {
        fprintf(stderr, "usage: delay_proxy PORT MILLISECONDS [HANG FAIL]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    to_port = (uint16_t)atoi(argv[1]);
    delay_ns = (int64_t)(atof(argv[2]) * 1e6);
    hang = argc > 4 ? atoi(argv[3]) : 0;
    fail = argc > 4 ? atoi(argv[4]) : 0;
    int listener = bound(0, true);
    if (listener < 0 || getsockname(listener, (struct sockaddr *)(void *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, accept_all, &listener) != 0) {
        perror("delay_proxy");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
