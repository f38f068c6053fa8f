/* SPDX-License-Identifier: Apache-2.0 */
/* The ring under stress: every ticket exactly once, batches whole and in order, stops at any time.
 */
#include "test.h"

#include "run/ring/ring.h"
#include "run/threads.h"

enum { TICKETS = 5, BATCHES = 2000 };

typedef struct stress {
    mr_ring ring;
    _Atomic int made[BATCHES];
    int seen_whole[BATCHES];
} stress;

static bool take(mr_ring *ring, mr_ticket *ticket) {
    bool drawn = mr_ring_draw_ticket(ring, ticket);
    while (drawn && !mr_ring_is_open(ring, ticket)) {
        mr_ring_sleep(ring, ticket);
    }
    return drawn && !mr_ring_is_stopped(ring);
}

static void *work(void *context) {
    stress *s = context;
    mr_ticket ticket;
    while (take(&s->ring, &ticket)) {
        atomic_fetch_add(&s->made[ticket.batch], 1 << ticket.part);
        if (mr_ring_finish_ticket(&s->ring, ticket)) {
            mr_ring_publish(&s->ring, ticket.batch);
        }
    }
    return NULL;
}

static int64_t consume(stress *s, int64_t stop_after) {
    int64_t opened = 0, taken = 0;
    while (taken < BATCHES && taken < stop_after) {
        while (opened < BATCHES && opened < taken + s->ring.depth) {
            mr_ring_open(&s->ring, opened++);
        }
        if (mr_ring_wait_until(&s->ring, taken, NULL) != MR_OK) {
            break;
        }
        s->seen_whole[taken] = atomic_load(&s->made[taken]);
        taken++;
    }
    return taken;
}

static void run(int64_t depth, uint32_t threads, int64_t stop_after) {
    static stress s;
    mr_threads group = {0};
    memset(&s, 0, sizeof s);
    CHECK(mr_ring_init(&s.ring, depth, TICKETS, BATCHES));
    CHECK_INT(mr_threads_start(&group, threads, "test", work, &s, 0, NULL), ==, MR_OK);
    int64_t taken = consume(&s, stop_after);
    mr_ring_stop(&s.ring);
    mr_threads_join(&group);
    CHECK_INT(taken, ==, stop_after < BATCHES ? stop_after : BATCHES);
    int64_t broken = 0;
    for (int64_t b = 0; b < taken; b++) {
        broken += s.seen_whole[b] != (1 << TICKETS) - 1; /* each part once, all of them */
    }
    CHECK_INT(broken, ==, 0);
    mr_ring_free(&s.ring);
}

/* Few batches ahead, and so many that the consumer waits for several at a time. */
TEST(every_ticket_once_and_in_order) {
    for (int64_t depth = 3; depth <= 12; depth += 9) {
        run(depth, 1, BATCHES);
        run(depth, 2, BATCHES);
        run(depth, 7, BATCHES);
    }
}

TEST(stopping_in_the_middle) {
    for (int64_t at = 0; at < 40; at++) {
        run(at % 2 ? 3 : 9, 3, at);
    }
}

TEST(tickets_that_nobody_has_drawn) {
    mr_ring ring = {0};
    mr_ticket ticket;
    CHECK(mr_ring_init(&ring, 2, TICKETS, BATCHES));
    CHECK_INT(mr_ring_undrawn(&ring), ==, 0);
    mr_ring_open(&ring, 0);
    CHECK_INT(mr_ring_undrawn(&ring), ==, TICKETS);
    for (int i = 0; i < TICKETS + 2; i++) { /* two of a batch that is not open */
        CHECK(mr_ring_draw_ticket(&ring, &ticket));
    }
    CHECK_INT(mr_ring_undrawn(&ring), ==, 0);
    mr_ring_open(&ring, 1);
    CHECK_INT(mr_ring_undrawn(&ring), ==, TICKETS - 2);
    mr_ring_free(&ring);
}

TEST_MAIN()
