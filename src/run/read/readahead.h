/* SPDX-License-Identifier: Apache-2.0 */
/* readahead.h - threads that read samples before the workers need them, in plan order. How many
 * reads are in flight does not depend on how many threads compute. */
#ifndef MR_RUN_READAHEAD_H
#define MR_RUN_READAHEAD_H

#include "run/read/intake.h"
#include "span/track.h"

typedef struct mr_readahead mr_readahead;

typedef struct mr_readahead_config {
    mr_intake_config intake;
    uint32_t in_flight;
    uint32_t most_in_flight; /* that mr_readahead_allow may ask for; 0: no more than those */
    mr_io_kind io;
    int64_t bytes_per_second, open_ns; /* of slow storage, see io/throttle.h; 0: none */
    mr_tracks *tracks;                 /* gets one for each thread that reads */
} mr_readahead_config;

mr_status mr_readahead_open(mr_readahead **out, const mr_readahead_config *config, mr_error *err);
void mr_readahead_stop(mr_readahead *readahead);  /* wakes everybody; any thread */
void mr_readahead_end(mr_readahead *readahead);   /* its threads too; after the workers are gone */
void mr_readahead_close(mr_readahead *readahead); /* likewise */

/* So many reads in flight from now on; any thread. At most mr_readahead_most: a pool of threads
 * does not grow as far as an io_uring. */
void mr_readahead_allow(mr_readahead *readahead, uint32_t in_flight);
uint32_t mr_readahead_most(const mr_readahead *readahead);
uint32_t mr_readahead_in_flight(const mr_readahead *readahead); /* that are allowed */

mr_intake *mr_readahead_intake(mr_readahead *readahead);
const char *mr_readahead_kind(const mr_readahead *readahead); /* "io_uring" or "pread" */

#endif
