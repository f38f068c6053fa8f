/* SPDX-License-Identifier: Apache-2.0 */
/* A training on a growing stream that is killed at random moments and goes on from its last state:
 * four ranks with rehearsal, whose batches are those of a run that nobody killed. MR_KILLS says how
 * often (./dev test soak: 300). */
#include <millrace/stream.h>
#include <signal.h>
#include <sys/wait.h>

#include "fixture.h"
#include "test.h"

enum { RANKS = 4, PARTITIONS = 4, EACH = 4000, BATCH = 64, STEPS = EACH * PARTITIONS / BATCH * 2 };

static char folder[64], stream[80], state_file[80], log_file[80];

static void make_names(void) {
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    snprintf(stream, sizeof stream, "%s/stream", folder);
    snprintf(state_file, sizeof state_file, "%s/state", folder);
    snprintf(log_file, sizeof log_file, "%s/log", folder);
}

static int n_kills(void) {
    const char *given = getenv("MR_KILLS");
    return given ? atoi(given) : 12;
}

/* ---- The stream, and who writes it ---- */
static void write_stream(int pause_us) {
    mr_stream_writer *writers[PARTITIONS] = {NULL};
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        mr_stream_options options = MR_STREAM_OPTIONS_INIT;
        options.partition = p;
        options.id = 5;
        options.segment_bytes = 50000;
        if (mr_stream_writer_open(&writers[p], stream, &options, NULL) != MR_OK) {
            _exit(1);
        }
    }
    for (int64_t i = 0; i < (int64_t)EACH * PARTITIONS; i++) {
        char value[64];
        int size = snprintf(value, sizeof value, "entry %lld", (long long)i);
        const mr_entry entry = {.label = i % 10, .value = value, .size = (size_t)size};
        mr_stream_writer *writer = writers[i % PARTITIONS];
        if (mr_stream_append(writer, &entry, NULL, NULL) != MR_OK ||
            mr_stream_flush(writer, NULL) != MR_OK) {
            _exit(1);
        }
        if (pause_us && i % 64 == 0) {
            usleep((useconds_t)pause_us);
        }
    }
    for (int p = 0; p < PARTITIONS; p++) {
        mr_stream_writer_close(writers[p], NULL);
    }
}

/* ---- The training ---- */
typedef struct training {
    mr_pipeline *pipeline;
    mr_loader *ranks[RANKS];
    FILE *log;
} training;

/* Opens all ranks at the last state, and leaves in the log what had happened by then. */
static bool begin(training *t) {
    char json[400], *state = NULL;
    size_t size = 0;
    long long step = 0;
    snprintf(json, sizeof json,
             "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"partitions\": %d, "
             "\"until\": %d}}, \"rehearse\": {\"size\": 500, \"policy\": \"class_balanced\"}, "
             "\"batch\": %d}",
             stream, PARTITIONS, EACH, BATCH);
    t->pipeline = fixture_pipeline(json);
    if (mr_file_load(state_file, 1 << 24, &state, &size, NULL) == MR_OK) {
        sscanf(strstr(state, "\"step\": "), "\"step\": %lld", &step);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        mr_options options = MR_OPTIONS_INIT;
        options.threads = 1;
        options.world = RANKS;
        options.rank = rank;
        options.digest = true;
        options.state = state;
        options.state_size = size;
        mr_error err = MR_ERROR_INIT;
        if (mr_loader_open(&t->ranks[rank], t->pipeline, &options, &err) != MR_OK) {
            fprintf(stderr, "%s\n", err.text);
            return false;
        }
    }
    mr_free(state);
    t->log = fopen(log_file, step ? "r+" : "w");
    return t->log && ftruncate(fileno(t->log), (off_t)(step * RANKS * 33)) == 0 &&
           fseek(t->log, 0, SEEK_END) == 0;
}

/* A step of all ranks; 1: there are no more; -1: it failed. */
static int step(training *t) {
    for (int rank = 0; rank < RANKS; rank++) {
        mr_batch *batch = NULL;
        mr_error err = MR_ERROR_INIT;
        mr_status status = mr_loader_next(t->ranks[rank], &batch, &err);
        if (status != MR_OK) {
            return status == MR_END ? 1 : -1;
        }
        fprintf(t->log, "%s\n", mr_batch_digest(batch));
        mr_batch_unref(batch);
    }
    return 0;
}

static bool save(training *t) {
    size_t room = mr_loader_state_bytes(t->ranks[0]);
    char *text = malloc(room);
    bool saved = text && fflush(t->log) == 0 &&
                 mr_loader_save(t->ranks[0], text, room, NULL) == MR_OK &&
                 mr_file_replace(state_file, text, strlen(text), NULL) == MR_OK;
    free(text);
    return saved;
}

static int train(void) {
    training t = {.log = NULL};
    int status = begin(&t) ? 0 : -1;
    for (int i = 0; status == 0; i++) {
        status = step(&t);
        if (status == 0 && i % 3 == 0 && !save(&t)) {
            status = -1;
        }
    }
    for (int rank = 0; rank < RANKS; rank++) {
        mr_loader_close(t.ranks[rank]);
    }
    mr_pipeline_free(t.pipeline);
    return (t.log && fclose(t.log) == 0 && status == 1) ? 0 : 1;
}

/* ---- The test ---- */
static pid_t start(int (*work)(void)) {
    pid_t child = fork();
    if (child == 0) {
        _exit(work());
    }
    return child;
}

static int write_slowly(void) {
    write_stream(2000);
    return 0;
}

static bool ended_well(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Begins the stream and lets it grow. */
static pid_t start_writer(void) {
    char mark[100];
    mkdir(stream, 0777);
    pid_t writer = start(write_slowly);
    snprintf(mark, sizeof mark, "%s/stream", stream);
    while (access(mark, F_OK) != 0) {
        usleep(1000);
    }
    return writer;
}

static void kill_trainings(int n) {
    unsigned luck = 12345;
    for (int i = 0; i < n; i++) {
        pid_t child = start(train);
        luck = luck * 1103515245u + 12345u;
        usleep(5000 + luck / 65536 % 60000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

static char *log_of_training(size_t *size) {
    char *text = NULL;
    CHECK(ended_well(start(train)));
    CHECK_INT(mr_file_load(log_file, 1 << 24, &text, size, NULL), ==, MR_OK);
    return text;
}

TEST(a_training_that_is_killed_delivers_what_one_that_is_not_does) {
    size_t killed_size = 0, quiet_size = 0;
    make_names();
    pid_t writer = start_writer();
    kill_trainings(n_kills());
    char *killed = log_of_training(&killed_size);
    CHECK(ended_well(writer));
    remove(state_file);
    char *quiet = log_of_training(&quiet_size);
    CHECK_INT(killed_size, ==, quiet_size);
    CHECK_INT(quiet_size, ==, STEPS * RANKS * 33);
    CHECK(killed_size == quiet_size && memcmp(killed, quiet, quiet_size) == 0);
    mr_free(killed);
    mr_free(quiet);
    fixture_remove(folder);
}

TEST_MAIN()
