/* SPDX-License-Identifier: Apache-2.0 */
/* readahead.c - two back-ends over one window: a thread with an io_uring, or a pool of threads with
 * pread. Which one is decided when the loader opens; the bytes are the same. */
#include "run/readahead.h"

#include "core/error.h"
#include "core/memory.h"
#include "run/threads.h"

/* One thread that reads. */
typedef struct read_thread {
    mr_readahead *readahead;
    mr_track *track;
} read_thread;

struct mr_readahead {
    mr_window window;
    mr_uring *uring; /* NULL: the pool */
    uint32_t in_flight;
    read_thread *readers;
    uint32_t n_readers;
    mr_threads threads;
};

static void note_read(const mr_window *window, const mr_window_entry *entry, mr_track *track) {
    int64_t sample = window->plan[entry->number % window->plan_size];
    mr_track_since(track, MR_SPAN_READ, entry->started, sample, MR_SPAN_NO_BATCH,
                   entry->read.open.size);
}

/* ---- A pool of threads with pread ---- */
static mr_window_entry *wait_for_start(mr_window *window) {
    mr_window_entry *entry = mr_window_start(window);
    while (!entry && !atomic_load(&window->stopped)) {
        int64_t announced = mr_window_announce(window);
        entry = mr_window_start(window);
        if (!entry) {
            mr_window_sleep(window, announced);
        }
        mr_window_retire(window);
    }
    return entry;
}

static bool wait_for_memory(mr_window *window, mr_window_entry *entry) {
    bool granted = mr_window_reserve(window, entry);
    while (!granted && !atomic_load(&window->stopped)) {
        int64_t announced = mr_window_announce(window);
        granted = mr_window_reserve(window, entry);
        if (!granted) {
            mr_window_sleep(window, announced);
        }
        mr_window_retire(window);
    }
    return granted;
}

static mr_status read_opened(mr_window *window, mr_window_entry *entry) {
    if (!wait_for_memory(window, entry)) {
        return MR_E_CANCELLED;
    }
    return entry->read.status < 0 ? entry->read.status
                                  : mr_extent_read(&entry->read.open, entry->buffer, &entry->err);
}

static void read_one(mr_window *window, mr_window_entry *entry, mr_track *track) {
    entry->started = mr_track_now(track);
    mr_status status = mr_extent_open(&entry->read.extent, &entry->read.open, &entry->err);
    if (status == MR_OK) {
        status = read_opened(window, entry);
        mr_extent_close(&entry->read.open);
    }
    entry->read.status = status;
    note_read(window, entry, track);
    mr_window_publish(window, entry);
}

static void *pool_reader(void *context) {
    const read_thread *self = context;
    mr_window *window = &self->readahead->window;
    mr_window_entry *entry;
    while ((entry = wait_for_start(window)) != NULL) {
        read_one(window, entry, self->track);
    }
    mr_track_detach(self->track);
    return NULL;
}

/* ---- One thread with an io_uring ---- */
typedef struct uring_reader {
    mr_window *window;
    mr_uring *uring;
    uint32_t in_flight, most;
    uint32_t n_refused; /* reads whose size is known and whose memory is not there yet */
    mr_track *track;
} uring_reader;

static mr_window_entry *entry_of(mr_uring_read *read) {
    return (mr_window_entry *)(void *)((char *)read - offsetof(mr_window_entry, read));
}

static void finish_read(uring_reader *reader, mr_window_entry *entry) {
    reader->in_flight--;
    note_read(reader->window, entry, reader->track);
    mr_window_publish(reader->window, entry);
}

/* True when the read went on, one way or the other. */
static bool try_memory(uring_reader *reader, mr_window_entry *entry) {
    if (!mr_window_reserve(reader->window, entry)) {
        return false;
    }
    if (entry->read.status < 0 || entry->read.open.size == 0) {
        mr_uring_finish(&entry->read, entry->read.status);
        finish_read(reader, entry);
    } else {
        mr_uring_give(reader->uring, &entry->read, entry->buffer);
    }
    return true;
}

static void handle_event(uring_reader *reader, mr_uring_event event, mr_uring_read *read) {
    if (event == MR_URING_DONE) {
        finish_read(reader, entry_of(read));
    } else if (event == MR_URING_SIZED && !try_memory(reader, entry_of(read))) {
        entry_of(read)->waits = true;
        reader->n_refused++;
    }
}

/* Looks at refused reads again; few and rare, so a walk over the window will do. */
static void retry_refused(uring_reader *reader, bool stopping) {
    mr_window *window = reader->window;
    for (int64_t i = 0; reader->n_refused > 0 && i < window->n_entries; i++) {
        mr_window_entry *entry = &window->entries[i];
        if (!entry->waits) {
            continue;
        }
        if (stopping) {
            mr_uring_finish(&entry->read, MR_E_CANCELLED);
            reader->in_flight--;
        }
        if (stopping || try_memory(reader, entry)) {
            entry->waits = false;
            reader->n_refused--;
        }
    }
}

static void start_reads(uring_reader *reader) {
    mr_window_entry *entry;
    while (reader->in_flight < reader->most && (entry = mr_window_start(reader->window)) != NULL) {
        reader->in_flight++;
        entry->started = mr_track_now(reader->track);
        mr_uring_start(reader->uring, &entry->read);
    }
}

static void read_by_uring(mr_readahead *readahead, mr_track *track) {
    uring_reader reader = {&readahead->window, readahead->uring, 0, readahead->in_flight, 0, track};
    for (;;) {
        bool stopping = atomic_load(&readahead->window.stopped);
        mr_uring_event event;
        mr_uring_read *read;
        retry_refused(&reader, stopping);
        if (!stopping) {
            start_reads(&reader);
        } else if (reader.in_flight == 0) {
            return;
        }
        if (mr_uring_wait(readahead->uring, &event, &read, &readahead->window.failure) < 0) {
            mr_window_stop(&readahead->window);
            return; /* the kernel refuses its own queue: nothing can be waited for */
        }
        do {
            handle_event(&reader, event, read);
        } while (mr_uring_poll(readahead->uring, &event, &read));
    }
}

static void *uring_main(void *context) {
    const read_thread *self = context;
    read_by_uring(self->readahead, self->track);
    mr_track_detach(self->track);
    return NULL;
}

static void wake_uring(void *user) {
    mr_uring_wake(user);
}

/* ---- Public ---- */
static mr_status choose_back_end(mr_readahead *readahead, mr_io_kind io, mr_error *err) {
    if (io == MR_IO_PREAD) {
        return MR_OK;
    }
    mr_status status = mr_uring_open(&readahead->uring, readahead->in_flight, err);
    if (status == MR_E_UNSUPPORTED && io == MR_IO_AUTO) {
        return MR_OK;
    }
    return status;
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
    mr_window *window = &readahead->window;
    if (!readahead->uring) {
        return mr_threads_start(&readahead->threads, readahead->n_readers, "mr-read", pool_reader,
                                readahead->readers, sizeof(read_thread), err);
    }
    window->wake_reader = wake_uring;
    window->wake_user = readahead->uring;
    atomic_store(&window->waiting_readers, 1); /* a wake-up is a file: it waits, nobody misses it */
    return mr_threads_start(&readahead->threads, 1, "mr-uring", uring_main, readahead->readers, 0,
                            err);
}

mr_status mr_readahead_open(mr_readahead **out, const mr_readahead_config *config, mr_error *err) {
    mr_readahead *readahead = mr_zalloc(1, sizeof *readahead);
    if (!readahead) {
        return mr_fail_memory(err, sizeof *readahead);
    }
    readahead->in_flight = config->in_flight;
    mr_status status = mr_window_init(&readahead->window, &config->window, err);
    if (status == MR_OK) {
        status = choose_back_end(readahead, config->io, err);
    }
    if (status == MR_OK) {
        status = make_readers(readahead, config->tracks, err);
    }
    if (status == MR_OK) {
        status = start_threads(readahead, err);
    }
    if (status < 0) {
        mr_readahead_close(readahead);
        return status;
    }
    *out = readahead;
    return MR_OK;
}

void mr_readahead_stop(mr_readahead *readahead) {
    mr_window_stop(&readahead->window);
}

void mr_readahead_end(mr_readahead *readahead) {
    mr_readahead_stop(readahead);
    mr_threads_join(&readahead->threads);
}

void mr_readahead_close(mr_readahead *readahead) {
    if (readahead) {
        mr_readahead_end(readahead);
        mr_uring_close(readahead->uring);
        mr_window_free(&readahead->window);
        mr_free(readahead->readers);
        mr_free(readahead);
    }
}

mr_window *mr_readahead_window(mr_readahead *readahead) {
    return &readahead->window;
}

const char *mr_readahead_kind(const mr_readahead *readahead) {
    return readahead->uring ? "io_uring" : "pread";
}
