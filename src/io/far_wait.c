/* SPDX-License-Identifier: Apache-2.0 */
/* far_wait.c - what a line waits for: sockets of its requests, a moment that libcurl has named, and
 * mr_far_line_wake. libcurl is told which sockets have something (curl_multi_socket_action):
 * curl_multi_perform would ask the kernel about each request under way, each time it is called.
 *
 * The line has a table of its sockets, and no set in the kernel (epoll): a child of fork would
 * share that, and keep in it what libcurl closes here. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/error.h"
#include "io/far_parts.h"

/* ---- What libcurl calls ---- */
static struct pollfd *find(const mr_far_line *line, int fd) {
    for (int32_t i = 0; i < line->n_sockets; i++) {
        if (line->sockets[i].fd == fd) {
            return &line->sockets[i];
        }
    }
    return NULL;
}

/* NULL: no memory. */
static struct pollfd *add(mr_far_line *line, int fd) {
    if (line->n_sockets == line->room) {
        int32_t room = line->room > 0 ? 2 * line->room : 2 * MR_FAR_MOST_REQUESTS;
        struct pollfd *more = realloc(line->sockets, (size_t)room * sizeof *more);
        if (!more) {
            return NULL;
        }
        line->sockets = more;
        line->room = room;
    }
    line->sockets[line->n_sockets] = (struct pollfd){.fd = fd};
    return &line->sockets[line->n_sockets++];
}

/* A socket for which there is no memory is looked at when libcurl's next moment comes, once a
 * second at least: slow, and right. */
static int watch(CURL *easy, curl_socket_t s, int what, void *user, void *known) {
    mr_far_line *line = user;
    struct pollfd *socket = find(line, s);
    (void)easy;
    (void)known;
    if (what == CURL_POLL_REMOVE) {
        if (socket) {
            *socket = line->sockets[--line->n_sockets];
        }
        return 0;
    }
    socket = socket ? socket : add(line, s);
    if (socket) {
        socket->events =
            (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0));
    }
    return 0;
}

static int set_moment(CURLM *multi, long milliseconds, void *user) {
    mr_far_line *line = user;
    (void)multi;
    line->due = milliseconds < 0 ? INT64_MAX : mr_far_now() + (int64_t)milliseconds * 1000000;
    return 0;
}

/* ---- Opening, ending ---- */
mr_status mr_far_wait_open(mr_far_line *line, mr_error *err) {
    line->due = INT64_MAX;
    line->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct pollfd *waker = line->waker >= 0 ? add(line, line->waker) : NULL;
    if (!waker) {
        return mr_fail_errno(err, MR_E_IO, errno, "cannot wait for servers");
    }
    waker->events = POLLIN;
    curl_multi_setopt(line->multi, CURLMOPT_SOCKETFUNCTION, watch);
    curl_multi_setopt(line->multi, CURLMOPT_SOCKETDATA, line);
    curl_multi_setopt(line->multi, CURLMOPT_TIMERFUNCTION, set_moment);
    curl_multi_setopt(line->multi, CURLMOPT_TIMERDATA, line);
    return MR_OK;
}

void mr_far_wait_close(mr_far_line *line) {
    if (line->waker >= 0) {
        close(line->waker);
    }
    free(line->sockets);
}

/* ---- Waiting ---- */
/* Rounded up: libcurl does nothing before its moment has come. */
static int until_due(const mr_far_line *line, int milliseconds) {
    if (line->due == INT64_MAX) {
        return milliseconds;
    }
    int64_t left = line->due - mr_far_now();
    left = left > 0 ? (left + 999999) / 1000000 : 0;
    return left < milliseconds ? (int)left : milliseconds;
}

static void tell(mr_far_line *line, const struct pollfd *ready) {
    int running, what = (ready->revents & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0) |
                        (ready->revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
                        (ready->revents & (POLLERR | POLLNVAL) ? CURL_CSELECT_ERR : 0);
    uint64_t wakes;
    if (ready->fd != line->waker) {
        curl_multi_socket_action(line->multi, ready->fd, what, &running);
    } else if (read(line->waker, &wakes, sizeof wakes) < 0) {
        return; /* another look, for nothing */
    }
}

/* The table changes while libcurl is told. What is left out is found the next time. */
static int copy_ready(const mr_far_line *line, struct pollfd *ready, int most) {
    int n = 0;
    for (int32_t i = 0; i < line->n_sockets && n < most; i++) {
        if (line->sockets[i].revents != 0) {
            ready[n++] = line->sockets[i];
        }
    }
    return n;
}

void mr_far_wait(mr_far_line *line, int milliseconds) {
    struct pollfd ready[2 * MR_FAR_MOST_REQUESTS];
    int running, n = poll(line->sockets, (nfds_t)line->n_sockets, until_due(line, milliseconds));
    n = n > 0 ? copy_ready(line, ready, 2 * MR_FAR_MOST_REQUESTS) : 0;
    for (int i = 0; i < n; i++) {
        tell(line, &ready[i]);
    }
    if (line->due <= mr_far_now()) {
        line->due = INT64_MAX; /* libcurl names the next one */
        curl_multi_socket_action(line->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

void mr_far_line_wake(mr_far_line *line) {
    const uint64_t one = 1;
    while (write(line->waker, &one, sizeof one) < 0 && errno == EINTR) {
    }
}
