/* SPDX-License-Identifier: Apache-2.0 */
/* test_power_loss.c - every state of index and segments that a kill or a power loss can leave: what
 * two pipelines do to a store is recorded (record.h), folders are made of each beginning of the
 * record, and in each the stream is the same, and what the store has afterwards is whole.
 *
 * MR_SEED and MR_STATES choose what is lost, and how often. */
#include "record.h"
#include "rig.h"

#include <time.h>

enum { WAYS = 2, STATES = 60 };

static char store[96];
static outcome expected[WAYS];

static void use_pipeline(int way, bool cached) {
    char ops[512], cache[256] = "";
    if (cached) {
        snprintf(cache, sizeof cache, "{\"cache\": {\"path\": \"%s\", \"size\": \"2MB\"}},", store);
    }
    snprintf(ops, sizeof ops, "%s %s", way ? "{\"resize\": {\"size\": [20, 24]}}," : "", cache);
    rig_write_pipeline("fail", ops);
}

static void forget_store(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", store);
    CHECK_INT(system(command), ==, 0);
}

static void begin(void) {
    const struct timespec settle = {0, 80000000}; /* files of just now are not kept */
    rig_make("fail");
    snprintf(store, sizeof store, "%s/store", rig_folder);
    nanosleep(&settle, NULL);
    for (int way = 0; way < WAYS; way++) {
        use_pipeline(way, false);
        expected[way] = rig_run();
        CHECK_INT(expected[way].status, ==, MR_END);
    }
}

static int record_runs(void) {
    record_begin(store);
    for (int way = 0; way < WAYS; way++) {
        use_pipeline(way, true);
        CHECK_TEXT(rig_run().digest, expected[way].digest);
    }
    return record_end();
}

/* Whatever boot wrote the mark, it was another. */
static void change_boot(void) {
    char path[160], mark[64] = "";
    snprintf(path, sizeof path, "%s/unsynced", store);
    FILE *file = fopen(path, "r+");
    if (file && fgets(mark, sizeof mark, file) && mark[0]) {
        rewind(file);
        fputc(mark[0] == '0' ? '1' : '0', file);
    }
    if (file) {
        fclose(file);
    }
}

static bool is_right(int way) {
    use_pipeline(way, true);
    outcome result = rig_run();
    return result.status == MR_END && strcmp(result.digest, expected[way].digest) == 0;
}

/* The first run may find damage; after it all is whole. */
static bool is_whole(void) {
    char params[160];
    int64_t checked = 0, damaged = -1;
    mr_error err = MR_ERROR_INIT;
    snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
    return mr_store_verify(params, NULL, &checked, &damaged, &err) == MR_OK && damaged == 0 &&
           checked > 0;
}

static void check_state(const char *what, int n, uint64_t seed) {
    bool right = is_right(n % WAYS) && is_right((n + 1) % WAYS), whole = right && is_whole();
    if (!whole) {
        fprintf(stderr, "%s after %d things, MR_SEED=%llu: %s\n", what, n, (unsigned long long)seed,
                right ? "the store is damaged" : "the stream is another");
    }
    CHECK(whole);
    forget_store();
}

static uint64_t first_seed(void) {
    const char *given = getenv("MR_SEED");
    return given ? strtoull(given, NULL, 10) : 1;
}

static int states(int most) {
    const char *given = getenv("MR_STATES");
    return given ? atoi(given) : most;
}

TEST(killed_after_any_write) {
    begin();
    int n = record_runs(), step = n / states(STATES) + 1;
    CHECK_INT(n, >, 40);
    printf("%d things were done to the store\n", n);
    for (int i = 0; i <= n; i += step) {
        uint64_t state = first_seed() + (uint64_t)i;
        forget_store();
        CHECK(record_make_killed(store, i, &state));
        check_state("killed", i, first_seed());
    }
    record_forget();
    rig_remove();
}

TEST(the_power_went_at_any_time) {
    begin();
    int n = record_runs();
    for (uint64_t i = 0; i < (uint64_t)states(STATES); i++) {
        uint64_t seed = first_seed() + i, state = seed * 7919;
        int until = (int)((i * 2654435761u + seed) % (uint64_t)(n + 1));
        forget_store();
        CHECK(record_make_lost(store, until, &state));
        change_boot();
        check_state("the power went", until, seed);
    }
    record_forget();
    rig_remove();
}

TEST_MAIN()
