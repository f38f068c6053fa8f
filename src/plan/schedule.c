/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - steps and slices in closed form: any step of a run is found in O(1).
 *
 * mr_schedule_check keeps n and batch at 2^48 or less, epochs at 2^32 and world at 2^31, so that no
 * sum or product below overflows, save the steps of a whole run, which are capped. */
#include "plan/schedule.h"

#include "core/error.h"
#include "core/philox.h"

/* ---- Checks ---- */

static mr_status check_limit(const char *what, int64_t value, int64_t low, int64_t high,
                             mr_error *err) {
    if (value >= low && value <= high) {
        return MR_OK;
    }
    return mr_fail(err, MR_E_PARAM, "%s is %lld, but must be from %lld to %lld", what,
                   (long long)value, (long long)low, (long long)high);
}

static mr_status check_dataset(const mr_schedule *s, mr_error *err) {
    if (s->n == 0) {
        return mr_fail(err, MR_E_PARAM, "the dataset is empty");
    }
    return check_limit("the number of samples", s->n, 1, MR_MAX_SAMPLES, err);
}

static mr_status check_ranks(const mr_schedule *s, mr_error *err) {
    MR_TRY(check_limit("world", s->world, 1, MR_MAX_WORLD, err));
    if (s->rank < 0 || s->rank >= s->world) {
        mr_status status = mr_fail(err, MR_E_PARAM, "rank %lld does not exist in a world of %lld",
                                   (long long)s->rank, (long long)s->world);
        mr_hint(err, "ranks count from 0 to %lld", (long long)s->world - 1);
        return status;
    }
    return MR_OK;
}

static mr_status check_batch(const mr_schedule *s, mr_error *err) {
    MR_TRY(check_limit("batch", s->batch, 1, MR_MAX_SAMPLES, err));
    int64_t below = s->batch - s->batch % s->world, above = below + s->world;
    if (below == s->batch) {
        return MR_OK;
    }
    mr_status status =
        mr_fail(err, MR_E_PARAM, "a batch of %lld cannot be shared equally by %lld ranks",
                (long long)s->batch, (long long)s->world);
    if (below > 0) {
        mr_hint(err, "batch counts the samples of all ranks together; use %lld or %lld",
                (long long)below, (long long)above);
    } else {
        mr_hint(err, "batch counts the samples of all ranks together; use at least %lld",
                (long long)above);
    }
    return status;
}

static mr_status check_remainder(const mr_schedule *s, mr_error *err) {
    if (s->remainder < MR_KEEP || s->remainder > MR_EVEN) {
        return mr_fail(err, MR_E_PARAM, "unknown remainder %d", (int)s->remainder);
    }
    if (s->remainder == MR_DROP && s->n < s->batch) {
        mr_status status =
            mr_fail(err, MR_E_PARAM,
                    "no batch would ever come: a batch has %lld samples, the dataset only %lld, "
                    "and the remainder is dropped",
                    (long long)s->batch, (long long)s->n);
        mr_hint(err, "use a batch of at most %lld, or remainder keep, pad or even",
                (long long)s->n);
        return status;
    }
    return MR_OK;
}

static mr_status check_start(const mr_schedule *s, mr_error *err) {
    MR_TRY(check_limit("the number of epochs", s->epochs, 1, MR_MAX_EPOCHS, err));
    MR_TRY(check_limit("the first epoch", s->first_epoch, 0, MR_MAX_EPOCHS, err));
    if (s->first_position < 0 || s->first_position > s->n) {
        return mr_fail(err, MR_E_STATE, "cannot start at position %lld of an epoch of %lld samples",
                       (long long)s->first_position, (long long)s->n);
    }
    return MR_OK;
}

mr_status mr_schedule_check(const mr_schedule *schedule, mr_error *err) {
    MR_TRY(check_dataset(schedule, err));
    MR_TRY(check_ranks(schedule, err));
    MR_TRY(check_batch(schedule, err));
    MR_TRY(check_remainder(schedule, err));
    return check_start(schedule, err);
}

/* ---- Steps ---- */

/* numerator * factor / divisor, for factor <= divisor <= 2^31: the product itself may not fit. */
static int64_t scale(int64_t numerator, int64_t factor, int64_t divisor) {
    return numerator / divisor * factor + numerator % divisor * factor / divisor;
}

/* Samples of a batch of `size` that the ranks below `rank` take together. Rounded up, so that a
 * short batch goes to the low ranks first: rank 0 takes every step, and its state is the run's. A
 * whole batch is a multiple of world, so its shares are equal. */
static int64_t taken_below(const mr_schedule *s, int64_t size, int64_t rank) {
    return size - scale(size, s->world - rank, s->world);
}

static int64_t share_start(const mr_schedule *s, int64_t size) {
    return taken_below(s, size, s->rank);
}

static int64_t share_size(const mr_schedule *s, int64_t size) {
    return taken_below(s, size, s->rank + 1) - share_start(s, size);
}

/* Of a batch for which there are `left` samples, all or fewer than it takes. */
static int64_t last_size(const mr_schedule *s, int64_t left) {
    int64_t ranks = s->even_for > 0 ? s->even_for : s->world;
    int64_t even = (left + ranks - 1) / ranks * ranks;
    int64_t size = s->remainder == MR_KEEP ? left : s->remainder == MR_EVEN ? even : s->batch;
    return left < s->batch ? size : s->batch;
}

/* Steps from a position to the end of its epoch. */
static int64_t steps_from(const mr_schedule *s, int64_t position) {
    int64_t whole = (s->n - position) / s->batch, rest = (s->n - position) % s->batch;
    bool short_step = rest > 0 && s->remainder != MR_DROP && share_size(s, last_size(s, rest)) > 0;
    return whole + (short_step ? 1 : 0);
}

static int64_t consumed_after(const mr_schedule *s, int64_t end) {
    bool last = s->remainder == MR_DROP ? s->n - end < s->batch : end >= s->n;
    return last ? s->n : end;
}

/* The k-th step of an epoch that is entered at position `start`. */
static mr_slice slice_at(const mr_schedule *s, int64_t epoch, int64_t start, int64_t k) {
    int64_t begin = start + k * s->batch, left = s->n - begin;
    int64_t size = last_size(s, left);
    mr_slice slice = {.epoch = epoch, .step = (start + s->batch - 1) / s->batch + k};
    slice.first = begin + share_start(s, size);
    slice.count = share_size(s, size);
    left = s->n - slice.first;
    slice.valid = left < 0 ? 0 : left < slice.count ? left : slice.count;
    slice.position = consumed_after(s, begin + s->batch);
    return slice;
}

int64_t mr_schedule_epoch_steps(const mr_schedule *schedule) {
    return steps_from(schedule, 0);
}

int64_t mr_schedule_run_steps(const mr_schedule *schedule) {
    int64_t epochs_after = schedule->epochs - schedule->first_epoch - 1, steps;
    if (epochs_after < 0) {
        return 0;
    }
    if (__builtin_mul_overflow(epochs_after, steps_from(schedule, 0), &steps) ||
        __builtin_add_overflow(steps, steps_from(schedule, schedule->first_position), &steps)) {
        return INT64_MAX;
    }
    return steps;
}

mr_slice mr_schedule_at(const mr_schedule *schedule, int64_t i) {
    int64_t in_first = steps_from(schedule, schedule->first_position);
    if (i < in_first) {
        return slice_at(schedule, schedule->first_epoch, schedule->first_position, i);
    }
    /* A rank that takes no step in a whole epoch has no such i: steps is not 0 here. */
    int64_t steps = steps_from(schedule, 0), later = i - in_first;
    return slice_at(schedule, schedule->first_epoch + 1 + later / steps, 0, later % steps);
}

int64_t mr_slice_position(const mr_schedule *schedule, const mr_slice *slice, int64_t k) {
    return (slice->first + k) % schedule->n;
}
