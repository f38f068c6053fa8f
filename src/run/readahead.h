/* SPDX-License-Identifier: Apache-2.0 */
/* readahead.h - threads that read samples before the workers need them, in plan order. How many
 * reads are in flight does not depend on how many threads compute. */
#ifndef MR_RUN_READAHEAD_H
#define MR_RUN_READAHEAD_H

#include "run/window.h"
#include "span/track.h"

typedef struct mr_readahead mr_readahead;

typedef struct mr_readahead_config {
    mr_window_config window;
    uint32_t in_flight;
    mr_io_kind io;
    mr_tracks *tracks; /* gets one for each thread that reads */
} mr_readahead_config;

mr_status mr_readahead_open(mr_readahead **out, const mr_readahead_config *config, mr_error *err);
void mr_readahead_stop(mr_readahead *readahead);  /* wakes everybody; any thread */
void mr_readahead_end(mr_readahead *readahead);   /* its threads too; after the workers are gone */
void mr_readahead_close(mr_readahead *readahead); /* likewise */

mr_window *mr_readahead_window(mr_readahead *readahead);
const char *mr_readahead_kind(const mr_readahead *readahead); /* "io_uring" or "pread" */

#endif
