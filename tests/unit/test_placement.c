/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: shares by capacity, capacities kept, copies apart, few moves when a holder goes, and
 * the same answers for ever. */
#include "test.h"

#include <math.h>

#include "plan/placement.h"

enum { ITEMS = 100000, MOST = 1024 };

static mr_placement *place(mr_placement_config config) {
    mr_placement *placement = NULL;
    config.replicas = config.replicas ? config.replicas : 1;
    CHECK_INT(mr_placement_open(&placement, &config, NULL), ==, MR_OK);
    return placement;
}

static void count_owned(const mr_placement *placement, int64_t *owned) {
    for (int64_t i = 0; i < ITEMS; i++) {
        int32_t owner = mr_placement_at(placement, i, 0);
        CHECK(owner >= 0 && owner < MOST);
        owned[owner]++;
    }
}

/* Five standard deviations, and what a whole number of buckets may differ by. */
static void check_near(int64_t got, double wanted) {
    double slack = wanted / 64 + 5 * sqrt(wanted);
    CHECK((double)got >= wanted - slack && (double)got <= wanted + slack);
}

TEST(equal_holders_own_equal_parts) {
    static const int32_t sizes[] = {1, 2, 3, 7, 16, 100, 1000, 1024};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t owned[MOST] = {0};
        mr_placement *p = place((mr_placement_config){.holders = sizes[s], .items = ITEMS});
        count_owned(p, owned);
        for (int32_t h = 0; h < sizes[s]; h++) {
            check_near(owned[h], (double)ITEMS / sizes[s]);
        }
        mr_placement_free(p);
    }
}

TEST(capacity_is_weight) {
    int64_t capacity[5] = {1000000, 2000000, 0, 4000000, 1000000}, owned[MOST] = {0};
    mr_placement *p = place(
        (mr_placement_config){.holders = 5, .capacity = capacity, .items = ITEMS, .item_bytes = 1});
    count_owned(p, owned);
    for (int32_t h = 0; h < 5; h++) {
        check_near(owned[h], (double)ITEMS * (double)capacity[h] / 8e6);
        CHECK(owned[h] == 0 || mr_placement_keeps(p, 0, h));
    }
    mr_placement_free(p);
}

/* ---- What fits ---- */

static int64_t any_size(void *context, int64_t item) {
    (void)context;
    return 1 + item * 7919 % 200;
}

static void check_capacity(int64_t each, int32_t replicas) {
    int64_t capacity[16], used[16] = {0}, total = 0, kept = 0;
    for (int32_t h = 0; h < 16; h++) {
        capacity[h] = each;
    }
    mr_placement *p = place((mr_placement_config){.holders = 16,
                                                  .capacity = capacity,
                                                  .items = ITEMS,
                                                  .size = any_size,
                                                  .replicas = replicas,
                                                  .seed = 3});
    for (int64_t i = 0; i < ITEMS; i++) {
        total += any_size(NULL, i);
        for (int32_t r = 0; r < replicas; r++) {
            int32_t h = mr_placement_at(p, i, r);
            if (mr_placement_keeps(p, i, h)) {
                used[h] += any_size(NULL, i);
                kept += any_size(NULL, i);
            }
        }
    }
    for (int32_t h = 0; h < 16; h++) {
        CHECK_INT(used[h], <=, each);
    }
    int64_t possible = 16 * each < replicas * total ? 16 * each : replicas * total;
    /* Holders differ by chance; and what is kept is a whole number of 1024ths. */
    CHECK((double)kept >= 0.98 * (double)possible - (double)(replicas * total) / 1024);
    mr_placement_free(p);
}

TEST(capacities_are_used_and_never_exceeded) {
    check_capacity(0, 1);
    check_capacity(1000, 1);
    check_capacity(100000, 1);
    check_capacity(600000, 1);
    check_capacity(628000, 2);
    check_capacity(100000000, 3);
}

TEST(a_list_names_who_keeps_or_nobody) {
    int64_t capacity[4] = {50, 50, 50, 50}, nobody = 0;
    mr_placement *p = place((mr_placement_config){
        .holders = 4, .capacity = capacity, .items = 1000, .item_bytes = 1, .replicas = 2});
    for (int64_t i = 0; i < 1000; i++) {
        mr_pick picks[2] = {{.sample = i, .block = -1}, {.sample = 5, .block = i}};
        int32_t got[2], first = mr_placement_at(p, i, 0), second = mr_placement_at(p, i, 1);
        mr_placement_list(p, picks, 2, got);
        int32_t wanted = mr_placement_keeps(p, i, first)    ? first
                         : mr_placement_keeps(p, i, second) ? second
                                                            : -1;
        CHECK_INT(got[0], ==, wanted);
        CHECK_INT(got[1], ==, wanted);
        nobody += wanted < 0;
    }
    CHECK_INT(nobody, >, 700);
    CHECK_INT(nobody, <, 1000);
    mr_placement_free(p);
}

/* ---- Copies ---- */

TEST(copies_are_apart) {
    mr_placement *p = place((mr_placement_config){.holders = 5, .items = 1000, .replicas = 5});
    for (int64_t i = 0; i < 1000; i++) {
        uint32_t seen = 0;
        for (int32_t r = 0; r < 5; r++) {
            seen |= 1u << mr_placement_at(p, i, r);
        }
        CHECK_INT(seen, ==, 31);
        CHECK_INT(mr_placement_at(p, i, 5), ==, -1);
    }
    mr_placement_free(p);
}

/* ---- Another world ---- */

/* The ideal moves 1 / holders of all; here a few more do. */
TEST(without_one_holder_most_items_stay) {
    for (int32_t holders = 4; holders <= 256; holders *= 4) {
        int64_t moved = 0;
        mr_placement *all = place((mr_placement_config){.holders = holders, .items = ITEMS});
        mr_placement *less = place((mr_placement_config){.holders = holders - 1, .items = ITEMS});
        for (int64_t i = 0; i < ITEMS; i++) {
            int32_t owner = mr_placement_at(all, i, 0);
            moved += owner != holders - 1 && owner != mr_placement_at(less, i, 0);
        }
        printf("%d holders, one goes: %.1f %% of the others' items move\n", (int)holders,
               100.0 * (double)moved / ITEMS);
        CHECK_INT(moved, <, ITEMS / 5);
        mr_placement_free(all);
        mr_placement_free(less);
    }
}

TEST(placements_are_pinned) {
    static const int32_t wanted[] = {31, 58, 67, 25, 98, 36, 79, 70};
    mr_placement *p = place((mr_placement_config){.holders = 100, .items = 8, .seed = 42});
    for (int64_t i = 0; i < 8; i++) {
        CHECK_INT(mr_placement_at(p, i * 1000003, 0), ==, wanted[i]);
    }
    mr_placement_free(p);
}

TEST(what_cannot_be_is_refused) {
    int64_t negative = -1;
    mr_placement *p = NULL;
    mr_placement_config none = {.holders = 0, .replicas = 1},
                        many = {.holders = 1, .replicas = MR_MAX_REPLICAS + 1},
                        less = {.holders = 1, .replicas = 1, .capacity = &negative};
    CHECK_INT(mr_placement_open(&p, &none, NULL), ==, MR_E_PARAM);
    CHECK_INT(mr_placement_open(&p, &many, NULL), ==, MR_E_PARAM);
    CHECK_INT(mr_placement_open(&p, &less, NULL), ==, MR_E_PARAM);
    CHECK(p == NULL);
}

TEST_MAIN()
