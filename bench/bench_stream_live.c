/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on a stream: what a sample costs with and without rehearsal, in CPU time of all threads, and
 * how many steps come while a stream stands still.
 *
 *     bench_stream_live [SECONDS]    that the stream stops; 10 unless told */
#include <millrace/millrace.h>
#include <millrace/stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VALUE = 4096, ENTRIES = 40000, BATCH = 256, ROUNDS = 5 };

static char folder[] = "/dev/shm/millrace-bench-XXXXXX", stream[64], journal[64];

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(mr_status status, const mr_error *err) {
    if (status < 0) {
        fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

static void append(int n) {
    static unsigned char value[VALUE];
    mr_stream_writer *writer = NULL;
    mr_error err = MR_ERROR_INIT;
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    options.sync = MR_SYNC_NEVER;
    must(mr_stream_writer_open(&writer, stream, &options, &err), &err);
    for (int i = 0; i < n; i++) {
        const mr_entry entry = {.label = i % 10, .value = value, .size = sizeof value};
        must(mr_stream_append(writer, &entry, NULL, &err), &err);
    }
    must(mr_stream_writer_close(writer, &err), &err);
}

static mr_loader *open_loader(mr_pipeline **pipeline, const char *source, const char *rest,
                              const char *journal_folder) {
    char json[512];
    mr_error err = MR_ERROR_INIT;
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    options.journal = journal_folder;
    snprintf(json, sizeof json,
             "{\"source\": {\"segments\": {\"path\": \"%s\", \"follow\": true%s}}, \"batch\": "
             "%d%s}",
             stream, source, BATCH, rest);
    must(mr_pipeline_parse(pipeline, json, strlen(json), NULL, &err), &err);
    must(mr_loader_open(&loader, *pipeline, &options, &err), &err);
    return loader;
}

/* ---- What a sample costs ---- */
static double cost(const char *rest, double *rate) {
    char source[40];
    mr_pipeline *pipeline = NULL;
    mr_batch *batch = NULL;
    int64_t samples = 0;
    snprintf(source, sizeof source, ", \"until\": %d", ENTRIES);
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID), wall = seconds_of(CLOCK_MONOTONIC);
    mr_loader *loader = open_loader(&pipeline, source, rest, NULL);
    while (mr_loader_next(loader, &batch, NULL) == MR_OK) {
        samples += mr_batch_size(batch);
        mr_batch_unref(batch);
    }
    cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = seconds_of(CLOCK_MONOTONIC) - wall;
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    *rate = (double)samples / wall > *rate ? (double)samples / wall : *rate;
    return cpu / (double)samples;
}

static void bench_rehearsal(void) {
    double without = 1, with = 1, rate_without = 0, rate_with = 0;
    append(ENTRIES);
    for (int i = 0; i < ROUNDS; i++) {
        double a = cost("", &rate_without);
        double b = cost(", \"rehearse\": {\"size\": 10000, \"share\": 0.5}", &rate_with);
        without = a < without ? a : without;
        with = b < with ? b : with;
    }
    printf("without rehearsal %.2f us a sample (%.0f a second), r = b %.2f us (%.0f): %.2f x, "
           "samples of 4 KB\n",
           without * 1e6, rate_without, with * 1e6, rate_with, with / without);
}

/* ---- While the stream stands still ---- */
/* Steps that were asked for, one after the other with 50 ms of work between them, and those that
 * came within a second. */
typedef struct answers {
    int64_t asked, came;
} answers;

static void use_up(mr_loader *loader, bool fills) {
    mr_batch *batch = NULL;
    int64_t news = 0;
    while (news < ENTRIES && mr_loader_next_within(loader, 1000000000, &batch, NULL) == MR_OK) {
        news += fills ? BATCH / 2 : 0; /* filled steps have fewer: the stream ends sooner */
        mr_batch_unref(batch);
    }
}

static answers steps_while_still(const char *rest, const char *journal_folder, double seconds) {
    mr_pipeline *pipeline = NULL;
    mr_batch *batch = NULL;
    answers n = {0, 0};
    mr_loader *loader = open_loader(&pipeline, "", rest, journal_folder);
    use_up(loader, journal_folder != NULL);
    for (double end = seconds_of(CLOCK_MONOTONIC) + seconds; seconds_of(CLOCK_MONOTONIC) < end;) {
        n.asked++;
        if (mr_loader_next_within(loader, 1000000000, &batch, NULL) == MR_OK) {
            n.came++;
            mr_batch_unref(batch);
            usleep(50000);
        }
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return n;
}

static void bench_pause(double seconds) {
    static const char rehearse[] = ", \"rehearse\": {\"size\": 10000, \"share\": 0.5}";
    char fills[200];
    snprintf(fills, sizeof fills, "%s, \"pace\": {\"late\": \"fill\", \"patience\": 0.01}",
             rehearse);
    answers waits = steps_while_still(rehearse, NULL, seconds);
    answers filled = steps_while_still(fills, journal, seconds);
    printf("stream still for %.0f s: wait %lld of %lld steps asked for, fill %lld of %lld\n",
           seconds, (long long)waits.came, (long long)waits.asked, (long long)filled.came,
           (long long)filled.asked);
}

int main(int argc, char **argv) {
    char command[64];
    if (!mkdtemp(folder)) {
        return 1;
    }
    snprintf(stream, sizeof stream, "%s/stream", folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    bench_rehearsal();
    bench_pause(argc > 1 ? atof(argv[1]) : 10);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0;
}
