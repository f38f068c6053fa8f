/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and rehearsal: appending and reading entries of 4 KB, inserting into and drawing from a
 * buffer of a million samples, restoring it, and saving states of buffers, each after a step of 64
 * new samples. In CPU time: best of several rounds, or of one.
 *
 *     bench_stream [FOLDER]    a new folder, on the disk to be measured; by default in /dev/shm */
#include <millrace/stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plan/rehearsal.h"
#include "plan/state.h"

enum { VALUE = 4096, ENTRIES = 50000, IDS = 1000000, ROUNDS = 5 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double append_all(const char *folder, uint32_t partition) {
    static unsigned char value[VALUE];
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    options.partition = partition;
    options.sync = MR_SYNC_NEVER;
    double start = now();
    if (mr_stream_writer_open(&writer, folder, &options, NULL) < 0) {
        exit(1);
    }
    for (int i = 0; i < ENTRIES; i++) {
        const mr_entry entry = {.label = i, .value = value, .size = sizeof value};
        if (mr_stream_append(writer, &entry, NULL, NULL) < 0) {
            exit(1);
        }
    }
    if (mr_stream_writer_close(writer, NULL) < 0) {
        exit(1);
    }
    return now() - start;
}

static double read_all(const char *folder, uint32_t partition) {
    mr_stream_reader *reader = NULL;
    mr_entry entry;
    int n = 0;
    double start = now();
    if (mr_stream_reader_open(&reader, folder, partition, 0, NULL) < 0) {
        exit(1);
    }
    while (mr_stream_next(reader, &entry, NULL) == MR_OK) {
        n++;
    }
    mr_stream_reader_close(reader);
    return n == ENTRIES ? now() - start : 1e9;
}

static void bench_stream(const char *folder) {
    double append = 1e9, read = 1e9;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        double a = append_all(folder, i), r = read_all(folder, i);
        append = a < append ? a : append;
        read = r < read ? r : read;
    }
    double megabytes = (double)ENTRIES * VALUE / 1e6;
    printf("append %.0f MB/s, read %.0f MB/s, entries of 4 KB\n", megabytes / append,
           megabytes / read);
}

static double restore(const mr_rehearsal *buffer) {
    unsigned char *bytes = NULL;
    size_t size = 0;
    mr_rehearsal *back = NULL;
    if (mr_rehearsal_save(buffer, &bytes, &size, NULL) < 0) {
        exit(1);
    }
    double start = now();
    if (mr_rehearsal_restore(&back, bytes, size, NULL) < 0) {
        exit(1);
    }
    double seconds = now() - start;
    mr_rehearsal_free(back);
    free(bytes);
    return seconds;
}

/* Offers of 1,000 a step, as many again as the buffer holds. */
static void bench_policy(mr_rehearsal_policy policy, const char *name) {
    const mr_rehearsal_options options = {
        .policy = policy, .size = IDS, .lag = 1, .classes = 100, .rate = 0.1, .seed = 1};
    mr_rehearsal *buffer = NULL;
    mr_representative drawn = {0};
    uint64_t sum = 0;
    if (mr_rehearsal_new(&buffer, &options, NULL) < 0) {
        exit(1);
    }
    double start = now();
    for (uint64_t id = 0; id < 2 * IDS; id++) {
        const mr_offer offer = {(int64_t)id / 1000, id, (int64_t)(id * 7919 % 100),
                                (double)(id % 1000)};
        if (mr_rehearsal_offer(buffer, &offer, NULL) < 0 ||
            (id % 1000 == 999 && mr_rehearsal_advance(buffer, offer.step + 1, NULL) < 0)) {
            exit(1);
        }
    }
    double inserted = now();
    for (uint32_t i = 0; i < IDS; i++) {
        (void)mr_rehearsal_draw(buffer, i / 64, i % 64, &drawn);
        sum += drawn.id;
    }
    double done = now();
    printf("%-15s insert %3.0f ns, draw %3.0f ns, restore %.2f s (%lld kept, sum %llu)\n", name,
           (inserted - start) / (2 * IDS) * 1e9, (done - inserted) / IDS * 1e9, restore(buffer),
           (long long)mr_rehearsal_count(buffer), (unsigned long long)sum);
    mr_rehearsal_free(buffer);
}

static void insert_step(mr_rehearsal *buffer, int64_t step, uint64_t *id) {
    enum { NEWS = 64 };
    for (int i = 0; i < NEWS; i++, (*id)++) {
        const mr_offer offer = {step, *id, (int64_t)(*id % 10), 1};
        if (mr_rehearsal_offer(buffer, &offer, NULL) < 0) {
            exit(1);
        }
    }
    if (mr_rehearsal_advance(buffer, step + 1, NULL) < 0) {
        exit(1);
    }
}

/* To memory that was used before, as a trainer's would be. */
static double save(mr_rehearsal *buffer, char *text, size_t room) {
    const mr_state state = {.pipeline = "0123456789abcdef0123456789abcdef",
                            .dataset = "00000000000000000000000000000000",
                            .samples = 1,
                            .is_stream = true,
                            .buffer = buffer};
    double start = now();
    if (mr_state_write(&state, text, room, NULL) < 0) {
        exit(1);
    }
    return now() - start;
}

static void bench_save(int64_t size) {
    const mr_rehearsal_options options = {.size = size, .lag = 1, .classes = 1, .seed = 1};
    mr_rehearsal *buffer = NULL;
    uint64_t id = 0;
    int64_t step = 0;
    double best = 1e9;
    if (mr_rehearsal_new(&buffer, &options, NULL) < 0 || mr_rehearsal_mirror(buffer, NULL) < 0) {
        exit(1);
    }
    double start = now();
    while (id < 2 * (uint64_t)size) {
        insert_step(buffer, step++, &id);
    }
    double each = (now() - start) / (double)id;
    size_t room = MR_STATE_MAX + 2 * mr_rehearsal_bytes(buffer);
    char *text = malloc(room);
    for (int i = 0; text && i < 4 * ROUNDS; i++) {
        insert_step(buffer, step++, &id);
        double seconds = save(buffer, text, room);
        best = seconds < best ? seconds : best;
    }
    printf("a state with %lld samples: saved in %.3f ms; insert %.0f ns\n", (long long)size,
           best * 1e3, each * 1e9);
    free(text);
    mr_rehearsal_free(buffer);
}

int main(int argc, char **argv) {
    char made[] = "/dev/shm/millrace-bench-XXXXXX", command[64];
    if (argc > 1) {
        bench_stream(argv[1]);
    } else if (mkdtemp(made)) {
        bench_stream(made);
        snprintf(command, sizeof command, "rm -r %s", made);
        if (system(command) != 0) {
            return 1;
        }
    }
    static const char *const names[] = {"reservoir",  "class_balanced", "cbrs",    "gdumb",
                                        "fixed_rate", "recent",         "priority"};
    for (int i = 0; i < MR_REHEARSE_CUSTOM; i++) {
        bench_policy((mr_rehearsal_policy)i, names[i]);
    }
    bench_save(20000);
    bench_save(200000);
    return 0;
}
