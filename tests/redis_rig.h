/* SPDX-License-Identifier: Apache-2.0 */
/* redis_rig.h - Redis servers for tests: real ones, on free ports of this machine. */
#ifndef MR_REDIS_RIG_H
#define MR_REDIS_RIG_H

#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <millrace/fabric.h>
#include <millrace/millrace.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct redis_server {
    int port;
    pid_t pid;
    char folder[64], option[64], value[64];
    int tls_port; /* 0: none; certificates are in the folder */
} redis_server;

static inline int redis_listen(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline int redis_dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline void redis_nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* One that still loads its data takes connections, and refuses every command; one that wants a
 * password refuses this one and is ready. */
static inline bool redis_answers(int port) {
    char reply[64];
    int fd = redis_dial(port);
    bool answers = fd >= 0 && write(fd, "PING\r\n", 6) == 6 && read(fd, reply, sizeof reply) >= 7 &&
                   (reply[0] == '+' || memcmp(reply, "-NOAUTH", 7) == 0);
    if (fd >= 0) {
        close(fd);
    }
    return answers;
}

/* One that speaks TLS, and also without it, on a port for the test alone. */
static inline void redis_exec_tls(const redis_server *s, const char *port) {
    char tls_port[16], cert[96], key[96], ca[96];
    snprintf(tls_port, sizeof tls_port, "%d", s->tls_port);
    snprintf(cert, sizeof cert, "%s/server.crt", s->folder);
    snprintf(key, sizeof key, "%s/server.key", s->folder);
    snprintf(ca, sizeof ca, "%s/ca.crt", s->folder);
    execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
           "--appendonly", "no", "--dir", s->folder, "--tls-port", tls_port, "--tls-cert-file",
           cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", s->value,
           s->option[0] ? s->option : "--dir", s->option[0] ? "secret" : s->folder, (char *)NULL);
}

static inline void redis_start(redis_server *s) {
    char port[8], socket_path[96];
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(socket_path, sizeof socket_path, "%s/socket", s->folder);
    s->pid = fork();
    if (s->pid == 0) {
        int quiet = open("/dev/null", O_WRONLY);
        dup2(quiet, 1);
        dup2(quiet, 2);
        if (s->tls_port > 0) {
            redis_exec_tls(s, port);
        }
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1",
               "--unixsocket", socket_path, "--save", "", "--appendonly", "no", "--dir", s->folder,
               "--enable-debug-command", "yes", s->option, s->value, (char *)NULL);
        _exit(127);
    }
    bool ready = false;
    for (int i = 0; i < 1500 && !ready; i++) {
        ready = redis_answers(s->port);
        if (!ready) {
            redis_nap();
        }
    }
    CHECK(ready);
}

static inline redis_server redis_begin(const char *option, const char *value) {
    redis_server s = {.folder = "/tmp/millrace_redis_XXXXXX"};
    snprintf(s.option, sizeof s.option, "%s", option);
    snprintf(s.value, sizeof s.value, "%s", value);
    CHECK(mkdtemp(s.folder) != NULL);
    close(redis_listen(&s.port));
    redis_start(&s);
    return s;
}

static inline void redis_stop(redis_server *s) {
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
}

static inline void redis_end(redis_server *s) {
    char path[96];
    redis_stop(s);
    snprintf(path, sizeof path, "%s/socket", s->folder);
    unlink(path);
    CHECK_INT(rmdir(s->folder), ==, 0);
}

/* Says something to a server by another way than the fabric's. */
static inline void redis_tell(const redis_server *s, const char *line) {
    char reply[256];
    int fd = redis_dial(s->port);
    CHECK_INT(write(fd, line, strlen(line)), ==, strlen(line));
    CHECK_INT(write(fd, "\r\n", 2), ==, 2);
    ssize_t n = read(fd, reply, sizeof reply);
    CHECK(n > 0 && reply[0] != '-');
    close(fd);
}

/* ---- A proxy between a client and a server, with the faults of a network ---- */
typedef struct redis_proxy {
    int port;
    pid_t pid;
    int to;         /* the server's port */
    int delay;      /* milliseconds before each piece of a reply */
    int reset;      /* of so many bytes of replies the connection is reset; 0: never */
    int turn_every; /* of so many bytes of replies one is changed; 0: none */
} redis_proxy;

static inline void redis_relay(const redis_proxy *proxy, int client) {
    static char bytes[65536];
    int server = redis_dial(proxy->to);
    int64_t replied = 0;
    struct pollfd ends[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    while (server >= 0 && poll(ends, 2, -1) > 0) {
        int from = ends[0].revents ? 0 : 1;
        ssize_t n = read(ends[from].fd, bytes, sizeof bytes);
        if (n <= 0) {
            return;
        }
        if (from == 1 && proxy->delay) {
            nanosleep(&(struct timespec){.tv_nsec = proxy->delay * 1000000L}, NULL);
        }
        for (ssize_t i = 0; from == 1 && i < n; i++) {
            replied++;
            bytes[i] ^= proxy->turn_every && replied % proxy->turn_every == 0 ? 4 : 0;
        }
        if (proxy->reset && replied > proxy->reset) {
            setsockopt(client, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
                       sizeof(struct linger));
            close(client);
            return;
        }
        for (ssize_t sent = 0, k; sent < n; sent += k) {
            if ((k = write(ends[1 - from].fd, bytes + sent, (size_t)(n - sent))) < 0) {
                return;
            }
        }
    }
}

static inline void redis_proxy_begin(redis_proxy *proxy) {
    int fd = redis_listen(&proxy->port);
    proxy->pid = fork();
    if (proxy->pid == 0) {
        signal(SIGCHLD, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        setpgid(0, 0);
        for (;;) {
            int client = accept(fd, NULL, NULL);
            if (client >= 0 && fork() == 0) {
                redis_relay(proxy, client);
                _exit(0);
            }
            close(client);
        }
    }
    setpgid(proxy->pid, proxy->pid);
    close(fd);
}

static inline void redis_proxy_end(const redis_proxy *proxy) {
    kill(-proxy->pid, SIGKILL);
    waitpid(proxy->pid, NULL, 0);
}

/* Whether there is a server to start, and a build that can talk to it. */
static inline bool redis_can_run(void) {
    mr_fabric *fabric = NULL;
    mr_fabric_config config = {.size = (uint32_t)sizeof config, .url = "redis://127.0.0.1:1"};
    bool built = mr_fabric_open(&fabric, &config, NULL) != MR_E_UNSUPPORTED;
    mr_fabric_close(fabric);
    return built && system("redis-server --version >/dev/null 2>&1") == 0;
}

/* For test programs that are about nothing else. */
static inline void redis_skip_without(const char *program) {
    signal(SIGPIPE, SIG_DFL); /* a dead server must not end the process */
    if (!redis_can_run()) {
        printf("skipped: %s: there is no redis-server, or this build has no hiredis\n", program);
        fflush(stdout);
        _exit(77);
    }
}

#endif
