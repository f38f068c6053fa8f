/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread records about itself: tallies add up, spans arrive in order or are counted as
 * dropped, and others may look meanwhile. */
#include "test.h"

#include <millrace/millrace.h>
#include <time.h>

#include "run/threads.h"
#include "span/track.h"

enum { OPS = 2, RING = 64 };

static mr_tracks make_tracks(size_t ring) {
    mr_tracks tracks = {0};
    CHECK(mr_tracks_init(&tracks, 4, OPS, 1, ring));
    return tracks;
}

static mr_time_span read_span(uint64_t start, uint64_t duration) {
    return (mr_time_span){
        .start = start, .duration = duration, .kind = MR_SPAN_READ, .bytes_in = 3};
}

TEST(a_clock_that_agrees_with_the_systems) {
    mr_ticks clock;
    mr_ticks_start(&clock);
    int64_t start = mr_monotonic_ns();
    uint64_t from = mr_ticks_now(&clock);
    while (mr_monotonic_ns() - start < 20000000) {
    }
    int64_t ns = mr_monotonic_ns() - start;
    uint64_t to = mr_ticks_now(&clock);
    mr_tick_rate rate = mr_ticks_rate(&clock);
    int64_t ticks = (int64_t)(mr_ticks_moment(rate, to) - mr_ticks_moment(rate, from));
    CHECK_INT(ticks, >=, ns - ns / 50);
    CHECK_INT(mr_ticks_moment(rate, clock.start), ==, 0);
    CHECK_INT(mr_ticks_moment(rate, clock.start - 1), ==, 0);
}

TEST(tallies_add_up) {
    mr_tracks tracks = make_tracks(0);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_WORKER);
    mr_tally_sum sum;
    for (uint64_t i = 1; i <= 100; i++) {
        mr_time_span span = read_span(0, i);
        mr_track_add(track, &span);
    }
    mr_tracks_sum(&tracks, MR_SPAN_READ, &sum);
    CHECK_INT(sum.count, ==, 100);
    CHECK_INT(sum.timed, ==, 100);
    CHECK_INT(sum.ticks, ==, 5050);
    CHECK_INT(sum.bytes_in, ==, 300);
    CHECK_INT(sum.buckets[6], ==, 37); /* 64 to 100 */
    CHECK_INT(mr_tally_quantile(&sum, 0.5), >=, 32);
    CHECK_INT(mr_tally_quantile(&sum, 0.5), <=, 64);
    CHECK_INT(mr_tally_quantile(&sum, 0.99), >=, 64);
    mr_tracks_free(&tracks);
}

TEST(a_fused_run_counts_its_ops_and_parts_time_them) {
    mr_tracks tracks = make_tracks(0);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_WORKER);
    mr_tally_sum sum;
    for (int i = 0; i < 40; i++) {
        mr_track_begin(track, i, 0);
        if (track->inside) {
            mr_track_part(track, 0, 70, 0, 0);
            mr_track_part(track, 1, 30, 0, 0);
        }
        mr_track_lap(track, MR_SPAN_FUSED, 0, 2, 0, 0);
        mr_track_end(track);
    }
    mr_tracks_sum(&tracks, mr_line_of_op(1), &sum);
    CHECK_INT(sum.count, ==, 40);
    CHECK_INT(sum.timed, ==, 3); /* samples 0, 16 and 32 */
    CHECK_INT(sum.ticks, ==, 90);
    CHECK_INT(sum.fused, ==, 0);
    mr_tracks_sum(&tracks, mr_line_of_op(0), &sum);
    CHECK_INT(sum.fused, ==, 40); /* the whole fused run is timed always */
    uint64_t fused = sum.fused_ticks;
    mr_tracks_sum(&tracks, MR_SPAN_SAMPLE, &sum);
    CHECK_INT(fused, <=, sum.ticks);
    CHECK_INT(sum.count, ==, 40);
    mr_tracks_free(&tracks);
}

TEST(small_samples_are_timed_now_and_then_and_counted_always) {
    mr_tracks tracks = {0};
    CHECK(mr_tracks_init(&tracks, 1, OPS, 16, 0));
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_WORKER);
    mr_tally_sum sum;
    for (int i = 0; i < 160; i++) {
        mr_track_begin(track, i, 0);
        mr_track_lap(track, MR_SPAN_FILL, 0, 0, 0, 0);
        mr_track_lap(track, MR_SPAN_OP, 1, 1, 0, 0);
        mr_track_end(track);
    }
    mr_tracks_sum(&tracks, mr_line_of_op(1), &sum);
    CHECK_INT(sum.count, ==, 160);
    CHECK_INT(sum.timed, ==, 10);
    mr_tracks_sum(&tracks, MR_SPAN_FILL, &sum);
    CHECK_INT(sum.count, ==, 160);
    mr_tracks_free(&tracks);
}

TEST(what_all_visits_used_may_be_much) {
    mr_tracks tracks = make_tracks(RING);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_CONSUMER);
    mr_counts used;
    const int64_t much = (int64_t)1 << 57;
    track->turn = 1 << 14;
    track->counts[MR_SPAN_WAIT_BATCH] = (mr_line_counts){.n = 1 << 10, .sum = {.v = {much}}};
    mr_track_usage(track, &used);
    CHECK_INT(used.v[0], ==, 16 * much);
    mr_tracks_free(&tracks);
}

TEST(rows_made_together_share_spans) {
    mr_tracks tracks = make_tracks(RING);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_WORKER);
    mr_time_span out[RING];
    mr_tally_sum sum;
    const int64_t last = ((int64_t)1 << MR_SPAN_ITEM_BITS) - 1;
    mr_track_begin_rows(track, last, 7, MR_SPAN_MOST_ROWS);
    mr_track_lap(track, MR_SPAN_FILL, 0, 0, 0, 24);
    mr_track_give_up(track);
    mr_track_begin_rows(track, last, 7, MR_SPAN_MOST_ROWS);
    mr_track_lap(track, MR_SPAN_OP, 1, 1, 24, 12);
    mr_track_end(track);
    mr_track_begin(track, 0, 8);
    mr_track_end(track);
    CHECK_INT(mr_track_take(track, out, RING), ==, 4);
    static const mr_span_kind kinds[] = {MR_SPAN_FILL, MR_SPAN_OP, MR_SPAN_SAMPLE, MR_SPAN_SAMPLE};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(out[i].kind, ==, kinds[i]);
        CHECK_INT(mr_span_item(&out[i]), ==, i < 3 ? last : 0);
        CHECK_INT(mr_span_rows(&out[i]), ==, i < 3 ? MR_SPAN_MOST_ROWS : 1);
        CHECK_INT(out[i].batch, ==, i < 3 ? 7 : 8);
    }
    mr_tracks_sum(&tracks, mr_line_of_op(1), &sum);
    CHECK_INT(sum.count, ==, MR_SPAN_MOST_ROWS);
    CHECK_INT(sum.timed, ==, 1);
    CHECK_INT(sum.ticks, ==, out[1].duration / MR_SPAN_MOST_ROWS);
    CHECK_INT(sum.bytes_out, ==, 12);
    mr_tracks_sum(&tracks, MR_SPAN_SAMPLE, &sum);
    CHECK_INT(sum.count, ==, MR_SPAN_MOST_ROWS + 1);
    const mr_time_span nobody = {.item = -1};
    CHECK_INT(mr_span_item(&nobody), ==, -1);
    CHECK_INT(mr_span_rows(&nobody), ==, 1);
    mr_tracks_free(&tracks);
}

TEST(a_full_ring_drops_and_counts) {
    mr_tracks tracks = make_tracks(RING);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_WORKER);
    mr_time_span out[2 * RING];
    for (uint64_t i = 0; i < RING + 10; i++) {
        mr_time_span span = read_span(i, 1);
        mr_track_add(track, &span);
    }
    CHECK_INT(mr_tracks_dropped(&tracks), ==, 10);
    CHECK_INT(mr_track_take(track, out, 10), ==, 10);
    CHECK_INT(mr_track_take(track, out + 10, 2 * RING - 10), ==, RING - 10);
    CHECK_INT(mr_track_take(track, out, 1), ==, 0);
    for (uint64_t i = 0; i < RING; i++) {
        CHECK_INT(out[i].start, ==, i);
    }
    mr_tracks_free(&tracks);
}

/* Three milliseconds in every visit: those that are counted, the 2nd and the 18th, stand for all.
 */
TEST(visits_of_the_consumer_are_counted_now_and_then) {
    enum { VISITS = 20, BUSY_NS = 3000000 };
    mr_tracks tracks = make_tracks(8 * RING);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_CONSUMER);
    mr_counts usage;
    for (int i = 0; i < VISITS; i++) {
        struct timespec now = {0, 0}, begun;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
        mr_track_enter(track);
        do {
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        } while ((now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec < BUSY_NS);
        mr_track_leave(track);
    }
    CHECK_INT(track->counts[MR_SPAN_WAIT_BATCH].n, ==, 2);
    mr_track_usage(track, &usage);
    CHECK_INT(usage.v[MR_COUNT_CPU_NS], >=, (int64_t)VISITS * (BUSY_NS - BUSY_NS / 10));
    mr_tracks_free(&tracks);
}

TEST(nobody_counts_visits_without_a_trace) {
    mr_tracks tracks = make_tracks(0);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_CONSUMER);
    mr_counts usage;
    for (int i = 0; i < 2 * MR_TRACK_VISIT_EVERY; i++) {
        mr_track_enter(track);
        mr_track_leave(track);
    }
    mr_track_usage(track, &usage);
    CHECK_INT(usage.v[MR_COUNT_CPU_NS], ==, 0);
    mr_tracks_free(&tracks);
}

/* ---- Two threads ---- */
enum { SPANS = 300000 };

static void *record(void *context) {
    mr_track *track = context;
    for (uint64_t i = 0; i < SPANS; i++) {
        mr_time_span span = read_span(i, i % 1000);
        mr_track_add(track, &span);
    }
    return NULL;
}

TEST(spans_arrive_in_order_while_others_look) {
    mr_tracks tracks = make_tracks(RING);
    mr_track *track = mr_tracks_add(&tracks, MR_TRACK_WORKER);
    mr_threads thread = {0};
    mr_time_span out[RING];
    mr_tally_sum sum = {0};
    int64_t last = -1, taken = 0, disorder = 0;
    uint64_t seen = 0;
    CHECK_INT(mr_threads_start(&thread, 1, "test", record, track, 0, NULL), ==, MR_OK);
    while (taken + (int64_t)mr_tracks_dropped(&tracks) < SPANS) {
        size_t n = mr_track_take(track, out, RING);
        for (size_t i = 0; i < n; i++) {
            disorder += (int64_t)out[i].start <= last || out[i].duration != out[i].start % 1000;
            last = (int64_t)out[i].start;
        }
        taken += (int64_t)n;
        mr_tracks_sum(&tracks, MR_SPAN_READ, &sum);
        disorder += sum.count < seen;
        seen = sum.count;
    }
    mr_threads_join(&thread);
    mr_tracks_sum(&tracks, MR_SPAN_READ, &sum);
    CHECK_INT(disorder, ==, 0);
    CHECK_INT(sum.count, ==, SPANS);
    CHECK_INT(taken + (int64_t)mr_tracks_dropped(&tracks), ==, SPANS);
    mr_tracks_free(&tracks);
}

TEST_MAIN()
