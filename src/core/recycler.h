/* SPDX-License-Identifier: Apache-2.0 */
/* recycler.h - an allocator that keeps what is given back for the next who asks: memory that comes
 * and goes in large pieces is then faulted in once and not for every piece.
 *
 * It never holds more than was in use at some moment of late, so it does not raise what a run
 * takes. In a forked child nothing is kept, and nobody waits for a thread of the parent's. */
#ifndef MR_CORE_RECYCLER_H
#define MR_CORE_RECYCLER_H

#include <millrace/types.h>

typedef struct mr_recycler mr_recycler;

mr_recycler *mr_recycler_new(void);                  /* NULL: no memory */
mr_recycler *mr_recycler_ref(mr_recycler *recycler); /* for who keeps a piece longer */
void mr_recycler_unref(mr_recycler *recycler);       /* all pieces of theirs are given back */

/* Nobody asks any more: gives up the first reference, and what is idle; pieces that come later go
 * at once. NULL is allowed. */
void mr_recycler_close(mr_recycler *recycler);

/* Bytes that wait for the next who asks. */
size_t mr_recycler_idle(mr_recycler *recycler);

/* For any thread. */
const mr_allocator *mr_recycler_allocator(const mr_recycler *recycler);

#endif
