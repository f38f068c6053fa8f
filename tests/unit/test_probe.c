/* SPDX-License-Identifier: Apache-2.0 */
/* Functions below the ops: code that burns known shares of CPU time is found under the op that ran
 * it, and under no other, also where ops run together row by row; files with probes that cannot be
 * are read all the same. Where the kernel lets no thread be probed, the trace must say so. Marks
 * and the kernel's ring are tried without the kernel. */
#include "fixture.h"
#include "test.h"

#include <linux/perf_event.h>
#include <sys/mman.h>

#include "span/probe.h"
#include "trace/summary.h"

/* ---- An op that burns known amounts of CPU time in functions with known names ---- */
uint64_t burn_long(uint64_t n);
uint64_t burn_short(uint64_t n);
uint64_t burn_other(uint64_t n);

#define BURNER(name, factor)                                                                       \
    __attribute__((noinline)) uint64_t name(uint64_t n) {                                          \
        uint64_t x = n;                                                                            \
        for (uint64_t i = 0; i < n * 1000; i++) {                                                  \
            x = x * (factor) + 1;                                                                  \
        }                                                                                          \
        return x;                                                                                  \
    }

BURNER(burn_long, 6364136223846793005u)
BURNER(burn_short, 2862933555777941757u)
BURNER(burn_other, 3935559000370003845u)

typedef struct burn_params {
    int64_t first, second, third, deep;
} burn_params;

/* Its stack is more than a probe carries; sanitizers would put it elsewhere. */
__attribute__((noinline, no_sanitize("address"))) static uint64_t burn_deep(uint64_t n) {
    char frame[2 * MR_PROBE_STACK];
    __asm__ volatile("" : : "r"(frame) : "memory"); /* it must be there */
    uint64_t x = burn_long(n);
    __asm__ volatile("" : : "r"(frame) : "memory");
    return x;
}

#define BURN_ROW(field)                                                                            \
    {                                                                                              \
        .name = #field, .kind = MR_PARAM_INT, .offset = offsetof(burn_params, field),              \
        .fallback = "0", .min = 0, .max = 1000000, .doc = "Thousands of rounds."                   \
    }

static const mr_param burn_rows[] = {
    BURN_ROW(first), BURN_ROW(second), BURN_ROW(third), BURN_ROW(deep), {.name = NULL}};

static mr_status burn_plan(const void *params, const mr_type *in, mr_type *out, mr_error *err) {
    (void)params;
    (void)err;
    *out = *in;
    return MR_OK;
}

static mr_status burn_run(const void *params, mr_call *call, const mr_view *in, mr_view *out,
                          mr_error *err) {
    const burn_params *p = params;
    (void)call;
    (void)err;
    memcpy(out->data, in->data, out->size);
    uint64_t x = burn_long((uint64_t)p->first) + burn_short((uint64_t)p->second);
    x += burn_other((uint64_t)p->third) + burn_deep((uint64_t)p->deep);
    ((uint8_t *)out->data)[0] = (uint8_t)x;
    return MR_OK;
}

static const mr_op_class burn_op = {
    MR_OP_HEADER,        .name = "burn",       .summary = "Burns CPU time.",
    .version = 1,        .flags = MR_OP_HEAVY, .param_size = sizeof(burn_params),
    .params = burn_rows, .plan = burn_plan,    .run = burn_run,
};

/* ---- Running ---- */
static char path[128];

static mr_trace *traced(const char *json) {
    static const mr_op_class *const extra[] = {&burn_op, NULL};
    mr_pipeline *pipeline = NULL;
    mr_options options = MR_OPTIONS_INIT;
    mr_batch *batch = NULL;
    mr_trace *trace = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), extra, &err), ==, MR_OK);
    options.threads = 2;
    options.trace = path;
    mr_loader *loader = fixture_loader(pipeline, &options);
    while (loader && mr_loader_next(loader, &batch, NULL) == MR_OK) {
        mr_batch_unref(batch);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    CHECK_INT(mr_trace_open(&trace, path, &err), ==, MR_OK);
    return trace;
}

static bool is_permitted(const mr_function_table *t) {
    if (t->probes == 0) {
        printf("this machine lets no thread be probed, so that alone is checked: %s\n", t->note);
        CHECK_HAS(t->note, "lets no thread be probed");
    }
    return t->probes > 0;
}

/* Probes of a place in functions whose name, or object file, begins so. */
static int64_t found(const mr_function_table *t, int32_t place, const char *name,
                     const char *object) {
    int64_t n = 0;
    const mr_function_place *p = &t->places[place];
    for (int64_t i = p->first; i < p->first + p->n; i++) {
        const mr_function *function = t->lines[i].function;
        bool named =
            name && function && function->name && strncmp(function->name, name, strlen(name)) == 0;
        bool of_object =
            object && function && strncmp(function->object, object, strlen(object)) == 0;
        n += named || of_object ? t->lines[i].probes : 0;
    }
    return n;
}

static int64_t found_in_other_ops(const mr_function_table *t, int32_t op, const char *name,
                                  const char *object) {
    int64_t n = 0;
    for (int32_t i = 0; i < t->n_places; i++) {
        n += t->places[i].op >= 0 && i != op ? found(t, i, name, object) : 0;
    }
    return n;
}

/* Chance alone moves a share of 0.75 among a hundred probes by 0.04. */
static void check_burners(const mr_function_table *t) {
    const mr_function_place *first = &t->places[0], *second = &t->places[1];
    const mr_function_place *nowhere = &t->places[t->n_places - 1];
    int64_t longer = found(t, 0, "burn_long", NULL), shorter = found(t, 0, "burn_short", NULL);
    CHECK_INT(first->probes, >, 40);
    CHECK_INT(second->probes, >, 20);
    CHECK_INT(10 * (longer + shorter), >=, 9 * first->probes);
    CHECK_INT(10 * longer, >, 6 * (longer + shorter));
    CHECK_INT(10 * longer, <, 9 * (longer + shorter));
    CHECK_INT(10 * found(t, 1, "burn_other", NULL), >=, 9 * second->probes);
    CHECK_INT(found(t, 0, "burn_other", NULL), ==, 0);
    CHECK_INT(found(t, 1, "burn_long", NULL) + found(t, 1, "burn_short", NULL), ==, 0);
    CHECK_INT(5 * nowhere->probes, <, t->probes);
}

TEST(functions_are_found_under_the_op_that_ran_them) {
    mr_trace *trace = traced("{\"source\": {\"synthetic\": {\"samples\": 256, \"shape\": [64]}}, "
                             "\"ops\": [{\"burn\": {\"first\": 3000, \"second\": 1000}}, "
                             "{\"burn\": {\"third\": 2000}}], \"batch\": 8}");
    mr_function_table t;
    CHECK_INT(mr_function_table_make(&t, trace, NULL), ==, MR_OK);
    CHECK_INT(t.damaged, ==, 0);
    if (is_permitted(&t)) {
        char *text = NULL;
        check_burners(&t);
        CHECK_INT(mr_trace_text(trace, MR_TRACE_REPORT, &text, NULL), ==, MR_OK);
        CHECK_HAS(text, "functions below the ops");
        CHECK_HAS(text, "% of it in burn_long, test_probe");
        mr_free(text);
    }
    mr_function_table_free(&t);
    mr_trace_close(trace);
}

TEST(code_too_deep_for_its_mark_is_found_by_the_time) {
    mr_trace *trace = traced("{\"source\": {\"synthetic\": {\"samples\": 256, \"shape\": [64]}}, "
                             "\"ops\": [{\"burn\": {\"deep\": 3000}}, "
                             "{\"burn\": {\"third\": 2000}}], \"batch\": 8}");
    mr_function_table t;
    int64_t marked = 0;
    CHECK_INT(mr_function_table_make(&t, trace, NULL), ==, MR_OK);
    for (int64_t p = 0; p < trace->n_pieces; p++) {
        for (int64_t i = 0; i < trace->pieces[p].n_probes; i++) {
            const mr_probe *probe = &trace->pieces[p].probes[i];
            marked += probe->kind == MR_SPAN_OP && probe->op == 0;
        }
    }
    if (is_permitted(&t)) {
        CHECK_INT(found(&t, 0, "burn_long", NULL), >, 20);
        CHECK_INT(5 * marked, <, t.places[0].probes);
        CHECK_INT(found_in_other_ops(&t, 0, "burn_long", NULL), ==, 0);
        CHECK_INT(found_in_other_ops(&t, 1, "burn_other", NULL), ==, 0);
    }
    mr_function_table_free(&t);
    mr_trace_close(trace);
}

/* A signal that comes late counts for the op that follows. */
TEST_OF_CLOCKS(fused_ops_are_told_apart) {
    static const char *const resampler[] = {"mr_resample_", "colour_four", "column_block",
                                            "by_fives", "four_pixels"};
    char *folder = fixture_photos(40), json[512], photo[256];
    for (int i = 0; i < 40; i++) { /* large enough for probes to meet them */
        snprintf(photo, sizeof photo, "%s/class%d/%03d.jpg", folder, i % 3, i);
        fixture_jpeg_of(photo, i, 400, 300);
    }
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": {}}, "
             "{\"random_resized_crop\": {\"size\": 96}}, {\"normalize\": {}}], \"batch\": 10, "
             "\"epochs\": 60}",
             folder);
    mr_trace *trace = traced(json);
    mr_function_table t;
    CHECK_INT(mr_function_table_make(&t, trace, NULL), ==, MR_OK);
    CHECK_INT(trace->ops[0].fused, ==, 3);
    if (is_permitted(&t)) {
        CHECK_INT(t.places[0].probes, >, 10);
        CHECK_INT(t.places[1].probes, >, 10);
        CHECK_INT(found(&t, 0, "mr_jpeg", "libjpeg"), >, 0);
        CHECK_INT(found_in_other_ops(&t, 0, "mr_jpeg", "libjpeg"), ==, 0);
        int64_t resampling = 0;
        for (size_t i = 0; i < sizeof resampler / sizeof *resampler; i++) {
            resampling += found(&t, 1, resampler[i], NULL);
            CHECK_INT(found_in_other_ops(&t, 1, resampler[i], NULL), ==, 0);
        }
        CHECK_INT(resampling, >, 0);
        CHECK_INT(found_in_other_ops(&t, 2, "mr_lookup", NULL), ==, 0);
    }
    mr_function_table_free(&t);
    mr_trace_close(trace);
    fixture_remove(folder);
}

/* ---- Files that no run wrote ---- */
static const char header[] = "{\"ops\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
                             "\"tracks\":[{\"kind\":\"worker\",\"number\":0},"
                             "{\"kind\":\"worker\",\"number\":1}]}        ";
static const char end[] = "{\"probes\":{\"period_ns\":1000,\"lost\":7,\"note\":\"\",\"functions\":["
                          "{\"from\":200,\"to\":300,\"object\":\"o\",\"offset\":48},"
                          "{\"from\":100,\"to\":150,\"object\":\"o\",\"name\":\"f\"},"
                          "{\"from\":-5,\"to\":\"x\"},17,null]}}    ";

typedef struct made_file {
    char *bytes;
    size_t size;
} made_file;

static void append(made_file *file, const void *data, size_t size) {
    file->bytes = realloc(file->bytes, file->size + size);
    memcpy(file->bytes + file->size, data, size);
    file->size += size;
}

static void append_chunk(made_file *file, uint32_t tag, uint32_t track, const void *data,
                         size_t size) {
    const mr_chunk_head head = {tag, track, size};
    append(file, &head, sizeof head);
    append(file, data, size);
}

static made_file begin_file(void) {
    made_file file = {0};
    mr_trace_head head = {.version = MR_TRACE_VERSION, .header_size = (sizeof header - 1) / 8 * 8};
    memcpy(head.magic, MR_TRACE_MAGIC, sizeof head.magic);
    append(&file, &head, sizeof head);
    append(&file, header, head.header_size);
    return file;
}

static mr_trace *parsed(const made_file *file, size_t size) {
    char *copy = malloc(size + 1);
    mr_trace *trace = NULL;
    memcpy(copy, file->bytes, size);
    CHECK_INT(mr_trace_parse(&trace, "made", copy, size, NULL), ==, MR_OK);
    return trace;
}

static const mr_time_span spans[] = {
    {.start = 100, .duration = 10, .kind = MR_SPAN_FILL},
    {.start = 110, .duration = 40, .kind = MR_SPAN_OP, .n_ops = 1, .op = 0},
    {.start = 150, .duration = 40, .kind = MR_SPAN_FUSED, .n_ops = 1, .op = 1},
    {.start = 190, .duration = 10, .kind = MR_SPAN_OP, .n_ops = 1, .op = 1},
    {.start = 200, .duration = 10, .kind = MR_SPAN_OP, .n_ops = 1, .op = 7}, /* no such op */
    {.start = 100, .duration = 150, .kind = MR_SPAN_SAMPLE},
};

static const mr_probe timed[] = {
    {.at = 99, .kind = MR_PROBE_NOWHERE},  {.at = 100, .kind = MR_PROBE_NOWHERE},
    {.at = 110, .kind = MR_PROBE_NOWHERE}, {.at = 120, .kind = MR_SPAN_OP, .op = 1},
    {.at = 149, .kind = MR_PROBE_NOWHERE}, {.at = 160, .kind = MR_PROBE_NOWHERE},
    {.at = 195, .kind = MR_PROBE_NOWHERE}, {.at = 205, .kind = MR_PROBE_NOWHERE},
    {.at = 220, .kind = MR_PROBE_NOWHERE}, {.at = UINT64_MAX, .kind = MR_PROBE_NOWHERE},
};

static const mr_probe probes[] = {
    {.at = 1, .address = 120, .kind = MR_SPAN_OP, .op = 1},
    {.at = 2, .address = 299, .kind = MR_SPAN_OP, .op = 1},
    {.at = 3, .address = 299, .kind = MR_SPAN_OP, .op = 1},
    {.at = 4, .address = 150, .kind = MR_SPAN_FILL, .op = 9},
    {.at = UINT64_MAX, .address = UINT64_MAX, .kind = MR_PROBE_NOWHERE, .op = 9},
    {.at = 5, .address = 120, .kind = MR_SPAN_OP, .op = 2},    /* there is no such op */
    {.at = 6, .address = 120, .kind = MR_SPAN_KINDS, .op = 0}, /* nor such a kind */
    {.at = 7, .address = 0, .kind = MR_SPAN_OP, .op = UINT16_MAX},
};

/* Probes come to the file before the spans they fall into, and one track knows nothing of another.
 */
TEST(probes_without_a_mark_belong_to_the_span_around_them) {
    made_file file = begin_file();
    mr_function_table t;
    append_chunk(&file, MR_CHUNK_PROBES, 0, timed, 4 * sizeof *timed);
    append_chunk(&file, MR_CHUNK_SPANS, 1, spans, sizeof spans);
    append_chunk(&file, MR_CHUNK_SPANS, 0, spans, 3 * sizeof *spans);
    append_chunk(&file, MR_CHUNK_PROBES, 0, timed + 4, sizeof timed - 4 * sizeof *timed);
    append_chunk(&file, MR_CHUNK_SPANS, 0, spans + 3, sizeof spans - 3 * sizeof *spans);
    mr_trace *trace = parsed(&file, file.size);
    CHECK_INT(mr_function_table_make(&t, trace, NULL), ==, MR_OK);
    CHECK_INT(t.probes, ==, 10);
    CHECK_INT(t.places[0].probes, ==, 2);
    CHECK_INT(t.places[1].probes, ==, 2); /* one by its mark, one by its time */
    CHECK_INT(t.places[2 + MR_SPAN_FILL].probes, ==, 1);
    CHECK_INT(t.places[t.n_places - 1].probes, ==, 5);
    mr_function_table_free(&t);
    mr_trace_close(trace);
    free(file.bytes);
}

/* A joined trace of several processes has a function once for each, at other addresses. */
TEST(a_function_of_two_processes_is_one) {
    static const char twice[] =
        "{\"probes\":{\"functions\":["
        "{\"from\":100,\"to\":150,\"object\":\"o\",\"offset\":48,\"name\":\"f\"},"
        "{\"from\":1100,\"to\":1150,\"object\":\"o\",\"offset\":48,\"name\":\"f\"},"
        "{\"from\":1200,\"to\":1250,\"object\":\"o\",\"offset\":96,\"name\":\"f\"},"
        "{\"from\":2100,\"to\":2150,\"object\":\"p\",\"offset\":48,\"name\":\"f\"}]}}   ";
    static const mr_probe marked[] = {
        {.at = 1, .address = 120, .kind = MR_SPAN_OP},
        {.at = 2, .address = 1149, .kind = MR_SPAN_OP},
        {.at = 3, .address = 1210, .kind = MR_SPAN_OP}, /* another one of that name */
        {.at = 4, .address = 2100, .kind = MR_SPAN_OP},
    };
    made_file file = begin_file();
    mr_function_table t;
    append_chunk(&file, MR_CHUNK_PROBES, 0, marked, sizeof marked);
    append_chunk(&file, MR_CHUNK_END, 0, twice, (sizeof twice - 1) / 8 * 8);
    mr_trace *trace = parsed(&file, file.size);
    CHECK_INT(mr_function_table_make(&t, trace, NULL), ==, MR_OK);
    CHECK_INT(t.places[0].probes, ==, 4);
    CHECK_INT(t.places[0].n, ==, 3);
    CHECK_INT(t.lines[t.places[0].first].probes, ==, 2);
    mr_function_table_free(&t);
    mr_trace_close(trace);
    free(file.bytes);
}

/* What finding a sample takes is told by those that nobody had to wait for. */
TEST(a_hit_that_was_waited_for_says_nothing_of_finding) {
    static const mr_time_span looks[] = {
        {.start = 100, .duration = 1, .kind = MR_SPAN_DELIVER, .item = 0},
        {.start = 1000, .duration = 500, .kind = MR_SPAN_STORE_READ, .bytes_out = 8},
        {.start = 2100, .duration = 7000, .kind = MR_SPAN_STORE_WAIT},
        {.start = 2000, .duration = 8000, .kind = MR_SPAN_STORE_READ, .bytes_out = 8},
        {.start = 20000, .duration = 700, .kind = MR_SPAN_STORE_READ, .bytes_out = 8},
        {.start = 30000, .duration = 900, .kind = MR_SPAN_STORE_READ, .bytes_out = 0},
        {.start = 90000, .duration = 1, .kind = MR_SPAN_DELIVER, .item = 1, .batch = 1},
    };
    made_file file = begin_file();
    mr_summary s;
    append_chunk(&file, MR_CHUNK_SPANS, 0, looks, sizeof looks);
    mr_trace *trace = parsed(&file, file.size);
    CHECK_INT(mr_summary_make(&s, trace, NULL), ==, MR_OK);
    CHECK_INT((int64_t)s.figures.store_hits, ==, 2);
    CHECK_INT((int64_t)(s.figures.hit_seconds * 1e9 + 0.5), ==, 600);
    mr_summary_free(&s);
    mr_trace_close(trace);
    free(file.bytes);
}

static void check_made(const mr_function_table *t) {
    CHECK_INT(t->probes, ==, 5);
    CHECK_INT(t->damaged, ==, 3);
    CHECK_INT(t->lost, ==, 7);
    CHECK_INT(t->places[0].probes, ==, 0);
    CHECK_INT(t->places[1].probes, ==, 3);
    CHECK_INT(t->places[1].n, ==, 2);
    const mr_function_line *lines = &t->lines[t->places[1].first];
    CHECK_INT(lines[0].probes, ==, 2); /* most first */
    CHECK_INT(lines[0].function->offset, ==, 48);
    CHECK_TEXT(lines[1].function->name, "f");
    CHECK_INT(t->places[2 + MR_SPAN_FILL].probes, ==, 1);
    CHECK(t->lines[t->places[2 + MR_SPAN_FILL].first].function == NULL); /* 150 is behind f */
    CHECK_INT(t->places[t->n_places - 1].probes, ==, 1);
}

TEST(probes_that_cannot_be_are_counted_and_left_out) {
    made_file file = begin_file();
    mr_function_table t;
    append_chunk(&file, MR_CHUNK_PROBES, 0, probes, sizeof probes);
    append_chunk(&file, MR_CHUNK_LAST, 77, probes, 16); /* of a later version */
    append_chunk(&file, MR_CHUNK_END, 0, end, (sizeof end - 1) / 8 * 8);
    mr_trace *trace = parsed(&file, file.size);
    CHECK_INT(mr_function_table_make(&t, trace, NULL), ==, MR_OK);
    CHECK_TEXT(mr_trace_missing(trace), "");
    check_made(&t);
    mr_function_table_free(&t);
    mr_trace_close(trace);
    for (size_t cut = 16 + (sizeof header - 1) / 8 * 8; cut < file.size; cut++) {
        char *text = NULL;
        trace = parsed(&file, cut);
        CHECK_INT(mr_trace_text(trace, MR_TRACE_REPORT, &text, NULL), ==, MR_OK);
        mr_free(text);
        CHECK_INT(mr_trace_text(trace, MR_TRACE_JSON, &text, NULL), ==, MR_OK);
        mr_free(text);
        mr_trace_close(trace);
    }
    free(file.bytes);
}

TEST(probes_of_no_track_end_what_is_believed) {
    made_file file = begin_file();
    append_chunk(&file, MR_CHUNK_PROBES, 2, probes, sizeof probes);
    append_chunk(&file, MR_CHUNK_PROBES, 0, probes, sizeof probes);
    mr_trace *trace = parsed(&file, file.size);
    CHECK_INT(trace->n_probes, ==, 0);
    mr_trace_close(trace);
    free(file.bytes);
}

TEST(names_in_a_file_do_not_reach_the_terminal_raw) {
    static const char bad_end[] =
        "{\"probes\":{\"note\":\"n\\u009bm\",\"functions\":[{\"from\":100,\"to\":150,"
        "\"object\":\"o\\u0007\",\"name\":\"f\\u001b[2J\"}]}}          ";
    made_file file = begin_file();
    char *text = NULL;
    append_chunk(&file, MR_CHUNK_PROBES, 0, probes, sizeof probes);
    append_chunk(&file, MR_CHUNK_END, 0, bad_end, (sizeof bad_end - 1) / 8 * 8);
    mr_trace *trace = parsed(&file, file.size);
    CHECK_INT(mr_trace_text(trace, MR_TRACE_REPORT, &text, NULL), ==, MR_OK);
    CHECK_HAS(text, "f\\x1B[2J, o\\x07");
    CHECK_HAS(text, "n\\xC2\\x9Bm");
    CHECK(strchr(text, 0x1B) == NULL && strchr(text, 7) == NULL && !strstr(text, "\xC2\x9B"));
    mr_free(text);
    mr_trace_close(trace);
    free(file.bytes);
}

/* ---- Marks, without the kernel ---- */
static uint64_t mark_at;

MR_MARKED static void leave_mark(void) {
    mr_mark mark;
    mr_mark_set(&mark, MR_SPAN_OP, 3);
    mark_at = (uint64_t)(uintptr_t)&mark;
    mr_mark_clear(&mark);
}

/* Reads where a frame was: nothing else has been called since. */
MR_MARKED static uint64_t left_behind(void) {
    leave_mark();
    return *(volatile uint64_t *)(uintptr_t)mark_at ^ mark_at;
}

TEST(a_mark_goes_with_its_call) {
    CHECK(left_behind() != MR_MARK_SEAL);
}

/* ---- A ring as the kernel fills it ---- */
enum { RING = 4 * 4096, STACK_AT = 0x7ffe000 };

typedef struct fake_ring {
    mr_probes probes;
    struct perf_event_mmap_page *page;
    size_t mapped;
} fake_ring;

static bool make_ring(fake_ring *ring) {
    ring->mapped = (size_t)sysconf(_SC_PAGESIZE) + RING;
    void *memory =
        mmap(NULL, ring->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ring->page = memory == MAP_FAILED ? NULL : memory;
    ring->probes = (mr_probes){.size = RING};
    atomic_store(&ring->probes.ring, ring->page);
    return ring->page != NULL;
}

static void put(fake_ring *ring, uint32_t type, const uint64_t *words, size_t n) {
    char *data = (char *)ring->page + sysconf(_SC_PAGESIZE);
    struct perf_event_header head = {.type = type, .size = (uint16_t)(sizeof head + 8 * n)};
    char record[8192];
    memcpy(record, &head, sizeof head);
    memcpy(record + sizeof head, words, 8 * n);
    for (size_t i = 0; i < head.size; i++) {
        data[(ring->page->data_head + i) % RING] = record[i];
    }
    ring->page->data_head += head.size;
}

/* A probe whose mark is `word` words from the stack pointer, in a stack of so many words. */
static void put_probe(fake_ring *ring, uint64_t address, size_t stack, size_t word, uint64_t op) {
    uint64_t words[6 + MR_PROBE_STACK / 8] = {address, 1000 + address, 2, STACK_AT, 8 * stack};
    if (word + 1 < stack) {
        words[5 + word] = MR_MARK_SEAL ^ (STACK_AT + 8 * word);
        words[6 + word] = (uint64_t)MR_SPAN_OP << 16 | op;
    }
    words[5 + stack] = 8 * stack;
    put(ring, PERF_RECORD_SAMPLE, words, 6 + stack);
}

static void check_taken(const mr_probe *probe, uint64_t address, bool marked) {
    CHECK_INT(probe->address, ==, address);
    CHECK_INT(probe->at, ==, address);
    CHECK_INT(probe->kind, ==, marked ? MR_SPAN_OP : MR_PROBE_NOWHERE);
    CHECK_INT(probe->op, ==, marked ? address % 60000 : 0);
}

TEST(a_ring_is_read_round_and_round) {
    enum { WORDS = MR_PROBE_STACK / 8 };
    fake_ring ring;
    mr_probe out[4];
    CHECK(make_ring(&ring));
    for (uint64_t i = 1; ring.page && i < 2000; i++) {
        size_t stack = i % 3 == 0 ? i % WORDS : WORDS, word = i * 7 % WORDS;
        const uint64_t lost[2] = {9, i};
        put_probe(&ring, 2 * i, WORDS, WORDS - 2, 2 * i % 60000); /* the mark is at the far end */
        put(&ring, PERF_RECORD_LOST, lost, 2);
        put_probe(&ring, 2 * i + 1, stack, word, (2 * i + 1) % 60000);
        CHECK_INT(mr_probes_take(&ring.probes, 1000, out, 4), ==, 2);
        check_taken(&out[0], 2 * i, true);
        check_taken(&out[1], 2 * i + 1, word + 1 < stack);
        CHECK_INT(ring.page->data_tail, ==, ring.page->data_head);
        CHECK_INT(ring.probes.lost, ==, i * (i + 1) / 2);
    }
    munmap(ring.page, ring.mapped);
}

__attribute__((constructor)) static void choose_path(void) {
    snprintf(path, sizeof path, "/tmp/millrace-probe-%d", (int)getpid());
}

__attribute__((destructor)) static void remove_path(void) {
    unlink(path);
}

TEST_MAIN()
