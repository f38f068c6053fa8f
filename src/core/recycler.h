/* SPDX-License-Identifier: Apache-2.0 */
/* recycler.h - an allocator that keeps what is given back for the next who asks: memory that comes
 * and goes in large pieces is then faulted in once and not for every piece.
 *
 * It never holds more than was in use at some moment, so it does not raise what a run takes. */
#ifndef MR_CORE_RECYCLER_H
#define MR_CORE_RECYCLER_H

#include <millrace/types.h>

typedef struct mr_recycler mr_recycler;

mr_recycler *mr_recycler_new(void); /* NULL: no memory */
void mr_recycler_free(
    mr_recycler *recycler); /* NULL is allowed; all pieces must have been given back */

/* For any thread. */
const mr_allocator *mr_recycler_allocator(const mr_recycler *recycler);

#endif
