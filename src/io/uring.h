/* SPDX-License-Identifier: Apache-2.0 */
/* uring.h - reading many extents at once through io_uring.
 *
 * Opening and reading are asynchronous requests, so that a cold directory or a slow server delays
 * no other file; the size of an open file and closing it are plain calls, which do not wait (and
 * which io_uring would hand to a helper thread). The caller gives memory in the middle, once the
 * size is known. One thread uses a ring. */
#ifndef MR_IO_URING_H
#define MR_IO_URING_H

#include "io/file.h"

typedef struct mr_uring mr_uring;

/* Filled in by the caller: extent. By mr_uring_wait: the rest. Zeroed before use. */
typedef struct mr_uring_read {
    mr_extent extent;
    mr_open_extent open; /* size is known when the event is MR_URING_SIZED */
    mr_status status;    /* when MR_URING_DONE */
    mr_error *err;       /* where to word a failure */
    void *data;
    size_t done;
    bool is_open;
    bool is_lent; /* open.fd is somebody else's: not to be closed */
} mr_uring_read;

typedef enum mr_uring_event {
    MR_URING_SIZED, /* answer with mr_uring_give or mr_uring_finish */
    MR_URING_DONE,  /* closed; status says how it went */
    MR_URING_WOKEN  /* mr_uring_wake was called */
} mr_uring_event;

/* MR_E_UNSUPPORTED where the kernel or a policy forbids it. depth: most reads at once. */
mr_status mr_uring_open(mr_uring **out, uint32_t depth, mr_error *err);
void mr_uring_close(mr_uring *ring);

void mr_uring_start(mr_uring *ring, mr_uring_read *read);
void mr_uring_lend(mr_uring_read *read,
                   int fd); /* instead of start: a file that is open; give follows */
void mr_uring_give(mr_uring *ring, mr_uring_read *read, void *data); /* open.size is not 0 */
void mr_uring_finish(mr_uring_read *read, mr_status status); /* closes the file; no event follows */

/* Submits what was asked and waits for the next event. */
mr_status mr_uring_wait(mr_uring *ring, mr_uring_event *event, mr_uring_read **read, mr_error *err);

/* The next event that is already there; false: none. */
bool mr_uring_poll(mr_uring *ring, mr_uring_event *event, mr_uring_read **read);

void mr_uring_wake(mr_uring *ring); /* any thread */

#endif
