/* SPDX-License-Identifier: Apache-2.0 */
/* hearsay.h - what a trainer said of its samples (plan/feedback.h), in the order of steps, and when
 * it takes effect: whoever plans step t has heard what holds from t on, whether it was said a
 * moment ago or stands in the journal. So a run that goes on, or is replayed, plans the same. */
#ifndef MR_RUN_HEARSAY_H
#define MR_RUN_HEARSAY_H

#include "plan/feedback.h"

typedef struct mr_hearsay {
    mr_said **list; /* steps do not go down */
    int64_t n, room;
    int64_t gone;        /* that were before those of the list */
    int64_t known_after; /* up to this delivered step the journal has what was said; -1: nothing */
} mr_hearsay;

/* Takes it over, also where it fails. */
mr_status mr_hearsay_add(mr_hearsay *hearsay, mr_said *said, mr_error *err);

/* The next one that holds at `step`; *at counts those that were heard. NULL: no more. */
const mr_said *mr_hearsay_next(const mr_hearsay *hearsay, int64_t step, int64_t *at);

/* The first `before` of all were heard by everybody: they can go, but for the last of all. */
void mr_hearsay_forget(mr_hearsay *hearsay, int64_t before);

void mr_hearsay_free(mr_hearsay *hearsay);

#endif
