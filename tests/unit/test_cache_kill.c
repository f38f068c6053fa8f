/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that share a store and are killed at any moment: what the others deliver is right, and
 * what they leave behind is a whole store in which nothing is stuck. */
#include "cache_rig.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 4, KILLS = 100, WAYS = 2, SAMPLES = 150, LIMIT = 2000000 };

static char store[128], digests[WAYS][33];

/* Both ways together are larger than the store, so that it is written to and evicts all the time.
 */
static void pipeline(char *json, size_t size, int way, bool cached) {
    char cache[256];
    snprintf(cache, sizeof cache, ", {\"cache\": {\"path\": \"%s\", \"size\": %d%s}}", store, LIMIT,
             way ? ", \"compression\": \"lz4\"" : "");
    snprintf(json, size,
             "{\"source\": {\"synthetic\": {\"samples\": %d, \"shape\": [%d]}}, "
             "\"ops\": [\"tally\"%s], \"batch\": 16, \"epochs\": 2}",
             SAMPLES, 10000 + way, cached ? cache : "");
}

static pid_t start(int way) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char json[1024];
        alarm(60);
        pipeline(json, sizeof json, way, true);
        rig_result result = rig_run(json);
        bool right = result.status == MR_END && strcmp(result.digest, digests[way]) == 0 &&
                     result.caches[0].damaged == 0 && result.log.lines == 0;
        if (!right) {
            fprintf(stderr, "status %d, %s, wanted %s, damaged %" PRId64 ": %s%s\n", result.status,
                    result.digest, digests[way], result.caches[0].damaged, result.error,
                    result.log.text);
        }
        _exit(right ? 0 : 1);
    }
    return child;
}

typedef struct tally {
    int killed, finished, bad;
} tally;

static void note_end(tally *t, int status) {
    t->killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    t->finished += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    t->bad += WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL;
}

/* Kills one after the other; whoever is gone is replaced. */
static tally kill_loop(uint64_t seed, int kills) {
    tally t = {0, 0, 0};
    uint64_t state = seed;
    pid_t children[JOBS];
    for (int i = 0; i < JOBS; i++) {
        children[i] = start(i % WAYS);
    }
    while (t.killed < kills && t.bad == 0) {
        int i = (int)(rig_random(&state) % JOBS), status = 0;
        const struct timespec pause = {0, (long)(rig_random(&state) % 25000000)};
        nanosleep(&pause, NULL);
        if (rig_random(&state) % 8 != 0) { /* the others may finish */
            kill(children[i], SIGKILL);
        }
        waitpid(children[i], &status, 0);
        note_end(&t, status);
        children[i] = start(i % WAYS);
    }
    for (int i = 0; i < JOBS; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        note_end(&t, status);
    }
    return t;
}

static void check_what_is_left(void) {
    char params[256], json[1024];
    int64_t checked = 0, damaged = -1;
    mr_error err = MR_ERROR_INIT;
    snprintf(params, sizeof params, "{\"path\": \"%s\"}", store);
    CHECK_INT(mr_store_verify(params, NULL, &checked, &damaged, &err), ==, MR_OK);
    CHECK_INT(damaged, ==, 0);
    CHECK_INT(checked, >, 50);
    CHECK_INT(rig_folder_bytes(store), <=, LIMIT);
    for (int way = 0; way < WAYS; way++) {
        pipeline(json, sizeof json, way, true);
        rig_result result = rig_run_with(json, rig_ops, 1, NULL);
        CHECK_INT(result.status, ==, MR_END);
        CHECK_TEXT(result.digest, digests[way]);
        CHECK_INT(result.caches[0].waits, ==, 0); /* for a claim of the dead */
        CHECK_INT(result.log.lines, ==, 0);
    }
}

TEST(killed_at_any_moment) {
    char json[1024];
    const char *given = getenv("MR_SEED"), *many = getenv("MR_KILLS");
    int kills = many ? atoi(many) : KILLS;
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    snprintf(store, sizeof store, "%s", fixture_folder());
    for (int way = 0; way < WAYS; way++) {
        pipeline(json, sizeof json, way, false);
        snprintf(digests[way], sizeof digests[way], "%s", rig_run(json).digest);
    }
    printf("MR_SEED=%" PRIu64 "\n", seed);
    tally t = kill_loop(seed, kills);
    printf("%d killed, %d ended by themselves\n", t.killed, t.finished);
    CHECK_INT(t.bad, ==, 0);
    CHECK_INT(t.killed, >=, kills);
    CHECK_INT(t.finished, >, 0);
    check_what_is_left();
    fixture_remove(store);
}

TEST_MAIN()
