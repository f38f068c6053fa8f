/* SPDX-License-Identifier: Apache-2.0 */
/* enter.h - samples of a stream as they are at the cache op, where a rehearsal buffer keeps them so
 * ("enter": "cached"): what the ops before it made, in one piece of memory of this process.
 *
 * What the source says of an entry besides its value (label, key, time, whether it is shown again)
 * is not in it, unless an op changed it: that is the row's. */
#ifndef MR_RUN_ENTER_H
#define MR_RUN_ENTER_H

#include "run/chain/chain.h"

/* The cache op of a stream's pipeline; -1: there is none. */
int32_t mr_enter_op(const mr_pipeline *pipeline);

/* At that op: the sample as it is there, freed by the caller. NULL: no memory for it. */
void *mr_enter_pack(const mr_chain *chain, const mr_view *fields, size_t *size);

/* Fills the fields from job->made and, for the rest, from the source. */
mr_status mr_enter_unpack(mr_chain *chain, const mr_chain_job *job, mr_view *fields, mr_error *err);

#endif
