/* SPDX-License-Identifier: Apache-2.0 */
/* far_limits.h - when what is asked of servers is given up. */
#ifndef MR_CORE_FAR_LIMITS_H
#define MR_CORE_FAR_LIMITS_H

#include <millrace/types.h>

/* When a task is given up. 0: 8, 600 and 20. MILLRACE_FAR_ATTEMPTS, ..._SECONDS and ..._STALL stand
 * above them. */
typedef struct mr_far_limits {
    /* A request beside one that hangs is of the same attempt, and so is one to where the server
     * sends us: with 1 there may be several requests, but none after a failure. */
    int64_t attempts;
    int64_t seconds; /* after these, none is sent again */
    int64_t stall;   /* seconds without bytes after which a request has failed */
} mr_far_limits;

/* Holds for what this thread asks of servers without limits of its own, until the next call: while
 * a document is compiled and while its sources are opened, which read in many places, none of which
 * knows the document. A run's other threads have the dataset's. Gives what held before; NULL:
 * nothing is said. */
const mr_far_limits *mr_far_limits_hold(const mr_far_limits *limits);

/* The environment's word, else that of `given`, else what holds for this thread, else ours. */
mr_far_limits mr_far_limits_settle(const mr_far_limits *given);

#endif
