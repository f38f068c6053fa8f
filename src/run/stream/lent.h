/* SPDX-License-Identifier: Apache-2.0 */
/* lent.h - entries of a stream that came too early, in the spare memory of other ranks (relay.h).
 *
 * Entries of a partition go out in chunks, each to the rank that has most room of those that are
 * here, and come back in order, each once. So nothing that is delivered depends on it. What a rank
 * that has left had is read from the stream again; where the stream has it no more, that is an
 * error, and nothing behind it is delivered. Nothing outlives the run: the stream must keep what a
 * run needs that goes on from a state.
 *
 * For the feed's thread, but for the counts. Functions are as those of spill.h. */
#ifndef MR_RUN_LENT_H
#define MR_RUN_LENT_H

#include "run/stream/relay.h"

typedef struct mr_lent mr_lent;

typedef struct mr_lent_config {
    mr_relay *relay;
    const mr_dataset *dataset;
    int32_t partitions, rank, world;
    int64_t bytes; /* that this rank may have at others, and each lends */
} mr_lent_config;

mr_status mr_lent_open(mr_lent **out, const mr_lent_config *config, mr_error *err);
void mr_lent_close(mr_lent *lent); /* NULL allowed */

int64_t mr_lent_end(const mr_lent *lent, int32_t partition);
bool mr_lent_has_room(const mr_lent *lent, const mr_entry *entry);
mr_status mr_lent_put(mr_lent *lent, int32_t partition, const mr_entry *entry, mr_error *err);
mr_status mr_lent_take(mr_lent *lent, int32_t partition, const mr_entry_sink *sink, mr_error *err);

typedef struct mr_lent_counts {
    int64_t entries, bytes; /* that were put; that others have now */
    int64_t read_again;     /* entries that a rank took with it */
} mr_lent_counts;
void mr_lent_counts_of(const mr_lent *lent, mr_lent_counts *out); /* any thread */

#endif
