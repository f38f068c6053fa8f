/* SPDX-License-Identifier: Apache-2.0 */
/* far_line.h - many ranges of objects on their way at once, over HTTP, by one thread.
 *
 * A task is asked for until it is there or cannot be: a request that fails for now (a server that
 * is busy, a connection that breaks, bytes that stop coming) is sent again after a while, with more
 * time each time; one that hangs longer than others do is sent again beside the first.
 * How many requests are under way follows from what that brings: see far_pace.h. Whatever a
 * server sends, a task ends, with the bytes of the version it was asked for or with an error that
 * says which object, which bytes, what the server said and how often it was asked. */
#ifndef MR_IO_FAR_LINE_H
#define MR_IO_FAR_LINE_H

#include "core/far_limits.h"
#include "io/far_reply.h"

typedef struct mr_far_line mr_far_line;

/* Zeroed, then filled in by the caller up to `user`; the caller's again when done is called. */
typedef struct mr_far_task {
    const char *path;       /* may be pinned; lives as long as the task */
    const char *query;      /* (optional) as it is sent: for listings */
    int64_t offset, length; /* length -1: all of it */
    int64_t limit;          /* with length -1: refuse more */
    void *to;               /* room for `length` bytes */
    bool look;              /* for the version alone */
    /* (length -1) Sets `to`, for `size` bytes; NULL: there is no memory. False: not now, and it is
     * asked again soon. */
    bool (*place)(struct mr_far_task *task, size_t size);
    void (*done)(struct mr_far_task *task); /* may start others */
    void *user;

    mr_status status; /* when done */
    mr_error err;
    size_t size; /* bytes that came */
    mr_far_pin version;
    int32_t tries; /* attempts: see far_limits.h */
    /* Nanoseconds of the monotonic clock: asked for; the first request; of the one that counted,
     * when it was sent and its first byte came; done. */
    int64_t begun, first_sent, sent, first_byte, ended;

    /* the line's */
    mr_far_range range;
    char *address;
    int64_t not_before, last_sent, placed;
    int32_t running, redirects;
    int32_t beside; /* requests of this attempt beside its first */
    bool settled;
    struct mr_far_task *next, *before;
} mr_far_task;

typedef struct mr_far_figures {
    int64_t requests, retries, hedges, bytes;
    int64_t busy;             /* answers that say so: 429, 503 */
    int64_t narrowed;         /* how often more requests at once brought nothing */
    int32_t in_flight, width; /* requests; how many there may be */
    double first_byte;        /* seconds until it came, a moving mean */
    double slow;              /* seconds after which a request is among the slowest hundredth */
} mr_far_figures;

/* limits NULL: those that hold for the thread. */
mr_status mr_far_line_open(mr_far_line **out, const mr_far_limits *limits, mr_error *err);
void mr_far_line_close(mr_far_line *line); /* tasks end as cancelled; NULL is allowed */

void mr_far_line_start(mr_far_line *line, mr_far_task *task);

/* Does what can be done now, then waits up to so many milliseconds for more. Returns how many tasks
 * are not done. */
int64_t mr_far_line_run(mr_far_line *line, int milliseconds);
void mr_far_line_wake(mr_far_line *line);   /* any thread: ends the wait */
void mr_far_line_cancel(mr_far_line *line); /* all tasks end */

void mr_far_line_figures(const mr_far_line *line, mr_far_figures *out);

#endif
