/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are slower or faster than training: what the clock decides is in the journal, and
 * with it the same bytes come again. */
#include <millrace/stream.h>
#include <signal.h>
#include <sys/resource.h>

#include "fixture.h"
#include "test.h"

enum { BATCH = 32, MOST = 3000 };

typedef struct course {
    int n, n_batches, replays, sizes[MOST];
    int64_t samples[MOST * 8];
    char digests[MOST][33];
    char *state;
    mr_status status;
    mr_error err;
} course;

static char root[64], stream[80], journal[96];

static void begin(void) {
    if (root[0]) {
        fixture_remove(root);
    }
    snprintf(root, sizeof root, "%s", fixture_folder());
    snprintf(stream, sizeof stream, "%s/stream", root);
    snprintf(journal, sizeof journal, "%s/journal", root);
}

static void append(int64_t n, bool keys) {
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    options.id = 11;
    CHECK_INT(mr_stream_writer_open(&writer, stream, &options, NULL), ==, MR_OK);
    for (int64_t i = 0; i < n; i++) {
        char value[40], key[40];
        int64_t number = mr_stream_next_number(writer);
        int size = snprintf(value, sizeof value, "value %" PRId64, number);
        int key_size = snprintf(key, sizeof key, "key %" PRId64, number);
        const mr_entry entry = {.label = number % 4,
                                .key = key,
                                .key_size = keys ? (size_t)key_size : 0,
                                .value = value,
                                .size = (size_t)size};
        CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
}

typedef struct run {
    mr_pipeline *pipeline;
    mr_loader *loader;
    bool rehearses;
} run;

static mr_status open_run(run *r, const char *rest, const char *state, mr_error *err) {
    char json[600];
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 2;
    options.batches_ahead = 2;
    options.digest = true;
    options.journal = journal;
    options.state = state;
    options.state_size = state ? strlen(state) : 0;
    snprintf(
        json, sizeof json,
        "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"partitions\": 1%s, "
        "\"batch\": %d, \"seed\": 3, \"fields\": [\"value\"]}",
        stream, rest, BATCH);
    *r = (run){.pipeline = fixture_pipeline(json)};
    return mr_loader_open(&r->loader, r->pipeline, &options, err);
}

static bool take(run *r, course *out) {
    mr_batch *batch = NULL;
    out->status = mr_loader_next(r->loader, &batch, &out->err);
    if (out->status != MR_OK) {
        return false;
    }
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        out->samples[out->n++] = mr_batch_samples(batch)[i];
    }
    snprintf(out->digests[out->n_batches], 33, "%s", mr_batch_digest(batch));
    out->sizes[out->n_batches++] = (int)mr_batch_size(batch);
    mr_batch_unref(batch);
    return true;
}

static void end(run *r, course *out) {
    if (r->loader) {
        size_t room = mr_loader_state_bytes(r->loader);
        out->state = malloc(room);
        CHECK_INT(mr_loader_save(r->loader, out->state, room, &out->err), ==, MR_OK);
    }
    mr_loader_close(r->loader);
    mr_pipeline_free(r->pipeline);
}

static void clear(course *out) {
    free(out->state);
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
}

static void check_same_from(const course *a, int first, const course *b) {
    for (int i = 0; i < b->n_batches && first + i < a->n_batches; i++) {
        CHECK_TEXT(b->digests[i], a->digests[first + i]);
    }
}

static course whole, part;

static void check_replay(int64_t steps) {
    mr_replay_result result = {.size = sizeof result};
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_replay(journal, NULL, 1, &result, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    CHECK_INT(result.steps, ==, steps);
    CHECK_INT(result.compared, >=, 1);
}

/* ---- Late ---- */
static const char fills[] = "}}, \"rehearse\": {\"size\": 100, \"share\": 0.25}, "
                            "\"pace\": {\"late\": \"fill\", \"patience\": 0.02}";

TEST(a_stream_that_stops_is_filled_up_with_old_samples) {
    run r;
    begin();
    append(100, false);
    clear(&whole);
    CHECK_INT(open_run(&r, fills, NULL, &whole.err), ==, MR_OK);
    while (whole.n_batches < 12 && take(&r, &whole)) {
    }
    append(100, false);
    while (whole.n_batches < 20 && take(&r, &whole)) {
    }
    end(&r, &whole);
    CHECK_INT(whole.n_batches, ==, 20);
    for (int i = 1; i < whole.n_batches; i++) {
        CHECK_INT(whole.sizes[i], ==, BATCH);
    }
    bool seen[200] = {false};
    for (int i = 0; i < whole.n; i++) {
        seen[whole.samples[i]] = true;
    }
    for (int i = 0; i < 100; i++) {
        CHECK(seen[i]);
    }
}

TEST(the_journal_gives_the_same_steps_again) {
    run r;
    check_replay(20);
    clear(&part);
    CHECK_INT(open_run(&r, fills, NULL, &part.err), ==, MR_OK);
    while (part.n_batches < 15 && take(&r, &part)) {
    }
    end(&r, &part);
    CHECK_INT(part.n_batches, ==, 15);
    check_same_from(&whole, 0, &part);
}

TEST(a_state_goes_on_by_the_journal) {
    run r;
    char *state = strdup(part.state);
    clear(&part);
    CHECK_INT(open_run(&r, fills, state, &part.err), ==, MR_OK);
    while (part.n_batches < 10 && take(&r, &part)) {
    }
    end(&r, &part);
    CHECK_INT(part.n_batches, ==, 10);
    check_same_from(&whole, 15, &part);
    check_replay(25);
    free(state);
}

TEST(two_runs_cannot_write_one_journal) {
    run one, two;
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(open_run(&one, fills, NULL, &err), ==, MR_OK);
    CHECK_INT(open_run(&two, fills, NULL, &err), ==, MR_E_IO);
    mr_pipeline_free(two.pipeline);
    mr_loader_close(one.loader);
    mr_pipeline_free(one.pipeline);
}

TEST(a_changed_stream_is_found_out) {
    char path[160];
    mr_replay_result result = {.size = sizeof result};
    mr_error err = MR_ERROR_INIT;
    snprintf(path, sizeof path, "%s/00000-0000000000000000000.seg", stream);
    FILE *file = fopen(path, "r+b");
    fseek(file, 64 + 64 + 2, SEEK_SET); /* in the first value */
    fputc('X', file);
    fclose(file);
    CHECK_INT(mr_replay(journal, NULL, 1, &result, &err), <, 0);
}

/* ---- Early ---- */
static int64_t gaps_of(const course *c) {
    int64_t gaps = c->samples[0];
    for (int i = 1; i < c->n; i++) {
        CHECK(c->samples[i] > c->samples[i - 1]);
        gaps += c->samples[i] - c->samples[i - 1] - 1;
    }
    return gaps;
}

static void check_early(const char *rest, bool keys) {
    run r;
    begin();
    append(5000, keys);
    clear(&whole);
    CHECK_INT(open_run(&r, rest, NULL, &whole.err), ==, MR_OK);
    while (take(&r, &whole)) {
        usleep(1000); /* slower than the stream */
        if (whole.n_batches == 4) {
            append(1000, keys);
        }
    }
    end(&r, &whole);
    CHECK_INT(whole.status, ==, MR_END);
    CHECK_INT(gaps_of(&whole), >, 0);
    check_replay(whole.n_batches);
    char *state = NULL;
    clear(&part);
    CHECK_INT(open_run(&r, rest, NULL, &part.err), ==, MR_OK);
    while (part.n_batches < 5 && take(&r, &part)) {
    }
    end(&r, &part);
    check_same_from(&whole, 0, &part);
    state = strdup(part.state);
    clear(&part);
    CHECK_INT(open_run(&r, rest, state, &part.err), ==, MR_OK);
    while (take(&r, &part)) {
    }
    end(&r, &part);
    CHECK_INT(part.n_batches, ==, whole.n_batches - 5);
    check_same_from(&whole, 5, &part);
    free(state);
}

TEST(what_is_too_old_is_dropped_as_the_journal_says) {
    check_early(
        ", \"until\": 6000}}, \"pace\": {\"early\": \"drop_oldest\", \"most_waiting\": 200}",
        false);
}

TEST(a_stream_is_thinned_by_its_keys_as_the_journal_says) {
    check_early(", \"until\": 6000}}, \"pace\": {\"early\": \"thin\", \"most_waiting\": 200}",
                true);
    check_early(", \"until\": 6000}}, \"pace\": {\"early\": \"thin\", \"most_waiting\": 200}",
                false);
}

/* A full disk, as a limit on the size of files: what was delivered is in the journal, and comes
 * again once there is room. */
TEST(a_journal_that_cannot_be_written_ends_the_run_before_a_decision_is_lost) {
    run r;
    struct rlimit old;
    begin();
    append(100, false);
    clear(&whole);
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){12000, old.rlim_max});
    CHECK_INT(open_run(&r, fills, NULL, &whole.err), ==, MR_OK);
    while (whole.n_batches < MOST && take(&r, &whole)) {
    }
    setrlimit(RLIMIT_FSIZE, &old);
    mr_loader_close(r.loader);
    mr_pipeline_free(r.pipeline);
    CHECK_INT(whole.status, ==, MR_E_IO);
    CHECK_HAS(whole.err.source, "journal");
    CHECK_INT(whole.n_batches, >, 3);
    clear(&part);
    CHECK_INT(open_run(&r, fills, NULL, &part.err), ==, MR_OK);
    while (part.n_batches < whole.n_batches && take(&r, &part)) {
    }
    end(&r, &part);
    CHECK_INT(part.n_batches, ==, whole.n_batches);
    check_same_from(&whole, 0, &part);
}

/* ---- Refused ---- */
TEST(what_makes_no_sense_is_refused) {
    run r;
    mr_error err = MR_ERROR_INIT;
    begin();
    append(10, false);
    CHECK_INT(open_run(&r, "}}, \"pace\": {\"early\": \"drop_oldest\"}, \"on_error\": \"skip\"",
                       NULL, &err),
              ==, MR_OK);
    mr_loader_close(r.loader);
    mr_pipeline_free(r.pipeline);
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    char json[300];
    snprintf(
        json, sizeof json,
        "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true}}, \"pace\": {\"early\": "
        "\"thin\"}}",
        stream);
    mr_pipeline *pipeline = fixture_pipeline(json);
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_PARAM);
    CHECK_HAS(err.hint, "--journal");
    mr_pipeline_free(pipeline);
}

TEST(clean_up) {
    clear(&whole);
    clear(&part);
    fixture_remove(root);
}

TEST_MAIN()
