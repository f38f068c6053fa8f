/* SPDX-License-Identifier: Apache-2.0 */
/* live_parts.h - what a run that follows a stream is made of, for live*.c. All of it is the
 * consumer's; workers look at steps that are planned, and at what never changes. */
#ifndef MR_RUN_LIVE_PARTS_H
#define MR_RUN_LIVE_PARTS_H

#include "plan/rehearsal.h"
#include "run/stream/decisions.h"
#include "run/stream/live.h"
#include "run/stream/payloads.h"

struct mr_live {
    mr_live_config config;
    mr_merge merge;
    int64_t end;           /* no sample from here on; MR_MAX_SAMPLES: without end */
    int64_t news, replays; /* of a usual step */
    mr_feed *feed;
    mr_spill *spill; /* NULL: none */
    mr_relay *ranks; /* the other ranks; NULL: there is nothing to say to them */
    mr_relay *relay; /* the same, where they read for each other; NULL: each reads what it needs */
    mr_decisions *decisions;

    int64_t position;                   /* the next step to be planned begins here */
    bool is_awaited;                    /* somebody waits for it ... */
    int64_t before;                     /* ... to have a sample behind this one ... */
    int64_t until;                      /* ... or for this moment */
    int64_t first_step, delivered_step; /* of this run; the next to be delivered */
    int64_t noted_step;                 /* up to which the journal has a digest */
    _Atomic int64_t replayed, left_out, filled, kept, starved; /* see mr_stream_stats */
    mr_rehearsal *planned, *delivered;                         /* NULL: nothing is shown again */
    mr_custom custom; /* for the policy of that name: the planned buffer, as the host sees it */
    mr_payloads payloads;
    mr_payloads made;   /* likewise, as they are at the cache op ("enter": "cached") */
    bool enters;        /* such are kept */
    mr_hearsay hearsay; /* what the trainer said ... */
    int64_t heard_planned, heard_delivered; /* ... and how much of it the buffers know */
    mr_extras extras;                       /* of samples that the planned buffer has */
    mr_status failed;                       /* in the middle of a step: there is no going on */
    mr_error failure;
};

/* ---- live.c ---- */
bool mr_live_is_custom(const mr_live *live); /* the host says what is kept */

/* ---- live_hear.c: what the trainer said ---- */
/* What holds from a step on, told to the buffer of planned or of delivered samples. */
mr_status mr_live_hear_planned(mr_live *live, int64_t step, mr_error *err);
mr_status mr_live_hear_delivered(mr_live *live, int64_t step, mr_error *err);
mr_status mr_live_hear_the_past(mr_live *live, mr_error *err);

/* ---- live_decide.c ---- */
/* How much the next step takes. MR_LATER, MR_END: as mr_live_plan. */
mr_status mr_live_decide(mr_live *live, mr_rate_decision *out, mr_error *err);

/* Whether a sample is chosen at a share; of the samples [first, end), how many are, as far as they
 * are wanted, and how many it takes to find them. */
bool mr_live_is_chosen(const mr_live *live, uint32_t keep, int64_t sample, const mr_held *held);
int64_t mr_live_count_chosen(const mr_live *live, uint32_t keep, int64_t first, int64_t end,
                             int64_t wanted, int64_t *passed);

/* ---- live_rows.c ---- */
/* The rank that has an entry in memory; -1: nobody but, perhaps, this one. */
int32_t mr_live_reader_of(const mr_live *live, int64_t sample);

/* A step's rows: new ones; then old ones, and all that follows for the buffer and other ranks. */
void mr_live_add_news(const mr_live *live, mr_live_step *step);
mr_status mr_live_rehearse(mr_live *live, mr_live_step *step, int64_t replays, mr_error *err);

mr_status mr_live_advance_delivered(mr_live *live, const mr_live_step *step, mr_error *err);
void mr_live_keep_entry(mr_live *live, int64_t sample, mr_held *held); /* in memory, if it fits */

#endif
