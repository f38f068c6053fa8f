/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h - what sources keep in a store: see mr_keeper in source.h. */
#ifndef MR_RUN_KEEP_H
#define MR_RUN_KEEP_H

#include <millrace/source.h>

typedef struct mr_keep mr_keep;

/* NULL: out of memory, or no store in this build; nothing is kept then. The store is opened when
 * first asked for, and closed with everything written. The log outlives it. */
mr_keep *mr_keep_new(const char *source, const mr_log *log);
void mr_keep_free(mr_keep *keep);
const mr_keeper *mr_keep_keeper(mr_keep *keep); /* NULL: of none */

#endif
