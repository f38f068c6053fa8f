/* SPDX-License-Identifier: Apache-2.0 */
/* A training on a growing stream that is killed at random moments and goes on from its last state:
 * four ranks with rehearsal, whose batches are those of a run that nobody killed; also where they
 * read for each other over a server. MR_KILLS says how often (./dev test soak: 300). */
#include <millrace/stream.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "fixture.h"
#include "redis_rig.h"
#include "test.h"

enum { RANKS = 4, PARTITIONS = 4, EACH = 4000, BATCH = 64, STEPS = EACH * PARTITIONS / BATCH * 2 };

static char folder[64], stream[80], state_file[80], log_file[80];

static const char *fabric; /* NULL: each rank reads all */

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

/* Ranks that read for each other wait for each other. */
typedef struct opening {
    const mr_pipeline *pipeline;
    mr_options options;
    mr_loader **out;
    mr_status status;
    pthread_t thread;
} opening;

static void *open_rank(void *context) {
    opening *o = context;
    mr_error err = MR_ERROR_INIT;
    o->status = mr_loader_open(o->out, o->pipeline, &o->options, &err);
    if (o->status != MR_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    return NULL;
}

static bool open_ranks(training *t, const char *state, size_t size) {
    opening openings[RANKS];
    bool all = true;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        opening *o = &openings[rank];
        *o = (opening){.pipeline = t->pipeline, .options = MR_OPTIONS_INIT, .out = &t->ranks[rank]};
        o->options.threads = 1;
        o->options.world = RANKS;
        o->options.rank = rank;
        o->options.digest = true;
        o->options.fabric = fabric;
        o->options.state = state;
        o->options.state_size = size;
        pthread_create(&o->thread, NULL, open_rank, o);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        pthread_join(openings[rank].thread, NULL);
        all = all && openings[rank].status == MR_OK;
    }
    return all;
}

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
    if (!open_ranks(t, state, size)) {
        return false;
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

/* Kills a training on a growing stream now and then; in the end it delivered what one does that
 * reads the whole stream alone and is left in peace. */
static void check_killed(int kills, const char *over) {
    size_t killed_size = 0, quiet_size = 0;
    make_names();
    fabric = over;
    pid_t writer = start_writer();
    kill_trainings(kills);
    char *killed = log_of_training(&killed_size);
    CHECK(ended_well(writer));
    remove(state_file);
    fabric = NULL;
    char *quiet = log_of_training(&quiet_size);
    CHECK_INT(killed_size, ==, quiet_size);
    CHECK_INT(quiet_size, ==, STEPS * RANKS * 33);
    CHECK(killed_size == quiet_size && memcmp(killed, quiet, quiet_size) == 0);
    mr_free(killed);
    mr_free(quiet);
    fixture_remove(folder);
}

TEST(a_training_that_is_killed_delivers_what_one_that_is_not_does) {
    check_killed(n_kills(), NULL);
}

TEST(also_where_ranks_read_for_each_other) {
    char url[64];
    if (!redis_can_run()) {
        return;
    }
    redis_server server = redis_begin("--maxmemory", "100mb");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    check_killed(n_kills(), url);
    redis_end(&server);
}

TEST_MAIN()
