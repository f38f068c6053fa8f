/* SPDX-License-Identifier: Apache-2.0 */
/* mix_round.h - the table of one round of a mix; for the mix's own files. */
#ifndef MR_PLAN_MIX_ROUND_H
#define MR_PLAN_MIX_ROUND_H

#include "plan/mix.h"

typedef struct mr_mix_child {
    const mr_course *course;
    int64_t quota; /* groups of a round */
    int64_t first; /* quotas of the children before */
    int64_t epoch; /* positions of an epoch that are taken */
    bool aligned;  /* its lanes are those of the mix */
} mr_mix_child;

struct mr_mix {
    mr_mix_child *children;
    int32_t n_children;
    int64_t round, length;
    int32_t lanes;
    uint64_t seed;
};

typedef struct mr_mix_round {
    int64_t number; /* -1: none */
    int32_t *child; /* of each group of the round */
    int64_t *rank;  /* of each group: how many of the same child come before */
    int64_t *group; /* of each child, from its `first` on: its groups in the round */
} mr_mix_round;

mr_status mr_mix_round_init(mr_mix_round *round, const mr_mix *mix, mr_error *err);
void mr_mix_round_free(mr_mix_round *round); /* a zeroed one is allowed */

/* Makes the table that of a round, unless it is. */
mr_status mr_mix_round_enter(mr_mix_round *round, const mr_mix *mix, int64_t number, mr_error *err);

/* How many groups of a child come before a group of the table's round, or before its end. */
int64_t mr_mix_round_before(const mr_mix_round *round, const mr_mix *mix, int32_t child,
                            int64_t group);

#endif
