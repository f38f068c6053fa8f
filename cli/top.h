/* SPDX-License-Identifier: Apache-2.0 */
/* top.h - a loader's figures while it runs: a table on the terminal, a file for Prometheus. */
#ifndef MR_CLI_TOP_H
#define MR_CLI_TOP_H

#include <millrace/millrace.h>

#include "progress.h"

typedef struct mr_top {
    const mr_loader *loader;
    bool table;          /* asked for */
    bool in_place;       /* the terminal can draw over it */
    const char *metrics; /* file, or NULL */
    mr_progress *warn;   /* who is told that the file cannot be written; NULL: nobody */
    bool warned;
    double next;      /* when to look again */
    int columns;      /* of the terminal when it was drawn */
    int drawn;        /* lines of the table on the terminal now */
    double looked_at; /* at requests to servers, and bytes that had come by then */
    int64_t received;
    double stream_at; /* likewise at a stream: entries and samples by then */
    int64_t entries, samples;
} mr_top;

/* A file that cannot be written ends no run: it is said once, and tried again. */
void mr_top_begin(mr_top *top, const mr_loader *loader, bool table, const char *metrics,
                  mr_progress *warn);
void mr_top_update(mr_top *top); /* now and then, from one thread */
void mr_top_end(mr_top *top);    /* the last figures */

#endif
