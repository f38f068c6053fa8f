/* SPDX-License-Identifier: Apache-2.0 */
/* stream_find.c - see stream_find.h.
 *
 * A head can be recognised from anywhere in a segment, and numbers only grow: so the place of an
 * entry is found by halving. */
#include "io/stream_find.h"

#include <inttypes.h>
#include <millrace/millrace.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/memory.h"

enum { PEEK = 16384, NEAR = 1 << 16 };

static mr_status not_found(uint32_t partition, int64_t number, mr_error *err) {
    return mr_fail(err, MR_E_NOT_FOUND,
                   "entry %" PRId64 " of partition %" PRIu32 " is not there any more", number,
                   partition);
}

/* Segments are sorted by their first numbers. */
static mr_status find_segment(const mr_stream_folder *folder, uint32_t partition, int64_t number,
                              mr_stream_segment *out, mr_error *err) {
    mr_stream_segment *names = NULL;
    int64_t n = 0, after = 0;
    MR_TRY(mr_stream_segments(folder, partition, &names, &n, err));
    while (after < n && names[after].first <= number) {
        after++;
    }
    if (after > 0) {
        *out = names[after - 1];
    }
    mr_free(names);
    return after > 0 ? MR_OK : not_found(partition, number, err);
}

/* Comes near the entry from below: all before `low` have smaller numbers. */
static mr_status come_near(mr_entry_cursor *cursor, int64_t number, int64_t size, int64_t *low,
                           mr_error *err) {
    int64_t high = size;
    while (high - *low > NEAR) {
        int64_t middle = (*low + (high - *low) / 2) & ~(int64_t)7, at = middle;
        mr_entry_head head;
        mr_status status = mr_entry_cursor_seek(cursor, &at, &head, err);
        if (status < 0) {
            return status;
        }
        if (status == MR_END || head.number > number) {
            high = middle;
        } else {
            *low = at;
        }
    }
    return MR_OK;
}

static mr_status read_forward(mr_entry_cursor *cursor, int64_t number, int64_t from,
                              mr_entry *entry, mr_error *err) {
    mr_status status = MR_OK;
    cursor->at = from;
    cursor->expected = 0;
    do {
        status = mr_entry_cursor_next(cursor, entry, err);
    } while (status == MR_OK && entry->number < number);
    return status;
}

mr_status mr_stream_find(const mr_stream_folder *folder, uint32_t partition, int64_t number,
                         mr_entry_cursor *cursor, mr_entry *entry, mr_error *err) {
    mr_stream_segment segment;
    struct stat info;
    int fd = -1;
    int64_t low = MR_ENTRY_HEAD;
    MR_TRY(find_segment(folder, partition, number, &segment, err));
    MR_TRY(mr_stream_segment_open(folder, &segment, &fd, err));
    cursor->least = PEEK;
    mr_entry_cursor_start(cursor, fd, &segment);
    mr_status status = fstat(fd, &info) == 0
                           ? come_near(cursor, number, info.st_size, &low, err)
                           : mr_fail(err, MR_E_IO, "cannot look at a segment of the stream");
    if (status == MR_OK) {
        status = read_forward(cursor, number, low, entry, err);
    }
    close(fd);
    cursor->fd = -1;
    if (status == MR_END || (status == MR_OK && entry->number != number)) {
        return not_found(partition, number, err);
    }
    return status;
}
