/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - one line on the terminal that shows how far a run is, and goes away. */
#ifndef MR_CLI_PROGRESS_H
#define MR_CLI_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <millrace/millrace.h>

typedef struct mr_progress {
    bool on;             /* --quiet was not given */
    bool terminal;       /* a line that is drawn over; else one every ten seconds */
    bool utf8;           /* the terminal can draw blocks */
    bool drawn;          /* the line is there now */
    bool in_bytes;       /* what passes is counted in bytes, not in samples */
    int64_t epochs;      /* of the run */
    int64_t epoch_steps; /* of a whole epoch */
    int64_t run_steps;   /* that this run will take */
    double drawn_at;     /* of the last drawing, and the figures then */
    int64_t drawn_samples;
    double rate;             /* samples per second, of the last seconds rather than of all */
    const mr_loader *loader; /* (optional) whose requests to servers are shown */
    int64_t drawn_bytes;     /* of servers */
    double byte_rate;        /* likewise, a second */
    pthread_mutex_t lock;    /* warnings come from any thread */
} mr_progress;

/* What has been delivered. */
typedef struct mr_progress_point {
    int64_t epoch, step; /* of the last batch */
    int64_t steps;       /* of the run */
    int64_t samples;
    int64_t asked, hits; /* of the samples so far, those looked for in a store and found there */
} mr_progress_point;

void mr_progress_begin(mr_progress *progress, bool on);
void mr_progress_update(mr_progress *progress, const mr_progress_point *point);
void mr_progress_warn(mr_progress *progress, const char *text); /* any thread */
void mr_progress_end(mr_progress *progress);                    /* takes the line away */

#endif
