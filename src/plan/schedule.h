/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - which positions a rank takes at which step. Pure.
 *
 * Step s of an epoch is the global batch of positions [s * batch, (s + 1) * batch); each rank takes
 * an equal, contiguous slice of it. A run that starts in the middle of an epoch (a restored state)
 * cuts its batches from there, and from 0 again in the epochs that follow. Starting at the very end
 * of an epoch is starting at the next one. */
#ifndef MR_PLAN_SCHEDULE_H
#define MR_PLAN_SCHEDULE_H

#include <millrace/millrace.h>

#define MR_MAX_EPOCHS ((int64_t)1 << 32) /* the epoch is one word of Philox's counter */
#define MR_MAX_WORLD ((int64_t)1 << 31)

typedef struct mr_schedule {
    int64_t n;     /* samples in the dataset */
    int64_t batch; /* over all ranks */
    int64_t world, rank;
    int32_t remainder;   /* mr_remainder */
    int64_t even_for;    /* MR_EVEN: ranks that the last batch is shared by; 0: world */
    int64_t first_epoch; /* where the run starts ... */
    int64_t first_position;
    int64_t epochs; /* ... and where it ends: after epoch `epochs` - 1 */
} mr_schedule;

/* One rank's share of one step. */
typedef struct mr_slice {
    int64_t epoch;
    int64_t step;     /* within the epoch. The first of a resumed epoch is position / batch, rounded
                         up: where batch divides the position the count goes on as if never
                         interrupted */
    int64_t first;    /* position; the slice is first, first + 1, ... */
    int64_t count;    /* samples, padding included; at least 1 */
    int64_t valid;    /* of which are not padding: positions from n on wrap to 0, 1, ... */
    int64_t position; /* samples of the epoch consumed by all ranks once this step is done; n after
                         the last step, also where MR_DROP left some out */
} mr_slice;

/* Every function below wants a schedule that this one accepts. */
mr_status mr_schedule_check(const mr_schedule *schedule, mr_error *err);

/* Steps that this rank takes in a whole epoch / in the whole run (INT64_MAX if there are more).
 *
 * With MR_DROP, MR_PAD and MR_EVEN all ranks take the same number. With MR_KEEP the last batch of
 * an epoch may have R < batch samples, of which rank r takes [ceil(r * R / world), ceil((r + 1) * R
 * / world)): where R < world some ranks, never rank 0, get nothing and take one step less than the
 * others. */
int64_t mr_schedule_epoch_steps(const mr_schedule *schedule);
int64_t mr_schedule_run_steps(const mr_schedule *schedule);

/* The i-th step of the run (0 is the first after the start or the restored state);
 * 0 <= i < mr_schedule_run_steps. */
mr_slice mr_schedule_at(const mr_schedule *schedule, int64_t i);

/* The position a slice's k-th sample stands at in the epoch's order (padding wraps). */
int64_t mr_slice_position(const mr_schedule *schedule, const mr_slice *slice, int64_t k);

#endif
