/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - what a view asks about samples while it opens: names, and numbers in fields of the
 * source, all of a field at once (numbers.h). */
#ifndef MR_RUN_FACTS_H
#define MR_RUN_FACTS_H

#include "plan/selection.h"
#include "run/read/dataset.h"

typedef struct mr_facts {
    const mr_dataset *dataset;
    const mr_pipeline *pipeline;
    const mr_log *log;
    double **numbers; /* of each field of the source, where they were asked for */
    char name[4096];
} mr_facts;

/* The functions that mr_selection_open calls; `facts` must outlive the opening. */
mr_sample_facts mr_facts_of(mr_facts *facts);
void mr_facts_close(mr_facts *facts); /* gives back what they kept */

#endif
