/* SPDX-License-Identifier: Apache-2.0 */
/* Shares: contiguous ones are the schedule's slices; those by lane keep to their lanes; and
 * whatever the world, the ranks' positions together are the step's. */
#include "test.h"

#include "core/philox.h"
#include "plan/share.h"

enum { MAX_N = 300, ROLLS = 3000 };

static int64_t roll(uint64_t number, uint32_t draw, int64_t low, int64_t high) {
    mr_key key = {.seed = 55, .sample = number, .op = 7};
    return low + mr_draw_below(&key, draw, high - low + 1);
}

/* Half of them have a world that divides the lanes and lanes that divide the batch. */
static mr_share any_share(uint64_t number) {
    mr_share share = {.lanes = (int32_t)roll(number, 0, 1, 12)};
    mr_schedule *s = &share.schedule;
    s->world = roll(number, 1, 1, 6);
    s->batch = s->world * roll(number, 2, 1, 12);
    if (number % 2) {
        share.lanes = (int32_t)(s->world * roll(number, 0, 1, 4));
        s->batch = share.lanes * roll(number, 2, 1, 4);
    }
    s->remainder = (int32_t)roll(number, 3, MR_KEEP, MR_EVEN);
    int64_t least = s->remainder == MR_DROP ? s->batch : 1;
    s->n = roll(number, 4, least, least + MAX_N / 2);
    s->epochs = roll(number, 5, 1, 3);
    s->first_epoch = roll(number, 6, 0, s->epochs - 1);
    s->first_position = number % 3 ? roll(number, 7, 0, s->n) : 0;
    CHECK_INT(mr_schedule_check(s, NULL), ==, MR_OK);
    return share;
}

static bool may_go_by_lane(const mr_share *share, const mr_slice *step) {
    int64_t first = step->first;
    bool uneven = share->schedule.remainder == MR_EVEN && step->count < share->schedule.batch;
    return !uneven && share->lanes > 1 && share->lanes % share->schedule.world == 0 &&
           share->schedule.batch % share->lanes == 0 && first % share->lanes == 0;
}

/* ---- Sets ---- */

static void tally_portion(const mr_portion *p, int64_t first, int64_t n, int8_t *valid,
                          int8_t *all) {
    for (int64_t k = 0; k < p->positions.count; k++) {
        int64_t position = mr_positions_at(&p->positions, k);
        all[position - first]++;
        CHECK_INT(position < n, ==, k < p->valid);
        valid[position - first] = (int8_t)(valid[position - first] + (k < p->valid));
    }
}

static void check_step(const mr_share *share, const mr_slice *step) {
    int8_t valid[MAX_N] = {0}, all[MAX_N] = {0};
    for (int64_t rank = 0; rank < share->schedule.world; rank++) {
        mr_portion p = mr_share_of(share, step, rank);
        CHECK_INT(p.epoch, ==, step->epoch);
        CHECK_INT(p.step, ==, step->step);
        CHECK_INT(p.position, ==, step->position);
        if (step->count == share->schedule.batch) {
            CHECK_INT(p.positions.count, ==, share->schedule.batch / share->schedule.world);
        }
        CHECK(rank > 0 || p.positions.count > 0);
        CHECK(share->schedule.remainder != MR_EVEN ||
              p.positions.count == step->count / share->schedule.world);
        tally_portion(&p, step->first, share->schedule.n, valid, all);
    }
    for (int64_t k = 0; k < MAX_N; k++) {
        CHECK_INT(all[k], ==, k < step->count);
        CHECK_INT(valid[k], ==, k < step->valid);
    }
}

TEST(the_ranks_positions_together_are_the_step) {
    for (uint64_t number = 0; number < ROLLS; number++) {
        mr_share share = any_share(number);
        for (int64_t i = 0; i < mr_share_steps(&share); i++) {
            mr_slice step = mr_share_step(&share, i);
            check_step(&share, &step);
        }
    }
}

TEST(any_world_and_any_lanes_give_the_same_steps) {
    for (uint64_t number = 0; number < ROLLS; number++) {
        mr_share a = any_share(number), b = a;
        b.schedule.world = 1;
        b.lanes = 1;
        CHECK_INT(mr_share_steps(&a), ==, mr_share_steps(&b));
        for (int64_t i = 0; i < mr_share_steps(&a); i++) {
            mr_slice x = mr_share_step(&a, i), y = mr_share_step(&b, i);
            CHECK_INT(x.first, ==, y.first);
            CHECK(x.count == y.count || a.schedule.remainder == MR_EVEN);
            CHECK_INT(x.valid, ==, y.valid);
            CHECK_INT(x.epoch, ==, y.epoch);
        }
    }
}

/* ---- Rules ---- */

TEST(by_lane_a_rank_keeps_to_its_lanes) {
    int64_t seen = 0;
    for (uint64_t number = 0; number < ROLLS; number++) {
        mr_share share = any_share(number);
        int64_t per_rank = share.lanes / share.schedule.world;
        for (int64_t i = 0; i < mr_share_steps(&share); i++) {
            mr_slice step = mr_share_step(&share, i);
            for (int64_t rank = 0; rank < share.schedule.world; rank++) {
                mr_portion p = mr_share_of(&share, &step, rank);
                bool by_lane = may_go_by_lane(&share, &step);
                CHECK_INT(p.first_lane, ==, by_lane ? rank * per_rank : 0);
                CHECK_INT(p.end_lane, ==, by_lane ? (rank + 1) * per_rank : share.lanes);
                for (int64_t k = 0; by_lane && k < p.positions.count; k++) {
                    int64_t lane = mr_positions_at(&p.positions, k) % share.lanes;
                    CHECK(lane >= p.first_lane && lane < p.end_lane);
                    seen++;
                }
            }
        }
    }
    CHECK_INT(seen, >, 10000);
}

TEST(without_lanes_portions_are_the_schedules_slices) {
    for (uint64_t number = 0; number < ROLLS; number++) {
        mr_share share = any_share(number);
        mr_schedule s = share.schedule;
        share.lanes = 1;
        for (s.rank = 0; s.rank < s.world; s.rank++) {
            int64_t steps = mr_schedule_run_steps(&s);
            CHECK_INT(mr_share_rank_steps(&share, s.rank), ==, steps);
            for (int64_t i = 0; i < steps; i++) {
                mr_slice wanted = mr_schedule_at(&s, i);
                mr_portion got = mr_share_at(&share, s.rank, i);
                CHECK_INT(got.epoch, ==, wanted.epoch);
                CHECK_INT(got.step, ==, wanted.step);
                CHECK_INT(got.positions.first, ==, wanted.first);
                CHECK_INT(got.positions.count, ==, wanted.count);
                CHECK_INT(got.valid, ==, wanted.valid);
                CHECK_INT(got.position, ==, wanted.position);
            }
        }
    }
}

/* ---- Steps of a rank ---- */

TEST(a_rank_takes_the_steps_in_which_it_has_positions) {
    for (uint64_t number = 0; number < ROLLS; number++) {
        mr_share share = any_share(number);
        for (int64_t rank = 0; rank < share.schedule.world; rank++) {
            int64_t taken = 0;
            for (int64_t i = 0; i < mr_share_steps(&share); i++) {
                mr_slice step = mr_share_step(&share, i);
                mr_portion wanted = mr_share_of(&share, &step, rank);
                if (wanted.positions.count > 0) {
                    mr_portion got = mr_share_at(&share, rank, taken++);
                    CHECK_INT(got.epoch, ==, wanted.epoch);
                    CHECK_INT(got.step, ==, wanted.step);
                    CHECK_INT(got.positions.first, ==, wanted.positions.first);
                    CHECK_INT(got.positions.count, ==, wanted.positions.count);
                }
            }
            CHECK_INT(mr_share_rank_steps(&share, rank), ==, taken);
        }
    }
}

/* A run that stops after any step and goes on with another world and batch: every position once. */
TEST(a_run_may_go_on_with_another_world) {
    for (uint64_t number = 1; number < ROLLS; number += 2) {
        mr_share share = any_share(number);
        mr_schedule *s = &share.schedule;
        s->remainder = MR_KEEP;
        s->epochs = 1;
        s->first_epoch = s->first_position = 0;
        int8_t seen[MAX_N] = {0};
        for (uint32_t leg = 0; s->first_position < s->n; leg++) {
            mr_slice step = mr_share_step(&share, 0);
            int8_t valid[MAX_N] = {0};
            for (int64_t rank = 0; rank < s->world; rank++) {
                mr_portion p = mr_share_of(&share, &step, rank);
                tally_portion(&p, step.first, s->n, valid, (int8_t[MAX_N]){0});
            }
            for (int64_t k = 0; k < step.count; k++) {
                seen[step.first + k] = (int8_t)(seen[step.first + k] + valid[k]);
            }
            s->first_position = step.position;
            s->world = roll(number, 100 + 2 * leg, 1, 4);
            s->batch = s->world * roll(number, 101 + 2 * leg, 1, 6);
        }
        for (int64_t i = 0; i < s->n; i++) {
            CHECK_INT(seen[i], ==, 1);
        }
    }
}

/* ---- With a course ---- */

enum { K = 12, BLOCKS = 40 };

static mr_course *course_of_blocks(void) {
    int64_t first[BLOCKS + 1] = {0};
    for (int64_t b = 0; b < BLOCKS; b++) {
        first[b + 1] = first[b] + roll(7, (uint32_t)b, 0, 14);
    }
    mr_course_config c = {.samples = first[BLOCKS],
                          .n_blocks = BLOCKS,
                          .first = first,
                          .shuffle = true,
                          .window = 24,
                          .lanes = K,
                          .seed = 2};
    mr_course *course = NULL;
    CHECK_INT(mr_course_open(&course, &c, NULL), ==, MR_OK);
    return course;
}

/* Marks the visits that the walk over a rank's lanes has. */
static void mark_visits(const mr_course *course, int32_t first_lane, int32_t end_lane,
                        bool *marked) {
    mr_visit_walk *walk = NULL;
    mr_visit visit;
    CHECK_INT(mr_visit_walk_open(&walk, course, 0, 0, first_lane, end_lane, NULL), ==, MR_OK);
    while (mr_visit_walk_next(walk, &visit)) {
        marked[visit.visit] = true;
    }
    mr_visit_walk_free(walk);
}

/* All steps of a rank: each pick's visit is one of the rank's lanes, and rows are tallied. */
static void take_rank(const mr_course *course, const mr_share *share, int64_t rank, int8_t *seen) {
    bool own[BLOCKS + K] = {false};
    mr_course_cursor *cursor = NULL;
    CHECK_INT(mr_course_cursor_open(&cursor, course, NULL), ==, MR_OK);
    for (int64_t i = 0; i < mr_share_rank_steps(share, rank); i++) {
        mr_pick picks[8 * K];
        mr_portion p = mr_share_at(share, rank, i);
        mark_visits(course, p.first_lane, p.end_lane, own);
        CHECK_INT(mr_course_list(cursor, 0, &p.positions, picks, NULL), ==, MR_OK);
        for (int64_t k = 0; k < p.valid; k++) {
            CHECK(own[picks[k].visit]);
            seen[picks[k].sample]++;
        }
    }
    mr_course_cursor_free(cursor);
}

TEST(whatever_the_world_rows_come_once_and_ranks_read_the_blocks_of_their_lanes) {
    mr_course *course = course_of_blocks();
    int64_t n = mr_course_length(course);
    for (int64_t world = 1; world <= 12; world++) {
        for (int32_t remainder = MR_KEEP; remainder <= MR_EVEN; remainder++) {
            int8_t seen[BLOCKS * 15] = {0};
            if (remainder == MR_DROP) {
                continue;
            }
            mr_share share = {
                .schedule = {.n = n, .world = world, .epochs = 1, .remainder = remainder},
                .lanes = mr_course_lanes(course)};
            share.schedule.batch = K % world == 0 ? 4 * K : world * 5;
            CHECK_INT(mr_schedule_check(&share.schedule, NULL), ==, MR_OK);
            for (int64_t rank = 0; rank < world; rank++) {
                take_rank(course, &share, rank, seen);
            }
            for (int64_t i = 0; i < n; i++) {
                CHECK_INT(seen[i], ==, 1);
            }
        }
    }
    mr_course_free(course);
}

TEST(the_largest_share_does_not_overflow) {
    mr_share share = {.schedule = {.n = MR_MAX_SAMPLES,
                                   .batch = 1 << 16,
                                   .world = 1 << 10,
                                   .epochs = MR_MAX_EPOCHS},
                      .lanes = 1 << 16};
    CHECK_INT(mr_schedule_check(&share.schedule, NULL), ==, MR_OK);
    CHECK_INT(mr_share_rank_steps(&share, 1023), ==, INT64_MAX);
    share.schedule.epochs = 2;
    int64_t steps = mr_share_rank_steps(&share, 1023);
    CHECK_INT(steps, ==, (int64_t)1 << 33);
    mr_portion last = mr_share_at(&share, 1023, steps - 1);
    CHECK_INT(last.positions.count, ==, 64);
    CHECK_INT(mr_positions_at(&last.positions, 63), ==, MR_MAX_SAMPLES - 1);
}

TEST_MAIN()
