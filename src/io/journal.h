/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h - decisions of a run that a clock made, kept so that they can be made again.
 *
 * A journal is a stream (millrace/stream.h) with a partition for each rank that writes, whose first
 * entry says which run it is of. An entry is acknowledged once it is on the disk: nothing takes
 * effect before. Where entries of a stream are merely lost, a journal with a gap is no journal. */
#ifndef MR_IO_JOURNAL_H
#define MR_IO_JOURNAL_H

#include <millrace/stream.h>

typedef struct mr_journal mr_journal;

/* Appends to the journal of the run with this fingerprint, or begins it. MR_E_STATE: it is another
 * run's. MR_E_IO also where somebody else writes to it. */
mr_status mr_journal_open(mr_journal **out, const char *folder, uint32_t partition,
                          const uint64_t run[2], mr_error *err);
bool mr_journal_is_new(const mr_journal *journal); /* nothing was appended to it yet */
mr_status mr_journal_append(mr_journal *journal, int64_t kind, const void *bytes, size_t size,
                            mr_error *err);
mr_status mr_journal_close(mr_journal *journal, mr_error *err); /* NULL is allowed */

typedef struct mr_journal_reader mr_journal_reader;

/* Its entries, oldest first. MR_END: no more. MR_E_CORRUPT: an entry is damaged or missing. */
mr_status mr_journal_reader_open(mr_journal_reader **out, const char *folder, uint32_t partition,
                                 uint64_t run[2], mr_error *err);

/* From now on what is at its end is being written by somebody: MR_END is "not yet". */
void mr_journal_follow(mr_journal_reader *reader);

mr_status mr_journal_next(mr_journal_reader *reader, int64_t *kind, mr_entry *entry, mr_error *err);
void mr_journal_reader_close(mr_journal_reader *reader);

#endif
