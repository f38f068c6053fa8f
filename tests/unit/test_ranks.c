/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks on one stream and one journal: what the clock, a policy and the trainers of all
 * ranks decide holds for all of them; a replay, on any number of ranks, makes the same global
 * batches. */
#include <millrace/stream.h>

#include "fixture.h"
#include "test.h"

enum { WORLD = 3, PARTITIONS = 3, BATCH = 36, MOST = 200, WIDTH = 2 };

static char root[64], stream[80], journal[96];

static void begin(void) {
    if (root[0]) {
        fixture_remove(root);
    }
    snprintf(root, sizeof root, "%s", fixture_folder());
    snprintf(stream, sizeof stream, "%s/stream", root);
    snprintf(journal, sizeof journal, "%s/journal", root);
}

static void append(int64_t n) {
    for (uint32_t k = 0; k < PARTITIONS; k++) {
        mr_stream_options options = MR_STREAM_OPTIONS_INIT;
        mr_stream_writer *writer = NULL;
        options.id = 11;
        options.partition = k;
        CHECK_INT(mr_stream_writer_open(&writer, stream, &options, NULL), ==, MR_OK);
        for (int64_t i = 0; i < n; i++) {
            char value[40];
            int64_t number = mr_stream_next_number(writer);
            int size = snprintf(value, sizeof value, "value %u %" PRId64, k, number);
            const mr_entry entry = {.label = number % 4, .value = value, .size = (size_t)size};
            CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
        }
        CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
    }
}

/* What a step of all ranks has: rows in any order. */
typedef struct row {
    int64_t sample, is_replay, weight, extra[WIDTH]; /* the weight in 65536ths */
} row;

typedef struct global {
    int n;
    row rows[BATCH];
    char digests[WORLD][33];
} global;

static int by_sample(const void *x, const void *y) {
    return memcmp(x, y, sizeof(row));
}

typedef struct team {
    mr_pipeline *pipeline;
    mr_loader *ranks[WORLD];
    int world;
    mr_status status;
    mr_error err;
} team;

static mr_status open_team(team *t, int world, const char *rest, const char *state, bool replay,
                           const mr_policy *policy) {
    char json[700];
    *t = (team){.world = world, .err = MR_ERROR_INIT};
    snprintf(
        json, sizeof json,
        "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"partitions\": %d%s, "
        "\"batch\": %d, \"seed\": 3, \"remainder\": \"drop\"}",
        stream, PARTITIONS, rest, BATCH);
    t->pipeline = fixture_pipeline(json);
    for (int rank = 0; rank < world && t->status == MR_OK; rank++) {
        mr_options options = MR_OPTIONS_INIT;
        options.threads = 1;
        options.world = (uint32_t)world;
        options.rank = (uint32_t)rank;
        options.batches_ahead = 2;
        options.digest = true;
        options.journal = journal;
        options.replay = replay;
        options.policy = rank == 0 ? policy : NULL;
        options.state = state;
        options.state_size = state ? strlen(state) : 0;
        t->status = mr_loader_open(&t->ranks[rank], t->pipeline, &options, &t->err);
    }
    return t->status;
}

static void add_rows(const team *t, const mr_batch *batch, global *out) {
    int32_t fields = mr_batch_n_arrays(batch);
    (void)t;
    for (int64_t i = 0; i < mr_batch_size(batch) && out->n < BATCH; i++) {
        row *own = &out->rows[out->n++];
        memset(own, 0, sizeof *own);
        own->sample = mr_batch_samples(batch)[i];
        if (fields > 2) {
            const mr_array *e = mr_batch_array(batch, 3);
            own->is_replay = ((const uint8_t *)mr_batch_array(batch, 1)->data)[i];
            own->weight = (int64_t)(((const float *)mr_batch_array(batch, 2)->data)[i] * 65536);
            int64_t n = e->offsets[i + 1] - e->offsets[i];
            for (int64_t k = 0; k < n && k < WIDTH; k++) {
                own->extra[k] = (int64_t)((const float *)e->data)[e->offsets[i] + k];
            }
        }
    }
}

/* Each rank speaks of its own samples. */
static mr_status say(mr_loader *loader, const mr_batch *batch, int step, mr_error *err) {
    static double values[BATCH];
    static float extra[BATCH * WIDTH];
    const int64_t *samples = mr_batch_samples(batch);
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        values[i] = samples[i] % 5 == 1 ? 300 : 1;
        extra[i * WIDTH] = (float)samples[i];
        extra[i * WIDTH + 1] = (float)(step + 1);
    }
    const mr_feedback feedback = {.size = sizeof feedback,
                                  .n = mr_batch_size(batch),
                                  .samples = samples,
                                  .values = values,
                                  .extra = extra,
                                  .width = WIDTH};
    return mr_loader_feed_back(loader, &feedback, err);
}

static bool take(team *t, int step, bool says, global *out) {
    memset(out, 0, sizeof *out);
    for (int rank = 0; rank < t->world && t->status == MR_OK; rank++) {
        mr_batch *batch = NULL;
        t->status = mr_loader_next(t->ranks[rank], &batch, &t->err);
        if (t->status == MR_OK) {
            add_rows(t, batch, out);
            snprintf(out->digests[rank], 33, "%s", mr_batch_digest(batch));
            t->status = says ? say(t->ranks[rank], batch, step, &t->err) : MR_OK;
            mr_batch_unref(batch);
        }
    }
    qsort(out->rows, (size_t)out->n, sizeof(row), by_sample);
    return t->status == MR_OK;
}

/* The state of a rank; all have the same. */
static char *save(const team *t, int rank, char *state) {
    size_t room = mr_loader_state_bytes(t->ranks[rank]);
    char *own = malloc(room);
    CHECK_INT(mr_loader_save(t->ranks[rank], own, room, NULL), ==, MR_OK);
    if (!state) {
        return own;
    }
    if (t->status == MR_OK) {
        CHECK_TEXT(own, state);
    }
    free(own);
    return state;
}

static char *close_team(team *t) {
    char *state = NULL;
    for (int rank = 0; rank < t->world; rank++) {
        if (t->ranks[rank]) {
            state = save(t, rank, state);
            mr_loader_close(t->ranks[rank]);
        }
    }
    mr_pipeline_free(t->pipeline);
    return state;
}

static global whole[MOST], again;

static void check_same(int step) {
    CHECK_INT(again.n, ==, whole[step].n);
    CHECK(memcmp(again.rows, whole[step].rows, sizeof again.rows) == 0);
}

static void check_replay(int64_t steps) {
    mr_replay_result result = {.size = sizeof result};
    mr_error err = MR_ERROR_INIT;
    CHECK_INT(mr_replay(journal, NULL, 1, &result, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    CHECK_INT(result.steps, ==, steps);
    CHECK_INT(result.compared, >=, WORLD);
}

static void check_other_worlds(const char *rest, int steps) {
    for (int world = 1; world <= WORLD; world++) {
        team t;
        CHECK_INT(open_team(&t, world, rest, NULL, true, NULL), ==, MR_OK);
        for (int i = 0; i < steps && take(&t, i, false, &again); i++) {
            check_same(i);
        }
        CHECK_INT(t.status, ==, MR_OK);
        free(close_team(&t));
    }
}

/* ---- What the clock decides, and what every rank says ---- */
static const char fills[] =
    "}}, \"rehearse\": {\"size\": 100, \"share\": 0.5, \"policy\": \"priority\"}, \"pace\": "
    "{\"late\": \"fill\", \"patience\": 0.01}, \"fields\": [\"value\", \"is_replay\", \"weight\", "
    "\"extra\"]";

typedef struct tally {
    int with_extra, filled;
    bool heard[WORLD];
} tally;

static void count(tally *c, const global *g) {
    int64_t replays = 0;
    for (int k = 0; k < g->n; k++) {
        const row *r = &g->rows[k];
        replays += r->is_replay;
        c->with_extra += r->extra[1] > 0;
        c->heard[r->sample % WORLD] |= r->extra[1] > 0;
        CHECK(r->extra[1] == 0 || r->extra[0] == r->sample);
    }
    c->filled += replays > BATCH / 2;
}

TEST(ranks_do_what_rank_0_decides_and_hear_what_all_say) {
    enum { STEPS = 40 };
    team t;
    tally c = {.filled = 0};
    begin();
    append(200);
    CHECK_INT(open_team(&t, WORLD, fills, NULL, false, NULL), ==, MR_OK);
    for (int i = 0; i < STEPS && take(&t, i, true, &whole[i]); i++) {
        count(&c, &whole[i]);
    }
    CHECK_INT(t.status, ==, MR_OK);
    CHECK_TEXT(t.err.text, "");
    free(close_team(&t));
    CHECK_INT(c.filled, >, 5); /* the stream has 33 steps' worth */
    CHECK_INT(c.with_extra, >, 100);
    CHECK(c.heard[0] && c.heard[1] && c.heard[2]);
    check_replay(STEPS);
    check_other_worlds(fills, STEPS);
}

TEST(ranks_go_on_from_a_state_and_other_numbers_of_ranks_too) {
    for (int world = 1; world <= WORLD; world += 2) {
        team t;
        CHECK_INT(open_team(&t, WORLD, fills, NULL, false, NULL), ==, MR_OK);
        for (int i = 0; i < 15 && take(&t, i, true, &again); i++) {
            check_same(i);
        }
        char *state = close_team(&t);
        CHECK_INT(open_team(&t, world, fills, state, false, NULL), ==, MR_OK);
        for (int i = 15; i < 40 && take(&t, i, world == WORLD, &again); i++) {
            check_same(i);
        }
        CHECK_INT(t.status, ==, MR_OK);
        free(close_team(&t));
        free(state);
    }
}

TEST(a_rank_has_one_writer) {
    team one, two;
    CHECK_INT(open_team(&one, WORLD, fills, NULL, false, NULL), ==, MR_OK);
    CHECK_INT(open_team(&two, WORLD, fills, NULL, false, NULL), ==, MR_E_IO);
    free(close_team(&two));
    free(close_team(&one));
}

/* ---- What is left out, to the end ---- */
static void check_early(const char *rest) {
    team t;
    int n = 0, left_out = 0;
    int64_t next = 0;
    begin();
    append(1500);
    CHECK_INT(open_team(&t, WORLD, rest, NULL, false, NULL), ==, MR_OK);
    while (n < MOST && take(&t, n, false, &whole[n])) {
        for (int k = 0; k < whole[n].n; k++) {
            left_out += whole[n].rows[k].sample > next;
            next = whole[n].rows[k].sample + 1;
        }
        usleep(1000); /* slower than the stream */
        n++;
    }
    CHECK_INT(t.status, ==, MR_END);
    CHECK_INT(left_out, >, 0);
    for (int rank = 0; rank < WORLD; rank++) { /* whoever asks: it is over */
        mr_batch *batch = NULL;
        CHECK_INT(mr_loader_next(t.ranks[rank], &batch, NULL), ==, MR_END);
    }
    free(close_team(&t));
    check_replay(n);
    check_other_worlds(rest, n);
}

TEST(ranks_leave_out_the_same) {
    check_early(", \"until\": 1500}}, \"pace\": {\"early\": \"thin\", \"most_waiting\": 150}, "
                "\"fields\": [\"value\"]");
    check_early(
        ", \"until\": 1500}}, \"pace\": {\"early\": \"drop_oldest\", \"most_waiting\": 150}, "
        "\"fields\": [\"value\"]");
}

/* ---- A policy that one rank has ---- */
static mr_status place(void *user, const mr_policy_view *view, const int64_t *samples,
                       const int64_t *labels, const uint64_t *keys, int64_t n, int64_t *places,
                       mr_error *err) {
    int64_t there = view->n;
    (void)user, (void)samples, (void)labels, (void)err;
    for (int64_t i = 0; i < n; i++) {
        places[i] = there < view->size ? there++ : (int64_t)(keys[i] % (uint64_t)view->size);
    }
    return MR_OK;
}

static mr_status draw(void *user, const mr_policy_view *view, const uint64_t *keys, int64_t n,
                      int64_t *places, double *weights, mr_error *err) {
    (void)user, (void)weights, (void)err;
    for (int64_t i = 0; i < n; i++) {
        places[i] = (int64_t)(keys[i] % (uint64_t)view->n);
    }
    return MR_OK;
}

TEST(a_policy_is_asked_by_rank_0_alone) {
    static const char custom[] =
        "}}, \"rehearse\": {\"size\": 100, \"share\": 0.5, \"policy\": \"custom\"}, \"fields\": "
        "[\"value\", \"is_replay\", \"weight\", \"extra\"]";
    enum { STEPS = 30 };
    const mr_policy policy = {.size = sizeof policy, .place = place, .draw = draw};
    team t;
    begin();
    append(400);
    CHECK_INT(open_team(&t, WORLD, custom, NULL, false, &policy), ==, MR_OK);
    for (int i = 0; i < STEPS && take(&t, i, false, &whole[i]); i++) {
        CHECK_INT(whole[i].n, ==, i == 0 ? BATCH / 2 : BATCH);
    }
    CHECK_INT(t.status, ==, MR_OK);
    CHECK_TEXT(t.err.text, "");
    free(close_team(&t));
    check_replay(STEPS);
    check_other_worlds(custom, STEPS);
}

TEST(clean_up) {
    fixture_remove(root);
}

TEST_MAIN()
