/* SPDX-License-Identifier: Apache-2.0 */
/* view_document.h - "view" and "shuffle" of a pipeline document. Pure.
 *
 *     "view": [{"take": 1000}, {"every": {"step": 4, "offset": 1}},
 *              {"split": {"name": "train", "parts": {"train": 0.9, "val": 0.1}, "salt": ""}},
 *              {"where": "label < 10"}, {"weights": "weight"}]
 *     "shuffle": true | false | {"window": 10 | "1GB" | "all", "lanes": 8}
 *
 * A step's first parameter may stand by itself in place of the object. */
#ifndef MR_PLAN_VIEW_DOCUMENT_H
#define MR_PLAN_VIEW_DOCUMENT_H

#include <jansson.h>
#include <millrace/param.h>

#include "plan/selection.h"

typedef struct mr_view_steps {
    mr_view_step *steps;
    int32_t n;
} mr_view_steps;

/* NULL: no steps. Errors have JSON paths from "$.view" on. */
mr_status mr_view_read(mr_view_steps *out, json_t *list, mr_error *err);
void mr_view_free(mr_view_steps *view); /* a zeroed one is allowed */

/* Every parameter of every step, in one fixed form; NULL: out of memory. */
json_t *mr_view_json(const mr_view_steps *view);

/* The rows that describe a step, for reference pages: kinds count from 0; NULL behind the last. */
const char *mr_view_name(int32_t kind);
const mr_param *mr_view_params(int32_t kind);

/* A shuffle that the document does not describe has this window of unpacked bytes and these
 * lanes. Single samples are shuffled as a whole always. */
#define MR_SHUFFLE_BYTES ((int64_t)256000000)
#define MR_SHUFFLE_LANES 8

typedef struct mr_shuffle {
    bool on;
    int64_t window_blocks; /* > 0, or */
    int64_t window_bytes;  /* > 0, or both 0: all */
    int32_t lanes;
} mr_shuffle;

/* NULL: true. Errors have JSON paths from "$.shuffle" on. */
mr_status mr_shuffle_read(mr_shuffle *out, json_t *value, mr_error *err);
json_t *mr_shuffle_json(const mr_shuffle *shuffle); /* NULL: out of memory */

/* The window in blocks for mr_course_config, where a block has `largest` unpacked bytes at most: as
 * many as are sure to fit, at least 1; 0: all. */
int64_t mr_shuffle_window(const mr_shuffle *shuffle, int64_t largest);

#endif
