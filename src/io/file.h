/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - reading samples from files, one at a time and to the end, and replacing small files
 * safely. Interrupted and short calls are continued. Objects on servers (far_name.h) are opened and
 * read as files are. */
#ifndef MR_IO_FILE_H
#define MR_IO_FILE_H

#include <millrace/millrace.h>

#include "core/far_limits.h"

/* An extent whose file is open and whose length is known. */
typedef struct mr_open_extent {
    int fd;
    int64_t offset;
    size_t size;
    int64_t file_size; /* when it was opened */
    char *far;         /* the pinned name of an object on a server, which has no fd; else NULL */
    const mr_far_limits *limits; /* of such a one */
} mr_open_extent;

/* Opens a regular file and checks the extent against its size and limit. */
mr_status mr_extent_open(const mr_extent *extent, mr_open_extent *out, mr_error *err);

/* With limits for what lies on servers, which live until it is closed. */
mr_status mr_extent_open_within(const mr_extent *extent, const mr_far_limits *limits,
                                mr_open_extent *out, mr_error *err);

/* Reads all of it. A file that turned out shorter than it said is MR_E_CORRUPT. */
mr_status mr_extent_read(const mr_open_extent *open, void *data, mr_error *err);

/* 128 bits that change when the file's content does: device, inode, size and both times of change.
 * False: not a file that a sample of at most `limit` bytes can be made of, or changed so recently
 * that one more change might not show. */
bool mr_file_identity(const char *path, int64_t limit, uint64_t out[2]);
bool mr_extent_identity(const mr_extent *extent, uint64_t out[2]); /* of its file */
bool mr_open_file_identity(int fd, uint64_t out[2]);
bool mr_open_extent_identity(const mr_open_extent *open, uint64_t out[2]);

/* Likewise, for a look whether a file was written to since: device, inode, size and the time of the
 * last write, so neither a link nor another owner counts. False: there is no such file here. */
bool mr_file_stamp(const char *path, uint64_t out[2]);

/* An identity for who sees the file under the same path, from the extent's folder on, on another
 * machine: without the device's number, which is a mount's. False, too, where the file system tells
 * no times. */
bool mr_extent_identity_abroad(const mr_extent *extent, uint64_t out[2]);
/* How long its file is, by a look at the name alone; -1: it is not there, or no file. */
int64_t mr_extent_file_size(const mr_extent *extent);
void mr_extent_close(const mr_open_extent *open);

/* The checks of mr_extent_open for a file opened by other means; mode and file_size from stat. */
mr_status mr_extent_check(const mr_extent *extent, uint32_t mode, int64_t file_size,
                          mr_open_extent *out, mr_error *err);

/* The same for a regular file that is open, whose size is known. */
mr_status mr_extent_check_size(const mr_extent *extent, int64_t file_size, mr_open_extent *out,
                               mr_error *err);

/* The errors of opening and reading, worded once for every back-end. */
mr_status mr_open_failed(const char *path, int sys, mr_error *err);
mr_status mr_read_failed(int sys, int64_t offset, mr_error *err);
mr_status mr_file_shrank(int64_t offset, mr_error *err);

/* What the extent's path is relative to. */
#define MR_EXTENT_FOLDER(extent) ((extent)->folder > 0 ? (extent)->folder - 1 : AT_FDCWD)

#define MR_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) /* never wait for a FIFO */

#endif
