/* SPDX-License-Identifier: Apache-2.0 */
/* Views in a loader: which samples come, and that nothing but the document decides it. */
#include "fixture.h"
#include "test.h"

enum { MOST = 4096 };

typedef struct course {
    int n, n_batches;
    int64_t samples[MOST];
    int batch_end[MOST];
    char state[MR_STATE_MAX];
    mr_error err;
} course;

static void run(course *out, const char *view, const char *more, mr_options options, int steps) {
    char json[512];
    mr_batch *batch = NULL;
    mr_loader *loader = NULL;
    snprintf(json, sizeof json,
             "{\"source\": {\"synthetic\": {\"samples\": 200, \"shape\": [3]}}, \"seed\": 4, "
             "\"batch\": 8, \"epochs\": 2, \"view\": %s%s}",
             view, more);
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    mr_pipeline *pipeline = fixture_pipeline(json);
    if (!pipeline || mr_loader_open(&loader, pipeline, &options, &out->err) < 0) {
        mr_pipeline_free(pipeline);
        return;
    }
    while (steps-- != 0 && mr_loader_next(loader, &batch, &out->err) == MR_OK) {
        memcpy(out->samples + out->n, mr_batch_samples(batch),
               (size_t)mr_batch_size(batch) * sizeof *out->samples);
        out->n += (int)mr_batch_size(batch);
        out->batch_end[out->n_batches++] = out->n;
        mr_batch_unref(batch);
    }
    CHECK_INT(mr_loader_save(loader, out->state, sizeof out->state, NULL), ==, MR_OK);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

static mr_options with_threads(uint32_t threads) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = threads;
    return options;
}

static course whole, other, part;

static const char *const views[] = {
    "[{\"take\": 50}]",
    "[{\"skip\": 150}, {\"every\": 3}]",
    "[{\"where\": \"index >= 20 and index < 75\"}]",
    "[{\"split\": {\"name\": \"a\", \"parts\": {\"a\": 0.5, \"b\": 0.5}}}]",
    "[{\"take\": 20}, {\"repeat\": 3}]",
    "[{\"weights\": \"index\"}]",
};

TEST(conditions_select_what_they_say) {
    run(&whole, "[{\"where\": \"index >= 20 and index < 75\"}]", ", \"shuffle\": false",
        with_threads(2), -1);
    CHECK_INT(whole.n, ==, 2 * 55);
    for (int i = 0; i < 55; i++) {
        CHECK_INT(whole.samples[i], ==, 20 + i);
    }
}

TEST(parts_of_a_split_are_apart_and_whole_together) {
    int seen[200] = {0};
    run(&whole, "[{\"split\": {\"name\": \"a\", \"parts\": {\"a\": 0.3, \"b\": 0.7}}}]", "",
        with_threads(1), -1);
    run(&other, "[{\"split\": {\"name\": \"b\", \"parts\": {\"a\": 0.3, \"b\": 0.7}}}]", "",
        with_threads(1), -1);
    CHECK_INT(whole.n + other.n, ==, 2 * 200);
    for (int i = 0; i < whole.n / 2; i++) {
        seen[whole.samples[i]]++;
    }
    for (int i = 0; i < other.n / 2; i++) {
        seen[other.samples[i]]++;
    }
    for (int i = 0; i < 200; i++) {
        CHECK_INT(seen[i], ==, 1);
    }
}

TEST(threads_worlds_and_restarts_do_not_matter) {
    for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
        run(&whole, views[v], "", with_threads(1), -1);
        CHECK_TEXT(whole.err.text, "");
        CHECK(whole.n > 0);
        run(&other, views[v], "", with_threads(3), -1);
        CHECK_INT(other.n, ==, whole.n);
        CHECK(memcmp(whole.samples, other.samples, sizeof whole.samples) == 0);
        for (int steps = 1; steps < whole.n_batches; steps += 2) {
            mr_options options = with_threads(2);
            run(&part, views[v], "", options, steps);
            options.state = part.state;
            options.state_size = strlen(part.state);
            run(&other, views[v], "", options, -1);
            int taken = whole.batch_end[steps - 1];
            CHECK_INT(part.n + other.n, ==, whole.n);
            CHECK(memcmp(other.samples, whole.samples + taken,
                         (size_t)other.n * sizeof *other.samples) == 0);
        }
        int64_t sum = 0, expected = 0, n = 0;
        for (uint32_t rank = 0; rank < 4; rank++) {
            mr_options options = with_threads(1);
            options.world = 4;
            options.rank = rank;
            run(&other, views[v], "", options, -1);
            n += other.n;
            for (int i = 0; i < other.n; i++) {
                sum += other.samples[i] * other.samples[i];
            }
        }
        for (int i = 0; i < whole.n; i++) {
            expected += whole.samples[i] * whole.samples[i];
        }
        CHECK_INT(n, ==, whole.n);
        CHECK_INT(sum, ==, expected);
    }
}

TEST(a_state_of_another_view_is_refused) {
    mr_options options = with_threads(1);
    run(&part, views[0], "", options, 2);
    options.state = part.state;
    options.state_size = strlen(part.state);
    run(&other, views[1], "", options, -1);
    CHECK_INT(other.err.code, ==, MR_E_STATE);
}

TEST(wrong_views_are_named) {
    run(&other, "[{\"where\": \"nothing > 3\"}]", "", with_threads(1), -1);
    CHECK_HAS(other.err.text, "nothing");
    CHECK_TEXT(other.err.where, "$.view[0]");
    run(&other, "[{\"where\": \"index ? 3\"}]", "", with_threads(1), -1);
    CHECK_HAS(other.err.text, "not a condition");
}

TEST_MAIN()
