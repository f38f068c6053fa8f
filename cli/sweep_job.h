/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_job.h - one job of a sweep: a pipeline with some settings, run to its end in a process of
 * its own, so that CPU time and memory are that job's alone. */
#ifndef MR_CLI_SWEEP_JOB_H
#define MR_CLI_SWEEP_JOB_H

#include <jansson.h>
#include <limits.h>
#include <millrace/millrace.h>
#include <signal.h>

enum { MR_SWEEP_THREADS, MR_SWEEP_READS, MR_SWEEP_BATCH, MR_SWEEP_AHEAD, MR_SWEEP_AXES };

extern const char *const mr_sweep_axis_names[MR_SWEEP_AXES];

typedef struct mr_sweep_lab {
    mr_pipeline *pipeline;
    int64_t samples, seed; /* 0: one epoch; -1: the pipeline's */
    char folder[PATH_MAX]; /* for traces; "": not made */
    sigset_t before;       /* signals as they were: SIGINT and SIGTERM wait while a job runs */
    int signals;           /* where they are read, -1: not open */
    int signal;            /* that ended the sweep, or 0 */
} mr_sweep_lab;

typedef struct mr_sweep_job {
    int64_t set[MR_SWEEP_AXES]; /* 0: as the pipeline and the library choose */
    json_t *rounds;             /* measurements, one for each run */
    json_t *part;               /* title and ops, from the traced run */
    char error[256];            /* why it cannot be measured, or "" */
    mr_status code;             /* of that error; MR_OK: nobody knows */
} mr_sweep_job;

/* Makes a folder below `scratch`; closing removes it. */
mr_status mr_sweep_lab_open(mr_sweep_lab *lab, const char *scratch, mr_error *err);
void mr_sweep_lab_close(mr_sweep_lab *lab);

/* Runs once more. A job that fails is noted in it, and is not tried again; MR_E_CANCELLED: a signal
 * came. */
mr_status mr_sweep_job_run(mr_sweep_lab *lab, mr_sweep_job *job, bool traced, mr_error *err);
json_t *mr_sweep_job_json(const mr_sweep_job *job);
void mr_sweep_job_free(mr_sweep_job *job);

#endif
