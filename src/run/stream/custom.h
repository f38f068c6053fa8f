/* SPDX-License-Identifier: Apache-2.0 */
/* custom.h - a rehearsal buffer whose policy is the host's (mr_policy): asks it, and carries out
 * what it said, now or from a journal. */
#ifndef MR_RUN_CUSTOM_H
#define MR_RUN_CUSTOM_H

#include <millrace/millrace.h>

#include "plan/choices.h"
#include "plan/rehearsal.h"

typedef struct mr_custom {
    mr_policy policy;          /* without functions: nobody can be asked */
    int64_t *samples, *labels; /* of the buffer, by place */
    int64_t n, size;
} mr_custom;

/* `policy` NULL: none. mr_custom_free is due even if opening failed; a zeroed one is allowed. */
mr_status mr_custom_open(mr_custom *custom, const mr_policy *policy, const mr_rehearsal *buffer,
                         int64_t size, mr_error *err);
void mr_custom_free(mr_custom *custom);

/* The buffer becomes that of `step`, as the policy says; *out: what it said, also which places are
 * shown again in `draws` slots, if there is anything. */
mr_status mr_custom_ask(mr_custom *custom, mr_rehearsal *buffer, int64_t step, int64_t draws,
                        mr_choices **out, mr_error *err);

/* Likewise, as it was said before. */
mr_status mr_custom_follow(mr_custom *custom, mr_rehearsal *buffer, const mr_choices *choices,
                           mr_error *err);

#endif
