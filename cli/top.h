/* SPDX-License-Identifier: Apache-2.0 */
/* top.h - a loader's figures while it runs: a table on the terminal, a file for Prometheus. */
#ifndef MR_CLI_TOP_H
#define MR_CLI_TOP_H

#include <millrace/millrace.h>

typedef struct mr_top {
    const mr_loader *loader;
    bool table;          /* asked for */
    bool in_place;       /* the terminal can draw over it */
    const char *metrics; /* file, or NULL */
    double next;         /* when to look again */
    int columns;         /* of the terminal when it was drawn */
    int drawn;           /* lines of the table on the terminal now */
} mr_top;

void mr_top_begin(mr_top *top, const mr_loader *loader, bool table, const char *metrics);
mr_status mr_top_update(mr_top *top, mr_error *err); /* now and then, from one thread */
mr_status mr_top_end(mr_top *top, mr_error *err);    /* the last figures */

#endif
