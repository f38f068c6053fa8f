/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - what a run has to say at its end. */
#ifndef MR_CLI_OUTCOME_H
#define MR_CLI_OUTCOME_H

#include <jansson.h>
#include <millrace/millrace.h>

typedef struct mr_outcome {
    const char *path; /* of the pipeline document */
    const mr_pipeline *pipeline;
    const mr_loader *loader;
    int64_t first_epoch, last_epoch; /* of the batches delivered; -1: none were */
    double seconds;                  /* from the opening of the loader to the last batch */
    double first_batch_seconds;      /* since the process started; -1: none came */
    double before_seconds;           /* from there to where `seconds` begins */
    const mr_error *error;           /* what ended the run, or NULL */
    int signal;                      /* likewise, or 0 */
    const char *state;               /* file that the state was saved to, or NULL */
    bool no_digest;                  /* none was made */
} mr_outcome;

void mr_outcome_text(const mr_outcome *report);           /* on stdout, for people */
void mr_outcome_json(const mr_outcome *report);           /* on stdout, one line */
void mr_outcome_digest(const mr_outcome *report);         /* on stdout, the digest alone */
void mr_outcome_caches(const mr_outcome *report);         /* on stdout: they and their stores */
json_t *mr_outcome_caches_json(const mr_outcome *report); /* part of the JSON */
void mr_outcome_skips(const mr_loader *loader);           /* on stderr, the first few */

#endif
