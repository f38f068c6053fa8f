/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - the steps of a run that follows a stream: which entries each takes, and which of those
 * seen before it shows again.
 *
 * Steps are planned by the consumer, ahead of those that it takes. What is planned and what was
 * delivered are two rehearsal buffers with the same history: a state is saved of the second. */
#ifndef MR_RUN_LIVE_H
#define MR_RUN_LIVE_H

#include "plan/pipeline.h"
#include "plan/schedule.h"
#include "plan/share.h"
#include "plan/state.h"
#include "run/stream/custom.h"
#include "run/stream/extras.h"
#include "run/stream/feed.h"
#include "span/track.h"

/* A sample of a step, as its rank makes it. */
typedef struct mr_live_row {
    int64_t sample;
    uint32_t epoch; /* of its draws: each time it is shown again is another one */
    bool is_replay;
    float weight;
    mr_held *held;     /* NULL: to be had from rank `from`, or read once more */
    int32_t from;      /* -1: from nobody */
    mr_held *recalled; /* what a worker got or read */
    mr_held *made;     /* (optional) what a worker made of it, to be kept */
    mr_held *stand_in; /* likewise, of what stands in for it */
    mr_extra *extra;   /* NULL: none */
} mr_live_row;

typedef struct mr_live_step {
    bool is_planned;
    int64_t step;
    int64_t end;       /* samples before it are done with this step */
    int64_t *samples;  /* the new ones, of all ranks, ascending */
    mr_held **arrived; /* likewise; NULL: of a partition that this rank does not read */
    int64_t count;     /* of them */
    mr_live_row *rows; /* of this rank */
    int64_t n_rows;
    int64_t drawn;       /* samples shown again, of all ranks */
    mr_choices *choices; /* of the host's policy; NULL: it has none */
} mr_live_step;

typedef struct mr_live mr_live;

typedef struct mr_live_config {
    const mr_pipeline *pipeline;
    const mr_dataset *dataset;
    uint64_t seed;
    int64_t batch, world, rank;
    int32_t remainder;
    int64_t bytes; /* of entries that wait */
    const mr_state *state;
    const char *journal; /* NULL: none; see decisions.h */
    bool replay;
    const mr_policy *policy; /* NULL: none */
    const char *fabric; /* over which ranks read for each other; NULL: each reads all it needs */
    const mr_log *log;
    mr_tracks *tracks; /* of the threads that speak with other ranks */
} mr_live_config;

/* mr_live_close is due even if opening failed. */
mr_status mr_live_open(mr_live **out, const mr_live_config *config, mr_error *err);
void mr_live_stop(mr_live *live);  /* any thread */
void mr_live_end(mr_live *live);   /* no step is planned or made any more: the threads end */
void mr_live_close(mr_live *live); /* NULL allowed */

/* Plans the next step, unless this one is planned. MR_LATER: the stream is not that far; MR_END:
 * the run is over. */
mr_status mr_live_plan(mr_live *live, mr_live_step *step, mr_portion *portion, mr_error *err);

/* Waits until the next step may be there; results as of mr_feed_wait. Somebody who waits is why a
 * step is filled up with old samples. */
mr_status mr_live_wait(mr_live *live, const struct timespec *moment, mr_error *err);

/* A worker: a row as the source's fill wants it; `attempt` -1: itself, else what stands in for it.
 */
typedef struct mr_live_block {
    mr_arrival arrival;
    void *part;
    mr_block block;
    int64_t sample;
    const void *made; /* the sample as it is at the cache op; NULL: it is to be made */
    size_t made_size;
    bool packs;     /* it is wanted as it is there: mr_live_keep */
    int32_t waited; /* for its bytes: mr_span_kind, MR_SPAN_KINDS where they were there */
} mr_live_block;
mr_status mr_live_fetch(const mr_live *live, const mr_live_step *step, int64_t row, int64_t attempt,
                        mr_live_block *out, mr_error *err);

/* Keeps a row's sample as it is at the cache op; takes nothing over. */
void mr_live_keep(const mr_live_step *step, int64_t row, const void *bytes, size_t size);

/* The step was delivered. mr_live_forget: or it never will be. */
mr_status mr_live_delivered(mr_live *live, mr_live_step *step, mr_error *err);
void mr_live_forget(mr_live_step *step);
void mr_live_step_free(mr_live_step *step);

/* Bytes of entries at most, but those of open steps: of a run of such a pipeline, where `bytes` of
 * entries may wait. */
int64_t mr_live_memory(const mr_pipeline *pipeline, int64_t batch, int64_t bytes);
void mr_live_stats(const mr_live *live, mr_stream_stats *out);

/* MR_OK, or that a rank was lost without which the run cannot go on. */
mr_status mr_live_failure(const mr_live *live, mr_error *err);

/* What the trainer says of samples, as mr_loader_feed_back. */
mr_status mr_live_hear(mr_live *live, const mr_feedback *feedback, mr_error *err);

/* Notes in the journal what was delivered since the run began. */
mr_status mr_live_note(mr_live *live, const char *digest, mr_error *err);

/* How many bytes mr_live_save makes a state longer at most. */
size_t mr_live_state_bytes(const mr_live *live);

/* Adds what a state needs beyond its position. */
void mr_live_save(const mr_live *live, mr_state *state);

#endif
