/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that follow a stream together over a fabric of Redis servers: each reads its own
 * partitions, and every rank delivers the bytes that it would deliver without a fabric. Ranks are
 * threads here. */
#include <millrace/stream.h>
#include <pthread.h>
#include <stdatomic.h>

#include "fixture.h"
#include "redis_rig.h"
#include "test.h"

enum { PARTITIONS = 4, EACH = 500, BATCH = 24, MOST_BATCHES = 400, MOST_WORLD = 6 };

static char folder[64];
static redis_server server;
static char url[64];

static void append(uint32_t partition, int64_t from, int64_t end) {
    unsigned char value[4200];
    char key[32];
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    options.partition = partition;
    options.segment_bytes = 30000;
    options.id = 11;
    CHECK_INT(mr_stream_writer_open(&writer, folder, &options, NULL), ==, MR_OK);
    for (int64_t i = from; writer && i < end; i++) {
        size_t size = 16 + (size_t)((uint64_t)i * 2654435761u % 4000);
        for (size_t k = 0; k < size; k++) {
            value[k] = (unsigned char)((size_t)i + k * 7 + 31 * (size_t)partition);
        }
        const mr_entry entry = {.label = i % 5,
                                .time = i,
                                .key = key,
                                .key_size = (size_t)snprintf(key, sizeof key, "%d", (int)i / 3),
                                .value = value,
                                .size = size};
        CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
}

/* One rank, and what it delivered. */
typedef struct rank_run {
    const char *rest, *fabric, *state, *journal;
    uint32_t world, rank;
    int steps;     /* 0: to the end */
    int64_t ahead; /* bytes that are read ahead; 0: as usual */
    void (*on_open)(const struct rank_run *r, const mr_loader *loader);
    void (*on_step)(int step);
    pthread_t thread;
    int n;
    char digests[MOST_BATCHES][33];
    mr_stream_stats stream;
    mr_status status;
    mr_error err;
    char *saved;
} rank_run;

static mr_pipeline *parse(const char *rest) {
    char json[700];
    snprintf(json, sizeof json,
             "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"partitions\": %d, "
             "\"until\": %d}}, \"fields\": [\"value\", \"label\", \"key\", \"time\"], "
             "\"batch\": %d, \"seed\": 3%s}",
             folder, PARTITIONS, EACH, BATCH, rest);
    return fixture_pipeline(json);
}

static void save(rank_run *r, mr_loader *loader) {
    size_t room = mr_loader_state_bytes(loader);
    r->saved = malloc(room);
    CHECK_INT(mr_loader_save(loader, r->saved, room, NULL), ==, MR_OK);
}

static void deliver(rank_run *r, mr_loader *loader) {
    mr_batch *batch = NULL;
    while ((r->steps == 0 || r->n < r->steps) &&
           (r->status = mr_loader_next(loader, &batch, &r->err)) == MR_OK) {
        snprintf(r->digests[r->n++], 33, "%s", mr_batch_digest(batch));
        mr_batch_unref(batch);
        if (r->on_step) {
            r->on_step(r->n);
        }
    }
    r->stream.size = sizeof r->stream;
    mr_loader_stream(loader, &r->stream);
    save(r, loader);
}

static void *run(void *context) {
    rank_run *r = context;
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    mr_pipeline *pipeline = parse(r->rest);
    r->err = (mr_error)MR_ERROR_INIT;
    options.threads = 2;
    options.world = r->world;
    options.rank = r->rank;
    options.digest = true;
    options.fabric = r->fabric;
    options.read_ahead_bytes = r->ahead;
    options.batches_ahead = r->ahead ? 2 : 0;
    options.journal = r->journal;
    options.state = r->state;
    options.state_size = r->state ? strlen(r->state) : 0;
    r->status = mr_loader_open(&loader, pipeline, &options, &r->err);
    if (loader && r->on_open) {
        r->on_open(r, loader);
    }
    if (loader) {
        deliver(r, loader);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return NULL;
}

static rank_run ranks[MOST_WORLD], alone[MOST_WORLD];

static void begin(rank_run *r, const rank_run *like, uint32_t rank) {
    free(r->saved);
    *r = *like;
    r->rank = rank;
}

/* All ranks of a world, beside each other. */
static void run_world(const rank_run *like) {
    for (uint32_t i = 0; i < like->world; i++) {
        begin(&ranks[i], like, i);
        pthread_create(&ranks[i].thread, NULL, run, &ranks[i]);
    }
    for (uint32_t i = 0; i < like->world; i++) {
        pthread_join(ranks[i].thread, NULL);
    }
}

/* Likewise, one after the other, without a fabric. */
static void run_alone(const rank_run *like) {
    for (uint32_t i = 0; i < like->world; i++) {
        begin(&alone[i], like, i);
        alone[i].fabric = NULL;
        run(&alone[i]);
    }
}

static void check_rank(const rank_run *r, const rank_run *same) {
    CHECK_INT(r->status, ==, same->status);
    CHECK_TEXT(r->err.text, same->err.text);
    CHECK_INT(r->n, ==, same->n);
    for (int i = 0; i < r->n && i < same->n; i++) {
        CHECK_TEXT(r->digests[i], same->digests[i]);
    }
}

static void check_world(const rank_run *like) {
    run_alone(like);
    run_world(like);
    for (uint32_t i = 0; i < like->world; i++) {
        check_rank(&ranks[i], &alone[i]);
    }
}

static const char rehearse[] = ", \"rehearse\": {\"size\": 200, \"share\": 0.5, \"lag\": 2}";

TEST(each_rank_reads_its_own_partitions_and_delivers_the_same) {
    redis_skip_without("redis-server");
    server = redis_begin("--maxmemory", "100mb");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        append(i, 0, EACH);
    }
    for (uint32_t world = 2; world <= MOST_WORLD; world++) {
        if (BATCH % world != 0) {
            continue;
        }
        check_world(&(rank_run){.rest = rehearse, .fabric = url, .world = world});
        int64_t entries = 0, received = 0;
        for (uint32_t i = 0; i < world; i++) {
            CHECK_INT(ranks[i].n, ==, 2 * PARTITIONS * EACH / BATCH + 1);
            entries += ranks[i].stream.entries;
            received += ranks[i].stream.received;
        }
        CHECK_INT(entries, ==, PARTITIONS * EACH); /* read once, by all ranks together */
        CHECK_INT(received, >, PARTITIONS * EACH / 4);
    }
}

TEST(every_policy_and_pace_is_the_same_over_a_fabric) {
    static const char *const rests[] = {
        ", \"rehearse\": {\"size\": 100, \"policy\": \"class_balanced\"}",
        ", \"rehearse\": {\"size\": 100, \"policy\": \"cbrs\", \"share\": 0.3}",
        ", \"rehearse\": {\"size\": 100, \"policy\": \"gdumb\"}",
        ", \"rehearse\": {\"size\": 100, \"policy\": \"fixed_rate\", \"classes\": 5}",
        ", \"rehearse\": {\"size\": 50, \"policy\": \"recent\", \"lag\": 5}",
        ", \"rehearse\": {\"size\": 100, \"policy\": \"priority\", \"memory\": 0}",
        ", \"remainder\": \"drop\", \"rehearse\": {\"size\": 100, \"samples_per_insert\": 2}"};
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        check_world(&(rank_run){.rest = rests[i], .fabric = url, .world = 2});
    }
}

/* What the clock decided is in the journal: who follows that without a fabric delivers the same. */
TEST(what_the_clock_decides_is_the_same_over_a_fabric) {
    static const char *const rests[] = {
        ", \"pace\": {\"early\": \"thin\", \"most_waiting\": 60}, \"rehearse\": {\"size\": 100}",
        ", \"pace\": {\"early\": \"drop_oldest\", \"most_waiting\": 100}",
        ", \"pace\": {\"late\": \"fill\", \"patience\": 0}, \"rehearse\": {\"size\": 100}"};
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        char journal[100];
        snprintf(journal, sizeof journal, "%s/journal%d", folder, (int)i);
        rank_run like = {.rest = rests[i], .fabric = url, .world = 2, .journal = journal};
        run_world(&like);
        for (uint32_t r = 0; r < 2; r++) { /* rank 0 goes on deciding, so it is the first */
            begin(&alone[r], &like, r);
            alone[r].fabric = NULL;
            run(&alone[r]);
            check_rank(&ranks[r], &alone[r]);
        }
        CHECK_INT(ranks[0].n, >, 3);
        CHECK(i == 1 || ranks[0].stream.sent > 0); /* dropping leaves whole rounds */
    }
}

TEST(a_state_goes_on_with_another_number_of_ranks) {
    run_world(&(rank_run){.rest = rehearse, .fabric = url, .world = 2, .steps = 40});
    char *state = strdup(ranks[1].saved);
    check_world(&(rank_run){.rest = rehearse, .fabric = url, .world = 4, .state = state});
    CHECK_INT(ranks[0].status, ==, MR_END);
    free(state);
}

/* ---- What goes wrong ---- */
TEST(who_leaves_is_done_without) {
    run_alone(&(rank_run){.rest = rehearse, .world = 3});
    for (uint32_t i = 0; i < 3; i++) {
        begin(&ranks[i], &(rank_run){.rest = rehearse, .fabric = url, .world = 3}, i);
        ranks[i].steps = i == 1 ? 30 : 0;
        pthread_create(&ranks[i].thread, NULL, run, &ranks[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        pthread_join(ranks[i].thread, NULL);
    }
    CHECK_INT(ranks[1].n, ==, 30);
    check_rank(&ranks[0], &alone[0]);
    check_rank(&ranks[2], &alone[2]);
    CHECK_INT(ranks[0].stream.entries, >, PARTITIONS * EACH / 3);
}

TEST(another_state_is_refused_by_all) {
    for (uint32_t i = 0; i < 2; i++) {
        begin(&ranks[i], &(rank_run){.rest = rehearse, .fabric = url, .world = 2}, i);
        ranks[i].rest = i ? rehearse : ", \"rehearse\": {\"size\": 100}";
        pthread_create(&ranks[i].thread, NULL, run, &ranks[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(ranks[i].thread, NULL);
        CHECK_INT(ranks[i].status, ==, MR_E_PARAM);
        CHECK_HAS(ranks[i].err.text, "rank 1 has another pipeline than rank 0");
    }
}

static atomic_int killed;

static void kill_server(int step) {
    int none = 0;
    if (step == 30 && atomic_compare_exchange_strong(&killed, &none, 1)) {
        redis_stop(&server);
    }
}

TEST(servers_that_die_cost_time_and_nothing_else) {
    check_world(&(rank_run){.rest = rehearse, .fabric = url, .world = 2, .on_step = NULL});
    rank_run like = {.rest = rehearse, .fabric = url, .world = 2, .on_step = kill_server};
    run_world(&like);
    CHECK_INT(atomic_load(&killed), ==, 1);
    redis_start(&server);
    check_rank(&ranks[0], &alone[0]);
    check_rank(&ranks[1], &alone[1]);
}

/* ---- Memory of other ranks ---- */
static const char spill[] = ", \"pace\": {\"early\": \"spill\", \"spill_to\": \"ranks\"}";
static const char spill_and_rehearse[] =
    ", \"pace\": {\"early\": \"spill\", \"spill_to\": \"ranks\", \"spill_bytes\": 2000000}, "
    "\"rehearse\": {\"size\": 200, \"share\": 0.5}";

/* Until nearly all that this rank reads is read, and lies with others: but for what is in memory,
 * of which steps are planned already. */
static void wait_for_spill(const rank_run *r, const mr_loader *loader) {
    mr_stream_stats stats = {.size = sizeof stats};
    int64_t own = PARTITIONS * EACH / r->world;
    do {
        redis_nap();
        mr_loader_stream(loader, &stats);
    } while (stats.spilled < own - 150 || stats.spill_bytes == 0);
}

static atomic_int ready;

/* One that is done before the other has spilled would leave it without a lender. */
static void wait_for_each_other(const rank_run *r, const mr_loader *loader) {
    wait_for_spill(r, loader);
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < 2) {
        redis_nap();
    }
}

TEST(entries_that_come_too_early_wait_in_the_memory_of_other_ranks) {
    run_alone(&(rank_run){.rest = "", .world = 2});
    rank_run like = {
        .rest = spill, .fabric = url, .world = 2, .ahead = 1, .on_open = wait_for_each_other};
    atomic_store(&ready, 0);
    run_world(&like);
    for (uint32_t i = 0; i < 2; i++) {
        check_rank(&ranks[i], &alone[i]);
        CHECK_INT(ranks[i].stream.spilled, >, EACH);
        CHECK_INT(ranks[i].stream.spill_bytes, ==, 0); /* all came back */
    }
    run_alone(&(rank_run){.rest = ", \"rehearse\": {\"size\": 200, \"share\": 0.5}", .world = 4});
    run_world(&(rank_run){.rest = spill_and_rehearse, .fabric = url, .world = 4, .ahead = 1});
    for (uint32_t i = 0; i < 4; i++) {
        check_rank(&ranks[i], &alone[i]);
    }
    run_alone(&(rank_run){.rest = spill, .world = 1});
    CHECK_INT(alone[0].status, ==, MR_END); /* one rank holds */
}

TEST(spilling_to_ranks_needs_a_way_to_them) {
    begin(&ranks[0], &(rank_run){.rest = spill, .world = 2}, 0);
    run(&ranks[0]);
    CHECK_INT(ranks[0].status, ==, MR_E_PARAM);
    CHECK_HAS(ranks[0].err.text, "no fabric");
}

/* A rank takes what was lent to it with it: that is read from the stream again. */
static atomic_int gone;
static bool trims;

static void wait_until_it_is_gone(const rank_run *r, const mr_loader *loader) {
    wait_for_each_other(r, loader);
    if (r->rank == 1) {
        return;
    }
    while (!atomic_load(&gone)) {
        redis_nap();
    }
    for (uint32_t i = 0; trims && i < PARTITIONS; i++) {
        CHECK_INT(mr_stream_trim(folder, i, 300, NULL, NULL), ==, MR_OK);
    }
}

static void *run_and_go(void *context) {
    run(context);
    atomic_store(&gone, 1);
    return NULL;
}

static void run_with_loss(void) {
    atomic_store(&ready, 0);
    atomic_store(&gone, 0);
    for (uint32_t i = 0; i < 2; i++) {
        begin(&ranks[i],
              &(rank_run){.rest = spill,
                          .fabric = url,
                          .world = 2,
                          .ahead = 1,
                          .on_open = wait_until_it_is_gone},
              i);
        ranks[i].steps = i == 1 ? 1 : 0;
        pthread_create(&ranks[i].thread, NULL, i == 1 ? run_and_go : run, &ranks[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(ranks[i].thread, NULL);
    }
}

TEST(what_a_rank_takes_with_it_is_read_again_or_an_error) {
    run_alone(&(rank_run){.rest = "", .world = 2});
    trims = false;
    run_with_loss();
    check_rank(&ranks[0], &alone[0]);
    trims = true;
    run_with_loss();
    CHECK_INT(ranks[0].status, ==, MR_E_STATE);
    CHECK_HAS(ranks[0].err.text, "was spilled to a rank that has left");
    CHECK_INT(ranks[0].n, >, 0);
    for (int i = 0; i < ranks[0].n; i++) {
        CHECK_TEXT(ranks[0].digests[i], alone[0].digests[i]);
    }
}

TEST(clean_up) {
    for (int i = 0; i < MOST_WORLD; i++) {
        free(ranks[i].saved);
        free(alone[i].saved);
    }
    redis_end(&server);
    fixture_remove(folder);
}

TEST_MAIN()
