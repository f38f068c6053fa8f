/* SPDX-License-Identifier: Apache-2.0 */
/* trace_words.h - what the first and the last word of a trace say about its tracks, whoever
 * records: a loader, or a recorder of work that others do. */
#ifndef MR_RUN_TRACE_WORDS_H
#define MR_RUN_TRACE_WORDS_H

#include <jansson.h>

#include "run/record/drain.h"

/* Of each track its kind and its number among those; *lost: no memory. */
json_t *mr_trace_tracks(const mr_tracks *tracks, bool *lost);

/* Adds what the tracks dropped, used and counted, and what the probes met, to the last word.
 * `fused` tells for each op how many run fused from it on; NULL: none do. After mr_drain_finish.
 * What finds no memory is left out. */
void mr_trace_end(json_t *end, const mr_tracks *tracks, mr_drain *drain, const int32_t *fused);

#endif
