/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets, beside rules that are followed slowly: what each position must have. */
#include "test.h"

#include <stdlib.h>

#include "plan/bucket.h"

enum { MOST = 1000 };

static uint32_t lengths_of_samples[MOST];
static const uint32_t *lengths[1] = {lengths_of_samples};
static int64_t listed;

/* The route's own order: sample 7 * p + epoch of n, where n and 7 have no common factor. */
typedef struct own_order {
    int64_t n;
} own_order;

static int64_t sample_at(const own_order *own, uint32_t epoch, int64_t position) {
    return (7 * position + (int64_t)epoch) % own->n;
}

static mr_status list_own(void *user, uint32_t epoch, const mr_positions *positions, mr_pick *picks,
                          mr_error *err) {
    const own_order *own = user;
    (void)err;
    for (int64_t k = 0; k < positions->count; k++) {
        int64_t position = mr_positions_at(positions, k);
        CHECK(position < own->n);
        picks[k] = (mr_pick){.sample = sample_at(own, epoch, position), .epoch = epoch};
        listed++;
    }
    return MR_OK;
}

static void make_lengths(uint32_t kinds, uint32_t step) {
    for (uint32_t i = 0; i < MOST; i++) {
        lengths_of_samples[i] = (i * 2654435761u >> 7) % kinds * step;
    }
}

typedef struct case_ {
    mr_bucketing bucket;
    own_order own;
    int64_t origin[MOST], sample[MOST];
    int64_t listed; /* by the route, for all positions */
} case_;

static void list_all(case_ *c, uint32_t epoch) {
    mr_bucket_cursor *cursor = NULL;
    const mr_pick_lister lister = {list_own, &c->own};
    static mr_pick picks[MOST];
    const mr_positions all = {0, c->own.n, c->own.n, c->own.n};
    CHECK_INT(mr_bucket_cursor_open(&cursor, &c->bucket, &lister, NULL), ==, MR_OK);
    listed = 0;
    CHECK_INT(mr_bucket_list(cursor, epoch, &all, picks, NULL), ==, MR_OK);
    c->listed = listed;
    for (int64_t p = 0; p < c->own.n; p++) {
        c->sample[p] = picks[p].sample;
        CHECK_INT(mr_bucket_origin(cursor, epoch, p, &c->origin[p], NULL), ==, MR_OK);
        CHECK_INT(c->sample[p], ==, sample_at(&c->own, epoch, c->origin[p]));
    }
    mr_bucket_cursor_free(cursor);
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Length and place as one number. */
static int64_t key_at(const case_ *c, uint32_t epoch, int64_t origin) {
    return (int64_t)lengths_of_samples[sample_at(&c->own, epoch, origin)] * MOST + origin;
}

/* A lane's own positions of a stretch, of which the first `sorted` are put in order. */
static int64_t sorted_of_lane(const case_ *c, uint32_t epoch, int64_t first, int64_t lane,
                              int64_t sorted, int64_t *out) {
    for (int64_t i = 0; i < sorted; i++) {
        out[i] = key_at(c, epoch, first + lane + i * c->bucket.lanes);
    }
    qsort(out, (size_t)sorted, sizeof *out, ascending);
    return sorted;
}

/* The groups that stand in the slots of a stretch, by the smallest key of each in lane 0. */
static void check_lane(const case_ *c, uint32_t epoch, int64_t first, int64_t end, int64_t lane,
                       int64_t *group_in_slot) {
    const mr_bucketing *b = &c->bucket;
    int64_t n = (end - first) / b->group, each = b->group / b->lanes, keys[MOST], own[MOST];
    sorted_of_lane(c, epoch, first, lane, n * each, keys);
    for (int64_t slot = 0; slot < n; slot++) {
        int64_t at = first + slot * b->group + lane;
        for (int64_t i = 0; i < each; i++) {
            own[i] = key_at(c, epoch, c->origin[at + i * b->lanes]);
            CHECK(i == 0 || c->origin[at + i * b->lanes] > c->origin[at + (i - 1) * b->lanes]);
            CHECK_INT(c->origin[at + i * b->lanes] % b->lanes, ==, lane);
        }
        qsort(own, (size_t)each, sizeof *own, ascending);
        int64_t group = lane == 0 ? 0 : group_in_slot[slot];
        while (lane == 0 && group < n - 1 && keys[group * each] != own[0]) {
            group++;
        }
        group_in_slot[slot] = group;
        CHECK(memcmp(own, keys + group * each, (size_t)each * sizeof *own) == 0);
    }
    for (int64_t p = first + n * b->group + lane; p < end; p += b->lanes) {
        CHECK_INT(c->origin[p], ==, p); /* what fills no group stays where it is */
    }
}

static void check_case(case_ *c, uint32_t epoch) {
    int64_t group_in_slot[MOST] = {0};
    list_all(c, epoch);
    for (int64_t first = 0; first < c->own.n; first += c->bucket.stretch) {
        int64_t end = first + c->bucket.stretch < c->own.n ? first + c->bucket.stretch : c->own.n;
        for (int64_t lane = 0; lane < c->bucket.lanes; lane++) {
            check_lane(c, epoch, first, end, lane, group_in_slot);
        }
        bool in_order = true;
        for (int64_t slot = 0; slot < (end - first) / c->bucket.group; slot++) {
            in_order = in_order && group_in_slot[slot] == slot;
        }
        CHECK(in_order == !c->bucket.shuffle || (end - first) / c->bucket.group < 7);
    }
}

static case_ make_case(int64_t n, int64_t group, int64_t groups, int32_t lanes, bool shuffle) {
    return (case_){.bucket = {.length = n,
                              .group = group,
                              .stretch = group * groups,
                              .lanes = lanes,
                              .shuffle = shuffle,
                              .seed = 5,
                              .lengths = lengths},
                   .own = {n}};
}

static void check_lanes(int64_t n, int64_t group, uint32_t epoch, bool shuffle) {
    static case_ c;
    for (int32_t lanes = 1; lanes <= group; lanes++) {
        if (group % lanes == 0) {
            c = make_case(n, group, 1 + n % 9, lanes, shuffle);
            check_case(&c, epoch);
        }
    }
}

static void check_groups(uint32_t epoch, bool shuffle) {
    for (int64_t n = 1; n < 300; n += 37) {
        for (int64_t group = 1; n % 7 != 0 && group <= 24; group += 1 + group / 2) {
            check_lanes(n, group, epoch, shuffle);
        }
    }
}

TEST(every_position_has_what_the_rules_say) {
    static const uint32_t kinds[] = {1, 3, 50, 1000};
    for (uint32_t k = 0; k < 4; k++) {
        make_lengths(kinds[k], k == 3 ? 70001 : 1);
        check_groups(k, k % 2 == 0);
    }
}

TEST(groups_come_in_another_order_each_epoch) {
    static case_ c, d;
    make_lengths(1000, 1);
    c = make_case(800, 8, 100, 4, true);
    check_case(&c, 0);
    d = make_case(800, 8, 100, 4, true);
    d.bucket.seed = 6;
    list_all(&d, 0);
    CHECK(memcmp(c.sample, d.sample, sizeof c.sample) != 0);
    list_all(&d, 1);
    CHECK(memcmp(c.origin, d.origin, sizeof c.origin) != 0);
}

/* Any pattern from anywhere, and behind the end. */
TEST(positions_may_be_asked_for_in_any_way) {
    static case_ c;
    make_lengths(40, 1);
    c = make_case(289, 12, 5, 3, true);
    list_all(&c, 2);
    mr_bucket_cursor *cursor = NULL;
    const mr_pick_lister lister = {list_own, &c.own};
    CHECK_INT(mr_bucket_cursor_open(&cursor, &c.bucket, &lister, NULL), ==, MR_OK);
    for (int64_t first = 288; first >= 0; first -= 5) {
        mr_pick picks[20];
        const mr_positions some = {first, 20, 2, 3};
        CHECK_INT(mr_bucket_list(cursor, 2, &some, picks, NULL), ==, MR_OK);
        for (int64_t k = 0; k < 20; k++) {
            CHECK_INT(picks[k].sample, ==, c.sample[mr_positions_at(&some, k) % 289]);
        }
    }
    mr_bucket_cursor_free(cursor);
}

TEST(going_on_lists_each_stretch_once) {
    static case_ c;
    c = make_case(900, 10, 6, 5, true);
    list_all(&c, 1);
    CHECK_INT(c.listed, ==, 900);
}

TEST(visits_reach_to_the_ends_of_their_stretches) {
    const mr_bucketing bucket = {.length = 100, .group = 5, .stretch = 30, .lanes = 1};
    static const int64_t cases[][4] = {{0, 1, 0, 30},        {29, 31, 0, 60},
                                       {35, 95, 30, 100},    {130, 131, 130, 160},
                                       {290, 300, 290, 300}, {0, 300, 0, 300}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t first = cases[i][0], end = cases[i][1];
        mr_bucket_widen(&bucket, &first, &end);
        CHECK_INT(first, ==, cases[i][2]);
        CHECK_INT(end, ==, cases[i][3]);
    }
}

TEST_MAIN()
