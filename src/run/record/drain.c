/* SPDX-License-Identifier: Apache-2.0 */
/* drain.c - see drain.h. The thread looks at every ring in turn, sooner when they were fuller; it
 * is never woken by those who record, so recording costs no system call. Of the probes it remembers
 * the addresses, each once: the end of the trace says which functions they are in. */
#include "run/record/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "run/threads.h"

enum { PIECE = 4096, PROBES = 512 }; /* spans and probes carried at once */
enum { ADDRESSES = 1 << 15 };        /* room for addresses; as a table by hash it is not filled */

struct mr_drain {
    mr_tracks *tracks;
    int fd;
    mr_threads thread;
    mr_tick_rate rate;
    bool joined;
    atomic_bool stop;
    _Atomic int64_t spans, bytes;
    _Atomic int failed;                 /* errno, or 0 */
    mr_slow_sample slowest[MR_SLOWEST]; /* a heap: the fastest of them is first */
    int32_t n_slowest;
    mr_time_span piece[PIECE];
    mr_probe probes[PROBES];
    uint64_t addresses[ADDRESSES]; /* 0: free */
    size_t n_addresses;
    int64_t no_room_for; /* probes with others */
};

/* ---- Writing ---- */
static void write_all(mr_drain *drain, const void *data, size_t size) {
    const char *at = data;
    while (size > 0 && !atomic_load(&drain->failed)) {
        ssize_t n = write(drain->fd, at, size);
        if (n < 0 && errno != EINTR) {
            atomic_store(&drain->failed, errno);
        }
        size_t done = n > 0 ? (size_t)n : 0;
        at += done;
        size -= done;
        atomic_fetch_add(&drain->bytes, (int64_t)done);
    }
}

/* JSON filled up to a multiple of 8 bytes, so that what follows stays aligned. */
static void write_text(mr_drain *drain, const char *text, size_t size) {
    write_all(drain, text, size);
    write_all(drain, "        ", (8 - size % 8) % 8);
}

static size_t padded(size_t size) {
    return (size + 7) / 8 * 8;
}

static void write_chunk_head(mr_drain *drain, uint32_t tag, uint32_t track, size_t size) {
    const mr_chunk_head head = {tag, track, size};
    write_all(drain, &head, sizeof head);
}

/* ---- The slowest samples ---- */
static void sink(mr_slow_sample *heap, int32_t n, int32_t at) {
    for (int32_t child = 2 * at + 1; child < n; at = child, child = 2 * at + 1) {
        child += child + 1 < n && heap[child + 1].duration < heap[child].duration;
        if (heap[at].duration <= heap[child].duration) {
            return;
        }
        mr_slow_sample moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static void note_slow(mr_drain *drain, const mr_time_span *span) {
    const mr_slow_sample entry = {span->duration, span->item, span->batch};
    if (drain->n_slowest < MR_SLOWEST) {
        drain->slowest[drain->n_slowest++] = entry;
        for (int32_t i = MR_SLOWEST / 2; drain->n_slowest == MR_SLOWEST && i >= 0; i--) {
            sink(drain->slowest, MR_SLOWEST, i);
        }
    } else if (entry.duration > drain->slowest[0].duration) {
        drain->slowest[0] = entry;
        sink(drain->slowest, MR_SLOWEST, 0);
    }
}

static int longest_first(const void *a, const void *b) {
    const mr_slow_sample *x = a, *y = b;
    return (x->duration < y->duration) - (x->duration > y->duration);
}

int32_t mr_drain_slowest(mr_drain *drain, const mr_slow_sample **out) {
    qsort(drain->slowest, (size_t)drain->n_slowest, sizeof *drain->slowest, longest_first);
    *out = drain->slowest;
    return drain->n_slowest;
}

/* ---- Carrying ---- */
static void to_nanoseconds(mr_drain *drain, size_t n) {
    mr_tick_rate rate = drain->rate;
    for (size_t i = 0; i < n; i++) {
        mr_time_span *span = &drain->piece[i];
        uint64_t end = mr_ticks_moment(rate, span->start + span->duration);
        span->start = mr_ticks_moment(rate, span->start);
        span->duration = end - span->start; /* so that what was inside another stays inside */
        if (span->kind == MR_SPAN_SAMPLE && mr_span_rows(span) == 1) { /* else it is no one's */
            note_slow(drain, span);
        }
    }
}

static size_t carry_piece(mr_drain *drain, int32_t track) {
    size_t n = mr_track_take(drain->tracks->list[track], drain->piece, PIECE);
    if (n > 0) {
        to_nanoseconds(drain, n);
        write_chunk_head(drain, MR_CHUNK_SPANS, (uint32_t)track, n * sizeof(mr_time_span));
        write_all(drain, drain->piece, n * sizeof(mr_time_span));
        atomic_fetch_add(&drain->spans, atomic_load(&drain->failed) ? 0 : (int64_t)n);
    }
    return n;
}

/* ---- Probes ---- */
static void note_address(mr_drain *drain, uint64_t address) {
    size_t at = (size_t)(address * 0x9e3779b97f4a7c15u >> 49);
    while (drain->addresses[at] && drain->addresses[at] != address) {
        at = (at + 1) % ADDRESSES;
    }
    if (!drain->addresses[at] && drain->n_addresses < ADDRESSES / 2) {
        drain->addresses[at] = address;
        drain->n_addresses += address != 0;
    }
    drain->no_room_for += drain->addresses[at] != address;
}

/* Their times are the kernel's, made to fit those of spans that end at about the same time: `zero`
 * is by now's reading of both clocks. */
static void carry_probes(mr_drain *drain, int32_t track, int64_t zero) {
    mr_probes *from = &drain->tracks->list[track]->probes;
    size_t n;
    do {
        n = mr_probes_take(from, zero, drain->probes, PROBES);
        for (size_t i = 0; i < n; i++) {
            note_address(drain, drain->probes[i].address);
        }
        if (n > 0) {
            write_chunk_head(drain, MR_CHUNK_PROBES, (uint32_t)track, n * sizeof(mr_probe));
            write_all(drain, drain->probes, n * sizeof(mr_probe));
        }
    } while (n == PROBES);
}

static int lowest_first(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

size_t mr_drain_addresses(mr_drain *drain, const uint64_t **out, int64_t *no_room_for) {
    qsort(drain->addresses, ADDRESSES, sizeof *drain->addresses, lowest_first);
    *out = drain->addresses + ADDRESSES - drain->n_addresses;
    *no_room_for = drain->no_room_for;
    return drain->n_addresses;
}

/* One rate for the whole trace, measured when first needed: with a better one later, spans that end
 * together would no longer do so. Returns how many spans came from the fullest ring. */
static size_t carry_all(mr_drain *drain) {
    size_t most = 0;
    if (drain->rate.start == 0) {
        drain->rate = mr_ticks_rate(&drain->tracks->clock);
    }
    for (int32_t i = 0; i < drain->tracks->n; i++) {
        size_t here = 0, n;
        do {
            n = carry_piece(drain, i);
            here += n;
        } while (n == PIECE);
        carry_probes(drain, i, mr_ticks_zero(&drain->tracks->clock, drain->rate));
        most = here > most ? here : most;
    }
    return most;
}

/* Waking up takes CPU time from the workers: where little comes, it is done half as often. */
static void rest(size_t came, size_t ring) {
    enum { MS = 1000000 };
    const struct timespec time = {0, came > ring / 16     ? MS
                                     : came > ring / 1024 ? 10 * MS
                                                          : 20 * MS};
    nanosleep(&time, NULL);
}

static void *drain_main(void *context) {
    mr_drain *drain = context;
    const size_t ring = drain->tracks->ring;
    rest(ring / 16, ring); /* long enough to know the clock's rate */
    while (!atomic_load(&drain->stop)) {
        rest(carry_all(drain), ring);
    }
    return NULL;
}

/* ---- Public ---- */
/* A mistyped name must not overwrite a pipeline or a photo. Devices and pipes hold nothing. */
static bool is_something_else(const char *path) {
    char head[sizeof MR_TRACE_MAGIC - 1];
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    bool file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    bool trace = file && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
                 memcmp(head, MR_TRACE_MAGIC, sizeof head) == 0;
    close(fd);
    return file && !trace;
}

/* Two runs in one file would ruin it for both: the lock says that one is at it, before anything of
 * its trace is lost. File systems without locks are trusted. */
static mr_status claim_file(int fd, const char *path, mr_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return MR_OK;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        mr_fail(err, MR_E_PARAM, "another loader is writing its trace to %s", path);
        mr_hint(err, "each wants a file of its own, also each rank: run.0.trace, run.1.trace; in "
                     "Python trace=f\"run.{rank}.trace\"");
        return MR_E_PARAM;
    }
    return ftruncate(fd, 0) == 0
               ? MR_OK
               : mr_fail_errno(err, MR_E_IO, errno, "cannot write the trace to %s", path);
}

static mr_status create_file(mr_drain *drain, const char *path, mr_error *err) {
    if (is_something_else(path)) {
        mr_fail(err, MR_E_PARAM, "%s is there already and is no trace", path);
        mr_hint(err, "name a file that is not there yet, or an old trace to be replaced");
        return MR_E_PARAM;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0) {
        return mr_fail_errno(err, MR_E_IO, errno, "cannot write the trace to %s", path);
    }
    mr_status status = claim_file(fd, path, err);
    if (status < 0) {
        close(fd);
        return status;
    }
    drain->fd = fd;
    return MR_OK;
}

static void write_header(mr_drain *drain, const char *header) {
    size_t size = strlen(header);
    mr_trace_head head = {.version = MR_TRACE_VERSION, .header_size = (uint32_t)padded(size)};
    memcpy(head.magic, MR_TRACE_MAGIC, sizeof head.magic);
    write_all(drain, &head, sizeof head);
    write_text(drain, header, size);
}

mr_status mr_drain_open(mr_drain **out, const char *path, mr_tracks *tracks, const char *header,
                        mr_error *err) {
    mr_drain *drain = mr_zalloc(1, sizeof *drain);
    if (!drain) {
        return mr_fail_memory(err, sizeof *drain);
    }
    drain->tracks = tracks;
    drain->fd = -1;
    mr_status status = create_file(drain, path, err);
    if (status == MR_OK) {
        write_header(drain, header);
        status = mr_threads_start(&drain->thread, 1, "mr-trace", drain_main, drain, 0, err);
    }
    if (status < 0) {
        mr_drain_close(drain, NULL);
        return status;
    }
    *out = drain;
    return MR_OK;
}

void mr_drain_finish(mr_drain *drain) {
    if (drain && !drain->joined) {
        atomic_store(&drain->stop, true);
        mr_threads_join(&drain->thread);
        drain->joined = true;
        carry_all(drain);
    }
}

void mr_drain_close(mr_drain *drain, const char *end) {
    if (!drain) {
        return;
    }
    if (drain->fd >= 0) {
        mr_drain_finish(drain);
        if (end) {
            write_chunk_head(drain, MR_CHUNK_END, 0, padded(strlen(end)));
            write_text(drain, end, strlen(end));
        }
        flock(drain->fd, LOCK_UN); /* children that were forked meanwhile have the file too */
        close(drain->fd);
    }
    mr_free(drain);
}

void mr_drain_status(const mr_drain *drain, mr_trace_status *out) {
    out->spans = atomic_load(&drain->spans);
    out->dropped = (int64_t)mr_tracks_dropped(drain->tracks);
    out->bytes = atomic_load(&drain->bytes);
    out->failed = atomic_load(&drain->failed);
}
