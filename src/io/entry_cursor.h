/* SPDX-License-Identifier: Apache-2.0 */
/* entry_cursor.h - the whole entries of one segment file, one after the other, while it grows.
 *
 * Memory is a buffer of 1 MB, or one entry where that is larger; an entry's length is believed only
 * where the file has as many bytes. */
#ifndef MR_IO_ENTRY_CURSOR_H
#define MR_IO_ENTRY_CURSOR_H

#include "io/entry.h"

typedef struct mr_entry_cursor {
    int fd; /* the caller's */
    uint64_t seed;
    int64_t at;       /* byte where the next entry is looked for: the end of the last whole one */
    int64_t expected; /* numbers below it are none of ours */
    int64_t
        claimed; /* one more than the highest number in a whole head, its value damaged or not */
    int64_t skipped; /* bytes between whole entries */
    int64_t strayed; /* bytes since the last whole entry in which there is no head */

    size_t least; /* bytes of the buffer; 0: 1 MB */
    unsigned char *buffer;
    size_t room, filled;
    int64_t buffer_at;
} mr_entry_cursor;

void mr_entry_cursor_start(mr_entry_cursor *cursor, int fd, const mr_stream_segment *name);
void mr_entry_cursor_free(mr_entry_cursor *cursor); /* a zeroed one is allowed */

/* Valid until the next call. MR_END: there is none, now. */
mr_status mr_entry_cursor_next(mr_entry_cursor *cursor, mr_entry *entry, mr_error *err);

/* The first head at or after *at, a multiple of 8, wherever the cursor is; *at becomes its place,
 * and the cursor goes on there. MR_END: the file has none. */
mr_status mr_entry_cursor_seek(mr_entry_cursor *cursor, int64_t *at, mr_entry_head *head,
                               mr_error *err);

#endif
