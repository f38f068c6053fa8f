/* SPDX-License-Identifier: Apache-2.0 */
/* readahead.c - two back-ends over one intake: a thread with an io_uring, or a pool of threads with
 * pread. Which one is decided when the loader opens; the bytes are the same. */
#include "run/read/readahead.h"

#include "core/error.h"
#include "core/memory.h"
#include "io/handles.h"
#include "io/throttle.h"
#include "run/threads.h"

/* One thread that reads. */
typedef struct read_thread {
    mr_readahead *readahead;
    mr_track *track;
} read_thread;

struct mr_readahead {
    mr_intake intake;
    mr_handles *handles;
    mr_throttle throttle;
    mr_uring *uring;    /* NULL: the pool */
    uint32_t in_flight; /* at most */
    _Atomic uint32_t allowed;
    pthread_mutex_t lock; /* held only around sleeping at the gate and waking */
    pthread_cond_t gate;  /* for readers of the pool: more are allowed, or it is over */
    read_thread *readers;
    uint32_t n_readers;
    mr_threads threads, asker;
};

/* ---- Pieces: a load as reads ---- */
/* Neighbouring extents of one file lie side by side in memory too, and are read as one; what is
 * large is read in parts, so that several can be under way. */
enum { PIECE = 4 << 20 };

typedef struct piece {
    mr_extent extent;
    char *to; /* NULL: where the size is not known yet */
} piece;

/* Walks over a load's pieces. */
typedef struct piece_walk {
    const mr_load *load;
    int32_t next;    /* extent */
    int64_t skipped; /* bytes of it */
    char *to;
} piece_walk;

static bool follows(const mr_extent *a, const mr_extent *b) {
    return a->object != 0 && a->object == b->object && a->offset + a->length == b->offset;
}

/* Takes what is left of an extent, as far as there is room in the piece. */
static void take_some(piece_walk *walk, mr_extent *out) {
    const mr_extent *extent = &walk->load->extents[walk->next];
    int64_t left = extent->length - walk->skipped, room = PIECE - out->length;
    int64_t take = left < room ? left : room;
    out->length += take;
    walk->skipped += take;
    if (walk->skipped == extent->length) {
        walk->next++;
        walk->skipped = 0;
    }
}

static bool next_piece(piece_walk *walk, piece *out) {
    const mr_load *load = walk->load;
    if (walk->next >= load->n_extents) {
        return false;
    }
    const mr_extent *first = &load->extents[walk->next];
    out->extent = *first;
    out->to = walk->to;
    if (first->length < 0) {
        walk->next++;
        return true;
    }
    out->extent.offset += walk->skipped;
    out->extent.length = 0;
    out->extent.limit = INT64_MAX; /* the whole was measured */
    take_some(walk, &out->extent);
    while (walk->next < load->n_extents && walk->skipped == 0 && out->extent.length < PIECE &&
           follows(&out->extent, &load->extents[walk->next])) {
        take_some(walk, &out->extent);
    }
    walk->to = walk->to ? walk->to + out->extent.length : NULL;
    return true;
}

static mr_status extent_too_large(const mr_extent *extent, mr_error *err) {
    return mr_fail(err, MR_E_LIMIT, "%lld bytes are more than the limit of %lld",
                   (long long)extent->length, (long long)extent->limit);
}

/* The bytes of a load whose extents say how long they are; *known is false for a file of unknown
 * length. */
static mr_status measure(const mr_load *load, size_t *total, bool *known, mr_error *err) {
    *total = 0;
    *known = true;
    for (int32_t i = 0; i < load->n_extents; i++) {
        const mr_extent *extent = &load->extents[i];
        if (extent->length < 0) {
            *known = false;
            return load->n_extents == 1
                       ? MR_OK
                       : mr_fail(err, MR_E_INTERNAL, "one of several extents has no length");
        }
        if (extent->length > extent->limit) {
            return extent_too_large(extent, err);
        }
        if (__builtin_add_overflow(*total, (size_t)extent->length, total)) {
            return mr_fail(err, MR_E_LIMIT, "a block of too many bytes");
        }
    }
    return MR_OK;
}

static int32_t count_pieces(const mr_load *load) {
    piece_walk walk = {.load = load};
    piece ignored;
    int32_t n = 0;
    while (next_piece(&walk, &ignored)) {
        n++;
    }
    return n;
}

static void note_load(const mr_load *load, mr_track *track) {
    size_t size = 0;
    for (int32_t i = 0; load->buffer && i < load->n_extents; i++) {
        size += load->bytes[i].size;
    }
    mr_track_since(track, MR_SPAN_READ, load->started, load->block.first, MR_SPAN_NO_BATCH, size);
}

static void piece_done(mr_readahead *readahead, mr_load *load, mr_track *track) {
    if (atomic_load(&load->pieces_left) == 1) {
        note_load(load, track); /* before it is handed over: it may be gone the next moment */
    }
    mr_intake_piece_done(&readahead->intake, load);
}

static void fail_load(mr_readahead *readahead, mr_load *load, const mr_error *err,
                      mr_track *track) {
    mr_load_fail(load, err->code, err);
    load->pieces_left = 1;
    piece_done(readahead, load, track);
}

/* ---- A pool of threads with pread ---- */
static mr_load *wait_for_start(mr_intake *intake) {
    mr_load *load = atomic_load(&intake->stopped) ? NULL : mr_intake_start(intake);
    while (!load && !atomic_load(&intake->stopped)) {
        int64_t announced = mr_intake_announce(intake);
        load = mr_intake_start(intake);
        if (!load) {
            mr_intake_sleep(intake, announced);
        }
        mr_intake_retire(intake);
    }
    return load;
}

/* A file that stays open is taken from the table, or opened and left there. */
static mr_status open_piece(mr_readahead *readahead, const mr_load *load, const mr_extent *extent,
                            mr_open_extent *open, bool *lent, bool *was_open, mr_error *err) {
    int64_t file_size = 0;
    int fd = extent->object ? mr_handles_take(readahead->handles, extent->object, &file_size) : -1;
    *lent = *was_open = fd >= 0;
    if (fd >= 0) {
        mr_status status = mr_extent_check_size(extent, file_size, open, err);
        open->fd = fd;
        if (status < 0) {
            mr_handles_give(readahead->handles, extent->object, fd);
        }
        return status;
    }
    MR_TRY(mr_extent_open_within(extent, &load->dataset->limits, open, err));
    *lent = extent->object && !open->far &&
            mr_handles_offer(readahead->handles, extent->object, open->fd, open->file_size);
    return MR_OK;
}

static void close_piece(mr_readahead *readahead, const mr_extent *extent,
                        const mr_open_extent *open, bool lent) {
    if (lent) {
        mr_handles_give(readahead->handles, extent->object, open->fd);
    } else {
        mr_extent_close(open);
    }
}

static mr_status reserve_file(mr_load *load, size_t size) {
    if (!mr_load_reserve(load, size, true)) {
        return MR_E_CANCELLED;
    }
    load->one = (mr_bytes){load->buffer, size};
    return (mr_status)atomic_load(&load->status);
}

static void read_piece(mr_readahead *readahead, mr_load *load, const piece *part) {
    mr_error err;
    mr_open_extent open = {0};
    bool lent;
    mr_error_clear(&err);
    bool was_open = false;
    mr_status status = open_piece(readahead, load, &part->extent, &open, &lent, &was_open, &err);
    if (status == MR_OK) {
        char *to = part->to;
        if (!to) {
            status = reserve_file(load, open.size);
            to = load->buffer;
        }
        status = status < 0 ? status : mr_extent_read(&open, to, &err);
        close_piece(readahead, &part->extent, &open, lent);
        if (mr_throttle_is_on(&readahead->throttle)) {
            mr_throttle_wait(&readahead->throttle, !was_open, open.size);
        }
    }
    if (status < 0) {
        mr_load_fail(load, status, &err);
    }
}

static void read_load(mr_readahead *readahead, mr_load *load, mr_track *track) {
    mr_error err;
    size_t total;
    bool known;
    mr_error_clear(&err);
    load->started = mr_track_now(track);
    if (measure(load, &total, &known, &err) < 0) {
        fail_load(readahead, load, &err, track);
        return;
    }
    if (known && !mr_load_reserve(load, total, true)) {
        mr_fail(&err, MR_E_CANCELLED, "stopped");
        fail_load(readahead, load, &err, track);
        return;
    }
    if (known && load->buffer) {
        mr_load_lay_out(load);
    }
    piece_walk walk = {.load = load, .to = load->buffer};
    piece part;
    while (atomic_load(&load->status) == MR_OK && next_piece(&walk, &part)) {
        read_piece(readahead, load, &part);
    }
    load->pieces_left = 1;
    piece_done(readahead, load, track);
}

/* Those beyond what is allowed wait here. */
static void enter(const read_thread *self) {
    mr_readahead *readahead = self->readahead;
    uint32_t number = (uint32_t)(self - readahead->readers);
    if (number < atomic_load(&readahead->allowed)) {
        return;
    }
    pthread_mutex_lock(&readahead->lock);
    while (number >= atomic_load(&readahead->allowed) && !atomic_load(&readahead->intake.stopped)) {
        pthread_cond_wait(&readahead->gate, &readahead->lock);
    }
    pthread_mutex_unlock(&readahead->lock);
}

static mr_load *next_load(const read_thread *self) {
    enter(self);
    return wait_for_start(&self->readahead->intake);
}

static void *pool_reader(void *context) {
    const read_thread *self = context;
    mr_load *load;
    while ((load = next_load(self)) != NULL) {
        read_load(self->readahead, load, self->track);
    }
    mr_track_detach(self->track);
    return NULL;
}

/* ---- One thread with an io_uring ---- */
/* A read under way. */
typedef struct berth {
    mr_uring_read read;
    mr_error err;
    mr_load *load;
    char *to;
    bool waits; /* its size is known, its memory is not there yet */
    bool lent;
    struct berth *next_free;
} berth;

typedef struct uring_reader {
    mr_readahead *readahead;
    mr_uring *uring;
    berth *berths, *free;
    uint32_t in_flight, n_refused;
    mr_load *current; /* a load whose pieces are not all under way */
    piece_walk walk;
    bool memory_refused; /* for all of the current load */
    size_t total;
    mr_track *track;
} uring_reader;

static void release_berth(uring_reader *reader, berth *own) {
    if (own->lent) {
        mr_handles_give(reader->readahead->handles, own->read.extent.object, own->read.open.fd);
    }
    own->next_free = reader->free;
    reader->free = own;
    reader->in_flight--;
}

static void finish_read(uring_reader *reader, berth *own) {
    mr_load *load = own->load;
    if (own->read.status < 0) {
        mr_load_fail(load, own->read.status, &own->err);
    }
    release_berth(reader, own);
    piece_done(reader->readahead, load, reader->track);
}

static void give_memory(uring_reader *reader, berth *own) {
    if (own->read.open.size == 0) {
        mr_uring_finish(&own->read, MR_OK);
        finish_read(reader, own);
    } else {
        mr_uring_give(reader->uring, &own->read, own->to);
    }
}

/* Memory of a file whose size came to light. True when the read went on, one way or the other. */
static bool try_memory(uring_reader *reader, berth *own) {
    mr_load *load = own->load;
    if (!own->to) {
        if (!mr_intake_reserve(&reader->readahead->intake, load, own->read.open.size)) {
            return false;
        }
        load->one = (mr_bytes){load->buffer, own->read.open.size};
        own->to = load->buffer;
    }
    if (!own->to) { /* there is no memory, and the load says so */
        mr_uring_finish(&own->read, MR_OK);
        finish_read(reader, own);
    } else {
        give_memory(reader, own);
    }
    return true;
}

/* A file that many reads share goes into the table once it is open. */
static void keep_open(const uring_reader *reader, berth *own) {
    int32_t object = own->read.extent.object;
    if (object && !own->lent &&
        mr_handles_offer(reader->readahead->handles, object, own->read.open.fd,
                         own->read.open.file_size)) {
        own->lent = own->read.is_lent = true;
    }
}

static void handle_event(uring_reader *reader, mr_uring_event event, mr_uring_read *read) {
    berth *own = (berth *)(void *)read; /* its first member */
    if (event == MR_URING_DONE) {
        finish_read(reader, own);
    } else if (event == MR_URING_SIZED) {
        keep_open(reader, own);
        if (!try_memory(reader, own)) {
            own->waits = true;
            reader->n_refused++;
        }
    }
}

/* Looks at refused reads again; few and rare, so a walk over all will do. */
static void retry_refused(uring_reader *reader, bool stopping) {
    for (uint32_t i = 0; reader->n_refused > 0 && i < reader->readahead->in_flight; i++) {
        berth *own = &reader->berths[i];
        if (!own->waits) {
            continue;
        }
        if (stopping) {
            mr_uring_finish(&own->read, MR_E_CANCELLED);
            release_berth(reader, own);
        }
        if (stopping || try_memory(reader, own)) {
            own->waits = false;
            reader->n_refused--;
        }
    }
}

static void start_piece(uring_reader *reader, const piece *part) {
    berth *own = reader->free;
    int64_t file_size = 0;
    reader->free = own->next_free;
    reader->in_flight++;
    *own = (berth){.load = reader->current, .to = part->to, .read.extent = part->extent};
    own->read.err = &own->err;
    mr_error_clear(&own->err);
    int32_t object = part->extent.object;
    int fd = object ? mr_handles_take(reader->readahead->handles, object, &file_size) : -1;
    if (fd < 0) {
        mr_uring_start(reader->uring, &own->read);
        return;
    }
    own->lent = true;
    mr_uring_lend(&own->read, fd);
    mr_status status = mr_extent_check_size(&part->extent, file_size, &own->read.open, &own->err);
    own->read.open.fd = fd;
    if (status < 0) {
        mr_uring_finish(&own->read, status);
        finish_read(reader, own);
    } else {
        give_memory(reader, own);
    }
}

/* Begins with the next load. False: there is none to begin with, or no memory for it yet. */
static bool begin_load(uring_reader *reader) {
    mr_load *load = reader->current;
    bool known = true;
    mr_error err;
    mr_error_clear(&err);
    if (!load) {
        load = mr_intake_start(&reader->readahead->intake);
        if (!load) {
            return false;
        }
        load->started = mr_track_now(reader->track);
        if (measure(load, &reader->total, &known, &err) < 0) {
            fail_load(reader->readahead, load, &err, reader->track);
            return true;
        }
        reader->current = load;
    }
    if (known && !mr_intake_reserve(&reader->readahead->intake, load, reader->total)) {
        reader->memory_refused = true;
        return false;
    }
    reader->memory_refused = false;
    if (atomic_load(&load->status) < 0) {
        load->pieces_left = 1;
        reader->current = NULL;
        piece_done(reader->readahead, load, reader->track);
        return true;
    }
    if (known) {
        mr_load_lay_out(load);
    }
    load->pieces_left = count_pieces(load);
    reader->walk = (piece_walk){.load = load, .to = known ? load->buffer : NULL};
    return true;
}

static void start_reads(uring_reader *reader) {
    piece part;
    while (reader->free && reader->in_flight < atomic_load(&reader->readahead->allowed)) {
        if (!reader->current || reader->memory_refused) {
            if (!begin_load(reader)) {
                return;
            }
            continue;
        }
        bool more = next_piece(&reader->walk, &part);
        if (more) {
            bool last = reader->walk.next >= reader->walk.load->n_extents;
            start_piece(reader, &part);
            reader->current = last ? NULL : reader->current;
        }
    }
}

static void read_by_uring(uring_reader *reader) {
    mr_intake *intake = &reader->readahead->intake;
    for (;;) {
        bool stopping = atomic_load(&intake->stopped);
        mr_uring_event event;
        mr_uring_read *read;
        retry_refused(reader, stopping);
        if (!stopping) {
            start_reads(reader);
        } else if (reader->in_flight == 0) {
            return;
        }
        if (mr_uring_wait(reader->uring, &event, &read, &intake->failure) < 0) {
            mr_intake_stop(intake);
            return; /* the kernel refuses its own queue: nothing can be waited for */
        }
        do {
            handle_event(reader, event, read);
        } while (mr_uring_poll(reader->uring, &event, &read));
    }
}

static void *uring_main(void *context) {
    const read_thread *self = context;
    mr_readahead *readahead = self->readahead;
    uring_reader reader = {.readahead = readahead, .uring = readahead->uring, .track = self->track};
    reader.berths = mr_zalloc(readahead->in_flight, sizeof *reader.berths);
    if (!reader.berths) {
        mr_fail_memory(&readahead->intake.failure, readahead->in_flight * sizeof *reader.berths);
        mr_intake_stop(&readahead->intake);
    } else {
        for (uint32_t i = 0; i < readahead->in_flight; i++) {
            reader.berths[i].next_free = reader.free;
            reader.free = &reader.berths[i];
        }
        read_by_uring(&reader);
    }
    mr_free(reader.berths);
    mr_track_detach(self->track);
    return NULL;
}

static void wake_uring(void *user) {
    mr_uring_wake(user);
}

/* ---- The asker ---- */
/* One thread, so that questions come in the order of the plan: an origin that works them off one by
 * one would otherwise wait for memory with an older load behind the one it is at, and never get
 * any. Readers are woken for several answers at a time, and before it sleeps. */
static void *asker(void *context) {
    enum { SEVERAL = 16 };
    mr_intake *intake = context;
    int64_t answered = 0;
    while (!atomic_load(&intake->stopped)) {
        if (mr_intake_ask_one(intake)) {
            if (++answered % SEVERAL == 0) {
                mr_intake_wake_readers(intake);
            }
            continue;
        }
        if (answered % SEVERAL != 0) {
            mr_intake_wake_readers(intake);
            answered = 0;
        }
        int64_t announced = mr_intake_announce(intake);
        if (mr_intake_ask_one(intake)) {
            answered++;
        } else {
            mr_intake_sleep(intake, announced);
        }
        mr_intake_retire(intake);
    }
    return NULL;
}

static mr_status start_asker(mr_readahead *readahead, mr_error *err) {
    return readahead->intake.n_origins == 0 ? MR_OK
                                            : mr_threads_start(&readahead->asker, 1, "mr-ask",
                                                               asker, &readahead->intake, 0, err);
}

/* ---- Public ---- */
/* Threads of the pool, where more reads in flight are tried for. */
enum { POOL_MOST = 64 };

static mr_status choose_back_end(mr_readahead *readahead, mr_io_kind io, mr_error *err) {
    if (io != MR_IO_PREAD && !mr_throttle_is_on(&readahead->throttle)) {
        mr_status status = mr_uring_open(&readahead->uring, readahead->in_flight, err);
        if (status != MR_E_UNSUPPORTED || io != MR_IO_AUTO) {
            return status;
        }
    }
    uint32_t allowed = atomic_load(&readahead->allowed);
    uint32_t most = allowed > POOL_MOST ? allowed : POOL_MOST;
    readahead->in_flight = readahead->in_flight < most ? readahead->in_flight : most;
    return MR_OK;
}

static mr_status make_readers(mr_readahead *readahead, mr_tracks *tracks, mr_error *err) {
    readahead->n_readers = readahead->uring ? 1 : readahead->in_flight;
    readahead->readers = mr_zalloc(readahead->n_readers, sizeof *readahead->readers);
    for (uint32_t i = 0; readahead->readers && i < readahead->n_readers; i++) {
        readahead->readers[i] = (read_thread){readahead, mr_tracks_add(tracks, MR_TRACK_READER)};
        if (!readahead->readers[i].track) {
            return mr_fail_memory(err, sizeof(mr_track));
        }
    }
    return readahead->readers ? MR_OK
                              : mr_fail_memory(err, readahead->n_readers * sizeof(read_thread));
}

static mr_status start_threads(mr_readahead *readahead, mr_error *err) {
    mr_intake *intake = &readahead->intake;
    if (!readahead->uring) {
        return mr_threads_start(&readahead->threads, readahead->n_readers, "mr-read", pool_reader,
                                readahead->readers, sizeof(read_thread), err);
    }
    intake->wake_reader = wake_uring; /* a wake-up is a file: it waits, nobody misses it */
    intake->wake_user = readahead->uring;
    return mr_threads_start(&readahead->threads, 1, "mr-uring", uring_main, readahead->readers, 0,
                            err);
}

mr_status mr_readahead_open(mr_readahead **out, const mr_readahead_config *config, mr_error *err) {
    mr_readahead *readahead = mr_zalloc(1, sizeof *readahead);
    if (!readahead) {
        return mr_fail_memory(err, sizeof *readahead);
    }
    atomic_init(&readahead->allowed, config->in_flight);
    readahead->in_flight =
        config->most_in_flight > config->in_flight ? config->most_in_flight : config->in_flight;
    mr_throttle_init(&readahead->throttle, config->bytes_per_second, config->open_ns);
    pthread_mutex_init(&readahead->lock, NULL);
    pthread_cond_init(&readahead->gate, NULL);
    mr_status status = mr_intake_init(&readahead->intake, &config->intake, err);
    readahead->handles = mr_handles_new();
    if (status == MR_OK && !readahead->handles) {
        status = mr_fail_memory(err, 4096);
    }
    if (status == MR_OK) {
        status = choose_back_end(readahead, config->io, err);
    }
    if (status == MR_OK) {
        status = make_readers(readahead, config->tracks, err);
    }
    if (status == MR_OK) {
        status = start_threads(readahead, err);
    }
    if (status == MR_OK) {
        status = start_asker(readahead, err);
    }
    if (status < 0) {
        mr_readahead_close(readahead);
        return status;
    }
    *out = readahead;
    return MR_OK;
}

static void open_gate(mr_readahead *readahead) {
    pthread_mutex_lock(&readahead->lock);
    pthread_cond_broadcast(&readahead->gate);
    pthread_mutex_unlock(&readahead->lock);
}

void mr_readahead_stop(mr_readahead *readahead) {
    mr_intake_stop(&readahead->intake);
    open_gate(readahead);
}

void mr_readahead_allow(mr_readahead *readahead, uint32_t in_flight) {
    uint32_t most = readahead->in_flight;
    atomic_store(&readahead->allowed, in_flight < most ? in_flight : most);
    open_gate(readahead);
    mr_intake_wake_readers(&readahead->intake);
}

uint32_t mr_readahead_most(const mr_readahead *readahead) {
    return readahead->in_flight;
}

uint32_t mr_readahead_in_flight(const mr_readahead *readahead) {
    return atomic_load(&readahead->allowed);
}

void mr_readahead_end(mr_readahead *readahead) {
    mr_readahead_stop(readahead);
    mr_threads_join(&readahead->asker);
    mr_intake_end_origins(&readahead->intake);
    mr_threads_join(&readahead->threads);
}

void mr_readahead_close(mr_readahead *readahead) {
    if (readahead) {
        mr_readahead_end(readahead);
        mr_uring_close(readahead->uring);
        mr_intake_free(&readahead->intake);
        mr_handles_free(readahead->handles);
        pthread_mutex_destroy(&readahead->lock);
        pthread_cond_destroy(&readahead->gate);
        mr_free(readahead->readers);
        mr_free(readahead);
    }
}

mr_intake *mr_readahead_intake(mr_readahead *readahead) {
    return &readahead->intake;
}

const char *mr_readahead_kind(const mr_readahead *readahead) {
    return readahead->uring ? "io_uring" : "pread";
}
