/* SPDX-License-Identifier: Apache-2.0 */
/* bench_share - what planning a local step costs: listing the global batch, asking the placement,
 * balancing; and what opening a placement costs. The best of several rounds, in CPU time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plan/placement.h"
#include "plan/share.h"

enum { SAMPLES = 1281167, BATCH = 65536, ROUNDS = 20 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void keep_best(double *best, double from, double to) {
    *best = *best == 0 || to - from < *best ? to - from : *best;
}

static bool bench(int32_t ranks, mr_pick *picks, int32_t *holder, int64_t *quota) {
    mr_share share = {.schedule = {.n = SAMPLES, .batch = BATCH, .world = ranks, .epochs = 1000},
                      .lanes = 1};
    mr_course_config config = {.samples = SAMPLES, .shuffle = true, .lanes = 1, .seed = 1};
    int64_t *capacity = malloc((size_t)ranks * sizeof *capacity);
    mr_placement *placement = NULL;
    mr_course *course = NULL;
    mr_course_cursor *cursor = NULL;
    mr_balance *balance = NULL;
    for (int32_t r = 0; capacity && r < ranks; r++) {
        capacity[r] = SAMPLES / ranks * 2;
    }
    double start = now();
    bool ok = capacity && mr_placement_open(&placement,
                                            &(mr_placement_config){.holders = ranks,
                                                                   .capacity = capacity,
                                                                   .items = SAMPLES,
                                                                   .item_bytes = 1,
                                                                   .replicas = 1},
                                            NULL) == MR_OK;
    double opened = now() - start, list = 0, place = 0, split = 0;
    ok = ok && mr_course_open(&course, &config, NULL) == MR_OK &&
         mr_course_cursor_open(&cursor, course, NULL) == MR_OK &&
         mr_balance_open(&balance, BATCH, ranks, NULL) == MR_OK;
    for (int64_t i = 0; ok && i < ROUNDS; i++) {
        mr_slice step = mr_share_step(&share, i);
        mr_positions all = {step.first, step.count, 1, 1};
        double a = now();
        ok = mr_course_list(cursor, (uint32_t)step.epoch, &all, picks, NULL) == MR_OK;
        double b = now();
        mr_placement_list(placement, picks, step.count, holder);
        double c = now();
        mr_share_quotas(&share, &step, 1, quota);
        mr_balance_step(balance, holder, step.count, quota);
        double d = now();
        if (step.count == BATCH) {
            keep_best(&list, a, b);
            keep_best(&place, b, c);
            keep_best(&split, c, d);
        }
    }
    printf("%6d ranks: list %.2f ms, place %.2f ms, balance %.2f ms a step; open %.0f ms\n",
           (int)ranks, list * 1e3, place * 1e3, split * 1e3, opened * 1e3);
    mr_balance_free(balance);
    mr_course_cursor_free(cursor);
    mr_course_free(course);
    mr_placement_free(placement);
    free(capacity);
    return ok;
}

int main(void) {
    mr_pick *picks = malloc(BATCH * sizeof *picks);
    int32_t *holder = malloc(BATCH * sizeof *holder);
    int64_t *quota = malloc(BATCH * sizeof *quota);
    bool ok = picks && holder && quota;
    printf("%d samples, a batch of %d\n", SAMPLES, BATCH);
    for (int32_t ranks = 16; ok && ranks < 1024; ranks *= 4) {
        ok = bench(ranks, picks, holder, quota);
    }
    ok = ok && bench(1024, picks, holder, quota);
    free(picks);
    free(holder);
    free(quota);
    return ok ? 0 : 1;
}
