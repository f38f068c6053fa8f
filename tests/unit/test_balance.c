/* SPDX-License-Identifier: Apache-2.0 */
/* Balancing a step: every slot is made once, by quota, with as few moves and messages as published,
 * and by the rules that make it the same everywhere. The local share on top of it. */
#include "test.h"

#include <math.h>

#include "core/philox.h"
#include "plan/placement.h"
#include "plan/share.h"

enum { ROLLS = 3000, MOST_SLOTS = 200, MOST_HOLDERS = 12 };

static int64_t roll(uint64_t number, uint32_t draw, int64_t low, int64_t high) {
    mr_key key = {.seed = 77, .sample = number, .op = 3};
    return low + mr_draw_below(&key, draw, high - low + 1);
}

typedef struct step {
    int32_t holders;
    int64_t slots, quota[MOST_HOLDERS];
    int32_t holder[MOST_SLOTS];
} step;

static step any_step(uint64_t number) {
    step s = {.holders = (int32_t)roll(number, 0, 1, MOST_HOLDERS),
              .slots = roll(number, 1, 0, MOST_SLOTS)};
    int64_t unheld = roll(number, 2, 0, 3), narrow = roll(number, 3, 1, s.holders);
    for (int64_t k = 0; k < s.slots; k++) {
        bool nobody = roll(number, 100 + (uint32_t)k, 0, 5) < unheld;
        s.holder[k] = nobody ? -1
                             : (int32_t)roll(number, 400 + (uint32_t)k, 0,
                                             number % 2 ? narrow - 1 : s.holders - 1);
        s.quota[number % 3 ? k % s.holders : roll(number, 700 + (uint32_t)k, 0, s.holders - 1)]++;
    }
    return s;
}

/* ---- Against the rules, followed slowly ---- */

static int32_t largest(const int64_t *gaps, int32_t n) {
    int32_t best = -1;
    for (int32_t h = 0; h < n; h++) {
        best = gaps[h] > 0 && (best < 0 || gaps[h] > gaps[best]) ? h : best;
    }
    return best;
}

static int32_t smallest(const int64_t *gaps, int32_t n) {
    int32_t best = -1;
    for (int32_t h = 0; h < n; h++) {
        best = gaps[h] > 0 && (best < 0 || gaps[h] < gaps[best]) ? h : best;
    }
    return best;
}

/* Where a holder's first slot without a maker stands. */
static int64_t first_spare(const step *s, const int32_t *maker, int32_t holder) {
    int64_t k = 0;
    while (s->holder[k] != holder || maker[k] >= 0) {
        k++;
    }
    return k;
}

static int32_t balance_slowly(const step *s, int32_t *maker, mr_move *moves) {
    int64_t over[MOST_HOLDERS] = {0}, under[MOST_HOLDERS], unheld = 0;
    int32_t n = 0;
    memcpy(under, s->quota, sizeof under);
    for (int64_t k = 0; k < s->slots; k++) {
        int32_t h = s->holder[k];
        bool own = h >= 0 && under[h] > 0;
        maker[k] = own ? h : -1;
        *(own ? &under[h] : h >= 0 ? &over[h] : &unheld) += own ? -1 : 1;
    }
    for (int64_t k = 0; k < s->slots; k++) {
        if (s->holder[k] < 0) {
            maker[k] = smallest(under, s->holders);
            under[maker[k]]--;
        }
    }
    for (int32_t from; (from = largest(over, s->holders)) >= 0;) {
        int32_t to = largest(under, s->holders);
        int64_t slots = over[from] < under[to] ? over[from] : under[to];
        moves[n++] = (mr_move){from, to, slots};
        over[from] -= slots;
        under[to] -= slots;
        for (int64_t k = 0; k < slots; k++) {
            maker[first_spare(s, maker, from)] = to;
        }
    }
    return n;
}

TEST(steps_follow_the_rules) {
    mr_balance *b = NULL;
    for (uint64_t number = 0; number < ROLLS; number++) {
        step s = any_step(number);
        int32_t maker[MOST_SLOTS], n = 0;
        mr_move wanted[MOST_SLOTS];
        CHECK_INT(mr_balance_open(&b, MOST_SLOTS, s.holders, NULL), ==, MR_OK);
        mr_balance_step(b, s.holder, s.slots, s.quota);
        int32_t n_wanted = balance_slowly(&s, maker, wanted);
        const mr_move *moves = mr_balance_moves(b, &n);
        CHECK_INT(n, ==, n_wanted);
        for (int32_t m = 0; m < n && n == n_wanted; m++) {
            CHECK_INT(moves[m].from, ==, wanted[m].from);
            CHECK_INT(moves[m].to, ==, wanted[m].to);
            CHECK_INT(moves[m].slots, ==, wanted[m].slots);
        }
        CHECK(memcmp(mr_balance_makers(b), maker, (size_t)s.slots * sizeof *maker) == 0);
        mr_balance_free(b);
    }
}

/* ---- What must hold ---- */

static void check_lists(const mr_balance *b, const step *s) {
    int8_t made[MOST_SLOTS] = {0};
    for (int32_t h = 0; h < s->holders; h++) {
        int64_t count = 0;
        const int32_t *slots = mr_balance_slots(b, h, &count);
        CHECK_INT(count, ==, s->quota[h]);
        for (int64_t k = 0; k < count; k++) {
            CHECK(k == 0 || slots[k] > slots[k - 1]);
            CHECK_INT(mr_balance_makers(b)[slots[k]], ==, h);
            made[slots[k]]++;
        }
    }
    for (int64_t k = 0; k < s->slots; k++) {
        CHECK_INT(made[k], ==, 1);
    }
}

static int64_t surplus_of(const step *s) {
    int64_t has[MOST_HOLDERS] = {0}, surplus = 0;
    for (int64_t k = 0; k < s->slots; k++) {
        if (s->holder[k] >= 0) {
            has[s->holder[k]]++;
        }
    }
    for (int32_t h = 0; h < s->holders; h++) {
        surplus += has[h] > s->quota[h] ? has[h] - s->quota[h] : 0;
    }
    return surplus;
}

TEST(every_slot_is_made_once_with_few_moves_and_messages) {
    for (uint64_t number = 0; number < ROLLS; number++) {
        step s = any_step(number);
        mr_balance *b = NULL;
        int32_t n = 0;
        CHECK_INT(mr_balance_open(&b, MOST_SLOTS, s.holders, NULL), ==, MR_OK);
        mr_balance_step(b, s.holder, s.slots, s.quota);
        check_lists(b, &s);
        mr_balance_moves(b, &n);
        CHECK_INT(n, <=, s.holders - 1);
        CHECK_INT(mr_balance_moved(b), ==, surplus_of(&s));
        mr_balance_free(b);
    }
}

/* ---- The published imbalance ---- */

static double imbalance(int32_t holders, int64_t local, int64_t steps, int32_t *most_messages) {
    int64_t slots = holders * local, moved = 0, *quota = malloc((size_t)holders * sizeof *quota);
    int32_t *holder = malloc((size_t)slots * sizeof *holder);
    mr_pick *picks = calloc((size_t)slots, sizeof *picks);
    mr_balance *b = NULL;
    mr_placement *p = NULL;
    mr_placement_config config = {.holders = holders, .items = slots * steps, .replicas = 1};
    CHECK_INT(mr_balance_open(&b, slots, holders, NULL), ==, MR_OK);
    CHECK_INT(mr_placement_open(&p, &config, NULL), ==, MR_OK);
    for (int64_t h = 0; h < holders; h++) {
        quota[h] = local;
    }
    for (int64_t i = 0; i < steps; i++) {
        int32_t n = 0;
        for (int64_t k = 0; k < slots; k++) {
            picks[k] = (mr_pick){.sample = i * slots + k, .block = -1};
        }
        mr_placement_list(p, picks, slots, holder);
        mr_balance_step(b, holder, slots, quota);
        mr_balance_moves(b, &n);
        *most_messages = n > *most_messages ? n : *most_messages;
        moved += mr_balance_moved(b);
    }
    mr_placement_free(p);
    mr_balance_free(b);
    free(quota);
    free(holder);
    free(picks);
    return (double)moved / (double)(slots * steps);
}

TEST(imbalance_is_that_of_balls_in_bins) {
    for (int32_t holders = 16; holders <= 1024; holders *= 4) {
        for (int64_t local = 32; local <= 128; local *= 2) {
            int32_t messages = 0;
            int64_t steps = 64 * 1024 * 16 / (holders * local);
            double got = imbalance(holders, local, steps < 4 ? 4 : steps, &messages);
            double wanted = sqrt(1 - 1.0 / holders) / sqrt(2 * 3.14159265358979 * (double)local);
            CHECK(fabs(got - wanted) < 0.003);
            CHECK_INT(messages, <=, holders - 1);
            CHECK_INT(messages, >, holders / 4);
        }
    }
}

/* ---- Local shares ---- */

static void check_local(const mr_share *share, const mr_slice *whole, const mr_balance *b,
                        int64_t per_node) {
    int8_t made[1000] = {0};
    for (int64_t rank = 0; rank < share->schedule.world; rank++) {
        mr_portion p = mr_share_local(share, whole, b, per_node, rank);
        CHECK_INT(p.positions.count, ==, mr_share_of(share, whole, rank).positions.count);
        CHECK_INT(p.step, ==, whole->step);
        CHECK_INT(p.position, ==, whole->position);
        for (int64_t k = 0; k < p.positions.count; k++) {
            int64_t slot = mr_portion_at(&p, k) - whole->first;
            CHECK_INT(slot < whole->valid, ==, k < p.valid);
            CHECK_INT(mr_balance_makers(b)[slot], ==, rank / per_node);
            made[slot]++;
        }
    }
    for (int64_t k = 0; k < whole->count; k++) {
        CHECK_INT(made[k], ==, 1);
    }
}

TEST(local_portions_together_are_the_step) {
    for (uint64_t number = 0; number < ROLLS / 10; number++) {
        mr_share share = {.lanes = 1};
        mr_schedule *s = &share.schedule;
        int64_t per_node = roll(number, 0, 1, 4), quota[MOST_HOLDERS];
        s->world = roll(number, 1, 1, 10);
        s->batch = s->world * roll(number, 2, 1, 12);
        s->remainder = (int32_t)roll(number, 3, MR_KEEP, MR_EVEN);
        s->n = roll(number, 4, s->batch, 300);
        s->epochs = 2;
        int32_t nodes = (int32_t)((s->world + per_node - 1) / per_node), holder[MOST_SLOTS];
        mr_balance *b = NULL;
        CHECK_INT(mr_balance_open(&b, s->batch, nodes, NULL), ==, MR_OK);
        for (int64_t i = 0; i < mr_share_steps(&share); i++) {
            mr_slice whole = mr_share_step(&share, i);
            for (int64_t k = 0; k < whole.count; k++) {
                holder[k] = (int32_t)roll(number, (uint32_t)(50 + i * 200 + k), -1, nodes - 1);
            }
            mr_share_quotas(&share, &whole, per_node, quota);
            mr_balance_step(b, holder, whole.count, quota);
            check_local(&share, &whole, b, per_node);
        }
        mr_balance_free(b);
    }
}

TEST_MAIN()
