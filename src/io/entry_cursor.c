/* SPDX-License-Identifier: Apache-2.0 */
/* entry_cursor.c - see entry_cursor.h. */
#include "io/entry_cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

enum { WINDOW = 1 << 20 };

void mr_entry_cursor_start(mr_entry_cursor *cursor, int fd, const mr_stream_segment *name) {
    cursor->fd = fd;
    cursor->seed = mr_stream_segment_seed(name);
    cursor->at = MR_ENTRY_HEAD;
    cursor->expected = cursor->claimed = name->first;
    cursor->filled = 0;
}

void mr_entry_cursor_free(mr_entry_cursor *cursor) {
    free(cursor->buffer);
    *cursor = (mr_entry_cursor){.fd = -1};
}

static mr_status make_room(mr_entry_cursor *cursor, size_t room, mr_error *err) {
    size_t least = cursor->least ? cursor->least : WINDOW;
    room = room < least ? least : room;
    if (cursor->room == room || (cursor->room > room && cursor->room <= (size_t)64 * WINDOW)) {
        return MR_OK;
    }
    free(cursor->buffer);
    cursor->filled = 0;
    cursor->buffer = malloc(room);
    cursor->room = cursor->buffer ? room : 0;
    return cursor->buffer ? MR_OK : mr_fail_memory(err, room);
}

/* The buffer begins at `at` and has at least `least` bytes, unless the file ends before. */
static mr_status fill_buffer(mr_entry_cursor *cursor, int64_t at, size_t least, mr_error *err) {
    MR_TRY(make_room(cursor, least, err));
    cursor->buffer_at = at;
    cursor->filled = 0;
    while (cursor->filled < cursor->room) {
        ssize_t n = pread(cursor->fd, cursor->buffer + cursor->filled,
                          cursor->room - cursor->filled, (off_t)at + (off_t)cursor->filled);
        if (n < 0 && errno != EINTR) {
            return mr_fail_errno(err, MR_E_IO, errno, "cannot read from a segment");
        }
        if (n == 0) {
            break;
        }
        cursor->filled += n > 0 ? (size_t)n : 0;
    }
    return MR_OK;
}

static bool file_has(const mr_entry_cursor *cursor, int64_t end) {
    struct stat info;
    return fstat(cursor->fd, &info) == 0 && info.st_size >= end;
}

/* A head at or after *at, in the buffer. MR_END: the file has none. */
static mr_status next_head(mr_entry_cursor *cursor, int64_t *at, mr_entry_head *head,
                           mr_error *err) {
    if (*at < cursor->buffer_at || *at > cursor->buffer_at + (int64_t)cursor->filled) {
        MR_TRY(fill_buffer(cursor, *at, 0, err));
    }
    for (bool fresh = false;; fresh = true) {
        size_t offset = (size_t)(*at - cursor->buffer_at);
        bool found =
            mr_entry_find_head(cursor->buffer, cursor->filled, cursor->seed, &offset, head);
        *at = cursor->buffer_at + (int64_t)offset;
        if (found) {
            return MR_OK;
        }
        if (fresh && cursor->filled < cursor->room) {
            return MR_END;
        }
        MR_TRY(fill_buffer(cursor, *at, 0, err));
    }
}

/* All of the entry whose head is at `at` is in the buffer. MR_END: the file does not have it. */
static mr_status whole_entry(mr_entry_cursor *cursor, int64_t at, size_t length, mr_error *err) {
    int64_t end = at + (int64_t)length;
    if (end <= cursor->buffer_at + (int64_t)cursor->filled) {
        return MR_OK;
    }
    if (!file_has(cursor, end)) {
        return MR_END;
    }
    MR_TRY(fill_buffer(cursor, at, length, err));
    return cursor->filled >= length ? MR_OK : MR_END;
}

/* The entry at or after *at; *at becomes the byte behind it, also where it is damaged: then
 * MR_LATER. */
static mr_status take(mr_entry_cursor *cursor, int64_t *at, mr_entry *entry, mr_error *err) {
    mr_entry_head head;
    int64_t began = *at;
    mr_status status = next_head(cursor, at, &head, err);
    cursor->strayed += *at - began;
    size_t length = status == MR_OK ? mr_entry_bytes(head.size, head.key_size) : 0;
    status = status == MR_OK ? whole_entry(cursor, *at, length, err) : status;
    if (status != MR_OK) {
        return status;
    }
    bool whole = head.number >= cursor->expected && head.number < INT64_MAX &&
                 mr_entry_parse(&head, cursor->buffer + (*at - cursor->buffer_at), entry);
    if (head.number >= cursor->claimed && head.number < INT64_MAX) {
        cursor->claimed = head.number + 1;
    }
    cursor->skipped += whole ? *at - cursor->at : 0;
    *at += (int64_t)length;
    return whole ? MR_OK : MR_LATER;
}

mr_status mr_entry_cursor_next(mr_entry_cursor *cursor, mr_entry *entry, mr_error *err) {
    int64_t at = cursor->at;
    mr_status status;
    cursor->strayed = 0;
    do {
        status = take(cursor, &at, entry, err);
    } while (status == MR_LATER);
    if (status == MR_OK) {
        cursor->at = at;
        cursor->expected = entry->number + 1;
    } else {
        cursor->filled = 0; /* the file may have more when it is asked again */
    }
    return status;
}

mr_status mr_entry_cursor_seek(mr_entry_cursor *cursor, int64_t *at, mr_entry_head *head,
                               mr_error *err) {
    mr_status status = next_head(cursor, at, head, err);
    if (status == MR_OK) {
        cursor->at = *at;
    }
    return status;
}
