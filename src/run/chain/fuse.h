/* SPDX-License-Identifier: Apache-2.0 */
/* fuse.h - running several ops at once, row by row, without the images between them. */
#ifndef MR_RUN_FUSE_H
#define MR_RUN_FUSE_H

#include "core/memory.h"
#include "plan/pipeline.h"
#include "span/track.h"

typedef struct mr_fused mr_fused;

/* Ops first .. last of a pipeline, on one sample. Opening finds every size and region: the type
 * that comes out is then known, and memory for it is the caller's. What is opened lives in `arena`.
 */
mr_status mr_fused_open(mr_fused **out, const mr_op_node *ops, int32_t n_ops, mr_call *calls,
                        const mr_view *in, mr_arena *arena, mr_error *err);
const mr_type *mr_fused_type(const mr_fused *fused);
/* Of the i-th op, i > 0: whole images, every dimension known. */
const mr_type *mr_fused_in(const mr_fused *fused, int32_t i);
const mr_type *mr_fused_out(const mr_fused *fused, int32_t i);
size_t mr_fused_whole(const mr_fused *fused, int32_t i); /* bytes of the i-th op's whole image */
mr_status mr_fused_run(mr_fused *fused, mr_view *out, mr_error *err);

/* Before a run: each op leaves a mark on the stack while it runs; see span/probe.h. */
void mr_fused_mark(mr_fused *fused, int32_t first_op);

/* Before and after a run: watches how long each op itself takes, row by row, and tells the track;
 * first_op is the first op's place in the pipeline. Telling without watching does nothing. */
void mr_fused_watch(mr_fused *fused, mr_track *track);
void mr_fused_tell(const mr_fused *fused, int32_t first_op);

#endif
