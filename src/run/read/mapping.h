/* SPDX-License-Identifier: Apache-2.0 */
/* mapping.h - ops that a source runs while it unpacks a block, instead of a chain on each row.
 *
 * A column of a table that came through a dictionary has few values and many rows: an op that looks
 * at one value at a time need only see the dictionary. Which ops these are is decided here, once,
 * from the pipeline alone; the source asks for them by field, and chains leave them out. The bytes
 * are the same. */
#ifndef MR_RUN_MAPPING_H
#define MR_RUN_MAPPING_H

#include "plan/pipeline.h"

typedef struct mr_mapping {
    const mr_pipeline *pipeline;
    bool *done;       /* of each op: the source runs it */
    bool *is_mapped;  /* of each field of the source */
    mr_type *types;   /* of these, as the source gives them */
    mr_mapper mapper; /* for the source */
} mr_mapping;

/* *out is NULL where there is nothing to map. It refers to the pipeline. */
mr_status mr_mapping_new(mr_mapping **out, const mr_pipeline *pipeline, mr_error *err);
void mr_mapping_free(mr_mapping *mapping); /* NULL allowed */

#endif
