/* SPDX-License-Identifier: Apache-2.0 */
/* uring.c - see uring.h. Built without liburing it only says that it is not there. */
#include "io/uring.h"

#include "core/error.h"
#include "core/memory.h"

#ifdef MR_HAVE_URING

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

struct mr_uring {
    struct io_uring ring;
    int wake_fd;
    uint64_t wake_count; /* where the eventfd is read to */
};

/* The queue has room for one request per read and one for the wake-up, and a read has one request
 * at a time, so a submission entry is always there once earlier ones are submitted. */
static struct io_uring_sqe *next_entry(mr_uring *ring) {
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring->ring);
    if (!entry) {
        io_uring_submit(&ring->ring);
        entry = io_uring_get_sqe(&ring->ring);
    }
    return entry;
}

static void listen_for_wake(mr_uring *ring) {
    struct io_uring_sqe *entry = next_entry(ring);
    io_uring_prep_read(entry, ring->wake_fd, &ring->wake_count, sizeof ring->wake_count, 0);
    io_uring_sqe_set_data(entry, NULL);
}

/* openat and read arrived with Linux 5.6; with older kernels threads read. */
static bool kernel_has_all(struct io_uring *ring) {
    static const int needed[] = {IORING_OP_OPENAT, IORING_OP_READ};
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool all = probe != NULL;
    for (size_t i = 0; all && i < sizeof needed / sizeof *needed; i++) {
        all = io_uring_opcode_supported(probe, needed[i]);
    }
    io_uring_free_probe(probe);
    return all;
}

mr_status mr_uring_open(mr_uring **out, uint32_t depth, mr_error *err) {
    mr_uring *ring = mr_zalloc(1, sizeof *ring);
    if (!ring) {
        return mr_fail_memory(err, sizeof *ring);
    }
    int failed = -io_uring_queue_init(depth + 1, &ring->ring, 0);
    if (failed) {
        mr_free(ring);
        return mr_fail_errno(err, MR_E_UNSUPPORTED, failed, "cannot use io_uring");
    }
    ring->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (ring->wake_fd < 0 || !kernel_has_all(&ring->ring)) {
        mr_uring_close(ring);
        return mr_fail(err, MR_E_UNSUPPORTED, "this kernel's io_uring is too old");
    }
    listen_for_wake(ring);
    *out = ring;
    return MR_OK;
}

void mr_uring_close(mr_uring *ring) {
    if (ring) {
        if (ring->wake_fd >= 0) {
            close(ring->wake_fd);
        }
        io_uring_queue_exit(&ring->ring);
        mr_free(ring);
    }
}

void mr_uring_wake(mr_uring *ring) {
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(ring->wake_fd, &one, sizeof one);
    } while (n < 0 && errno == EINTR);
}

void mr_uring_start(mr_uring *ring, mr_uring_read *read) {
    struct io_uring_sqe *entry = next_entry(ring);
    read->is_open = false;
    read->done = 0;
    io_uring_prep_openat(entry, MR_EXTENT_FOLDER(&read->extent), read->extent.path, MR_OPEN_FLAGS,
                         0);
    io_uring_sqe_set_data(entry, read);
}

void mr_uring_give(mr_uring *ring, mr_uring_read *read, void *data) {
    enum { MOST = 1 << 30 }; /* a request's length is 32 bits */
    struct io_uring_sqe *entry = next_entry(ring);
    size_t left = read->open.size - read->done;
    read->data = data;
    io_uring_prep_read(entry, read->open.fd, (char *)data + read->done,
                       (unsigned)(left < MOST ? left : MOST),
                       (uint64_t)read->open.offset + read->done);
    io_uring_sqe_set_data(entry, read);
}

void mr_uring_finish(mr_uring_read *read, mr_status status) {
    if (read->is_open && !read->is_lent) {
        mr_extent_close(&read->open);
    }
    read->is_open = false;
    read->status = status;
}

void mr_uring_lend(mr_uring_read *read, int fd) {
    read->is_open = read->is_lent = true;
    read->done = 0;
    read->open.fd = fd;
}

/* ---- Answers: true where the caller gets an event ---- */
static mr_status measure(mr_uring_read *read) {
    struct stat info;
    return fstat(read->open.fd, &info) == 0
               ? mr_extent_check(&read->extent, info.st_mode, info.st_size, &read->open, read->err)
               : mr_read_failed(errno, -1, read->err);
}

static bool opened(mr_uring *ring, mr_uring_read *read, int result, mr_uring_event *event) {
    if (result == -EINTR || result == -EAGAIN) {
        mr_uring_start(ring, read);
        return false;
    }
    *event = MR_URING_DONE;
    if (result < 0) {
        read->status = mr_open_failed(read->extent.path, -result, read->err);
        return true;
    }
    read->open.fd = result;
    read->is_open = true;
    mr_status status = measure(read);
    if (status < 0) {
        mr_uring_finish(read, status);
    } else {
        *event = MR_URING_SIZED;
    }
    return true;
}

static bool received(mr_uring *ring, mr_uring_read *read, int result, mr_uring_event *event) {
    int64_t at = read->open.offset + (int64_t)read->done;
    bool again = result == -EINTR || result == -EAGAIN;
    read->done += result > 0 ? (size_t)result : 0;
    *event = MR_URING_DONE;
    if (result < 0 && !again) {
        mr_uring_finish(read, mr_read_failed(-result, at, read->err));
    } else if (result == 0) {
        mr_uring_finish(read, mr_file_shrank(at, read->err));
    } else if (read->done == read->open.size) {
        mr_uring_finish(read, MR_OK);
    } else {
        mr_uring_give(ring, read, read->data);
        return false;
    }
    return true;
}

/* Takes one completion; true when it is an event for the caller. */
static bool take_one(mr_uring *ring, struct io_uring_cqe *completion, mr_uring_event *event,
                     mr_uring_read **read) {
    *read = io_uring_cqe_get_data(completion);
    int result = completion->res;
    io_uring_cqe_seen(&ring->ring, completion);
    if (!*read) {
        listen_for_wake(ring);
        *event = MR_URING_WOKEN;
        return true;
    }
    return (*read)->is_open ? received(ring, *read, result, event)
                            : opened(ring, *read, result, event);
}

bool mr_uring_poll(mr_uring *ring, mr_uring_event *event, mr_uring_read **read) {
    struct io_uring_cqe *completion = NULL;
    while (io_uring_peek_cqe(&ring->ring, &completion) == 0) {
        if (take_one(ring, completion, event, read)) {
            return true;
        }
    }
    return false;
}

mr_status mr_uring_wait(mr_uring *ring, mr_uring_event *event, mr_uring_read **read,
                        mr_error *err) {
    while (!mr_uring_poll(ring, event, read)) {
        int result = io_uring_submit_and_wait(&ring->ring, 1);
        if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) {
            return mr_fail_errno(err, MR_E_IO, -result, "io_uring failed");
        }
    }
    return MR_OK;
}

#else /* without liburing */

mr_status mr_uring_open(mr_uring **out, uint32_t depth, mr_error *err) {
    (void)out;
    (void)depth;
    return mr_fail(err, MR_E_UNSUPPORTED, "this build has no io_uring");
}

void mr_uring_close(mr_uring *ring) {
    (void)ring;
}

void mr_uring_start(mr_uring *ring, mr_uring_read *read) {
    (void)ring;
    (void)read;
}

void mr_uring_give(mr_uring *ring, mr_uring_read *read, void *data) {
    (void)ring;
    (void)read;
    (void)data;
}

void mr_uring_finish(mr_uring_read *read, mr_status status) {
    read->status = status;
}

void mr_uring_lend(mr_uring_read *read, int fd) {
    (void)read;
    (void)fd;
}

mr_status mr_uring_wait(mr_uring *ring, mr_uring_event *event, mr_uring_read **read,
                        mr_error *err) {
    (void)ring;
    (void)event;
    (void)read;
    return mr_fail(err, MR_E_UNSUPPORTED, "this build has no io_uring");
}

bool mr_uring_poll(mr_uring *ring, mr_uring_event *event, mr_uring_read **read) {
    (void)ring;
    (void)event;
    (void)read;
    return false;
}

void mr_uring_wake(mr_uring *ring) {
    (void)ring;
}

#endif
