/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of real runs: every quantity against what an op with known delays and the consumer
 * measured themselves; files that were cut off, damaged or are no traces; a full disk. */
#include "fixture.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "run/loader.h"
#include "span/ticks.h"
#include "trace/page.h"
#include "trace/summary.h"

/* ---- An op that takes known time, and keeps the books itself ---- */
enum { SAMPLES = 96, BATCH = 8, BATCHES = SAMPLES / BATCH };

static struct {
    _Atomic int64_t slept, burnt;    /* ns, of all calls */
    _Atomic int64_t ended[BATCHES];  /* when the last sample of a batch was done */
    int64_t waited, consumed, delay; /* the consumer's */
    int64_t wait_of[BATCHES], taken[BATCHES];
} books;

typedef struct delay_params {
    int64_t sleep_us, burn_us;
} delay_params;

static const mr_param delay_rows[] = {
    {.name = "sleep_us",
     .kind = MR_PARAM_INT,
     .offset = offsetof(delay_params, sleep_us),
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .doc = "Sleep."},
    {.name = "burn_us",
     .kind = MR_PARAM_INT,
     .offset = offsetof(delay_params, burn_us),
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .doc = "Compute."},
    {.name = NULL},
};

static mr_status delay_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    (void)err;
    *out = *in;
    return MR_OK;
}

static void nap(int64_t ns) {
    const struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

static void raise_to(_Atomic int64_t *most, int64_t value) {
    int64_t before = atomic_load(most);
    while (before < value && !atomic_compare_exchange_weak(most, &before, value)) {
    }
}

static mr_status delay_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                           mr_error *err) {
    const delay_params *p = params;
    int64_t start = mr_monotonic_ns();
    (void)err;
    memcpy(out->data, in->data, out->size);
    if (p->sleep_us) {
        nap(p->sleep_us * 1000);
    }
    while (p->burn_us && mr_monotonic_ns() - start < p->burn_us * 1000) {
    }
    int64_t now = mr_monotonic_ns();
    atomic_fetch_add(p->sleep_us ? &books.slept : &books.burnt, now - start);
    if (call->key.sample < SAMPLES) {
        raise_to(&books.ended[call->key.sample / BATCH], now);
    }
    return MR_OK;
}

static const mr_op_class delay_op = {
    MR_OP_HEADER,         .name = "delay",      .summary = "Takes time.",
    .version = 1,         .flags = MR_OP_HEAVY, .param_size = sizeof(delay_params),
    .params = delay_rows, .plan = delay_plan,   .run = delay_run,
};

static mr_pipeline *delayed_pipeline(const char *ops) {
    static const mr_op_class *const extra[] = {&delay_op, NULL};
    char json[512];
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    snprintf(json, sizeof json,
             "{\"source\": {\"synthetic\": {\"samples\": %d, \"shape\": [64]}}, \"ops\": [%s], "
             "\"batch\": %d, \"shuffle\": false}",
             SAMPLES, ops, BATCH);
    if (mr_pipeline_parse(&pipeline, json, strlen(json), extra, &err) < 0) {
        fprintf(stderr, "%s %s\n", err.where, err.text);
    }
    return pipeline;
}

/* ---- Running ---- */
static char path[128];

static void consume(mr_loader *loader, int64_t step_ns) {
    mr_batch *batch = NULL;
    int64_t left = 0;
    for (int i = 0;; i++) {
        int64_t asked = mr_monotonic_ns();
        books.consumed += left ? asked - left : 0;
        if (mr_loader_next(loader, &batch, NULL) != MR_OK) {
            return;
        }
        left = mr_monotonic_ns();
        books.waited += left - asked;
        books.delay += left - atomic_load(&books.ended[i % BATCHES]);
        books.taken[i % BATCHES] = left;
        mr_batch_unref(batch);
        nap(step_ns);
    }
}

static mr_trace *run_traced(const char *ops, uint32_t threads, int64_t step_ns) {
    mr_pipeline *pipeline = delayed_pipeline(ops);
    mr_options options = MR_OPTIONS_INIT;
    mr_trace *trace = NULL;
    mr_error err = MR_ERROR_INIT;
    memset(&books, 0, sizeof books);
    options.threads = threads;
    options.batches_ahead = 4; /* of 12: workers wait for the consumer too */
    options.trace = path;
    mr_loader *loader = fixture_loader(pipeline, &options);
    if (loader) {
        consume(loader, step_ns);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    if (mr_trace_open(&trace, path, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
    }
    return trace;
}

/* Within 5 %, and a fifth of a millisecond for what is no time at all. */
static void check_near(const char *what, double seconds, int64_t ns) {
    double wanted = (double)ns * 1e-9;
    if (fabs(seconds - wanted) > 0.05 * wanted + 0.0002) {
        test_failures++;
        fprintf(stderr, "%s is %.6f s, wanted %.6f s\n", what, seconds, wanted);
    }
}

#define CHECK_NEAR(seconds, ns) check_near(#seconds, seconds, ns)

static double sum_of_batches(const mr_summary *s, double (*value)(const mr_batch_times *)) {
    double sum = 0;
    for (int64_t i = 0; i < s->n_per_batch; i++) {
        sum += value(&s->per_batch[i]);
    }
    return sum;
}

static double wait_of(const mr_batch_times *b) {
    return b->wait;
}

static double delay_of(const mr_batch_times *b) {
    return b->taken - b->ready;
}

static double work_of(const mr_batch_times *b) {
    return b->work;
}

static double consume_of(const mr_batch_times *b) {
    return b->consume;
}

TEST_OF_CLOCKS(every_quantity_against_known_delays) {
    mr_trace *trace = run_traced(
        "{\"delay\": {\"sleep_us\": 3000}}, {\"delay\": {\"burn_us\": 1000}}", 3, 12000000);
    mr_summary s;
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    CHECK_TEXT(mr_trace_missing(trace), "");
    CHECK_INT(s.samples, ==, SAMPLES);
    CHECK_INT(s.batches, ==, BATCHES);
    CHECK_INT(s.ops[0].count, ==, SAMPLES);
    CHECK_INT(s.ops[1].count, ==, SAMPLES);
    CHECK_NEAR(s.ops[0].total, books.slept);
    CHECK_NEAR(s.ops[0].mean, books.slept / SAMPLES);
    CHECK_NEAR(s.ops[1].total, books.burnt);
    CHECK_NEAR(s.kinds[MR_SPAN_SAMPLE].total, books.slept + books.burnt);
    CHECK_NEAR(s.kinds[MR_SPAN_CONSUME].total, books.consumed);
    CHECK_NEAR(s.kinds[MR_SPAN_WAIT_BATCH].total + s.kinds[MR_SPAN_DELIVER].total, books.waited);
    CHECK_NEAR(sum_of_batches(&s, wait_of) + s.kinds[MR_SPAN_DELIVER].total, books.waited);
    CHECK_NEAR(sum_of_batches(&s, work_of), books.slept + books.burnt);
    CHECK_NEAR(sum_of_batches(&s, consume_of), books.consumed);
    CHECK_NEAR(sum_of_batches(&s, delay_of), books.delay);
    CHECK_INT(s.ops[0].bytes_in, ==, SAMPLES * 64);
    mr_summary_free(&s);
    mr_trace_close(trace);
}

TEST_OF_CLOCKS(figures_while_it_runs_agree_too) {
    mr_pipeline *pipeline = delayed_pipeline("{\"delay\": {\"sleep_us\": 500}}");
    mr_options options = MR_OPTIONS_INIT;
    memset(&books, 0, sizeof books);
    options.threads = 2;
    mr_loader *loader = fixture_loader(pipeline, &options);
    consume(loader, 0);
    mr_line line = {.size = (uint32_t)sizeof line};
    CHECK_INT(mr_loader_n_lines(loader), ==, MR_SPAN_KINDS + 1);
    CHECK_INT(mr_loader_line(loader, MR_SPAN_KINDS, &line), ==, MR_OK);
    CHECK_TEXT(line.name, "delay");
    CHECK_INT(line.kind, ==, MR_LINE_OP);
    CHECK_INT(line.count, ==, SAMPLES);
    CHECK_NEAR(line.seconds, books.slept);
    CHECK_INT(mr_loader_line(loader, MR_SPAN_WAIT_BATCH, &line), ==, MR_OK);
    CHECK_INT(line.kind, ==, MR_LINE_WAIT);
    CHECK_INT(line.count, ==, BATCHES);
    CHECK_INT(mr_loader_line(loader, -1, &line), ==, MR_E_PARAM);
    CHECK_INT(mr_loader_line(loader, MR_SPAN_KINDS + 1, &line), ==, MR_E_PARAM);
    char *text = NULL;
    CHECK_INT(mr_loader_metrics(loader, &text, NULL), ==, MR_OK);
    CHECK_HAS(text, "millrace_samples_total 96\n");
    CHECK_HAS(text, "millrace_time_seconds_count{what=\"delay\",place=\"0\"} 96\n");
    mr_free(text);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

/* ---- Verdicts on real runs ---- */
static mr_bound bound_of(mr_trace *trace) {
    mr_summary s;
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    mr_bound bound = s.verdict.bound;
    mr_summary_free(&s);
    mr_trace_close(trace);
    return bound;
}

TEST_OF_CLOCKS(verdicts_on_real_runs) {
    const char *slow = "{\"delay\": {\"sleep_us\": 3000}}";
    const char *quick = "{\"delay\": {\"sleep_us\": 200}}";
    CHECK_INT(bound_of(run_traced(slow, 2, 0)), ==, MR_BOUND_OP);
    CHECK_INT(bound_of(run_traced(quick, 2, 20000000)), ==, MR_BOUND_CONSUMER);
}

/* The workers make the last batches long before a slow consumer takes them. */
TEST_OF_CLOCKS(workers_that_have_ended_are_idle) {
    mr_summary s;
    mr_trace *trace = run_traced("{\"delay\": {\"sleep_us\": 200}}", 2, 20000000);
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    const mr_figures *f = &s.figures;
    double spans = 0;
    for (int i = 0; i < MR_TIME_BINS; i++) {
        spans += s.time_bins[i].wait_work * s.seconds / MR_TIME_BINS * s.n_workers;
    }
    CHECK(f->wait_work > spans);
    CHECK(f->wait_work + f->work + f->seal + f->wait_read <= mr_thread_time(f) * (1 + 1e-9));
    CHECK_INT(1e6 * s.verdict.model.consumer + 0.5, ==,
              1e6 * f->samples / (f->consume + f->deliver) + 0.5);
    mr_summary_free(&s);
    mr_trace_close(trace);
}

/* ---- Fused ops ---- */
static mr_pipeline *fusing_pipeline(const char *folder) {
    char json[512];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": {}}, "
             "{\"random_resized_crop\": {\"size\": 24}}, {\"normalize\": {}}], \"batch\": 10, "
             "\"epochs\": 3}",
             folder);
    return fixture_pipeline(json);
}

/* However long the looks into fused ops took: what there is to share is what they took together. */
TEST_OF_CLOCKS(fused_ops_share_their_time_while_they_run) {
    char *folder = fixture_photos(20);
    mr_pipeline *pipeline = fusing_pipeline(folder);
    mr_loader *loader = fixture_loader(pipeline, NULL);
    const mr_time_span part = {.duration = 1ull << 40, .op = 1, .n_ops = 1, .kind = MR_SPAN_PART};
    mr_line line = {.size = (uint32_t)sizeof line};
    double sum = 0;
    consume(loader, 0);
    mr_track_add(loader->tracks.list[0], &part);
    for (int32_t i = 0; i < 3; i++) {
        CHECK_INT(mr_loader_line(loader, MR_SPAN_KINDS + i, &line), ==, MR_OK);
        CHECK_INT(line.count, ==, 60);
        CHECK(fabs(line.mean * 60 - line.seconds) < 1e-9);
        sum += line.seconds;
    }
    CHECK_INT(mr_loader_line(loader, MR_SPAN_SAMPLE, &line), ==, MR_OK);
    CHECK(sum > 0 && sum < line.seconds);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
}

TEST_OF_CLOCKS(fused_ops_share_their_time) {
    char *folder = fixture_photos(40);
    mr_options options = MR_OPTIONS_INIT;
    mr_batch *batch = NULL;
    mr_trace *trace = NULL;
    mr_pipeline *pipeline = fusing_pipeline(folder);
    options.threads = 2;
    options.trace = path;
    mr_loader *loader = fixture_loader(pipeline, &options);
    while (mr_loader_next(loader, &batch, NULL) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    CHECK_INT(mr_trace_open(&trace, path, NULL), ==, MR_OK);
    mr_summary s;
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_INT(s.ops[i].count, ==, 120);
        CHECK(s.ops[i].timed >= 6 && s.ops[i].timed <= 10); /* one in 16, of each thread */
        CHECK(s.ops[i].total > 0);
        CHECK(fabs(120 * s.ops[i].mean - s.ops[i].total) < 1e-9);
        sum += s.ops[i].total;
    }
    CHECK_INT(s.fused[0].count, ==, 120);
    CHECK(fabs(sum - s.fused[0].total) < 1e-6);
    CHECK(s.fused[0].total <= s.kinds[MR_SPAN_SAMPLE].total);
    CHECK_INT(s.kinds[MR_SPAN_READ].count, ==, 120);
    CHECK_INT(s.n_slowest, ==, 100);
    CHECK(s.slowest[0].name && strstr(s.slowest[0].name, ".jpg"));
    CHECK(s.slowest[0].seconds >= s.slowest[99].seconds);
    /* The crop is all that is decoded; a cache would keep the whole image. */
    CHECK(s.ops[0].bytes_out / (double)s.ops[0].timed < s.figures.ops[0].bytes_out);
    CHECK_INT(s.figures.ops[1].bytes_out, ==, 24 * 24 * 3);
    CHECK(s.figures.check_rate > 0);
    /* Nothing, where all was made before the first batch was taken. */
    CHECK((s.figures.readers_cpu > 0) == (s.figures.work > 0));
    mr_summary_free(&s);
    mr_trace_close(trace);
    fixture_remove(folder);
}

/* ---- Origins ---- */
static char *text_of_trace(mr_trace_text_kind kind) {
    mr_trace *trace = NULL;
    char *text = NULL;
    CHECK_INT(mr_trace_open(&trace, path, NULL), ==, MR_OK);
    CHECK_INT(mr_trace_text(trace, kind, &text, NULL), ==, MR_OK);
    mr_trace_close(trace);
    return text;
}

static void check_origins(const mr_origin_stats *files) {
    char wanted[128];
    char *text = text_of_trace(MR_TRACE_JSON), *report = text_of_trace(MR_TRACE_REPORT);
    json_t *summary = json_loads(text, 0, NULL);
    const json_t *origin = json_array_get(json_object_get(summary, "origins"), 0);
    CHECK_TEXT(json_string_value(json_object_get(origin, "name")), "files");
    CHECK_INT(json_integer_value(json_object_get(origin, "found")), ==, files->found);
    CHECK_INT(json_integer_value(json_object_get(origin, "bytes")), ==, files->bytes);
    snprintf(wanted, sizeof wanted, "bytes by origin: files %.1f kB (60 of 60 blocks)\n",
             (double)files->bytes * 1e-3);
    CHECK_HAS(report, wanted);
    json_decref(summary);
    mr_free(text);
    mr_free(report);
}

TEST(bytes_by_origin_in_trace_report_and_metrics) {
    char *folder = fixture_photos(20), *metrics = NULL, wanted[128];
    mr_options options = MR_OPTIONS_INIT;
    mr_pipeline *pipeline = fusing_pipeline(folder);
    mr_origin_stats files = {.size = (uint32_t)sizeof files};
    options.trace = path;
    mr_loader *loader = fixture_loader(pipeline, &options);
    consume(loader, 0);
    CHECK_INT(mr_loader_origin(loader, 0, &files), ==, MR_OK);
    CHECK_INT(files.found, ==, 60);
    CHECK(files.bytes > 1000);
    CHECK_INT(mr_loader_metrics(loader, &metrics, NULL), ==, MR_OK);
    snprintf(wanted, sizeof wanted, "millrace_origin_bytes_total{origin=\"files\"} %lld\n",
             (long long)files.bytes);
    CHECK_HAS(metrics, wanted);
    CHECK_HAS(metrics, "millrace_origin_found_total{origin=\"files\"} 60\n");
    mr_free(metrics);
    mr_loader_close(loader);
    check_origins(&files);
    mr_pipeline_free(pipeline);
    fixture_remove(folder);
}

/* ---- Files that are not whole ---- */
static mr_status parse_copy(mr_trace **out, const char *bytes, size_t size, mr_error *err) {
    char *copy = malloc(size + 1);
    memcpy(copy, bytes, size);
    return mr_trace_parse(out, "copy", copy, size, err);
}

TEST(a_trace_cut_off_anywhere_is_good_up_to_there) {
    mr_trace_close(run_traced("{\"delay\": {}}", 2, 0));
    char *bytes = NULL;
    size_t size = 0;
    int64_t before = 0;
    CHECK_INT(mr_file_load(path, 1 << 24, &bytes, &size, NULL), ==, MR_OK);
    /* The last word is filled up with at most 7 spaces, which nobody misses. */
    for (size_t cut = 0; cut < size - 7; cut += cut < 2000 ? 7 : 41) {
        mr_trace *trace = NULL;
        mr_error err = MR_ERROR_INIT;
        if (parse_copy(&trace, bytes, cut, &err) == MR_OK) {
            char *text = NULL;
            CHECK_HAS(mr_trace_missing(trace), "cut off");
            CHECK(trace->n_spans >= before);
            before = trace->n_spans;
            CHECK_INT(mr_trace_text(trace, MR_TRACE_JSON, &text, &err), ==, MR_OK);
            mr_free(text);
        } else {
            CHECK_INT(err.code, ==, MR_E_CORRUPT);
            CHECK(err.hint[0] != '\0');
            CHECK_INT(before, ==, 0);
        }
        mr_trace_close(trace);
    }
    CHECK_INT(before, >=, SAMPLES);
    mr_free(bytes);
}

TEST(what_is_no_trace_is_refused) {
    mr_trace *trace = NULL;
    mr_error err = MR_ERROR_INIT;
    static const char other[] = "PNG or something else entirely";
    CHECK_INT(parse_copy(&trace, other, sizeof other, &err), ==, MR_E_CORRUPT);
    CHECK_HAS(err.text, "is not a trace");
    CHECK_INT(parse_copy(&trace, "", 0, &err), ==, MR_E_CORRUPT);
    static const char later[] = "MRTRACE\n\x02\0\0\0\x08\0\0\0{}      ";
    CHECK_INT(parse_copy(&trace, later, sizeof later - 1, &err), ==, MR_E_UNSUPPORTED);
    static const char bad[] = "MRTRACE\n\x01\0\0\0\x08\0\0\0[1, 2]  ";
    CHECK_INT(parse_copy(&trace, bad, sizeof bad - 1, &err), ==, MR_E_CORRUPT);
    CHECK_INT(mr_trace_open(&trace, "/nonexistent/trace", &err), <, 0);
}

TEST(messages_say_what_is_wrong_with_a_file) {
    mr_trace *trace = NULL;
    mr_error err = MR_ERROR_INIT;
    parse_copy(&trace, "", 0, &err);
    CHECK_HAS(err.text, "it is empty");
    parse_copy(&trace, "MRTRACE\n\x01", 9, &err);
    CHECK_HAS(err.text, "cut off after 9 bytes");
    parse_copy(&trace, "MRT", 3, &err);
    CHECK_HAS(err.text, "cut off after 3 bytes");
    parse_copy(&trace, "GIF", 3, &err);
    CHECK_HAS(err.text, "it begins otherwise");
}

/* Not the same as cut off: the file goes on. */
TEST(damage_is_called_damage_and_where_it_is) {
    mr_trace_close(run_traced("{\"delay\": {}}", 1, 0));
    char *bytes = NULL, wanted[64];
    size_t size = 0;
    mr_trace *trace = NULL;
    CHECK_INT(mr_file_load(path, 1 << 24, &bytes, &size, NULL), ==, MR_OK);
    CHECK_INT(parse_copy(&trace, bytes, size, NULL), ==, MR_OK);
    CHECK_TEXT(mr_trace_missing(trace), "");
    size_t second = (size_t)((const char *)trace->pieces[1].spans - trace->bytes);
    int64_t first = trace->pieces[0].n;
    mr_trace_close(trace);
    second -= sizeof(mr_chunk_head);
    bytes[second] = 77; /* its tag */
    CHECK_INT(parse_copy(&trace, bytes, size, NULL), ==, MR_OK);
    snprintf(wanted, sizeof wanted, "damaged at byte %zu of %zu", second, size);
    CHECK_HAS(mr_trace_missing(trace), wanted);
    CHECK_INT(trace->n_spans, ==, first);
    mr_trace_close(trace);
    bytes[second] = MR_CHUNK_SPANS;
    bytes[size - 3] = '\0'; /* in the last word */
    bytes[size - 9] = '\0';
    CHECK_INT(parse_copy(&trace, bytes, size, NULL), ==, MR_OK);
    CHECK_HAS(mr_trace_missing(trace), "damaged at byte");
    mr_trace_close(trace);
    mr_free(bytes);
}

static void check_unsound(const char *bytes, size_t size) {
    mr_trace *trace = NULL;
    mr_summary s;
    CHECK_INT(parse_copy(&trace, bytes, size, NULL), ==, MR_OK);
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    CHECK_INT(s.unsound, ==, 1);
    mr_summary_free(&s);
    mr_trace_close(trace);
}

TEST(damaged_spans_are_counted_and_left_out) {
    mr_trace_close(run_traced("{\"delay\": {}}", 1, 0));
    char *bytes = NULL;
    size_t size = 0;
    mr_trace *trace = NULL;
    CHECK_INT(mr_file_load(path, 1 << 24, &bytes, &size, NULL), ==, MR_OK);
    CHECK_INT(parse_copy(&trace, bytes, size, NULL), ==, MR_OK);
    size_t first = (size_t)((const char *)trace->pieces[0].spans - trace->bytes);
    int32_t n_ops = trace->n_ops;
    mr_trace_close(trace);
    bytes[first + offsetof(mr_time_span, kind)] = (char)200;
    check_unsound(bytes, size);
    const uint8_t about_ops[] = {MR_SPAN_OP, MR_SPAN_FUSED, MR_SPAN_PART};
    for (size_t i = 0; i < sizeof about_ops; i++) { /* the op after the last, and none of it */
        bytes[first + offsetof(mr_time_span, kind)] = (char)about_ops[i];
        bytes[first + offsetof(mr_time_span, n_ops)] = 0;
        bytes[first + offsetof(mr_time_span, op)] = (char)n_ops;
        check_unsound(bytes, size);
    }
    mr_free(bytes);
}

/* ---- A full disk ---- */
static char warning[512];

static void keep_warning(void *user, const char *text) {
    (void)user;
    snprintf(warning, sizeof warning, "%s", text);
}

TEST(a_full_disk_ends_the_trace_and_not_the_run) {
    mr_pipeline *pipeline = delayed_pipeline("{\"delay\": {\"burn_us\": 100}}");
    mr_options options = MR_OPTIONS_INIT;
    mr_batch *batch = NULL;
    mr_trace_status status = {.size = (uint32_t)sizeof status};
    int64_t samples = 0;
    options.threads = 2;
    options.trace = "/dev/full";
    options.log = (mr_log){keep_warning, NULL};
    mr_loader *loader = fixture_loader(pipeline, &options);
    while (mr_loader_next(loader, &batch, NULL) == MR_OK) {
        samples += mr_batch_size(batch);
        mr_batch_unref(batch);
    }
    mr_loader_trace_status(loader, &status);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    CHECK_INT(samples, ==, SAMPLES);
    CHECK_INT(status.failed, ==, ENOSPC);
    CHECK_INT(status.spans, ==, 0);
    CHECK_HAS(warning, "the trace ends early: No space left on device");
}

TEST(a_trace_that_cannot_be_written_is_an_error_at_once) {
    mr_pipeline *pipeline = delayed_pipeline("{\"delay\": {}}");
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    options.trace = "/nonexistent/trace";
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "/nonexistent/trace");
    mr_pipeline_free(pipeline);
}

/* ---- Exports ---- */
static int64_t count_lines(const char *text) {
    int64_t n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) {
        n++;
    }
    return n;
}

static char *exported(const mr_trace *trace, mr_trace_export_kind kind) {
    char *text = NULL, out[160];
    size_t size = 0;
    mr_error err = MR_ERROR_INIT;
    snprintf(out, sizeof out, "%s.out", path);
    CHECK_INT(mr_trace_export(trace, kind, out, &err), ==, MR_OK);
    CHECK_INT(mr_file_load(out, 1 << 26, &text, &size, &err), ==, MR_OK);
    CHECK_INT(mr_trace_export(trace, kind, "/dev/full", &err), ==, MR_E_IO);
    unlink(out);
    return text;
}

TEST(exports_have_every_span) {
    mr_trace *trace = run_traced("{\"delay\": {}}", 2, 0);
    char *csv = exported(trace, MR_TRACE_CSV), *chrome = exported(trace, MR_TRACE_CHROME);
    CHECK_INT(count_lines(csv), ==, 1 + trace->n_spans);
    json_error_t error;
    json_t *document = json_loads(chrome, JSON_REJECT_DUPLICATES, &error);
    const json_t *events = json_object_get(document, "traceEvents");
    int64_t complete = 0, begins = 0, ends = 0;
    json_t *event;
    size_t i;
    json_array_foreach(events, i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        complete += strcmp(phase, "X") == 0;
        begins += strcmp(phase, "s") == 0;
        ends += strcmp(phase, "f") == 0;
    }
    CHECK_INT(complete, ==, trace->n_spans);
    CHECK_INT(begins, ==, BATCHES);
    CHECK_INT(ends, ==, BATCHES);
    json_decref(document);
    mr_free(csv);
    mr_free(chrome);
    mr_trace_close(trace);
}

TEST(a_page_is_one_file_that_holds_its_figures) {
    mr_trace *trace = run_traced("{\"delay\": {}}", 2, 0);
    char out[160], *text = NULL;
    size_t size = 0;
    mr_error err = MR_ERROR_INIT;
    snprintf(out, sizeof out, "%s.html", path);
    CHECK_INT(mr_trace_page(trace, trace, NULL, out, &err), ==, MR_OK);
    CHECK_INT(mr_file_load(out, 1 << 26, &text, &size, &err), ==, MR_OK);
    CHECK_HAS(text, "<!doctype html>");
    CHECK_HAS(text, "\"n_batches\":12");
    CHECK(!strstr(text, "@DATA@") && !strstr(text, "@STYLE@") && !strstr(text, "@SCRIPT@"));
    CHECK(!strstr(text, "src=\"http") && !strstr(text, "href=\"http"));
    CHECK_INT(mr_trace_page(trace, NULL, NULL, "/dev/full", &err), ==, MR_E_IO);
    unlink(out);
    mr_free(text);
    mr_trace_close(trace);
}

/* ---- A disk that is full before a page or an export is written ---- */
static int count_files(const char *folder) {
    DIR *opened = opendir(folder);
    int n = 0;
    for (const struct dirent *entry; opened && (entry = readdir(opened)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    closedir(opened);
    return n;
}

/* Codecs that decline a file leave it to the next, as in a run: also where the first that is asked
 * declines, and libjpeg is not there. */
TEST(each_kind_of_photo_has_a_thumbnail) {
    json_t *page = json_object();
    json_t *slowest = json_pack("[{s:s, s:i}, {s:s, s:i}, {s:s, s:i}]", /* one for each codec */
                                "name", "colour.jpg", "sample", 0, "name", "progressive.jpg",
                                "sample", 1, "name", "colour.png", "sample", 2);
    mr_error err = MR_ERROR_INIT;
    mr_status status = mr_pictures_add(MR_TEST_DATA "/codecs", page, slowest, &err);
    const json_t *thumbs = json_object_get(page, "thumbs");
    if (status != MR_E_UNSUPPORTED) { /* which is without libpng */
        CHECK_INT(status, ==, MR_OK);
        CHECK(json_is_string(json_object_get(thumbs, "0")));
        CHECK(json_is_string(json_object_get(thumbs, "1")));
        CHECK(json_is_string(json_object_get(thumbs, "2")));
    }
    json_decref(slowest);
    json_decref(page);
}

TEST(what_cannot_be_written_whole_leaves_nothing_behind) {
    mr_trace *trace = run_traced("{\"delay\": {}}", 2, 0);
    char folder[] = "/tmp/millrace-whole-XXXXXX", out[64], *text = NULL;
    struct rlimit before, small;
    size_t size = 0;
    mr_error err = MR_ERROR_INIT;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(out, sizeof out, "%s/out", folder);
    CHECK_INT(mr_file_replace(out, "old", 3, &err), ==, MR_OK);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){1000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_INT(mr_trace_page(trace, NULL, NULL, out, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "cannot write the page");
    CHECK_INT(mr_trace_export(trace, MR_TRACE_CSV, out, &err), ==, MR_E_IO);
    CHECK_INT(mr_trace_export(trace, MR_TRACE_CHROME, out, &err), ==, MR_E_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_INT(count_files(folder), ==, 1);
    CHECK_INT(mr_file_load(out, 100, &text, &size, &err), ==, MR_OK);
    CHECK_TEXT(text, "old");
    CHECK_INT(mr_trace_page(trace, NULL, NULL, folder, &err), ==, MR_E_IO);
    mr_free(text);
    mr_trace_close(trace);
    fixture_remove(folder);
}

__attribute__((constructor)) static void choose_path(void) {
    snprintf(path, sizeof path, "/tmp/millrace-trace-%d", (int)getpid());
}

__attribute__((destructor)) static void remove_path(void) {
    unlink(path);
}

TEST_MAIN()
