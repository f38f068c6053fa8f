/* SPDX-License-Identifier: Apache-2.0 */
/* partition.h - the files of a stream: its id, and which segments each partition has.
 *
 *     stream                       the stream's id, 16 hexadecimal digits
 *     00003.lock                   locked by whoever writes to partition 3
 *     00003-0000000000000012345.seg   entries of partition 3 from number 12345 on */
#ifndef MR_IO_PARTITION_H
#define MR_IO_PARTITION_H

#include "io/entry.h"

typedef struct mr_stream_folder {
    int dir; /* -1: not open */
    uint64_t id;
    char path[512]; /* for messages */
} mr_stream_folder;

/* `create`: the id of a stream that is not there yet; 0: it must be there. */
mr_status mr_stream_folder_open(mr_stream_folder *folder, const char *path, uint64_t create,
                                mr_error *err);
void mr_stream_folder_close(mr_stream_folder *folder);

#define MR_ALL_PARTITIONS UINT32_MAX

/* Segments by partition and first number; *out is freed with mr_free, NULL where there are none. */
mr_status mr_stream_segments(const mr_stream_folder *folder, uint32_t partition,
                             mr_stream_segment **out, int64_t *n, mr_error *err);

typedef struct mr_stream_segment_file_name {
    char text[48];
} mr_stream_segment_file_name;
mr_stream_segment_file_name mr_stream_segment_file(const mr_stream_segment *name);

/* A segment that is there, for reading. MR_E_NOT_FOUND: it is gone. */
mr_status mr_stream_segment_open(const mr_stream_folder *folder, const mr_stream_segment *name,
                                 int *fd, mr_error *err);

/* The next entry has this number, unless a higher one is due: those between are left out. A segment
 * that has no entry yet begins with it. */
mr_status mr_stream_writer_jump(mr_stream_writer *writer, int64_t number, mr_error *err);

/* After MR_END: what comes behind the last whole entry is not merely cut off. */
bool mr_stream_tail_is_damaged(const mr_stream_reader *reader);

#endif
