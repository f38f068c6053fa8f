/* SPDX-License-Identifier: Apache-2.0 */
/* The source `segments`: the law over a stream in a folder, and what is damaged in it. */
#include <fcntl.h>
#include <millrace/stream.h>

#include "fixture.h"
#include "io/partition.h"
#include "test.h"

enum { MOST = 40000 };

typedef struct course {
    int n, batch_end[MOST], n_batches, wrong;
    uint64_t sums[MOST];
    char state[MR_STATE_MAX];
    int64_t skipped;
    mr_error err;
} course;

static char folder[64];
static int64_t n_samples;

static size_t size_of(int64_t number) {
    return (size_t)((uint64_t)number * 2654435761u % 3000);
}

static void value_of(int64_t number, uint32_t partition, unsigned char *out) {
    for (size_t i = 0; i < size_of(number); i++) {
        out[i] = (unsigned char)((uint64_t)number + i * 7 + partition);
    }
}

static void write_partition(uint32_t partition, int64_t n, int64_t segment_bytes) {
    static unsigned char value[3000];
    mr_stream_options options = MR_STREAM_OPTIONS_INIT;
    mr_stream_writer *writer = NULL;
    options.partition = partition;
    options.segment_bytes = segment_bytes;
    options.id = 99;
    CHECK_INT(mr_stream_writer_open(&writer, folder, &options, NULL), ==, MR_OK);
    for (int64_t i = 0; i < n; i++) {
        char key[16];
        int length = snprintf(key, sizeof key, "k%" PRId64, i);
        value_of(i, partition, value);
        const mr_entry entry = {.label = i % 5,
                                .time = (int64_t)partition,
                                .key = key,
                                .key_size = (size_t)length,
                                .value = value,
                                .size = size_of(i)};
        CHECK_INT(mr_stream_append(writer, &entry, NULL, NULL), ==, MR_OK);
    }
    CHECK_INT(mr_stream_writer_close(writer, NULL), ==, MR_OK);
    n_samples += n;
}

static bool is_right(const mr_batch *batch, int64_t i, uint64_t *sum) {
    static unsigned char expected[3000];
    const mr_array *v = mr_batch_array(batch, 0), *l = mr_batch_array(batch, 1),
                   *k = mr_batch_array(batch, 2), *t = mr_batch_array(batch, 3),
                   *x = mr_batch_array(batch, 4);
    int64_t from = v->offsets[i], size = v->offsets[i + 1] - from;
    int64_t key_from = k->offsets[i], key_size = k->offsets[i + 1] - key_from;
    int64_t partition = ((const int64_t *)t->data)[i];
    char key[24] = "";
    memcpy(key, (const char *)k->data + key_from, (size_t)(key_size < 20 ? key_size : 20));
    int64_t number = strtoll(key + 1, NULL, 10);
    value_of(number, (uint32_t)partition, expected);
    *sum = (uint64_t)number * 31 + (uint64_t)partition;
    return key[0] == 'k' && size == (int64_t)size_of(number) &&
           memcmp((const char *)v->data + from, expected, (size_t)size) == 0 &&
           ((const int64_t *)l->data)[i] == number % 5 && ((const int64_t *)x->data)[i] >= 0;
}

static void run(course *out, const char *settings, uint32_t threads, const char *state, int steps) {
    char json[512];
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    memset(out, 0, sizeof *out);
    out->err = (mr_error)MR_ERROR_INIT;
    options.threads = threads;
    options.state = state;
    options.state_size = state ? strlen(state) : 0;
    snprintf(json, sizeof json,
             "{\"source\": {\"segments\": {\"path\": \"%s\"}}, \"batch\": 64, \"seed\": 3, "
             "\"fields\": [\"value\", \"label\", \"key\", \"time\", \"index\"], %s}",
             folder, settings);
    mr_pipeline *pipeline = fixture_pipeline(json);
    if (mr_loader_open(&loader, pipeline, &options, &out->err) == MR_OK) {
        while (steps-- != 0 && mr_loader_next(loader, &batch, &out->err) == MR_OK) {
            for (int64_t i = 0; i < mr_batch_size(batch) && out->n < MOST; i++) {
                out->wrong += !is_right(batch, i, &out->sums[out->n++]);
            }
            out->batch_end[out->n_batches++] = out->n;
            mr_batch_unref(batch);
        }
        mr_stats stats = {.size = sizeof stats};
        mr_loader_stats(loader, &stats);
        out->skipped = stats.skipped;
        CHECK_INT(mr_loader_save(loader, out->state, sizeof out->state, NULL), ==, MR_OK);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    CHECK_INT(out->wrong, ==, 0);
}

static course whole, part, other;
static const char *const orders[] = {
    "\"shuffle\": false", "\"shuffle\": {\"window\": 3, \"lanes\": 1}", "\"shuffle\": true"};

TEST(make_the_stream) {
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    write_partition(0, 7000, 9 << 20);
    write_partition(3, 2000, 100000);
    write_partition(1, 1, 0);
}

TEST(every_entry_once_whatever_the_threads) {
    for (int o = 0; o < 3; o++) {
        run(&whole, orders[o], 1, NULL, -1);
        CHECK_TEXT(whole.err.text, "");
        CHECK_INT(whole.n, ==, n_samples);
        static unsigned char seen[7000 * 31 + 100];
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < whole.n; i++) {
            CHECK_INT(seen[whole.sums[i]]++, ==, 0);
        }
        run(&other, orders[o], 3, NULL, -1);
        CHECK(memcmp(whole.sums, other.sums, sizeof whole.sums) == 0);
    }
}

TEST(in_order_without_shuffle) {
    run(&whole, orders[0], 2, NULL, -1);
    for (int i = 0; i < 7000; i++) {
        CHECK_INT(whole.sums[i], ==, i * 31);
    }
    CHECK_INT(whole.sums[7000], ==, 1);
    CHECK_INT(whole.sums[7001], ==, 3);
}

TEST(a_run_goes_on_at_any_step) {
    for (int o = 0; o < 3; o++) {
        run(&whole, orders[o], 2, NULL, -1);
        for (int steps = 1; steps < whole.n_batches; steps += 29) {
            run(&part, orders[o], 2, NULL, steps);
            run(&other, orders[o], 1, part.state, -1);
            int taken = whole.batch_end[steps - 1];
            CHECK_INT(part.n + other.n, ==, whole.n);
            CHECK(memcmp(other.sums, whole.sums + taken, (size_t)other.n * 8) == 0);
        }
    }
}

TEST(what_is_appended_later_is_another_dataset) {
    run(&part, orders[0], 1, NULL, 3);
    write_partition(2, 10, 0);
    run(&other, orders[0], 1, part.state, -1);
    CHECK_INT(other.err.code, ==, MR_E_STATE);
    run(&other, orders[0], 1, NULL, -1);
    CHECK_INT(other.n, ==, n_samples);
}

TEST(damaged_entries_are_bad_samples) {
    char path[160];
    snprintf(path, sizeof path, "%s/00000-0000000000000000000.seg", folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_INT(pwrite(fd, "damage", 6, 3 << 20), ==, 6);
    run(&other, orders[0], 1, NULL, -1);
    CHECK_INT(other.err.code, ==, MR_E_CORRUPT);
    CHECK_HAS(other.err.source, "partition 0, entry ");
    char settings[160];
    snprintf(settings, sizeof settings, "%s, \"on_error\": \"skip\"", orders[2]);
    run(&whole, settings, 1, NULL, -1);
    CHECK_INT(whole.skipped, ==, 1);
    CHECK_INT(whole.n, ==, n_samples);
    run(&other, settings, 3, NULL, -1);
    CHECK(memcmp(whole.sums, other.sums, sizeof whole.sums) == 0);
    CHECK_INT(ftruncate(fd, 5 << 20), ==, 0); /* what follows is told by the next segment */
    run(&other, orders[1], 1, NULL, 1);
    close(fd);
}

TEST(remove_the_stream) {
    fixture_remove(folder);
}

TEST_MAIN()
