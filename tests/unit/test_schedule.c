/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and slices, against a plain walk through the epochs: the ranks together deliver exactly the
 * global batches, a run can be resumed at every step, and on another world and batch. */
#include "test.h"

#include "core/philox.h"
#include "plan/schedule.h"

static const mr_key dice = {.seed = 20, .op = 1};

/* A number in [low, high]; `roll` numbers the test's trials. */
static int64_t pick(uint64_t roll, uint32_t which, int64_t low, int64_t high) {
    mr_key key = dice;
    key.sample = roll;
    return low + mr_draw_below(&key, which, high - low + 1);
}

static mr_schedule any_schedule(uint64_t roll) {
    mr_schedule s = {.world = pick(roll, 0, 1, 6),
                     .remainder = (int32_t)pick(roll, 1, MR_KEEP, MR_EVEN)};
    s.batch = s.world * pick(roll, 2, 1, 5);
    s.n = pick(roll, 3, s.remainder == MR_DROP ? s.batch : 1, 70);
    s.epochs = pick(roll, 4, 1, 4);
    s.first_epoch = pick(roll, 5, 0, s.epochs);
    s.first_position = pick(roll, 6, 0, 3) ? pick(roll, 7, 0, s.n) : 0;
    CHECK_INT(mr_schedule_check(&s, NULL), ==, MR_OK);
    return s;
}

static bool same_slice(const mr_slice *a, const mr_slice *b) {
    return a->epoch == b->epoch && a->step == b->step && a->first == b->first &&
           a->count == b->count && a->valid == b->valid && a->position == b->position;
}

/* ---- The walk: global batches one after the other ---- */

typedef struct walk {
    const mr_schedule *s;
    int64_t epoch, begin, step; /* of the batch to come */
} walk;

static walk walk_start(const mr_schedule *s) {
    walk w = {s, s->first_epoch, s->first_position, 0};
    while (w.step * s->batch < w.begin) {
        w.step++;
    }
    return w;
}

/* Moves on to the next epoch if this one has no batch left; false: the run is over. */
static bool walk_ready(walk *w) {
    int64_t needed = w->s->remainder == MR_DROP ? w->s->batch : 1;
    while (w->epoch < w->s->epochs && w->s->n - w->begin < needed) {
        w->epoch++;
        w->begin = w->step = 0;
    }
    return w->epoch < w->s->epochs;
}

static int64_t walk_size(const walk *w) {
    int64_t size = w->s->n - w->begin;
    while (w->s->remainder == MR_EVEN && size % w->s->world != 0) {
        size++;
    }
    bool is_short = w->s->remainder == MR_KEEP || w->s->remainder == MR_EVEN;
    return is_short && size < w->s->batch ? size : w->s->batch;
}

/* Samples consumed once the batch is done: the epoch's all, if no batch comes after it. */
static int64_t walk_position(const walk *w) {
    int64_t end = w->begin + w->s->batch;
    int64_t needed = w->s->remainder == MR_DROP ? w->s->batch : 1;
    return w->s->n - end < needed ? w->s->n : end;
}

static void walk_on(walk *w) {
    w->begin += w->s->batch;
    w->step++;
}

/* ---- Ranks against the walk ---- */

/* Compares one rank's slice with positions [*next, ...) of the batch, and moves *next behind it. */
static void check_slice(const walk *w, const mr_slice *slice, int64_t *next) {
    CHECK_INT(slice->first, ==, *next);
    CHECK_INT(slice->count, >=, 1);
    CHECK_INT(slice->position, ==, walk_position(w));
    int64_t valid = 0;
    for (int64_t k = 0; k < slice->count; k++) {
        int64_t position = *next + k;
        CHECK_INT(mr_slice_position(w->s, slice, k), ==, position % w->s->n);
        valid += position < w->s->n;
    }
    CHECK_INT(slice->valid, ==, valid);
    *next += slice->count;
}

/* One global batch, put together from the ranks; at[r] counts the steps rank r has taken. */
static void check_batch(const walk *w, int64_t at[]) {
    int64_t next = w->begin;
    for (int64_t rank = 0; rank < w->s->world; rank++) {
        mr_schedule mine = *w->s;
        mine.rank = rank;
        bool present = at[rank] < mr_schedule_run_steps(&mine);
        mr_slice slice = {0};
        if (present) {
            slice = mr_schedule_at(&mine, at[rank]);
            present = slice.epoch == w->epoch && slice.step == w->step;
        }
        if (present) {
            check_slice(w, &slice, &next);
            CHECK(w->s->remainder == MR_KEEP || slice.count == walk_size(w) / w->s->world);
            at[rank]++;
        } else { /* only where a short batch has too few for all */
            CHECK_INT(w->s->remainder, ==, MR_KEEP);
            CHECK_INT(walk_size(w), <, w->s->world);
        }
    }
    CHECK_INT(next, ==, w->begin + walk_size(w));
}

TEST(the_ranks_together_deliver_the_global_batches_in_order) {
    for (uint64_t roll = 0; roll < 3000; roll++) {
        mr_schedule s = any_schedule(roll);
        int64_t at[6] = {0};
        int before = test_failures;
        for (walk w = walk_start(&s); walk_ready(&w); walk_on(&w)) {
            check_batch(&w, at);
        }
        for (s.rank = 0; s.rank < s.world; s.rank++) {
            CHECK_INT(at[s.rank], ==, mr_schedule_run_steps(&s));
        }
        if (test_failures > before) {
            CHECK_INT(roll, ==, UINT64_MAX); /* names the trial */
            break;
        }
    }
}

/* How often each position of each epoch is delivered as valid and as padding, over all ranks. */
enum { MAX_EPOCHS = 5, MAX_N = 70 };
typedef struct tally {
    int64_t valid[MAX_EPOCHS][MAX_N], padding[MAX_EPOCHS][MAX_N];
} tally;

static void tally_slice(tally *t, const mr_schedule *s, const mr_slice *slice) {
    for (int64_t k = 0; k < slice->count; k++) {
        int64_t position = mr_slice_position(s, slice, k);
        (k < slice->valid ? t->valid : t->padding)[slice->epoch][position]++;
    }
}

static void tally_run(tally *t, mr_schedule s, int64_t steps) {
    for (s.rank = 0; s.rank < s.world; s.rank++) {
        int64_t mine = mr_schedule_run_steps(&s);
        for (int64_t i = 0; i < mine && i < steps; i++) {
            mr_slice slice = mr_schedule_at(&s, i);
            tally_slice(t, &s, &slice);
        }
    }
}

static void check_tally(const tally *t, const mr_schedule *s, int64_t epoch) {
    int64_t start = epoch == s->first_epoch ? s->first_position : 0;
    int64_t rest = (s->n - start) % s->batch;
    int64_t end = s->remainder == MR_DROP ? s->n - rest : s->n, padding = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool wanted = epoch >= s->first_epoch && i >= start && i < end;
        CHECK_INT(t->valid[epoch][i], ==, wanted);
        padding += t->padding[epoch][i];
    }
    int64_t filled = s->remainder == MR_PAD    ? s->batch - rest
                     : s->remainder == MR_EVEN ? (s->world - rest % s->world) % s->world
                                               : 0;
    CHECK_INT(padding, ==, epoch >= s->first_epoch && rest > 0 ? filled : 0);
}

TEST(every_position_comes_once_and_only_the_tail_is_dropped_or_padded) {
    for (uint64_t roll = 0; roll < 3000; roll++) {
        mr_schedule s = any_schedule(roll);
        tally t = {0};
        tally_run(&t, s, INT64_MAX);
        for (int64_t epoch = 0; epoch < s.epochs; epoch++) {
            check_tally(&t, &s, epoch);
        }
    }
}

/* What torch's DistributedSampler gives each rank: ceil(n / world) samples, in batches. */
TEST(even_ranks_have_as_many_samples_as_torchs_sampler_gives_them) {
    for (uint64_t roll = 0; roll < 1000; roll++) {
        mr_schedule s = any_schedule(roll);
        s.remainder = MR_EVEN;
        s.first_epoch = s.first_position = 0;
        s.epochs = 1;
        int64_t each = (s.n + s.world - 1) / s.world, own = s.batch / s.world;
        for (s.rank = 0; s.rank < s.world; s.rank++) {
            int64_t steps = mr_schedule_run_steps(&s), count = 0;
            CHECK_INT(steps, ==, (each + own - 1) / own);
            for (int64_t i = 0; i < steps; i++) {
                count += mr_schedule_at(&s, i).count;
            }
            CHECK_INT(count, ==, each);
        }
    }
}

TEST(padding_wraps_to_the_start_of_the_order) {
    mr_schedule s = {.n = 3, .batch = 8, .world = 2, .rank = 1, .remainder = MR_PAD, .epochs = 1};
    mr_slice slice = mr_schedule_at(&s, 0);
    CHECK_INT(slice.first, ==, 4);
    CHECK_INT(slice.count, ==, 4);
    CHECK_INT(slice.valid, ==, 0);
    CHECK_INT(mr_slice_position(&s, &slice, 0), ==, 1);
    CHECK_INT(mr_slice_position(&s, &slice, 1), ==, 2);
    CHECK_INT(mr_slice_position(&s, &slice, 2), ==, 0);
    CHECK_INT(mr_slice_position(&s, &slice, 3), ==, 1);
}

TEST(all_ranks_take_equally_many_steps_with_drop_and_pad) {
    for (uint64_t roll = 0; roll < 3000; roll++) {
        mr_schedule s = any_schedule(roll);
        int64_t epoch_steps = mr_schedule_epoch_steps(&s), run_steps = mr_schedule_run_steps(&s);
        for (s.rank = 0; s.rank < s.world && s.remainder != MR_KEEP; s.rank++) {
            CHECK_INT(mr_schedule_epoch_steps(&s), ==, epoch_steps);
            CHECK_INT(mr_schedule_run_steps(&s), ==, run_steps);
        }
    }
}

TEST(a_short_last_batch_is_shared_as_documented) {
    mr_schedule s = {.n = 23, .batch = 20, .world = 5, .remainder = MR_KEEP, .epochs = 1};
    static const int64_t first[] = {20, 21, 22, 22, 23}, count[] = {1, 1, 0, 1, 0};
    for (s.rank = 0; s.rank < s.world; s.rank++) {
        CHECK_INT(mr_schedule_epoch_steps(&s), ==, 1 + count[s.rank]);
        if (count[s.rank] > 0) {
            mr_slice slice = mr_schedule_at(&s, 1);
            CHECK_INT(slice.first, ==, first[s.rank]);
            CHECK_INT(slice.count, ==, count[s.rank]);
            CHECK_INT(slice.valid, ==, count[s.rank]);
            CHECK_INT(slice.position, ==, 23);
        }
    }
}

/* ---- Going on ---- */

static mr_schedule resumed(const mr_schedule *s, const mr_slice *done) {
    mr_schedule rest = *s;
    rest.first_epoch = done->epoch;
    rest.first_position = done->position;
    CHECK_INT(mr_schedule_check(&rest, NULL), ==, MR_OK);
    return rest;
}

static void check_resume_after(const mr_schedule *s, int64_t i) {
    mr_slice done = mr_schedule_at(s, i);
    mr_schedule rest = resumed(s, &done);
    int64_t left = mr_schedule_run_steps(s) - i - 1;
    CHECK_INT(mr_schedule_run_steps(&rest), ==, left);
    for (int64_t k = 0; k < left; k++) {
        mr_slice wanted = mr_schedule_at(s, i + 1 + k), got = mr_schedule_at(&rest, k);
        CHECK(same_slice(&wanted, &got));
    }
}

TEST(a_run_resumed_after_any_step_is_the_rest_of_the_run) {
    for (uint64_t roll = 0; roll < 300; roll++) {
        mr_schedule s = any_schedule(roll);
        for (s.rank = 0; s.rank < s.world; s.rank++) {
            int64_t steps = mr_schedule_run_steps(&s);
            for (int64_t i = 0; i < steps; i++) {
                check_resume_after(&s, i);
            }
        }
    }
}

TEST(the_end_of_an_epoch_is_the_start_of_the_next) {
    mr_schedule a = {.n = 10, .batch = 4, .world = 1, .epochs = 3, .first_epoch = 1};
    mr_schedule b = a;
    a.first_position = 10;
    b.first_epoch = 2;
    CHECK_INT(mr_schedule_run_steps(&a), ==, mr_schedule_run_steps(&b));
    mr_slice first_a = mr_schedule_at(&a, 0), first_b = mr_schedule_at(&b, 0);
    CHECK(same_slice(&first_a, &first_b));
    a.first_epoch = 2;
    CHECK_INT(mr_schedule_run_steps(&a), ==, 0);
    a.first_epoch = 3;
    a.first_position = 0;
    CHECK_INT(mr_schedule_run_steps(&a), ==, 0);
}

/* What all ranks deliver up to and with a step of the whole. */
static void tally_until(tally *t, mr_schedule s, const mr_slice *done) {
    for (s.rank = 0; s.rank < s.world; s.rank++) {
        int64_t steps = mr_schedule_run_steps(&s);
        for (int64_t i = 0; i < steps; i++) {
            mr_slice slice = mr_schedule_at(&s, i);
            if (slice.epoch > done->epoch ||
                (slice.epoch == done->epoch && slice.position > done->position)) {
                break;
            }
            tally_slice(t, &s, &slice);
        }
    }
}

/* One leg of a run: another world, another batch, a few steps. Returns what is left. */
static mr_schedule run_leg(tally *t, mr_schedule s, uint64_t roll, uint32_t leg) {
    s.world = pick(roll, 100 + leg, 1, 6);
    s.batch = s.world * pick(roll, 500 + leg, 1, 5);
    mr_schedule whole = s; /* a single rank sees every step */
    whole.world = 1;
    int64_t steps = pick(roll, 1000 + leg, 1, 3), left = mr_schedule_run_steps(&whole);
    mr_slice done = mr_schedule_at(&whole, (steps < left ? steps : left) - 1);
    tally_until(t, s, &done);
    return resumed(&s, &done);
}

TEST(world_and_batch_may_change_in_the_middle) {
    for (uint64_t roll = 0; roll < 500; roll++) {
        mr_schedule s = any_schedule(roll);
        s.remainder = MR_KEEP;
        s.first_epoch = s.first_position = 0;
        tally t = {0};
        for (uint32_t leg = 0; s.first_epoch < s.epochs - 1 || s.first_position < s.n; leg++) {
            s = run_leg(&t, s, roll, leg);
        }
        for (int64_t epoch = 0; epoch < s.epochs; epoch++) {
            for (int64_t i = 0; i < s.n; i++) {
                CHECK_INT(t.valid[epoch][i], ==, 1);
            }
        }
    }
}

TEST(a_resumed_epoch_counts_steps_from_the_position_rounded_up) {
    mr_schedule s = {.n = 1000, .batch = 64, .world = 1, .epochs = 1, .first_position = 128};
    mr_slice slice = mr_schedule_at(&s, 0);
    CHECK_INT(slice.step, ==, 2);
    CHECK_INT(slice.first, ==, 128);
    s.first_position = 100;
    slice = mr_schedule_at(&s, 1);
    CHECK_INT(slice.step, ==, 3);
    CHECK_INT(slice.first, ==, 164);
}

/* ---- Extremes: run under UBSan, nothing may overflow ---- */

TEST(the_largest_schedule_does_not_overflow) {
    for (int32_t remainder = MR_KEEP; remainder <= MR_EVEN; remainder++) {
        mr_schedule s = {.n = MR_MAX_SAMPLES - 1,
                         .batch = MR_MAX_WORLD,
                         .world = MR_MAX_WORLD,
                         .rank = remainder == MR_KEEP ? 0 : MR_MAX_WORLD - 1,
                         .remainder = remainder,
                         .epochs = MR_MAX_EPOCHS};
        CHECK_INT(mr_schedule_check(&s, NULL), ==, MR_OK);
        int64_t per_epoch = remainder == MR_DROP ? (1 << 17) - 1 : 1 << 17;
        CHECK_INT(mr_schedule_run_steps(&s), ==, per_epoch << 32);
        mr_slice last = mr_schedule_at(&s, mr_schedule_run_steps(&s) - 1);
        CHECK_INT(last.epoch, ==, MR_MAX_EPOCHS - 1);
        CHECK_INT(last.step, ==, per_epoch - 1);
        CHECK_INT(last.position, ==, s.n);
        CHECK_INT(last.count, ==, 1);
    }
}

TEST(the_largest_short_batch_does_not_overflow) {
    mr_schedule s = {.n = MR_MAX_SAMPLES - 1,
                     .batch = MR_MAX_SAMPLES,
                     .world = MR_MAX_WORLD,
                     .rank = MR_MAX_WORLD - 1,
                     .epochs = 1};
    CHECK_INT(mr_schedule_check(&s, NULL), ==, MR_OK);
    CHECK_INT(mr_schedule_run_steps(&s), ==, 1);
    mr_slice slice = mr_schedule_at(&s, 0);
    CHECK_INT(slice.count, ==, MR_MAX_SAMPLES / MR_MAX_WORLD - 1);
    CHECK_INT(slice.first, ==, s.n - slice.count);
    CHECK_INT(slice.valid, ==, slice.count);
    CHECK_INT(slice.position, ==, s.n);
}

TEST(a_batch_of_everything_and_a_run_without_end) {
    mr_schedule s = {.n = 1, .batch = MR_MAX_SAMPLES, .world = 1, .remainder = MR_PAD, .epochs = 2};
    CHECK_INT(mr_schedule_check(&s, NULL), ==, MR_OK);
    mr_slice slice = mr_schedule_at(&s, 1);
    CHECK_INT(slice.count, ==, MR_MAX_SAMPLES);
    CHECK_INT(slice.valid, ==, 1);
    CHECK_INT(mr_slice_position(&s, &slice, MR_MAX_SAMPLES - 1), ==, 0);

    s = (mr_schedule){.n = MR_MAX_SAMPLES, .batch = 1, .world = 1, .epochs = MR_MAX_EPOCHS};
    CHECK_INT(mr_schedule_check(&s, NULL), ==, MR_OK);
    CHECK_INT(mr_schedule_run_steps(&s), ==, INT64_MAX);
    slice = mr_schedule_at(&s, INT64_MAX - 1);
    CHECK_INT(slice.epoch, ==, (1 << 15) - 1);
    CHECK_INT(slice.step, ==, MR_MAX_SAMPLES - 2);
}

/* ---- Refusals ---- */

static const mr_schedule good = {.n = 100, .batch = 16, .world = 2, .rank = 1, .epochs = 1};

static void check_refused(mr_schedule s, mr_status code, const char *text, const char *hint) {
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_schedule_check(&s, &err), ==, code);
    CHECK_INT(err.code, ==, code);
    CHECK_HAS(err.text, text);
    CHECK_HAS(err.hint, hint);
    CHECK_INT(mr_schedule_check(&s, NULL), ==, code);
}

#define REFUSED(field, value, code, text, hint)                                                    \
    do {                                                                                           \
        mr_schedule bad = good;                                                                    \
        bad.field = value;                                                                         \
        check_refused(bad, code, text, hint);                                                      \
    } while (0)

TEST(what_cannot_be_is_refused) {
    CHECK_INT(mr_schedule_check(&good, NULL), ==, MR_OK);
    REFUSED(n, 0, MR_E_PARAM, "dataset is empty", "");
    REFUSED(n, -1, MR_E_PARAM, "number of samples is -1", "");
    REFUSED(n, MR_MAX_SAMPLES + 1, MR_E_PARAM, "to 281474976710656", "");
    REFUSED(world, 0, MR_E_PARAM, "world is 0", "");
    REFUSED(world, MR_MAX_WORLD + 1, MR_E_PARAM, "world is 2147483649", "");
    REFUSED(rank, 2, MR_E_PARAM, "rank 2 does not exist in a world of 2", "from 0 to 1");
    REFUSED(rank, -1, MR_E_PARAM, "rank -1", "");
    REFUSED(batch, 0, MR_E_PARAM, "batch is 0", "");
    REFUSED(batch, 17, MR_E_PARAM, "a batch of 17 cannot be shared equally by 2 ranks",
            "use 16 or 18");
    REFUSED(batch, 1, MR_E_PARAM, "a batch of 1", "use at least 2");
    REFUSED(batch, MR_MAX_SAMPLES + 2, MR_E_PARAM, "batch is", "");
    REFUSED(remainder, 4, MR_E_PARAM, "unknown remainder 4", "");
    REFUSED(epochs, 0, MR_E_PARAM, "number of epochs is 0", "");
    REFUSED(epochs, MR_MAX_EPOCHS + 1, MR_E_PARAM, "number of epochs", "");
    REFUSED(first_epoch, -1, MR_E_PARAM, "first epoch is -1", "");
    REFUSED(first_position, -1, MR_E_STATE, "position -1 of an epoch of 100", "");
    REFUSED(first_position, 101, MR_E_STATE, "position 101 of an epoch of 100", "");
}

TEST(drop_refuses_a_dataset_smaller_than_a_batch) {
    mr_schedule s = good;
    s.remainder = MR_DROP;
    s.n = 16;
    CHECK_INT(mr_schedule_check(&s, NULL), ==, MR_OK);
    s.n = 15;
    check_refused(s, MR_E_PARAM, "no batch would ever come", "at most 15");
}

TEST_MAIN()
