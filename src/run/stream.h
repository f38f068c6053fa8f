/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - running several ops at once, row by row, without the images between them. */
#ifndef MR_RUN_STREAM_H
#define MR_RUN_STREAM_H

#include "core/memory.h"
#include "plan/pipeline.h"
#include "span/track.h"

typedef struct mr_stream mr_stream;

/* Ops first .. last of a pipeline, on one sample. Opening finds every size and region: the type
 * that comes out is then known, and memory for it is the caller's. The stream lives in `arena`. */
mr_status mr_stream_open(mr_stream **out, const mr_op_node *ops, int32_t n_ops, mr_call *calls,
                         const mr_view *in, mr_arena *arena, mr_error *err);
const mr_type *mr_stream_type(const mr_stream *stream);
size_t mr_stream_whole(const mr_stream *stream, int32_t i); /* bytes of the i-th op's whole image */
mr_status mr_stream_run(mr_stream *stream, mr_view *out, mr_error *err);

/* Before a run: each op leaves a mark on the stack while it runs; see span/probe.h. */
void mr_stream_mark(mr_stream *stream, int32_t first_op);

/* Before and after a run: watches how long each op itself takes, row by row, and tells the track;
 * first_op is the first op's place in the pipeline. Telling without watching does nothing. */
void mr_stream_watch(mr_stream *stream, mr_track *track);
void mr_stream_tell(const mr_stream *stream, int32_t first_op);

#endif
