/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_files.h - reading what the reader of Parquet asks for: parts of files, footers, and the
 * footers of many files that stand in a file _metadata. */
#ifndef MR_SOURCES_PARQUET_FILES_H
#define MR_SOURCES_PARQUET_FILES_H

#include "sources/parquet_set.h"

/* `size` bytes from an offset on, to where there is room for them. */
mr_status mr_pq_read_bytes(const char *path, int64_t offset, int64_t size, void *to, mr_error *err);

/* The footer of a file, and a hash of its bytes: read, or found where it is kept. */
mr_status mr_pq_read_footer(const char *path, const mr_pq_keep *keep, mr_pq_set_file *out,
                            uint64_t hash[2], mr_error *err);

/* Whether a path names a file _metadata; and the set's files, from that file: set->paths has it
 * alone. Nobody looks whether there are more files than it names. */
bool mr_pq_is_metadata(const char *path);
mr_status mr_pq_set_from_metadata(mr_pq_set *set, mr_error *err);

#endif
