/* SPDX-License-Identifier: Apache-2.0 */
/* decisions.h - what each step of a run on a stream takes (plan/rate.h), and the journal that
 * remembers what the clock decided (journals.h).
 *
 * Of several ranks with a journal, rank 0 decides and notes every step, and the others do what they
 * read there. What they say of samples, rank 0 takes into its journal, before the step from which
 * it holds.
 *
 * Entries of a journal, by their kind:
 *
 *     MR_JOURNAL_RUN       JSON: the pipeline document, seed and batch; the first
 *     MR_JOURNAL_DECISION  mr_rate_decision
 *     MR_JOURNAL_DIGEST    JSON: the digest of the batches of some steps, as they were delivered
 *     MR_JOURNAL_SAID      mr_said: what the trainer said of its samples
 *     MR_JOURNAL_CHOSEN    mr_choices: what the host's policy chose, of each step
 *     MR_JOURNAL_SAID_BY   rank and number among what it said, 8 bytes each; mr_said
 *
 * Partitions of other ranks have MR_JOURNAL_SAID, with no step yet, and MR_JOURNAL_DIGEST. A
 * decision to take nothing at all is the end of the run. */
#ifndef MR_RUN_DECISIONS_H
#define MR_RUN_DECISIONS_H

#include "plan/choices.h"
#include "plan/pipeline.h"
#include "plan/rate.h"
#include "run/stream/hearsay.h"
#include "run/stream/journals.h"

enum {
    MR_JOURNAL_RUN,
    MR_JOURNAL_DECISION,
    MR_JOURNAL_DIGEST,
    MR_JOURNAL_SAID,
    MR_JOURNAL_CHOSEN,
    MR_JOURNAL_SAID_BY
};

typedef struct mr_decisions mr_decisions;

typedef struct mr_decisions_config {
    const mr_pipeline *pipeline;
    const char *dataset; /* fingerprint */
    uint64_t seed;
    int64_t batch, replays; /* of a usual step: all, and those that are shown again */
    int64_t world, rank;
    int64_t step;        /* the first to be decided */
    const char *journal; /* NULL: none */
    mr_hearsay *hearsay; /* to which what the journal has is added */
    bool replay;         /* decide nothing: the journal has it all, and is not written to */
} mr_decisions_config;

/* mr_decisions_close is due even if opening failed. */
mr_status mr_decisions_open(mr_decisions **out, const mr_decisions_config *config, mr_error *err);
void mr_decisions_close(mr_decisions *decisions); /* NULL allowed */

const mr_rate *mr_decisions_rate(const mr_decisions *decisions);

/* The next step, from what can be seen; it is on the disk when this returns MR_OK. MR_LATER: ask
 * again when more has come, or at *until. */
mr_status mr_decisions_next(mr_decisions *decisions, const mr_rate_view *view,
                            mr_rate_decision *out, int64_t *until, mr_error *err);

/* Whether somebody else decides; then nothing can be decided that is not known. */
bool mr_decisions_follows(const mr_decisions *decisions);

/* Reads what was decided since. */
mr_status mr_decisions_look(mr_decisions *decisions, mr_error *err);

/* Tells the other ranks that there are no more steps. */
mr_status mr_decisions_end(mr_decisions *decisions, mr_error *err);

/* Notes the run's last step, which is short. */
mr_status mr_decisions_last(mr_decisions *decisions, const mr_rate_decision *decision,
                            mr_error *err);

/* Chooses as for the last step that was decided, whatever has come since. */
void mr_decisions_keep(mr_decisions *decisions);

/* Whether the next step is known whatever has come: then *out is it, and stays so until it is
 * decided. */
bool mr_decisions_known(const mr_decisions *decisions, mr_rate_decision *out);

/* Notes what was said, and that it holds from the next step on that is decided. It is taken over,
 * also where that fails, and added to the hearsay. MR_E_PARAM: there is no journal. */
mr_status mr_decisions_hear(mr_decisions *decisions, mr_said *said, mr_error *err);

/* What limits of samples per insert go by: how many were offered and shown again before the next
 * step, and are in the buffer. */
void mr_decisions_count(mr_decisions *decisions, int64_t offered, int64_t drawn, int64_t size);

/* What the policy chose for a step that is in the journal; the caller's. NULL: it is not there. */
mr_choices *mr_decisions_chosen(mr_decisions *decisions, int64_t step);
bool mr_decisions_has_chosen(const mr_decisions *decisions, int64_t step);
mr_status mr_decisions_choose(mr_decisions *decisions, const mr_choices *choices, mr_error *err);

/* Notes what was delivered: steps [first, end). */
mr_status mr_decisions_digest(mr_decisions *decisions, int64_t first, int64_t end,
                              const char *digest, mr_error *err);

#endif
