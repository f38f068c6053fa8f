/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - values that a store has on disk and not in memory, on their way to the workers.
 *
 * What lies in the page cache is used where it is mapped. The rest is read ahead into memory of the
 * load, in plan order and many at a time, so that no worker waits for page after page: a store may
 * be larger than memory. Threads of its own with pread, started as they are needed: the readers'
 * io_uring has the files that nobody kept. */
#ifndef MR_RUN_FETCH_H
#define MR_RUN_FETCH_H

#include "run/cache/stores.h"

struct mr_load;
typedef struct mr_fetch mr_fetch;

mr_fetch *mr_fetch_new(void); /* NULL: no memory */
void mr_fetch_free(mr_fetch *fetch);

/* Takes the location over, and the load, which is answered later (origin.h). False: it cannot, and
 * both are the caller's still. */
bool mr_fetch_later(mr_fetch *fetch, struct mr_load *load, mr_store *store,
                    const mr_store_location *location);
void mr_fetch_stop(mr_fetch *fetch); /* what is open is answered at once */
void mr_fetch_end(mr_fetch *fetch);  /* when it was stopped: no thread is left */

#endif
