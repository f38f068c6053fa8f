/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h - documents for the parts before and behind a cut. The public part is in tune.h. */
#ifndef MR_TUNE_CUT_H
#define MR_TUNE_CUT_H

#include <jansson.h>
#include <millrace/tune.h>

/* A pipeline's document, complete. NULL: no memory. */
json_t *mr_document_of(const mr_pipeline *pipeline);

/* The document behind the cut, which takes its samples from another source: `source` and `ops`,
 * which come before its own, are taken over. NULL: no memory. */
json_t *mr_cut_tail(const mr_pipeline *pipeline, int32_t cut, json_t *source, json_t *ops);

/* {"files": {...}}, and the ops before the cut, each {"NAME": {...}}. NULL: no memory. */
json_t *mr_cut_ops(const mr_pipeline *pipeline, int32_t cut);

#endif
