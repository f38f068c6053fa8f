/* SPDX-License-Identifier: Apache-2.0 */
/* The law: batch(step) = f(dataset, pipeline, seed, epoch, step, world, rank), and of nothing else.
 * Everything is compared by the digests of samples, which cover every delivered byte. */
#include "fixture.h"
#include "plan/order.h"
#include "test.h"

#define OPS                                                                                        \
    "\"ops\": [{\"decode_image\": {}}, {\"random_resized_crop\": {\"size\": 16}}, "                \
    "{\"random_flip\": {}}, {\"random_apply\": {\"ops\": [{\"rotate\": {\"degrees\": 20}}]}}, "    \
    "{\"trivial_augment\": {}}, {\"color_jitter\": {\"brightness\": 0.4, \"hue\": 0.1}}, "         \
    "{\"normalize\": {\"mean\": [0.5, 0.4, 0.3], \"std\": [0.2, 0.3, 0.4]}}]"

enum { PHOTOS = 61, MOST = 4096 };

/* The digests of every sample of a run, in order, and where each batch ends. */
typedef struct stream {
    int n, n_batches;
    uint64_t digests[MOST];
    int64_t samples[MOST];
    int batch_end[MOST];
    int64_t epoch[MOST], step[MOST]; /* of each batch */
    char digest[33];
    char state[MR_STATE_MAX];
} stream;

static char *photos;
static const char *ops = OPS;

static void make_json(char *json, size_t size, const char *settings) {
    snprintf(json, size,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, %s, \"fields\": [\"image\", "
             "\"label\", \"index\"], %s}",
             photos, ops, settings);
}

static void take(stream *out, const mr_batch *batch) {
    for (int64_t i = 0; i < mr_batch_size(batch) && out->n < MOST; i++) {
        out->samples[out->n] = mr_batch_samples(batch)[i];
        out->digests[out->n++] = mr_batch_sample_digest(batch, i);
    }
    out->epoch[out->n_batches] = mr_batch_epoch(batch);
    out->step[out->n_batches] = mr_batch_step(batch);
    out->batch_end[out->n_batches++] = out->n;
}

/* Runs at most `steps` steps (-1: all). */
static void run(stream *out, const char *settings, mr_options options, int steps) {
    char json[2048];
    mr_error err = MR_ERROR_INIT;
    mr_batch *batch = NULL;
    make_json(json, sizeof json, settings);
    mr_pipeline *pipeline = fixture_pipeline(json);
    options.digest = true;
    mr_loader *loader = fixture_loader(pipeline, &options);
    memset(out, 0, sizeof *out);
    CHECK(loader != NULL);
    while (loader && steps-- != 0 && mr_loader_next(loader, &batch, &err) == MR_OK) {
        take(out, batch);
        mr_batch_unref(batch);
    }
    CHECK_TEXT(err.text, "");
    if (loader) {
        mr_loader_digest(loader, out->digest);
        CHECK_INT(mr_loader_save(loader, out->state, sizeof out->state, &err), ==, MR_OK);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

static mr_options with_threads(uint32_t threads) {
    mr_options options = MR_OPTIONS_INIT;
    options.threads = threads;
    return options;
}

static bool same(const stream *a, const stream *b) {
    return a->n == b->n && a->n_batches == b->n_batches &&
           memcmp(a->digests, b->digests, (size_t)a->n * sizeof *a->digests) == 0 &&
           strcmp(a->digest, b->digest) == 0;
}

static const char two_epochs[] = "\"batch\": 8, \"seed\": 7, \"epochs\": 2";
static stream whole, other, joined, part;

TEST(a_run_delivers_every_sample_once_an_epoch) {
    int seen[PHOTOS] = {0};
    run(&whole, two_epochs, with_threads(1), -1);
    CHECK_INT(whole.n, ==, 2 * PHOTOS);
    for (int i = 0; i < PHOTOS; i++) {
        seen[whole.samples[i]]++;
    }
    for (int i = 0; i < PHOTOS; i++) {
        CHECK_INT(seen[i], ==, 1);
    }
    CHECK(memcmp(whole.samples, whole.samples + PHOTOS, PHOTOS * sizeof *whole.samples) != 0);
}

TEST(threads_do_not_matter) {
    static const uint32_t counts[] = {2, 3, 8};
    for (size_t i = 0; i < 3; i++) {
        run(&other, two_epochs, with_threads(counts[i]), -1);
        CHECK(same(&whole, &other));
    }
}

TEST(seed_and_epoch_do_matter) {
    run(&other, "\"batch\": 8, \"seed\": 8, \"epochs\": 2", with_threads(2), -1);
    CHECK(!same(&whole, &other));
    run(&other, "\"batch\": 8, \"seed\": 0, \"epochs\": 2", with_threads(2), -1);
    CHECK(!same(&whole, &other));
}

TEST(how_files_are_read_does_not_matter) {
    mr_options options = with_threads(2);
    options.io = MR_IO_PREAD;
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
    options.reads_in_flight = 1;
    options.read_ahead_bytes = 1; /* every file is larger than what an entry may keep */
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
    options.io = MR_IO_AUTO;
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
    options.reads_in_flight = 7;
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
}

TEST(cpu_features_memory_and_depth_do_not_matter) {
    mr_options options = with_threads(2);
    options.disable_cpu = "avx512";
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
    options.disable_cpu = "avx2,neon";
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
    options.poison = true;
    options.batches_ahead = 5;
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
    options.batches_ahead = 1;
    run(&other, two_epochs, options, -1);
    CHECK(same(&whole, &other));
}

/* ---- Ranks ---- */
static stream rank_streams[8];

static void append_batch(stream *out, const stream *from, int batch) {
    int first = batch ? from->batch_end[batch - 1] : 0;
    for (int i = first; i < from->batch_end[batch]; i++) {
        out->digests[out->n++] = from->digests[i];
    }
}

/* Puts the ranks' batches of each step together, rank by rank. Rank 0 takes every step; others may
 * have no share of a short last one. */
static void join_ranks(stream *out, uint32_t world) {
    int next[8] = {0};
    memset(out, 0, sizeof *out);
    for (int batch = 0; batch < rank_streams[0].n_batches; batch++) {
        for (uint32_t r = 0; r < world; r++) {
            const stream *s = &rank_streams[r];
            bool has_it = next[r] < s->n_batches &&
                          s->step[next[r]] == rank_streams[0].step[batch] &&
                          s->epoch[next[r]] == rank_streams[0].epoch[batch];
            if (has_it) {
                append_batch(out, s, next[r]++);
            }
        }
    }
}

static void run_world(uint32_t world, const char *settings, const char *state, int steps) {
    for (uint32_t rank = 0; rank < world; rank++) {
        mr_options options = with_threads(1 + rank % 3);
        options.world = world;
        options.rank = rank;
        options.state = state;
        options.state_size = state ? strlen(state) : 0;
        run(&rank_streams[rank], settings, options, steps);
    }
    join_ranks(&joined, world);
}

TEST(ranks_together_are_one_rank) {
    static const char *const settings[] = {
        "\"batch\": 16, \"seed\": 3, \"remainder\": \"drop\"",
        "\"batch\": 16, \"seed\": 3, \"remainder\": \"pad\"",
        "\"batch\": 16, \"seed\": 3, \"remainder\": \"keep\"",
    };
    for (size_t i = 0; i < 3; i++) {
        run(&other, settings[i], with_threads(2), -1);
        for (uint32_t world = 2; world <= 8; world *= 2) {
            run_world(world, settings[i], NULL, -1);
            CHECK_INT(joined.n, ==, other.n);
            CHECK(memcmp(joined.digests, other.digests, (size_t)other.n * 8) == 0);
        }
    }
}

TEST(padding_gives_every_rank_the_same_steps) {
    run_world(8, "\"batch\": 16, \"remainder\": \"pad\"", NULL, -1);
    for (int rank = 0; rank < 8; rank++) {
        CHECK_INT(rank_streams[rank].n_batches, ==, 4);
        CHECK_INT(rank_streams[rank].n, ==, 8);
    }
}

/* ---- Resuming ---- */
static void check_tail(const stream *head, const stream *tail) {
    CHECK_INT(head->n + tail->n, ==, whole.n);
    CHECK(memcmp(tail->digests, whole.digests + head->n, (size_t)tail->n * 8) == 0);
}

TEST(resume_at_every_step) {
    for (int step = 0; step <= whole.n_batches; step++) {
        run(&part, two_epochs, with_threads(2), step);
        CHECK(strlen(part.state) < 1024);
        mr_options options = with_threads(3);
        options.state = part.state;
        options.state_size = strlen(part.state);
        run(&other, two_epochs, options, -1);
        check_tail(&part, &other);
        CHECK_TEXT(other.state, whole.state);
    }
}

TEST(resume_again_and_again) {
    mr_options options = with_threads(2);
    char state[MR_STATE_MAX] = "";
    int at = 0;
    for (int leg = 0; at < whole.n; leg++) {
        options.state = leg ? state : NULL;
        options.state_size = strlen(state);
        run(&part, two_epochs, options, 1 + leg % 3);
        CHECK(memcmp(part.digests, whole.digests + at, (size_t)part.n * 8) == 0);
        memcpy(state, part.state, sizeof state);
        at += part.n;
    }
    CHECK_INT(at, ==, whole.n);
}

TEST(resume_on_another_world) {
    static const uint32_t worlds[] = {2, 4, 8};
    run(&part, two_epochs, with_threads(2), 3);
    for (size_t i = 0; i < 3; i++) {
        run_world(worlds[i], two_epochs, part.state, -1);
        check_tail(&part, &joined);
    }
    run_world(4, two_epochs, NULL, 5);
    char state[MR_STATE_MAX];
    memcpy(state, rank_streams[3].state, sizeof state);
    int done = joined.n;
    run_world(2, two_epochs, state, -1);
    CHECK(memcmp(joined.digests, whole.digests + done, (size_t)joined.n * 8) == 0);
    CHECK_INT(done + joined.n, ==, whole.n);
}

TEST(resume_with_another_batch_size) {
    run(&part, two_epochs, with_threads(2), 3);
    mr_options options = with_threads(2);
    options.state = part.state;
    options.state_size = strlen(part.state);
    options.batch = 5;
    run(&other, two_epochs, options, -1);
    check_tail(&part, &other);
}

TEST(a_state_of_something_else_is_refused) {
    char json[2048];
    mr_loader *loader = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_options options = with_threads(1);
    options.state = whole.state;
    options.state_size = strlen(whole.state);
    make_json(json, sizeof json, "\"batch\": 8, \"seed\": 8");
    mr_pipeline *pipeline = fixture_pipeline(json);
    CHECK_INT(mr_loader_open(&loader, pipeline, &options, &err), ==, MR_E_STATE);
    CHECK_HAS(err.text, "seed 7");
    mr_pipeline_free(pipeline);
}

TEST(decoding_at_a_smaller_size_is_by_the_law_too) {
    mr_options options = with_threads(3);
    options.disable_cpu = "avx2,neon";
    ops =
        "\"ops\": [{\"decode_image\": {\"dct_scale\": true}}, {\"random_resized_crop\": {\"size\": "
        "4}}, {\"random_flip\": {}}, \"normalize\"]";
    run(&part, two_epochs, with_threads(1), -1);
    run(&other, two_epochs, options, -1);
    CHECK(same(&part, &other));
    ops = "\"ops\": [\"decode_image\", {\"random_resized_crop\": {\"size\": 4}}, {\"random_flip\": "
          "{}}, \"normalize\"]";
    run(&other, two_epochs, options, -1);
    CHECK_INT(part.n, ==, other.n);
    CHECK(!same(&part, &other));
    ops = OPS;
}

/* ---- Ops on batches ---- */
TEST(what_is_mixed_in_a_batch_is_by_the_law_too) {
    static stream plain, mixed;
    mr_options options = with_threads(1);
    ops = "\"ops\": [\"decode_image\", {\"resize\": {\"size\": [8, 8]}}, \"normalize\"]";
    run(&plain, two_epochs, options, -1);
    ops =
        "\"ops\": [\"decode_image\", {\"resize\": {\"size\": [8, 8]}}, \"normalize\", {\"one_of\": "
        "{\"ops\": [\"mix_up\", \"cut_mix\"], \"field\": \"image\"}}]";
    run(&mixed, two_epochs, options, -1);
    CHECK_INT(plain.n, ==, mixed.n);
    CHECK(!same(&plain, &mixed));
    CHECK(memcmp(plain.samples, mixed.samples, (size_t)plain.n * sizeof *plain.samples) == 0);
    for (uint32_t threads = 2; threads < 5; threads++) {
        run(&other, two_epochs, with_threads(threads), -1);
        CHECK(same(&mixed, &other));
    }
    run(&part, two_epochs, options, 3);
    static char state[MR_STATE_MAX];
    options.state = memcpy(state, part.state, sizeof state);
    options.state_size = strlen(state);
    run(&other, two_epochs, options, -1);
    CHECK_INT(part.n + other.n, ==, mixed.n);
    CHECK(memcmp(other.digests, mixed.digests + part.n, (size_t)other.n * sizeof *other.digests) ==
          0);
    ops = OPS;
}

/* ---- Bad samples ---- */
TEST(skipping_is_by_the_law_too) {
    char path[128];
    static stream one;
    snprintf(path, sizeof path, "%s/class0", photos);
    fixture_write(path, "000.jpg", "no picture", 10);
    fixture_write(path, "030.jpg", "", 0);
    const char settings[] = "\"batch\": 8, \"seed\": 7, \"epochs\": 2, \"on_error\": \"skip\"";
    run(&one, settings, with_threads(1), -1);
    CHECK_INT(one.n, ==, 2 * PHOTOS);
    for (uint32_t threads = 2; threads < 5; threads++) {
        run(&other, settings, with_threads(threads), -1);
        CHECK(same(&one, &other));
    }
    int differing = 0;
    for (int i = 0; i < one.n; i++) {
        differing += one.digests[i] != whole.digests[i];
        CHECK(one.samples[i] != 0);
    }
    CHECK_INT(differing, ==, 4); /* two bad samples in two epochs; all others as before */
}

/* An order that is computed is listed by whoever makes the samples. Steps of one rank from a state
 * on (NULL: from the beginning), against the order itself; the state behind them goes to `state`.
 */
enum { MANY = 70001, LARGE = 1000 };

static void check_many(uint32_t world, uint32_t rank, uint32_t threads, const char *from, int steps,
                       char *state) {
    mr_error err = MR_ERROR_INIT;
    mr_order order = {0};
    mr_batch *batch = NULL;
    mr_options options = with_threads(threads);
    options.world = world, options.rank = rank;
    options.state = from, options.state_size = from ? strlen(from) : 0;
    mr_pipeline *pipeline = fixture_pipeline(
        "{\"source\": {\"synthetic\": {\"samples\": 70001, \"shape\": [3]}}, "
        "\"ops\": [{\"cast\": {\"dtype\": \"float32\"}}], \"batch\": 1000, \"seed\": 5, "
        "\"epochs\": 2}");
    mr_loader *loader = fixture_loader(pipeline, &options);
    while (loader && steps-- != 0 && mr_loader_next(loader, &batch, &err) == MR_OK) {
        int64_t share = LARGE / world, first = mr_batch_step(batch) * LARGE + rank * share;
        CHECK_INT(mr_order_init(&order, MANY, true, 5, (uint32_t)mr_batch_epoch(batch), &err), ==,
                  MR_OK);
        for (int64_t i = 0; i < mr_batch_valid(batch) && first + i < MANY; i++) {
            CHECK_INT(mr_batch_samples(batch)[i], ==, mr_order_at(&order, first + i));
        }
        mr_order_free(&order);
        mr_batch_unref(batch);
    }
    CHECK_TEXT(err.text, "");
    CHECK_INT(mr_loader_save(loader, state, MR_STATE_MAX, &err), ==, MR_OK);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

TEST(an_order_that_workers_list_is_by_the_law_too) {
    static const uint32_t counts[] = {1, 2, 3, 8};
    char state[MR_STATE_MAX], later[MR_STATE_MAX];
    for (size_t i = 0; i < 4; i++) {
        check_many(1, 0, counts[i], NULL, -1, state);
        check_many(2, 1, counts[i], NULL, 30, state);
        check_many(4, 3, counts[i], NULL, 80, state);
        check_many(1, 0, counts[i], state, 70, later); /* another world goes on */
    }
}

TEST(clean_up) {
    fixture_remove(photos);
}

__attribute__((constructor)) static void set_up(void) {
    static char folder[64];
    snprintf(folder, sizeof folder, "%s", fixture_photos(PHOTOS));
    photos = folder;
}

TEST_MAIN()
