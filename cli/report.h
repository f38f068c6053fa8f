/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what a run has to say at its end. */
#ifndef MR_CLI_REPORT_H
#define MR_CLI_REPORT_H

#include <jansson.h>
#include <millrace/millrace.h>

typedef struct mr_report {
    const char *path; /* of the pipeline document */
    const mr_pipeline *pipeline;
    const mr_loader *loader;
    int64_t first_epoch, last_epoch; /* of the batches delivered; -1: none were */
    double seconds;                  /* from the opening of the loader to the last batch */
    double first_batch_seconds;      /* since the process started; -1: none came */
    const mr_error *error;           /* what ended the run, or NULL */
    int signal;                      /* likewise, or 0 */
    const char *state;               /* file that the state was saved to, or NULL */
    bool no_digest;                  /* none was made */
} mr_report;

void mr_report_text(const mr_report *report);           /* on stdout, for people */
void mr_report_json(const mr_report *report);           /* on stdout, one line */
void mr_report_digest(const mr_report *report);         /* on stdout, the digest alone */
void mr_report_caches(const mr_report *report);         /* on stdout: they and their stores */
json_t *mr_report_caches_json(const mr_report *report); /* part of the JSON */
void mr_report_skips(const mr_loader *loader);          /* on stderr, the first few */

#endif
