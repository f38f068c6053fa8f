/* SPDX-License-Identifier: Apache-2.0 */
/* handles.h - files that many reads share, kept open between them.
 *
 * A source numbers its files from 1 on. A table remembers which are open, as many as a quarter of
 * what the process may have; a file that finds its place taken by another takes it over if nobody
 * reads from that one, else it is opened for one read alone. So the number of open files is
 * bounded, whatever the number of shards. */
#ifndef MR_IO_HANDLES_H
#define MR_IO_HANDLES_H

#include <millrace/types.h>

typedef struct mr_handles mr_handles;

mr_handles *mr_handles_new(void);          /* NULL: no memory */
void mr_handles_free(mr_handles *handles); /* closes all; NULL is allowed */

/* The open file, and its size when it was opened; -1: it is not open. Given back with
 * mr_handles_give. */
int mr_handles_take(mr_handles *handles, int32_t object, int64_t *file_size);
void mr_handles_give(mr_handles *handles, int32_t object, int fd);

/* A file that was opened, for the table to keep; taken at once, so it must be given back. False:
 * there is no room, the file stays the caller's. */
bool mr_handles_offer(mr_handles *handles, int32_t object, int fd, int64_t file_size);

#endif
