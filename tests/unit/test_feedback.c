/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer says of its samples: it decides what is shown again, comes back with it, and is in
 * the journal, so that a run that goes on or is replayed shows the same. */
#include <math.h>
#include <millrace/stream.h>

#include "fixture.h"
#include "plan/feedback.h"
#include "test.h"

enum { BATCH = 32, STEPS = 60, MOST = 4000, WIDTH = 3 };

typedef struct course {
    int n_batches, wrong, with_extra;
    int64_t shown[4]; /* again, by label */
    char digests[STEPS + 1][33];
    char *state;
    mr_status status;
    mr_error err;
} course;

static char root[64], stream[80], journal[96];

static void begin(void) {
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    snprintf(root, sizeof root, "%s", fixture_folder());
    snprintf(stream, sizeof stream, "%s/stream", root);
    snprintf(journal, sizeof journal, "%s/journal", root);
    options.id = 11;
    CHECK_INT(mr_stream_writer_open(&writer, stream, &options, NULL), ==, MR_OK);
    for (int64_t i = 0; i < MOST; i++) {
        char value[40];
        int size = snprintf(value, sizeof value, "value %" PRId64, i);
        const mr_entry entry = {.label = i % 4, .value = value, .size = (size_t)size};
        CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
}

typedef struct request {
    const char *policy, *state, *journal;
    int steps;
    bool says;
} request;

static mr_status open_run(const request *r, mr_pipeline **pipeline, mr_loader **loader,
                          mr_error *err) {
    char json[600];
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    options.digest = true;
    options.journal = r->journal;
    options.state = r->state;
    options.state_size = r->state ? strlen(r->state) : 0;
    snprintf(json, sizeof json,
             "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true}}, \"batch\": %d, "
             "\"seed\": 5, \"rehearse\": {\"size\": 500, \"share\": 0.5, \"policy\": \"%s\"}, "
             "\"fields\": [\"value\", \"label\", \"is_replay\", \"extra\"]}",
             stream, BATCH, r->policy);
    *pipeline = fixture_pipeline(json);
    return mr_loader_open(loader, *pipeline, &options, err);
}

/* The numbers that were given for a sample are functions of it, and of the step in the third. */
static void check_extra(course *out, const mr_batch *batch, int64_t i, int64_t step) {
    const mr_array *e = mr_batch_array(batch, 3);
    int64_t n = e->offsets[i + 1] - e->offsets[i], sample = mr_batch_samples(batch)[i];
    const float *own = (const float *)e->data + e->offsets[i];
    bool is_replay = ((const uint8_t *)mr_batch_array(batch, 2)->data)[i] != 0;
    out->with_extra += n > 0;
    out->wrong += n != 0 && n != WIDTH;
    out->wrong += n > 0 && !is_replay;
    out->wrong += n == WIDTH && (own[0] != (float)sample || own[1] != (float)(2 * sample) ||
                                 own[2] >= (float)step);
}

static void note(course *out, const mr_batch *batch, int64_t step) {
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        check_extra(out, batch, i, step);
        if (((const uint8_t *)mr_batch_array(batch, 2)->data)[i]) {
            out->shown[mr_batch_samples(batch)[i] % 4]++;
        }
    }
    snprintf(out->digests[out->n_batches++], 33, "%s", mr_batch_digest(batch));
}

/* Samples of label 1 are worth much more. */
static mr_status say(mr_loader *loader, const mr_batch *batch, int64_t step, mr_error *err) {
    static double values[BATCH];
    static float extra[BATCH * WIDTH];
    const int64_t *samples = mr_batch_samples(batch);
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        values[i] = samples[i] % 4 == 1 ? 500 : 1;
        extra[i * WIDTH] = (float)samples[i];
        extra[i * WIDTH + 1] = (float)(2 * samples[i]);
        extra[i * WIDTH + 2] = (float)step;
    }
    const mr_feedback feedback = {.size = sizeof feedback,
                                  .n = mr_batch_size(batch),
                                  .samples = samples,
                                  .values = values,
                                  .extra = extra,
                                  .width = WIDTH};
    return mr_loader_feed_back(loader, &feedback, err);
}

static void save(course *out, mr_loader *loader) {
    size_t room = mr_loader_state_bytes(loader);
    out->state = malloc(room);
    CHECK_INT(mr_loader_save(loader, out->state, room, NULL), ==, MR_OK);
}

static void run(course *out, const request *r, int64_t first) {
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    free(out->state);
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    out->status = open_run(r, &pipeline, &loader, &out->err);
    for (int i = 0; i < r->steps && out->status == MR_OK; i++) {
        out->status = mr_loader_next(loader, &batch, &out->err);
        if (out->status == MR_OK) {
            note(out, batch, first + i);
            out->status = r->says ? say(loader, batch, first + i, &out->err) : MR_OK;
            mr_batch_unref(batch);
        }
    }
    if (loader && out->status == MR_OK) {
        save(out, loader);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

static course whole, part, other;

TEST(samples_of_a_large_value_stay_and_are_shown_more_often) {
    begin();
    run(&whole, &(request){"priority", NULL, journal, STEPS, .says = true}, 0);
    CHECK_TEXT(whole.err.text, "");
    CHECK_INT(whole.n_batches, ==, STEPS);
    int64_t others = whole.shown[0] + whole.shown[2] + whole.shown[3];
    CHECK_INT(whole.shown[1], >, 2 * others);
    CHECK_INT(whole.wrong, ==, 0);
    CHECK_INT(whole.with_extra, >, STEPS * BATCH / 4);
}

TEST(a_replay_of_the_journal_gives_the_same_bytes) {
    mr_replay_result result = {.size = sizeof result};
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_replay(journal, NULL, 2, &result, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    CHECK_INT(result.steps, ==, STEPS);
    CHECK_INT(result.compared, ==, 1);
}

/* The trainer says everything once more, as one does that was killed after its last state. */
TEST(a_run_that_begins_again_with_its_journal_shows_the_same) {
    run(&part, &(request){"priority", NULL, journal, STEPS / 2, .says = true}, 0);
    for (int i = 0; i < part.n_batches; i++) {
        CHECK_TEXT(part.digests[i], whole.digests[i]);
    }
    run(&other, &(request){"priority", part.state, journal, STEPS / 2, .says = true}, STEPS / 2);
    CHECK_INT(other.n_batches, ==, STEPS / 2);
    for (int i = 0; i < other.n_batches; i++) {
        CHECK_TEXT(other.digests[i], whole.digests[STEPS / 2 + i]);
    }
    CHECK_INT(other.wrong, ==, 0);
}

TEST(behind_the_journals_end_a_run_decides_anew) {
    run(&part, &(request){"priority", other.state, journal, 10, .says = true}, STEPS);
    CHECK_INT(part.status, ==, MR_OK);
    CHECK_INT(part.wrong, ==, 0);
    CHECK_INT(part.with_extra, >, 0);
}

TEST(numbers_come_back_with_any_policy_but_values_are_for_priority) {
    char place[128];
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    const int64_t sample = 0;
    const double value = 1;
    const float number = 7;
    mr_feedback feedback = {.size = sizeof feedback, .n = 1, .samples = &sample, .values = &value};
    snprintf(place, sizeof place, "%s/other", root);
    CHECK_INT(
        open_run(&(request){.policy = "reservoir", .journal = place}, &pipeline, &loader, &err), ==,
        MR_OK);
    CHECK_INT(mr_loader_feed_back(loader, &feedback, &err), ==, MR_E_PARAM);
    CHECK_HAS(err.text, "priority");
    feedback.values = NULL;
    feedback.extra = &number;
    feedback.width = 1;
    CHECK_INT(mr_loader_feed_back(loader, &feedback, &err), ==, MR_OK);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

TEST(without_a_journal_nothing_can_be_said) {
    run(&part, &(request){"priority", NULL, NULL, 1, .says = true}, 0);
    CHECK_INT(part.status, ==, MR_E_PARAM);
    CHECK_HAS(part.err.text, "journal");
}

TEST(values_out_of_range_are_refused) {
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    char place[128];
    snprintf(place, sizeof place, "%s/third", root);
    CHECK_INT(
        open_run(&(request){.policy = "priority", .journal = place}, &pipeline, &loader, &err), ==,
        MR_OK);
    const double bad[] = {-1, 65536, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int64_t sample = 0;
        const mr_feedback feedback = {
            .size = sizeof feedback, .n = 1, .samples = &sample, .values = &bad[i]};
        CHECK_INT(mr_loader_feed_back(loader, &feedback, &err), ==, MR_E_PARAM);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

TEST(bytes_that_are_no_feedback_are_refused) {
    mr_said *said = NULL, *again = NULL;
    unsigned char bytes[400];
    CHECK_INT(mr_said_new(&said, 2, true, 3, NULL), ==, MR_OK);
    said->step = 9;
    said->after = 4;
    said->ids[1] = 77;
    said->values[1] = 2.5;
    said->extra[5] = 1.5F;
    size_t size = mr_said_bytes(said);
    CHECK_INT(size, <=, sizeof bytes);
    mr_said_save(said, bytes);
    CHECK_INT(mr_said_load(&again, bytes, size, NULL), ==, MR_OK);
    CHECK(again->step == 9 && again->after == 4 && again->ids[1] == 77 && again->values[1] == 2.5 &&
          again->extra[5] == 1.5F);
    mr_said_free(again);
    for (size_t cut = 0; cut < size; cut++) {
        CHECK_INT(mr_said_load(&again, bytes, cut, NULL), ==, MR_E_CORRUPT);
    }
    memset(bytes + 16, 0x7f, 8); /* far too many */
    CHECK_INT(mr_said_load(&again, bytes, size, NULL), ==, MR_E_CORRUPT);
    mr_said_free(said);
}

TEST(end) {
    fixture_remove(root);
}

TEST_MAIN()
