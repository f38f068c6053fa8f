/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - ends a run in good order on SIGINT and SIGTERM. */
#ifndef MR_CLI_STOP_H
#define MR_CLI_STOP_H

#include <millrace/millrace.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

typedef struct mr_stop {
    mr_loader *loader; /* NULL: whoever works looks at `signal` */
    sigset_t waited;   /* signals that end the run, and the one that ends the watch */
    sigset_t before;   /* the mask to restore */
    pthread_t thread;
    atomic_int signal; /* that ended the run, or 0 */
} mr_stop;

/* From here on a signal cancels the loader, if there is one; a second one ends the process at once.
 */
mr_status mr_stop_begin(mr_stop *stop, mr_loader *loader, mr_error *err);

/* Returns the signal that came, or 0. */
int mr_stop_end(mr_stop *stop);

#endif
