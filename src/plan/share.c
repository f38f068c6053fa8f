/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - cuts global slices into the ranks' portions.
 *
 * Global slices are those of a schedule for one rank, so what schedule.h pins is not said again. */
#include "plan/share.h"

/* ---- Global slices ---- */

static mr_schedule schedule_of_all(const mr_share *share) {
    mr_schedule all = share->schedule;
    all.even_for = all.world;
    all.world = 1;
    all.rank = 0;
    return all;
}

int64_t mr_share_steps(const mr_share *share) {
    mr_schedule all = schedule_of_all(share);
    return mr_schedule_run_steps(&all);
}

mr_slice mr_share_step(const mr_share *share, int64_t i) {
    mr_schedule all = schedule_of_all(share);
    return mr_schedule_at(&all, i);
}

/* ---- By lane ---- */

static bool is_by_lane(const mr_share *share, const mr_slice *step) {
    const mr_schedule *s = &share->schedule;
    bool equal = s->remainder != MR_EVEN || step->count == s->batch;
    return equal && share->lanes > 1 && share->lanes % s->world == 0 &&
           s->batch % share->lanes == 0 && step->first % share->lanes == 0;
}

/* Positions in lanes [first, first + lanes) of `size` that begin with lane 0. */
static int64_t count_in_lanes(const mr_share *share, int64_t size, int64_t first, int64_t lanes) {
    int64_t rest = size % share->lanes - first;
    return size / share->lanes * lanes + (rest < 0 ? 0 : rest < lanes ? rest : lanes);
}

static mr_portion portion_by_lane(const mr_share *share, const mr_slice *step, int64_t rank) {
    int64_t lanes = share->lanes / share->schedule.world, first = rank * lanes;
    return (mr_portion){.epoch = step->epoch,
                        .step = step->step,
                        .positions = {.first = step->first + first,
                                      .count = count_in_lanes(share, step->count, first, lanes),
                                      .run = lanes,
                                      .stride = share->lanes},
                        .valid = count_in_lanes(share, step->valid, first, lanes),
                        .position = step->position,
                        .first_lane = (int32_t)first,
                        .end_lane = (int32_t)(first + lanes)};
}

/* ---- Contiguous ---- */

/* The rank's slice of the batch that begins where the global one does. */
static mr_portion portion_contiguous(const mr_share *share, const mr_slice *step, int64_t rank) {
    mr_schedule from_here = share->schedule;
    from_here.rank = rank;
    from_here.first_epoch = step->epoch;
    from_here.epochs = step->epoch + 1;
    from_here.first_position = step->first;
    mr_slice slice = {.first = step->first};
    if (mr_schedule_run_steps(&from_here) > 0) {
        slice = mr_schedule_at(&from_here, 0);
    }
    return (mr_portion){.epoch = step->epoch,
                        .step = step->step,
                        .positions = {slice.first, slice.count, 1, 1},
                        .valid = slice.valid,
                        .position = step->position,
                        .first_lane = 0,
                        .end_lane = share->lanes};
}

mr_portion mr_share_of(const mr_share *share, const mr_slice *step, int64_t rank) {
    return is_by_lane(share, step) ? portion_by_lane(share, step, rank)
                                   : portion_contiguous(share, step, rank);
}

/* ---- Local ---- */

static int64_t contiguous_count(const mr_share *share, const mr_slice *step, int64_t rank) {
    return portion_contiguous(share, step, rank).positions.count;
}

void mr_share_quotas(const mr_share *share, const mr_slice *step, int64_t per_node,
                     int64_t *quota) {
    for (int64_t rank = 0; rank < share->schedule.world; rank++) {
        int64_t before = rank % per_node == 0 ? 0 : quota[rank / per_node];
        quota[rank / per_node] = before + contiguous_count(share, step, rank);
    }
}

/* Slots of a list, ascending, that are below one. */
static int64_t slots_below(const int32_t *slots, int64_t count, int64_t end) {
    int64_t n = 0;
    while (n < count && slots[n] < end) {
        n++;
    }
    return n;
}

mr_portion mr_share_local(const mr_share *share, const mr_slice *step, const mr_balance *balance,
                          int64_t per_node, int64_t rank) {
    int64_t first = 0, of_node = 0, count = contiguous_count(share, step, rank);
    for (int64_t before = rank - rank % per_node; before < rank; before++) {
        first += contiguous_count(share, step, before);
    }
    const int32_t *slots = mr_balance_slots(balance, (int32_t)(rank / per_node), &of_node) + first;
    return (mr_portion){.epoch = step->epoch,
                        .step = step->step,
                        .positions = {step->first, count, 1, 1},
                        .valid = slots_below(slots, count, step->valid),
                        .position = step->position,
                        .first_lane = 0,
                        .end_lane = share->lanes,
                        .slots = slots};
}

/* ---- Steps of a rank ---- */

/* Global slices of the epochs in which the run starts and, alike, of each that follows. */
static int64_t steps_of_epoch(const mr_share *share, int64_t start) {
    mr_schedule one = schedule_of_all(share);
    one.first_epoch = 0;
    one.epochs = 1;
    one.first_position = start;
    return mr_schedule_run_steps(&one);
}

static mr_slice step_of_epoch(const mr_share *share, int64_t epoch, int64_t start, int64_t i) {
    mr_schedule one = schedule_of_all(share);
    one.first_epoch = epoch;
    one.epochs = epoch + 1;
    one.first_position = start;
    return mr_schedule_at(&one, i);
}

/* All of them but perhaps the last have positions for every rank. */
static int64_t rank_steps_of_epoch(const mr_share *share, int64_t rank, int64_t start) {
    int64_t steps = steps_of_epoch(share, start);
    if (steps == 0) {
        return 0;
    }
    mr_slice last = step_of_epoch(share, 0, start, steps - 1);
    return mr_share_of(share, &last, rank).positions.count > 0 ? steps : steps - 1;
}

int64_t mr_share_rank_steps(const mr_share *share, int64_t rank) {
    const mr_schedule *s = &share->schedule;
    int64_t epochs_after = s->epochs - s->first_epoch - 1, steps;
    if (epochs_after < 0) {
        return 0;
    }
    if (__builtin_mul_overflow(epochs_after, rank_steps_of_epoch(share, rank, 0), &steps) ||
        __builtin_add_overflow(steps, rank_steps_of_epoch(share, rank, s->first_position),
                               &steps)) {
        return INT64_MAX;
    }
    return steps;
}

mr_slice mr_share_step_of(const mr_share *share, int64_t rank, int64_t i) {
    const mr_schedule *s = &share->schedule;
    int64_t in_first = rank_steps_of_epoch(share, rank, s->first_position);
    int64_t steps = rank_steps_of_epoch(share, rank, 0), later = i - in_first;
    /* A rank that takes no step in a whole epoch has steps in the first alone. */
    return later < 0 || steps == 0
               ? step_of_epoch(share, s->first_epoch, s->first_position, i)
               : step_of_epoch(share, s->first_epoch + 1 + later / steps, 0, later % steps);
}

mr_portion mr_share_at(const mr_share *share, int64_t rank, int64_t i) {
    mr_slice step = mr_share_step_of(share, rank, i);
    return mr_share_of(share, &step, rank);
}
