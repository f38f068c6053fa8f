/* SPDX-License-Identifier: Apache-2.0 */
/* stream_document.h - what a pipeline document says about streams: "rehearse" and "pace". */
#ifndef MR_PLAN_STREAM_DOCUMENT_H
#define MR_PLAN_STREAM_DOCUMENT_H

#include <jansson.h>

#include <millrace/millrace.h>

#include "plan/rate.h"
#include "plan/rehearsal.h"

typedef enum mr_rehearse_enter { MR_ENTER_RAW, MR_ENTER_CACHED } mr_rehearse_enter;

typedef struct mr_rehearse {
    int64_t size, bytes, sample_bytes, lag, classes, memory, least_size;
    double share, rate, samples_per_insert, slack;
    int32_t policy, enter; /* mr_rehearse_enter */
    bool on;
} mr_rehearse;

/* NULL: there is none. */
mr_status mr_rehearse_read(mr_rehearse *out, json_t *value, mr_error *err);
json_t *mr_rehearse_json(const mr_rehearse *rehearse);

typedef enum mr_spill_to { MR_SPILL_FOLDER, MR_SPILL_RANKS } mr_spill_to;

/* What becomes of a stream that is slower or faster than training. */
typedef struct mr_pace {
    int32_t late, early;
    double patience, least_kept;
    int64_t most_waiting, spill_bytes;
    int32_t spill_to;  /* mr_spill_to */
    const char *spill; /* a folder */
    bool on;           /* the document has it */
} mr_pace;

mr_status mr_pace_read(mr_pace *out, json_t *value, mr_error *err); /* NULL: all defaults */
void mr_pace_free(mr_pace *pace);                                   /* a zeroed one is allowed */
json_t *mr_pace_json(const mr_pace *pace);
mr_rate_options mr_pace_options(const mr_pace *pace, int64_t batch, int64_t replays);

/* Of samples per insert, for steps of `batch` samples. */
mr_status mr_rehearse_limit(const mr_rehearse *rehearse, int64_t batch, mr_rate_limit *out,
                            mr_error *err);

/* How many of a step's samples are shown again. */
int64_t mr_rehearse_replays(const mr_rehearse *rehearse, int64_t batch);

#endif
