/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - what a view asks about samples while it opens: names, and numbers that the source can
 * tell without reading (labels, rows of a mapped array). */
#ifndef MR_RUN_FACTS_H
#define MR_RUN_FACTS_H

#include "plan/selection.h"
#include "run/read/dataset.h"

typedef struct mr_facts {
    const mr_dataset *dataset;
    const mr_pipeline *pipeline;
    char name[4096];
} mr_facts;

/* The functions that mr_selection_open calls; `facts` must outlive the opening. */
mr_sample_facts mr_facts_of(mr_facts *facts);

#endif
