/* SPDX-License-Identifier: Apache-2.0 */
/* choices.h - what a policy of the host decided about a rehearsal buffer at one step: which places
 * offered samples take, and which places are shown again. As bytes of a journal, and in memory.
 * Pure. */
#ifndef MR_PLAN_CHOICES_H
#define MR_PLAN_CHOICES_H

#include <millrace/types.h>

typedef struct mr_choices {
    int64_t step;
    int64_t n_places, n_draws;
    int64_t *places; /* of samples that are offered, in order: -1 for none, or as mr_policy says */
    int64_t *draws;  /* places, one for each slot of the step */
    double *weights; /* one for each draw */
} mr_choices;

#define MR_CHOICES_MAX ((int64_t)1 << 30) /* bytes of one */

/* Takes memory, zeroed. MR_E_LIMIT: too many at once. Freed by mr_choices_free. */
mr_status mr_choices_new(mr_choices **out, int64_t n_places, int64_t n_draws, mr_error *err);
void mr_choices_free(mr_choices *choices); /* NULL allowed */

size_t mr_choices_bytes(const mr_choices *choices);
void mr_choices_save(const mr_choices *choices, unsigned char *out); /* mr_choices_bytes of them */

/* MR_E_CORRUPT: these bytes are none. */
mr_status mr_choices_load(mr_choices **out, const void *bytes, size_t size, mr_error *err);

#endif
