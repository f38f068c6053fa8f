/* SPDX-License-Identifier: Apache-2.0 */
/* Recorders: what they are told stands in the trace, once and where it belongs; what makes no sense
 * is left out; processes of one clock fit together. */
#include "test.h"

#include "fixture.h"
#include "trace/reader.h"

#include <sys/wait.h>
#include <unistd.h>

static const char header[] = "{\"ops\": [{\"name\": \"Resize\"}, {\"name\": \"Flip\"}], "
                             "\"setup\": {\"threads\": 1, \"batch\": 2, \"cpus\": 1}}";

static mr_recorder *opened(const char *path, const mr_record_clock *zero, int consumer) {
    mr_recorder *recorder = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_record_config config = {(uint32_t)sizeof config, path, header, zero, 2, consumer, 1};
    CHECK_INT(mr_recorder_open(&recorder, &config, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    return recorder;
}

static void record_sample(mr_recorder *r, int64_t sample, uint32_t batch) {
    mr_recorder_begin(r, sample, batch);
    mr_recorder_lap(r, mr_record_kind("fill"), 0, 0, 0);
    mr_recorder_lap(r, mr_record_kind("op"), 0, 100, 50);
    mr_recorder_lap(r, mr_record_kind("op"), 1, 50, 50);
    mr_recorder_end(r);
}

static void record_batch(mr_recorder *r, const char *kind, uint32_t batch) {
    const mr_record_span span = {
        (uint32_t)sizeof span, mr_record_kind(kind), mr_recorder_now(r), batch, batch, 0};
    mr_recorder_add(r, &span);
}

static int64_t count(const mr_trace *trace, const char *kind, const char *track) {
    int64_t n = 0;
    for (int64_t p = 0; p < trace->n_pieces; p++) {
        const mr_trace_piece *piece = &trace->pieces[p];
        for (int64_t i = 0; i < piece->n; i++) {
            n += piece->spans[i].kind == mr_record_kind(kind) &&
                 strcmp(trace->tracks[piece->track].kind, track) == 0;
        }
    }
    return n;
}

static mr_trace *read_back(const char *path) {
    mr_trace *trace = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_trace_open(&trace, path, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    return trace;
}

TEST(what_is_told_is_in_the_trace) {
    char *folder = fixture_folder(), path[160];
    snprintf(path, sizeof path, "%s/a.trace", folder);
    mr_recorder *r = opened(path, NULL, 1);
    for (uint32_t i = 0; i < 6; i++) {
        record_sample(r, i, i / 2);
        if (i % 2) {
            record_batch(r, "seal", i / 2);
            record_batch(r, "wait_batch", i / 2);
            record_batch(r, "deliver", i / 2);
        }
    }
    mr_recorder_close(r, "{\"samples\": 6, \"batches\": 3}");
    mr_trace *trace = read_back(path);
    CHECK_TEXT(mr_trace_missing(trace), "");
    CHECK_INT(count(trace, "sample", "worker"), ==, 6);
    CHECK_INT(count(trace, "op", "worker"), ==, 12);
    CHECK_INT(count(trace, "seal", "worker"), ==, 3);
    CHECK_INT(count(trace, "deliver", "consumer"), ==, 3);
    CHECK_INT(trace->n_spans, ==, 6 * 4 + 9);
    char *text = NULL;
    CHECK_INT(mr_trace_text(trace, MR_TRACE_REPORT, &text, NULL), ==, MR_OK);
    CHECK_HAS(text, "6 samples, 3 batches");
    CHECK_HAS(text, "Flip");
    mr_free(text);
    mr_trace_close(trace);
    fixture_remove(folder);
}

TEST(what_makes_no_sense_is_left_out) {
    char *folder = fixture_folder(), path[160];
    snprintf(path, sizeof path, "%s/a.trace", folder);
    mr_recorder *r = opened(path, NULL, 0);
    CHECK_INT(mr_record_kind("nothing"), ==, -1);
    mr_recorder_begin(r, 0, 0);
    mr_recorder_lap(r, mr_record_kind("op"), 2, 0, 0); /* there are two */
    mr_recorder_lap(r, -1, 0, 0, 0);
    mr_recorder_lap(r, 1000, 0, 0, 0);
    record_batch(r, "wait_batch", 0); /* no such track */
    record_batch(r, "op", 0);         /* has a lap */
    record_batch(r, "nothing", 0);
    mr_recorder_close(r, "no JSON");
    mr_trace *trace = read_back(path);
    CHECK_INT(trace->n_spans, ==, 0);
    mr_trace_close(trace);
    fixture_remove(folder);
}

TEST(wrong_headers_and_places_are_errors) {
    mr_recorder *r = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_record_config config = {(uint32_t)sizeof config, "/nowhere/a.trace", header, NULL, 2, 1, 1};
    CHECK_INT(mr_recorder_open(&r, &config, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "/nowhere/a.trace");
    config.header = "[1]";
    CHECK_INT(mr_recorder_open(&r, &config, &err), ==, MR_E_PARAM);
    config.header = "{";
    CHECK_INT(mr_recorder_open(&r, &config, &err), ==, MR_E_PARAM);
    config.path = NULL;
    CHECK_INT(mr_recorder_open(&r, &config, &err), ==, MR_E_PARAM);
    mr_recorder_close(NULL, NULL);
}

static int end_of(pid_t child) {
    int status = 1;
    waitpid(child, &status, 0);
    return status;
}

/* The child was forked before there was a thread: it is told the clock by a pipe. */
static pid_t start_child(const char *path, int clock) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        mr_record_clock zero;
        CHECK_INT(read(clock, &zero, sizeof zero), ==, (ssize_t)sizeof zero);
        mr_recorder *own = opened(path, &zero, 0);
        record_sample(own, 1, 0);
        mr_recorder_close(own, NULL);
        _exit(test_failures > 0);
    }
    return child;
}

TEST(processes_of_one_clock) {
    char *folder = fixture_folder(), path[160], other[160];
    int pair[2];
    snprintf(path, sizeof path, "%s/a.trace", folder);
    snprintf(other, sizeof other, "%s/b.trace", folder);
    CHECK_INT(pipe(pair), ==, 0);
    pid_t child = start_child(other, pair[0]);
    mr_recorder *r = opened(path, NULL, 1);
    mr_record_clock zero;
    mr_recorder_clock(r, &zero);
    record_sample(r, 0, 0);
    CHECK_INT(write(pair[1], &zero, sizeof zero), ==, (ssize_t)sizeof zero);
    CHECK_INT(end_of(child), ==, 0);
    mr_recorder_close(r, NULL);
    mr_trace *a = read_back(path), *b = read_back(other);
    CHECK(a->n_pieces > 0 && b->n_pieces > 0);
    if (a->n_pieces > 0 && b->n_pieces > 0) {
        const mr_time_span *first = &a->pieces[0].spans[0], *second = &b->pieces[0].spans[0];
        CHECK(second->start >= first->start + first->duration);
    }
    mr_trace_close(a);
    mr_trace_close(b);
    close(pair[0]);
    close(pair[1]);
    fixture_remove(folder);
}

TEST(a_forked_child_leaves_the_parents_alone) {
    char *folder = fixture_folder(), path[160];
    snprintf(path, sizeof path, "%s/a.trace", folder);
    mr_recorder *r = opened(path, NULL, 1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        mr_recorder_close(r, NULL);
        _exit(0);
    }
    CHECK_INT(end_of(child), ==, 0);
    record_sample(r, 0, 0);
    mr_recorder_close(r, NULL);
    mr_trace *trace = read_back(path);
    CHECK_INT(count(trace, "sample", "worker"), ==, 1);
    CHECK_TEXT(mr_trace_missing(trace), "");
    mr_trace_close(trace);
    fixture_remove(folder);
}

TEST_MAIN()
