/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - entries of a stream that came too early, in a folder of segments (millrace/stream.h),
 * under the numbers that they have in their stream.
 *
 * Of each partition it has one run of entries [first, end) without a hole, which the feed reads
 * back in order; so nothing that is delivered depends on it. What may be needed by a run that goes
 * on from the last state that was saved stays, also when it was read back: the stream itself may
 * have forgotten it by then. A run that begins takes over what fits to where it begins, and forgets
 * the rest, which its stream must have. Or it is the memory of other ranks (lent.h), which a run
 * does not find again.
 *
 * For one thread, but for mr_spill_counts_of. */
#ifndef MR_RUN_SPILL_H
#define MR_RUN_SPILL_H

#include <millrace/source.h>
#include <millrace/stream.h>

#include "run/stream/lent.h"

typedef struct mr_spill mr_spill;

typedef struct mr_spill_config {
    const char *folder;
    mr_lent *lent; /* memory of other ranks, in place of a folder; the spill's to close */
    uint64_t id;   /* of the stream whose entries these are */
    int32_t partitions;
    int64_t bytes; /* of files, at most */
} mr_spill_config;

/* mr_spill_close is due even if opening failed. MR_E_STATE: the folder is another stream's. */
mr_status mr_spill_open(mr_spill **out, const mr_spill_config *config, mr_error *err);
void mr_spill_close(mr_spill *spill); /* NULL allowed */

/* What a partition has that a run which begins at `number` can use; the rest is forgotten. */
mr_status mr_spill_begin(mr_spill *spill, int32_t partition, int64_t number, mr_error *err);

/* Behind the last entry; -1: there is none. */
int64_t mr_spill_end(const mr_spill *spill, int32_t partition);

/* Whether an entry can be put; it comes behind all that are there. Numbers that are left out are
 * missing in the stream itself. */
bool mr_spill_has_room(const mr_spill *spill, const mr_entry *entry);
mr_status mr_spill_put(mr_spill *spill, int32_t partition, const mr_entry *entry, mr_error *err);
mr_status mr_spill_flush(mr_spill *spill, int32_t partition, mr_error *err);

/* Gives entries from number `from` on until the sink takes no more or all are given. */
mr_status mr_spill_take(mr_spill *spill, int32_t partition, int64_t from, const mr_entry_sink *sink,
                        mr_error *err);

/* No entry before `number` is needed any more; where none is at all, the partition is empty. */
mr_status mr_spill_keep(mr_spill *spill, int32_t partition, int64_t number, mr_error *err);

typedef struct mr_spill_counts {
    int64_t entries; /* that were put, by this run */
    int64_t bytes;   /* of files now */
} mr_spill_counts;
/* After mr_spill_take: whether it gave all there is; false: the last entry was refused. */
bool mr_spill_is_given(const mr_spill *spill, int32_t partition);

void mr_spill_counts_of(const mr_spill *spill, mr_spill_counts *out); /* any thread */

#endif
