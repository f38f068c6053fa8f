/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom while blocks come in: whoever may take long to answer is not asked by the
 * thread that reads, and a worker that waits for one block unpacks the others. The latter is a
 * circle that would never end if the worker slept instead; the test then gives up. */
#include "run/read/readahead.h"
#include "toy_rig.h"

#include <pthread.h>
#include <unistd.h>

/* ---- An origin that notes who asks, and answers for the last block when it is told to ---- */
typedef struct gatekeeper {
    bool holds_back;
    _Atomic(mr_load *) held_back;
    char asked_by[16]; /* the thread's name: one thread asks */
} gatekeeper;

static bool settles(const mr_load *load) {
    for (int ms = 0; !mr_load_is_settled(load) && ms < 20000; ms++) {
        usleep(1000);
    }
    return mr_load_is_settled(load);
}

static mr_answer ask(void *state, mr_load *load) {
    gatekeeper *gate = state;
    pthread_getname_np(pthread_self(), gate->asked_by, sizeof gate->asked_by);
    if (gate->holds_back && load->block.number == BLOCKS - 1) {
        gate->held_back = load;
        return MR_ANSWER_LATER;
    }
    return MR_ANSWER_NOT_HERE;
}

static const mr_origin_class gate_class = {.name = "gate", .ask = ask};

/* ---- Loads of the toy's blocks ---- */
typedef struct rig {
    mr_pipeline *pipeline;
    mr_dataset dataset;
    mr_tracks tracks;
    mr_track *waiting; /* of whoever waits: nobody reads it */
    gatekeeper gate;
    mr_origin origin;
    mr_readahead *readahead;
    mr_load loads[BLOCKS], *list[BLOCKS];
} rig;

static void open_dataset(rig *r, const char *source) {
    char json[128];
    toy *user = &own;
    mr_error err = MR_ERROR_INIT;
    const mr_log silent = {0};
    static mr_source_class table, single;
    table = table_of(&own, &user);
    single = table_of_single("toy_single", true, user);
    const mr_source_class *sources[] = {&table, &single, NULL};
    const mr_tables tables = {sizeof tables, NULL, sources};
    snprintf(json, sizeof json, "{\"source\": \"%s\", \"shuffle\": false}", source);
    CHECK_INT(mr_pipeline_parse_with(&r->pipeline, json, strlen(json), &tables, &err), ==, MR_OK);
    CHECK_INT(mr_dataset_open(&r->dataset, r->pipeline, &(mr_dataset_terms){"", 0}, &silent, &err),
              ==, MR_OK);
}

static void rig_open(rig *r, const char *source, mr_io_kind io) {
    mr_error err = MR_ERROR_INIT;
    r->origin = (mr_origin){.class = &gate_class, .state = &r->gate};
    const mr_readahead_config config = {
        .intake = {.origins = &r->origin,
                   .n_origins = 1,
                   .most_held = BLOCKS,
                   .bytes = 1 << 20,
                   .threads = 1},
        .in_flight = 4,
        .io = io,
        .tracks = &r->tracks,
    };
    open_dataset(r, source);
    CHECK(mr_tracks_init(&r->tracks, 9, 0, 1, 0));
    r->waiting = mr_tracks_add(&r->tracks, MR_TRACK_WORKER);
    CHECK_INT(mr_readahead_open(&r->readahead, &config, &err), ==, MR_OK);
    for (int i = 0; i < BLOCKS; i++) {
        r->loads[i] = (mr_load){.block.number = i, .dataset = &r->dataset};
        r->list[i] = &r->loads[i];
    }
    CHECK(mr_intake_plan(mr_readahead_intake(r->readahead), r->list, BLOCKS));
}

static void rig_close(rig *r) {
    mr_readahead_end(r->readahead);
    for (int i = 0; i < BLOCKS; i++) {
        mr_intake_empty(mr_readahead_intake(r->readahead), &r->loads[i]);
    }
    mr_readahead_close(r->readahead);
    mr_tracks_free(&r->tracks);
    mr_dataset_close(&r->dataset);
    mr_pipeline_free(r->pipeline);
}

static void *wait_for_the_last(void *context) {
    rig *r = context;
    mr_error err = MR_ERROR_INIT;
    const mr_waiter waiter = {.track = r->waiting};
    mr_status status =
        mr_intake_await(mr_readahead_intake(r->readahead), &r->loads[BLOCKS - 1], &waiter, &err);
    return (void *)(intptr_t)status;
}

TEST(make_files) {
    write_files(fixture_folder());
}

TEST(the_thread_that_reads_asks_nobody) {
    static rig r;
    r = (rig){0};
    rig_open(&r, "toy_single", MR_IO_AUTO);
    CHECK(settles(&r.loads[BLOCKS - 1]));
    CHECK_INT(r.loads[BLOCKS - 1].status, ==, MR_OK);
    CHECK_TEXT(r.gate.asked_by, "mr-ask");
    rig_close(&r);
}

static void check_unpacking(mr_io_kind io) {
    static rig r;
    pthread_t worker;
    void *status = NULL;
    r = (rig){.gate.holds_back = true};
    atomic_store(&own.unpacked, 0);
    rig_open(&r, "toy", io);
    pthread_create(&worker, NULL, wait_for_the_last, &r);
    bool all = true;
    for (int i = 0; all && i < BLOCKS - 1; i++) {
        all = settles(&r.loads[i]);
    }
    CHECK(all);
    CHECK_INT(own.unpacked, ==, (BLOCKS - 1) * PARTS);
    CHECK(!mr_load_is_settled(&r.loads[BLOCKS - 1]));
    while (!r.gate.held_back) {
        usleep(1000);
    }
    mr_load_answer(r.gate.held_back, MR_ANSWER_NOT_HERE);
    pthread_join(worker, &status);
    CHECK_INT((intptr_t)status, ==, MR_OK);
    CHECK_INT(own.unpacked, ==, BLOCKS * PARTS);
    rig_close(&r);
}

TEST(a_worker_that_waits_for_one_block_unpacks_the_others) {
    check_unpacking(MR_IO_AUTO);
    check_unpacking(MR_IO_PREAD);
}

/* ---- How often readers are woken ---- */
enum { HELD = 8 };

static void count_wake(void *user) {
    ++*(int *)user;
}

/* The reader's part: begins a load and is done with it, badly. False: none may be begun. */
static bool read_one(mr_intake *intake) {
    mr_error err = MR_ERROR_INIT;
    mr_load *load = mr_intake_start(intake);
    if (load) {
        mr_fail(&err, MR_E_IO, "gone");
        mr_load_fail(load, MR_E_IO, &err);
        load->pieces_left = 1;
        mr_intake_piece_done(intake, load);
    }
    return load != NULL;
}

TEST(readers_are_woken_for_a_quarter_of_what_may_be_held) {
    static rig r;
    r = (rig){0};
    int wakes = 0, read = 0;
    mr_error err = MR_ERROR_INIT;
    mr_intake intake = {0};
    const mr_intake_config config = {.most_held = HELD, .bytes = 1 << 20, .threads = 1};
    static mr_load loads[3 * HELD], *list[3 * HELD];
    open_dataset(&r, "toy_single");
    CHECK_INT(mr_intake_init(&intake, &config, &err), ==, MR_OK);
    for (int i = 0; i < 3 * HELD; i++) {
        loads[i] = (mr_load){.block.number = i % BLOCKS, .dataset = &r.dataset};
        list[i] = &loads[i];
    }
    CHECK(mr_intake_plan(&intake, list, 3 * HELD));
    intake.wake_reader = count_wake;
    intake.wake_user = &wakes;
    while (read_one(&intake)) {
        read++;
    }
    CHECK_INT(read, ==, HELD);
    for (int i = 0; i < 2 * HELD; i++) { /* a worker lets go of one after the other */
        CHECK(mr_intake_let_go(&intake, &loads[i]));
        CHECK_INT(wakes, ==, (i + 1) / (HELD / 4));
        while ((i + 1) % (HELD / 4) == 0 && read_one(&intake)) {
            read++;
        }
    }
    CHECK_INT(read, ==, 3 * HELD);
    for (int i = 2 * HELD; i < 3 * HELD; i++) {
        CHECK(mr_intake_let_go(&intake, &loads[i]));
    }
    mr_intake_free(&intake);
    mr_dataset_close(&r.dataset);
    mr_pipeline_free(r.pipeline);
}

TEST_MAIN()
