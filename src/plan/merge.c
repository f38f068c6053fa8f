/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - see merge.h. */
#include "plan/merge.h"

static int64_t round_of(const mr_merge *merge) {
    return merge->partitions * merge->quantum;
}

mr_merge_place mr_merge_at(const mr_merge *merge, int64_t sample) {
    int64_t within = sample % round_of(merge), rounds = sample / round_of(merge);
    return (mr_merge_place){(int32_t)(within / merge->quantum),
                            merge->from + rounds * merge->quantum + within % merge->quantum};
}

int64_t mr_merge_number(const mr_merge *merge, int32_t partition, int64_t sample) {
    int64_t rounds = sample / round_of(merge);
    int64_t within = sample % round_of(merge) - partition * merge->quantum;
    within = within < 0 ? 0 : within > merge->quantum ? merge->quantum : within;
    return merge->from + rounds * merge->quantum + within;
}

int64_t mr_merge_sample(const mr_merge *merge, int32_t partition, int64_t number) {
    int64_t entries = number - merge->from;
    return entries / merge->quantum * round_of(merge) + partition * merge->quantum +
           entries % merge->quantum;
}

int64_t mr_merge_cut(int64_t count, int64_t world, int64_t rank) {
    return (count * rank + world - 1) / world;
}

mr_merge_share mr_merge_share_of(const mr_merge *merge, int64_t first, int64_t count, int64_t world,
                                 int64_t rank) {
    bool whole = first % round_of(merge) == 0 && count % round_of(merge) == 0;
    if (whole && merge->partitions % world == 0) {
        int32_t each = (int32_t)(merge->partitions / world), own = each * (int32_t)rank;
        int64_t run = each * merge->quantum;
        return (mr_merge_share){
            {first + run * rank, count / world, run, round_of(merge)}, own, own + each};
    }
    int64_t begin = mr_merge_cut(count, world, rank), end = mr_merge_cut(count, world, rank + 1);
    return (mr_merge_share){{first + begin, end - begin, 1, 1}, 0, merge->partitions};
}
