/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault_alloc.c - lets the first allocation of a run fail, then the second, and so on until a
 * run needs no more. Each run either delivers the right stream or ends in a clean error; none
 * crashes, hangs, leaks, or takes a lack of memory for a bad sample. */
#include "rig.h"

#include <errno.h>
#include <millrace/stream.h>

#define MAX_ALLOCATIONS 50000

static outcome expected;

static int judge(const fault *wanted, const outcome *result, int64_t leaked) {
    bool right = result->status == MR_END && strcmp(result->digest, expected.digest) == 0 &&
                 strcmp(result->fingerprint, expected.fingerprint) == 0;
    bool refused = rig_is_clean_error(result) && result->status == MR_E_MEMORY;
    const char *why = !right && !refused ? "neither the right stream nor out of memory"
                      : result->skipped  ? "lack of memory was taken for a bad sample"
                      : leaked           ? "memory leaked"
                                         : NULL;
    if (why) {
        rig_show(wanted, result, why);
        fprintf(stderr, "%" PRId64 " blocks more than before\n", leaked);
    }
    return why ? CHILD_BAD : CHILD_GOOD;
}

/* What libraries allocate once and keep, they have from the parent's run. */
static int run_with_fault(const fault *wanted) {
    int64_t before = fault_live_blocks();
    fault_arm(wanted);
    outcome result = rig_run();
    int64_t struck = fault_disarm();
    int verdict = judge(wanted, &result, fault_live_blocks() - before);
    return verdict == CHILD_GOOD && !struck ? CHILD_NO_STRIKE : verdict;
}

static void fail_each(fault_kind kind) {
    expected = rig_run();
    CHECK_INT(expected.status, ==, MR_END);
    int verdict = expected.status == MR_END ? CHILD_GOOD : CHILD_DIED;
    int64_t at = 0;
    int bad = 0;
    while (verdict != CHILD_NO_STRIKE && bad < 10 && at < MAX_ALLOCATIONS &&
           expected.status == MR_END) {
        const fault wanted = {FAULT_ALLOC, kind, ++at, ENOMEM};
        verdict = rig_child(run_with_fault, &wanted);
        bad += verdict == CHILD_BAD || verdict == CHILD_DIED;
    }
    CHECK_INT(bad, ==, 0);
    CHECK_INT(at, >, 20); /* fewer would mean that the faults do not arrive */
    CHECK_INT(at, <, MAX_ALLOCATIONS);
    rig_remove();
}

static void fail_each_allocation(fault_kind kind, const char *on_error) {
    rig_make(on_error);
    fail_each(kind);
}

/* A stream of 40 entries in 2 partitions instead, that is followed and rehearsed. */
static void rig_make_stream(const char *on_error) {
    char json[512], path[256];
    rig_make(on_error);
    rig_path(path, sizeof path, "stream");
    for (uint32_t partition = 0; partition < 2; partition++) {
        mr_stream_options options = MR_STREAM_OPTIONS_INIT;
        mr_stream_writer *writer = NULL;
        options.partition = partition;
        options.id = 3;
        mr_stream_writer_open(&writer, path, &options, NULL);
        for (int i = 0; writer && i < 20; i++) {
            const mr_entry entry = {.label = i % 3, .value = tiny_png, .size = sizeof tiny_png};
            mr_stream_append(writer, &entry, NULL, NULL);
        }
        mr_stream_writer_close(writer, NULL);
    }
    int n = snprintf(json, sizeof json,
                     "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, "
                     "\"until\": 20}}, \"ops\": [{\"decode_image\": {}}, {\"random_flip\": {}}], "
                     "\"rehearse\": {\"size\": 8, \"policy\": \"class_balanced\"}, "
                     "\"batch\": 4, \"on_error\": \"%s\"}",
                     path, on_error);
    rig_file("pipeline.json", json, (size_t)n);
}

TEST(one_allocation_fails_while_a_stream_is_followed) {
    rig_make_stream("skip");
    fail_each(FAULT_ONCE);
}

TEST(one_allocation_fails) {
    fail_each_allocation(FAULT_ONCE, "fail");
}

/* The same photos with a table of 12 columns: numbers, names, and files that are read too. */
static void rig_make_table(const char *on_error) {
    char text[1024] = "file_name,mask,kind";
    size_t n = strlen(text);
    rig_make(on_error);
    for (int i = 0; i < 10; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, ",n%d", i);
    }
    for (int i = 0; i < 6; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "\n%d,../masks/%d.png,%s", i, i,
                              i % 2 ? "odd" : "even");
        for (int k = 0; k < 10; k++) {
            n += (size_t)snprintf(text + n, sizeof text - n, k % 2 ? ",%d" : ",%d.5", i + k);
        }
    }
    rig_file("labels.csv", text, n);
    rig_make_folder("masks");
    for (int i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "masks/%d.png", i);
        rig_file(text, tiny_png, sizeof tiny_png);
    }
    n = (size_t)snprintf(text, sizeof text,
                         "{\"source\": {\"files\": {\"path\": \"%s/photos\", "
                         "\"labels\": \"%s/labels.csv\"}}, \"ops\": [{\"decode_image\": {}}, "
                         "{\"random_resized_crop\": {\"size\": 8}}, "
                         "{\"decode_image\": {\"field\": \"mask\"}}, "
                         "{\"resize\": {\"field\": \"mask\", \"size\": [8, 8]}}], "
                         "\"batch\": 4, \"on_error\": \"%s\"}",
                         rig_folder, rig_folder, on_error);
    rig_file("pipeline.json", text, n);
}

TEST(one_allocation_fails_with_a_table_of_labels) {
    rig_make_table("fail");
    fail_each(FAULT_ONCE);
}

TEST(one_allocation_fails_where_bad_samples_are_skipped) {
    fail_each_allocation(FAULT_ONCE, "skip");
}

TEST(one_allocation_fails_while_a_trace_is_written) {
    rig_traced = true;
    fail_each_allocation(FAULT_ONCE, "fail");
    rig_traced = false;
}

TEST(memory_runs_out_for_good) {
    fail_each_allocation(FAULT_LASTING, "fail");
}

/* ---- Reading a trace: each attempt works or says that there is no memory ---- */
typedef mr_status reading(const mr_trace *trace, mr_error *err);

static reading *what;

static mr_status read_report(const mr_trace *trace, mr_error *err) {
    char *text = NULL;
    mr_status status = mr_trace_text(trace, MR_TRACE_REPORT, &text, err);
    mr_free(text);
    return status;
}

/* What is there is all there: an entry that had no room must not just be missing. */
static char *all_figures;

static mr_status read_json(const mr_trace *trace, mr_error *err) {
    char *text = NULL;
    mr_status status = mr_trace_text(trace, MR_TRACE_JSON, &text, err);
    if (status == MR_OK && all_figures && strcmp(text, all_figures) != 0) {
        status = mr_fail(err, MR_E_INTERNAL, "figures are missing");
    }
    if (status == MR_OK && !all_figures) {
        all_figures = text;
        return status;
    }
    mr_free(text);
    return status;
}

static mr_status make_page(const mr_trace *trace, mr_error *err) {
    return mr_trace_page(trace, trace, NULL, "/dev/null", err);
}

static mr_status make_ranks_page(const mr_trace *trace, mr_error *err) {
    mr_trace *only = (mr_trace *)(uintptr_t)trace;
    return mr_trace_ranks_page(&only, 1, NULL, "/dev/null", err);
}

static mr_status read_once(mr_error *err) {
    char path[256];
    mr_trace *trace = NULL;
    rig_path(path, sizeof path, "trace");
    mr_status status = mr_trace_open(&trace, path, err);
    if (status == MR_OK) {
        status = what(trace, err);
    }
    mr_trace_close(trace);
    return status;
}

static int read_with_fault(const fault *wanted) {
    mr_error err = MR_ERROR_INIT;
    int64_t before = fault_live_blocks();
    fault_arm(wanted);
    mr_status status = read_once(&err);
    int64_t struck = fault_disarm(), leaked = fault_live_blocks() - before;
    bool good = (status == MR_OK || (status == MR_E_MEMORY && err.text[0])) && leaked == 0;
    if (!good) {
        fprintf(stderr, "call %" PRId64 ": status %d, %s; %" PRId64 " blocks more than before\n",
                wanted->at, status, err.text, leaked);
    }
    return !good ? CHILD_BAD : struck ? CHILD_GOOD : CHILD_NO_STRIKE;
}

/* Every allocation in turn at first, then fewer and fewer of them. */
static void fail_allocations(reading *reads) {
    mr_error err = MR_ERROR_INIT;
    int bad = 0, verdict = CHILD_GOOD;
    int64_t at = 0;
    what = reads;
    CHECK_INT(read_once(&err), ==, MR_OK);
    while (verdict != CHILD_NO_STRIKE && bad < 10) {
        at += 1 + at / 64;
        const fault wanted = {FAULT_ALLOC, FAULT_ONCE, at, ENOMEM};
        verdict = rig_child(read_with_fault, &wanted);
        bad += verdict == CHILD_BAD || verdict == CHILD_DIED;
    }
    CHECK_INT(bad, ==, 0);
    CHECK_INT(at, >, 20);
}

TEST(allocations_fail_while_a_trace_is_read) {
    rig_make("fail");
    rig_traced = true;
    CHECK_INT(rig_run().status, ==, MR_END);
    fail_allocations(read_report);
    fail_allocations(read_json);
    fail_allocations(make_page);
    fail_allocations(make_ranks_page);
    mr_free(all_figures);
    rig_remove();
}

TEST_MAIN()
