/* SPDX-License-Identifier: Apache-2.0 */
/* far_origin_absent.c - in place of far_origin.c where there is no libcurl: sources say so when
 * they are opened. */
#include "run/read/far_origin.h"

mr_status mr_far_origin_open(mr_far_origin **out, const mr_far_limits *limits, mr_tracks *tracks,
                             mr_error *err) {
    (void)out;
    (void)limits;
    (void)tracks;
    (void)err;
    return MR_OK;
}

void mr_far_origin_close(mr_far_origin *far) {
    (void)far;
}

void mr_far_origin_figures(mr_far_origin *far, mr_far_figures *out) {
    (void)far;
    *out = (mr_far_figures){.requests = 0};
}

static mr_answer ask(void *state, struct mr_load *load) {
    (void)state;
    (void)load;
    return MR_ANSWER_NOT_HERE;
}

const mr_origin_class mr_object_origin = {.name = "object", .ask = ask};
