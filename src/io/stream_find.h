/* SPDX-License-Identifier: Apache-2.0 */
/* stream_find.h - one entry of a stream, by its number, wherever it lies. */
#ifndef MR_IO_STREAM_FIND_H
#define MR_IO_STREAM_FIND_H

#include "io/entry_cursor.h"
#include "io/partition.h"

/* The cursor (zeroed, or of an earlier call) is the entry's memory until its next call, and freed
 * by the caller. MR_E_NOT_FOUND: it is damaged, forgotten or not written. */
mr_status mr_stream_find(const mr_stream_folder *folder, uint32_t partition, int64_t number,
                         mr_entry_cursor *cursor, mr_entry *entry, mr_error *err);

#endif
