/* SPDX-License-Identifier: Apache-2.0 */
/* What a binding to another language needs: tables made at run time that know themselves, ops on
 * whole samples, waiting in slices, starting at an epoch. */
#include "test.h"

#include <millrace/millrace.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* ---- A source and an op that are not in any list ---- */
typedef struct toy {
    int64_t samples, factor;
    _Atomic int64_t slow_ms; /* what a sample takes */
    atomic_int *prefetched;  /* how often each sample was; or NULL */
    bool cannot_gather;
    atomic_int *filled; /* samples that were filled one by one; or NULL */
} toy;

typedef struct toy_params {
    const toy *toy;
} toy_params;

static mr_status describe(const void *p, mr_field *fields, int32_t capacity, int32_t *n,
                          mr_error *err) {
    (void)p;
    (void)err;
    const mr_field own[] = {
        {.name = "x", .type = {.dtype = MR_I64}},
        {.name = "y", .type = {.dtype = MR_F64, .n_dims = 1, .dims = {-1}}},
        {.name = "z", .type = {.dtype = MR_I16}, .optional = true},
    };
    return mr_describe_fields(own, 3, fields, capacity, n);
}

static mr_status open_(const void *p, const mr_wanted *wanted, void **state, mr_error *err) {
    CHECK(wanted->log != NULL);
    (void)err;
    *state = (void *)(uintptr_t)((const toy_params *)p)->toy;
    return MR_OK;
}

static void close_(void *state) {
    (void)state;
}

static void shape(const void *state, mr_shape *out) {
    CHECK_INT(out->size, ==, (int64_t)sizeof *out);
    out->samples = ((const toy *)state)->samples;
    out->fingerprint[0] = out->fingerprint[1] = 7;
}

static void sample_name(const void *state, int64_t sample, char *buffer, size_t size) {
    (void)state;
    snprintf(buffer, size, "toy %lld", (long long)sample);
}

static mr_status fill(const void *state, const mr_block *block, int64_t sample, mr_view *fields,
                      mr_error *err) {
    static const double ones[4] = {1, 1, 1, 1};
    const toy *t = state;
    int64_t ms = atomic_load(&t->slow_ms);
    const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    int16_t small = (int16_t)(sample + 100);
    CHECK(block == NULL);
    (void)err;
    nanosleep(&wait, NULL);
    memcpy(fields[0].data, &sample, sizeof sample);
    if (mr_is_wanted(&fields[1])) {
        fields[1].data = (void *)(uintptr_t)ones;
        fields[1].type.dims[0] = sample % 4;
        fields[1].size = (size_t)(sample % 4) * sizeof *ones;
    }
    if (mr_is_wanted(&fields[2])) {
        memcpy(fields[2].data, &small, sizeof small);
    }
    return MR_OK;
}

static void prefetch(const void *state, int64_t sample) {
    const toy *t = state;
    if (t->prefetched && sample >= 0 && sample < t->samples) {
        atomic_fetch_add(&t->prefetched[sample], 1);
    }
}

/* The same without the field that varies. */
static mr_status describe_fixed(const void *p, mr_field *fields, int32_t capacity, int32_t *n,
                                mr_error *err) {
    mr_field all[3];
    mr_status status = describe(p, all, 3, n, err);
    all[1] = all[2];
    mr_describe_fields(all, 2, fields, capacity, n);
    return status;
}

static mr_status fill_fixed(const void *state, const mr_block *block, int64_t sample,
                            mr_view *fields, mr_error *err) {
    const toy *t = state;
    int16_t small = (int16_t)(sample + 100);
    CHECK(block == NULL);
    (void)err;
    atomic_fetch_add(t->filled, 1);
    memcpy(fields[0].data, &sample, sizeof sample);
    if (mr_is_wanted(&fields[1])) {
        memcpy(fields[1].data, &small, sizeof small);
    }
    return MR_OK;
}

static mr_status gather(const void *state, const mr_block *const *blocks, const int64_t *samples,
                        int64_t n, const mr_column *to, mr_error *err) {
    const toy *t = state;
    CHECK(blocks == NULL);
    if (t->cannot_gather) {
        return mr_fail(err, MR_E_IO, "not at once");
    }
    CHECK_INT(to[0].stride, ==, (int64_t)sizeof *samples);
    memcpy(to[0].data, samples, (size_t)n * sizeof *samples);
    for (int64_t i = 0; to[1].data && i < n; i++) {
        ((int16_t *)to[1].data)[i] = (int16_t)(samples[i] + 100);
    }
    return MR_OK;
}

/* Gives x * factor as "scaled", the number of y's values as "n", and y anew, each value doubled. */
static mr_status plan_sample(const void *p, const mr_field *in, int32_t n_in, mr_field *out,
                             int32_t capacity, int32_t *n_out, mr_error *err) {
    (void)p;
    *n_out = 3;
    if (capacity < 3) {
        return MR_OK;
    }
    if (n_in != 3 || strcmp(in[2].name, "z") != 0) {
        return mr_fail(err, MR_E_TYPE, "%d fields", n_in);
    }
    out[0] = (mr_field){.name = "scaled", .type = {.dtype = MR_I64}};
    out[1] = (mr_field){.name = "n", .type = {.dtype = MR_I32}};
    out[2] = in[1];
    return MR_OK;
}

static mr_status open_memory(const void *p, void **state, mr_error *err) {
    (void)p;
    (void)err;
    *state = calloc(8, sizeof(double));
    return MR_OK;
}

static mr_status run_sample(const void *p, mr_call *call, const mr_view *in, int32_t n_in,
                            mr_view *out, int32_t n_out, mr_error *err) {
    int64_t x, factor = ((const toy_params *)p)->toy->factor;
    int32_t n = (int32_t)in[1].type.dims[0];
    double *values = call->state;
    CHECK_INT(n_in, ==, 3);
    CHECK_INT(n_out, ==, 3);
    memcpy(&x, in[0].data, sizeof x);
    if (x == 1000) {
        return mr_fail(err, MR_E_HOST, "no thousands");
    }
    x *= factor;
    memcpy(out[0].data, &x, sizeof x);
    memcpy(out[1].data, &n, sizeof n);
    for (int32_t i = 0; i < n; i++) {
        values[i] = 2 * ((const double *)in[1].data)[i];
    }
    out[2].data = values;
    out[2].type.dims[0] = n;
    out[2].size = (size_t)n * sizeof *values;
    return MR_OK;
}

static mr_source_class source_of(const toy *t) {
    return (mr_source_class){MR_SOURCE_HEADER,
                             .name = "toy",
                             .summary = "",
                             .param_size = sizeof(toy_params),
                             .describe = describe,
                             .open = open_,
                             .close = close_,
                             .shape = shape,
                             .sample_name = sample_name,
                             .fill = fill,
                             .prefetch = prefetch,
                             .user = t};
}

static mr_op_class op_of(const toy *t) {
    return (mr_op_class){MR_OP_HEADER,
                         .name = "scale",
                         .summary = "",
                         .param_size = sizeof(toy_params),
                         .open = open_memory,
                         .close = free,
                         .plan_sample = plan_sample,
                         .run_sample = run_sample,
                         .user = t};
}

typedef struct rig {
    mr_source_class source;
    mr_op_class op;
    mr_pipeline *pipeline;
    mr_loader *loader;
} rig;

static void open_rig(rig *r, const toy *t, const char *json, const mr_options *options) {
    mr_error err = MR_ERROR_INIT;
    r->source = source_of(t);
    r->op = op_of(t);
    const mr_source_class *sources[] = {&r->source, NULL};
    const mr_op_class *ops[] = {&r->op, NULL};
    const mr_tables tables = {sizeof tables, ops, sources};
    CHECK_INT(mr_pipeline_parse_with(&r->pipeline, json, strlen(json), &tables, &err), ==, MR_OK);
    CHECK_INT(mr_loader_open(&r->loader, r->pipeline, options, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
}

static void close_rig(rig *r) {
    mr_loader_close(r->loader);
    mr_pipeline_free(r->pipeline);
}

static const char plain[] = "{\"source\": \"toy\", \"batch\": 4, \"shuffle\": false}";
static const char mapped[] =
    "{\"source\": \"toy\", \"ops\": [\"scale\"], \"batch\": 4, \"shuffle\": false}";

TEST(an_op_on_whole_samples_gives_other_fields) {
    const toy t = {.samples = 10, .factor = 3};
    rig r = {0};
    mr_batch *batch = NULL;
    open_rig(&r, &t, mapped, NULL);
    CHECK_INT(mr_pipeline_n_fields(r.pipeline), ==, 3);
    int64_t seen = 0;
    while (mr_loader_next(r.loader, &batch, NULL) == MR_OK) {
        const mr_array *scaled = mr_batch_find(batch, "scaled"), *n = mr_batch_find(batch, "n");
        const mr_array *y = mr_batch_find(batch, "y");
        for (int64_t i = 0; i < mr_batch_size(batch); i++, seen++) {
            CHECK_INT(((const int64_t *)scaled->data)[i], ==, 3 * seen);
            CHECK_INT(((const int32_t *)n->data)[i], ==, seen % 4);
            CHECK_INT(y->offsets[i + 1] - y->offsets[i], ==, seen % 4);
        }
        for (int64_t i = 0; i < y->dims[0]; i++) {
            CHECK(((const double *)y->data)[i] == 2.0);
        }
        mr_batch_unref(batch);
    }
    CHECK_INT(seen, ==, 10);
    close_rig(&r);
}

TEST(two_tables_of_one_kind_know_themselves) {
    const toy a = {.samples = 4, .factor = 2}, b = {.samples = 4, .factor = 5};
    const toy *const toys[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        rig r = {0};
        mr_batch *batch = NULL;
        open_rig(&r, toys[i], mapped, NULL);
        CHECK_INT(mr_loader_next(r.loader, &batch, NULL), ==, MR_OK);
        CHECK_INT(((const int64_t *)mr_batch_array(batch, 0)->data)[3], ==, 3 * toys[i]->factor);
        mr_batch_unref(batch);
        close_rig(&r);
    }
}

TEST(optional_fields_stay_optional) {
    const toy t = {.samples = 4};
    rig r = {0};
    open_rig(&r, &t, plain, NULL);
    CHECK_INT(mr_pipeline_n_fields(r.pipeline), ==, 2);
    close_rig(&r);
}

TEST(a_failure_names_op_and_sample) {
    const toy t = {.samples = 1001, .factor = 1};
    rig r = {0};
    mr_error err = MR_ERROR_INIT;
    mr_batch *batch = NULL;
    mr_status status = MR_OK;
    open_rig(&r, &t, mapped, NULL);
    while ((status = mr_loader_next(r.loader, &batch, &err)) == MR_OK) {
        mr_batch_unref(batch);
    }
    CHECK_INT(status, ==, MR_E_HOST);
    CHECK_INT(err.sample, ==, 1000);
    CHECK_TEXT(err.op, "scale");
    CHECK_TEXT(err.source, "toy 1000");
    close_rig(&r);
}

TEST(an_unknown_source_is_still_unknown) {
    static const char json[] = "{\"source\": \"toy\"}";
    mr_pipeline *pipeline = NULL;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_pipeline_parse(&pipeline, json, strlen(json), NULL, &err), ==, MR_E_PARAM);
    CHECK_TEXT(err.text, "unknown source \"toy\"");
}

static int64_t waits_counted(const mr_loader *loader) {
    mr_line line = {.size = (uint32_t)sizeof line};
    for (int32_t i = 0; i < mr_loader_n_lines(loader); i++) {
        mr_loader_line(loader, i, &line);
        if (strcmp(line.name, "wait_batch") == 0) {
            return line.count;
        }
    }
    return -1;
}

TEST(waiting_in_slices) {
    toy t = {.samples = 1};
    rig r = {0};
    mr_batch *batch = NULL;
    int later = 0;
    mr_status status = MR_LATER;
    atomic_store(&t.slow_ms, 100);
    open_rig(&r, &t, plain, NULL);
    CHECK_INT(mr_loader_next_within(r.loader, 0, &batch, NULL), ==, MR_LATER);
    CHECK(batch == NULL);
    while ((status = mr_loader_next_within(r.loader, 1000000, &batch, NULL)) == MR_LATER) {
        later++;
    }
    CHECK_INT(status, ==, MR_OK);
    CHECK_INT(later, >, 0);
    mr_batch_unref(batch);
    CHECK_INT(waits_counted(r.loader), ==, 1);
    CHECK_INT(mr_loader_next_within(r.loader, 1000000, &batch, NULL), ==, MR_END);
    close_rig(&r);
}

TEST(starting_at_an_epoch) {
    const toy t = {.samples = 6};
    mr_options options = MR_OPTIONS_INIT;
    rig r = {0};
    mr_batch *batch = NULL;
    options.epochs = 5;
    options.first_epoch = 3;
    open_rig(&r, &t, plain, &options);
    CHECK_INT(mr_loader_steps_left(r.loader), ==, 4);
    CHECK_INT(mr_loader_next(r.loader, &batch, NULL), ==, MR_OK);
    CHECK_INT(mr_batch_epoch(batch), ==, 3);
    CHECK_INT(mr_batch_step(batch), ==, 0);
    mr_batch_unref(batch);
    close_rig(&r);
}

TEST(cheap_samples_are_announced_before_they_are_filled) {
    atomic_int prefetched[10] = {0};
    const toy t = {.samples = 10, .prefetched = prefetched};
    rig r = {0};
    mr_batch *batch = NULL;
    open_rig(&r, &t, "{\"source\": \"toy\", \"batch\": 4, \"shuffle\": false, \"fields\": [\"x\"]}",
             NULL);
    while (mr_loader_next(r.loader, &batch, NULL) == MR_OK) {
        mr_batch_unref(batch);
    }
    for (int i = 0; i < 10; i++) { /* all but the first of each ticket, which is a batch here */
        CHECK_INT(prefetched[i], ==, i % 4 > 0);
    }
    close_rig(&r);
}

TEST(tables_of_another_interface_are_refused) {
    const toy t = {.samples = 10};
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_source_class source = source_of(&t);
    mr_op_class op = op_of(&t);
    const mr_source_class *sources[] = {&source, NULL};
    const mr_op_class *ops[] = {&op, NULL};
    const mr_tables tables = {sizeof tables, ops, sources};
    source.size += (uint32_t)sizeof(void *); /* it has a function that nobody here knows */
    CHECK_INT(mr_pipeline_parse_with(&pipeline, plain, strlen(plain), &tables, &err), ==,
              MR_E_UNSUPPORTED);
    CHECK_HAS(err.text, "source \"toy\" was built for another interface");
    source.size = (uint32_t)sizeof source;
    op.abi++;
    CHECK_INT(mr_pipeline_parse_with(&pipeline, plain, strlen(plain), &tables, &err), ==,
              MR_E_UNSUPPORTED);
    CHECK_HAS(err.text, "op \"scale\" was built for another interface");
}

/* The first bytes of a table, and nothing behind them: reading further is seen. */
static void *cut_off(const void *table, size_t size) {
    return memcpy(malloc(size), table, size);
}

TEST(tables_of_an_older_size_do_without_what_they_lack) {
    const toy t = {.samples = 10, .factor = 3};
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    mr_source_class source = source_of(&t);
    mr_op_class op = op_of(&t);
    source.size = (uint32_t)offsetof(mr_source_class, identify);
    op.size = (uint32_t)offsetof(mr_op_class, follow);
    mr_source_class *old_source = cut_off(&source, source.size);
    mr_op_class *old_op = cut_off(&op, op.size);
    const mr_source_class *sources[] = {old_source, NULL};
    const mr_op_class *ops[] = {old_op, NULL};
    const mr_tables tables = {sizeof tables, ops, sources};
    CHECK_INT(mr_pipeline_parse_with(&pipeline, mapped, strlen(mapped), &tables, &err), ==, MR_OK);
    CHECK_INT(mr_loader_open(&loader, pipeline, NULL, &err), ==, MR_OK);
    CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_OK);
    CHECK_INT(((const int64_t *)mr_batch_find(batch, "scaled")->data)[2], ==, 6);
    mr_batch_unref(batch);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    const uint32_t too_small = 16;
    memcpy((char *)old_op + offsetof(mr_op_class, size), &too_small, sizeof too_small);
    CHECK_INT(mr_pipeline_parse_with(&pipeline, mapped, strlen(mapped), &tables, &err), ==,
              MR_E_UNSUPPORTED);
    free(old_source);
    free(old_op);
}

static void gather_all(const toy *t, const char *json, const char *trace, int64_t *delivered) {
    mr_source_class source = source_of(t);
    const mr_options options = {.size = sizeof options, .trace = trace};
    const mr_source_class *sources[] = {&source, NULL};
    const mr_tables tables = {sizeof tables, NULL, sources};
    rig r = {0};
    mr_batch *batch = NULL;
    source.describe = describe_fixed;
    source.fill = fill_fixed;
    source.gather = gather;
    CHECK_INT(mr_pipeline_parse_with(&r.pipeline, json, strlen(json), &tables, NULL), ==, MR_OK);
    CHECK_INT(mr_loader_open(&r.loader, r.pipeline, &options, NULL), ==, MR_OK);
    while (mr_loader_next(r.loader, &batch, NULL) == MR_OK) {
        const int64_t *x = mr_batch_find(batch, "x")->data;
        const mr_array *z = mr_batch_find(batch, "z");
        for (int64_t i = 0; i < mr_batch_size(batch); i++, (*delivered)++) {
            CHECK_INT(x[i], ==, *delivered);
            CHECK_INT(z ? ((const int16_t *)z->data)[i] : x[i] + 100, ==, x[i] + 100);
        }
        mr_batch_unref(batch);
    }
    mr_line line = {.size = sizeof line};
    CHECK_INT(mr_loader_line(r.loader, 1, &line), ==, MR_OK);
    CHECK_TEXT(line.name, "fill");
    CHECK_INT(line.count, ==, *delivered);
    close_rig(&r);
}

TEST(samples_are_gathered_or_filled_and_are_the_same) {
    static const char one[] =
        "{\"source\": \"toy\", \"batch\": 64, \"shuffle\": false, \"fields\": [\"x\"]}";
    static const char two[] = "{\"source\": \"toy\", \"batch\": 64, \"shuffle\": false, "
                              "\"fields\": [\"z\", \"x\"]}";
    char trace[] = "/tmp/millrace-test-XXXXXX";
    int file = mkstemp(trace);
    CHECK(file >= 0);
    for (int way = 0; way < 6; way++) {
        atomic_int filled = 0;
        const toy t = {.samples = 1000, .cannot_gather = way % 3 == 1, .filled = &filled};
        int64_t delivered = 0;
        gather_all(&t, way < 3 ? one : two, way % 3 == 2 ? trace : NULL, &delivered);
        CHECK_INT(delivered, ==, 1000);
        CHECK_INT(filled, ==, way % 3 == 1 ? 1000 : 0); /* a trace changes nothing */
    }
    close(file);
    unlink(trace);
}

TEST_MAIN()
