/* SPDX-License-Identifier: Apache-2.0 */
/* journals.h - the journal of a run (io/journal.h), which may have several ranks.
 *
 * Rank 0 decides: partition 0 has what holds for all, and the others read it as it grows. What they
 * have to say themselves is in partitions of their own, which rank 0 reads. So the ranks need a
 * folder that all of them see, and no other way to talk. */
#ifndef MR_RUN_JOURNALS_H
#define MR_RUN_JOURNALS_H

#include "io/journal.h"

typedef struct mr_journals mr_journals;

typedef struct mr_journals_config {
    const char *folder;
    uint64_t run[2];
    int64_t world, rank;
    bool read_only; /* a replay */
} mr_journals_config;

/* mr_journals_close is due even if opening failed. */
mr_status mr_journals_open(mr_journals **out, const mr_journals_config *config, mr_error *err);
void mr_journals_close(mr_journals *journals); /* NULL allowed */

bool mr_journals_is_new(const mr_journals *journals); /* nothing of the run was noted yet */

/* To the partition of this rank; it is on the disk when this returns MR_OK. */
mr_status mr_journals_append(mr_journals *journals, int64_t kind, const void *bytes, size_t size,
                             mr_error *err);

/* The next entry of a rank's partition, valid until the next call for it. MR_END: no more for now,
 * also where the partition is not there yet. */
mr_status mr_journals_next(mr_journals *journals, int64_t rank, int64_t *kind, mr_entry *entry,
                           mr_error *err);

#endif
