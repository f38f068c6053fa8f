/* SPDX-License-Identifier: Apache-2.0 */
/* far_rig.h - servers for tests of objects on servers, on free ports of this machine: nginx, and
 * one that misbehaves as its addresses say. */
#ifndef MR_FAR_RIG_H
#define MR_FAR_RIG_H

#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline int far_listen(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 64) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline int far_dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline void far_nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* ---- nginx ---- */
typedef struct far_nginx {
    int port;
    pid_t pid;
    char folder[64]; /* its root is folder/www */
} far_nginx;

static inline void far_path(char *out, size_t size, const far_nginx *s, const char *name) {
    snprintf(out, size, "%s/%s", s->folder, name);
}

static inline void far_nginx_begin(far_nginx *s) {
    char path[128], own[128];
    *s = (far_nginx){.folder = "/tmp/millrace_nginx_XXXXXX"};
    CHECK(mkdtemp(s->folder) != NULL);
    CHECK_INT(chmod(s->folder, 0755), ==, 0);
    far_path(path, sizeof path, s, "www");
    CHECK_INT(mkdir(path, 0755), ==, 0);
    close(far_listen(&s->port));
    far_path(path, sizeof path, s, "conf");
    FILE *conf = fopen(path, "w");
    if (!conf) {
        CHECK(conf);
        return;
    }
    far_path(own, sizeof own, s, "t");
    fprintf(conf,
            "daemon off; master_process off; pid %s.pid; error_log /dev/null;\nevents {}\n"
            "http { access_log off; client_body_temp_path %s1; proxy_temp_path %s2;\n"
            "fastcgi_temp_path %s3; uwsgi_temp_path %s4; scgi_temp_path %s5;\n"
            "server { listen 127.0.0.1:%d; root %s/www; } }\n",
            own, own, own, own, own, own, s->port, s->folder);
    fclose(conf);
    s->pid = fork();
    if (s->pid == 0) {
        int quiet = open("/dev/null", O_WRONLY);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(quiet, 1);
        dup2(quiet, 2);
        execlp("nginx", "nginx", "-c", path, (char *)NULL);
        execl("/usr/sbin/nginx", "nginx", "-c", path, (char *)NULL);
        _exit(127);
    }
    int fd = -1;
    for (int i = 0; i < 500 && (fd = far_dial(s->port)) < 0; i++) {
        far_nap();
    }
    CHECK(fd >= 0);
    close(fd);
}

static inline void far_nginx_end(far_nginx *s) {
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
}

/* ---- A server that misbehaves ----
 * GET /MODE/NUMBER/anything: an object of FAR_BYTES bytes, sent as MODE says; NUMBER is the mode's
 * own. Every connection is a process of its own; counters are shared. */
enum { FAR_BYTES = 300, FAR_COUNTERS = 64 };

typedef struct far_bad {
    int port;
    pid_t pid;
    _Atomic int *asked; /* by number */
} far_bad;

static inline unsigned char far_byte(int i) {
    return (unsigned char)(i * 7 + (i >> 8) + 3);
}

typedef struct far_call {
    char mode[32];
    int number, first, last; /* of the range; all without one */
    bool ranged, is_signed;
    int port;
    _Atomic int *asked;
} far_call;

static inline void far_send(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        bytes += sent;
        n -= (size_t)sent;
    }
}

static inline void far_say(int fd, const char *text) {
    far_send(fd, text, strlen(text));
}

static inline void far_bytes_of(const far_call *c, char *out) {
    for (int i = c->first; i <= c->last; i++) {
        out[i - c->first] = (char)far_byte(i);
    }
}

static inline void far_reset(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

/* A whole answer, as it should be, into text; returns its length. */
static inline int far_right(const far_call *c, char *text, size_t size, const char *more) {
    int n = c->last - c->first + 1, at;
    if (c->ranged) {
        at = snprintf(
            text, size,
            "HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\n"
            "Content-Range: bytes %d-%d/%d\r\nETag: \"one\"\r\n%sConnection: close\r\n\r\n",
            n, c->first, c->last, FAR_BYTES, more);
    } else {
        at = snprintf(text, size,
                      "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: \"one\"\r\n%sConnection: "
                      "close\r\n\r\n",
                      n, more);
    }
    far_bytes_of(c, text + at);
    return at + n;
}

static inline void far_refuse(int fd, const char *status, const char *more) {
    char text[512];
    snprintf(text, sizeof text,
             "HTTP/1.1 %s\r\nContent-Length: 5\r\nx-amz-request-id: R17\r\n%sConnection: close"
             "\r\n\r\nsorry",
             status, more);
    far_say(fd, text);
}

static inline void far_misbehave(int fd, const far_call *c) {
    char text[4096];
    const char *m = c->mode;
    int times = atomic_fetch_add(&c->asked[c->number % FAR_COUNTERS], 1);
    int n = far_right(c, text, sizeof text, "");
    if (strcmp(m, "ok") == 0) {
        far_send(fd, text, (size_t)n);
    } else if (strcmp(m, "busy") == 0 || strcmp(m, "broken") == 0) { /* twice, then well */
        if (times < 2) {
            far_refuse(fd, m[1] == 'u' ? "503 Slow Down" : "500 Oh", "Retry-After: 1\r\n");
        } else {
            far_send(fd, text, (size_t)n);
        }
    } else if (strcmp(m, "always500") == 0) {
        far_refuse(fd, "500 Oh", "");
    } else if (strcmp(m, "signed") == 0 || strcmp(m, "nobody") == 0) { /* who must ask */
        if (c->is_signed == (m[0] == 's')) {
            far_send(fd, text, (size_t)n);
        } else {
            far_refuse(fd, "403 Forbidden", "");
        }
    } else if (strcmp(m, "denied") == 0) {
        far_refuse(fd, "403 Forbidden", "");
    } else if (strcmp(m, "reset") == 0) { /* after NUMBER bytes, once */
        far_send(fd, text, times == 0 && c->number < n ? (size_t)c->number : (size_t)n);
        if (times == 0) {
            far_reset(fd);
        }
    } else if (strcmp(m, "short") == 0) { /* once: ends early */
        far_send(fd, text, times == 0 ? (size_t)n - 20 : (size_t)n);
    } else if (strcmp(m, "long") == 0) { /* chunked, ten bytes more than the range */
        char body[FAR_BYTES + 10];
        memset(body, 'x', sizeof body);
        far_bytes_of(c, body);
        int count = c->last - c->first + 1 + 10;
        int at = snprintf(text, sizeof text,
                          "HTTP/1.1 206 P\r\nContent-Range: bytes %d-%d/%d\r\nETag: \"one\"\r\n"
                          "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n%x\r\n",
                          c->first, c->last, FAR_BYTES, (unsigned)count);
        far_send(fd, text, (size_t)at);
        far_send(fd, body, (size_t)count);
        far_say(fd, "\r\n0\r\n\r\n");
    } else if (strcmp(m, "range") == 0) { /* another one than was asked for */
        snprintf(text, sizeof text,
                 "HTTP/1.1 206 P\r\nContent-Length: 3\r\nContent-Range: bytes 7-9/%d\r\n"
                 "ETag: \"one\"\r\nConnection: close\r\n\r\nabc",
                 FAR_BYTES);
        far_say(fd, text);
    } else if (strcmp(m, "whole") == 0 || strcmp(m, "chunked") == 0) { /* knows no ranges */
        far_call all = *c;
        all.ranged = false;
        all.first = 0;
        all.last = FAR_BYTES - 1;
        if (m[0] == 'w') {
            far_send(fd, text, (size_t)far_right(&all, text, sizeof text, ""));
        } else {
            int at = snprintf(text, sizeof text,
                              "HTTP/1.1 200 OK\r\nETag: \"one\"\r\nTransfer-Encoding: chunked\r\n"
                              "Connection: close\r\n\r\n%x\r\n",
                              (unsigned)FAR_BYTES);
            far_bytes_of(&all, text + at);
            far_send(fd, text, (size_t)at + FAR_BYTES);
            far_say(fd, "\r\n0\r\n\r\n");
        }
    } else if (strcmp(m, "drip") == 0 || strcmp(m, "hang") == 0) { /* NUMBER times, then well */
        for (int i = 0; times < c->number % 10 && i < n && i < (m[0] == 'd' ? n : 40); i++) {
            far_send(fd, text + i, 1);
            nanosleep(&(struct timespec){.tv_nsec = m[0] == 'd' ? 100000000 : 0}, NULL);
        }
        if (times < c->number % 10) {
            pause();
        }
        far_send(fd, text, (size_t)n);
    } else if (strcmp(m, "silent") == 0) {
        pause();
    } else if (strcmp(m, "loop") == 0) {
        snprintf(text, sizeof text, "Location: /loop/%d/x\r\n", c->number);
        far_refuse(fd, "302 Found", text);
    } else if (strcmp(m, "moved") == 0) {
        snprintf(text, sizeof text, "Location: http://127.0.0.1:%d/ok/%d/x\r\n", c->port,
                 c->number);
        far_refuse(fd, "301 Moved", text);
    } else if (strcmp(m, "tofile") == 0) {
        far_refuse(fd, "302 Found", "Location: file:///etc/passwd\r\n");
    } else if (strcmp(m, "tometa") == 0) {
        far_refuse(fd, "302 Found", "Location: http://169.254.169.254/latest\r\n");
    } else if (strcmp(m, "gzip") == 0) {
        far_send(fd, text, (size_t)far_right(c, text, sizeof text, "Content-Encoding: gzip\r\n"));
    } else if (strcmp(m, "login") == 0) {
        far_say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 26\r\n"
                    "Connection: close\r\n\r\n<html>please log in</html>");
    } else if (strcmp(m, "headers") == 0) {
        far_say(fd, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < 40000; i++) {
            far_say(fd, "X-More: and more and more and more and more\r\n");
        }
    } else if (strcmp(m, "noise") == 0) {
        far_say(fd, "\x01\x02 what is this\r\n\r\n");
    } else if (strcmp(m, "changed") == 0) {
        far_refuse(fd, "412 Precondition Failed", "");
    } else if (strcmp(m, "other") == 0) { /* takes no notice of If-Match */
        snprintf(text, sizeof text,
                 "HTTP/1.1 206 P\r\nContent-Length: %d\r\nContent-Range: bytes %d-%d/%d\r\n"
                 "ETag: \"two\"\r\nConnection: close\r\n\r\n",
                 c->last - c->first + 1, c->first, c->last, FAR_BYTES);
        far_say(fd, text);
        far_bytes_of(c, text);
        far_send(fd, text, (size_t)(c->last - c->first + 1));
    }
}

static inline void far_serve(int fd, int port, _Atomic int *asked) {
    char request[8192];
    size_t n = 0;
    while (n < sizeof request - 1) {
        ssize_t got = recv(fd, request + n, sizeof request - 1 - n, 0);
        if (got <= 0) {
            return;
        }
        n += (size_t)got;
        request[n] = '\0';
        if (strstr(request, "\r\n\r\n")) {
            break;
        }
    }
    far_call c = {.last = FAR_BYTES - 1,
                  .port = port,
                  .asked = asked,
                  .is_signed = strstr(request, "\r\nAuthorization:") != NULL};
    const char *range = strstr(request, "Range: bytes=");
    /* As a proxy it is asked by whole addresses, and answers itself. */
    bool is_proxy = strncmp(request, "GET http://", 11) == 0;
    const char *name = strchr(request + (is_proxy ? 11 : 0), '/');
    if (!name || sscanf(name, "/%31[a-z0-9]/%d", c.mode, &c.number) != 2) {
        return;
    }
    if (range && sscanf(range, "Range: bytes=%d-%d", &c.first, &c.last) == 2) {
        c.ranged = true;
        c.last = c.last < FAR_BYTES ? c.last : FAR_BYTES - 1;
    }
    far_misbehave(fd, &c);
}

static inline void far_accept(int listener, int port, _Atomic int *asked) {
    pid_t own = getpid();
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != own) {
                _exit(0); /* it was killed before */
            }
            close(listener);
            far_serve(fd, port, asked);
            shutdown(fd, SHUT_WR);
            _exit(0);
        }
        close(fd);
    }
}

static inline void far_bad_begin(far_bad *s) {
    int listener = far_listen(&s->port);
    s->asked = mmap(NULL, FAR_COUNTERS * sizeof *s->asked, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        far_accept(listener, s->port, s->asked);
    }
    close(listener);
}

static inline void far_bad_end(far_bad *s) {
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    munmap((void *)s->asked, FAR_COUNTERS * sizeof *s->asked);
}

static inline void far_forget(const far_bad *s) {
    for (int i = 0; i < FAR_COUNTERS; i++) {
        atomic_store(&s->asked[i], 0);
    }
}

#endif
