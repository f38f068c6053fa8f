/* SPDX-License-Identifier: Apache-2.0 */
/* A training on a stream whose rate changes all the time, in bounded memory. MR_SOAK_SECONDS says
 * for how long (./dev test soak: 20 minutes); by default a few seconds.
 *
 * The stream pauses, trickles, flows and floods; what is old is trimmed. The training rehearses,
 * fills steps up, spills, is told values and saves its state. Memory is looked at once everything
 * has happened, and at the end: it may not have grown, but for what malloc does. */
#include <millrace/stream.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "fixture.h"
#include "test.h"

enum { PARTITIONS = 2, VALUE = 2000, BATCH = 64, KEPT = 2000, WIDTH = 16 };

static char root[64], stream[80], spill[80], journal[80];
static atomic_bool ends;
static _Atomic int64_t written, position;

static int seconds_wanted(void) {
    const char *given = getenv("MR_SOAK_SECONDS");
    return given ? atoi(given) : 4;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t resident(void) {
    long long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK_INT(fscanf(file, "%lld %lld", &all, &pages), ==, 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* ---- The stream ---- */
/* Entries a turn of 10 ms: nothing, few, as many as steps take, and more than that. */
static int entries_of(int turn) {
    static const int rates[] = {0, 4, 60, 600, 30, 0, 1500, 100};
    return rates[turn / 30 % 8];
}

static void append(mr_stream_writer *writer, int64_t number) {
    char value[VALUE];
    size_t size = 200 + (size_t)((uint64_t)number * 2654435761u % (VALUE - 200));
    memset(value, (int)number, size);
    const mr_entry entry = {.label = number % 10, .time = number, .value = value, .size = size};
    CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
}

static void trim(void) {
    int64_t before = position / PARTITIONS - 20000;
    for (uint32_t k = 0; before > 0 && k < PARTITIONS; k++) {
        CHECK_INT(mr_stream_trim(stream, k, before, NULL, NULL), ==, MR_OK);
    }
}

/* The disk is finite: beyond 400,000 entries that nobody took the writer waits. */
static void *write_stream(void *unused) {
    mr_stream_writer *writers[PARTITIONS] = {NULL};
    for (uint32_t k = 0; k < PARTITIONS; k++) {
        mr_stream_options options = MR_STREAM_OPTIONS_INIT;
        options.partition = k;
        options.segment_bytes = 4 << 20;
        options.sync = MR_SYNC_NEVER;
        CHECK_INT(mr_stream_writer_open(&writers[k], stream, &options, NULL), ==, MR_OK);
    }
    for (int turn = 0; !ends; turn++) {
        for (int i = 0; i < entries_of(turn) && written < position + 400000; i++) {
            append(writers[written % PARTITIONS], written / PARTITIONS);
            written++;
        }
        for (int k = 0; k < PARTITIONS; k++) {
            CHECK_INT(mr_stream_flush(writers[k], NULL), ==, MR_OK);
        }
        if (turn % 100 == 0) {
            trim();
        }
        usleep(10000);
    }
    for (int k = 0; k < PARTITIONS; k++) {
        CHECK_INT(mr_stream_writer_close(writers[k], NULL), ==, MR_OK);
    }
    (void)unused;
    return NULL;
}

/* ---- The training ---- */
static mr_loader *open_training(mr_pipeline **pipeline) {
    char json[800];
    mr_options options = MR_OPTIONS_INIT;
    mr_error err = MR_ERROR_INIT;
    mr_loader *loader = NULL;
    options.threads = 2;
    options.read_ahead_bytes = 4 << 20;
    options.journal = journal;
    snprintf(
        json, sizeof json,
        "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true, \"partitions\": %d}}, "
        "\"rehearse\": {\"size\": %d, \"policy\": \"priority\"}, \"pace\": {\"late\": "
        "\"fill\", \"patience\": 0.01, \"early\": \"spill\", \"spill\": \"%s\", "
        "\"spill_bytes\": \"64MB\"}, \"batch\": %d, \"fields\": [\"value\", \"label\", "
        "\"extra\"]}",
        stream, PARTITIONS, KEPT, spill, BATCH);
    *pipeline = fixture_pipeline(json);
    CHECK_INT(mr_loader_open(&loader, *pipeline, &options, &err), ==, MR_OK);
    CHECK_TEXT(err.text, "");
    return loader;
}

static void say(mr_loader *loader, const mr_batch *batch) {
    static double values[BATCH];
    static float extra[BATCH * WIDTH];
    for (int i = 0; i < BATCH; i++) {
        values[i] = 1 + i;
    }
    const mr_feedback feedback = {.size = sizeof feedback,
                                  .n = mr_batch_size(batch),
                                  .samples = mr_batch_samples(batch),
                                  .values = values,
                                  .extra = extra,
                                  .width = WIDTH};
    CHECK_INT(mr_loader_feed_back(loader, &feedback, NULL), ==, MR_OK);
}

static void save(const mr_loader *loader) {
    size_t room = mr_loader_state_bytes(loader);
    char *text = malloc(room);
    CHECK_INT(mr_loader_save(loader, text, room, NULL), ==, MR_OK);
    free(text);
}

/* Every new sample once, in order. */
static int64_t check_batch(const mr_batch *batch, int64_t next) {
    const mr_array *v = mr_batch_array(batch, 0);
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        int64_t sample = mr_batch_samples(batch)[i];
        const char *value = (const char *)v->data + v->offsets[i];
        CHECK(sample <= next);
        CHECK_INT(value[0], ==, (char)(sample / PARTITIONS));
        next += sample == next;
    }
    return next;
}

typedef struct measures {
    int64_t steps, early, late, most_spilled; /* resident bytes after the first rounds and since */
    mr_stream_stats stats;
} measures;

static void look(measures *m, const mr_loader *loader, double part) {
    int64_t bytes = resident();
    m->stats.size = sizeof m->stats;
    CHECK_INT(mr_loader_stream(loader, &m->stats), ==, MR_OK);
    m->most_spilled =
        m->stats.spill_bytes > m->most_spilled ? m->stats.spill_bytes : m->most_spilled;
    if (part < 0.5) {
        m->early = bytes > m->early ? bytes : m->early;
    } else {
        m->late = bytes > m->late ? bytes : m->late;
    }
}

static void train(measures *m, double seconds) {
    mr_pipeline *pipeline;
    mr_loader *loader = open_training(&pipeline);
    int64_t next = 0;
    double begun = now();
    for (double part = 0; part < 1; m->steps++) {
        mr_batch *batch = NULL;
        mr_error err = MR_ERROR_INIT;
        CHECK_INT(mr_loader_next(loader, &batch, &err), ==, MR_OK);
        CHECK_TEXT(err.text, "");
        next = check_batch(batch, next);
        say(loader, batch);
        mr_batch_unref(batch);
        position = next;
        if (m->steps % 50 == 0) {
            save(loader);
            part = (now() - begun) / seconds;
            look(m, loader, part);
        }
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
}

TEST(a_training_at_changing_rates_stays_within_its_memory) {
    measures m = {.steps = 0};
    pthread_t writer;
    snprintf(root, sizeof root, "%s", fixture_folder());
    snprintf(stream, sizeof stream, "%s/stream", root);
    snprintf(spill, sizeof spill, "%s/spill", root);
    snprintf(journal, sizeof journal, "%s/journal", root);
    pthread_create(&writer, NULL, write_stream, NULL);
    while (written == 0) {
        usleep(1000);
    }
    train(&m, seconds_wanted());
    ends = true;
    pthread_join(writer, NULL);
    printf("%lld steps, %lld entries, %lld shown again, %lld spilled (%.0f MB at most), %lld steps "
           "filled up; %.0f MB resident in the first half, %.0f MB in the second\n",
           (long long)m.steps, (long long)m.stats.entries, (long long)m.stats.replayed,
           (long long)m.stats.spilled, (double)m.most_spilled / 1e6, (long long)m.stats.filled,
           (double)m.early / 1e6, (double)m.late / 1e6);
    CHECK_INT(m.stats.missing, ==, 0);
    CHECK_INT(m.most_spilled, <=, 64000000);
    if (seconds_wanted() >= 60) { /* a few seconds do not show all rates in each half */
        CHECK_INT(m.late, <, m.early + m.early / 4 + (16 << 20));
    }
    fixture_remove(root);
}

TEST_MAIN()
