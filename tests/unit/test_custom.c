/* SPDX-License-Identifier: Apache-2.0 */
/* Rehearsal by a policy of the host, and by limits of samples per insert: what is shown again goes
 * by them, a run that goes on shows the same, and a replay needs no policy. */
#include <millrace/stream.h>

#include "fixture.h"
#include "plan/choices.h"
#include "test.h"

enum { BATCH = 32, STEPS = 80, ENTRIES = 4000, SIZE = 40 };

typedef struct course {
    int n_batches, asked, wrong, replays;
    int64_t news;
    char digests[2 * STEPS][33];
    int sizes[2 * STEPS], old[2 * STEPS];
    char *state;
    mr_status status;
    mr_error err;
} course;

static char root[64], stream[80], journal[96];
static course whole, part;

static void begin(void) {
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    snprintf(root, sizeof root, "%s", fixture_folder());
    snprintf(stream, sizeof stream, "%s/stream", root);
    snprintf(journal, sizeof journal, "%s/journal", root);
    options.id = 11;
    CHECK_INT(mr_stream_writer_open(&writer, stream, &options, NULL), ==, MR_OK);
    for (int64_t i = 0; i < ENTRIES; i++) {
        char value[40];
        int size = snprintf(value, sizeof value, "value %" PRId64, i);
        const mr_entry entry = {.label = i % 4, .value = value, .size = (size_t)size};
        CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
}

/* ---- A policy: only samples of label 1, the oldest goes; of those the first is shown most ---- */
static int64_t oldest_of(const mr_policy_view *view, const int64_t *placed, int64_t n) {
    int64_t oldest = 0;
    for (int64_t i = 1; i < n; i++) {
        int64_t a = i < view->n ? view->samples[i] : 0, b = view->samples[oldest];
        oldest = placed[i] == 0 && (placed[oldest] || a < b) ? i : oldest;
    }
    return oldest;
}

static mr_status place(void *user, const mr_policy_view *view, const int64_t *samples,
                       const int64_t *labels, const uint64_t *keys, int64_t n, int64_t *places,
                       mr_error *err) {
    course *out = user;
    int64_t there = view->n, placed[SIZE] = {0};
    (void)err;
    out->asked++;
    out->wrong += view->size != SIZE;
    for (int64_t i = 0; i < view->n; i++) {
        out->wrong += view->labels[i] != 1 || view->samples[i] % 4 != 1;
    }
    for (int64_t i = 0; i < n; i++) {
        out->wrong += labels[i] != samples[i] % 4 || keys[i] == 0;
        if (labels[i] == 1) {
            places[i] = there < SIZE ? there++ : oldest_of(view, placed, SIZE);
            placed[places[i]] = 1;
        }
    }
    return MR_OK;
}

static mr_status draw(void *user, const mr_policy_view *view, const uint64_t *keys, int64_t n,
                      int64_t *places, double *weights, mr_error *err) {
    (void)user;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        places[i] = keys[i] % 2 ? 0 : (int64_t)(keys[i] / 2 % (uint64_t)view->n);
        weights[i] = (double)(places[i] + 2);
    }
    return MR_OK;
}

static mr_status draw_wrongly(void *user, const mr_policy_view *view, const uint64_t *keys,
                              int64_t n, int64_t *places, double *weights, mr_error *err) {
    (void)user, (void)keys, (void)weights, (void)err;
    places[n - 1] = view->n;
    return MR_OK;
}

static mr_status place_wrongly(void *user, const mr_policy_view *view, const int64_t *samples,
                               const int64_t *labels, const uint64_t *keys, int64_t n,
                               int64_t *places, mr_error *err) {
    (void)user, (void)samples, (void)labels, (void)keys, (void)err;
    places[n - 1] = view->n + n + 1;
    return MR_OK;
}

static mr_status refuse(void *user, const mr_policy_view *view, const int64_t *samples,
                        const int64_t *labels, const uint64_t *keys, int64_t n, int64_t *places,
                        mr_error *err) {
    (void)user, (void)view, (void)samples, (void)labels, (void)keys, (void)n, (void)places;
    return mr_fail(err, MR_E_HOST, "the policy has no opinion");
}

/* ---- Runs ---- */
static mr_status open_run(const char *rehearse, const mr_policy *policy, const char *state,
                          const char *folder, mr_pipeline **pipeline, mr_loader **loader,
                          mr_error *err) {
    char json[600];
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    options.digest = true;
    options.journal = folder;
    options.policy = policy;
    options.state = state;
    options.state_size = state ? strlen(state) : 0;
    snprintf(json, sizeof json,
             "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"until\": %d}}, "
             "\"batch\": %d, \"seed\": 5, \"rehearse\": {\"size\": %d, \"share\": 0.5, %s}, "
             "\"fields\": [\"value\", \"label\", \"is_replay\", \"weight\"]}",
             stream, ENTRIES, BATCH, SIZE, rehearse);
    *pipeline = fixture_pipeline(json);
    return mr_loader_open(loader, *pipeline, &options, err);
}

static void note(course *out, const mr_batch *batch) {
    int old = 0;
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        old += ((const uint8_t *)mr_batch_array(batch, 2)->data)[i];
    }
    out->old[out->n_batches] = old;
    out->replays += old;
    out->news += mr_batch_size(batch) - old;
    out->sizes[out->n_batches] = (int)mr_batch_size(batch);
    snprintf(out->digests[out->n_batches++], 33, "%s", mr_batch_digest(batch));
}

static void check_policy(course *out, const mr_batch *batch) {
    const mr_array *weight = mr_batch_array(batch, 3);
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        bool is_replay = ((const uint8_t *)mr_batch_array(batch, 2)->data)[i];
        out->wrong += is_replay &&
                      (mr_batch_samples(batch)[i] % 4 != 1 || ((const float *)weight->data)[i] < 2);
    }
}

static void run(course *out, const char *rehearse, bool is_custom, const char *state, int steps) {
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    free(out->state);
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    const mr_policy policy = {sizeof policy, out, place, draw};
    out->status = open_run(rehearse, is_custom ? &policy : NULL, state, is_custom ? journal : NULL,
                           &pipeline, &loader, &out->err);
    while (out->n_batches < steps && out->status == MR_OK) {
        out->status = mr_loader_next(loader, &batch, &out->err);
        if (out->status == MR_OK) {
            note(out, batch);
            if (is_custom) {
                check_policy(out, batch);
            }
            mr_batch_unref(batch);
        }
    }
    if (loader) {
        size_t room = mr_loader_state_bytes(loader);
        out->state = malloc(room);
        CHECK_INT(mr_loader_save(loader, out->state, room, NULL), ==, MR_OK);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    CHECK_TEXT(out->err.text, "");
    CHECK_INT(out->wrong, ==, 0);
}

static void check_same_from(int first) {
    for (int i = 0; i < part.n_batches; i++) {
        CHECK_TEXT(part.digests[i], whole.digests[first + i]);
    }
}

static const char custom[] = "\"policy\": \"custom\", \"lag\": 2";

TEST(a_policy_of_the_host_decides_what_is_shown_again) {
    begin();
    run(&whole, custom, true, NULL, STEPS);
    CHECK_INT(whole.n_batches, ==, STEPS);
    CHECK_INT(whole.replays, ==, (STEPS - 2) * BATCH / 2);
    CHECK_INT(whole.asked, >=, STEPS - 2);
}

static void check_replay(int64_t steps) {
    mr_replay_result result = {.size = sizeof result};
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_replay(journal, NULL, 3, &result, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    CHECK_INT(result.steps, ==, steps);
    CHECK_INT(result.compared, >=, 1);
}

TEST(a_replay_needs_no_policy) {
    check_replay(STEPS);
}

TEST(a_run_that_begins_again_asks_no_more_than_it_must) {
    run(&part, custom, true, NULL, 30);
    CHECK_INT(part.asked, ==, 0); /* the journal has these steps */
    check_same_from(0);
    char *state = strdup(part.state);
    run(&part, custom, true, state, STEPS - 30 + 40);
    CHECK_INT(part.n_batches, ==, STEPS - 30 + 40);
    CHECK_INT(part.asked, >, 10);
    part.n_batches = STEPS - 30;
    check_same_from(30);
    free(state);
    check_replay(STEPS + 40);
}

static void check_refused(const mr_policy *policy, const char *folder, mr_status wanted,
                          const char *why) {
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_status status = open_run(custom, policy, NULL, folder, &pipeline, &loader, &err);
    for (int i = 0; i < 10 && status == MR_OK; i++) {
        status = mr_loader_next(loader, &batch, &err);
        mr_batch_unref(status == MR_OK ? batch : NULL);
    }
    CHECK_INT(status, ==, wanted);
    CHECK_HAS(err.text, why);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

TEST(choices_that_make_no_sense_end_the_run) {
    char other[128];
    snprintf(other, sizeof other, "%s/other", root);
    const mr_policy policies[] = {{sizeof(mr_policy), &part, place, draw_wrongly},
                                  {sizeof(mr_policy), &part, place_wrongly, draw},
                                  {sizeof(mr_policy), &part, refuse, draw}};
    check_refused(&policies[0], other, MR_E_PARAM, "wants to show place");
    fixture_remove(other);
    check_refused(&policies[1], other, MR_E_PARAM, "chose place");
    fixture_remove(other);
    check_refused(&policies[2], other, MR_E_HOST, "no opinion");
    fixture_remove(other);
    check_refused(NULL, other, MR_E_PARAM, "there is none");
    check_refused(&policies[0], NULL, MR_E_PARAM, "journal");
}

static void check_whole(const unsigned char *bytes, size_t size) {
    mr_choices *back = NULL;
    CHECK_INT(mr_choices_load(&back, bytes, size, NULL), ==, MR_OK);
    CHECK_INT(back->step, ==, 9);
    CHECK_INT(back->places[2], ==, -1);
    CHECK_INT(back->draws[1], ==, 7);
    CHECK(back->weights[1] == 0.5);
    mr_choices_free(back);
}

TEST(bytes_that_are_no_choices_are_refused) {
    mr_choices *choices = NULL, *back = NULL;
    CHECK_INT(mr_choices_new(&choices, 3, 2, NULL), ==, MR_OK);
    choices->step = 9;
    choices->places[2] = -1;
    choices->draws[1] = 7;
    choices->weights[1] = 0.5;
    size_t size = mr_choices_bytes(choices);
    unsigned char *bytes = malloc(size);
    mr_choices_save(choices, bytes);
    check_whole(bytes, size);
    for (size_t n = 0; n < size; n++) {
        CHECK_INT(mr_choices_load(&back, bytes, n, NULL), ==, MR_E_CORRUPT);
    }
    bytes[8] = 200;
    CHECK_INT(mr_choices_load(&back, bytes, size, NULL), ==, MR_E_CORRUPT);
    mr_choices_free(choices);
    free(bytes);
}

/* ---- Samples per insert ---- */
static void check_ratio(const char *rehearse, double wanted) {
    run(&whole, rehearse, false, NULL, STEPS);
    double ratio = (double)whole.replays / (double)whole.news;
    CHECK(ratio > 0.8 * wanted && ratio < 1.1 * wanted);
    run(&part, rehearse, false, NULL, 33);
    check_same_from(0);
    char *state = strdup(part.state);
    run(&part, rehearse, false, state, STEPS - 33);
    CHECK_INT(part.n_batches, ==, STEPS - 33);
    check_same_from(33);
    free(state);
}

TEST(steps_keep_to_samples_per_insert_and_go_on_from_a_state) {
    check_ratio("\"samples_per_insert\": 4", 4);
    CHECK_INT(whole.sizes[STEPS - 1], ==, BATCH);
    check_ratio("\"samples_per_insert\": 0.5, \"lag\": 3, \"slack\": 20", 0.5);
    check_ratio("\"samples_per_insert\": 1, \"least_size\": 40", 1);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(whole.old[i], ==, 0); /* 32 come a step at first, and are there a step later */
    }
}

TEST(end) {
    free(whole.state);
    free(part.state);
    fixture_remove(root);
}

TEST_MAIN()
