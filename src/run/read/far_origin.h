/* SPDX-License-Identifier: Apache-2.0 */
/* far_origin.h - objects on servers as an origin of loads: a thread that has many requests under
 * way (io/far_line.h). What lies on a server only this origin can read, so it answers every
 * question about it, with the bytes or with a failure. */
#ifndef MR_RUN_FAR_ORIGIN_H
#define MR_RUN_FAR_ORIGIN_H

#include "io/far_line.h"
#include "run/read/origin.h"
#include "span/track.h"

typedef struct mr_far_origin mr_far_origin;

mr_status mr_far_origin_open(mr_far_origin **out, const mr_far_limits *limits, mr_tracks *tracks,
                             mr_error *err);
void mr_far_origin_close(mr_far_origin *far); /* NULL is allowed */
void mr_far_origin_figures(mr_far_origin *far, mr_far_figures *out);

extern const mr_origin_class mr_object_origin;

#endif
