/* SPDX-License-Identifier: Apache-2.0 */
/* stream_writer.c - appending to a partition (millrace/stream.h).
 *
 * Entries are gathered in memory and written in one call. A writer goes on in the newest segment
 * where that ends with a whole entry; else what is at its end was never acknowledged, or is
 * damaged: it stays as it is, and a new segment begins. So no byte that a reader may have seen is
 * changed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"
#include "io/entry_cursor.h"
#include "io/partition.h"

enum { GATHERED = 1 << 20 };

struct mr_stream_writer {
    mr_stream_folder folder;
    mr_stream_options options;
    mr_stream_segment segment;
    uint64_t seed; /* of the segment's checksums */
    int lock, fd;
    int64_t flushed; /* bytes in the segment's file */
    int64_t next;    /* number */
    unsigned char *gathered;
    size_t used, room;
};

static mr_status blame(const mr_stream_writer *writer, mr_status status, mr_error *err) {
    if (err && status < 0) {
        mr_text_escape(err->source, sizeof err->source, writer->folder.path);
    }
    return status;
}

/* ---- Writing ---- */
static mr_status sync_segment(const mr_stream_writer *writer, mr_error *err) {
    if (writer->options.sync == MR_SYNC_NEVER || writer->fd < 0 || fdatasync(writer->fd) == 0) {
        return MR_OK;
    }
    return blame(writer, mr_fail_errno(err, MR_E_IO, errno, "cannot sync a segment"), err);
}

/* What is there of a write that failed is cut off again, so that it can be tried once more. */
static mr_status write_gathered(mr_stream_writer *writer, mr_error *err) {
    size_t done = 0;
    while (done < writer->used) {
        ssize_t n = pwrite(writer->fd, writer->gathered + done, writer->used - done,
                           (off_t)writer->flushed + (off_t)done);
        if (n < 0 && errno != EINTR) {
            int failed = errno;
            (void)!ftruncate(writer->fd, (off_t)writer->flushed);
            mr_fail_errno(err, MR_E_IO, failed, "cannot append to the stream");
            return blame(writer, MR_E_IO, err);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    writer->flushed += (int64_t)writer->used;
    writer->used = 0;
    return MR_OK;
}

mr_status mr_stream_flush(mr_stream_writer *writer, mr_error *err) {
    bool waiting = writer->used > 0;
    MR_TRY(write_gathered(writer, err));
    return waiting && writer->options.sync == MR_SYNC_FLUSH ? sync_segment(writer, err) : MR_OK;
}

static mr_status make_room(mr_stream_writer *writer, size_t bytes, mr_error *err) {
    if (writer->used + bytes <= writer->room) {
        return MR_OK;
    }
    MR_TRY(write_gathered(writer, err));
    size_t room = bytes > GATHERED ? bytes : GATHERED;
    if (bytes > writer->room || writer->room > room) {
        free(writer->gathered);
        writer->gathered = malloc(room);
        writer->room = writer->gathered ? room : 0;
    }
    return writer->gathered ? MR_OK : mr_fail_memory(err, room);
}

/* ---- Segments ---- */
/* A file of that name has no whole entry, or we would not be here: it was made by a writer that was
 * killed before it wrote. */
static mr_status begin_segment(mr_stream_writer *writer, mr_error *err) {
    writer->segment.first = writer->next;
    writer->seed = mr_stream_segment_seed(&writer->segment);
    writer->flushed = 0;
    writer->fd = openat(writer->folder.dir, mr_stream_segment_file(&writer->segment).text,
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (writer->fd < 0) {
        return blame(writer, mr_fail_errno(err, MR_E_IO, errno, "cannot make a segment"), err);
    }
    if (writer->options.sync != MR_SYNC_NEVER) {
        (void)fsync(writer->folder.dir); /* some file systems have nothing to sync here */
    }
    MR_TRY(make_room(writer, MR_ENTRY_HEAD, err));
    mr_stream_segment_head_make(&writer->segment, writer->gathered + writer->used);
    writer->used += MR_ENTRY_HEAD;
    return MR_OK;
}

static mr_status end_segment(mr_stream_writer *writer, mr_error *err) {
    MR_TRY(write_gathered(writer, err));
    MR_TRY(sync_segment(writer, err));
    close(writer->fd);
    writer->fd = -1;
    return MR_OK;
}

/* Reads the newest segment to its end. `*whole`: no byte comes after the last whole entry. Where
 * heads are damaged, numbers are left out: as many as there may have been. */
static mr_status find_end(mr_stream_writer *writer, const mr_stream_segment *newest, bool *whole,
                          mr_error *err) {
    mr_entry_cursor cursor = {.fd = -1};
    mr_entry entry;
    struct stat info;
    unsigned char head[MR_ENTRY_HEAD];
    int fd = -1;
    MR_TRY(mr_stream_segment_open(&writer->folder, newest, &fd, err));
    mr_entry_cursor_start(&cursor, fd, newest);
    mr_status status = MR_OK;
    while (status == MR_OK) {
        status = mr_entry_cursor_next(&cursor, &entry, err);
    }
    *whole = fstat(fd, &info) == 0 && info.st_size == cursor.at &&
             pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
             mr_stream_segment_head_check(newest, head);
    writer->next = cursor.claimed + (cursor.strayed ? cursor.strayed / MR_ENTRY_HEAD + 1 : 0);
    writer->flushed = cursor.at;
    mr_entry_cursor_free(&cursor);
    close(fd);
    return status == MR_END ? MR_OK : status;
}

static mr_status continue_segment(mr_stream_writer *writer, const mr_stream_segment *newest,
                                  mr_error *err) {
    writer->segment = *newest;
    writer->seed = mr_stream_segment_seed(newest);
    writer->fd = openat(writer->folder.dir, mr_stream_segment_file(newest).text,
                        O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return writer->fd >= 0
               ? make_room(writer, 0, err)
               : blame(writer, mr_fail_errno(err, MR_E_IO, errno, "cannot open a segment"), err);
}

static mr_status find_place(mr_stream_writer *writer, mr_error *err) {
    mr_stream_segment *names = NULL;
    int64_t n = 0;
    bool whole = false;
    MR_TRY(mr_stream_segments(&writer->folder, writer->segment.partition, &names, &n, err));
    mr_status status = n > 0 ? find_end(writer, &names[n - 1], &whole, err) : MR_OK;
    if (status == MR_OK) {
        status = whole ? continue_segment(writer, &names[n - 1], err) : begin_segment(writer, err);
    }
    mr_free(names);
    return status;
}

/* ---- Opening and closing ---- */
static mr_status take_lock(mr_stream_writer *writer, mr_error *err) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    char name[24];
    snprintf(name, sizeof name, "%05" PRIu32 ".lock", writer->segment.partition);
    writer->lock = openat(writer->folder.dir, name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (writer->lock >= 0 && fcntl(writer->lock, F_OFD_SETLK, &lock) == 0) {
        return MR_OK;
    }
    bool taken = writer->lock >= 0 && (errno == EAGAIN || errno == EACCES);
    if (!taken) {
        return blame(writer, mr_fail_errno(err, MR_E_IO, errno, "cannot lock the partition"), err);
    }
    mr_fail(err, MR_E_IO, "partition %" PRIu32 " is written to by somebody else",
            writer->segment.partition);
    mr_hint(err, "a partition has one writer: end it, or write to another partition");
    return blame(writer, MR_E_IO, err);
}

static uint64_t any_id(uint64_t given) {
    uint64_t id = given;
    while (id == 0 && getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id) {
        id = 0;
    }
    return id;
}

static mr_status open_writer(mr_stream_writer *writer, const char *folder, mr_error *err) {
    MR_TRY(mr_stream_folder_open(&writer->folder, folder, any_id(writer->options.id), err));
    writer->segment = (mr_stream_segment){writer->folder.id, writer->options.partition, 0};
    MR_TRY(take_lock(writer, err));
    return find_place(writer, err);
}

static void free_writer(mr_stream_writer *writer) {
    if (writer->fd >= 0) {
        close(writer->fd);
    }
    if (writer->lock >= 0) { /* a process that was forked meanwhile has the file open too */
        struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
        (void)fcntl(writer->lock, F_OFD_SETLK, &lock);
        close(writer->lock);
    }
    mr_stream_folder_close(&writer->folder);
    free(writer->gathered);
    mr_free(writer);
}

static mr_status check_options(const mr_stream_options *options, mr_error *err) {
    if (options->size != sizeof *options || options->partition >= MR_PARTITIONS_MAX ||
        options->segment_bytes < 0 || (uint32_t)options->sync > MR_SYNC_NEVER) {
        return mr_fail(err, MR_E_PARAM, "partitions are numbered 0 to %d, sizes are not negative",
                       MR_PARTITIONS_MAX - 1);
    }
    return MR_OK;
}

mr_status mr_stream_writer_open(mr_stream_writer **out, const char *folder,
                                const mr_stream_options *options, mr_error *err) {
    const mr_stream_options usual = MR_STREAM_OPTIONS_INIT;
    *out = NULL;
    options = options ? options : &usual;
    MR_TRY(check_options(options, err));
    mr_stream_writer *writer = mr_zalloc(1, sizeof *writer);
    if (!writer) {
        return mr_fail_memory(err, sizeof *writer);
    }
    writer->options = *options;
    writer->lock = writer->fd = writer->folder.dir = -1;
    if (writer->options.segment_bytes == 0) {
        writer->options.segment_bytes = (int64_t)256 << 20;
    }
    mr_status status = open_writer(writer, folder, err);
    if (status < 0) {
        free_writer(writer);
        return status;
    }
    *out = writer;
    return MR_OK;
}

mr_status mr_stream_writer_close(mr_stream_writer *writer, mr_error *err) {
    if (!writer) {
        return MR_OK;
    }
    mr_status status = writer->fd >= 0 ? end_segment(writer, err) : MR_OK;
    free_writer(writer);
    return status;
}

/* ---- Appending ---- */
static mr_status check_entry(const mr_entry *entry, mr_error *err) {
    if (entry->size > (size_t)MR_ENTRY_MAX) {
        return mr_fail(err, MR_E_LIMIT, "a value of %zu bytes; an entry may have %lld", entry->size,
                       (long long)MR_ENTRY_MAX);
    }
    if (entry->key_size > MR_ENTRY_KEY_MAX) {
        return mr_fail(err, MR_E_LIMIT, "a key of %zu bytes; it may have %d", entry->key_size,
                       MR_ENTRY_KEY_MAX);
    }
    return MR_OK;
}

/* A segment that could not be begun is begun at the next append. */
static mr_status segment_for(mr_stream_writer *writer, size_t bytes, mr_error *err) {
    int64_t filled = writer->flushed + (int64_t)writer->used;
    if (writer->fd >= 0 && filled > MR_ENTRY_HEAD &&
        filled + (int64_t)bytes > writer->options.segment_bytes) {
        MR_TRY(end_segment(writer, err));
    }
    return writer->fd >= 0 ? MR_OK : begin_segment(writer, err);
}

mr_status mr_stream_append(mr_stream_writer *writer, const mr_entry *entry, int64_t *number,
                           mr_error *err) {
    MR_TRY(check_entry(entry, err));
    size_t bytes = mr_entry_bytes(entry->size, entry->key_size);
    mr_entry own = *entry;
    MR_TRY(segment_for(writer, bytes, err));
    MR_TRY(make_room(writer, bytes, err));
    own.number = writer->next++;
    mr_entry_make(&own, writer->seed, writer->gathered + writer->used);
    writer->used += bytes;
    if (number) {
        *number = own.number;
    }
    return MR_OK;
}

mr_status mr_stream_writer_jump(mr_stream_writer *writer, int64_t number, mr_error *err) {
    bool is_empty = writer->flushed + (int64_t)writer->used <= MR_ENTRY_HEAD;
    if (number > writer->next && writer->fd >= 0 && is_empty) {
        writer->used = 0;
        MR_TRY(end_segment(writer, err));
        (void)unlinkat(writer->folder.dir, mr_stream_segment_file(&writer->segment).text, 0);
    }
    writer->next = number > writer->next ? number : writer->next;
    return MR_OK;
}

int64_t mr_stream_next_number(const mr_stream_writer *writer) {
    return writer->next;
}
