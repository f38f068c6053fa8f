/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - entries that arrive without end, in a folder: writing, reading, forgetting.
 *
 * A stream is a folder. It has partitions, numbered from 0; a partition has entries, numbered from
 * 0 in the order of writing, in append-only files (segments). What is written is never changed, and
 * a number that was acknowledged is never given to another entry. One process at a time writes to a
 * partition; any number read, while it grows. docs/streams.md has the format.
 *
 * Nothing here has threads or locks of its own: a writer or reader is for one thread at a time. */
#ifndef MILLRACE_STREAM_H
#define MILLRACE_STREAM_H

#include <millrace/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_ENTRY_MAX ((int64_t)1 << 30) /* bytes of a value */
#define MR_ENTRY_KEY_MAX 65535          /* bytes of a key */
#define MR_PARTITIONS_MAX 65536

typedef struct mr_entry {
    int64_t number; /* in its partition; set by the stream */
    int64_t label;
    int64_t time; /* what the writer says, in nanoseconds since 1970 by custom */
    const void *key;
    size_t key_size;
    const void *value;
    size_t size;
} mr_entry;

/* When a writer asks the disk to have what it was given. A killed process loses nothing that was
 * flushed, whatever this says; a machine that loses its power may. */
typedef enum mr_stream_sync {
    MR_SYNC_SEGMENT, /* when a segment is full, and at the end */
    MR_SYNC_FLUSH,   /* at every flush: what is acknowledged is on the disk */
    MR_SYNC_NEVER
} mr_stream_sync;

typedef struct mr_stream_options {
    uint32_t size;         /* sizeof(mr_stream_options) */
    uint32_t partition;    /* to write to */
    int64_t segment_bytes; /* of a full segment, unless one entry is larger; 0: 256 MB */
    mr_stream_sync sync;
    uint64_t id; /* of a stream that does not exist yet; 0: a random one */
} mr_stream_options;

#define MR_STREAM_OPTIONS_INIT                                                                     \
    { (uint32_t)sizeof(mr_stream_options), 0, 0, MR_SYNC_SEGMENT, 0 }

typedef struct mr_stream_writer mr_stream_writer;

/* Makes the folder where there is none. MR_E_IO also where somebody else writes to the partition.
 */
MR_API mr_status mr_stream_writer_open(mr_stream_writer **out, const char *folder,
                                       const mr_stream_options *options, mr_error *err);

/* Copies the entry; *number (NULL allowed) becomes its number. It is acknowledged by the next flush
 * that returns MR_OK: flush now and then, or after each. After a failure nothing is half there: the
 * same call may be made again. */
MR_API mr_status mr_stream_append(mr_stream_writer *writer, const mr_entry *entry, int64_t *number,
                                  mr_error *err);
MR_API mr_status mr_stream_flush(mr_stream_writer *writer, mr_error *err);
MR_API int64_t mr_stream_next_number(const mr_stream_writer *writer);

/* Flushes and frees; the writer is gone also where that fails. NULL is allowed. */
MR_API mr_status mr_stream_writer_close(mr_stream_writer *writer, mr_error *err);

typedef struct mr_stream_reader mr_stream_reader;

#define MR_STREAM_OLDEST (-1)

/* From entry `from` on, which may not be written yet. MR_E_STATE: it was, and is no longer kept.
 * MR_E_NOT_FOUND: there is no such stream or partition. */
MR_API mr_status mr_stream_reader_open(mr_stream_reader **out, const char *folder,
                                       uint32_t partition, int64_t from, mr_error *err);
MR_API void mr_stream_reader_close(mr_stream_reader *reader);

/* The next entry, whose memory is the reader's until its next call. MR_END: no more for now; ask
 * again later. Damaged entries are left out and counted: nothing is given up until something whole
 * comes after it. */
MR_API mr_status mr_stream_next(mr_stream_reader *reader, mr_entry *entry, mr_error *err);

typedef struct mr_stream_counts {
    uint32_t size;         /* sizeof(mr_stream_counts), set by the caller */
    int64_t entries;       /* delivered */
    int64_t lost;          /* numbers that are missing between those delivered */
    int64_t skipped_bytes; /* that belong to no whole entry */
} mr_stream_counts;
MR_API void mr_stream_reader_counts(const mr_stream_reader *reader, mr_stream_counts *out);

/* The first number that is kept and the one that comes next. */
MR_API mr_status mr_stream_bounds(const char *folder, uint32_t partition, int64_t *first,
                                  int64_t *next, mr_error *err);

/* Forgets segments all of whose entries come before `before`, never the newest. */
MR_API mr_status mr_stream_trim(const char *folder, uint32_t partition, int64_t before,
                                int64_t *dropped_segments, mr_error *err);

#ifdef __cplusplus
}
#endif
#endif
